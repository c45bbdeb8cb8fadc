"""Learns the predictors of aspects from standardized training rows, by the learner that is named.

What an `Aggregator` does with them stands in `aggregators`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textassay.learning.aspect import LearnedAspect
from textassay.learning.auto import learn_auto
from textassay.learning.averages import learn_avg, learn_corrw
from textassay.learning.beside import Beside
from textassay.learning.checks import limits_of
from textassay.learning.joint_trees import learn_joint_forest, learn_joint_tree
from textassay.learning.kernel import learn_kernel
from textassay.learning.linear import learn_linear, learn_nnls, learn_ridge
from textassay.learning.mlp import learn_joint_mlp, learn_mlp
from textassay.learning.naming import features_for
from textassay.learning.pooling import compare_pooling
from textassay.learning.sources import MIN_GAIN, MIN_SOURCES, SourceMeans
from textassay.learning.splits import Codes, Mask, group_codes
from textassay.learning.systems import MIN_SYSTEMS, SystemMeans, Systems
from textassay.learning.training import (
    Floats,
    JointLearner,
    Learned,
    Learner,
    Predictor,
    Training,
)
from textassay.learning.trees import learn_forest, learn_lightgbm, learn_tree
from textassay.runtime.errors import DataError

AGGREGATORS: dict[str, Learner] = {
    "auto": learn_auto,
    "avg": learn_avg,
    "corrw": learn_corrw,
    "linear": learn_linear,
    "nnls": learn_nnls,
    "ridge": learn_ridge,
    "kernel": learn_kernel,
    "tree": learn_tree,
    "forest": learn_forest,
    "mlp": learn_mlp,
    "lightgbm": learn_lightgbm,
}
"""Learners of one aspect by name."""

JOINT: dict[str, JointLearner] = {
    "tree-joint": learn_joint_tree,
    "forest-joint": learn_joint_forest,
    "mlp-joint": learn_joint_mlp,
}
"""Learners of all aspects at once by name, as HD-Eval's are (equation 2, appendix C.3)."""

NAMES = (*AGGREGATORS, *JOINT)
"""Names of all aggregators."""

UNPOOLED = ("avg", "corrw", "mlp", *JOINT)
"""Aggregators that take no means of systems: the plain averages, what has no exact contributions,
and what learns all aspects at once, which cannot decide aspect by aspect."""

_MIN_ROWS = 5


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Rows to learn from, whether rated or not.

    Attributes:
        features: Standardized, shape (n, features).
        filled: Which rows have any feature, length n.
        groups: Code of each row's group.
        systems: System that wrote each row's text, `None` if unknown.
        sources: Source of each row, `None` if unknown.
    """

    features: Floats
    filled: Mask
    groups: Codes
    systems: Systems
    sources: Systems


@dataclass(frozen=True)
class AspectLearner:
    """Learns aspects by one of the learners.

    Attributes:
        name: One of `AGGREGATORS` or `JOINT`.
        features: Names of the features.
        scales: Lowest and highest rating by aspect, where known.
        seed: Seed of everything random.
        threads: Threads that training may use.
        systems: Means of systems that may take part; `None` for none.
        sources: Means of sources that may take part; `None` for none.
        new_systems: Whether rows of systems without ratings are to be judged.
    """

    name: str
    features: Sequence[str]
    scales: Mapping[str, tuple[float, float]]
    seed: int
    threads: int
    systems: SystemMeans | None
    sources: SourceMeans | None
    new_systems: bool

    def learn(
        self, names: Sequence[str], rows: TrainingRows, ratings: Floats, named: Iterable[str]
    ) -> list[LearnedAspect]:
        """Learn the aspects: one by one, or all at once if the learner does.

        Args:
            names: The aspects.
            rows: All rows.
            ratings: People's, shape (n, aspects); NaN for gaps.
            named: All aspects that features may belong to.

        Raises:
            DataError: Too few rows, or ratings or predictions that do not vary.
        """
        if self.name in JOINT:
            return self._learn_together(names, rows, ratings)
        known = set(named)
        return [
            self._learn_one(name, rows, column, known)
            for name, column in zip(names, ratings.T, strict=True)
        ]

    def _learn_one(
        self, name: str, rows: TrainingRows, ratings: Floats, named: Iterable[str]
    ) -> LearnedAspect:
        """Learn one aspect from the rows that are rated on it."""
        used = rows.filled & ~np.isnan(ratings)
        target = ratings[used]
        mean, sd, limits = self._spread(target, name)
        training = Training(
            features=rows.features[used],
            # standardized targets let penalties and shrinkage mean the same on any scale of
            # ratings
            target=(target - mean) / sd,
            groups=rows.groups[used],
            own=features_for(name, self.features, named),
            seed=self.seed,
            threads=self.threads,
        )
        try:
            learned = AGGREGATORS[self.name](training)
            at = np.flatnonzero(used).tolist()
            beside = Beside(
                training.features,
                self.systems,
                self.sources,
                [rows.systems[row] for row in at],
                [rows.sources[row] for row in at],
            )
            means = self._learn_pooled(training, beside)
        except DataError as error:
            raise DataError(f"aspect {name!r}: {error}") from error
        notes = {"rows": len(target), "groups": len(np.unique(training.groups)), **learned.notes}
        notes |= means.notes
        made = LearnedAspect(
            learned.predictor, mean, sd, limits, notes, means.pooled, means.centered
        )
        self._refuse_constant(made, training.features, name)
        return made

    def _learn_together(
        self, names: Sequence[str], rows: TrainingRows, ratings: Floats
    ) -> list[LearnedAspect]:
        """Learn all aspects at once, from the rows that are rated on each of them."""
        used = rows.filled & ~np.isnan(ratings).any(axis=1)
        if used.sum() < _MIN_ROWS:
            raise DataError(
                f"aggregator {self.name!r} learns all aspects at once and {int(used.sum())} rows "
                f"are rated on each of {', '.join(names)}; at least {_MIN_ROWS} needed. "
                "Use one that learns aspect by aspect, such as 'mlp' or 'forest'"
            )
        ratings = ratings[used]
        spreads = [self._spread(t, name) for t, name in zip(ratings.T, names, strict=True)]
        means, sds = np.array([one[0] for one in spreads]), np.array([one[1] for one in spreads])
        features = rows.features[used]
        predictors: list[Learned] = JOINT[self.name](
            features, (ratings - means) / sds, seed=self.seed
        )
        groups = len(np.unique(rows.groups[used]))
        aspects = []
        for name, learned, spread in zip(names, predictors, spreads, strict=True):
            notes = {"rows": len(ratings), "groups": groups, **learned.notes}
            aspects.append(LearnedAspect(learned.predictor, *spread, notes))
            self._refuse_constant(aspects[-1], features, name)
        return aspects

    def _spread(self, target: Floats, name: str) -> tuple[float, float, tuple[float, float]]:
        """Return mean, standard deviation and limits of an aspect's ratings."""
        if len(target) < _MIN_ROWS:
            raise DataError(
                f"aspect {name!r}: {len(target)} rated rows with features; at least {_MIN_ROWS}"
                " needed"
            )
        if target.min() == target.max():
            raise DataError(
                f"aspect {name!r}: people rate all rows {target[0]:g}, so nothing can be learned"
            )
        limits = limits_of(target, self.scales.get(name), name)
        return float(target.mean()), float(target.std()), limits

    def _refuse_constant(self, made: LearnedAspect, features: Floats, name: str) -> None:
        fitted = np.clip(made.mean + made.sd * made.predictor.predict(features), *made.limits)
        # LightGBM predicts a constant without a warning if it cannot split; as a score it would
        # look valid
        if fitted.min() == fitted.max():
            raise DataError(
                f"aspect {name!r}: aggregator {self.name!r} predicts {fitted[0]:g} for all of"
                f" {len(features)} rows; use 'avg' or 'ridge', or more rows"
            )

    def _learn_pooled(self, training: Training, rows: Beside) -> _Pooled:
        """Learn with the means of systems, then with those of sources, each only if they help."""
        pooled = self._compare(training, rows, system=True, source=False)
        system = pooled is not None and pooled.helps
        centered = self._compare(training, rows, system=system, source=True)
        notes = {
            name: one.notes
            for name, one in (("systems", pooled), ("sources", centered))
            if one is not None
        }
        learned = [
            AGGREGATORS[self.name](one.beside).predictor if one is not None and one.helps else None
            for one in (pooled, centered)
        ]
        return _Pooled(learned[0], learned[1], notes)

    def _compare(
        self, training: Training, rows: Beside, *, system: bool, source: bool
    ) -> _Tried | None:
        """Compare learning without and with means; `None` if too few rows have them."""
        known = rows.known(system=system, source=source)
        systems = [rows.system_of[row] for row in np.flatnonzero(known).tolist()]
        groups = len(np.unique(training.groups[known]))
        # with two systems their means are a label of the system, and any difference between them
        # fits
        if groups < (MIN_SOURCES if source else 2) or (system and len(set(systems)) < MIN_SYSTEMS):
            return None
        chosen = training.rows(known)
        # the means of a feature belong to the aspect that the feature belongs to
        without, beside = (
            replace(chosen, features=x, own=np.tile(chosen.own, x.shape[1] // len(chosen.own)))
            for x in (
                rows.rows(known, system=system and source, source=False),
                rows.rows(known, system=system, source=source),
            )
        )
        new = self.new_systems and system
        comparison = compare_pooling(
            without, beside, group_codes(systems), new=new, least_gain=MIN_GAIN if source else 0.0
        )
        if comparison is None:
            return None
        count = groups if source else len(set(systems))
        return _Tried(comparison.helps, beside, comparison.as_dict(count, new=new))


@dataclass(frozen=True, slots=True)
class _Tried:
    """Training rows with means beside their features, and whether these help."""

    helps: bool
    beside: Training
    notes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Predictors that know the means of systems and of sources, and what was decided."""

    pooled: Predictor | None
    centered: Predictor | None
    notes: dict[str, Any]
