"""Makes scores from a judge's answers: one written rating, or several samples as one.

Ratings are averaged. Labels without an order are voted on, as their numbers have no mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from textassay.agents.ask import DECLINED, MAX_QUOTED
from textassay.agents.reading.rating import NoRating, Rating
from textassay.runtime.labels import majority
from textassay.runtime.messages import Aspect, Example, How, Score
from textassay.runtime.model import Json, Sample

MAX_QUOTED_SAMPLES = 3
"""Unusable samples that a score quotes; the rest are counted."""


def shared_fields(
    example: Example, aspect: Aspect, *, how: How, signature: str = ""
) -> dict[str, Any]:
    """Return the fields that all scores of an example on an aspect share, whatever comes of it."""
    return {"id": example.id, **aspect_fields(aspect, how=how, signature=signature)}


def aspect_fields(aspect: Aspect, *, how: How, signature: str = "") -> dict[str, Any]:
    """Return the fields that the scores of all examples on an aspect share."""
    return {"aspect": aspect.label, "scale": aspect.scale, "how": how, "signature": signature}


def from_text(sample: Sample, rating: Rating, **fields: Any) -> Score:
    """Return the score for a rating that a judge wrote, with its words as the explanation.

    Args:
        sample: What the judge wrote.
        rating: What was read in it.
        fields: The score's other fields.
    """
    text = sample.text.strip()
    # An explanation that is nothing but the rating explains nothing.
    only_rating = text == sample.text[slice(*rating.span)]
    return Score(value=rating.value, explanation=None if only_rating else text, **fields)


def voted(votes: Sequence[float], labels: Sequence[str], /, **fields: Any) -> Score:
    """Return the score for the label that most votes are for, which its evidence names first.

    In case of a tie there is none.

    Args:
        votes: Numbers of labels.
        labels: Their names.
        fields: The score's other fields.
    """
    counts = {labels[int(vote)]: count for vote, count in sorted(Counter(votes).items())}
    winner = majority(votes)
    if winner is None:
        shown = ", ".join(f"{count} for {name}" for name, count in counts.items())
        return Score.unscored(
            "TiedVote", f"no label has most of the votes: {shown or 'none'}", **fields
        )
    chosen: Json = {"text": labels[int(winner)], "votes": counts}
    return Score(value=winner, **{**fields, "evidence": (chosen, *fields.get("evidence", ()))})


def from_samples(
    samples: Sequence[Sample],
    ratings: Sequence[Rating | NoRating],
    /,
    evidence: tuple[Json, ...] = (),
    labels: Sequence[str] = (),
    **fields: Any,
) -> Score:
    """Return the score for the usable samples; the others are left out and counted.

    Args:
        samples: What the judge wrote.
        ratings: What was read in each of them.
        evidence: What stands before the ratings in the score's evidence.
        labels: Names of labels without an order, which are voted on; empty for the mean.
        fields: The score's other fields; they win over those that are made here.
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
    if labels:
        return voted(values, labels, **fields)
    # The mean of equal ratings must be that rating, whatever rounding does.
    mean = min(max(math.fsum(values) / len(values), min(values)), max(values))
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return Score(**{"value": mean, "spread": spread} | fields)


def _summary(samples: Sequence[Sample], ratings: Sequence[Rating | NoRating]) -> tuple[Json, ...]:
    values = [rating.value for rating in ratings if isinstance(rating, Rating)]
    summary: Json = {"text": f"{len(values)} of {len(samples)} samples usable", "ratings": values}
    reasons = Counter(rating.reason for rating in ratings if isinstance(rating, NoRating))
    if reasons:
        summary["unusable"] = dict(reasons)
    unusable = [
        {"text": sample.text.strip()[:MAX_QUOTED], "problem": rating.reason}
        for sample, rating in zip(samples, ratings, strict=True)
        if isinstance(rating, NoRating)
    ]
    return (summary, *unusable[:MAX_QUOTED_SAMPLES])
