"""Draws the page of `textassay check`: the verdict in words, the reasons, the figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from textassay.checking.result import FOR, Check, headline
from textassay.checking.verdicts import USES, WORDS, VerdictRow
from textassay.report.rendering import fill
from textassay.report.svg import interval_plot
from textassay.runtime.storage.files import storage_errors, write_text
from textassay.table import Column, Table


@dataclass(frozen=True, slots=True)
class JudgeSection:
    """One judge with its four verdicts."""

    title: str
    verdict: str
    uses: list[tuple[str, str, str, str]]
    """Use, verdict, its words, and why."""


def write_check(result: Check, out: str | Path, *, title: str = "Check of a judge") -> None:
    """Write one HTML file that loads nothing.

    Args:
        result: The result of a check.
        out: The file to write.
        title: Its heading, such as the name of the data.

    Raises:
        StorageError: The file cannot be written.
    """
    first, *points = result.sentences()[:2]
    judges = list(map(_section, result.rows[:20]))  # whose reasons are spelled out
    page = fill(
        "check.html.jinja", title=title, headline=first, points=points, commands=result.next,
        table=_table(result), judges=judges, more=len(result.rows) - len(judges),
    )  # fmt: skip
    with storage_errors(f"{out} cannot be written"):
        write_text(Path(out), page)


def _section(row: VerdictRow) -> JudgeSection:
    return JudgeSection(
        f"{row.pair.judge} beside {row.pair.human}",
        headline(row, several=False),
        [
            (FOR[use], row.uses[use].answer, WORDS[row.uses[use].answer], row.uses[use].why)
            for use in USES
        ],
    )


def _table(result: Check) -> Table:
    """Return the table with a picture of each agreement beside the best constant."""
    [table] = result.tables()
    pictures = []
    for row in result.rows:
        name, figure = row.main_figure
        span = (0.0, 1.0) if name == "accuracy" else (-1.0, 1.0)
        pictures.append(interval_plot(figure, span, mark=row.constant.get("accuracy", 0.0)))
    return table.with_column(Column("plot", "", "picture"), pictures, after="agreement")
