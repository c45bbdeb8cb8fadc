"""Finds a quotation in the text that it is said to be from: by rules, without a model.

White space, case, typographic quotation marks and dashes, and punctuation around a quotation do not
matter; every word and every number does, and so does their order. Part of a word or of a number is
not found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textassay.runtime.messages import Example

MIN_WORDS = 3
"""Words of a quotation; fewer are found in nearly every text by chance, so they are no evidence,
unless they are all that the text says."""

# 1,000.5   word   .   so that "10" is not found in "100"
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+|[^\w\s]|_")
# "..."   "[...]"   "(…)": an ellipsis within a quotation
_GAP = re.compile(r"\s*(?:\[(?:\.{3}|\u2026)\]|\((?:\.{3}|\u2026)\)|\.{3,}|\u2026)\s*")
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
        **dict.fromkeys('\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb', '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuoteMatch:
    """Where a quotation stands."""

    where: str
    """`output`, `source` or `context`."""
    start: int
    """First token of the first part, from 0."""


def find_quote(quote: str, texts: Mapping[str, str]) -> QuoteMatch | None:
    """Return where a quotation stands, or `None` if no text holds it word for word.

    A quotation with an ellipsis is found if all of its parts stand in one text, in order.

    Args:
        quote: What is said to be quoted.
        texts: Texts by name; the first that holds the quotation counts.
    """
    parts = [tokens for part in _GAP.split(_plain(quote)) if (tokens := _stripped(_tokens(part)))]
    if not parts:
        return None
    for where, text in texts.items():
        source = _tokens(_plain(text))
        needed = min(MIN_WORDS, sum(map(_is_word, source)))
        if any(sum(map(_is_word, part)) < needed for part in parts):
            continue
        start = _in_order(parts, source)
        if start is not None:
            return QuoteMatch(where, start)
    return None


def quotable(example: Example) -> dict[str, str]:
    """Return the texts of an example that can be quoted, the output first.

    Blank ones are left out.
    """
    texts = {"output": example.output, "source": example.source, "context": example.context}
    return {name: text for name, text in texts.items() if text is not None and text.strip()}


def _plain(text: str) -> str:
    # Translated twice: NFKC itself yields such marks (primes out of a quadruple prime).
    return unicodedata.normalize("NFKC", text.translate(_PLAIN)).translate(_PLAIN).casefold()


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _is_word(token: str) -> bool:
    return token[0].isalnum()


def _stripped(tokens: list[str]) -> list[str]:
    """Return tokens without the punctuation around them, which models add."""
    words = [at for at, token in enumerate(tokens) if _is_word(token)]
    return tokens[words[0] : words[-1] + 1] if words else []


def _in_order(parts: Sequence[list[str]], tokens: Sequence[str]) -> int | None:
    first, at = None, 0
    for part in parts:
        position = _position(part, tokens, at)
        if position is None:
            return None
        first, at = (position if first is None else first), position + len(part)
    return first


def _position(part: Sequence[str], tokens: Sequence[str], start: int) -> int | None:
    """Return where the tokens stand next to each other, from `start` on."""
    for at in range(start, len(tokens) - len(part) + 1):
        # Comparing one token first keeps this linear for nearly all texts.
        if tokens[at] == part[0] and list(tokens[at : at + len(part)]) == list(part):
            return at
    return None
