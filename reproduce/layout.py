"""The printed output: tables beside the paper's figures, and the lists of tables and data sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reproduce.converters import DATA_SETS
from reproduce.datasets import DataSets
from reproduce.reproduction import Cell, Estimate, Line
from reproduce.table import Table
from textassay.runtime.base import Usage

SIGNS = {
    "pearson": "r", "spearman": "rho", "kendall": "tau", "exact": "right",
    "constant": "constant", "auc": "AUC", "mae": "MAE", "ece": "ECE",
    "ece-before": "ECE held out", "ece-after": "after 100 grades", "spearman-change": "rho, change",
}  # fmt: skip


def heading(table: Table) -> list[str]:
    """Return the lines above a table."""
    lines = [f"{table.name}: {table.title}", f"{table.paper}; {table.level} level"]
    return [*lines, *table.notes, ""]


def lines_of(table: Table, rows: Sequence[Line]) -> Iterator[str]:
    """Yield a table, one figure a line."""
    width = max([len(line.row.name) for line in rows] + [3])
    heads = max([len(_head(cell)) for line in rows for cell in line.cells] + [6])
    # as many digits as the papers print, so that the figures compare by eye
    digits = 1 if table.percent else 3
    top = f"{'row':<{width}}  {'column':<{heads}}  {'paper':>7}  {'ours':>7}"
    yield f"{top}  {'95 % interval':<17}  {'n':>5}  source"
    for line in rows:
        name = line.row.name
        # a row that cannot be computed is shown with its reason: leaving it out would hide what is
        # not reproduced
        if all(cell.ours.value is None for cell in line.cells) and line.why_not:
            figures = " ".join(_published(cell, digits) for cell in line.cells)
            yield f"{name:<{width}}  not computed: {line.why_not}"
            if line.row.published:
                yield f"{'':<{width}}  the paper: {figures}"
            continue
        for at, cell in enumerate(line.cells):
            shown = f"{name if at == 0 else '':<{width}}  {_head(cell):<{heads}}"
            yield f"{shown}  {_figures(cell, digits)}  {line.how if at == 0 else ''}".rstrip()
        for words in (line.why_not, line.row.note):
            if words:
                yield f"{'':<{width}}  ({words})"


def as_json(table: Table, rows: Sequence[Line]) -> dict[str, Any]:
    """Return a table as JSON values."""
    return {
        "table": table.name,
        "level": table.level,
        "rows": [
            {
                "row": line.row.name,
                "source": line.how or None,
                "why_not": line.why_not or None,
                "note": line.row.note or None,
                "figures": [
                    {
                        "column": cell.head,
                        "statistic": cell.statistic,
                        "paper": None if cell.published == "-" else cell.published,
                        "ours": cell.ours.value,
                        "interval": None if cell.ours.interval is None else [*cell.ours.interval],
                        "n": cell.ours.n,
                    }
                    for cell in line.cells
                ],
            }
            for line in rows
        ],
    }


def estimate_lines(found: Sequence[Estimate]) -> Iterator[str]:
    """Yield the calls of each run, one run per line, and their sum."""
    if not found:
        yield "cost estimate: no model is asked"
        return
    for one in found:
        asked = f"cannot be made: {one.why_not}" if one.asked is None else _asked(one.asked)
        yield f"  {one.request.asked}: {asked}"
    total = sum((one.asked for one in found if one.asked is not None), Usage())
    yield f"cost estimate: {_asked(total)}"


def listing(tables: Sequence[Table], data: DataSets) -> Iterator[str]:
    """Yield the list of all tables with their requirements."""
    paper = ""
    for table in tables:
        if table.paper != paper:
            paper = table.paper
            yield f"\n{paper}"
        yield f"  {table.name:<22} {table.title}"
        yield f"  {'':<22}   {state(table, data)}"


def state(table: Table, data: DataSets) -> str:
    """Return whether a table runs, and its requirements."""
    if table.missing is not None:
        return f"nothing to run: {table.missing}"
    without = sum(not row.needs_model and row.missing is None for row in table.rows)
    absent = [name for name in table.data if data.find(name) is None]
    needs = f"needs data {', '.join(absent)}" if absent else "runs"
    return f"{needs}; {without} of {len(table.rows)} rows without a model"


def data_sets() -> Iterator[str]:
    """Yield the data sets: where to get their files, license and checksum."""
    for data in DATA_SETS.values():
        yield f"{data.name}: {data.what}"
        for file in data.files:
            adds = f" (optional: {file.adds})" if file.optional else ""
            yield f"  {file.name}{adds}"
            yield f"    from     {file.where}"
            yield f"    license  {file.license}"
            yield f"    sha256   {file.sha256 or 'not checked here: the file could not be had'}"


def _head(cell: Cell) -> str:
    return f"{cell.head} {SIGNS[cell.statistic]}"


def _figures(cell: Cell, digits: int) -> str:
    ours = cell.ours
    published = _published(cell, digits)
    value = "-" if ours.value is None else f"{ours.value:.{digits}f}"
    ends = ours.interval
    interval = "" if ends is None else f"[{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]"
    return f"{published:>7}  {value:>7}  {interval:<17}  {ours.n or '':>5}"


def _published(cell: Cell, digits: int) -> str:
    return "-" if cell.published == "-" else f"{cell.published:.{digits}f}"


def _asked(asked: Usage) -> str:
    cost = "cost unknown" if asked.cost is None else f"${asked.cost:.4f} at most"
    tokens = f"{asked.prompt_tokens} + {asked.completion_tokens} tokens"
    return f"{asked.calls} calls, {tokens}, {cost}"
