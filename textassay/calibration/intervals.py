"""Means over sources or texts with their intervals, and adjustments for several tests at once.

Knows numbers. All intervals are t-intervals over sources that allow for the skewness of what the
sources add.

References:
    Hall, "On the removal of skewness by transformation" (1992); Efron and Tibshirani, "An
    Introduction to the Bootstrap" (1993), chapter 11, for the jackknife.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr

from textassay.meta.correlation import Codes, Floats
from textassay.meta.intervals import effective_number, t_quantile
from textassay.runtime.errors import UnknownName

Weight = Literal["sources", "texts"]
"""What counts the same in a mean: each source, however many texts it has, or each text."""
MEANS_OVER: dict[Weight, str] = {
    "sources": "means: over sources, each counts the same, however many texts it has",
    "texts": "means: over texts, each counts the same",
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with an interval.

    Attributes:
        value: The estimate; `None` if undefined.
        low: Lower end; `None` if no interval can be promised.
        high: Upper end, likewise.
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the length of the interval; `None` without one."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def clipped(self, low: float, high: float) -> Estimate:
        """Return the same value with an interval that stays on the scale."""
        if self.low is None or self.high is None:
            return self
        return Estimate(self.value, min(max(self.low, low), high), max(min(self.high, high), low))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"value": self.value, "low": self.low, "high": self.high}


NO_ESTIMATE = Estimate(None)
_SYMMETRIC = 1e-6
"""Skewness below which there is none."""
_EDGE = 0.95
_MOST, _MOST_BY_CHANCE = 0.4, 0.35
"""Skewness up to which an interval follows it if it is known to be real, and if it may be chance.
With more of it Hall's function is flat where a test decides: even six sources that differ by nearly
the same would prove nothing, and an interval would reach nine standard errors far."""


@dataclass(frozen=True, slots=True)
class Linearized:
    """An estimate as a sum over sources, from which its variance and that of differences follow.

    Attributes:
        value: The estimate.
        influence: What each source adds to its error, shape (sources,); 0 for sources without rows.
        clusters: Number of independent sources behind it: those with ratings, if it uses any.
        unseen: Variance of what the sources do not show, such as errors too rare to be among the
            rated rows.
        shares: Share of each source in the estimate, shape (sources,), 0 for sources that are not
            among the clusters; `None` if all clusters have the same.
    """

    value: float
    influence: Floats
    clusters: int
    unseen: float = 0.0
    shares: Floats | None = None

    @property
    def variance(self) -> float:
        """Squared standard error by the jackknife over sources; NaN below two sources."""
        if self.clusters < 2:
            return math.nan
        return float(self._changes @ self._changes) * (1 - 1 / self.clusters) + self.unseen

    @property
    def df(self) -> float:
        """Degrees of freedom: Kish's effective number of sources less one, at least 1."""
        number = float(self.clusters)
        if self.shares is not None:
            number = min(number, effective_number(self.shares))
        return max(1.0, number - 1)

    @property
    def _changes(self) -> Floats:
        """By how much the estimate changes without each source, shape (sources,)."""
        # without a source of share h the estimate would be off by its influence / (1 - h): a source
        # with much weight pulls the estimate towards itself, so its own deviation looks too small
        equal = 1 / self.clusters
        left_out = equal if self.shares is None else np.where(self.shares, self.shares, equal)
        return np.asarray(self.influence / (1 - left_out))

    def estimate(self, confidence: float, *, one_tailed: bool = False) -> Estimate:
        """Return the value with its interval; no interval below two sources.

        Args:
            confidence: Confidence of the interval.
            one_tailed: Whether the sources can deviate far to one side only, as ratings can that
                are mostly the top grade. Then their skewness is taken at its word, and moves both
                ends. Otherwise it may be that of a few sources by chance, so it only widens: each
                end is the farther one of Hall's and Student's t.
        """
        if self.clusters < 2:
            return Estimate(self.value)
        # Student's t rather than a normal quantile: rated sources are often fewer than thirty, and
        # 1.96 would give intervals that hold far less than promised
        t, error = t_quantile(self.df, confidence), math.sqrt(self.variance)
        a = self._skewness(_MOST if one_tailed else _MOST_BY_CHANCE)
        edge = t_quantile(self.df, _EDGE)
        below, above = _untransformed(t, a, edge), -_untransformed(-t, a, edge)
        if not one_tailed:
            below, above = max(t, below), max(t, above)
        return Estimate(self.value, self.value - below * error, self.value + above * error)

    def _skewness(self, most: float) -> float:
        """Return the third moment of the jackknife in standard errors, at most so much."""
        if self.variance == 0:
            return 0.0
        skewness = float(((self._changes / math.sqrt(self.variance)) ** 3).sum())
        return max(-most, min(most, skewness))

    def minus(self, other: Linearized) -> Linearized:
        """Return the difference; the errors of shared sources cancel as far as they agree."""
        return Linearized(
            self.value - other.value,
            self.influence - other.influence,
            min(self.clusters, other.clusters),
            self.unseen + other.unseen,
            self._larger_shares(other),
        )

    def _larger_shares(self, other: Linearized) -> Floats | None:
        if self.shares is None or other.shares is None:
            return other.shares if self.shares is None else self.shares
        return np.maximum(self.shares, other.shares)

    def p_value(self) -> float | None:
        """Return the two-sided p-value of the value being 0; `None` if undefined.

        It is below .05 exactly if the 95 % interval excludes 0, and so at other levels. If all
        sources agree to the last digit, nothing shows how far others would differ.
        """
        if self.clusters < 2:
            return None
        if self.variance == 0:
            return 1.0 if self.value == 0 else None
        t, edge = self.value / math.sqrt(self.variance), t_quantile(self.df, _EDGE)
        hall = _transformed(t, self._skewness(_MOST_BY_CHANCE), edge)
        least = min(abs(t), math.copysign(1.0, t) * hall)
        return min(1.0, 2 * float(stdtr(self.df, -least)))


def _transformed(t: float, skewness: float, edge: float) -> float:
    """Return Hall's function of a t-ratio, whose distribution is less skewed."""
    # up to where a 95 % interval ends; far out, where small p-values lie, the function is flat, and
    # nothing speaks for its form, so that a difference of thirty errors would be one of three
    inside = min(
        max(t, _untransformed(-edge, skewness, edge)), _untransformed(edge, skewness, edge)
    )
    return (
        inside + skewness * inside**2 / 3 + skewness**2 * inside**3 / 27 + skewness / 6 + t - inside
    )


def _untransformed(t: float, skewness: float, edge: float) -> float:
    # the limit for no skewness, where the quotient would lose its digits
    if abs(skewness) < _SYMMETRIC:
        return t
    inside = min(max(t, -edge), edge)
    return 3 * (float(np.cbrt(1 + skewness * (inside - skewness / 6))) - 1) / skewness + t - inside


def weight_named(name: str) -> Weight:
    """Return what a mean is over; raise `UnknownName` for anything else."""
    for weight in MEANS_OVER:
        if name == weight:
            return weight
    raise UnknownName("weight", name, list(MEANS_OVER))


def row_weights(groups: Codes, weight: Weight) -> Floats:
    """Return the weight of each row: 1, or its part of its source's weight of 1, shape (n,)."""
    if weight_named(weight) == "texts":
        return np.ones(len(groups))
    return np.asarray(1.0 / np.bincount(groups)[groups])


def mean_over(weight: Weight, values: Floats, groups: Codes, count: int) -> Linearized:
    """Return the mean over sources or over texts; arguments as of `mean_over_groups`."""
    if weight_named(weight) == "texts":
        return weighted_mean(values, groups, np.ones(len(values)), count)
    return mean_over_groups(values, groups, count)


def mean_over_groups(values: Floats, groups: Codes, count: int) -> Linearized:
    """Return the mean over sources of each source's mean; `count` is their number in the table."""
    sizes = np.bincount(groups, minlength=count)
    present = sizes > 0
    means = np.bincount(groups, weights=values, minlength=count)[present] / sizes[present]
    # fsum rounds once, so the order of the sources cannot change the last digits of a mean, and
    # equal runs compare as equal
    center = math.fsum(means) / len(means)
    influence = np.zeros(count)
    influence[present] = (means - center) / len(means)
    return Linearized(center, influence, len(means))


def weighted_mean(values: Floats, groups: Codes, weights: Floats, count: int) -> Linearized:
    """Return the weighted mean of rows as a ratio of two sums over sources."""
    shares = np.bincount(groups, weights=weights, minlength=count)
    total = float(shares.sum())
    center = float(weights @ values) / total
    influence = np.bincount(groups, weights=weights * (values - center), minlength=count) / total
    return Linearized(center, influence, int((shares > 0).sum()), shares=shares / total)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's adjusted p-values in the order given; `None` stays and does not count.

    References:
        Holm, "A simple sequentially rejective multiple test procedure" (1979).
    """
    known = [at for at, p in enumerate(p_values) if p is not None]
    known.sort(key=lambda at: p_values[at] or 0.0)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(known):
        # the running maximum keeps the order of the p-values: without it the factor that falls
        # from step to step could make a larger p-value the smaller one
        highest = max(highest, min(1.0, (len(known) - rank) * (p_values[at] or 0.0)))
        adjusted[at] = highest
    return adjusted


def tie_groups(values: Sequence[float], differ: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the best and worst rank of each item that the tests leave open; rank 1 is highest.

    Args:
        values: Value of each item.
        differ: Pairs of items whose difference is significant.
    """
    above, below = [0] * len(values), [0] * len(values)
    for a, b in differ:
        lower, higher = (a, b) if values[a] < values[b] else (b, a)
        above[lower] += 1
        below[higher] += 1
    return [(1 + above[at], len(values) - below[at]) for at in range(len(values))]


def paired_ranks(
    values: Sequence[float], tests: Sequence[tuple[int, int, float | None]], alpha: float
) -> list[tuple[int, int]] | None:
    """Return best and worst rank of each item by tests of pairs; `None` if none could be tested."""
    # without any test every rank would be open, which would read like a finding
    if all(p is None for *_, p in tests):
        return None
    return tie_groups(values, [(a, b) for a, b, p in tests if p is not None and p < alpha])


def rank_range(rank: tuple[int, int] | None) -> str | None:
    """Return best and worst rank as text; one that the tests settle is not written `2-2`."""
    return None if rank is None else "-".join(map(str, dict.fromkeys(rank)))
