"""Reads ratings out of the JSON objects of an answer.

A value rates the name above it: `{"fluency": 4}`, `{"fluency": {"score": 4}}` and
`{"aspect": "fluency", "score": 4}` are equivalent, alone, in a list, or in a field that only wraps
them, such as `evaluation`. A value with only a rating's name, such as `score`, rates the asked
aspect. A field beside it that names another scale belongs to the result. The attributes of an XML
tag are the fields of an object, and the readable fields of a damaged object are read, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from textassay.agents.reading.json_in_prose import (
    FoundJson,
    JsonObject,
    find_json,
    normalize_key,
    object_of,
)
from textassay.agents.reading.outcomes import DECLINED, NoRating, RatingForm
from textassay.agents.reading.scales import SCALE_NAME, is_scale, numbers_of
from textassay.agents.reading.sentences import reports_below
from textassay.agents.reading.values import WINDOW, Statement, statement_of, value_pattern
from textassay.agents.reading.words import CJK, FOREIGN, NOUN
from textassay.lazy import lazy_pattern
from textassay.runtime.declining import declines


class JsonField(NamedTuple):
    """A field of an object, with its subject according to the names around it."""

    key: str
    value: Any
    kind: Literal["plain", "own", "other"] = "plain"
    """`plain` with only a rating's name, `own` under an asked name, `other` under another name."""
    about: str = ""
    """The asked or the other name."""
    stage: str = ""
    """`final`, `revised`, `overall` or `total`, if a name says so."""
    is_rating: bool = False
    """Whether its key is, or ends in, the name of a rating."""
    objects: tuple[JsonObject, ...] = ()
    """Objects that it is in, its own first."""


_MAX_IN_WORDS = 40
"""Characters of an `assessment` in words; a longer one is an explanation."""
# final overall score   arguments   fluency rating   errors   rating (1-5)
_NAME = lazy_pattern(
    r"(?s)(?:(?P<stage>(?:final|revised)(?: |\Z)|(?:overall|total) )|(?:the|my|judge|gpt|llm"
    r"|corrected|updated|adjusted|selected|chosen|assigned|numeric(?:al)?|evaluation"
    r"|(?:score|rating)(?: of| for)?(?! \d)) )*"
    r"(?:(?:(?P<rated>(?!max|min|mean|average|confidence|previous|initial).+) )?"
    rf"(?:(?:(?:the)?score|rating|grade|mark|point)s?|(?P<words>{NOUN}|label|eval)"
    # puntuacion   评分   综合得分, but not: 流畅性评分
    rf"|(?:综合|最终|总体|整体|总|(?!note|(?-i:[{CJK}]){{3}}[^ー]{{0,3}}(?:分|评)))(?:{FOREIGN}))"
    r"|selected|chosen"
    r"|(?P<wrapper>response|output|data|json|arguments|args|parameters|function|tool calls"
    r"|action input|(?:step|part) ?\d+|criteria|aspects|metrics|dimensions|categories|breakdown"
    r"|details)"
    r"|(?P<other>.*?))"
    r"(?P<scale> ?(?:\(|out of |of )+\d+(?:\W+(?:to )?\d+)?\)?| \(?\d+\W+(?:to )?\d+\)?)?"
)


@lru_cache(maxsize=1024)
def _name_of(key: str) -> re.Match[str]:
    """Return the match of a key's words, with spaces between them: `max score` of `maxScore`."""
    words = normalize_key(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key)).replace("_", " ")
    name = _NAME.fullmatch(words)
    assert name is not None  # the pattern takes any name
    return name


def fields_of(above: JsonField, is_asked: Callable[[str], object]) -> Iterator[JsonField]:
    """Yield the fields in the objects of a field's value, at any depth, with their subjects.

    Args:
        above: The field that the value is in.
        is_asked: Whether a name, in lower case with spaces, names an asked aspect.
    """
    value = above.value
    if isinstance(value, str) and value.startswith("{"):  # the arguments of a call
        value = [part.value for part in find_json(value)]
    objects = [one for one in _items_of(value) if isinstance(one, JsonObject)]
    parts = [list(_fields_in(one, above, is_asked)) for one in objects]
    # items of a list that are all rated are several things, of which none is the asked one
    rated = sum(any(one.kind == above.kind for one in part) for part in parts)
    left_out = above.kind if rated > 1 and above.kind != "other" else ""
    yield from (field for field in chain(*parts) if field.kind != left_out)


def _items_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _fields_in(
    held: JsonObject, above: JsonField, is_asked: Callable[[str], object]
) -> Iterator[JsonField]:
    here, subject = (above.kind, above.about), subject_of(held)
    if subject is not None and (above.kind != "other" or isinstance(above.value, list)):
        here = ("own" if is_asked(subject) else "other"), subject
    for key, value in (*held.items(), *held.contradicted.items()):
        name = _name_of(key)
        kind, about = here
        named = name["rated"] or name["other"] or ""
        own_names = [one for one in (name.string, named) if one and is_asked(one)]
        if own_names and above.kind != "other":
            kind, about = "own", own_names[0]
        elif named and kind == "own":
            continue  # said of the aspect beside its rating
        elif named and kind == "plain" and not _is_table(value, is_asked):
            kind, about = "other", key
        stage = (name["stage"] or above.stage).strip()
        is_rating = not name["wrapper"] and name["other"] is None
        field = JsonField(key, value, kind, about, stage, is_rating, (held, *above.objects))
        inside = list(fields_of(field, is_asked))
        yield from inside
        is_text = name["words"] and isinstance(value, str) and len(value) > _MAX_IN_WORDS
        if all(one.kind == "other" for one in inside) and not name["wrapper"] and not is_text:
            yield field


def _is_table(value: object, is_asked: Callable[[str], object]) -> bool:
    """Return whether an object has several asked names, and so wraps them under any name."""
    names = value if isinstance(value, JsonObject) else ()
    return sum(bool(is_asked(_name_of(name).string)) for name in names) > 1


_SUBJECT = lazy_pattern(r"(?:aspect|criterion|dimension|metric)(?:_name)?|category|name")


def subject_of(held: JsonObject) -> str | None:
    """Return the name of the aspect that an object says it is about; `None` if it does not say."""
    if any(normalize_key(key) in ("arguments", "args", "parameters") for key in held):
        return None  # the name is a tool's
    for key, value in held.items():
        if isinstance(value, str) and _SUBJECT.fullmatch(normalize_key(key)):
            return re.sub(r"[\s_*`-]+", " ", value).strip().lower()
    return None


class RatingField(NamedTuple):
    """A JSON value of an answer, and the rating in it."""

    start: int
    end: int
    statement: Statement | None = None
    counts: bool = False
    """Whether it begins a line, as an answer's own object does."""
    other_scale: str = ""
    """Another scale that the object names; empty for none."""


def read_json_fields(
    plain: str, scale: tuple[float, float], form: RatingForm, own: str, labels: Sequence[str]
) -> list[RatingField] | NoRating:
    """Return the ratings in JSON; `NoRating` if a rating's field has another value."""
    fields = list[RatingField]()
    for value, start, end in _objects_in(plain):
        in_order = list(fields_of(JsonField("", value), re.compile(own or "(?!)").fullmatch))
        found = [
            (field, rating_of_field(field.value, scale, form, labels))
            for field in _ratings_among(in_order, own)
        ]
        kinds = {field.kind for field, number in found if number is not None}
        if plain[start] != "<" or kinds:
            fields.append(RatingField(start, end))
        counts = _is_answer(plain, start, own, names_aspect="own" in kinds)
        for field, number in found:
            if number is not None:
                span = _place(plain, field, in_order, start, end)
                statement = Statement(number, None, span, end)
                other_scale = other_scale_beside(field, scale)
                fields.append(RatingField(start, end, statement, counts, other_scale))
            elif plain[start] != "<" and "own" not in kinds and not (kinds and _is_remark(field)):
                return _no_rating_in(field)
    return fields


# <rating value="4" max="5"/>
_ELEMENT = lazy_pattern(
    r"<(?P<name>[A-Za-z]\w{0,30})(?P<inside>(?:\s+[\w-]{1,30}=[\"'][^\"'<>\n]{0,80}[\"'])+)\s*/?>"
)
# score: 4 of an object that cannot be read
_PAIR = lazy_pattern(
    r"[{,\n\"']\s{0,20}[\"']?(?P<key>[^\W\d][\w -]{0,30})(?:[\"']\s|[\"']?\s?[:=])\s?"
    r"(?:[\"']?(?P<value>-?\d+(?:\.\d+)?)[\"']?(?=\s*[,}\n\"])|(?P<last>-?\d+(?:\.\d+)?)\s*\Z)"
)


def _objects_in(plain: str) -> list[FoundJson]:
    """Return the objects of an answer: of JSON, perhaps damaged, and the attributes of XML."""
    found = list[FoundJson]()
    if "{" in plain:
        found += find_json(plain, lenient=True)
        start = plain.index("{")
        if not found and plain[:start].strip().lower() in ("", "json"):
            pairs = [
                (one["key"], one["value"] or one["last"]) for one in _PAIR.finditer(plain, start)
            ]
            found += [FoundJson(object_of(pairs), start, len(plain))] if pairs else []
    if "=" in plain and "<" in plain:
        for tag in _ELEMENT.finditer(plain):
            pairs = re.findall(r"([\w-]+)=[\"']([^\"']*)", tag["inside"])
            # <criterion name="fluency" score="4"/>
            named = [value for key, value in pairs if key == "name"]
            name = named[0] if len(named) == 1 else tag["name"]
            found.append(FoundJson(object_of([(name, object_of(pairs))]), *tag.span()))
    # [[4]] is a mark of the rating
    return [one for one in found if any(isinstance(x, JsonObject) for x in _items_of(one.value))]


def _ratings_among(found: list[JsonField], own: str) -> list[JsonField]:
    """Return the fields that rate the asked aspect.

    A final rating replaces others. An overall one is left out beside a rating of the aspect, or
    beside those of other aspects, if it is not asked for; and beside both any one without a name.
    """
    own_fields = [one for one in found if one.kind == "own"]
    has_other = any(one.kind == "other" and one.is_rating for one in found)
    is_of_all = not own or re.search(r"quality|overall|total|impression|summary", own)
    left_out = ("overall", "total") if own_fields or (has_other and not is_of_all) else ()
    plain = [one for one in found if one.kind == "plain" and one.stage not in left_out]
    mine = own_fields if own_fields and has_other else [*plain, *own_fields]
    final = [one for one in mine if one.stage in ("final", "revised")]
    return [one for one in final if one.kind == "own" or not own_fields] or mine


def _is_remark(field: JsonField) -> bool:
    """Return whether a field beside a rating says the same in words, or holds parts."""
    types = (str, dict, list) if field.kind == "plain" else (dict, list)
    return isinstance(field.value, types) and not numbers_of(field.value)


@lru_cache(maxsize=8)
def _whole_value(form: RatingForm) -> re.Pattern[str]:
    """Return the pattern of a JSON field's text: the value, and words about it without a number."""
    value = value_pattern(form).pattern.removeprefix("(?i)")
    return re.compile(
        rf"(?i)[\s(\[\"“*]{{0,4}}(?:(?:score|rating)\s?[:=]?\s)?(?:{value})[)\]\"”]{{0,2}}\.?"
        r"(?:\s?[(:–—-]\s?[^\W\d][^\n]{0,200}|\.\s\D{0,200})?"
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


def other_scale_beside(field: JsonField, scale: tuple[float, float]) -> str:
    """Return the field that names another scale than the asked one; empty for none."""
    beside_name = _name_of(field.key)["scale"]
    if beside_name and not is_scale(numbers_of(beside_name), scale):
        return field.key
    for holder in field.objects:
        for key, value in holder.items():
            name = _name_of(key).string
            if key == field.key or not SCALE_NAME.fullmatch(name):
                continue
            numbers = numbers_of(value)
            is_sum = "total" in name and [2 * n for n in numbers] == [sum(numbers_of(holder))]
            expected = (scale[0], scale[0]) if re.search(r"\b(?:min|lowest)", name) else scale
            if numbers and not is_sum and not is_scale(numbers, expected):
                return f"{key}: {value}"
    return ""


# Here is the JSON:   My verdict is   record_evaluation({...})
_ANNOUNCED = lazy_pattern(
    rf"(?i)\b(?:here(?:['’]s|\sis)|json|{NOUN})\b[^.\"“]{{0,60}}(?::|\bis)\s*\Z|\Aoutput:\s*\Z"
    r"|\A[\w. ]{2,60}\(\Z|\A[\w, ]{2,20}[.!]\Z"
)
# Example:
_EXAMPLE_BELOW = lazy_pattern(
    r"(?i)\b(?:example|sample|schema|template)\b[^.!?:\n]{0,60}:\s{0,20}(?:json\s{0,20})?\Z"
)


def _is_answer(plain: str, start: int, own: str, *, names_aspect: bool) -> bool:
    """Return whether an object names the asked aspect, begins its line, or is announced."""
    line = plain.rfind("\n", 0, start) + 1
    before = plain[line:start].strip()[-WINDOW:]
    above = plain[max(0, line - WINDOW) : line]
    if _EXAMPLE_BELOW.search(above) or reports_below(above):
        return False
    return (
        names_aspect
        or before.lower() in ("", "json")
        or _ANNOUNCED.search(before) is not None
        or (bool(own) and re.search(own, before, re.IGNORECASE) is not None)
    )


def _no_rating_in(field: JsonField) -> NoRating:
    shown = "null" if field.value is None else repr(field.value)[:40]
    declined = isinstance(field.value, str) and declines(field.value)
    return NoRating(
        DECLINED if declined else "NoScoreFound",
        f"the field {field.key!r} of the answer is {shown}, which is not a rating",
    )


def _place(
    text: str, field: JsonField, fields: list[JsonField], start: int, end: int
) -> tuple[int, int]:
    """Return the place of the value of one of an object's fields, or of the object."""
    pattern = (
        rf"(?:[\"']|[{{,]\s{{0,20}}|<[^<>]*?\s){re.escape(field.key)}(?:\\?[\"'])?\s{{0,20}}[:=]?\s{{0,20}}[\"']?"
        r"(?P<value>[^\s\"',}]{1,40})"
    )
    places = [one.span("value") for one in re.compile(pattern).finditer(text, start, end)]
    # in a list of records several fields have the same name
    alike = [one is field for one in fields if one.key == field.key]
    if len(places) == len(alike):
        return places[alike.index(True)]
    return places[-1] if places else (start, end)
