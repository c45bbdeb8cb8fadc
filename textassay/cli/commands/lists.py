"""`textassay methods|tasks|settings|graph`: what there is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from textassay.cli.app import MAKING, command
from textassay.cli.console import results
from textassay.cli.flags import JUDGING, AsJson, Given, argument
from textassay.runtime.model import Capabilities, Model
from textassay.runtime.settings import FLAGGED, OF_ROLES, SETTABLE, LocalSettings, Settings
from textassay.table import indented, plain_table, printable

if TYPE_CHECKING:
    from rich.console import RenderableType


Rows = Sequence[Mapping[str, Any]]
PAGE_WIDTH = 120
"""Columns of these lists in a pipe or a file: their last column is prose, and `--json` is for
scripts."""
_DEFAULT_WIDTH = 17
_TABLE_WIDTH, _SHORT = 100, 2
"""Columns of a terminal below which rows of more than two cells are paragraphs: beside three cells
there is no room left for words."""


@command("methods", panel=MAKING, examples=("textassay methods", "textassay methods g-eval"))
def methods(
    name: Annotated[str | None, argument("[METHOD]", "Method whose options to show.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the methods, or one method's options (which --set takes)."""
    _show(_methods(name), as_json)


@command("tasks", panel=MAKING, examples=("textassay tasks", "textassay tasks summarization"))
def tasks(
    name: Annotated[str | None, argument("[TASK]", "Task, or a TOML file.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the built-in tasks, or one task's aspects with their definitions."""
    _show(_tasks(name), as_json)
    if name is not None and not as_json and (measured := _measured(name)):
        typer.echo(f"\nagreement with people: {measured}")


@command("settings", panel=MAKING, examples=("textassay settings", "textassay settings --json"))
def settings(*, as_json: AsJson = False) -> None:
    """List the run-time settings: flags, keys of --set and keys of a config file."""
    _show(_settings(), as_json)


def _show(rows: Rows, as_json: bool) -> None:
    """Print rows as a table, or as one JSON document `{"rows": [...]}`."""
    from rich.console import Group
    from rich.text import Text

    if as_json:
        # `default=str`: defaults of settings include paths and enumerations
        typer.echo(json.dumps({"rows": list(rows)}, default=str))
        return
    console, columns = results(pipe_width=PAGE_WIDTH), list(rows[0])
    if console.width < _TABLE_WIDTH and len(columns) > _SHORT:
        console.print(Group(*(line for row in rows for line in _paragraph(row))))
        return
    table = plain_table(*columns, left=len(columns))
    for column in table.columns:
        if column.header == "default":
            # one long default must not take the room of the words beside it
            column.max_width = _DEFAULT_WIDTH
    for row in rows:
        table.add_row(*(Text(printable(_shown(row[column]))) for column in columns))
    console.print(table)


def _paragraph(row: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield what a row is called and how it is given, and below that its words."""
    from rich.text import Text

    *short, (_, words) = row.items()
    name, *more = ((column, printable(_shown(value))) for column, value in short)
    notes = (
        f"  {column}: {value}" if column == "default" else f"  {value}" for column, value in more
    )
    yield Text(name[1], style="bold").append("".join(notes), style="not bold")
    yield indented(Text(printable(_shown(words))))


def _methods(name: str | None) -> Rows:
    """Return all methods, or the options of one."""
    from textassay.methods.by_name import find, known

    if name is None:
        return [{"method": each, "what": _summary(find(each))} for each in known()]
    return [{"option": key, **row} for key, row in _fields(find(name).Options)]


def _tasks(name: str | None) -> Rows:
    """Return all built-in tasks, or the aspects of one."""
    from textassay.methods.library import tasks as library
    from textassay.prompts import TASKS

    if name is None:
        return [
            {"task": each, "aspects": [aspect.name for aspect in library.load(each).aspects]}
            for each in TASKS
        ]
    return [
        {
            "aspect": aspect.name,
            "scale": list(aspect.labels or aspect.scale),
            "definition": aspect.definition,
        }
        for aspect in library.load(name).aspects
    ]


def _measured(name: str) -> str:
    from textassay.methods.library import tasks as library

    return library.load(name).measured


def _settings() -> Rows:
    """Return all run-time settings, those of local models among them, and how each is given."""
    own = [
        {"setting": key, "given by": _way(key), **row}
        for key, row in _fields(Settings)
        if key not in ("local", "roles")
    ]
    local = [
        {"setting": key, "given by": f"--set {key}=", **row} for key, row in _fields(LocalSettings)
    ]
    roles = {"setting": "models", "given by": "[models.ROLE] in --config", "default": {}}
    return [*own, {**roles, "what": "Settings of the model of one role."}, *local]


def _way(name: str) -> str:
    if name in FLAGGED:
        return f"--{name.replace('_', '-')}"
    if name in OF_ROLES:
        return "[models.ROLE] in --config"
    return f"--set {name}=" if name in SETTABLE else f"[{name}] in --config"


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, dict[str, Any]]]:
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        yield name, {"default": default, "what": " ".join((field.description or "").split())}


def _summary(command: Any) -> str:
    # the docstring's first line is the help, so the list cannot differ from the documentation
    return (command.__doc__ or "").strip().partition("\n")[0]


def _shown(value: Any) -> str:
    if value is None or value in ((), {}):
        return "-"
    if isinstance(value, list):
        numbers = all(isinstance(item, float) for item in value)
        return " to ".join(f"{item:g}" for item in value) if numbers else ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@command(
    "graph",
    panel=MAKING,
    examples=("textassay graph g-eval", "textassay graph evaluators/mine > mine.mmd"),
)
def graph(
    method: Annotated[
        str, argument("METHOD", "Method, such as g-eval, or the folder of a fitted evaluator.")
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
