"""Means with intervals that treat the source as the unit that was sampled.

Pure functions on arrays. Rows that share a source are alike, so an interval over rows would be too
narrow: the variance is taken over the totals of the sources.

References:
    Cameron and Miller, "A practitioner's guide to cluster-robust inference", Journal of Human
    Resources 50 (2015), equation 11 for a mean, with t quantiles at sources minus 1 degrees of
    freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from textassay.calibration.intervals import Linearized
from textassay.meta.correlation import Floats
from textassay.runtime.messages import Scale

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of scores.

    Attributes:
        n: Number of values.
        groups: Number of sources; `n` if rows have none.
        value: The mean.
        low: Lower end of the 95 % interval; `None` below two sources.
        high: Upper end; `None` below two sources.
        counts: Number of values in each of the equal bins of a histogram.
    """

    n: int
    groups: int
    value: float
    low: float | None
    high: float | None
    counts: tuple[int, ...]


def mean_of(
    values: Floats,
    groups: Sequence[str | None],
    *,
    bins: int,
    span: tuple[float, float],
    scale: Scale | None = None,
) -> Mean | None:
    """Return the mean with its interval and a histogram, or `None` if there is no value.

    Args:
        values: Shape (n,); NaN is left out.
        groups: Source of each value, length n; a row without one is a source of its own.
        bins: Number of bins of the histogram.
        span: Lowest and highest value of the histogram.
        scale: The interval is cut at the ends of the scale, as `textassay estimate` cuts it; `None`
            if unbounded.
    """
    kept = np.flatnonzero(~np.isnan(values))
    if not len(kept):
        return None
    value = math.fsum(values[kept]) / len(kept)
    totals: dict[object, float] = {}
    for at in kept:
        key = groups[int(at)] if groups[int(at)] is not None else int(at)
        # deviations are summed within a source before they are squared, as in calibration: texts
        # of one source are not independent
        totals[key] = totals.get(key, 0.0) + float(values[at]) - value
    influence = np.fromiter(totals.values(), float) / len(kept)
    estimate = Linearized(value, influence, len(totals)).estimate(CONFIDENCE)
    if scale is not None:
        estimate = estimate.clipped(*scale)
    # clipped, so that values off the axis are counted in the last bins and not lost
    counts, _ = np.histogram(np.clip(values[kept], *span), bins=bins, range=span)
    return Mean(len(kept), len(totals), value, estimate.low, estimate.high, tuple(map(int, counts)))
