"""Chooses a learner by cross-validation that keeps groups together, and blends the strong ones.

Knows learners and squared errors. On recorded judges of summaries and dialogues the mean of
regressions, forest and boosting beats each of them: they err in different ways. So the blend is
taken unless one of them is clearly better; picking the best of many by their errors alone costs
more than it brings. If rows are few, trees take no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.learning.averages import learn_avg, learn_corrw
from textassay.learning.linear import learn_nnls, learn_ridge
from textassay.learning.splits import folds
from textassay.learning.training import Explaining, Floats, Learned, Learner, Training
from textassay.learning.trees import learn_forest, learn_lightgbm
from textassay.runtime.errors import DataError

SMALL: Mapping[str, Learner] = {
    "avg": learn_avg,
    "corrw": learn_corrw,
    "nnls": learn_nnls,
    "ridge": learn_ridge,
}
LARGE: Mapping[str, Learner] = {"forest": learn_forest, "lightgbm": learn_lightgbm}
BLEND = ("ridge", "nnls", "forest", "lightgbm")
BLEND_OF_FEW = ("corrw", "nnls", "ridge")

_ROWS_FOR_TREES = 60
_GROUPS_FOR_TREES = 8
_GROUPS_WITHOUT_CORRW = 20
"""Groups below which the blend leans on CorrW, which has one slope to learn where the others have
many."""
_FOLDS = 5
_ROWS_TO_CHOOSE = 5_000
"""Rows that the choice looks at; the chosen learner is then trained on all of them."""


@dataclass(frozen=True, slots=True)
class Blend:
    """The mean of several predictors."""

    members: tuple[Explaining, ...]

    def predict(self, features: Floats) -> Floats:
        """Return predictions, shape (n,)."""
        total = np.zeros(len(features))
        for member in self.members:
            total += member.predict(features)
        return total / len(self.members)

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return the mean of the members' Shapley values: those of a mean are the mean of those."""
        parts = [member.contributions(features) for member in self.members]
        values, bases = [part for part, _ in parts], [baseline for _, baseline in parts]
        return np.asarray(sum(values) / len(parts)), sum(bases) / len(bases)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"kind": "blend", "members": [member.to_dict() for member in self.members]}


def learn_auto(training: Training) -> Learned:
    """Fit the blend, or a single candidate whose cross-validated error is clearly lower.

    The notes say which was chosen, every candidate's error (1 is that of predicting the mean) and
    why any was left out.

    Raises:
        DataError: There are fewer than two groups, or no candidate can be learned.
    """
    groups = len(np.unique(training.groups))
    few = len(training.target) < _ROWS_FOR_TREES or groups < _GROUPS_FOR_TREES
    candidates = dict(SMALL) if few else {**SMALL, **LARGE}
    held_out = cross_validate(training, candidates)
    if not held_out.squared:
        raise DataError(
            "no aggregator can be learned: "
            + "; ".join(f"{k}: {why}" for k, why in held_out.failed.items())
        )
    allowed = (
        BLEND_OF_FEW if few else BLEND if groups >= _GROUPS_WITHOUT_CORRW else ("corrw", *BLEND)
    )
    members = [name for name in allowed if name in held_out.squared]
    # the mean of held-out predictions is what the blend would predict, so it need not be
    # cross-validated itself
    held_out.add_mean("blend", members)
    chosen = held_out.best(unless_clearly_better="blend")
    learned = [candidates[name](training) for name in (members if chosen == "blend" else [chosen])]
    notes: dict[str, Any] = {
        "chosen": chosen,
        "held_out_error": held_out.errors(),
        "failed": held_out.failed,
    }
    if few:
        notes["few_rows"] = (
            f"trees take part from {_ROWS_FOR_TREES} rows in {_GROUPS_FOR_TREES} groups"
        )
    if chosen != "blend":
        return Learned(learned[0].predictor, {**notes, **learned[0].notes})
    explaining = tuple(one.predictor for one in learned if isinstance(one.predictor, Explaining))
    return Learned(Blend(explaining), {**notes, "members": members})


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

    def add_mean(self, name: str, members: Sequence[str]) -> None:
        """Add the mean of some learners as one more."""
        mean = np.mean([self._predicted[member] for member in members], axis=0)
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
    training = at_most(training, _ROWS_TO_CHOOSE)
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


def at_most(training: Training, rows: int) -> Training:
    """Return the rows, or as many whole groups of them, drawn at random, as have about so many."""
    if len(training.target) <= rows:
        return training
    groups, sizes = np.unique(training.groups, return_counts=True)
    order = np.random.default_rng(training.seed).permutation(len(groups))
    # whole groups, as everywhere: a group cut in two would leak between folds
    count = max(2, int(np.searchsorted(np.cumsum(sizes[order]), rows, side="right")))
    return training.rows(np.isin(training.groups, groups[order[:count]]))
