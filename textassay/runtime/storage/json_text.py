"""JSON as bytes, without loss: by orjson, or the standard library for values orjson refuses.

Models do now and then send half of a surrogate pair, which is legal in JSON's escapes and in
Python's strings but not in UTF-8. Such texts are written escaped in ASCII, so that they come back
as they were.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson


def encode(
    value: Any,
    *,
    sort_keys: bool = False,
    indent: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> bytes:
    """Return `value` as JSON, on one line unless it is to be indented.

    Args:
        value: Dicts with string keys, lists, tuples, strings, finite numbers, booleans and `None`.
        sort_keys: Whether equal dicts give equal bytes whatever the order of their keys.
        indent: Whether it is for people.
        default: Gives what is written in place of a value of any other type, or raises `TypeError`.

    Raises:
        TypeError: Something in `value` is not JSON, such as NaN, or it is nested very deeply.
    """
    try:
        return orjson.dumps(
            value, default, sort_keys * orjson.OPT_SORT_KEYS | indent * orjson.OPT_INDENT_2
        )
    except orjson.JSONEncodeError as error:
        if "recursion" in str(error).lower():  # deeper than every reader can go
            raise TypeError("nested too deeply to be written as JSON") from None
        layout: dict[str, Any] = {"indent": 2} if indent else {"separators": (",", ":")}
    try:
        text = json.dumps(value, default=default, sort_keys=sort_keys, allow_nan=False, **layout)
    except (ValueError, RecursionError) as error:  # NaN, or an object inside itself
        raise TypeError(str(error)) from None
    return text.encode("ascii")


def decode(text: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
