"""`textassay cache info|verify|clear`."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from textassay.cli.exits import UNSCORED
from textassay.display import printable
from textassay.runtime.calls.cache import verify
from textassay.runtime.storage import cache_folder


def show_info(folder: Path, *, as_json: bool = False) -> None:
    """Print what a cache folder holds."""
    info = cache_folder.info(folder)
    if as_json:
        content = {"answers": info.entries, "files": info.shards, "bytes": info.bytes}
        typer.echo(json.dumps(content))
        return
    typer.echo(f"{info.entries} answers in {info.shards} files, {info.bytes / 1e6:.1f} MB")


def show_verification(folder: Path, *, as_json: bool = False) -> int:
    """Check every answer, print what is damaged, and return the exit status: 0 if nothing is."""
    verification = verify(folder)
    if as_json:
        typer.echo(
            json.dumps({"sound": verification.entries, "problems": list(verification.problems)})
        )
        return 0 if verification.ok else UNSCORED
    typer.echo(f"{verification.entries} answers are sound")
    for problem in verification.problems:
        typer.echo(printable(problem))
    return 0 if verification.ok else UNSCORED


def clear(folder: Path, *, as_json: bool = False) -> None:
    """Delete all answers."""
    cleared = cache_folder.clear(folder)
    if as_json:
        typer.echo(json.dumps({"deleted": cleared.entries, "bytes": cleared.bytes}))
        return
    typer.echo(f"deleted {cleared.entries} answers, {cleared.bytes / 1e6:.1f} MB")
