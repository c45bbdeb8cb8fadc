"""`textassay meta`: agreement with people as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from textassay.cli.console import PIPE_WIDTH, printable, results, say
from textassay.cli.plain_tables import plain_table
from textassay.meta.agreement import Agreement
from textassay.meta.levels import Level
from textassay.meta.score_files import read_judge
from textassay.meta.table import AgreementTable, RaterRow, TableRow, agreement_table
from textassay.runtime.data.dataset import Examples

Coefficient = Literal["pearson", "spearman", "kendall"]
COEFFICIENTS: tuple[Coefficient, ...] = ("pearson", "spearman", "kendall")


def show(
    scores: Path,
    examples: Examples,
    *,
    levels: Sequence[str],
    mapping: Sequence[str],
    bootstrap: int,
    seed: int,
    as_json: bool,
    raters: bool = False,
) -> None:
    """Print how the scores agree with the ratings in the data.

    Raises:
        ConfigurationError: A file, level, name or field does not fit.
    """
    table = agreement_table(
        read_judge(scores),
        examples,
        levels=cast("Sequence[Level]", levels),
        aspect_map=mapping,
        bootstrap=bootstrap,
        seed=seed,
        raters=raters,
    )
    if table.unknown_ids:
        say(
            f"{table.unknown_ids} scored ids are not in {examples.name} and were left out",
            style="yellow",
        )
    if as_json:
        typer.echo(json.dumps(table.as_dict(), allow_nan=False))
    else:
        console = results()
        console.print(drawn(table, console))
        for line in explained(table):
            say(line)
        if table.raters is not None:
            console.print()
            console.print(_drawn_raters(table.raters))
            for line in _explained_raters(table.raters):
                say(line)


def explained(table: AgreementTable) -> list[str]:
    """Return what a reader of the table must know.

    What `13 (-7)` means, and why intervals are missing.
    """
    lines: list[str] = []
    for row in table.rows:
        agreement = row.agreement
        if agreement.groups_skipped and not lines:
            lines.append(
                f"{_groups(agreement)}: {agreement.groups} groups are averaged;"
                f" {agreement.groups_skipped} are left out because all scores or all ratings in"
                " them are equal"
            )
    notes: dict[str, list[str]] = {}
    for row in table.rows:
        if row.agreement.note:
            notes.setdefault(f"{row.agreement.level} level, {row.agreement.note}", []).append(
                row.aspect
            )
    return lines + [
        f"{printable(', '.join(dict.fromkeys(names)))}: {note}" for note, names in notes.items()
    ]


def _drawn_raters(rows: Sequence[RaterRow]) -> Table:
    """Draw agreement among people next to agreement with the judge: Spearman's rho, and alpha."""
    lines = plain_table(
        "score",
        "human",
        "raters",
        "items",
        "alpha",
        "rater-rater",
        "judge-rater",
        "rater-others",
        "judge-others",
        left=2,
        uncut=True,
    )
    for row in rows:
        agreement = row.agreement
        pairs = (
            agreement.between_raters,
            agreement.judge_rater,
            agreement.ceiling,
            agreement.judge_others,
        )
        figures = [agreement.alpha["ordinal"], *(pair.spearman if pair else None for pair in pairs)]
        lines.add_row(
            Text(printable(row.aspect)),
            Text(printable(row.human)),
            str(agreement.raters),
            str(agreement.items),
            *("-" if figure is None else f"{figure:.3f}" for figure in figures),
        )
    return lines


def _explained_raters(rows: Sequence[RaterRow]) -> Iterator[str]:
    for human, agreement in {row.human: row.agreement for row in rows}.items():
        if agreement.raters < 2:
            yield (
                f"{printable(human)}: only one rater, so there is no agreement among raters;"
                " 'annotators' needs 2 raters of the same texts, better 3"
            )
        elif agreement.alpha["ordinal"] is None:
            yield (
                f"{printable(human)}: alpha is undefined, because no text has two ratings or all"
                " ratings are equal"
            )


def drawn(table: AgreementTable, console: Console) -> Table:
    """Draw agreement so that nothing is folded on this console, as far as names allow."""
    wide = _one_row_each(table)
    fits = (
        # measured without bounds: within the console's width rich would fold and report that it
        # fits
        console.measure(wide, options=console.options.update(width=PIPE_WIDTH)).maximum
        <= console.width
    )
    return wide if fits else _one_line_a_coefficient(table)


def _one_row_each(table: AgreementTable) -> Table:
    """Draw all coefficients of an aspect and level next to each other."""
    lines = plain_table("score", "human", "level", "n", "coverage", "groups", *COEFFICIENTS, left=3)
    for row in table.rows:
        figures = [f"{value} {interval}".rstrip() for _, value, interval in _figures(row.agreement)]
        lines.add_row(*_heading(row), *figures)
    for column in lines.columns:
        column.no_wrap = True
    return lines


def _one_line_a_coefficient(table: AgreementTable) -> Table:
    """Draw the coefficients of an aspect and level below each other, for narrow terminals."""
    lines = plain_table(
        "score", "level", "n", "coverage", "groups", "", "", "95 % interval", left=2
    )
    for row in table.rows:
        name = row.aspect if row.aspect == row.human else f"{row.aspect} vs {row.human}"
        heading: list[Text | str] = [Text(printable(name)), *_heading(row)[2:]]
        for name, value, interval in _figures(row.agreement):
            lines.add_row(*heading, name, value, interval)
            heading = [""] * len(heading)
    return lines


def _heading(row: TableRow) -> list[Text | str]:
    agreement = row.agreement
    coverage = "-" if agreement.coverage is None else f"{agreement.coverage:.3f}"
    names: list[Text | str] = [Text(printable(row.aspect)), Text(printable(row.human))]
    return [*names, agreement.level, str(agreement.n), coverage, _groups(agreement)]


def _groups(agreement: Agreement) -> str:
    if agreement.level == "system":
        return f"{agreement.systems} systems"
    if agreement.groups is None:
        return "-"
    return f"{agreement.groups}" + (
        f" (-{agreement.groups_skipped})" if agreement.groups_skipped else ""
    )


def _figures(agreement: Agreement) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and interval of each coefficient."""
    for name in COEFFICIENTS:
        value: float | None = getattr(agreement, name)
        span = agreement.ci.get(name) if agreement.ci else None
        yield (
            name,
            "-" if value is None else f"{value:.3f}",
            "" if value is None or span is None else f"[{span[0]:.3f}, {span[1]:.3f}]",
        )
