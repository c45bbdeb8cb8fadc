"""Learns weighted sums: averages, regressions, kernel ridge regression, a small neural network.

All learn from standardized arrays; penalties are chosen by cross-validation grouped by source.

Averages are the baselines AVG and CorrW of Fusion-Eval (section 4), and the best single feature.
They need almost no data, use the features that belong to the target or to no aspect (Fusion-Eval:
the assistants and the direct evaluator), or all if that leaves none, and put the result on the
scale of the ratings by a line through the training rows.

The kernel is a Gaussian: smooth unlike trees, and curved unlike a weighted sum, so its errors
differ from both. The penalty and one of two widths of the kernel have the least squared error over
folds of groups, in closed form from one eigendecomposition per width.

The network has three layers and ReLU, and is heavily regularized. It is trained on all rows at once
by L-BFGS: with hundreds of rows that is faster than stochastic steps, and needs neither a learning
rate nor a validation part.

References:
    Saunders, Gammerman and Vovk, "Ridge regression learning algorithm in dual variables" (1998).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from textassay.arrays import Floats, Mask
from textassay.learning.splits import fold_masks
from textassay.learning.training import FOLDS, FitResult, Training, dot
from textassay.runtime.errors import DataError

PENALTIES: tuple[float, ...] = tuple(10.0 ** (step / 2) for step in range(-8, 5))
"""Ridge penalties to try, per row."""
MAX_KERNEL_ROWS = 800
"""Most training rows; of more, whole groups are drawn at random."""


def fit_mean(training: Training) -> FitResult:
    """Average the standardized features with equal weights."""
    return _on_scale(training.own / training.own.sum(), training, "avg")


def fit_best_feature(training: Training) -> FitResult:
    """Take the feature that correlates best with the ratings, or its reverse."""
    r = _correlations(training)
    best = int(np.abs(r).argmax())
    weights = np.zeros(len(r))
    weights[best] = np.sign(r[best])
    return _on_scale(weights, training, "single")


def fit_correlation_weights(training: Training) -> FitResult:
    """Average the features, each weighted by its signed correlation with the training ratings."""
    r = _correlations(training)
    total = np.abs(r).sum()
    return _on_scale(r / total if total > 0 else r, training, "corrw")


def _correlations(training: Training) -> Floats:
    """Return the correlation of each own feature with the ratings; 0 for the others."""
    features = training.features - training.features.mean(axis=0)
    target = training.target - training.target.mean()
    norms = np.sqrt((features**2).sum(axis=0) * (target @ target))
    r = np.divide(target @ features, norms, out=np.zeros(len(norms)), where=norms > 0)
    return np.asarray(r * training.own, float)


def _on_scale(weights: Floats, training: Training, name: str) -> FitResult:
    average = training.features @ weights
    spread, mean = average - average.mean(), float(training.target.mean())
    variance = float(spread @ spread)
    slope = float(spread @ (training.target - mean)) / variance if variance > 0 else 0.0
    # a falling line would reverse the average and hide that the features have the wrong direction
    if slope <= 0:
        raise DataError(
            f"{name}: the average of the features does not rise with the ratings; negate features "
            "that fall as quality rises, leave out constant ones, or use 'ridge'"
        )
    return FitResult(Linear(weights * slope, mean - slope * float(average.mean())), {})


class SavedArrays:
    """A predictor whose fields are arrays and numbers; `kind` names its class in JSON."""

    __slots__ = ()
    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        return {"kind": self.kind} | {n: np.asarray(getattr(self, n)).tolist() for n in names}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        values = ((data[field.name], field.type) for field in fields(cls))  # type: ignore[arg-type]
        return cls(*(np.array(v, float) if kind == "Floats" else float(v) for v, kind in values))


@dataclass(frozen=True, slots=True)
class Linear(SavedArrays):
    """A weighted sum."""

    kind: ClassVar[str] = "linear"
    weights: Floats
    """Shape (features,)."""
    intercept: float
    """Value where every feature is at its mean."""

    def predict(self, features: Floats) -> Floats:
        return dot(features, self.weights) + self.intercept

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return Shapley values: each feature's weight times its distance from its mean."""
        return features * self.weights, self.intercept


def fit_linear(training: Training) -> FitResult:
    """Least squares; the solution with the smallest norm if features are collinear."""
    features, target, intercept = _center(training)
    weights = np.asarray(np.linalg.lstsq(features, target, rcond=None)[0], dtype=np.float64)
    return FitResult(_around_means(weights, intercept, training), {})


def fit_nnls(training: Training) -> FitResult:
    """Least squares with weights of at least 0: no feature may count against its own direction."""
    from scipy.optimize import nnls  # heavy, so on first use

    features, target, intercept = _center(training)
    weights = nnls(features, target)[0]
    if not weights.any():
        raise DataError(
            "nnls gives every feature the weight 0: none rises with the ratings; use 'ridge'"
        )
    return FitResult(_around_means(weights, intercept, training), {})


def fit_ridge(training: Training) -> FitResult:
    """Ridge regression; its penalty has the least squared error over folds of groups."""
    penalty = _best_penalty(training)
    return FitResult(_ridge(training, [penalty])[0], {"penalty_per_row": penalty})


def _best_penalty(training: Training) -> float:
    errors = np.zeros(len(PENALTIES))
    for held_out in fold_masks(training.groups, FOLDS, seed=training.seed):
        inside, outside = training.rows(~held_out), training.rows(held_out)
        for index, model in enumerate(_ridge(inside, PENALTIES)):
            errors[index] += ((model.predict(outside.features) - outside.target) ** 2).sum()
    return PENALTIES[int(errors.argmin())]


def _ridge(training: Training, penalties: Iterable[float]) -> list[Linear]:
    features, target, intercept = _center(training)
    # one eigendecomposition serves all thirteen penalties
    variances, axes = np.linalg.eigh(features.T @ features)
    along = axes.T @ (features.T @ target)
    return [
        # the penalty grows with the number of rows, so that a choice on folds applies to all rows
        _around_means(
            axes @ (along / (np.maximum(variances, 0) + penalty * len(target))), intercept, training
        )
        for penalty in penalties
    ]


def _center(training: Training) -> tuple[Floats, Floats, float]:
    mean = float(training.target.mean())
    return training.features - training.features.mean(axis=0), training.target - mean, mean


def _around_means(weights: Floats, mean: float, training: Training) -> Linear:
    """Move the intercept from the rows' means to 0, the mean of the whole training data."""
    return Linear(weights, mean - float(training.features.mean(axis=0) @ weights))


@dataclass(frozen=True, slots=True)
class KernelSum(SavedArrays):
    """A weighted sum of Gaussians around training rows."""

    kind: ClassVar[str] = "kernel"
    rows: Floats
    """Positions of the kernels, shape (m, features)."""
    weights: Floats
    """Shape (m,)."""
    scale: float
    """Twice the squared width."""
    start: float
    """The constant that is added to the sum."""

    def predict(self, features: Floats) -> Floats:
        predicted = np.empty(len(features))
        for part in _parts(len(features), len(self.rows)):
            squares = _LAST.squares(features[part], self.rows)
            predicted[part] = (np.exp(-squares / self.scale) * self.weights).sum(axis=1)
        return predicted + self.start

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return Shapley values, shape (n, features), and the prediction at the features' means.

        A feature that is not known counts as its mean, 0. A Gaussian is a product over features, so
        its Shapley value is an integral over the share of features that are known, of a polynomial
        (Owen, "Multilinear extensions of games", 1972), which Gauss-Legendre quadrature computes.
        """
        values = np.zeros(features.shape)
        base = np.exp(-(self.rows**2) / self.scale)
        points, weights = np.polynomial.legendre.leggauss(12)
        for part in _parts(len(features), 4 * self.rows.size):
            kernel = np.exp(-((features[part, None, :] - self.rows) ** 2) / self.scale)
            for share, weight in zip((points + 1) / 2, weights / 2, strict=True):
                mixed = share * kernel + (1 - share) * base
                products = mixed.prod(axis=2) * self.weights * weight
                values[part] += (products[:, :, None] * ((kernel - base) / mixed)).sum(axis=1)
        return values, self.start + float((base.prod(axis=1) * self.weights).sum())


class _Distances(threading.local):
    """Squared distances, cached for the next kernel: all aspects have the same rows."""

    _of: tuple[Floats, Floats, Floats] | None = None

    def squares(self, features: Floats, rows: Floats) -> Floats:
        """Return the distance of each row of `features` to each of `rows`, shape (n, m)."""
        from scipy.spatial.distance import cdist  # heavy, so on first use

        last = self._of
        if last and np.array_equal(last[1], rows) and np.array_equal(last[0], features):
            return last[2]
        # no matrix product, which rounds differently for one row and for many
        squares = np.asarray(cdist(features, rows, "sqeuclidean"))
        self._of = features.copy(), rows, squares
        return squares


_LAST = _Distances()


def fit_kernel(training: Training) -> FitResult:
    """Kernel ridge regression; width and penalty have the least error over folds of groups."""
    training = _few_rows(training)
    # so that the evaluator is small, and learning and prediction use the same values
    rows = np.round(training.features, 3)
    start = float(training.target.mean())
    target = training.target - start
    held_out = fold_masks(training.groups, FOLDS, seed=training.seed)
    squares = (rows**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0.0)
    varying = max(1, int((rows.std(axis=0) > 0).sum()))
    least, best = np.inf, KernelSum(rows, np.zeros(len(rows)), 1.0, start)
    notes: dict[str, Any] = {}
    for width in (1.0, 4.0):  # squared, per feature that varies
        scale = 2 * width * varying
        variances, axes = np.linalg.eigh(np.exp(-distances / scale))
        along = axes.T @ target
        for penalty in PENALTIES[::2]:
            inverse = 1 / (np.maximum(variances, 0) + penalty * len(target))
            weights = axes @ (along * inverse)
            error = _held_out_error(axes, inverse, weights, held_out)
            if error < least:
                least, best = error, KernelSum(rows, weights, scale, start)
                notes = {"penalty_per_row": penalty, "width": width}
    return FitResult(best, notes)


def _held_out_error(
    axes: Floats, inverse: Floats, weights: Floats, held_out: Sequence[Mask]
) -> float:
    """Return the squared error of rows whose fold is left out.

    Their residuals are the inverse of their block of (K + penalty)^-1 times their weights.
    """
    error = 0.0
    for inside in held_out:
        block = axes[inside]
        residuals = np.linalg.solve((block * inverse) @ block.T, weights[inside])
        error += float(residuals @ residuals)
    return error


def _few_rows(training: Training) -> Training:
    """Return at most `MAX_KERNEL_ROWS` rows, from as few groups as possible."""
    training = training.at_most(MAX_KERNEL_ROWS)
    # at least two groups, which may have any number of rows
    if len(training.target) <= MAX_KERNEL_ROWS:
        return training
    order = np.random.default_rng(training.seed).permutation(len(training.target))
    return training.rows(np.sort(order[:MAX_KERNEL_ROWS]))


def _parts(rows: int, numbers: int, *, at_once: int = 2_000_000) -> Iterator[slice]:
    """Divide rows into parts that fit a temporary array."""
    step = max(1, at_once // max(numbers, 1))
    return (slice(start, start + step) for start in range(0, rows, step))


@dataclass(frozen=True, slots=True)
class Mlp(SavedArrays):
    """The mean of networks with one hidden layer."""

    kind: ClassVar[str] = "mlp"
    inner: Floats
    """Weights into the hidden layers, shape (nets * hidden, features)."""
    bias: Floats
    """Biases of the hidden layers, shape (nets * hidden,)."""
    outer: Floats
    """Weights out of them, shape (nets * hidden,)."""
    intercept: float
    """Added at the end."""

    def predict(self, features: Floats) -> Floats:
        predicted = np.empty(len(features))
        for part in _parts(len(features), len(self.outer)):
            # not a matrix product: see `dot` for why a score must not depend on its batch
            hidden = np.stack([dot(features[part], weights) for weights in self.inner], axis=1)
            active = np.maximum(hidden + self.bias, 0.0)
            predicted[part] = dot(active, self.outer) + self.intercept
        return predicted


def fit_mlp(training: Training) -> FitResult:
    """Train the networks; their mean varies less with the seed than one of them."""
    return fit_joint_mlp(training.features, training.target[:, None], seed=training.seed)[0]


def fit_joint_mlp(features: Floats, targets: Floats, seed: int) -> list[FitResult]:
    """Train networks whose hidden layers serve all targets, as HD-Eval's do."""
    rng = np.random.default_rng(seed)
    # from different starts
    nets = [_train_network(features, targets, rng) for _ in range(3)]
    # networks of one hidden layer side by side are one wider network, as is their mean
    *layers, ends = zip(*nets, strict=True)
    inner, bias, outer = map(np.concatenate, layers)
    intercepts = np.mean(ends, axis=0)
    notes = {} if targets.shape[1] == 1 else {"joint": targets.shape[1]}
    return [
        FitResult(Mlp(inner, bias, np.ascontiguousarray(weights), float(intercept)), notes)
        for weights, intercept in zip((outer / len(nets)).T, intercepts, strict=True)
    ]


def _train_network(
    features: Floats,
    targets: Floats,
    rng: np.random.Generator,
    *,
    units: int = 16,
    weight_decay: float = 30.0,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the layers of a trained network; the decay is relative to the sum of squared errors.

    They are the weights into the hidden units, the biases, the weights out of them, and intercepts.
    """
    from scipy.optimize import minimize  # heavy, so on first use

    n, width = features.shape
    outputs = targets.shape[1]
    shapes = (units * width, units, units * outputs, outputs)
    bounds = np.cumsum(shapes)[:-1]
    # the hidden layer's errors add up over the targets, and so does this
    decay = weight_decay * outputs

    def layers(flat: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        inner, bias, outer, intercept = np.split(flat, bounds)
        return inner.reshape(units, width), bias, outer.reshape(units, outputs), intercept

    def loss(flat: Floats) -> tuple[float, Floats]:
        inner, bias, outer, intercept = layers(flat)
        hidden = np.maximum(features @ inner.T + bias, 0.0)
        error = hidden @ outer + intercept - targets
        back = (error @ outer.T) * (hidden > 0)
        slopes = (
            back.T @ features + decay * inner,
            back.sum(axis=0),
            hidden.T @ error + weight_decay * outer,
            error.sum(axis=0),
        )
        value = (error**2).sum() + decay * (inner**2).sum() + weight_decay * (outer**2).sum()
        return float(value) / (2 * n), np.concatenate([np.ravel(slope) for slope in slopes]) / n

    start = [
        rng.uniform(-1, 1, shapes[0]) * np.sqrt(6 / (width + units)),
        np.zeros(units),
        rng.uniform(-1, 1, shapes[2]) * np.sqrt(6 / (units + outputs)),
        np.zeros(outputs),
    ]
    solution = minimize(
        loss, np.concatenate(start), jac=True, method="L-BFGS-B", options={"maxiter": 100}
    ).x
    return layers(solution)
