"""Importance of an evaluator's features, Shapley values, and the gain of each juror.

All on rows not learned from. Criteria are chosen by figures from training rows alone, over folds of
them; the report's are of the rows that are held out. What a juror of a jury adds is the error
without it, over sources that were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from textassay.agreement.correlation import number_or_none, pair_up, pearson
from textassay.fitting.learn import (
    FeatureTable,
    Fitter,
    Fold,
    Unseen,
    mean_if_all,
    predict_over_folds,
)
from textassay.learning.aggregators import Aggregator
from textassay.learning.attribution import (
    Importance,
    explain,
    global_importance,
    permutation_importance,
    pool_importances,
    t_interval,
)
from textassay.learning.splits import Mask, draw_groups, fold_masks
from textassay.learning.training import Floats
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.model import Json
from textassay.table import Alert, Estimate, Note, Table, column, table_of

_ROWS_TO_SHUFFLE, _ROWS_TO_EXPLAIN = 1_000, 300
MIN_SOURCES = 10
"""Sources below which no interval is given."""


def importance_over_folds(
    name: str, train: FeatureTable, fitter: Fitter, *, repeats: int = 10
) -> Importance:
    """Measure which features matter, from training rows alone.

    Each fold's by an aggregator that has not seen it. If an aspect's ratings are all equal in a
    fold or outside of it, as of texts that are nearly all faultless, aspect by aspect over the rows
    of all folds together (`cross_fitted_importance`). Rows without any feature take no part.
    """
    train = train.rows(train.filled)  # ratings of other rows teach nothing
    masks = _fold_masks(train, fitter)
    measured = [_at_most(train.rows(inside), _ROWS_TO_SHUFFLE, fitter.seed) for inside in masks]
    if all(_can_learn(train.rows(~inside)) for inside in masks) and all(
        _vary_each(rows.human) for rows in measured
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
        np.concatenate([getattr(one, name) for one in by_aspect], axis=1)
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
    """Measure permutation importance, each part of the rows by its own aggregator, or number."""
    systems = [list(compress(rows.systems, inside)) for _, inside in parts]

    def predict(features: Floats) -> Floats:
        copies = len(features) // len(rows.ids)

        def of_part(part: tuple[Aggregator | float, Mask], own: list[str | None]) -> Floats | float:
            predictor, inside = part
            if isinstance(predictor, float):
                return predictor
            return predictor.predict(features[np.tile(inside, copies)], systems=own * copies)

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
    human = train.human[:, [train.aspects.index(aspect)]]
    # if all ratings or features outside a fold are the same, only the mean is learned
    parts = [
        (fitter.fit(name, train.rows(~inside), aspect)
         if _vary(human[~inside]) and _vary(train.features[~inside])
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

    In standard deviations of an aspect's ratings, averaged over the aspects; each fold's by an
    aggregator that has not seen it. Rows without any feature take no part.
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
    # the background has no explained row, or a row would be compared with itself
    others = train.rows(~np.isin(train.ids, rows.ids))
    explanations = explain(fitted, rows.features, others.features, systems=rows.systems, seed=seed)
    return global_importance(explanations.values)


def _fold_masks(train: FeatureTable, fitter: Fitter) -> list[Mask]:
    """Return which rows each fold has: two folds, or one for each of three groups."""
    groups = len(np.unique(train.groups))
    # with one group to learn from, nothing that needs folds of its own fits
    return fold_masks(train.groups, 3 if groups == 3 else 2, seed=fitter.seed)


def importance(unseen: Unseen, fitter: Fitter) -> Json:
    """Return what people value.

    Permutation importance and mean size of Shapley values, on rows that were not learned from.
    """
    content: Json = {}
    try:
        few = unseen.at_most(_ROWS_TO_SHUFFLE, fitter.seed)
        measured = _permutation_importance(
            few.rows,
            few.rows.human,
            [(fold.choice.aggregator, fold.inside) for fold in few.repeats[0]],
            # all rows exchange more than a held-out part, which is usually half of them
            repeats=5 if few.is_fixed else 3,
            seed=fitter.seed,
            threads=fitter.threads,
        )
        content["permutation"] = _permutation(measured, unseen.rows)
    except DataError as error:
        content["permutation"] = {"failed": str(error)}
    rng, rows = np.random.default_rng(fitter.seed), unseen.rows
    # contributions of a few hundred rows give the means well enough, and sampled ones are slow
    drawn = np.zeros(len(rows.ids), bool)
    drawn[rng.permutation(len(rows.ids))[:_ROWS_TO_EXPLAIN]] = True

    def explain_fold(fold: Fold) -> Floats:
        return explain(
            fold.choice.aggregator,
            rows.features[fold.inside & drawn],
            # training rows are the background: contributions are then relative to what the
            # evaluator learned from
            fold.train.features,
            systems=list(compress(rows.systems, fold.inside & drawn)),
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
            "ci": _format_span(overall[at_name[name]]),
            "by_aspect": {
                aspect: {
                    "mean": number_or_none(importance.mean[at_name[name], at]),
                    "sd": number_or_none(importance.sd[at_name[name], at]),
                    "ci": _format_span(interval[at_name[name], at]),
                }
                for at, aspect in enumerate(table.aspects)
            },
        }
        for name, mean in importance.ranking()
    ]


def _format_span(span: Floats) -> list[float] | None:
    return None if np.isnan(span).any() else [float(end) for end in span]


@dataclass(frozen=True, slots=True)
class Worth:
    """What one juror adds to the jury that it is in."""

    juror: str = field(metadata=column("juror"))
    """Name of the juror."""
    alone: float | None = field(metadata=column("r alone", "number"))
    """Pearson's r of its own scores with the ratings, the mean over the aspects; `None` if
    undefined."""
    gain: float = field(
        metadata=column("gain", "interval", cell=lambda one: Estimate(one.gain, one.low, one.high))
    )
    """Growth of the squared error without it, in variances of the ratings, averaged over the
    aspects."""
    low: float
    """Lower end of its interval over sources."""
    high: float
    """Upper end."""
    cost: float | None = field(
        metadata=column(
            "USD per 1,000 texts", "number", 4, cell=lambda one: one.cost and 1000 * one.cost
        )
        | column(
            "gain per USD",
            "interval",
            name="per_dollar",
            cell=lambda one: Estimate(one.per_dollar, *(one.per_dollar_interval or ())),
        )
    )
    """US dollars per rated text; `None` if not known."""
    leave_out: bool = field(
        metadata=column("leave out", cell=lambda one: Alert("yes") if one.leave_out else "")
    )
    """Whether the jury is no worse without it, as far as the rows can show."""

    @property
    def per_dollar(self) -> float | None:
        """Gain per dollar for a thousand texts; `None` if the cost is not known or 0."""
        return self.gain / (1000 * self.cost) if self.cost else None

    @property
    def per_dollar_interval(self) -> tuple[float, float] | None:
        """Interval of `per_dollar`; the cost of a text is known, so only the gain is uncertain."""
        if not self.cost:
            return None
        return self.low / (1000 * self.cost), self.high / (1000 * self.cost)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        interval = self.per_dollar_interval
        return {
            "juror": self.juror, "alone": self.alone, "gain": self.gain,
            "low": self.low, "high": self.high, "cost": self.cost, "per_dollar": self.per_dollar,
            "per_dollar_ci": None if interval is None else list(interval),
            "leave_out": self.leave_out,
        }  # fmt: skip


def worth_table(found: Sequence[Worth], mean: float | None = None) -> Table:
    """Return what the jurors of a jury add, and who can be left out.

    `mean` is the r of their plain mean, see `agreement_of_mean`.
    """
    kept = [one.juror for one in found if not one.leave_out]
    advice = f"A jury of {', '.join(kept)} is no worse, as far as these ratings show."
    if len(kept) == len(found):
        advice = "Every juror adds something."
    meaning = (
        "gain: increase of the squared error on held-out sources without the juror, in units of "
        "the ratings' variance."
    )
    notes = [Note(meaning), Note(advice), *map(Note, _lead(found, mean))]
    return table_of(Worth, found, notes, "what each juror adds")


def _lead(found: Sequence[Worth], mean: float | None) -> Iterator[str]:
    """Yield by how much a juror leads, and what a plain mean of jurors is worth then."""
    known = sorted(((one.alone, one.juror) for one in found if one.alone is not None), reverse=True)
    if len(known) < 2:
        return
    (best, name), (second, _) = known[:2]
    lead = best - second
    shown = f"{name} leads by {lead:.2f} of r ({best:.2f}, the next one {second:.2f})"
    if mean is not None:
        shown += f", and the plain mean of all has {mean:.2f}"
    # on SummEval the mean of two jurors gained in 30 of 31 juries with a lead below .1 (5 points of
    # accuracy: 16 of 16 on RewardBench 2), and lost with one above .2 (10 points: 7 of 7)
    if lead < 0.1:
        verdict = "where jurors are so close, a plain mean nearly always beats the best"
    elif lead < 0.2:
        verdict = "with such a lead a plain mean may help or hurt"
    else:
        verdict = (
            "a leader by so much is better alone, asked several times at a temperature above 0, or"
            " with learned weights"
        )
    yield f"{shown}: {verdict}."


def agreement_alone(table: FeatureTable) -> dict[str, float | None]:
    """Return each juror's r with the ratings, the mean over the aspects; `None` if undefined."""
    return {
        name: _mean_r(table, [at for at, one in enumerate(table.names) if _is_of(one, name, table)])
        for name in jurors_in(table.names, table.aspects)
    }


def agreement_of_mean(table: FeatureTable) -> float | None:
    """Return the r of the plain mean of all jurors with the ratings, the mean over the aspects."""
    members = jurors_in(table.names, table.aspects)
    own = [at for at, name in enumerate(table.names) if juror_of(name, table.aspects) in members]
    return _mean_r(table, own)


def _is_of(feature: str, juror: str, table: FeatureTable) -> bool:
    return juror_of(feature, table.aspects) == juror


def _mean_r(table: FeatureTable, columns: Sequence[int]) -> float | None:
    """Return the r of the mean of each aspect's own columns, the mean over the aspects."""
    found = []
    for at, aspect in enumerate(table.aspects):
        own = [c for c in columns if juror_of(table.names[c], [aspect])]
        if not own:
            continue
        values = table.features[:, own]
        # a text that a juror left unscored is in no mean: means of fewer jurors are no scores of it
        pairs = pair_up(values.mean(axis=1), table.human[:, at])
        found.append(pearson(pairs.scores, pairs.human))
    return mean_if_all(found) if found else None


def worths(
    table: FeatureTable,
    fitter: Fitter,
    *,
    aggregator: str = "nnls",
    costs: Mapping[str, float | None] | None = None,
    confidence: float = 0.95,
) -> list[Worth]:
    """Return the gain of each juror, and which jurors to leave out.

    Ordered by gain per dollar, or by gain if the cost of a juror is not known or 0.

    Jurors are left out one at a time, of those whose gain may be 0 the one that
    costs most (or gains least, if costs are not known), until all that are left add something: two
    jurors that say the same are not both needed, but one of them is.
    """
    members = jurors_in(table.names, table.aspects)
    if len(members) < 2:
        raise ConfigurationError(
            f"the scores contain {len(members)} jurors; a run with output=jurors has one score per"
            " aspect and juror, named ASPECT/JUROR or JUROR/ASPECT"
        )
    if len(np.unique(table.groups)) < MIN_SOURCES:
        raise DataError(f"fewer than {MIN_SOURCES} rated sources are too few for an interval")
    known = {name: (costs or {}).get(name) for name in members}
    out = list[str]()
    left = _gains(table, fitter, aggregator, members, confidence)
    first = left
    while len(left) > 1:
        weak = [name for name, (_, low, _) in left.items() if low <= 0]
        if not weak:
            break
        out.append(max(weak, key=lambda name: (known[name] or 0.0, -left[name][0])))
        rest = [name for name in members if name not in out]
        if len(rest) == 1:
            break
        left = _gains(table, fitter, aggregator, rest, confidence)
    alone = agreement_alone(table)
    found = [Worth(name, alone[name], *first[name], known[name], name in out) for name in members]
    # a juror without a price cannot be ranked beside others by gain per dollar
    by_price = all(one.per_dollar is not None for one in found)
    value = {one.juror: one.per_dollar if by_price else one.gain for one in found}
    return sorted(found, key=lambda one: (one.leave_out, -(value[one.juror] or 0.0)))


def jurors_in(names: Sequence[str], aspects: Sequence[str]) -> tuple[str, ...]:
    """Return the jurors that features named `ASPECT/JUROR` or `JUROR/ASPECT` are of, in order."""
    found = (juror_of(name, aspects) for name in names)
    return tuple(dict.fromkeys(juror for juror in found if juror))


def juror_of(name: str, aspects: Iterable[str]) -> str:
    """Return what a score's name says beside its aspect; empty without an aspect.

    An aspect may hold slashes itself, such as `topics/refund`: the longest one counts.
    """
    plain = name.casefold()
    for aspect in sorted(map(str.casefold, aspects), key=len, reverse=True):
        if plain.startswith(f"{aspect}/"):
            return name[len(aspect) + 1 :]
        if plain.endswith(f"/{aspect}"):
            return name[: -len(aspect) - 1]
    return ""


def _gains(
    table: FeatureTable, fitter: Fitter, aggregator: str, members: Sequence[str], confidence: float
) -> dict[str, tuple[float, float, float]]:
    """Return each member's gain with its interval, in a jury of the members."""
    whole = _errors(table, fitter, aggregator, members)
    found = dict[str, tuple[float, float, float]]()
    codes = np.unique(table.groups, return_inverse=True)[1]
    for name in members:
        without = _errors(table, fitter, aggregator, [one for one in members if one != name])
        mean = (without - whole).mean()
        influences = np.bincount(codes, weights=without - whole - mean) / len(whole)
        found[name] = (float(mean), *t_interval(mean, influences, confidence).tolist())
    return found


def _errors(table: FeatureTable, fitter: Fitter, aggregator: str, members: Sequence[str]) -> Floats:
    """Return each row's squared error, in variances of the ratings, averaged over the aspects."""
    own = [at for at, name in enumerate(table.names) if juror_of(name, table.aspects) in members]
    part = table.with_features(
        {
            table.names[at]: dict(zip(table.ids, table.features[:, at].tolist(), strict=True))
            for at in own
        }
    )
    predicted = predict_over_folds(aggregator, part, fitter)
    # a row that no member rated has no prediction: the mean is all that is known of it
    predicted = np.where(np.isnan(predicted), np.nanmean(part.human, axis=0), predicted)
    squared = (predicted - part.human) ** 2 / np.nanvar(part.human, axis=0)
    rated = ~np.isnan(squared)
    return np.asarray(np.where(rated, squared, 0.0).sum(axis=1) / np.maximum(1, rated.sum(axis=1)))
