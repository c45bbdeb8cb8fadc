"""What an evaluator rests on: permutation importance and Shapley values on rows not learned from.

Criteria are chosen by figures from training rows alone, over folds of them; the report's are of the
rows that are held out.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import compress

import numpy as np

from textassay.fitting.learn import FeatureTable, Fitter, Fold, Unseen
from textassay.learning.aggregators import Aggregator
from textassay.learning.attribution import (
    Importance,
    explain,
    global_importance,
    permutation_importance,
    pooled,
)
from textassay.learning.splits import Mask, draw_groups, fold_masks
from textassay.learning.training import Floats
from textassay.runtime.errors import DataError
from textassay.runtime.model import Json

_ROWS_TO_SHUFFLE, _ROWS_TO_EXPLAIN = 1_000, 300
_SHUFFLES, _SHUFFLES_OF_ALL = 5, 3
"""Shuffles of a held-out part, usually half of the rows, and of all rows, which exchange more."""
_PERMUTATIONS = 16


def importance_over_folds(
    name: str, train: FeatureTable, fitter: Fitter, *, count: int = 2, repeats: int = 10
) -> Importance:
    """Measure which features matter, from training rows alone.

    Each fold's by an aggregator that has not seen it. If an aspect's ratings are all equal in a
    fold or outside of it, as of texts that are nearly all faultless, aspect by aspect over the rows
    of all folds together (`cross_fitted_importance`). Rows without any feature take no part.
    """
    train = train.rows(train.filled)  # ratings of other rows teach nothing
    masks = _fold_masks(train, fitter, count)
    measured = [_at_most(train.rows(inside), _ROWS_TO_SHUFFLE, fitter.seed) for inside in masks]
    if all(_can_learn(train.rows(~inside)) for inside in masks) and all(
        _vary_each(rows.human) for rows in measured
    ):
        return pooled(
            [
                _importance_on(rows, fitter.fit(name, train.rows(~inside)), fitter.seed, repeats)
                for inside, rows in zip(masks, measured, strict=True)
            ]
        )
    by_aspect = [
        cross_fitted_importance(name, train, fitter, aspect, count=len(masks), repeats=repeats)
        for aspect in train.aspects
    ]
    mean, sd, importances, influences = (
        np.concatenate([getattr(one, name) for one in by_aspect], axis=1)
        for name in ("mean", "sd", "importances", "influences")
    )
    return Importance(train.names, mean, sd, importances, influences)


def _importance_on(
    rows: FeatureTable, aggregator: Aggregator, seed: int, repeats: int
) -> Importance:
    def predicted(features: Floats) -> Floats:
        copies = len(features) // len(rows.ids)
        return aggregator.predict(features, systems=rows.systems * copies)

    return permutation_importance(
        predicted, rows.features, rows.human, columns=rows.names, groups=rows.groups.tolist(),
        repeats=repeats, seed=seed,
    )  # fmt: skip


def _at_most(table: FeatureTable, rows: int, seed: int) -> FeatureTable:
    return table.rows(draw_groups(table.groups, rows, seed=seed))


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
    """
    train = train.rows(train.filled)
    human = train.human[:, train.aspects.index(aspect)]
    masks = fold_masks(train.groups, count, seed=fitter.seed)
    # without the rows of a fold ratings or features may all be the same, and then nothing but the
    # mean is learned
    parts = [
        (fitter.fit(name, train.rows(~inside), aspect)
         if _vary(human[~inside, None]) and _vary(train.features[~inside]) else None,
         inside)
        for inside in masks
    ]  # fmt: skip

    def predicted_rows(features: Floats) -> Floats:
        predicted, copies = np.empty((len(features), 1)), len(features) // len(human)
        for aggregator, inside in parts:
            rows = np.tile(inside, copies)
            predicted[rows] = (
                _mean_of_rated(human[~inside])
                if aggregator is None
                else aggregator.predict(features[rows], systems=train.rows(inside).systems * copies)
            )
        return predicted

    return permutation_importance(
        predicted_rows, train.features, human, columns=train.names, groups=train.groups.tolist(),
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
    """
    train = train.rows(train.filled)
    spreads = np.nanstd(train.human, axis=0)
    masks = _fold_masks(train, fitter, count)
    if all(_can_learn(train.rows(~inside)) for inside in masks):
        sizes = [
            _contributions(fitter.fit(name, train.rows(~inside)), train, train.rows(inside),
                           fitter.seed) / spreads[:, None]
            for inside in masks
        ]  # fmt: skip
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
    rows = _at_most(rows, _ROWS_TO_EXPLAIN, seed)
    # the background holds none of the explained rows, or a row would be compared with itself
    others = train.rows(~np.isin(train.ids, rows.ids))
    explanations = explain(fitted, rows.features, others.features, systems=rows.systems, seed=seed)
    return global_importance(explanations.values)


def _fold_masks(train: FeatureTable, fitter: Fitter, count: int) -> list[Mask]:
    """Return which rows each fold has."""
    groups = len(np.unique(train.groups))
    if groups < 2 * count:  # with one group to learn from, nothing that needs folds of its own fits
        count = max(count, groups)
    return fold_masks(train.groups, count, seed=fitter.seed)


def importance(unseen: Unseen, fitter: Fitter) -> Json:
    """Return what people value.

    Permutation importance and mean size of Shapley values, on rows that were not learned from.
    """
    content: Json = {}
    try:
        measured = unseen.at_most(_ROWS_TO_SHUFFLE, fitter.seed)
        content["permutation"] = _permutation(_measured_importance(measured, fitter), unseen.rows)
    except DataError as error:
        content["permutation"] = {"failed": str(error)}
    rng, rows = np.random.default_rng(fitter.seed), unseen.rows
    # contributions of a few hundred rows give the means well enough, and sampled ones are slow
    drawn = np.zeros(len(rows.ids), bool)
    drawn[rng.permutation(len(rows.ids))[:_ROWS_TO_EXPLAIN]] = True

    def explained(fold: Fold) -> Floats:
        return explain(
            fold.choice.aggregator,
            rows.features[fold.inside & drawn],
            # training rows are the background: contributions are then relative to what the
            # evaluator learned from
            fold.train.features,
            systems=list(compress(rows.systems, fold.inside & drawn)),
            samples=_PERMUTATIONS,
            seed=fitter.seed,
        ).values

    with ThreadPoolExecutor(fitter.threads) as pool:
        sizes = global_importance(np.concatenate(list(pool.map(explained, unseen.repeats[0]))))
    order = np.argsort(-sizes.mean(axis=0), kind="stable")
    content["shap"] = [
        {
            "feature": rows.names[i],
            "mean": float(sizes[:, i].mean()),
            "by_aspect": {aspect: float(sizes[at, i]) for at, aspect in enumerate(rows.aspects)},
        }
        for i in order
    ]
    return content


def _measured_importance(unseen: Unseen, fitter: Fitter) -> Importance:
    """Measure permutation importance, each row by the aggregator that has not seen it."""
    folds, rows = unseen.repeats[0], unseen.rows
    systems = [list(compress(rows.systems, fold.inside)) for fold in folds]

    with ThreadPoolExecutor(fitter.threads) as pool:

        def predicted(features: Floats) -> Floats:
            copies = len(features) // len(rows.ids)

            def of_fold(fold: Fold, own: list[str | None]) -> Floats:
                inside = features[np.tile(fold.inside, copies)]
                return fold.choice.aggregator.predict(inside, systems=own * copies)

            values = np.full((len(features), len(rows.aspects)), np.nan)
            for fold, part in zip(folds, pool.map(of_fold, folds, systems), strict=True):
                values[np.tile(fold.inside, copies)] = part
            return values

        return permutation_importance(
            predicted,
            rows.features,
            rows.human,
            columns=rows.names,
            groups=rows.groups.tolist(),
            repeats=_SHUFFLES if unseen.is_fixed else _SHUFFLES_OF_ALL,
            seed=fitter.seed,
        )


def _permutation(importance: Importance, table: FeatureTable) -> list[Json]:
    at_name = {name: at for at, name in enumerate(importance.names)}
    interval, overall = importance.interval(), importance.overall_interval()
    return [
        {
            "feature": name,
            "mean": _known(mean),
            "ci": _listed(overall[at_name[name]]),
            "by_aspect": {
                aspect: {
                    "mean": _known(importance.mean[at_name[name], at]),
                    "sd": _known(importance.sd[at_name[name], at]),
                    "ci": _listed(interval[at_name[name], at]),
                }
                for at, aspect in enumerate(table.aspects)
            },
        }
        for name, mean in importance.ranking()
    ]


def _known(figure: float) -> float | None:
    return None if np.isnan(figure) else float(figure)


def _listed(span: Floats) -> list[float] | None:
    return None if np.isnan(span).any() else [float(end) for end in span]
