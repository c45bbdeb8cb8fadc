"""A run's scores beside people's ratings and a second run, as columns, and how far they are apart.

Knows the run, its data and the pairing of scores with human aspects; nothing of HTML. A judge's
scale need not be the raters' scale, and a difference of points on two scales means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from textassay.meta.correlation import Floats
from textassay.report.source import DataSource, RunSource, ScoreTable
from textassay.runtime.labels import without_order
from textassay.runtime.messages import Scale

_SHARE_OF_SCALE = 0.5
"""Share of the judge's scale that ratings must span to count as ratings on that scale."""


Unit = Literal["points", "ranks"]
"""What a difference is counted in: points of the scale that judge and people share, or shares of
the rated texts, from -1 to 1."""
Rows = np.ndarray[tuple[int], np.dtype[np.int64]]


def choose_unit(human: Floats, scale: Scale | None) -> Unit:
    """Return `points` if the ratings lie on the judge's scale and span most of it, else `ranks`.

    Args:
        human: All ratings, shape (n,), without NaN.
        scale: The judge's scale; `None` if unbounded.
    """
    return "points" if len(human) and scale is not None and _on_scale(human, scale) else "ranks"


def gaps(scores: Floats, human: Floats, unit: Unit) -> Floats:
    """Return judge minus people for each row, shape (n,); NaN if either number is missing.

    For `ranks`, both sides are ranked among the rows that have both numbers (average ranks), and
    the difference of the ranks is divided by their number.

    Args:
        scores: Shape (n,); NaN if unscored.
        human: Shape (n,); NaN if unrated.
        unit: What the differences are counted in.
    """
    both = ~np.isnan(scores) & ~np.isnan(human)
    distances = np.full(len(scores), np.nan)
    if unit == "points":
        distances[both] = scores[both] - human[both]
    elif both.any():
        ranks = stats.rankdata(scores[both]) - stats.rankdata(human[both])
        distances[both] = ranks / int(both.sum())
    return distances


def _on_scale(human: Floats, scale: Scale) -> bool:
    low, high = scale
    lowest, highest = float(human.min()), float(human.max())
    wide = highest - lowest > _SHARE_OF_SCALE * (high - low)
    # ratings from 0 to 1 fit into a scale of 1 to 5 only by accident; touching an end or spanning
    # half of it shows that they are meant on it
    return low <= lowest and highest <= high and (wide or lowest == low or highest == high)


@dataclass
class Joined:
    """One row per score, shape (n,) each.

    Attributes:
        values: The judge's value; NaN if unscored.
        human: The mean rating of the human aspect that the score is compared with; NaN if unrated.
        gaps: Judge minus people; NaN if either is missing, and of labels without an order.
        sizes: Size of each gap as a share of the scale or of the ranks, so that aspects compare.
        units: What a gap is counted in, by aspect.
        other: Value in the second run; NaN without one.
        changes: Second run minus first; NaN if either is missing or their scales differ, and of
            labels without an order.
        flips: Whether a change crosses the middle of the scale.
    """

    values: Floats
    human: Floats
    gaps: Floats
    sizes: Floats
    units: dict[str, str]
    other: Floats
    changes: Floats
    flips: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @property
    def has_people(self) -> bool:
        """Whether any score has a rating beside it."""
        return bool((~np.isnan(self.values) & ~np.isnan(self.human)).any())


def join(
    run: RunSource,
    data: DataSource,
    human_of: Mapping[str, str],
    second: RunSource | None = None,
    *,
    rows: Sequence[int] | None = None,
) -> Joined:
    """Put scores, ratings and a second run next to each other.

    Args:
        run: The run, read.
        data: Its examples.
        human_of: Human aspect by score; a score that is not named has no ratings.
        second: Another run of the same examples, read.
        rows: Only these rows of the run. Differences of ranks need all rows and are NaN then.
    """
    table = run.table
    chosen = np.arange(len(table)) if rows is None else np.array(rows, int)
    values = table.values[chosen]
    aspect, example = np.array(table.aspect, int)[chosen], np.array(table.example, int)[chosen]
    human, rated, sizes = (np.full(len(chosen), np.nan) for _ in range(3))
    units: dict[str, str] = {}
    unordered = without_order(run.manifest)
    for at, name in enumerate(table.aspects):
        if name not in human_of:
            continue
        scale, own = table.scales[at], np.flatnonzero(aspect == at)
        if name in unordered:  # numbers of labels are no distance
            human[own] = [_rating(data, table.ids[example[row]], human_of[name]) for row in own]
            continue
        units[name] = unit = choose_unit(data.ratings(human_of[name]), scale)
        human[own] = [_rating(data, table.ids[example[row]], human_of[name]) for row in own]
        # a rank among the rows of one request would be another number than among all rows
        if unit == "points" or rows is None:
            rated[own] = gaps(values[own], human[own], unit)
        # as shares, gaps of aspects on different scales can be sorted together
        width = scale[1] - scale[0] if scale is not None and unit == "points" else 1.0
        sizes[own] = np.abs(rated[own]) / width
    other = np.full(len(chosen), np.nan)
    if second is not None:
        other = _values_in(second.table, table, example, aspect)
    changes, flips = _changes(run, second, aspect, values, other)
    return Joined(values, human, rated, sizes, units, other, changes, flips)


def _rating(data: DataSource, example_id: str, aspect: str) -> float:
    example = data.examples.get(example_id)
    rating = None if example is None else example.human.get(aspect)
    return float("nan") if rating is None else rating


def _values_in(second: ScoreTable, first: ScoreTable, example: Rows, aspect: Rows) -> Floats:
    """Return the second run's value for every score of the first."""
    rows = [
        second.row(first.ids[one], first.aspects[what])
        for one, what in zip(example.tolist(), aspect.tolist(), strict=True)
    ]
    values = second.values
    return np.array([float("nan") if row is None else values[row] for row in rows], float)


def _changes(
    first: RunSource, second: RunSource | None, aspect: Rows, values: Floats, other: Floats
) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    changes, flips = np.full(len(values), np.nan), np.zeros(len(values), bool)
    if second is None:
        return changes, flips
    scales: dict[str, Scale | None] = dict(
        zip(second.table.aspects, second.table.scales, strict=True)
    )
    for at, name in enumerate(first.table.aspects):
        rows = np.flatnonzero(aspect == at)
        scale = first.table.scales[at]
        if scales.get(name, scale) != scale or name in without_order(first.manifest):
            continue  # a difference of points on two scales means nothing
        changes[rows] = other[rows] - values[rows]
        if scale is not None:
            middle = (scale[0] + scale[1]) / 2
            flips[rows] = (values[rows] - middle) * (other[rows] - middle) < 0
    return changes, flips
