"""Tables without lines for words that may be folded; figures are drawn by `textassay.display`."""

from __future__ import annotations

from rich.console import JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table


def plain_table(*columns: str, left: int = 1) -> Table:
    """Return an empty table without lines.

    Args:
        *columns: Headings; without a heading in any of them the table has none.
        left: Number of columns, from the first, that hold words; the others hold numbers.
    """
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for at, column in enumerate(columns):
        justify: JustifyMethod = "left" if at < left else "right"
        table.add_column(column, justify=justify, overflow="fold")
    return table


def indented(inner: RenderableType) -> Padding:
    """Return something moved to the right, and no wider than it is."""
    return Padding(inner, (0, 0, 0, 2), expand=False)
