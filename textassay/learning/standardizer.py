"""Standardizes features and fills their gaps, within bounds of the training rows.

Bounds keep an outlier among new rows from dominating a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.arrays import Floats, Mask


@dataclass(frozen=True, slots=True)
class Standardizer:
    """Converts features with gaps to standardized features without gaps."""

    means: Floats
    """Mean of each feature, which fills its gaps, shape (features,)."""
    inverse_sds: Floats
    """1 / standard deviation; 0 for features that do not vary."""
    low: Floats
    """Values below are clipped to this, shape (features,); -inf without a bound."""
    high: Floats
    """Values above are clipped to this; inf without a bound."""

    @classmethod
    def learn(cls, x: Floats) -> Standardizer:
        """Learn from training rows, shape (n, features), NaN for gaps.

        The bounds are the training range, or the median plus or minus 4 interquartile ranges where
        that is narrower and half of the values differ enough to have such a range.
        """
        width = x.shape[1]
        means, inverse = np.zeros(width), np.zeros(width)
        low, high = np.full(width, -np.inf), np.full(width, np.inf)
        for column in range(width):
            there = x[~np.isnan(x[:, column]), column]
            if len(there) and there.min() == there.max():
                means[column] = there[0]
            elif len(there):
                # bounds first, so that an outlier cannot change the scale of the other values
                low[column], high[column] = _bounds(there)
                clipped = np.clip(there, low[column], high[column])
                means[column], sd = clipped.mean(), float(clipped.std())
                # a spread below the smallest normal double would overflow its inverse
                inverse[column] = 1 / sd if sd > np.finfo(float).tiny else 0.0
        return cls(means, inverse, low, high)

    def __call__(self, x: Floats, *, keep_gaps: bool = False) -> Floats:
        """Return standardized features; gaps are 0, or NaN with `keep_gaps`."""
        clipped = np.clip(x, self.low, self.high)
        if not keep_gaps:
            clipped = np.where(np.isnan(clipped), self.means, clipped)
        return np.asarray((clipped - self.means) * self.inverse_sds, float)

    def beyond(self, x: Floats) -> Mask:
        """Return a mask of the values outside of the bounds of varying features."""
        return np.asarray(((x < self.low) | (x > self.high)) & (self.inverse_sds > 0), bool)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; a feature without bounds has `null`."""
        return {
            "means": self.means.tolist(),
            "inverse_sds": self.inverse_sds.tolist(),
            "bounds": [
                [low, high] if np.isfinite(low) else None
                for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True)
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Standardizer:
        means, inverse = np.array(data["means"], float), np.array(data["inverse_sds"], float)
        ends = [bounds or (-np.inf, np.inf) for bounds in data["bounds"]]
        low, high = np.array(ends, float).reshape(-1, 2).T
        return cls(means, inverse, low, high)


def _bounds(values: Floats, ranges: float = 4.0) -> tuple[float, float]:
    """Return the ends of the values, or of some interquartile ranges around the median."""
    lowest, highest = float(values.min()), float(values.max())
    lower, median, upper = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    reach = ranges * (upper - lower)
    if reach == 0:  # most values are equal: the others distinguish rows and are not outliers
        return lowest, highest
    return max(lowest, median - reach), min(highest, median + reach)
