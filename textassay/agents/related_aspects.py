"""Relevant aspects as they are shown to a judge.

Definitions, and scores if there are some.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from textassay.runtime.messages import Aspect, Message, Scale, Score


class RelatedAspect(Message):
    """One relevant aspect (CoAScore, equation 4)."""

    name: str
    """Its name."""
    definition: str
    """What it means."""
    score: float | None = None
    """The rating of the text on it, or `None`."""
    scale: Scale
    """Lowest and highest rating."""


class RelatedAspects(Message):
    """The chain of relevant aspects as a prompt shows it."""

    aspects: tuple[RelatedAspect, ...] = Field(min_length=1)
    """In the order of the chain."""

    @classmethod
    def of(cls, aspects: Iterable[Aspect], scores: Iterable[Score] | None = None) -> RelatedAspects:
        """Put aspects and their scores together.

        Args:
            aspects: The chain.
            scores: One for each aspect, in order; `None` to show definitions only.
        """
        chain = tuple(aspects)
        values = [None] * len(chain) if scores is None else [score.value for score in scores]
        known = (
            RelatedAspect(
                name=aspect.name, definition=aspect.definition, score=value, scale=aspect.scale
            )
            for aspect, value in zip(chain, values, strict=True)
        )
        return cls(aspects=tuple(known))
