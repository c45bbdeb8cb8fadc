"""Kernel ridge regression with a Gaussian kernel, and exact Shapley values of its predictions.

Knows standardized arrays. Smooth where trees have steps, and curved where a weighted sum cannot be,
so it errs in other ways than either. The penalty and one of two widths of the kernel have the least
squared error over folds of groups, in closed form from one eigendecomposition per width.

References:
    Saunders, Gammerman and Vovk, "Ridge regression learning algorithm in dual variables" (1998).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.learning.linear import PENALTIES
from textassay.learning.splits import Codes, folds
from textassay.learning.training import Floats, Learned, Training

MAX_ROWS = 800
"""Rows that are learned from; of more, whole groups are drawn at random."""

_WIDTHS = (1.0, 4.0)
"""Squared widths of the kernel to try, per feature that varies."""
_DECIMALS = 3
"""Decimals of the rows that the predictor keeps, in standard deviations: an evaluator stays small,
and learning sees the same values as prediction."""
_POINTS, _POINT_WEIGHTS = np.polynomial.legendre.leggauss(12)
_NUMBERS = 2_000_000
"""Numbers in memory at once."""


@dataclass(frozen=True, slots=True)
class KernelSum:
    """A weighted sum of Gaussians around training rows.

    Attributes:
        rows: Where they are, shape (m, features).
        weights: Shape (m,).
        scale: Twice the squared width.
        start: What is added to the sum.
    """

    rows: Floats
    weights: Floats
    scale: float
    start: float

    def predict(self, features: Floats) -> Floats:
        """Return predictions, shape (n,)."""
        predicted = np.empty(len(features))
        for part in _parts(len(features), self.rows.size):
            # no matrix product, which rounds differently for one row and for many
            squares = ((features[part, None, :] - self.rows) ** 2).sum(axis=2)
            predicted[part] = (np.exp(-squares / self.scale) * self.weights).sum(axis=1)
        return predicted + self.start

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return Shapley values, shape (n, features), and the prediction at the features' means.

        A feature that is not known counts as its mean, 0. A Gaussian is a product over features, so
        its Shapley value is an integral over the share of features that are known, of a polynomial
        (Owen, "Multilinear extensions of games", 1972), which Gauss-Legendre quadrature computes.
        """
        values = np.zeros(features.shape)
        unknown = np.exp(-(self.rows**2) / self.scale)
        for part in _parts(len(features), 4 * self.rows.size):
            known = np.exp(-((features[part, None, :] - self.rows) ** 2) / self.scale)
            for share, weight in zip((_POINTS + 1) / 2, _POINT_WEIGHTS / 2, strict=True):
                mixed = share * known + (1 - share) * unknown
                products = mixed.prod(axis=2) * self.weights * weight
                values[part] += (products[:, :, None] * ((known - unknown) / mixed)).sum(axis=1)
        return values, self.start + float((unknown.prod(axis=1) * self.weights).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "kind": "kernel",
            "rows": self.rows.tolist(),
            "weights": self.weights.tolist(),
            "scale": self.scale,
            "start": self.start,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> KernelSum:
        """Build from `to_dict`."""
        rows, weights = np.array(data["rows"], float), np.array(data["weights"], float)
        return cls(rows, weights, float(data["scale"]), float(data["start"]))


def learn_kernel(training: Training) -> Learned:
    """Kernel ridge regression; width and penalty have the least error over folds of groups."""
    training = _few_rows(training)
    rows = np.round(training.features, _DECIMALS)
    start = float(training.target.mean())
    target = training.target - start
    fold = folds(training.groups, 5, seed=training.seed)
    squares = (rows**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0.0)
    varying = max(1, int((rows.std(axis=0) > 0).sum()))
    least, found = np.inf, KernelSum(rows, np.zeros(len(rows)), 1.0, start)
    notes: dict[str, Any] = {}
    for width in _WIDTHS:
        scale = 2 * width * varying
        variances, axes = np.linalg.eigh(np.exp(-distances / scale))
        along = axes.T @ target
        for penalty in PENALTIES[::2]:
            inverse = 1 / (np.maximum(variances, 0) + penalty * len(target))
            weights = axes @ (along * inverse)
            error = _held_out_error(axes, inverse, weights, fold)
            if error < least:
                least, found = error, KernelSum(rows, weights, scale, start)
                notes = {"penalty_per_row": penalty, "width": width}
    return Learned(found, notes)


def _held_out_error(axes: Floats, inverse: Floats, weights: Floats, fold: Codes) -> float:
    """Return the squared error of rows whose fold is left out.

    Their residuals are the inverse of their block of (K + penalty)^-1 times their weights.
    """
    error = 0.0
    for number in range(int(fold.max()) + 1):
        block = axes[fold == number]
        residuals = np.linalg.solve((block * inverse) @ block.T, weights[fold == number])
        error += float(residuals @ residuals)
    return error


def _few_rows(training: Training) -> Training:
    """Return at most `MAX_ROWS` rows, of as few groups as have so many."""
    training = training.at_most(MAX_ROWS)
    # two groups, the fewest that can be compared, may hold any number of rows
    chosen = np.random.default_rng(training.seed).permutation(len(training.target))[:MAX_ROWS]
    return training.rows(np.sort(chosen)) if len(training.target) > MAX_ROWS else training


def _parts(rows: int, numbers: int) -> Iterator[slice]:
    """Cut rows so that each part takes about `_NUMBERS` numbers."""
    step = max(1, _NUMBERS // max(numbers, 1))
    return (slice(start, start + step) for start in range(0, rows, step))
