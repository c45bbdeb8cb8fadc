"""Makes any text safe to look at: what a screen would act on or hide is written out.

HTML escapes what means something to a browser; this is about characters of the text itself.
"""

from __future__ import annotations

import re

# a judged text can reverse what is shown after it (U+202E) or hide instructions: readers of a
# report must see what the judge saw
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Control characters, halves of surrogate pairs, and marks that reverse what stands after them."""


def visible(text: str) -> str:
    """Return text with control characters, direction overrides and lone surrogates written out.

    Line breaks and tabs stay. NUL becomes the picture of NUL, a direction override `[U+202E]`.
    """
    if text.isprintable() and text.isascii():  # most texts, and ten times as fast
        return text
    return _UNSEEN.sub(_written, text.replace("\r\n", "\n"))


def clipped(text: str, limit: int) -> str:
    """Return a visible text of at most `limit` characters, and how many were left out."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])} [... {len(text) - limit:,} more characters]"


def _written(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"[U+{code:04X}]"
