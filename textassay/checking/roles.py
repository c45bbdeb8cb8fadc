"""Finds the columns of the judge, of people, of the source that texts share, and of the system.

Names decide (`column_names`): words that people use for judges (judge, llm, gpt-4o, score) and for
people (human, expert, gold, user_1, rating), in several languages. A side is the columns whose
names have the strongest of its words. If one side has none, it gets the columns whose names say
nothing. Ambiguous names are never guessed: the error says which command to type.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from textassay.checking.aspects import ColumnPair, pair_columns
from textassay.checking.column_names import (
    OWN_FIELDS,
    NameSide,
    Side,
    columns_named,
    field_of,
    rates_nothing,
    repeats,
    side_of,
)
from textassay.checking.table_reader import CellReader, RawTable, are_names, polarity
from textassay.runtime.errors import ConfigurationError, UnknownName


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns are whose."""

    pairs: list[ColumnPair]
    """A column of the judge and one of people, which rate the same aspect."""
    group: str | None
    """The column that names the source of each text; `None` without one."""
    system: str | None
    """The column that names the system of each text; `None` without one."""
    unused: list[str] = field(default_factory=list)
    """Unused columns that could contain ratings."""


def find_roles(
    table: RawTable,
    columns: Mapping[str, CellReader],
    *,
    judge: Sequence[str] = (),
    human: Sequence[str] = (),
    group: str | None = None,
) -> Roles:
    """Find the columns of the judge and of people.

    Args:
        table: The table.
        columns: Its columns, read.
        judge: Names of the judge's columns, if given.
        human: Names of people's columns, if given.
        group: Name of the column of sources, if given.

    Raises:
        UnknownName: There is no column of a given name.
        ConfigurationError: Names do not show which columns are the judge's and which are people's;
            the message says what to type.
    """
    given: dict[Side, list[str]] = {
        "judge": [_find_given(name, table, "judge") for name in judge],
        "human": [_find_given(name, table, "human") for name in human],
    }
    group = _find_given(group, table, "group") if group else _find_group(table)
    system = _find_system(columns, group)
    taken = {*given["judge"], *given["human"], group, system}
    candidates = [name for name in _rating_columns(columns) if name not in taken]
    search = _SideSearch(columns, candidates, given).run()
    if not search.found["judge"] or not search.found["human"]:
        raise _unknown_sides(table, search)
    pairs = pair_columns(
        table.name, search.found["judge"], search.found["human"], named=bool(given["judge"])
    )
    return Roles(pairs, group, system, search.left)


def _find_given(name: str, table: RawTable, what: str) -> str:
    """Return the column of this name, whose case and field (`human.`, `metrics.`) may be left out.

    `what` names its role in errors.
    """
    if name in table.columns:
        return name
    plain = name.casefold()
    same = [
        one
        for one in table.columns
        if plain in (one.casefold(), table.shown.get(one, one).casefold())
    ]
    if not same:
        full_names = (f"{kind}.{name}" for kind in ("metrics", "human"))
        same = [one for one in full_names if one in table.columns]
    if len(same) != 1:
        raise UnknownName(f"{what} column", name, list(table.columns))
    return same[0]


def _find_group(table: RawTable) -> str | None:
    """Return the first column that is named like sources and has one of them several times."""
    named = columns_named("group", table.columns)
    return next((name for name in named if repeats(table.columns[name])), None)


def _find_system(columns: Mapping[str, CellReader], group: str | None) -> str | None:
    """Return the first column that is named like systems and contains names of some."""
    named = [name for name in columns_named("system", columns) if name != group]
    return next((name for name in named if _names_systems(name, columns)), None)


def _names_systems(name: str, columns: Mapping[str, CellReader]) -> bool:
    """Return whether a column contains names of systems: few different ones for many texts."""
    cells = columns[name]
    known = set(cells.filled)
    # a column of yes and no, or of grades, may be called `bot`
    if not are_names(cells) or not 2 <= len(known) <= max(2, len(cells.filled) // 2):
        return False
    # other columns with these names may say which system is the best one
    sharing = [one for one in columns if one != name and known & set(columns[one].filled)]
    return not sharing or any(side_of(one).side == "judge" for one in sharing)


def _rating_columns(columns: Mapping[str, CellReader]) -> list[str]:
    """Return the columns that may hold scores or ratings."""
    fields = {field_of(name) for name in columns} & OWN_FIELDS.keys()
    # a table with ratings in textassay's format has no others
    is_own_format = fields > {"metrics"}
    return [
        name
        for name, cells in columns.items()
        if (field_of(name) in OWN_FIELDS or not is_own_format)
        and (cells.kind == "words" or (cells.kind == "number" and not _are_ids(cells)))
        and not rates_nothing(name)
    ]


def _are_ids(cells: CellReader) -> bool:
    """Return whether each number is one more than the last, and there are at least four."""
    values = [float(value) for value in cells.filled]
    return len(values) > 3 and all(b - a == 1 for a, b in pairwise(values))


class _SideSearch:
    """Divides the columns that may hold ratings between the judge and people.

    Columns that the user gave stay; only the other side is searched.
    """

    def __init__(
        self,
        columns: Mapping[str, CellReader],
        candidates: list[str],
        given: Mapping[Side, list[str]],
    ) -> None:
        self.columns, self.candidates, self.given = columns, candidates, given
        self.sides: dict[str, NameSide] = {name: side_of(name) for name in candidates}
        self.found = {side: own or self._strongest(side, candidates) for side, own in given.items()}
        self.left: list[str] = []
        """Candidates on neither side."""

    def run(self) -> _SideSearch:
        """Find both sides as far as names and values show them."""
        self._leave_out_systems()
        self._leave_out_incomparable("human", self.found["judge"])
        self._leave_out_incomparable("judge", self.found["human"])
        found = {*self.found["judge"], *self.found["human"]}
        self.left = [name for name in self.candidates if name not in found]
        self._complete("judge", "human")
        self._complete("human", "judge")
        return self

    def _strongest(self, side: Side, names: Iterable[str]) -> list[str]:
        """Return the columns whose names have the strongest words of a side."""
        own = {name: one.strength for name in names if (one := self.sides[name]).side == side}
        return [name for name in own if own[name] == max(own.values())]

    def _leave_out_systems(self) -> None:
        """Leave out names such as `machine`, beside ratings: the systems that wrote the texts."""
        are_ratings = any(self.columns[one].kind == "number" for one in self.found["human"])
        are_systems = all(are_names(self.columns[one]) for one in self.found["judge"])
        if are_ratings and are_systems and not self.given["judge"]:
            self.found["judge"] = []
            self.candidates = [one for one in self.candidates if not are_names(self.columns[one])]

    def _leave_out_incomparable(self, side: Side, others: Sequence[str]) -> None:
        """Leave out columns such as `user` whose values cannot be compared with the other side's.

        If no other column has the strongest words of the side, weaker words decide.
        """
        if self.given[side] or not self.found[side] or not others:
            return
        fits = [one for one in self.sides if self._is_comparable(one, others)]
        kept = [one for one in self.found[side] if one in fits]
        self.found[side] = kept or self._strongest(side, (one for one in fits if one not in others))

    def _complete(self, side: Side, other: Side) -> None:
        """Fill the `other` side, if it is empty, with columns whose names say nothing.

        `side` is the known one; if only weak words show it, it is unknown as well.
        """
        found = self.found[side]
        if not found or self.found[other]:
            return
        # weak words alone ("score_1", "score_2") do not mean two judges without people
        if not self.given[side] and max(self.sides[one].strength for one in found) == 1:
            self.found[side], self.left = [], self.candidates
        elif not self.given[other]:
            self.found[other] = alike = self._alike(found)
            self.left = [name for name in self.left if name not in alike]

    def _alike(self, known: list[str]) -> list[str]:
        """Return the columns that may be the side other than the known columns'.

        There are several only if their values have a form of the known ones'.
        """
        if len(self.left) <= 1:
            return self.left
        forms = {_form(self.columns[name]) for name in known}
        alike = [name for name in self.left if _form(self.columns[name]) in forms]
        # a column of questions contains words like a column of labels, but other ones
        return [name for name in alike if self._is_comparable(name, known)] or alike

    def _is_comparable(self, name: str, others: Iterable[str]) -> bool:
        return any(_are_comparable(self.columns[name], self.columns[one]) for one in others)


def _are_comparable(a: CellReader, b: CellReader) -> bool:
    """Return whether two columns are comparable: numbers, or labels that occur in both."""
    if a.kind == b.kind == "number":
        return True
    words = [{str(value) for value in one.filled} for one in (a, b) if one.kind == "words"]
    known = all(map(polarity, words))
    return known or (len(words) == 2 and bool(words[0] & words[1]))


def _form(cells: CellReader) -> tuple[str, float]:
    """Return the form of the values: words, or numbers and the top of the usual scale they fit."""
    if cells.kind == "words":
        return "words", 0
    largest = max(abs(float(value)) for value in cells.filled)
    return "number", next((top for top in (1, 5, 7, 10, 100) if largest <= top), math.inf)


def _unknown_sides(table: RawTable, search: _SideSearch) -> ConfigurationError:
    """Return the error on unknown sides, with the command that names them."""
    judges, people, left = search.found["judge"], search.found["human"], search.left
    # names such as `model_a` and `model_b` are not sure (3): one of them may be people's
    is_sure = any(side_of(one).strength == 3 for one in judges)
    if not left and not people and len(judges) > 1 and not is_sure:
        judges, left = [], judges
    if not left or (len(left) < 2 and not judges and not people):
        return _missing_side(table, "people's ratings" if judges else "a judge's scores")
    listed, first = ", ".join(map(repr, left[:8])), shlex.quote(left[0])
    if judges:
        what, typed = f"which column is people's: {listed}", f"--human {first}"
    elif people:
        what, typed = f"which column is the judge's: {listed}", f"--judge {first}"
    else:
        what = f"which column is the judge's and which is people's: {listed} look alike"
        typed = f"--judge {first} --human {shlex.quote(left[1])}, or the other way round"
    return ConfigurationError(
        f"{table.name}: cannot say {what}; type: textassay check {shlex.quote(table.name)} {typed}"
    )


def _missing_side(table: RawTable, what: str) -> ConfigurationError:
    """Return the error on a table without any column that may be a side."""
    found = ", ".join(map(repr, list(table.columns)[:12]))
    if len(table.columns) == 1:
        return ConfigurationError(
            f"{table.name}: has one column, {found}, and a check needs two: the judge's and"
            " people's; commas, semicolons, tabs or bars separate columns"
        )
    return ConfigurationError(
        f"{table.name}: found no column with {what}; there are {found}. A column of each is needed,"
        " of numbers or labels; name them: textassay check"
        f" {shlex.quote(table.name)} --judge COLUMN --human COLUMN"
    )
