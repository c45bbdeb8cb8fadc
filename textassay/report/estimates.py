"""The page's calibration curves, corrected means, comparisons, tests against raters, and stress.

Every number is the same as from `textassay estimate`, `compare` and `alt-test` by default. If a
figure cannot be computed from these data, the section gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from textassay.agreement.joined import People
from textassay.agreement.records import check_one_judge, read_scores
from textassay.estimation.alt_test import AnnotatorTest, annotator_test
from textassay.estimation.calibration import AspectCalibration, Calibration
from textassay.estimation.calibration import load as load_calibration
from textassay.estimation.columns import (
    Columns,
    Judged,
    join_columns,
    read_judged,
    scales_of,
)
from textassay.estimation.compare import compare_systems
from textassay.estimation.compare_rows import CompareRow
from textassay.estimation.compared_agreement import AgreementDifference
from textassay.estimation.estimate import EstimateRow, estimate_means
from textassay.estimation.means import SystemDifference
from textassay.estimation.run_comparison import RunSide, compare_sides
from textassay.estimation.stress_table import verdict_table
from textassay.report import svg
from textassay.report.source import DataSource, RunSource, without_folders
from textassay.runtime.errors import RunFolderError, TextassayError
from textassay.table import Column, Note, Table, stack_tables, table_of

STAND_IN = "Alternative annotator test"


@dataclass(frozen=True, slots=True)
class Curve:
    """The calibration of one aspect."""

    learned: AspectCalibration
    picture: Markup
    """The map with its intervals, over the rated texts."""
    width: float | None
    """Mean width of the intervals of this run's scores; `None` without intervals."""
    outside: float
    """Share of this run's scores outside the calibrated range."""


@dataclass
class EstimateSections:
    """The sections; those without data are empty."""

    curves: list[Curve] = field(default_factory=list)
    """Calibration of each aspect of the first run, if a calibration is given."""
    means: list[Table] = field(default_factory=list)
    """Means by system, and their differences, by run."""
    differences: list[Table] = field(default_factory=list)
    """Differences of systems by the judges' scores alone, of aspects without ratings."""
    compared: list[Table] = field(default_factory=list)
    """Two runs, and the difference of their agreement with people."""
    stand_ins: list[Table] = field(default_factory=list)
    """The alternative annotator test, by run."""
    stress: list[Table] = field(default_factory=list)
    """Verdicts of stress runs."""
    reasons: list[str] = field(default_factory=list)
    """Reasons why figures could not be computed."""
    of_systems: list[tuple[str, SystemDifference]] = field(default_factory=list)
    """The estimates behind `means` and `differences`, by letter of the run."""
    assumes: dict[str, str] = field(default_factory=dict)
    """Assumptions of the differences of an aspect's systems, by aspect."""
    of_runs: list[CompareRow] = field(default_factory=list)
    """The rows of `compared`."""
    of_agreement: list[AgreementDifference] = field(default_factory=list)
    """The difference of the runs' agreement with people, by aspect and coefficient."""
    of_raters: list[tuple[str, AnnotatorTest]] = field(default_factory=list)
    """The tests behind `stand_ins`, by letter of the run."""


def estimate_sections(
    runs: Sequence[RunSource],
    data: Sequence[DataSource],
    pairs: Sequence[Mapping[str, str]],
    calibration: str | Path | None,
) -> EstimateSections:
    """Return the sections, with reasons for figures that could not be computed."""
    section = EstimateSections(stress=_stress(runs))
    several = len(runs) > 1
    # a growing run may have no score yet, which the file's reader refuses; a file of a million
    # scores is read only for a section that shows it of more systems there are too many pairs for a
    # page that follows a run
    compares_systems = [1 < len(source.systems) <= 8 for source in data]
    shows_scores = several or any(pairs) or any(compares_systems)
    is_read = shows_scores and all(len(run.table) for run in runs)
    judged = [read_judged(run.folder) for run in runs] if is_read else []
    people_of = [source.people if source.examples and is_read else None for source in data]
    estimates: list[list[Table]] = []
    tests: list[list[Table]] = []
    rated_in_first: list[Columns] = []
    for at, (scores, people) in enumerate(zip(judged, people_of[: len(judged)], strict=True)):
        if not people:
            continue
        # labels without an order have no mean to estimate
        names = {name: human for name, human in pairs[at].items() if name in scores}
        tables = (
            join_columns({name: scores[name] for name in names}, people, names) if names else []
        )
        if not at:
            rated_in_first = tables
        run = _OneRun(section, runs[at], "AB"[at], several)
        estimates.append(stack_tables(run.each(tables, "Estimate", run.estimate)))
        rated = [columns for columns in tables if columns.raters.shape[1]]
        tests.append(stack_tables(run.each(rated, STAND_IN, run.test_against_raters)))
        if compares_systems[at]:
            unrated = {name: human for name, human in scores.items() if name not in names}
            section.differences += run.compare_scores(unrated, people, data[at].systems)
    if calibration is not None:
        section.curves = _curves(runs[0], rated_in_first, load_calibration(calibration))
    section.means.extend(_of_runs(estimates))
    section.stand_ins.extend(_of_runs(tests))
    section.differences = _of_runs([[table] for table in section.differences])
    if several and is_read:
        _compare(runs, judged, people_of, section)
    section.reasons = list(map(without_folders, section.reasons))
    return section


@dataclass(frozen=True, slots=True)
class _OneRun:
    """Estimates from the scores of one run; adds figures and reasons to the sections."""

    section: EstimateSections
    source: RunSource
    letter: str
    is_one_of_two: bool

    def each(
        self, tables: Iterable[Columns], kind: str, decide: Callable[[Columns], list[Table]]
    ) -> Iterator[Table]:
        """Yield the result of each aspect, or record the reason why there is none."""
        for columns in tables:
            try:
                check_one_judge(columns.score, columns.signatures)
                first, *others = decide(columns)
            except TextassayError as error:
                # one section without data must not make the whole page fail
                by = f" by {self.letter}" if self.is_one_of_two else ""
                self.section.reasons.append(f"{kind} of {columns.score}{by}: {error}")
                continue
            first = replace(first, notes=(*columns.notes(), *first.notes))
            yield from map(self._with_letter, (first, *others))

    def _with_letter(self, table: Table) -> Table:
        """Return a table with the letter of the run, if there are two."""
        if not self.is_one_of_two:
            return table
        return table.with_column(
            Column("run", "run"), [self.letter] * len(table.rows), after="score"
        )

    def estimate(self, columns: Columns) -> list[Table]:
        """Return means by system and their differences."""
        by_system = len({system for system in columns.systems if system is not None}) > 1
        scales = scales_of(columns, {})
        falls = () if self.source.higher_is_better(columns.human) else (columns.human,)
        result = estimate_means(columns, scales=scales, by_system=by_system, lower_is_better=falls)
        self.section.of_systems += [(self.letter, difference) for difference in result.differences]
        if any(row.method == "borrowed" for row in result.rows):
            self.section.assumes[columns.score] = "if the judge errs on all systems alike"
        pictures = [_draw(row, scales.raters) for row in result.rows]
        means, *differences = result.tables()
        column = Column("picture", "on the scale", "picture")
        return [means.without("lambda").with_column(column, pictures, after="system"), *differences]

    def test_against_raters(self, columns: Columns) -> list[Table]:
        """Return the alternative annotator test."""
        test = annotator_test(columns, scales=scales_of(columns, {}))
        self.section.of_raters.append((self.letter, test))
        return test.tables()

    def compare_scores(
        self, scores: Mapping[str, Judged], people: People, systems: Sequence[str]
    ) -> list[Table]:
        """Return the differences of systems on aspects without ratings."""
        if not scores:
            return []
        try:
            differences = compare_systems(scores, people, systems, unpaired=True)
        except TextassayError as error:
            self.section.reasons.append(f"Differences of the systems' scores: {error}")
            return []
        self.section.of_systems += [(self.letter, difference) for difference in differences]
        self.section.assumes |= dict.fromkeys(scores, "by the judge's scores alone")
        title = "differences of the judge's mean scores, by source"
        table = table_of(SystemDifference, differences, title=title)
        for name, heading, numbers in (
            ("left_out", "left out", [difference.left_out for difference in differences]),
            ("unpaired", "unpaired", [difference.unpaired for difference in differences]),
            ("n", "n", [difference.n for difference in differences]),
        ):
            if name == "n" or any(numbers):
                table = table.with_column(Column(name, heading, "count"), numbers, after="b")
        note = Note(
            "the judge's scores alone: without ratings, it is unknown whether people would agree"
        )
        return [replace(self._with_letter(table), notes=(note,))]


def _of_runs(tables: Sequence[Sequence[Table]]) -> list[Table]:
    """Return tables of two runs as one; notes of one run name it."""
    if len(tables) < 2:
        return stack_tables(table for of_run in tables for table in of_run)
    shared = set.intersection(*({note for table in o for note in table.notes} for o in tables))

    def name(letter: str, note: Note) -> Note:
        return note if note in shared else note._replace(text=f"{letter}: {note.text}")

    return stack_tables(
        replace(table, notes=tuple(name(letter, note) for note in table.notes))
        for letter, of_run in zip("AB", tables, strict=False)
        for table in of_run
    )


def _draw(row: EstimateRow, span: tuple[float, float]) -> Markup:
    best = row.corrected if row.corrected.value is not None else row.judge_only
    judge = row.judge_only.value
    # scores on another scale than the raters' do not fit their axis
    beside = judge if judge is not None and span[0] <= judge <= span[1] else None
    return svg.interval_plot(best, span, mark=row.labels_only.value, beside=beside, width=170)


def _compare(
    runs: Sequence[RunSource],
    judged: Sequence[Mapping[str, Judged]],
    people_of: Sequence[People | None],
    section: EstimateSections,
) -> None:
    a, b = (
        RunSide(scores, read_scores(run.folder), people, run.labels)
        for run, scores, people in zip(runs, judged, people_of, strict=True)
    )
    ids = [set(people.ids) if people else set() for people in people_of]
    texts = {id_ for scores in b.judged.values() for id_ in scores.values}
    try:
        comparison = compare_sides(a, b, unpaired=texts <= ids[0] | ids[1])
    except TextassayError as error:
        section.reasons.append(f"Comparison of the runs: {error}")
        return
    rows = comparison.rows
    section.of_runs.extend(rows)
    section.of_agreement.extend(comparison.agreement)
    ends = [abs(end) for row in rows for end in (row.difference.low, row.difference.high) if end]
    # one axis for all aspects, symmetric around 0, so that the pictures can be compared
    most = max([*ends, *(abs(row.difference.value or 0.0) for row in rows)], default=1.0) or 1.0
    pictures = [svg.interval_plot(row.difference, (-most, most), mark=0.0) for row in rows]
    differences, *others = comparison.tables()
    column = Column("picture", "around 0", "picture")
    section.compared.append(differences.with_column(column, pictures, after="difference"))
    section.compared.extend(others)


def _stress(runs: Sequence[RunSource]) -> list[Table]:
    tables = []
    for run in runs:
        if not run.stress:
            continue
        try:
            table = verdict_table(run.stress)
        except (KeyError, TypeError) as error:
            raise RunFolderError(
                f"{run.folder}/stress.json contains no verdicts: {error}"
            ) from error
        tables.append(replace(table, title=f"{table.title} of {run.name}") if runs[1:] else table)
    return tables


def _curves(run: RunSource, tables: Sequence[Columns], calibration: Calibration) -> list[Curve]:
    """Draw the calibration of each aspect of the run."""
    curves = []
    for name in run.table.aspects:
        aspect = calibration.of(name)
        if aspect is None:
            continue
        for signature in run.table.signatures:
            # a curve learned from another judge would be wrong
            calibration.check(name, signature)
        values = run.table.values[run.table.rows_on(name)]
        applied = aspect.apply(values[~np.isnan(values)])
        inside = ~applied.outside
        width = float((applied.high - applied.low)[inside].mean()) if inside.any() else None
        rated = next((columns for columns in tables if columns.score == name), None)
        outside = float(applied.outside.mean()) if len(applied.outside) else 0.0
        curves.append(Curve(aspect, _curve(aspect, rated), width, outside))
    return curves


def _curve(calibration: AspectCalibration, rated: Columns | None) -> Markup:
    grid = np.linspace(*calibration.range, 60)
    applied = calibration.apply(grid)
    points = list(zip(grid.tolist(), applied.values.tolist(), strict=True))
    band = list(zip(grid.tolist(), applied.low.tolist(), applied.high.tolist(), strict=True))
    dots: list[svg.Point] = []
    if rated is not None:
        # limits the size of the page; the curve itself is learned from all ratings
        rows = np.flatnonzero(rated.rated)[:600]  # the dots that are drawn
        dots = [(float(rated.scores[row]), float(rated.ratings[row])) for row in rows]
    return svg.curve(
        points, calibration.scales.judge or calibration.range, calibration.scales.raters,
        band=band, dots=dots,
        label=f"Calibration of {calibration.aspect}: what people would say at each score",
    )  # fmt: skip
