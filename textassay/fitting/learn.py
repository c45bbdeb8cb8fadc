"""Reads rated rows as columns, and learns from them: splits, aggregators, choices, cross-fitting.

A table (`FeatureTable`) has features and ratings, and no texts. The scale of an aspect is the given
one, or goes from the whole number below its ratings to the one above. If all ratings of some
sources lie between 0 and 1, and those of others above, they are on two scales and are refused.

Every rated row is learned from, and measured by an aggregator learned without its source. The saved
evaluator learns from all rows. For the report the sources are divided into folds, and each fold's
rows are predicted by an aggregator that learned from the others; this is repeated with new folds. A
fixed held-out part is a single fold with all measured rows.

Errors of the same predictions decide between several aggregators, and give the weights of `auto`:
all errors for the saved evaluator, and for each fold the errors of the other folds, so that no
measured choice depends on the rows on which it is measured (stacking as in van der Laan, Polley and
Hubbard, "Super learner", 2007, with cross-fitted weights). Folds within each fold would give the
same result at six times the cost.

References:
    Bates, Hastie and Tibshirani, "Cross-validation: what does it estimate and how well does it do
    it?" (2024).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import chain, compress, count
from typing import Any, NamedTuple

import numpy as np

from textassay.agreement.correlation import pair_up
from textassay.agreement.raters import rating_table
from textassay.agreement.significance import compute_agreement
from textassay.arrays import Codes, Floats, Mask
from textassay.fitting.request import FitRequest
from textassay.learning.aggregators import Aggregator
from textassay.learning.pooling import Pool
from textassay.learning.splits import draw_groups, fold_masks, group_codes, hold_out, split_rows
from textassay.learning.training import FOLDS, HeldOut, find_leaks
from textassay.methods.fitted.evaluator import (
    FeatureScores,
    matching_names,
    read_row,
    source_label,
)
from textassay.runtime.base import Json
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.data.ratings import rater_of
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import share_names
from textassay.runtime.messages import Example

AspectScales = dict[str, tuple[float, float]]
_ARRAYS, _TUPLES = ("features", "human", "groups"), ("ids", "systems", "raters", "sources")
"""Fields of a table that have an entry for each row."""


@dataclass(frozen=True)
class FeatureTable:
    """Rated rows with features, as arrays; `read_table` pairs scores of files with rows."""

    ids: tuple[str, ...]
    """Id of each row."""
    features: Floats
    """Shape (n, features); NaN if a row has none."""
    names: tuple[str, ...]
    """Names of the features."""
    human: Floats
    """Ratings, shape (n, aspects); NaN if a row has none."""
    aspects: tuple[str, ...]
    """Names of the human aspects."""
    groups: Codes
    """Code of each row's source, shape (n,)."""
    grouped_by: str
    """The field that identifies a source: `group`, `source`, or `row`."""
    annotators: Mapping[str, Floats]
    """Ratings of single annotators by aspect, shape (n, annotators) each, NaN for gaps."""
    left_out: int
    """Number of rated rows without any feature."""
    other_texts: int
    """Number of rated rows whose text differs from the scored one."""
    unrated: int
    """Rows without a rating."""
    systems: tuple[str | None, ...]
    """System that wrote each row's text, length n."""
    all_aspects: tuple[str, ...]
    """Names of all rated aspects of the data."""
    raters: tuple[str | None, ...]
    """Name of the rater of each row's rating, length n; `None` if the row names no rater."""
    sources: tuple[str | None, ...]
    """Label of each row's source, length n; `None` for rows without a source, or if means of
    sources are useless, as for features from a model.
    """
    label_sets: tuple[tuple[str, ...], ...] = ()
    """For each aspect whose labels have no order, the aspects that are the shares of raters who
    gave each label."""
    pool: Pool | None = None
    """Features, systems and sources of all rows, rated or not; `None` if all rows are rated."""

    def rows(self, chosen: Mask) -> FeatureTable:
        """Return the chosen rows."""
        parts: dict[str, Any] = {name: getattr(self, name)[chosen] for name in _ARRAYS}
        parts |= {name: tuple(compress(getattr(self, name), chosen)) for name in _TUPLES}
        parts["annotators"] = {name: values[chosen] for name, values in self.annotators.items()}
        pool = self.pool or Pool(self.features, self.systems, self.sources)
        return replace(self, **parts, pool=pool)

    def join(self, other: FeatureTable) -> FeatureTable:
        """Return these rows and the rows of another part of the same table."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in _ARRAYS + _TUPLES}
        whole: dict[str, Any] = {name: np.concatenate(both[name]) for name in _ARRAYS}
        whole |= {name: sum(both[name], ()) for name in _TUPLES}
        whole["annotators"] = {
            name: np.concatenate([values, other.annotators[name]])
            for name, values in self.annotators.items()
        }
        return replace(self, **whole)

    def only(self, names: Sequence[str]) -> FeatureTable:
        """Return the table with some of its features."""
        columns = [self.names.index(name) for name in names]
        return replace(
            self,
            features=np.ascontiguousarray(self.features[:, columns]),
            names=tuple(names),
            pool=self.pool and self.pool._replace(features=self.pool.features[:, columns]),
        )

    @property
    def labels(self) -> frozenset[str]:
        """The aspects that are shares of raters who gave a label."""
        return frozenset(chain(*self.label_sets))

    def of_common_labels(self) -> FeatureTable:
        """Return the table without labels that fewer than 10 texts have.

        One fold would often contain all texts of a rarer label, and nothing could be learned of it.
        """
        rare = {
            name
            for name, shares in zip(self.aspects, self.human.T, strict=True)
            if name in self.labels and (shares > 0).sum() < 10
        }
        for own in self.label_sets:
            if rare.issuperset(own):
                aspect = own[0].rpartition("/")[0]
                raise DataError(
                    f"aspect {aspect!r}: people gave each label to fewer than 10 texts, too few to"
                    " learn from; leave it out"
                )
        kept = [name not in rare for name in self.aspects]
        return replace(
            self,
            human=np.ascontiguousarray(self.human[:, kept]),
            aspects=tuple(compress(self.aspects, kept)),
            annotators={name: one for name, one in self.annotators.items() if name not in rare},
            label_sets=tuple(
                tuple(name for name in own if name not in rare) for own in self.label_sets
            ),
        )

    def with_features(self, features: Mapping[str, Mapping[str, float | None]]) -> FeatureTable:
        """Return the rows with these features instead, by name and id.

        Rows without features stay, with gaps.
        """
        columns = [[values.get(id_) for id_ in self.ids] for values in features.values()]
        return replace(
            self,
            features=np.ascontiguousarray(np.array(columns, float).T),
            names=tuple(features),
            # a model judges one text at a time, without other texts to compare with
            sources=(None,) * len(self.ids),
            # means of systems over the old features do not apply to the new ones
            pool=None,
        )

    @property
    def filled(self) -> Mask:
        """Whether each row has any feature, shape (n,)."""
        return np.asarray(~np.isnan(self.features).all(axis=1), bool)

    @property
    def coverage(self) -> dict[str, float]:
        """Share of the rows that have each feature."""
        shares = 1 - np.isnan(self.features).mean(axis=0)
        return {name: float(share) for name, share in zip(self.names, shares, strict=True)}


def human_aspects(info: DataInfo, names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the human aspects to learn."""
    if not info.human:
        raise DataError(
            f"{info.name} contains no human ratings to learn from; give them in the field 'human'"
            " (ratings of a conversation do not rate its turns and calls)"
        )
    chosen = tuple(dict.fromkeys(names)) if names is not None else tuple(info.human)
    for name in chosen:
        if name not in info.human:
            raise UnknownName(f"human aspect of {info.name}:", name, list(info.human))
    return chosen


class _FeatureRow(NamedTuple):
    """An example of the data, with the wanted features."""

    id: str
    features: Floats
    human: list[float | None]
    source: str | None
    system: str | None
    rater: str | None
    annotators: dict[str, tuple[float | None, ...]]

    @property
    def is_rated(self) -> bool:
        return any(rating is not None for rating in self.human)

    @property
    def is_empty(self) -> bool:
        return bool(self.features.size) and bool(np.isnan(self.features).all())


@dataclass(slots=True)
class _FoundRows:
    """The rows of a data set, and the numbers of rows that are not learned from."""

    rows: list[_FeatureRow] = field(default_factory=list)
    others: list[_FeatureRow] = field(default_factory=list)
    """Unrated rows, which show the features of a system's or a source's texts."""
    unrated: int = 0
    left_out: int = 0
    other_texts: int = 0

    def add(self, row: _FeatureRow, *, is_other_text: bool) -> None:
        self.other_texts += is_other_text
        if not row.is_rated:
            self.unrated += 1
            is_known = row.system is not None or row.source is not None
            if row.features.size and not row.is_empty and is_known:
                self.others.append(row)
        elif row.is_empty:
            self.left_out += 1
        else:
            self.rows.append(row)

    def pool(self) -> Pool | None:
        """Return the features of all rows; `None` if there are only the rated ones."""
        if not self.others:
            return None
        features, systems, sources = zip(
            *((row.features, row.system, row.source) for row in (*self.rows, *self.others)),
            strict=True,
        )
        return Pool(np.array(features), systems, sources)


def read_table(
    data: Examples,
    *,
    patterns: Sequence[str] = (),
    scores: FeatureScores | None = None,
    aspects: Sequence[str] | None = None,
) -> FeatureTable:
    """Read rated rows with the wanted features; one pass over the data.

    Scores of files are joined by `read_row`, where id and text are the same, and not by `join` of
    `agreement/`: features need no human aspect of the same name, and unrated rows are used.
    """
    info, scores = data.check(), scores or FeatureScores()
    rated = human_aspects(info, aspects)
    metrics = matching_names(patterns, list(info.metrics))
    for name in metrics:
        if words := data.labels.unordered_labels("metrics", name):
            raise ConfigurationError(
                f"feature {name!r} has labels such as {words[0]!r}; give them as a file of scores"
            )
    labels = {name: data.labels.unordered_labels("human", name) for name in rated}
    # two features of one name would be indistinguishable in the evaluator
    if both := [name for name in metrics if name in scores]:
        raise ConfigurationError(
            f"feature {both[0]!r} is both in the data's metrics and in the files of scores"
        )
    names = (*metrics, *scores)
    found, known = _FoundRows(), set[str]()
    for example in data:
        if scores:
            known.add(example.id)
        row = _FeatureRow(
            id=example.id,
            features=np.array(read_row(example, names, scores), float),
            human=[one for name in rated for one in _ratings(example, name, labels[name])],
            # a table of ratings by id need not name the source: the run's own data may
            source=source_label(example) or scores.sources.get(example.id),
            system=example.system,
            rater=rater_of(example),
            annotators={
                column: own
                for name in rated
                if name in example.annotators
                for column, own in _single_ratings(example.annotators[name], name, labels[name])
            },
        )
        found.add(row, is_other_text=row.is_rated and scores.are_of_another_text(example))
    scored = {id_ for values in scores.values() for id_ in values}
    if scores and not scored & known:
        raise DataError(
            f"no id of the scores occurs in {info.name}: the scores have {sorted(scored)[:3]}, "
            f"the data {sorted(known)[:3]}"
        )
    rows = found.rows
    if not rows:
        other = f"; {found.other_texts} have another text than was scored under their id"
        raise DataError(
            f"{info.name}: the {found.left_out} rated rows have none of the features"
            f"{other * bool(found.other_texts)}"
        )
    columns = np.array([row.features for row in rows])
    for name, column in zip(names, columns.T, strict=True):
        if np.isnan(column).all():
            raise DataError(
                f"{info.name}: feature {name!r} has no value in any rated row; leave it out"
            )
    human = np.array([row.human for row in rows], float)
    sets = [share_names(name, own) for name, own in labels.items() if own]
    columns_of_labels = frozenset(chain(*sets))
    names_of = [one for name in rated for one in share_names(name, labels[name]) or (name,)]
    # a label that every text has, or none, cannot be learned
    kept = [one not in columns_of_labels or len(np.unique(column[~np.isnan(column)])) > 1
            for one, column in zip(names_of, human.T, strict=True)]  # fmt: skip
    if not any(kept):
        raise DataError(
            f"{info.name}: people gave every text the same label, so nothing can be learned"
        )
    rated = tuple(compress(names_of, kept))
    annotators = {name: [row.annotators.get(name, ()) for row in rows] for name in rated}
    ids, _, _, sources, systems, raters, _ = zip(*rows, strict=True)
    # as `source_label` begins
    grouped_by = {source.partition(" ")[0] for source in sources if source is not None}
    return FeatureTable(
        ids=ids,
        features=columns,
        names=names,
        human=np.ascontiguousarray(human[:, kept]),
        aspects=rated,
        label_sets=tuple(filter(None, (tuple(n for n in own if n in rated) for own in sets))),
        groups=group_codes(sources),
        grouped_by=" or ".join(sorted(grouped_by)) or "row",
        annotators={
            name: rating_table(ratings)
            for name, ratings in annotators.items()
            if any(len(own) > 1 for own in ratings)
        },
        left_out=found.left_out,
        other_texts=found.other_texts,
        unrated=found.unrated,
        systems=systems,
        all_aspects=tuple(dict.fromkeys((*info.human, *rated))),
        raters=raters,
        sources=sources,
        pool=found.pool(),
    )


def _ratings(example: Example, aspect: str, labels: Sequence[str]) -> list[float | None]:
    """Return the rating; for labels without an order, the share of raters who gave each label."""
    mean = example.human.get(aspect)
    if not labels:
        return [mean]
    given = [one for one in example.annotators.get(aspect, (mean,)) if one is not None]
    return [given.count(at) / len(given) if given else None for at in range(len(labels))]


def _single_ratings(
    given: tuple[float | None, ...], aspect: str, labels: Sequence[str]
) -> Iterator[tuple[str, tuple[float | None, ...]]]:
    """Yield the name of a column, and the ratings of single raters in it.

    Labels without an order have a column each, of 1 for raters who gave it and 0 for others.
    """
    if not labels:
        yield aspect, given
    for at, name in enumerate(share_names(aspect, labels)):
        yield name, tuple(None if one is None else float(one == at) for one in given)


def refuse_leaks(table: FeatureTable) -> None:
    """Refuse features that contain the ratings."""
    leaks = find_leaks(table.features, table.human, table.names, table.aspects)
    # a judge may give one rare label exactly where raters do; it has seen their ratings only if all
    # labels of the aspect agree so well
    leaking = {aspect for _, aspect in leaks}
    harmless = {name for own in table.label_sets if not leaking.issuperset(own) for name in own}
    leaks = [one for one in leaks if one[1] not in harmless]
    if leaks:
        listed = "; ".join(
            f"{feature!r} is as good as the ratings of {aspect!r}" for feature, aspect in leaks[:5]
        )
        raise DataError(
            f"leakage: {listed} (correlation above .999), so there would be nothing to learn; leave"
            " out such features"
        )


@dataclass(frozen=True)
class Split:
    """The rows on both sides of the split."""

    train: FeatureTable
    test: FeatureTable


def rating_scales(table: FeatureTable, given: Mapping[str, tuple[float, float]]) -> AspectScales:
    """Return lowest and highest rating by aspect."""
    for name in given:
        if name not in table.aspects:
            raise UnknownName("human aspect with a scale", name, list(table.aspects))
    scales: AspectScales = {}
    for column, name in enumerate(table.aspects):
        ratings = table.human[:, column]
        low, high = float(np.nanmin(ratings)), float(np.nanmax(ratings))
        if low == high:
            raise DataError(
                f"aspect {name!r}: people rated every row {low:g}, so nothing can be learned; leave"
                " it out"
            )
        if name in given:
            if low < given[name][0] or high > given[name][1]:
                raise DataError(
                    f"aspect {name!r}: ratings go from {low:g} to {high:g}, off the scale "
                    f"{given[name][0]:g} to {given[name][1]:g} that was given"
                )
            scales[name] = given[name]
            continue
        _refuse_two_scales(name, ratings, table)
        scales[name] = (float(math.floor(low)), float(math.ceil(high)))
    return scales


def _refuse_two_scales(name: str, ratings: Floats, table: FeatureTable) -> None:
    """Refuse an aspect that some sources rate within 0 to 1, and others at 1 and above."""
    below, above = 0, 0
    for code in np.unique(table.groups):
        own = ratings[table.groups == code]
        own = own[~np.isnan(own)]
        # too few ratings of a source do not show a scale
        if len(own) < 3:
            continue
        if own.max() <= 1 and own.min() < 1:
            below += 1
        elif own.min() >= 1 and own.max() > 1:
            above += 1
        # ratings on both sides of 1 within one source belong to a scale across 1
        elif own.min() < 1 < own.max():
            return
    if min(below, above) >= 2:
        raise DataError(
            f"aspect {name!r} is rated on two scales: all ratings of {below} sources lie within 0"
            f" to 1, all of {above} others at 1 and above; bring them to one scale, or learn from"
            " one part at a time"
        )


FitObserver = Callable[[str], None]
"""Callback for the current step, in words."""
EVALUATOR, SINGLE = "evaluator", "best single"
"""The report's names for the evaluator, and for the single feature closest to people."""
BLEND = "auto"
"""The aggregator that blends others, its members."""


def split(table: FeatureTable, request: FitRequest) -> Split:
    """Return training and held-out rows."""
    return Split(*map(table.rows, sides(table, request)))


def sides(table: FeatureTable, request: FitRequest) -> tuple[Mask, Mask]:
    """Return the training rows and the held-out rows."""
    # only the held-out part may be drawn by row: rows of a source are similar, so folds, resamples
    # and tests keep them together
    units = np.arange(len(table.ids)) if request.split == "row" else table.groups
    train = split_rows(units, request.share, seed=request.seed)
    if request.test_fraction is None:
        return train, ~train
    if request.train_fraction is not None:
        return train, hold_out(units, request.test_fraction, train, seed=request.seed)
    test = hold_out(units, request.test_fraction, np.zeros_like(train), seed=request.seed)
    return ~test, test


@dataclass(frozen=True)
class Fitter:
    """How aggregators are fitted to a table."""

    scales: AspectScales
    """Scale of each human aspect."""
    seed: int
    """Seed of everything random."""
    threads: int = field(default_factory=lambda: min(2, os.cpu_count() or 1))
    """Threads that training may use."""
    new_systems: bool = False
    """Whether rows of systems without ratings will be judged."""

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

        `with_sources` also learns from means of sources, which predictions use only if sources are
        passed; `weigh` lets `auto` weigh its members by folds of the rows.
        """
        targets = table.aspects if aspect is None else (aspect,)
        columns = [table.aspects.index(target) for target in targets]
        # in smaller tables, threads wait longer than they work
        threads = self.threads if table.features.size > 500_000 else 1
        aggregator = Aggregator(
            name, scales={t: self.scales[t] for t in targets}, seed=self.seed, threads=threads,
            new_systems=self.new_systems, weigh=weigh,
        )  # fmt: skip
        return aggregator.fit(
            table.features, table.human[:, columns], groups=table.groups.tolist(),
            feature_names=table.names, target_names=targets, aspect_names=table.all_aspects,
            systems=table.systems, sources=table.sources if with_sources else None, pool=table.pool,
        )  # fmt: skip


@dataclass(frozen=True)
class ChosenAggregator:
    """The chosen aggregator."""

    chosen: str
    fitted: dict[str, Aggregator]
    """All fitted aggregators, by name."""
    errors: dict[str, float]
    """Error over folds of the training rows, relative to predicting the mean; empty if a single
    aggregator was named.
    """
    failed: dict[str, str]
    """Why others could not be fitted."""

    @property
    def aggregator(self) -> Aggregator:
        """The chosen aggregator, fitted to all training rows."""
        return self.fitted[self.chosen]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"chosen": self.chosen, "cross_validated_error": self.errors, "failed": self.failed}


def choose(names: Sequence[str], train: FeatureTable, fitter: Fitter) -> ChosenAggregator:
    """Fit the named aggregators and choose the one with the least cross-validated error."""
    names = list(dict.fromkeys(names))
    # nothing to choose, so no cross-validation is paid for
    if len(names) == 1:
        fitted = {names[0]: fitter.fit(names[0], train, with_sources=True)}
        return ChosenAggregator(names[0], fitted, {}, {})
    fitted, errors, failed = dict[str, Aggregator](), dict[str, float](), dict[str, str]()
    # cross-validating every aggregator takes long on more rows
    few = train.rows(draw_groups(train.groups, 5_000, seed=fitter.seed))
    for name in names:
        try:
            fitted[name] = fitter.fit(name, train, with_sources=True)
            errors[name] = relative_error(predict_over_folds(name, few, fitter), few.human)
        except DataError as error:
            # an aggregator that fits all rows but not a fold has no error to compare
            fitted.pop(name, None)
            failed[name] = str(error)
    return _least_error(fitted, errors, failed)


def _least_error(
    fitted: dict[str, Aggregator], errors: dict[str, float], failed: dict[str, str]
) -> ChosenAggregator:
    if not fitted:
        raise DataError(_reasons(failed))
    return ChosenAggregator(min(errors, key=lambda name: errors[name]), fitted, errors, failed)


def _reasons(failed: dict[str, str]) -> str:
    if len(failed) == 1:
        return next(iter(failed.values()))
    return "no aggregator can be fitted: " + "; ".join(f"{k}: {why}" for k, why in failed.items())


def predict(aggregator: Aggregator, table: FeatureTable) -> Floats:
    """Return the predictions of a table's rows, shape (n, targets).

    Sources are not passed: `score` knows the other texts of a source only with a pool.
    """
    return aggregator.predict(table.features, systems=table.systems)


def predict_over_folds(name: str, table: FeatureTable, fitter: Fitter) -> Floats:
    """Return predictions of each row by an aggregator learned without its source."""
    predicted = np.full(table.human.shape, np.nan)
    for inside in fold_masks(table.groups, FOLDS, seed=fitter.seed):
        predicted[inside] = predict(fitter.fit(name, table.rows(~inside)), table.rows(inside))
    return predicted


def relative_error(predicted: Floats, human: Floats) -> float:
    """Return the squared error relative to predicting the mean; arrays have shape (n, aspects)."""
    squared = np.nanmean((predicted - human) ** 2, axis=0)
    # relative to each aspect's variance, since otherwise the aspect with the widest scale would
    # decide
    return float(np.mean(squared / np.nanvar(human, axis=0)))


def background_rows(
    train: FeatureTable, aggregator: Aggregator
) -> tuple[tuple[float | None, ...], ...]:
    """Return 32 training rows for sampled contributions; no rows if contributions are exact."""
    if aggregator.explains_exactly:
        return ()
    # a fixed seed, so that the same rows yield the same evaluator file
    drawn = np.random.default_rng(0).permutation(len(train.ids))[:32]
    chosen: Floats = train.features[np.sort(drawn)]
    return tuple(tuple(None if v != v else float(v) for v in row) for row in chosen)


def correlations(predicted: Floats, test: FeatureTable) -> Json:
    """Return Pearson and Spearman over all rows, averaged over the aspects; `None` if undefined.

    Rows without a prediction are left out, and lower `coverage`.
    """
    agreements = [
        compute_agreement(pair_up(p, h), "dataset")
        for p, h in zip(predicted.T, test.human.T, strict=True)
    ]
    return {
        "pearson": mean_if_all([one.pearson for one in agreements]),
        "spearman": mean_if_all([one.spearman for one in agreements]),
        "coverage": min((one.coverage or 0.0) for one in agreements),
    }


def mean_if_all(values: Sequence[Any]) -> float | None:
    """Return the mean of the values; `None` if one of them is `None`."""
    return None if None in values else float(np.mean(values))


@dataclass(frozen=True)
class Fold:
    """Aggregators learned without some of the rows."""

    choice: ChosenAggregator
    """The aggregators, and the chosen one."""
    train: FeatureTable
    """The rows they learned from."""
    inside: Mask
    """Mask of the measured rows that they were not learned from, shape (n,)."""


@dataclass(frozen=True)
class Unseen:
    """Measured rows, with aggregators learned without their sources."""

    rows: FeatureTable
    repeats: tuple[tuple[Fold, ...], ...]
    """The folds of each repeat, which contain each row at most once; a fold is missing if nothing
    could be learned without its rows.
    """

    @classmethod
    def of_held_out(cls, choice: ChosenAggregator, parts: Split) -> Unseen:
        """Return the rows of a fixed held-out part."""
        everything = np.ones(len(parts.test.ids), bool)
        return cls(parts.test, ((Fold(choice, parts.train, everything),),))

    @property
    def is_fixed(self) -> bool:
        """Whether the rows are a fixed held-out part."""
        return len(self.repeats) == 1 and bool(self.repeats[0][0].inside.all())

    def at_most(self, rows: int, seed: int) -> Unseen:
        """Return the first repeat, with whole groups of about this number of rows."""
        kept = draw_groups(self.rows.groups, rows, seed=seed)
        first = tuple(replace(fold, inside=fold.inside[kept]) for fold in self.repeats[0])
        return Unseen(self.rows.rows(kept), (first,))

    def predict(
        self,
        repeat: Sequence[Fold],
        predict_fold: Callable[[Fold, FeatureTable], Floats],
        aspect: str | None = None,
    ) -> Floats:
        """Return a prediction of every row, comparable over the folds, shape (n, targets).

        The training rows of a fold have a lower mean if the fold's own ratings are higher. This
        would lower correlations over all rows, so predictions are taken relative to the mean of the
        training rows.
        """
        names = self.rows.aspects
        columns = [at for at, name in enumerate(names) if aspect in (None, name)]
        center = np.nanmean(self.rows.human[:, columns], axis=0)
        parts = []
        for fold in repeat:
            values = predict_fold(fold, self.rows.rows(fold.inside))
            if not self.is_fixed:
                values = values + (center - np.nanmean(fold.train.human[:, columns], axis=0))
            parts.append(values)
        return join_folds(repeat, parts)

    def by_evaluator(self, repeat: int = 0) -> Floats:
        """Return predictions by each fold's chosen aggregator, shape (n, aspects)."""
        return self.predict(
            self.repeats[repeat], lambda fold, rows: predict(fold.choice.aggregator, rows)
        )


def join_folds(repeat: Sequence[Fold], parts: Sequence[Floats]) -> Floats:
    """Join the folds' values into one array, NaN for rows without a fold."""
    values = np.full((len(repeat[0].inside), *parts[0].shape[1:]), np.nan)
    for fold, part in zip(repeat, parts, strict=True):
        values[fold.inside] = part
    return values


def number_of_repeats(aggregators: Sequence[str], table: FeatureTable) -> int:
    """Return the number of repeats: two, unless that would take long."""
    is_quick = {*aggregators} <= {"avg", "corrw", "linear", "nnls", "ridge", "tree"}
    return 2 if is_quick or table.features.size * len(table.aspects) <= 20_000 else 1


def cross_fit(
    aggregators: Sequence[str],
    table: FeatureTable,
    fitter: Fitter,
    watch: FitObserver,
    *,
    repeats: int | None = None,
) -> tuple[ChosenAggregator, Unseen]:
    """Fit the saved aggregator on all rows, and one per fold without its rows for measuring.

    Folds are drawn `repeats` times, by default `number_of_repeats`. For each fold, aggregators are
    chosen and weighed again without its rows. The fitter's threads learn several folds at once; the
    result does not depend on them.
    """
    names, alone = tuple(dict.fromkeys(aggregators)), replace(fitter, threads=1)
    times = number_of_repeats(aggregators, table) if repeats is None else repeats
    folds_of_repeats = [
        [_LeftOutRows(inside, table.rows(~inside), table.rows(inside)) for inside in masks]
        for masks in (
            fold_masks(table.groups, FOLDS, seed=fitter.seed + repeat) for repeat in range(times)
        )
    ]
    saved = _LeftOutRows(np.zeros(len(table.ids), bool), table, table)
    parts = [saved, *chain.from_iterable(folds_of_repeats)]
    with ThreadPoolExecutor(fitter.threads) as pool:
        futures = [pool.submit(part.learn, names, alone) for part in parts]
        try:
            for done, _ in enumerate(as_completed(futures), 1):
                watch(f"learned {done} of {len(parts)} times")
        except BaseException:
            # Ctrl-C must not wait for fits that have not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        for future in futures:
            future.result()
    return _choose_by_left_out(names, table, saved, folds_of_repeats)


@dataclass(frozen=True)
class _LeftOutRows:
    """Left-out rows, and the aggregators (`auto` without weights) learned from the others."""

    inside: Mask
    """Which rows were left out, shape (n,)."""
    train: FeatureTable
    """The others."""
    rows: FeatureTable
    """The rows that were left out."""
    fitted: dict[str, Aggregator] = field(default_factory=dict)
    """Aggregators by name."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why other aggregators could not be fitted."""

    def learn(self, names: Sequence[str], fitter: Fitter) -> None:
        for name in names:
            try:
                self.fitted[name] = fitter.fit(name, self.train, with_sources=True, weigh=False)
            except DataError as error:
                self.failed[name] = str(error)


class _Predictions:
    """The predictions of all folds of all repeats, concatenated."""

    def __init__(self, repeats: Sequence[Sequence[_LeftOutRows]]) -> None:
        self.parts = [one for repeat in repeats for one in repeat]
        self._human = np.concatenate([one.rows.human for one in self.parts])
        self._groups = np.concatenate([one.rows.groups for one in self.parts])
        sizes = [len(one.rows.ids) for one in self.parts]
        repeat = np.repeat(np.arange(len(repeats)), [len(one) for one in repeats])
        self._repeat, self._fold = np.repeat(repeat, sizes), np.repeat(np.arange(len(sizes)), sizes)

    def others(self, number: int) -> Mask:
        """Return a mask of the predictions of the other folds in the same repeat."""
        repeat = self._repeat[self._fold == number][0]
        return np.asarray((self._repeat == repeat) & (self._fold != number), bool)

    def weigh(self, saved: Aggregator) -> Aggregator:
        """Weigh the members of each fold's blend, and return the saved blend with weights."""
        found = [
            one.fitted[BLEND].by_member(one.rows.features, systems=one.rows.systems)
            for one in self.parts
        ]
        held_out, known = [], []
        for at, names in enumerate(saved.members_):
            # members that could be learned from all rows, and also without each fold
            common = [name for name in names if all(name in fold[at] for fold in found)]
            predicted = {
                name: np.concatenate([fold[at][name] for fold in found]) for name in common
            }
            there = ~np.isnan([self._human[:, at], *predicted.values()]).any(axis=0)
            known.append(there)
            held_out.append(
                HeldOut(
                    self._human[there, at],
                    self._groups[there],
                    {name: values[there] for name, values in predicted.items()},
                    dict.fromkeys({*names} - {*common}, "cannot be learned without some fold"),
                )
            )
        for number, one in enumerate(self.parts):
            others = self.others(number)
            # a single fold keeps equal weights
            if others.any():
                one.fitted[BLEND] = one.fitted[BLEND].weigh_members(
                    [rows.rows(others[there]) for rows, there in zip(held_out, known, strict=True)]
                )
        return saved.weigh_members(held_out)

    def errors(self, names: Sequence[str], rows: Mask) -> dict[str, float]:
        """Return the error of each aggregator on some of the predictions."""
        errors = {}
        for name in names:
            predicted = np.concatenate([predict(one.fitted[name], one.rows) for one in self.parts])
            errors[name] = relative_error(predicted[rows], self._human[rows])
        return errors


def _choose_by_left_out(
    names: Sequence[str],
    table: FeatureTable,
    saved: _LeftOutRows,
    repeats: Sequence[Sequence[_LeftOutRows]],
) -> tuple[ChosenAggregator, Unseen]:
    """Choose an aggregator, and weigh the members of blends, by their errors on left-out rows.

    For the saved evaluator all errors count, for a fold those of the other folds of its repeat.
    """
    if not saved.fitted:
        raise DataError(_reasons(saved.failed))
    kept = [[one for one in repeat if one.fitted] for repeat in repeats]
    for before, after in zip(repeats, kept, strict=True):
        if not after:
            why = _reasons(before[0].failed)
            raise DataError(f"nothing can be learned without the sources of one fold: {why}")
    predictions, failed = _Predictions(kept), dict(saved.failed)
    # an aggregator that cannot be fitted without some fold has no error to be compared by
    for one in predictions.parts:
        failed |= one.failed
    fitted = {name: one for name, one in saved.fitted.items() if name not in failed}
    if not fitted:
        raise DataError(_reasons(failed))
    if BLEND in fitted:
        fitted[BLEND] = predictions.weigh(fitted[BLEND])

    def choice(aggregators: dict[str, Aggregator], rows: Mask) -> ChosenAggregator:
        if len(names) == 1:  # nothing to choose
            return ChosenAggregator(names[0], aggregators, {}, {})
        return _least_error(aggregators, predictions.errors(list(fitted), rows), failed)

    def fold(one: _LeftOutRows, number: int) -> Fold:
        own = {name: one.fitted[name] for name in fitted}
        return Fold(choice(own, predictions.others(number)), one.train, one.inside)

    numbers = count()
    unseen = tuple(tuple(fold(one, next(numbers)) for one in repeat) for repeat in kept)
    everything = np.ones(sum(len(one.rows.ids) for one in predictions.parts), bool)
    return choice(fitted, everything), Unseen(table, unseen)
