"""The command line: its commands in the order of the help, and the root of the application."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from textassay.cli import registry
from textassay.cli.registry import escaped, statuses
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

SEVERAL = ("lists", "import_results")
"""Modules that are not called like the one command or group that they register."""


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"textassay {__version__}")
        raise typer.Exit


@registry.app.callback(epilog=escaped(statuses()))
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Judge generated text with teams of small agents."""


def __getattr__(name: str) -> Any:
    """Return the application with all of its commands as `app`."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    register(COMMANDS)
    return registry.app


def register(commands: Sequence[str]) -> None:
    """Import the modules of commands, which register them."""
    for name in commands:
        import_module(f"textassay.cli.commands.{name}")


def needed(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the modules of the commands that a command line needs: its own, or else all.

    The list of commands, their groups and what follows a misspelled one need all.
    """
    # typer reads the signatures of all registered commands, which takes longer than any of them
    # takes to import
    own = {name.replace("_", "-"): name for name in COMMANDS if name not in SEVERAL}
    return (own[arguments[0]],) if arguments and arguments[0] in own else COMMANDS


def main() -> None:
    """Run the command line."""
    register(needed(sys.argv[1:]))
    registry.app()
