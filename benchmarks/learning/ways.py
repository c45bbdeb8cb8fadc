"""Ways to predict people's ratings of texts from recorded scores, and how they are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np

from benchmarks.learning.recorded import Floats, Recorded
from textassay.agreement import pearson, spearman
from textassay.arrays import Codes, Mask
from textassay.learning import AGGREGATORS, Aggregator, Pool, split_rows
from textassay.runtime.errors import DataError

Predict = Callable[[Mask, int], Floats]
"""Predicts the held-out rows, given the mask of training rows and a seed."""


def learned(data: Recorded, name: str, known: Sequence[str] = ()) -> Predict:
    """Return the predictions of an aggregator.

    Args:
        data: The recorded data.
        name: Name of the aggregator.
        known: Means that may be used: of `systems`, `sources`, or both.
    """
    labels: dict[str, list[str | None]] = {
        "systems": data.systems,
        "sources": data.groups.astype(str).tolist(),
    }
    unknown: list[str | None] = [None] * len(data.systems)
    pool = Pool(data.features, *(labels[kind] if kind in known else unknown for kind in labels))

    def of(kind: str, rows: Mask) -> list[str | None] | None:
        return list(compress(labels[kind], rows)) if kind in known else None

    def predict(train: Mask, seed: int) -> Floats:
        aggregator = Aggregator(name, seed=seed).fit(
            data.features[train],
            data.human[train],
            groups=data.groups[train].tolist(),
            feature_names=data.feature_names,
            target_names=data.aspects,
            aspect_names=data.rated,
            systems=of("systems", train),
            sources=of("sources", train),
            pool=pool,
        )
        return aggregator.predict(
            data.features[~train], systems=of("systems", ~train), sources=of("sources", ~train)
        )

    return predict


def best_single(data: Recorded) -> Predict:
    """Return the feature that agrees best with people on the training rows, or its reverse."""

    def predict(train: Mask, seed: int) -> Floats:
        columns = []
        for number, aspect in enumerate(data.aspects):
            own = [i for i, name in enumerate(data.feature_names) if name.split("/")[-1] == aspect]
            ratings = data.human[train][:, [number]]
            r = {
                i: agreement(data.features[train][:, [i]], ratings)[0, 0]
                for i in own or range(len(data.feature_names))
                if np.nanstd(data.features[train][:, i]) > 0
            }
            best = max(r, key=lambda i: abs(r[i]))
            columns.append(np.sign(r[best]) * data.features[~train][:, best])
        return np.stack(columns, axis=1)

    return predict


def mean_of(data: Recorded, judge: str) -> Predict:
    """Return the mean rating of each aspect by one judge, or by all if the name is empty."""

    def predict(train: Mask, seed: int) -> Floats:
        columns = []
        for aspect in data.aspects:
            own = [
                at
                for at, name in enumerate(data.feature_names)
                if name.endswith(f"/{aspect}") and name.startswith(judge and f"{judge}/")
            ]
            columns.append(np.nanmean(data.features[~train][:, own], axis=1))
        return np.stack(columns, axis=1)

    return predict


def of_half(data: Recorded, way: str) -> Predict:
    """Return the predictions of another way that learns from half of the sources only."""
    whole = way_of(data, way)

    def predict(train: Mask, seed: int) -> Floats:
        codes = np.unique(data.groups[train], return_inverse=True)[1]
        half = train.copy()
        half[train] = split_rows(codes, 0.5, seed=seed)
        return whole(half, seed)[~train[~half]]

    return predict


def way_of(data: Recorded, way: str) -> Predict:
    """Return a way by its name, as `python -m benchmarks.learning` takes it."""
    if way.startswith("half:"):
        return of_half(data, way.removeprefix("half:"))
    if way.startswith("mean"):
        return mean_of(data, way.removeprefix("mean").removeprefix(":"))
    if way == "best single":
        return best_single(data)
    name, *known = way.split("+")
    if name not in AGGREGATORS or not {"systems", "sources"}.issuperset(known):
        raise ValueError(f"there is no way {way!r} to predict ratings")
    return learned(data, name, known)


def agreement(predicted: Floats, human: Floats) -> Floats:
    """Return r and rho of each aspect over its rated rows, shape (aspects, 2); means for gaps."""
    filled = np.where(np.isnan(predicted), np.nanmean(predicted, axis=0), predicted)
    there = ~np.isnan(human)
    return np.array(
        [
            [f(p[t], h[t]) for f in (pearson, spearman)]
            for p, h, t in zip(filled.T, human.T, there.T, strict=True)
        ],
        float,
    )


def measured(
    data: Recorded, predict: Predict, size: float, seeds: int, *, spread: bool = False
) -> Floats:
    """Return r and rho by seed and aspect, shape (seeds, aspects, 2).

    NaN where nothing can be learned.

    Args:
        data: The data to learn from.
        predict: The way.
        size: How many rows to train on, as `training_rows` takes it.
        seeds: Number of splits.
        spread: Whether to train on single texts of half of the sources, as many sources as there
            are, and to test on the other half.
    """
    found = np.full((seeds, len(data.aspects), 2), np.nan)
    for seed in range(seeds):
        if spread:
            pool = split_rows(data.groups, 0.5, seed=seed)
            train, test = spread_rows(data.groups, pool, round(size), seed), ~pool
        else:
            train = training_rows(data.groups, size, seed)
            test = ~train
        try:
            predicted = predict(train, seed)[test[~train]]
        except DataError:
            continue
        found[seed] = agreement(predicted, data.human[test])
    return found


def training_rows(groups: Codes, size: float, seed: int) -> Mask:
    """Draw a share of the rows in whole sources, or about so many rows in at least two."""
    if size < 1:
        return split_rows(groups, size, seed=seed)
    sizes = np.bincount(groups)
    order = np.random.default_rng(seed).permutation(len(sizes))
    count = int(np.abs(np.cumsum(sizes[order]) - size).argmin()) + 1
    return np.isin(groups, order[: min(max(count, 2), len(sizes) - 1)])


def spread_rows(groups: Codes, pool: Mask, count: int, seed: int) -> Mask:
    """Choose rows of the pool, one per source as long as possible."""
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(pool))
    seen: dict[int, int] = {}
    turn = np.empty(len(rows))
    for place, row in enumerate(rows):
        turn[place] = seen[groups[row]] = seen.get(groups[row], -1) + 1
    chosen = rows[np.argsort(turn, kind="stable")[:count]]
    return np.isin(np.arange(len(groups)), chosen)
