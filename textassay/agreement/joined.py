"""Recorded scores and the ratings of people that belong to them.

Ratings are in the data, with ids, systems and sources as columns. A rating belongs to a text: a row
of the data whose text differs from the judged text is left out. Scores are paired with human
aspects by their names, or by a map.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import Any, TypeVar

import numpy as np

from textassay.agreement.correlation import Level
from textassay.agreement.raters import rating_table
from textassay.arrays import Floats
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.digests import (
    material_digests,
    may_be_one_text,
    source_digest,
    source_names,
    sources_by_id,
    text_digest,
)
from textassay.runtime.data.material import OTHER_OUTPUT
from textassay.runtime.data.ratings import SAMPLING_PROBABILITY, LabelReader
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import (
    YES_NO,
    LabelScale,
    LabelSets,
    labels_given,
    member_name,
    nearest_label,
    slug,
)
from textassay.runtime.messages import Aspect, Example
from textassay.runtime.rubric import criterion_id, criterion_names, is_of_criteria
from textassay.table import Note

AspectMap = Iterable[str] | Mapping[str, str]
"""The human aspect of each compared score: texts `SCORE=HUMAN`, or a mapping."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The data whose texts were judged, and the pairs of scores and ratings to compare."""

    people: People
    """The rows of the data, without rows whose text differs from the judged text with the same
    id.
    """
    pairs: tuple[tuple[str, str], ...]
    """Scores with the human aspects that they are compared with, in order of the scores."""
    unknown: int
    """Scored ids that are not in the data."""
    without_text: int
    """Rated rows without a text, which belong to the score with their id."""
    other_sources: int
    """Rated rows whose text was judged with another source, or other passages."""


def join(
    scores: Mapping[str, Collection[str]],
    texts: Mapping[str, str],
    people: People,
    aspect_map: AspectMap = (),
) -> Joined:
    """Find the rows of the data that belong to scores, and the human aspects to compare.

    Args:
        scores: Scored ids by name of the score.
        texts: Digest of the judged text by id, where it is recorded.
        people: The data with ratings.
        aspect_map: Human aspect by score; by default the aspect of the same name.

    Raises:
        DataError: There are no ratings, or no text occurs in both.
        UnknownName: The map names something that does not exist.
        ConfigurationError: No score has a human aspect.
    """
    people = people.of_texts(texts)
    scored = {id_ for name, ids in scores.items() if not is_of_criteria(name) for id_ in ids}
    # checked before pairing: files of other data usually share names of aspects but no id
    _check_shared_texts(scored, people)
    return Joined(
        people,
        tuple(pair_names(scores, people.aspects, aspect_map)),
        len(scored.difference(people.ids).difference(people.other_texts)),
        people.count_without_text(texts),
        people.count_other_sources(),
    )


def pair_names(
    scores: Mapping[str, object], human: tuple[str, ...], aspect_map: AspectMap
) -> list[tuple[str, str]]:
    """Return (score, human aspect), each pair once, in order of scores."""
    if not human:
        raise DataError(
            "the data contain no human ratings; give them in the field 'human', or name another"
            " file that has them"
        )
    mapped = _by_score(aspect_map)
    for score, targets in mapped.items():
        if score not in scores and not _has_members(score, scores):
            raise UnknownName("score in the aspect map", score, list(scores))
        for target in targets:
            if target not in human and not _has_members(target, human):
                raise UnknownName("human aspect in the aspect map", target, human)
    for score, targets in list(mapped.items()):
        # the name of an aspect of several labels means all its labels
        for name in scores if score not in scores else ():
            label = name.removeprefix(f"{slug(score)}/")
            mapped[name] = [f"{slug(target)}/{label}" for target in targets if label != name]
    pairs = {(s, target): None for s in scores for target in mapped.get(s, [s]) if target in human}
    if not pairs:
        raise ConfigurationError(
            f"no score has the name of a human aspect: scores {', '.join(scores)}; human aspects"
            f" {', '.join(human)}; say which belong together with aspect_map=SCORE=HUMAN"
        )
    return list(pairs)


def _has_members(name: str, names: Iterable[str]) -> bool:
    return any(other.startswith(f"{slug(name)}/") for other in names)


Scores = TypeVar("Scores", bound=Mapping[str, object])


def read_with_labels(
    read_scores: Callable[[LabelReader], Scores],
    open_people: Callable[[LabelReader], Examples],
    labels: LabelSets,
    aspect_map: AspectMap = (),
) -> tuple[Scores, Examples, LabelSets]:
    """Read scores and human ratings whose words are labels, even if they were not declared.

    All words are known only after everything was read, so the data are then read again: examples
    are streams whose readers number the labels, and labels are numbered in alphabetical order.
    """
    judge, human = _readers(labels, aspect_map)
    scores, examples = read_scores(judge), open_people(human)
    rated = examples.check().human
    words = {
        side: words_of_side
        for reader, field in ((judge, "metrics"), (human, "human"))
        for side, words_of_side in reader.categories.items()
        if side[0] == field
    }
    if not words:
        return scores, examples, labels
    mapped = _by_score(aspect_map)
    names = {*scores, *(name for field, name in words if field == "metrics")}
    pairs = [(score, h) for score in names for h in mapped.get(score, [score]) if h in rated]
    labels = {**labels, **_words_in_common(words, pairs)}
    judge, human = _readers(labels, aspect_map)
    return read_scores(judge), open_people(human), labels


def _readers(labels: LabelSets, aspect_map: AspectMap) -> tuple[LabelReader, LabelReader]:
    """Return the label readers of the scores and of the human ratings."""
    both = labels, labels_of_people(labels, aspect_map)
    judge, human = (LabelReader(declared, any_word=True) for declared in both)
    return judge, human


def _words_in_common(
    words: dict[tuple[str, str], dict[str, str]], pairs: Iterable[tuple[str, str]]
) -> dict[str, LabelScale]:
    """Return the labels of each score whose values are words: its own and its aspect's words."""
    wordy = []
    for score, human in pairs:
        sides = ("human", human), ("metrics", score)
        wordy_sides = [side for side in sides if side in words]
        if len(wordy_sides) == 1:
            (other,) = set(sides) - set(wordy_sides)
            raise DataError(
                f"{wordy_sides[0][1]!r} has labels such as {min(words[wordy_sides[0]].values())!r},"
                f" and {other[1]!r} has none of them: pair labels with labels"
            )
        if wordy_sides:
            wordy.append(score)
            people, judge = (words[side] for side in sides)
            both = people | judge  # spelled as the judge does
            # a score and an aspect may be in several pairs, whose words are all in common
            words |= {side: both for side, own in words.items() if own is people or own is judge}
    return {
        score: LabelScale(tuple(sorted(words["metrics", score].values(), key=str.casefold)))
        for score in wordy
    }


def labels_of_task(aspects: Iterable[Aspect], aspect_map: AspectMap = ()) -> dict[str, LabelScale]:
    """Return the labels of scores that are compared with a task's aspects, by name of the score."""
    scores = _group((human, score) for score, human in map_entries(aspect_map))
    scales: dict[str, LabelScale] = {}
    for aspect in aspects:
        for score in scores.get(aspect.name, [aspect.name]):
            if (scale := aspect.label_scale) is not None:
                scales[score] = scale
            scales |= {
                member_name(score, label): YES_NO for label in aspect.labels if aspect.multiple
            }
    return scales


def labels_of_people(
    labels: Mapping[str, LabelScale], aspect_map: AspectMap = ()
) -> dict[str, LabelScale]:
    """Return the labels of human ratings by human aspect, given the labels of the scores."""
    mapped = _by_score(aspect_map)
    return {human: scale for score, scale in labels.items() for human in mapped.get(score, [score])}


def _by_score(aspect_map: AspectMap) -> dict[str, list[str]]:
    return _group(map_entries(aspect_map))


def _group(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for key, value in pairs:
        grouped.setdefault(key, []).append(value)
    return grouped


def map_entries(aspect_map: AspectMap) -> Iterable[tuple[str, str]]:
    """Yield each SCORE=HUMAN of an aspect map as a pair."""
    if isinstance(aspect_map, Mapping):
        yield from aspect_map.items()
        return
    for entry in [aspect_map] if isinstance(aspect_map, str) else aspect_map:
        # from the right: names of scores may contain "=", names of human aspects do not
        score, equals, target = entry.rpartition("=")
        if not (score and equals and target):
            raise ConfigurationError(f"the aspect map takes SCORE=HUMAN, not {entry!r}")
        yield score.strip(), target.strip()


Human = dict[str, float | None]
Annotators = dict[str, tuple[float | None, ...]]


class People:
    """Ids, systems, sources and human ratings of a data set, as columns of length n."""

    def __init__(
        self,
        data: Any,
        *,
        criteria: bool = False,
        by: str | None = None,
        judged: Iterable[Example] = (),
    ) -> None:
        """Read a data set.

        Args:
            data: Rows with ratings.
            criteria: Whether to add a row for each criterion of a rubric.
            by: Field that names the subset of each row.
            judged: Data that a run judged: rows without a source, such as a table of ratings by id,
                have the source of the text with their id. Rows with another source are marked.
        """
        self.ids: list[str] = []
        self.systems: list[str | None] = []
        """The author of each row."""
        self.groups: list[str | None] = []
        """The source of each row: its group, or else the source text that it shares with other rows
        (`source_names`); `None` if the row is a source of its own."""
        self.words: list[int] = []
        """Number of words of each output."""
        self.texts: list[str] = []
        """Digest of each text (`text_digest`); empty for a row without one."""
        self.other_texts: tuple[str, ...] = ()
        """Ids of rows that were left out because another text was judged under that id."""
        self.annotators: list[Annotators] = []
        """Single ratings of each row by aspect."""
        self.paired: list[bool] = []
        """Whether each row is a pair of texts."""
        self.by = by
        """The field that divides the data into subsets; `None` without subsets."""
        self.subsets: list[str | None] = []
        """Each row's value of that field."""
        self._materials: list[tuple[str, ...]] = []
        """Digests of source, passages and images of each row."""
        self._examples: list[str] = []
        """Id of each row's example; the criteria of its rubric are rows as well."""
        self._human: list[Human] = []
        self._probabilities: list[float | None] = []
        examples = data if isinstance(data, Examples) else Examples(data, needs_output=False)
        self._reader, self._names = examples.labels, examples.rater_names
        listed: dict[tuple[str, ...], None] = {}
        groups: list[str | None] = []
        sources: dict[str, str | None] = {}
        for example in examples:
            groups.append(example.group)
            sources[example.id] = source_digest(example)
            human, annotators = dict(example.human), dict(example.annotators)
            if annotators and isinstance(own_names := example.meta.get("raters"), list):
                listed[tuple(map(str, own_names))] = None
            _add_members(human, annotators, examples.labels.declared)
            self._add(example, example.id, human, annotators)
            for criterion in example.rubric if criteria else ():
                verdict = None if criterion.human is None else nearest_label(criterion.human)
                if verdict is not None:
                    verdicts: Human = dict.fromkeys(criterion_names(criterion.tags), verdict)
                    self._add(example, criterion_id(example.id, criterion.id), verdicts, {})
        named = dict(zip(sources, source_names(groups, list(sources.values())), strict=True))
        self.sources = sources
        """`source_digest` of each row's example, by its id."""
        if None in named.values():
            source_of = sources_by_id(judged)
            named = {id_: name or source_of.get(id_) for id_, name in named.items()}
        self.groups = [named[example] for example in self._examples]
        self._seen_by_judge = (
            {} if examples.is_same_file(judged) else {e.id: material_digests(e) for e in judged}
        )
        self.of_other_source = [
            not all(map(may_be_one_text, digests, self._seen_by_judge.get(example, digests)))
            for example, digests in zip(self._examples, self._materials, strict=True)
        ]
        """Whether each row's source or passages differ from what the judge saw under its id, as far
        as both are known."""
        names = [name for human in self._human for name in human]
        names += [name for annotators in self.annotators for name in annotators]
        self.aspects = tuple(dict.fromkeys(names))
        """All human aspects."""
        # `annotate` writes the names into each row; names that change from row to row do not name a
        # column
        self._listed = next(iter(listed)) if len(listed) == 1 else ()

    def of_texts(self, judged: Mapping[str, str]) -> People:
        """Return the rows of judged texts, without rows that have another text under the same id.

        Rows without a text, and rows whose judged text is not recorded, belong to the score with
        their id.

        Args:
            judged: Digest of the judged text by id, as `texts_of` returns it.
        """
        selected = [
            may_be_one_text(text, judged.get(example, ""))
            for example, text in zip(self._examples, self.texts, strict=True)
        ]
        if all(selected):
            return self
        part = self._select(selected)
        other = set(compress(self._examples, map(not_, selected)))
        part.other_texts = (*self.other_texts, *sorted(other))
        return part

    def without(self, ids: Collection[str]) -> People:
        """Return the rows without some examples."""
        return self._select([example not in ids for example in self._examples])

    def _select(self, selected: Sequence[bool]) -> People:
        part = copy(self)
        for name, column in vars(self).items():
            if isinstance(column, list):
                setattr(part, name, list(compress(column, selected)))
        return part

    def count_without_text(self, judged: Mapping[str, str]) -> int:
        """Return the number of rated rows without a text whose judged text is recorded."""
        rows = zip(self._examples, self.texts, self._human, self.annotators, strict=True)
        return sum(
            not text and example in judged and bool(human or single)
            for example, text, human, single in rows
        )

    def materials(self) -> dict[str, tuple[str, ...]]:
        """Return digests of the source, passages, images and references by id."""
        return dict(zip(self._examples, self._materials, strict=True)) | self._seen_by_judge

    def count_other_sources(self) -> int:
        """Return the number of rated rows whose text was judged with another source."""
        rows = zip(self.of_other_source, self._human, self.annotators, strict=True)
        return sum(other and bool(human or single) for other, human, single in rows)

    def _add(self, example: Example, id_: str, human: Human, annotators: Annotators) -> None:
        self.ids.append(id_)
        self._examples.append(example.id)
        self.systems.append(example.system)
        self.words.append(len(example.output.split()))
        self.texts.append(text_digest(example))
        self._materials.append(material_digests(example))
        self._human.append(human)
        self.annotators.append(annotators)
        self.paired.append(example.meta.get(OTHER_OUTPUT) is not None)
        self.subsets.append(_subset(example, self.by))
        probability = example.meta.get(SAMPLING_PROBABILITY)
        self._probabilities.append(check_probability(example.id, probability))

    def only(self, subset: str) -> People:
        """Return the rows of one subset."""
        return self._select([value == subset for value in self.subsets])

    @property
    def has_groups(self) -> bool:
        """Whether any row names its source."""
        return any(group is not None for group in self.groups)

    def groups_of(self, aspect: str) -> list[str | None] | None:
        """Return the source of each row; all criteria of an example share its source."""
        if not is_of_criteria(aspect):
            return self.groups if self.has_groups else None
        return [
            id_.rpartition("#criterion-")[0] if group is None else group
            for id_, group in zip(self.ids, self.groups, strict=True)
        ]

    def ratings(self, aspect: str) -> Floats:
        """Return mean ratings, shape (n,); without a given mean, the mean of the annotators."""
        return np.array(
            [
                _mean(human.get(aspect), annotators.get(aspect, ()))
                for human, annotators in zip(self._human, self.annotators, strict=True)
            ]
        )

    def align(self, values: Mapping[str, float | None]) -> list[float | None]:
        """Return the value of each row, given values by id; `None` for rows without one."""
        return [values.get(id_) for id_ in self.ids]

    def raters(self, aspect: str) -> Floats:
        """Return single ratings, shape (n, raters), NaN in the gaps."""
        return rating_table([annotators.get(aspect, ()) for annotators in self.annotators])

    def rater_names(self, aspect: str) -> tuple[str, ...]:
        """Return the raters' names in order of the columns of `raters`; numbers if unknown."""
        names = self._names(aspect) or self._listed
        width = self.raters(aspect).shape[1]
        return names if len(names) == width else tuple(str(at + 1) for at in range(width))

    def has_rating(self, aspect: str) -> list[bool]:
        """Return whether each row has a rating."""
        return [
            any(rating is not None for rating in (human.get(aspect), *single.get(aspect, ())))
            for human, single in zip(self._human, self.annotators, strict=True)
        ]

    def labels(self, aspect: str, scale: LabelScale) -> list[float | None] | None:
        """Return the label that people gave each text; `None` if some ratings are not labels."""
        single = [ratings.get(aspect, ()) for ratings in self.annotators]
        return labels_given(single, [ratings.get(aspect) for ratings in self._human], scale)

    def are_words(self, aspect: str) -> bool:
        """Return whether people gave words, such as pass and fail."""
        return any(self._reader.are_words(field, aspect) for field in ("human", "annotators"))

    def yes_no_words(self, aspect: str) -> LabelScale:
        """Return the words for no and yes that people used."""
        return LabelScale(self._reader.pair("human", aspect) or YES_NO.names)

    def probabilities(self, plan: Mapping[str, float] | None) -> Floats | None:
        """Return each row's probability of being drawn for rating; `None` if no row has one."""
        listed = self._probabilities if plan is None else [plan.get(id_) for id_ in self.ids]
        if all(probability is None for probability in listed):
            return None
        return np.array(listed, float)

    def check_levels(self, levels: Collection[Level]) -> None:
        """Raise if a row with ratings lacks a field that a level needs."""
        for level, labels in (("group", self.groups), ("system", self.systems)):
            if level not in levels:
                continue
            if all(label is None for label in labels):
                raise ConfigurationError(
                    f"level {level!r} needs the field {level!r} in the data, and no example has it"
                )
            for id_, label, human in zip(self.ids, labels, self._human, strict=True):
                if label is None and human:
                    raise DataError(
                        f"level {level!r} needs the field {level!r} in the data; example {id_!r}"
                        " has none"
                    )


def subset_names(*sides: People) -> list[str]:
    """Return the values of the field that divides the data, in alphabetical order."""
    names = sorted({subset for people in sides for subset in people.subsets if subset is not None})
    by = sides[0].by
    if not names:
        raise ConfigurationError(f"by={by!r} names a field that no example has")
    if len(names) > 100:  # a table with one row per id or source would be useless
        raise ConfigurationError(
            f"by={by!r} would divide the data into {len(names)} subsets, and at most 100 can be"
            " read"
        )
    return names


def outside_subsets(people: People) -> Iterator[Note]:
    """Yield the number of rows that lack the field by which the data are divided, if any does."""
    if lacking := people.subsets.count(None):
        yield Note(
            f"{lacking:,} of {len(people.ids):,} rows have no {people.by!r} and are in no subset",
            warning=True,
        )


def _subset(example: Example, by: str | None) -> str | None:
    """Return an example's value of a field, as text; a field of the data or one of textassay's."""
    if by is None:
        return None
    name = by.removeprefix("meta.")
    value = getattr(example, name) if name in ("system", "group") else example.meta.get(name)
    # a blank value is missing, as in the cells of a table
    return None if value is None else str(value).strip() or None


def _add_members(human: Human, annotators: Annotators, declared: Mapping[str, LabelScale]) -> None:
    """Add a column of 0 and 1 for each label of an aspect whose labels have no order."""
    for name, scale in declared.items():
        for at, label in enumerate(scale.names if scale.is_nominal else ()):
            member = member_name(name, label)
            if (rating := human.get(name)) is not None:
                human[member] = float(rating == at)
            if name in annotators:
                annotators[member] = tuple(
                    None if label is None else float(label == at) for label in annotators[name]
                )


def _mean(human: float | None, annotators: tuple[float | None, ...]) -> float:
    if human is not None:
        return human
    ratings = [rating for rating in annotators if rating is not None]
    return math.fsum(ratings) / len(ratings) if ratings else math.nan


def check_probability(id_: str, value: Any) -> float | None:
    """Return a sampling probability as a number; `None` if it is missing."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    # NaN fails this comparison too; 0 would be a divisor
    if not 0 < number <= 1:
        raise DataError(
            f"example {id_!r}: {SAMPLING_PROBABILITY} must be above 0 and at most 1, not {value!r}"
        )
    return number


def _check_shared_texts(scored: Collection[str], people: People) -> None:
    """Raise unless some text is in both: nearly always these are two files of different data."""
    if {*scored} & {*people.ids}:
        return
    if not scored:
        raise DataError("no scores were found")
    if people.other_texts:
        raise DataError(
            f"the data have other texts than were judged: {len(people.other_texts)} rows have ids"
            f" of the scores ({some_ids(people.other_texts)}), and none of them has the text that"
            " was judged, so their ratings are of something else; give the data that were judged"
        )
    raise DataError(
        f"no id occurs in both scores and data: the scores have {some_ids(scored)}, the data"
        f" {some_ids(people.ids)}; give the data that were scored{_hint(scored, people.ids)}"
    )


def _hint(*sides: Collection[str]) -> str:
    """Return advice if all ids of one side are whole numbers with a decimal."""
    if any(ids and all(re.fullmatch(r"\d+\.0", id_) for id_ in ids) for ids in sides):
        return "; pandas adds the '.0' where a column lacks some numbers: remove it"
    return ""


def join_notes(
    other_texts: Collection[str], without_text: int = 0, unknown: int = 0, other_sources: int = 0
) -> Iterator[Note]:
    """Yield the number of rows left out because another text was judged under their ids.

    Also yield notes on rated rows without a text, which may belong to any text, on rows whose text
    was judged with another source, and on scores without a row.
    """
    if without_text:
        yield Note(
            f"{without_text} rated rows have no text: only their ids show that their ratings "
            "belong to the judged texts"
        )
    if other_texts:
        yield Note(
            f"{len(other_texts)} rows of the data have other texts than were judged under their ids"
            f" ({some_ids(other_texts)}); they and their ratings were left out",
            warning=True,
        )
    if other_sources:
        yield Note(
            f"{other_sources} rated rows have the judged text with another source, or other"
            " passages, images or references, than the judge saw: their ratings are used, and say"
            " nothing where an aspect compares the text with these",
            warning=True,
        )
    if unknown:
        yield Note(f"{unknown} scored ids are not in the data and were left out", warning=True)


def some_ids(ids: Iterable[str]) -> str:
    """Return up to three ids as text."""
    first = sorted(ids)[:3]
    return ", ".join(map(repr, first)) + ", ..." if first else "none"
