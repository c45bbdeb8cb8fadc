"""Estimates with intervals, and adjustments for several tests at once.

Holm's p-values and groups of ties.

Knows numbers. All intervals are symmetric t-intervals over sources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr

from textassay.meta.correlation import Codes, Floats
from textassay.meta.intervals import t_quantile


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


@dataclass(frozen=True, slots=True)
class Linearized:
    """An estimate as a sum over sources, from which its variance and that of differences follow.

    Attributes:
        value: The estimate.
        influence: What each source adds to its error, shape (sources,); 0 for sources without rows.
        clusters: Number of independent sources behind it: those with ratings, if it uses any.
        unseen: Variance of what the sources do not show, such as errors too rare to be among the
            rated rows.
    """

    value: float
    influence: Floats
    clusters: int
    unseen: float = 0.0

    @property
    def variance(self) -> float:
        """Squared standard error, with the correction for few sources; NaN below two."""
        if self.clusters < 2:
            return math.nan
        # influences are deviations from a center estimated from the same sources, so the plain sum
        # of squares is too small by (G - 1) / G
        spread = float(self.influence @ self.influence) * self.clusters / (self.clusters - 1)
        return spread + self.unseen

    def estimate(self, confidence: float) -> Estimate:
        """Return the value with its t-interval on `clusters - 1` degrees of freedom."""
        if self.clusters < 2:
            return Estimate(self.value)
        # Student's t rather than a normal quantile: rated sources are often fewer than thirty, and
        # 1.96 would give intervals that hold far less than promised
        half = t_quantile(self.clusters - 1, confidence) * math.sqrt(self.variance)
        return Estimate(self.value, self.value - half, self.value + half)

    def minus(self, other: Linearized) -> Linearized:
        """Return the difference; the errors of shared sources cancel as far as they agree."""
        return Linearized(
            self.value - other.value,
            self.influence - other.influence,
            min(self.clusters, other.clusters),
            self.unseen + other.unseen,
        )

    def p_value(self) -> float | None:
        """Return the two-sided p-value of the value being 0; `None` if undefined.

        If all sources agree to the last digit, nothing shows how far others would differ.
        """
        if self.clusters < 2:
            return None
        if self.variance == 0:
            return 1.0 if self.value == 0 else None
        t = abs(self.value) / math.sqrt(self.variance)
        return min(1.0, 2 * float(stdtr(self.clusters - 1, -t)))


def mean_over_groups(values: Floats, groups: Codes, count: int) -> Linearized:
    """Return the mean over sources of each source's mean.

    Args:
        values: Shape (n,), no NaN.
        groups: Code of each row's source, shape (n,).
        count: Number of sources of the table; the length of the influence.
    """
    sizes = np.bincount(groups, minlength=count)
    present = sizes > 0
    means = np.bincount(groups, weights=values, minlength=count)[present] / sizes[present]
    # fsum rounds once, so the order of the sources cannot change the last digits of a mean, and
    # equal runs compare as equal
    center = math.fsum(means) / len(means)
    influence = np.zeros(count)
    influence[present] = (means - center) / len(means)
    return Linearized(center, influence, len(means))


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
    """Return the range of ranks of each item; `None` if no pair could be tested.

    Args:
        values: Value of each item.
        tests: Pairs of items with the adjusted p-value of their difference.
        alpha: Level below which a difference is significant.
    """
    # without any test every rank would be open, which would read like a finding
    if all(p is None for *_, p in tests):
        return None
    return tie_groups(values, [(a, b) for a, b, p in tests if p is not None and p < alpha])


def rank_range(rank: tuple[int, int] | None) -> str | None:
    """Return best and worst rank as text; one that the tests settle is not written `2-2`."""
    return None if rank is None else "-".join(map(str, dict.fromkeys(rank)))
