"""Cross-fitting: every rated row is learned from, and none is judged by what has seen its source.

What is shipped learns from all rows. For the report the sources are dealt into folds, and each
fold's rows are predicted by an aggregator that learned from the others, as many times over as the
folds are dealt anew. A fixed held-out part is the same with one fold that all measured rows are in.

References:
    Bates, Hastie and Tibshirani, "Cross-validation: what does it estimate and how well does it do
    it?" (2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from textassay.fitting.learn import Choice, Fitter, choose, drawn_groups
from textassay.fitting.table import FeatureTable, Parts
from textassay.learning.splits import Mask, folds
from textassay.learning.training import Floats
from textassay.runtime.errors import DataError

FOLDS, REPEATS = 5, 2
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
    alone = replace(fitter, threads=1)

    def learn(part: FeatureTable) -> Choice | DataError:
        try:
            return choose(aggregators, part, alone)
        except DataError as error:
            return error

    shipped, *learned = _in_threads(learn, parts, fitter.threads, watch)
    if isinstance(shipped, DataError):
        raise shipped
    found, repeats = iter(zip(parts[1:], learned, strict=True)), []
    for repeat in masks:
        without = [(inside, *next(found)) for inside in repeat]
        if all(isinstance(choice, DataError) for _, _, choice in without):
            raise DataError(f"nothing can be learned without a part of the groups: {without[0][2]}")
        repeats.append(
            tuple(
                Fold(choice, train, inside)
                for inside, train, choice in without
                if isinstance(choice, Choice)
            )
        )
    return shipped, Unseen(table, tuple(repeats))


def _in_threads(
    learn: Callable[[FeatureTable], Choice | DataError],
    parts: Sequence[FeatureTable],
    threads: int,
    watch: Watch,
) -> list[Choice | DataError]:
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
