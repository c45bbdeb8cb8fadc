"""Rankings within sources (HD-Eval, appendix D) and agreement of single raters (its table 9)."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from textassay.fitting.agreement import best_single
from textassay.fitting.learn import Choice, predicted_by
from textassay.fitting.table import FeatureTable
from textassay.learning import Aggregator
from textassay.learning.training import Floats
from textassay.meta.agreement import agreement_of
from textassay.meta.levels import pair_up
from textassay.runtime.model import Json


def competition_ranks(values: Floats) -> Floats:
    """Return how many values are greater, shape (n,).

    The best has rank 0, equal values share one.
    """
    # as in appendix D: ties share the better rank, so a judge that gives all the same score is
    # right about the best item only
    return np.asarray((values[None, :] > values[:, None]).sum(axis=1), float)


def ranking(choice: Choice, train: FeatureTable, test: FeatureTable) -> Json:
    """Return per aspect the share of items that are ranked within their source as people rank them.

    Shares are given for the evaluator and the best single feature, over sources with at least two
    items that have a rating and a score; a share is `None` if no source has.
    """
    predicted = predicted_by(choice.aggregator, test)
    by_aspect: Json = {}
    for at, aspect in enumerate(test.aspects):
        human = test.human[:, at]
        shares: Json = {"evaluator": _share_of_equal_ranks(predicted[:, at], human, test)}
        single = best_single(train, aspect)
        if single is not None:
            values = single[1] * test.features[:, test.names.index(single[0])]
            shares["best single"] = {
                **_share_of_equal_ranks(values, human, test),
                "feature": single[0],
            }
        by_aspect[aspect] = shares
    return by_aspect


def _share_of_equal_ranks(scores: Floats, human: Floats, test: FeatureTable) -> Json:
    equal = items = groups = 0
    for code in np.unique(test.groups):
        rows = (test.groups == code) & ~np.isnan(scores) & ~np.isnan(human)
        # a lone item has rank 0 on both sides and would count as agreement
        if rows.sum() < 2:
            continue
        same = competition_ranks(scores[rows]) == competition_ranks(human[rows])
        equal, items, groups = equal + int(same.sum()), items + len(same), groups + 1
    return {"share": equal / items if items else None, "items": items, "groups": groups}


def experts(aggregator: Aggregator, test: FeatureTable) -> Json:
    """Return per aspect how annotators agree with each other, and the evaluator with them.

    Figures are those of each pair of annotators and their mean, of one annotator with the mean of
    the others, and of the evaluator with all annotators' mean and with one of them. Empty if no
    aspect has ratings of single annotators, who are identified by their position in the data.
    """
    predicted = predicted_by(aggregator, test)
    by_aspect: Json = {}
    for aspect, ratings in test.annotators.items():
        at = test.aspects.index(aspect)
        pairs = {
            f"{a + 1}-{b + 1}": _correlations(ratings[:, a], ratings[:, b])
            for a, b in combinations(range(ratings.shape[1]), 2)
        }
        by_aspect[aspect] = {
            "pairs": pairs,
            "mean_of_pairs": _mean(list(pairs.values())),
            "one_with_the_others": _mean(
                [
                    _correlations(ratings[:, a], _mean_of_others(ratings, a))
                    for a in range(ratings.shape[1])
                ]
            ),
            "evaluator_with_the_mean": _correlations(predicted[:, at], test.human[:, at]),
            "evaluator_with_one": _mean(
                [_correlations(predicted[:, at], one) for one in ratings.T]
            ),
        }
    return by_aspect


def _mean_of_others(ratings: Floats, one: int) -> Floats:
    others = np.delete(ratings, one, axis=1)
    counts = (~np.isnan(others)).sum(axis=1)
    sums = np.nansum(others, axis=1)
    return np.asarray(np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0))


def _correlations(a: Floats, b: Floats) -> Json:
    agreement = agreement_of(pair_up(a, b), "dataset")
    return {"pearson": agreement.pearson, "spearman": agreement.spearman, "n": agreement.n}


def _mean(rows: list[Json]) -> Json:
    means: Json = {}
    for coefficient in ("pearson", "spearman"):
        values = [row[coefficient] for row in rows if row[coefficient] is not None]
        means[coefficient] = float(np.mean(values)) if values else None
    return means
