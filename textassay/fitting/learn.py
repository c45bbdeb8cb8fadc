"""Learns from a table of features: fits aggregators, chooses one, and cross-fits.

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

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

import numpy as np

from textassay.agreement.correlation import pair_up
from textassay.agreement.significance import compute_agreement
from textassay.arrays import Floats, Mask
from textassay.fitting.feature_table import AspectScales, FeatureTable, Split
from textassay.learning.aggregators import Aggregator
from textassay.learning.splits import draw_groups, fold_masks
from textassay.learning.training import FOLDS, HeldOut
from textassay.runtime.base import Json
from textassay.runtime.errors import DataError

FitObserver = Callable[[str], None]
"""Callback for the current step, in words."""
BLEND = "auto"
"""The aggregator that blends others, its members."""


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
    sampled = np.random.default_rng(0).permutation(len(train.ids))[:32]
    rows: Floats = train.features[np.sort(sampled)]
    return tuple(tuple(None if v != v else float(v) for v in row) for row in rows)


def correlations(predicted: Floats, test: FeatureTable) -> Json:
    """Return Pearson and Spearman over all rows, averaged over the aspects; `None` if undefined.

    Rows without a prediction are left out, and lower `coverage`.
    """
    agreements = [
        compute_agreement(pair_up(p, h), "dataset")
        for p, h in zip(predicted.T, test.human.T, strict=True)
    ]
    return {
        "pearson": mean_if_all([agreement.pearson for agreement in agreements]),
        "spearman": mean_if_all([agreement.spearman for agreement in agreements]),
        "coverage": min((agreement.coverage or 0.0) for agreement in agreements),
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
        selected = draw_groups(self.rows.groups, rows, seed=seed)
        first = tuple(replace(fold, inside=fold.inside[selected]) for fold in self.repeats[0])
        return Unseen(self.rows.rows(selected), (first,))

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
    """Whether each row was left out, shape (n,)."""
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
        self.parts = [part for repeat in repeats for part in repeat]
        self._human = np.concatenate([part.rows.human for part in self.parts])
        self._groups = np.concatenate([part.rows.groups for part in self.parts])
        sizes = [len(part.rows.ids) for part in self.parts]
        repeat = np.repeat(np.arange(len(repeats)), [len(folds) for folds in repeats])
        self._repeat, self._fold = np.repeat(repeat, sizes), np.repeat(np.arange(len(sizes)), sizes)

    def others(self, number: int) -> Mask:
        """Return a mask of the predictions of the other folds in the same repeat."""
        repeat = self._repeat[self._fold == number][0]
        return np.asarray((self._repeat == repeat) & (self._fold != number), bool)

    def weigh(self, saved: Aggregator) -> Aggregator:
        """Weigh the members of each fold's blend, and return the saved blend with weights."""
        by_fold = [
            p.fitted[BLEND].by_member(p.rows.features, systems=p.rows.systems) for p in self.parts
        ]
        held_out, usable = [], []
        for at, names in enumerate(saved.members_):
            # members that could be learned from all rows, and also without each fold
            common = [name for name in names if all(name in fold[at] for fold in by_fold)]
            predicted = {
                name: np.concatenate([fold[at][name] for fold in by_fold]) for name in common
            }
            there = ~np.isnan([self._human[:, at], *predicted.values()]).any(axis=0)
            usable.append(there)
            held_out.append(
                HeldOut(
                    self._human[there, at],
                    self._groups[there],
                    {name: values[there] for name, values in predicted.items()},
                    dict.fromkeys({*names} - {*common}, "cannot be learned without some fold"),
                )
            )
        for number, part in enumerate(self.parts):
            others = self.others(number)
            # a single fold keeps equal weights
            if others.any():
                part.fitted[BLEND] = part.fitted[BLEND].weigh_members(
                    [rows.rows(others[there]) for rows, there in zip(held_out, usable, strict=True)]
                )
        return saved.weigh_members(held_out)

    def errors(self, names: Sequence[str], rows: Mask) -> dict[str, float]:
        """Return the error of each aggregator on some of the predictions."""
        errors = {}
        for name in names:
            predicted = np.concatenate([predict(p.fitted[name], p.rows) for p in self.parts])
            errors[name] = relative_error(predicted[rows], self._human[rows])
        return errors


def _choose_by_left_out(
    names: Sequence[str],
    table: FeatureTable,
    saved: _LeftOutRows,
    repeats: Sequence[Sequence[_LeftOutRows]],
) -> tuple[ChosenAggregator, Unseen]:
    """Choose an aggregator, and weigh the members of blends, by their errors on left-out rows.

    For the saved evaluator all errors count, for a fold the errors on other folds of its repeat.
    """
    if not saved.fitted:
        raise DataError(_reasons(saved.failed))
    learned = [[part for part in repeat if part.fitted] for repeat in repeats]
    for before, after in zip(repeats, learned, strict=True):
        if not after:
            why = _reasons(before[0].failed)
            raise DataError(f"nothing can be learned without the sources of one fold: {why}")
    predictions, failed = _Predictions(learned), dict(saved.failed)
    # an aggregator that cannot be fitted without some fold has no error to be compared by
    for part in predictions.parts:
        failed |= part.failed
    fitted = {name: aggregator for name, aggregator in saved.fitted.items() if name not in failed}
    if not fitted:
        raise DataError(_reasons(failed))
    if BLEND in fitted:
        fitted[BLEND] = predictions.weigh(fitted[BLEND])

    def choice(aggregators: dict[str, Aggregator], rows: Mask) -> ChosenAggregator:
        if len(names) == 1:  # nothing to choose
            return ChosenAggregator(names[0], aggregators, {}, {})
        return _least_error(aggregators, predictions.errors(list(fitted), rows), failed)

    def fold(part: _LeftOutRows, number: int) -> Fold:
        aggregators = {name: part.fitted[name] for name in fitted}
        return Fold(choice(aggregators, predictions.others(number)), part.train, part.inside)

    numbers = count()
    unseen = tuple(tuple(fold(part, next(numbers)) for part in repeat) for repeat in learned)
    everything = np.ones(sum(len(part.rows.ids) for part in predictions.parts), bool)
    return choice(fitted, everything), Unseen(table, unseen)
