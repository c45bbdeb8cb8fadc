"""Splits rows by source and fits aggregators.

If several are named, the one with the least error over folds wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.fitting.scales import Scales
from textassay.fitting.table import FeatureTable
from textassay.learning import (
    Aggregator,
    folds,
)
from textassay.learning.training import Floats
from textassay.runtime.errors import DataError

_FOLDS = 5
_ROWS_TO_CHOOSE = 5_000
_NUMBERS_FOR_THREADS = 500_000
"""Numbers in a table below which threads wait for each other longer than they work."""


@dataclass(frozen=True)
class Fitter:
    """How aggregators are fitted to a table.

    Attributes:
        scales: Scale of each human aspect.
        seed: Seed of everything random.
        threads: Threads that training may use.
        new_systems: Whether rows of systems that nobody rated are to be judged.
    """

    scales: Scales
    seed: int
    threads: int
    new_systems: bool = False

    def fit(
        self,
        name: str,
        table: FeatureTable,
        aspect: str | None = None,
        *,
        with_sources: bool = False,
    ) -> Aggregator:
        """Return an aggregator for all aspects of the table, or for one.

        Args:
            name: Name of the aggregator.
            table: Rows to learn from.
            aspect: The one aspect to learn; all by default.
            with_sources: Whether to learn from means of sources, too, which predictions then take
                only where sources are passed.

        Raises:
            DataError: The rows do not allow it.
        """
        targets = table.aspects if aspect is None else (aspect,)
        columns = [table.aspects.index(target) for target in targets]
        threads = self.threads if table.features.size > _NUMBERS_FOR_THREADS else 1
        aggregator = Aggregator(
            name, scales={t: self.scales[t] for t in targets}, seed=self.seed, threads=threads
        )
        return aggregator.fit(
            table.features,
            table.human[:, columns],
            groups=table.groups.tolist(),
            feature_names=table.names,
            target_names=targets,
            aspect_names=table.all_aspects,
            systems=table.systems,
            sources=table.sources if with_sources else None,
            pool=table.pool,
            new_systems=self.new_systems,
        )


@dataclass(frozen=True)
class Choice:
    """Which of several aggregators was taken.

    Attributes:
        chosen: Its name.
        fitted: Every one that could be fitted, by name.
        errors: Error over folds of the training rows, relative to predicting the mean; empty if
            one was named.
        failed: Why others could not be fitted.
    """

    chosen: str
    fitted: dict[str, Aggregator]
    errors: dict[str, float]
    failed: dict[str, str]

    @property
    def aggregator(self) -> Aggregator:
        """The chosen aggregator, fitted to all training rows."""
        return self.fitted[self.chosen]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"chosen": self.chosen, "cross_validated_error": self.errors, "failed": self.failed}


def choose(names: Sequence[str], train: FeatureTable, fitter: Fitter) -> Choice:
    """Fit the named aggregators and choose the one with the least cross-validated error.

    Raises:
        DataError: None can be fitted.
    """
    names = list(dict.fromkeys(names))
    # nothing to choose, so no cross-validation is paid for
    if len(names) == 1:
        fitted = {names[0]: fitter.fit(names[0], train, with_sources=True)}
        return Choice(names[0], fitted, {}, {})
    fitted = {}
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            fitted[name] = fitter.fit(name, train, with_sources=True)
            errors[name] = _error_over_folds(
                name, at_most(train, _ROWS_TO_CHOOSE, fitter.seed), fitter
            )
        except DataError as error:
            # one that fits all rows but not a fold of them has no error to be compared by
            fitted.pop(name, None)
            failed[name] = str(error)
    if not fitted:
        raise DataError(
            "no aggregator can be fitted: " + "; ".join(f"{k}: {why}" for k, why in failed.items())
        )
    return Choice(min(errors, key=lambda name: errors[name]), fitted, errors, failed)


def predicted_by(aggregator: Aggregator, table: FeatureTable) -> Floats:
    """Return the predictions of a table's rows, shape (n, targets).

    Sources are not passed: `score` has the other texts about a source only if it is given a pool.
    """
    return aggregator.predict(table.features, systems=table.systems)


def _error_over_folds(name: str, table: FeatureTable, fitter: Fitter) -> float:
    fold = folds(table.groups, _FOLDS, seed=fitter.seed)
    predicted = np.full(table.human.shape, np.nan)
    for number in range(int(fold.max()) + 1):
        outside = fold == number
        predicted[outside] = predicted_by(
            fitter.fit(name, table.rows(~outside)), table.rows(outside)
        )
    squared = np.nanmean((predicted - table.human) ** 2, axis=0)
    # relative to each aspect's variance, or an aspect on a wider scale would decide alone
    return float(np.mean(squared / np.nanvar(table.human, axis=0)))


def at_most(table: FeatureTable, rows: int, seed: int) -> FeatureTable:
    """Return the table, or whole groups drawn at random that have about that many rows."""
    if len(table.ids) <= rows:
        return table
    groups, sizes = np.unique(table.groups, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(groups))
    count = max(2, int(np.searchsorted(np.cumsum(sizes[order]), rows, side="right")))
    return table.rows(np.isin(table.groups, groups[order[:count]]))


def background_of(
    train: FeatureTable, aggregator: Aggregator, rows: int = 32
) -> tuple[tuple[float | None, ...], ...]:
    """Return training rows for sampled contributions, none if contributions are exact."""
    if aggregator.explains_exactly:
        return ()
    # a fixed seed: the same evaluator file must come from the same rows
    drawn = np.random.default_rng(0).permutation(len(train.ids))[:rows]
    chosen: Floats = train.features[np.sort(drawn)]
    return tuple(tuple(None if v != v else float(v) for v in row) for row in chosen)
