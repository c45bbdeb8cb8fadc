"""`textassay tree`: break aspects into sub-criteria."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli import arguments
from textassay.cli.app import MAKING, command
from textassay.cli.console import say
from textassay.cli.exits import run_async
from textassay.cli.flags import JUDGING, RUNTIME, SET, Given, ToTable, Writers
from textassay.cli.new_files import check_new_file, io_errors, opened_models
from textassay.display import printable
from textassay.runtime.errors import UnknownName
from textassay.runtime.messages import AspectTree
from textassay.runtime.settings import Settings

if TYPE_CHECKING:
    from textassay.agents.decomposer import GrownTree

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
    flags, options, settings = arguments.for_models({**given, "model": model})
    run_async(_write(method, out, flags, options, settings))


async def _write(
    method: str, out: Path, flags: Mapping[str, Any], chosen: Mapping[str, Any], settings: Settings
) -> None:
    """Grow the tree, write it, and print it; what could not be used goes to standard error.

    Raises:
        ConfigurationError: Something does not fit, or the file exists; nothing was asked.
        Stopped: The model could not be asked or gave no list (see its cause); nothing is
            written.
        StorageError: The file cannot be written.
    """
    from textassay.methods.by_name import METHODS
    from textassay.methods.checklist import write_checklist
    from textassay.methods.coascore import name_chains
    from textassay.methods.hd_eval import decompose_task
    from textassay.methods.library import tasks, trees

    growers: dict[str, Callable[..., Awaitable[GrownTree]]] = {
        "hd-eval": decompose_task,
        "coascore": name_chains,
        "checklist": write_checklist,
    }
    if method not in growers:
        raise UnknownName("method with a tree", method, list(growers))
    check_new_file(out, "tree")
    options = METHODS[method].Options.read(chosen)
    task = tasks.load(flags.get("task"), flags.get("aspects"))
    async with opened_models(flags["model"], settings) as models:
        grown = await growers[method](models, task, options)
    writers = ", ".join(flags["model"].values())
    # outside of the models' block, so that a full disk is reported as itself and not as a failure
    # of a model
    with io_errors(out):
        trees.save(grown.tree, out, source=f"{method} for {task.name}, by {writers}")
    for note in grown.notes:
        say(f"not used: {note['text']} ({note['problem']})", style="yellow")
    typer.echo(printable(_outline(grown.tree)))


def _outline(tree: AspectTree) -> str:
    """Return the names of a tree, indented by layer, parents before their children."""

    def below(parent: str | None, indent: str) -> list[str]:
        return [
            line
            for aspect in tree.children(parent)
            for line in (f"{indent}{aspect.name}", *below(aspect.id, indent + "  "))
        ]

    return "\n".join(below(None, ""))
