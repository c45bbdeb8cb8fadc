"""The demo's tables, drawn for 80 columns."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from textassay.cli.console import plain_table
from textassay.demo.comparison import ComparisonLine, TaskComparison, Treatments

MAX_HEADING = 9
"""Characters of a column's heading, so that the six aspects of dialogue fit into 80 columns."""
NOT_ABOVE = "x"
"""Mark of a coefficient that is not above the best trivial measure's."""


def treatments_table(found: Treatments, units: dict[str, str]) -> Table:
    """Draw means by what was done to the texts.

    Args:
        found: The means.
        units: What the values of each row are.
    """
    table = plain_table("", *found.systems, "")
    for name, values in found.rows.items():
        style = "bold" if name not in units else ""
        table.add_row(
            name, *map(_number, values), Text(units.get(name, "rating"), style="dim"), style=style
        )
    table.columns[-1].justify = "left"
    return table


def agreement_table(found: TaskComparison) -> Table:
    """Draw a table of Spearman's rho of trivial measures and judges.

    Each judge is compared with the best trivial measure.
    """
    table = plain_table("", *map(heading, found.aspects))
    for line in found.lines:
        if not line.trivial and table.rows and found.lines[len(table.rows) - 1].trivial:
            table.add_section()
        cells = (_cell(found, line, aspect) for aspect in found.aspects)
        gaps = "" if line.n == found.examples else f" (n {line.n})"
        table.add_row(Text(f"{line.name}{gaps}", style="italic" if line.trivial else ""), *cells)
    return table


def _cell(found: TaskComparison, line: ComparisonLine, aspect: str) -> Text:
    """Return a coefficient, with room for the mark behind it whether it is there or not."""
    value = _number(line.spearman[aspect])
    if line.trivial:
        return Text(f"{value}  ", style="bold" if found.is_bar(line, aspect) else "")
    if found.beats(line, aspect):
        return Text(f"{value}  ", style="green")
    return Text(f"{value} {NOT_ABOVE}", style="yellow")


def heading(aspect: str) -> str:
    """Return an aspect's name, shortened to the width of a column's heading."""
    return aspect if len(aspect) <= MAX_HEADING else f"{aspect[: MAX_HEADING - 1]}."


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:z.2f}"
