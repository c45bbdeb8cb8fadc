"""Loads and saves Fusion-Eval's plans: the paper's own by name, the user's from a TOML or JSON file.

    format = 1
    steps = [
      "Read the article and the summary.",
      "Check the score of nli, then compare the facts and rate consistency.",
    ]

    [assistants]
    consistency = ["nli"]
    fluency = []

`assistants` says which tools serve which aspect. The steps stand in the prompt; where there are
none, `text` does, in its own words. Files are for people to edit: a name that is not known is an
error that names file and name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field

from textassay.agents.reading.plan import matching
from textassay.agents.task import Task
from textassay.methods.library.toml import read_table, validated
from textassay.prompts import PLANS, plan_file
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Message, Plan
from textassay.runtime.storage.files import write_json, write_text

FORMAT = 1
"""Of the files that are written; newer ones are refused."""


class _File(Message):
    """What a plan file holds."""

    format: int = Field(default=FORMAT, strict=True, ge=1)
    source: str = ""
    """A remark on where the plan comes from."""
    assistants: dict[str, tuple[str, ...]]
    steps: tuple[str, ...] = ()
    text: str = ""


def load(plan: str, task: Task, tools: Iterable[str]) -> Plan:
    """Return a plan whose names are those of the task's aspects and of the tools.

    Aspects that are not judged are left out of it; aspects that the file does not name have no
    tools.

    Args:
        plan: Name of a published plan, or path of a TOML or JSON file.
        task: What the plan is for.
        tools: Names of the tools that there are.

    Raises:
        UnknownName: There is no such plan, or it names an aspect or a tool that there is not.
        ConfigurationError: The file cannot be read or describes no plan; names the file.
    """
    path = _find(plan)
    content = _content(path)
    if isinstance(content.get("format"), int) and content["format"] > FORMAT:
        raise ConfigurationError(
            f"plan {path} has format {content['format']}; this version reads up to {FORMAT}"
        )
    found = validated(path, content, _File)
    if not found.steps and not found.text.strip():
        raise ConfigurationError(
            f"plan {path} has neither steps nor text, so that it tells a judge nothing"
        )
    aspects, known = [aspect.name for aspect in (*task.aspects, *task.family)], list(tools)
    assistants: dict[str, tuple[str, ...]] = {aspect.name: () for aspect in task.aspects}
    for name, serving in found.assistants.items():
        aspect = matching(name, aspects)
        if aspect is None:
            raise UnknownName(f"aspect in plan {path}", name, list(dict.fromkeys(aspects)))
        named = tuple(_tool(path, tool, known) for tool in serving)
        if aspect in assistants:
            assistants[aspect] = tuple(dict.fromkeys(named))
    return Plan(assistants=assistants, steps=found.steps, text=found.text.strip())


def save(plan: Plan, path: Path, *, source: str = "") -> None:
    """Write a plan as a file that `load` reads and people edit: JSON where the path ends so, else TOML.

    The file is replaced in one step.

    Args:
        plan: The plan; its `text` is written where it has no steps.
        path: The file; its folder exists.
        source: A remark on where the plan comes from.

    Raises:
        OSError: The file cannot be written.
        ConfigurationError: The path ends in neither `.toml` nor `.json`.
    """
    if path.suffix == ".json":
        write_json(path, _table(plan, source))
    elif path.suffix == ".toml":
        write_text(path, as_toml(plan, source=source))
    else:
        raise ConfigurationError(f"a plan is saved as .toml or .json, not as {path.name!r}")


def as_toml(plan: Plan, *, source: str = "") -> str:
    """Return a plan as the text of a TOML file that `load` reads."""
    table = _table(plan, source)
    assistants = table.pop("assistants")
    lines = [f"{key} = {_toml(value)}" for key, value in table.items()]
    lines += [
        "",
        "[assistants]",
        *(f"{_string(name)} = {_toml(tools, flat=True)}" for name, tools in assistants.items()),
    ]
    return "\n".join(lines) + "\n"


def _table(plan: Plan, source: str) -> dict[str, Any]:
    words: dict[str, Any] = {"steps": list(plan.steps)} if plan.steps else {"text": plan.text}
    assistants = {name: list(tools) for name, tools in plan.assistants.items()}
    return {
        "format": FORMAT,
        **({"source": source} if source else {}),
        **words,
        "assistants": assistants,
    }


def _toml(value: Any, *, flat: bool = False) -> str:
    if isinstance(value, list):
        items = [_string(item) for item in value]
        return (
            "[" + ", ".join(items) + "]"
            if flat
            else "\n".join(["[", *(f"  {item}," for item in items), "]"])
        )
    return _string(value) if isinstance(value, str) else str(value)


def _string(text: str) -> str:
    """Return a TOML string: a JSON string is one but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _find(plan: str) -> Path:
    if plan in PLANS:
        return plan_file(plan)
    path = Path(plan)
    if path.suffix in (".toml", ".json") or path.is_file():
        return path
    raise UnknownName(
        "plan", plan, ["auto", "none", *PLANS, "or the path of a .toml or .json file"]
    )


def _content(path: Path) -> dict[str, Any]:
    if path.suffix != ".json":
        return read_table(path).content
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ConfigurationError(f"file {path} does not exist") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"file {path}: it holds no table")
    return content


def _tool(path: Path, name: str, known: list[str]) -> str:
    found = matching(name, known)
    if found is None:
        raise UnknownName(
            f"assistant evaluator in plan {path} (choose them with --tools)", name, known
        )
    return found
