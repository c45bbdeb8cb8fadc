"""Reads people's preferences between two texts, as in published data: `A>B`, `model_b`, `tie`, 2.

A preference is 1 for the first text, 0 for the second, 0.5 for neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from textassay.lazy import lazy_pattern
from textassay.runtime.data.cells import FieldError, finite

_SIDE = lazy_pattern(
    r"(?:the )?(?:(?:model|response|output|answer|assistant|system|summary|text|completion|option"
    r"|candidate|translation)[ _-]?)?(?:(?P<first>a|1|one)|(?P<second>b|2|two))"
    r"|(?:the )?(?:(?P<former>first|1st|left)|(?P<latter>second|2nd|right))"
    r"(?:[ _-](?:one|response|answer|side|text|output))?"
)
_VERB = lazy_pattern(
    r"[\s_]+(?:(?:is[\s_])?(?:(?:much|far|a (?:lot|bit|little)|somewhat|slightly|marginally"
    r"|moderately|clearly|strongly|significantly|considerably) )?better|wins?|won|is preferred)$"
)
"""Words after the name of the better text; `A is not better` and `hardly better` do not match."""
_NEITHER = frozenset({
    "tie", "tied", "ties", "draw", "equal", "equally good", "same", "about the same", "both",
    "both good", "both bad", "bothbad", "neither", "no preference", "no difference", "tie bothbad",
    "tie both bad",
})  # fmt: skip


def read_preference(word: str, sides: Mapping[str, float] = {}) -> float | None:
    """Return the preference in a word; `None` if it is not a preference.

    Args:
        word: Such as `A>B`, `[[A]]`, `model_a`, `response_B is better` or `tie`.
        sides: Further names of the texts, in lower case, such as the names of their systems.
    """
    plain = word.strip().strip("[]()\"'").casefold().strip(" .!")
    if plain in sides:
        return sides[plain]
    plain = _VERB.sub("", plain)
    if plain in sides:
        return sides[plain]
    if plain.replace("_", " ").replace("(", "").replace(")", "") in _NEITHER:
        return 0.5
    if side := _SIDE.fullmatch(plain):
        return 1.0 if side["first"] or side["former"] else 0.0
    if not (relation := re.fullmatch(r"(.+?)\s*([<>=≻≺≈~]+)\s*(.+)", plain)):
        return None
    left, sign, right = relation.groups()
    first = read_preference(left, sides)
    if first is None or read_preference(right, sides) != 1 - first:
        return None
    if set(sign) <= set(">≻"):
        return first
    return 1 - first if set(sign) <= set("<≺") else 0.5


def verdict_of(value: Any, sides: Mapping[str, float]) -> Any:
    """Return a word as a preference; numbers and other values are unchanged."""
    if not isinstance(value, str) or finite(value) is not None:
        return value
    return value if (preference := read_preference(value, sides)) is None else preference


def check_not_index(column: str, value: Any) -> None:
    """Refuse a number from a column of indexes: 1 may be the first text, or the second after 0.

    Raises:
        FieldError: The column is named as an index, such as `chosen_index`, and has a number.
    """
    is_index = "index" in column.casefold() or "idx" in column.casefold()
    if is_index and (type(value) in (int, float) or str(value).strip().isdecimal()):
        raise FieldError(
            column,
            f"is {value!r}, and an index may count from 0 or from 1; write A if the first text is"
            " better and B if the second is, or map a column with 1 for the first and 0 for the"
            " second, whose name does not say index",
        )


_READ_AS = {
    "0 to 1": "1 is read as the first text better, 0 as the second",
    "1 to 2": "1 is read as the first text better, 2 as the second",
    "another": "higher numbers are read as the first text better",
}


class PreferenceReader:
    """Reads the ratings of comparisons; numbers of 1 and 2 name the texts, unless others occur.

    All rows are read once before any is used, so that a rating of 3 in the last row counts.
    """

    def __init__(self) -> None:
        self._scales: dict[str, set[str]] = {}  # keys of `_READ_AS`, by the rated aspect

    @property
    def notices(self) -> tuple[str, ...]:
        """How numbers are read: other data call the first text 0, or prefer it by -3."""
        # "another" is the last of the keys in order, and beside it there may be the others
        return tuple(
            f"ratings of pairs on {name!r}: {_READ_AS[max(scales)]}"
            for name, scales in self._scales.items()
        )

    def preference(self, name: str, value: Any, sides: Mapping[str, float]) -> Any:
        """Return a rating as a preference; other values are unchanged.

        Raises:
            FieldError: The number is on another scale than the numbers of other rows.
        """
        if isinstance(value, str):
            if (number := finite(value)) is None:
                return verdict_of(value, sides)
            value = number
        if type(value) not in (int, float) or value == 1:
            return value
        scale = "0 to 1" if 0 <= value < 1 else "1 to 2" if 1 < value <= 2 else "another"
        seen = self._scales.setdefault(name, set())
        before = frozenset(seen)
        seen.add(scale)
        # a 2 above was read as the name of the second text
        if seen == {"0 to 1", "1 to 2"} or (before == {"1 to 2"} and scale == "another"):
            (earlier,) = before
            raise FieldError(
                f"human.{name}",
                f"is {value!r}, and a number from {earlier} in another row; write 1 if the first"
                " text is better, 0 if the second is, and 0.5 for neither",
            )
        return 2 - value if seen == {"1 to 2"} else value
