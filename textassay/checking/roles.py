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

from textassay.checking import vocabulary
from textassay.checking.aspects import ColumnPair, pair_columns
from textassay.checking.column_names import (
    OWN_FIELDS,
    NameSide,
    Side,
    field_of,
    rates_nothing,
    repeats,
    side_of,
)
from textassay.checking.table_reader import CellReader, RawTable, are_names, polarity
from textassay.runtime.column_names import columns_named
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
    given_columns: dict[Side, list[str]] = {
        "judge": [_find_given(name, table, "judge") for name in judge],
        "human": [_find_given(name, table, "human") for name in human],
    }
    group = _find_given(group, table, "group") if group else _find_group(table)
    system = _find_system(columns, group)
    assigned = {*given_columns["judge"], *given_columns["human"], group, system}
    candidates = [name for name in _rating_columns(columns) if name not in assigned]
    search = _SideSearch(columns, candidates, given_columns).run()
    judges, people = search.by_side["judge"], search.by_side["human"]
    if not judges or not people:
        raise _unknown_sides(table, search)
    pairs = pair_columns(table.name, judges, people, named=bool(given_columns["judge"]))
    return Roles(pairs, group, system, search.unassigned)


def _find_given(name: str, table: RawTable, role: str) -> str:
    """Return the column of this name, whose case and field (`human.`, `metrics.`) may be left out.

    `role` names it in errors.
    """
    if name in table.columns:
        return name
    plain = name.casefold()
    same = [c for c in table.columns if plain in (c.casefold(), table.shown.get(c, c).casefold())]
    if not same:
        full_names = (f"{kind}.{name}" for kind in ("metrics", "human"))
        same = [full_name for full_name in full_names if full_name in table.columns]
    if len(same) != 1:
        raise UnknownName(f"{role} column", name, list(table.columns))
    return same[0]


def _find_group(table: RawTable) -> str | None:
    """Return the first column that is named like sources and has one of them several times."""
    named = columns_named(vocabulary.names("group"), table.columns)
    return next((name for name in named if repeats(table.columns[name])), None)


def _find_system(columns: Mapping[str, CellReader], group: str | None) -> str | None:
    """Return the first column that is named like systems and contains names of some."""
    named = [name for name in columns_named(vocabulary.names("system"), columns) if name != group]
    return next((name for name in named if _names_systems(name, columns)), None)


def _names_systems(name: str, columns: Mapping[str, CellReader]) -> bool:
    """Return whether a column contains names of systems: few different ones for many texts."""
    cells = columns[name]
    names = set(cells.filled)
    # a column of yes and no, or of grades, may be called `bot`
    if not are_names(cells) or not 2 <= len(names) <= max(2, len(cells.filled) // 2):
        return False
    # other columns with these names may say which system is the best one
    sharing = [c for c in columns if c != name and names & set(columns[c].filled)]
    return not sharing or any(side_of(column).side == "judge" for column in sharing)


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

    Columns that the user named stay; only the other side is searched.
    """

    def __init__(
        self,
        columns: Mapping[str, CellReader],
        candidates: list[str],
        named: Mapping[Side, list[str]],
    ) -> None:
        self.columns, self.candidates, self.named = columns, candidates, named
        self.sides: dict[str, NameSide] = {name: side_of(name) for name in candidates}
        self.by_side = {
            side: names or self._strongest(side, candidates) for side, names in named.items()
        }
        self.unassigned: list[str] = []
        """Candidates on neither side."""

    def run(self) -> _SideSearch:
        """Find both sides from names and values."""
        self._leave_out_systems()
        self._leave_out_incomparable("human", self.by_side["judge"])
        self._leave_out_incomparable("judge", self.by_side["human"])
        assigned = {*self.by_side["judge"], *self.by_side["human"]}
        self.unassigned = [name for name in self.candidates if name not in assigned]
        self._complete("judge", "human")
        self._complete("human", "judge")
        return self

    def _strongest(self, side: Side, names: Iterable[str]) -> list[str]:
        """Return the columns whose names have the strongest words of a side."""
        levels = {
            name: entry.strength for name in names if (entry := self.sides[name]).side == side
        }
        return [name for name in levels if levels[name] == max(levels.values())]

    def _leave_out_systems(self) -> None:
        """Leave out names such as `machine`, beside ratings: the systems that wrote the texts."""
        are_ratings = any(self.columns[column].kind == "number" for column in self.by_side["human"])
        are_systems = all(are_names(self.columns[column]) for column in self.by_side["judge"])
        if are_ratings and are_systems and not self.named["judge"]:
            self.by_side["judge"] = []
            self.candidates = [c for c in self.candidates if not are_names(self.columns[c])]

    def _leave_out_incomparable(self, side: Side, others: Sequence[str]) -> None:
        """Leave out columns such as `user` whose values cannot be compared with the other side's.

        If no other column has the strongest words of the side, weaker words decide.
        """
        if self.named[side] or not self.by_side[side] or not others:
            return
        fits = [column for column in self.sides if self._is_comparable(column, others)]
        comparable = [column for column in self.by_side[side] if column in fits]
        weaker = (column for column in fits if column not in others)
        self.by_side[side] = comparable or self._strongest(side, weaker)

    def _complete(self, side: Side, other: Side) -> None:
        """Fill the `other` side, if it is empty, with columns whose names say nothing.

        `side` is the known one; if only weak words show it, it is unknown as well.
        """
        columns = self.by_side[side]
        if not columns or self.by_side[other]:
            return
        # weak words alone ("score_1", "score_2") do not mean two judges without people
        if not self.named[side] and max(self.sides[column].strength for column in columns) == 1:
            self.by_side[side], self.unassigned = [], self.candidates
        elif not self.named[other]:
            self.by_side[other] = alike = self._alike(columns)
            self.unassigned = [name for name in self.unassigned if name not in alike]

    def _alike(self, columns: list[str]) -> list[str]:
        """Return the columns that may be the side other than the known columns'.

        There are several only if their values have a form of the known ones'.
        """
        if len(self.unassigned) <= 1:
            return self.unassigned
        forms = {_form(self.columns[name]) for name in columns}
        alike = [name for name in self.unassigned if _form(self.columns[name]) in forms]
        # a column of questions contains words like a column of labels, but other ones
        return [name for name in alike if self._is_comparable(name, columns)] or alike

    def _is_comparable(self, name: str, others: Iterable[str]) -> bool:
        return any(_are_comparable(self.columns[name], self.columns[other]) for other in others)


def _are_comparable(a: CellReader, b: CellReader) -> bool:
    """Return whether two columns are comparable: numbers, or labels that occur in both."""
    if a.kind == b.kind == "number":
        return True
    words = [{str(value) for value in cells.filled} for cells in (a, b) if cells.kind == "words"]
    have_polarity = all(map(polarity, words))
    return have_polarity or (len(words) == 2 and bool(words[0] & words[1]))


def _form(cells: CellReader) -> tuple[str, float]:
    """Return the form of the values: words, or numbers and the top of the usual scale they fit."""
    if cells.kind == "words":
        return "words", 0
    largest = max(abs(float(value)) for value in cells.filled)
    return "number", next((top for top in (1, 5, 7, 10, 100) if largest <= top), math.inf)


def _are_texts(cells: CellReader) -> bool:
    """Return whether cells are texts rather than labels: long, or all different, of some words."""
    if cells.kind != "words":
        return False
    texts = list(map(str, cells.filled))
    longest = max(len(text.split()) for text in texts)
    return longest > 12 or (longest > 2 and len(set(texts)) == len(texts))


def _unknown_sides(table: RawTable, search: _SideSearch) -> ConfigurationError:
    """Return the error on unknown sides, with the command that names them."""
    judges, people = search.by_side["judge"], search.by_side["human"]
    unused = [name for name in search.unassigned if not _are_texts(search.columns[name])]
    # names such as `model_a` and `model_b` are not sure (3): one of them may be people's
    is_sure = any(side_of(judge).strength == 3 for judge in judges)
    if not unused and not people and len(judges) > 1 and not is_sure:
        judges, unused = [], judges
    if not unused or (len(unused) < 2 and not judges and not people):
        is_one_known = judges or people
        missing = "people's ratings" if judges else "a judge's scores"
        return _missing_side(table, missing if is_one_known else "scores or ratings")
    listed, first = ", ".join(map(repr, unused[:8])), shlex.quote(unused[0])
    if judges:
        query, typed = f"which column is people's: {listed}", f"--human {first}"
    elif people:
        query, typed = f"which column is the judge's: {listed}", f"--judge {first}"
    else:
        query = f"which column is the judge's and which is people's: {listed} look alike"
        typed = f"--judge {first} --human {shlex.quote(unused[1])}, or the other way round"
    return ConfigurationError(
        f"{table.name}: cannot say {query}; type: textassay check {shlex.quote(table.name)} {typed}"
    )


def _missing_side(table: RawTable, role: str) -> ConfigurationError:
    """Return the error on a table without any column that may be a side."""
    listed = ", ".join(map(repr, list(table.columns)[:12]))
    if len(table.columns) == 1:
        return ConfigurationError(
            f"{table.name}: has one column, {listed}, and a check needs two: the judge's and"
            " people's; commas, semicolons, tabs or bars separate columns"
        )
    return ConfigurationError(
        f"{table.name}: found no column with {role}; there are {listed}. A column of each is"
        " needed, of numbers or labels; name them: textassay check"
        f" {shlex.quote(table.name)} --judge COLUMN --human COLUMN"
    )
