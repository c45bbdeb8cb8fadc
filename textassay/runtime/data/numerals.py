"""Reads numbers as spreadsheets and people write them: decimal commas, thousands, percent.

Imports nothing heavy, since `textassay check` reads its tables with it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from textassay.lazy import lazy_pattern

DecimalMark = Literal[".", ","]
"""The decimal mark of numbers that are written as text."""

_PLAIN = lazy_pattern(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_GROUPED = lazy_pattern(
    r"[+-]?[1-9]\d{0,2}(?P<mark>[.,'’ \u00a0\u202f])\d{3}(?:(?P=mark)\d{3})*"
    r"(?:(?!(?P=mark))(?P<decimal>[.,])\d+)?"
)
"""A number with a mark between its thousands, such as `1,234,567` and `1.234,5`."""


class Numeral(NamedTuple):
    """A number written as text."""

    value: float
    """A percentage as a share: .85 for `85 %`."""
    is_percent: bool = False


class NumeralError(ValueError):
    """A text whose number is not certain."""


class AmbiguousNumber(NumeralError):
    """A text with two readings as a number, such as 1,234."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        super().__init__(
            f"{self.text!r} may be {self.text.replace(',', '')} or {self.text.replace(',', '.')};"
            " write it with a decimal point, or without a mark of thousands"
        )


class PercentColumns:
    """Columns by name, each with either percentages or other numbers."""

    def __init__(self) -> None:
        self._are_percent: dict[str, bool] = {}

    def check(self, column: str, text: str) -> None:
        """Raise `NumeralError` if the unit of a number differs from the cells above."""
        is_percent = text.rstrip().endswith("%")
        if self._are_percent.setdefault(column, is_percent) is not is_percent:
            raise NumeralError(
                f"is {text.strip()!r}, and other rows are {'not ' * is_percent}in percent"
            )


def read_numeral(text: str, decimal: DecimalMark = ".") -> Numeral | None:
    """Return the number in a text; `None` if it is not a number.

    Args:
        text: The text, which may have white space around it.
        decimal: Decimal mark of the other numbers. If it is a point, `4,5` is still a number, since
            a mark of thousands has three digits after it.

    Raises:
        AmbiguousNumber: A comma has three digits after it, and points are the decimal marks.
    """
    plain = text.strip().replace("\u2212", "-")
    is_percent = plain.endswith("%")
    if is_percent:
        plain = plain[:-1].rstrip()
    if not plain[-1:].isdigit() and plain[-1:] != ".":
        return None
    if _PLAIN.fullmatch(plain):
        value = float(plain)
    elif plain.count(",") == 1 and _PLAIN.fullmatch(swapped := plain.replace(",", ".")):
        if decimal == "." and _GROUPED.fullmatch(plain):
            raise AmbiguousNumber(text)
        value = float(swapped)
    elif match := _GROUPED.fullmatch(plain):
        value = float(plain.replace(match["mark"], "").replace(",", "."))
    else:
        return None
    return Numeral(value / 100 if is_percent else value, is_percent)


def value_in_cell(
    text: str, decimal: DecimalMark, column: str, percents: PercentColumns
) -> float | str | None:
    """Return the number in a cell of a column, `None` for an empty cell, or else its text.

    Raises:
        NumeralError: As `read_numeral` and `PercentColumns.check`.
    """
    numeral = read_numeral(text, decimal)
    if numeral is not None:
        percents.check(column, text)
        return numeral.value
    return text if text.strip() else None
