"""Recognizes answers in which a model declines to judge."""

from __future__ import annotations

from textassay.lazy import lazy_pattern

# I'm sorry / cannot be rated / N/A / "refused" and nothing else, but not: I can't find any fault
_DECLINED = lazy_pattern(
    r"(?i)\b(?:I|we)(?:['’]m| am| are)?\s{1,3}(?:really |so |must |respectfully )?(?:unable|cannot"
    r"|can['’]t|sorry(?! to (?:say|see))|can not|could not|couldn['’]t|won['’]t|will not|not able"
    r"|not comfortable|decline|refuse)\b(?! (?:to )?(?:really |even )?(?:find|fault|detect|identify"
    r"|spot|lie|praise|recommend|agree more|complain|think of|(?:see|say|name|imagine) any))"
    r"|\bas an ai\b"
    r"|\b(?:cannot|can['’]t|impossible to|not possible to|unable to)\s{1,3}(?:be\s{1,3})?"
    r"(?:rat|scor|evaluat|assess|judg|provid|determin|giv)"
    r"|\A\W{0,6}(?:(?:n/?a\b|not applicable)(?!.*\d)"
    r"|(?:null|refus(?:e|ed|al)|declined?|abstain(?:ed)?)\W{0,6}\Z)"
)
_OPENING = 200
"""Characters at the beginning of an answer that are searched for a refusal."""


def declines(text: str) -> bool:
    """Return whether an answer in which no verdict was found begins by declining to give one."""
    return _DECLINED.search(text[:_OPENING]) is not None
