"""Joins tables with one row per rating to one row per text.

Such a table names the rater, or the judge, in one column, and a text occurs once for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textassay.checking import vocabulary
from textassay.checking.column_names import Side, repeats
from textassay.checking.table_reader import RawTable, are_names, read_cells
from textassay.runtime.column_names import ITEMS, RATERS, columns_named


def spread_raters(table: RawTable) -> RawTable:
    """Return a table with a column for each rater and judge, if it has one row per rating."""
    table = _spread_named(table, RATERS, "human")
    return _spread_named(table, vocabulary.names("judge_name"), "judge")


def _spread_named(table: RawTable, names: Sequence[str], side: Side) -> RawTable:
    repeating = [name for name, cells in table.columns.items() if repeats(cells)]
    raters = columns_named(names, repeating)
    items = columns_named((*ITEMS, "doc_id"), repeating)
    if not raters or not items:
        return table
    who, item = raters[0], items[0]
    if who == item or not _are_single_ratings(table, item, who, side):
        return table
    return _spread(table, item, who, side)


def _are_single_ratings(table: RawTable, item: str, who: str, side: Side) -> bool:
    """Return whether each row is the rating of a text by one rater or judge."""
    cells = read_cells(who, table.columns[who])
    # a column of verdicts may be called `judge` as well
    if not are_names(cells) and (side == "judge" or cells.kind == "words"):
        return False
    # more than 100 names belong to texts rather than to raters
    if len({str(value) for value in cells.filled}) > 100:
        return False
    ratings = list(zip(map(str, table.columns[item]), map(str, table.columns[who]), strict=True))
    return len(set(ratings)) == len(ratings)


def _spread(table: RawTable, item: str, who: str, side: Side) -> RawTable:
    """Return a table with one row per item, and the rated columns once for each name in `who`."""
    rows: dict[str, list[int]] = {}
    for at, key in enumerate(table.columns[item]):
        rows.setdefault(str(key), []).append(at)
    raters = list(map(str, table.columns[who]))
    names = list(dict.fromkeys(raters))
    rated = [
        name
        for name, cells in table.columns.items()
        if name != who and _is_rated(cells, rows.values())
    ]
    columns: dict[str, list[object]] = {}
    labels = dict(table.shown)
    for name, cells in table.columns.items():
        if name in rated:
            by_rater = [{raters[at]: cells[at] for at in places} for places in rows.values()]
            for rater in names:
                columns[f"{side} {name} {rater}"] = [ratings.get(rater) for ratings in by_rater]
                labels[f"{side} {name} {rater}"] = rater if len(rated) == 1 else f"{rater} {name}"
        elif name != who:
            columns[name] = [cells[places[0]] for places in rows.values()]
    note = f"one row per rating: {len(names)} in {who!r}, of {len(rows)} texts ({item!r})"
    return RawTable(
        table.name, columns, table.decimal, (*table.notes, note), is_own=True, shown=labels
    )


def _is_rated(cells: Sequence[object], rows: Iterable[list[int]]) -> bool:
    """Return whether a column may be ratings, which differ within a text."""
    differs = any(len({str(cells[at]) for at in places}) > 1 for places in rows)
    return differs and read_cells("", cells).kind in ("number", "words")
