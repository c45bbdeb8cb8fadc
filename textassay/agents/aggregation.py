"""Makes scores from one written rating, from several samples, or from other scores.

Ratings are averaged; labels without an order are voted on, as their numbers have no mean; verdicts
on a rubric add up to its share of points. A missing part is never a number: it is left out and
recorded in the evidence, and if too many parts are missing there is no score.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from textassay.agents.reading.outcomes import DECLINED, MAX_QUOTED, NoRating, Rating
from textassay.runtime.base import NO_USAGE, Json, Outcome, ScoreError, Usage
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import majority
from textassay.runtime.messages import Aspect, Example, Failure, How, Scale, Score
from textassay.runtime.model import Sample
from textassay.runtime.rubric import Criterion, share_of_points, with_prerequisites

EMPTY = ScoreError(type="EmptyOutput", message="there is no text to judge")
"""Why a blank output has no score."""


UNIT: Scale = (0.0, 1.0)
"""The scale of probabilities and shares."""


def common_fields(
    example: Example, aspect: Aspect, *, how: How, signature: str = "", **others: Any
) -> dict[str, Any]:
    """Return the fields that all scores of an example on an aspect share, with or without value.

    `others` are added, and may replace the aspect's scale.
    """
    return {"id": example.id, **aspect_fields(aspect, how=how, signature=signature), **others}


def aspect_fields(aspect: Aspect, *, how: How, signature: str = "") -> dict[str, Any]:
    """Return the fields that the scores of all examples on an aspect share."""
    return {"aspect": aspect.label, "scale": aspect.scale, "how": how, "signature": signature}


def leave_unscored(
    example: Example, aspects: Iterable[Aspect], problem: Mapping[str, Any], **shared: Any
) -> list[Score]:
    """Return a score without a value for each aspect, for one reason.

    Args:
        example: The example.
        aspects: The aspects.
        problem: Arguments of `Score.unscored`.
        shared: Further fields, as `common_fields` takes them.
    """
    fields = (common_fields(example, aspect, **shared) for aspect in aspects)
    return [Score.unscored(**problem, **common) for common in fields]


def from_text(sample: Sample, rating: Rating, **fields: Any) -> Score:
    """Return the score for a rating that a judge wrote, with its words as the explanation.

    Args:
        sample: The judge's answer.
        rating: The rating that was read in it.
        fields: The score's other fields.
    """
    text = sample.text.strip()
    # The rating alone is not an explanation.
    only_rating = text == sample.text[slice(*rating.span)]
    return Score(value=rating.value, explanation=None if only_rating else text, **fields)


def score_by_votes(votes: Sequence[float], labels: Sequence[str], /, **fields: Any) -> Score:
    """Return the score for the label with most votes and the votes; a tie has no value."""
    counts = {labels[int(vote)]: count for vote, count in sorted(Counter(votes).items())}
    winner = majority(votes)
    if winner is None:
        listed = ", ".join(f"{count} for {name}" for name, count in counts.items()) or "none"
        return Score.unscored("TiedVote", f"no label has most of the votes: {listed}", **fields)
    winning: Json = {"text": labels[int(winner)], "votes": counts}
    return Score(value=winner, **{**fields, "evidence": (winning, *fields.get("evidence", ()))})


def from_samples(
    samples: Sequence[Sample],
    ratings: Sequence[Rating | NoRating],
    /,
    evidence: tuple[Json, ...] = (),
    labels: Sequence[str] = (),
    required: float = 0.5,
    **fields: Any,
) -> Score:
    """Return the score for the usable samples; the others are left out and counted.

    If too few of them are usable, there is no score.

    Args:
        samples: The judge's answers.
        ratings: The rating that was read in each of them, or why there is none.
        evidence: Pieces before the ratings in the score's evidence.
        labels: Names of labels without an order, which are voted on; empty for the mean.
        required: Share of the samples that must be usable. The mean of a minority is biased:
            recorded judges write longer answers, and rate differently, where their rating cannot be
            read.
        fields: The score's other fields, which replace equal ones made here.
    """
    values = [rating.value for rating in ratings if isinstance(rating, Rating)]
    summary = _summary(samples, ratings)
    fields = {"samples": len(values), "evidence": (*evidence, *summary), **fields}
    if not values:
        declined = all(isinstance(r, NoRating) and r.reason == DECLINED for r in ratings)
        text = samples[0].text.strip()[:MAX_QUOTED]
        message = (
            f"none of {len(samples)} samples contains a usable rating; the first says: {text!r}"
        )
        return Score.unscored(DECLINED if declined else "NoScoreFound", message, **fields)
    if len(values) < required * len(samples):
        message = (
            f"only {len(values)} of {len(samples)} samples contain a usable rating, and the "
            "others may differ from them"
        )
        return Score.unscored("TooFewSamples", message, **fields)
    if labels:
        return score_by_votes(values, labels, **fields)
    # The mean of equal ratings must be that rating in spite of rounding.
    mean = min(max(math.fsum(values) / len(values), min(values)), max(values))
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return Score(**{"value": mean, "spread": spread} | fields)


def _summary(samples: Sequence[Sample], ratings: Sequence[Rating | NoRating]) -> tuple[Json, ...]:
    values = [rating.value for rating in ratings if isinstance(rating, Rating)]
    summary: Json = {"text": f"{len(values)} of {len(samples)} samples usable", "ratings": values}
    unusable = [
        {"text": sample.text.strip()[:MAX_QUOTED], "problem": rating.reason}
        for sample, rating in zip(samples, ratings, strict=True)
        if isinstance(rating, NoRating)
    ]
    if unusable:
        summary["unusable"] = dict(Counter(note["problem"] for note in unusable))
    return (summary, *unusable[:3])  # the rest are counted


@dataclass(frozen=True)
class Average:
    """The mean of the parts, each mapped from its own scale to the scale of the fused aspect.

    Parts that were judged without a usable rating are left out, as long as the share of usable ones
    is at least `required`. A part that could not be asked for makes the whole an error, so that a
    resumed run asks again.

    """

    signature: str = ""
    """Signature of the fused scores."""
    required: float = 0.5
    """Share of the parts that must have a value, in (0, 1]."""

    def __post_init__(self) -> None:
        if not 0 < self.required <= 1:
            raise ConfigurationError(
                f"the share of parts that must have a value must be in (0, 1], not {self.required}"
            )

    async def __call__(
        self,
        example: Example,
        aspect: Aspect,
        parts: Sequence[Score | Failure],
        weights: Sequence[float] = (),
        evidence: Iterable[Json] = (),
    ) -> Score:
        """Return the mean, with the usage of all parts.

        Args:
            example: The example.
            aspect: The aspect of the mean.
            parts: The scores to average.
            weights: Weight of each part, 0 or above; equal if not given.
            evidence: Evidence of the score; by default its parts.

        Raises:
            ConfigurationError: There are no parts, or one of them has no scale.
        """
        if not parts:
            raise ConfigurationError(f"there is nothing to average for {aspect.name!r}")
        about = common_fields(example, aspect, how="fused", signature=self.signature)
        about["usage"] = usage_of(parts)
        about["evidence"] = tuple(evidence) or tuple(map(as_evidence, parts))
        # An error may go away when the run is resumed, but a mean without this part would be
        # kept.
        if error := broken_part(parts):
            return Score.unscored(error.type, error.message, outcome="error", **about)
        weighted = [
            (_map_value(part, aspect), weight)
            for part, weight in zip(parts, weights or [1.0] * len(parts), strict=True)
            if isinstance(part, Score) and part.value is not None
        ]
        values, total = [value for value, _ in weighted], math.fsum(w for _, w in weighted)
        if len(values) < self.required * len(parts):
            missing = len(parts) - len(values)
            return _too_few(parts, f"{missing} of {len(parts)} parts have no value", about)
        if not total:
            raise ConfigurationError(f"all parts of {aspect.name!r} with a value have weight 0")
        mean = math.fsum(value * weight for value, weight in weighted) / total
        # Rounding can move a weighted sum slightly outside the range of its parts.
        mean = min(max(mean, min(values)), max(values))
        return Score(value=mean, **about)


def usage_of(parts: Iterable[Score | Failure]) -> Usage:
    """Return the cost of all parts."""
    return sum((part.usage for part in parts if isinstance(part, Score)), NO_USAGE)


def as_evidence(part: Score | Failure, **facts: Any) -> Json:
    """Return one part of a fused score as evidence, with further facts, such as another `text`."""
    if isinstance(part, Failure):
        problem = f"{part.type}: {part.message}"
        failed = {"text": part.node, "value": None, "outcome": "error", "problem": problem}
        return failed | facts
    evidence: Json = {"text": part.aspect, "value": part.value, "outcome": part.outcome}
    if part.scale:
        evidence["scale"] = list(part.scale)
    if part.explanation:
        evidence["explanation"] = part.explanation
    thoughts = (piece["thought"] for piece in part.evidence if "thought" in piece)
    if thought := next(thoughts, None):
        evidence["thought"] = thought
    if part.error:
        evidence["problem"] = f"{part.error.type}: {part.error.message}"
    return evidence | facts


def answer_evidence(
    part: Score | Failure,
    question: str,
    keys: Iterable[str],
    without: Iterable[str] = ("explanation", "scale"),
) -> Json:
    """Return the answer to a question as evidence, with the entries of its own evidence.

    Args:
        part: The answer.
        question: The question.
        keys: Keys of the answer's evidence that are kept.
        without: Keys of a part's evidence that are left out.
    """
    first_piece = part.evidence[0] if isinstance(part, Score) and part.evidence else {}
    evidence = as_evidence(part) | {key: first_piece[key] for key in keys if key in first_piece}
    evidence["text"] = question
    return {key: value for key, value in evidence.items() if key not in without}


def rescale(value: float, from_scale: Scale, scale: Scale) -> float:
    """Return a value mapped from one scale to another; one beyond an end becomes that end."""
    (from_low, from_high), (low, high) = from_scale, scale
    # Equal scales are not mapped to 0..1 and back, which would change the last digits.
    if from_scale != scale:
        value = low + (value - from_low) / (from_high - from_low) * (high - low)
    return min(max(value, low), high)


def reverse(part: Score | Failure) -> Score | Failure:
    """Return a score reversed within its scale, from 0 to 1 by default."""
    if isinstance(part, Failure) or part.value is None:
        return part
    low, high = part.scale or UNIT
    return part.model_copy(update={"value": low + high - part.value})


def _map_value(part: Score, aspect: Aspect) -> float:
    if part.value is None or not part.scale:
        raise ConfigurationError(
            f"{part.aspect!r} has no scale, so it cannot be averaged with others"
        )
    return rescale(part.value, part.scale, aspect.scale)


def broken_part(parts: Iterable[Score | Failure]) -> ScoreError | None:
    """Return the error of the first part that failed; `None` if no part failed."""
    for part in parts:
        if isinstance(part, Failure):
            return ScoreError(type=part.type, message=f"{part.node}: {part.message}")
        if part.outcome == "error" and part.error:
            return ScoreError(type=part.error.type, message=f"{part.aspect}: {part.error.message}")
    return None


def _too_few(parts: Iterable[Score | Failure], message: str, about: dict[str, Any]) -> Score:
    """Return the score if too many parts have no value."""
    missing = [part for part in parts if isinstance(part, Score) and part.value is None]
    kinds = {part.error.type for part in missing if part.error}
    kind = kinds.pop() if len(kinds) == 1 else "PartsMissing"
    # all abstentions: the judge's evidence or opinion is missing, but its answers have the right
    # form
    abstained = all(part.outcome == "abstained" for part in missing)
    outcome: Outcome = "abstained" if abstained else "invalid"
    return Score.unscored(kind, message, outcome=outcome, **about)


@dataclass(frozen=True)
class RubricTotal:
    """The points of the criteria that are met, divided by the sum of the positive points.

    Of verdicts that are probabilities it is the expected share. A criterion counts as met only if
    its prerequisites are met. A failed request for a verdict makes the whole an error, so that a
    resumed run asks again.
    """

    signature: str = ""
    """Signature of the scores."""
    required: float = 1.0
    """Share of the criteria that must have a verdict; the others are left out of both sums."""
    total: Literal["clipped", "raw"] = "clipped"
    """`clipped`: at least 0; `raw`: negative if faults outweigh, as HealthBench counts each text,
    and without a scale.
    """

    async def __call__(
        self, example: Example, aspect: Aspect, verdicts: list[Score | Failure]
    ) -> Score:
        """Return the score, with each criterion, its verdict, points and reason as evidence."""
        about = common_fields(example, aspect, how="fused", signature=self.signature)
        about["usage"] = usage_of(verdicts)
        if self.total == "raw":
            about["scale"] = None
        rubric = example.rubric
        if not rubric:
            message = "the rubric of this example is missing"
            return Score.unscored("MissingRubric", message, outcome="abstained", **about)
        chances = [None if isinstance(verdict, Failure) else verdict.value for verdict in verdicts]
        verdicts_met = [None if chance is None else chance > 0.5 for chance in chances]
        met = with_prerequisites(rubric, chances)
        about["evidence"] = tuple(
            _as_evidence(criterion, verdict, was_met, counts, unmet)
            for criterion, verdict, was_met, counts, unmet in zip(
                rubric, verdicts, verdicts_met, met, _unmet(rubric, verdicts_met), strict=True
            )
        )
        if error := broken_part(verdicts):
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
        met: Sequence[float | None],
        about: dict[str, Any],
    ) -> Score:
        """Return the score if too many verdicts are missing, with the range of possible totals."""
        pairs = list(zip(rubric, met, strict=True))
        names = [criterion.id for criterion, share in pairs if share is None]
        ends = []
        for best in (False, True):
            guessed = [(c.points > 0) == best if share is None else share for c, share in pairs]
            ends.append(share_of_points(rubric, guessed) or 0.0)
        low, high = (max(end, 0.0) if self.total == "clipped" else end for end in ends)
        message = (
            f"{len(names)} of {len(rubric)} criteria have no verdict: {', '.join(names[:10])}; the"
            f" total is between {low:.3g} and {high:.3g}"
        )
        return _too_few(verdicts, message, about)


def _unmet(rubric: Sequence[Criterion], verdicts: Sequence[bool | None]) -> list[str]:
    """Return the prerequisites of each criterion that are not met or have no verdict."""
    verdict = {criterion.id: was_met for criterion, was_met in zip(rubric, verdicts, strict=True)}
    return [", ".join(id_ for id_ in c.prerequisites if not verdict[id_]) for c in rubric]


def _as_evidence(
    criterion: Criterion,
    verdict: Score | Failure,
    was_met: bool | None,
    met: float | None,
    unmet: str,
) -> Json:
    """Return one criterion with its verdict, points and reason."""
    keys = ("answer", "quote", "found_in", "reason", "p_yes", "mass")
    evidence = answer_evidence(verdict, criterion.criterion, keys)
    evidence |= {"criterion": criterion.id, "met": was_met, "points": criterion.points}
    evidence |= {"value": None if met is None else float(met)}
    evidence |= {"tags": list(criterion.tags)} if criterion.tags else {}
    return evidence | ({"prerequisites not met": unmet} if unmet else {})


def _sum(rubric: Sequence[Criterion], met: Sequence[float | None]) -> Json:
    """Return the note on the sum of the points."""
    points = [criterion.points for criterion in rubric]
    counted = [(number, s) for number, s in zip(points, met, strict=True) if s is not None]
    earned = sum(number * share for number, share in counted)
    possible = sum(number for number, _ in counted if number > 0)
    text = f"{round(earned, 2):g} of {possible:g} points"
    if any(share not in (0, 1) for _, share in counted):
        likely = sum(number for number, share in counted if share > 0.5)
        text += f" expected; {likely:g} with the criteria that are likely met"
    if missing := len(rubric) - len(counted):
        text += f"; {missing} of {len(rubric)} criteria have no verdict and are left out"
    return {"text": text}
