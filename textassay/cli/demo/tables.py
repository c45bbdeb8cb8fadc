"""The demo's tables, drawn for 80 columns."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from textassay.cli.console import plain_table
from textassay.demo.results import ComparisonLine, TaskComparison, Treatments

MAX_HEADING = 9
"""Characters of a column's heading, so that the six aspects of dialogue fit into 80 columns."""
NOT_ABOVE = "x"
"""Mark of a coefficient that is not above the best trivial measure's."""


def treatments_table(treatments: Treatments, units: dict[str, str]) -> Table:
    """Draw means by what was done to the texts.

    Args:
        treatments: The means.
        units: What the values of each row are.
    """
    table = plain_table("", *treatments.systems, "")
    for name, values in treatments.rows.items():
        style = "bold" if name not in units else ""
        table.add_row(
            name, *map(_number, values), Text(units.get(name, "rating"), style="dim"), style=style
        )
    table.columns[-1].justify = "left"
    return table


def task_agreement_table(comparison: TaskComparison) -> Table:
    """Draw a table of Spearman's rho of trivial measures and judges.

    Each judge is compared with the best trivial measure.
    """
    table = plain_table("", *map(heading, comparison.aspects))
    for line in comparison.lines:
        if not line.trivial and table.rows and comparison.lines[len(table.rows) - 1].trivial:
            table.add_section()
        cells = (_cell(comparison, line, aspect) for aspect in comparison.aspects)
        gaps = "" if line.n == comparison.examples else f" (n {line.n})"
        table.add_row(Text(f"{line.name}{gaps}", style="italic" if line.trivial else ""), *cells)
    return table


def _cell(comparison: TaskComparison, line: ComparisonLine, aspect: str) -> Text:
    """Return a coefficient, with room for the mark behind it whether it is there or not."""
    if aspect not in line.spearman:  # not judged: neither above nor below
        return Text("-  ")
    value = _number(line.spearman[aspect])
    if line.trivial:
        return Text(f"{value}  ", style="bold" if comparison.is_bar(line, aspect) else "")
    if comparison.beats(line, aspect):
        return Text(f"{value}  ", style="green")
    return Text(f"{value} {NOT_ABOVE}", style="yellow")


def heading(aspect: str) -> str:
    """Return an aspect's name, shortened to the width of a column's heading."""
    return aspect if len(aspect) <= MAX_HEADING else f"{aspect[: MAX_HEADING - 1]}."


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:z.2f}"
