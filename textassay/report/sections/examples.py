"""Single texts with the evidence of their scores.

The largest disagreements first, or the largest changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textassay.meta.correlation import Floats
from textassay.report.evidence import Line, evidence_lines, grouped, obtained
from textassay.report.joined import Joined
from textassay.report.rows import MAX_TEXT, parts_of
from textassay.report.source import DataSource, RunSource
from textassay.runtime.conversation import Part
from textassay.runtime.labels import labels_of
from textassay.runtime.messages import Example, Score

PRINTED = 12
"""Examples in the page itself, for readers without JavaScript and for print."""


@dataclass(frozen=True, slots=True)
class ShownScore:
    """One score with everything behind it.

    Attributes:
        score: The score.
        example: Its example; `None` if the data could not be found.
        given: What the output was made from.
        human: Rating beside it; `None` if unrated.
        gap: Judge minus people.
        unit: What the gap is counted in.
        other: Value in the second run.
        change: Second run minus first.
        flips: Whether that crosses the middle of the scale.
        obtained: How the value was obtained.
        evidence: Lines by heading.
        labels: Names of the labels that values are positions of; empty if they are none.
    """

    score: Score
    example: Example | None
    given: list[Part]
    human: float | None
    gap: float | None
    unit: str
    other: float | None
    change: float | None
    flips: bool
    obtained: str
    evidence: list[tuple[str, list[Line]]]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExamplesSection:
    """The section.

    Attributes:
        order: Why these come first.
        shown: The first of them.
        total: Number of scores of the run.
        packed: Number of scores in the page.
    """

    order: str
    shown: list[ShownScore]
    total: int
    packed: int


def examples(
    run: RunSource, data: DataSource, joined: Joined, *, packed: int, count: int = PRINTED
) -> ExamplesSection | None:
    """Return the scores that a reader should look at first, or `None` while there are none."""
    if not len(run.table):
        return None
    order, rows = first_rows(joined)
    shown = [show(run, data, joined, row) for row in rows[:count].tolist()]
    return ExamplesSection(order, shown, len(run.table), packed)


def first_rows(joined: Joined) -> tuple[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return what decides the order, and all rows in it; ties keep the order of the run.

    With a second run, flips and then the largest changes; with ratings, the largest disagreements;
    else the lowest shares of their scale cannot be told from the columns, so the lowest values.
    Within an order, rows that lack the number come last.
    """
    if (~np.isnan(joined.changes)).any():
        # a flip matters more than its size: it changes what a reader would decide
        size = _known(np.abs(joined.changes))
        return "flips first, then the largest changes", np.lexsort((-size, ~joined.flips))
    if joined.has_people:
        return "largest disagreements with people first", np.argsort(
            -_known(joined.sizes), kind="stable"
        )
    # without ratings or a second run, texts that could not be scored need a look most
    lowest = np.where(np.isnan(joined.values), -np.inf, joined.values)
    return "scores without a value, then the lowest", np.argsort(lowest, kind="stable")


def show(run: RunSource, data: DataSource, joined: Joined, row: int) -> ShownScore:
    """Return one score with its example and evidence."""
    score = run.table.score(row)
    scale = labels_of(run.manifest).get(score.aspect)
    example = data.examples.get(score.id)
    return ShownScore(
        score=score,
        example=example,
        given=[] if example is None else parts_of(example, MAX_TEXT),
        human=_number(joined.human, row),
        gap=_number(joined.gaps, row),
        unit=joined.units.get(score.aspect, "points"),
        other=_number(joined.other, row),
        change=_number(joined.changes, row),
        flips=bool(joined.flips[row]),
        obtained=obtained(score),
        evidence=grouped(evidence_lines(score)),
        labels=() if scale is None else scale.names,
    )


def _known(column: Floats) -> Floats:
    return np.where(np.isnan(column), -1.0, column)


def _number(column: Floats, row: int) -> float | None:
    return None if np.isnan(column[row]) else float(column[row])
