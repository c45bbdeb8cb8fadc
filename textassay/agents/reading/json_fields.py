"""Reads ratings out of the JSON objects of an answer.

A field counts if its name says that it is a rating, `score` or the aspect's name for example, in
the object about the asked aspect. A field beside it that names another scale belongs to the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from textassay.agents.reading.grammar import readings_of
from textassay.agents.reading.json_in_prose import JsonObject, find_json, normalize_key
from textassay.agents.reading.outcomes import DECLINED, NoRating, declines
from textassay.agents.reading.scales import HAS_NUMBER, is_scale, numbers_of
from textassay.agents.reading.sentences import REPORTS_BELOW
from textassay.agents.reading.values import (
    WINDOW,
    RatingForm,
    Statement,
    statement_of,
    value_pattern,
)
from textassay.agents.reading.words import NOUN
from textassay.lazy import lazy_pattern


@lru_cache(maxsize=8)
def _whole_value(form: RatingForm) -> re.Pattern[str]:
    """Return the pattern of a JSON field's text: the value, and words about it without a number."""
    return re.compile(
        rf"(?i)[\s(\[\"*]{{0,4}}{value_pattern(form).pattern[4:]}[)\]\"]{{0,2}}\.?"
        r"(?:\s?[(:–—-]\s?[^\W\d]\D{0,200}|\.\s\D{0,200})?"
        if form != "stars"
        else rf"(?i)[\s(\[\"*]{{0,4}}(?:{value_pattern(form).pattern[4:]})\.?"
    )


def rating_of_field(
    value: object, scale: tuple[float, float], form: RatingForm, labels: Sequence[str] = ()
) -> float | None:
    """Return the number in a JSON field, on the scale or not: `4`, `"4/5"`, `"C"`; else `None`."""
    if isinstance(value, str):
        written = value.strip()
        for index, label in enumerate(labels):
            letter = chr(ord("A") + index)
            if re.fullmatch(
                rf"(?i)(?:{letter}\s?[:.)(–-]{{1,2}}\s?)?{re.escape(label)}[).]?", written
            ):
                return scale[0] + index
        match = _whole_value(form).fullmatch(written)
        if match is None or (labels and len(written) > match.end("value") + 1):
            return None
        held = statement_of(match, scale[0])
        return None if held.top not in (None, scale[1]) else held.value
    # `true` is a number to Python, and no rating.
    if isinstance(value, bool) or not isinstance(value, int | float) or form == "letters":
        return None
    return float(value)


class RatingField(NamedTuple):
    """A JSON value of an answer, and the rating in it."""

    start: int
    end: int
    statement: Statement | None = None
    counts: bool = False
    """Whether it begins a line, as an answer's own object does."""
    other: str = ""
    """Another scale that the object names; empty for none."""


def read_json_fields(
    plain: str, scale: tuple[float, float], form: RatingForm, own: str, labels: Sequence[str]
) -> list[RatingField] | NoRating:
    """Return what JSON says; `NoRating` for a field of a rating that holds none."""
    fields = list[RatingField]()
    for part in find_json(plain, lenient=True) if "{" in plain else ():
        line = plain.rfind("\n", 0, part.start) + 1
        before = plain[line : part.start].strip()
        above = plain[max(0, line - WINDOW) : line]
        is_shown = _EXAMPLE_BELOW.search(above) or REPORTS_BELOW.search(above)
        held = part.value if isinstance(part.value, list) else [part.value]
        objects = [one for one in held if isinstance(one, JsonObject)]
        if not objects:
            continue  # [[4]] is a mark of the rating
        fields.append(RatingField(part.start, part.end))
        # {"criteria": [{"name": ..., "score": ...}, ...]}
        listed = [
            each
            for one in objects
            for value in one.values()
            if isinstance(value, list)
            for each in value
            if isinstance(each, JsonObject) and subject_of(each) is not None
        ]
        objects += listed
        about = [one for one in objects if subject_of(one) is not None]
        named = re.compile(own or "(?!)")
        # {"safety": 1, "category": "S9"}
        if about and not any(named.fullmatch(_words_of(key)) for one in objects for key in one):
            objects = [one for one in about if re.fullmatch(own, subject_of(one) or "")]
        elif len(objects) > 1:
            objects = []
        for one in objects:
            for key, value, holder in _without_totals(one, own):
                number = rating_of_field(value, scale, form, labels)
                if number is None and _is_remark(key, value, one, scale, own, form, labels):
                    continue
                if number is None:
                    return _no_rating_in(key, value)
                span = _place(plain, key, part.start, part.end)
                fields.append(
                    RatingField(
                        part.start,
                        part.end,
                        Statement(number, None, span, part.end),
                        not is_shown
                        and (
                            before.lower() in ("", "json")
                            or re.fullmatch(r"[\w. ]{2,60}\(", before) is not None
                            or _leads_up(before, own)
                        ),
                        other_scale_in(holder, scale, own) or other_scale_in(one, scale, own),
                    )
                )
    return fields


def _is_remark(
    key: str,
    value: object,
    held: JsonObject,
    scale: tuple[float, float],
    own: str,
    form: RatingForm,
    labels: Sequence[str],
) -> bool:
    """Return whether a field such as `verdict` adds to a `score` beside it.

    It says the same in words, or holds the verdicts on parts of it.
    """
    is_words = (
        isinstance(value, str)
        and not HAS_NUMBER.search(value)
        and _IN_WORDS.fullmatch(normalize_key(key))
    )
    beside = [
        name
        for name, other, _ in _rating_fields(held, own)
        if name != key and rating_of_field(other, scale, form, labels) is not None
    ]
    if isinstance(value, dict | list) and numbers_of(value):
        return bool(own) and any(re.fullmatch(own, _words_of(name)) for name in beside)
    return bool(beside) and bool(is_words or isinstance(value, dict | list))


_OF_ALL = lazy_pattern(r"(?:overall|total|average|mean)(?: .*)?")


def _without_totals(held: JsonObject, own: str) -> list[tuple[str, Any, JsonObject]]:
    """Return the fields of ratings without the overall score beside those of single aspects.

    Beside several scores of other names the overall one rates no single aspect, either.
    """
    fields = _rating_fields(held, own)
    names = [_words_of(key) for key, *_ in fields]
    of_others = [key for key in held if _OF_ONE.fullmatch(_words_of(key))]
    is_named = bool(own) and any(re.fullmatch(own, name) for name in names)
    is_of_all = not own or re.search(r"quality|overall|total|impression|summary", own)
    if not is_named and (is_of_all or len(of_others) < (1 if own.endswith("score") else 2)):
        return fields
    return [
        field
        for field, name in zip(fields, names, strict=True)
        if re.fullmatch(own, name) or not _OF_ALL.fullmatch(name)
    ]


_OF_ONE = lazy_pattern(
    r"(?!overall|total|final|judge|max|min|average|mean|confidence|revised|my\b).* (?:score|rating)"
)


def _leads_up(before: str, own: str) -> bool:
    """Return whether words before an object say that it is the rating: `My verdict is {...}`."""
    if _ANNOUNCED.search(before[-WINDOW:]) and not _SHOWN.search(before):
        return True
    readings = readings_of(f"{before[-WINDOW:]} 1", "number", own, 1.0)
    return any(reading.rank == "stated" for reading in readings)


# Here is the JSON:
_ANNOUNCED = lazy_pattern(
    rf"(?i)\b(?:here(?:['’]s|\sis)|json|{NOUN})\b[^.\"“]{{0,60}}:\s*\Z|\Aoutput:\s*\Z"
)
# Example:
_EXAMPLE_BELOW = lazy_pattern(
    r"(?i)\b(?:example|sample|schema|template)\b[^.!?:\n]{0,60}:\s{0,20}(?:json\s{0,20})?\Z"
)
# record_evaluation({...})
_SHOWN = lazy_pattern(r"(?i)\b(?:example|schema|format|template|form|text|summary)\b")
_SUBJECT = frozenset({"aspect", "criterion", "dimension", "metric", "category", "name"})


def subject_of(held: JsonObject) -> str | None:
    """Return the name of the aspect that an object says it is about; `None` if it does not say."""
    if any(normalize_key(key) in ("arguments", "parameters") for key in held):
        return None  # the name is a tool's
    for key, value in held.items():
        if normalize_key(key) in _SUBJECT and isinstance(value, str):
            return re.sub(r"[\s_*`-]+", " ", value).strip().lower()
    return None


def _rating_fields(held: JsonObject, own: str) -> list[tuple[str, Any, JsonObject]]:
    """Return key, value and object of each field that is named like a rating.

    Final or revised ones take the place of the others.
    """
    fields = list(_named_fields(held, own))
    final = [field for is_final, *field in fields if is_final]
    return [(key, value, holder) for key, value, holder in final or [f for _, *f in fields]]


def _named_fields(held: JsonObject, own: str) -> Iterator[tuple[bool, str, Any, JsonObject]]:
    """Yield whether a field is final, its key, value and object, for each named like a rating."""
    named = re.compile(
        r"(?P<final>(?:(?:final|revised)(?: |\Z))*)"
        r"(?:(?:overall|my|the|total|corrected|updated|adjusted|judge|gpt|llm) )*"
        rf"(?P<noun>{NOUN}|points|label|{own or NOUN}(?: {NOUN})?)?"
    )
    for key, value in [*held.items(), *held.contradicted.items()]:
        name = _words_of(key)
        match = named.fullmatch(name)
        wraps = name in (
            *("response", "output", "data", "json", "arguments", "parameters"),
            *("criteria", "scores", "ratings", "evaluation", "aspects", "metrics"),
        )
        if match is None and not wraps:
            continue
        is_final = bool(match and match["final"])
        inside = _fields_inside(value, own)
        if inside:
            yield from ((is_final, *field) for field in inside)
        elif (
            match
            and match["noun"]
            and (not isinstance(value, str) or not _IN_WORDS.fullmatch(name) or _is_short(value))
        ):
            yield is_final, key, value, held


def _fields_inside(value: object, own: str) -> list[tuple[str, Any, JsonObject]]:
    """Return the scores, ratings and fields of the aspect's name inside a field of such a name."""
    if isinstance(value, list):
        # [{"fluency": 4}, {"style": 2}]
        objects = [one for one in value if isinstance(one, JsonObject)] if own else []
        fields = [field for one in objects for field in _rating_fields(one, own)]
        return [field for field in fields if re.fullmatch(own, _words_of(field[0]))]
    if not isinstance(value, JsonObject):
        return []
    subject = subject_of(value)
    if subject is not None and not re.fullmatch(own, subject):
        return []
    named = re.compile(rf"(?i)(?:\w+ )?(?:score|rating)|value|points|grade|level|{own or '(?!)'}")
    fields = _rating_fields(value, own)
    return [
        field for field in fields if field[2] is not value or named.fullmatch(_words_of(field[0]))
    ]


# an assessment or an evaluation is as often a text as a number
_IN_WORDS = lazy_pattern(
    r"(?:.* )?(?:answer|verdict|result|value|judge?ment|assessment|evaluation|decision|conclusion"
    r"|choice|level|label)s?"
)


def _is_short(text: str) -> bool:
    """Return whether a text in a field is a rating in words, and not an explanation."""
    return len(text) <= 40


_SCALE_WORDS = {
    *("max", "maximum", "highest", "top", "best", "upper", "full", "out", "possible", "total"),
    *("min", "minimum", "lowest", "bound", "scale", "range", "denominator"),
}
_BESIDE_SCALE = {
    *("score", "rating", "value", "mark", "marks", "point", "points"),
    "of",
    "the",
    "grading",
}


# maxScore, finalRating


def _words_of(key: str) -> str:
    """Return the words of a key with spaces between them."""
    return normalize_key(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key)).replace("_", " ")


def other_scale_in(held: JsonObject, scale: tuple[float, float], own: str = "") -> str:
    """Return the field of an object that names another scale than the one asked; empty for none."""
    for key, value in held.items():
        words = set(_words_of(key).split())
        if own and re.fullmatch(own, _words_of(key)):
            continue
        if not words & _SCALE_WORDS or words - _SCALE_WORDS - _BESIDE_SCALE:
            continue
        numbers = numbers_of(value)
        is_low = words & {"min", "minimum", "lowest"}
        if "total" in words and numbers == [sum(numbers_of(list(held.values()))) - numbers[0]]:
            continue  # of the scores beside it
        if numbers and not is_scale(numbers, (scale[0], scale[0]) if is_low else scale):
            return f"{key}: {value}"
    return ""


def _no_rating_in(key: str, held: Any) -> NoRating:
    shown = "null" if held is None else repr(held)[:40]
    declined = isinstance(held, str) and declines(held)
    return NoRating(
        DECLINED if declined else "NoScoreFound",
        f"the field {key!r} of the answer is {shown}, which is not a rating",
    )


def _place(text: str, key: str, start: int, end: int) -> tuple[int, int]:
    """Return the place of the value of a JSON field, or of its object."""
    field = (
        rf'["\']?{re.escape(key)}["\']?\s{{0,20}}:\s{{0,20}}["\']?(?P<value>[^\s"\',}}]{{1,40}})'
    )
    found = list(re.compile(field).finditer(text, start, end))
    return found[-1].span("value") if found else (start, end)
