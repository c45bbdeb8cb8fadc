r"""Reads the rating, or the choice between two texts, out of what a judge said.

A rating is read where an answer states it, once, on the scale that was asked: in a field `score`,
`rating` or the aspect's name of a JSON object, or in prose, by the grammar of `grammar.py`. Several
statements must agree, and no other number of the scale may stand by itself behind them: that may
take a rating back. An answer that names another scale, in a field beside the score or in words, has
none of ours. Everything else is no rating, and is asked for again with a reminder of the form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from textassay.agents.reading.grammar import (
    WINDOW,
    RatingForm,
    Statement,
    bare_numbers,
    is_quoted,
    number_in,
    statement_of,
    statements_in,
    value_pattern,
)
from textassay.agents.reading.json_in_prose import JsonObject, find_json, normalize_key
from textassay.agents.reading.notation import (
    plain_latex,
    without_other_aspects,
    write_as_numbers,
)
from textassay.agents.reading.words import FOREIGN, NOUN, NUMBER
from textassay.lazy import lazy_pattern

Reason = Literal["NoScoreFound", "OffScale", "Declined", "Contradictory"]
"""Why there is no rating: the answer holds none in a clear form, holds one that the scale does not
have, says no, or states two that differ."""


DECLINED: Reason = "Declined"
"""Problem of an answer in which the judge refuses to rate; it is not asked for again."""
MAX_QUOTED = 200
"""Characters of an unusable answer that errors and evidence quote."""
MAX_ANSWER = 40_000
"""Characters of a longer answer that are read, at its end."""
_SHORT = 40
"""Characters of an answer that is likely to be given again."""


class Rating(NamedTuple):
    """A rating and where it stands."""

    value: float
    """On the scale that was asked for."""
    span: tuple[int, int]
    """Start and end of the rating in the answer, in characters."""


class NoRating(NamedTuple):
    """An answer without a usable rating."""

    reason: Reason
    """Short stable name."""
    message: str
    """What is wrong with the answer, for people."""


# I'm sorry / cannot be rated / N/A
_DECLINED = lazy_pattern(
    r"(?i)\b(?:I|we)(?:['’]m| am| are)?\s{1,3}(?:really |so )?(?:sorry|unable|cannot|can['’]t"
    r"|can not|could not|couldn['’]t|won['’]t|will not|not able|not comfortable|decline|refuse"
    r"|must decline)\b|\bas an ai\b"
    r"|\b(?:cannot|can['’]t|impossible to|not possible to|unable to)\s{1,3}(?:be\s{1,3})?"
    r"(?:rat|scor|evaluat|assess|judg|provid|determin|giv)|\A\W{0,6}(?:n/?a\b|not applicable)"
)
_OPENING = 200
"""Characters in which a judge that declines says so."""


def parse_rating(
    text: str,
    *,
    scale: tuple[float, float],
    form: RatingForm = "number",
    aspect: str | None = None,
    labels: tuple[str, ...] = (),
) -> Rating | NoRating:
    """Return the rating that `text` gives, or why there is none.

    Never raises and never leaves the scale.

    Args:
        text: What the judge said.
        scale: Lowest and highest rating that was asked for.
        form: How the rating was asked for. A letter answers only `letters`, a number only the other
            two.
        aspect: Name of the judged aspect, which may label the rating.
        labels: Names of the letters from A on, which may stand beside or in place of them.
    """
    if len(text) <= _SHORT:
        return _parse_again(text, scale, form, aspect, labels)
    left_out = max(0, len(text) - MAX_ANSWER)
    found = _parse(text[left_out:], scale, form, aspect, labels)
    if isinstance(found, Rating):
        return Rating(found.value, (found.span[0] + left_out, found.span[1] + left_out))
    return found


# a quotation of several lines
_BLOCK = lazy_pattern(r"(?m)^[ \t]*[\"“][^\"“”\n]{1,400}\n[^\"“”]{0,2000}[\"”][ \t]*$")
_WITHDRAWN = lazy_pattern(
    r"(?i)\b(?:(?<!\bto\s)(?<!\bi\s)(?<!\bwill\s)(?:disregard|ignore)|retract|withdraw)\s(?:that\b|(?:the|my|this)\s(?:\w+\s)?(?:score|rating)(?!\sscale))"
)


def _parse(
    text: str,
    scale: tuple[float, float],
    form: RatingForm,
    aspect: str | None,
    labels: tuple[str, ...],
) -> Rating | NoRating:
    if _WITHDRAWN.search(text):
        return NoRating("NoScoreFound", "the answer takes its rating back")
    own, whole = own_name(aspect), write_as_numbers(plain_text(text), scale, form)
    if (rest := _BLOCK.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), whole)).strip():
        whole = rest
    fields = _json_fields(whole, scale, form, own, labels)
    if isinstance(fields, NoRating):
        return fields
    plain = _without(whole, [(field.start, field.end) for field in fields])
    other = next((field.other for field in fields if field.other), "")
    if form == "letters" and labels:
        named = _without_label_names(plain, labels)
        if isinstance(named, NoRating):
            return named
        plain = named
    plain = _KEY.sub(r" \1 ", plain)
    plain, in_words = without_scales(without_other_aspects(plain, own), scale, own)
    stated = [field for field in fields if field.statement is not None]
    prose = list(statements_in(plain, form, own, scale[0]))
    if labels and not stated and not prose and (rating := _label_alone(plain, labels, scale)):
        return rating
    statements = [*(f.statement for f in stated if f.statement), *prose]
    if not prose and not any(field.counts for field in stated):
        return _missing(whole, statements)
    end = max([*(field.end for field in stated), *(statement.end for statement in prose)])
    return _settled(plain, statements, end, scale, form, other or in_words)


# A judge who says no more than `4` or `Rating: 4` says it many times.
_parse_again = lru_cache(maxsize=1024)(_parse)


# **4**   __4__   `4`   \boxed{4}: signs that only emphasize
_MARKUP = lazy_pattern(
    # pictures, but for stars and boxes
    r"[*_`\u2600-\u2604\u2607-\u260f\u2613-\u27bf\U0001f300-\U0001f31e\U0001f320-\U0001faff]"
    # struck out
    r"|~~[^~\n]{1,80}~~"
    r"|\${0,2}\\boxed\{(?P<boxed>[^{}\n]{1,20})\}\${0,2}"
    r"|</?(?:b|i|u|em|strong|mark|p|span|div)>|<br\s?/?>"
)
# fullwidth and other forms of the same signs
_SAME = str.maketrans("➡➔➜➤\ufe0f（）：／＝【】０１２３４５６７８９", "→→→→ ():/= :0123456789")
# Rating: <3>
_IN_ANGLES = lazy_pattern(r"<(\s?\d{1,3}(?:\.\d)?\s?)>")
# <|im_end|>   </s>   DeepSeek's with wide bars   <end_of_turn>: what some servers leave in
_SPECIAL = lazy_pattern(
    r"<[|｜][^<>|｜\s]{1,40}[|｜]>|</?s>|<(?:eos|bos|pad|eot)>|<(?:start|end)_of_turn>|\[/?INST\]"
)
# <score>4</score>   [RESULT] 4
_TAG = lazy_pattern(rf"(?i)<(?P<close>/?)[a-z][\w -]{{0,30}}>|\[{NOUN}\](?!\()")


def plain_text(text: str) -> str:
    """Return the text with emphasis as spaces and tags as names on lines of their own.

    Every character stays at its place.
    """
    written = text = plain_latex(text if text.isascii() else text.translate(_SAME))
    if "<" in text or "[" in text:
        text = _IN_ANGLES.sub(r" \1 ", text)
        text = _SPECIAL.sub(lambda match: "\n" + " " * (len(match[0]) - 1), text)
        # before the tags: `<b>` is one
        text = _MARKUP.sub(_blanked, text)
        return _TAG.sub(lambda match: _as_name(match, written), text)
    return _MARKUP.sub(_blanked, text)


def _as_name(match: re.Match[str], written: str) -> str:
    line = written[written.rfind("\n", 0, match.start()) + 1 : match.start()][-WINDOW:]
    in_code = line.count("`") % 2 and line.strip("` ")
    if line.count('"') % 2 or in_code:  # quoted
        return match[0]
    inner = match[0][1:-1]
    return "\n" + (" " * (len(inner) + 1) if match["close"] else f"{inner}:")


def _blanked(match: re.Match[str]) -> str:
    boxed = match["boxed"]
    if boxed is None:
        return " " * len(match[0])
    before = match.start("boxed") - match.start()
    return " " * before + boxed + " " * (match.end() - match.end("boxed"))


def own_name(aspect: str | None) -> str:
    """Return the pattern of an aspect's name, in any case and with spaces, `-` or `_` in it."""
    return r"[\s-]{1,3}".join(map(re.escape, re.findall(r"[^\s_*`-]+", (aspect or "").lower())))


def declines(text: str) -> bool:
    """Return whether an answer without a rating begins by declining to give one."""
    return _DECLINED.search(text[:_OPENING]) is not None


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


class _Field(NamedTuple):
    """A JSON value of an answer, and the rating in it."""

    start: int
    end: int
    statement: Statement | None = None
    counts: bool = False
    """Whether it begins a line, as an answer's own object does."""
    other: str = ""
    """Another scale that the object names; empty for none."""


def _json_fields(
    plain: str, scale: tuple[float, float], form: RatingForm, own: str, labels: Sequence[str]
) -> list[_Field] | NoRating:
    """Return what JSON says; `NoRating` for a field of a rating that holds none."""
    fields = list[_Field]()
    for part in find_json(plain, lenient=True) if "{" in plain else ():
        fields.append(_Field(part.start, part.end))
        before = plain[plain.rfind("\n", 0, part.start) + 1 : part.start].strip()
        held = part.value if isinstance(part.value, list) else [part.value]
        objects = [one for one in held if isinstance(one, JsonObject)]
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
        if about:
            objects = [one for one in about if re.fullmatch(own, subject_of(one) or "")]
        elif len(objects) > 1:
            objects = []
        for one in objects:
            for key, value, holder in _rating_fields(one, own):
                number = rating_of_field(value, scale, form, labels)
                if number is None and _is_remark(key, value, one, scale, own, form, labels):
                    continue
                if number is None:
                    return _no_rating_in(key, value)
                span = _place(plain, key, part.start, part.end)
                fields.append(
                    _Field(
                        part.start,
                        part.end,
                        Statement(number, None, span, part.end),
                        before.lower() in ("", "json")
                        or _CALL.fullmatch(before) is not None
                        or _leads_up(before, own),
                        other_scale_in(holder, scale) or other_scale_in(one, scale),
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
    """Return whether a field such as `verdict` says in words what a `score` beside it gives."""
    if (
        not isinstance(value, str)
        or _NUMBERS.search(value)
        or not _IN_WORDS.fullmatch(normalize_key(key))
    ):
        return False
    return any(
        rating_of_field(other, scale, form, labels) is not None
        for name, other, _ in _rating_fields(held, own)
        if name != key
    )


def _leads_up(before: str, own: str) -> bool:
    """Return whether words before an object say that it is the rating: `My verdict is {...}`."""
    if _ANNOUNCED.search(before[-WINDOW:]) and not _SHOWN.search(before):
        return True
    return any(statements_in(f"{before[-WINDOW:]} 1", "number", own, 1.0))


# Here is the JSON:
_ANNOUNCED = lazy_pattern(r"(?i)\b(?:here(?:['’]s|\sis)|json)\b[^.\"“]{0,60}:\s*\Z")
# record_evaluation({...})
_CALL = lazy_pattern(r"[\w. ]{2,60}\(")
_SHOWN = lazy_pattern(r"(?i)\b(?:example|schema|format|template|form|text|summary)\b")
# "score": 4 outside of an object
_KEY = lazy_pattern(r"\"(\w{1,30})\"(?=\s?:)")
_SUBJECT = frozenset({"aspect", "criterion", "dimension", "metric", "category", "name"})


def subject_of(held: JsonObject) -> str | None:
    """Return the name of the aspect that an object says it is about; `None` if it does not say."""
    if any(normalize_key(key) in ("arguments", "parameters") for key in held):
        return None  # the name is a tool's
    for key, value in held.items():
        if normalize_key(key) in _SUBJECT and isinstance(value, str):
            return re.sub(r"[\s_*`-]+", " ", value).strip().lower()
    return None


def _rating_fields(held: JsonObject, own: str) -> Iterator[tuple[str, Any, JsonObject]]:
    """Yield key, value and object of each field that is named like a rating."""
    named = re.compile(
        rf"(?:(?:final|overall|my|the|total) )*(?:{NOUN}|label|{own or NOUN}(?: {NOUN})?)"
    )
    for key, value in [*held.items(), *held.contradicted.items()]:
        name = normalize_key(_CAMEL.sub("_", key)).replace("_", " ")
        if not named.fullmatch(name) and name not in _WRAPPERS:
            continue
        inside = _fields_inside(value, own) if isinstance(value, JsonObject) else []
        if inside:
            yield from inside
        elif name in _WRAPPERS:
            continue
        elif not isinstance(value, str) or not _IN_WORDS.fullmatch(name) or _is_short(value):
            yield key, value, held


_WRAPPERS = frozenset({"response", "output", "data", "json", "arguments", "parameters"})


def _fields_inside(held: JsonObject, own: str) -> list[tuple[str, Any, JsonObject]]:
    """Return the scores, ratings and fields of the aspect's name in an object under such a name."""
    subject = subject_of(held)
    if subject is not None and not re.fullmatch(own, subject):
        return []
    named = re.compile(rf"(?i)(?:\w+_)?(?:score|rating)|{own or '(?!)'}")
    fields = _rating_fields(held, own)
    return [one for one in fields if one[2] is not held or named.fullmatch(one[0])]


# an assessment or an evaluation is as often a text as a number
_IN_WORDS = lazy_pattern(
    r"(?:.* )?(?:answer|verdict|result|value|judge?ment|assessment|evaluation|decision|conclusion"
    r"|choice|level|label)s?"
)


def _is_short(text: str) -> bool:
    return len(text) <= _SHORT


_SCALE_WORDS = frozenset(
    [
        "max",
        "maximum",
        "highest",
        "top",
        "best",
        "upper",
        "scale",
        "range",
        "out",
        "possible",
        "denominator",
        "total",
        "full",
        "min",
        "minimum",
        "lowest",
        "bound",
        "point",
        "points",
    ]
)
_BESIDE_SCALE = frozenset(["score", "rating", "value", "mark", "marks", "of", "the", "grading"])


# maxScore, finalRating
_CAMEL = lazy_pattern(r"(?<=[a-z])(?=[A-Z])")


def other_scale_in(held: JsonObject, scale: tuple[float, float]) -> str:
    """Return the field of an object that names another scale than the one asked; empty for none."""
    for key, value in held.items():
        words = set(normalize_key(_CAMEL.sub("_", key)).split("_"))
        if not words & _SCALE_WORDS or words - _SCALE_WORDS - _BESIDE_SCALE:
            continue
        numbers = _numbers_of(value)
        is_low = words & {"min", "minimum", "lowest"}
        if numbers and not _is_scale(numbers, (scale[0], scale[0]) if is_low else scale):
            return f"{key}: {value}"
    return ""


def _numbers_of(value: object) -> list[float]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, str):
        return [number_in(found) for found in _NUMBERS.findall(_JOINED.sub(" - ", value))]
    if isinstance(value, dict):
        value = list(value.values())
    return [n for one in value for n in _numbers_of(one)] if isinstance(value, list) else []


# 1-5 holds no -5
_JOINED = lazy_pattern(r"(?<=\w)[-–—](?=\w)")


def _is_scale(numbers: Sequence[float], scale: tuple[float, float]) -> bool:
    """Return whether numbers that name a scale are its top, or both of its ends."""
    return (
        bool(numbers)
        and max(numbers) == scale[1]
        and (len(numbers) == 1 or min(numbers) == scale[0])
    )


_NUMBERS = re.compile(rf"(?i){NUMBER}")


def _no_rating_in(key: str, held: Any) -> NoRating:
    shown = "null" if held is None else repr(held)[:40]
    declined = isinstance(held, str) and declines(held)
    return NoRating(
        DECLINED if declined else "NoScoreFound",
        f"the field {key!r} of the answer is {shown}, which is not a rating",
    )


def _place(text: str, key: str, start: int, end: int) -> tuple[int, int]:
    """Return where the value of a JSON field stands, or where the object does."""
    field = (
        rf'["\']?{re.escape(key)}["\']?\s{{0,20}}:\s{{0,20}}["\']?(?P<value>[^\s"\',}}]{{1,40}})'
    )
    found = list(re.compile(field).finditer(text, start, end))
    return found[-1].span("value") if found else (start, end)


def _without(plain: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with spaces in place of spans, which are in order; lines stay."""
    pieces, at = list[str](), 0
    for start, end in spans:
        if start >= at:
            pieces += plain[at:start], re.sub(r"[^\n]", " ", plain[start:end])
            at = end
    return "".join([*pieces, plain[at:]])


# 1-5   1 to 5   1 (worst) to 5 (best)   between 0 and 10
_RANGE = (
    rf"{NUMBER}(?:\s?\([^()\n]{{1,30}}\)|\s?=\s?\w{{1,20}})?\s?(?:-|–|—|~|to|through|and|bis|à|a|до|到|至)\s?"
    rf"{NUMBER}(?:\s?\([^()\n]{{1,30}}\))?"
)
_A = r"(?:(?:on|in|using|with|from|by)\s)?(?:(?:an?|the|my|our|your)\s)?"
_SCALES = (
    # on a scale of 1 to 5, using the range 1-5, rated from 0 to 10
    (
        ("scale", "rang", " from", " between"),
        rf"{_A}(?:\w{{1,12}}\s)?(?<!of\sthe\s)(?:scales?|ranges?|ranging"
        r"|(?:number|integer|value|rated|graded|scored?|rating)\s(?:from|between))\b"
        r"(?:\s?(?:is|of|from|goes|runs|ranging|between|was|used|[:(=]))*"
        rf"\s?(?P<numbers>{_RANGE})",
    ),
    # auf einer Skala von 1 bis 5, sur une échelle de 1 à 5, en una escala de 1 a 5, 满分5分
    (
        ("skala", "chelle", "escala", "scala", "шкал", "schaal"),
        r"(?:(?:auf|sur|en|numa|em|su|in|по|op)\s)?(?:\w{1,6}\s)?(?:skala|[ée]chelle|escala|scala|шкале|schaal)"
        rf"\s(?:von|de|da|от|van)\s(?P<numbers>{_RANGE})",
    ),
    (("点満点",), rf"(?P<numbers>{NUMBER})満点(?:中|で)?"),
    (("满分", "滿分"), rf"[满滿]分(?:为|是|為)?\s?(?P<numbers>{NUMBER})分?"),
    (("分", "到"), rf"(?:在|按|以)?(?P<numbers>{_RANGE})分?的?(?:范围内?|尺度|量表|评分标准)"),
    (("on", "using"), rf",?\s?\b(?:on|using)\s(?:the\s)?(?P<numbers>{_RANGE})(?=\s?[:,])"),
    # rated on 0-100
    (
        ("on",),
        rf"(?:rated?|scored?|graded?|marked|ratings?\sare)\son\s(?:an?\s)?(?P<numbers>{_RANGE})",
    ),
    # on a 1-5 scale, on a 10-point scale
    (
        ("scale", "range"),
        rf"{_A}(?P<numbers>{_RANGE})[\s-](?:point\s)?(?:likert\s)?(?:rating\s)?(?:scale|range)\b",
    ),
    (
        ("scale",),
        rf"{_A}(?P<numbers>{NUMBER})[\s-]?points?\s(?:likert\s)?(?:rating\s)?scale\b",
    ),
    # the maximum is 10, best possible score: 10
    (
        ("max", "highest", "best", "top", "full", "perfect"),
        r"\b(?:max(?:imum)?|highest|best|top|full|perfect)(?:\s(?:possible|available))?"
        r"(?:\s(?:scores?|ratings?|marks?|values?|points?|grade))?\s{0,12}(?:is|would\sbe|of|[:=])"
        rf"\s{{0,12}}(?P<numbers>{NUMBER})(?!\s?/)",
    ),
    # max 10
    (("max",), rf"\b(?:max\.?|maximum)\s(?P<numbers>{NUMBER})"),
    # Out of: 10
    (
        ("out",),
        rf"(?:\A|(?<=[\n(]))[ \t]*out\s?of\s?:?\s?(?:an?\s|the\s)?"
        rf"(?:possible\s|maximum\s|total\s)?(?:of\s)?(?P<numbers>{NUMBER})(?!\s[^\W\d_])",
    ),
    # my scale goes up to 10
    (
        ("scale", "range"),
        r"(?<!of the )\b(?:scale|range)\s(?:\w{1,12}\s){0,2}?(?:of|is|up\sto|to|out\sof|:)"
        rf"\s?(?P<numbers>{NUMBER})",
    ),
    # Score: 4 [1-10]
    (("(", "["), rf"(?<=\d)\s?[(\[]\s?(?P<numbers>{_RANGE})\s?[)\]]"),
)
_SCALE_WORDING = tuple((words, lazy_pattern(rf"(?i){pattern}(?!\w)")) for words, pattern in _SCALES)


@lru_cache(maxsize=256)
def _beside_name(own: str) -> re.Pattern[str]:
    """Return the pattern of brackets with a number between the name of a rating and its value."""
    name = rf"(?:{NOUN}|{FOREIGN}{rf'|{own}' if own else ''})"
    return re.compile(
        rf"(?i){name}\s?(?P<inside>[(\[](?P<numbers>[^()\[\]\n]{{0,80}})[)\]])"
        r"(?=\s?(?:[:：=|→–-]|is\b|\d))"
    )


def without_scales(plain: str, scale: tuple[float, float], own: str) -> tuple[str, str]:
    """Return the text without mentions of the scale that was asked, and another one that it names.

    `(1-5)` behind a name and `on a scale of 1 to 5` are no numbers of the rating.
    """
    lower = plain.lower()
    patterns = [p for words, p in _SCALE_WORDING if any(word in lower for word in words)]
    if "(" in plain or "[" in plain:
        patterns.append(_beside_name(own))
    for pattern in patterns:
        spans = list[tuple[int, int]]()
        for match in pattern.finditer(plain):
            line = plain.rfind("\n", 0, match.start()) + 1
            if is_quoted(plain, line, match.start()):
                continue
            numerals = match["numbers"]
            inside = "inside" in match.re.groupindex
            numbers = _numbers_of(numerals)
            of_hundred = inside and ("percent" in numerals.lower() or "%" in numerals)
            # `Score [4]`, `Score (four)`: the rating itself
            if not of_hundred and inside and (not numbers or _ALONE.fullmatch(match["inside"])):
                continue
            if (of_hundred and scale[1] != 100) or not _is_scale(numbers, scale):
                return plain, " ".join(match[0].split())
            start, end = match.span("inside" if inside else 0)
            # `On a scale of 1 to 5: 4`
            if not inside and not plain[plain.rfind("\n", 0, start) + 1 : start].strip():
                end += len(_PAUSE.match(plain, end)[0])  # type: ignore[index]
            spans.append((start, end))
        plain = _without(plain, spans)
    return plain, ""


_PAUSE = lazy_pattern(r"(?:\s?[,:])?")
_ALONE = lazy_pattern(rf"(?i)[(\[]{{1,2}}\s?(?:{NUMBER})\s?[)\]]{{1,2}}")


def _without_label_names(plain: str, labels: Sequence[str]) -> str | NoRating:
    """Return the text with the name behind a label's letter left out: `C: correct`, `C (correct)`.

    A letter with the name of another label chooses neither.
    """
    names = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    spans = list[tuple[int, int]]()
    last = chr(ord("A") + len(labels) - 1)
    # a sign between them, for `A good answer` begins with an article
    sign = r"(?:[)\].]\s?[:=–(\[\"-]?|\s?[:=–(\[\"-])"
    pattern = (
        rf"(?<!\w)(?P<letter>[A-{last}])(?P<named>{sign}\s?[\"“]?(?P<name>(?i:{names})))"
        r"(?!\w)(?P<close>[)\]\"”]*)"
    )
    for match in re.finditer(pattern, plain):
        if match["name"].lower() != labels[ord(match["letter"]) - ord("A")].lower():
            return NoRating(
                "Contradictory",
                f"the answer names the letter {match['letter']} and the label {match['name']!r}",
            )
        spans.append((match.start("named"), match.end("close")))
    return _without(plain, spans)


def _label_alone(
    plain: str, labels: Sequence[str], scale: tuple[float, float]
) -> Rating | NoRating | None:
    """Return the label whose name is the first or the last line: `correct`, `Verdict: correct`."""
    lines = [line for line in plain.split("\n") if line.strip()]
    found = dict[int, tuple[int, int]]()
    for line in {0: lines[0], -1: lines[-1]}.values() if lines else ():
        for index, label in enumerate(labels):
            pattern = (
                rf"(?i)\W{{0,8}}(?:(?:(?:final|overall|my|the)\s)*{NOUN}\s{{0,3}}(?:[:=]|is)\W{{0,6}})?"
                rf"(?P<name>{re.escape(label)})\W{{0,6}}"
            )
            if match := re.fullmatch(pattern, line):
                start = plain.rindex(line)
                found[index] = (start + match.start("name"), start + match.end("name"))
    if len(found) > 1:
        return NoRating("Contradictory", "the answer states more than one rating")
    return next((Rating(scale[0] + index, span) for index, span in found.items()), None)


def _settled(
    plain: str,
    statements: list[Statement],
    end: int,
    scale: tuple[float, float],
    form: RatingForm,
    other: str,
) -> Rating | NoRating:
    """Return the one rating that is stated, or why there is none."""
    rating = statements[-1]
    low, high = scale
    if len({(one.value, one.top or high) for one in statements}) > 1:
        return NoRating("Contradictory", "the answer states more than one rating")
    start, stop = rating.span
    lines = (line.strip() for line in plain.split("\n"))
    if len({line for line in lines if value_pattern(form).fullmatch(line)}) > 1:
        return NoRating("Contradictory", "several lines of the answer are different ratings")
    if other:
        return NoRating(
            "OffScale",
            f"the answer names another scale ({other:.60}) than {_scale_in_words(scale, form)}",
        )
    if rating.top not in (None, high) or not low <= rating.value <= high:
        shown = plain[start:stop] if form == "letters" else f"{rating.value:g}"
        out_of = f" out of {rating.top:g}" if rating.top is not None else ""
        return NoRating(
            "OffScale", f"the rating {shown}{out_of} is off {_scale_in_words(scale, form)}"
        )
    for number in bare_numbers(plain[end:], form, low):
        if low <= number <= high and number != rating.value:
            return NoRating(
                "Contradictory", f"{number:g} follows the rating {rating.value:g} by itself"
            )
    return Rating(rating.value, rating.span)


def _scale_in_words(scale: tuple[float, float], form: RatingForm) -> str:
    if form == "letters":
        return f"the letters A to {chr(ord('A') + min(int(scale[1] - scale[0]), 25))}"
    return f"the scale from {scale[0]:g} to {scale[1]:g}"


def _missing(plain: str, statements: list[Statement]) -> NoRating:
    if not plain.strip():
        return NoRating("NoScoreFound", "the answer is empty")
    if not statements and declines(plain):
        return NoRating(DECLINED, "the judge declined to rate")
    return NoRating("NoScoreFound", "the answer contains no rating in a form that is read")


# Output (a)   [[B]]   Text A.   Response b
_ONLY_CHOICE = lazy_pattern(
    r"\A[\s*_`\"'\[(]{0,12}(?:(?i:output|text|response|answer|option|summary)\s{0,3}:?\s{0,3})?"
    r"[*_`\"'\[(]{0,6}(?P<letter>[A-Ca-c])[*_`\"'\])]{0,6}[\s.*_`\"'\])]{0,12}\Z"
)
# ... My final verdict is: [[A]]
_MARKED_CHOICE = lazy_pattern(r"\[\[(?P<letter>[A-C])\]\][\s.*]{0,12}\Z")
_MARKS = lazy_pattern(r"\[\[([A-C])\]\]")
PREFERENCE = {"A": 1.0, "B": 0.0, "C": 0.5}
"""How much better the first text is, by letter."""


def parse_choice(text: str, *, ties: bool = False) -> float | NoRating:
    """Return how much better the first text is: 1, 0, or 0.5 for equal; or why that is open."""
    letters, text = "ABC" if ties else "AB", _SPECIAL.sub("", text)
    if only := _ONLY_CHOICE.match(text) or _MARKED_CHOICE.search(text):
        letter = only["letter"].upper()
        if len({letter, *_MARKS.findall(text)}) > 1:
            return NoRating("Contradictory", "the answer states more than one choice")
        if letter in letters:
            return PREFERENCE[letter]
        return NoRating("OffScale", f"the judge chose {letter}, which was not offered")
    rating = parse_rating(text, scale=(1.0, float(len(letters))), form="letters")
    if isinstance(rating, NoRating):
        return rating
    return PREFERENCE[letters[int(rating.value) - 1]]
