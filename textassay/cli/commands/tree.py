"""`textassay tree`: break aspects into sub-criteria."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.exits import run_async
from textassay.cli.flags import JUDGING, RUNTIME, SET, Given
from textassay.cli.registry import MAKING, command

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
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="File to write, .toml or .json."),
    ],
    model: Annotated[
        list[str],
        typer.Option("--model", "-m", metavar="[ROLE=]MODEL", help="Model to ask; may repeat."),
    ],
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
