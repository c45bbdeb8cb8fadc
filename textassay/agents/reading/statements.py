"""Reads a list of plain statements out of what a model said: numbered, with bullets, or as JSON."""

from __future__ import annotations

import re

from textassay.agents.reading.json_in_prose import find_json
from textassay.agents.reading.rating import blank_thoughts
from textassay.lazy import lazy_pattern

MAX_ANSWER = 40_000
"""Characters of an answer that are read."""

# "1. ", "(2) ", "3) ", "- ", "* "
_ITEM = lazy_pattern(r"^\s*(?:\(?\d{1,3}[.):]|[-*\u2022\u2013])\s+(?P<text>\S.*)$")
_NOTHING = lazy_pattern(r"(?i)^\W*(?:none|no (?:claims|statements|facts)|n/a)\b[^\n]{0,60}$")


def parse_statements(text: str, *, cut: bool = False) -> tuple[str, ...] | None:
    """Return the statements of a list in order, without repeats.

    Args:
        text: What the model said; the first 40,000 characters are read.
        cut: Whether the answer was cut off, so that its last statement may be incomplete.

    Returns:
        The statements; empty if the model says that there are none, and `None` if the answer is no
        list.
    """
    reply = blank_thoughts(text)[:MAX_ANSWER]
    found = _from_json(reply)
    if found is None:
        found = [item["text"] for line in reply.splitlines() if (item := _ITEM.match(line))]
        if not found:
            return () if _NOTHING.match(reply.strip()) else None
    statements = [" ".join(one.split()).strip("\"'*_ ") for one in (found[:-1] if cut else found)]
    # "1. None" is a list of one entry that says there are none
    if len(statements) == 1 and _NOTHING.match(statements[0]):
        return ()
    kept = {one.casefold(): one for one in reversed(statements) if re.search(r"[^\W_]", one)}
    return tuple(reversed(kept.values()))


def _from_json(reply: str) -> list[str] | None:
    """Return the texts of the last JSON list of texts; `None` if there is none."""
    lists = list[list[str]]()
    for part in find_json(reply):
        value = part.value
        if isinstance(value, dict) and len(value) == 1:  # {"claims": [...]}
            value = next(iter(value.values()))
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            lists.append([one for one in value if isinstance(one, str)])
    # reasoning models draft a list before they decide
    return lists[-1] if lists else None
