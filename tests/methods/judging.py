"""Builds a method by name and judges one example, as nearly every test of a method does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textassay.methods import METHODS, AnswerMethod, build
from textassay.runtime.messages import Assignment, Example

CHOICES = str(Path(__file__).parents[2] / "examples" / "profiles" / "choices")
"""A complete profile of a model that only continues text: ratings and answers are choices."""


def mock_reply(method: str) -> Any:
    """Return a mock server's reply to a method: its dry run answer if only the method reads it."""
    kind = METHODS[method]
    own = issubclass(kind, AnswerMethod)
    return (lambda body, draw: kind.dry_run_answer) if own else "score"


async def scores_of(method: Any, example: Example) -> Any:
    """Return a method's scores of an example, or the failure that takes their place."""
    return await method.graph.run(Assignment(example=example, aspects=method.aspects))


async def judged(
    name: str, model: Any, example: Example, task: str | None = None, aspects: Any = None,
    tools: Any = (), **options: Any,
) -> Any:  # fmt: skip
    """Build a method with these options and return its scores of an example."""
    method = build(name, model, task=task, aspects=aspects, options=options, tools=tools)
    return await scores_of(method, example)
