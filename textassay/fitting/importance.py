"""Which features matter: permutation importance and Shapley values over folds of training rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from textassay.fitting.learn import Fitter, at_most
from textassay.fitting.table import FeatureTable
from textassay.learning import (
    Aggregator,
    Importance,
    explain,
    folds,
    global_importance,
    permutation_importance,
    pooled,
)
from textassay.learning.splits import Mask
from textassay.learning.training import Floats

_ROWS_TO_SHUFFLE = 1_000
_ROWS_TO_EXPLAIN = 300


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
    measured = [at_most(train.rows(inside), _ROWS_TO_SHUFFLE, fitter.seed) for inside in masks]
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
    rows = at_most(rows, _ROWS_TO_SHUFFLE, seed)
    return permutation_importance(
        lambda features: aggregator.predict(features, systems=rows.systems),
        rows.features,
        rows.human,
        columns=rows.names,
        groups=rows.groups.tolist(),
        repeats=repeats,
        seed=seed,
    )
