"""`textassay methods|tasks|settings`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

from textassay.cli.flags import AsJson
from textassay.cli.registry import MAKING, command


@command(
    "methods",
    panel=MAKING,
    examples=("textassay methods", "textassay methods g-eval"),
)
def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="[METHOD]", help="Method whose options to show.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the methods, or one method's options (which --set takes)."""
    from textassay.cli import lists

    lists.show(lists.methods(name), as_json)


@command("tasks", panel=MAKING, examples=("textassay tasks", "textassay tasks summarization"))
def tasks(
    name: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="Task, or a TOML file.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the built-in tasks, or one task's aspects with their definitions."""
    from textassay.cli import lists

    lists.show(lists.tasks(name), as_json)


@command("settings", panel=MAKING, examples=("textassay settings", "textassay settings --json"))
def settings(*, as_json: AsJson = False) -> None:
    """List the run-time settings: flags, keys of --set and keys of a config file."""
    from textassay.cli import lists

    lists.show(lists.settings(), as_json)
