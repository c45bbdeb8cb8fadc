"""Loads tasks: built-in ones by name, the user's own from a TOML file.

    name = "story"
    intro = "You will be given a short story."
    output_name = "Story"

    [[aspects]]
    name = "suspense"
    definition = "whether one wants to know how it goes on."
    scale = [1, 5]

An aspect may have labels in place of a scale, each with its definition: `labels = {fail = "...",
pass = "..."}`; `ordered = true` if more than two are ordered, lowest first; `multiple = true` if
several of them may apply to one text.

With `reference_name` prompts show the references as well. `measured` is the measured agreement with
people, which prompts do not contain.

An aspect with `optional = true` is judged only if it is named. With `asks = "response"` (or
`"conversation"`) GPTScore asks a yes/no question about a conversation that ends in the output (or
that is the output). With `steps = []` an aspect is judged without steps. With `needs = ["context"]`
(or `source`, `references`, `source or context`) examples without passages abstain on an aspect. An
unknown key is an error that names file and key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from textassay.agents.prompt_template import Task
from textassay.methods.library.toml import (
    check_known_keys,
    find_file,
    problem,
    read_toml,
    validate_as,
)
from textassay.prompts import TASKS, task_file
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect

DEFAULT = "general"
"""The default task."""

_TASK_KEYS = (
    "name", "intro", "source_name", "context_name", "reference_name", "output_name", "asks",
    "measured", "aspects",
)  # fmt: skip
_ASPECT_KEYS = (
    "name", "definition", "scale", "labels", "ordered", "multiple", "question",
    "higher_is_better", "steps", "source", "optional", "needs",
)  # fmt: skip
"""The last four are not fields of an `Aspect`; `source` is the origin of the words."""


def load(task: str | None = None, aspects: Iterable[str | Aspect] | None = None) -> Task:
    """Return a task with the chosen aspects.

    Args:
        task: Name of a built-in task, or path of a TOML file; `None` for the general one, or for
            the first built-in one that has all the aspects if the general one lacks some.
        aspects: Names of aspects, or aspects of the caller's own, in the order wanted; `None` for
            all.

    Raises:
        UnknownName: There is no such task or aspect; the message lists the existing ones.
        ConfigurationError: The file cannot be read or has an error; names file and key.
    """
    selected = tuple(aspects or ())
    if task is None:
        whole = _first_with(selected)
    else:
        whole = _read(find_file("task", task, TASKS, task_file, suffixes=(".toml",)))
    if aspects is None:
        return whole
    by_name: dict[str, Aspect] = {}
    for item in selected:
        aspect = item if isinstance(item, Aspect) else _find_aspect(whole, item)
        # names compare without case, as spellings differ between models and files of ratings
        if by_name.setdefault(aspect.name.casefold(), aspect) != aspect:
            raise ConfigurationError(f"two aspects are called {aspect.name!r}")
    if not by_name:
        raise ConfigurationError(
            f"no aspect of task {whole.name!r} is chosen; it has: {', '.join(_names(whole))}"
        )
    given_names = {item.name.casefold() for item in selected if isinstance(item, Aspect)}
    beside = [a for key, a in by_name.items() if key in given_names or a in whole.optional]
    digest = _digest_with(whole, beside)
    return whole.model_copy(update={"aspects": tuple(by_name.values()), "digest": digest})


def _first_with(selected: Iterable[str | Aspect]) -> Task:
    """Return the first built-in task with all the named aspects; the general one comes first."""
    names = {item.casefold() for item in selected if isinstance(item, str)}
    tasks = [
        _read(task_file(name)) for name in (DEFAULT, *(name for name in TASKS if name != DEFAULT))
    ]
    for task in tasks:
        if names <= {name.casefold() for name in _names(task)}:
            return task
    known = {name.casefold() for task in tasks for name in _names(task)}
    if unknown := sorted(names - known):
        listed = "; ".join(f"{task.name}: {', '.join(_names(task))}" for task in tasks)
        raise UnknownName("aspect", unknown[0], [listed])
    listed = ", ".join(sorted(names))
    raise ConfigurationError(
        f"no built-in task has all of the aspects {listed}; name a task with task="
    )


def _find_aspect(task: Task, name: str) -> Aspect:
    for aspect in (*task.aspects, *task.optional):
        if aspect.name.casefold() == name.casefold():
            return aspect
    raise UnknownName(f"aspect of task {task.name!r}:", name, _names(task))


def _names(task: Task) -> list[str]:
    return [aspect.name for aspect in (*task.aspects, *task.optional)]


def _digest_with(task: Task, aspects: Iterable[Aspect]) -> str:
    """Return the task's digest, which also depends on chosen optional aspects."""
    texts = [aspect.model_dump_json() for aspect in aspects]
    if not texts:
        return task.digest
    return hashlib.sha256(repr((task.digest, texts)).encode()).hexdigest()[:6]


def _read(path: Path) -> Task:
    content = read_toml(path).content
    check_known_keys(path, content, _TASK_KEYS)
    rows = content.pop("aspects", None)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise problem(path, "it needs at least one [[aspects]] table")
    parsed = [_aspect(path, number, row) for number, row in enumerate(rows, start=1)]
    # otherwise a run without `aspects` would have no aspect
    if all(row.get("optional") for row in rows):
        raise problem(path, "every aspect is optional, so there is nothing to judge by default")
    names = [aspect.name.casefold() for aspect in parsed]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise problem(path, f"two aspects are called {twice!r}")
    pairs = list(zip(parsed, rows, strict=True))
    steps = {aspect.name: row["steps"] for aspect, row in pairs if "steps" in row}
    needs = {aspect.name: row["needs"] for aspect, row in pairs if "needs" in row}
    content.setdefault("name", path.stem)
    # not part of the digest: the first is in GPTScore's signature, the second is a remark
    asks, measured = content.pop("asks", None), content.pop("measured", "")
    # the digest covers only default aspects, so that scores remain comparable after a new optional
    # aspect
    judged = [(aspect, row) for aspect, row in pairs if not row.get("optional")]
    facts = [{key: value for key, value in row.items() if key != "needs"} for _, row in judged]
    digest = hashlib.sha256(repr((content, facts)).encode("utf-8", "surrogatepass")).hexdigest()[:6]
    aspects = tuple(aspect for aspect, _ in judged)
    optional = tuple(a for a in parsed if a not in aspects)
    fields = {"aspects": aspects, "family": aspects, "optional": optional, "asks": asks}
    fields |= {"measured": measured, "steps": steps, "needs": needs, "digest": digest}
    return validate_as(path, content | fields, Task)


def _aspect(path: Path, number: int, row: dict[str, Any]) -> Aspect:
    where = f"aspect {row.get('name') or number!r}: "
    check_known_keys(path, row, _ASPECT_KEYS, where=where)
    if not isinstance(row.get("optional", False), bool):
        raise problem(path, f"{where}optional must be true or false")
    fields = {key: value for key, value in row.items() if key not in _ASPECT_KEYS[-4:]}
    return validate_as(path, fields, Aspect, where=where)
