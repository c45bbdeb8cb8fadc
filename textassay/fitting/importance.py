"""Importance of an evaluator's features, Shapley values, and the gain of each juror.

All figures are for rows that were not learned from. Criteria are chosen by figures over folds of
the training rows; the report's figures are for the held-out rows. A juror's gain is the increase of
the error without it, over left-out sources.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import combinations, compress
from typing import Any

import numpy as np

from textassay.agreement.choice import alternatives, choices_of, share_difference, share_interval
from textassay.agreement.correlation import number_or_none, pair_up, pearson
from textassay.agreement.intervals import CONFIDENCE, number_of_groups, resample
from textassay.agreement.significance import difference_between
from textassay.arrays import Codes, Floats, Mask
from textassay.fitting.feature_table import FeatureTable
from textassay.fitting.learn import Fitter, Fold, Unseen, mean_if_all, predict
from textassay.learning.aggregators import Aggregator
from textassay.learning.attribution import (
    Importance,
    explain,
    global_importance,
    permutation_importance,
    pool_importances,
    t_interval,
)
from textassay.learning.splits import draw_groups, fold_masks
from textassay.learning.training import FOLDS
from textassay.runtime.base import Json
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.labels import LabelScale, LabelSets
from textassay.table import Alert, Estimate, Note, ResultRow, Table, column, table_of

_ROWS_TO_SHUFFLE = 1_000


def importance_over_folds(
    name: str, train: FeatureTable, fitter: Fitter, *, repeats: int = 10
) -> Importance:
    """Measure which features matter, from training rows alone.

    Each fold is predicted by an aggregator learned without it. If an aspect's ratings are all equal
    in a fold or outside of it, for instance if nearly all texts are faultless, importance is
    measured aspect by aspect over the rows of all folds together (`cross_fitted_importance`). Rows
    without any feature are ignored.
    """
    train = train.rows(train.filled)  # ratings of other rows teach nothing
    masks = _fold_masks(train, fitter)
    measured = [_at_most(train.rows(inside), _ROWS_TO_SHUFFLE, fitter.seed) for inside in masks]
    if all(_can_learn(train.rows(~inside)) for inside in masks) and all(
        _vary(rows.human).all() for rows in measured
    ):
        return pool_importances(
            [
                _permutation_importance(
                    rows,
                    rows.human,
                    [(fitter.fit(name, train.rows(~inside)), np.ones(len(rows.ids), bool))],
                    repeats=repeats,
                    seed=fitter.seed,
                )
                for inside, rows in zip(masks, measured, strict=True)
            ]
        )
    by_aspect = [
        cross_fitted_importance(name, train, fitter, aspect, count=len(masks), repeats=repeats)
        for aspect in train.aspects
    ]
    mean, sd, importances, influences = (
        np.concatenate([getattr(part, name) for part in by_aspect], axis=1)
        for name in ("mean", "sd", "importances", "influences")
    )
    return Importance(train.names, mean, sd, importances, influences)


def _permutation_importance(
    rows: FeatureTable,
    human: Floats,
    parts: Sequence[tuple[Aggregator | float, Mask]],
    *,
    repeats: int,
    seed: int,
    threads: int = 1,
) -> Importance:
    """Measure permutation importance, with a predictor or a constant for each part of the rows."""
    systems = [list(compress(rows.systems, inside)) for _, inside in parts]

    def predict(features: Floats) -> Floats:
        copies = len(features) // len(rows.ids)

        def of_part(
            part: tuple[Aggregator | float, Mask], authors: list[str | None]
        ) -> Floats | float:
            predictor, inside = part
            if isinstance(predictor, float):
                return predictor
            return predictor.predict(features[np.tile(inside, copies)], systems=authors * copies)

        values = np.full((len(features), human.shape[1]), np.nan)
        for (_, inside), part in zip(parts, pool.map(of_part, parts, systems), strict=True):
            values[np.tile(inside, copies)] = part
        return values

    with ThreadPoolExecutor(threads) as pool:
        return permutation_importance(
            predict, rows.features, human, columns=rows.names, groups=rows.groups.tolist(),
            repeats=repeats, seed=seed,
        )  # fmt: skip


def _at_most(table: FeatureTable, rows: int, seed: int) -> FeatureTable:
    return table.rows(draw_groups(table.groups, rows, seed=seed))


def _can_learn(rows: FeatureTable) -> bool:
    """Return whether ratings of every aspect and some feature vary."""
    return bool(_vary(rows.human).all() and _vary(rows.features).any())


def _vary(columns: Floats) -> Mask:
    """Return whether each column has two values that differ."""
    low = np.where(np.isnan(columns), np.inf, columns).min(axis=0, initial=np.inf)
    high = np.where(np.isnan(columns), -np.inf, columns).max(axis=0, initial=-np.inf)
    return np.asarray(low < high, bool)


def cross_fitted_importance(
    name: str, train: FeatureTable, fitter: Fitter, aspect: str, *, count: int, repeats: int
) -> Importance:
    """Measure which features matter for one aspect, from few training rows alone.

    Each row is predicted by an aggregator learned without its fold, but errors are in units of the
    variance of all rows, so that folds with few rows or little variance do not distort it. Rows
    without any feature are ignored.
    """
    train = train.rows(train.filled)
    human = train.human[:, [train.aspects.index(aspect)]]
    # if all ratings or features outside a fold are the same, only the mean is learned
    parts = [
        (fitter.fit(name, train.rows(~inside), aspect)
         if _vary(human[~inside]).all() and _vary(train.features[~inside]).any()
         else _mean_of_rated(human[~inside]),
         inside)
        for inside in fold_masks(train.groups, count, seed=fitter.seed)
    ]  # fmt: skip
    return _permutation_importance(train, human, parts, repeats=repeats, seed=fitter.seed)


def _mean_of_rated(ratings: Floats) -> float:
    """Return the mean of the ratings; NaN without ratings."""
    rated = ratings[~np.isnan(ratings)]
    return float(rated.mean()) if len(rated) else float("nan")


def saliency_over_folds(name: str, train: FeatureTable, fitter: Fitter) -> dict[str, float]:
    """Return the mean size of each feature's Shapley values, from training rows alone.

    In standard deviations of an aspect's ratings, averaged over the aspects; each fold is explained
    by an aggregator learned without it. Rows without any feature are ignored.
    """
    train = train.rows(train.filled)
    spreads = np.nanstd(train.human, axis=0)
    masks = _fold_masks(train, fitter)
    if all(_can_learn(train.rows(~inside)) for inside in masks):
        sizes = [
            _contributions(fitter.fit(name, train.rows(~inside)), train, train.rows(inside),
                           fitter.seed) / spreads[:, None]
            for inside in masks
        ]  # fmt: skip
    else:
        # if nothing varies outside of a fold, only the mean is learned
        sizes = [
            _contributions(fitter.fit(name, train.rows(~inside), aspect), train,
                           train.rows(inside), fitter.seed) / spreads[at]
            if _vary(train.human[~inside])[at] and _vary(train.features[~inside]).any()
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
    rows = _at_most(rows, 300, seed)
    # the background excludes the explained rows, so that no row is compared with itself
    others = train.rows(~np.isin(train.ids, rows.ids))
    explanations = explain(fitted, rows.features, others.features, systems=rows.systems, seed=seed)
    return global_importance(explanations.values)


def _fold_masks(train: FeatureTable, fitter: Fitter) -> list[Mask]:
    """Return the rows of each fold: two folds, or one for each of three groups."""
    groups = len(np.unique(train.groups))
    # aggregators that need folds themselves cannot learn from a single group
    return fold_masks(train.groups, 3 if groups == 3 else 2, seed=fitter.seed)


def importance(unseen: Unseen, fitter: Fitter) -> Json:
    """Return the importance of the features for people's ratings.

    Permutation importance and mean size of Shapley values, on rows that were not learned from.
    """
    content: Json = {}
    try:
        few = unseen.at_most(_ROWS_TO_SHUFFLE, fitter.seed)
        measured = _permutation_importance(
            few.rows,
            few.rows.human,
            [(fold.choice.aggregator, fold.inside) for fold in few.repeats[0]],
            # fewer repeats over all rows than over a held-out part, which is usually half of them
            repeats=5 if few.is_fixed else 3,
            seed=fitter.seed,
            threads=fitter.threads,
        )
        content["permutation"] = _permutation(measured, unseen.rows)
    except DataError as error:
        content["permutation"] = {"failed": str(error)}
    rng, rows = np.random.default_rng(fitter.seed), unseen.rows
    # a few hundred rows suffice for the means, and sampled contributions are slow
    sampled = np.zeros(len(rows.ids), bool)
    sampled[rng.permutation(len(rows.ids))[:300]] = True

    def explain_fold(fold: Fold) -> Floats:
        return explain(
            fold.choice.aggregator,
            rows.features[fold.inside & sampled],
            # training rows are the background, so that contributions are relative to them
            fold.train.features,
            systems=list(compress(rows.systems, fold.inside & sampled)),
            samples=16,
            seed=fitter.seed,
        ).values

    with ThreadPoolExecutor(fitter.threads) as pool:
        sizes = global_importance(np.concatenate(list(pool.map(explain_fold, unseen.repeats[0]))))
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


def _permutation(importance: Importance, table: FeatureTable) -> list[Json]:
    at_name = {name: at for at, name in enumerate(importance.names)}
    interval, overall = importance.interval(), importance.overall_interval()
    return [
        {
            "feature": name,
            "mean": number_or_none(mean),
            "ci": format_span(overall[at_name[name]]),
            "by_aspect": {
                aspect: {
                    "mean": number_or_none(importance.mean[at_name[name], at]),
                    "sd": number_or_none(importance.sd[at_name[name], at]),
                    "ci": format_span(interval[at_name[name], at]),
                }
                for at, aspect in enumerate(table.aspects)
            },
        }
        for name, mean in importance.ranking()
    ]


def format_span(span: Floats) -> list[float] | None:
    """Return the ends of an interval as JSON values; `None` without one."""
    return None if np.isnan(span).any() else [float(end) for end in span]


@dataclass(frozen=True, slots=True)
class Worth:
    """The gain of one juror in its jury."""

    juror: str = field(metadata=column("juror"))
    """Name of the juror."""
    alone: float | None = field(metadata=column("r alone", "number"))
    """Pearson's r of its own scores with the ratings, the mean over the aspects; `None` if
    undefined."""
    right: float | None = field(metadata=column("right alone", "number"))
    """Share of right choices, ties shared, or of the raters who gave the same label without an
    order; `None` without choices by people."""
    gain: float = field(
        metadata=column("gain", "interval", cell=lambda w: Estimate(w.gain, w.low, w.high))
    )
    """Increase of the squared error without it, in variances of the ratings, averaged over the
    aspects.
    """
    low: float
    """Lower end of its interval over sources."""
    high: float
    """Upper end."""
    cost: float | None = field(
        metadata=column("USD per 1,000 texts", "number", 4, cell=lambda w: w.cost and 1000 * w.cost)
        | column("gain per USD", "interval", name="per_dollar")
    )
    """US dollars per rated text; `None` if unknown."""
    leave_out: bool = field(
        metadata=column("leave out", cell=lambda worth: Alert("yes") if worth.leave_out else "")
    )
    """Whether the jury is not shown to be worse without it."""

    @property
    def per_dollar(self) -> Estimate:
        """Gain per dollar for a thousand texts; undefined if the cost is unknown or 0.

        The cost of a text is known, so only the gain is uncertain.
        """
        if not self.cost:
            return Estimate(None)
        return Estimate(*(end / (1000 * self.cost) for end in (self.gain, self.low, self.high)))

    def as_dict(self) -> dict[str, Any]:
        gain = self.per_dollar
        return asdict(self) | {"per_dollar": gain.value, "per_dollar_ci": list(gain.ends) or None}


@dataclass(frozen=True, slots=True)
class JuryAgreement(ResultRow):
    """Agreement of the whole jury with people, on the texts that all jurors scored."""

    name: str = field(metadata=column("jury"))
    """How their scores are combined."""
    r: float | None = field(metadata=column("r", "number"))
    """Pearson's r with the ratings, the mean over the aspects; `None` if undefined."""
    right: Estimate = field(metadata=column("right", "interval"))
    """Share of right choices, or of the raters who gave the same label, ties shared; no value
    without choices by people."""
    over_best: Estimate = field(metadata=column("over the best", "interval"))
    """Its share of right choices (r without choices by people) minus the best juror's; no value for
    the best juror itself, and if undefined."""


def jury_tables(
    gains: Sequence[Worth], together: Sequence[JuryAgreement], *, of_labels: bool = False
) -> list[Table]:
    """Return the gain of each juror, the jurors to leave out, and the jury's agreement."""
    members = [worth.juror for worth in gains if not worth.leave_out]
    advice = f"A jury of {', '.join(members)} is not shown to be worse by these ratings."
    if len(members) == len(gains):
        advice = "Every juror adds something."
    meaning = (
        "gain: increase of the squared error on held-out sources without the juror, in units of "
        "the ratings' variance."
    )
    notes = [Note(meaning), Note(advice), *map(Note, _lead(gains, of_labels=of_labels))]
    title = "the jurors together, on the texts that all scored"
    return [
        table_of(Worth, gains, notes, "what each juror adds"),
        table_of(JuryAgreement, together, title=title),
    ]


def _lead(gains: Sequence[Worth], *, of_labels: bool) -> Iterator[str]:
    """Yield by how much the best juror leads, and whether a plain mean is likely to be better."""
    by_choice = [(worth.right, worth.juror) for worth in gains if worth.right is not None]
    by_r = [(worth.alone, worth.juror) for worth in gains if worth.alone is not None]
    measure, scale, ranked = ("choices", 2, by_choice) if by_choice else ("r", 1, by_r)
    measure = "labels" if of_labels else measure
    if len(ranked) < 2:
        return
    (best, name), (second, other) = sorted(ranked, key=lambda one: one[0], reverse=True)[:2]
    lead = scale * (best - second)
    # on SummEval the mean of two jurors gained in 30 of 31 juries with a lead below .1 of r, and
    # lost with one above .2; on RewardBench 2 it gained in 16 of 16 with a lead below 5 points of
    # accuracy, and lost in 7 of 7 with one above 10
    if of_labels:
        # of eight recorded sets; confusion tables gained in lgbteen and were no worse in the others
        verdict = (
            "no vote was better than its best juror where that was measured, and confusion tables"
            " learned from some 100 texts sometimes are"
        )
    elif len({worth.juror.split("/")[0] for worth in gains}) == 1:
        # on RewardBench 2, LLMBar and Topical-Chat two to fifteen prompts, asked once each
        verdict = "prompts of one judge are no better than the best of them asked as often"
    elif lead < 0.1:
        verdict = "with jurors this close, a plain mean nearly always beats the best"
    elif lead < 0.2:
        verdict = "with such a lead a plain mean may help or hurt"
    else:
        verdict = (
            "with such a lead, use the best juror alone, asked several times at a temperature "
            "above 0, or learned weights"
        )
    order = f"{name} leads in {measure}, {best:.3f} to {second:.3f} of the next one"
    if f"{best:.3f}" == f"{second:.3f}":
        order = f"{name} and {other} are equal in {measure}, {best:.3f}"
    yield f"{order}: {verdict}."


def juries(
    table: FeatureTable, fitter: Fitter, pairs: Set[str] = frozenset()
) -> tuple[JuryAgreement, ...]:
    """Return the agreement of the best juror, of means of all, and of learned weights with people.

    Weights are not negative, and learned from other sources (cross-fitted). Of 3 to 8 jurors, the
    best jury of each size is shown as well, chosen on other sources. `pairs` are the ids of
    comparisons of two texts. If judges have several prompts (jurors `JUDGE/PROMPT`), the mean of
    each judge's mean is added, in which a judge with many prompts has no more weight than others.
    """
    members = jurors_in(table.names, table.aspects)
    plain = _means(table, members)
    # a text that a juror left unscored is left out: means of fewer jurors are not scores of the
    # jury
    alone = {name: np.where(np.isnan(plain), np.nan, _means(table, [name])) for name in members}
    worth = {name: _worth(values, table, pairs) for name, values in alone.items()}
    best = max(members, key=lambda name: -1.0 if (r := worth[name]) is None else r)
    prompts: dict[str, list[str]] = {}
    for name in members:
        prompts.setdefault(name.split("/")[0], []).append(name)
    # the label with the highest mean of 0 and 1 has the most votes
    ways = {f"{best} alone": alone[best], "vote" if table.label_sets else "plain mean": plain}
    for size in range(2, len(members)) if len(members) <= 8 else ():
        some = [_means(table, jury) for jury in combinations(members, size)]
        ways[f"best {size}, chosen on other sources"] = _choose_elsewhere(
            some, table, fitter, pairs
        )
    if 1 < len(prompts) < len(members):
        ways["mean by judge, then over judges"] = np.mean(
            [_means(table, jurors) for jurors in prompts.values()], axis=0
        )
    learned = "confusion tables" if table.label_sets else "weights, none negative"
    ways[f"learned {learned}"] = _predict_unseen(table, fitter, members)
    ways = {name: np.where(np.isnan(plain), np.nan, values) for name, values in ways.items()}
    first = f"{best} alone"
    over = {
        name: Estimate(None) if name == first else _difference(way, ways[first], table, pairs)
        for name, way in ways.items()
    }
    return tuple(
        JuryAgreement(name, _mean_r(values, table), _share_right(values, table, pairs), over[name])
        for name, values in ways.items()
    )


def _choose_elsewhere(
    juries: Sequence[Floats], table: FeatureTable, fitter: Fitter, pairs: Set[str]
) -> Floats:
    """Return, for each source, the scores of the jury that is best on the other folds' sources."""
    if not (pairs or table.label_sets):
        # folds may choose juries with other means, which would lower r over all folds
        masked = list(map(np.ma.masked_invalid, juries))
        juries = [((x - x.mean(axis=0)) / x.std(axis=0)).filled(np.nan) for x in masked]
    scores = np.full(table.human.shape, np.nan)
    for inside in fold_masks(table.groups, FOLDS, seed=fitter.seed):
        others = table.rows(~inside)
        worth = np.array([_worth(jury[~inside], others, pairs) for jury in juries], float)
        scores[inside] = juries[int(np.argmax(np.nan_to_num(worth, nan=-1.0)))][inside]
    return scores


def _worth(scores: Floats, table: FeatureTable, pairs: Set[str]) -> float | None:
    """Return the share of right choices, or r if people made none; `None` if undefined."""
    right, _ = _right(scores, table, pairs)
    return float(right.mean()) if len(right) else _mean_r(scores, table)


def _means(table: FeatureTable, members: Collection[str]) -> Floats:
    """Return the mean score of these jurors, shape (n, aspects); NaN if one of them is missing."""
    means = np.full(table.human.shape, np.nan)
    for at, aspect in enumerate(table.aspects):
        columns = [c for c, name in enumerate(table.names) if juror_of(name, [aspect]) in members]
        if aspect in table.labels:  # who never gave a label has no column of it
            means[:, at] = table.features[:, columns].sum(axis=1) / len(members)
        elif columns:
            means[:, at] = table.features[:, columns].mean(axis=1)
    return means


def _mean_r(values: Floats, table: FeatureTable) -> float | None:
    """Return the r with the ratings, the mean over the aspects that have values; not of labels."""
    if table.label_sets:
        return None
    pairs = [pair_up(x, y) for x, y in zip(values.T, table.human.T, strict=True)
             if not np.isnan(x).all()]  # fmt: skip
    return mean_if_all([pearson(pair.scores, pair.human) for pair in pairs]) if pairs else None


def _difference(values: Floats, others: Floats, table: FeatureTable, pairs: Set[str]) -> Estimate:
    """Return how much more often values are right than others, or else the difference in r."""
    (right, units), (of_others, _) = (_right(side, table, pairs) for side in (values, others))
    if len(right) != len(of_others):  # some aspects could not be learned
        return Estimate(None)
    if len(right):
        return share_difference(right, of_others, units).difference
    differences, count = list[Floats](), 0
    for x, y, ratings in zip(values.T, others.T, table.human.T, strict=True):
        there = ~np.isnan(x) & ~np.isnan(y)
        if not there.any():
            continue
        groups = table.groups[there].tolist()
        both = [pair_up(scores[there], ratings[there], groups=groups) for scores in (x, y)]
        # equal seeds draw the same sources
        a, b = (resample(pair, "dataset", resamples=1000, seed=0)["pearson"] for pair in both)
        differences.append(a - b)
        count = number_of_groups(both[0])
    if not differences:
        return Estimate(None)
    a_r, b_r = _mean_r(values, table), _mean_r(others, table)
    return difference_between(a_r, b_r, np.mean(differences, axis=0), count).difference


def _share_right(values: Floats, table: FeatureTable, pairs: Set[str]) -> Estimate:
    """Return the share of right choices, or of the raters who gave the same label."""
    return share_interval(*_right(values, table, pairs))


def share_of_labels(values: Floats, table: FeatureTable) -> Estimate:
    """Return the share of the raters who gave the label with the highest value, ties shared."""
    return share_interval(*_right_labels(values, table))


def share_of_choices(values: Floats, table: FeatureTable) -> Estimate:
    """Return the share of right choices between the texts of sources with one best text."""
    return _share_right(values, table, frozenset())


def _right(values: Floats, table: FeatureTable, pairs: Set[str]) -> tuple[Floats, Codes]:
    """Return how far each choice is right, and the source that it belongs to.

    Choices are between the texts of pairs or of sources with one best text, or between the labels
    of a text.
    """
    if table.label_sets:
        return _right_labels(values, table)
    columns, groups, units = list[Floats](), list[Hashable | None](), list[Hashable | None]()
    for at, (scores, ratings) in enumerate(zip(values.T, table.human.T, strict=True)):
        rated = ~np.isnan(ratings)
        best = np.bincount(table.groups[rated], ratings[rated])[np.unique(table.groups[rated])]
        # a text that nobody scored is not in the table, and may be the best of its group
        is_one_best = (best <= 1).all() and (best == 0).sum() <= table.left_out
        by_group = bool(np.isin(ratings[rated], (0, 1)).all() and is_one_best)
        paired = [id_ in pairs for id_ in table.ids]
        for unit in alternatives(paired, table.groups.tolist(), by_group=by_group):
            columns.append(np.array([unit.column(scores), unit.column(ratings)]))
            groups += [(at, unit.sided, group) for group in unit.groups]
            units += unit.units
    if not columns:
        return np.empty(0), np.empty(0, int)
    # over all aspects together, since the choices of one source are not independent
    choices = choices_of([np.hstack(columns)[0]], np.hstack(columns)[1], groups, units=units)
    return choices.shares[0], choices.units


def _right_labels(values: Floats, table: FeatureTable) -> tuple[Floats, Codes]:
    """Return the share of the raters of each text who gave the label with the highest value."""
    shares, units = list[Floats](), list[Codes]()
    for labels in table.label_sets:
        at = [table.aspects.index(name) for name in labels]
        usable = ~np.isnan(values[:, at]).any(axis=1) & ~np.isnan(table.human[:, at]).any(axis=1)
        # the rest belongs to labels that no rater gave
        value, people = (
            np.column_stack([shares_of_labels, 1 - shares_of_labels.sum(axis=1)])
            for shares_of_labels in (values[usable][:, at], table.human[usable][:, at])
        )
        first = np.isclose(value, value.max(axis=1, keepdims=True), rtol=0, atol=1e-9)
        shares.append((first * people).sum(axis=1) / first.sum(axis=1))
        units.append(table.groups[usable])
    return np.concatenate(shares), np.unique(np.concatenate(units), return_inverse=True)[1]


def worths(
    table: FeatureTable,
    fitter: Fitter,
    *,
    costs: Mapping[str, float | None] = {},
    pairs: Set[str] = frozenset(),
) -> list[Worth]:
    """Return each juror's gain in a jury without negative weights, and the jurors to leave out.

    `costs` are dollars per text by juror, `pairs` the ids of comparisons of two texts. Ordered by
    gain per dollar, or by gain if the cost of a juror is unknown or 0. Among the jurors whose gain
    may be 0, the most expensive one (or the one with the least gain, if costs are unknown) is left
    out, one at a time, until all remaining jurors have a gain: of two similar jurors, one is
    needed.
    """
    members = jurors_in(table.names, table.aspects)
    if len(members) < 2:
        raise ConfigurationError(
            f"the scores contain {len(members)} jurors; a run with output=jurors has one score per"
            " aspect and juror, named ASPECT/JUROR or JUROR/ASPECT"
        )
    if len(np.unique(table.groups)) < 10:
        raise DataError("fewer than 10 rated sources are too few for an interval")
    cost_of = {name: costs.get(name) for name in members}
    out = list[str]()
    gains = _gains(table, fitter, members)
    first = gains
    while len(gains) > 1:
        weak = [name for name, (_, low, _) in gains.items() if low <= 0]
        if not weak:
            break
        out.append(max(weak, key=lambda name: (cost_of[name] or 0.0, -gains[name][0])))
        rest = [name for name in members if name not in out]
        if len(rest) == 1:
            break
        gains = _gains(table, fitter, rest)
    rows = []
    for name in members:
        scores = _means(table, [name])
        alone, right = _mean_r(scores, table), _share_right(scores, table, pairs).value
        rows.append(Worth(name, alone, right, *first[name], cost_of[name], name in out))
    # a juror without a price cannot be ranked by gain per dollar
    by_price = all(row.per_dollar.value is not None for row in rows)
    value = {row.juror: row.per_dollar.value if by_price else row.gain for row in rows}
    return sorted(rows, key=lambda row: (row.leave_out, -(value[row.juror] or 0.0)))


def jurors_in(names: Sequence[str], aspects: Sequence[str]) -> tuple[str, ...]:
    """Return the jurors of features named `ASPECT/JUROR` or `JUROR/ASPECT`, in order."""
    jurors = (juror_of(name, aspects) for name in names)
    return tuple(dict.fromkeys(juror for juror in jurors if juror))


def juror_of(name: str, aspects: Iterable[str]) -> str:
    """Return the part of a score's name besides its aspect; empty without an aspect.

    An aspect may contain slashes, such as `topics/refund`: the longest match counts. The name of a
    label without an order follows the score's, as in `intent/JUROR/refund`, and may contain slashes
    as well.
    """
    plain = name.casefold()
    for aspect in sorted(map(str.casefold, aspects), key=len, reverse=True):
        if plain.startswith(f"{aspect}/"):
            return name[len(aspect) + 1 :]
        if plain.endswith(f"/{aspect}"):
            return name[: -len(aspect) - 1]
        if plain == aspect:
            return ""
        for at, mark in reversed(list(enumerate(aspect))):
            head, tail = aspect[: at + 1], aspect[at:]
            if mark == "/" and plain.startswith(head) and plain.endswith(tail):
                return name[len(head) : -len(tail)]
    return ""


def labels_of_jurors(labels: LabelSets, aspects: Iterable[str]) -> dict[str, LabelScale]:
    """Return the labels of human aspects, given the labels of jurors' scores."""
    return {
        aspect: scale
        for aspect in aspects
        for name, scale in labels.items()
        if name == aspect or juror_of(name, [aspect])
    }


def _gains(
    table: FeatureTable, fitter: Fitter, members: Sequence[str]
) -> dict[str, tuple[float, float, float]]:
    """Return each member's gain with its interval, in a jury of the members."""
    whole = _errors(table, fitter, members)
    gains = dict[str, tuple[float, float, float]]()
    codes = np.unique(table.groups, return_inverse=True)[1]
    for name in members:
        without = _errors(table, fitter, [member for member in members if member != name])
        mean = (without - whole).mean()
        influences = np.bincount(codes, weights=without - whole - mean) / len(whole)
        gains[name] = (float(mean), *t_interval(mean, influences, CONFIDENCE).tolist())
    return gains


def _errors(table: FeatureTable, fitter: Fitter, members: Sequence[str]) -> Floats:
    """Return each row's squared error, in variances of the ratings, averaged over the aspects."""
    predicted = _predict_unseen(table, fitter, members)
    # without a rating by a member, or a member that rises with the ratings, the mean is predicted
    predicted = np.where(np.isnan(predicted), np.nanmean(table.human, axis=0), predicted)
    spread = np.nanvar(table.human, axis=0)
    if table.label_sets:  # a label that hardly anyone gave should not count as much as all others
        spread = np.full_like(spread, spread.mean())
    squared = (predicted - table.human) ** 2 / spread
    rated = ~np.isnan(squared)
    return np.asarray(np.where(rated, squared, 0.0).sum(axis=1) / np.maximum(1, rated.sum(axis=1)))


def _predict_unseen(table: FeatureTable, fitter: Fitter, members: Sequence[str]) -> Floats:
    """Return the predictions of a jury without negative weights, learned from other sources.

    Labels without an order are learned as confusion tables: the raters' labels where each juror
    gives each label. NaN for an aspect on which no member rises with the ratings: all weights would
    be 0.
    """
    columns = [
        at for at, name in enumerate(table.names) if juror_of(name, table.aspects) in members
    ]
    # a vote for one label speaks against the others
    learner = "ridge" if table.label_sets else "nnls"
    part = table.with_features(
        {
            table.names[at]: dict(zip(table.ids, table.features[:, at].tolist(), strict=True))
            for at in columns
        }
    )
    predicted = np.full(part.human.shape, np.nan)
    for inside in fold_masks(part.groups, FOLDS, seed=fitter.seed):
        rows = part.rows(~inside)
        for at, aspect in enumerate(part.aspects):
            if _any_rises(rows.features, rows.human[:, at]):
                aggregator = fitter.fit(learner, rows, aspect)
                predicted[inside, at] = predict(aggregator, part.rows(inside))[:, 0]
            elif aspect in table.labels:  # one that hardly any rater gave
                predicted[inside, at] = _mean_of_rated(rows.human[:, at])
    return predicted


def _any_rises(features: Floats, ratings: Floats) -> bool:
    """Return whether any feature rises with the ratings, gaps counting as the feature's mean."""
    rated = ~np.isnan(ratings) & ~np.isnan(features).all(axis=1)
    x = np.nan_to_num(features[rated] - np.nanmean(features, axis=0))
    return bool(((ratings[rated] - ratings[rated].mean()) @ x > 0).any())
