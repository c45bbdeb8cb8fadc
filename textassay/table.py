"""A result as a table: columns, rows, and notes on the figures.

Rows of results are dataclasses whose fields declare their columns (`column`); `table_of` makes a
table of them, and `as_dict` JSON values. Tables are drawn for terminals, HTML, Markdown, CSV and
LaTeX; texts are escaped, since judged texts are not trusted. Imports nothing of textassay, so that
every layer may return tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text


def with_noun(count: int, noun: str) -> str:
    """Return a number with its noun: `1 text`, `2 texts`, `3 criteria`."""
    plural = noun.removesuffix("on") + "a" if noun.endswith("criterion") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


ColumnKind = Literal["text", "number", "count", "share", "interval", "p", "picture"]
"""Kind of a column; a share is printed in percent, and only HTML shows pictures (SVG)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with the ends of its interval."""

    value: float | None
    """The value; `None` if undefined."""
    low: float | None = None
    """Lower end; `None` if no interval can be promised."""
    high: float | None = None
    """Upper end; `None` if no interval can be promised."""

    @property
    def ends(self) -> tuple[float, ...]:
        """Both ends of the interval; empty without one."""
        return () if self.low is None or self.high is None else (self.low, self.high)

    @property
    def half_width(self) -> float | None:
        """Half the length of the interval; `None` without one."""
        return (self.ends[1] - self.ends[0]) / 2 if self.ends else None

    def reaches(self, limit: float) -> bool:
        """Return whether the value is at least a limit; false if undefined."""
        return self.value is not None and self.value >= limit

    def is_above(self, limit: float) -> bool:
        """Return whether the whole interval is above a limit; false without one."""
        return bool(self.ends) and self.ends[0] > limit

    def is_below(self, limit: float) -> bool:
        """Return whether the whole interval is below a limit; false without one."""
        return bool(self.ends) and self.ends[1] < limit

    def clip(self, low: float, high: float) -> Estimate:
        """Return the same value with an interval that stays on the scale."""
        return Estimate(self.value, *(min(max(end, low), high) for end in self.ends))

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high}


class Alert(str):
    """A word that asks for attention, such as `fails`."""

    __slots__ = ()


Cell = str | int | float | Estimate | None
"""A value of the column's kind, or `None` if undefined; strings are printed unchanged."""


class Column(NamedTuple):
    """The description of one column."""

    name: str
    """Its name in code."""
    heading: str
    """The words above it; may be empty."""
    kind: ColumnKind = "text"
    """The kind of its values."""
    digits: int | None = None
    """Decimals of its figures; by default as many as its kind has."""


class Note(NamedTuple):
    """A remark on the figures of a table."""

    text: str
    """One sentence."""
    warning: bool = False
    """Whether it casts doubt on a figure."""


@dataclass(frozen=True, slots=True)
class Table:
    """Figures with their notes."""

    columns: tuple[Column, ...]
    """The columns, from left to right."""
    rows: Sequence[Sequence[Cell]]
    """Cells, one per column."""
    notes: tuple[Note, ...] = ()
    """Notes on the figures; equal ones are shown once."""
    title: str = ""
    """The table's title; empty if the headings suffice."""

    def without(self, *names: str) -> Table:
        """Return the table without some columns."""
        return self._keep([column.name not in names for column in self.columns])

    def without_pictures(self) -> Table:
        """Return the table as all formats but HTML show it."""
        return self._keep([column.kind != "picture" for column in self.columns])

    def _keep(self, selected: Sequence[bool]) -> Table:
        rows = [list(compress(row, selected)) for row in self.rows]
        return replace(self, columns=tuple(compress(self.columns, selected)), rows=rows)

    @property
    def sentences(self) -> list[str]:
        """The notes as plain text, each once."""
        return list(dict.fromkeys(note.text for note in self.notes))

    def with_column(self, column: Column, cells: Sequence[Cell], *, after: str) -> Table:
        """Return the table with one more column, a cell for each row."""
        at = 1 + [existing.name for existing in self.columns].index(after)
        return replace(
            self,
            columns=(*self.columns[:at], column, *self.columns[at:]),
            rows=[[*row[:at], cell, *row[at:]] for row, cell in zip(self.rows, cells, strict=True)],
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a data frame; needs pandas.

        Columns have their names; an interval has two more, `NAME_low` and `NAME_high`. Pictures
        are left out.
        """
        import pandas as pd  # heavy, and only needed here

        names, rows = _flat(self)
        return pd.DataFrame(rows, columns=names)


@dataclass(frozen=True, slots=True)
class _FieldColumn:
    """A column that a field of a row declares."""

    column: Column
    cell: Callable[[Any], Cell]
    when: Callable[[Sequence[Cell]], object]

    def of_part(self, part_of: Callable[[Any], Any]) -> _FieldColumn:
        """Return the column of rows that hold the declaring object, which `part_of` returns."""
        return replace(self, cell=lambda row: self.cell(part_of(row)))


def any_known(cells: Sequence[Cell]) -> bool:
    """Return whether any cell has a value: columns declared with `when=any_known` are optional."""
    return any(cell is not None for cell in cells)


def column(
    heading: str,
    kind: ColumnKind = "text",
    digits: int | None = None,
    *,
    name: str = "",
    cell: str | Callable[[Any], Cell] = "",
    when: Callable[[Sequence[Cell]], object] = lambda cells: True,
) -> dict[str, Any]:
    """Return the metadata of a dataclass field that tables show as a column.

    A field has several columns with `column(...) | column(...)`.

    Args:
        heading: The words above the column.
        kind: The kind of its values.
        digits: Decimals of its figures; by default as many as its kind has.
        name: What code and CSV call it; by default as the field.
        cell: Computes the cell from the row, or the attribute of the row that it is, such as
            `judge.omega`; by default the field.
        when: Takes all cells and returns whether the column is shown, such as `any` for counts.
    """
    return {name: (Column(name, heading, kind, digits), cell, when)}


def part(row_class: type[Any]) -> dict[str, Any]:
    """Return the metadata of a field whose own fields are columns, and JSON keys, of the row."""
    return {_PART: row_class}


_PART = "its fields"


def _columns_of(row_class: type[Any]) -> Iterator[_FieldColumn]:
    for declared in fields(row_class):
        if inner := declared.metadata.get(_PART):
            yield from (column.of_part(attrgetter(declared.name)) for column in _columns_of(inner))
            continue
        for column, cell, when in declared.metadata.values():
            named = column._replace(name=column.name or declared.name)
            get = attrgetter(cell or declared.name) if isinstance(cell, str) else cell
            yield _FieldColumn(named, get, when)


def table_of(
    row_class: type[Any], rows: Iterable[Any], notes: Iterable[Note] = (), title: str = ""
) -> Table:
    """Return rows of results as a table with the columns that the fields of their class declare.

    Args:
        row_class: The dataclass.
        rows: Its objects.
        notes: Notes on the figures for readers.
        title: Title of the table.
    """
    listed, columns, parts = list(rows), list[Column](), list[list[Cell]]()
    for declared in _columns_of(row_class):
        cells = [declared.cell(row) for row in listed]
        if declared.when(cells):
            columns.append(declared.column)
            parts.append(cells)
    lines = list(zip(*parts, strict=True))
    return Table(tuple(columns), lines, tuple(notes), title)


class ResultRow:
    """Base of dataclasses that are rows of results."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values; undefined figures are `None`."""
        row: Any = self  # a dataclass, which its type does not say
        values = dict[str, Any]()
        for declared in fields(row):
            value = _json_values(getattr(row, declared.name))
            values |= value if _PART in declared.metadata else {declared.name.rstrip("_"): value}
        return values


def _json_values(value: Any) -> Any:
    """Return a value in which dataclasses are dicts, by their `as_dict` if they have one."""
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if is_dataclass(value):
        return {d.name: _json_values(getattr(value, d.name)) for d in fields(value)}
    if isinstance(value, dict):
        return {key: _json_values(item) for key, item in value.items()}
    return tuple(map(_json_values, value)) if isinstance(value, tuple) else value


def stack_tables(tables: Iterable[Table]) -> list[Table]:
    """Return tables with equal columns as one, such as one table for each aspect."""
    stacked: dict[tuple[str, tuple[Column, ...]], Table] = {}
    for table in tables:
        key = (table.title, table.columns)
        above = stacked.get(key, replace(table, rows=(), notes=()))
        stacked[key] = replace(
            above,
            rows=[*above.rows, *table.rows],
            notes=tuple(dict.fromkeys((*above.notes, *table.notes))),
        )
    return list(stacked.values())


def stack_subsets(
    by: str, parts: Mapping[str, Iterable[Table]], *, after: str, names: Container[str]
) -> list[Table]:
    """Return the tables of several subsets of the data, one below the other.

    Args:
        by: The field that divides the data: heading of the column that names the subset.
        parts: Tables by subset.
        after: The column before it; tables without one are left out.
        names: Words with which notes on one subset begin, such as `coherence` in
            `coherence: no interval`; other notes apply to all subsets.
    """

    def of_subset(subset: str, note: Note) -> Note:
        is_own = note.text.partition(": ")[0] in names
        return note._replace(text=f"{subset}: {note.text}") if is_own else note

    return stack_tables(
        replace(
            table.with_column(Column("subset", by), [subset] * len(table.rows), after=after),
            title=f"{table.title}, by {by}",
            notes=tuple(of_subset(subset, note) for note in table.notes),
        )
        for subset, tables in parts.items()
        for table in tables
        if after in (column.name for column in table.columns)
    )


MAX_ROWS = 20
"""Rows of a table that a notebook shows."""
_GAP = "  "
_Spans = list[tuple[str, str]]
"""Parts of a line with their styles."""


def printable(text: str) -> str:
    """Escape control characters, so that text from models or files cannot control the terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


class Displayed:
    """Base of results that are tables, which `print` and notebooks therefore show as such."""

    # most subclasses are dataclasses with slots, which a base without this line would give a
    # `__dict__`
    __slots__ = ()

    def tables(self) -> Sequence[Table]:
        """Return the result as tables."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n\n".join(to_text(_clip(table)) for table in self.tables())

    def _repr_html_(self) -> str:
        return "".join(to_html(_clip(table)) for table in self.tables())

    def _repr_markdown_(self) -> str:
        return "\n".join(to_markdown(_clip(table)) for table in self.tables())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {
            "text/plain": repr(self),
            "text/markdown": self._repr_markdown_(),
            "text/html": self._repr_html_(),
        }


def more_rows(count: int) -> Note:
    """Return the note of a table that shows only the first rows."""
    return Note(f"{count:,} more not shown")


def _clip(table: Table) -> Table:
    """Return a table of a size that a notebook can hold."""
    more = len(table.rows) - MAX_ROWS
    notes = (more_rows(more), *table.notes) if more > 0 else table.notes
    rows = [[_shorten(cell) for cell in row] for row in table.rows[:MAX_ROWS]]
    return replace(table, rows=rows, notes=notes)


def _shorten(cell: Cell, most: int = 120) -> Cell:
    return f"{cell[: most - 1]}…" if isinstance(cell, str) and len(cell) > most else cell


def to_json(document: Mapping[str, Any], tables: Sequence[Table] = ()) -> str:
    """Return one JSON document with the notes of the tables that it is drawn as."""
    notes = {note.text: None for table in tables for note in table.notes}
    # NaN is not JSON; a missing number has to be null
    return json.dumps({**document, "notes": list(notes)}, allow_nan=False)


def to_terminal(table: Table, width: int) -> Text:
    """Return a table without lines for a terminal of this width; its notes are messages.

    No figure is cut or folded, as half a number is another number: if a row does not fit, each
    becomes a paragraph.
    """
    from rich.text import Text  # takes time to import, and runs print no table before their end

    return Text("\n").join(Text.assemble(*line) for line in _lines(table, width))


def plain_table(*columns: str, left: int = 1) -> RichTable:
    """Return an empty table without lines for words, which may be folded; not for results.

    The first `left` columns hold words, the others numbers; without a heading in any of them the
    table has none.
    """
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False, show_header=any(columns))
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at < left else "right", overflow="fold")
    return table


def indent(inner: RenderableType) -> RenderableType:
    """Return something moved to the right, and no wider than it is."""
    from rich.padding import Padding

    return Padding(inner, (0, 0, 0, 2), expand=False)


def to_text(table: Table) -> str:
    """Return a table and its notes as lines of text for a file."""
    lines = ["".join(text for text, _ in line) for line in _lines(table)]
    return "\n".join([*lines, *table.sentences])


def _lines(table: Table, width: int | None = None) -> Iterator[_Spans]:
    from rich.cells import cell_len

    if table.title:
        yield [(printable(table.title), "bold")]
    table = table.without_pictures()
    columns = table.columns
    rows = [list(map(_span, row, columns)) for row in table.rows]
    headings = [(column.heading, "bold") for column in columns]
    lines = [headings, *rows] if any(heading for heading, _ in headings) else rows
    widths = [max(cell_len(line[i][0]) for line in lines) for i in range(len(columns))]
    if width is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        for row in rows:
            yield from _paragraph(row, columns, width)
        return
    for line in lines:
        yield _row(line, columns, [w - cell_len(t) for w, (t, _) in zip(widths, line, strict=True)])


def _row(line: _Spans, columns: Sequence[Column], padding: Sequence[int]) -> _Spans:
    spans: _Spans = []
    for (text, style), column, pad in zip(line, columns, padding, strict=True):
        spans.append((_GAP if spans else "", ""))
        padded = [(text, style), (" " * pad, "")]
        spans += padded if column.kind == "text" else padded[::-1]
    # the last words of a line need no padding
    while spans and not spans[-1][0].strip():
        spans.pop()
    return spans


def _paragraph(row: _Spans, columns: Sequence[Column], width: int) -> Iterator[_Spans]:
    """Yield the words that a row begins with, and below them the other cells by their names."""
    from rich.cells import cell_len

    lead = next((at for at, c in enumerate(columns) if c.kind != "text"), len(columns))
    yield [part for span in row[:lead] for part in ((_GAP, ""), span)][1:]
    line: _Spans = []
    used = 0
    for column, (text, style) in zip(columns[lead:], row[lead:], strict=True):
        if not text:
            continue
        size = cell_len(f"{column.heading} {text}")
        if line and used + 3 + size > width:
            yield line
            line = []
        # a figure stays on one line with its name
        used = used + 3 + size if line else len(_GAP) + size
        line += [("   " if line else _GAP, ""), (f"{column.heading} ", "dim"), (text, style)]
    if line:
        yield line


def _span(cell: Cell, column: Column) -> tuple[str, str]:
    return printable(format_cell(cell, column)), "red" if isinstance(cell, Alert) else ""


def to_markdown(table: Table) -> str:
    """Return a table and its notes as Markdown."""
    table = table.without_pictures()
    lines = [f"**{_escape_pipes(table.title)}**", ""] if table.title else []
    lines += [
        _markdown_row(_escape_pipes(column.heading) for column in table.columns),
        _markdown_row("---" if column.kind == "text" else "--:" for column in table.columns),
        *(_markdown_row(map(_escape_pipes, row)) for row in _words(table)),
    ]
    notes = [f"- {_escape_pipes(note)}" for note in table.sentences]
    return "\n".join([*lines, *(["", *notes] if notes else []), ""])


def to_csv(table: Table) -> str:
    """Return a table as CSV with all digits; an interval has columns for its ends."""
    import csv
    import io

    names, rows = _flat(table)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([names, *rows])
    return out.getvalue()


def to_latex(table: Table) -> str:
    """Return a table as LaTeX (booktabs), with its title as caption and its notes below."""
    table = table.without_pictures()
    rows = _words(table)
    kinds = "".join(
        # definitions and other long sentences do not fit on a page and are folded
        "p{.5\\linewidth}" if any(len(row[at]) > 60 for row in rows)
        else "l" if column.kind == "text" else "r"
        for at, column in enumerate(table.columns)
    )  # fmt: skip
    lines = [
        r"\begin{table}", r"\centering",
        *([rf"\caption{{{_tex(table.title)}}}"] if table.title else []),
        rf"\begin{{tabular}}{{{kinds}}}", r"\toprule",
        _tex_row(column.heading for column in table.columns), r"\midrule",
        *map(_tex_row, rows),
        r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    for note in table.sentences:
        lines += ["", rf"\footnotesize {_tex(note)}"]
    return "\n".join([*lines, r"\end{table}", ""])


_TEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
})  # fmt: skip


def _tex(text: str) -> str:
    """Escape what means something in LaTeX."""
    return " ".join(printable(text).split()).translate(_TEX)


def _tex_row(cells: Iterable[str]) -> str:
    return " & ".join(map(_tex, cells)) + r" \\"


def _flat(table: Table) -> tuple[list[str], list[list[str | int | float | None]]]:
    """Return names and cells of a table, with columns for the ends of intervals."""
    table = table.without_pictures()
    names: list[str] = []
    rows: list[list[str | int | float | None]] = [[] for _ in table.rows]
    for at, column in enumerate(table.columns):
        cells = [row[at] for row in table.rows]
        has_ends = any(not isinstance(cell, str | int | float | None) for cell in cells)
        names += [column.name, *([f"{column.name}_low", f"{column.name}_high"] * has_ends)]
        for row, cell in zip(rows, cells, strict=True):
            if cell is None or isinstance(cell, str | int | float):
                row += [cell, *([None, None] * has_ends)]
            else:
                row += [cell.value, cell.low, cell.high]
    return names, rows


def _words(table: Table) -> list[list[str]]:
    """Return the cells of a table as plain text."""
    return [list(map(format_cell, row, table.columns)) for row in table.rows]


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_pipes(text: str) -> str:
    """Escape what means something in a cell of markdown."""
    # markdown passes HTML through, so both languages are escaped
    escaped = _escape(" ".join(text.split()), quote=False)
    return "".join(f"\\{c}" if c in "\\`*_[]|~$" else c for c in escaped)


def to_html(table: Table, *, page: bool = False) -> str:
    """Return a table and its notes as HTML; all but pictures is escaped.

    For the page of a report cells have the classes of its style sheet, which allows no other
    styles; else figures are aligned inline, since notebooks drop style sheets of outputs.
    """
    right = ' class="n"' if page else ' style="text-align:right"'
    aligned = ["" if c.kind in ("text", "picture") else right for c in table.columns]
    title = _escape(table.title)
    caption = f"<caption>{title}</caption>" if title else ""
    heads = "".join(
        f'<th scope="col"{style}>{_escape(column.heading)}</th>'
        for column, style in zip(table.columns, aligned, strict=True)
    )
    lines = []
    for row in table.rows:
        cells = [_html_cell(*pair, page) for pair in zip(row, table.columns, strict=True)]
        tags = [(f"<td{style}>", "</td>") for style in aligned]
        if page:
            tags[0] = ('<th scope="row">', "</th>")
        cells_html = (f"{a}{cell}{z}" for (a, z), cell in zip(tags, cells, strict=True))
        lines.append(f"<tr>{''.join(cells_html)}</tr>")
    inner = f"{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    notes = _html_notes(table.notes, page)
    if not page:
        return f"<table>{inner}{notes}"
    region = f'<div class="scroll" role="region" aria-label="{title}" tabindex="0">'
    return f'{region}<table class="figures">{inner}</div>{notes}'


def _escape(text: str, *, quote: bool = True) -> str:
    import html  # a table of entities, which most commands do not need

    return html.escape(text, quote)


def _html_notes(notes: Sequence[Note], page: bool) -> str:
    def opening(note: Note) -> str:
        return f'<p class="{"notice" if note.warning else "soft"}">' if page else "<p>"

    return "".join(f"{opening(note)}{_escape(note.text)}</p>" for note in dict.fromkeys(notes))


def _html_cell(cell: Cell, column: Column, page: bool) -> str:
    if column.kind == "picture":
        return str(cell or "")
    if cell is None:
        return "–"
    if isinstance(cell, str):
        text = _escape(format_cell(cell, column))
        return f'<span class="flag">{text}</span>' if page and isinstance(cell, Alert) else text
    if not page:
        return _escape(format_cell(cell, column))
    if isinstance(cell, int | float):
        return _escape(format_cell(cell, column).replace("-", "−"))
    value, low, high = (
        format_cell(end, column).replace("-", "−") for end in (cell.value, cell.low, cell.high)
    )
    ends = f"{low} to {high}" if cell.ends else ""
    return f'{value}<span class="ends under">{ends}</span>'


def format_cell(cell: Cell, column: Column) -> str:
    """Return a cell as plain text; `-` if undefined."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return " ".join(cell.split())
    digits = column.digits
    if digits is None:
        digits = {"number": 3, "interval": 3, "p": 4}.get(column.kind, 0)
    if not isinstance(cell, int | float):
        value, low, high = (format_cell(end, column) for end in (cell.value, cell.low, cell.high))
        return f"{value} [{low}, {high}]" if cell.ends else value
    if column.kind == "share":
        return f"{cell:z.{digits}%}"
    if column.kind == "p" and cell < 10**-digits / 2:
        return f"<{10**-digits:.{digits}f}"
    return f"{cell:,}" if column.kind == "count" else f"{cell:z,.{digits}f}"
