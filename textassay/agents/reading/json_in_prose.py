"""JSON in answers: the schema of an object, and the values in whatever prose stands around them.

Knows JSON and where it begins, nothing of ratings, lists or plans. Only what can hold names is
looked for: objects, and arrays of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from textassay.lazy import lazy_pattern
from textassay.runtime.model import Json

MAX_STARTS = 64
"""Brackets at which reading is tried; prose with more of them holds no JSON for us."""
_MAX_DIGITS = 300

# `{"`, `[{`, `{}`: what begins like JSON, in contrast to `[1]`, `{x}`, `[see above]`
_OPENING = lazy_pattern(r"[\[{]")
_BEGINS_LIKE_JSON = lazy_pattern(r"\{\s*[\"}]|\[\s*[\[{\"]")


class JsonObject(dict[str, Any]):
    """A JSON object that remembers keys which occur more than once with different values.

    Attributes:
        contradicted: An earlier, different value by such a key; the object itself holds the last.
    """

    contradicted: Mapping[str, Any] = MappingProxyType({})


class FoundJson(NamedTuple):
    """One JSON value of an answer."""

    value: Any
    """Objects as `JsonObject`, arrays as lists; NaN and infinities as `None`."""
    start: int
    """Where it begins in the answer, in characters."""
    end: int


def find_json(text: str, *, lenient: bool = False) -> Iterator[FoundJson]:
    """Yield the objects and arrays of an answer in order. Never raises; linear in the text.

    What begins like JSON and cannot be read ends the search: its inner objects, read by themselves,
    would lose the name that they stand under.

    Args:
        text: The answer.
        lenient: Whether an object is also read with single quotes, bare names, doubled braces,
            trailing commas, or cut off behind a whole field.

    Example:
        >>> [found.value for found in find_json('Here: {"score": 4}. Bye [1].')]
        [{'score': 4}, [1]]
    """
    at, tried = 0, 0
    while tried < MAX_STARTS and (opening := _OPENING.search(text, at)):
        tried += 1
        start = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            # JSON that was cut off or is damaged: reading goes no further than this.
            repaired = _read_leniently(text, start) if lenient and text[start] == "{" else None
            if repaired is None:
                if _BEGINS_LIKE_JSON.match(text, start):
                    return
                at = start + 1
                continue
            value, end = repaired
        yield FoundJson(value, start, end)
        at = end


_TOKEN = lazy_pattern(
    r"(?P<space>\s+|//[^\n]*)|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<colon>:)"
    r"|(?P<double>\"(?:[^\"\\]|\\.|\"(?!\s*[,}\]:]))*\")|(?P<single>'(?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*')"
    r"|(?P<share>\d+(?:\.\d+)?\s?/\s?\d+)(?=[\s,}\]])|(?P<number>-?\d+(?:\.\d+)?(?=[\s,}\]])|(?:true|false|null)\b)|(?P<python>(?:True|False|None)\b)"
    r"|(?P<bare>[^\W\d]\w*(?=\s*:))"
)


def _read_leniently(text: str, start: int) -> tuple[Any, int] | None:
    """Return the object that begins here and where it ends; `None` if it is no object."""
    pieces, closing = list[str](), list[str]()
    whole: tuple[int, list[str]] = (0, [])
    at = start
    while token := _TOKEN.match(text, at):
        kind, written = token.lastgroup, token[0]
        at = token.end()
        if kind == "open":
            # {{"score": 4}}, as in a template
            if text[token.start() : at + 1] == "{{":
                at += 1
            closing.append("}" if written == "{" else "]")
        elif kind in ("comma", "close"):
            if pieces and pieces[-1] in (",", ":"):
                return None
            if kind == "comma":
                whole = len(pieces), closing.copy()
                ahead = _TRAILING.match(text, at)
                if ahead is not None:
                    continue
            elif not closing or closing.pop() != written:
                return None
        elif kind == "single":
            written = json.dumps(written[1:-1].replace("\\'", "'"))
        elif kind == "python":
            written = {"True": "true", "False": "false", "None": "null"}[written]
        elif kind in ("bare", "share"):
            written = json.dumps(written)
        elif kind == "double":
            # quotation marks within: "It is "good""
            written = '"' + re.sub(r"(?<!\\)\"", r'\\"', written[1:-1]) + '"'
        if kind != "space":
            pieces.append(written)
        if kind == "close" and not closing:
            end = at + (text[at : at + 1] == "}" and text.startswith("{{", start))
            return _decoded(pieces, end)
    if token is None and at < len(text) and not _CUT_OFF.match(text, at):
        return None
    kept, opened = whole
    return _decoded([*pieces[:kept], *reversed(opened)], len(text)) if kept else None


_TRAILING = lazy_pattern(r"\s*[}\]]")
# a text or a number that nothing ends
_CUT_OFF = lazy_pattern(r"[\"'][^\"]*\Z|-?[\d.]*\Z|\w*\Z")


def _decoded(pieces: list[str], end: int) -> tuple[Any, int] | None:
    try:
        return _DECODER.decode("".join(pieces)), end
    except (ValueError, RecursionError):
        return None


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


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
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
    object_pairs_hook=_object, parse_int=_integer, parse_constant=lambda _: None, strict=False
)
