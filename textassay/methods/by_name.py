"""Builds a method by its name: a built-in one, one of another package, or a fitted evaluator.

A method's module is imported when its name is used, so that a run does not import the others.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from textassay.methods.library import tasks
from textassay.methods.method import Method, Models, model_or_none
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect
from textassay.tools.tool import Tool


class _Methods(UserDict[str, Any]):
    """Method classes by name, each imported when it is first looked up."""

    def __getitem__(self, name: str) -> Any:
        method = self.data[name]
        if isinstance(method, str):
            module, _, cls = method.partition(".")
            method = self.data[name] = getattr(import_module(f"textassay.methods.{module}"), cls)
        return method


METHODS = _Methods(
    {
        "agent-judge": "agent_judge.AgentJudge",
        "checklist": "checklist.Checklist",
        "claims": "claims.ClaimCheck",
        "coascore": "coascore.CoAScore",
        "decide": "decide.Decide",
        "decomp-eval": "decomp_eval.DecompEval",
        "fusion-eval": "fusion_eval.FusionEval",
        "g-eval": "g_eval.GEval",
        "gptscore": "gptscore.GPTScore",
        "hd-eval": "hd_eval.HDEval",
        "jury": "jury.Jury",
        "llm-score": "llm_score.LLMScore",
        "llm-score-cot": "llm_score.LLMScoreCoT",
        "pairwise": "pairwise.Pairwise",
    }
)
"""Classes of the built-in methods by name: `METHODS[name](models, task, options)`, with `options`
of the class's own `Options`. The prompt of a `RatingMethod` is also in `REPLACEABLE` of
`library/profiles.py`.

Classes with `default_tools` also take `tools`; their `optional_tools` are added to the default if
the package's extra for them is installed.
"""

TOOLS = "tools"
"""Name of the method that reports tools' scores, `ToolScores`; it calls no model."""


def build(
    name: str,
    models: Models,
    *,
    task: str | None = None,
    aspects: Iterable[str | Aspect] | None = None,
    options: Mapping[str, Any] | None = None,
    tools: Iterable[str | Tool] = (),
) -> Method:
    """Return a method, ready to run.

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
    # first, so that tools for a method without tools are refused before files are read
    assistants = tools_for(name, tools, models)
    if _is_folder(name):
        return _build_fitted(name, models, task, aspects, options or {})
    method = find(name)
    loaded, parsed = tasks.load(task, aspects), method.Options.read(options or {})
    keywords = {"tools": assistants} if assistants else {}
    built: Method = method(models, loaded, parsed, **keywords)
    return built


def tools_for(name: str, tools: Iterable[str | Tool], models: Models) -> tuple[Tool, ...]:
    """Return a method's assistant evaluators, ready to use.

    The caller closes the returned tools.

    Args:
        name: Name of a method.
        tools: Specs such as `nli` or `sum_bleurt=bleurt:PATH`, or tools; if empty, the method's
            own default.
        models: The role `tools` is the model of `lm_prob` if its spec names no model.

    Raises:
        UnknownName: There is no such method or tool.
        ConfigurationError: The method takes no tools, or a tool cannot be made.
    """
    selected = tuple(tools)
    if not takes_tools(name):
        if selected:
            taking = [other for other in (*METHODS, TOOLS) if takes_tools(other)]
            raise ConfigurationError(f"{name} takes no tools; those that do: {', '.join(taking)}")
        return ()
    from textassay.tools.registry import build as build_tools

    model = model_or_none(models, "tools")
    return build_tools(selected or default_tools(name)[0], model=model)


def takes_tools(name: str) -> bool:
    """Return whether a method takes assistant evaluators."""
    return not _is_folder(name) and getattr(find(name), "default_tools", None) is not None


def default_tools(name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the default tools of a method that are installed."""
    if not takes_tools(name):
        return (), {}
    method = find(name)
    optional: Mapping[str, str] = getattr(method, "optional_tools", {})
    if not optional:
        return tuple(method.default_tools), {}
    from textassay.tools.registry import has_extra

    left_out = {spec: extra for spec, extra in optional.items() if not has_extra(extra)}
    return (*method.default_tools, *(spec for spec in optional if spec not in left_out)), left_out


def method_names() -> tuple[str, ...]:
    """Return the names of all methods, other packages' last, without importing those packages."""
    return (*METHODS, TOOLS, *sorted(_points().keys() - METHODS.keys()))


def find(name: str) -> Any:
    """Return the class of a method; a built-in name always means the built-in method.

    Raises:
        UnknownName: There is no such method.
        ConfigurationError: The method of another package cannot be loaded, or is not a method.
    """
    # built-in names first: no installed package can replace a method that is cited by name
    if name in METHODS:
        return METHODS[name]
    if name == TOOLS:
        return import_module("textassay.methods.tool_scores").ToolScores
    point = _points().get(name)
    if not point:
        raise UnknownName("method", name, [*method_names(), "or the path of an evaluator folder"])
    package = point.dist.name if point.dist else "another package"
    try:
        loaded = point.load()
    except Exception as error:  # a module of another package may raise any exception
        raise ConfigurationError(
            f"the method {name!r} of {package} cannot be loaded from {point.value!r}:"
            f" {type(error).__name__}: {error}"
        ) from error
    if not callable(loaded) or not hasattr(getattr(loaded, "Options", None), "read"):
        raise ConfigurationError(
            f"the method {name!r} of {package} is not a method: {point.value!r} must be a class "
            "that takes (models, task, options), with a nested Options such as "
            "textassay.methods.RatingOptions"
        )
    return loaded


def _points() -> dict[str, EntryPoint]:
    """Return the entry points of other packages' methods, for names that are not in `METHODS`."""
    return {point.name: point for point in entry_points(group="textassay.methods")}


def _is_folder(name: str) -> bool:
    # last, as finding other packages' methods scans all installed packages
    return name not in METHODS and Path(name).is_dir() and name not in method_names()


def _build_fitted(
    folder: str,
    models: Models,
    task: str | None,
    aspects: Iterable[str | Aspect] | None,
    options: Mapping[str, Any],
) -> Method:
    if task:
        raise ConfigurationError(
            f"{folder} is a fitted evaluator and brings its own task; leave out task={task}"
        )
    from textassay.methods.fitted.evaluator import load
    from textassay.methods.fitted.scores import (
        FittedMethod,
        LearnedOptions,
        LearnedTree,
        LearnedTreeOptions,
    )

    evaluator = load(folder)
    if evaluator.kind == "hd-eval":
        return LearnedTree(evaluator, models, aspects, LearnedTreeOptions.read(options))
    if models:
        raise ConfigurationError(
            f"{folder} was fitted on recorded scores and asks no model; leave out model="
        )
    return FittedMethod(evaluator, aspects, LearnedOptions.read(options))
