"""`textassay tree`: break aspects into sub-criteria."""

from __future__ import annotations

from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.exits import run_async
from textassay.cli.flags import JUDGING, RUNTIME, SET, Given
from textassay.cli.registry import MAKING, command
from textassay.cli.shared_flags import ToTable, Writers

FLAGS = (
    SET
    | JUDGING.only("task", "aspects")
    | RUNTIME.only("api_base", "api_key_env", "max_cost", "price", "cache")
)


@command(
    "tree",
    panel=MAKING,
    examples=("textassay tree -t summarization -m openai/gpt-4.1 -o criteria.toml",),
)
def tree(
    *,
    out: ToTable,
    model: Writers,
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="hd-eval: criteria; coascore: relevant aspects; checklist: questions.",
        ),
    ] = "hd-eval",
    given: Annotated[Given, FLAGS],
) -> None:
    """Have a model break a task's aspects into sub-criteria, and save the tree for editing."""
    from textassay.cli import tree as trees

    flags, options, settings = arguments.for_models({**given, "model": model})
    order = trees.TreeCommand(
        method, out, flags["model"], flags.get("task"), flags.get("aspects"), options, settings
    )
    run_async(trees.execute(order))
