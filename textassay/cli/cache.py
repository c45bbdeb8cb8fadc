"""`textassay cache info|verify|clear`."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from textassay.cli.console import printable
from textassay.cli.exits import UNSCORED
from textassay.runtime.calls.cache import verify
from textassay.runtime.storage import cache_folder


def show_info(folder: Path, *, as_json: bool = False) -> None:
    """Print what a cache folder holds."""
    found = cache_folder.info(folder)
    if as_json:
        told = {"answers": found.entries, "files": found.shards, "bytes": found.bytes}
        typer.echo(json.dumps(told))
        return
    typer.echo(f"{found.entries} answers in {found.shards} files, {found.bytes / 1e6:.1f} MB")


def show_verification(folder: Path, *, as_json: bool = False) -> int:
    """Check every answer, print what is damaged, and return the exit status: 0 if nothing is."""
    found = verify(folder)
    if as_json:
        typer.echo(json.dumps({"sound": found.entries, "problems": list(found.problems)}))
        return 0 if found.ok else UNSCORED
    typer.echo(f"{found.entries} answers are sound")
    for problem in found.problems:
        typer.echo(printable(problem))
    return 0 if found.ok else UNSCORED


def clear(folder: Path, *, as_json: bool = False) -> None:
    """Delete all answers."""
    found = cache_folder.clear(folder)
    if as_json:
        typer.echo(json.dumps({"deleted": found.entries, "bytes": found.bytes}))
        return
    typer.echo(f"deleted {found.entries} answers, {found.bytes / 1e6:.1f} MB")
