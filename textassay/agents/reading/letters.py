"""Reads a rating that was asked for as a letter: A is the lowest point of the scale."""

from __future__ import annotations

import re

from textassay.agents.reading.asides import own_words, withdrawals
from textassay.agents.reading.wording import last_of
from textassay.lazy import lazy_pattern

# D   (B)   **E**
_ONLY_LETTER = lazy_pattern(r"\A[\s*_`\"'(\[{]{0,12}(?P<letter>[A-Za-z])[\s*_`\"'.)\]}:]{0,12}\Z")
# Answer: C   The rating is "B"
_STATED_LETTER = lazy_pattern(
    r"\b(?i:answer|choice|rating|score|grade)\b(?:\"?\s{0,3}[:=]|\s{1,3}(?i:is|would be)\b)"
    r"\s{0,3}(?:(?i:option)\s{1,3})?[*_\"'(\[]{0,4}(?P<letter>[A-Z])\b(?![\s'][a-z])"
)
# I choose option B
_NAMED_LETTER = lazy_pattern(
    r"\b(?i:answer|choice|option|rating|score|grade|select|choose|pick)(?i:s|ed"
    r"|d)?\b[^.!?\n\w]{0,12}"
    r"(?:(?i:is|of|would"
    r" be|as|with|option|the)\s{1,3}){0,3}[*_\"'(\[]{0,4}(?P<letter>[A-Z])\b(?![\s'][a-z])"
)
# so it is fair (C)
_LETTER_ASIDE = lazy_pattern(r"[(\[](?P<letter>[A-Z])[)\]]")
# C) Fair   B - it flows
_LETTER_FIRST = lazy_pattern(
    r"\A[\s*_`\"'(\[]{0,12}(?P<letter>[A-Z])(?=[*_]{0,3}[).:\]\n]|\s[-–—(:])"
)
# It reads well.\n\nC
_LETTER_LAST = lazy_pattern(r"(?<![\w'/])(?P<letter>[A-Z])[.*_)]{0,4}\s{0,20}\Z")
# B\n\nNote: ...
_LETTER_LINE = lazy_pattern(r"\A[\s*_`\"'(\[]{0,12}(?P<letter>[A-Z])[*_).:\]]{0,4}[ \t]{0,8}\n")


def stated_letters(text: str) -> list[re.Match[str]]:
    """Return where an answer states its letter; several that differ contradict each other.

    The article `A` is no letter.
    """
    text = own_words(text)
    # A letter alone may be lower case or the word "A"; within a sentence neither counts.
    if only := _ONLY_LETTER.match(text):
        return [only]
    stated = list(_STATED_LETTER.finditer(text))
    for at in withdrawals(text):
        if kept := [match for match in stated if match.start() >= at]:
            return kept
    if stated:
        line = _LETTER_LINE.match(text)
        return [line, *stated] if line else stated
    # From the surest place to the least sure one; only the first that has a letter is asked.
    matches = (
        last_of(_NAMED_LETTER.finditer(text))
        or last_of(_LETTER_ASIDE.finditer(text))
        or _LETTER_FIRST.match(text)
        or _LETTER_LAST.search(text, max(0, len(text) - 40))
    )
    return [matches] if matches else []
