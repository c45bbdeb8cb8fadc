"""The form in which ratings are asked for, and the result of reading an answer.

The result is a rating, or the reason why there is no usable one.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

RatingForm = Literal["number", "letters", "stars"]
"""How ratings are asked for."""
Reason = Literal["NoScoreFound", "OffScale", "Declined", "Contradictory"]
"""Why there is no rating: the answer holds none in a clear form, holds one that the scale does not
have, says no, or states two that differ."""
DECLINED: Reason = "Declined"
"""Problem of an answer in which the judge refuses to rate; it is not asked for again."""
MAX_ANSWER = 40_000
"""Characters of an answer that are read, at its end or its beginning, so that hostile text takes
little time; the longest of 143,732 recorded answers has 646."""
MAX_QUOTED = 200
"""Characters of an unusable answer that errors and evidence quote."""


class Rating(NamedTuple):
    """A rating and its place in the answer."""

    value: float
    """On the scale that was asked for."""
    span: tuple[int, int]
    """Start and end of the rating in the answer, in characters."""


class NoRating(NamedTuple):
    """An answer without a usable rating."""

    reason: Reason
    """Short stable name."""
    message: str
    """What is wrong with the answer, for people."""
