"""Delimiters around evaluated texts that the texts cannot forge.

    <source-3fa9c1d2>
    ...
    </source-3fa9c1d2>

The number is a function of the texts alone: equal examples give equal prompts, so caches and prefix
caches hit, and no text can hold the number that its own content leads to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import count


def nonce(texts: Iterable[str]) -> str:
    """Return 8 hex digits that follow from the texts and occur in none of them."""
    known = tuple(texts)
    # With their lengths: texts cut differently must not give the same number.
    joined = "\x1f".join([f"{len(text)}:{text}" for text in known])
    # The texts are hashed into the number, so holding it would take a preimage; the loop is for the
    # one chance in four billion per place.
    for attempt in count():
        hashed = f"{attempt}:{joined}".encode("utf-8", "surrogatepass")
        number = hashlib.sha256(hashed).hexdigest()[:8]
        for text in known:
            if number in text:
                break
        else:
            return number
    raise AssertionError("unreachable")


def fence(kind: str, text: str, number: str) -> str:
    """Return `text`, unchanged, between the delimiters of its kind.

    Args:
        kind: What the text is, such as `source`; lower-case letters and hyphens.
        text: The text.
        number: What `nonce` gives for all texts of the example.
    """
    return f"<{kind}-{number}>\n{text}\n</{kind}-{number}>"
