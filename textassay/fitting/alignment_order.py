"""What is requested of an alignment, and what of the data and tasks that means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from textassay.agents.task import Task
from textassay.fitting.alignment import Growth
from textassay.fitting.fit_from_scores import Learning
from textassay.fitting.table import Selection, human_aspects
from textassay.methods.hd_eval import BY_MODEL, HDEvalOptions
from textassay.methods.library import tasks
from textassay.prompts import TASKS
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, parameter
from textassay.runtime.messages import Example
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings


@dataclass(frozen=True)
class AlignmentOrder:
    """The request for an alignment.

    Attributes:
        data: Examples with human ratings.
        models: Names of models, or models, by role (`scorer`, `decomposer`; `""` serves both).
        out: Folder of the evaluator; `None` for a dry run.
        task: Built-in task or path of a TOML file; `None` for the one that defines most of the
            human aspects.
        options: How the judge is asked.
        growth: How far the tree grows.
        learning: How to learn.
        settings: How models are asked.
        limit: Maximum number of rated examples, from the first.
        tree: `model` for a tree that the model grows, `published` for that of the task, or the
            name or file of one that is given: it is rated layer by layer, and pruned by
            `growth.keep` alone.
    """

    data: Examples
    models: Mapping[str, str | Model]
    out: Path | None
    task: str | None = None
    options: HDEvalOptions = field(default_factory=HDEvalOptions)
    growth: Growth = field(default_factory=Growth)
    learning: Learning = field(default_factory=Learning)
    settings: Settings = field(default_factory=Settings)
    limit: int | None = None
    tree: str = BY_MODEL


def task_for(task: str | None, aspects: Sequence[str]) -> Task:
    """Return the task with those human aspects that it defines: the first layer.

    Args:
        task: Built-in task or path of a TOML file; `None` for the first built-in one that defines
            most.
        aspects: Names of the human aspects.

    Raises:
        UnknownName: There is no such task.
        ConfigurationError: None of the aspects is defined.
    """
    names = (
        [task]
        if task is not None
        else [tasks.DEFAULT, *(name for name in TASKS if name != tasks.DEFAULT)]
    )
    best: tuple[list[str], str] = ([], names[0])
    for name in names:
        known = {aspect.name.casefold() for aspect in tasks.load(name).aspects}
        defined = [aspect for aspect in aspects if aspect.casefold() in known]
        if len(defined) > len(best[0]):
            best = (defined, name)
    if not best[0]:
        raise ConfigurationError(
            f"no task defines what people rated ({', '.join(aspects)}), so there is no first layer;"
            f" give the definitions in a TOML file with {parameter('task', 'FILE')}"
        )
    return tasks.load(best[1], best[0])


def rated(data: Examples, learning: Learning, limit: int | None) -> list[Example]:
    """Return the examples that people rated on a wanted aspect, at most `limit` of them."""
    names = human_aspects(data.check(), learning.aspects)
    examples: list[Example] = []
    for example in data:
        if limit is not None and len(examples) == limit:
            break
        if any(example.human.get(name) is not None for name in names):
            examples.append(example)
    return examples


def selection(learning: Learning) -> Selection:
    """Return which aspects and rows of the data are learned from."""
    return Selection(aspects=learning.aspects, by_row=learning.by_row)
