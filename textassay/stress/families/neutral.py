"""Neutral text of a given length.

What an insertion is read against, so that its words count and not its length.
"""

from __future__ import annotations

from textassay.stress.families.length import NEUTRAL


def neutral_text(length: int) -> str:
    """Return neutral words of about so many characters, at least one word."""
    words = " ".join(NEUTRAL).split()
    text = words[0]
    at = 1
    while len(text) + 1 + len(words[at % len(words)]) <= length:
        text += f" {words[at % len(words)]}"
        at += 1
    return text
