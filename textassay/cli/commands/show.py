"""`textassay show`: a run, or one of its texts, in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from textassay.cli.exits import run_async
from textassay.cli.flags import AsJson, RunFolder
from textassay.cli.registry import LOOKING, command
from textassay.cli.shared_flags import AspectMap, Human


@command(
    "show",
    panel=LOOKING,
    examples=(
        "textassay show runs/first",
        "textassay show runs/first doc-17-M3",
        "textassay show runs/first doc-17-M3 --prompts",
    ),
)
def show(
    run: RunFolder,
    id_: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Example to show with its evidence.")
    ] = None,
    *,
    human: Human = None,
    aspect_map: AspectMap = None,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="Print the prompts and answers of the models.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run in the terminal.

    Prints a summary and the largest disagreements with people, or the evidence of one example.
    """
    if prompts:
        from textassay.cli.exchanges import show_exchanges

        run_async(show_exchanges(run, None if id_ is None else [id_], human, as_json=as_json))
        return
    from textassay.cli.show import show_example, show_run

    if id_ is None:
        show_run(run, human, aspect_map or (), as_json=as_json)
    else:
        show_example(run, id_, human, aspect_map or (), as_json=as_json)
