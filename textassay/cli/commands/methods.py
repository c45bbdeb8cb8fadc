"""`textassay list`, `graph` and `draft`: lists, drawn graphs, and files that a model drafts.

A tree or a plan is written to a new file, for people to edit.
"""

from __future__ import annotations

import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from textassay.cli import flags, syntax
from textassay.cli.app import Heading, command, group
from textassay.cli.console import results, say
from textassay.cli.exits import RunStopped, run_async
from textassay.runtime.errors import (
    BudgetReached,
    ConfigurationError,
    MalformedResponse,
    ModelError,
    UnknownName,
)
from textassay.runtime.messages import AspectTree, Plan
from textassay.runtime.model import Capabilities, Model
from textassay.runtime.settings import (
    FLAGGED,
    OF_ROLES,
    SETTABLE,
    LocalSettings,
    Settings,
    descriptions,
)
from textassay.table import indent, plain_table, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from textassay.agents.planning import GrownTree


ListRows = Sequence[Mapping[str, Any]]


group("list", "List methods, tasks and settings.", panel=Heading.MAKING)
group("draft", "Have a model write a tree of criteria or a plan to edit.", panel=Heading.MAKING)


@command("methods", group="list")
def methods(
    name: Annotated[
        str | None, syntax.argument("[METHOD]", "Method whose options to show.")
    ] = None,
    *,
    as_json: syntax.AsJson = False,
) -> None:
    """List the methods, or one method's options (which --set takes).

    Examples:
        textassay list methods
        textassay list methods g-eval
    """
    from textassay.methods.by_name import find, method_names

    if name is None:
        # the list shows the docstring, so it cannot differ from the documentation
        docs = {each: (find(each).__doc__ or "").strip() for each in method_names()}
        _show(
            [{"method": each, "what": doc.partition("\n")[0]} for each, doc in docs.items()],
            as_json,
        )
    else:
        _show([{"option": key, **row} for key, row in _fields(find(name).Options)], as_json)


@command("tasks", group="list")
def tasks(
    name: Annotated[str | None, syntax.argument("[TASK]", "Task, or a TOML file.")] = None,
    *,
    as_json: syntax.AsJson = False,
) -> None:
    """List the built-in tasks, or one task's aspects with their definitions.

    Examples:
        textassay list tasks
        textassay list tasks summarization
    """
    from textassay.methods.library import tasks as library
    from textassay.prompts import TASKS

    if name is None:
        aspects = {each: [aspect.name for aspect in library.load(each).aspects] for each in TASKS}
        _show([{"task": each, "aspects": names} for each, names in aspects.items()], as_json)
        return
    task = library.load(name)
    rows = [
        {"aspect": a.name, "scale": list(a.labels or a.scale), "definition": a.definition}
        for a in task.aspects
    ]
    _show(rows, as_json)
    if not as_json and task.measured:
        typer.echo(f"\nagreement with people: {task.measured}")


@command("settings", group="list")
def settings(*, as_json: syntax.AsJson = False) -> None:
    """List the run-time settings: flags, keys of --set and keys of a config file.

    Examples:
        textassay list settings
        textassay list settings --json
    """
    general = [
        {"setting": key, "given by": _way(key), **row}
        for key, row in _fields(Settings)
        if key not in ("local", "roles")
    ]
    local = [
        {"setting": key, "given by": f"--set {key}=", **row} for key, row in _fields(LocalSettings)
    ]
    roles = {"setting": "models", "given by": "[models.ROLE] in --config", "default": {}}
    _show([*general, {**roles, "what": "Settings of the model of one role."}, *local], as_json)


def _show(rows: ListRows, as_json: bool) -> None:
    """Print rows as a table, or as one JSON document `{"rows": [...]}`."""
    from rich.console import Group
    from rich.text import Text

    if as_json:
        # `default=str`: defaults of settings include paths and enumerations
        typer.echo(json.dumps({"rows": list(rows)}, default=str))
        return
    # also folded in a pipe or file: the last column is prose, and scripts use --json
    console, columns = results(pipe_width=120), list(rows[0])
    # a narrow terminal has no space for words beside three cells, so rows become paragraphs
    if console.width < 100 and len(columns) > 2:
        console.print(Group(*(line for row in rows for line in _paragraph(row))))
        return
    table = plain_table(*columns, left=len(columns))
    for column in table.columns:
        if column.header == "default":
            # a long default must not take the space of the words beside it
            column.max_width = 17
    for row in rows:
        table.add_row(*(Text(printable(_format_cell(row[column]))) for column in columns))
    console.print(table)


def _paragraph(row: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield a row's name and how it is given, and the description below."""
    from rich.text import Text

    *short, (_, words) = row.items()
    name, *more = ((column, printable(_format_cell(value))) for column, value in short)
    notes = (
        f"  {column}: {value}" if column == "default" else f"  {value}" for column, value in more
    )
    yield Text(name[1], style="bold").append("".join(notes), style="not bold")
    yield indent(Text(printable(_format_cell(words))))


def _way(name: str) -> str:
    if name in FLAGGED:
        return f"--{name.replace('_', '-')}"
    if name in OF_ROLES:
        return "[models.ROLE] in --config"
    return f"--set {name}=" if name in SETTABLE else f"[{name}] in --config"


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, dict[str, Any]]]:
    texts = descriptions(model)
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        yield name, {"default": default, "what": " ".join(texts.get(name, "").split())}


def _format_cell(value: Any) -> str:
    if value is None or value in ((), {}):
        return "-"
    if isinstance(value, list):
        numbers = all(isinstance(item, float) for item in value)
        return " to ".join(f"{item:g}" for item in value) if numbers else ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@command("graph", panel=Heading.MAKING)
def graph(
    method: Annotated[
        str,
        syntax.argument("METHOD", "Method, such as g-eval, or the folder of a fitted evaluator."),
    ],
    *,
    group: Annotated[syntax.Flags, flags.pick("task")],
) -> None:
    """Print a method's graph in the mermaid format.

    Examples:
        textassay graph g-eval
        textassay graph evaluators/mine > mine.mmd
    """
    from textassay.methods.by_name import build
    from textassay.methods.fitted.evaluator import is_evaluator, load
    from textassay.runtime.backends.scripted import ScriptedModel

    # a stand-in: building a graph needs only the model's name and abilities
    models: dict[str, Model] = {"": ScriptedModel([], capabilities=Capabilities())}
    options: dict[str, Any] = {}
    if is_evaluator(method):
        if load(method).model is None:
            models = {}  # an evaluator of recorded scores asks no model and refuses one
        else:
            options = {"allow_change": True}  # nothing is rated, so the rater does not matter
    built = build(method, models, task=group.get("task"), options=options)
    typer.echo(built.graph.to_mermaid())


WRITING = flags.pick("api_base", "api_key_env", "max_cost", "price", "cache")
"""Settings of the model that writes."""


@command("tree", group="draft")
def tree(
    *,
    out: flags.ToTable,
    model: flags.Writers,
    method: Annotated[
        str,
        syntax.option(
            "METHOD", "hd-eval: criteria; coascore: relevant aspects; checklist: questions."
        ),
    ] = "hd-eval",
    group: Annotated[syntax.Flags, flags.pick("set", "task", "aspects") | WRITING],
) -> None:
    """Have a model break a task's aspects into sub-criteria, and save the tree for editing.

    Examples:
        textassay draft tree -t summarization -m openai/gpt-4.1 -o criteria.toml
    """
    values, options, settings = flags.model_settings({**group, "model": model})
    run_async(_write_tree(method, out, values, options, settings))


async def _write_tree(
    method: str,
    out: Path,
    values: Mapping[str, Any],
    set_values: Mapping[str, Any],
    settings: Settings,
) -> None:
    """Grow the tree, write it, and print it; unusable lines go to standard error."""
    from textassay.methods.by_name import METHODS
    from textassay.methods.checklist import write_checklist
    from textassay.methods.coascore import name_chains
    from textassay.methods.hd_eval import decompose_task
    from textassay.methods.library import tasks, trees
    from textassay.runtime.storage.files import storage_errors

    growers: dict[str, Callable[..., Awaitable[GrownTree]]] = {
        "hd-eval": decompose_task,
        "coascore": name_chains,
        "checklist": write_checklist,
    }
    if method not in growers:
        raise UnknownName("method with a tree", method, list(growers))
    check_new_file(out, "tree")
    options = METHODS[method].Options.read(set_values)
    task = tasks.load(values.get("task"), values.get("aspects"))
    async with open_models(values["model"], settings) as models:
        grown = await growers[method](models, task, options)
    writers = ", ".join(values["model"].values())
    # outside of the models' block, so that a full disk is not reported as a failure of a model
    with storage_errors(f"{out} cannot be written"):
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


@command("plan", group="draft")
def plan(
    *,
    out: flags.ToTable,
    model: flags.Writers,
    group: Annotated[syntax.Flags, flags.pick("set", "task", "aspects", "tools") | WRITING],
) -> None:
    """Have a model write the plan of fusion-eval, and save it for editing.

    Examples:
        textassay draft plan -t dialogue --tools rouge,nli -m openai/gpt-4.1 -o plan.toml
        textassay score data.jsonl --method fusion-eval --set plan=plan.toml -m openai/gpt-4.1
            -o runs/fused
    """
    values, options, settings = flags.model_settings({**group, "model": model})
    run_async(_write_plan(out, values, options, settings))


async def _write_plan(
    out: Path, values: Mapping[str, Any], set_values: Mapping[str, Any], settings: Settings
) -> None:
    """Have the plan written, save it, and print it."""
    from textassay.methods.by_name import tools_for
    from textassay.methods.fusion_eval import FusionEval, FusionEvalOptions, planner_of
    from textassay.methods.library import plans, tasks
    from textassay.runtime.storage.files import storage_errors
    from textassay.tools import ToolScorer

    check_new_file(out, "plan")
    options = FusionEvalOptions.read(set_values)
    task = tasks.load(values.get("task"), values.get("aspects"))
    async with open_models(values["model"], settings) as models:
        tools = tools_for(FusionEval.name, values.get("tools") or (), models)
        async with ToolScorer(tools):
            plan = await planner_of(models, task, tools, options)()
        # never save a plan that `score` would refuse
        if not isinstance(plan, Plan):
            raise MalformedResponse(f"{plan.problem}; the model said: {plan.text!r}")
    writers = ", ".join(values["model"].values())
    with storage_errors(f"{out} cannot be written"):
        plans.save(plan, out, source=f"written for {task.name} by {writers}")
    typer.echo(printable(plans.as_toml(plan)))


def check_new_file(path: Path, kind: str) -> None:
    """Refuse an unusable path before a model is asked."""
    from textassay.methods.library.toml import SUFFIXES

    if path.suffix not in SUFFIXES:
        raise ConfigurationError(
            f"a {kind} is saved as {' or '.join(SUFFIXES)}, not as {str(path)!r}"
        )
    # before the model is asked, since its text costs money
    if path.exists():
        raise ConfigurationError(f"{path} exists; {kind}s are edited by hand and never overwritten")
    if not path.resolve().parent.is_dir():
        raise ConfigurationError(f"{path}: there is no folder {path.parent}")


@asynccontextmanager
async def open_models(
    models: Mapping[str, str], settings: Settings
) -> AsyncIterator[dict[str, Model]]:
    """Open models by role, under one budget, and close them at the end of the block."""
    from textassay.evaluation.opening import open_models, open_store
    from textassay.runtime.stack import with_store

    async with AsyncExitStack() as stack:
        connected = await open_models(models, settings, stack)
        store = await open_store(settings, None, stack)
        try:
            yield {role: with_store(model, store) for role, model in connected.items()}
        except (ModelError, BudgetReached) as error:
            raise RunStopped from error
