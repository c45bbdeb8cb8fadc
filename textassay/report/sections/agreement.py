"""Agreement with people, beside what trivial measures of the text reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup

from textassay.meta.agreement import Agreement
from textassay.meta.label_table import label_tables
from textassay.meta.levels import Level
from textassay.meta.score_files import Recorded
from textassay.meta.table import AgreementTable, TableRow, agreement_table
from textassay.report import svg
from textassay.report.source import DataSource, RunSource
from textassay.runtime.labels import labels_of, without_order
from textassay.runtime.messages import Example
from textassay.table import Column, Flag, Table
from textassay.tools.overlap import Rouge
from textassay.tools.surface import Length, Novelty
from textassay.tools.tool import Computed, Measurement

RESAMPLES = 1000
"""The default of `textassay meta`, so that the numbers are the same."""
_MAX_OVERLAP = 4000
"""Examples up to which the overlap with references is counted: it takes about a millisecond
each."""


class _Compared(NamedTuple):
    """One score against one human aspect at one level."""

    judge: str
    """The run; empty for a trivial measure, which looks at the surface alone."""
    row: TableRow


@dataclass(frozen=True, slots=True)
class AspectAgreement:
    """Everything that is compared with one human aspect.

    Attributes:
        human: The human aspect.
        tables: Judges and trivial measures, one table by level, the data set first.
        beats: Whether each run is above the best trivial measure, by the run's name.
    """

    human: str
    tables: list[Table]
    beats: dict[str, bool]


@dataclass(frozen=True, slots=True)
class Agreements:
    """The section.

    Attributes:
        aspects: By human aspect.
        verdict: What it comes to, in a sentence.
    """

    aspects: list[AspectAgreement]
    verdict: str


def agreements(
    runs: Sequence[RunSource],
    data: DataSource,
    aspect_map: Mapping[str, str],
    *,
    resamples: int = RESAMPLES,
) -> Agreements | None:
    """Return the agreement of runs and of trivial measures with people, or `None` if nothing pairs.

    Args:
        runs: The runs, read.
        data: Examples with ratings.
        aspect_map: Human aspect by score.
        resamples: Resamples of the intervals; 0 for none.
    """
    pairs = {run.name: _pairs(run, data, aspect_map) for run in runs}
    pairs = {name: matched for name, matched in pairs.items() if matched}
    if not pairs:
        return None
    examples = [example for example in data.examples.values() if example.human]
    levels = _levels(examples)
    humans = list(dict.fromkeys(human for matched in pairs.values() for human in matched.values()))
    rows: list[_Compared] = []
    labels: dict[str, list[Table]] = {}
    for run in runs:
        if run.name in pairs:
            columns: Recorded = {score: {} for score in pairs[run.name]}
            recorded = _recorded(run, columns)
            table = agreement_table(
                recorded, data.examples.values(), levels=levels, aspect_map=pairs[run.name],
                bootstrap=resamples, labels=labels_of(run.manifest),
            )  # fmt: skip
            rows += [_Compared(run.name, row) for row in table.rows]
            for row in table.labels:
                labels.setdefault(row.human, []).extend(label_tables(row, by=run.name))
    # trivial measures depend on the texts alone: a live page renews its sections without them
    if not data.surface:
        data.surface.update(trivial(examples))
    # labels without an order correlate with nothing
    unordered = {
        human
        for run in runs
        for score, human in pairs.get(run.name, {}).items()
        if score in without_order(run.manifest)
    }
    rated = [human for human in humans if human not in unordered]
    for name, values in data.surface.items() if rated else ():
        table = agreement_table(
            {name: values}, data.examples.values(), levels=levels,
            aspect_map=[f"{name}={human}" for human in rated], bootstrap=resamples,
        )  # fmt: skip
        rows += [_Compared("", row) for row in table.rows]
    by_human = [_aspect(human, levels, rows) for human in humans]
    by_human = [replace(one, tables=[*one.tables, *labels.get(one.human, ())]) for one in by_human]
    return Agreements(by_human, _verdict(by_human, list(pairs)))


def trivial(examples: Sequence[Example]) -> Iterable[tuple[str, dict[str, float | None]]]:
    """Yield trivial measures that the data allow.

    Words of the output, novelty against the source, ROUGE-L.
    """
    tools: list[tuple[str, Computed, Callable[[Example], bool]]] = [
        ("length in words", Length(), lambda example: True),
        ("novelty against the source", Novelty(), lambda example: bool(example.source)),
    ]
    if len(examples) <= _MAX_OVERLAP:
        tools.append(("ROUGE-L with references", Rouge(), lambda example: bool(example.references)))
    for name, tool, serves in tools:
        values: dict[str, float | None] = {}
        for example in examples:
            measured = tool.compute(example) if serves(example) else None
            values[example.id] = measured.value if isinstance(measured, Measurement) else None
        if any(value is not None for value in values.values()):
            yield name, values


def _pairs(run: RunSource, data: DataSource, aspect_map: Mapping[str, str]) -> dict[str, str]:
    humans = {name for example in data.examples.values() for name in example.human}
    return pair_aspects(run.table.aspects, humans, aspect_map)


def pair_aspects(
    aspects: Iterable[str], humans: Iterable[str], aspect_map: Mapping[str, str]
) -> dict[str, str]:
    """Return the human aspect of each score: as mapped, else the one of the same name."""
    known = set(humans)
    matches = {score: aspect_map.get(score, score) for score in aspects}
    return {score: human for score, human in matches.items() if human in known}


def _recorded(run: RunSource, scores: Recorded) -> Recorded:
    table = run.table
    names, values = table.aspects, table.values.tolist()
    for row, value in enumerate(values):
        name = names[table.aspect[row]]
        if name in scores:
            scores[name][table.ids[table.example[row]]] = None if np.isnan(value) else value
    return scores


def _levels(examples: Sequence[Example]) -> list[Level]:
    levels: list[Level] = ["dataset"]
    groups = {example.group for example in examples}
    systems = {example.system for example in examples}
    # groups of one text each have no coefficient
    if None not in groups and 1 < len(groups) < len(examples):
        levels.append("group")
    if None not in systems and len(systems) > 2:
        levels.append("system")
    return levels


def _aspect(human: str, levels: Sequence[Level], rows: Sequence[_Compared]) -> AspectAgreement:
    own = [one for one in rows if one.row.human == human]
    whole = [one for one in own if one.row.agreement.level == "dataset"]
    trivial_rhos = [one.row.agreement.spearman for one in whole if not one.judge]
    # the sign of a trivial measure may be chosen in hindsight, which is in its favor: a judge
    # should be above it all the same
    bar = max((abs(rho) for rho in trivial_rhos if rho is not None), default=0.0)
    beats = {
        # strictly above, and not by absolute value: a judge whose sign is wrong does not beat
        # anything
        one.judge: (one.row.agreement.spearman or 0.0) > bar
        for one in whole
        if one.judge
    }
    by_level = ([one for one in own if one.row.agreement.level == level] for level in levels)
    return AspectAgreement(human, [_table(human, some, beats) for some in by_level if some], beats)


def _table(human: str, rows: Sequence[_Compared], beats: Mapping[str, bool]) -> Table:
    """Return the table of `textassay meta`, with who judged and a picture of Spearman's rho."""
    found = [one.row.agreement for one in rows]
    judges = [one.judge or "a trivial measure" for one in rows]
    pictures = [_drawn(one.row.agreement, "judge" if one.judge else "other") for one in rows]
    titles = {
        "dataset": "over all texts",
        "group": f"within a source, averaged over {found[0].groups} sources",
        "system": f"over the means of {found[0].systems} systems",
    }
    (plain,) = AgreementTable(tuple(one.row for one in rows), 0).tables()
    table = plain.without("human", "level").with_column(
        Column("judge", "by"), judges, after="score"
    )
    table = table.with_column(Column("picture", "−1 to 1", "picture"), pictures, after="spearman")
    if found[0].level == "dataset":
        words = [(("yes" if beats[one.judge] else Flag("no")) if one.judge else "") for one in rows]
        column = Column("beats", "above the best trivial")
        table = table.with_column(column, words, after="kendall")
    return replace(table, title=f"{human}, {titles[found[0].level]}")


def _drawn(agreement: Agreement, kind: Literal["judge", "other"]) -> Markup:
    ends = (agreement.ci or {}).get("spearman") or (None, None)
    drawn = (agreement.spearman, *ends)
    return svg.interval_plot(drawn, (-1.0, 1.0), mark=0.0, kind=kind, width=130)


def _verdict(aspects: Sequence[AspectAgreement], runs: Sequence[str]) -> str:
    sentences = []
    for run in runs:
        judged = [aspect for aspect in aspects if run in aspect.beats]
        won = sum(aspect.beats[run] for aspect in judged)
        who = "The judge is" if len(runs) == 1 else f"{run} is"
        sentences.append(f"{who} above the best trivial measure on {won} of {len(judged)} aspects.")
    return " ".join(sentences)
