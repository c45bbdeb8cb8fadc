"""What a learner is given and what it returns: one target, standardized, without gaps.

Knows arrays only. `aggregators.py` prepares the data and puts several targets together; each family
of learners has a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from textassay.learning.splits import Codes, Mask

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Training:
    """Rows to learn one target from.

    Attributes:
        features: Standardized, shape (n, features); a gap is 0, which is the feature's mean.
        target: Standardized ratings, shape (n,).
        groups: Code of each row's group, shape (n,).
        own: Which features averages use, shape (features,): `naming.features_for` the target.
        seed: Seed of everything random.
        threads: Threads a learner may use.
    """

    features: Floats
    target: Floats
    groups: Codes
    own: Mask
    seed: int
    threads: int = 1

    def rows(self, chosen: Mask | Codes) -> Training:
        """Return the chosen rows."""
        return replace(
            self,
            features=self.features[chosen],
            target=self.target[chosen],
            groups=self.groups[chosen],
        )

    def at_most(self, rows: int) -> Training:
        """Return the rows, or whole groups of them, drawn at random, that have about so many."""
        if len(self.target) <= rows:
            return self
        groups, sizes = np.unique(self.groups, return_counts=True)
        order = np.random.default_rng(self.seed).permutation(len(groups))
        # whole groups, as everywhere: a group cut in two would leak between folds
        count = max(2, int(np.searchsorted(np.cumsum(sizes[order]), rows, side="right")))
        return self.rows(np.isin(self.groups, groups[order[:count]]))

    def with_target(self, target: Floats) -> Training:
        """Return the same rows with another target."""
        return replace(self, target=target)


class Predictor(Protocol):
    """Learned function from standardized features to a standardized rating.

    JSON both ways, bit for bit.
    """

    def predict(self, features: Floats) -> Floats:
        """Return predictions, shape (n,), for features of shape (n, features).

        A row's does not depend on others.
        """
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which the same predictor can be built; `kind` names its class."""
        ...


@runtime_checkable
class Explaining(Predictor, Protocol):
    """A predictor that is exactly a sum over features."""

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return Shapley values, shape (n, features), and the value they start from.

        Sums give the predictions.
        """
        ...


@dataclass(frozen=True, slots=True)
class Learned:
    """A predictor and what was decided while learning it.

    Attributes:
        predictor: The learned function.
        notes: Choices, as JSON values, for reports.
    """

    predictor: Predictor
    notes: Mapping[str, Any]


Learner = Callable[[Training], Learned]
"""Learns one target.

Raises:
    DataError: The rows do not allow it.
"""


class JointLearner(Protocol):
    """Learns several targets at once.

    Raises:
        DataError: The rows do not allow it.
    """

    def __call__(self, features: Floats, targets: Floats, *, seed: int) -> list[Learned]:
        """Return a predictor per target, given arrays of shape (n, features) and (n, targets)."""
        ...


def dot(features: Floats, weights: Floats) -> Floats:
    """Return the product of each row with the weights, shape (n,).

    Matrix products round differently for one row and for many, which would make a score depend on
    its batch; a sum over the last axis does not.
    """
    return np.asarray((np.ascontiguousarray(features) * weights).sum(axis=1), float)
