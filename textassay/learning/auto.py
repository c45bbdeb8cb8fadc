"""Blends learners, each weighted by how well it predicts groups that it has not seen.

Knows learners and squared errors. Regressions, forest, boosting and kernel err in different ways,
so that their mean beats each of them if all are about equally good; picking the best of many by
their errors alone costs more than it brings. Where one is clearly worse, as trees often are with
few rows and non-negative weights are for features that fall as quality rises, it gets less weight.

The weights are pseudo-Bayesian: the exponential of the held-out log-likelihood, tempered because
errors of few groups are uncertain themselves (Yao et al., "Using stacking to average Bayesian
predictive distributions", 2018, section 3.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.learning.averages import learn_corrw, learn_single
from textassay.learning.kernel import learn_kernel
from textassay.learning.linear import learn_nnls, learn_ridge
from textassay.learning.splits import folds
from textassay.learning.training import Explaining, Floats, Learned, Learner, Training
from textassay.learning.trees import learn_forest, learn_lightgbm
from textassay.runtime.errors import DataError

CANDIDATES: Mapping[str, Learner] = {
    "single": learn_single,
    "corrw": learn_corrw,
    "nnls": learn_nnls,
    "ridge": learn_ridge,
    "kernel": learn_kernel,
    "forest": learn_forest,
    "lightgbm": learn_lightgbm,
}
"""What may be part of the blend; simple ones first."""

_FOLDS = 5
_ROWS_TO_CHOOSE = 5_000
"""Rows that the weights are learned from; the members are then trained on all of them."""
_TEMPERATURE = 5.0
"""A member whose error is 1/n-th above the least, over n groups, has its weight divided by e to the
power of 1/5. Set on the data sets of docs/fit.md, where 5 and 8 are about equal, and 1.5 worse."""
_MIN_WEIGHT = 0.01
"""Weight below which a candidate is left out: it would cost time and space for nothing."""


@dataclass(frozen=True, slots=True)
class Blend:
    """The weighted mean of several predictors.

    Attributes:
        members: The predictors.
        weights: Their weights, which sum to 1; equal ones if absent.
    """

    members: tuple[Explaining, ...]
    weights: tuple[float, ...] = ()

    def predict(self, features: Floats) -> Floats:
        """Return predictions, shape (n,)."""
        total = np.zeros(len(features))
        for member, weight in self._weighted():
            total += weight * member.predict(features)
        return total / self._divisor

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return the mean of the members' Shapley values: those of a mean are the mean of those."""
        values, base = np.zeros(features.shape), 0.0
        for member, weight in self._weighted():
            own, start = member.contributions(features)
            values, base = values + weight * own, base + weight * start
        return values / self._divisor, base / self._divisor

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        members = [member.to_dict() for member in self.members]
        return {"kind": "blend", "members": members, "weights": list(self.weights)}

    def _weighted(self) -> list[tuple[Explaining, float]]:
        return list(zip(self.members, self.weights or [1.0] * len(self.members), strict=True))

    @property
    def _divisor(self) -> float:
        # equal weights, as earlier versions wrote them, are divided once, bit for bit as before
        return 1.0 if self.weights else float(len(self.members))


def learn_auto(training: Training) -> Learned:
    """Fit every candidate that is worth its weight, and blend them.

    The notes give every candidate's error (1 is that of predicting the mean), the weights, and why
    any was left out.

    Raises:
        DataError: There are fewer than two groups, or no candidate can be learned.
    """
    held_out = cross_validate(training, CANDIDATES)
    members = _members(training, held_out)
    weights = held_out.weights()
    # the weighted mean of held-out predictions is what the blend would predict of them
    held_out.add_mean("blend", weights)
    notes = {
        "chosen": "blend" if len(weights) > 1 else next(iter(weights)),
        "weights": weights,
        "held_out_error": held_out.errors(),
        "failed": held_out.failed,
        "members": list(weights),
    }
    return Learned(Blend(tuple(members[name] for name in weights), tuple(weights.values())), notes)


def _members(training: Training, held_out: HeldOut) -> dict[str, Explaining]:
    """Train what has a weight on all rows; what cannot learn from them is left out."""
    members: dict[str, Explaining] = {}
    while missing := [name for name in held_out.weights() if name not in members]:
        for name in missing:
            try:
                predictor = CANDIDATES[name](training).predictor
            except DataError as error:  # an average may rise in every fold and fall over all rows
                held_out.drop(name, str(error))
                continue
            assert isinstance(predictor, Explaining)  # all candidates are
            members[name] = predictor
    return members


class HeldOut:
    """Predictions of rows by learners that have not seen the rows' groups.

    Attributes:
        squared: Squared error of each row by learner, shape (n,) each.
        failed: Why a learner has none.
    """

    def __init__(
        self, training: Training, predicted: Mapping[str, Floats], failed: Mapping[str, str]
    ) -> None:
        self.failed = dict(failed)
        self._target, self._predicted = training.target, dict(predicted)
        self._groups = np.unique(training.groups, return_inverse=True)[1]
        self.squared = {name: (values - self._target) ** 2 for name, values in predicted.items()}

    def drop(self, name: str, why: str) -> None:
        """Leave a learner out."""
        del self.squared[name], self._predicted[name]
        self.failed[name] = why

    def weights(self) -> dict[str, float]:
        """Return the weight of each learner that is worth one; they sum to 1.

        Raises:
            DataError: No learner is left.
        """
        if not self.squared:
            failed = "; ".join(f"{name}: {why}" for name, why in self.failed.items())
            raise DataError(f"no aggregator can be learned: {failed}")
        errors = {name: float(squared.mean()) for name, squared in self.squared.items()}
        least = min(errors.values())
        # errors of one group rise and fall together, so groups are what is counted
        sharpness = (self._groups.max() + 1) / _TEMPERATURE
        raw = {
            k: float(np.exp(-sharpness * (error - least) / least)) if least > 0 else error == least
            for k, error in errors.items()
        }
        total = sum(raw.values())
        kept = {k: w for k, w in raw.items() if w >= _MIN_WEIGHT * total}
        return {k: w / sum(kept.values()) for k, w in kept.items()}

    def add_mean(self, name: str, weights: Mapping[str, float]) -> None:
        """Add the weighted mean of some learners as one more."""
        mean = sum(weight * self._predicted[member] for member, weight in weights.items())
        self.squared[name] = (mean - self._target) ** 2

    def errors(self) -> dict[str, float]:
        """Return each learner's mean squared error, relative to that of predicting the mean."""
        variance = float(self._target.var()) or 1.0
        return {name: float(squared.mean()) / variance for name, squared in self.squared.items()}

    def best(self, *, unless_clearly_better: str) -> str:
        """Return the learner with the least error, or the named one if within a standard error."""
        errors = {name: float(squared.mean()) for name, squared in self.squared.items()}
        best = min(errors, key=lambda name: errors[name])
        worse = self.squared[unless_clearly_better] - self.squared[best]
        # errors of one group rise and fall together, so their spread is taken over groups
        by_group = np.bincount(self._groups, weights=worse)
        standard_error = float(by_group.std() * np.sqrt(len(by_group))) / len(worse)
        return unless_clearly_better if worse.mean() <= standard_error else best


def cross_validate(training: Training, candidates: Mapping[str, Learner]) -> HeldOut:
    """Predict every row by learners trained on other groups.

    Args:
        training: The rows; beyond 5,000, whole groups of them are left out at random.
        candidates: Learners by name.

    Raises:
        DataError: There are fewer than two groups.
    """
    training = training.at_most(_ROWS_TO_CHOOSE)
    fold = folds(training.groups, _FOLDS, seed=training.seed)
    predicted = {name: np.empty(len(fold)) for name in candidates}
    failed: dict[str, str] = {}
    for number in range(int(fold.max()) + 1):
        inside, outside = training.rows(fold != number), fold == number
        for name in [name for name in candidates if name not in failed]:
            try:
                predicted[name][outside] = candidates[name](inside).predictor.predict(
                    training.features[outside]
                )
            except DataError as error:
                # a learner that fails in one fold is compared nowhere: errors over different rows
                # would not be comparable
                failed[name] = str(error)
    return HeldOut(
        training, {k: values for k, values in predicted.items() if k not in failed}, failed
    )
