"""From scores to decisions.

Calibration curves, estimates, differences, the alternative annotator test, stress.

Every number is that of `textassay estimate`, `compare` and `alt-test` with their default settings.
What cannot be computed from these data is named with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from textassay.calibration.alternative_annotator import annotator_test
from textassay.calibration.calibration import AspectCalibration, Calibration
from textassay.calibration.calibration import load as load_calibration
from textassay.calibration.columns import (
    Columns,
    Judged,
    People,
    join_columns,
    one_signature,
    read_judged,
    scales_of,
)
from textassay.calibration.compare_runs import (
    agreement_difference,
    compare_runs,
    comparison_tables,
)
from textassay.calibration.estimate import EstimateRow, estimate_means
from textassay.report import svg
from textassay.report.source import DataSource, RunSource
from textassay.runtime.errors import RunFolderError, TextassayError
from textassay.table import Column, Table, stacked

_DOTS = 600
"""Rated texts that a calibration curve shows."""
_STEPS = 60


@dataclass(frozen=True, slots=True)
class Curve:
    """The calibration of one aspect.

    Attributes:
        learned: What the folder holds.
        picture: Its map with the intervals, over the rated texts.
        width: Mean width of the intervals of this run's scores; `None` if none has one.
        outside: Share of this run's scores outside the calibrated range.
    """

    learned: AspectCalibration
    picture: Markup
    width: float | None
    outside: float


@dataclass(frozen=True, slots=True)
class Decisions:
    """The sections; what there are no data for is empty.

    Attributes:
        curves: By aspect, if a calibration is given.
        estimates: Means by system, and their differences.
        compared: Two runs, and the difference of their agreement with people.
        stand_ins: The alternative annotator test.
        stress: Verdicts of a stress run.
        reasons: What could not be computed, and why.
    """

    curves: list[Curve]
    estimates: list[Table]
    compared: list[Table]
    stand_ins: list[Table]
    stress: list[Table]
    reasons: list[str]


def decisions(
    runs: Sequence[RunSource],
    data: DataSource,
    pairs: Mapping[str, str],
    calibration: str | Path | None,
) -> Decisions:
    """Return what a reader can decide by.

    Args:
        runs: One run or two.
        data: The examples.
        pairs: Human aspect by score, for scores that have one.
        calibration: A calibration folder, if its curves are to be shown.
    """
    section = Decisions([], [], [], [], _stress(runs[0]), [])
    several = len(runs) > 1
    # a growing run may have no score yet, which the file's reader refuses; and a file of a million
    # scores is read only for a section that shows something of it
    has_estimates = (several or bool(pairs)) and all(len(run.table) for run in runs)
    judged = read_judged(runs[0].folder) if has_estimates else {}
    people = data.people if data.examples and has_estimates else None
    # labels without an order have no mean to estimate
    scored = {name: human for name, human in pairs.items() if name in judged}
    tables = (
        join_columns({name: judged[name] for name in scored}, people, scored)
        if people is not None and scored
        else []
    )
    if calibration is not None:
        section.curves.extend(_curves(runs[0], tables, load_calibration(calibration)))
    section.estimates.extend(stacked(_each(tables, section, "Estimate", _estimated)))
    rated = [columns for columns in tables if columns.raters.shape[1]]
    what = "Alternative annotator test"
    section.stand_ins.extend(stacked(_each(rated, section, what, _annotator_tested)))
    if several and has_estimates:
        _compare(judged, read_judged(runs[1].folder), people, section)
    return section


def _each(
    tables: Iterable[Columns],
    section: Decisions,
    what: str,
    decide: Callable[[Columns], list[Table]],
) -> Iterator[Table]:
    """Yield the result of each aspect, or keep the reason why it has none."""
    for columns in tables:
        try:
            one_signature(columns)
            first, *others = decide(columns)
        except TextassayError as error:
            # one section without its data must not cost the reader the whole page
            section.reasons.append(f"{what} of {columns.score}: {error}")
            continue
        yield replace(first, notes=(*columns.notes(), *first.notes))
        yield from others


def _estimated(columns: Columns) -> list[Table]:
    by_system = len({system for system in columns.systems if system is not None}) > 1
    scales = scales_of(columns, {})
    made = estimate_means(columns, scales=scales, by_system=by_system)
    pictures = [_drawn(row, scales.raters) for row in made.rows]
    means, *differences = made.tables()
    column = Column("picture", "on the scale", "picture")
    return [means.without("lambda").with_column(column, pictures, after="system"), *differences]


def _drawn(row: EstimateRow, span: tuple[float, float]) -> Markup:
    best = row.corrected if row.corrected.value is not None else row.judge_only
    drawn, judge = (best.value, best.low, best.high), row.judge_only.value
    # a judge on another scale than the raters' has no place on their axis
    beside = judge if judge is not None and span[0] <= judge <= span[1] else None
    return svg.interval_plot(drawn, span, mark=row.labels_only.value, beside=beside, width=170)


def _annotator_tested(columns: Columns) -> list[Table]:
    return annotator_test(columns, scales=scales_of(columns, {})).tables()


def _compare(
    first: Mapping[str, Judged],
    second: Mapping[str, Judged],
    people: People | None,
    section: Decisions,
) -> None:
    try:
        rows = compare_runs(first, second, people)
    except TextassayError as error:
        section.reasons.append(f"Comparison of the runs: {error}")
        return
    names = [row.aspect for row in rows] if people is not None else []
    agreement = [] if people is None else agreement_difference(first, second, people, names)
    ends = [abs(end) for row in rows for end in (row.difference.low, row.difference.high) if end]
    # one axis for all aspects, symmetric around 0, so that the pictures can be compared
    most = max([*ends, *(abs(row.difference.value or 0.0) for row in rows)], default=1.0) or 1.0
    drawn = [(row.difference.value, row.difference.low, row.difference.high) for row in rows]
    pictures = [svg.interval_plot(one, (-most, most), mark=0.0) for one in drawn]
    differences, *others = comparison_tables(rows, agreement, people)
    column = Column("picture", "around 0", "picture")
    section.compared.append(differences.with_column(column, pictures, after="difference"))
    section.compared.extend(others)


def _stress(run: RunSource) -> list[Table]:
    if not run.stress:
        return []
    # with the engine that stress tests run on, which other pages do not need
    from textassay.stress.verdicts import verdict_table

    try:
        return [verdict_table(run.stress)]
    except (KeyError, TypeError) as error:
        raise RunFolderError(f"{run.folder}/stress.json contains no verdicts: {error}") from error


def _curves(run: RunSource, tables: Sequence[Columns], read: Calibration) -> list[Curve]:
    """Draw the calibration of each aspect of the run."""
    curves = []
    for at, name in enumerate(run.table.aspects):
        own = read.of(name)
        if own is None:
            continue
        for signature in run.table.signatures:
            # a curve learned from another judge would look valid and be wrong
            read.check(name, signature)
        values = run.table.values[np.array(run.table.aspect, int) == at]
        applied = own.apply(values[~np.isnan(values)])
        inside = ~applied.outside
        width = float((applied.high - applied.low)[inside].mean()) if inside.any() else None
        rated = next((columns for columns in tables if columns.score == name), None)
        outside = float(applied.outside.mean()) if len(applied.outside) else 0.0
        curves.append(Curve(own, _curve(own, rated), width, outside))
    return curves


def _curve(own: AspectCalibration, rated: Columns | None) -> Markup:
    grid = np.linspace(*own.range, _STEPS)
    applied = own.apply(grid)
    points = list(zip(grid.tolist(), applied.values.tolist(), strict=True))
    band = list(zip(grid.tolist(), applied.low.tolist(), applied.high.tolist(), strict=True))
    dots: list[svg.Point] = []
    if rated is not None:
        # a limit for the size of the page; the curve itself is learned from all ratings
        rows = np.flatnonzero(rated.rated)[:_DOTS]
        dots = [(float(rated.scores[row]), float(rated.ratings[row])) for row in rows]
    return svg.curve(
        points,
        own.scales.judge or own.range,
        own.scales.raters,
        band=band,
        dots=dots,
        x_name="judge",
        y_name="people",
        label=f"Calibration of {own.aspect}: what people would say at each score",
    )
