"""Methods from papers, each in a file of its own, and how one is built by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from textassay.methods.checklist import Checklist
from textassay.methods.claims import ClaimCheck
from textassay.methods.coascore import CoAScore
from textassay.methods.decomp_eval import DecompEval
from textassay.methods.fitted.evaluator import is_evaluator, load
from textassay.methods.fitted.scores import Learned, LearnedOptions
from textassay.methods.fitted.tree import LearnedTree, LearnedTreeOptions
from textassay.methods.fusion_eval import FusionEval
from textassay.methods.g_eval import GEval
from textassay.methods.gptscore import GPTScore
from textassay.methods.hd_eval import HDEval
from textassay.methods.judging import PromptMethod, RatingMethod
from textassay.methods.jury import Jury
from textassay.methods.library import plans, profiles, tasks, trees
from textassay.methods.llm_score import LLMScore, LLMScoreCoT
from textassay.methods.method import Method, Models, Options, PromptOptions
from textassay.methods.pairwise import Pairwise
from textassay.methods.tool_scores import ToolScores
from textassay.runtime.errors import ConfigurationError, UnknownName, parameter
from textassay.runtime.messages import Aspect
from textassay.tools import Tool
from textassay.tools import build as build_tools

METHODS: dict[str, Any] = {
    "checklist": Checklist,
    "claims": ClaimCheck,
    "coascore": CoAScore,
    "decomp-eval": DecompEval,
    "fusion-eval": FusionEval,
    "g-eval": GEval,
    "gptscore": GPTScore,
    "hd-eval": HDEval,
    "jury": Jury,
    "llm-score": LLMScore,
    "llm-score-cot": LLMScoreCoT,
    "pairwise": Pairwise,
}
"""Method classes by name: `METHODS[name](models, task, options)`, with `options` of the class's own
`Options`.

Classes with `default_tools` take `tools` as well.
"""

ENTRY_POINTS = "textassay.methods"
"""Entry-point group in which other packages name their method classes; looked at when a name is not
in `METHODS`."""


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
    # refuses tools that the method does not take before anything else is read
    assistants = tools_for(name, tools, models)
    if _is_folder(name):
        return _fitted(name, models, task, aspects, options or {})
    method = find(name)
    loaded, read = tasks.load(task, aspects), method.Options.read(options or {})
    built: Method = (
        method(models, loaded, read, tools=assistants)
        if assistants
        else method(models, loaded, read)
    )
    return built


def tools_for(name: str, tools: Iterable[str | Tool], models: Models) -> tuple[Tool, ...]:
    """Return a method's assistant evaluators, ready to use.

    The caller closes the tools that are made here.

    Args:
        name: Name of a method.
        tools: Specs such as `nli` or `sum_bleurt=bleurt:PATH`, or tools; where empty, the method's
            own default.
        models: What `lm_prob` asks where its spec names no model: the role `tools`.

    Raises:
        UnknownName: There is no such method or tool.
        ConfigurationError: The method takes no tools, or a tool cannot be made.
    """
    default = None if _is_folder(name) else getattr(find(name), "default_tools", None)
    selected = tuple(tools)
    if default is None:
        if selected:
            raise ConfigurationError(
                f"{name} takes no tools; those that do: {', '.join(_WITH_TOOLS)}"
            )
        return ()
    model = (models.get("tools") or models.get("")) if isinstance(models, Mapping) else models
    return build_tools(selected or default, model=model)


def known() -> tuple[str, ...]:
    """Return the names of all methods.

    The built-in ones, then those of other packages, none of which is imported.
    """
    return (*METHODS, ToolScores.name, *sorted(_points().keys() - METHODS.keys()))


def find(name: str) -> Any:
    """Return the class of a method; a built-in name always means the built-in method.

    Raises:
        UnknownName: There is no such method.
        ConfigurationError: The method of another package cannot be loaded, or is no method.
    """
    # built-in names first: no installed package can replace a method that is cited by name
    if name in METHODS:
        return METHODS[name]
    if name == ToolScores.name:
        return ToolScores
    point = _points().get(name)
    if point is None:
        raise UnknownName("method", name, [*known(), "or the path of an evaluator folder"])
    package = point.dist.name if point.dist else "another package"
    try:
        loaded = point.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        raise ConfigurationError(
            f"the method {name!r} of {package} cannot be loaded from {point.value!r}:"
            f" {type(error).__name__}: {error}"
        ) from error
    if not callable(loaded) or not hasattr(getattr(loaded, "Options", None), "read"):
        raise ConfigurationError(
            f"the method {name!r} of {package} is no method: {point.value!r} must be a class that"
            " takes (models, task, options), with a nested Options such as"
            " textassay.methods.Options"
        )
    return loaded


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _is_folder(name: str) -> bool:
    # asked last: the names of other packages' methods take a look at everything that is installed
    return (
        name not in METHODS and (is_evaluator(name) or Path(name).is_dir()) and name not in known()
    )


def _fitted(
    folder: str,
    models: Models,
    task: str | None,
    aspects: Iterable[str | Aspect] | None,
    options: Mapping[str, Any],
) -> Method:
    if task is not None:
        raise ConfigurationError(
            f"{folder} is a fitted evaluator and brings its own task; leave out "
            f"{parameter('task', str(task))}"
        )
    evaluator = load(folder)
    if evaluator.kind == "hd-eval":
        return LearnedTree(evaluator, models, aspects, LearnedTreeOptions.read(options))
    if models:
        raise ConfigurationError(
            f"{folder} was fitted on recorded scores and asks no model; leave out "
            f"{parameter('model')}"
        )
    return Learned(evaluator, aspects, LearnedOptions.read(options))


_WITH_TOOLS = [
    *(name for name, method in METHODS.items() if hasattr(method, "default_tools")),
    ToolScores.name,
]


__all__ = [
    "METHODS",
    "Checklist",
    "ClaimCheck",
    "CoAScore",
    "DecompEval",
    "FusionEval",
    "GEval",
    "GPTScore",
    "HDEval",
    "Jury",
    "LLMScore",
    "LLMScoreCoT",
    "Learned",
    "LearnedTree",
    "Method",
    "Models",
    "Options",
    "Pairwise",
    "PromptMethod",
    "PromptOptions",
    "RatingMethod",
    "ToolScores",
    "build",
    "find",
    "known",
    "plans",
    "profiles",
    "tasks",
    "tools_for",
    "trees",
]
