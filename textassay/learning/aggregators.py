"""`Aggregator` learns to predict human ratings, aspect by aspect, from many scores.

Scores are features: of criteria, judges and tools.

Works on arrays and names. All aggregators, from averages to networks, have the methods of this one
class, as in scikit-learn: `fit`, then `predict`.

Features are kept within bounds that come from the training rows (`Standardizer`), and the means of
a row's system and source take part if that helps (`pooling`).

Gaps: a feature without a value counts as its mean over the training rows. A row without any feature
is not learned from, and its prediction is NaN. A row without a rating for an aspect is left out for
that aspect only; aggregators that learn all aspects at once leave it out. Constant features are
ignored.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from textassay.arrays import Floats, Mask
from textassay.learning.blas import one_blas_thread
from textassay.learning.learners import NAMES, UNPOOLED, AspectLearner, LearnedAspect, blend_notes
from textassay.learning.pooling import Pool, PooledMeans, RowsWithMeans, Systems
from textassay.learning.splits import group_codes
from textassay.learning.standardizer import Standardizer
from textassay.learning.training import (
    Explaining,
    HeldOut,
    Numbers,
    column_names,
    find_leaks,
    label_texts,
    rows_without_features,
    to_matrix,
)
from textassay.runtime.errors import CapabilityError, ConfigurationError, DataError, UnknownName
from textassay.runtime.storage.files import digest_of

FORMAT = 1
"""Version of the format of `to_dict`."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """The contribution of each feature to each prediction."""

    values: Floats
    """Shape (n, targets, features), in units of the ratings; NaN if a row has no feature at all."""
    baseline: Floats
    """The prediction without features, shape (targets,). `baseline + values.sum(axis=2) + systems`
    is the prediction before it is clipped to the scale.
    """
    systems: Floats
    """Contribution of the means of the row's system and source, shape (n, targets); 0 if they are
    not used.
    """


class Aggregator:
    """Learns human ratings of one or more aspects from features.

    Args:
        name: One of `AGGREGATORS` or `JOINT`.
        scales: Lowest and highest rating by aspect; if absent, the lowest and highest seen in
            training. Predictions stay within.
        seed: Seed of everything random; equal data, seed and versions give equal predictions.
        threads: Threads that training may use; the result does not depend on it.
        new_systems: Whether rows of systems without ratings are to be judged. Then means of systems
            must help not only where sources are left out of training, but also where systems are.
        weigh: Whether `auto` weighs its members by folds of the rated rows; if not, `fit` gives all
            the same weight, and `weigh_members` returns one with weights.
    """

    features_: tuple[str, ...]
    """Names of the features, in the order of the columns."""
    targets_: tuple[str, ...]
    """Names of the human aspects, in the order of the columns."""
    leaks_: list[tuple[str, str]]
    """Pairs of feature and aspect that correlate above .999: the feature probably contains the
    ratings."""

    def __init__(
        self,
        name: str = "auto",
        *,
        scales: Mapping[str, tuple[float, float]] | None = None,
        seed: int = 0,
        threads: int = 1,
        new_systems: bool = False,
        weigh: bool = True,
    ) -> None:
        if name not in NAMES:
            raise UnknownName("aggregator", name, list(NAMES))
        self.name, self.scales, self.seed, self.threads = name, dict(scales or {}), seed, threads
        self.new_systems, self.weigh = new_systems, weigh

    def fit(
        self,
        features: Numbers,
        human: Numbers,
        *,
        groups: Iterable[Hashable] | None = None,
        feature_names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
        aspect_names: Iterable[str] | None = None,
        systems: Systems | None = None,
        sources: Systems | None = None,
        pool: Pool | None = None,
    ) -> Self:
        """Learn from rated rows.

        Args:
            features: Shape (n, features); NaN or `None` for gaps.
            human: Ratings, shape (n,) or (n, targets); NaN or `None` for gaps.
            groups: Group (source) of each row, length n, which cross-validation keeps together;
                each row is its own if absent.
            feature_names: Names of the columns. A feature belongs to an aspect when a part of its
                name between slashes is the aspect's; averages use the features that belong to their
                aspect or to none, or all if that leaves none.
            target_names: Names of the human aspects.
            aspect_names: Names of all aspects that features may belong to, if there are more than
                the targets.
            systems: System that wrote each row's text, length n, `None` if unknown. The means of
                the features over a system's rows take part in predictions if that lowers the
                error of rows that are left out, for systems of at least 10 rows.
            sources: Source of each row, length n, `None` if unknown. How far features lie from the
                mean of their source takes part in predictions if that lowers the error, for
                sources of at least 5 rows.
            pool: All rows whose features count in these means, such as unrated rows to judge; the
                training rows by default.

        Raises:
            DataError: Too few rows, ratings or features that do not vary, numbers off their scale,
                or an aggregator that would predict the same for all rows.
        """
        # a failed fit must not leave parts of an earlier one
        self.__dict__.pop("_aspects", None)
        x, y = to_matrix(features, "features"), to_matrix(human, "human ratings")
        codes = np.arange(len(x)) if groups is None else group_codes(groups)
        _require_length("human ratings", len(y), len(x))
        _require_length("groups", len(codes), len(x))
        self.features_ = column_names(feature_names, x.shape[1], "feature")
        self.targets_ = column_names(target_names, y.shape[1], "aspect")
        self.leaks_ = find_leaks(x, y, self.features_, self.targets_)

        empty = rows_without_features(x)
        self._learn_standardizer(x[~empty])
        system_of, source_of = _row_labels(systems, len(x)), _row_labels(sources, len(x))
        self._learn_means(
            pool or Pool(x, system_of, source_of),
            systems=systems is not None,
            sources=sources is not None,
        )
        rows = RowsWithMeans(
            self._standardizer(x), self._systems, self._sources, system_of, source_of
        )
        learner = AspectLearner(
            self.name, self.features_, scales=self.scales, seed=self.seed, threads=self.threads,
            new_systems=self.new_systems, weigh=self.weigh,
        )  # fmt: skip
        # a row without any feature is useless for learning
        ratings = np.where(empty[:, None], np.nan, y)
        named = {*self.targets_, *(aspect_names or ())}
        with one_blas_thread():
            self._aspects = learner.learn(self.targets_, rows, codes, ratings, named)
        return self

    def _learn_standardizer(self, x: Floats) -> None:
        """Learn means and bounds from all rows with features, rated or not.

        They need no ratings, and more rows make them more stable.
        """
        if not len(x):
            raise DataError("no row has any feature")
        self._standardizer = Standardizer.learn(x)
        if not self._standardizer.inverse_sds.any():
            raise DataError("no feature varies over the training rows, so nothing can be learned")

    @property
    def notes_(self) -> dict[str, dict[str, Any]]:
        """Rows, groups and decisions of learning, by aspect."""
        return {
            name: aspect.notes
            for name, aspect in zip(self.targets_, self._require_fitted(), strict=True)
        }

    def predict(
        self,
        features: Numbers,
        *,
        systems: Systems | None = None,
        sources: Systems | None = None,
        clip: bool = True,
    ) -> Floats:
        """Return predicted ratings, shape (n, targets); NaN if a row has no feature at all.

        Args:
            features: Shape (n, features), columns as in training; NaN or `None` if there is
                none.
            systems: System that wrote each row's text; rows of unknown systems, and of `None`, are
                predicted from their features alone.
            sources: Source of each row; unknown ones as in `systems`.
            clip: Keep predictions on the scale; without, they are what `contributions` add up to.

        Raises:
            ConfigurationError: Not fitted yet.
            DataError: The number of columns is different from training.
        """
        rows, empty = self._prepare(features, systems, sources)
        predicted = np.empty((len(empty), len(self.targets_)))
        for column, aspect in enumerate(self._require_fitted()):
            values = aspect.predict(rows)
            predicted[:, column] = np.clip(values, *aspect.limits) if clip else values
        # such rows would all get the same number, which was not measured
        predicted[empty] = np.nan
        return predicted

    @property
    def members_(self) -> list[tuple[str, ...]]:
        """Names of the members of an `auto` without weights, by aspect."""
        return [aspect.members() for aspect in self._require_fitted()]

    def by_member(
        self, features: Numbers, *, systems: Systems | None = None
    ) -> list[dict[str, Floats]]:
        """Return the predictions of each member of an `auto` without weights, by aspect.

        Args:
            features: Shape (n, features), columns as in training.
            systems: System that wrote each row's text.

        Returns:
            For each aspect predictions by name of the member, shape (n,) each; NaN if a row has no
            feature at all.
        """
        rows, empty = self._prepare(features, systems, None)
        return [
            {
                name: np.where(empty, np.nan, aspect.with_weights({name: 1.0}).predict(rows))
                for name in aspect.members()
            }
            for aspect in self._require_fitted()
        ]

    def weigh_members(self, held_out: Sequence[HeldOut]) -> Aggregator:
        """Return the aggregator with members weighed by their errors on held-out rows.

        Args:
            held_out: For each aspect, predictions by members of this aggregator.

        Raises:
            DataError: No member is left.
        """
        weighed = copy(self)
        weighed._aspects = []
        for aspect, rows in zip(self._require_fitted(), held_out, strict=True):
            notes = aspect.notes | blend_notes(rows)
            notes["failed"] = aspect.notes["failed"] | rows.failed
            weighed._aspects.append(replace(aspect, notes=notes).with_weights(notes["weights"]))
        return weighed

    def clip_bounds(self, features: Numbers) -> Floats:
        """Return the bounds that replace features beyond them, shape (n, features); NaN elsewhere.

        Raises:
            ConfigurationError: Not fitted yet.
        """
        self._require_fitted()
        x = to_matrix(features, "features")
        clipped = np.clip(x, self._standardizer.low, self._standardizer.high)
        return np.where(self._standardizer.beyond(x), clipped, np.nan)

    @property
    def pools_systems(self) -> bool:
        """Whether the means of systems are used for any aspect."""
        return any("pooled" in aspect.with_means for aspect in self._require_fitted())

    def pools_systems_for(self, target: str) -> bool:
        """Whether the means of systems are used for one aspect."""
        return "pooled" in self._require_fitted()[self.targets_.index(target)].with_means

    @property
    def pools_sources(self) -> bool:
        """Whether the distance from the mean of a row's source is used for any aspect."""
        return any("centered" in aspect.with_means for aspect in self._require_fitted())

    def with_pool(self, pool: Pool) -> Aggregator:
        """Return the aggregator with the means of further systems and sources, from rows to judge.

        Systems that are known keep their means, and only an aggregator that was fitted with
        `new_systems` takes further ones. Sources are taken from the pool alone.

        Raises:
            ConfigurationError: Not fitted yet.
        """
        systems = self.pools_systems and self.new_systems
        sources = self.pools_sources and pool.sources is not None
        if not systems and not sources:
            return self
        z = self._standardizer(to_matrix(pool.features, "features"), keep_gaps=True)
        # a copy: one fitted aggregator may serve several runs with different pools
        pooled = copy(self)
        if systems:
            pooled._systems = self._systems.extend(z, label_texts(pool.systems))
        if sources:
            pooled._sources = self._sources.over(z, label_texts(pool.sources or ()))
        return pooled

    @property
    def explains_exactly(self) -> bool:
        """Whether `contributions` are available: for all but `mlp` and `mlp-joint`."""
        return all(isinstance(aspect.predictor, Explaining) for aspect in self._require_fitted())

    def contributions(
        self, features: Numbers, *, systems: Systems | None = None, sources: Systems | None = None
    ) -> Contributions:
        """Return exact Shapley values of every prediction.

        Closed form for sums, TreeSHAP for trees.

        Raises:
            CapabilityError: The aggregator is neither a sum nor trees;
                `attribution.sampled_shapley` takes any.
            DataError: The number of columns is different from training.
        """
        rows, empty = self._prepare(features, systems, sources)
        if not self.explains_exactly:
            raise CapabilityError(
                f"aggregator {self.name!r} has no exact contributions; use sampled_shapley"
            )
        parts = [aspect.contributions(rows) for aspect in self._require_fitted()]
        values = np.stack([part.features for part in parts], axis=1)
        means = np.stack([part.means for part in parts], axis=1)
        values[empty], means[empty] = np.nan, np.nan
        return Contributions(values, np.array([part.baseline for part in parts]), means)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which `from_dict` restores bit-equal predictions."""
        of_sources = {"sources": {"ratios": self._sources.ratios.tolist()}}
        content = {
            "format": FORMAT,
            "name": self.name,
            "seed": self.seed,
            "scales": {
                name: [float(low), float(high)] for name, (low, high) in self.scales.items()
            },
            "features": list(self.features_),
            **self._standardizer.to_dict(),
            "new_systems": self.new_systems,
            "systems": self._systems.to_dict() if len(self._systems.ratios) else None,
            **(of_sources if self.pools_sources else {}),
            "leaks": [list(pair) for pair in self.leaks_],
            "aspects": [
                {"name": name, **aspect.to_dict()}
                for name, aspect in zip(self.targets_, self._require_fitted(), strict=True)
            ],
        }
        return {**content, "digest": digest_of(content)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Aggregator:
        """Return the aggregator that `to_dict` was called on.

        Raises:
            DataError: Of a newer format, changed since it was written, or with parts that do not
                fit each other.
        """
        version = data.get("format")
        if not isinstance(version, int) or version > FORMAT:
            raise DataError(
                f"aggregator has format {version!r}; this version of textassay reads format"
                f" {FORMAT}"
            )
        content = {name: value for name, value in data.items() if name != "digest"}
        # only the digest can show a changed weight
        if data.get("digest") != digest_of(content):
            raise DataError(
                "the aggregator was edited or damaged since it was written (its digest differs);"
                " fit again"
            )
        # a foreign file may be malformed with a correct digest
        try:
            return cls._restore(content)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"the aggregator is damaged: {error!r}; fit again") from error

    @classmethod
    def _restore(cls, content: Mapping[str, Any]) -> Aggregator:
        """Return the aggregator of a content whose format and digest are right."""
        scales = {
            name: (float(low), float(high)) for name, (low, high) in content["scales"].items()
        }
        result = cls(
            content["name"],
            scales=scales,
            seed=content["seed"],
            new_systems=bool(content.get("new_systems", False)),
        )
        result.features_ = tuple(content["features"])
        result.targets_ = tuple(aspect["name"] for aspect in content["aspects"])
        result.leaks_ = [(feature, target) for feature, target in content["leaks"]]
        width = len(result.features_)
        result._standardizer = Standardizer.from_dict(content)
        learned = result._standardizer
        arrays = (learned.means, learned.inverse_sds, learned.low, learned.high)
        if {array.shape for array in arrays} != {(width,)}:
            raise ValueError(f"the saved means, deviations or bounds do not have {width} entries")
        systems, sources = content.get("systems"), content.get("sources") or {"ratios": ()}
        result._systems = PooledMeans.from_dict(systems) if systems else PooledMeans()
        result._sources = PooledMeans.of_ratios(np.array(sources["ratios"], float))
        result._aspects = [LearnedAspect.from_dict(aspect, width) for aspect in content["aspects"]]
        return result

    def _learn_means(self, pool: Pool, *, systems: bool, sources: bool) -> None:
        """Learn the means of systems and of sources if rows have such labels."""
        self._systems, self._sources = PooledMeans(), PooledMeans()
        if self.name in UNPOOLED or not (systems or sources):
            return
        z = self._standardizer(to_matrix(pool.features, "pooled features"), keep_gaps=True)
        if systems:
            self._systems = PooledMeans.learn(z, label_texts(pool.systems))
        if sources and pool.sources is not None:
            self._sources = PooledMeans.of_sources(z, label_texts(pool.sources))

    def _prepare(
        self, features: Numbers, systems: Systems | None, sources: Systems | None
    ) -> tuple[RowsWithMeans, Mask]:
        """Return standardized rows with their means, and a mask of rows without any feature."""
        self._require_fitted()
        x = to_matrix(features, "features")
        if x.shape[1] != len(self.features_):
            raise DataError(
                f"the aggregator was fitted on {len(self.features_)} features, not {x.shape[1]}"
            )
        system_of, source_of = _row_labels(systems, len(x)), _row_labels(sources, len(x))
        rows = RowsWithMeans(
            self._standardizer(x), self._systems, self._sources, system_of, source_of
        )
        return rows, rows_without_features(x)

    def _require_fitted(self) -> list[LearnedAspect]:
        if not hasattr(self, "_aspects"):
            raise ConfigurationError(f"aggregator {self.name!r} is not fitted; call fit first")
        return self._aspects


def _row_labels(labels: Systems | None, rows: int) -> Systems:
    """Return the labels of the rows as text; `None` for each row if there are none."""
    if labels is None:
        return [None] * rows
    _require_length("systems and sources", len(labels), rows)
    return label_texts(labels)


def _require_length(name: str, length: int, rows: int) -> None:
    """Raise `DataError` unless there is one of these per row of the features."""
    if length != rows:
        raise DataError(f"{name} must be as long as the features, not {length} and {rows}")
