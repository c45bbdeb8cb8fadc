"""Writes the evaluation steps of an aspect: G-Eval's automatic chain of thought (section 2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from textassay.agents.asking import chat
from textassay.agents.task import Task
from textassay.runtime.errors import ConfigurationError, MalformedResponse
from textassay.runtime.messages import Aspect, Message
from textassay.runtime.model import Model, Request

_SPECIMEN = """\
1. Read what the text was made from carefully and identify its main topic and key points.
2. Read the text and compare it with what it was made from. Check whether the text does justice to the criterion \
throughout, and note each place where it does not and how much that disturbs.
3. Assign a score on the scale that is given, where the lowest number is the worst and the highest the best, based on \
the Evaluation Criteria."""
"""As long as those that a model wrote for G-Eval (figure 1)."""
_AFTERWARDS = re.compile(r"(?im)^[\s*#]{0,8}(?:example|evaluation form)\b.*", re.DOTALL)


class Steps(Message):
    """How to judge an aspect, step by step."""

    text: str
    """A numbered list, as it stands in prompts; empty for none."""


@dataclass(frozen=True, slots=True)
class StepsWriter:
    """Asks a model, once an aspect and at temperature 0, for the steps to judge it."""

    model: Model
    task: Task
    prompt: str = "g_eval_steps"
    max_tokens: int = 512
    seed: int | None = None

    async def __call__(self, aspect: Aspect) -> Steps:
        """Return the steps.

        Raises:
            PromptError: The prompt file does not render.
            MalformedResponse: The model wrote nothing, or no end to it.
            ModelError: The model could not be asked.
        """
        messages = chat(self.prompt, task=self.task, aspect=aspect)
        for room in (self.max_tokens, 4 * self.max_tokens):
            request = Request(
                messages=messages, max_tokens=room, seed=self.seed, specimen=_SPECIMEN
            )
            sample = (await self.model.generate(request)).samples[0]
            text = _AFTERWARDS.sub("", sample.text).strip()
            if text and sample.finish_reason != "length":
                return Steps(text=text)
        what = "did not come to an end" if text else "wrote nothing"
        raise MalformedResponse(
            f"{self.model.name!r} was asked for steps to judge {aspect.name!r} and {what}"
        )


@dataclass(frozen=True, slots=True)
class WrittenSteps:
    """Takes the steps from the task's file."""

    task: Task

    def __post_init__(self) -> None:
        missing = [
            aspect.name for aspect in self.task.aspects if not self.task.steps.get(aspect.name)
        ]
        if missing:
            raise ConfigurationError(
                f"task {self.task.name!r} has no steps for {', '.join(missing)}; add `steps` to its file or let the "
                "model write them (--set steps=auto)"
            )

    async def __call__(self, aspect: Aspect) -> Steps:
        """Return the steps as a numbered list."""
        lines = enumerate(self.task.steps[aspect.name], start=1)
        return Steps(text="\n".join(f"{number}. {line}" for number, line in lines))


async def no_steps(aspect: Aspect) -> Steps:
    """Return no steps, whatever the aspect."""
    return Steps(text="")
