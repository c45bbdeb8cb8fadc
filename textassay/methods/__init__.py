"""Methods from papers, each in a file of its own, and how one is built by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from textassay.methods import tasks, trees
from textassay.methods.coascore import CoAScore
from textassay.methods.decomp_eval import DecompEval
from textassay.methods.evaluator import is_evaluator, load
from textassay.methods.g_eval import GEval
from textassay.methods.gptscore import GPTScore
from textassay.methods.hd_eval import HDEval
from textassay.methods.learned import Learned, LearnedOptions
from textassay.methods.learned_tree import LearnedTree, LearnedTreeOptions
from textassay.methods.llm_score import LLMScore, LLMScoreCoT
from textassay.methods.method import Method, Models, Options
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect

METHODS: dict[str, Any] = {
    "coascore": CoAScore,
    "decomp-eval": DecompEval,
    "g-eval": GEval,
    "gptscore": GPTScore,
    "hd-eval": HDEval,
    "llm-score": LLMScore,
    "llm-score-cot": LLMScoreCoT,
}
"""Method classes by name: `METHODS[name](models, task, options)`, with `options` of the class's own `Options`."""


def build(
    name: str,
    models: Models,
    *,
    task: str | None = None,
    aspects: Iterable[str | Aspect] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Method:
    """Return a method that is ready to run.

    Args:
        name: Name of a method, or path of an evaluator folder.
        models: One model, or models by role.
        task: Built-in task or path of a TOML file; see `tasks.load` for `None`.
        aspects: Names of aspects, or aspects of the caller's own; `None` for all of the task.
        options: Options by name.

    Raises:
        UnknownName: There is no such method, task, aspect or option.
        ConfigurationError: Something does not fit together.
    """
    if name not in METHODS:
        if is_evaluator(name) or Path(name).is_dir():
            return _fitted(name, models, task, aspects, dict(options or {}))
        raise UnknownName("method", name, [*METHODS, "or an evaluator folder"])
    method = METHODS[name]
    built: Method = method(models, tasks.load(task, aspects), method.Options.read(options or {}))
    return built


def _fitted(
    folder: str, models: Models, task: str | None, aspects: Iterable[str | Aspect] | None, options: dict[str, Any]
) -> Method:
    if task is not None:
        raise ConfigurationError(f"{folder} is a fitted evaluator and brings its own task; leave out --task {task}")
    evaluator = load(folder)
    if evaluator.kind == "hd-eval":
        return LearnedTree(evaluator, models, aspects, LearnedTreeOptions.read(options))
    if models:
        raise ConfigurationError(f"{folder} was fitted on recorded scores and asks no model; leave out --model")
    return Learned(evaluator, aspects, LearnedOptions.read(options))


__all__ = [
    "METHODS",
    "CoAScore",
    "DecompEval",
    "GEval",
    "GPTScore",
    "HDEval",
    "LLMScore",
    "LLMScoreCoT",
    "Learned",
    "LearnedTree",
    "Method",
    "Models",
    "Options",
    "build",
    "tasks",
    "trees",
]
