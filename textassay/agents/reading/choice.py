"""Reads which of two texts a judge chose: the first (A), the second (B) or neither (C)."""

from __future__ import annotations

import re

from textassay.agents.reading.rating import NoRating, parse_rating

# Output (a)   [[B]]   Text A.   Response b
_ONLY_CHOICE = re.compile(
    r"\A[\s*_`\"'\[(]{0,12}(?:(?i:output|text|response|answer|option|summary)\s{0,3}:?\s{0,3})?"
    r"[*_`\"'\[(]{0,6}(?P<letter>[A-Ca-c])[*_`\"'\])]{0,6}[\s.*_`\"'\])]{0,12}\Z"
)
# ... [[A]], the last one said
_MARKED = re.compile(r"\[\[(?P<letter>[A-C])\]\]")

PREFERENCE = {"A": 1.0, "B": 0.0, "C": 0.5}
"""How much better the first text is, by letter."""


def parse_choice(text: str, *, ties: bool = False) -> float | NoRating:
    """Return how much better the first text is (1, 0, or 0.5 for equal), or why that is not said.

    Args:
        text: What the judge said.
        ties: Whether C, neither, may be answered.
    """
    letters = "ABC" if ties else "AB"
    marked = {match["letter"] for match in _MARKED.finditer(text)}
    # Two different marks, [[A]] and [[B]], name both texts, as when the judge repeats the
    # instructions.
    only = _ONLY_CHOICE.match(text)
    letter = only["letter"].upper() if only else marked.pop() if len(marked) == 1 else None
    if letter is not None:
        if letter in letters:
            return PREFERENCE[letter]
        return NoRating("OffScale", f"the judge chose {letter}, which was not offered")
    rating = parse_rating(text, scale=(1.0, float(len(letters))), form="letters")
    if isinstance(rating, NoRating):
        return rating
    return PREFERENCE[letters[int(rating.value) - 1]]
