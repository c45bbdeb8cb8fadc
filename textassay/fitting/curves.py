"""How much data and how many criteria it takes (HD-Eval, sections 4.2 and 4.3, figures 4 and 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from textassay.fitting.importance import importance_over_folds
from textassay.fitting.learn import Fitter, predicted_by
from textassay.fitting.table import FeatureTable
from textassay.learning import split_rows
from textassay.learning.training import Floats
from textassay.meta.agreement import agreement_of
from textassay.meta.levels import pair_up
from textassay.runtime.errors import DataError
from textassay.runtime.model import Json

FRACTIONS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
SEEDS = 3
_BASELINE = "avg"


def over_data(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter, *, repeats: int = SEEDS
) -> list[Json]:
    """Return agreement on held-out rows after learning from parts of the training rows.

    Each part is drawn with several seeds.

    Parts are drawn by source, and a smaller part under a seed lies within a larger. If a part is
    too small to learn from, the entry says why.
    """
    return [
        {
            "fraction": fraction,
            **{
                one: _over_seeds(one, train, test, fitter, fraction, repeats)
                for one in dict.fromkeys((name, _BASELINE))
            },
        }
        for fraction in FRACTIONS
    ]


def _over_seeds(
    name: str,
    train: FeatureTable,
    test: FeatureTable,
    fitter: Fitter,
    fraction: float,
    repeats: int,
) -> Json:
    curves, rows, problem = [], [], None
    # all of the rows are the same rows under any seed
    for seed in range(repeats if fraction < 1 else 1):
        try:
            part = (
                train
                if fraction == 1
                else train.rows(split_rows(train.groups, fraction, seed=fitter.seed + seed))
            )
            curves.append(correlations(predicted_by(fitter.fit(name, part), test), test))
            rows.append(len(part.ids))
        except DataError as error:
            problem = str(error)
    curve: Json = {"seeds": len(curves), "rows": int(np.mean(rows)) if rows else None}
    for coefficient in ("pearson", "spearman"):
        values = [one[coefficient] for one in curves if one[coefficient] is not None]
        curve[coefficient] = (
            {"mean": float(np.mean(values)), "sd": float(np.std(values))} if values else None
        )
    return curve | ({"failed": problem} if problem is not None else {})


def over_criteria(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter, *, repeats: int = 1
) -> list[Json] | Json:
    """Return agreement on held-out rows with the top 1, 2, ... features.

    Features are ranked by importance on the training rows.

    Args:
        name: The aggregator.
        train: Training rows.
        test: Held-out rows.
        fitter: How aggregators are fitted.
        repeats: Samples that are averaged over: the split as it is, and further ones of the same
            rows by source, each with an order of importance of its own.
    """
    try:
        curves = [
            _over_one_sample(name, learned, rest, fitter)
            for learned, rest in _samples(train, test, fitter, repeats)
        ]
    except DataError as error:
        return {"failed": str(error)}
    return curves[0] if repeats == 1 else [_mean_of(points) for points in zip(*curves, strict=True)]


def _samples(
    train: FeatureTable, test: FeatureTable, fitter: Fitter, repeats: int
) -> Iterator[tuple[FeatureTable, FeatureTable]]:
    # the split of the report comes first, so one sample gives the figures of the report itself
    yield train, test
    whole = train.joined(test)
    for sample in range(1, repeats):
        # the same share as in the report's split, so that all samples measure the same thing
        share = len(train.ids) / len(whole.ids)
        learned = split_rows(whole.groups, share, seed=fitter.seed + sample)
        yield whole.rows(learned), whole.rows(~learned)


def _over_one_sample(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter
) -> list[Json]:
    ranking = importance_over_folds(name, train, fitter, repeats=3).ranking()
    order = [feature for feature, _ in ranking]
    return [_with_top(order[:count], name, train, test, fitter) for count in steps(len(order))]


def _mean_of(points: Sequence[Json]) -> Json:
    """Return one point of the mean curve: means and standard deviations over the samples."""
    mean: Json = {"count": points[0]["count"], "last": points[0]["last"], "sd": {}}
    for coefficient in ("pearson", "spearman"):
        values = [one[coefficient] for one in points if one.get(coefficient) is not None]
        mean[coefficient] = float(np.mean(values)) if values else None
        mean["sd"][coefficient] = float(np.std(values)) if values else None
    return mean | {"samples": len(points)}


def steps(count: int) -> list[int]:
    """Return 1, 2, 3, 4, 6, 8, 12, 16, ... and the count itself."""
    counts = {
        size
        for power in range(20)
        for size in (2**power, 3 * 2 ** max(power - 1, 0))
        if size < count
    }
    return [*sorted(counts), count]


def _with_top(
    features: list[str], name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter
) -> Json:
    point: Json = {"count": len(features), "last": features[-1]}
    try:
        predicted = predicted_by(fitter.fit(name, train.only(features)), test.only(features))
    except DataError as error:
        return {**point, "failed": str(error)}
    return point | correlations(predicted, test)


def correlations(predicted: Floats, test: FeatureTable) -> Json:
    """Return Pearson and Spearman over all rows, averaged over the aspects.

    `None` if one is undefined.

    Rows without a prediction are left out, and `coverage` says how many there are.
    """
    agreements = [
        agreement_of(pair_up(p, h), "dataset")
        for p, h in zip(predicted.T, test.human.T, strict=True)
    ]
    content: Json = {}
    for coefficient in ("pearson", "spearman"):
        values = [getattr(one, coefficient) for one in agreements]
        content[coefficient] = None if None in values else float(np.mean(values))
    return content | {"coverage": min((one.coverage or 0.0) for one in agreements)}
