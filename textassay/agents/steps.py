"""Writes the evaluation steps of an aspect: G-Eval's automatic chain of thought (section 2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from textassay.agents.ask import Ask
from textassay.agents.prompt_template import PromptPart
from textassay.agents.task import Task
from textassay.runtime.errors import ConfigurationError, MalformedResponse
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Sample

_DRY_RUN_ANSWER = """\
1. Read what the text was made from carefully and identify its main topic and key points.
2. Read the text and compare it with what it was made from. Check whether the text does justice \
to the criterion throughout, and note each place where it does not and how much that disturbs.
3. Assign a score on the scale that is given, where the lowest number is the worst and the \
highest the best, based on the Evaluation Criteria."""
"""As long as those that a model wrote for G-Eval (figure 1)."""
# "Example:" or "Evaluation Form (scores ONLY):", which models add after the steps, as the prompt
# that they were shown does
_AFTERWARDS = re.compile(r"(?im)^[\s*#]{0,8}(?:example|evaluation form)\b.*", re.DOTALL)


class Steps(PromptPart):
    """How to judge an aspect, step by step."""

    text: str
    """A numbered list, as it stands in prompts; empty for none."""

    @property
    def in_prompts(self) -> str:
        """The list."""
        return self.text


@dataclass(frozen=True, slots=True)
class StepsWriter:
    """Asks a model for the steps to judge an aspect.

    Attributes:
        ask: Model and prompt; the prompt is given `aspect` as well.
        labels_prompt: Prompt for aspects with labels; `None` if it is that of `ask`.
    """

    ask: Ask
    labels_prompt: str | None = None

    async def __call__(self, aspect: Aspect) -> Steps:
        """Return the steps.

        Raises:
            PromptError: The prompt file does not render.
            MalformedResponse: The model wrote nothing, or did not come to an end.
            ModelError: The model could not be asked.
        """
        ask = self.ask
        if aspect.labels and self.labels_prompt:
            ask = replace(ask, prompt=self.labels_prompt)
        answer = await ask.answer(
            ask.render(aspect=aspect),
            _read,
            is_cut=lambda sample, text: not text or sample.finish_reason == "length",
            dry_run_answer=_DRY_RUN_ANSWER,
        )
        text = answer.read[0]
        if answer.cut:
            what = "did not come to an end" if text else "wrote nothing"
            raise MalformedResponse(
                f"{self.ask.model.name!r} was asked for steps to judge {aspect.name!r} and {what}"
            )
        return Steps(text=text)


def _read(sample: Sample) -> str:
    return _AFTERWARDS.sub("", sample.text).strip()


@dataclass(frozen=True, slots=True)
class WrittenSteps:
    """Takes the steps from the task's file."""

    task: Task

    def __post_init__(self) -> None:
        missing = [
            aspect.name for aspect in self.task.aspects if aspect.name not in self.task.steps
        ]
        if missing:
            raise ConfigurationError(
                f"task {self.task.name!r} has no steps for {', '.join(missing)}; add `steps` to its"
                " file or let the model write them (options={'steps': 'auto'})"
            )

    async def __call__(self, aspect: Aspect) -> Steps:
        """Return the steps as a numbered list; empty if the task says that there are none."""
        lines = enumerate(self.task.steps[aspect.name], start=1)
        return Steps(text="\n".join(f"{number}. {line}" for number, line in lines))


async def no_steps(aspect: Aspect) -> Steps:
    """Return no steps, whatever the aspect."""
    return Steps(text="")
