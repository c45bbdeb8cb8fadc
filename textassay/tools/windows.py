"""Windows over texts that are longer than a model takes.

Every word lands in at least one, nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Count = Callable[[str], int]
"""Tokens of a text, without special ones."""


def split_long(sentences: Sequence[str], count: Count, limit: int) -> list[str]:
    """Cut sentences that are too long between words, or inside a word that is too long itself.

    Args:
        sentences: Texts in order.
        count: Tokens of a text.
        limit: Most tokens of a piece, at least 1.
    """
    pieces: list[str] = []
    for sentence in sentences:
        pieces += [sentence] if count(sentence) <= limit else _cut(sentence, count, limit)
    return pieces


def pack_sentences(
    sentences: Sequence[str], count: Count, limit: int, *, overlap: int = 0
) -> list[str]:
    """Return windows of whole sentences, as long as fit.

    Args:
        sentences: Texts in order.
        count: Tokens of a text.
        limit: Most tokens of a window; longer sentences are cut.
        overlap: Sentences that a window repeats from the one before, as far as they fit.
    """
    pieces = split_long(sentences, count, limit)
    windows: list[str] = []
    start = 0
    while start < len(pieces):
        end = start + 1
        while end < len(pieces) and count(" ".join(pieces[start : end + 1])) <= limit:
            end += 1
        windows.append(" ".join(pieces[start:end]))
        if end == len(pieces):
            break
        # at least one new sentence in every window
        back = overlap
        while back and (
            end - back <= start or count(" ".join(pieces[end - back : end + 1])) > limit
        ):
            back -= 1
        start = end - back
    return windows


def _cut(sentence: str, count: Count, limit: int) -> list[str]:
    # Between words first, and inside a word only if that alone is too long.
    units, glue = sentence.split(), " "
    if len(units) == 1:
        units, glue = list(sentence), ""
    if len(units) == 1:
        return units  # one character: no smaller piece exists
    pieces: list[str] = []
    while units:
        size = _longest(units, glue, count, limit)
        piece = glue.join(units[:size])
        pieces += [piece] if size > 1 or count(piece) <= limit else _cut(piece, count, limit)
        units = units[size:]
    return pieces


def _longest(units: Sequence[str], glue: str, count: Count, limit: int) -> int:
    """Return how many leading units fit, by bisection; at least 1."""
    low, high = 1, len(units)
    # Tokens grow with the text, if not evenly: bisection tokenizes a dozen times rather than once a
    # word.
    while low < high:
        middle = (low + high + 1) // 2
        if count(glue.join(units[:middle])) <= limit:
            low = middle
        else:
            high = middle - 1
    return low
