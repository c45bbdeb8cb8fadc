"""The difference of two sets of scores of the same texts, with the source as the unit.

Knows arrays. Scores are paired by source, so what makes a source easy for both cancels out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from textassay.calibration.intervals import Linearized, mean_over_groups
from textassay.meta.correlation import Codes, Floats

FLIPS = 9_999
"""Random sign flips behind a p-value, unless there are few enough to try them all."""
_ALL_FLIPS = 14
_NORMAL = 2_000
"""Sources from which the flips' sum is as good as normal."""
_CHUNK = 2_000_000


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Scores `a` minus scores `b`.

    Attributes:
        n: Rows with both scores.
        groups: Sources among them.
        a: Mean of the first over sources.
        b: Mean of the second over sources.
        difference: Mean of the sources' mean differences.
        p: Two-sided p-value of the sign-flip test; `None` with fewer than two sources.
        wins: Rows where the first is higher.
        ties: Rows where both are equal.
        losses: Rows where the second is higher.
    """

    n: int
    groups: int
    a: float
    b: float
    difference: Linearized
    p: float | None
    wins: int
    ties: int
    losses: int


def paired_difference(a: Floats, b: Floats, groups: Codes, *, seed: int = 0) -> PairedDifference:
    """Compare two scores of each row.

    Args:
        a: Shape (n,), no NaN.
        b: Shape (n,), no NaN.
        groups: Code of each row's source, shape (n,).
        seed: Seed of the random flips.
    """
    count = int(groups.max()) + 1
    delta = a - b
    difference = mean_over_groups(delta, groups, count)
    sizes = np.bincount(groups, minlength=count)
    means = np.bincount(groups, weights=delta, minlength=count)[sizes > 0] / sizes[sizes > 0]
    return PairedDifference(
        n=len(delta),
        groups=difference.clusters,
        a=mean_over_groups(a, groups, count).value,
        b=mean_over_groups(b, groups, count).value,
        difference=difference,
        p=sign_flip_p(means, seed=seed) if difference.clusters > 1 else None,
        wins=int((delta > 0).sum()),
        ties=int((delta == 0).sum()),
        losses=int((delta < 0).sum()),
    )


def sign_flip_p(values: Floats, *, seed: int = 0) -> float:
    """Return the two-sided p-value of values being symmetric around 0.

    Up to 14 values all flips are tried. Up to 2,000 there are 9,999 random ones, the data counted
    as one more. Beyond that the flips' sum is taken as normal with their exact variance.

    Args:
        values: One per source, shape (n,).
        seed: Seed of the random flips.
    """
    # under the null hypothesis a source's difference is as likely to have the other sign (the two
    # sides are exchangeable), so flips give the exact distribution without assuming normality
    observed = abs(float(values.sum()))
    # flips with the same sum in theory differ in the last digits; without slack such ties are lost
    # and p comes out too small
    slack = 1e-12 * float(np.abs(values).sum())
    if observed <= slack:
        return 1.0
    if len(values) > _NORMAL:
        z = observed / math.sqrt(float(values @ values))
        return math.erfc(z / math.sqrt(2))
    if len(values) <= _ALL_FLIPS:
        codes = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
        sums = (1 - 2 * codes) @ values
        return float(np.mean(np.abs(sums) >= observed - slack))
    rng, extreme, step = np.random.default_rng(seed), 0, max(1, _CHUNK // len(values))
    for start in range(0, FLIPS, step):
        size = min(step, FLIPS - start)
        signs = rng.integers(0, 2, size=(size, len(values)), dtype=np.int8)
        # signs are 0 and 1 to save memory: twice their sum less the total equals the sum with -1
        # and 1
        sums = signs @ values * 2 - values.sum()
        extreme += int((np.abs(sums) >= observed - slack).sum())
    # the data are one of the flips, so p is never 0 and the test stays valid with random flips
    return (extreme + 1) / (FLIPS + 1)
