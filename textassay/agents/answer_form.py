"""The forms in which ratings are asked for.

Their labels, their JSON schema, and a well-formed answer for dry runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from textassay.agents.reading.rating import Form
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Json

MAX_LETTERS = 26
MAX_POINTS = 101
_REASON = (
    "The text does well in most respects and fails in some, as an attentive reader would notice."
)


class ScalePoint(NamedTuple):
    """One rating that a judge may give."""

    label: str
    """As the judge writes it: `4`, or `D`."""
    value: float
    """On the aspect's scale."""
    meaning: str
    """What the label stands for, for prompts that list labels."""


@lru_cache(maxsize=256)
def points_of(scale: tuple[float, float], form: Form) -> tuple[ScalePoint, ...]:
    """Return the whole ratings of a scale, lowest first, or its ends if fractional or far apart.

    Raises:
        ConfigurationError: Letters are asked for on a scale that does not fit A to Z.
    """
    low, high = scale
    steps = int(high - low)
    if form != "letters":
        values = (
            [low + i for i in range(steps + 1)]
            # A scale of 0 to 100 is still listed; beyond that a prompt would hold more labels than
            # text.
            if is_whole(scale) and steps < MAX_POINTS
            else [low, high]
        )
        return tuple(ScalePoint(f"{value:g}", value, "") for value in values)
    if not is_whole(scale) or steps >= MAX_LETTERS:
        raise ConfigurationError(
            f"letters stand for whole ratings, at most {MAX_LETTERS}; the scale {low:g} to {high:g}"
            " needs form=number"
        )
    ends = {0: ", the lowest rating", steps: ", the highest rating"}
    return tuple(
        ScalePoint(chr(ord("A") + i), low + i, f"{low + i:g}{ends.get(i, '')}")
        for i in range(steps + 1)
    )


def form_for(aspect: Aspect, form: Form) -> Form:
    """Return how an aspect is asked for: labels by their letters, ratings in the form given."""
    return "letters" if aspect.labels else form


def points_for(aspect: Aspect, form: Form) -> tuple[ScalePoint, ...]:
    """Return what a judge may answer about an aspect: its labels, or the ratings of its scale.

    Raises:
        ConfigurationError: As `points_of`, or there are more labels than letters.
    """
    if not aspect.labels:
        return points_of(aspect.scale, form)
    return tuple(
        point._replace(meaning=f"{name}: {meaning}" if meaning else name)
        for point, (name, meaning) in zip(
            points_of(aspect.scale, "letters"), aspect.labels.items(), strict=True
        )
    )


@lru_cache(maxsize=256)
def is_whole(scale: tuple[float, float]) -> bool:
    """Return whether both ends of a scale are whole numbers, so that judges give whole numbers."""
    return float(scale[0]).is_integer() and float(scale[1]).is_integer()


def schema_of(scale: tuple[float, float], form: Form) -> Json:
    """Return the JSON schema of an answer with a reason and a score, in that order."""
    points = points_of(scale, form)
    if form == "letters":
        score: Json = {"type": "string", "enum": [point.label for point in points]}
    elif is_whole(scale) and len(points) > 2:
        score = {"type": "integer", "enum": [int(point.value) for point in points]}
    else:
        score = {"type": "integer" if is_whole(scale) else "number"}
    return {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "score": score},
        # The reason is written first, so that the rating can follow from it.
        "required": ["reason", "score"],
        "additionalProperties": False,
    }


@lru_cache(maxsize=256)
def dry_run_answer_of(
    scale: tuple[float, float], form: Form, *, reasoned: bool, as_json: bool = False
) -> str:
    """Return a well-formed answer of usual length, with the rating in the middle of the scale.

    Args:
        scale: Lowest and highest rating.
        form: How the rating is asked for.
        reasoned: Whether a reason is asked for besides the rating.
        as_json: Whether the answer is JSON by `schema_of`.
    """
    points = points_of(scale, form)
    label = points[len(points) // 2].label
    if as_json:
        score = f'"{label}"' if form == "letters" else label
        return f'{{"reason": "{_REASON}", "score": {score}}}'
    if not reasoned or form == "letters":
        return label
    return f"{label} stars. {_REASON}" if form == "stars" else f"{_REASON}\nScore: {label}"
