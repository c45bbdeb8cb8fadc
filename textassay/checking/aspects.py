"""Pairs each column of a judge with people's columns that rate the same aspect."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from textassay.checking import vocabulary
from textassay.checking.column_names import aspect_of, words_of
from textassay.runtime.errors import ConfigurationError


class ColumnPair(NamedTuple):
    """A judge's column, and people's columns that it is compared with."""

    judge: str
    people: list[str]


def pair_columns(
    table: str, judges: Sequence[str], people: Sequence[str], *, named: bool
) -> list[ColumnPair]:
    """Return each judge with the columns of people that rate the same aspect.

    If no aspect is in the names of both, every judge is compared with all of people's columns.

    Args:
        table: Name of the table, for messages.
        judges: Columns of judges.
        people: Columns of people.
        named: Whether the user named the judges.

    Raises:
        ConfigurationError: People rated several aspects, and no name of a judge has one of them.
    """
    people = _single_raters(people)
    aspects = {name: aspect_of(name) for name in people}
    matched = {judge: fitting for judge in judges if (fitting := _matching(judge, aspects))}
    if not matched:
        if _are_several(aspects):
            raise _unknown_aspect(table, judges[0], people)
        return [ColumnPair(judge, people) for judge in judges]
    if named and len(set(aspects.values())) == 1:
        # a requested measure whose name has no aspect, such as a number of words
        qualities = vocabulary.words("qualities")
        matched |= {
            judge: people
            for judge in judges
            if judge not in matched and qualities.isdisjoint(words_of(judge))
        }
    return [
        ColumnPair(judge, [name for name in fitting if aspects[name] == aspect])
        for judge, fitting in matched.items()
        for aspect in dict.fromkeys(aspects[name] for name in fitting)
    ]


def _single_raters(people: Sequence[str]) -> list[str]:
    """Return people's columns without means of other ones."""
    rated_singly = {name.split(".")[1] for name in people if name.startswith("annotators.")}
    people = [
        name
        for name in people
        if not (name.startswith("human.") and name.split(".", 1)[1] in rated_singly)
    ]
    pooled = vocabulary.words("pooled")
    single = [name for name in people if pooled.isdisjoint(words_of(name))]
    return single if len(single) > 1 else people


def _matching(judge: str, aspects: dict[str, frozenset[str]]) -> list[str]:
    """Return people's columns whose aspect is in the judge's name, only the closest ones."""
    words = frozenset(words_of(judge))
    fitting = {name: aspect for name, aspect in aspects.items() if aspect and aspect <= words}
    most = max(map(len, fitting.values()), default=0)
    return [name for name, aspect in fitting.items() if len(aspect) == most]


def _are_several(aspects: dict[str, frozenset[str]]) -> bool:
    """Return whether people's columns are several aspects rather than several raters."""
    rated = {name.split(".")[1] for name in aspects if name.startswith(("human.", "annotators."))}
    qualities = vocabulary.words("qualities")
    return len(rated) > 1 or len({words for words in aspects.values() if words & qualities}) > 1


def _unknown_aspect(table: str, judge: str, people: Sequence[str]) -> ConfigurationError:
    names = ", ".join(map(repr, people))
    return ConfigurationError(
        f"{table}: people's columns {names} seem to rate different things, and no name says which"
        f" {judge!r} is about; type: textassay check {shlex.quote(table)} --human"
        f" {shlex.quote(people[0])}"
    )
