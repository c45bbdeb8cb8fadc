"""Tables without lines, whose figures are never cut."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from textassay.cli.console import PIPE_WIDTH


class UncutTable(Table):
    """A table whose figures are never cut or folded.

    rich cuts a column that does not fit, and half a number is another number. On a terminal that is
    too narrow, each row becomes a paragraph: its words, and below them its figures by their names.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or its rows as paragraphs."""
        # measured without bounds: within the console's width rich would cut and report that it fits
        natural = self.__rich_measure__(console, options.update(width=PIPE_WIDTH)).maximum
        if natural <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        for row in zip(*(column.cells for column in self.columns), strict=True):
            named = list(zip(self.columns, map(_text, row), strict=True))
            yield Text("  ").join(text for column, text in named if column.justify == "left")
            figures = Text("   ").join(
                Text(f"{column.header} ", style="dim").append_text(text)
                for column, text in named
                if column.justify != "left"
            )
            # a pair of a name and its figure stays on one line
            yield indented(_unbroken(figures, options.max_width - 2))


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _unbroken(pairs: Text, width: int) -> Text:
    """Return text with line breaks at the wide spaces between pairs only."""
    lines = [Text()]
    for pair in pairs.split("   "):
        if lines[-1] and len(lines[-1]) + 3 + len(pair) > width:
            lines.append(Text())
        lines[-1].append("   " if lines[-1] else "").append_text(pair)
    return Text("\n").join(lines)


def plain_table(*columns: str, left: int = 1, uncut: bool = False) -> Table:
    """Return an empty table without lines.

    Args:
        *columns: Headings; without a heading in any of them the table has none.
        left: Number of columns, from the first, that hold words; the others hold numbers.
        uncut: Whether rows that do not fit become paragraphs; else cells are folded.
    """
    kind = UncutTable if uncut else Table
    table = kind(box=None, pad_edge=False, show_header=any(columns))
    for at, column in enumerate(columns):
        justify: JustifyMethod = "left" if at < left else "right"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=uncut)
    return table


def indented(inner: RenderableType) -> Padding:
    """Return something moved to the right, and no wider than it is."""
    return Padding(inner, (0, 0, 0, 2), expand=False)
