"""Scores by system: means with intervals over sources, and how the values are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from textassay.report import svg
from textassay.report.joined import Joined
from textassay.report.means import Mean, mean_of
from textassay.report.source import DataSource, RunSource
from textassay.runtime.messages import Scale
from textassay.table import Column, Table

_BINS = 16


@dataclass(frozen=True, slots=True)
class SystemRow:
    """One system on one aspect.

    Attributes:
        system: Its name; `None` for all texts.
        mean: Its mean; `None` if nothing is scored.
        unscored: Number of scores without a value.
        people: Mean rating over the rated texts; `None` if there is none.
        picture: Mean and interval on the aspect's axis.
        spread: Distribution of the values.
    """

    system: str | None
    mean: Mean | None
    unscored: int
    people: float | None
    picture: Markup
    spread: Markup


@dataclass(frozen=True, slots=True)
class AspectScores:
    """All systems on one aspect, best first.

    Attributes:
        name: The aspect.
        scale: Its scale in words.
        span: Ends of the axis that the pictures share.
        rows: All texts first, then each system.
    """

    name: str
    scale: str
    span: tuple[float, float]
    rows: list[SystemRow]

    def table(self) -> Table:
        """Return means by system, with people's where there are ratings."""
        rows = [
            (row.system or "all texts", row.mean.n if row.mean else 0, row.unscored, row.mean,
             row.picture, row.spread, row.people)
            for row in self.rows
        ]  # fmt: skip
        columns = (
            Column("system", "system"), Column("n", "n", "count"),
            Column("unscored", "unscored", "count"),
            Column("mean", "mean, 95 % interval", "interval"),
            Column("picture", f"{self.span[0]:g} to {self.span[1]:g}", "picture"),
            Column("spread", "values", "picture"), Column("people", "people", "number", 2),
        )  # fmt: skip
        table = Table(columns, rows, title=f"{self.name}, {self.scale}")
        return (
            table if any(row.people is not None for row in self.rows) else table.without("people")
        )


def scores(run: RunSource, data: DataSource, joined: Joined) -> list[AspectScores] | None:
    """Return means by aspect and system, or `None` while there are no scores."""
    if not len(run.table):
        return None
    return [_aspect(run, data, joined, at) for at in range(len(run.table.aspects))]


def _aspect(run: RunSource, data: DataSource, joined: Joined, at: int) -> AspectScores:
    table = run.table
    rows = np.flatnonzero(np.array(table.aspect, int) == at)
    values, human = joined.values[rows], joined.human[rows]
    examples = [data.examples.get(table.ids[table.example[row]]) for row in rows]
    groups = [None if one is None else one.group for one in examples]
    systems = [None if one is None else one.system for one in examples]
    scale = table.scales[at]
    known = values[~np.isnan(values)]
    span = scale or ((float(known.min()), float(known.max())) if len(known) else (0.0, 1.0))
    named = sorted({system for system in systems if system is not None})
    everyone = np.arange(len(rows))
    lines = [_system(None, everyone, values, human, groups, span, scale)]
    # a single system would repeat the row of all texts
    if len(named) > 1:
        each = [
            _system(
                name,
                np.flatnonzero([one == name for one in systems]),
                values,
                human,
                groups,
                span,
                scale,
            )
            for name in named
        ]
        up = 1 if run.higher_is_better(table.aspects[at]) else -1
        lines += sorted(each, key=lambda row: -up * row.mean.value if row.mean else np.inf)
    scale_text = f"{scale[0]:g} to {scale[1]:g}" if scale else "no fixed scale"
    if not run.higher_is_better(table.aspects[at]):
        scale_text += ", lower is better"
    return AspectScores(table.aspects[at], scale_text, span, lines)


def _system(
    name: str | None,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    human: np.ndarray[tuple[int], np.dtype[np.float64]],
    groups: Sequence[str | None],
    span: tuple[float, float],
    scale: Scale | None,
) -> SystemRow:
    sources = [groups[int(row)] for row in rows]
    mean = mean_of(values[rows], sources, bins=_BINS, span=span, scale=scale)
    rated = human[rows][~np.isnan(human[rows])]
    people = float(rated.mean()) if len(rated) else None
    # raters may have used another scale, and a mark clipped to this one would be wrong
    on_axis = people if people is not None and span[0] <= people <= span[1] else None
    drawn = (None, None, None) if mean is None else (mean.value, mean.low, mean.high)
    return SystemRow(
        system=name,
        mean=mean,
        unscored=len(rows) - (mean.n if mean else 0),
        people=people,
        picture=svg.interval_plot(drawn, span, mark=on_axis),
        spread=svg.histogram(mean.counts if mean else ()),
    )
