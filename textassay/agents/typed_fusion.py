"""Rates with the scores of assistant evaluators in view, by typed questions."""

from __future__ import annotations

from dataclasses import dataclass

from textassay.agents.aggregation import common_fields
from textassay.agents.fusion import (
    AssistantDescription,
    RefusedPlan,
    assistance_on,
    problem_before,
    reading_of,
)
from textassay.agents.typed_questions import QuestionScorer
from textassay.runtime.messages import Aspect, Example, Plan, Score
from textassay.runtime.questions import NamedText


@dataclass(frozen=True)
class TypedFuser:
    """Rates one example on several aspects at once, by one rating question for each.

    The assistant evaluators' scores are further texts of the material, and the questions contain
    the steps of the plan.
    """

    scorer: QuestionScorer
    """Asks about one aspect."""
    assistants: tuple[AssistantDescription, ...]
    """The tools, in the order of their scores."""

    async def __call__(
        self,
        example: Example,
        aspects: tuple[Aspect, ...],
        assistance: list[Score],
        plan: Plan | RefusedPlan | None = None,
    ) -> list[Score]:
        """Return a score for each of `aspects`, in order.

        Args:
            example: The example to judge.
            aspects: The aspects of the task that are wanted.
            assistance: The tools' scores, in the order of `assistants`.
            plan: How to judge; `None` for no plan.
        """
        if problem := problem_before(self.scorer.ask.prepare(example), assistance, plan):
            how, signature = self.scorer.how_now, self.scorer.signature
            return [
                Score.unscored(
                    **problem, **common_fields(example, aspect, how=how, signature=signature)
                )
                for aspect in aspects
            ]
        assert not isinstance(plan, RefusedPlan)
        beside = tuple(
            NamedText(
                name=f"{assistant.name} score",
                text=f"{reading_of(score)} ({assistant.description}; {assistant.range})",
            )
            for assistant, score in zip(self.assistants, assistance, strict=True)
        )
        steps = tuple(_steps_of(aspect, plan) for aspect in aspects)
        scores = await self.scorer.score_all(example, aspects, beside, steps=steps)
        return [
            score.model_copy(
                update={"evidence": (*assistance_on(aspect, assistance, plan), *score.evidence)}
            )
            for score, aspect in zip(scores, aspects, strict=True)
        ]


def _steps_of(aspect: Aspect, plan: Plan | None) -> str | None:
    """Return the instructions of a plan for an aspect."""
    if plan is None:
        return None
    names = " and ".join(plan.assistants.get(aspect.name, ()))
    serve = [f"Use the score of {names} for {aspect.name}."] if names else []
    steps = [f"{number}. {step}" for number, step in enumerate(plan.steps, start=1)]
    return "\n".join([*serve, *(steps or [plan.text])])
