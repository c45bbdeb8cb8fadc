"""Intervals around single calibrated scores.

Split conformal prediction with the source as the unit.

Knows arrays. Rows of one source are not exchangeable with rows of another, sources are. So every
source has the same weight in the quantile of the residuals, shared among its rows, and a source
that has not been seen counts as infinitely far.

References:
    Lee, Barber and Willett, "Distribution-free inference with hierarchical data" (2023);
    Vovk, "Conditional validity of inductive conformal predictors" (2012), for the cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.meta.correlation import Codes, Floats

MIN_CELL = 30
"""Rated rows from which a range of the judge's scores has a quantile of its own."""
_MAX_CELLS = 20
MAX_DENOMINATOR = 12
_ROUNDING = 1e-9
# how far `_shortest` may fall short of the coverage on a grid
_TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class ScoreRanges:
    """How far ratings lie from calibrated scores, by range of the judge's score.

    Attributes:
        edges: Lowest score of each cell but the first, increasing, shape (cells - 1,).
        below: Distance down to the lower end in each, shape (cells,); infinite if there were too
            few sources.
        above: Distance up to the upper end, likewise.
        rows: Rated rows in each, shape (cells,).
    """

    edges: Floats
    below: Floats
    above: Floats
    rows: Codes

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; an infinite distance is `None`."""
        below, above = (
            [None if math.isinf(one) else float(one) for one in distances]
            for distances in (self.below, self.above)
        )
        edges, rows = self.edges.tolist(), self.rows.tolist()
        return {"edges": edges, "below": below, "above": above, "rows": rows}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ScoreRanges:
        """Read what `to_dict` returned."""
        below, above = (
            np.array([math.inf if one is None else one for one in content[name]], float)
            for name in ("below", "above")
        )
        edges, rows = np.array(content["edges"], float), np.array(content["rows"], np.intp)
        return cls(edges, below, above, rows)

    def around(self, scores: Floats, calibrated: Floats, grid: Grid) -> tuple[Floats, Floats]:
        """Return the ends of the interval of each score, on the grid, shape (n,) each."""
        cell = np.searchsorted(self.edges, scores, side="right")
        # the same rounding as in `fit_cells`: distances were measured from the grid
        center = grid.nearest(calibrated)
        return grid.outward(center - self.below[cell], center + self.above[cell])


@dataclass(frozen=True, slots=True)
class Grid:
    """The values that a rating can take.

    Attributes:
        low: Lowest value.
        high: Highest value.
        steps: Number of steps to a point, 3 for the mean of three whole ratings; 0 for any value.
    """

    low: float
    high: float
    steps: int

    def outward(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return ends clipped to the grid and moved outward to the next values on it."""
        low, high = (np.clip(end, self.low, self.high) for end in (low, high))
        if not self.steps:
            return low, high
        # without the allowance an end on the grid, say 3.0000000001, would move out by a whole
        # step
        down = np.floor((low - self.low) * self.steps + _ROUNDING) / self.steps + self.low
        up = np.ceil((high - self.low) * self.steps - _ROUNDING) / self.steps + self.low
        return down, np.minimum(up, self.high)

    def nearest(self, values: Floats) -> Floats:
        """Return the value on the grid that is nearest to each."""
        values = np.clip(values, self.low, self.high)
        if not self.steps:
            return values
        return np.asarray(np.round((values - self.low) * self.steps) / self.steps + self.low)


def grid_of(ratings: Floats, bounds: tuple[float, float]) -> Grid:
    """Return the coarsest grid within the bounds that holds all ratings.

    The finest grid tried is twelfths of a point.
    """
    for steps in range(1, MAX_DENOMINATOR + 1):
        at = (ratings - bounds[0]) * steps
        if np.allclose(at, np.round(at), rtol=0, atol=1e-6):
            return Grid(*bounds, steps)
    return Grid(*bounds, 0)


def fit_cells(
    scores: Floats,
    ratings: Floats,
    calibrated: Floats,
    groups: Codes,
    *,
    grid: Grid,
    coverage: float,
    weights: Floats | None = None,
) -> ScoreRanges:
    """Return distances by range of the judge's score.

    Up to 20 distinct scores are cells by themselves, more are put together until a cell has 30
    rows. A cell with fewer than 30 rows, or with too few sources, has the distances of all rows.

    Args:
        scores: Judge's scores of the rated rows, shape (n,).
        ratings: Their ratings, shape (n,).
        calibrated: Their cross-fitted values, shape (n,).
        groups: Code of each row's source, shape (n,).
        grid: Where ratings can lie.
        coverage: Share of new rows that their intervals are to hold.
        weights: Share of its source's rows that each row stands for, shape (n,), if rows were
            drawn with different probabilities; `None` shares a source among its rated rows.
    """
    cell, edges = _assign_cells(scores)
    # equal steps of the grid must be equal numbers, because `_reached` collects them into blocks
    residuals = np.round(ratings - grid.nearest(calibrated), 9)
    shortest = _shortest if grid.steps else _symmetric
    rows = np.bincount(cell, minlength=len(edges) + 1)
    ends = np.tile(shortest(residuals, groups, coverage, weights), (len(rows), 1))
    # with fewer rows the ends of a 90% interval would rest on two or three residuals
    for number in np.flatnonzero(rows >= MIN_CELL):
        inside = cell == number
        given = None if weights is None else weights[inside]
        own = shortest(residuals[inside], groups[inside], coverage, given)
        # 30 rows of a few sources leave the quantile at infinity; the distances over all rows are
        # less exact here, but finite
        if np.isfinite(own).all():
            ends[number] = own
    return ScoreRanges(edges, ends[:, 0], ends[:, 1], rows.astype(np.intp))


def _symmetric(
    residuals: Floats, groups: Codes, coverage: float, weights: Floats | None
) -> tuple[float, float]:
    """Return the distance, down and up, that holds a row of a new source with this probability."""
    levels, reached = _reached(np.abs(residuals), groups, weights)
    first = int(np.searchsorted(reached, coverage - _ROUNDING))
    distance = float(levels[first]) if first < len(levels) else float("inf")
    return distance, distance


def _shortest(
    residuals: Floats, groups: Codes, coverage: float, weights: Floats | None
) -> tuple[float, float]:
    """Return the least distances down and up that hold a row of a new source.

    On a grid, residuals come in blocks of equal ones, and an interval that must reach the level
    with whole blocks holds too many rows. So it may fall short by three points.
    """
    levels, reached = _reached(residuals, groups, weights)
    if reached[-1] < coverage - _ROUNDING:
        return float("inf"), float("inf")
    before = np.concatenate([[0.0], reached[:-1]])
    ends = np.searchsorted(reached, before + coverage - _TOLERANCE - _ROUNDING)
    # every block is tried as the lower end; `ends` is the first upper end that holds enough
    fits = np.flatnonzero(ends < len(levels))
    # the interval always holds its center, even if all residuals lie on one side
    below = np.maximum(0.0, -levels[fits])
    above = np.maximum(0.0, levels[ends[fits]])
    best = int(np.argmin(below + above))
    return float(below[best]), float(above[best])


def _reached(values: Floats, groups: Codes, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return distinct values and the probability that a row of a new source is no larger.

    The new source itself counts as one more, infinitely far.
    """
    _, at, counts = np.unique(groups, return_inverse=True, return_counts=True)
    levels, block = np.unique(values, return_inverse=True)
    # each source has mass 1 whatever its number of rows, so a source with many rated rows does not
    # decide the quantile (hierarchical conformal prediction, Lee, Barber and Willett)
    mass = 1.0 / counts[at] if weights is None else weights * (len(counts) / weights.sum())
    shares = np.bincount(block, weights=mass)
    return levels, np.cumsum(shares) / (len(counts) + 1)


def _assign_cells(scores: Floats) -> tuple[Codes, Floats]:
    """Return the cell of each row, and the lowest score of each cell but the first."""
    levels, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    if len(levels) <= _MAX_CELLS:
        return at.astype(np.intp), levels[1:].astype(float)
    least = max(MIN_CELL, len(scores) // _MAX_CELLS)
    before = np.concatenate([[0], np.cumsum(counts)[:-1]])
    # counted from the rows below a level, so rows of equal score never part; the remainder joins
    # the last cell instead of making one that is too small
    band = np.minimum(before // least, max(len(scores) // least, 1) - 1)
    starts = np.flatnonzero(np.diff(band)) + 1
    cell_of_level = np.zeros(len(levels), np.intp)
    cell_of_level[starts] = 1
    return np.cumsum(cell_of_level)[at], levels[starts].astype(float)
