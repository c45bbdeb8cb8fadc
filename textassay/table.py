"""A result as a table: columns, rows, and the notes without which its figures would be misread.

Imports nothing of textassay, so that every layer may return tables; `textassay.display` draws them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

Kind = Literal["text", "number", "count", "share", "interval", "p", "picture"]
"""What a column holds; a share is printed in percent, and only HTML shows pictures (SVG)."""
DIGITS: dict[Kind, int] = {"number": 3, "interval": 3, "p": 4, "share": 0}


class HasInterval(Protocol):
    """A value with the ends of its interval, such as `calibration.Estimate`."""

    @property
    def value(self) -> float | None:
        """The value; `None` if undefined."""

    @property
    def low(self) -> float | None:
        """Lower end; `None` without an interval."""

    @property
    def high(self) -> float | None:
        """Upper end; `None` without an interval."""


class Interval(NamedTuple):
    """A value with the ends of its interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Flag(str):
    """A word that asks for attention, such as `fails`."""

    __slots__ = ()


Cell = str | int | float | HasInterval | None
"""A value of the column's kind, or `None` if undefined; a string stands as it is in any column."""


@dataclass(frozen=True, slots=True)
class Column:
    """What the cells of one column are.

    Attributes:
        name: What code calls it.
        heading: What readers see above it; empty for none.
        kind: What it holds.
        digits: Decimals of its figures; by default those of the kind.
    """

    name: str
    heading: str
    kind: Kind = "text"
    digits: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader must know about the figures of a table.

    Attributes:
        text: One sentence.
        warning: Whether it casts doubt on a figure.
    """

    text: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Figures, and the notes that go wherever they go.

    Attributes:
        columns: From left to right.
        rows: Cells, one per column.
        notes: What to know about the figures; equal ones are shown once.
        title: What the table is; empty if its headings say it.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    notes: tuple[Note, ...] = ()
    title: str = ""

    def without(self, *names: str) -> Table:
        """Return the table without some columns."""
        kept = [at for at, column in enumerate(self.columns) if column.name not in names]
        return replace(
            self,
            columns=tuple(self.columns[at] for at in kept),
            rows=[[row[at] for at in kept] for row in self.rows],
        )

    def with_column(self, column: Column, cells: Sequence[Cell], *, after: str) -> Table:
        """Return the table with one more column, a cell for each row."""
        at = 1 + [one.name for one in self.columns].index(after)
        return replace(
            self,
            columns=(*self.columns[:at], column, *self.columns[at:]),
            rows=[[*row[:at], cell, *row[at:]] for row, cell in zip(self.rows, cells, strict=True)],
        )


def stacked(tables: Iterable[Table]) -> list[Table]:
    """Return tables with equal columns as one, such as those of several aspects."""
    found: dict[tuple[str, tuple[Column, ...]], Table] = {}
    for table in tables:
        key = (table.title, table.columns)
        above = found.get(key, replace(table, rows=(), notes=()))
        found[key] = replace(
            above,
            rows=[*above.rows, *table.rows],
            notes=tuple(dict.fromkeys((*above.notes, *table.notes))),
        )
    return list(found.values())
