"""`textassay graph`: a method's graph as a picture."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from textassay.cli.app import MAKING, command
from textassay.cli.flags import JUDGING, Given
from textassay.runtime.model import Capabilities, Model


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
    from textassay.methods.by_name import build
    from textassay.methods.fitted.evaluator import is_evaluator, load
    from textassay.runtime.backends.scripted import ScriptedModel

    # a model that answers nothing: building a graph asks for a model's name and abilities only
    models: dict[str, Model] = {"": ScriptedModel([], capabilities=Capabilities())}
    options: dict[str, Any] = {}
    if is_evaluator(method):
        if load(method).model is None:
            models = {}  # learned from recorded scores, it asks no model and refuses one
        else:
            options = {"allow_change": True}  # nothing is rated, so it does not matter by whom
    built = build(method, models, task=given.get("task"), options=options)
    typer.echo(built.graph.to_mermaid())
