"""`textassay graph`: a method's graph as a picture."""

from __future__ import annotations

from typing import Annotated

import typer

from textassay.cli.flags import JUDGING, Given
from textassay.cli.registry import MAKING, command


@command(
    "graph",
    panel=MAKING,
    examples=("textassay graph g-eval", "textassay graph evaluators/mine > mine.mmd"),
)
def graph(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD", help="Method, such as g-eval, or the folder of a fitted evaluator."
        ),
    ],
    *,
    given: Annotated[Given, JUDGING.only("task")],
) -> None:
    """Print a method's graph in the mermaid format."""
    from textassay.cli.graph import mermaid_of

    typer.echo(mermaid_of(method, given.get("task")))
