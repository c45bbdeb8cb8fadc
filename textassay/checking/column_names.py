"""Reads the name of a column: whose values it has, and which aspect they rate.

Only words of `words.toml` are known. A name such as `judge_clarity` belongs to the judge and rates
the clarity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from textassay.checking import vocabulary

Side = Literal["judge", "human"]

OWN_FIELDS: dict[str, Side] = {"human": "human", "annotators": "human", "metrics": "judge"}
"""Fields of textassay's own format, whose names begin with them, such as `human.clarity`."""


class NameSide(NamedTuple):
    """The side that a name belongs to."""

    side: Side | None = None
    strength: int = 0
    """Certainty of the side: 3 is sure, 1 is weak, 0 is unknown."""


def field_of(name: str) -> str:
    """Return the field that a nested column belongs to: `human` for `human.clarity`."""
    return name.partition(".")[0]


def words_of(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+", name)
    return [word.casefold() for word in words]


def side_of(name: str) -> NameSide:
    """Return the side that a name belongs to, by its strongest word."""
    if field_of(name) in OWN_FIELDS:
        return NameSide(OWN_FIELDS[field_of(name)], 3)
    plain = name.casefold()
    words = {*words_of(name), re.sub(r"[\s_\-]+", "", plain), *_unspaced_words(name)}
    # o1, o3 and o4 are models; `words_of` separates letters and digits
    if re.search(r"(?<![a-z0-9])(?:o[134]|gpt\d|r1)(?![a-z])", plain):
        words.add("gpt")
    judge, human = _strength(words, "judge"), _strength(words, "human")
    if judge == human:
        return NameSide()
    return NameSide("judge", judge) if judge > human else NameSide("human", human)


def _strength(words: set[str], side: Side) -> int:
    levels = vocabulary.levels(side)
    return next((3 - at for at, level in enumerate(levels) if words & level), 0)


def _unspaced_words(name: str) -> set[str]:
    """Return the known words in a name in a script without blanks, the longest at each place."""
    if name.isascii():
        return set()
    levels = (*vocabulary.levels("judge"), *vocabulary.levels("human"))
    words = {word for level in levels for word in level if word >= "\u3040" and word in name}
    return {word for word in words if not any(word in longer for longer in words - {word})}


def rates_nothing(name: str) -> bool:
    """Return whether a name excludes ratings, such as `judge_confidence`, `user_id`, `meta.x`."""
    if field_of(name) in OWN_FIELDS:
        return False
    return field_of(name) == "meta" or not vocabulary.words("other").isdisjoint(words_of(name))


def aspect_of(name: str) -> frozenset[str]:
    """Return the words of a name that describe the rated aspect."""
    field, _, rest = name.partition(".")
    if field == "human":
        return frozenset(words_of(rest))
    if field == "annotators":
        return frozenset(words_of(rest.rpartition(".")[0] or rest))
    levels = (*vocabulary.levels("judge"), *vocabulary.levels("human"))
    others = vocabulary.words("generic").union(*levels)
    words = (word for word in words_of(name) if not word.isdigit() and len(word) > 1)
    return frozenset(words) - others


def repeats(cells: Sequence[object]) -> bool:
    """Return whether several rows share a value, and there is more than one value."""
    texts = [str(cell) for cell in cells if cell is not None and str(cell).strip()]
    return 1 < len(set(texts)) < len(texts)
