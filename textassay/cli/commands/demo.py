"""`textassay demo`: the whole pipeline, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.exits import run_async
from textassay.cli.flags import PROGRESS, AsJson, Given
from textassay.cli.registry import SCORING, command


@command(
    "demo",
    panel=SCORING,
    asks_models=True,
    examples=("textassay demo", "textassay demo --quick", "textassay demo -o demo"),
)
def demo(
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help=(
                "Folder to create, or the folder of an earlier demo to continue (default: a "
                "temporary one)."
            ),
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run the first of the three tasks only.")
    ] = False,
    as_json: AsJson = False,
    given: Annotated[Given, PROGRESS],
) -> int:
    """Run the whole pipeline on bundled examples: offline, with the embedded model."""
    from textassay.cli.demo.command import execute

    return run_async(execute(out, given.get("progress") or "auto", quick=quick, as_json=as_json))
