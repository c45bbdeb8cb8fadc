"""The result of reading an answer: a rating, or the reason why it has no usable one."""

from __future__ import annotations

from typing import Literal, NamedTuple

from textassay.lazy import lazy_pattern

Reason = Literal["NoScoreFound", "OffScale", "Declined", "Contradictory"]
"""Why there is no rating: the answer holds none in a clear form, holds one that the scale does not
have, says no, or states two that differ."""
DECLINED: Reason = "Declined"
"""Problem of an answer in which the judge refuses to rate; it is not asked for again."""
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


# I'm sorry / cannot be rated / N/A
_DECLINED = lazy_pattern(
    r"(?i)\b(?:I|we)(?:['’]m| am| are)?\s{1,3}(?:really |so )?(?:sorry|unable|cannot|can['’]t"
    r"|can not|could not|couldn['’]t|won['’]t|will not|not able|not comfortable|decline|refuse"
    r"|must decline)\b|\bas an ai\b"
    r"|\b(?:cannot|can['’]t|impossible to|not possible to|unable to)\s{1,3}(?:be\s{1,3})?"
    r"(?:rat|scor|evaluat|assess|judg|provid|determin|giv)|\A\W{0,6}(?:n/?a\b|not applicable)"
)
_OPENING = 200
"""Characters at the beginning of an answer that are searched for a refusal."""


def declines(text: str) -> bool:
    """Return whether an answer without a rating begins by declining to give one."""
    return _DECLINED.search(text[:_OPENING]) is not None
