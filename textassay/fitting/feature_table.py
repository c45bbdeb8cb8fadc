"""A table of features and ratings to learn from.

A table (`FeatureTable`) has features and ratings, and no texts. Features that contain the ratings
are refused. The scale of an aspect is the given one, or goes from the whole number below its
ratings to the one above. Ratings on two scales (between 0 and 1 for some sources, above 1 for
others) are refused. A table may be split (`Split`) into rows to learn from and rows to hold out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import Any

import numpy as np

from textassay.arrays import Codes, Floats, Mask
from textassay.fitting.request import FitRequest
from textassay.learning.pooling import Pool
from textassay.learning.splits import hold_out, split_rows
from textassay.learning.training import find_leaks
from textassay.runtime.errors import DataError, UnknownName

AspectScales = dict[str, tuple[float, float]]
_ARRAYS, _TUPLES = ("features", "human", "groups"), ("ids", "systems", "raters", "sources")
"""Fields of a table that have an entry for each row."""


@dataclass(frozen=True)
class FeatureTable:
    """Rated rows with features, as arrays; `read_table` reads them."""

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
    """Aspects that belong together: the shares of raters who gave each of an aspect's labels, if
    these have no order."""
    pool: Pool | None = None
    """Features, systems and sources of all rows, rated or not; `None` if all rows are rated."""

    def rows(self, selected: Mask) -> FeatureTable:
        """Return the chosen rows."""
        parts: dict[str, Any] = {name: getattr(self, name)[selected] for name in _ARRAYS}
        parts |= {name: tuple(compress(getattr(self, name), selected)) for name in _TUPLES}
        parts["annotators"] = {name: values[selected] for name, values in self.annotators.items()}
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
        for labels in self.label_sets:
            if rare.issuperset(labels):
                aspect = labels[0].rpartition("/")[0]
                raise DataError(
                    f"aspect {aspect!r}: people gave each label to fewer than 10 texts, too few to"
                    " learn from; leave it out"
                )
        common = [name not in rare for name in self.aspects]
        return replace(
            self,
            human=np.ascontiguousarray(self.human[:, common]),
            aspects=tuple(compress(self.aspects, common)),
            annotators={name: votes for name, votes in self.annotators.items() if name not in rare},
            label_sets=tuple(
                tuple(name for name in labels if name not in rare) for labels in self.label_sets
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


def check_no_leaks(table: FeatureTable) -> None:
    """Refuse features that contain the ratings."""
    leaks = find_leaks(table.features, table.human, table.names, table.aspects)
    # a judge may give one rare label exactly where raters do; it has seen their ratings only if all
    # labels of the aspect agree so well
    leaking = {aspect for _, aspect in leaks}
    harmless = {name for s in table.label_sets if not leaking.issuperset(s) for name in s}
    leaks = [leak for leak in leaks if leak[1] not in harmless]
    if leaks:
        listed = "; ".join(
            f"{feature!r} is as good as the ratings of {aspect!r}" for feature, aspect in leaks[:5]
        )
        raise DataError(
            f"leakage: {listed} (correlation above .999), so there would be nothing to learn; leave"
            " out such features"
        )


def rating_scales(table: FeatureTable, declared: Mapping[str, tuple[float, float]]) -> AspectScales:
    """Return lowest and highest rating by aspect."""
    for name in declared:
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
        if name in declared:
            if low < declared[name][0] or high > declared[name][1]:
                raise DataError(
                    f"aspect {name!r}: ratings go from {low:g} to {high:g}, off the scale "
                    f"{declared[name][0]:g} to {declared[name][1]:g} that was given"
                )
            scales[name] = declared[name]
            continue
        _check_one_scale(name, ratings, table)
        scales[name] = (float(math.floor(low)), float(math.ceil(high)))
    return scales


def _check_one_scale(name: str, ratings: Floats, table: FeatureTable) -> None:
    """Refuse an aspect that some sources rate within 0 to 1, and others at 1 and above."""
    below, above = 0, 0
    for code in np.unique(table.groups):
        of_source = ratings[table.groups == code]
        of_source = of_source[~np.isnan(of_source)]
        # too few ratings of a source do not show a scale
        if len(of_source) < 3:
            continue
        if of_source.max() <= 1 and of_source.min() < 1:
            below += 1
        elif of_source.min() >= 1 and of_source.max() > 1:
            above += 1
        # ratings on both sides of 1 within one source belong to a scale across 1
        elif of_source.min() < 1 < of_source.max():
            return
    if min(below, above) >= 2:
        raise DataError(
            f"aspect {name!r} is rated on two scales: all ratings of {below} sources lie within 0"
            f" to 1, all of {above} others at 1 and above; bring them to one scale, or learn from"
            " one part at a time"
        )


@dataclass(frozen=True)
class Split:
    """The rows on both sides of the split."""

    train: FeatureTable
    test: FeatureTable


def split_table(table: FeatureTable, request: FitRequest) -> Split:
    """Return training and held-out rows."""
    return Split(*map(table.rows, split_masks(table, request)))


def split_masks(table: FeatureTable, request: FitRequest) -> tuple[Mask, Mask]:
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
