"""Weighted sums: least squares, non-negative least squares and ridge regression.

Knows standardized arrays. Penalties are chosen by cross-validation grouped by source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.learning.splits import folds
from textassay.learning.training import Floats, Learned, Training, dot
from textassay.runtime.errors import DataError

PENALTIES: tuple[float, ...] = tuple(10.0 ** (step / 2) for step in range(-8, 5))
"""Ridge penalties to try, per row."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A weighted sum.

    Attributes:
        weights: Shape (features,).
        intercept: Value where every feature is at its mean.
    """

    weights: Floats
    intercept: float

    def predict(self, features: Floats) -> Floats:
        """Return predictions, shape (n,)."""
        return dot(features, self.weights) + self.intercept

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return each feature's weight times its distance from its mean.

        The Shapley values of a sum.
        """
        return features * self.weights, self.intercept

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"kind": "linear", "weights": self.weights.tolist(), "intercept": self.intercept}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Linear:
        """Build from `to_dict`."""
        return cls(np.array(data["weights"], float), float(data["intercept"]))


def learn_linear(training: Training) -> Learned:
    """Least squares; of all solutions the one of least norm where features repeat each other."""
    features, target, intercept = _centered(training)
    weights = np.asarray(np.linalg.lstsq(features, target, rcond=None)[0], dtype=np.float64)
    return Learned(_around_means(weights, intercept, training), {})


def learn_nnls(training: Training) -> Learned:
    """Least squares with weights of at least 0: no feature may count against its own direction.

    Raises:
        DataError: Every weight is 0.
    """
    from scipy.optimize import nnls  # heavy, so on first use

    features, target, intercept = _centered(training)
    weights = nnls(features, target)[0]
    if not weights.any():
        raise DataError(
            "nnls gives every feature the weight 0: none rises with the ratings; use 'ridge'"
        )
    return Learned(_around_means(weights, intercept, training), {})


def learn_ridge(training: Training) -> Learned:
    """Ridge regression; its penalty has the least squared error over folds of groups."""
    penalty = _best_penalty(training)
    return Learned(_ridge(training, [penalty])[0], {"penalty_per_row": penalty})


def _best_penalty(training: Training) -> float:
    fold = folds(training.groups, 5, seed=training.seed)
    errors = np.zeros(len(PENALTIES))
    for held_out in range(int(fold.max()) + 1):
        inside, outside = training.rows(fold != held_out), training.rows(fold == held_out)
        for index, model in enumerate(_ridge(inside, PENALTIES)):
            errors[index] += ((model.predict(outside.features) - outside.target) ** 2).sum()
    return PENALTIES[int(errors.argmin())]


def _ridge(training: Training, penalties: Iterable[float]) -> list[Linear]:
    features, target, intercept = _centered(training)
    # one eigendecomposition serves every penalty, so thirteen of them cost about as much as one
    variances, axes = np.linalg.eigh(features.T @ features)
    along = axes.T @ (features.T @ target)
    shrunk = [
        # the penalty grows with the rows, so that one chosen on folds fits all of the rows
        axes @ (along / (np.maximum(variances, 0) + penalty * len(target)))
        for penalty in penalties
    ]
    return [
        _around_means(np.asarray(weights, dtype=np.float64), intercept, training)
        for weights in shrunk
    ]


def _centered(training: Training) -> tuple[Floats, Floats, float]:
    mean = float(training.target.mean())
    return training.features - training.features.mean(axis=0), training.target - mean, mean


def _around_means(weights: Floats, mean: float, training: Training) -> Linear:
    """Move the intercept from the rows' means to 0, where the whole training data have theirs."""
    return Linear(weights, mean - float(training.features.mean(axis=0) @ weights))
