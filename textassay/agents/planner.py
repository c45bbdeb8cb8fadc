"""Describes assistant evaluators and writes Fusion-Eval's plan for them (section 2).

The plan says which assistant evaluators serve which criterion, and the steps of judging; one that
names something unknown is repaired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from pydantic import Field

from textassay.agents.ask import Ask, Parsed
from textassay.agents.prompt_template import Prompt
from textassay.agents.reading.plan import PlanReading, parse_plan
from textassay.runtime.errors import ContentRefused
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect, Message, Plan, Scale, Score
from textassay.runtime.model import Json, Sample
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


AGAIN_PROMPT = "fusion_eval_plan_again"
OVERALL = "overall"
"""Name of the aspect that sums up the others; plans need not say who serves it."""
MAX_PLAN_QUOTED = 2_000
"""Characters of an unusable plan that a refusal keeps."""
_STEPS = (
    "Read the texts from beginning to end and note all that bears on {}, for it and against it.",
    (
        "Compare them on it, and take the scores of the assistant evaluators that serve it as"
        " supplementary insights, which may support or question this first impression."
    ),
    "Assign a score for {} by its definition, and say in a sentence or two what has decided it.",
)
"""For each criterion, in the answer of a dry run; as long as those that a model wrote for
Fusion-Eval (appendices A.2 and A.3)."""


class RefusedPlan(Message):
    """A plan that is still unusable after all repairs."""

    problem: str = Field(min_length=1)
    """What is wrong with it."""
    text: str
    """The plan as the model wrote it last."""


def criteria_of(aspects: tuple[Aspect, ...]) -> tuple[Aspect, ...]:
    """Return the aspects that a plan covers: all but the overall one, unless it is the only one."""
    return tuple(aspect for aspect in aspects if not is_overall(aspect)) or aspects


def is_overall(aspect: Aspect) -> bool:
    """Return whether an aspect sums up the others."""
    return slug(aspect.name) == OVERALL


@dataclass(frozen=True)
class Planner:
    """Asks a model for the plan of a task.

    Attributes:
        ask: Model and prompt; the prompt is given `criteria` and `tools` as well.
        tools: The assistant evaluators.
        repairs: How often an unusable plan is asked for again, with a word on what is wrong with
            it.
    """

    ask: Ask
    tools: tuple[Assistant, ...]
    repairs: int = 1

    @cached_property
    def digest(self) -> str:
        """6 hex digits for everything that shapes the plan, the model among it."""
        ask = self.ask
        tools = tuple((tool.name, tool.description, tool.range) for tool in self.tools)
        names = tuple(aspect.name for aspect in ask.task.aspects)
        variants = (ask.task.digest, names, tools, self.repairs, ask.seed, ask.model.name)
        return ask.digest(*variants, also=(AGAIN_PROMPT,))

    async def __call__(self) -> Plan | RefusedPlan:
        """Return the plan, or why there is none.

        There is none if the last attempt still names unknown tools or leaves a criterion out.

        Raises:
            PromptError: A prompt file does not render.
            ContentRefused: The provider's filter cut the plan off.
            ModelError: The model could not be asked.
        """
        aspects = self.ask.task.aspects
        criteria = criteria_of(aspects)
        names = tuple(aspect.name for aspect in criteria)
        tools = tuple(tool.name for tool in self.tools)
        prompt = self.ask.render(criteria=criteria, tools=self.tools)
        for _ in range(self.repairs + 1):
            answer = await self._ask(prompt, criteria)
            text = answer.samples[0].text.strip()
            reading = parse_plan(text, names, tools)
            cut = ("does not come to an end",) if answer.cut else ()
            problems = (*reading.problems, *cut)
            if not problems:
                return _plan(reading, aspects, text)
            # The chat continues with the unusable plan and its faults rather than from the start:
            # the same question mostly gets the same answer.
            values = {"problems": problems, "criteria": names, "tools": tools}
            prompt = prompt.followed_by(text, AGAIN_PROMPT, **values)
        return RefusedPlan(
            problem="the plan " + "; it ".join(problems), text=text[:MAX_PLAN_QUOTED]
        )

    async def _ask(self, prompt: Prompt, criteria: tuple[Aspect, ...]) -> Parsed[None]:
        return await self.ask.answer(
            prompt, _refuse_filtered, dry_run_answer=self._dry_run_answer(criteria)
        )

    def _dry_run_answer(self, criteria: tuple[Aspect, ...]) -> str:
        first = self.tools[0].name if self.tools else "none"
        lines = [f"- {aspect.name}: {first}" for aspect in criteria]
        texts = [step.format(aspect.name) for aspect in criteria for step in _STEPS]
        steps = [f"{number}. {step}" for number, step in enumerate(texts, start=1)]
        return "\n".join(["Assistant evaluators:", *lines, "", "Steps:", *steps])


def _refuse_filtered(sample: Sample) -> None:
    if sample.finish_reason == "filtered":
        raise ContentRefused("the provider's content filter cut the plan off")


def _plan(reading: PlanReading, aspects: tuple[Aspect, ...], text: str) -> Plan:
    assistants = {aspect.name: reading.assistants.get(aspect.name, ()) for aspect in aspects}
    return Plan(assistants=assistants, steps=reading.steps, text=text)
