"""Which aspects must see which edits: roles of aspects, by their names.

A changed number is a matter of consistency and none of fluency; names that no rule knows have no
role, and nothing is expected of them unless the user says so.
"""

from __future__ import annotations

import re
from typing import Literal

Role = Literal["facts", "content", "order", "language", "concision", "overall"]
"""What an aspect judges: agreement with the source, what is covered, the order of sentences, their
wording, needless words, or all of it."""

_STEMS: dict[Role, str] = {
    "facts": r"consisten|faithful|factual|accura|grounded|correct|adequa|hallucinat|truth",
    "content": r"relevan|coverage|informati|complete|content|salien",
    "order": r"coheren|structur|organi[sz]|logic|flow",
    "language": r"fluen|gramma|natural|readab|understandab|spelling",
    "concision": r"concis|redundan|repetit|brevity",
    "overall": r"overall|quality|general",
}


def role_of(name: str) -> Role | None:
    """Return the role of an aspect by its name; `None` if no rule knows it.

    >>> role_of("Factual consistency")
    'facts'
    """
    # of a criterion such as `fluency/consistency`, the last part says what is judged
    last = name.rpartition("/")[2]
    for role, stems in _STEMS.items():
        # stems in the order of the table: "factual correctness of content" is about facts
        if re.search(rf"\b(?:{stems})", last.casefold()):
            return role
    return None
