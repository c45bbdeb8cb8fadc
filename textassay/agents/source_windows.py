"""Cuts a source into windows, and finds those that a claim has most words in common with.

A judge that checks a claim is shown a few windows of a long source rather than all of it, as
FActScore retrieves passages (arXiv 2305.14251, section 4). Knows no model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from textassay.agents.quotes import evidence_pieces
from textassay.runtime.messages import Example
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter, pack_sentences

K1, B = 1.2, 0.75
"""Parameters of BM25 (Robertson and Zaragoza 2009, section 3.2)."""
GAP = "[...]"
"""Stands between windows that do not follow each other."""

_WORD = re.compile(r"\w+")


def narrow(
    example: Example,
    claim: str,
    *,
    window: int,
    most: int,
    splitter: SentenceSplitter = DEFAULT_SPLITTER,
    question_counts: bool = True,
) -> Example:
    """Return the example with at most `most` windows of its source, those closest to the claim.

    Passages and conversations are shown by their numbers, `most` windows of them in all.

    Args:
        example: What is judged.
        claim: What is looked for.
        window: Longest window in words.
        most: Number of windows.
        splitter: Cuts the source into sentences; windows consist of whole ones.
        question_counts: Whether the question is evidence even where there is a context; if not, it
            is left out of the passages and conversations that are shown.

    Returns:
        The example itself if its source is short enough to be shown whole.
    """
    if example.passages or example.messages:
        return _narrowed(example, claim, window, most, splitter, question_counts=question_counts)
    source = example.source or ""
    if len(source.split()) <= window * most:
        return example
    windows = pack_sentences(
        splitter.split(source), lambda text: len(text.split()), window, overlap=1
    )
    chosen = sorted(closest(claim, windows, most))
    shown = f"\n{GAP}\n".join(windows[at] for at in chosen)
    return example.model_copy(update={"source": shown})


def _narrowed(
    example: Example,
    claim: str,
    window: int,
    most: int,
    splitter: SentenceSplitter,
    *,
    question_counts: bool,
) -> Example:
    """Return the example with the windows of its passages and messages closest to the claim."""
    windows: list[tuple[bool, str]] = []
    for piece in evidence_pieces(example, question_counts=question_counts):
        cut = pack_sentences(
            splitter.split(piece.text), lambda text: len(text.split()), window, overlap=1
        )
        is_context = piece.kind == "passage" and not piece.turn
        windows += [(is_context, replace(piece, text=text).shown) for text in cut]
    if sum(len(text.split()) for _, text in windows) <= window * most:
        chosen = list(range(len(windows)))
    else:
        chosen = sorted(closest(claim, [text for _, text in windows], most))
    shown = {
        name: "\n\n".join(windows[at][1] for at in chosen if windows[at][0] is is_context) or None
        for name, is_context in (("source", False), ("context", True))
    }
    return example.model_copy(update=shown)


def closest(claim: str, windows: Sequence[str], most: int) -> list[int]:
    """Return the indices of the windows closest to a claim by BM25, the closest first."""
    counts = [Counter(_words(text)) for text in windows]
    lengths = [counted.total() for counted in counts]
    mean = (sum(lengths) / len(lengths) if lengths else 0.0) or 1.0
    scores = [0.0] * len(windows)
    for word in set(_words(claim)):
        holding = sum(word in counted for counted in counts)
        # never negative, unlike the plain form, for words that more than half of the windows hold
        weight = math.log(1 + (len(windows) - holding + 0.5) / (holding + 0.5))
        for at, counted in enumerate(counts):
            often = counted[word]
            room = K1 * (1 - B + B * lengths[at] / mean)
            scores[at] += weight * often * (K1 + 1) / (often + room)
    return sorted(range(len(windows)), key=lambda at: (-scores[at], at))[:most]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
