"""The command line: its commands in the order of the help, and the root of the application."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from textassay.cli.gc import raise_gc_threshold
from textassay.cli.registry import app, escaped, statuses
from textassay.version import __version__

COMMANDS = (
    "score",
    "resume",
    "merge",
    "fit",
    "tools",
    "demo",
    "meta",
    "calibrate",
    "estimate",
    "compare",
    "rank",
    "alt_test",
    "cascade",
    "jurors",
    "stress",
    "label_plan",
    "report",
    "view",
    "show",
    "annotate",
    "ratings",
    "import_results",
    "tree",
    "plan",
    "graph",
    "doctor",
    "cache",
    "lists",
)
"""Modules of `textassay.cli.commands`; importing one registers its commands."""


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"textassay {__version__}")
        raise typer.Exit


@app.callback(epilog=escaped(statuses()))
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Judge generated text with teams of small agents."""


for _name in COMMANDS:
    # all are imported, even for one command's help: the modules hold only flags, and whatever is
    # heavy is imported when a command runs
    import_module(f"textassay.cli.commands.{_name}")


def main() -> None:
    """Run the command line."""
    raise_gc_threshold()
    app()
