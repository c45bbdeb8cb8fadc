"""Labels that stand for numbers: pass or fail, yes or no, and the categories of an aspect.

A label's number is its position, lowest first. Of a pair of words that is known, such as `fail` and
`pass`, the numbers are 0 and 1 wherever the pair occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

PAIRS: tuple[tuple[str, str], ...] = (
    ("no", "yes"),
    ("false", "true"),
    ("fail", "pass"),
    ("failed", "passed"),
    ("incorrect", "correct"),
    ("wrong", "right"),
    ("unsafe", "safe"),
    ("invalid", "valid"),
    ("unacceptable", "acceptable"),
    ("rejected", "accepted"),
    ("unsatisfied", "satisfied"),
    ("irrelevant", "relevant"),
)
"""Words for no and yes, in lower case."""
_KNOWN = {word: (pair, number) for pair in PAIRS for number, word in enumerate(pair)}


class LabelScale(NamedTuple):
    """The labels of an aspect."""

    names: tuple[str, ...]
    """Lowest first."""
    ordered: bool = False
    """Whether more than two are ordered."""


YES_NO = LabelScale(("no", "yes"))
"""What 0 and 1 mean where nothing else is said."""

LabelSets = Mapping[str, Sequence[str]]
"""Labels of aspects by name, lowest first."""


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels as given, but a known pair with its word for no first."""
    given = tuple(labels)
    pair = tuple(label.strip().casefold() for label in given)
    return given[::-1] if pair[::-1] in PAIRS else given


def known_pair(word: object) -> tuple[tuple[str, str], int] | None:
    """Return the pair that a word (or a boolean) is of, and its number; `None` if it is of none."""
    if not isinstance(word, str | bool):
        return None
    return _KNOWN.get(str(word).strip().casefold())


def number_of(word: str, labels: Sequence[str]) -> int | None:
    """Return the number of one of an aspect's labels, in any case; `None` if it is none of them."""
    plain = word.strip().casefold()
    return next((n for n, label in enumerate(labels) if label.casefold() == plain), None)
