"""Makes a score of a rubric's verdicts: the share of its points. Knows nothing of models.

A verdict that is missing is never a number: unless the user allows some to be missing, there is no
score, and the message says between which values it would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from textassay.agents.average import as_evidence, broken_part
from textassay.agents.scores import shared_fields
from textassay.runtime.messages import NO_USAGE, Aspect, Example, Failure, Outcome, Score
from textassay.runtime.model import Json
from textassay.runtime.rubric import Criterion, share_of_points, with_prerequisites

_KEPT = ("answer", "quote", "found_in", "reason", "p_yes", "mass")


@dataclass(frozen=True)
class RubricTotal:
    """The points of the criteria that are met, by the sum of the points above zero.

    A criterion counts as met only if those that it depends on are. A verdict that could not be
    asked for makes the whole an error, so that a resumed run asks again.

    Attributes:
        signature: What the scores carry.
        required: Share of the criteria that must have a verdict; the others are left out of both
            sums.
        total: `clipped`: 0 where faults outweigh; `raw`: below 0 then, as HealthBench counts each
            text, and without a scale.
    """

    signature: str = ""
    required: float = 1.0
    total: Literal["clipped", "raw"] = "clipped"

    async def __call__(
        self, example: Example, aspect: Aspect, verdicts: list[Score | Failure]
    ) -> Score:
        """Return the score, with each criterion, its verdict, points and reason as evidence.

        Args:
            example: What was judged, with its rubric.
            aspect: What the total stands for.
            verdicts: One for each criterion, in order; met if the value is above 0.5.
        """
        about = shared_fields(example, aspect, how="fused", signature=self.signature)
        about["usage"] = sum((v.usage for v in verdicts if isinstance(v, Score)), NO_USAGE)
        if self.total == "raw":
            about["scale"] = None
        rubric = example.rubric
        if not rubric:
            message = "the rubric of this example is missing"
            return Score.unscored("MissingRubric", message, outcome="abstained", **about)
        own = [_verdict(verdict) for verdict in verdicts]
        met = with_prerequisites(rubric, own)
        about["evidence"] = tuple(
            _as_evidence(criterion, verdict, known, counts, unmet)
            for criterion, verdict, known, counts, unmet in zip(
                rubric, verdicts, own, met, _unmet(rubric, own), strict=True
            )
        )
        if (error := broken_part(verdicts)) is not None:
            return Score.unscored(error.type, error.message, outcome="error", **about)
        value = share_of_points(rubric, met)
        if len(met) - met.count(None) < self.required * len(met) or value is None:
            return self._missing(rubric, verdicts, met, about)
        about["evidence"] += (_sum(rubric, met),)
        return Score(value=max(value, 0.0) if self.total == "clipped" else value, **about)

    def _missing(
        self,
        rubric: Sequence[Criterion],
        verdicts: Sequence[Score | Failure],
        met: Sequence[bool | None],
        about: dict[str, Any],
    ) -> Score:
        """Return the score where too many verdicts are missing, and what it could have been."""
        names = [one.id for one, known in zip(rubric, met, strict=True) if known is None]
        scores = [v for v in verdicts if isinstance(v, Score) and v.value is None]
        kinds = {score.error.type for score in scores if score.error is not None}
        ends = [
            share_of_points(
                rubric,
                [
                    (one.points > 0) == best if known is None else known
                    for one, known in zip(rubric, met, strict=True)
                ],
            )
            for best in (False, True)
        ]
        low, high = (max(end or 0.0, 0.0) if self.total == "clipped" else end for end in ends)
        # all abstentions: the judge's evidence or opinion is missing, not its form
        abstained = all(score.outcome == "abstained" for score in scores)
        outcome: Outcome = "abstained" if abstained else "invalid"
        return Score.unscored(
            kinds.pop() if len(kinds) == 1 else "PartsMissing",
            f"{len(names)} of {len(rubric)} criteria have no verdict: {', '.join(names[:10])}; the"
            f" total is between {low:.3g} and {high:.3g}",
            outcome=outcome,
            **about,
        )


def _verdict(verdict: Score | Failure) -> bool | None:
    if isinstance(verdict, Failure) or verdict.value is None:
        return None
    return verdict.value > 0.5


def _unmet(rubric: Sequence[Criterion], own: Sequence[bool | None]) -> list[str]:
    """Return the prerequisites of each criterion that are not met, or that nobody could judge."""
    verdict = {one.id: known for one, known in zip(rubric, own, strict=True)}
    return [", ".join(id_ for id_ in one.prerequisites if not verdict[id_]) for one in rubric]


def _as_evidence(
    criterion: Criterion, verdict: Score | Failure, own: bool | None, met: bool | None, unmet: str
) -> Json:
    """Return one criterion with its verdict, points and reason."""
    piece = verdict.evidence[0] if isinstance(verdict, Score) and verdict.evidence else {}
    evidence: Json = {
        **as_evidence(verdict),
        "text": criterion.criterion,
        "value": None if met is None else float(met),
        "criterion": criterion.id,
        "met": own,
        "points": criterion.points,
        **{key: piece[key] for key in _KEPT if key in piece},
    }
    evidence |= {"tags": list(criterion.tags)} if criterion.tags else {}
    evidence |= {"prerequisites not met": unmet} if unmet else {}
    return {key: value for key, value in evidence.items() if key not in ("explanation", "scale")}


def _sum(rubric: Sequence[Criterion], met: Sequence[bool | None]) -> Json:
    """Return the note on what the points add up to."""
    counted = [one for one, known in zip(rubric, met, strict=True) if known is not None]
    earned = sum(one.points for one, known in zip(rubric, met, strict=True) if known)
    possible = sum(one.points for one in counted if one.points > 0)
    text = f"{earned:g} of {possible:g} points"
    if left := len(rubric) - len(counted):
        text += f"; {left} of {len(rubric)} criteria have no verdict and are left out"
    return {"text": text}
