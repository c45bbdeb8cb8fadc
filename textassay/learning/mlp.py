"""A small neural network: three layers, ReLU, heavily regularized.

Knows standardized arrays. Trained on all rows at once by L-BFGS: with hundreds of rows that is
faster than stochastic steps, and needs neither a learning rate nor a validation part, which costs
more data than there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.learning.training import Floats, Learned, Training, dot

_HIDDEN = 16
_DECAY = 30.0
"""Penalty on squared weights, against the sum of squared errors."""
_NETS = 3
"""Networks, from different starts, whose mean is the prediction."""
_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Mlp:
    """The mean of networks with one hidden layer.

    Attributes:
        inner: Weights into the hidden layers, shape (nets * hidden, features).
        bias: Biases of the hidden layers, shape (nets * hidden,).
        outer: Weights out of them, shape (nets * hidden,).
        intercept: Added at the end.
    """

    inner: Floats
    bias: Floats
    outer: Floats
    intercept: float

    def predict(self, features: Floats) -> Floats:
        """Return predictions, shape (n,)."""
        parts = [self._predict(features[i : i + _CHUNK]) for i in range(0, len(features), _CHUNK)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _predict(self, features: Floats) -> Floats:
        # not a matrix product: see `dot` for why a score must not depend on its batch
        hidden = np.stack([dot(features, weights) for weights in self.inner], axis=1)
        return dot(np.maximum(hidden + self.bias, 0.0), self.outer) + self.intercept

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "kind": "mlp",
            "inner": self.inner.tolist(),
            "bias": self.bias.tolist(),
            "outer": self.outer.tolist(),
            "intercept": self.intercept,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Mlp:
        """Build from `to_dict`."""
        inner, bias, outer = (np.array(data[name], float) for name in ("inner", "bias", "outer"))
        return cls(inner, bias, outer, float(data["intercept"]))


def learn_mlp(training: Training) -> Learned:
    """Train the networks; their mean varies less with the seed than one of them."""
    return learn_joint_mlp(training.features, training.target[:, None], seed=training.seed)[0]


def learn_joint_mlp(features: Floats, targets: Floats, *, seed: int) -> list[Learned]:
    """Train networks whose hidden layers serve all targets, as HD-Eval's do; a predictor for each.

    Args:
        features: Standardized, shape (n, features).
        targets: Standardized, shape (n, targets).
        seed: Of the networks' starts.
    """
    rng = np.random.default_rng(seed)
    nets = [_train(features, targets, rng) for _ in range(_NETS)]
    inner = np.concatenate([inner for inner, *_ in nets])
    bias = np.concatenate([bias for _, bias, *_ in nets])
    # networks of one hidden layer side by side are one wider network, so their mean is written as
    # one
    outer = np.concatenate([outer for _, _, outer, _ in nets]) / _NETS
    intercept = np.mean([intercept for *_, intercept in nets], axis=0)
    notes = {} if targets.shape[1] == 1 else {"joint": targets.shape[1]}
    return [
        Learned(
            Mlp(inner, bias, np.ascontiguousarray(outer[:, target]), float(intercept[target])),
            notes,
        )
        for target in range(targets.shape[1])
    ]


def _train(
    features: Floats, targets: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats]:
    from scipy.optimize import minimize  # heavy, so on first use

    n, width = features.shape
    outputs = targets.shape[1]
    shapes = (_HIDDEN * width, _HIDDEN, _HIDDEN * outputs, outputs)
    bounds = np.cumsum(shapes)[:-1]
    decay = _DECAY * outputs  # the hidden layer's errors add up over the targets, and so does this

    def loss(flat: Floats) -> tuple[float, Floats]:
        inner, bias, outer, intercept = np.split(flat, bounds)
        inner, outer = inner.reshape(_HIDDEN, width), outer.reshape(_HIDDEN, outputs)
        hidden = np.maximum(features @ inner.T + bias, 0.0)
        error = hidden @ outer + intercept - targets
        back = (error @ outer.T) * (hidden > 0)
        slopes = (
            back.T @ features + decay * inner,
            back.sum(axis=0),
            hidden.T @ error + _DECAY * outer,
            error.sum(axis=0),
        )
        value = (error**2).sum() + decay * (inner**2).sum() + _DECAY * (outer**2).sum()
        return float(value) / (2 * n), np.concatenate([np.ravel(slope) for slope in slopes]) / n

    start = [
        rng.uniform(-1, 1, shapes[0]) * np.sqrt(6 / (width + _HIDDEN)),
        np.zeros(_HIDDEN),
        rng.uniform(-1, 1, shapes[2]) * np.sqrt(6 / (_HIDDEN + outputs)),
        np.zeros(outputs),
    ]
    solution = minimize(
        loss, np.concatenate(start), jac=True, method="L-BFGS-B", options={"maxiter": 100}
    ).x
    inner, bias, outer, intercept = np.split(solution, bounds)
    return inner.reshape(_HIDDEN, width), bias, outer.reshape(_HIDDEN, outputs), intercept
