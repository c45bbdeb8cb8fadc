"""Labels with numbers: pass or fail, yes or no, and the categories of an aspect.

A label's number is its position, lowest first. Known pairs of words, such as `fail` and `pass`,
always have the numbers 0 and 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

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
    ("nein", "ja"),
    ("falsch", "wahr"),
    ("non", "oui"),
)
"""Words for no and yes, in lower case."""
NONE_OF_THEM = "none of these"
"""The raters' choice if no label applies, since other tools do not export empty answers."""
LEVEL_FEATURES = (": highest level", ": entropy")
"""Ends of the names of further features of a rating whose levels have probabilities."""
BOOLEAN = ("false", "true")
_KNOWN = {word: (pair, number) for pair in PAIRS for number, word in enumerate(pair)}

Value = TypeVar("Value")


class LabelScale(NamedTuple):
    """The labels of an aspect."""

    names: tuple[str, ...]
    """Lowest first."""
    ordered: bool = False
    """Whether more than two are ordered."""
    multiple: bool = False
    """Whether several may apply; ratings are then 0 and 1 of each, named by `member_name`."""

    @property
    def is_nominal(self) -> bool:
        """Whether the labels' numbers are only identifiers, without a mean."""
        return len(self.names) > 2 and not self.ordered and not self.multiple


YES_NO = LabelScale(("no", "yes"))
"""The default labels of 0 and 1."""

LabelSets = Mapping[str, LabelScale]
"""Labels of aspects by name."""


def slug(name: str) -> str:
    """Return `name` in lower case, with each run of non-alphanumeric characters as one hyphen."""
    return re.sub(r"[\W_]+", "-", name.casefold()).strip("-") or "x"


def member_name(aspect: str, label: str) -> str:
    """Return the name of the ratings of one label, if several may apply."""
    return f"{slug(aspect)}/{slug(label)}"


def share_names(name: str, labels: Iterable[str]) -> tuple[str, ...]:
    """Return the names of columns with the share of each label without an order."""
    # not by `slug`, which is the same for labels such as + and -
    return tuple(f"{name}/{label.strip().casefold()}" for label in labels)


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels as given, but a known pair with its word for no first."""
    names = tuple(labels)
    pair = tuple(label.strip().casefold() for label in names)
    return names[::-1] if pair[::-1] in PAIRS else names


def nearest_label(value: float | None) -> float | None:
    """Return the label nearest to a mean of labels; `None` halfway between two."""
    if value is None or abs(value % 1 - 0.5) < 1e-9:  # apart from rounding
        return None
    return float(round(value))


def majority(votes: Iterable[Value | None]) -> Value | None:
    """Return the value with most votes; `None` for a tie, and without a vote."""
    counts = Counter(vote for vote in votes if vote is not None).most_common(2)
    if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0]


def are_labels(values: Iterable[float | None], scale: LabelScale) -> bool:
    """Return whether all numbers are an aspect's label numbers, and there are any."""
    numbers = {value for value in values if value is not None}
    return bool(numbers) and numbers <= set(range(len(scale.names)))


def labels_given(
    ratings: Sequence[Sequence[float | None]], means: Sequence[float | None], scale: LabelScale
) -> list[float | None] | None:
    """Return the label that most raters gave each text, `None` in case of a tie."""
    single = [rating for text in ratings for rating in text if rating is not None]
    if not are_labels(single or means, scale):
        return None
    return [
        majority(text) if any(rating is not None for rating in text) else nearest_label(mean)
        for text, mean in zip(ratings, means, strict=True)
    ]


def find_pair(word: object) -> tuple[tuple[str, str], int] | None:
    """Return the pair of a word (or a boolean), and its number; `None` without a pair."""
    if not isinstance(word, str | bool):
        return None
    return _KNOWN.get(str(word).strip().casefold())


def number_of(word: str | bool, labels: Sequence[str]) -> int | None:
    """Return the number of one of an aspect's labels, in any case; `None` if it is not one of them.

    True and false, written as booleans or words, are also the labels of a known pair such as `no`
    and `yes`, if it is the only one among the labels.
    """
    plain, names = str(word).strip().casefold(), [label.strip().casefold() for label in labels]
    if plain in names:
        return names.index(plain)
    pairs = [pair for pair in PAIRS if set(pair) <= set(names)]
    if plain not in BOOLEAN or len(pairs) != 1:
        return None
    return names.index(pairs[0][BOOLEAN.index(plain)])


def labels_of(manifest: Mapping[str, Any]) -> dict[str, LabelScale]:
    """Return the labels of the aspects that a manifest names, by name.

    If several labels may apply, each also has the labels yes and no.
    """
    aspects = (manifest.get("method") or {}).get("aspects") or ()
    scales = {
        aspect["name"]: LabelScale(tuple(aspect["labels"]), ordered=bool(aspect.get("ordered")))
        for aspect in aspects
        if aspect.get("labels")
    }
    sets: dict[str, list[str]] = {}
    for aspect in aspects:
        if aspect.get("member_of"):
            sets.setdefault(aspect["member_of"], []).append(aspect["member"])
    return scales | {
        name: LabelScale(tuple(members), multiple=True) for name, members in sets.items()
    }


def without_order(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the aspects of a manifest whose scores are labels without an order."""
    return frozenset(name for name, scale in labels_of(manifest).items() if scale.is_nominal)


def shares_of(labels: Mapping[str, LabelScale]) -> frozenset[str]:
    """Return the names of labels' shares, which are neither good nor bad."""
    return frozenset(
        member_name(name, label)
        for name, scale in labels.items()
        if scale.is_nominal or scale.multiple
        for label in scale.names
    )
