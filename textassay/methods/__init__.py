"""Methods from papers, each in a file of its own, and how one is built by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textassay.methods import tasks, trees
from textassay.methods.coascore import CoAScore
from textassay.methods.decomp_eval import DecompEval
from textassay.methods.g_eval import GEval
from textassay.methods.hd_eval import HDEval
from textassay.methods.gptscore import GPTScore
from textassay.methods.llm_score import LLMScore, LLMScoreCoT
from textassay.methods.method import Method, Models, Options
from textassay.runtime.errors import UnknownName
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
        name: Name of a method.
        models: One model, or models by role.
        task: Built-in task or path of a TOML file; see `tasks.load` for `None`.
        aspects: Names of aspects, or aspects of the caller's own; `None` for all of the task.
        options: Options by name.

    Raises:
        UnknownName: There is no such method, task, aspect or option.
        ConfigurationError: Something does not fit together.
    """
    if name not in METHODS:
        raise UnknownName("method", name, list(METHODS))
    method = METHODS[name]
    built: Method = method(models, tasks.load(task, aspects), method.Options.read(options or {}))
    return built


__all__ = [
    "METHODS",
    "CoAScore",
    "DecompEval",
    "GEval",
    "GPTScore",
    "HDEval",
    "LLMScore",
    "LLMScoreCoT",
    "Method",
    "Models",
    "Options",
    "build",
    "tasks",
    "trees",
]
