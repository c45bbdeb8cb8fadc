"""Reads rated rows, with features from the data and from files of scores, as a table.

One pass over the data finds the rows (`_find_rows`), then the features are checked (`_features_of`)
and labels without an order become a column each (`_can_be_learned`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import NamedTuple

import numpy as np

from textassay.agreement.raters import rating_table
from textassay.arrays import Floats
from textassay.fitting.feature_table import FeatureTable
from textassay.learning.pooling import Pool
from textassay.learning.splits import group_codes
from textassay.methods.fitted.evaluator import FeatureScores, matching_names, read_row, source_label
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.data.ratings import rater_of
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import share_names
from textassay.runtime.messages import Example

Labels = Mapping[str, Sequence[str]]
"""Labels of each aspect whose labels have no order; empty for other aspects."""


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
    names = _feature_names(data, patterns, scores)
    labels = {name: data.labels.unordered_labels("human", name) for name in rated}
    table = _find_rows(data, names, scores, labels)
    features = _features_of(table, names, scores, info)
    rows = table.rows
    human = np.array([row.human for row in rows], float)
    columns = [column for name in rated for column in share_names(name, labels[name]) or (name,)]
    label_sets = [share_names(name, words) for name, words in labels.items() if words]
    learnable = _can_be_learned(human, columns, frozenset(chain(*label_sets)), info)
    learned = tuple(compress(columns, learnable))
    annotators = {name: [row.annotators.get(name, ()) for row in rows] for name in learned}
    ids, _, _, sources, systems, raters, _ = zip(*rows, strict=True)
    # as `source_label` begins
    grouped_by = {source.partition(" ")[0] for source in sources if source is not None}
    return FeatureTable(
        ids=ids,
        features=features,
        names=names,
        human=np.ascontiguousarray(human[:, learnable]),
        aspects=learned,
        label_sets=tuple(filter(None, (tuple(n for n in s if n in learned) for s in label_sets))),
        groups=group_codes(sources),
        grouped_by=" or ".join(sorted(grouped_by)) or "row",
        annotators={
            name: rating_table(ratings)
            for name, ratings in annotators.items()
            if any(len(single) > 1 for single in ratings)
        },
        left_out=table.left_out,
        other_texts=table.other_texts,
        unrated=table.unrated,
        systems=systems,
        all_aspects=tuple(dict.fromkeys((*info.human, *learned))),
        raters=raters,
        sources=sources,
        pool=table.pool(),
    )


def human_aspects(info: DataInfo, names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the human aspects to learn."""
    if not info.human:
        of_parts = " (ratings of a conversation do not rate its turns and calls)"
        raise DataError(
            f"{info.name} contains no human ratings to learn from; give them in the field 'human'"
            f"{of_parts if info.unit != 'conversation' else ''}"
        )
    aspects = tuple(dict.fromkeys(names)) if names is not None else tuple(info.human)
    for name in aspects:
        if name not in info.human:
            raise UnknownName(f"human aspect of {info.name}:", name, list(info.human))
    return aspects


def _feature_names(
    data: Examples, patterns: Sequence[str], scores: FeatureScores
) -> tuple[str, ...]:
    """Return the names of the features: metrics of the data, then scores."""
    metrics = matching_names(patterns, list(data.check().metrics))
    for name in metrics:
        if words := data.labels.unordered_labels("metrics", name):
            raise ConfigurationError(
                f"feature {name!r} has labels such as {words[0]!r}; give them as a file of scores"
            )
    # two features of one name would be indistinguishable in the evaluator
    if both := [name for name in metrics if name in scores]:
        raise ConfigurationError(
            f"feature {both[0]!r} is both in the data's metrics and in the files of scores"
        )
    return (*metrics, *scores)


# ---- rows ----


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
    ids: set[str] = field(default_factory=set)
    """Ids of all rows, if scores are joined to them."""

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


def _find_rows(
    data: Examples, names: Sequence[str], scores: FeatureScores, labels: Labels
) -> _FoundRows:
    table = _FoundRows()
    for example in data:
        if scores:
            table.ids.add(example.id)
        row = _FeatureRow(
            id=example.id,
            features=np.array(read_row(example, names, scores), float),
            human=[rating for name, w in labels.items() for rating in _ratings(example, name, w)],
            # a table of ratings by id need not name the source: the run's own data may
            source=source_label(example) or scores.sources.get(example.id),
            system=example.system,
            rater=rater_of(example),
            annotators={
                column: ratings
                for name, words in labels.items()
                if name in example.annotators
                for column, ratings in _single_ratings(example.annotators[name], name, words)
            },
        )
        table.add(row, is_other_text=row.is_rated and scores.are_of_another_text(example))
    shared = {row.source for row in (*table.rows, *table.others)}
    # a text that all rows share, such as an instruction, is not a source (`source_names`)
    if len(shared) == 1 and str(*shared).startswith("source "):
        table.rows = [row._replace(source=None) for row in table.rows]
        table.others = [row._replace(source=None) for row in table.others]
    return table


def _ratings(example: Example, aspect: str, labels: Sequence[str]) -> list[float | None]:
    """Return the rating; for labels without an order, the share of raters who gave each label."""
    mean = example.human.get(aspect)
    if not labels:
        return [mean]
    ratings = [rating for rating in example.annotators.get(aspect, (mean,)) if rating is not None]
    return [ratings.count(at) / len(ratings) if ratings else None for at in range(len(labels))]


def _single_ratings(
    ratings: tuple[float | None, ...], aspect: str, labels: Sequence[str]
) -> Iterator[tuple[str, tuple[float | None, ...]]]:
    """Yield the name of a column, and the ratings of single raters in it.

    Labels without an order have a column each, of 1 for raters who gave it and 0 for others.
    """
    if not labels:
        yield aspect, ratings
    for at, name in enumerate(share_names(aspect, labels)):
        yield name, tuple(None if rating is None else float(rating == at) for rating in ratings)


# ---- checks ----


def _features_of(
    table: _FoundRows, names: Sequence[str], scores: FeatureScores, info: DataInfo
) -> Floats:
    """Return the features of the rated rows, shape (n, features); each has a value in some row."""
    scored = {id_ for values in scores.values() for id_ in values}
    if scores and not scored & table.ids:
        raise DataError(
            f"no id of the scores occurs in {info.name}: the scores have {sorted(scored)[:3]}, "
            f"the data {sorted(table.ids)[:3]}"
        )
    if not table.rows:
        other = f"; {table.other_texts} have another text than was scored under their id"
        raise DataError(
            f"{info.name}: the {table.left_out} rated rows have none of the features"
            f"{other * bool(table.other_texts)}"
        )
    features = np.array([row.features for row in table.rows])
    for name, column in zip(names, features.T, strict=True):
        if np.isnan(column).all():
            raise DataError(
                f"{info.name}: feature {name!r} has no value in any rated row; leave it out"
            )
    return features


def _can_be_learned(
    human: Floats, columns: Sequence[str], labels: frozenset[str], info: DataInfo
) -> list[bool]:
    """Return for each column whether it can be learned: not a label that all texts have, or none.

    Args:
        human: Ratings, shape (n, columns).
        columns: Names of the columns.
        labels: Names of the columns that are labels without an order.
        info: The data.
    """
    learnable = [
        name not in labels or len(np.unique(column[~np.isnan(column)])) > 1
        for name, column in zip(columns, human.T, strict=True)
    ]
    if not any(learnable):
        raise DataError(
            f"{info.name}: people gave every text the same label, so nothing can be learned"
        )
    return learnable
