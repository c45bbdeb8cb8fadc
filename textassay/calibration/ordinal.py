"""Cumulative-link regression.

A probability for each rating of the raters' grid, given the judge's score.

Knows arrays. P(rating <= k) = logistic(threshold_k - slope * score), with increasing thresholds.

References:
    McCullagh, "Regression models for ordinal data", JRSS B 42 (1980).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from textassay.meta.correlation import Floats

_PENALTY = 1e-3
"""Ridge penalty on the slope per unit of standardized score; keeps it finite if ratings
separate."""


@dataclass(frozen=True, slots=True)
class Ordinal:
    """A proportional odds model.

    Attributes:
        grid: Ratings that raters gave, increasing, shape (k,).
        thresholds: Increasing, shape (k - 1,).
        slope: Log odds of a higher rating per point of score.
    """

    grid: Floats
    thresholds: Floats
    slope: float

    def distribution(self, scores: Floats) -> Floats:
        """Return the probability of each rating, shape (n, k); a row sums to 1."""
        below = expit(self.thresholds[None, :] - self.slope * np.asarray(scores)[:, None])
        padded = np.concatenate([np.zeros((len(below), 1)), below, np.ones((len(below), 1))], 1)
        return np.asarray(np.diff(padded, axis=1))

    def predict(self, scores: Floats) -> Floats:
        """Return the expected rating, shape (n,)."""
        return np.asarray(self.distribution(scores) @ self.grid)

    def mode(self, scores: Floats) -> Floats:
        """Return the most probable rating, shape (n,)."""
        return np.asarray(self.grid[self.distribution(scores).argmax(axis=1)])

    def smallest_set(self, score: float, coverage: float) -> Floats:
        """Return the fewest ratings whose probabilities reach `coverage`, increasing."""
        shares = self.distribution(np.array([score]))[0]
        order = np.argsort(-shares, kind="stable")
        count = int(np.searchsorted(np.cumsum(shares[order]), coverage)) + 1
        return np.asarray(np.sort(self.grid[order[:count]]))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "kind": "ordinal",
            "grid": self.grid.tolist(),
            "thresholds": self.thresholds.tolist(),
            "slope": self.slope,
        }


def fit_ordinal(scores: Floats, ratings: Floats, weights: Floats | None = None) -> Ordinal:
    """Return the model of the highest likelihood.

    Args:
        scores: Judge's scores, shape (n,), no NaN.
        ratings: Single ratings or means, shape (n,); each distinct value is one rung of the grid.
        weights: Weight of each row, shape (n,); a rater's share if a row occurs once per rater.
    """
    grid, codes = np.unique(ratings, return_inverse=True)
    if len(grid) == 1:
        return Ordinal(grid, np.empty(0), 0.0)
    weight = np.ones(len(codes)) if weights is None else weights
    # standardized scores make the penalty mean the same on any scale of the judge
    center, spread = float(scores.mean()), float(scores.std()) or 1.0
    cells, cell_of = np.unique(scores, return_inverse=True)
    counts = np.zeros((len(cells), len(grid)))
    np.add.at(counts, (cell_of, codes), weight)
    model = _Likelihood((cells - center) / spread, counts)
    solution = minimize(model, model.start(), jac=True, method="L-BFGS-B")
    thresholds, slope = model.unpack(solution.x)
    return Ordinal(grid, thresholds + slope * center / spread, slope / spread)


class _Likelihood:
    """Negative log-likelihood over counts by score and rating, with its gradient."""

    def __init__(self, scores: Floats, counts: Floats) -> None:
        self._scores, self._counts, self._total = scores, counts, counts.sum()

    def start(self) -> Floats:
        shares = np.cumsum(self._counts.sum(axis=0))[:-1] / self._total
        thresholds = np.log(shares / (1 - shares))
        # steps in log space keep the thresholds increasing whatever the optimizer tries, so no
        # constraint is needed
        return np.concatenate([thresholds[:1], np.log(np.diff(thresholds)), [0.0]])

    @staticmethod
    def unpack(packed: Floats) -> tuple[Floats, float]:
        # thresholds that are e^30 apart separate two ratings completely; trial steps of the line
        # search beyond that could only overflow
        steps = np.concatenate([packed[:1], np.exp(np.minimum(packed[1:-1], 30.0))])
        return np.cumsum(steps), float(packed[-1])

    def __call__(self, packed: Floats) -> tuple[float, Floats]:
        thresholds, slope = self.unpack(packed)
        below = expit(thresholds[None, :] - slope * self._scores[:, None])
        edge = np.zeros((len(below), 1))
        padded = np.concatenate([edge, below, edge + 1], axis=1)
        shares = np.maximum(np.diff(padded, axis=1), 1e-12)
        value = -float((self._counts * np.log(shares)).sum()) / self._total
        ratio, density = self._counts / shares, below * (1 - below)
        by_threshold = -(ratio[:, :-1] - ratio[:, 1:]) * density / self._total
        first = by_threshold.sum(axis=0)
        # a step moves its own threshold and every later one
        steps = np.concatenate([[1.0], np.exp(np.minimum(packed[1:-1], 30.0))])
        gradient = np.append(
            np.cumsum(first[::-1])[::-1] * steps,
            -(by_threshold.sum(axis=1) @ self._scores) + _PENALTY * slope,
        )
        return value + _PENALTY * slope**2 / 2, gradient
