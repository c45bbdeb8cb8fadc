"""Can you trust your LLM judge? textassay measures it against people, and makes it better.

    async with textassay.connect("openai/gpt-4.1-mini", rpm=500) as model:
        run = await textassay.evaluate(
            "data.jsonl", method="g-eval", task="summarization", model=model
        )

Importing this package loads nothing heavy: a name is imported when it is first used.
"""

import logging
from typing import TYPE_CHECKING, Any

from textassay.version import __version__

if TYPE_CHECKING:
    from textassay import (
        agents,
        agreement,
        estimation,
        learning,
        methods,
        runtime,
        telemetry,
        testing,
        tools,
    )
    from textassay.checking.api import check
    from textassay.evaluation.api import evaluate, evaluate_sync, stream
    from textassay.evaluation.run import Run
    from textassay.fitting.api import fit, fit_sync
    from textassay.fitting.report import Fit
    from textassay.runtime.api import connect
    from textassay.runtime.backends.scripted import ScriptedModel
    from textassay.runtime.base import ScoreError
    from textassay.runtime.data.dataset import Examples
    from textassay.runtime.graph import Graph, Node, constant, each
    from textassay.runtime.messages import Aspect, AspectTree, Assignment, Example, Failure, Score
    from textassay.runtime.questions import Question
    from textassay.runtime.settings import Settings

# the convention for libraries: without it Python prints warnings of the package to standard error
# of applications that configured no logging
logging.getLogger("textassay").addHandler(logging.NullHandler())

# written out rather than found by a search: type checkers and editors see the same names through
# the imports above
_NAMES_IN = {
    "checking.api": "check",
    "evaluation.api": "evaluate evaluate_sync stream",
    "evaluation.run": "Run",
    "fitting.api": "fit fit_sync",
    "fitting.report": "Fit",
    "runtime.api": "connect",
    "runtime.backends.scripted": "ScriptedModel",
    "runtime.base": "ScoreError",
    "runtime.data.dataset": "Examples",
    "runtime.graph": "Graph Node each constant",
    "runtime.messages": "Aspect AspectTree Assignment Example Failure Score",
    "runtime.questions": "Question",
    "runtime.settings": "Settings",
}
__all__ = [
    "Aspect",
    "AspectTree",
    "Assignment",
    "Example",
    "Examples",
    "Failure",
    "Fit",
    "Graph",
    "Node",
    "Question",
    "Run",
    "Score",
    "ScoreError",
    "ScriptedModel",
    "Settings",
    "__version__",
    "agents",
    "agreement",
    "check",
    "connect",
    "constant",
    "each",
    "estimation",
    "evaluate",
    "evaluate_sync",
    "fit",
    "fit_sync",
    "learning",
    "methods",
    "runtime",
    "stream",
    "telemetry",
    "testing",
    "tools",
]


def __getattr__(name: str) -> Any:
    # imported when first asked: pytest imports this package in every session for the sake of its
    # plugin, and each module costs such a session a part of a millisecond
    from textassay.lazy import lazy

    return lazy(__name__, _NAMES_IN, tuple(__all__))[0](name)


def __dir__() -> list[str]:
    return sorted(__all__)
