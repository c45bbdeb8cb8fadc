"""Reads the choice between two texts out of what a judge said."""

from __future__ import annotations

import re

from textassay.agents.reading.notation import without_special_tokens
from textassay.agents.reading.outcomes import NoRating
from textassay.agents.reading.ratings import parse_rating
from textassay.lazy import lazy_pattern

# Output (a)   [[B]]   Text A.   Response b
_ONLY_CHOICE = lazy_pattern(
    r"\A[\s*_`\"'\[(]{0,12}(?:(?i:output|text|response|answer|option|summary)\s{0,3}:?\s{0,3})?"
    r"[*_`\"'\[(]{0,6}(?P<letter>[A-Ca-c])[*_`\"'\])]{0,6}[\s.*_`\"'\])]{0,12}\Z"
)
# ... My final verdict is: [[A]]
_MARKED_CHOICE = lazy_pattern(r"\[\[(?P<letter>[A-C])\]\][\s.*]{0,12}\Z")
PREFERENCE = {"A": 1.0, "B": 0.0, "C": 0.5}
"""How much better the first text is, by letter."""


def parse_choice(text: str, *, ties: bool = False) -> float | NoRating:
    """Return how much better the first text is: 1, 0, or 0.5 for equal; or why that is open."""
    letters, text = "ABC" if ties else "AB", without_special_tokens(text)
    if only := _ONLY_CHOICE.match(text) or _MARKED_CHOICE.search(text):
        letter = only["letter"].upper()
        if len({letter, *re.findall(r"\[\[([A-C])\]\]", text)}) > 1:
            return NoRating("Contradictory", "the answer states more than one choice")
        if letter in letters:
            return PREFERENCE[letter]
        return NoRating("OffScale", f"the judge chose {letter}, which was not offered")
    rating = parse_rating(text, scale=(1.0, float(len(letters))), form="letters")
    if isinstance(rating, NoRating):
        return rating
    return PREFERENCE[letters[int(rating.value) - 1]]
