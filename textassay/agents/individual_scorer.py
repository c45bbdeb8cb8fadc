"""Rates several aspects with one call each, for models that cannot rate them in one answer."""

from __future__ import annotations

from dataclasses import dataclass

from textassay.agents.ask import truncation_note
from textassay.agents.joint_scorer import Ratings
from textassay.agents.scorer import Scorer
from textassay.runtime.graph.concurrency import gather
from textassay.runtime.messages import Aspect, Example, Usage


@dataclass(frozen=True)
class IndividualScorer:
    """Drop-in replacement for a `JointScorer` that makes one call per aspect.

    Attributes:
        scorer: Rates one aspect.
    """

    scorer: Scorer

    @property
    def digest(self) -> str:
        """6 hex digits for the words that are sent, with the model's name."""
        return f"{self.scorer.prompt_digest}|{self.scorer.ask.model.name}"

    async def __call__(self, example: Example, aspects: tuple[Aspect, ...]) -> Ratings:
        """Return a score for each aspect, in order; only the whole has a usage.

        Raises:
            PromptError: The prompt file does not render.
            ModelError: The model could not be asked.
        """
        scores = await gather(self.scorer(example, aspect) for aspect in aspects)
        usage = sum((score.usage for score in scores), Usage())
        cut = max(
            (piece.get("truncated_tokens", 0) for score in scores for piece in score.evidence),
            default=0,
        )
        # Their cost stands on the whole; counted on each score as well, it would be paid twice in
        # the sums.
        freed = tuple(score.model_copy(update={"usage": Usage()}) for score in scores)
        return Ratings(scores=freed, notes=truncation_note(cut), usage=usage)
