"""Joins recorded scores and people's ratings as columns: one table per score and aspect.

Reads score files, run folders, data sets and label plans; texts are not kept. A data set whose rows
hold `metrics` serves as a file of scores too.

Estimates need scales that match, scores from one judge, and rated rows that were drawn by chance;
every error names the fault and a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path

import numpy as np

from textassay.agreement.joined import AspectMap, People, check_probability, join, join_notes
from textassay.agreement.records import (
    ScoreSource,
    check_one_judge,
    level_shares,
    no_scores,
    read_labels,
    read_score_rows,
)
from textassay.arrays import Codes, Floats, Mask
from textassay.estimation.maps import MapScales
from textassay.learning.splits import group_codes
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.files import JsonLines
from textassay.runtime.data.ratings import SAMPLING_PROBABILITY as PROBABILITY
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import DataError
from textassay.runtime.labels import YES_NO, LabelSets, member_name
from textassay.runtime.messages import Scale
from textassay.table import Note

MAX_UNSCORED = 0.05
"""Bounds on the mean are reported if more than this share of the rows has no score."""


@dataclass(slots=True)
class Judged:
    """The latest score of each example on one aspect."""

    values: dict[str, float | None] = field(default_factory=dict)
    """Score by id, `None` if unscored."""
    signatures: dict[str, None] = field(default_factory=dict)
    """Signatures that occur, `""` for rows without a signature."""
    scales: dict[Scale | None, None] = field(default_factory=dict)
    """Scales that occur; empty if rows have none."""
    labels: tuple[str, ...] = ()
    """Names of the labels if the values are numbers of labels, else empty."""
    is_nominal: bool = False
    """Whether these labels have no order."""
    texts: dict[str, str] = field(default_factory=dict)
    """Digest of the judged text by id, where it is recorded; see `text_digest`."""
    shares: dict[str, dict[float, float]] = field(default_factory=dict)
    """Probability of each level by id, if the evidence of the scores has it."""

    @property
    def scale(self) -> Scale | None:
        """The scale, if all rows have the same one."""
        return next(iter(self.scales)) if len(self.scales) == 1 else None


def read_judged(
    source: ScoreSource, reader: LabelReader | None = None, *, whole_labels: bool = False
) -> dict[str, Judged]:
    """Read a run, its folder, a JSON Lines file of scores, or the `metrics` of a data set.

    Labels are as `with_labels` returns them; their scale is the range of their numbers.

    Args:
        source: Where the scores are.
        reader: Reads labels; by default the labels of the run's aspects.
        whole_labels: Whether labels without an order stay one aspect.

    Raises:
        DataError: A line is unusable; names file, line and field.
        RunFolderError: A folder without scores, or of a newer format.
    """
    if isinstance(source, Examples):
        reader = source.labels
    elif reader is None:
        reader = LabelReader(read_labels(source))
    labels = reader.declared
    judged: dict[str, Judged] = {}
    for row in read_score_rows(source, reader):
        of_aspect = judged.setdefault(row.aspect, Judged())
        # score files are journals: a resumed run appends a new line for a failed id, and the last
        # line counts
        of_aspect.values[row.id] = row.value
        if row.text:
            of_aspect.texts[row.id] = row.text
        if row.value is None:
            continue
        of_aspect.signatures[row.signature] = None
        of_aspect.scales[row.scale] = None
        of_aspect.shares[row.id] = level_shares(row)
    if not judged:
        raise no_scores(source)
    for name, of_name in judged.items():
        if reader.are_words("metrics", name) and not any(of_name.scales):
            last = len(labels.get(name, YES_NO).names) - 1
            of_name.scales = {(0.0, float(last)): None}
    return with_labels(judged, labels, whole=whole_labels)


def texts_judged(judged: Mapping[str, Judged]) -> dict[str, str]:
    """Return the digest of the judged text by id, over all aspects."""
    return {id_: text for of_aspect in judged.values() for id_, text in of_aspect.texts.items()}


def with_labels(
    judged: Mapping[str, Judged], labels: LabelSets, *, whole: bool = False
) -> dict[str, Judged]:
    """Return scores with the names of the labels behind their numbers.

    Labels without an order have no mean, but each label has a share: an aspect with such labels
    becomes one column of 0 and 1 per label, named by `member_name`, unless `whole_labels`.
    """
    by_name: dict[str, Judged] = {}
    for name, scores in judged.items():
        scale = labels.get(name)
        if scale and scale.is_nominal and not whole:
            by_name |= {
                member_name(name, label): replace(
                    scores,
                    values={
                        id_: None if value is None else float(value == at)
                        for id_, value in scores.values.items()
                    },
                    scales={(0.0, 1.0): None},
                    shares={},
                )
                for at, label in enumerate(scale.names)
            }
        else:
            by_name[name] = replace(
                scores,
                labels=scale.names if scale else (),
                is_nominal=scale is not None and scale.is_nominal,
            )
    return by_name


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of the data that were judged on one aspect."""

    score: str
    """Name of the score."""
    human: str
    """Name of the human aspect."""
    ids: list[str]
    """Ids, length n."""
    scores: Floats
    """Judge's scores, NaN if unscored, shape (n,)."""
    ratings: Floats
    """Mean human ratings, NaN if unrated, shape (n,)."""
    raters: Floats
    """Single ratings with gaps, shape (n, raters); no columns if the data have none."""
    groups: Codes
    """Code of each row's source, shape (n,); a row without a source is a source of its own."""
    has_groups: bool
    """Whether any row names its source."""
    systems: list[str | None]
    """System that wrote each row's text, length n."""
    words: Floats
    """Number of words of each output, shape (n,); all 0 without texts."""
    probabilities: Floats | None
    """Probability of each row of being drawn for rating, shape (n,); `None` if the data do not
    say."""
    scale: Scale | None
    """Scale of the judge; `None` if unbounded or unknown."""
    signatures: tuple[str, ...]
    """Signatures of the scores."""
    unjudged: int
    """Rows of the data without a line among the scores."""
    unknown: int
    """Scored ids that are not in the data."""
    other_texts: tuple[str, ...] = ()
    """Ids whose text in the data differs from the judged text; these rows and their ratings are
    left out.
    """
    without_text: int = 0
    """Rated rows without a text, which belong to the score with their id."""
    other_sources: int = 0
    """Rated rows whose text was judged with another source; their ratings are used."""
    rater_names: tuple[str, ...] = ()
    """Names of the columns of `raters`; their numbers if the data have no names."""
    labels: tuple[str, ...] = ()
    """Names of the labels without an order, if scores and ratings are numbers of such labels, else
    empty.
    """
    levels: Floats = field(default_factory=lambda: np.empty(0))
    """Levels to which the judge gave probabilities, on its scale, shape (k,); empty without
    probabilities.
    """
    shares: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """Probability of each level, shape (n, k); NaN for rows without probabilities."""

    @property
    def scored(self) -> Mask:
        """Whether each row has a score, shape (n,)."""
        return ~np.isnan(self.scores)

    @property
    def rated(self) -> Mask:
        """Whether each row has both a score and a rating, shape (n,)."""
        return ~np.isnan(self.ratings) & self.scored

    @property
    def pairs(self) -> tuple[Floats, Floats, Codes]:
        """Scores, ratings and sources of the rows that have both a score and a rating."""
        rows = self.rated
        return self.scores[rows], self.ratings[rows], self.groups[rows]

    def notes(self) -> Iterator[Note]:
        """Yield notes on scores and rows without a counterpart."""
        yield from join_notes(self.other_texts, self.without_text, self.unknown, self.other_sources)
        if self.unjudged:
            text = f"{self.score}: {self.unjudged} rows of the data have no score and were left out"
            yield Note(text, warning=True)

    def only(self, rows: Mask) -> Columns:
        """Return some of the rows; codes of sources do not change."""
        arrays = ("scores", "ratings", "raters", "groups", "words", "probabilities")
        parts = {name: getattr(self, name) for name in arrays}
        if len(self.levels):
            parts["shares"] = self.shares
        return replace(
            self,
            ids=list(compress(self.ids, rows)),
            systems=list(compress(self.systems, rows)),
            **{name: part[rows] for name, part in parts.items() if part is not None},
        )


def join_columns(
    scores: Mapping[str, Judged],
    people: People,
    aspect_map: AspectMap = (),
    *,
    plan: Mapping[str, float] | None = None,
) -> list[Columns]:
    """Pair scores with human aspects and join them by id, where id and text are the same.

    Args:
        scores: From `read_judged`.
        people: The data with ratings.
        aspect_map: Which human aspect a score is compared with; equal names need no entry.
        plan: Probability of being drawn for rating by id, from a label plan.

    Raises:
        DataError: There are no ratings, no text occurs in both, or a rated row lacks its
            probability.
        UnknownName: The map names something that does not exist.
        ConfigurationError: Nothing pairs.
    """
    ids_by_score = {name: judged.values for name, judged in scores.items()}
    joined = join(ids_by_score, texts_judged(scores), people, aspect_map)
    people = joined.people
    codes, probabilities = group_codes(people.groups), people.probabilities(plan)
    tables = []
    for score, human in joined.pairs:
        judged = scores[score]
        at = [row for row, id_ in enumerate(people.ids) if id_ in judged.values]
        ids = [people.ids[row] for row in at]
        values = (judged.values[id_] for id_ in ids)
        ratings, chances = people.ratings(human)[at], None
        levels, shares = _level_columns(judged, ids)
        if probabilities is not None:
            chances = probabilities[at]
            # a rated row without a probability has no weight, and dropping it would silently bias
            # the mean
            if (lost := np.isnan(chances) & ~np.isnan(ratings)).any():
                raise DataError(
                    f"example {ids[int(np.flatnonzero(lost)[0])]!r} is rated and others have a "
                    f"{PROBABILITY}, but it has none; give it to every rated row, 1 if it was"
                    " certain to be rated, or the label plan (labels=FILE)"
                )
        tables.append(
            Columns(
                score=score,
                human=human,
                ids=ids,
                scores=np.array([np.nan if value is None else value for value in values]),
                ratings=ratings,
                raters=people.raters(human)[at],
                groups=codes[at],
                has_groups=people.has_groups,
                systems=[people.systems[row] for row in at],
                words=np.array([people.words[row] for row in at], float),
                probabilities=chances,
                scale=judged.scale,
                signatures=tuple(judged.signatures),
                unjudged=len(people.ids) - len(ids),
                unknown=joined.unknown,
                other_texts=people.other_texts,
                without_text=joined.without_text,
                other_sources=joined.other_sources,
                rater_names=people.rater_names(human),
                labels=judged.labels if judged.is_nominal else (),
                levels=levels,
                shares=shares,
            )
        )
    return tables


def _level_columns(judged: Judged, ids: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the levels that all rows have in common, and each row's probabilities of them."""
    shares_of_rows = [shares for id_ in ids if (shares := judged.shares.get(id_))]
    levels = sorted(shares_of_rows[0]) if shares_of_rows else []
    if any(sorted(shares) != levels for shares in shares_of_rows):  # rows of several judges
        levels = []
    missing = dict.fromkeys(levels, np.nan)
    rows = [[(judged.shares.get(id_) or missing)[at] for at in levels] for id_ in ids]
    return np.array(levels), np.array(rows, float).reshape(len(ids), len(levels))


def read_plan(path: str | Path) -> dict[str, float]:
    """Read the probabilities of a label plan, by id.

    Raises:
        DataError: The file cannot be read, or a line has no usable `id` and `sampling_probability`.
    """
    probabilities: dict[str, float] = {}
    try:
        rows = list(JsonLines(Path(path)).rows())
    except DataError as error:
        if isinstance(error.__cause__, OSError):
            raise DataError(f"cannot read the label plan {path}: {error.__cause__}") from error
        raise
    for number, row in rows:
        fields = row if isinstance(row, dict) else {}
        value = check_probability(str(fields.get("id")), fields.get(PROBABILITY))
        if value is None or not isinstance(fields.get("id"), str):
            raise DataError(f"{path}, line {number}: needs an id and a {PROBABILITY}")
        probabilities[fields["id"]] = value
    if not probabilities:
        raise DataError(f"{path} contains no lines with an id and a {PROBABILITY}")
    return probabilities


def scales_of(columns: Columns, declared: Mapping[str, Scale]) -> MapScales:
    """Return the scales of judge and raters.

    Args:
        columns: Scores and ratings.
        declared: The raters' scale by human aspect, if the user gave it. Otherwise the judge's
            scale, if it contains all ratings; the range of the ratings if the judge is unbounded,
            or is on 0 to 1 while a rating is above 1.

    Raises:
        DataError: There are no ratings, or one lies off the scale.
    """
    ratings = columns.ratings[~np.isnan(columns.ratings)]
    if not len(ratings):
        raise DataError(
            f"no row that was judged on {columns.score!r} has a rating of {columns.human!r}; "
            "give ratings in the field 'human' or 'annotators' of DATA"
        )
    low, high = float(ratings.min()), float(ratings.max())
    scale = declared.get(columns.human)
    if scale is not None:
        _check_scale(columns, scale, "the scale that was given")
        return MapScales(columns.scale, scale)
    # a judge on 0 to 1 often gives probabilities, whose scale does not show the raters' scale
    if columns.scale is None or (columns.scale == (0.0, 1.0) and high > 1):
        return MapScales(columns.scale, (low, high) if low < high else (low, low + 1.0))
    _check_scale(columns, columns.scale, "the judge's scale; if the raters used another, give it")
    return MapScales(columns.scale, columns.scale)


def one_signature(columns: Columns, *, allow_change: bool) -> str:
    """Return the first signature of the scores, empty if they have none; refuse several.

    `allow_change` accepts several.
    """
    if not allow_change:
        otherwise = ", or set allow_change=true if the differences do not matter"
        check_one_judge(columns.score, columns.signatures, otherwise)
    return columns.signatures[0] if columns.signatures else ""


def assumptions(columns: Columns, *, chosen: bool) -> list[str]:
    """Return the assumptions of an estimate from these columns, as sentences."""
    lines = []
    if chosen:
        lines.append("the labels were chosen by hand, so no interval is promised")
    elif columns.probabilities is None:
        lines.append("the rated rows were drawn by chance, each with the same probability")
    else:
        lines.append("the rated rows were drawn by chance, with the probabilities in the data")
    lines.append(
        "sources are independent of each other"
        if columns.has_groups
        else "every row is a source of its own: the data have no field 'group'"
    )
    return lines


def _check_scale(columns: Columns, scale: Scale, origin: str) -> None:
    ratings = columns.ratings
    off = np.flatnonzero((ratings < scale[0]) | (ratings > scale[1]))
    if len(off):
        raise DataError(
            f"{len(off)} of {int((~np.isnan(ratings)).sum())} ratings of {columns.human!r} lie"
            f" outside {scale[0]:g} to {scale[1]:g}, {origin} "
            f"(scale={columns.human}=LOW,HIGH); the first is"
            f" {ratings[off[0]]:g} at example {columns.ids[off[0]]!r}"
        )
