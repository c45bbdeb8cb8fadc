"""Reads from a server's refusal how many questions or options it takes, or which one it refuses."""

from __future__ import annotations

import re

from textassay.runtime.errors import RequestRefused


def quote_server(error: RequestRefused) -> str:
    """Return the server's own words."""
    quoted = re.search("(?s)“(.*)”", str(error))
    return quoted[1] if quoted else ""


def allowed_number(names: str, error: RequestRefused, sent_number: int, default: int = 0) -> int:
    """Return the largest number that a refusal allows; 0 if the refusal is about something else.

    Args:
        names: Pattern of the names that the server may use for what there is too much of.
        error: The refusal.
        sent_number: The number that was sent; only a smaller one is a limit.
        default: Returned if no number is beside a word for a largest number.
    """
    quoted = quote_server(error)
    limit = r"(?i)\b(?:most|maximum|max|limit|exceeds?|up to|too (?:many|long|large)|more than)\b"
    if not re.search(rf"(?i)\b(?:{names})\b", quoted) or not re.search(limit, quoted):
        return 0
    # Expected an array with maximum length 208, but got ...   at most 5 options   (max 5)
    after = re.findall(rf"{limit}\D{{0,40}}\b(\d+)", quoted)
    # too many questions: 24 (10 allowed)   12 options, 5 levels maximum
    before = re.findall(r"(?i)\b(\d+)\s(?:\w+\s){0,2}(?:max(?:imum)?|allowed|permitted)\b", quoted)
    return max((n for n in map(int, after + before) if 0 < n < sent_number), default=default)


def find_refused(error: RequestRefused, count: int) -> int | None:
    """Return the index of the question that a refusal names; `None` if it names none."""
    # Invalid 'questions[3].levels': ...   body.questions.q4.criteria: ...
    named = re.search(r"\bquestions(?:\[\W?|[./])(q?)(\d+)", quote_server(error))
    # `q1` is the first question, and so is the index 0
    place = -1 if named is None else int(named[2]) - bool(named[1])
    return place if 0 <= place < count else None
