"""Measures an evaluator's agreement with people on held-out rows, and the parts it depends on.

Beside the evaluator there are baselines, which learn little: the single feature that agrees best
with people on the training rows, the plain average, and the average weighted by correlation
(Fusion-Eval's AVG and CorrW); they learn from the training rows only. If the report is
cross-fitted, folds may choose different single features: one row of the report has each fold's
choice, another one the feature that agrees best on all rows, under its own name.

Predictions of all folds together agree less with people than the evaluator's own would (Bates,
Hastie and Tibshirani 2024; `benchmarks/coverage/fitting.py`): a fold and the other rows share one
mean, so that one is high if the other is low. So a coefficient is computed within each fold, and
averaged. With few ratings this mean is still too low, since the aggregator of a fold has learned
from fewer rows than the saved one; so it is never taken to show that the evaluator is worse than a
baseline. The mean for shuffled ratings (`shuffled` in the report) is what a useless evaluator would
reach. The error of a coefficient has two parts: the measured texts vary, and so does the evaluator,
with the texts that it has learned from. Resamples of the texts show only the first part, so errors
are widened as in Nadeau and Bengio, "Inference for the generalization error" (2003).

A full report adds how much data and how many criteria it takes (HD-Eval, sections 4.2 and 4.3,
figures 4 and 5), what layers of criteria and learning how to weigh them add (its table 4), rankings
within sources (its appendix D) and the agreement of single raters (its table 9).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, compress

import numpy as np

from textassay.agreement.correlation import (
    COEFFICIENTS,
    Coefficient,
    Pairs,
    number_or_none,
    pair_up,
    pearson,
)
from textassay.agreement.intervals import (
    coefficient_interval,
    independent_errors,
    note_mostly_equal,
    number_of_groups,
    resample,
)
from textassay.agreement.significance import (
    Difference,
    compare,
    compute_agreement,
    difference_between,
)
from textassay.arrays import Codes, Floats
from textassay.fitting.feature_table import FeatureTable, Split
from textassay.fitting.importance import (
    importance,
    importance_over_folds,
    share_of_choices,
    share_of_labels,
)
from textassay.fitting.learn import (
    ChosenAggregator,
    FitObserver,
    Fitter,
    Fold,
    Unseen,
    correlations,
    cross_fit,
    join_folds,
    mean_if_all,
    predict,
)
from textassay.fitting.report import EVALUATOR, SINGLE
from textassay.fitting.request import FitRequest
from textassay.learning.splits import split_rows
from textassay.learning.training import features_for
from textassay.runtime.base import Json
from textassay.runtime.errors import DataError
from textassay.runtime.labels import slug
from textassay.table import Estimate
from textassay.version import __version__

ENOUGH = 300
"""Number of ratings below which agreement of cross-fitted predictions comes out too low, and is
compared with the agreement that shuffled ratings give: in simulations of ten features it was too
low by .04 to .10 with 20 ratings, and by .01 to .04 with 100.
"""


def build_report(
    choice: ChosenAggregator,
    unseen: Unseen,
    parts: Split,
    fitter: Fitter,
    request: FitRequest,
    *,
    origin: Json,
    watch: FitObserver = lambda _: None,
) -> Json:
    """Return an evaluator's origin, agreement with people and important features as JSON values.

    Agreement and importance are measured on `unseen`; `parts` are the training and held-out rows
    for the curves and ablations of a full report.
    """
    learned = parts.train if unseen.is_fixed else unseen.rows
    report: Json = {
        "format": 1,
        "textassay": __version__,
        **origin,
        "aggregators": choice.as_dict(),
        "aspects": {
            name: {"scale": list(fitter.scales[name]), "learning": choice.aggregator.notes_[name]}
            for name in learned.aspects
        },
        "features": {name: {"coverage": share} for name, share in learned.coverage.items()},
    }
    watch("measuring agreement")
    report["held_out"] = measure_held_out(choice, unseen, fitter)
    few = min(int(aspect["n"]) for aspect in report["held_out"]["aspects"].values())
    if not unseen.is_fixed and few < ENOUGH:
        warning = (
            f"{few} ratings are few for a report of the rows that were learned from (fewer than"
            f" {ENOUGH}): the evaluator's agreement comes out too low, in simulations by up to .13"
            " with 20 ratings and .04 with 100; its intervals are wide enough for that, unless"
            " nearly all ratings are equal, with which it may come out too high;"
            " train_fraction=0.5 measures without that fault, and learns from half"
        )
        report["warnings"] = [*report.get("warnings", ()), warning]
    watch("measuring which features the evaluator uses")
    report["importance"] = importance(unseen, fitter)
    if request.report == "full":
        watch("measuring curves and ablations")
        name, train, test = choice.chosen, parts.train, parts.test
        repeats = request.repeats
        report["data_efficiency"] = over_data(name, train, test, fitter, repeats or 3)
        report["criteria_efficiency"] = over_criteria(name, train, test, fitter, repeats or 1)
        report["ablations"] = ablation_table(name, train, test, fitter)
        report["ranking"] = ranking(unseen)
        report["experts"] = experts(unseen)
    return report


def measure_held_out(
    choice: ChosenAggregator, unseen: Unseen, fitter: Fitter, *, shuffled: bool = True
) -> Json:
    """Return agreement by aspect, and its mean over the aspects.

    With `shuffled`, and few ratings, also the agreement after learning from shuffled ratings.

    An interval is for the coefficient that the saved evaluator itself will have on new texts of the
    same kind, not for the mean over all evaluators that could have been learned. A difference is
    between the evaluator and a baseline that has learned from the same rows.
    """
    predicted = [_by_aggregator(choice, unseen, repeat) for repeat in range(len(unseen.repeats))]
    aspects: Json = {}
    for column, aspect in enumerate(unseen.rows.aspects):
        notes: Json = {}
        repeats: list[tuple[Sequence[Fold], Mapping[str, Floats]]] = []
        for folds, of_all in zip(unseen.repeats, predicted, strict=True):
            predictions = {EVALUATOR: of_all[EVALUATOR][:, column]}
            if single := single_feature(unseen, folds, aspect):
                predictions[SINGLE], notes[SINGLE] = single
            if not unseen.is_fixed and (each := choices_by_fold(unseen, folds, aspect)):
                name = "best single, chosen in each fold"
                predictions[name], notes[name] = each
            for name in ("avg", "corrw"):
                try:
                    baseline = partial(_by_baseline, name, aspect, fitter)
                    predictions[name] = unseen.predict(folds, baseline, aspect)[:, 0]
                except DataError as error:
                    notes[name] = {"failed": str(error)}
            # all fitted aggregators are shown, so that the choice can be checked
            others = {name: values[:, column] for name, values in of_all.items()}
            repeats.append((folds, others | predictions))
        aspects[aspect] = _on_same_rows(
            repeats, notes, unseen.rows, column, fitter.seed, is_fixed=unseen.is_fixed
        )
    if shuffled and not unseen.is_fixed:
        for aspect, zero in _zero_points(choice, unseen, fitter).items():
            aspects[aspect]["shuffled"] = zero
    content = {"aspects": aspects, "mean": _mean(aspects)}
    if unseen.rows.label_sets:
        content["labels"] = share_of_labels(predicted[0][EVALUATOR], unseen.rows).as_dict()
    elif (choices := share_of_choices(predicted[0][EVALUATOR], unseen.rows)).value is not None:
        content["choices"] = choices.as_dict()
    return content


def held_out_scores(unseen: Unseen) -> Iterator[Json]:
    """Yield the evaluator's scores of the rows that it is measured on, as lines of a file.

    The value is the mean over the repeats, each of which is one of its `ratings`, with the fold in
    which the row was held out; null if a repeat could not predict the row.
    """
    repeats = range(len(unseen.repeats))
    scores = np.array([unseen.by_evaluator(repeat) for repeat in repeats])
    for at, id_ in enumerate(unseen.rows.ids):
        folds = [k for repeat in unseen.repeats for k, f in enumerate(repeat, 1) if f.inside[at]]
        for aspect, ratings in zip(unseen.rows.aspects, scores[:, at].T, strict=True):
            evidence = {"ratings": list(map(number_or_none, ratings)), "folds": folds}
            value = number_or_none(ratings.mean())
            yield {"id": id_, "aspect": aspect, "value": value, "evidence": [evidence]}


def _zero_points(choice: ChosenAggregator, unseen: Unseen, fitter: Fitter) -> Json:
    """Return by aspect the agreement that the same learning reaches with shuffled ratings.

    Empty if there are enough ratings, or no shuffle can be learned.
    """
    table, rng = unseen.rows, np.random.default_rng(fitter.seed)
    if (~np.isnan(table.human)).sum(axis=0).min() >= ENOUGH:
        return {}
    by_aspect: dict[str, list[Json]] = {aspect: [] for aspect in table.aspects}
    # about 150 rows in all shuffles together: few rows vary much, and many take long
    for _ in range(max(2, 150 // len(table.ids))):
        shuffled = replace(table, human=_shuffle_ratings(table, rng))
        try:
            _, other = cross_fit([choice.chosen], shuffled, fitter, lambda _: None, repeats=1)
        except DataError:
            # a fold of these ratings may be constant, and then nothing can be learned
            continue
        predicted = other.by_evaluator()
        for at, aspect in enumerate(table.aspects):
            by_aspect[aspect].append(
                _average_folds(
                    other.repeats[0], predicted[:, at], shuffled.human[:, at], table.groups
                )
            )
    zero: Json = {}
    for aspect, rows in by_aspect.items():
        means = _known_means(rows)
        if means["pearson"] is not None:
            zero[aspect] = {**means, "shuffles": len(rows)}
    return zero


def _shuffle_ratings(table: FeatureTable, rng: np.random.Generator) -> Floats:
    """Return the ratings of whole sources in another order, to keep a source's rows similar."""
    by_source = np.argsort(table.groups, kind="stable")
    order = rng.permutation(table.groups.max() + 1)[table.groups[by_source]]
    human = np.empty_like(table.human)
    human[by_source] = table.human[by_source][np.argsort(order, kind="stable")]
    return human


def _by_aggregator(choice: ChosenAggregator, unseen: Unseen, repeat: int) -> dict[str, Floats]:
    """Return predictions of the chosen aggregator, with and without a pool, and of the others."""
    folds = unseen.repeats[repeat]
    predicted = {EVALUATOR: unseen.by_evaluator(repeat)}
    if choice.aggregator.pools_sources:
        predicted["evaluator with pool"] = unseen.predict(
            folds,
            lambda fold, rows: fold.choice.aggregator.predict(
                rows.features, systems=rows.systems, sources=rows.sources
            ),
        )
    for name in choice.fitted:
        if name != choice.chosen and all(name in fold.choice.fitted for fold in folds):
            predicted[name] = unseen.predict(folds, partial(_by_fitted, name))
    return predicted


def _by_fitted(name: str, fold: Fold, rows: FeatureTable) -> Floats:
    return predict(fold.choice.fitted[name], rows)


def _by_baseline(name: str, aspect: str, fitter: Fitter, fold: Fold, rows: FeatureTable) -> Floats:
    return predict(fitter.fit(name, fold.train, aspect), rows)


def single_feature(
    unseen: Unseen, folds: Sequence[Fold], aspect: str
) -> tuple[Floats, Json] | None:
    """Return the values of one feature on all rows, and its name; `None` without a feature.

    It is the feature that agrees best on the training rows, which include the measured rows if the
    report is cross-fitted: this favors the feature.
    """
    rows = unseen.rows
    best = best_single(folds[0].train if unseen.is_fixed else rows, aspect)
    if not best:
        return None
    name, sign = best
    note: Json = {"feature": name} | ({"turned_round": True} if sign < 0 else {})
    return sign * rows.features[:, rows.names.index(name)], note


def choices_by_fold(
    unseen: Unseen, folds: Sequence[Fold], aspect: str
) -> tuple[Floats, Json] | None:
    """Return the values of each fold's best feature in the fold, and how often each was chosen.

    If folds choose different features, each is standardized over all rows, which needs no ratings.
    `None` if a fold has no feature.
    """
    singles = [best_single(fold.train, aspect) for fold in folds]
    defined = list(filter(None, singles))
    if len(defined) < len(singles):
        return None
    rows = unseen.rows
    columns = {name: rows.features[:, rows.names.index(name)] for name, _ in defined}
    if len(columns) > 1:
        columns = {
            name: (values - np.nanmean(values)) / (np.nanstd(values) or 1.0)
            for name, values in columns.items()
        }
    # the sign also comes from the training rows: a sign from held-out rows would favor the baseline
    signed = [sign * columns[name][fold.inside]
              for fold, (name, sign) in zip(folds, defined, strict=True)]  # fmt: skip
    return join_folds(folds, signed), {"chosen": dict(Counter(name for name, _ in defined))}


def best_single(train: FeatureTable, aspect: str) -> tuple[str, float] | None:
    """Return the feature that agrees best with people on the training rows, and its sign (1 or -1).

    Features named after another aspect are ignored, unless all are.
    """
    named = (*train.all_aspects, *train.aspects)
    candidates = compress(train.names, features_for(aspect, train.names, named))
    best: tuple[str, float] | None = None
    for name in candidates:
        pairs = pair_up(
            train.features[:, train.names.index(name)], train.human[:, train.aspects.index(aspect)]
        )
        r = pearson(pairs.scores, pairs.human)
        if r is not None and (best is None or abs(r) > abs(best[1])):
            best = (name, r)
    return None if best is None else (best[0], 1.0 if best[1] >= 0 else -1.0)


def resamples_for(rows: int) -> int:
    """Return the number of resamples for intervals: 1,000, and fewer beyond 5,000 rows.

    At least 100. They show no p-value below 2 / (resamples + 1), that is .002 to .02.
    """
    return int(np.clip(5_000_000 // max(rows, 1), 100, 1000))


def _on_same_rows(
    repeats: Sequence[tuple[Sequence[Fold], Mapping[str, Floats]]],
    notes: Json,
    test: FeatureTable,
    column: int,
    seed: int,
    *,
    is_fixed: bool,
) -> Json:
    """Return agreement, the mean over repeats, on the rows where every prediction has a value."""
    # rows that one prediction or repeat lacks are left out for all, so that all are measured on the
    # same rows
    names = [name for name in repeats[0][1] if all(name in values for _, values in repeats)]
    missing = np.isnan([values[name] for _, values in repeats for name in names]).any(axis=0)
    human, groups = test.human[:, column], test.groups.tolist()
    inflation = _inflation([folds for folds, _ in repeats])
    rows: Json = {}
    draws: dict[str, Mapping[Coefficient, Floats]] = {}
    for name in names:
        predicted = [(folds, np.where(missing, np.nan, values[name])) for folds, values in repeats]
        pairs = [pair_up(values, human, groups=groups) for _, values in predicted]
        # a single feature is not learned: it is the same in every fold, so its figures are over all
        # rows, and it does not vary with the training rows
        is_learned = name != SINGLE
        measured = [
            _average_folds(folds if is_learned else [], values, human, test.groups)
            for folds, values in predicted
        ]
        means = {c: mean_if_all([agreement[c] for agreement in measured]) for c in COEFFICIENTS}
        if not is_fixed:
            draws[name] = _mean_resamples(pairs, seed)
        if is_learned and not is_fixed:
            ci = _intervals(means, draws[name], pairs[0], inflation)
        else:
            resamples = resamples_for(len(pairs[0].scores))
            ci = compute_agreement(pairs[0], "dataset", bootstrap=resamples, seed=seed).ci
        intervals = {c: list(one.ends) or None for c, one in ci.items()}
        rows[name] = {**means, "ci": dict.fromkeys(COEFFICIENTS) | intervals, **notes.get(name, {})}
    # the same for all names
    n, count = len(pairs[0].scores), number_of_groups(pairs[0])
    counts = {
        "n": n, "groups": count, "coverage": pairs[0].coverage, "resamples": resamples_for(n),
        "note": note_mostly_equal(pairs[0]),
    }  # fmt: skip

    def over(name: str) -> dict[Coefficient, Difference]:
        if is_fixed:
            a, b = (np.where(missing, np.nan, repeats[0][1][own]) for own in (EVALUATOR, name))
            test = compare(a, b, human, groups=groups, bootstrap=resamples_for(n), seed=seed)
            return {c: getattr(test, c) for c in COEFFICIENTS}
        own, other = draws[EVALUATOR], draws[name]
        return {
            c: difference_between(
                rows[EVALUATOR][c], rows[name][c], own[c] - other[c], count, inflation
            )
            for c in COEFFICIENTS
        }

    differences = {
        name: {c: _as_json(delta, is_fixed=is_fixed) for c, delta in over(name).items()}
        for name in names
        if name != EVALUATOR
    }
    failed = {name: note for name, note in notes.items() if name not in rows and "failed" in note}
    return {**counts, "agreement": {**rows, **failed}, "evaluator_minus": differences}


def _mean_resamples(pairs: Sequence[Pairs], seed: int) -> dict[Coefficient, Floats]:
    """Return each coefficient in resamples of the groups, the mean over repeats.

    Equal seeds over equal rows draw equal resamples, so differences between predictions are paired.
    """
    count = resamples_for(len(pairs[0].scores))
    samples = [resample(p, "dataset", resamples=count, seed=seed) for p in pairs]
    return {c: np.mean([sample[c] for sample in samples], axis=0) for c in COEFFICIENTS}


def _intervals(
    means: Mapping[Coefficient, float | None],
    draws: Mapping[Coefficient, Floats],
    pairs: Pairs,
    inflation: float,
) -> dict[Coefficient, Estimate]:
    """Return cross-fitted coefficients with their intervals; `inflation` is a factor of errors."""
    # below five rows there is no interval
    errors, count = independent_errors(max(len(pairs.scores), 5)), number_of_groups(pairs)
    return {
        c: coefficient_interval(means[c], draws[c], count, errors[c], inflation)
        for c in COEFFICIENTS
    }


def _inflation(repeats: Sequence[Sequence[Fold]]) -> float:
    """Return the factor of the errors of cross-fitted coefficients.

    Resamples take predictions as given, but the aggregators of the folds and the saved evaluator
    have learned from different rows. So the variance of a mean over f folds and r repeats is the
    variance of one fold's coefficient times 1 / (f r) + n_test / n_train, and not 1 / f of it.
    """
    shared = sum(int(fold.inside.sum()) / len(fold.train.ids) for fold in repeats[0])
    return math.sqrt(1 / len(repeats) + shared)


def _average_folds(folds: Sequence[Fold], predicted: Floats, human: Floats, groups: Codes) -> Json:
    """Return the mean over the folds of each coefficient, weighted by their rows.

    If the ratings in a fold are high, those outside of it, from which its aggregator has learned,
    are low. So one coefficient over all folds would be too low: by .1 to .2 with 20 to 50 ratings
    and features that say little. It is used all the same without folds, or if they have fewer than
    three rated sources on average, too few to show how sources differ.
    """
    inside = [fold.inside for fold in folds]
    sources = np.unique(groups[~np.isnan(predicted) & ~np.isnan(human)])
    if not inside or len(sources) < 3 * len(inside):
        inside = [np.ones(len(human), bool)]
    parts = [compute_agreement(pair_up(predicted[i], human[i]), "dataset") for i in inside]
    rows = np.array([part.n for part in parts], float)
    means: Json = {}
    for name in COEFFICIENTS:
        values = np.array([getattr(part, name) for part in parts], float)
        is_defined = ~np.isnan(values)
        shares = rows[is_defined] / rows[is_defined].sum()
        means[name] = float(values[is_defined] @ shares) if is_defined.any() else None
    return means


def _as_json(delta: Difference, *, is_fixed: bool) -> Json:
    """Return a difference as JSON values; `is_fixed` as in `Unseen`."""
    # cross-fitted agreement is too low, so it cannot show that the evaluator is worse
    p = delta.p if is_fixed or (delta.difference.value or 0.0) >= 0 else None
    significant = None if p is None else p < 0.05
    return {"difference": delta.difference.value, "ci": list(delta.difference.ends) or None, "p": p,
            "significant": significant}  # fmt: skip


def _mean(aspects: Json) -> Json:
    """Return each coefficient's mean over the aspects, if it is defined for all of them."""
    names = list(dict.fromkeys(name for aspect in aspects.values() for name in aspect["agreement"]))
    means: Json = {}
    for name in names:
        rows = [aspect["agreement"].get(name, {}) for aspect in aspects.values()]
        # otherwise rows would have means over different aspects
        means[name] = {c: mean_if_all([row.get(c) for row in rows]) for c in COEFFICIENTS}
    return means


def competition_ranks(values: Floats) -> Floats:
    """Return how many values are greater, shape (n,): 0 for the best, equal values share a rank."""
    # as in appendix D: ties share the better rank, so a constant judge is right about the best item
    # only
    return np.asarray((values[None, :] > values[:, None]).sum(axis=1), float)


def ranking(unseen: Unseen) -> Json:
    """Return per aspect the share of items whose rank within their source equals people's rank.

    Shares are given for the evaluator and the best single feature, over sources with at least two
    items that have a rating and a score; a share is `None` without such sources.
    """
    test, predicted = unseen.rows, unseen.by_evaluator()
    by_aspect: Json = {}
    for at, aspect in enumerate(test.aspects):
        human = test.human[:, at]
        shares: Json = {"evaluator": _share_of_equal_ranks(predicted[:, at], human, test)}
        if single := single_feature(unseen, unseen.repeats[0], aspect):
            values, note = single
            shares["best single"] = {
                **_share_of_equal_ranks(values, human, test),
                "feature": note["feature"],
            }
        by_aspect[aspect] = shares
    return by_aspect


def _share_of_equal_ranks(scores: Floats, human: Floats, test: FeatureTable) -> Json:
    """Return the share of items whose rank within their source is the same by both, with counts."""
    equal = items = groups = 0
    for code in np.unique(test.groups):
        rows = (test.groups == code) & ~np.isnan(scores) & ~np.isnan(human)
        # a lone item has rank 0 on both sides and would count as agreement
        if rows.sum() < 2:
            continue
        same = competition_ranks(scores[rows]) == competition_ranks(human[rows])
        equal, items, groups = equal + int(same.sum()), items + len(same), groups + 1
    return {"share": equal / items if items else None, "items": items, "groups": groups}


def experts(unseen: Unseen) -> Json:
    """Return per aspect how annotators agree with each other, and the evaluator with them.

    Figures for each pair of annotators and their mean, for one annotator with the mean of the
    others, and for the evaluator with the mean of all annotators and with single ones. Empty if no
    aspect has ratings of single annotators, who are identified by their position in the data.
    """
    test, predicted = unseen.rows, unseen.by_evaluator()
    by_aspect: Json = {}
    for aspect, ratings in test.annotators.items():
        at = test.aspects.index(aspect)
        pairs = {
            f"{a + 1}-{b + 1}": agreement_between(ratings[:, a], ratings[:, b])
            for a, b in combinations(range(ratings.shape[1]), 2)
        }
        by_aspect[aspect] = {
            "pairs": pairs,
            "mean_of_pairs": _known_means(list(pairs.values())),
            "one_with_the_others": _known_means(
                [
                    agreement_between(ratings[:, a], _row_means(np.delete(ratings, a, axis=1)))
                    for a in range(ratings.shape[1])
                ]
            ),
            "evaluator_with_the_mean": agreement_between(predicted[:, at], test.human[:, at]),
            "evaluator_with_one": _known_means(
                [agreement_between(predicted[:, at], rater) for rater in ratings.T]
            ),
        }
    return by_aspect


def _row_means(values: Floats) -> Floats:
    """Return the mean of each row without NaN, shape (n,); NaN for rows without a number."""
    return np.asarray(np.ma.masked_invalid(values).mean(axis=1).filled(np.nan))


def agreement_between(a: Floats, b: Floats) -> Json:
    """Return the correlations of two columns over the rows with both."""
    agreement = compute_agreement(pair_up(a, b), "dataset")
    return {"pearson": agreement.pearson, "spearman": agreement.spearman, "n": agreement.n}


def _known_means(rows: list[Json]) -> Json:
    """Return the mean of each coefficient over the rows that have it."""
    return {name: figures["mean"] for name, figures in _mean_and_sd(rows).items()}


def _mean_and_sd(rows: Sequence[Json]) -> dict[str, Json]:
    """Return mean and standard deviation of each coefficient over the rows that have it."""
    figures: dict[str, Json] = {}
    for coefficient in ("pearson", "spearman"):
        values = [row[coefficient] for row in rows if row.get(coefficient) is not None]
        mean, sd = (float(np.mean(values)), float(np.std(values))) if values else (None, None)
        figures[coefficient] = {"mean": mean, "sd": sd}
    return figures


def over_data(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter, repeats: int
) -> list[Json]:
    """Return agreement on held-out rows after learning from parts of the training rows.

    Each part is drawn with several seeds. Parts are drawn by source, and with the same seed a
    larger part contains the smaller ones. If a part is too small to learn from, the entry says why.
    """
    return [
        {
            "fraction": fraction,
            **{
                learner: _learn_from_parts(learner, train, test, fitter, fraction, repeats)
                for learner in dict.fromkeys((name, "avg"))
            },
        }
        for fraction in (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
    ]


def _learn_from_parts(
    name: str,
    train: FeatureTable,
    test: FeatureTable,
    fitter: Fitter,
    fraction: float,
    repeats: int,
) -> Json:
    curves, rows, problem = [], [], ""
    # all rows are the same for every seed
    for seed in range(repeats if fraction < 1 else 1):
        try:
            part = (
                train
                if fraction == 1
                else train.rows(split_rows(train.groups, fraction, seed=fitter.seed + seed))
            )
            curves.append(correlations(predict(fitter.fit(name, part), test), test))
            rows.append(len(part.ids))
        except DataError as error:
            problem = str(error)
    curve: Json = {"seeds": len(curves), "rows": int(np.mean(rows)) if rows else None}
    for coefficient, figures in _mean_and_sd(curves).items():
        curve[coefficient] = None if figures["mean"] is None else figures
    return curve | ({"failed": problem} if problem else {})


def over_criteria(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter, repeats: int
) -> list[Json] | Json:
    """Return agreement on held-out rows with the top 1, 2, ... features by importance in training.

    Curves are averaged over the split itself and further splits of the same rows by source, each
    with an order of importance of its own.
    """
    try:
        curves = [
            _criteria_curve(name, learned, rest, fitter)
            for learned, rest in _samples(train, test, fitter, repeats)
        ]
    except DataError as error:
        return {"failed": str(error)}
    return (
        curves[0]
        if repeats == 1
        else [_average_points(points) for points in zip(*curves, strict=True)]
    )


def _samples(
    train: FeatureTable, test: FeatureTable, fitter: Fitter, repeats: int
) -> Iterator[tuple[FeatureTable, FeatureTable]]:
    # the report's own split comes first, so a single sample gives the figures of the report
    yield train, test
    whole = train.join(test)
    for sample in range(1, repeats):
        # the same share as in the report's split, so that all samples are comparable
        share = len(train.ids) / len(whole.ids)
        learned = split_rows(whole.groups, share, seed=fitter.seed + sample)
        yield whole.rows(learned), whole.rows(~learned)


def _criteria_curve(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter
) -> list[Json]:
    ranking = importance_over_folds(name, train, fitter, repeats=3).ranking()
    order = [feature for feature, _ in ranking]
    return [
        {
            "count": count,
            "last": order[count - 1],
            **_agreement_of(name, train, test, fitter, order[:count]),
        }
        for count in steps(len(order))
    ]


def _average_points(points: Sequence[Json]) -> Json:
    """Return one point of the mean curve: means and standard deviations over the samples."""
    figures = _mean_and_sd(points)
    return {
        "count": points[0]["count"],
        "last": points[0]["last"],
        "sd": {name: figure["sd"] for name, figure in figures.items()},
        **{name: figure["mean"] for name, figure in figures.items()},
        "samples": len(points),
    }


def steps(count: int) -> list[int]:
    """Return 1, 2, 3, 4, 6, 8, 12, 16, ... and the count itself."""
    counts = {
        size
        for power in range(20)
        for size in (2**power, 3 * 2 ** max(power - 1, 0))
        if size < count
    }
    return [*sorted(counts), count]


def layer_of_each(names: Iterable[str]) -> dict[str, int]:
    """Return the layer of each feature in a tree of criteria, counted from 1.

    A feature is below another one if its name begins with that name and a slash: `coherence` and
    `coherence/logical-flow` are two layers, `gpt-4/coherence` alone is one.
    """
    distinct = set(names)
    return {
        name: 1 + sum(name[:at] in distinct for at, mark in enumerate(name) if mark == "/")
        for name in distinct
    }


def ablation_table(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter
) -> list[Json]:
    """Return agreement on the held-out rows, of the whole evaluator and without each of its parts.

    Layers are removed if the features are the nodes of a tree.
    """
    layers = layer_of_each(train.names)
    depth = max(layers.values())
    rows = [{"without": "nothing", **_agreement_of(name, train, test, fitter, train.names)}]
    # from the deepest layer up, as in the paper, so that the rest is still a tree
    for last in range(depth - 1, 0, -1):
        features = [f for f in train.names if layers[f] <= last]
        gone = ", ".join(str(layer) for layer in range(last + 1, depth + 1))
        agreement = _agreement_of(name, train, test, fitter, features)
        rows.append({"without": f"layer {gone}", **agreement})
    if depth > 1 and (plain := _aspects_alone(test)):
        gone = ", ".join(str(layer) for layer in range(1, depth + 1))
        rows.append({"without": f"layer {gone}", "left": "each aspect's own rating", **plain})
    rows.append(
        {"without": "aggregator", "left": "the average of all features", **_plain_average(test)}
    )
    return rows


def _agreement_of(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter, features: Sequence[str]
) -> Json:
    """Return agreement on the held-out rows with some of the features, or why there is none."""
    try:
        learned = fitter.fit(name, train.only(features))
        return correlations(predict(learned, test.only(features)), test)
    except DataError as error:
        return {"failed": str(error)}


def _aspects_alone(test: FeatureTable) -> Json | None:
    """Return agreement of the features named like the aspects; `None` if an aspect has none."""
    columns = {slug(name): at for at, name in enumerate(test.names) if "/" not in name}
    if not all(slug(aspect) in columns for aspect in test.aspects):
        return None
    return correlations(
        np.stack([test.features[:, columns[slug(aspect)]] for aspect in test.aspects], axis=1), test
    )


def _plain_average(test: FeatureTable) -> Json:
    """Average all features unchanged: "a numeric average on all labels" (HD-Eval, table 4)."""
    average = _row_means(test.features)
    return correlations(np.repeat(average[:, None], len(test.aspects), axis=1), test)
