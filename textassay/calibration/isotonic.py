"""Monotone and straight maps from a judge's scores to people's ratings.

Knows two arrays. Every map is a curve through a few points: constant beyond them, straight between.

References:
    Barlow and Brunk, "The isotonic regression problem and its dual", JASA 67 (1972).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from textassay.meta.correlation import Floats


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A monotone curve: equal on a pooled block of scores, straight between blocks.

    Attributes:
        scores: Judge's scores at the ends of the blocks, increasing, shape (knots,).
        ratings: Rating at each of them, monotone, shape (knots,).
    """

    scores: Floats
    ratings: Floats

    def predict(self, scores: Floats) -> Floats:
        """Return ratings, shape (n,); beyond the ends the value at the end, NaN if unscored."""
        return np.asarray(np.interp(scores, self.scores, self.ratings))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "kind": "isotonic",
            "scores": self.scores.tolist(),
            "ratings": self.ratings.tolist(),
        }


@dataclass(frozen=True, slots=True)
class ClippedLine:
    """A straight line, clipped to the ratings that it was learned from.

    Attributes:
        slope: Points of rating per point of score.
        intercept: Rating at a score of 0.
        low: Lowest value it returns.
        high: Highest value it returns.
        kind: `linear`, or `shift` if the slope was given by the scales rather than learned.
    """

    slope: float
    intercept: float
    low: float
    high: float
    kind: str = "linear"

    def predict(self, scores: Floats) -> Floats:
        """Return ratings, shape (n,); NaN if unscored."""
        return np.asarray(np.clip(self.intercept + self.slope * scores, self.low, self.high))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "kind": self.kind,
            "slope": self.slope,
            "intercept": self.intercept,
            "low": self.low,
            "high": self.high,
        }


def fit_isotonic(scores: Floats, ratings: Floats, weights: Floats | None = None) -> Isotonic:
    """Return the monotone curve with the least squared error, by pool adjacent violators.

    It falls if scores and ratings are negatively correlated, as with an error rate.

    Args:
        scores: Judge's scores, shape (n,), no NaN.
        ratings: People's ratings, shape (n,), no NaN.
        weights: How many rows each stands for, shape (n,); `None` if all stand for the same.
    """
    weight = np.ones(len(scores)) if weights is None else weights
    # rows of equal score are pooled first: a function of the score gives them one rating anyway,
    # and pool adjacent violators would otherwise depend on their order
    levels, at = np.unique(scores, return_inverse=True)
    counts = np.bincount(at, weights=weight)
    means = np.bincount(at, weights=weight * ratings) / counts
    fitted = isotonic_regression(means, weights=counts, increasing=_rises(scores, ratings)).x
    # only the ends of a flat block are kept; points inside add nothing to the interpolation
    edge = np.ones(len(levels), bool)
    edge[1:-1] = (fitted[1:-1] != fitted[:-2]) | (fitted[1:-1] != fitted[2:])
    return Isotonic(levels[edge], fitted[edge])


def fit_line(
    scores: Floats,
    ratings: Floats,
    weights: Floats | None = None,
    *,
    bounds: tuple[float, float],
) -> ClippedLine:
    """Return the least squares line; flat at the mean rating if the scores are constant."""
    weight = np.ones(len(scores)) if weights is None else weights
    middle, level = _mean(scores, weights), _mean(ratings, weights)
    centered = scores - middle
    square = float(weight * centered @ centered)
    slope = float(weight * centered @ ratings) / square if square > 0 else 0.0
    return ClippedLine(slope, level - slope * middle, *bounds)


def fit_shift(
    scores: Floats,
    ratings: Floats,
    weights: Floats | None = None,
    *,
    bounds: tuple[float, float],
    slope: float = 1.0,
) -> ClippedLine:
    """Return the line of a given slope that goes through the means.

    Args:
        scores: Judge's scores, shape (n,).
        ratings: People's ratings, shape (n,).
        weights: How many rows each stands for, shape (n,); `None` if all stand for the same.
        bounds: Lowest and highest rating that it may return.
        slope: Length of the raters' scale over that of the judge's scale.
    """
    level = _mean(ratings, weights) - slope * _mean(scores, weights)
    return ClippedLine(slope, level, *bounds, kind="shift")


def _mean(values: Floats, weights: Floats | None) -> float:
    return float(values.mean() if weights is None else np.average(values, weights=weights))


def _rises(scores: Floats, ratings: Floats) -> bool:
    # the sign of the covariance fixes the direction beforehand: fitting both and taking the better
    # would find a monotone trend in noise
    return float((scores - scores.mean()) @ (ratings - ratings.mean())) >= 0
