"""Ways of learning that are no part of textassay: tried here to see what they would add.

`stacked` weighs ridge, nnls, forest and boosting by least squares, with weights of at least 0, over
their predictions of folds of groups that they have not seen. `unconstrained` is the boosting
without its monotone constraints. `ordinal` is one boosting for each cut of the rating scale, whose
chances of lying above add up to the rating (Frank and Hall, "A simple approach to ordinal
classification", 2001).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.learning_data import Floats
from textassay.learning.learners import CANDIDATES
from textassay.learning.splits import folds
from textassay.learning.training import FitResult, Learner, Predictor, Training
from textassay.learning.trees import boost, clear_directions

_MAX_CUTS = 12
_STACKED = ("ridge", "nnls", "forest", "lightgbm")


@dataclass(frozen=True)
class _Sum:
    """A weighted sum of predictions, each kept between two values."""

    members: Sequence[Predictor]
    weights: Floats
    start: float
    low: float = -np.inf
    high: float = np.inf

    def predict(self, features: Floats) -> Floats:
        parts = [np.clip(member.predict(features), self.low, self.high) for member in self.members]
        return np.asarray(self.start + np.tensordot(self.weights, parts, axes=1), float)

    def to_dict(self) -> dict[str, Any]:
        members = [member.to_dict() for member in self.members]
        return {
            "kind": "sum",
            "members": members,
            "weights": self.weights.tolist(),
            "start": self.start,
        }


def learn_stacked(training: Training) -> FitResult:
    """Weigh ridge, nnls, forest and boosting by what they predict of folds they have not seen."""
    fold = folds(training.groups, 5, seed=training.seed)
    unseen = np.empty((len(fold), len(_STACKED)))
    for number in range(int(fold.max()) + 1):
        inside, outside = training.rows(fold != number), fold == number
        for column, name in enumerate(_STACKED):
            unseen[outside, column] = CANDIDATES[name](inside).predictor.predict(
                training.features[outside]
            )
    weights = nnls(unseen, training.target)[0]
    return FitResult(
        _Sum([CANDIDATES[name](training).predictor for name in _STACKED], weights, 0.0), {}
    )


def learn_unconstrained(training: Training) -> FitResult:
    """Boosting without monotone constraints."""
    return boost(training, np.zeros(training.features.shape[1], np.intp))


def learn_ordinal(training: Training) -> FitResult:
    """One boosting for each cut between ratings, at most 12 at equal shares of the rows."""
    values, counts = np.unique(training.target, return_counts=True)
    shares = np.cumsum(counts)[:-1] / counts.sum()
    wanted = np.linspace(0, 1, _MAX_CUTS + 2)[1:-1]
    at = (
        np.arange(len(shares))
        if len(shares) <= _MAX_CUTS
        else np.unique(np.searchsorted(shares, wanted))
    )
    at = at[at < len(shares)]
    directions = clear_directions(training)
    above = [training.target > values[cut] for cut in at]
    members = [
        boost(replace(training, target=one.astype(float)), directions).predictor for one in above
    ]
    # between two cuts a rating counts as the mean of those that lie there
    band = np.sum(above, axis=0)
    means = np.array([training.target[band == number].mean() for number in range(len(at) + 1)])
    return FitResult(_Sum(members, np.diff(means), float(means[0]), 0.0, 1.0), {})


ARMS: Mapping[str, Learner] = {
    "stacked": learn_stacked,
    "unconstrained": learn_unconstrained,
    "ordinal": learn_ordinal,
}
"""Learners by name."""
