"""Types of learners, their training rows and predictors, and their comparison on unseen groups.

Arrays of one standardized target without gaps. `Aggregator` prepares them and puts several targets
together; `regression`, `trees` and `learners` learn from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from textassay.arrays import Codes, Floats, Mask
from textassay.learning.splits import draw_groups, fold_masks, is_gap
from textassay.runtime.errors import DataError
from textassay.runtime.labels import LEVEL_FEATURES, slug

Numbers = ArrayLike | Sequence[Sequence[float | None]]
"""A table of numbers as users give it, shape (rows, columns); NaN or `None` for gaps."""

FOLDS = 5
ROWS_TO_COMPARE = 5_000
"""Rows that learners are compared on; of more, whole groups are left out at random."""


@dataclass(frozen=True, slots=True)
class Training:
    """Rows to learn one target from."""

    features: Floats
    """Standardized, shape (n, features); a gap is 0, which is the feature's mean."""
    target: Floats
    """Standardized ratings, shape (n,)."""
    groups: Codes
    """Code of each row's group, shape (n,)."""
    own: Mask
    """Whether averages use each feature, shape (features,): `features_for` the target."""
    seed: int
    """Seed of everything random."""
    threads: int = 1
    """Threads a learner may use."""

    def rows(self, selected: Mask | Codes) -> Training:
        """Return the chosen rows."""
        return replace(
            self,
            features=self.features[selected],
            target=self.target[selected],
            groups=self.groups[selected],
        )

    def at_most(self, rows: int) -> Training:
        """Return about this many rows, or whole groups of them, drawn at random."""
        return self.rows(draw_groups(self.groups, rows, seed=self.seed))


class Predictor(Protocol):
    """Function from standardized features to a standardized rating; JSON both ways, bit for bit."""

    def predict(self, features: Floats) -> Floats:
        """Return predictions, shape (n,), each of its row of the features alone."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which the same predictor can be built; `kind` names its class."""
        ...


@runtime_checkable
class Explaining(Predictor, Protocol):
    """A predictor that is exactly a sum over features."""

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return Shapley values, shape (n, features), and the value to which they add."""
        ...


@dataclass(frozen=True, slots=True)
class FitResult:
    """A predictor and the decisions made while learning it."""

    predictor: Predictor
    """The learned function."""
    notes: Mapping[str, Any]
    """Choices, as JSON values, for reports."""


Learner = Callable[[Training], FitResult]
"""Learns one target.

Raises:
    DataError: The rows do not allow it.
"""


JointLearner = Callable[[Floats, Floats, int], list[FitResult]]
"""Returns a predictor per target, given arrays of shape (n, features), (n, targets) and a seed."""


def dot(features: Floats, weights: Floats) -> Floats:
    """Return the product of each row with the weights, shape (n,).

    Matrix products round differently for one row and for many, which would make a score depend on
    its batch; a sum over the last axis does not.
    """
    return np.asarray((np.ascontiguousarray(features) * weights).sum(axis=1), float)


class HeldOut:
    """Predictions of rows by learners that have not seen the rows' groups.

    `squared` has the squared errors by learner, `failed` why a learner has none.
    """

    def __init__(
        self,
        target: Floats,
        groups: Codes,
        predicted: Mapping[str, Floats],
        failed: Mapping[str, str],
    ) -> None:
        self.failed = dict(failed)
        self._target, self._predicted = target, dict(predicted)
        self._groups = np.unique(groups, return_inverse=True)[1]
        self.squared = {name: (values - target) ** 2 for name, values in predicted.items()}

    def rows(self, selected: Mask | Codes) -> HeldOut:
        """Return the chosen rows."""
        predicted = {name: values[selected] for name, values in self._predicted.items()}
        return HeldOut(self._target[selected], self._groups[selected], predicted, self.failed)

    def drop(self, name: str, why: str) -> None:
        """Leave a learner out."""
        del self.squared[name], self._predicted[name]
        self.failed[name] = why

    def weights(self, *, temperature: float = 5.0, least_weight: float = 0.01) -> dict[str, float]:
        """Return the weight of each learner that is worth one; they sum to 1.

        A learner whose error is 1/n-th above the least, over n groups, has its weight divided by e
        to the power of 1/temperature. It was set on the data sets of docs/fit.md, where 5 and 8 are
        about equal, and 1.5 is worse. One with less than `least_weight` would cost time and space
        for nothing.
        """
        if not self.squared:
            failed = "; ".join(f"{name}: {why}" for name, why in self.failed.items())
            raise DataError(f"no aggregator can be learned: {failed}")
        errors = {name: float(squared.mean()) for name, squared in self.squared.items()}
        least = min(errors.values())
        # errors of one group rise and fall together, so groups are counted
        sharpness = (self._groups.max() + 1) / temperature
        raw = {
            k: float(np.exp(-sharpness * (error - least) / least)) if least > 0 else error == least
            for k, error in errors.items()
        }
        total = sum(raw.values())
        raw_weights = {k: w for k, w in raw.items() if w >= least_weight * total}
        return {k: w / sum(raw_weights.values()) for k, w in raw_weights.items()}

    def add_mean(self, name: str, weights: Mapping[str, float]) -> None:
        """Add the weighted mean of some learners as one more."""
        mean = sum(weight * self._predicted[member] for member, weight in weights.items())
        self.squared[name] = (mean - self._target) ** 2

    def errors(self) -> dict[str, float]:
        """Return each learner's mean squared error, relative to a prediction of the mean."""
        variance = float(self._target.var()) or 1.0
        return {name: float(squared.mean()) / variance for name, squared in self.squared.items()}


def least_error(squared: Mapping[str, Floats], groups: Codes, first: str) -> str:
    """Return the name of the least squared error, or the first if within a standard error."""
    best = min(squared, key=lambda name: float(squared[name].mean()))
    # errors of one group rise and fall together, so their spread is taken over groups
    worse = np.bincount(groups, weights=squared[first] - squared[best])[np.bincount(groups) > 0]
    return first if worse.sum() <= worse.std() * np.sqrt(len(worse)) else best


def cross_validate(training: Training, candidates: Mapping[str, Learner]) -> HeldOut:
    """Predict every row by learners trained on other groups."""
    training = training.at_most(ROWS_TO_COMPARE)
    predicted = {name: np.empty(len(training.target)) for name in candidates}
    failed: dict[str, str] = {}
    for outside in fold_masks(training.groups, FOLDS, seed=training.seed):
        inside = training.rows(~outside)
        for name in [name for name in candidates if name not in failed]:
            try:
                predicted[name][outside] = candidates[name](inside).predictor.predict(
                    training.features[outside]
                )
            except DataError as error:
                # a learner that fails in one fold is compared nowhere: errors over different rows
                # would not be comparable
                failed[name] = str(error)
    by_learner = {name: values for name, values in predicted.items() if name not in failed}
    return HeldOut(training.target, training.groups, by_learner, failed)


def features_for(target: str, features: Sequence[str], aspects: Iterable[str]) -> Mask:
    """Return the features that describe an aspect.

    A feature names an aspect if the parts of its name between slashes have all of the aspect's.
    Features that name the target describe it, and so do features that name no aspect at all, such
    as `rouge1` or `nli`; features that name another aspect do not. If no feature is left, all
    describe it. The probability of a level and an entropy never do: a mean of these and of ratings
    has no meaning.

    Args:
        target: The aspect.
        features: Names of the features.
        aspects: Names of all aspects that a feature may name.

    Returns:
        Shape (features,).
    """
    target_words, *others = (set(map(slug, aspect.split("/"))) for aspect in (target, *aspects))
    parts = [set(map(slug, feature.split("/"))) for feature in features]
    matching = np.array(
        [target_words <= w or not any(map(w.issuperset, others)) for w in parts], bool
    )
    ratings = np.array([not feature.endswith(LEVEL_FEATURES) for feature in features], bool)
    for mask in (matching & ratings, ratings):
        if mask.any():
            return mask
    return np.ones(len(features), bool)


def find_leaks(
    features: Floats, human: Floats, feature_names: Sequence[str], target_names: Sequence[str]
) -> list[tuple[str, str]]:
    """Return feature-aspect pairs whose correlation exceeds .999 in magnitude on at least 10 rows.

    Args:
        features: Shape (n, features), NaN if absent.
        human: Shape (n, targets), NaN if absent.
        feature_names: Names of the features.
        target_names: Names of the aspects.
    """
    leaks = []
    for t, target in enumerate(target_names):
        for f, feature in enumerate(feature_names):
            both = ~np.isnan(features[:, f]) & ~np.isnan(human[:, t])
            x, y = features[both, f], human[both, t]
            if (
                len(x) >= 10
                and np.ptp(x) > 0
                and np.ptp(y) > 0
                and abs(np.corrcoef(x, y)[0, 1]) > 0.999
            ):
                leaks.append((feature, target))
    return leaks


def to_matrix(values: Numbers, name: str) -> Floats:
    """Return a table of numbers, shape (rows, columns), NaN for gaps."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be a table of numbers (None or NaN for a missing value): {error}"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{name} must have rows and columns, not shape {array.shape}")
    # far below the limit of a double, since squares of features are summed
    if (beyond := np.abs(array) > 1e100).any():
        row, column = (int(i) for i in np.argwhere(beyond)[0])
        raise DataError(
            f"{name} contain {array[row, column]} in row {row}, column {column}; numbers must be"
            " finite"
        )
    return np.ascontiguousarray(array)


def label_texts(labels: Iterable[object]) -> list[str | None]:
    """Return labels as text, as a saved aggregator has them; `None` for `None` and NaN."""
    return [None if is_gap(label) else str(label) for label in labels]


def rows_without_features(x: Floats) -> Mask:
    """Return whether each row lacks all features, shape (n,)."""
    return np.asarray(np.isnan(x).all(axis=1), bool)


def column_names(names: Sequence[str] | None, count: int, kind: str) -> tuple[str, ...]:
    """Return names of columns, made up if none are given."""
    if names is None:
        return tuple(f"{kind}_{i}" for i in range(count))
    if len(names) != count:
        raise DataError(f"{len(names)} {kind} names for {count} columns")
    if len(set(names)) != count:
        raise DataError(
            f"{kind} names repeat:"
            f" {', '.join(sorted({n for n in names if list(names).count(n) > 1}))}"
        )
    return tuple(names)


def rating_limits(
    target: Floats, scale: tuple[float, float] | None, name: str
) -> tuple[float, float]:
    """Return the scale, or the range of the ratings if none is given."""
    low, high = float(target.min()), float(target.max())
    if scale is None:
        return low, high
    if low < scale[0] or high > scale[1]:
        raise DataError(
            f"aspect {name!r}: ratings from {low:g} to {high:g} are off the scale"
            f" {scale[0]:g}-{scale[1]:g}"
        )
    return float(scale[0]), float(scale[1])
