"""Draws agreement with people, beside the agreement of trivial measures of the text.

A judge is above the trivial measures if its Spearman's rho is significantly higher than each of
theirs, by the intervals of paired differences over sources (`agreement.compare`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup

from textassay.agreement.correlation import Level
from textassay.agreement.records import Recorded, RecordedScores
from textassay.agreement.significance import compare, correlate
from textassay.agreement.table import (
    AgreementTable,
    LabelRow,
    TableRow,
    agreement_table,
    label_tables,
)
from textassay.report import svg
from textassay.report.source import DataSource, JoinedPage, RunSource
from textassay.runtime.messages import Example
from textassay.table import Alert, Column, Estimate, Note, Table, column, table_of
from textassay.tools.surface import Length, Novelty, Rouge
from textassay.tools.tool import Computed, Measurement

RESAMPLES = 1000
"""The default of `textassay agreement`, so that the numbers are the same."""
Above = Literal["yes", "no", "not shown"]


class _Compared(NamedTuple):
    """One score against one human aspect at one level."""

    judge: str
    """The run; empty for a trivial measure."""
    row: TableRow
    on: str = ""
    """The run whose texts a trivial measure used, if the runs judged different texts."""


@dataclass(frozen=True, slots=True)
class Advantage:
    """A judge's lead over trivial measures."""

    score: str = field(metadata=column("score"))
    judge: str = field(metadata=column("by"))
    measure: str = field(metadata=column("best trivial measure"))
    """The best trivial measure."""
    difference: Estimate = field(metadata=column("judge's minus its", "interval"))
    """The judge's Spearman's rho minus that measure's, with a 95 % interval over sources."""
    # "not shown" may be due to too few texts
    above: Above = field(
        metadata=column(
            "above all of them", cell=lambda a: Alert("no") if a.above == "no" else a.above
        )
    )
    """Whether it is significantly above all trivial measures, below one of them, or neither."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """Agreement of one score of a run with people."""

    run: str
    score: str
    measure: str
    """The measure of `value`: Spearman's rho, or Cohen's kappa of labels."""
    value: Estimate
    advantage: Advantage | None
    """Its lead over trivial measures; `None` for labels, or without intervals."""


class MatrixCell(NamedTuple):
    """Number of texts with one label by people and one by the judge."""

    texts: int
    shade: int
    """Share among the texts with this label by people, in five steps from 0 to 4."""
    address: str
    """Link to its texts."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A confusion matrix whose cells link to their texts."""

    title: str
    labels: tuple[str, ...]
    rows: list[tuple[str, list[MatrixCell]]]
    """People's label, and the judge's labels with their numbers."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Judge against people on one aspect."""

    caption: str
    picture: Markup


@dataclass(frozen=True, slots=True)
class AspectAgreement:
    """The comparisons with one human aspect."""

    tables: list[Table]
    """Judges, their jurors and trivial measures, one table by level, the data set first."""
    above: Table | None
    """The lead of each judge over the best trivial measure; `None` without intervals."""
    judges: list[JudgeAgreement]
    plots: list[Plot]
    """Judge against people, by run; for labels there are `matrices`."""
    matrices: list[Matrix]


def agreements(
    runs: Sequence[RunSource],
    data: Sequence[DataSource],
    joined: Sequence[JoinedPage],
    paired: Sequence[Mapping[str, str]],
    *,
    resamples: int = RESAMPLES,
) -> list[AspectAgreement]:
    """Return the agreement of runs, jurors and trivial measures with people by human aspect.

    Empty if no score is paired with a human aspect.
    """
    if not any(paired):
        return []
    levels, sides = _levels(data), list(map(_Side, runs, data, paired))
    judged = _compare_judges(sides, levels, resamples)
    rows = [*judged.rows, *_compare_trivial(sides, levels, resamples)]
    by_name = {side.run.name: side for side in sides}
    aspects = []
    for human in _humans(sides):
        beside = [compared for compared in rows if compared.row.human == human]
        named = [(at, row) for at, row in judged.labels if row.human == human]
        whole = [row for row in beside if row.judge and row.row.agreement.level == "dataset"]
        # the runs themselves, without their jurors
        of_runs = [row for row in whole if (row.judge, row.row.aspect) in judged.values]
        above = {
            key: _advantage(key, judged.values[key], human, by_name[key[0]].data, resamples)
            for key in ((compared.judge, compared.row.aspect) for compared in of_runs)
            if resamples
        }
        by_level = ([row for row in beside if row.row.agreement.level == level] for level in levels)
        tables = [_table(human, some) for some in by_level if some]
        tables += [label_tables(row, by=runs[at].name)[0] for at, row in named]
        aspects.append(AspectAgreement(
            tables, _above_table(human, above), _judges(of_runs, named, above, runs),
            plots=_plots(human, sides, joined, {(at, row.aspect) for at, row in named}),
            matrices=[_matrix(at, row, runs) for at, row in named],
        ))  # fmt: skip
    return aspects


class _Side(NamedTuple):
    """One run beside people."""

    run: RunSource
    data: DataSource
    pairs: Mapping[str, str]
    """The human aspect of each score that has one."""


class _Judged(NamedTuple):
    """The scores of all runs, compared with people."""

    rows: list[_Compared]
    """Scores and jurors' ratings that are numbers."""
    labels: list[tuple[int, LabelRow]]
    """Scores that are labels, each with the number of its run."""
    values: dict[tuple[str, str], Mapping[str, float | None]]
    """The values of each run and score by id, without jurors."""


def _humans(sides: Iterable[_Side]) -> list[str]:
    """Return the human aspects that scores are paired with, each once."""
    return list(dict.fromkeys(human for side in sides for human in side.pairs.values()))


def _compare_judges(sides: Iterable[_Side], levels: Sequence[Level], resamples: int) -> _Judged:
    result = _Judged([], [], {})
    for at, (run, source, pairs) in enumerate(sides):
        if not pairs:
            continue
        scores, of_jurors = _recorded_rows(run, pairs), _of_jurors(run, pairs)
        table = agreement_table(
            _of_data(source, scores | {score: values for score, (_, values) in of_jurors.items()}),
            source.examples.values(), levels=levels, bootstrap=resamples,
            aspect_map={**pairs, **{score: human for score, (human, _) in of_jurors.items()}},
            labels=run.labels,
        )  # fmt: skip
        result.rows.extend(_Compared(run.name, row) for row in table.rows)
        result.labels.extend((at, row) for row in table.labels)
        result.values.update({(run.name, score): values for score, values in scores.items()})
    return result


def _compare_trivial(
    sides: Sequence[_Side], levels: Sequence[Level], resamples: int
) -> Iterator[_Compared]:
    """Yield the agreement of trivial measures, once if all runs judged the same texts."""
    # labels without an order correlate with nothing
    unordered = {
        human
        for run, _, pairs in sides
        for score, human in pairs.items()
        if score in run.without_mean
    }
    several = len({id(side.data) for side in sides}) > 1
    for at, side in enumerate(sides if several else sides[:1]):
        rated = [h for h in _humans([side] if several else sides) if h not in unordered]
        if not rated:
            continue
        source = side.data
        # trivial measures depend on the texts alone, so a live page updates its sections without
        # them
        if not source.surface:
            source.surface.update(trivial([e for e in source.examples.values() if e.human]))
        on = f" on the texts of {'AB'[at]}" if several else ""
        for name, measured in source.surface.items():
            table = agreement_table(
                _of_data(source, {name: measured}), source.examples.values(), levels=levels,
                aspect_map=[f"{name}={human}" for human in rated], bootstrap=resamples,
            )  # fmt: skip
            yield from (_Compared("", row, on) for row in table.rows)


def _of_data(data: DataSource, values: Recorded) -> RecordedScores:
    """Return values as scores of data whose rows may have their sources from the judged texts."""
    scores = RecordedScores(data)
    scores.update(values)
    return scores


def trivial(examples: Sequence[Example]) -> Iterable[tuple[str, dict[str, float | None]]]:
    """Yield the measures that the data allow: number of words, novelty, ROUGE-L."""
    tools: list[tuple[str, Computed, Callable[[Example], bool]]] = [
        ("length in words", Length(), lambda example: True),
        ("novelty against the source", Novelty(), lambda example: bool(example.source)),
    ]
    # the overlap with references takes about a millisecond for each example
    if len(examples) <= 4000:
        tools.append(("ROUGE-L with references", Rouge(), lambda example: bool(example.references)))
    for name, tool, serves in tools:
        values: dict[str, float | None] = {}
        for example in examples:
            measured = tool.compute(example) if serves(example) else None
            values[example.id] = measured.value if isinstance(measured, Measurement) else None
        if any(value is not None for value in values.values()):
            yield name, values


def pairs_of(run: RunSource, data: DataSource, aspect_map: Mapping[str, str]) -> dict[str, str]:
    """Return the human aspect of each score that has one.

    The mapped one, else the human aspect of the same name. A juror's score (`ASPECT/JUROR`) has the
    human aspect of its aspect.
    """
    rated = data.rated_aspects
    matches = {}
    for score in run.table.aspects:
        aspect, _, juror = score.rpartition("/")
        name = aspect if score not in rated and juror in run.jurors else score
        matches[score] = aspect_map.get(score, name)
    return {score: human for score, human in matches.items() if human in rated}


def _recorded_rows(run: RunSource, pairs: Mapping[str, str]) -> Recorded:
    scores: Recorded = {score: {} for score in pairs}
    table = run.table
    for row, value in enumerate(table.values.tolist()):
        name = table.aspects[table.aspect[row]]
        if name in scores:
            scores[name][table.ids[table.example[row]]] = None if np.isnan(value) else value
    return scores


def _of_jurors(
    run: RunSource, pairs: Mapping[str, str]
) -> dict[str, tuple[str, dict[str, float | None]]]:
    """Return human aspect and values by id of each juror's ratings, which are parts of a score."""
    by_name: dict[str, tuple[str, dict[str, float | None]]] = {}
    if not run.jurors:
        return by_name
    for score in run.table.scores(list(range(len(run.table)))):
        for piece in score.evidence:
            juror, value = piece.get("text"), piece.get("value")
            if juror in run.jurors and score.aspect in pairs:
                name = f"{score.aspect}/{juror}"
                _, values = by_name.setdefault(name, (pairs[score.aspect], {}))
                values[score.id] = float(value) if isinstance(value, int | float) else None
    return by_name


def _levels(data: Sequence[DataSource]) -> list[Level]:
    """Return the levels for which all data have the necessary fields."""
    each = [_levels_of(s) for s in data if any(example.human for example in s.examples.values())]
    return [level for level in each[0] if all(level in other for other in each)]


def _levels_of(data: DataSource) -> list[Level]:
    examples = [example for example in data.examples.values() if example.human]
    levels: list[Level] = ["dataset"]
    groups = {data.sources[example.id] for example in examples}
    systems = {example.system for example in examples}
    # groups of one text have no coefficient
    if None not in groups and 1 < len(groups) < len(examples):
        levels.append("group")
    if None not in systems and len(systems) > 2:
        levels.append("system")
    return levels


def _advantage(
    key: tuple[str, str],
    judge: Mapping[str, float | None],
    human: str,
    data: DataSource,
    resamples: int,
) -> Advantage | None:
    """Return a judge's lead over the trivial measures; `None` if there is nothing to compare."""
    people = data.people
    ratings, groups = people.ratings(human), people.groups
    scores = people.align(judge)
    leads: list[tuple[float, str, Estimate]] = []
    for name, values in data.surface.items():
        measured = people.align(values)
        # the sign of a trivial measure is chosen in hindsight, which favors it; a judge should
        # still be above it
        if (correlate(measured, ratings).spearman or 0.0) < 0:
            measured = [None if value is None else -value for value in measured]
        both = compare(scores, measured, ratings, groups=groups, bootstrap=resamples).spearman
        if both.difference.value is not None and both.b is not None:
            leads.append((both.b, name, both.difference))
    if not leads:
        return None
    above: Above = "not shown"
    if all(difference.is_above(0) for *_, difference in leads):
        above = "yes"  # the judge must be above each of them, so no test needs an adjustment
    elif any(difference.is_below(0) for *_, difference in leads):
        above = "no"
    _, name, difference = max(leads)
    run, score = key
    return Advantage(score, run, name, difference, above)


def _judges(
    rows: Sequence[_Compared],
    labels: Sequence[tuple[int, LabelRow]],
    above: Mapping[tuple[str, str], Advantage | None],
    runs: Sequence[RunSource],
) -> list[JudgeAgreement]:
    """Return the agreement of the runs' scores: of labels by kappa, of others by rho."""
    by_key: dict[tuple[str, str], JudgeAgreement] = {}
    for judge, row, _ in rows:
        agreement, key = row.agreement, (judge, row.aspect)
        rho = agreement.estimate("spearman")
        by_key[key] = JudgeAgreement(*key, "Spearman's rho", rho, above.get(key))
    for at, of_label in labels:
        key = (runs[at].name, of_label.aspect)
        if of_label.aspect in runs[at].table.aspects:  # not a juror's labels
            kappa = of_label.agreement.measures["kappa"].estimate
            by_key[key] = JudgeAgreement(*key, "Cohen's kappa", kappa, above.get(key))
    return list(by_key.values())


def _above_table(human: str, above: Mapping[tuple[str, str], Advantage | None]) -> Table | None:
    """Return the lead of each judge over the best trivial measure."""
    lines = [advantage for advantage in above.values() if advantage]
    note = Note("differences of Spearman's rho, paired by source, with 95 % intervals")
    title = f"{human}, beside trivial measures"
    return table_of(Advantage, lines, (note,), title) if lines else None


def _table(human: str, rows: Sequence[_Compared]) -> Table:
    """Return the table of `textassay agreement`, with judges and a picture of Spearman's rho."""
    agreements_ = [compared.row.agreement for compared in rows]
    judges = [compared.judge or f"a trivial measure{compared.on}" for compared in rows]
    pictures = [
        svg.interval_plot(agreement.estimate("spearman"), (-1.0, 1.0), mark=0.0,
                          kind="judge" if compared.judge else "other")
        for agreement, compared in zip(agreements_, rows, strict=True)
    ]  # fmt: skip
    titles = {
        "dataset": "over all texts",
        "group": f"within a source, averaged over {agreements_[0].groups} sources",
        "system": f"over the means of {agreements_[0].systems} systems",
    }
    (plain,) = AgreementTable(tuple(compared.row for compared in rows), 0).tables()
    table = plain.without("human", "level")
    table = table.with_column(Column("judge", "by"), judges, after="score")
    table = table.with_column(Column("picture", "−1 to 1", "picture"), pictures, after="spearman")
    if all((agreement.coverage or 0.0) == 1.0 for agreement in agreements_):
        table = table.without("coverage")
    return replace(table, title=f"{human}, {titles[agreements_[0].level]}")


def _plots(
    human: str, sides: Sequence[_Side], joined: Sequence[JoinedPage], labels: set[tuple[int, str]]
) -> list[Plot]:
    plots = []
    for at, ((run, _, pairs), beside) in enumerate(zip(sides, joined, strict=True)):
        for number, name in enumerate(run.table.aspects):
            if pairs.get(name) != human or (at, name) in labels:
                continue
            rows = run.table.rows_on(name)
            rows = rows[~np.isnan(beside.values[rows]) & ~np.isnan(beside.human[rows])]
            if len(rows) < 2:
                continue
            x, y = beside.values[rows], beside.human[rows]
            x_span = run.table.scales[number] or (float(x.min()), float(x.max()))
            shared = beside.units.get(name) == "points"
            y_span = x_span if shared else (float(y.min()), float(y.max()))
            # 25 cells in each direction, so that its size does not grow with the data; grades of 1
            # to 5 and 1 to 7 are in the middles of cells
            columns = (svg.bin_values(v.tolist(), s, 25) for v, s in ((x, x_span), (y, y_span)))
            dots = list(zip(*columns, strict=True))
            picture = svg.curve(
                (), x_span, y_span, dots=dots,
                label=f"{name} by {run.name} against people's {human}, {len(rows)} texts",
            )  # fmt: skip
            whose = f"{name} by {run.name}" if len(sides) > 1 or name != human else name
            plots.append(Plot(f"{whose}, {len(rows):,} rated texts", picture))
    return plots


def _matrix(at: int, row: LabelRow, runs: Sequence[RunSource]) -> Matrix:
    result = row.agreement
    # a position in the page's list, since names may contain any characters
    listed = runs[0].table.aspects
    aspect = listed.index(row.aspect) if row.aspect in listed else -1
    rows = []
    for people, (name, counts) in enumerate(zip(result.labels, result.confusion, strict=True)):
        total = sum(counts) or 1
        cells = [
            MatrixCell(
                int(count),  # whole numbers: the report does not cut scores at a threshold
                min(4, round(5 * count / total - 0.5)) if count else 0,
                f"#cell/{at}/{aspect}/{people}/{judge}" if count and aspect >= 0 else "",
            )
            for judge, count in enumerate(counts)
        ]
        rows.append((name, cells))
    return Matrix(f"{row.aspect} by {runs[at].name}", result.labels, rows)
