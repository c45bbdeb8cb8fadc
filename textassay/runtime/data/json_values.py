"""Values from memory as what JSON can hold.

Numpy and pandas types become Python's, dates become text.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Mapping
from typing import Any


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
