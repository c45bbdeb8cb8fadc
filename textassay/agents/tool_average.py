"""Averages the scores of assistant evaluators: Fusion-Eval's AVG, LLMSel and CorrW (section 3.2).

Every scorer is mapped from its own scale to 0-1 first. With CorrW its weight is its Pearson
correlation with people's ratings; one whose scores fall as ratings rise is reversed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from textassay.agents.aggregation import Average, as_evidence
from textassay.agents.planner import UNIT, Assistant, RefusedPlan, as_assistance, on_unit_scale
from textassay.meta.correlation import pearson
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import (
    Aspect,
    Example,
    Failure,
    Message,
    Plan,
    Scale,
    Score,
    Usage,
)
from textassay.runtime.model import Json

MIN_RATED = 3
"""Fewest examples with a score and a rating from which a correlation is taken."""


class ScorerWeights(Message):
    """What scorers weigh on one aspect."""

    aspect: str
    """Name of the aspect."""
    correlations: dict[str, float | None]
    """Correlation with the ratings by scorer; `None` if a scorer does not vary, or has too few
    scores: it weighs nothing."""
    rated: int
    """Number of examples with a rating of the aspect."""

    def weight(self, scorer: str) -> float:
        """Return what a scorer weighs, 0 or above."""
        return abs(self.correlations[scorer] or 0.0)

    def is_turned(self, scorer: str) -> bool:
        """Whether a scorer's values fall as ratings rise."""
        return (self.correlations[scorer] or 0.0) < 0


def weights_from(
    aspect: str,
    scores: Mapping[str, Sequence[float | None]],
    ratings: Sequence[float | None],
) -> ScorerWeights:
    """Return weights for one aspect.

    Args:
        aspect: Its name.
        scores: By scorer, the values of the rated examples, mapped so that high is good.
        ratings: People's ratings of the same examples.

    Raises:
        DataError: Fewer than 3 examples are rated, or no scorer varies with the ratings.
    """
    rated = sum(rating is not None for rating in ratings)
    if rated < MIN_RATED:
        raise DataError(
            f"fusion=corrw: {rated} examples are rated on {aspect}; at least {MIN_RATED} are needed"
        )
    correlations = {name: _correlation(values, ratings) for name, values in scores.items()}
    if not any(correlations.values()):
        raise DataError(
            f"fusion=corrw: no scorer varies with the ratings of {aspect}: {', '.join(scores)};"
            f" rate"
            " more examples, or use fusion=avg"
        )
    return ScorerWeights(aspect=aspect, correlations=correlations, rated=rated)


def _correlation(values: Sequence[float | None], ratings: Sequence[float | None]) -> float | None:
    pairs = [
        (value, rating)
        for value, rating in zip(values, ratings, strict=True)
        if value is not None and rating is not None
    ]
    if len(pairs) < MIN_RATED:
        return None
    return pearson([value for value, _ in pairs], [rating for _, rating in pairs])


DIRECT = "direct"
"""What evidence calls the direct judgment."""


@dataclass(frozen=True)
class ToolAverage:
    """The mean of the scores of all tools, or of those that a plan names, and of a direct judgment.

    Attributes:
        assistants: The tools, in the order of their scores.
        ranges: Values that count as 0 and 1, by tool, for tools whose scale has no ends.
        signature: What the fused scores carry.
        required: Share of the scorers that must have a value.
    """

    assistants: tuple[Assistant, ...]
    ranges: Mapping[str, Scale] = field(default_factory=dict)
    signature: str = ""
    required: float = 0.5

    def __post_init__(self) -> None:
        for assistant in self.assistants:
            if assistant.scale is None and assistant.name not in self.ranges:
                raise ConfigurationError(
                    f"the scale of {assistant.name!r} is unbounded, so it cannot be mapped to"
                    " 0-1; leave the tool out, or say which values count as 0 and 1:"
                    f" options={{'ranges': {{{assistant.name!r}: [0, 1]}}}}"
                )

    async def __call__(
        self,
        example: Example,
        aspect: Aspect,
        assistance: list[Score],
        plan: Plan | RefusedPlan | None = None,
        direct: Score | Failure | None = None,
        weights: ScorerWeights | None = None,
    ) -> Score:
        """Return the mean on a scale from 0 to 1.

        Args:
            example: What is judged.
            aspect: On what.
            assistance: The tools' scores, in the order of `assistants`.
            plan: Whose choice of tools counts (LLMSel); `None` for all of them (AVG).
            direct: A judge's own score, which is averaged in.
            weights: What each scorer weighs (CorrW); `None` for equal weights.
        """
        about: dict[str, Any] = {
            "id": example.id,
            "aspect": aspect.label,
            "scale": UNIT,
            "how": "fused",
            "signature": self.signature,
        }
        if not example.output.strip():
            return Score.unscored("EmptyOutput", "there is no text to judge", **about)
        if isinstance(plan, RefusedPlan):
            evidence = ({"text": plan.text},)
            return Score.unscored("PlanRefused", plan.problem, evidence=evidence, **about)
        chosen = None if plan is None else plan.assistants.get(aspect.name, ())
        if chosen == ():
            reason = f"the plan names no assistant evaluator for {aspect.name}"
            return Score.unscored("NoToolSelected", reason, outcome="abstained", **about)
        entries, parts = self._mapped(aspect, assistance, chosen)
        if direct is not None:
            entries.append({**as_evidence(direct), "text": DIRECT})
            if isinstance(direct, Score):
                entries[-1]["mapped"] = direct.unit_value
            parts.append(direct)
        on_unit = aspect.model_copy(update={"scale": UNIT})
        average = Average(self.signature, self.required)
        if weights is None:
            fused = await average(example, on_unit, parts)
        else:
            names = [one["text"] for one in entries]
            parts = [_turned(part, weights, name) for part, name in zip(parts, names, strict=True)]
            entries = [{**one, "correlation": weights.correlations[one["text"]]} for one in entries]
            # one that does not vary with the ratings says nothing, so it is not missed either
            weighing = [at for at, name in enumerate(names) if weights.weight(name)]
            fused = await average(
                example,
                on_unit,
                [parts[at] for at in weighing],
                [weights.weight(names[at]) for at in weighing],
            )
        return fused.model_copy(update={"evidence": tuple(entries)})

    def _mapped(
        self, aspect: Aspect, assistance: list[Score], chosen: Sequence[str] | None
    ) -> tuple[list[Json], list[Score | Failure]]:
        """Return the evidence of every tool, and the scores that count, from 0 to 1.

        Tools that the plan leaves out stand in the evidence, not in the mean.
        """
        entries: list[Json] = []
        parts: list[Score | Failure] = []
        for assistant, score in zip(self.assistants, assistance, strict=True):
            selected = None if chosen is None else assistant.name in chosen
            entries.append(as_assistance(score, selected))
            if selected is not False:
                mapped = on_unit_scale(score, assistant, aspect, self.ranges.get(assistant.name))
                entries[-1]["mapped"] = mapped.value
                # a tool's cost serves all aspects: none claims it
                parts.append(mapped.model_copy(update={"usage": Usage()}))
        return entries, parts


def _turned(part: Score | Failure, weights: ScorerWeights, name: str) -> Score | Failure:
    """Return a score reversed within its scale, if its scorer's values fall as ratings rise."""
    if isinstance(part, Failure) or part.value is None or not weights.is_turned(name):
        return part
    low, high = part.scale or UNIT
    return part.model_copy(update={"value": low + high - part.value})
