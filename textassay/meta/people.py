"""People's side of a comparison: ids, systems, sources and ratings of a data set, as columns."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from textassay.meta.correlation import Floats, Level
from textassay.meta.score_files import criterion_id, criterion_names, is_of_criteria
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.ratings import SAMPLING_PROBABILITY
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.labels import (
    YES_NO,
    LabelScale,
    labels_given,
    member_name,
    nearest_label,
)
from textassay.runtime.messages import Example

Human = dict[str, float | None]
Annotators = dict[str, tuple[float | None, ...]]


class People:
    """Ids, systems, sources and human ratings of a data set, as columns.

    Attributes:
        ids: Id of each row, length n.
        systems: Who made each row, length n.
        groups: The source of each row, length n.
        words: Number of words of each output, length n.
        annotators: Single ratings of each row by aspect, length n.
        aspects: All human aspects.
    """

    def __init__(self, data: Any, *, criteria: bool = False) -> None:
        """Read a data set."""
        self.ids: list[str] = []
        self.systems: list[str | None] = []
        self.groups: list[str | None] = []
        self.words: list[int] = []
        self.annotators: list[Annotators] = []
        self._human: list[Human] = []
        self._probabilities: list[float | None] = []
        examples = data if isinstance(data, Examples) else Examples(data, needs_output=False)
        self._reader = examples.labels
        for example in examples:
            human, annotators = dict(example.human), dict(example.annotators)
            _add_members(human, annotators, examples.labels.declared)
            self._add(example, example.id, human, annotators)
            for criterion in example.rubric if criteria else ():
                verdict = None if criterion.human is None else nearest_label(criterion.human)
                if verdict is not None:
                    own: Human = dict.fromkeys(criterion_names(criterion.tags), verdict)
                    self._add(example, criterion_id(example.id, criterion.id), own, {})
        names = [name for human in self._human for name in human]
        names += [name for annotators in self.annotators for name in annotators]
        self.aspects = tuple(dict.fromkeys(names))

    def _add(self, example: Example, id_: str, human: Human, annotators: Annotators) -> None:
        self.ids.append(id_)
        self.systems.append(example.system)
        self.groups.append(example.group)
        self.words.append(len(example.output.split()))
        self._human.append(human)
        self.annotators.append(annotators)
        drawn = example.meta.get(SAMPLING_PROBABILITY)
        self._probabilities.append(check_probability(example.id, drawn))

    @property
    def has_groups(self) -> bool:
        """Whether any row says what its source is."""
        return any(group is not None for group in self.groups)

    def groups_of(self, aspect: str) -> list[str | None] | None:
        """Return the source of each row; criteria of one example are of one source."""
        if not is_of_criteria(aspect):
            return self.groups if self.has_groups else None
        return [
            id_.rpartition("#criterion-")[0] if group is None else group
            for id_, group in zip(self.ids, self.groups, strict=True)
        ]

    def ratings(self, aspect: str) -> Floats:
        """Return mean ratings, shape (n,); a row without a mean has that of its annotators."""
        return np.array(
            [
                _mean(human.get(aspect), annotators.get(aspect, ()))
                for human, annotators in zip(self._human, self.annotators, strict=True)
            ]
        )

    def raters(self, aspect: str) -> Floats:
        """Return single ratings, shape (n, raters), NaN in the gaps."""
        rows = [annotators.get(aspect, ()) for annotators in self.annotators]
        table = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
        for at, row in enumerate(rows):
            table[at, : len(row)] = np.array(row, float)
        return table

    def rated(self, aspect: str) -> list[bool]:
        """Return whether anybody rated each row."""
        return [
            any(one is not None for one in (human.get(aspect), *single.get(aspect, ())))
            for human, single in zip(self._human, self.annotators, strict=True)
        ]

    def labels(self, aspect: str, scale: LabelScale) -> list[float | None] | None:
        """Return the label that people gave each text; `None` if some are no labels."""
        single = [one.get(aspect, ()) for one in self.annotators]
        return labels_given(single, [one.get(aspect) for one in self._human], scale)

    def yes_no_words(self, aspect: str) -> LabelScale:
        """Return the words for no and yes that people used."""
        return LabelScale(self._reader.pair("human", aspect) or YES_NO.names)

    def probabilities(self, plan: Mapping[str, float] | None) -> Floats | None:
        """Return each row's probability of being drawn for rating; `None` if no row has one."""
        given = self._probabilities if plan is None else [plan.get(id_) for id_ in self.ids]
        if all(one is None for one in given):
            return None
        return np.array(given, float)

    def check_levels(self, levels: Collection[Level]) -> None:
        """Raise if a row with ratings lacks what a level needs."""
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


def _add_members(human: Human, annotators: Annotators, declared: Mapping[str, LabelScale]) -> None:
    """Add a column of 0 and 1 for each label of an aspect whose labels have no order."""
    for name, scale in declared.items():
        for at, label in enumerate(scale.names if scale.is_nominal else ()):
            own = member_name(name, label)
            if (rating := human.get(name)) is not None:
                human[own] = float(rating == at)
            if name in annotators:
                annotators[own] = tuple(
                    None if one is None else float(one == at) for one in annotators[name]
                )


def _mean(human: float | None, annotators: tuple[float | None, ...]) -> float:
    if human is not None:
        return human
    given = [one for one in annotators if one is not None]
    return math.fsum(given) / len(given) if given else math.nan


def check_probability(id_: str, value: Any) -> float | None:
    """Return a sampling probability as a number; `None` if there is none."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    # NaN fails this comparison too; 0 would be divided by
    if not 0 < number <= 1:
        raise DataError(
            f"example {id_!r}: {SAMPLING_PROBABILITY} must be above 0 and at most 1, not {value!r}"
        )
    return number


def refuse_other_ids(scored: Iterable[str], known: Iterable[str]) -> None:
    """Raise unless some id is in both: nearly always these are two files of different data."""
    if not {*scored} & {*known}:
        raise DataError(
            f"no id occurs in both scores and data: the scores have {some_ids(scored)}, the data"
            f" {some_ids(known)}; give the data that were scored"
        )


def some_ids(ids: Iterable[str]) -> str:
    """Return up to three ids as text."""
    shown = sorted(ids)[:3]
    return ", ".join(map(repr, shown)) + ", ..." if shown else "none"
