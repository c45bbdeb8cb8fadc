"""Learns which scores of a cheap judge may stand, with a bound on how often people disagree.

Half of the rated sources calibrate the judge; the other half choose the length up to which its
intervals count as narrow. For each length that is tried, the share of decided rows on which
people's rating is further than a tolerance from the calibrated score gets an upper bound; the
longest that keeps the bound below the accepted risk is taken. Knows columns; nothing of models.

References:
    Jung, Brahman and Choi, "Trust or escalate: LLM judges with provable guarantees for human
    agreement" (2024, arXiv 2407.18370), for the cascade and the choice by tests;
    Geifman and El-Yaniv, "Selective classification for deep neural networks" (2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.calibration.columns import Columns, one_signature
from textassay.calibration.maps import Map, Scales, ScoreRanges, fit_cells, grid_of, learn_map
from textassay.learning.cascade import Rule
from textassay.learning.splits import split_rows
from textassay.meta.correlation import Codes, Floats
from textassay.meta.intervals import t_quantile
from textassay.runtime.errors import ConfigurationError, DataError

MAX_LENGTHS = 8
"""Lengths of intervals that are tried; each costs confidence."""
MIN_SOURCES = 20
"""Rated sources below which no bound can be promised."""
COVERAGE = 0.9
"""Share of ratings that the intervals hold whose lengths are compared."""
_POINTS = 201
"""Points at which a map is written down."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Tried:
    """One length of intervals."""

    length: float
    """Greatest length with which a score stands."""
    share: float
    """Share of the rows on which the cheap judge then decides."""
    disagreement: float | None
    """Share of those on which people disagree; `None` without any."""
    bound: float
    """Upper bound of it in new sources."""


def learn_rule(
    columns: Columns,
    *,
    scales: Scales,
    tolerance: float,
    risk: float = 0.2,
    confidence: float = 0.95,
    method: str = "auto",
    seed: int = 0,
) -> tuple[Rule, tuple[Tried, ...]]:
    """Learn when the cheap judge decides on one aspect."""
    for name, value in (("risk", risk), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ConfigurationError(f"{name} must be between 0 and 1, not {value:g}")
    if not tolerance > 0:
        raise ConfigurationError(f"the tolerance must be above 0, not {tolerance:g}")
    rated = columns.only(columns.rated)
    sources = len(np.unique(rated.groups))
    if sources < MIN_SOURCES:
        raise DataError(
            f"{columns.score}: {sources} rated sources are too few for a bound; rate at least"
            f" {MIN_SOURCES}"
        )
    codes = np.unique(rated.groups, return_inverse=True)[1]
    first = split_rows(codes, 0.5, seed=seed)
    made = _calibrated(rated.only(first), scales, method, seed)
    rest = rated.only(~first)
    lengths = made.cells.below + made.cells.above
    own = lengths[np.searchsorted(made.cells.edges, rest.scores, side="right")]
    # a score outside the range that was calibrated never stands
    own = np.where((rest.scores < made.range[0]) | (rest.scores > made.range[1]), np.inf, own)
    wrong = np.abs(made.map.predict(rest.scores) - rest.ratings) > tolerance + _ROUNDING
    candidates = _candidates(lengths)
    # for all lengths together (Bonferroni): the best of several looks better than it is
    level = 1 - (1 - confidence) / max(1, len(candidates))
    tried = tuple(_try(length, own, wrong, rest.groups, level) for length in candidates)
    good = [one for one in tried if one.bound <= risk]
    best = max(good, key=lambda one: one.length) if good else None
    rule = Rule(
        aspect=columns.score,
        signature=one_signature(columns),
        scale=scales.raters,
        **made.written(),
        limit=None if best is None else best.length,
        tolerance=tolerance,
        risk=risk,
        confidence=confidence,
        bound=None if best is None else best.bound,
        share=0.0 if best is None else best.share,
    )
    return rule, tried


@dataclass(frozen=True, slots=True)
class _Calibrated:
    """What half of the sources say of the cheap judge's scores."""

    map: Map
    cells: ScoreRanges
    range: tuple[float, float]

    def written(self) -> dict[str, Any]:
        """Return the map and the intervals as a rule holds them."""
        scores, cells = np.linspace(*self.range, _POINTS), self.cells.to_dict()
        return {
            "scores": tuple(map(float, scores)),
            "ratings": tuple(map(float, self.map.predict(scores))),
            **{name: tuple(cells[name]) for name in ("edges", "below", "above")},
        }


def _calibrated(columns: Columns, scales: Scales, method: str, seed: int) -> _Calibrated:
    x, y, groups = columns.scores, columns.ratings, columns.groups
    learned = learn_map(x, y, groups, scales=scales, method=method, seed=seed)
    grid = grid_of(y, scales.raters)
    cells = fit_cells(x, y, learned.cross_fitted, groups, grid=grid, coverage=COVERAGE)
    return _Calibrated(learned.map, cells, (float(x.min()), float(x.max())))


def _candidates(lengths: Floats) -> list[float]:
    """Return the lengths to try: those that occur, thinned out evenly if they are many."""
    found = np.unique(lengths[np.isfinite(lengths)])
    at = np.unique(np.linspace(0, len(found) - 1, min(len(found), MAX_LENGTHS)).round().astype(int))
    return [float(found[i]) for i in at] if len(found) else []


def _try(length: float, own: Floats, wrong: Any, groups: Codes, level: float) -> Tried:
    stands = own <= length + _ROUNDING
    share = float(stands.mean())
    if not stands.any():
        return Tried(length, share, None, math.inf)
    bound = upper_bound(stands, wrong, groups, level)
    return Tried(length, share, float(wrong[stands].mean()), bound)


def upper_bound(stands: Any, wrong: Any, groups: Codes, level: float) -> float:
    """Return a bound of the share of wrong rows among those that stand, in new sources.

    The share is a ratio of sums over sources. To the rated sources one is added of which all rows
    are wrong, so that no bound is 0 because nothing was wrong yet; and the variance counts twice,
    since the share in as many new sources varies as much as that in the rated ones.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    rows = np.bincount(codes, weights=stands.astype(float))
    errors = np.bincount(codes, weights=(stands & wrong).astype(float))
    rows, errors = rows[rows > 0], errors[rows > 0]
    if len(rows) < 2:
        return math.inf
    mean = rows.mean()
    rows, errors = np.append(rows, mean), np.append(errors, mean)
    share = errors.sum() / rows.sum()
    count = len(rows)
    influence = (errors - share * rows) / rows.sum()
    variance = float(influence @ influence) * count / (count - 1)
    # one-sided: t_quantile is that of a symmetric interval
    quantile = t_quantile(count - 1, 2 * level - 1)
    return float(share + quantile * math.sqrt(2 * variance))
