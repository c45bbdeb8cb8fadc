"""Rows in memory: data frames, arrow tables and plain iterables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

from textassay.runtime.errors import DataError

Numbered = tuple[int, Any]
"""A row and where it stands, counted from 1."""
Decimal = Literal[".", ","]


class Table(Protocol):
    """Rows that can be gone through more than once."""

    name: str
    """What errors call it."""
    unit: Literal["line", "row"]
    """What rows are counted in."""
    is_plain: bool
    """Whether every value is known to be what JSON can hold."""

    @property
    def decimal(self) -> Decimal | None:
        """Decimal mark of the numbers that cells hold as text.

        `None` where no number, list or object is written as text.
        """
        ...

    def rows(self) -> Iterator[Numbered]:
        """Yield the rows, from the start."""
        ...

    def state(self) -> object:
        """Return something that changes when the rows may have."""
        ...


class Restartable:
    """An iterable that starts afresh each time."""

    def __init__(self, start: Any) -> None:
        self._start = start

    def __iter__(self) -> Iterator[Any]:
        return iter(self._start())


class Rows:
    """Rows in memory."""

    unit: Literal["line", "row"] = "row"
    decimal: Decimal | None = None
    is_plain = False

    def __init__(self, rows: Iterable[Any], name: str) -> None:
        """Take examples or mappings; nothing is copied."""
        self.name, self._rows = name, rows

    def rows(self) -> Iterator[Numbered]:
        """Yield the rows."""
        return enumerate(self._rows, start=1)

    def state(self) -> object:
        """Return nothing: rows in memory are their owner's business."""
        return None


class TableColumns(Rows):
    """A polars frame or an arrow table, row by row; may have been read from CSV."""

    decimal = "."


class Frame(Rows):
    """A pandas data frame, which may have been read from CSV; its index is no data."""

    decimal = "."

    def __init__(self, frame: Any, name: str) -> None:
        """Take the frame.

        Raises:
            DataError: Two columns have the same name.
        """
        self._columns = [str(column) for column in frame.columns]
        refuse_duplicate_columns(self._columns, name)
        # `itertuples` without names keeps columns whose names are no identifiers.
        super().__init__(Restartable(lambda: frame.itertuples(index=False, name=None)), name)

    def rows(self) -> Iterator[Numbered]:
        """Yield the rows as mappings."""
        for number, cells in super().rows():
            yield number, dict(zip(self._columns, cells, strict=True))


def rows_of_batches(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of arrow's record batches."""
    for batch in batches:
        yield from batch.to_pylist()


def refuse_duplicate_columns(names: Iterable[str], where: str) -> None:
    """Refuse a table in which one of two columns would hide the other.

    Raises:
        DataError: Two columns have the same name.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{where}: two columns are called {name!r}; rename one")
        seen.add(name)
