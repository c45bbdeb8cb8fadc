"""Reads the rating out of an answer that holds JSON with a rating field.

Such a field decides: null, "N/A", a list or an object in it is no rating, and no number beside it
becomes one. Fields that contradict each other, or a label further down, give none either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from textassay.agents.reading.asides import own_words
from textassay.agents.reading.json_in_prose import FoundJson, JsonObject, find_json, normalized_key
from textassay.agents.reading.letters import stated_letters
from textassay.agents.reading.other_numbers import NumberMatch, blank_distractors
from textassay.agents.reading.wording import (
    DECLINED,
    Contradiction,
    Form,
    Statement,
    agreed,
    first_rating,
    labeled_rating,
)
from textassay.lazy import lazy_pattern

SCORE_KEYS = ("score", "rating", "value")
"""Keys under which an object about one aspect holds its rating."""
NAME_KEYS = ("aspect", "name", "criterion", "metric")
"""Keys under which an object says which aspect it is about."""
# The surest first: if there is a final score, a plain one was provisional.
_KEY_RANKS = (
    ("final_score", "final_rating"),
    ("score", "rating"),
    ("overall_score", "overall_rating"),
    ("value",),
    ("grade",),
    ("answer",),
)
_MAX_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Unusable:
    """A rating field that holds no rating."""

    message: str
    """What it holds, for people."""
    declined: bool = False
    """Whether it says that the judge declines."""


def json_rating(
    text: str, scale: tuple[float, float], form: Form, aspect: str | None
) -> Statement | Unusable:
    """Return what the rating fields of an answer say; `None` if it has no JSON with such a field.

    Args:
        text: What the judge said.
        scale: Lowest and highest rating that was asked for.
        form: How the rating was asked for.
        aspect: Name of the judged aspect; a field of that name counts before `score` and the like.
    """
    own = normalized_key(aspect or "")
    outcomes: list[NumberMatch | Contradiction | Unusable] = []
    end = 0
    for part in find_json(text):
        fields = list(_fields(part, own, text, scale, form))
        if fields and not _is_quoted(text, part):
            outcomes += fields
            end = part.end
    if not outcomes:
        return None
    # The last word decides, and here it is that there is no rating.
    if isinstance(outcomes[-1], Unusable):
        return outcomes[-1]
    if contradiction := next((one for one in outcomes if isinstance(one, Contradiction)), None):
        return contradiction
    below = None
    if form != "letters":
        below = labeled_rating(own_words(blank_distractors(text[end:], scale)), aspect)
    if isinstance(below, Contradiction):
        return below
    ratings = [one for one in outcomes if isinstance(one, tuple)]
    statement = agreed([*ratings, below] if below else ratings)
    return ratings[-1] if isinstance(statement, tuple) else statement


def _is_quoted(text: str, part: FoundJson) -> bool:
    """Return whether the JSON is quoted within a longer answer: `'{"rating": 5}'`."""
    before, after = text[: part.start].rstrip(" \t"), text[part.end :].lstrip(" \t")
    # A quotation of the text under evaluation, unless the marks stand around the whole answer.
    around = before[-1:] in {"'", '"'} and after[:1] == before[-1:]
    return around and bool(before[:-1].strip() or after[1:].strip())


def _fields(
    part: FoundJson, own: str, text: str, scale: tuple[float, float], form: Form
) -> Iterator[NumberMatch | Contradiction | Unusable]:
    """Yield what each rating field of one JSON value says, those of the highest rank only."""
    held = _about(part.value, own)
    if not isinstance(held, JsonObject):
        return
    by_key: dict[str, str] = {}
    for key in held:
        by_key.setdefault(normalized_key(key), key)
    ranks = ((own, f"{own}_score", f"{own}_rating"), *_KEY_RANKS) if own else _KEY_RANKS
    for rank in ranks:
        keys = [by_key[key] for key in rank if key in by_key]
        for key in keys:
            yield _field(held, key, part, text, scale, form, nested=rank[0] == own)
        if keys:
            return


def _about(value: Any, own: str) -> Any:
    """Return the object that holds the rating.

    Within `{"result": {...}}`, or the list's one about the aspect.
    """
    if isinstance(value, list):
        objects = [item for item in value if isinstance(item, JsonObject)]
        named = [item for item in objects if own and own in map(normalized_key, _names(item))]
        if len(objects) == len(value) and len(value) == 1:
            return objects[0]
        return named[0] if len(named) == 1 else None
    if isinstance(value, JsonObject) and len(value) == 1:
        key, inner = next(iter(value.items()))
        known = {own, f"{own}_score", f"{own}_rating", *(k for rank in _KEY_RANKS for k in rank)}
        # {"result": {"score": 4}} and {"evaluations": [...]}, but not {"coherence": {"score": 4}}
        if isinstance(inner, JsonObject | list) and normalized_key(key) not in known:
            return _about(inner, own)
    return value


def _names(item: JsonObject) -> list[Any]:
    return [value for key, value in item.items() if normalized_key(key) in NAME_KEYS]


def _field(
    held: JsonObject,
    key: str,
    part: FoundJson,
    text: str,
    scale: tuple[float, float],
    form: Form,
    *,
    nested: bool,
) -> NumberMatch | Contradiction | Unusable:
    value = held[key]
    if key in held.contradicted:
        return Contradiction(f"the answer contains the field {key!r} twice, with different values")
    path = [key]
    if nested and isinstance(value, JsonObject):  # {"coherence": {"score": 4, "reason": "..."}}
        inner = next((name for name in value if normalized_key(name) in SCORE_KEYS), None)
        if inner is not None:
            path.append(inner)
            if inner in value.contradicted:
                return Contradiction(f"the answer rates {key!r} twice, with different ratings")
            value = value[inner]
    start, end = _place(text, path, part)
    if isinstance(value, str):
        return _text_field(value, key, start, text, scale, form) or _unusable(key, value)
    # `true` is a number to Python, and no rating.
    if isinstance(value, bool) or not isinstance(value, int | float) or form == "letters":
        return _unusable(key, value)
    return (float(value) if math.isfinite(value) else None), (start, end)


def _text_field(
    value: str, key: str, start: int, text: str, scale: tuple[float, float], form: Form
) -> NumberMatch | Contradiction | None:
    """Read a field such as `"4"`, `"4 out of 5"` or `"C"`."""
    if form == "letters":
        points = [
            (scale[0] + ord(m["letter"].upper()) - ord("A"), m.span("letter"))
            for m in stated_letters(value)
        ]
        read = agreed(points)
    else:
        read = first_rating(blank_distractors(value, scale), scale, form, None)
    if not isinstance(read, tuple):
        return read
    at = start + 1 if text.startswith(f'"{value}"', start) else None
    number, (first, last) = read
    # a string with escapes has other places than the text; then the whole of it is the place
    return number, (first + at, last + at) if at is not None else (start, start + 1)


def _unusable(key: str, value: Any) -> Unusable:
    shown = "null" if value is None else repr(value)
    shown = shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "..."
    declined = isinstance(value, str) and DECLINED.search(value) is not None
    return Unusable(f"the field {key!r} of the answer is {shown}, which is not a rating", declined)


# the digits of `4.5`, the quotation mark of `"4"`
_VALUE = lazy_pattern(r'"|[^\s",}\]]{1,400}')


def _place(text: str, path: list[str], part: FoundJson) -> tuple[int, int]:
    at = part.start
    for key in path:
        named = re.compile(rf'"{re.escape(key)}"\s{{0,20}}:\s{{0,20}}').search(text, at, part.end)
        if named is None:  # a key with escapes
            return part.start, part.end
        at = named.end()
    value = _VALUE.match(text, at, part.end)
    return value.span() if value else (part.start, part.end)
