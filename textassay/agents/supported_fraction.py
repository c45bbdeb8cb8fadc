"""Makes a score of verified claims: the share that is supported (FActScore, arXiv 2305.14251)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from textassay.agents.average import Average, as_evidence
from textassay.agents.claims import Claims
from textassay.agents.logprobs_or_samples import signature_of_parts
from textassay.agents.scores import shared_fields
from textassay.runtime.messages import NO_USAGE, Aspect, Example, Failure, Outcome, Score
from textassay.runtime.model import Json

SUPPORTED = 0.5
"""Probability above which a claim counts as supported."""
_KEPT = ("answer", "quote", "found_in", "p_yes", "mass", "window", "windows", "premise")


@dataclass(frozen=True)
class SupportedFraction:
    """The share of an output's claims that its source supports.

    Attributes:
        signature: What the scores carry, with how claims were verified in place of `how:auto`.
        support: `fraction` counts claims above `SUPPORTED`; `probability` averages the
            probabilities.
        gamma: Number of claims below which a text is penalized for saying little, by
            exp(1 - gamma / claims); 0 for no penalty.
        required: Share of the claims that must have a verdict.
    """

    signature: str = ""
    support: Literal["fraction", "probability"] = "fraction"
    gamma: int = 0
    required: float = 0.5

    async def __call__(
        self,
        example: Example,
        aspects: Sequence[Aspect],
        claims: Claims,
        verdicts: list[Score | Failure],
    ) -> list[Score]:
        """Return one score for each aspect, all of the same value; the first one has the usage."""
        scores = [await self._one(example, aspect, claims, verdicts) for aspect in aspects]
        return [
            score if at == 0 else score.model_copy(update={"usage": NO_USAGE})
            for at, score in enumerate(scores)
        ]

    async def _one(
        self, example: Example, aspect: Aspect, claims: Claims, verdicts: list[Score | Failure]
    ) -> Score:
        signature = signature_of_parts(self.signature, verdicts)
        about = shared_fields(example, aspect, how="fused", signature=signature)
        if claims.problem is not None:
            problem = claims.problem
            outcome: Outcome = "abstained" if problem.type != "NoClaimList" else "invalid"
            return Score.unscored(
                problem.type, problem.message, outcome=outcome, usage=claims.usage, **about
            )
        parts = [self._counted(verdict) for verdict in verdicts]
        score = await Average(signature, self.required)(example, aspect, parts)
        evidence = tuple(
            _as_evidence(claim.text, verdict)
            for claim, verdict in zip(claims.items, verdicts, strict=True)
        )
        update: dict[str, Any] = {
            "evidence": (*evidence, *_notes(claims, verdicts)),
            "usage": claims.usage + score.usage,
        }
        if score.value is not None:
            value = score.value * self._penalty(len(claims.items))
            update["value"] = value if aspect.higher_is_better else 1.0 - value
        return score.model_copy(update=update)

    def _counted(self, verdict: Score | Failure) -> Score | Failure:
        if isinstance(verdict, Failure) or verdict.value is None or self.support != "fraction":
            return verdict
        return verdict.model_copy(update={"value": float(verdict.value > SUPPORTED)})

    def _penalty(self, claims: int) -> float:
        """Return the factor for a text with so few claims (FActScore, its length penalty)."""
        return math.exp(min(0.0, 1 - self.gamma / claims)) if self.gamma else 1.0


def _as_evidence(claim: str, verdict: Score | Failure) -> Json:
    """Return one claim with its verdict as evidence."""
    own = verdict.evidence[0] if isinstance(verdict, Score) and verdict.evidence else {}
    kept = {key: own[key] for key in _KEPT if key in own}
    evidence: Json = {**as_evidence(verdict), **kept, "text": claim}
    return {key: value for key, value in evidence.items() if key not in ("explanation", "scale")}


def _notes(claims: Claims, verdicts: list[Score | Failure]) -> tuple[Json, ...]:
    """Return what is not about a single claim: abstentions, and claims that were dropped."""
    notes = list[Json]()
    unread = sum(isinstance(one, Score) and one.outcome != "scored" for one in verdicts)
    if unread:
        text = f"{unread} of {len(verdicts)} claims have no verdict"
        notes.append({"text": text, "abstained": unread})
    if claims.dropped:
        text = f"{claims.dropped} claims beyond the requested maximum were left out"
        notes.append({"text": text, "dropped": claims.dropped})
    return tuple(notes)
