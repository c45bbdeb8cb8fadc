"""Learners by name, their blend, and the predictor that one learns for an aspect.

`AspectLearner` turns standardized training rows into a `LearnedAspect` for each human aspect;
`Aggregator` prepares the rows.

The blend, `auto`, weighs learners by how well they predict groups that they have not seen.
Regressions, forest, boosting and kernel err in different ways, so that their mean beats each of
them if all are about equally good; choosing the best of many by their errors alone does more harm
than good. A learner that is clearly worse gets less weight, such as trees with few rows, or
non-negative weights for features that fall as quality rises. The weights are pseudo-Bayesian: the
exponential of the held-out log-likelihood, tempered because errors of few groups are uncertain
themselves (Yao et al., "Using stacking to average Bayesian predictive distributions", 2018, section
3.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from textassay.arrays import Codes, Floats, Mask
from textassay.learning.pooling import FEWEST, RowsWithMeans, compare_pooling
from textassay.learning.regression import (
    KernelSum,
    Linear,
    Mlp,
    fit_best_feature,
    fit_correlation_weights,
    fit_joint_mlp,
    fit_kernel,
    fit_linear,
    fit_mean,
    fit_mlp,
    fit_nnls,
    fit_ridge,
)
from textassay.learning.splits import group_codes
from textassay.learning.training import (
    Explaining,
    FitResult,
    HeldOut,
    JointLearner,
    Learner,
    Predictor,
    Training,
    cross_validate,
    features_for,
    rating_limits,
)
from textassay.learning.trees import (
    Trees,
    fit_boosting,
    fit_forest,
    fit_joint_forest,
    fit_joint_tree,
    fit_tree,
)
from textassay.runtime.errors import DataError

CANDIDATES: Mapping[str, Learner] = {
    "single": fit_best_feature,
    "corrw": fit_correlation_weights,
    "nnls": fit_nnls,
    "ridge": fit_ridge,
    "kernel": fit_kernel,
    "forest": fit_forest,
    "lightgbm": fit_boosting,
}
"""Possible members of the blend, simple ones first."""
JOINT: dict[str, JointLearner] = {
    "tree-joint": fit_joint_tree,
    "forest-joint": fit_joint_forest,
    "mlp-joint": fit_joint_mlp,
}
"""Learners of all aspects at once by name, as HD-Eval's are (equation 2, appendix C.3)."""
UNPOOLED = ("avg", "corrw", "mlp", *JOINT)
"""Aggregators that use no means of systems: the plain averages, aggregators without exact
contributions, and those that learn all aspects at once and cannot decide by aspect.
"""
_MIN_ROWS = 5


@dataclass(frozen=True, slots=True)
class Blend:
    """The weighted mean of several predictors."""

    members: tuple[Explaining, ...]
    weights: tuple[float, ...] = ()
    """Their weights, which sum to 1; equal ones if absent."""
    names: tuple[str, ...] = ()
    """Names of the members, which are not saved."""

    def with_weights(self, weights: Mapping[str, float]) -> Blend | None:
        """Return the blend of the members that have a weight; `None` if none has."""
        weighed = {name: member for name, member in zip(self.names, self.members, strict=True)
                if name in weights}  # fmt: skip
        if not weighed:
            return None
        total = sum(weights[name] for name in weighed)
        return Blend(
            tuple(weighed.values()),
            tuple(weights[name] / total for name in weighed),
            tuple(weighed),
        )

    def predict(self, features: Floats) -> Floats:
        total = np.zeros(len(features))
        for member, weight in self._members_with_weights():
            total += weight * member.predict(features)
        return total / self._divisor

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return the members' mean Shapley values; Shapley values are linear."""
        values, base = np.zeros(features.shape), 0.0
        for member, weight in self._members_with_weights():
            of_member, start = member.contributions(features)
            values, base = values + weight * of_member, base + weight * start
        return values / self._divisor, base / self._divisor

    def to_dict(self) -> dict[str, Any]:
        members = [member.to_dict() for member in self.members]
        return {"kind": "blend", "members": members, "weights": list(self.weights)}

    def _members_with_weights(self) -> list[tuple[Explaining, float]]:
        return list(zip(self.members, self.weights or [1.0] * len(self.members), strict=True))

    @property
    def _divisor(self) -> float:
        # equal weights are divided once
        return 1.0 if self.weights else float(len(self.members))


def fit_blend(training: Training) -> FitResult:
    """Fit every candidate that gets a weight, and blend them; notes record the decisions."""
    held_out = cross_validate(training, CANDIDATES)
    members: dict[str, Explaining] = {}
    while missing := [name for name in held_out.weights() if name not in members]:
        fitted, failed = _fit_each(missing, training)
        members |= fitted
        # an average may rise in every fold and fall over all rows
        for name, why in failed.items():
            held_out.drop(name, why)
    notes = blend_notes(held_out)
    weights = notes["weights"]
    return FitResult(
        Blend(tuple(members[name] for name in weights), tuple(weights.values())), notes
    )


def fit_members(training: Training) -> FitResult:
    """Blend every candidate that can be learned, with equal weights until `with_weights`."""
    members, failed = _fit_each(CANDIDATES, training)
    if not members:
        reasons = "; ".join(f"{name}: {why}" for name, why in failed.items())
        raise DataError(f"no aggregator can be learned: {reasons}")
    return FitResult(Blend(tuple(members.values()), names=tuple(members)), {"failed": failed})


def _fit_each(
    names: Iterable[str], training: Training
) -> tuple[dict[str, Explaining], dict[str, str]]:
    """Return candidates that learned from the rows, and reasons why others failed."""
    members: dict[str, Explaining] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            predictor = CANDIDATES[name](training).predictor
        except DataError as error:
            failed[name] = str(error)
            continue
        assert isinstance(predictor, Explaining)  # all candidates are
        members[name] = predictor
    return members, failed


def blend_notes(held_out: HeldOut) -> dict[str, Any]:
    """Return the weights of a blend's members and the errors behind them."""
    weights = held_out.weights()
    # the weighted mean of held-out predictions is the blend's prediction
    held_out.add_mean("blend", weights)
    return {
        "chosen": "blend" if len(weights) > 1 else next(iter(weights)),
        "weights": weights,
        "held_out_error": held_out.errors(),
        "failed": held_out.failed,
        "members": list(weights),
    }


class Ensemble(NamedTuple):
    """The parts of the predictions of one aspect, in units of the ratings."""

    features: Floats
    """Shape (n, features)."""
    baseline: float
    """The prediction without features."""
    means: Floats
    """Contribution of the means of the row's system and source, shape (n,)."""


@dataclass(frozen=True, slots=True)
class LearnedAspect:
    """A predictor of the standardized ratings of one human aspect, and the way back to ratings."""

    predictor: Predictor
    mean: float
    sd: float
    limits: tuple[float, float]
    notes: dict[str, Any]
    with_means: Mapping[str, Predictor] = field(default_factory=dict)
    """Predictors with more than the features: `pooled` also uses the means of the row's system,
    `centered` also the distances from the means of its source. Empty if means do not help.
    """

    def members(self) -> tuple[str, ...]:
        """Return the names of the members of a blend without weights, else nothing."""
        return self.predictor.names if isinstance(self.predictor, Blend) else ()

    def with_weights(self, weights: Mapping[str, float]) -> LearnedAspect:
        """Return the aspect with other weights of the blended members."""
        predictors = {"": self.predictor, **self.with_means}
        blends = {
            name: blended
            for name, predictor in predictors.items()
            if isinstance(predictor, Blend) and (blended := predictor.with_weights(weights))
        }
        return replace(self, predictor=blends.pop(""), with_means=blends)

    def predict(self, rows: RowsWithMeans) -> Floats:
        """Return predicted ratings, not clipped to people's scale, shape (n,)."""
        values = self.predictor.predict(rows.features)
        for inside, predictor, beside in self._better(rows):
            values[inside] = predictor.predict(beside)
        return np.asarray(self.mean + self.sd * values, float)

    def contributions(self, rows: RowsWithMeans) -> Ensemble:
        """Return the contribution of each feature to each prediction."""
        assert isinstance(self.predictor, Explaining)  # the aggregator has checked it
        width = rows.features.shape[1]
        plain, baseline = self.predictor.contributions(rows.features)
        values, of_means = np.array(plain), np.zeros(len(plain))
        for inside, predictor, beside in self._better(rows):
            assert isinstance(predictor, Explaining)  # like `predictor`, of the same learner
            every, start = predictor.contributions(beside)
            values[inside] = every[:, :width]
            means = every[:, width : 2 * width] if "pooled" in self.with_means else every[:, :0]
            if predictor is self.with_means.get("centered"):
                # the distance from the source's mean belongs to its feature
                values[inside] += every[:, -width:]
            # such rows have another start; the difference is due to their system and source
            of_means[inside] = means.sum(axis=1) + start - baseline
        scaled = self.mean + self.sd * baseline
        return Ensemble(self.sd * values, scaled, self.sd * of_means)

    def _better(self, rows: RowsWithMeans) -> Iterator[tuple[Mask, Predictor, Floats]]:
        """Yield predictors with more than the features, and their rows; later ones use more."""
        system = "pooled" in self.with_means
        for name, predictor in self.with_means.items():
            source = name == "centered"
            inside = rows.known_rows(system=system, source=source)
            if inside.any():
                yield inside, predictor, rows.rows(inside, system=system, source=source)

    def to_dict(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "sd": self.sd,
            "limits": list(self.limits),
            "notes": self.notes,
            "predictor": self.predictor.to_dict(),
            **{name: predictor.to_dict() for name, predictor in self.with_means.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], width: int) -> LearnedAspect:
        """Build from `to_dict`, for rows of `width` features."""
        low, high = data["limits"]
        aspect = cls(
            predictor_from(data["predictor"]),
            float(data["mean"]),
            float(data["sd"]),
            (low, high),
            data["notes"],
            {name: predictor_from(data[name]) for name in ("pooled", "centered") if name in data},
        )
        # rows with means have further blocks of features
        _check_shape(aspect.predictor, width)
        for blocks, predictor in enumerate(aspect.with_means.values(), start=2):
            _check_shape(predictor, blocks * width)
        return aspect


def _check_shape(predictor: Predictor, width: int) -> None:
    """Raise ValueError unless a predictor takes rows of `width` features.

    NumPy would silently apply a single weight to all of them.
    """
    if isinstance(predictor, Blend):
        if predictor.weights and len(predictor.weights) != len(predictor.members):
            raise ValueError("a blend's weights do not match its members")
        for member in predictor.members:
            _check_shape(member, width)
        return
    match predictor:
        case Linear():
            is_sound = predictor.weights.shape == (width,)
        case Trees():
            is_sound = predictor.width == width
        case KernelSum():
            is_sound = predictor.rows.shape == (*predictor.weights.shape, width)
        case Mlp(outer=outer, inner=inner, bias=bias):
            is_sound = inner.shape == (*outer.shape, width) and bias.shape == outer.shape
        case _:
            is_sound = True
    if not is_sound:
        raise ValueError(f"a predictor does not take rows of {width} features")


def predictor_from(data: Mapping[str, Any]) -> Predictor:
    """Build a predictor from its JSON values."""
    if data["kind"] == "blend":
        # a blend is explained through its members, so all of them must have contributions
        members = [predictor_from(member) for member in data["members"]]
        explaining = tuple(member for member in members if isinstance(member, Explaining))
        return Blend(explaining, tuple(data.get("weights", ())))
    kinds: dict[str, Callable[[Mapping[str, Any]], Predictor]] = {
        "trees": Trees.from_dict,
        **{kind.kind: kind.from_dict for kind in (Linear, Mlp, KernelSum)},
    }
    # an evaluator of a later version may name a kind that this one lacks
    if data["kind"] not in kinds:
        raise DataError(
            f"unknown kind of predictor {data['kind']!r}; known: {', '.join([*kinds, 'blend'])}"
        )
    return kinds[data["kind"]](data)


AGGREGATORS: dict[str, Learner] = {
    "auto": fit_blend,
    "avg": fit_mean,
    "corrw": fit_correlation_weights,
    "linear": fit_linear,
    "nnls": fit_nnls,
    "ridge": fit_ridge,
    "kernel": fit_kernel,
    "tree": fit_tree,
    "forest": fit_forest,
    "mlp": fit_mlp,
    "lightgbm": fit_boosting,
}
"""Learners of one aspect by name."""


NAMES = (*AGGREGATORS, *JOINT)
"""Names of all aggregators."""


@dataclass(frozen=True)
class AspectLearner:
    """Learns aspects by one of the learners."""

    name: str
    """One of `AGGREGATORS` or `JOINT`."""
    features: Sequence[str]
    """Names of the features."""
    scales: Mapping[str, tuple[float, float]]
    """Lowest and highest rating by aspect, where known."""
    seed: int
    """Seed of everything random."""
    threads: int
    """Threads that training may use."""
    new_systems: bool
    """Whether rows of systems without ratings are to be judged."""
    weigh: bool = True
    """Whether a blend is weighed by folds of the rows; without, see `fit_members`."""

    def learn(
        self,
        names: Sequence[str],
        rows: RowsWithMeans,
        groups: Codes,
        ratings: Floats,
        named: Set[str],
    ) -> list[LearnedAspect]:
        """Learn the aspects from ratings, shape (n, aspects): one by one or all at once."""
        if self.name in JOINT:
            return self._learn_together(names, rows, groups, ratings)
        return [
            self._learn_one(name, rows, groups, column, named)
            for name, column in zip(names, ratings.T, strict=True)
        ]

    @property
    def _learner(self) -> Learner:
        return AGGREGATORS[self.name] if self.weigh or self.name != "auto" else fit_members

    def _learn_one(
        self, name: str, rows: RowsWithMeans, groups: Codes, ratings: Floats, named: Set[str]
    ) -> LearnedAspect:
        """Learn one aspect from the rows that are rated on it."""
        used = ~np.isnan(ratings)
        target = ratings[used]
        mean, sd, limits = self._spread(target, name)
        training = Training(
            features=rows.features[used],
            # standardized, so that penalties do not depend on the scale of ratings
            target=(target - mean) / sd,
            groups=groups[used],
            own=features_for(name, self.features, named),
            seed=self.seed,
            threads=self.threads,
        )
        try:
            learned = self._learner(training)
            used_rows = rows.only(used)
            pooled, of_systems = self._with_means(training, used_rows, system=True, source=False)
            system = bool(pooled)
            centered, of_sources = self._with_means(training, used_rows, system=system, source=True)
        except DataError as error:
            raise DataError(f"aspect {name!r}: {error}") from error
        notes = {"rows": len(target), "groups": len(np.unique(training.groups)), **learned.notes}
        notes |= {"systems": of_systems} if of_systems else {}
        notes |= {"sources": of_sources} if of_sources else {}
        with_means = {**pooled, **centered}
        aspect = LearnedAspect(learned.predictor, mean, sd, limits, notes, with_means)
        self._check_varies(aspect, training.features, name)
        return aspect

    def _learn_together(
        self, names: Sequence[str], rows: RowsWithMeans, groups: Codes, ratings: Floats
    ) -> list[LearnedAspect]:
        """Learn all aspects at once, from the rows that are rated on each of them."""
        used = ~np.isnan(ratings).any(axis=1)
        if used.sum() < _MIN_ROWS:
            raise DataError(
                f"aggregator {self.name!r} learns all aspects at once and {int(used.sum())} rows "
                f"are rated on each of {', '.join(names)}; at least {_MIN_ROWS} needed. "
                "Use one that learns aspect by aspect, such as 'mlp' or 'forest'"
            )
        ratings = ratings[used]
        spreads = [self._spread(t, name) for t, name in zip(ratings.T, names, strict=True)]
        means, sds = np.array([s[0] for s in spreads]), np.array([s[1] for s in spreads])
        features = rows.features[used]
        predictors = JOINT[self.name](features, (ratings - means) / sds, self.seed)
        count = len(np.unique(groups[used]))
        aspects = []
        for name, learned, spread in zip(names, predictors, spreads, strict=True):
            notes = {"rows": len(ratings), "groups": count, **learned.notes}
            aspects.append(LearnedAspect(learned.predictor, *spread, notes))
            self._check_varies(aspects[-1], features, name)
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
        limits = rating_limits(target, self.scales.get(name), name)
        return float(target.mean()), float(target.std()), limits

    def _check_varies(self, aspect: LearnedAspect, features: Floats, name: str) -> None:
        fitted = np.clip(
            aspect.mean + aspect.sd * aspect.predictor.predict(features), *aspect.limits
        )
        # LightGBM predicts a constant if it cannot split, which would look valid
        if fitted.min() == fitted.max():
            raise DataError(
                f"aspect {name!r}: aggregator {self.name!r} predicts {fitted[0]:g} for all of"
                f" {len(features)} rows; use 'avg' or 'ridge', or more rows"
            )

    def _with_means(
        self, training: Training, rows: RowsWithMeans, *, system: bool, source: bool
    ) -> tuple[dict[str, Predictor], dict[str, Any]]:
        """Learn with means if they help, and return notes; both empty if too few rows have them."""
        has_means = rows.known_rows(system=system, source=source)
        systems = rows.only(has_means).system_of
        groups = len(np.unique(training.groups[has_means]))
        # the means of two systems identify them, so any difference fits
        if groups < (FEWEST.sources if source else 2) or (
            system and len(set(systems)) < FEWEST.systems
        ):
            return {}, {}
        part = training.rows(has_means)
        # the means of a feature belong to the aspect that the feature belongs to
        without, beside = (
            replace(part, features=x, own=np.tile(part.own, x.shape[1] // len(part.own)))
            for x in (
                rows.rows(has_means, system=system and source, source=False),
                rows.rows(has_means, system=system, source=source),
            )
        )
        new = self.new_systems and system
        # a smaller gain on left-out sources is not worth a pool
        least_gain = 0.01 if source else 0.0
        comparison = compare_pooling(
            without, beside, group_codes(systems), new=new, least_gain=least_gain
        )
        if comparison is None:
            return {}, {}
        improves, errors = comparison
        notes = {
            "used": improves,
            "known": groups if source else len(set(systems)),
            "left_out": "sources and systems" if new else "sources",
            "held_out_error": errors,
        }
        name = "centered" if source else "pooled"
        return {name: self._learner(beside).predictor} if improves else {}, notes
