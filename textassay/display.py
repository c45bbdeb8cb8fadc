"""How results show themselves in notebooks: static tables as HTML without script, and as markdown.

Imports nothing of textassay, so that every layer may use it. Texts are escaped: what was judged is
not trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Cell = str | int | float | None | tuple[float | None, float | None, float | None]
"""A value; three numbers are a value with the ends of its interval."""
MAX_TEXT = 120
"""Characters of a text that a cell shows."""
MAX_ROWS = 20
"""Rows of a table that are shown."""


class Shown(NamedTuple):
    """One table.

    Attributes:
        title: What it is; empty for none.
        columns: Headings.
        rows: Cells, as many per row as there are headings.
        more: Rows that are not among `rows`.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    more: int = 0


class Displayed:
    """Base of what shows itself in a notebook; say what in `_shown`."""

    # most subclasses are dataclasses with slots, which a base without this line would give a
    # `__dict__`
    __slots__ = ()

    def _shown(self) -> Sequence[Shown]:
        """Return the tables."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return "".join(map(_html, self._shown()))

    def _repr_markdown_(self) -> str:
        return "\n".join(map(_markdown, self._shown()))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {
            "text/plain": repr(self),
            "text/markdown": self._repr_markdown_(),
            "text/html": self._repr_html_(),
        }


def first(rows: Sequence[Sequence[Cell]], title: str, *columns: str) -> Shown:
    """Return a table of the first `MAX_ROWS` rows."""
    return Shown(title, columns, rows[:MAX_ROWS], max(0, len(rows) - MAX_ROWS))


def _html(table: Shown) -> str:
    import html  # a table of entities, which only notebooks need

    # inline style, since notebooks drop style sheets of outputs when they are saved or converted
    right = ' style="text-align:right"'
    caption = f"<caption>{html.escape(_titled(table))}</caption>" if _titled(table) else ""
    heads = "".join(f'<th scope="col">{html.escape(one)}</th>' for one in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{'' if isinstance(cell, str) else right}>{html.escape(_text(cell))}</td>"
            for cell in row
        )
        + "</tr>"
        for row in table.rows
    )
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _markdown(table: Shown) -> str:
    lines = [f"**{_piped(_titled(table))}**", ""] if _titled(table) else []
    lines.append(_line(table.columns))
    aligned = ["---" if all(isinstance(row[at], str) for row in table.rows) else "--:"
               for at in range(len(table.columns))]  # fmt: skip
    lines.append(_line(aligned))
    lines += [_line([_piped(_text(cell)) for cell in row]) for row in table.rows]
    return "\n".join([*lines, ""])


def _titled(table: Shown) -> str:
    more = f"{table.more:,} more not shown" if table.more else ""
    return "; ".join(filter(None, (table.title, more)))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _piped(text: str) -> str:
    """Escape what means something in a cell of markdown."""
    import html

    # markdown passes HTML through, so both languages are escaped
    escaped = html.escape(text, quote=False)
    return "".join(f"\\{c}" if c in "\\`*_[]|~$" else c for c in escaped)


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, tuple):
        value, low, high = cell
        span = "" if low is None or high is None else f" [{_text(low)}, {_text(high)}]"
        return f"{_text(value)}{span}"
    if isinstance(cell, float):
        return f"{cell:.3f}"
    line = " ".join(str(cell).split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"
