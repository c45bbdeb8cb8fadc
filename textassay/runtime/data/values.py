"""What a value of a row says: cells of flat tables by their field, and what JSON can hold.

Numpy and pandas types become Python's, dates become text.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal

import orjson


def to_json_value(value: Any, *, top: bool = False) -> Any:
    """Return a value from memory as what JSON can hold.

    Numpy and pandas types become Python's, dates become text.

    Args:
        value: Anything.
        top: Whether it is a whole cell, in which NaN, NaT and NA mean that there is none.

    Raises:
        ValueError: JSON cannot hold it; says what it is.
    """
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is float or kind is int:
        return _finite(value)
    if value is None or kind is bool:
        return value
    if kind.__name__ in ("NAType", "NaTType"):
        return None if top else _refuse(value)
    if isinstance(value, Mapping):
        return {_name(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    # numpy, pandas and torch alike, none of which is imported here.
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        value = value.tolist()
        return (
            None
            if top and isinstance(value, float) and value != value
            else to_json_value(value, top=top)
        )
    return _converted(value)


def _converted(value: Any) -> Any:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return _finite(float(value))
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, str):
        return _text(str(value))
    if isinstance(value, int | float):
        return _finite(value)
    return _refuse(value)


def _refuse(value: Any) -> Any:
    raise ValueError(
        f"contains {type(value).__name__}, which JSON cannot hold; convert it or leave the field "
        "out"
    )


def _name(key: Any) -> str:
    return _text(key) if isinstance(key, str) else str(_refuse(key))


def _text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(text[error.start]):04x}"
            raise ValueError(
                f"contains {half} at character {error.start}, half of a surrogate pair, which is"
                " not text"
            ) from None
    return text


def _finite(number: float) -> float:
    if isinstance(number, int):
        # orjson's range, which writes all runs.
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"contains a number of more than 64 bits: {short_repr(number)}")
    elif not math.isfinite(number):
        raise ValueError(f"should be a finite number (null if it is missing), not {number!r}")
    return number


def short_repr(value: Any) -> str:
    """Return a value as an error may show it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


Decimal = Literal[".", ","]
"""The decimal mark of numbers that are written as text."""
KEYED = ("human", "metrics", "annotators", "meta")
"""Fields that hold values by name; `human.coherence` is one value of `human`."""


LISTED = frozenset({
    "context", "passages", "messages", "images", "tools", "tools_called", "rubric",
})  # fmt: skip
"""Fields that may be lists of objects, which flat files hold as text."""


_LONGEST_MARK = 20
"""Characters of what an error takes for a mark of a missing value."""


class FieldError(ValueError):
    """A row that makes no example."""

    def __init__(self, field: str | None, problem: str) -> None:
        """Keep which field it is about; `None` for the row as a whole."""
        super().__init__(problem if field is None else f"field {field!r}: {problem}")


def cell_from_text(
    key: str, name: str, text: str, is_label: Callable[[str], bool], decimal: Decimal = "."
) -> Any:
    """Return what a cell of a flat table says.

    Args:
        key: The column.
        name: The field, with a point at its end for a value of `human`, `metrics` or `annotators`.
        text: The cell.
        is_label: Whether a text is a label, which is left as it is.
        decimal: The decimal mark.

    Returns:
        `None` if the cell is empty and the field may be missing.

    Raises:
        FieldError: It is not what the field holds.
    """
    # An empty output is an output (and is judged as such); every other empty cell is a missing
    # value.
    if name == "output" or name.startswith("meta."):
        return text
    if not text.strip():
        return None
    if name in ("human.", "metrics."):
        return text if is_label(text) else number_in(key, text, decimal)
    if name == "references":
        return _listed(text)
    if name in LISTED or (name == "source" and text.lstrip()[:2] == "[{"):
        return listed_objects(text)
    if name in KEYED or name == "annotators.":
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise FieldError(key, f"should be JSON, not {short_repr(text)} ({error.msg})") from None
    return text


def number_in(key: str, text: str, decimal: Decimal = ".") -> float:
    """Return the number that a cell holds as text.

    Args:
        key: The column.
        text: The cell.
        decimal: The decimal mark; where it is a comma, a point is understood as well.

    Raises:
        FieldError: It is no finite number.
    """
    # "1.234,5" stays as it is, which is no number
    plain = text.replace(",", ".") if decimal == "," and "." not in text else text
    try:
        # Python reads "1_000" as a number; in data it is a code.
        number = float(plain) if "_" not in plain else math.nan
    except ValueError:
        raise FieldError(
            key, f"should be a number or empty, not {short_repr(text)}{advice(text)}"
        ) from None
    if not math.isfinite(number):
        raise FieldError(key, f"should be a finite number or empty, not {short_repr(text)}")
    return number


def advice(text: str) -> str:
    """Say what to do about text where a number should be."""
    if finite(text.replace(",", ".")) is not None:
        return "; write it with a decimal point (cells separated by semicolons may have commas)"
    if len(text) > _LONGEST_MARK:
        return ""
    return f"; if it marks a missing value, declare missing=({text!r},)"


def finite(text: str) -> float | None:
    """Return the finite number that a text is; `None` if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _listed(text: str) -> Any:
    """Return the references in a cell: a JSON list of texts, or else one text."""
    if text.lstrip().startswith("["):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
    return text


def listed_objects(text: str) -> Any:
    """Return the list in a cell, as JSON or as Python writes it, or else the text."""
    if not text.lstrip().startswith("["):
        return text
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = ast.literal_eval(text.strip())  # what Ragas writes into .csv
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
    return value if isinstance(value, list) else text


def json_cell(key: Any, value: Any) -> Any:
    """Return a value from memory as what JSON can hold; `None` for NaN.

    Raises:
        FieldError: It cannot be expressed in JSON.
    """
    if type(value) is float and value != value:
        return None
    try:
        return to_json_value(value, top=True)
    except ValueError as error:
        raise FieldError(str(key), str(error)) from None
