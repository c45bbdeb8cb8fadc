"""Recognizes answers in which a model declines to judge."""

from __future__ import annotations

from textassay.lazy import lazy_pattern

# I'm sorry / cannot be rated / N/A / "refused" and nothing else
_DECLINED = lazy_pattern(
    r"(?i)\b(?:I|we)(?:['’]m| am| are)?\s{1,3}(?:really |so )?(?:sorry|unable|cannot|can['’]t"
    r"|can not|could not|couldn['’]t|won['’]t|will not|not able|not comfortable|decline|refuse"
    r"|must decline)\b|\bas an ai\b"
    r"|\b(?:cannot|can['’]t|impossible to|not possible to|unable to)\s{1,3}(?:be\s{1,3})?"
    r"(?:rat|scor|evaluat|assess|judg|provid|determin|giv)|\A\W{0,6}(?:n/?a\b|not applicable"
    r"|(?:null|refus(?:e|ed|al)|declined?|abstain(?:ed)?)\W{0,6}\Z)"
)
_OPENING = 200
"""Characters at the beginning of an answer that are searched for a refusal."""


def declines(text: str) -> bool:
    """Return whether an answer without a verdict begins by declining to give one."""
    return _DECLINED.search(text[:_OPENING]) is not None
