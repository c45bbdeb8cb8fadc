"""Compares two scores of each text: the mean difference over sources, with sign-flip tests.

Works on arrays and codes of sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from textassay.arrays import Codes, Floats
from textassay.estimation.means import Linearized, MeanUnit, mean_over
from textassay.table import Estimate

FLIPS = 9_999
"""Random sign flips behind a p-value, if there are too many to try them all."""
NO_SPREAD = 1e-24
"""Variance of differences that are equal up to rounding."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Scores `a` minus scores `b`."""

    n: int
    """Rows with both scores."""
    groups: int
    """Sources among them."""
    a: float
    """Mean of the first, over sources or rows."""
    b: float
    """Mean of the second, over sources or rows."""
    difference: Linearized
    """Mean of the sources' mean differences, or of the rows' differences."""
    p: float | None
    """Two-sided p-value: the larger one of the sign-flip test (hypothesis: a source's difference is
    as likely as its opposite) and of the interval's test of a mean of 0; `None` with fewer than two
    sources.
    """
    wins: int
    """Rows where the first is higher."""
    ties: int
    """Rows where both are equal."""
    losses: int
    """Rows where the second is higher."""

    def estimate(self, confidence: float) -> Estimate:
        """Return the difference with its interval; without one if a few sources differ equally.

        The interval would have length 0 and exclude 0 where the sign-flip test does not.
        """
        estimate = self.difference.estimate(confidence)
        is_same = self.difference.variance <= NO_SPREAD < self.difference.value**2
        if is_same and self.p is not None and self.p > 1 - confidence:
            return Estimate(estimate.value)
        return estimate


def paired_difference(
    a: Floats, b: Floats, groups: Codes, *, seed: int = 0, weight: MeanUnit = "sources"
) -> PairedDifference:
    """Compare two scores of each row.

    Args:
        a: Shape (n,), no NaN.
        b: Shape (n,), no NaN.
        groups: Code of each row's source, shape (n,).
        seed: Seed of the random flips.
        weight: Whether sources or rows have equal weights.
    """
    delta = a - b
    difference = mean_over(weight, delta, groups)
    sizes = np.bincount(groups)
    # a flip changes the sign of a source's contribution to the mean: its own mean, or the sum of
    # its rows
    parts = np.asarray(np.bincount(groups, weights=delta)[sizes > 0], float)
    flipped = parts if weight == "texts" else parts / sizes[sizes > 0]
    p = None
    if difference.clusters > 1:
        # skewed differences with mean 0 are not symmetric, so the flips alone report a difference
        # too often; the interval's test allows for skewness
        p = max(sign_flip_p(flipped, seed=seed), difference.p_value() or 0.0)
    return PairedDifference(
        n=len(delta), groups=difference.clusters, a=mean_over(weight, a, groups).value,
        b=mean_over(weight, b, groups).value, difference=difference, p=p,
        wins=int((delta > 0).sum()), ties=int((delta == 0).sum()), losses=int((delta < 0).sum()),
    )  # fmt: skip


def sign_flip_p(values: Floats, *, seed: int = 0) -> float:
    """Return the two-sided p-value of values being symmetric around 0.

    Up to 14 values, all flips are tried; up to 2,000 values, 9,999 random flips, with the data as
    one more. Beyond that, the sum of the flips is treated as normal with its exact variance.
    """
    # under the null hypothesis a source's difference is as likely to have the other sign (the two
    # sides are exchangeable), so flips give the exact distribution without assuming normality
    observed = abs(float(values.sum()))
    # sums of flips that are equal in theory differ in the last digits; without a tolerance such
    # ties are lost and p is too small
    slack = 1e-12 * float(np.abs(values).sum())
    if observed <= slack:
        return 1.0
    # with more than 2,000 values the sum of the flips is practically normal
    if len(values) > 2_000:
        z = observed / math.sqrt(float(values @ values))
        return math.erfc(z / math.sqrt(2))
    if len(values) <= 14:
        codes = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
        sums = (1 - 2 * codes) @ values
        return float(np.mean(np.abs(sums) >= observed - slack))
    # as many flips at once as fit a temporary array of two million numbers
    rng, extreme, step = np.random.default_rng(seed), 0, max(1, 2_000_000 // len(values))
    for start in range(0, FLIPS, step):
        size = min(step, FLIPS - start)
        signs = rng.integers(0, 2, size=(size, len(values)), dtype=np.int8)
        # signs are 0 and 1 to save memory: twice their sum minus the total equals the sum with -1
        # and 1
        sums = signs @ values * 2 - values.sum()
        extreme += int((np.abs(sums) >= observed - slack).sum())
    # the data are one of the flips, so p is never 0 and the test stays valid with random flips
    return (extreme + 1) / (FLIPS + 1)
