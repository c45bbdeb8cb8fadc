"""A whole table: its cost, and its figures beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from reproduce.agreement import Figure, Figures, against_people, averages, between_raters
from reproduce.decided import decided
from reproduce.learned import held_out
from reproduce.scores import NotHere, Request, Scorer, requests_of
from reproduce.table import Published, Row, Table
from textassay.runtime.base import Usage
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName


@dataclass(frozen=True)
class Cell:
    """One figure of the paper and ours."""

    head: str
    """The column."""
    statistic: str
    """The coefficient."""
    published: Published
    """The paper's figure; `-` if it has none."""
    ours: Figure
    """Ours, on the paper's scale."""


@dataclass(frozen=True)
class Estimate:
    """The calls of a run."""

    request: Request
    """The run."""
    asked: Usage | None
    """Calls, tokens and cost at most; `None` if it cannot be made."""
    why_not: str = ""
    """Why it cannot."""


@dataclass(frozen=True)
class Line:
    """A row of the table."""

    row: Row
    """What the table's file says."""
    cells: tuple[Cell, ...]
    """Its figures."""
    how: str
    """Origin of our scores; empty without scores."""
    why_not: str
    """Why figures are missing; empty if none is."""


def chosen(
    table: Table, patterns: Sequence[str], *, recorded: bool, repeats: int | None = None
) -> list[Row]:
    """Return the requested rows.

    Args:
        table: The table.
        patterns: Names of rows, or globs; all rows if empty.
        recorded: Whether rows that ask a model are left out.
        repeats: Splits over which rows that learn are averaged, in place of the table's.

    Raises:
        UnknownName: A pattern matches no row.
    """
    for pattern in patterns:
        if not any(fnmatchcase(row.name, pattern) for row in table.rows):
            raise UnknownName("row", pattern, [row.name for row in table.rows])
    return [
        _repeated(row, repeats)
        for row in table.rows
        if (not patterns or any(fnmatchcase(row.name, one) for one in patterns))
        and not (recorded and row.needs_model)
    ]


def _repeated(row: Row, repeats: int | None) -> Row:
    if repeats is None or row.learned is None:
        return row
    return row.model_copy(update={"learned": row.learned.model_copy(update={"repeats": repeats})})


async def estimates(scorer: Scorer, rows: Sequence[Row]) -> list[Estimate]:
    """Return the runs that the rows need, and the calls of each."""
    found = []
    for request in requests_of(scorer, rows):
        try:
            found.append(Estimate(request, await scorer.estimate(request)))
        except ConfigurationError as error:  # its rows will say so as well
            found.append(Estimate(request, None, str(error)))
    return found


async def reproduce(scorer: Scorer, rows: Sequence[Row], *, bootstrap: int) -> list[Line]:
    """Return the rows with the paper's figures and ours.

    Raises:
        TextassayError: A run was stopped; finished scores are kept if it has a folder.
    """
    return [await _line(scorer, row, bootstrap=bootstrap) for row in rows]


async def _line(scorer: Scorer, row: Row, *, bootstrap: int) -> Line:
    found: Figures = {}
    hows: list[str] = []
    reasons: list[str] = [] if row.missing is None else [row.missing]
    for data in () if row.missing is not None else scorer.table.data:
        try:
            found |= await _figures(scorer, row, data, bootstrap=bootstrap)
            hows.append("" if row.raters else _how(scorer, row, data))
            reasons.append(scorer.unscored(row, data))
        except (NotHere, ConfigurationError, DataError) as error:  # says why a figure is missing
            reasons.append(str(error))
    # means last, when the figures of all data sets are there
    found |= averages(scorer.table.columns, found)
    return Line(
        row,
        tuple(_cells(scorer.table, row, found)),
        ", ".join(dict.fromkeys(filter(None, hows))),
        "; ".join(dict.fromkeys(filter(None, reasons))),
    )


async def _figures(scorer: Scorer, row: Row, data: str, *, bootstrap: int) -> Figures:
    if row.learned is not None:
        return await held_out(scorer, row, data)
    if row.decided:
        return decided(scorer, data, bootstrap=bootstrap)
    if row.raters is not None:
        return between_raters(scorer, row, data, bootstrap=bootstrap)
    return await against_people(scorer, row, data, bootstrap=bootstrap)


def _how(scorer: Scorer, row: Row, data: str) -> str:
    if row.learned is not None:
        splits = f", {row.learned.repeats} splits" if row.learned.repeats > 1 else ""
        return f"{row.learned.aggregator} on {row.learned.train_fraction:.0%}{splits}"
    return scorer.how(row, data)


def _cells(table: Table, row: Row, found: Figures) -> list[Cell]:
    # columns that the paper leaves empty are computed all the same
    none: list[Published] = ["-" for _ in range(table.width)]
    published = iter(row.published or none)
    scale = 100 if table.percent else 1
    cells = []
    for column in table.columns:
        for statistic in column.statistics:
            figure = found.get((column, statistic), Figure(None))
            cells.append(Cell(column.head, statistic, next(published), _scaled(figure, scale)))
    return cells


def _scaled(figure: Figure, scale: float) -> Figure:
    if scale == 1 or figure.value is None:
        return figure
    ends = figure.interval
    return Figure(
        figure.value * scale,
        None if ends is None else (ends[0] * scale, ends[1] * scale),
        figure.n,
    )
