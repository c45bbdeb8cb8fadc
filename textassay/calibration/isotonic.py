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

from textassay.meta.ranks import Floats


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
        """Return ratings, shape (n,); beyond the ends the value at the end, NaN where unscored."""
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
        """Return ratings, shape (n,); NaN where unscored."""
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


def fit_isotonic(scores: Floats, ratings: Floats) -> Isotonic:
    """Return the monotone curve with the least squared error, by pool adjacent violators.

    It falls if scores and ratings are negatively correlated, as with an error rate.

    Args:
        scores: Judge's scores, shape (n,), no NaN.
        ratings: People's ratings, shape (n,), no NaN.
    """
    levels, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    means = np.bincount(at, weights=ratings) / counts
    fitted = isotonic_regression(
        means, weights=counts.astype(float), increasing=_rises(scores, ratings)
    ).x
    edge = np.ones(len(levels), bool)
    edge[1:-1] = (fitted[1:-1] != fitted[:-2]) | (fitted[1:-1] != fitted[2:])
    return Isotonic(levels[edge], fitted[edge])


def fit_line(scores: Floats, ratings: Floats, *, bounds: tuple[float, float]) -> ClippedLine:
    """Return the least squares line; flat at the mean rating if the scores are constant."""
    centered = scores - scores.mean()
    square = float(centered @ centered)
    slope = float(centered @ ratings) / square if square > 0 else 0.0
    return ClippedLine(slope, float(ratings.mean() - slope * scores.mean()), *bounds)


def fit_shift(
    scores: Floats, ratings: Floats, *, bounds: tuple[float, float], slope: float = 1.0
) -> ClippedLine:
    """Return the line of a given slope that goes through the means.

    Args:
        scores: Judge's scores, shape (n,).
        ratings: People's ratings, shape (n,).
        bounds: Lowest and highest rating that it may return.
        slope: Length of the raters' scale over that of the judge's scale.
    """
    return ClippedLine(slope, float(ratings.mean() - slope * scores.mean()), *bounds, kind="shift")


def _rises(scores: Floats, ratings: Floats) -> bool:
    return float((scores - scores.mean()) @ (ratings - ratings.mean())) >= 0
