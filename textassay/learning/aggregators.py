"""Aggregators: from the scores of many features (criteria, judges, tools) to what people would say, aspect by aspect.

Knows arrays and names; nothing of examples, runs or models. One protocol for all families, in
scikit-learn's language.

What happens to gaps: a feature without a value counts as its mean over the training rows. A row
without any feature is not learnt from, and its prediction is NaN. A row without a rating for an
aspect is left out for that aspect only. Features that never vary take no part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from textassay.learning.auto import Blend, learn_auto
from textassay.learning.averages import learn_avg, learn_corrw
from textassay.learning.linear import Linear, learn_linear, learn_nnls, learn_ridge
from textassay.learning.mlp import Mlp, learn_mlp
from textassay.learning.splits import Codes, Mask, group_codes
from textassay.learning.training import Explaining, Floats, Learner, Predictor, Training
from textassay.learning.trees import Trees, learn_forest, learn_lightgbm, learn_tree
from textassay.runtime.errors import CapabilityError, ConfigurationError, DataError, UnknownName
from textassay.runtime.messages import slug

AGGREGATORS: dict[str, Learner] = {
    "auto": learn_auto,
    "avg": learn_avg,
    "corrw": learn_corrw,
    "linear": learn_linear,
    "nnls": learn_nnls,
    "ridge": learn_ridge,
    "tree": learn_tree,
    "forest": learn_forest,
    "mlp": learn_mlp,
    "lightgbm": learn_lightgbm,
}
"""Learners of one aspect by name."""

FORMAT = 1
"""Version of what `to_dict` returns."""

_MIN_ROWS = 5
_LARGEST = 1e100
_LEAK = 0.999


@dataclass(frozen=True, slots=True)
class Contributions:
    """How far each feature moved each prediction.

    Attributes:
        values: Shape (n, targets, features), in units of the ratings; NaN where a row has no
            feature at all.
        base: Where every prediction starts, shape (targets,). `base + values.sum(axis=2)` is the
            prediction before it is kept on the scale.
    """

    values: Floats
    base: Floats


class Aggregator:
    """Learns human ratings of one or more aspects from features.

    Args:
        name: One of `AGGREGATORS`.
        scales: Lowest and highest rating by aspect; where absent, the lowest and highest seen in
            training. Predictions stay within.
        seed: Seed of everything random; equal data, seed and versions give equal predictions.
        threads: Threads that training may use; the result does not depend on it.

    Attributes:
        features_: Names of the features, in the order of the columns.
        targets_: Names of the human aspects, in the order of the columns.
        notes_: By aspect, how many rows were learnt from and what was decided.
        leaks_: Pairs of feature and aspect that correlate above .999: the feature likely holds the
            answer.
    """

    def __init__(
        self,
        name: str = "auto",
        *,
        scales: Mapping[str, tuple[float, float]] | None = None,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        if name not in AGGREGATORS:
            raise UnknownName("aggregator", name, list(AGGREGATORS))
        self.name, self.scales, self.seed, self.threads = name, dict(scales or {}), seed, threads

    def fit(
        self,
        features: ArrayLike | Sequence[Sequence[float | None]],
        human: ArrayLike | Sequence[Sequence[float | None]],
        *,
        groups: Iterable[Hashable] | None = None,
        feature_names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
    ) -> Self:
        """Learn from rated rows.

        Args:
            features: Shape (n, features); NaN or `None` where there is none.
            human: Ratings, shape (n,) or (n, targets); NaN or `None` where there is none.
            groups: Group (source) of each row, length n, which cross-validation keeps together;
                each row by itself where absent.
            feature_names: Names of the columns. A feature belongs to an aspect when a part of its
                name between slashes is the aspect's; averages use the features that do, or all
                where none does.
            target_names: Names of the human aspects.

        Raises:
            DataError: Too few rows, ratings or features that do not vary, numbers off their scale,
                or an aggregator that would predict the same for all rows.
        """
        x, y = _matrix(features, "features"), _matrix(human, "human ratings")
        if len(x) != len(y):
            raise DataError(
                f"features and human ratings must have equally many rows, not {len(x)} and {len(y)}"
            )
        self.features_ = _names(feature_names, x.shape[1], "feature")
        self.targets_ = _names(target_names, y.shape[1], "aspect")
        codes = np.arange(len(x)) if groups is None else group_codes(groups)
        if len(codes) != len(x):
            raise DataError(
                f"groups must be as long as the features, not {len(codes)} and {len(x)}"
            )
        filled: Mask = ~_empty(x)
        if not filled.any():
            raise DataError("no row has any feature")
        self._means, self._inverse_sds = _standardise(x[filled])
        if not self._inverse_sds.any():
            raise DataError("no feature varies over the training rows, so nothing can be learnt")
        self.leaks_ = find_leaks(x, y, self.features_, self.targets_)
        self._aspects = [
            self._learn(x, y[:, column], codes, filled, name)
            for column, name in enumerate(self.targets_)
        ]
        return self

    @property
    def notes_(self) -> dict[str, dict[str, Any]]:
        """By aspect: rows, groups and what was decided in learning."""
        return {
            name: aspect.notes for name, aspect in zip(self.targets_, self._fitted(), strict=True)
        }

    def predict(
        self, features: ArrayLike | Sequence[Sequence[float | None]], *, clip: bool = True
    ) -> Floats:
        """Return predicted ratings, shape (n, targets); NaN where a row has no feature at all.

        Args:
            features: Shape (n, features), columns as in training; NaN or `None` where there is
                none.
            clip: Keep predictions on the scale; without, they are what `contributions` add up to.

        Raises:
            ConfigurationError: Not fitted yet.
            DataError: The number of columns is another one than in training.
        """
        z, empty = self._standardised(features)
        predicted = np.empty((len(z), len(self.targets_)))
        for column, aspect in enumerate(self._fitted()):
            values = aspect.mean + aspect.sd * aspect.predictor.predict(z)
            predicted[:, column] = np.clip(values, *aspect.limits) if clip else values
        predicted[empty] = np.nan
        return predicted

    @property
    def explains_exactly(self) -> bool:
        """Whether `contributions` can be told: for all but `mlp`."""
        return all(isinstance(aspect.predictor, Explaining) for aspect in self._fitted())

    def contributions(
        self, features: ArrayLike | Sequence[Sequence[float | None]]
    ) -> Contributions:
        """Return exact Shapley values of every prediction: closed form for sums, TreeSHAP for trees.

        Raises:
            CapabilityError: The aggregator is no sum and no trees; `attribution.sampled_shapley`
                takes any.
            DataError: The number of columns is another one than in training.
        """
        z, empty = self._standardised(features)
        values, bases = np.empty((len(z), len(self.targets_), z.shape[1])), []
        for column, aspect in enumerate(self._fitted()):
            if not isinstance(aspect.predictor, Explaining):
                raise CapabilityError(
                    f"aggregator {self.name!r} has no exact contributions; use sampled_shapley"
                )
            found, base = aspect.predictor.contributions(z)
            values[:, column] = aspect.sd * found
            bases.append(aspect.mean + aspect.sd * base)
        values[empty] = np.nan
        return Contributions(values=values, base=np.array(bases))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which `from_dict` builds an aggregator with bit-equal predictions."""
        content = {
            "format": FORMAT,
            "name": self.name,
            "seed": self.seed,
            "scales": {
                name: [float(low), float(high)] for name, (low, high) in self.scales.items()
            },
            "features": list(self.features_),
            "means": self._means.tolist(),
            "inverse_sds": self._inverse_sds.tolist(),
            "leaks": [list(pair) for pair in self.leaks_],
            "aspects": [
                {"name": name, **aspect.to_dict()}
                for name, aspect in zip(self.targets_, self._fitted(), strict=True)
            ],
        }
        return {**content, "digest": _digest(content)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Aggregator:
        """Build from `to_dict`.

        Raises:
            DataError: Of a newer format, or changed since it was written.
        """
        version = data.get("format")
        if not isinstance(version, int) or version > FORMAT:
            raise DataError(
                f"aggregator has format {version!r}; this version of textassay reads format {FORMAT}"
            )
        content = {name: value for name, value in data.items() if name != "digest"}
        if data.get("digest") != _digest(content):
            raise DataError(
                "the aggregator was edited or damaged since it was written (its digest differs); fit again"
            )
        scales = {
            name: (float(low), float(high)) for name, (low, high) in content["scales"].items()
        }
        made = cls(content["name"], scales=scales, seed=content["seed"])
        made.features_ = tuple(content["features"])
        made.targets_ = tuple(aspect["name"] for aspect in content["aspects"])
        made.leaks_ = [(feature, target) for feature, target in content["leaks"]]
        made._means, made._inverse_sds = (
            np.array(content["means"]),
            np.array(content["inverse_sds"]),
        )
        made._aspects = [_Aspect.from_dict(aspect) for aspect in content["aspects"]]
        return made

    def _learn(self, x: Floats, ratings: Floats, codes: Codes, filled: Mask, name: str) -> _Aspect:
        rows = filled & ~np.isnan(ratings)
        target = ratings[rows]
        if len(target) < _MIN_ROWS:
            raise DataError(
                f"aspect {name!r}: {len(target)} rated rows with features; at least {_MIN_ROWS} needed"
            )
        mean, sd = float(target.mean()), float(target.std())
        if target.min() == target.max():
            raise DataError(
                f"aspect {name!r}: people rate all rows {target[0]:g}, so nothing can be learnt"
            )
        limits = _limits(target, self.scales.get(name), name)
        training = Training(
            features=(np.where(np.isnan(x), self._means, x) - self._means)[rows]
            * self._inverse_sds,
            target=(target - mean) / sd,
            groups=codes[rows],
            own=_own(self.features_, name),
            seed=self.seed,
            threads=self.threads,
        )
        try:
            learned = AGGREGATORS[self.name](training)
        except DataError as error:
            raise DataError(f"aspect {name!r}: {error}") from error
        fitted = np.clip(mean + sd * learned.predictor.predict(training.features), *limits)
        if fitted.min() == fitted.max():
            raise DataError(
                f"aspect {name!r}: aggregator {self.name!r} predicts {fitted[0]:g} for all of {len(target)} rows; "
                "use 'avg' or 'ridge', or more rows"
            )
        notes = {"rows": len(target), "groups": len(np.unique(training.groups)), **learned.notes}
        return _Aspect(learned.predictor, mean, sd, limits, notes)

    def _standardised(
        self, features: ArrayLike | Sequence[Sequence[float | None]]
    ) -> tuple[Floats, Mask]:
        self._fitted()
        x = _matrix(features, "features")
        if x.shape[1] != len(self.features_):
            raise DataError(
                f"the aggregator was fitted on {len(self.features_)} features, not {x.shape[1]}"
            )
        return (np.where(np.isnan(x), self._means, x) - self._means) * self._inverse_sds, _empty(x)

    def _fitted(self) -> list[_Aspect]:
        if not hasattr(self, "_aspects"):
            raise ConfigurationError(f"aggregator {self.name!r} is not fitted; call fit first")
        return self._aspects


@dataclass(frozen=True, slots=True)
class _Aspect:
    """What was learnt for one human aspect: a predictor of standardised ratings, and the way back to ratings."""

    predictor: Predictor
    mean: float
    sd: float
    limits: tuple[float, float]
    notes: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "sd": self.sd,
            "limits": list(self.limits),
            "notes": self.notes,
            "predictor": self.predictor.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> _Aspect:
        low, high = data["limits"]
        return cls(
            predictor_from(data["predictor"]), data["mean"], data["sd"], (low, high), data["notes"]
        )


def predictor_from(data: Mapping[str, Any]) -> Predictor:
    """Build a predictor from its JSON values.

    Raises:
        DataError: There is no such kind of predictor.
    """
    if data["kind"] == "blend":
        members = [predictor_from(member) for member in data["members"]]
        return Blend(tuple(member for member in members if isinstance(member, Explaining)))
    kinds: dict[str, Callable[[Mapping[str, Any]], Predictor]] = {
        "linear": Linear.from_dict,
        "trees": Trees.from_dict,
        "mlp": Mlp.from_dict,
    }
    if data["kind"] not in kinds:
        raise DataError(
            f"unknown kind of predictor {data['kind']!r}; known: {', '.join([*kinds, 'blend'])}"
        )
    return kinds[data["kind"]](data)


def find_leaks(
    features: Floats, human: Floats, feature_names: Sequence[str], target_names: Sequence[str]
) -> list[tuple[str, str]]:
    """Return pairs of feature and aspect that correlate above .999 in magnitude over at least 10 rows.

    Args:
        features: Shape (n, features), NaN where absent.
        human: Shape (n, targets), NaN where absent.
        feature_names: Names of the features.
        target_names: Names of the aspects.
    """
    found = []
    for t, target in enumerate(target_names):
        for f, feature in enumerate(feature_names):
            both = ~np.isnan(features[:, f]) & ~np.isnan(human[:, t])
            x, y = features[both, f], human[both, t]
            if (
                len(x) >= 10
                and np.ptp(x) > 0
                and np.ptp(y) > 0
                and abs(np.corrcoef(x, y)[0, 1]) > _LEAK
            ):
                found.append((feature, target))
    return found


def _matrix(values: ArrayLike | Sequence[Sequence[float | None]], name: str) -> Floats:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be a table of numbers (None or NaN where there is none): {error}"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{name} must have rows and columns, not shape {array.shape}")
    if (beyond := np.abs(array) > _LARGEST).any():
        row, column = (int(i) for i in np.argwhere(beyond)[0])
        raise DataError(
            f"{name} hold {array[row, column]} in row {row}, column {column}; numbers must be finite"
        )
    return np.ascontiguousarray(array)


def _empty(x: Floats) -> Mask:
    return np.asarray(np.isnan(x).all(axis=1), bool)


def _names(names: Sequence[str] | None, count: int, kind: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{kind}_{i}" for i in range(count))
    if len(names) != count:
        raise DataError(f"{len(names)} {kind} names for {count} columns")
    if len(set(names)) != count:
        raise DataError(
            f"{kind} names repeat: {', '.join(sorted({n for n in names if list(names).count(n) > 1}))}"
        )
    return tuple(names)


def _standardise(x: Floats) -> tuple[Floats, Floats]:
    """Return mean and 1 / standard deviation of each column over what is there; 0 for the latter where none varies."""
    means, inverse = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for column in range(x.shape[1]):
        there = x[~np.isnan(x[:, column]), column]
        if len(there):
            means[column] = there.mean()
            if there.min() != there.max():
                inverse[column] = 1 / there.std()
    return means, inverse


def _own(features: Sequence[str], target: str) -> Mask:
    own = np.array(
        [slug(target) in [slug(part) for part in feature.split("/")] for feature in features], bool
    )
    return own if own.any() else np.ones(len(features), bool)


def _limits(target: Floats, scale: tuple[float, float] | None, name: str) -> tuple[float, float]:
    low, high = float(target.min()), float(target.max())
    if scale is None:
        return low, high
    if low < scale[0] or high > scale[1]:
        raise DataError(
            f"aspect {name!r}: ratings from {low:g} to {high:g} are off the scale {scale[0]:g}-{scale[1]:g}"
        )
    return float(scale[0]), float(scale[1])


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
