"""textassay judges generated text with teams of small asynchronous agents.

    async with textassay.connect("openai/gpt-4.1-mini", rpm=500) as model:
        run = await textassay.evaluate("data.jsonl", method="g-eval", task="summarization",
        model=model)

Importing this package loads nothing heavy: a name is imported when it is first used.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from textassay.version import __version__

if TYPE_CHECKING:
    from textassay import calibration, learning, meta, methods, tools
    from textassay.evaluation.api import evaluate, evaluate_sync, stream
    from textassay.evaluation.run import Run
    from textassay.runtime.backends.scripted import ScriptedModel
    from textassay.runtime.connect import connect
    from textassay.runtime.data.dataset import Examples
    from textassay.runtime.graph.graph import Graph, Node, each, fixed
    from textassay.runtime.messages import (
        Aspect,
        AspectTree,
        Assignment,
        Example,
        Failure,
        Score,
        ScoreError,
    )
    from textassay.runtime.settings import Settings

logging.getLogger("textassay").addHandler(logging.NullHandler())

_HOME = {
    "Aspect": "textassay.runtime.messages",
    "AspectTree": "textassay.runtime.messages",
    "Assignment": "textassay.runtime.messages",
    "Example": "textassay.runtime.messages",
    "Examples": "textassay.runtime.data.dataset",
    "Failure": "textassay.runtime.messages",
    "Graph": "textassay.runtime.graph.graph",
    "Node": "textassay.runtime.graph.graph",
    "Run": "textassay.evaluation.run",
    "Score": "textassay.runtime.messages",
    "ScoreError": "textassay.runtime.messages",
    "ScriptedModel": "textassay.runtime.backends.scripted",
    "Settings": "textassay.runtime.settings",
    "connect": "textassay.runtime.connect",
    "each": "textassay.runtime.graph.graph",
    "evaluate": "textassay.evaluation.api",
    "evaluate_sync": "textassay.evaluation.api",
    "fixed": "textassay.runtime.graph.graph",
    "stream": "textassay.evaluation.api",
}
_MODULES = ("calibration", "learning", "meta", "methods", "testing", "tools")

__all__ = [
    "Aspect",
    "AspectTree",
    "Assignment",
    "Example",
    "Examples",
    "Failure",
    "Graph",
    "Node",
    "Run",
    "Score",
    "ScoreError",
    "ScriptedModel",
    "Settings",
    "__version__",
    "calibration",
    "connect",
    "each",
    "evaluate",
    "evaluate_sync",
    "fixed",
    "learning",
    "meta",
    "methods",
    "stream",
    "tools",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(f"textassay.{name}")
    raise AttributeError(f"module 'textassay' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
