"""Compares two runs that share only a part of their sources.

There are two differences: D1 of the shared sources, which are paired, and D2 of the other sources,
as independent samples. No source is in both, so they are independent, and the estimate is `w D1 +
(1 - w) D2` with variance `w^2 V1 + (1 - w)^2 V2`, whose degrees of freedom are Satterthwaite's. The
weight w that makes the variance smallest is `P2 / (P1 + P2)` with the variances of both parts that
follow from the variance of the sources on either side and their correlation on shared sources: P1
is `(sA^2 + sB^2 - 2 r sA sB) / n` for n shared sources, and P2 is `sA^2 / nA + sB^2 / nB`. The
correlation r is reduced by one standard error (by Fisher's z), and is 0 for fewer than four shared
sources: a few sources that agree by chance would otherwise have all the weight.

References:
    Looney and Jones, "A method for comparing two normal means using combined samples of correlated
    and uncorrelated data" (2003); Samawi and Vogel, "Notes on two sample tests for partially
    correlated (paired) data" (2014), for weighting the two differences; Satterthwaite (1946).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from textassay.agreement.intervals import t_quantile
from textassay.arrays import Floats
from textassay.estimation.means import Linearized
from textassay.estimation.paired import NO_SPREAD, PairedDifference
from textassay.table import Estimate

_FEWEST_CORRELATED = 4
"""Fewest pairs whose correlation has a standard error (by Fisher's z)."""


@dataclass(frozen=True, slots=True)
class UnpairedMeans:
    """Means of two sets of texts without shared sources."""

    first: Linearized
    second: Linearized
    of_first: Floats
    """The mean of each source, shape (sources,)."""
    of_second: Floats
    sources: int
    """Number of sources in both samples together."""


@dataclass(frozen=True, slots=True)
class JointDifference:
    """The weighted mean of two independent differences."""

    weight: float
    """Weight of the paired part."""
    value: float
    variance: float
    df: float

    def weigh(self, paired: float, unpaired: float) -> float:
        """Return the weighted mean of two numbers."""
        return self.weight * paired + (1 - self.weight) * unpaired

    def estimate(self, confidence: float) -> Estimate:
        """Return the difference with its t-interval."""
        if self.variance <= NO_SPREAD:
            return Estimate(self.value)
        half = t_quantile(self.df, confidence) * math.sqrt(self.variance)
        return Estimate(self.value, self.value - half, self.value + half)

    def p_value(self) -> float | None:
        """Return the two-sided p-value of the difference being 0; `None` without an interval."""
        if self.variance <= NO_SPREAD:
            return None
        return min(1.0, 2 * float(stdtr(self.df, -abs(self.value) / math.sqrt(self.variance))))


def combine(paired: PairedDifference, a: Floats, b: Floats, rest: UnpairedMeans) -> JointDifference:
    """Combine the difference of shared sources with the difference of the others.

    Args:
        paired: The difference over shared sources.
        a: Mean of the first run on each shared source, shape (n,).
        b: Mean of the second, shape (n,).
        rest: Both runs on the sources that are not shared.
    """
    n = len(a)
    every = np.concatenate([a, rest.of_first]), np.concatenate([b, rest.of_second])
    first, second = (float(np.var(values, ddof=1)) for values in every)
    agreeing = 2 * _lower_correlation(a, b) * math.sqrt(first * second)
    planned = (first + second - agreeing) / n
    planned_rest = first / len(rest.of_first) + second / len(rest.of_second)
    total = planned + planned_rest
    weight = planned_rest / total if total > NO_SPREAD else n / (n + rest.sources)
    # a few shared sources show little of their own variance, which is at most the variance of
    # uncorrelated sides
    is_known = n >= _FEWEST_CORRELATED
    variance = paired.difference.variance if is_known else (first + second) / n
    df = paired.difference.df if is_known else len(every[0]) + len(every[1]) - 2.0
    of_rest = rest.first.variance + rest.second.variance
    parts = (weight**2 * variance, df), ((1 - weight) ** 2 * of_rest, _welch_df(rest))
    whole = sum(part for part, _ in parts)
    return JointDifference(
        weight,
        weight * paired.difference.value + (1 - weight) * (rest.first.value - rest.second.value),
        whole,
        whole**2 / sum(part**2 / df for part, df in parts) if whole > NO_SPREAD else 1.0,
    )


def _lower_correlation(a: Floats, b: Floats) -> float:
    """Return Pearson's correlation less one standard error, between 0 and 1."""
    if len(a) < _FEWEST_CORRELATED or not (np.ptp(a) and np.ptp(b)):
        return 0.0
    r = min(float(np.corrcoef(a, b)[0, 1]), 1 - 1e-9)
    return max(0.0, math.tanh(math.atanh(r) - 1 / math.sqrt(len(a) - 3)))


def _welch_df(sides: UnpairedMeans) -> float:
    """Return the degrees of freedom of the difference of two independent means."""
    first, second = sides.first, sides.second
    whole = first.variance + second.variance
    if whole <= NO_SPREAD:
        return max(first.df, second.df)
    return whole**2 / (first.variance**2 / first.df + second.variance**2 / second.df)
