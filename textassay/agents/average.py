"""Makes one score out of several: the plain average. Knows nothing of models.

A missing part is never a number: it is left out of the mean and recorded in the evidence, and if
too many parts are missing there is no mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from textassay.agents.scores import shared_fields
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect, Example, Failure, Score, ScoreError, Usage
from textassay.runtime.model import Json


@dataclass(frozen=True)
class Average:
    """The mean of the parts, each mapped from its own scale to that of the fused aspect.

    Parts that were judged without a usable rating are left out, as long as the share of usable ones
    is at least `required`. A part that could not be asked for makes the whole an error, so that a
    resumed run asks again.

    Attributes:
        signature: What the fused scores carry.
        required: Share of the parts that must have a value, above 0 and at most 1.
    """

    signature: str = ""
    required: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.required <= 1:
            raise ConfigurationError(
                f"the share of parts that must have a value must be in (0, 1], not {self.required}"
            )

    async def __call__(
        self,
        example: Example,
        aspect: Aspect,
        parts: list[Score | Failure],
        weights: list[float] | None = None,
    ) -> Score:
        """Return the mean with its parts as evidence; its usage is theirs.

        Args:
            example: What was judged.
            aspect: What the mean stands for.
            parts: What it is made of.
            weights: Weight of each part, 0 or above; equal if not given.

        Raises:
            ConfigurationError: There are no parts, or one of them has no scale.
        """
        if not parts:
            raise ConfigurationError(f"there is nothing to average for {aspect.name!r}")
        about: dict[str, Any] = {
            **shared_fields(example, aspect, how="fused", signature=self.signature),
            "usage": sum((part.usage for part in parts if isinstance(part, Score)), Usage()),
            "evidence": tuple(as_evidence(part) for part in parts),
        }
        # Before anything is averaged: an error may go away, and a mean without this part would be
        # kept.
        if (error := broken_part(parts)) is not None:
            return Score.unscored(error.type, error.message, outcome="error", **about)
        weighted = [
            (_mapped(part, aspect), weight)
            for part, weight in zip(parts, weights or [1.0] * len(parts), strict=True)
            if isinstance(part, Score) and part.value is not None
        ]
        values, total = [value for value, _ in weighted], math.fsum(w for _, w in weighted)
        if len(values) < self.required * len(parts):
            return _missing(parts, about)
        if not total:
            raise ConfigurationError(
                f"all parts of {aspect.name!r} that have a value have weight 0"
            )
        mean = math.fsum(value * weight for value, weight in weighted) / total
        # The rounding of a weighted sum can leave the range of its parts by a hair.
        mean = min(max(mean, min(values)), max(values))
        return Score(value=mean, **about)


def as_evidence(part: Score | Failure) -> Json:
    """Return one part of a fused score as evidence."""
    if isinstance(part, Failure):
        return {
            "text": part.node,
            "value": None,
            "outcome": "error",
            "problem": f"{part.type}: {part.message}",
        }
    evidence: Json = {"text": part.aspect, "value": part.value, "outcome": part.outcome}
    if part.scale is not None:
        evidence["scale"] = list(part.scale)
    if part.explanation:
        evidence["explanation"] = part.explanation
    thoughts = (piece["thought"] for piece in part.evidence if "thought" in piece)
    if (thought := next(thoughts, None)) is not None:
        evidence["thought"] = thought
    if part.error is not None:
        evidence["problem"] = f"{part.error.type}: {part.error.message}"
    return evidence


def _mapped(part: Score, aspect: Aspect) -> float:
    if part.unit_value is None:
        raise ConfigurationError(
            f"{part.aspect!r} has no scale, so it cannot be averaged with others"
        )
    # Equal scales are not mapped to 0..1 and back, which would change the last digits.
    if part.scale == aspect.scale:
        assert part.value is not None
        return part.value
    low, high = aspect.scale
    return low + part.unit_value * (high - low)


def broken_part(parts: Iterable[Score | Failure]) -> ScoreError | None:
    """Return why a part could not be asked for; `None` if all could."""
    for part in parts:
        if isinstance(part, Failure):
            return ScoreError(type=part.type, message=f"{part.node}: {part.message}")
        if part.outcome == "error" and part.error is not None:
            return ScoreError(type=part.error.type, message=f"{part.aspect}: {part.error.message}")
    return None


def _missing(parts: list[Score | Failure], about: dict[str, Any]) -> Score:
    """Return the score if too many parts have no value."""
    missing = [part for part in parts if isinstance(part, Score) and part.value is None]
    kinds = {part.error.type for part in missing if part.error is not None}
    return Score.unscored(
        kinds.pop() if len(kinds) == 1 else "PartsMissing",
        f"{len(missing)} of {len(parts)} parts have no value",
        outcome="abstained" if all(part.outcome == "abstained" for part in missing) else "invalid",
        **about,
    )
