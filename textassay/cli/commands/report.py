"""`textassay report`: one HTML page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.app import LOOKING, command
from textassay.cli.flags import MAPPED, AspectMap, Given, Human


@command(
    "report",
    panel=LOOKING,
    examples=(
        "textassay report runs/first --out report.html",
        "textassay report runs/first runs/second --human ratings.jsonl --out report.html",
    ),
)
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folder. A second one is compared with it."),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="HTML file to write.")],
    human: Human = None,
    calibration: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Calibration whose curves and intervals are shown."),
    ] = None,
    aspect_map: AspectMap = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Heading; by default the runs' names.")
    ] = None,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="What readers should know, below the heading.")
    ] = "",
    given: Annotated[Given, MAPPED],
) -> None:
    """Write one HTML page that shows a run: scores, agreement with people, and evidence."""
    from textassay.cli.console import say
    from textassay.cli.rated import shown_examples
    from textassay.report import write_report

    shown = shown_examples(runs[0], human, given)
    write_report(
        runs, out, human=shown, calibration=calibration, aspect_map=aspect_map or (), title=title,
        note=note,
    )  # fmt: skip
    say(f"wrote {out}")
