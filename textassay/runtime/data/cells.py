"""Reads cells: text as numbers, lists and objects, and values from memory as JSON.

Numpy and pandas values become Python's, dates become text.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from textassay.lazy import lazy_pattern
from textassay.runtime.chat_formats import looks_like_messages, short_repr
from textassay.runtime.data.numerals import DecimalMark, NumeralError, PercentColumns, read_numeral
from textassay.runtime.literals import LiteralError, parse_literal


def to_json_value(value: Any, *, top: bool = False) -> Any:
    """Return a value from memory as a JSON value.

    Numpy and pandas types become Python's, dates become text.
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
        is_nan = isinstance(value, float) and value != value
        return None if top and is_nan else to_json_value(value, top=top)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return _finite(float(value))
    if isinstance(value, uuid.UUID | str):
        return _text(str(value))
    return _finite(value) if isinstance(value, int | float) else _refuse(value)


def _refuse(value: Any) -> Any:
    raise ValueError(
        f"contains {type(value).__name__}, which JSON does not support; convert it or leave the"
        " field out"
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


KEYED = ("human", "metrics", "annotators", "meta")
"""Fields that hold values by name; `human.coherence` is one value of `human`."""


class FieldError(ValueError):
    """A row that is not a valid example."""

    def __init__(self, field: str | None, problem: str, *, column: str | None = None) -> None:
        super().__init__(problem if field is None else f"field {field!r}: {problem}")
        self.column = field if column is None else column
        """The column of the field, which may be a part of it; empty if another part is at fault."""


def cell_from_text(
    key: str,
    name: str,
    text: str,
    is_label: Callable[[str], bool],
    decimal: DecimalMark,
    percents: PercentColumns,
) -> Any:
    """Return the value of a cell of a flat table."""
    # An empty output is an output (and is judged as such); every other empty cell is a missing
    # value.
    if name == "output":
        return _messages_in_cell(text)
    if name.startswith("meta."):
        return text
    if not text.strip():
        return None
    if name in ("human.", "metrics."):
        return text if is_label(text) else _number_in(key, text, decimal, percents)
    if name == "context":
        return _passages_in_cell(key, text)
    if name == "source":
        return _messages_in_cell(text)
    if name in ("passages", "messages", "images", "tools", "tools_called", "rubric"):
        return objects_in_cell(text) if text.lstrip()[:1] == "{" else list_in_cell(key, text)
    if name in KEYED or name == "annotators.":
        try:
            return _object_in_cell(text)
        except LiteralError as error:
            problem = f"should be JSON, not {short_repr(text)} ({error})"
            raise FieldError(key, f"{problem}{how_to_name(key, name)}") from None
    return text


def how_to_name(key: str, name: str) -> str:
    """Return advice about a column of single values where values by name are expected."""
    field = name.removesuffix(".")
    return (
        f'; if it is one value, name it: fields={{"{key}": "{field}.NAME"}}, or leave it out:'
        f' fields={{"{key}": "meta"}}'
    )


def _number_in(key: str, text: str, decimal: DecimalMark, percents: PercentColumns) -> float:
    """Return the number that is written in a cell."""
    try:
        numeral = read_numeral(text, decimal)
        if numeral:
            percents.check(key, text)
    except NumeralError as error:
        raise FieldError(key, str(error)) from None
    if numeral is None or not math.isfinite(numeral.value):
        kind = "number" if numeral is None and not _is_infinite(text) else "finite number"
        raise FieldError(key, f"should be a {kind} or empty, not {short_repr(text)}{advice(text)}")
    return numeral.value


def _is_infinite(text: str) -> bool:
    return text.strip().lstrip("+-").casefold() in ("nan", "inf", "infinity")


def advice(text: str) -> str:
    """Return advice about text in place of a number."""
    # a longer text is not a mark of a missing value
    if len(text) > 20 or _is_infinite(text):
        return ""
    if text.lstrip("+- ")[:1].isdigit():
        return "; write the number alone"
    return f"; if it marks a missing value, declare missing=({text!r},)"


def finite(text: str) -> float | None:
    """Return the finite number in a text; `None` for other texts."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


_BEGINS_LIST = lazy_pattern(
    r"\s*(?:\[\s*(?:['\"\[{(]|(?:array|list|tuple|np\.\w+)\(|[A-Z]\w*\()"
    r"|(?:array|deque|tuple|frozenset)\(|c\(\s*['\"]"
    r"|\(\s*(?:['\"]|(?:array|np\.\w+)\().*\)$|\{\s*(?:['\"]|np\.\w+\().*\}$"
    r"|\[(?:None|null|[Nn]a[Nn]|<NA>|[\s,])*\]\s*$|(?:set|tuple|list)?\(\s*\)$|<\w*Array>\n\[)",
    re.DOTALL,
)
"""How lists begin as JSON, Python, numpy, pandas or R write them, which texts rarely do."""


def list_in_cell(key: str, text: str, *, are_texts: bool = False) -> Any:
    """Return the list in a cell, as JSON, Python or numpy write it, or the text of the cell.

    Args:
        key: The column, for errors.
        text: The cell.
        are_texts: Whether the items are texts: then numbers keep their spelling, and missing items
            are left out.

    Raises:
        FieldError: The cell looks like a list but cannot be read as one.
    """
    stripped = text.strip()
    if stripped[:1] == "<" and "Array>\n[" in stripped[:40]:
        # <ArrowStringArray>\n['a', 'b']\nLength: 2, dtype: str, as pandas prints unique()
        stripped = stripped.partition(">\n")[2].rpartition("\nLength: ")[0]
    begins_list = bool(_BEGINS_LIST.match(stripped))
    # "[1] says so [2]" is a text
    is_bracketed = stripped[:1] == "[" and stripped.find("]") == len(stripped) - 1
    if not (begins_list or is_bracketed):
        return text
    number = str if are_texts else _numeral
    try:
        # NaN and Infinity are null
        value = json.loads(
            stripped, parse_int=number, parse_float=number, parse_constant=lambda _: None
        )
    except (ValueError, RecursionError):
        try:
            value = parse_literal(stripped, number)
        except LiteralError as error:
            raise FieldError(
                key,
                f"looks like a list and cannot be read as one ({error}): {short_repr(stripped)};"
                ' write lists as JSON, such as ["a", "b"], and a text in brackets as ["[a]"]',
            ) from None
    if not isinstance(value, list):
        return text
    if not are_texts:
        return value
    items = [item for item in value if item is not None]
    if wrong := [item for item in items if not isinstance(item, str)]:
        raise FieldError(key, f"should be a list of texts, but contains {short_repr(wrong[0])}")
    return items


def texts_in(key: str, text: str, output: Any, *, is_cell: bool) -> Any:
    """Return the texts of a list that a cell or another text holds, or the text.

    Outside of cells, a text that cannot be read is returned unchanged, and so is the reference of
    an output that is a list itself.
    """
    if not is_cell and not _BEGINS_LIST.match(text):
        return text
    try:
        items = list_in_cell(key, text, are_texts=True)
    except FieldError:
        if is_cell:
            raise
        return text
    is_one = _is_list(output) and isinstance(items, list) and not all(map(_is_list, items))
    return text if is_one else items


def _is_list(value: Any) -> bool:
    return isinstance(value, str) and isinstance(list_or_text(value), list)


def _messages_in_cell(text: str) -> Any:
    """Return the messages of a list in a cell, or its text."""
    listed = list_or_text(text) if text.lstrip()[:2] == "[{" else text
    return listed if looks_like_messages(listed) else text


def _passages_in_cell(key: str, text: str) -> Any:
    value = list_in_cell(key, text)
    if not isinstance(value, list) or any(isinstance(item, Mapping | list) for item in value):
        return value
    return list_in_cell(key, text, are_texts=True)


def _numeral(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def objects_in_cell(text: str) -> Any:
    """Return the object or the list in a cell, or its text."""
    if not text.lstrip().startswith("{"):
        return list_or_text(text)
    try:
        return _object_in_cell(text)
    except LiteralError:
        return text


def _object_in_cell(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return parse_literal(text.strip(), _numeral)


def list_or_text(text: str) -> Any:
    """Return the list in a text, as JSON or Python writes it, or else the text."""
    try:
        return list_in_cell("", text)
    except FieldError:
        return text


def json_cell(key: Any, value: Any) -> Any:
    """Return a value from memory as a JSON value; `None` for NaN."""
    if type(value) is float and value != value:
        return None
    try:
        return to_json_value(value, top=True)
    except ValueError as error:
        # without a column, which `meta` could not keep either
        raise FieldError(None, f"field {str(key)!r}: {error}") from None
