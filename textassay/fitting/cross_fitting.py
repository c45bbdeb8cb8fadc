"""Cross-fitting: every rated row is learned from, and none is judged by what has seen its source.

What is shipped learns from all rows. For the report the sources are dealt into folds, and each
fold's rows are predicted by an aggregator that learned from the others, as many times over as the
folds are dealt anew. A fixed held-out part is the same with one fold that all measured rows are in.

Which of several aggregators is taken, and what `auto` weighs its members by, are errors on these
same predictions: on all of them for what is shipped, on those of the other folds for each fold, so
that no choice that is measured has seen an error on the rows that it is measured on (stacking as in
van der Laan, Polley and Hubbard, "Super learner", 2007, with the weights cross-fitted as well).
Folds within each fold would say the same at six times the cost.

References:
    Bates, Hastie and Tibshirani, "Cross-validation: what does it estimate and how well does it do
    it?" (2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np

from textassay.fitting.learn import (
    Choice,
    Fitter,
    chosen,
    drawn_groups,
    predicted_by,
    relative_error,
)
from textassay.fitting.table import FeatureTable, Parts
from textassay.learning.aggregators import Aggregator
from textassay.learning.splits import Mask, folds
from textassay.learning.training import Floats, HeldOut
from textassay.runtime.errors import DataError

FOLDS, REPEATS = 5, 2
BLEND = "auto"
QUICK = ("avg", "corrw", "linear", "nnls", "ridge", "tree")
"""Aggregators whose folds are dealt twice however many rows there are."""
_NUMBERS_TO_REPEAT = 20_000
"""Features times rows times aspects up to which folds are dealt twice for the others."""

Watch = Callable[[str], None]
"""Is told what is being done, in words."""


@dataclass(frozen=True)
class Fold:
    """What was learned without some of the rows.

    Attributes:
        choice: The aggregators, and which one was taken.
        train: The rows they learned from.
        inside: Which of the measured rows they have not seen, shape (n,).
    """

    choice: Choice
    train: FeatureTable
    inside: Mask


@dataclass(frozen=True)
class Unseen:
    """Rows that are measured, with aggregators that have not seen their sources.

    Attributes:
        rows: The rows.
        repeats: The folds of each repeat, which together have each row once; rows of a fold without
            which nothing could be learned are in none.
    """

    rows: FeatureTable
    repeats: tuple[tuple[Fold, ...], ...]

    @classmethod
    def held_out(cls, choice: Choice, parts: Parts) -> Unseen:
        """Return the rows of a fixed held-out part."""
        everything = np.ones(len(parts.test.ids), bool)
        return cls(parts.test, ((Fold(choice, parts.train, everything),),))

    @property
    def is_fixed(self) -> bool:
        """Whether the rows are a fixed part, which nothing was learned from."""
        return len(self.repeats) == 1 and bool(self.repeats[0][0].inside.all())

    def at_most(self, rows: int, seed: int) -> Unseen:
        """Return the first repeat of whole groups that have about so many rows."""
        kept = drawn_groups(self.rows.groups, rows, seed)
        first = tuple(replace(fold, inside=fold.inside[kept]) for fold in self.repeats[0])
        return Unseen(self.rows.rows(kept), (first,))

    def predicted(
        self,
        repeat: Sequence[Fold],
        predict: Callable[[Fold, FeatureTable], Floats],
        aspect: str | None = None,
    ) -> Floats:
        """Return a prediction of every row, comparable over the folds, shape (n, targets).

        What a fold learned from has a lower mean the higher the ratings of the fold itself are.
        Correlations over all rows would be too low by that, so predictions are taken around the
        mean that was learned from.

        Args:
            repeat: The folds of one repeat.
            predict: From a fold and its rows to predictions, shape (rows, targets).
            aspect: The one aspect that is predicted; all by default.
        """
        names = self.rows.aspects
        columns = [at for at, name in enumerate(names) if aspect in (None, name)]
        center = np.nanmean(self.rows.human[:, columns], axis=0)
        parts = []
        for fold in repeat:
            values = predict(fold, self.rows.rows(fold.inside))
            if not self.is_fixed:
                values = values + (center - np.nanmean(fold.train.human[:, columns], axis=0))
            parts.append(values)
        return gathered(repeat, parts)

    def by_evaluator(self, repeat: int = 0) -> Floats:
        """Return predictions by each fold's chosen aggregator, shape (n, aspects)."""
        return self.predicted(
            self.repeats[repeat],
            lambda fold, rows: fold.choice.aggregator.predict(rows.features, systems=rows.systems),
        )


def gathered(repeat: Sequence[Fold], parts: Sequence[Floats]) -> Floats:
    """Return what the folds have of their rows as one array, NaN for rows in none."""
    values = np.full((len(repeat[0].inside), *parts[0].shape[1:]), np.nan)
    for fold, part in zip(repeat, parts, strict=True):
        values[fold.inside] = part
    return values


def number_of_repeats(aggregators: Sequence[str], table: FeatureTable) -> int:
    """Return how often folds are dealt: twice, unless that would take long."""
    numbers = table.features.size * len(table.aspects)
    return REPEATS if {*aggregators} <= {*QUICK} or numbers <= _NUMBERS_TO_REPEAT else 1


def cross_fit(
    aggregators: Sequence[str], table: FeatureTable, fitter: Fitter, watch: Watch
) -> tuple[Choice, Unseen]:
    """Learn from all rows what is shipped, and without each fold what is measured.

    Every choice is made anew without the fold. The result does not depend on the threads.

    Args:
        aggregators: Names; of several the one with the least error over folds is taken.
        table: Rated rows.
        fitter: How they are fitted; its threads learn several folds at once.
        watch: Is told how many of the fits are done.

    Raises:
        DataError: The rows, or those outside of every fold, do not allow it.
    """
    dealt = [
        folds(table.groups, FOLDS, seed=fitter.seed + repeat)
        for repeat in range(number_of_repeats(aggregators, table))
    ]
    masks = [[fold == number for number in range(int(fold.max()) + 1)] for fold in dealt]
    parts = [table, *(table.rows(~inside) for inside in chain.from_iterable(masks))]
    names, alone = tuple(dict.fromkeys(aggregators)), replace(fitter, threads=1)

    def learn(part: FeatureTable) -> _Fits:
        return _fit_each(names, part, alone)

    shipped, *found = _in_threads(learn, parts, fitter.threads, watch)
    left = iter(zip(parts[1:], found, strict=True))
    repeats = [[_Left(inside, *next(left)) for inside in repeat] for repeat in masks]
    return _chosen(names, table, shipped, repeats)


@dataclass(frozen=True)
class _Fits:
    """Aggregators fitted to the same rows, `auto` without weights, and why others failed."""

    fitted: dict[str, Aggregator]
    failed: dict[str, str]


def _fit_each(names: Sequence[str], part: FeatureTable, fitter: Fitter) -> _Fits:
    fits = _Fits({}, {})
    for name in names:
        try:
            fits.fitted[name] = fitter.fit(name, part, with_sources=True, weigh=False)
        except DataError as error:
            fits.failed[name] = str(error)
    return fits


@dataclass(frozen=True)
class _Left:
    """Rows that were left out, and what was learned from the others."""

    inside: Mask
    train: FeatureTable
    fits: _Fits


class _LeftOut:
    """The predictions of all folds of all repeats, one after the other.

    Args:
        table: All rows.
        repeats: What was learned without each fold; in none of these anything could be learned.
    """

    def __init__(self, table: FeatureTable, repeats: Sequence[Sequence[_Left]]) -> None:
        self.parts = [one for repeat in repeats for one in repeat]
        self._tables = [table.rows(one.inside) for one in self.parts]
        self._human = np.concatenate([rows.human for rows in self._tables])
        self._groups = np.concatenate([rows.groups for rows in self._tables])
        sizes = [len(rows.ids) for rows in self._tables]
        repeat = np.repeat(np.arange(len(repeats)), [len(one) for one in repeats])
        self._repeat, self._fold = np.repeat(repeat, sizes), np.repeat(np.arange(len(sizes)), sizes)

    def others(self, number: int) -> Mask:
        """Return which predictions are of the other folds of a fold's repeat."""
        repeat = self._repeat[self._fold == number][0]
        return np.asarray((self._repeat == repeat) & (self._fold != number), bool)

    def weighed(self, shipped: Aggregator) -> Aggregator:
        """Weigh the members of all blends, of the shipped one by all predictions."""
        found = [
            one.fits.fitted[BLEND].by_member(rows.features, systems=rows.systems)
            for one, rows in zip(self.parts, self._tables, strict=True)
        ]
        held_out, known = [], []
        for at, names in enumerate(shipped.members_):
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
            # a fold that is the only one keeps equal weights
            if others.any():
                one.fits.fitted[BLEND] = one.fits.fitted[BLEND].weighed(
                    [rows.rows(others[there]) for rows, there in zip(held_out, known, strict=True)]
                )
        return shipped.weighed(held_out)

    def errors(self, names: Sequence[str], chosen_rows: Mask) -> dict[str, float]:
        """Return the error of each aggregator on some of the predictions."""
        errors = {}
        for name in names:
            predicted = np.concatenate(
                [
                    predicted_by(one.fits.fitted[name], rows)
                    for one, rows in zip(self.parts, self._tables, strict=True)
                ]
            )
            errors[name] = relative_error(predicted[chosen_rows], self._human[chosen_rows])
        return errors


def _chosen(
    names: Sequence[str], table: FeatureTable, shipped: _Fits, repeats: Sequence[Sequence[_Left]]
) -> tuple[Choice, Unseen]:
    """Choose and weigh by errors on rows that were left out, each fold by those of the others."""
    if not shipped.fitted:
        raise DataError(_reasons(shipped.failed))
    kept = [[one for one in repeat if one.fits.fitted] for repeat in repeats]
    for before, after in zip(repeats, kept, strict=True):
        if not after:
            why = _reasons(before[0].fits.failed)
            raise DataError(f"nothing can be learned without a part of the groups: {why}")
    left_out, failed = _LeftOut(table, kept), dict(shipped.failed)
    # one that fits all rows but not those without a fold has no error to be compared by
    for one in left_out.parts:
        failed |= one.fits.failed
    fitted = {name: one for name, one in shipped.fitted.items() if name not in failed}
    if not fitted:
        raise DataError(_reasons(failed))
    if BLEND in fitted:
        fitted[BLEND] = left_out.weighed(fitted[BLEND])
    everything = np.ones(sum(one.inside.sum() for one in left_out.parts), bool)

    def choice(aggregators: dict[str, Aggregator], rows: Mask) -> Choice:
        if len(names) == 1:  # nothing to choose
            return Choice(names[0], aggregators, {}, {})
        return chosen(aggregators, left_out.errors(list(fitted), rows), failed)

    numbers = count()
    unseen = tuple(
        tuple(
            Fold(
                choice(
                    {name: one.fits.fitted[name] for name in fitted},
                    left_out.others(next(numbers)),
                ),
                one.train,
                one.inside,
            )
            for one in repeat
        )
        for repeat in kept
    )
    return choice(fitted, everything), Unseen(table, unseen)


def _reasons(failed: dict[str, str]) -> str:
    if len(failed) == 1:
        return next(iter(failed.values()))
    return "no aggregator can be fitted: " + "; ".join(f"{k}: {why}" for k, why in failed.items())


def _in_threads(
    learn: Callable[[FeatureTable], _Fits],
    parts: Sequence[FeatureTable],
    threads: int,
    watch: Watch,
) -> list[_Fits]:
    """Return what is learned from each part, in order."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(learn, part) for part in parts]
        try:
            for done, _ in enumerate(as_completed(futures), 1):
                watch(f"learned {done} of {len(parts)} times")
        except BaseException:
            # Ctrl-C should not wait for fits that have not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]
