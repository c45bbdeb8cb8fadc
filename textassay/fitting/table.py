"""The rows to learn from: recorded features, ratings and sources as columns, and their scales.

Texts are not kept. A scale is the given one, or whole numbers around the ratings. Means and ends of
a scale cannot show which scale a rater had in mind, but two scales in one column can be seen where
whole sources lie on either side of 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from textassay.learning.pooling import Pool
from textassay.learning.splits import Codes, Mask, group_codes
from textassay.learning.training import Floats, find_leaks
from textassay.meta.score_files import Recorded
from textassay.methods.fitted.features import matching_names, read_row, source_label
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.data.ratings import rater_of
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName

Scales = dict[str, tuple[float, float]]
_MIN_RATED_ROWS = 3
"""Rated rows of a source from which on it shows a scale."""


@dataclass(frozen=True)
class FeatureTable:
    """Rated rows with features."""

    ids: tuple[str, ...]  # id of each row
    features: Floats  # shape (n, features); NaN if a row has none
    names: tuple[str, ...]  # names of the features
    human: Floats  # ratings, shape (n, aspects); NaN if a row has none
    aspects: tuple[str, ...]  # names of the human aspects
    groups: Codes  # code of each row's source, shape (n,)
    grouped_by: str  # what makes rows those of one source: `group`, `source`, or `row` if nothing
    # ratings of single annotators by aspect, shape (n, annotators) each, NaN for gaps
    annotators: Mapping[str, Floats]
    left_out: int  # rated rows without any feature
    unrated: int  # rows without a rating
    systems: tuple[str | None, ...]  # system that wrote each row's text, length n
    all_aspects: tuple[str, ...]  # names of all aspects that the data have ratings of
    # name of the rater of each row's rating, length n; `None` if the row names nobody
    raters: tuple[str | None, ...]
    # label of each row's source, length n; `None` for rows without one, or if means of sources have
    # no use, as for features that a model is asked for
    sources: tuple[str | None, ...]
    # features, systems and sources of all rows, of which these are a part; `None` for all of them
    pool: Pool | None = None

    def rows(self, chosen: Mask) -> FeatureTable:
        """Return the chosen rows."""
        return replace(
            self,
            ids=tuple(compress(self.ids, chosen)),
            features=self.features[chosen],
            human=self.human[chosen],
            groups=self.groups[chosen],
            systems=tuple(compress(self.systems, chosen)),
            raters=tuple(compress(self.raters, chosen)),
            sources=tuple(compress(self.sources, chosen)),
            pool=self.pool or Pool(self.features, self.systems, self.sources),
            annotators={name: values[chosen] for name, values in self.annotators.items()},
        )

    def joined(self, other: FeatureTable) -> FeatureTable:
        """Return these rows and those of another part of the same table."""
        return replace(
            self,
            ids=self.ids + other.ids,
            features=np.concatenate([self.features, other.features]),
            human=np.concatenate([self.human, other.human]),
            groups=np.concatenate([self.groups, other.groups]),
            systems=self.systems + other.systems,
            raters=self.raters + other.raters,
            sources=self.sources + other.sources,
            annotators={
                name: np.concatenate([values, other.annotators[name]])
                for name, values in self.annotators.items()
            },
        )

    def only(self, names: Sequence[str]) -> FeatureTable:
        """Return the table with some of its features."""
        columns = [self.names.index(name) for name in names]
        return replace(
            self,
            features=np.ascontiguousarray(self.features[:, columns]),
            names=tuple(names),
            pool=(
                None
                if self.pool is None
                else self.pool._replace(features=self.pool.features[:, columns])
            ),
        )

    def with_features(self, features: Mapping[str, Mapping[str, float | None]]) -> FeatureTable:
        """Return the rows with these features instead, by name and id.

        Rows without any stay in, as gaps.
        """
        columns = [[_number(values.get(id_)) for id_ in self.ids] for values in features.values()]
        return replace(
            self,
            features=np.ascontiguousarray(np.array(columns, float).T),
            names=tuple(features),
            # a model is asked about one text at a time: no other text is there to compare with
            sources=(None,) * len(self.ids),
            # means of systems over the old features say nothing about the new ones
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
            " (ratings of a conversation are not those of its turns and calls)"
        )
    chosen = tuple(dict.fromkeys(names)) if names is not None else tuple(info.human)
    for name in chosen:
        if name not in info.human:
            raise UnknownName(f"human aspect of {info.name}:", name, list(info.human))
    return chosen


class _Row(NamedTuple):
    id: str
    features: Floats
    human: list[float]
    source: str | None
    system: str | None
    rater: str | None
    annotators: dict[str, tuple[float | None, ...]]


def read_table(
    data: Examples,
    *,
    patterns: Sequence[str] = (),
    scores: Recorded | None = None,
    aspects: Sequence[str] | None = None,
) -> FeatureTable:
    """Read rated rows with the wanted features; one pass over the data.

    Args:
        data: Examples with human ratings.
        patterns: Names or globs of recorded metrics.
        scores: Value by feature and id, from files.
        aspects: Human aspects; `None` for all that the data have.

    Raises:
        UnknownName: A pattern matches no metric, or an aspect is not rated.
        DataError: No id of the scores occurs in the data, no rated row has a feature, or a feature
            has no value in any.
    """
    info, scores = data.check(), scores or {}
    rated = human_aspects(info, aspects)
    metrics = matching_names(patterns, list(info.metrics))
    # two features of one name would be indistinguishable in the evaluator
    if both := [name for name in metrics if name in scores]:
        raise ConfigurationError(
            f"feature {both[0]!r} is both in the data's metrics and in the files of scores"
        )
    names = (*metrics, *scores)
    rows, known, grouped_by = list[_Row](), set[str](), set[str]()
    unrated = left_out = 0
    for example in data:
        if scores:
            known.add(example.id)
        human = [_number(example.human.get(name)) for name in rated]
        if all(rating != rating for rating in human):
            unrated += 1
            continue
        features = np.array(read_row(example, names, scores), float)
        if names and np.isnan(features).all():
            left_out += 1
            continue
        source = source_label(example)
        if source is not None:
            grouped_by.add("group" if example.group is not None else "source")
        own = {name: example.annotators[name] for name in rated if name in example.annotators}
        rows.append(
            _Row(example.id, features, human, source, example.system, rater_of(example), own)
        )
    scored = {id_ for values in scores.values() for id_ in values}
    if scores and not scored & known:
        raise DataError(
            f"no id of the scores occurs in {info.name}: the scores have {sorted(scored)[:3]}, "
            f"the data {sorted(known)[:3]}"
        )
    if not rows:
        raise DataError(f"{info.name}: none of {left_out} rated rows has any of the features")
    columns = np.array([row.features for row in rows])
    for name, column in zip(names, columns.T, strict=True):
        if np.isnan(column).all():
            raise DataError(
                f"{info.name}: feature {name!r} has no value in any rated row; leave it out"
            )
    annotators = {name: [row.annotators.get(name, ()) for row in rows] for name in rated}
    sources = tuple(row.source for row in rows)
    return FeatureTable(
        ids=tuple(row.id for row in rows),
        features=columns,
        names=names,
        human=np.array([row.human for row in rows], float),
        aspects=rated,
        groups=group_codes(sources),
        grouped_by=" or ".join(sorted(grouped_by)) or "row",
        annotators={
            name: _padded(ratings)
            for name, ratings in annotators.items()
            if any(len(own) > 1 for own in ratings)
        },
        left_out=left_out,
        unrated=unrated,
        systems=tuple(row.system for row in rows),
        all_aspects=tuple(info.human),
        raters=tuple(row.rater for row in rows),
        sources=sources,
    )


def refuse_leaks(table: FeatureTable) -> None:
    """Refuse features that hold the answer."""
    leaks = find_leaks(table.features, table.human, table.names, table.aspects)
    if leaks:
        listed = "; ".join(
            f"{feature!r} is as good as the ratings of {aspect!r}" for feature, aspect in leaks[:5]
        )
        raise DataError(
            f"leakage: {listed} (correlation above .999), so there would be nothing to learn; leave"
            " out such features"
        )


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _padded(rows: Sequence[tuple[Any, ...]]) -> Floats:
    width = max(len(row) for row in rows)
    return np.array(
        [[*(_number(v) for v in row), *[float("nan")] * (width - len(row))] for row in rows], float
    )


@dataclass(frozen=True)
class Parts:
    """The rows on both sides of the split."""

    train: FeatureTable
    test: FeatureTable


def rating_scales(table: FeatureTable, given: Mapping[str, tuple[float, float]]) -> Scales:
    """Return lowest and highest rating by aspect."""
    for name in given:
        if name not in table.aspects:
            raise UnknownName("human aspect with a scale", name, list(table.aspects))
    scales: Scales = {}
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
    below, above = 0, 0
    for code in np.unique(table.groups):
        own = ratings[table.groups == code]
        own = own[~np.isnan(own)]
        if len(own) < _MIN_RATED_ROWS:
            continue
        if own.max() <= 1 and own.min() < 1:
            below += 1
        elif own.min() >= 1 and own.max() > 1:
            above += 1
        # ratings on both sides of 1 within one source show that a single scale crosses 1
        elif own.min() < 1 < own.max():
            return
    if min(below, above) >= 2:
        raise DataError(
            f"aspect {name!r} is rated on two scales: all ratings of {below} sources lie within 0"
            f" to 1, all of {above} others at 1 and above; bring them to one scale, or learn from"
            " one part at a time"
        )
