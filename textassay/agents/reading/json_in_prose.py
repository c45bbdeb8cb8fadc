"""JSON in answers: the schema of an object, and finding values within prose.

Knows JSON and where it begins, but not ratings, lists or plans. Only values that can contain names
are searched for: objects, and arrays of objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple

from textassay.lazy import lazy_pattern
from textassay.runtime.base import Json

_MAX_STARTS = 64
"""Brackets at which reading is tried, which bounds the time of hostile text; with 16 and 256 the
same ratings of 5,400 answers are read."""
_MAX_DIGITS = 300
"""Digits of a whole number that are read: a float has up to 309, and Python refuses to convert more
than 4,300."""
_DEEPEST = 50
"""Values in each other; deeper ones would exhaust the stack of the functions that walk through
them."""

_OPENING = lazy_pattern(r"[\[{]")
# `{"`, `[{`, `{}`: what begins like JSON, in contrast to `[1]`, `{x}`, `[see above]`
_BEGINS_LIKE_JSON = lazy_pattern(r"\{\s*[\"}]|\[\s*[\[{\"]")


class JsonObject(dict[str, Any]):
    """A JSON object that remembers keys which occur more than once with different values."""

    contradicted: Mapping[str, Any] = MappingProxyType({})
    """An earlier, different value by such a key; the object itself has the last one."""


class FoundJson(NamedTuple):
    """One JSON value of an answer."""

    value: Any
    """Objects as `JsonObject`, arrays as lists; NaN and infinities as `None`."""
    start: int
    """Where it begins in the answer, in characters."""
    end: int


def find_json(text: str, *, lenient: bool = False) -> Iterator[FoundJson]:
    """Yield the objects and arrays of an answer in order. Never raises; linear in the text.

    Text that begins like JSON and cannot be read ends the search, because its inner objects, read
    alone, would lose the name above them.

    Args:
        text: The answer.
        lenient: Whether an object is also read with other quotation marks or none, comments,
            doubled braces, missing or trailing commas, or without its end, up to a whole value.

    Example:
        >>> [found.value for found in find_json('Here: {"score": 4}. Bye [1].')]
        [{'score': 4}, [1]]
    """
    at = 0
    for _ in range(_MAX_STARTS):
        opening = _OPENING.search(text, at)
        if opening is None:
            return
        start = opening.start()
        found = _read_strictly(text, start)
        if found is None and lenient and text[start] == "{":
            found = _read_leniently(text, start)
        if found is not None:
            at = found.end
            yield found
        elif _BEGINS_LIKE_JSON.match(text, start):
            return  # cut off or damaged: reading goes no further
        else:
            at = start + 1


def _read_strictly(text: str, start: int) -> FoundJson | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    brackets = re.findall(r"[\[{}\]]", text[start:end])
    depth = max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets))
    return FoundJson(value, start, end) if depth <= _DEEPEST else None


_TOKEN = lazy_pattern(
    # comments, remarks in brackets, and a comma with nothing behind it, are read like spaces
    r"(?P<space>(?:\s|//[^\n]*|/[* ][^/\n]*[* ]/|\([^()\"\d\n]*\)|\.{3}"
    r"|,(?=(?:\s|//[^\n]*|\.{3})*[}\]]))+)"
    # quotation marks in a text end it only before a sign: "It is "good""; without one, the line
    # above another field ends it
    r"|(?P<double>\"(?:(?!\n\s{0,40}\"[\w ]{1,60}\"\s?:)[^\"\\]|\\.|\"(?!\s*[,}\]:]))*"
    r"(?:\"|(?=\n\s{0,40}\"[\w ]{1,60}\"\s?:)))"
    r"|(?P<single>'(?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*')"
    r"|(?P<python>(?:True|False|None)\b)"
    r"|[{\[}\],:]|-?\d+(?:\.\d+)?(?=\s*[,}\](/\"]|\s*\n|\Z)(?!\s*/\s?\d)|(?:true|false|null)\b"
    # names and texts without quotation marks
    r"|(?P<bare>[^\W\d]\w*(?=\s*:)|(?<=[:\s])[^\s\"'{}\[\],:][^\"'{}\[\],:\n]{0,60}(?=[,}\n]))"
)
_STRICT: dict[str | None, Callable[[str], str]] = {
    "double": lambda text: '"' + re.sub(r'(?<!\\)"', r"\"", text[1:].removesuffix('"')) + '"',
    "single": lambda text: json.dumps(text[1:-1].replace("\\'", "'")),
    "python": {"True": "true", "False": "false", "None": "null"}.__getitem__,
    "bare": json.dumps,
}
_CLOSING = {"{": "}", "[": "]"}
# a text or a number that nothing ends
_CUT_OFF = lazy_pattern(r"\s*(?:[\"'][^\"]*|-?[\d.]*|\w*)\Z")


def _read_leniently(text: str, start: int) -> FoundJson | None:
    """Return the object that begins here, read from strict JSON that is made of its tokens."""
    pieces, opened, comma, at = list[str](), 0, 0, start
    while token := _TOKEN.match(text, at):
        # {{"score": 4}}, as in a template
        at = token.end() + text.startswith("{{", token.start())
        if token.lastgroup == "space":
            continue
        piece = _STRICT.get(token.lastgroup, str)(token[0])
        if pieces and pieces[-1] not in "{[,:" and piece not in "}],:":
            pieces.append(",")
        if piece == ",":
            comma = len(pieces)
        pieces.append(piece)
        opened += (piece in _CLOSING) - (piece in _CLOSING.values())
        if not opened:
            end = at + (text.startswith("{{", start) and text.startswith("}", at))
            return _decode(pieces, start, end)
    if not _CUT_OFF.match(text, at):
        return None
    whole = _decode(pieces, start, len(text))
    return whole or (_decode(pieces[:comma], start, len(text)) if comma else None)


def _decode(pieces: list[str], start: int, end: int) -> FoundJson | None:
    """Return the object that tokens make, with brackets that are open at its end closed."""
    closing = list[str]()
    for piece in pieces:
        if piece in _CLOSING:
            closing.append(_CLOSING[piece])
        elif closing and piece == closing[-1]:
            closing.pop()
    found = _read_strictly("".join([*pieces, *reversed(closing)]), 0)
    return found._replace(start=start, end=end) if found else None


def object_schema(**fields: Json) -> Json:
    """Return the schema of an object with exactly these fields, in this order."""
    return {
        "type": "object",
        "properties": fields,
        "required": [*fields],
        "additionalProperties": False,
    }


def normalize_key(name: object) -> str:
    """Return a key as keys are compared: `Final Score` and `final-score` are `final_score`."""
    return re.sub(r"[\s-]+", "_", str(name).strip().lower())


def object_of(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Return the object of pairs of a key and a value."""
    parsed = JsonObject(pairs)
    if len(parsed) < len(pairs):
        # Python's parser keeps the last of equal keys in silence; a judge that says both says
        # neither.
        parsed.contradicted = {key: value for key, value in pairs if value != parsed[key]}
    return parsed


def _integer(digits: str) -> float:
    # float() of a long integer is off every scale; int() refuses more than 4,300 digits
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits[:_MAX_DIGITS])


_DECODER = json.JSONDecoder(
    object_pairs_hook=object_of, parse_int=_integer, parse_constant=lambda _: None, strict=False
)
