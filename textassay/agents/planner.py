"""Writes Fusion-Eval's plan: which assistant evaluators serve which criterion, and the steps of judging (section 2).

Knows how to have a plan repaired that names something unknown. Nothing of files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pydantic import Field

from textassay.agents.asking import chat, prompt_digest
from textassay.agents.reading.plan import PlanReading, parse_plan
from textassay.agents.task import Task
from textassay.agents.tool_descriptions import Assistant
from textassay.runtime.errors import ContentRefused
from textassay.runtime.messages import Aspect, Message, Plan, slug
from textassay.runtime.model import ChatMessage, Model, Request

AGAIN_PROMPT = "fusion_eval_plan_again"
OVERALL = "overall"
"""Name of the aspect that sums up the others; plans need not say who serves it."""
MORE_ROOM = 4
QUOTED = 2_000
"""Characters of an unusable plan that a refusal keeps."""
_STEPS = (
    "Read the texts from beginning to end and note all that bears on {}, for it and against it.",
    "Compare them on it, and take the scores of the assistant evaluators that serve it as supplementary insights, "
    "which may support or question this first impression.",
    "Assign a score for {} by its definition, and say in a sentence or two what has decided it.",
)
"""For each criterion of a specimen; as long as those that a model wrote for Fusion-Eval (appendices
A.2 and A.3)."""


class RefusedPlan(Message):
    """A plan that cannot be used, after it was asked for again."""

    problem: str = Field(min_length=1)
    """What is wrong with it."""
    text: str
    """The plan as the model wrote it last."""


def criteria_of(aspects: tuple[Aspect, ...]) -> tuple[Aspect, ...]:
    """Return the aspects that a plan is for: all but the overall one, unless that is the only one."""
    return tuple(aspect for aspect in aspects if not is_overall(aspect)) or aspects


def is_overall(aspect: Aspect) -> bool:
    """Return whether an aspect sums up the others."""
    return slug(aspect.name) == OVERALL


@dataclass(frozen=True)
class Planner:
    """Asks a model for the plan of a task, at temperature 0.

    Attributes:
        model: Who is asked.
        task: What kind of text is judged, and on which aspects.
        tools: The assistant evaluators.
        prompt: Prompt file; it is given `task`, `criteria` and `tools`.
        repairs: How often an unusable plan is asked for again, with a word on what is wrong with
            it.
        max_tokens: Longest answer in tokens.
        seed: Seed of the sampling.
    """

    model: Model
    task: Task
    tools: tuple[Assistant, ...]
    prompt: str = "fusion_eval_plan"
    repairs: int = 1
    max_tokens: int = 1024
    seed: int | None = None

    @cached_property
    def digest(self) -> str:
        """6 hex digits for everything that shapes the plan, the model among it."""
        told = tuple((tool.name, tool.description, tool.range) for tool in self.tools)
        names = tuple(aspect.name for aspect in self.task.aspects)
        prompts = (self.prompt, AGAIN_PROMPT)
        return prompt_digest(
            prompts, self.task.digest, names, told, self.repairs, self.seed, self.model.name
        )

    async def __call__(self) -> Plan | RefusedPlan:
        """Return the plan, or why there is none: the last attempt still names what is unknown or leaves something out.

        Raises:
            PromptError: A prompt file does not render.
            ContentRefused: The provider's filter cut the plan off.
            ModelError: The model could not be asked.
        """
        criteria = criteria_of(self.task.aspects)
        names, tools = (
            tuple(aspect.name for aspect in criteria),
            tuple(tool.name for tool in self.tools),
        )
        messages = chat(self.prompt, task=self.task, criteria=criteria, tools=self.tools)
        for _ in range(self.repairs + 1):
            said, cut = await self._ask(messages, criteria)
            reading = parse_plan(said, names, tools)
            problems = (*reading.problems, "does not come to an end") if cut else reading.problems
            if not problems:
                return _plan(reading, self.task.aspects, said)
            messages = (
                *messages,
                ChatMessage(role="assistant", content=said or "(nothing)"),
                *chat(AGAIN_PROMPT, problems=problems, criteria=names, tools=tools),
            )
        return RefusedPlan(problem="the plan " + "; it ".join(problems), text=said[:QUOTED])

    async def _ask(
        self, messages: Sequence[ChatMessage], criteria: tuple[Aspect, ...]
    ) -> tuple[str, bool]:
        """Return what the model wrote and whether it was cut, after one more try with more room."""
        specimen = self._specimen(criteria)
        for room in (self.max_tokens, MORE_ROOM * self.max_tokens):
            request = Request(
                messages=tuple(messages), max_tokens=room, seed=self.seed, specimen=specimen
            )
            sample = (await self.model.generate(request)).samples[0]
            if sample.finish_reason == "filtered":
                raise ContentRefused("the provider's content filter cut the plan off")
            if sample.finish_reason != "length":
                return sample.text.strip(), False
        return sample.text.strip(), True

    def _specimen(self, criteria: tuple[Aspect, ...]) -> str:
        first = self.tools[0].name if self.tools else "none"
        lines = [f"- {aspect.name}: {first}" for aspect in criteria]
        told = [step.format(aspect.name) for aspect in criteria for step in _STEPS]
        steps = [f"{number}. {step}" for number, step in enumerate(told, start=1)]
        return "\n".join(["Assistant evaluators:", *lines, "", "Steps:", *steps])


def _plan(reading: PlanReading, aspects: tuple[Aspect, ...], text: str) -> Plan:
    assistants = {aspect.name: reading.assistants.get(aspect.name, ()) for aspect in aspects}
    return Plan(assistants=assistants, steps=reading.steps, text=text)
