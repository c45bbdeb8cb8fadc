"""Learns from rated rows: splits, aggregators, the choice among them, and what matters.

If several aggregators are named, the one with the least error over folds wins. Importances come
from training rows alone: permutation importance and Shapley values over folds of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from textassay.fitting.table import FeatureTable, Parts, Scales
from textassay.learning.aggregators import Aggregator
from textassay.learning.attribution import (
    Importance,
    explain,
    global_importance,
    permutation_importance,
    pooled,
)
from textassay.learning.splits import Codes, Mask, folds, hold_out, split_rows
from textassay.learning.training import Floats
from textassay.meta.agreement import compute_agreement
from textassay.meta.correlation import pair_up
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.model import Json

_FOLDS = 5
_ROWS_TO_CHOOSE = 5_000
_NUMBERS_FOR_THREADS = 500_000
"""Numbers in a table below which threads wait for each other longer than they work."""
Depth = Literal["basic", "full"]
Raters = Literal["mean", "model"]
"""How single ratings become a target: their mean, or what a rater model expects an average rater
to say."""
ROWS_TO_SHUFFLE = 1_000
_ROWS_TO_EXPLAIN = 300


@dataclass(frozen=True)
class Fitter:
    """How aggregators are fitted to a table.

    Attributes:
        scales: Scale of each human aspect.
        seed: Seed of everything random.
        threads: Threads that training may use.
        new_systems: Whether rows of systems that nobody rated are to be judged.
    """

    scales: Scales
    seed: int
    threads: int
    new_systems: bool = False

    def fit(
        self,
        name: str,
        table: FeatureTable,
        aspect: str | None = None,
        *,
        with_sources: bool = False,
        weigh: bool = True,
    ) -> Aggregator:
        """Return an aggregator for all aspects of the table, or for one.

        Args:
            name: Name of the aggregator.
            table: Rows to learn from.
            aspect: The one aspect to learn; all by default.
            with_sources: Whether to learn from means of sources, too, which predictions then take
                only where sources are passed.
            weigh: Whether `auto` weighs its members by folds of the rows.

        Raises:
            DataError: The rows do not allow it.
        """
        targets = table.aspects if aspect is None else (aspect,)
        columns = [table.aspects.index(target) for target in targets]
        threads = self.threads if table.features.size > _NUMBERS_FOR_THREADS else 1
        aggregator = Aggregator(
            name, scales={t: self.scales[t] for t in targets}, seed=self.seed, threads=threads
        )
        return aggregator.fit(
            table.features,
            table.human[:, columns],
            groups=table.groups.tolist(),
            feature_names=table.names,
            target_names=targets,
            aspect_names=table.all_aspects,
            systems=table.systems,
            sources=table.sources if with_sources else None,
            pool=table.pool,
            new_systems=self.new_systems,
            weigh=weigh,
        )


@dataclass(frozen=True)
class Choice:
    """Which of several aggregators was taken.

    Attributes:
        chosen: Its name.
        fitted: Every one that could be fitted, by name.
        errors: Error over folds of the training rows, relative to predicting the mean; empty if
            one was named.
        failed: Why others could not be fitted.
    """

    chosen: str
    fitted: dict[str, Aggregator]
    errors: dict[str, float]
    failed: dict[str, str]

    @property
    def aggregator(self) -> Aggregator:
        """The chosen aggregator, fitted to all training rows."""
        return self.fitted[self.chosen]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"chosen": self.chosen, "cross_validated_error": self.errors, "failed": self.failed}


def choose(names: Sequence[str], train: FeatureTable, fitter: Fitter) -> Choice:
    """Fit the named aggregators and choose the one with the least cross-validated error.

    Raises:
        DataError: None can be fitted.
    """
    names = list(dict.fromkeys(names))
    # nothing to choose, so no cross-validation is paid for
    if len(names) == 1:
        fitted = {names[0]: fitter.fit(names[0], train, with_sources=True)}
        return Choice(names[0], fitted, {}, {})
    fitted = {}
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            fitted[name] = fitter.fit(name, train, with_sources=True)
            errors[name] = _error_over_folds(
                name, at_most(train, _ROWS_TO_CHOOSE, fitter.seed), fitter
            )
        except DataError as error:
            # one that fits all rows but not a fold of them has no error to be compared by
            fitted.pop(name, None)
            failed[name] = str(error)
    return chosen(fitted, errors, failed)


def chosen(
    fitted: Mapping[str, Aggregator], errors: Mapping[str, float], failed: Mapping[str, str]
) -> Choice:
    """Choose the aggregator with the least error.

    Raises:
        DataError: None could be fitted.
    """
    if not fitted:
        raise DataError(
            "no aggregator can be fitted: " + "; ".join(f"{k}: {why}" for k, why in failed.items())
        )
    best = min(errors, key=lambda name: errors[name])
    return Choice(best, dict(fitted), dict(errors), dict(failed))


def predicted_by(aggregator: Aggregator, table: FeatureTable) -> Floats:
    """Return the predictions of a table's rows, shape (n, targets).

    Sources are not passed: `score` has the other texts about a source only if it is given a pool.
    """
    return aggregator.predict(table.features, systems=table.systems)


def _error_over_folds(name: str, table: FeatureTable, fitter: Fitter) -> float:
    fold = folds(table.groups, _FOLDS, seed=fitter.seed)
    predicted = np.full(table.human.shape, np.nan)
    for number in range(int(fold.max()) + 1):
        outside = fold == number
        predicted[outside] = predicted_by(
            fitter.fit(name, table.rows(~outside)), table.rows(outside)
        )
    return relative_error(predicted, table.human)


def relative_error(predicted: Floats, human: Floats) -> float:
    """Return the squared error, shape (n, aspects) each, 1 being that of predicting the mean."""
    squared = np.nanmean((predicted - human) ** 2, axis=0)
    # relative to each aspect's variance, or an aspect on a wider scale would decide alone
    return float(np.mean(squared / np.nanvar(human, axis=0)))


def at_most(table: FeatureTable, rows: int, seed: int) -> FeatureTable:
    """Return the table, or whole groups drawn at random that have about that many rows."""
    return table if len(table.ids) <= rows else table.rows(drawn_groups(table.groups, rows, seed))


def drawn_groups(codes: Codes, rows: int, seed: int) -> Mask:
    """Return which rows are of groups drawn at random that have about so many; all if not more."""
    if len(codes) <= rows:
        return np.ones(len(codes), bool)
    groups, sizes = np.unique(codes, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(groups))
    count = max(2, int(np.searchsorted(np.cumsum(sizes[order]), rows, side="right")))
    return np.isin(codes, groups[order[:count]])


def background_rows(
    train: FeatureTable, aggregator: Aggregator, rows: int = 32
) -> tuple[tuple[float | None, ...], ...]:
    """Return training rows for sampled contributions, none if contributions are exact."""
    if aggregator.explains_exactly:
        return ()
    # a fixed seed: the same evaluator file must come from the same rows
    drawn = np.random.default_rng(0).permutation(len(train.ids))[:rows]
    chosen: Floats = train.features[np.sort(drawn)]
    return tuple(tuple(None if v != v else float(v) for v in row) for row in chosen)


def correlations(predicted: Floats, test: FeatureTable) -> Json:
    """Return Pearson and Spearman over all rows, averaged over the aspects.

    `None` if one is undefined.

    Rows without a prediction are left out, and `coverage` says how many there are.
    """
    agreements = [
        compute_agreement(pair_up(p, h), "dataset")
        for p, h in zip(predicted.T, test.human.T, strict=True)
    ]
    content: Json = {}
    for coefficient in ("pearson", "spearman"):
        values = [getattr(one, coefficient) for one in agreements]
        content[coefficient] = None if None in values else float(np.mean(values))
    return content | {"coverage": min((one.coverage or 0.0) for one in agreements)}


@dataclass(frozen=True)
class Learning:
    """How to learn, whatever the features are.

    Attributes:
        aggregators: Names; of several the one with the least error over folds of the training rows
            is taken.
        train_fraction: Share of the rows to learn from; the others are held out for the report. If
            neither fraction is given, all rows are learned from and the report is cross-fitted.
        test_fraction: Share of the rows to hold out, the same ones whatever `train_fraction` is
            under one seed; rows of neither share are not used. Alone, the rest is learned from.
        seed: Seed of the split and of everything random.
        depth: `basic`, or `full` with curves and ablations.
        aspects: Human aspects; `None` for all that people rated.
        scales: Scale by human aspect; if absent, the whole numbers around the ratings.
        by_row: Whether to split row by row, which puts rows of one source on both sides. Folds and
            intervals are by source all the same.
        threads: Threads that training may use.
        repeats: Samples over which the curves of a full report are averaged (the paper: 5); by
            default 3 for data and 1 for criteria.
        new_systems: Whether texts of systems that nobody rated are to be judged: then folds leave
            out systems as well as sources to decide whether the means of systems help.
        raters: Whether the target is the mean of a row's ratings or comes from a rater model, which
            takes off each rater's severity and noise.
    """

    aggregators: tuple[str, ...] = ("auto",)
    train_fraction: float | None = None
    seed: int = 0
    depth: Depth = "basic"
    aspects: tuple[str, ...] | None = None
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    by_row: bool = False
    threads: int = field(default_factory=lambda: min(2, os.cpu_count() or 1))
    test_fraction: float | None = None
    repeats: int | None = None
    new_systems: bool = False
    raters: Raters = "mean"

    def __post_init__(self) -> None:
        if self.repeats is not None and not 1 <= self.repeats <= 100:
            raise ConfigurationError(f"repeats must be between 1 and 100, not {self.repeats}")
        if self.raters not in get_args(Raters):
            raise UnknownName("target of several raters", self.raters, list(get_args(Raters)))

    @property
    def holds_out(self) -> bool:
        """Whether a fixed part of the rows is to be held out, rather than each in turn."""
        return self.train_fraction is not None or self.test_fraction is not None

    @property
    def share(self) -> float:
        """Share of the rows to learn from where rows have to be held out: half by default."""
        return 0.5 if self.train_fraction is None else self.train_fraction


def split(table: FeatureTable, learning: Learning) -> Parts:
    """Return training and held-out rows.

    Raises:
        ConfigurationError: A fraction is not between 0 and 1, or both together are above 1.
        DataError: There are fewer than two groups.
    """
    train, test = sides(table, learning)
    return Parts(table.rows(train), table.rows(test))


def sides(table: FeatureTable, learning: Learning) -> tuple[Mask, Mask]:
    """Return which rows are learned from and which are held out.

    Raises:
        ConfigurationError: A fraction is not between 0 and 1, or both together are above 1.
        DataError: There are fewer than two groups.
    """
    # only what is held out may go by row: rows of a source stay alike, so folds, resamples and
    # tests keep them together
    units = np.arange(len(table.ids)) if learning.by_row else table.groups
    train = split_rows(units, learning.share, seed=learning.seed)
    if learning.test_fraction is None:
        return train, ~train
    if learning.train_fraction is None:
        nothing = np.zeros(len(train), bool)
        test = hold_out(units, learning.test_fraction, nothing, seed=learning.seed)
        return ~test, test
    return train, hold_out(units, learning.test_fraction, train, seed=learning.seed)


def importance_over_folds(
    name: str, train: FeatureTable, fitter: Fitter, *, count: int = 2, repeats: int = 10
) -> Importance:
    """Measure which features matter, from training rows alone.

    Each fold's by an aggregator that has not seen it. If an aspect's ratings are all equal in a
    fold or outside of it, as of texts that are nearly all faultless, aspect by aspect over the rows
    of all folds together (`cross_fitted_importance`). Rows without any feature take no part.

    Args:
        name: Name of the aggregator.
        train: The training rows.
        fitter: How it is fitted.
        count: Number of folds; with fewer than two groups per fold, each group is a fold of its
            own.
        repeats: Permutations per feature.

    Raises:
        DataError: The folds are too small to learn from.
    """
    train = train.rows(train.filled)  # ratings of other rows teach nothing
    masks = _fold_masks(train, fitter, count)
    measured = [at_most(train.rows(inside), ROWS_TO_SHUFFLE, fitter.seed) for inside in masks]
    if all(map(_can_learn, (train.rows(~inside) for inside in masks))) and all(
        _vary_each(rows.human) for rows in measured
    ):
        return pooled(
            [
                importance_on(fitted, rows, seed=fitter.seed, repeats=repeats)
                for fitted, rows in _fitted_over_folds(name, train, fitter, count)
            ]
        )
    return _beside(
        [
            cross_fitted_importance(name, train, fitter, aspect, count=len(masks), repeats=repeats)
            for aspect in train.aspects
        ]
    )


def _beside(parts: Sequence[Importance]) -> Importance:
    """Return the importances of the same features for one aspect each, as those of all aspects."""
    mean, sd, importances, influences = (
        np.concatenate([getattr(part, name) for part in parts], axis=1)
        for name in ("mean", "sd", "importances", "influences")
    )
    return Importance(parts[0].names, mean, sd, importances, influences)


def _can_learn(rows: FeatureTable) -> bool:
    """Return whether ratings of every aspect and some feature vary."""
    return _vary_each(rows.human) and _vary(rows.features)


def _vary_each(columns: Floats) -> bool:
    return all(_vary(columns[:, [at]]) for at in range(columns.shape[1]))


def _vary(columns: Floats) -> bool:
    """Return whether any column has two values that differ."""
    low = np.where(np.isnan(columns), np.inf, columns).min(axis=0, initial=np.inf)
    high = np.where(np.isnan(columns), -np.inf, columns).max(axis=0, initial=-np.inf)
    return bool((low < high).any())


def cross_fitted_importance(
    name: str, train: FeatureTable, fitter: Fitter, aspect: str, *, count: int, repeats: int
) -> Importance:
    """Measure which features matter for one aspect, from few training rows alone.

    Each row is predicted by an aggregator that has not seen its fold, but errors are in variances
    of all rows: folds of few rows, whose ratings hardly vary or not at all, do not distort it.
    Rows without any feature take no part.

    Args:
        name: Name of the aggregator.
        train: The training rows.
        fitter: How it is fitted.
        aspect: What people rated.
        count: Number of folds, by source.
        repeats: Permutations per feature.

    Raises:
        DataError: The rows are too few to learn from, or the aspect's ratings do not vary.
    """
    train = train.rows(train.filled)
    human = train.human[:, train.aspects.index(aspect)]
    fold = folds(train.groups, count, seed=fitter.seed)
    masks = [fold == number for number in range(int(fold.max()) + 1)]
    # without the rows of a fold ratings or features may all be the same, and then nothing but the
    # mean is learned
    parts = [
        (fitter.fit(name, train.rows(~inside), aspect)
         if _vary(human[~inside, None]) and _vary(train.features[~inside]) else None,
         inside)
        for inside in masks
    ]  # fmt: skip

    def predict(features: Floats) -> Floats:
        predicted = np.empty((len(human), 1))
        for aggregator, inside in parts:
            predicted[inside] = (
                _mean_of_rated(human[~inside])
                if aggregator is None
                else aggregator.predict(features[inside], systems=train.rows(inside).systems)
            )
        return predicted

    return permutation_importance(
        predict, train.features, human, columns=train.names, groups=train.groups.tolist(),
        repeats=repeats, seed=fitter.seed,
    )  # fmt: skip


def _mean_of_rated(ratings: Floats) -> float:
    """Return the mean of the ratings, NaN if there are none."""
    rated = ratings[~np.isnan(ratings)]
    return float(rated.mean()) if len(rated) else float("nan")


def saliency_over_folds(
    name: str, train: FeatureTable, fitter: Fitter, *, count: int = 2
) -> dict[str, float]:
    """Return the mean size of each feature's Shapley values, from training rows alone.

    In standard deviations of an aspect's ratings, averaged over the aspects; each fold's by an
    aggregator that has not seen it. Rows without any feature take no part.

    Args:
        name: Name of the aggregator.
        train: The training rows.
        fitter: How it is fitted.
        count: Number of folds, as for `importance_over_folds`.

    Raises:
        DataError: The folds are too small to learn from.
    """
    train = train.rows(train.filled)
    spreads = np.nanstd(train.human, axis=0)
    masks = _fold_masks(train, fitter, count)
    if all(_can_learn(train.rows(~inside)) for inside in masks):
        sizes = [
            _contributions(fitted, train, rows, fitter.seed) / spreads[:, None]
            for fitted, rows in _fitted_over_folds(name, train, fitter, count)
        ]
    else:
        # where nothing varies outside of a fold, nothing but the mean is learned
        sizes = [
            _contributions(fitter.fit(name, train.rows(~inside), aspect), train,
                           train.rows(inside), fitter.seed) / spreads[at]
            if _vary(train.human[~inside, at, None]) and _vary(train.features[~inside])
            else np.zeros((1, len(train.names)))
            for inside in masks
            for at, aspect in enumerate(train.aspects)
        ]  # fmt: skip
    overall = np.mean(sizes, axis=(0, 1))
    return dict(zip(train.names, overall.tolist(), strict=True))


def _contributions(
    fitted: Aggregator, train: FeatureTable, rows: FeatureTable, seed: int
) -> Floats:
    """Return the mean size of each feature's Shapley values on rows, shape (targets, features)."""
    rows = at_most(rows, _ROWS_TO_EXPLAIN, seed)
    # the background holds none of the explained rows, or a row would be compared with itself
    others = train.rows(~np.isin(train.ids, rows.ids))
    explanations = explain(fitted, rows.features, others.features, systems=rows.systems, seed=seed)
    return global_importance(explanations.values)


def _fitted_over_folds(
    name: str, train: FeatureTable, fitter: Fitter, count: int
) -> Iterator[tuple[Aggregator, FeatureTable]]:
    """Yield an aggregator for each fold with the fold's rows, which it has not seen."""
    for inside in _fold_masks(train, fitter, count):
        yield fitter.fit(name, train.rows(~inside)), train.rows(inside)


def _fold_masks(train: FeatureTable, fitter: Fitter, count: int) -> list[Mask]:
    """Return which rows each fold has."""
    groups = len(np.unique(train.groups))
    if groups < 2 * count:  # with one group to learn from, nothing that needs folds of its own fits
        count = max(count, groups)
    fold = folds(train.groups, count, seed=fitter.seed)
    return [fold == number for number in range(int(fold.max()) + 1)]


def importance_on(
    aggregator: Aggregator, rows: FeatureTable, *, seed: int, repeats: int
) -> Importance:
    """Measure permutation importance on rows held out from the aggregator, at most 1,000 of them.

    Raises:
        DataError: An aspect's ratings do not vary there.
    """
    rows = at_most(rows, ROWS_TO_SHUFFLE, seed)
    return permutation_importance(
        lambda features: aggregator.predict(features, systems=rows.systems),
        rows.features,
        rows.human,
        columns=rows.names,
        groups=rows.groups.tolist(),
        repeats=repeats,
        seed=seed,
    )
