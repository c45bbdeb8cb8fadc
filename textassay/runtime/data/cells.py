"""What a cell of a flat table or a value of a row says, by the field it stands for."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import orjson

from textassay.runtime.data.json_values import short_repr, to_json_value
from textassay.runtime.data.tables import Decimal

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
