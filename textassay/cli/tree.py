"""`textassay tree`.

Lets a model take a task's aspects apart and writes the result as a file to edit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from textassay.agents.decomposer import GrownTree
from textassay.cli.console import say
from textassay.cli.new_files import check_new_file, io_errors, opened_models
from textassay.display import printable
from textassay.methods.by_name import METHODS
from textassay.methods.checklist import write_checklist
from textassay.methods.coascore import name_chains
from textassay.methods.hd_eval import decompose_task
from textassay.methods.library import tasks, trees
from textassay.runtime.errors import UnknownName
from textassay.runtime.messages import AspectTree
from textassay.runtime.settings import Settings

GROWERS: dict[str, Callable[..., Awaitable[GrownTree]]] = {
    "hd-eval": decompose_task,
    "coascore": name_chains,
    "checklist": write_checklist,
}
"""What grows the tree of a method: HD-Eval's criteria, CoAScore's relevant aspects, or
a checklist's questions."""


@dataclass(frozen=True)
class TreeCommand:
    """One `tree`, read from the command line."""

    method: str
    out: Path
    models: Mapping[str, str]
    task: str | None = None
    aspects: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)


async def execute(order: TreeCommand) -> None:
    """Grow the tree, write it, and print it; what could not be used goes to standard error.

    Raises:
        ConfigurationError: Something does not fit, or the file exists; nothing was asked.
        Stopped: The model could not be asked or gave no list (see its cause); nothing is
            written.
        StorageError: The file cannot be written.
    """
    if order.method not in GROWERS:
        raise UnknownName("method with a tree", order.method, list(GROWERS))
    check_new_file(order.out, "tree")
    options = METHODS[order.method].Options.read(order.options)
    task = tasks.load(order.task, order.aspects)
    async with opened_models(order.models, order.settings) as models:
        grown = await GROWERS[order.method](models, task, options)
    # outside of the models' block, so that a full disk is reported as itself and not as a failure
    # of a model
    with io_errors(order.out):
        trees.save(
            grown.tree,
            order.out,
            source=f"{order.method} for {task.name}, by {', '.join(order.models.values())}",
        )
    for note in grown.notes:
        say(f"not used: {note['text']} ({note['problem']})", style="yellow")
    typer.echo(printable(outline(grown.tree)))


def outline(tree: AspectTree) -> str:
    """Return the names of a tree, indented by layer, parents before their children."""

    def below(parent: str | None, indent: str) -> list[str]:
        return [
            line
            for aspect in tree.children(parent)
            for line in (f"{indent}{aspect.name}", *below(aspect.id, indent + "  "))
        ]

    return "\n".join(below(None, ""))
