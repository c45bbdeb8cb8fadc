"""Methods from papers, each in a file of its own, and how one is built by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from textassay.methods import tasks, trees
from textassay.methods.coascore import CoAScore
from textassay.methods.decomp_eval import DecompEval
from textassay.methods.evaluator import is_evaluator, load
from textassay.methods.fusion_eval import FusionEval
from textassay.methods.g_eval import GEval
from textassay.methods.gptscore import GPTScore
from textassay.methods.hd_eval import HDEval
from textassay.methods.learned import Learned, LearnedOptions
from textassay.methods.learned_tree import LearnedTree, LearnedTreeOptions
from textassay.methods.llm_score import LLMScore, LLMScoreCoT
from textassay.methods.method import Method, Models, Options
from textassay.methods.tool_scores import ToolScores
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect
from textassay.tools import Tool
from textassay.tools import build as build_tools

METHODS: dict[str, Any] = {
    "coascore": CoAScore,
    "decomp-eval": DecompEval,
    "fusion-eval": FusionEval,
    "g-eval": GEval,
    "gptscore": GPTScore,
    "hd-eval": HDEval,
    "llm-score": LLMScore,
    "llm-score-cot": LLMScoreCoT,
    "tools": ToolScores,
}
"""Method classes by name: `METHODS[name](models, task, options)`, with `options` of the class's own `Options`.

Classes with `default_tools` take `tools` as well.
"""


def build(
    name: str,
    models: Models,
    *,
    task: str | None = None,
    aspects: Iterable[str | Aspect] | None = None,
    options: Mapping[str, Any] | None = None,
    tools: Iterable[str | Tool] = (),
) -> Method:
    """Return a method that is ready to run.

    Args:
        name: Name of a method, or path of an evaluator folder.
        models: One model, or models by role.
        task: Built-in task or path of a TOML file; see `tasks.load` for `None`.
        aspects: Names of aspects, or aspects of the caller's own; `None` for all of the task.
        options: Options by name.
        tools: Assistant evaluators; see `tools_for`.

    Raises:
        UnknownName: There is no such method, task, aspect, option or tool.
        ConfigurationError: Something does not fit together.
    """
    assistants = tools_for(name, tools, models)
    if _is_folder(name):
        return _fitted(name, models, task, aspects, options or {})
    method = _find(name)
    loaded, read = tasks.load(task, aspects), method.Options.read(options or {})
    built: Method = method(models, loaded, read, tools=assistants) if assistants else method(models, loaded, read)
    return built


def tools_for(name: str, tools: Iterable[str | Tool], models: Models) -> tuple[Tool, ...]:
    """Return a method's assistant evaluators, ready to use; whoever asks for them closes those that are made here.

    Args:
        name: Name of a method.
        tools: Specs such as `nli` or `sum_bleurt=bleurt:PATH`, or tools; where empty, the method's own default.
        models: What `lm_prob` asks where its spec names no model: the role `tools`.

    Raises:
        UnknownName: There is no such method or tool.
        ConfigurationError: The method takes no tools, or a tool cannot be made.
    """
    default = None if _is_folder(name) else getattr(_find(name), "default_tools", None)
    wanted = tuple(tools)
    if default is None:
        if wanted:
            raise ConfigurationError(f"{name} takes no tools; those that do: {', '.join(_WITH_TOOLS)}")
        return ()
    asked = (models.get("tools") or models.get("")) if isinstance(models, Mapping) else models
    return build_tools(wanted or default, model=asked)


def _find(name: str) -> Any:
    if name not in METHODS:
        raise UnknownName("method", name, [*METHODS, "or the path of an evaluator folder"])
    return METHODS[name]


def _is_folder(name: str) -> bool:
    return name not in METHODS and (is_evaluator(name) or Path(name).is_dir())


def _fitted(
    folder: str, models: Models, task: str | None, aspects: Iterable[str | Aspect] | None, options: Mapping[str, Any]
) -> Method:
    if task is not None:
        raise ConfigurationError(f"{folder} is a fitted evaluator and brings its own task; leave out --task {task}")
    evaluator = load(folder)
    if evaluator.kind == "hd-eval":
        return LearnedTree(evaluator, models, aspects, LearnedTreeOptions.read(options))
    if models:
        raise ConfigurationError(f"{folder} was fitted on recorded scores and asks no model; leave out --model")
    return Learned(evaluator, aspects, LearnedOptions.read(options))


_WITH_TOOLS = [name for name, method in METHODS.items() if hasattr(method, "default_tools")]


__all__ = [
    "METHODS",
    "CoAScore",
    "DecompEval",
    "FusionEval",
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
    "ToolScores",
    "build",
    "tasks",
    "tools_for",
    "trees",
]
