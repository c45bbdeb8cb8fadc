"""Descriptions of assistant evaluators for planners and judges, and of their scores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from pydantic import Field

from textassay.runtime.messages import Aspect, Message, Scale, Score
from textassay.runtime.model import Json
from textassay.tools.tool import Tool

UNIT: Scale = (0.0, 1.0)
"""The scale on which scorers are averaged."""


class Assistant(Message):
    """The description of one tool."""

    name: str = Field(min_length=1)
    """The tool's name."""
    description: str
    """The tool's own words."""
    scale: Scale | None = None
    """Lowest and highest value; `None` if unbounded."""
    higher_is_better: bool = True
    """Whether a high value speaks for the text."""
    signature: str = ""
    """The tool's signature."""

    @classmethod
    def of(cls, tool: Tool) -> Self:
        """Describe a tool."""
        return cls(
            name=tool.name,
            description=tool.description,
            scale=tool.scale,
            higher_is_better=tool.higher_is_better,
            signature=tool.signature,
        )

    @property
    def range(self) -> str:
        """Its range in words, such as `0 to 1, higher is better`."""
        ends = "no fixed ends" if self.scale is None else f"{self.scale[0]:g} to {self.scale[1]:g}"
        return f"{ends}, {'higher' if self.higher_is_better else 'lower'} is better"


def assistants_of(tools: Iterable[Tool]) -> tuple[Assistant, ...]:
    """Describe several tools."""
    return tuple(Assistant.of(tool) for tool in tools)


def reading_of(score: Score) -> str:
    """Return a tool's score as text for a prompt; a missing one with the name of its reason."""
    if score.value is not None:
        # Four digits: more would suggest a precision that no tool has, and cost tokens.
        return f"{score.value:.4g}"
    return f"missing ({score.error.type})" if score.error is not None else "missing"


def on_unit_scale(
    score: Score, assistant: Assistant, aspect: Aspect, span: Scale | None = None
) -> Score:
    """Return a tool's score mapped to 0..1, reversed if its good end is the aspect's bad end.

    Args:
        score: The tool's score.
        assistant: The tool.
        aspect: What the score is to speak for.
        span: Values that become 0 and 1, for tools whose scale has no ends; values beyond count as
            the nearer end.
    """
    scale = assistant.scale or span
    if score.value is None or scale is None:
        return score
    low, high = scale
    # Ranges are chosen by users for unbounded tools, so values beyond them do come.
    share = (min(max(score.value, low), high) - low) / (high - low)
    turned = assistant.higher_is_better != aspect.higher_is_better
    return score.model_copy(update={"value": 1.0 - share if turned else share, "scale": UNIT})


def as_assistance(score: Score, selected: bool | None) -> Json:
    """Return a tool's score as evidence of a judgment.

    Args:
        score: As the tool gave it.
        selected: Whether the plan names the tool for the judged aspect; `None` without a plan.
    """
    assistance: dict[str, Any] = {
        "text": score.aspect,
        "value": score.value,
        "outcome": score.outcome,
    }
    if score.scale is not None:
        assistance["scale"] = list(score.scale)
    if score.error is not None:
        assistance["problem"] = f"{score.error.type}: {score.error.message}"
    if selected is not None:
        assistance["selected"] = selected
    return assistance
