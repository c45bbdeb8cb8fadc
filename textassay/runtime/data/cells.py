"""What a cell of a flat table or a value of a row says, by the field it stands for."""

from __future__ import annotations

import ast
import math
from typing import Any

import orjson

from textassay.runtime.data.json_values import short_repr, to_json_value

KEYED = ("human", "metrics", "annotators", "meta")
"""Fields that hold values by name; `human.coherence` is one value of `human`."""


LISTED = frozenset({"context", "passages", "messages", "tools", "tools_called"})
"""Fields that may be lists of objects, which flat files hold as text."""


class FieldError(ValueError):
    """A row that makes no example."""

    def __init__(self, field: str | None, problem: str) -> None:
        """Keep which field it is about; `None` for the row as a whole."""
        super().__init__(problem if field is None else f"field {field!r}: {problem}")


def cell_from_text(key: str, name: str, text: str) -> Any:
    """Return what a cell of a flat table says.

    `None` if it is empty and the field may be missing.

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
        return _number(key, text)
    if name == "references":
        return _listed(text)
    if name in LISTED or (name == "source" and text.lstrip()[:2] == "[{"):
        return _listed_objects(text)
    if name in KEYED or name == "annotators.":
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise FieldError(key, f"should be JSON, not {short_repr(text)} ({error.msg})") from None
    return text


def _number(key: str, text: str) -> float:
    try:
        # Python reads "1_000" as a number; in data it is a code.
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        raise FieldError(key, f"should be a number or empty, not {short_repr(text)}") from None
    if not math.isfinite(number):
        raise FieldError(key, f"should be a finite number or empty, not {short_repr(text)}")
    return number


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


def _listed_objects(text: str) -> Any:
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
