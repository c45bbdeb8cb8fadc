"""`textassay cache info|verify|clear|export`: folders of cached answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.exits import run_async
from textassay.cli.flags import AsJson, RunFolder
from textassay.cli.registry import MAKING, command, group

group("cache", "Inspect, verify or clear a response cache.", panel=MAKING)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Cache folder.")]


@command("info", group="cache")
def info(folder: Folder, *, as_json: AsJson = False) -> None:
    """Show how many answers a cache folder contains."""
    from textassay.cli.cache import show_info

    show_info(folder, as_json=as_json)


@command("verify", group="cache")
def verify(folder: Folder, *, as_json: AsJson = False) -> int:
    """Check every file and answer of a cache folder."""
    from textassay.cli.cache import show_verification

    return show_verification(folder, as_json=as_json)


@command("clear", group="cache")
def clear(folder: Folder, *, as_json: AsJson = False) -> None:
    """Delete all answers of a cache folder."""
    from textassay.cli.cache import clear as empty

    empty(folder, as_json=as_json)


@command(
    "export",
    group="cache",
    examples=(
        "textassay cache export runs/first -o asked.jsonl",
        "textassay cache export runs/first | jq .answers",
    ),
)
def export(
    run: RunFolder,
    *,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Data of the run, if the file was moved."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File to create (default: standard output)."
        ),
    ] = None,
) -> None:
    """Write all prompts and answers of a run as JSON Lines.

    Each line has an id, model, prompt, answers and log-probabilities.
    """
    from textassay.cli.exchanges import export as write

    run_async(write(run, out, data))
