"""Learns maps from a judge's scores to people's ratings, with intervals for single scores.

Works on arrays. Monotone and linear maps are curves through a few points: constant beyond them,
linear between them. Cumulative-link regression gives a probability for each rating of the raters'
grid: P(rating <= k) = logistic(threshold_k - slope * score), with increasing thresholds.

The choice is made across sources, by grouped cross-validation. A row's cross-fitted value comes
from a map that was learned without its source, so that a map is never evaluated on the rows it was
learned from.

Intervals come from split conformal prediction with the source as the unit. Rows of different
sources are not exchangeable, but sources are. So every source has the same weight in the quantile
of the residuals, shared among its rows, and the new source counts as infinitely far.

References:
    Oron and Flournoy, "Centered isotonic regression", Stat. Biopharm. Res. 9 (2017); Pal, "Spiking
    problem in monotone regression", Stat. Prob. Lett. 78 (2008), for its ends; McCullagh,
    "Regression models for ordinal data", JRSS B 42 (1980); Lee, Barber and Willett,
    "Distribution-free inference with hierarchical data" (2023); Vovk, "Conditional validity of
    inductive conformal predictors" (2012), for the ranges of scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, PlainSerializer
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit

from textassay.arrays import Codes, Floats
from textassay.learning.splits import fold_masks
from textassay.learning.training import least_error
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName

METHODS = ("auto", "isotonic", "linear", "ordinal", "shift")


def _rising(values: Floats) -> Floats:
    if not (np.diff(values) > 0).all():
        raise ValueError("numbers must rise")
    return values


def _distances(values: list[float | None]) -> Floats:
    return np.array([math.inf if distance is None else distance for distance in values], float)


# arrays in a JSON file, where an infinite distance is null
if TYPE_CHECKING:
    Numbers = Floats
    RisingNumbers = Floats
    Distances = Floats
    Counts = Codes
else:
    Finite = Annotated[float, Field(allow_inf_nan=False)]
    Numbers = Annotated[list[Finite], AfterValidator(np.array), PlainSerializer(np.ndarray.tolist)]
    RisingNumbers = Annotated[Numbers, AfterValidator(_rising)]
    Counts = Annotated[list[int], AfterValidator(np.array), PlainSerializer(np.ndarray.tolist)]
    Distances = Annotated[
        list[Annotated[float, Field(ge=0)] | None],
        AfterValidator(_distances),
        PlainSerializer(lambda values: [None if math.isinf(d) else float(d) for d in values]),
    ]


@dataclass(frozen=True, slots=True)
class MapScales:
    """Ranges of scores and ratings."""

    judge: tuple[float, float] | None
    """Lowest and highest score of the judge; `None` if unbounded."""
    raters: tuple[float, float]
    """Lowest and highest rating."""

    @property
    def slope(self) -> float | None:
        """Points of rating per point of score that follow from the scales; `None` if unbounded."""
        if self.judge is None:
            return None
        return (self.raters[1] - self.raters[0]) / (self.judge[1] - self.judge[0])

    def on_raters_scale(self, scores: Floats) -> Floats | None:
        """Return scores mapped linearly to the raters' scale; `None` if unbounded."""
        if self.judge is None or self.slope is None:
            return None
        return self.raters[0] + self.slope * (scores - self.judge[0])


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A monotone curve, linear between its knots."""

    kind: Literal["isotonic"] = field(default="isotonic", kw_only=True)
    scores: RisingNumbers
    """Judge's scores at the knots, increasing, shape (knots,)."""
    ratings: Numbers
    """Rating at each of them, monotone, shape (knots,)."""

    def predict(self, scores: Floats) -> Floats:
        """Return ratings, shape (n,): constant beyond the ends, NaN if unscored."""
        return np.asarray(np.interp(scores, self.scores, self.ratings))


@dataclass(frozen=True, slots=True)
class ClippedLine:
    """A straight line, clipped to the ratings that it was learned from."""

    kind: Literal["linear", "shift"] = field(default="linear", kw_only=True)
    """`linear`, or `shift` if the slope was given by the scales rather than learned."""
    slope: Annotated[float, Field(allow_inf_nan=False)]
    """Points of rating per point of score."""
    intercept: Annotated[float, Field(allow_inf_nan=False)]
    """Rating at a score of 0."""
    low: float
    """Lowest value it returns."""
    high: float
    """Highest value it returns."""

    def predict(self, scores: Floats) -> Floats:
        """Return ratings, shape (n,); NaN if unscored."""
        return np.asarray(np.clip(self.intercept + self.slope * scores, self.low, self.high))


def fit_line(
    scores: Floats,
    ratings: Floats,
    weights: Floats,
    scales: MapScales,
    kind: Literal["linear", "shift"],
) -> ClippedLine:
    """Return the least squares line; for a shift, a line of the scales' slope through the means."""
    middle, level = (float(np.average(column, weights=weights)) for column in (scores, ratings))
    if kind == "shift":
        slope = scales.slope or 1.0
    else:
        centered = scores - middle
        square = float(weights * centered @ centered)
        slope = float(weights * centered @ ratings) / square if square > 0 else 0.0
    return ClippedLine(slope, level - slope * middle, *scales.raters, kind=kind)


def fit_isotonic(scores: Floats, ratings: Floats, weights: Floats, scales: MapScales) -> Isotonic:
    """Return the monotone curve of centered isotonic regression.

    Pool adjacent violators finds blocks of scores with equal ratings. The curve goes through the
    center of each block and rises between them, so that different scores keep their order. Beyond
    the outer centers it has the slope of the least squares line, to the ends of the judge's scale
    (if it has none, of the scores) and within the raters' scale.

    It falls if scores and ratings are negatively correlated, as with an error rate.
    """
    line = fit_line(scores, ratings, weights, scales, "linear")
    levels, at = np.unique(scores, return_inverse=True)
    counts, sums = (np.bincount(at, weights=w) for w in (weights, weights * ratings))
    # the ends would follow single ratings, so each has one more, of the mean
    counts[[0, -1]] += weights.mean()
    sums[[0, -1]] += weights.mean() * np.average(ratings, weights=weights)
    # the sign of the slope sets the direction: fitting both and choosing the better one would find
    # a monotone trend in noise
    pooled = isotonic_regression(sums / counts, weights=counts, increasing=line.slope >= 0)
    # neighboring blocks of equal ratings are one
    starts = np.flatnonzero(np.append(True, ~np.isclose(np.diff(pooled.x), 0)))
    centers = np.add.reduceat(counts * levels, starts) / np.add.reduceat(counts, starts)
    outer = [0, -1]
    ends = np.sort(np.append(levels, scales.judge or ()))[outer]
    beyond = pooled.x[outer] + line.slope * (ends - centers[outer])
    low, high = np.clip(beyond, *scales.raters)
    knots = np.concatenate([ends[:1], centers, ends[1:]])
    values = np.concatenate([[low], pooled.x[starts], [high]])
    # a block of one score is its own center
    is_new = np.append(True, np.diff(knots) > 0)
    return Isotonic(knots[is_new], values[is_new])


@dataclass(frozen=True, slots=True)
class Ordinal:
    """A proportional odds model."""

    kind: Literal["ordinal"] = field(default="ordinal", kw_only=True)
    grid: RisingNumbers
    """Ratings that raters gave, increasing, shape (k,)."""
    thresholds: Numbers
    """Increasing, shape (k - 1,)."""
    slope: Annotated[float, Field(allow_inf_nan=False)]
    """Log odds of a higher rating per point of score."""

    def distribution(self, scores: Floats) -> Floats:
        """Return the probability of each rating, shape (n, k); a row sums to 1."""
        below = expit(self.thresholds[None, :] - self.slope * np.asarray(scores)[:, None])
        return np.asarray(np.diff(below, axis=1, prepend=0.0, append=1.0))

    def predict(self, scores: Floats) -> Floats:
        """Return the expected rating, shape (n,)."""
        return np.asarray(self.distribution(scores) @ self.grid)


def fit_ordinal(scores: Floats, ratings: Floats, weights: Floats) -> Ordinal:
    """Return the model of the highest likelihood."""
    grid, codes = np.unique(ratings, return_inverse=True)
    if len(grid) == 1:
        return Ordinal(grid, np.empty(0), 0.0)
    # standardized scores make the penalty mean the same on any scale of the judge
    center, spread = float(scores.mean()), float(scores.std()) or 1.0
    cells, cell_of = np.unique(scores, return_inverse=True)
    counts = np.zeros((len(cells), len(grid)))
    np.add.at(counts, (cell_of, codes), weights)
    shares = np.cumsum(counts.sum(axis=0))[:-1] / counts.sum()
    start = np.log(shares / (1 - shares))
    # steps in log space keep the thresholds increasing without a constraint
    packed = np.concatenate([start[:1], np.log(np.diff(start)), [0.0]])
    standardized = (cells - center) / spread
    solution = minimize(_loss, packed, args=(standardized, counts), jac=True, method="L-BFGS-B").x
    thresholds, slope = np.cumsum(_steps(solution)), float(solution[-1])
    return Ordinal(grid, thresholds + slope * center / spread, slope / spread)


def _steps(packed: Floats) -> Floats:
    """Return the first threshold, and the distance between each two neighbors."""
    # thresholds that are e^30 apart separate two ratings completely; larger trial steps of the line
    # search would overflow
    return np.concatenate([packed[:1], np.exp(np.minimum(packed[1:-1], 30.0))])


def _loss(packed: Floats, scores: Floats, counts: Floats) -> tuple[float, Floats]:
    """Return the negative log-likelihood of counts by score and rating, with its gradient."""
    steps, slope, total = _steps(packed), float(packed[-1]), counts.sum()
    penalty = 1e-3  # keeps the slope finite if scores separate the ratings
    below = expit(np.cumsum(steps)[None, :] - slope * scores[:, None])
    shares = np.maximum(np.diff(below, axis=1, prepend=0.0, append=1.0), 1e-12)
    value = -float((counts * np.log(shares)).sum()) / total
    ratio, density = counts / shares, below * (1 - below)
    by_threshold = -(ratio[:, :-1] - ratio[:, 1:]) * density / total
    first = by_threshold.sum(axis=0)
    gradient = np.append(
        # a step moves its own threshold and every later one
        np.cumsum(first[::-1])[::-1] * np.concatenate([[1.0], steps[1:]]),
        -(by_threshold.sum(axis=1) @ scores) + penalty * slope,
    )
    return value + penalty * slope**2 / 2, gradient


Map = Isotonic | ClippedLine | Ordinal
"""A function from a judge's scores to ratings."""


@dataclass(frozen=True, slots=True)
class LearnedMap:
    """A map, with cross-fitted values for the rows it was learned from."""

    map: Map
    """Learned from all rows."""
    cross_fitted: Floats
    """Value of each row by a map learned from other sources, shape (n,)."""
    parts: tuple[Map, ...]
    """The maps behind `cross_fitted`, one per fold."""
    errors: Mapping[str, float]
    """Mean squared error over held-out sources, by kind of map."""

    def predict_unseen(self, scores: Floats) -> Floats:
        """Return the mean of the parts' values for rows of other sources, shape (n,)."""
        # the maps behind `cross_fitted`, not the map of all rows: rated and unrated rows must be
        # predicted in the same way, so that they differ by the judge's error alone
        return np.asarray(np.mean([part.predict(scores) for part in self.parts], axis=0))


def learn_map(
    scores: Floats,
    ratings: Floats,
    groups: Codes,
    *,
    scales: MapScales,
    weights: Floats | None = None,
    method: str = "auto",
    seed: int = 0,
) -> LearnedMap:
    """Learn how ratings follow from scores.

    `auto` uses the monotone curve from 60 rows of 8 sources on, a line from 20 rows of 4 sources
    on, else a shift, unless a simpler one has a mean squared error on held-out sources that is
    lower by more than one standard error.
    """
    if method not in METHODS:
        raise UnknownName("calibration method", method, METHODS)
    # before the folds, so that the message describes the data and not a fold
    check_learnable(scores, ratings, groups)
    # folds contain whole sources: rows of one source are similar, so a map tested on a source it
    # learned from would look better than on new sources
    masks = fold_masks(groups, count=10, seed=seed)
    names = _candidates(method, len(scores), len(np.unique(groups)), scales)
    weights = np.ones(len(scores)) if weights is None else weights
    parts, values, squared = dict[str, list[Map]](), dict[str, Floats](), dict[str, Floats]()
    for name in names:
        parts[name], values[name] = [], np.empty(len(scores))
        for held_out in masks:
            seen = ~held_out
            part = _fit(name, scores[seen], ratings[seen], weights[seen], scales)
            parts[name].append(part)
            values[name][held_out] = part.predict(scores[held_out])
        squared[name] = (values[name] - ratings) ** 2
    best = least_error(squared, groups, names[0])
    return LearnedMap(
        map=_fit(best, scores, ratings, weights, scales),
        cross_fitted=values[best],
        parts=tuple(parts[best]),
        errors={name: float(errors.mean()) for name, errors in squared.items()},
    )


def _fit(kind: str, scores: Floats, ratings: Floats, weights: Floats, scales: MapScales) -> Map:
    if kind == "isotonic":
        return fit_isotonic(scores, ratings, weights, scales)
    if kind == "ordinal":
        return fit_ordinal(scores, ratings, weights)
    return fit_line(scores, ratings, weights, scales, "shift" if kind == "shift" else "linear")


def check_learnable(scores: Floats, ratings: Floats, groups: Codes) -> None:
    """Raise if nothing can be learned from these rows."""
    if len(scores) < 8:
        raise DataError(
            f"only {len(scores)} rows have both a score and a rating; 8 is the minimum, and"
            " 60 from 8 sources are a good start"
        )
    if len(np.unique(groups)) < 2:
        raise DataError(
            "all rated rows belong to one source, so differences between sources are unknown; "
            "rate texts of at least 2 sources (8 are a good start), or check the field 'group'"
        )
    if scores.min() == scores.max():
        raise DataError(
            f"the judge gives {scores[0]:g} to every rated row, so its scores carry no information "
            "about the ratings; use the mean of the ratings instead"
        )
    if ratings.min() == ratings.max():
        raise DataError(
            f"people gave {ratings[0]:g} to every rated row, so there is nothing to learn from "
            "them; rate rows that differ"
        )


def _candidates(method: str, rows: int, groups: int, scales: MapScales) -> tuple[str, ...]:
    """Return the kinds to compare, with the default kind first."""
    if method != "auto":
        if method == "shift" and scales.slope is None:
            raise ConfigurationError(
                "a shift needs a judge whose scale has two ends, and this one's scores are "
                "unbounded; use method=linear with 20 ratings or more"
            )
        return (method,)
    shift = ("shift",) if scales.slope is not None else ()
    # the most flexible kind that the number of ratings supports comes first, and is used unless a
    # simpler one is clearly better
    if rows >= 60 and groups >= 8:
        return ("isotonic", "linear", *shift)
    if (rows >= 20 and groups >= 4) or not shift:
        return ("linear", *shift)
    return shift


MIN_CELL = 30
"""Fewest rated rows for which a range of the judge's scores has its own quantile."""
_MAX_CELLS = 20
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ScoreRanges:
    """Distances between ratings and calibrated scores, by range of the judge's score."""

    edges: RisingNumbers
    """Lowest score of each cell but the first, increasing, shape (cells - 1,)."""
    below: Distances
    """Distance to the lower end in each cell, shape (cells,); infinite with too few sources."""
    above: Distances
    """Distance to the upper end in each cell, shape (cells,); infinite with too few sources."""
    rows: Counts
    """Rated rows in each cell, shape (cells,)."""

    def around(self, scores: Floats, calibrated: Floats, grid: Grid) -> tuple[Floats, Floats]:
        """Return the ends of the interval of each score, on the grid, shape (n,) each."""
        cell = np.searchsorted(self.edges, scores, side="right")
        # the same rounding as in `fit_cells`: distances were measured from the grid
        center = grid.nearest(calibrated)
        return grid.outward(center - self.below[cell], center + self.above[cell])


@dataclass(frozen=True, slots=True)
class Grid:
    """The values that a rating can take."""

    low: float
    high: float
    steps: Annotated[int, Field(ge=0, le=12)]
    """Number of steps to a point, 3 for the mean of three whole ratings; 0 for any value."""

    def outward(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return ends clipped to the grid and moved outward to the next values on it."""
        low, high = (np.clip(end, self.low, self.high) for end in (low, high))
        if not self.steps:
            return low, high
        # without this tolerance, an end such as 3.0000000001 would move out by a whole step
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
    """Return the coarsest grid within the bounds, down to twelfths, that contains all ratings."""
    for steps in range(1, 13):
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

    Up to 20 distinct scores form one cell each; more are merged until a cell has 30 rows. A cell
    with fewer than 30 rows, or with too few sources, uses the distances of all rows.
    """
    cell, edges = _assign_cells(scores)
    # rounded so that equal grid steps are equal numbers, which `_reach_probabilities` groups
    residuals = np.round(ratings - grid.nearest(calibrated), 9)
    ends_of = _shortest if grid.steps else _symmetric
    rows = np.bincount(cell, minlength=len(edges) + 1)
    ends = np.tile(ends_of(residuals, groups, coverage, weights), (len(rows), 1))
    # with fewer rows the ends of a 90% interval would rest on two or three residuals
    for number in np.flatnonzero(rows >= MIN_CELL):
        inside = cell == number
        weights_inside = None if weights is None else weights[inside]
        ends_inside = ends_of(residuals[inside], groups[inside], coverage, weights_inside)
        # with 30 rows of a few sources the quantile is infinite; the distances over all rows are
        # less exact, but finite
        if np.isfinite(ends_inside).all():
            ends[number] = ends_inside
    return ScoreRanges(edges, ends[:, 0], ends[:, 1], rows.astype(np.intp))


def _symmetric(
    residuals: Floats, groups: Codes, coverage: float, weights: Floats | None
) -> tuple[float, float]:
    distance = distance_to_hold(residuals, groups, coverage, weights)
    return distance, distance


def distance_to_hold(
    residuals: Floats, groups: Codes, coverage: float, weights: Floats | None = None
) -> float:
    """Return the distance that contains a row of a new source with this probability."""
    levels, reached = _reach_probabilities(np.abs(residuals), groups, weights)
    first = int(np.searchsorted(reached, coverage - _ROUNDING))
    return float(levels[first]) if first < len(levels) else math.inf


def _shortest(
    residuals: Floats, groups: Codes, coverage: float, weights: Floats | None
) -> tuple[float, float]:
    """Return the smallest distances down and up that contain a row of a new source.

    On a grid, many residuals are equal, and an interval that must reach the level exactly contains
    too many rows. So it may fall short by three percentage points.
    """
    levels, reached = _reach_probabilities(residuals, groups, weights)
    if reached[-1] < coverage - _ROUNDING:
        return math.inf, math.inf
    before = np.concatenate([[0.0], reached[:-1]])
    ends = np.searchsorted(reached, before + coverage - 0.03 - _ROUNDING)
    # every value is tried as the lower end; `ends` is the first sufficient upper end
    fits = np.flatnonzero(ends < len(levels))
    # the interval always contains its center, even if all residuals lie on one side
    below = np.maximum(0.0, -levels[fits])
    above = np.maximum(0.0, levels[ends[fits]])
    best = int(np.argmin(below + above))
    return float(below[best]), float(above[best])


def _reach_probabilities(
    values: Floats, groups: Codes, weights: Floats | None
) -> tuple[Floats, Floats]:
    """Return distinct values and the probability that a row of a new source is no larger."""
    _, at, counts = np.unique(groups, return_inverse=True, return_counts=True)
    levels, block = np.unique(values, return_inverse=True)
    # each source has mass 1, so that one with many rated rows does not decide the quantile
    # (hierarchical conformal prediction, Lee, Barber and Willett)
    mass = 1.0 / counts[at] if weights is None else weights * (len(counts) / weights.sum())
    shares = np.bincount(block, weights=mass)
    # the new source counts as one more source, infinitely far away
    return levels, np.cumsum(shares) / (len(counts) + 1)


def _assign_cells(scores: Floats) -> tuple[Codes, Floats]:
    """Return the cell of each row, and the lowest score of each cell but the first."""
    levels, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    if len(levels) <= _MAX_CELLS:
        return at.astype(np.intp), levels[1:].astype(float)
    least = max(MIN_CELL, len(scores) // _MAX_CELLS)
    before = np.concatenate([[0], np.cumsum(counts)[:-1]])
    # counted from the rows below a level, so rows of equal score stay together; the remainder joins
    # the last cell, since it would be too small for its own
    band = np.minimum(before // least, max(len(scores) // least, 1) - 1)
    starts = np.flatnonzero(np.diff(band)) + 1
    return np.searchsorted(starts, at, side="right"), levels[starts].astype(float)
