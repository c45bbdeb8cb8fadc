"""`textassay tree|plan`: what a model writes for people to edit, in new files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli.app import MAKING, command
from textassay.cli.console import say
from textassay.cli.exits import Stopped, io_errors, run_async
from textassay.cli.flags import JUDGING, RUNTIME, SET, Given, ToTable, Writers, for_models, option
from textassay.runtime.errors import (
    BudgetReached,
    ConfigurationError,
    MalformedResponse,
    ModelError,
    UnknownName,
)
from textassay.runtime.messages import AspectTree, Plan
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings
from textassay.table import printable

if TYPE_CHECKING:
    from textassay.agents.planning import GrownTree


TREE_FLAGS = (
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
        option("METHOD", "hd-eval: criteria; coascore: relevant aspects; checklist: questions."),
    ] = "hd-eval",
    given: Annotated[Given, TREE_FLAGS],
) -> None:
    """Have a model break a task's aspects into sub-criteria, and save the tree for editing."""
    flags, options, settings = for_models({**given, "model": model})
    run_async(_write_tree(method, out, flags, options, settings))


async def _write_tree(
    method: str, out: Path, flags: Mapping[str, Any], chosen: Mapping[str, Any], settings: Settings
) -> None:
    """Grow the tree, write it, and print it; what could not be used goes to standard error."""
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


PLAN_FLAGS = SET | JUDGING | RUNTIME.only("api_base", "api_key_env", "max_cost", "price", "cache")


@command(
    "plan",
    panel=MAKING,
    examples=(
        "textassay plan -t dialogue --tools rouge,nli -m openai/gpt-4.1 -o plan.toml",
        (
            "textassay score data.jsonl --method fusion-eval --set plan=plan.toml -m openai/gpt-4.1"
            " -o runs/fused"
        ),
    ),
)
def plan(*, out: ToTable, model: Writers, given: Annotated[Given, PLAN_FLAGS]) -> None:
    """Have a model write the plan of fusion-eval, and save it for editing."""
    flags, options, settings = for_models({**given, "model": model})
    run_async(_write_plan(out, flags, options, settings))


async def _write_plan(
    out: Path, flags: Mapping[str, Any], chosen: Mapping[str, Any], settings: Settings
) -> None:
    """Have the plan written, save it, and print it."""
    from textassay.methods.by_name import tools_for
    from textassay.methods.fusion_eval import FusionEval, FusionEvalOptions, planner_of
    from textassay.methods.library import plans, tasks
    from textassay.tools import ToolScorer

    check_new_file(out, "plan")
    options = FusionEvalOptions.read(chosen)
    task = tasks.load(flags.get("task"), flags.get("aspects"))
    async with opened_models(flags["model"], settings) as models:
        made = tools_for(FusionEval.name, flags.get("tools") or (), models)
        async with ToolScorer(made):
            plan = await planner_of(models, task, made, options)()
        # nothing is saved that `score` would refuse later
        if not isinstance(plan, Plan):
            raise MalformedResponse(f"{plan.problem}; the model said: {plan.text!r}")
    writers = ", ".join(flags["model"].values())
    with io_errors(out):
        plans.save(plan, out, source=f"written for {task.name} by {writers}")
    typer.echo(printable(plans.as_toml(plan)))


def check_new_file(path: Path, kind: str) -> None:
    """Refuse a path before anything is asked."""
    from textassay.methods.library.toml import SUFFIXES

    if path.suffix not in SUFFIXES:
        raise ConfigurationError(
            f"a {kind} is saved as {' or '.join(SUFFIXES)}, not as {str(path)!r}"
        )
    # before the model is asked: what it writes is paid for
    if path.exists():
        raise ConfigurationError(f"{path} exists; {kind}s are edited by hand and never overwritten")
    if not path.resolve().parent.is_dir():
        raise ConfigurationError(f"{path}: there is no folder {path.parent}")


@asynccontextmanager
async def opened_models(
    models: Mapping[str, str], settings: Settings
) -> AsyncIterator[dict[str, Model]]:
    """Open models by role, under one budget, and close them at the end of the block."""
    from textassay.evaluation.opening import open_models, open_store
    from textassay.runtime.connected import with_store

    async with AsyncExitStack() as stack:
        connected = await open_models(models, settings, stack)
        store = await open_store(settings, None, stack)
        try:
            yield {role: with_store(model, store) for role, model in connected.items()}
        except (ModelError, BudgetReached) as error:
            raise Stopped from error
