"""`textassay meta`: agreement with people as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from textassay.cli.exits import printable, say
from textassay.meta.agreement import Agreement
from textassay.meta.levels import Level
from textassay.meta.recorded import read_scores
from textassay.meta.table import AgreementTable, agreement_table
from textassay.runtime.data import Examples

Coefficient = Literal["pearson", "spearman", "kendall"]
COEFFICIENTS: tuple[Coefficient, ...] = ("pearson", "spearman", "kendall")


def show(
    scores: Path,
    data: Path,
    *,
    levels: Sequence[str],
    mapping: Sequence[str],
    bootstrap: int,
    seed: int,
    as_json: bool,
) -> None:
    """Print how the scores agree with the ratings in the data.

    Raises:
        ConfigurationError: A file, level, name or field does not fit.
    """
    table = agreement_table(
        read_scores(scores),
        Examples(data),
        levels=cast("Sequence[Level]", levels),
        aspect_map=mapping,
        bootstrap=bootstrap,
        seed=seed,
    )
    if table.unknown_ids:
        say(f"{table.unknown_ids} scored ids are not in {data} and were left out", style="yellow")
    if as_json:
        typer.echo(json.dumps(table.as_dict(), allow_nan=False))
    else:
        Console(highlight=False).print(_drawn(table))


def _drawn(table: AgreementTable) -> Table:
    drawn = Table(box=None, pad_edge=False)
    for column in ("score", "human", "level"):
        drawn.add_column(column, overflow="fold")
    for column in ("n", "coverage", "groups", *COEFFICIENTS):
        drawn.add_column(column, justify="right")
    for row in table.rows:
        found = row.agreement
        drawn.add_row(
            Text(printable(row.aspect)),
            Text(printable(row.human)),
            found.level,
            str(found.n),
            "-" if found.coverage is None else f"{found.coverage:.3f}",
            _groups(found),
            *(_figure(found, name) for name in COEFFICIENTS),
        )
    return drawn


def _groups(found: Agreement) -> str:
    if found.groups is None:
        return "-"
    return f"{found.groups}" + (f" (-{found.groups_skipped})" if found.groups_skipped else "")


def _figure(found: Agreement, name: Coefficient) -> str:
    value: float | None = getattr(found, name)
    if value is None:
        return "-"
    span = found.ci.get(name) if found.ci else None
    return f"{value:.3f}" if span is None else f"{value:.3f} [{span[0]:.3f}, {span[1]:.3f}]"
