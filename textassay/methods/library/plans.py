"""Loads and saves Fusion-Eval's plans.

The paper's plans have names, the user's are TOML or JSON files.

    format = 1
    steps = [
      "Read the article and the summary.",
      "Check the score of nli, then compare the facts and rate consistency.",
    ]

    [assistants]
    consistency = ["nli"]
    fluency = []

`assistants` lists the tools for each aspect. The prompt shows the steps, or `text` if there are no
steps. People edit these files, so an unknown name is an error that names the file and the name.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from textassay.agents.prompt_template import Task
from textassay.agents.reading.lists import matching
from textassay.methods.library.toml import (
    FORMAT,
    check_format,
    find_file,
    read_toml,
    to_toml,
    validate_as,
    write_table,
)
from textassay.prompts import PLANS, plan_file
from textassay.runtime.base import Json
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Plan


class _PlanFile(Plan, defer_build=True):
    """The content of a plan file."""

    format: int = Field(default=FORMAT, strict=True, ge=1)
    source: str = ""
    """A remark on the origin of the plan."""


def load(plan: str, task: Task, tools: Iterable[str]) -> Plan:
    """Return a plan with the names of the task's aspects and of the tools.

    Aspects that are not judged are left out; aspects that the file does not name have no tools.

    Args:
        plan: Name of a published plan, or path of a TOML or JSON file.
        task: The task of the plan.
        tools: Names of the available tools.

    Raises:
        UnknownName: The plan is unknown, or it names an unknown aspect or tool.
        ConfigurationError: The file cannot be read or describes no plan; names the file.
    """
    path = find_file("plan", plan, PLANS, plan_file, "auto", "none")
    content = read_toml(path).content
    check_format(path, content)
    parsed = validate_as(path, content, _PlanFile)
    # `plan=none` is the way to judge without a plan; an empty file is a mistake
    if not parsed.steps and not parsed.text.strip():
        raise ConfigurationError(
            f"plan {path} has neither steps nor text, so it has no instructions for a judge"
        )
    aspects, tool_names = [aspect.name for aspect in (*task.aspects, *task.family)], list(tools)
    assistants: dict[str, tuple[str, ...]] = {aspect.name: () for aspect in task.aspects}
    for name, serving in parsed.assistants.items():
        aspect = matching(name, aspects)
        if not aspect:
            raise UnknownName(f"aspect in plan {path}", name, list(dict.fromkeys(aspects)))
        named = tuple(_tool(path, tool, tool_names) for tool in serving)
        # published plans name all aspects of their task; those that are not judged are left out
        if aspect in assistants:
            assistants[aspect] = tuple(dict.fromkeys(named))
    return Plan(assistants=assistants, steps=parsed.steps, text=parsed.text.strip())


def save(plan: Plan, path: Path, *, source: str = "") -> None:
    """Write a plan as a file that `load` reads and people edit.

    JSON if the path ends in `.json`, else TOML; the file is replaced in one step.

    Args:
        plan: The plan; its `text` is written if it has no steps.
        path: The file; its folder exists.
        source: A remark on the origin of the plan.

    Raises:
        OSError: The file cannot be written.
        ConfigurationError: The path ends in neither `.toml` nor `.json`.
    """
    write_table(path, _table(plan, source))


def as_toml(plan: Plan, *, source: str = "") -> str:
    """Return a plan as the text of a TOML file that `load` reads."""
    return to_toml(_table(plan, source))


def _table(plan: Plan, source: str) -> Json:
    words: Json = {"steps": list(plan.steps)} if plan.steps else {"text": plan.text}
    assistants = {name: list(tools) for name, tools in plan.assistants.items()}
    return {
        "format": FORMAT,
        **({"source": source} if source else {}),
        **words,
        "assistants": assistants,
    }


def _tool(path: Path, name: str, known: list[str]) -> str:
    if match := matching(name, known):
        return match
    raise UnknownName(f"assistant evaluator in plan {path} (choose them with tools=)", name, known)
