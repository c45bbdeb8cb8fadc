r"""Reads the rating, several, or the choice between two texts, out of what a judge said.

A rating is read where an answer gives it in one of a few clear forms, once, on the scale that was
asked:

1. a field `score`, `rating` or the aspect's name of a JSON object that begins a line;
2. a line of its own: `Score: 4`, `**Final rating:** 4/5`, `- Fluency (1-5): 4`, `4`;
3. the same with a label as the last sentence: `It is clear. Final score: 4.`;
4. the end of the last sentence: `..., resulting in a score of 4 out of 5 for fluency.`;
5. where stars were asked for, the beginning: `Four stars. It is clear.`

Nothing may follow it but an explanation under a label of its own (`Rating: 4\nRationale: ...`).
Everything else is no rating, and is asked for again with a reminder of the form: patterns for more
of what judges may say, which has no end, would take more numbers for ratings that are none. Of the
ratings in 143,000 recorded answers of real judges these forms read 99.5 %
(`tests/agents/test_ratings.py`).

Several ratings of one answer are each read by the name beside it, never by its position: from a
JSON object with the aspects' names as keys, or from lines, `Name: rating` or the name alone with
`Score: rating` below it. An aspect that the answer leaves out has no rating, a name that was not
requested is reported, and an aspect that is rated twice and differently has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from textassay.agents.reading.json_in_prose import JsonObject, find_json
from textassay.lazy import lazy_pattern
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Json

Form = Literal["number", "letters", "stars"]
"""How ratings are asked for."""

Reason = Literal["NoScoreFound", "OffScale", "Declined", "Contradictory"]
"""Why there is no rating: the answer holds none in a clear form, holds one that the scale does not
have, says no, or states two that differ."""


DECLINED: Reason = "Declined"
"""Problem of an answer in which the judge refuses to rate; it is not asked for again."""
MAX_QUOTED = 200
"""Characters of an unusable answer that errors and evidence quote."""


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


class _Statement(NamedTuple):
    """A rating that an answer states, on the scale or not."""

    value: float
    top: float | None
    """What it is out of, if the answer says so."""
    span: tuple[int, int]
    counts: bool
    """Whether it stands where the answer's own rating stands, and is not followed by more."""


_WORDS = {
    word: float(value)
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
_NUMBER = rf"[-+−]?\d{{1,4}}(?:\.\d{{1,20}}|,\d{{1,2}})?|{'|'.join(_WORDS)}"
_TOP = rf"(?:\s{{0,3}}/\s{{0,3}}|\s{{1,3}}(?:out\s)?of\s)(?P<top>{_NUMBER})"
_VALUES: dict[Form, str] = {
    "number": rf"(?P<open>[(\[\"]{{1,2}})?(?P<value>{_NUMBER})(?:{_TOP})?(?(open)[)\]\"]{{0,2}})",
    "letters": r"(?P<open>[(\[\"]{1,2})?(?P<value>[A-Za-z])(?P<top>)(?(open)[)\]\"]{0,2})",
    "stars": (
        rf"(?:(?P<value>{_NUMBER})(?:{_TOP})?(?P<unit>[\s-]?stars?)?"
        r"|(?P<glyphs>(?:[★⭐🌟]\ufe0f?){1,10})☆{0,10})"
    ),
}
_OF = rf"(?:an? )?(?:(?:score|rating) of )?{_VALUES['number']}"
# The ends of sentences in which judges give ratings. Words of each kind are those of the recorded
# answers; `a rating of 5` alone may be what the text under evaluation asks for.
_CLAUSES = (
    rf"(?<=,\s)(?:resulting in|earning|receiving) a (?:score|rating) of {_VALUES['number']}",
    rf"\b(?:so|therefore) (?:it (?:scores|receives)|the score is) {_OF}",
    rf"(?<=,\s)scoring (?:an? )?(?P<value>{_NUMBER}){_TOP}",
    rf"(?:\A|(?<=[.!?;\"”]\s)|\bso |\btherefore,? )I (?:would )?(?:give|rate) (?:it|this) {_OF}",
)
# Score   Final rating   My overall score
_LABEL = r"(?:(?:final|overall|my)\s){0,2}(?:score|rating|answer)"
# (1-5)   (out of 5)   (1 to 5): which of them is the scale that was asked is looked at later
_SCALE = r"(?:\s{0,4}[(\[](?:(?P<low>\d{1,4})\s?(?:-|–|to)\s?|out of )(?P<high>\d{1,4})[)\]])"
_SCALE_AT_END = lazy_pattern(rf"{_SCALE}\W*\Z")
_BULLET = r"(?:(?:[-•+|]|#{1,6}|\d{1,2}[.)])[ \t]{1,4})?"
_EXPLANATION = (
    r"(?:[-•]\s{1,4})?(?:rationale?|reason(?:ing|s)?|explanation|justification|analysis|comments?)"
    r"\s{0,3}[:：]"
)
_FOLLOWED = lazy_pattern(rf"(?i)\s*(?:\Z|{_EXPLANATION})")
# **4**   __4__   `4`   \boxed{4}: signs that only emphasize
_MARKUP = lazy_pattern(r"[*_`]|\$?\\boxed\{(?P<boxed>[^{}\n]{1,20})\}\$?")
_END = lazy_pattern(r"\s?\.?\s*\Z")
# If it were longer, it would ...
_HYPOTHETICAL = lazy_pattern(r"(?i)\b(?:if|would)\b[^.!?]*\Z")
MAX_ANSWER = 40_000
"""Characters of a longer answer that are read, at its end."""
_SHORT = 40
"""Characters of an answer that is likely to be given again."""
_SENTENCE = 300
"""Characters before a rating that are searched for what makes its sentence hypothetical."""
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
    text: str, *, scale: tuple[float, float], form: Form = "number", aspect: str | None = None
) -> Rating | NoRating:
    """Return the rating that `text` gives, or why there is none.

    Never raises and never leaves the scale.

    Args:
        text: What the judge said.
        scale: Lowest and highest rating that was asked for.
        form: How the rating was asked for. A letter answers only `letters`, a number only the other
            two.
        aspect: Name of the judged aspect, which may label the rating.
    """
    if len(text) <= _SHORT:
        return _parse_again(text, scale, form, aspect)
    left_out = max(0, len(text) - MAX_ANSWER)
    found = _parse(text[left_out:], scale, form, aspect)
    if isinstance(found, Rating):
        return Rating(found.value, (found.span[0] + left_out, found.span[1] + left_out))
    return found


def _parse(
    text: str, scale: tuple[float, float], form: Form, aspect: str | None
) -> Rating | NoRating:
    plain = _without_markup(text)
    patterns = _patterns(form, _own_name(aspect))
    statements = list[_Statement]()
    for field in _json_fields(text, plain, scale, form, patterns.label):
        if isinstance(field, NoRating):
            return field
        statements.append(field)
    statements += patterns.lines(plain, scale)
    statements += patterns.sentences(plain, scale)
    return _settled(plain, statements, scale, form)


# A judge who says no more than `4` or `Rating: 4` says it many times.
_parse_again = lru_cache(maxsize=1024)(_parse)


def labeled_rating(
    text: str, *, scale: tuple[float, float], form: Form, aspect: str | None
) -> Rating | NoRating:
    """Return the rating of a part of an answer that is about one aspect: it stands on any line."""
    plain = _without_markup(text)
    lines = _patterns(form, _own_name(aspect)).lines(plain, scale)
    return _settled(plain, [line._replace(counts=True) for line in lines], scale, form)


def rating_of_field(value: object, scale: tuple[float, float], form: Form) -> float | None:
    """Return the number in a JSON field, on the scale or not: `4`, `"4/5"`, `"C"`; else `None`."""
    if isinstance(value, str):
        match = _patterns(form, "").whole.fullmatch(value.strip())
        held = None if match is None else _statement(match, scale, counts=True)
        return None if held is None or held.top not in (None, scale[1]) else held.value
    # `true` is a number to Python, and no rating.
    if isinstance(value, bool) or not isinstance(value, int | float) or form == "letters":
        return None
    return float(value)


def declines(text: str) -> bool:
    """Return whether an answer without a rating begins by declining to give one."""
    return _DECLINED.search(text[:_OPENING]) is not None


class _Patterns(NamedTuple):
    """How a rating is written in one form, for an aspect of one name."""

    whole: re.Pattern[str]
    """The rating alone."""
    label: re.Pattern[str]
    """The name of a rating, as in `Final score`."""
    line: re.Pattern[str]
    """A rating on a line of its own."""
    labeled: re.Pattern[str]
    """A label with its rating at the beginning of a line or of a sentence, whatever follows it."""
    clauses: tuple[re.Pattern[str], ...]
    """Clauses that give a rating, at the end of a sentence or not."""
    opening: re.Pattern[str] | None
    """Stars at the beginning of an answer."""

    def lines(self, text: str, scale: tuple[float, float]) -> Iterator[_Statement]:
        """Yield the ratings on lines of their own, and the stars at the beginning."""
        if self.opening is not None and (match := self.opening.match(text)):
            yield _statement(match, scale, counts=True)
        for match in self.line.finditer(text):
            counts = _FOLLOWED.match(text, match.end()) is not None
            yield _statement(match, scale, counts=counts)

    def sentences(self, text: str, scale: tuple[float, float]) -> Iterator[_Statement]:
        """Yield the ratings in sentences; only one that ends the answer counts."""
        for match in self.labeled.finditer(text):
            yield _statement(match, scale, counts=_END.match(text, match.end()) is not None)
        for clause in self.clauses:
            for match in clause.finditer(text):
                at = match.start()
                if not _HYPOTHETICAL.search(text, max(0, at - _SENTENCE), at):
                    counts = _END.match(text, match.end()) is not None
                    yield _statement(match, scale, counts=counts)


@lru_cache(maxsize=256)
def _patterns(form: Form, own: str) -> _Patterns:
    """Return the patterns for a form and for an aspect's name, which is a pattern itself."""
    value = _VALUES[form]
    label = rf"(?:{_LABEL}|{own}(?:\s(?:score|rating))?)" if own else _LABEL
    head = rf"{label}{_SCALE}?\s{{0,8}}[:：=|]\s{{0,12}}"
    # Without a label not below a name that is none: `Errors:\n3` is no rating.
    bare = r"(?<![:：]\n)(?<![:：]\n\n)[ \t]{0,8}(?:[-•][ \t]{1,4})?"
    line = (
        rf"(?im)^(?:[ \t]{{0,8}}{_BULLET}{head}|{bare}){value}[ \t]{{0,8}}[.;|]?[ \t\r]*"
        rf"(?:$|(?={_EXPLANATION}))"
    )
    begins = rf"(?:^[ \t]{{0,8}}{_BULLET}|(?<=[.!?;\"”])\s{{1,4}})"
    about = rf"(?:\sfor(?:\s\w{{1,20}})?\s\w{{0,3}}{own})?" if own else ""
    clauses = _CLAUSES if form == "number" else ()
    return _Patterns(
        re.compile(rf"(?i){value}\.?"),
        re.compile(rf"(?i){label}"),
        re.compile(line),
        re.compile(rf"(?im){begins}{head}{value}(?![\w/])"),
        tuple(re.compile(rf"(?i){clause}{about}(?![\w/])") for clause in clauses),
        re.compile(rf"(?i)\A\s*{value}(?(unit)|(?!))[ \t]*[.:;!]") if form == "stars" else None,
    )


def _own_name(aspect: str | None) -> str:
    """Return the pattern of an aspect's name, in any case and with spaces, `-` or `_` in it."""
    return r"[\s-]{1,3}".join(map(re.escape, re.findall(r"[^\s_*`-]+", aspect or "")))


def _statement(match: re.Match[str], scale: tuple[float, float], *, counts: bool) -> _Statement:
    held = match.groupdict()
    if held.get("glyphs"):
        stars = sum(sign != "\ufe0f" for sign in held["glyphs"])
        return _Statement(float(stars), None, match.span("glyphs"), counts)
    label = held["value"]
    if label.isalpha() and len(label) == 1:
        value = scale[0] + ord(label.upper()) - ord("A")
    else:
        value = _number(label)
    # `Score (1-10): 4` is out of 10, too.
    top = held["top"] or held.get("high")
    return _Statement(value, _number(top) if top else None, match.span("value"), counts)


def _number(text: str) -> float:
    word = _WORDS.get(text.lower())
    return float(text.replace(",", ".").replace("−", "-")) if word is None else word


def _without_markup(text: str) -> str:
    """Return the text with signs of emphasis replaced by spaces, so that places stay valid."""
    return _MARKUP.sub(_blanked, text)


def _blanked(match: re.Match[str]) -> str:
    boxed = match["boxed"]
    if boxed is None:
        return " "
    before = match.start("boxed") - match.start()
    return " " * before + boxed + " " * (match.end() - match.end("boxed"))


def _json_fields(
    text: str, plain: str, scale: tuple[float, float], form: Form, label: re.Pattern[str]
) -> Iterator[_Statement | NoRating]:
    """Yield what the rating fields of JSON objects say, up to one that holds no rating."""
    for part in find_json(text) if "{" in text else ():
        if not isinstance(part.value, JsonObject):
            continue
        begins_line = not plain[plain.rfind("\n", 0, part.start) + 1 : part.start].strip()
        counts = begins_line and _FOLLOWED.match(plain, part.end) is not None
        for key, held in [*part.value.items(), *part.value.contradicted.items()]:
            if not label.fullmatch(re.sub(r"[\s_-]+", " ", key.strip())):
                continue
            value = rating_of_field(held, scale, form)
            if value is None:
                yield _no_rating_in(key, held)
                return
            span = _place(text, key, part.start, part.end)
            yield _Statement(value, None, span, counts)


def _no_rating_in(key: str, held: Any) -> NoRating:
    shown = "null" if held is None else repr(held)[:40]
    declined = isinstance(held, str) and declines(held)
    return NoRating(
        DECLINED if declined else "NoScoreFound",
        f"the field {key!r} of the answer is {shown}, which is not a rating",
    )


def _place(text: str, key: str, start: int, end: int) -> tuple[int, int]:
    """Return where the value of a JSON field stands, or where the object does."""
    field = rf'"{re.escape(key)}"\s{{0,20}}:\s{{0,20}}"?(?P<value>[^\s",}}]{{1,40}})'
    found = list(re.compile(field).finditer(text, start, end))
    return found[-1].span("value") if found else (start, end)


def _settled(
    plain: str, statements: list[_Statement], scale: tuple[float, float], form: Form
) -> Rating | NoRating:
    """Return the one rating that is stated where a rating stands, or why there is none."""
    rating = next((one for one in reversed(statements) if one.counts), None)
    if rating is None:
        return _missing(plain, statements)
    low, high = scale
    if len({(one.value, one.top or high) for one in statements}) > 1:
        return NoRating("Contradictory", "the answer states more than one rating")
    start, end = rating.span
    if rating.top not in (None, high) or not low <= rating.value <= high:
        shown = plain[start:end] if form == "letters" else f"{rating.value:g}"
        out_of = f" out of {rating.top:g}" if rating.top is not None else ""
        return NoRating(
            "OffScale", f"the rating {shown}{out_of} is off {_scale_in_words(scale, form)}"
        )
    return Rating(rating.value, rating.span)


def _scale_in_words(scale: tuple[float, float], form: Form) -> str:
    if form == "letters":
        return f"the letters A to {chr(ord('A') + min(int(scale[1] - scale[0]), 25))}"
    return f"the scale from {scale[0]:g} to {scale[1]:g}"


def _missing(plain: str, statements: list[_Statement]) -> NoRating:
    if not plain.strip():
        return NoRating("NoScoreFound", "the answer is empty")
    if not statements and declines(plain):
        return NoRating(DECLINED, "the judge declined to rate")
    return NoRating("NoScoreFound", "the answer contains no rating in the form that was asked for")


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
    letters = "ABC" if ties else "AB"
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


QUOTED = 120


class JointAnswer(NamedTuple):
    """What one answer says of several aspects."""

    ratings: tuple[float | NoRating, ...]
    """For each aspect that was asked for, in that order."""
    invented: tuple[Json, ...] = ()
    """`{text, problem}` for each rated name that was not requested."""
    texts: tuple[str, ...] = ()
    """What stands beside and below each aspect's name, its rating among it; empty if it is left
    out."""


_LEFT_OUT = NoRating("NoScoreFound", "the answer leaves this aspect out")
_REFUSED = NoRating(DECLINED, "the judge declined to rate")
_ANY_NUMBER = (-1e6, 1e6)
"""The scale of what nobody asked for."""
# Fluency (1-3): 2
_PARENTHESES = lazy_pattern(r"\([^()]{0,60}\)")


def parse_joint(text: str, aspects: tuple[Aspect, ...], form: Form = "number") -> JointAnswer:
    """Return the rating of each aspect. Never raises; the first 40,000 characters are read."""
    reply = text[:MAX_ANSWER]
    by_key = _by_key(aspects)
    read: dict[str, list[Rating | NoRating]] = {aspect.id: [] for aspect in aspects}
    texts: dict[str, str] = {}
    invented: list[Json] = []
    for name, beside, rating in _from_json(reply, by_key, form) or _blocks(reply, by_key, form):
        aspect = by_key.get(_key(name, by_key))
        if aspect is not None:
            read[aspect.id].append(rating)
            texts.setdefault(aspect.id, beside)
        elif isinstance(rating, Rating):
            shown = f"{name.strip()}: {beside}"[:QUOTED]
            invented.append({"text": shown, "problem": "it was not requested"})
    missing = _REFUSED if not any(read.values()) and declines(reply) else _LEFT_OUT
    return JointAnswer(
        tuple(_agreed(read[aspect.id], missing) for aspect in aspects),
        tuple(invented),
        tuple(texts.get(aspect.id, "") for aspect in aspects),
    )


def _by_key(aspects: tuple[Aspect, ...]) -> dict[str, Aspect]:
    """Return the aspects by slug, and by that without parentheses if no other one has it."""
    by_key = {slug(aspect.name): aspect for aspect in aspects}
    short = [slug(_PARENTHESES.sub(" ", aspect.name)) for aspect in aspects]
    return {k: a for k, a in zip(short, aspects, strict=True) if short.count(k) == 1} | by_key


def _agreed(read: list[Rating | NoRating], missing: NoRating) -> float | NoRating:
    """Return the one rating of an aspect; several that differ are none."""
    values = {item.value for item in read if isinstance(item, Rating)}
    if len(values) > 1:
        listed = " and ".join(f"{value:g}" for value in sorted(values))
        return NoRating(
            "Contradictory", f"the answer rates this aspect more than once, as {listed}"
        )
    if values:
        return values.pop()
    return next((item for item in read if isinstance(item, NoRating)), missing)


# score-of-fluency, fluency-score: slugs of "Score of fluency" and "Fluency score"
_AFFIX = lazy_pattern(r"\A(?:(?:score|rating)-(?:of|for)-)|(?:-(?:score|rating))\Z")


def _key(name: str, by_key: dict[str, Aspect]) -> str:
    # "## 1. **Fluency" -> "Fluency"
    plain = re.sub(r"\A[\s#>*_`|(\[•–-]*(?:\(?\d{1,3}[.):]\s*)?", "", name)
    # Judges copy "(1-3)" from the prompt, or leave it out.
    key = slug(_PARENTHESES.sub(" ", plain))
    # parentheses that belong to the name
    if key not in by_key and (whole := slug(plain)) in by_key:
        return whole
    return key if key in by_key else _AFFIX.sub("", key)


class _Entry(NamedTuple):
    """What an answer says under one name."""

    name: str
    text: str
    """What stands beside and below the name."""
    rating: Rating | NoRating


def _from_json(text: str, by_key: dict[str, Aspect], form: Form) -> list[_Entry]:
    """Return what JSON objects say; a value may be an object with a `score` or `rating`."""
    entries = list[_Entry]()
    for part in find_json(text):
        if not isinstance(part.value, JsonObject):
            continue
        # A name that stands twice with different ratings has none.
        for name, held in [*part.value.items(), *part.value.contradicted.items()]:
            if isinstance(held, dict):
                held = held.get("score", held.get("rating"))
            aspect = by_key.get(_key(name, by_key))
            scale = aspect.scale if aspect else _ANY_NUMBER
            entries.append(_Entry(name, str(held), _field(held, scale, form)))
    return entries


def _field(held: object, scale: tuple[float, float], form: Form) -> Rating | NoRating:
    value = rating_of_field(held, scale, form)
    if value is None:
        return NoRating("NoScoreFound", f"the answer gives it {str(held)[:QUOTED]!r}")
    if not scale[0] <= value <= scale[1]:
        return NoRating("OffScale", f"the rating {value:g} is off the scale")
    return Rating(value, (0, 0))


# "1. **Fluency" up to the colon (or the bar of a table) before its rating
_HEAD = lazy_pattern(
    r"^(?P<name>[^:：=\n]{1,90}?)\s{0,3}(?:[:：=]|(?<=[^\s|])\s{0,20}\|)(?P<rest>.*)$"
)
# "Score: 3", "Reasoning: 2 facts are wrong" name no aspect
_NEUTRAL = lazy_pattern(
    r"(?i)\A[\W\d]*(?:final |overall )?(?:score|rating|reason(?:ing)?|rationale|explanation"
    r"|justification|comments?|definition|note|evidence|analysis|answer)\W*\Z"
)
# Score: 3   - **Rating:** 4
_SCORE_LABEL = lazy_pattern(r"(?i)\A\W{0,12}(?:score|rating)\W{0,6}(?=\d)")
### Engagement   Engagement:
_TITLE = lazy_pattern(r"\A[\s#>*_`]{0,12}[^\W\d_][^:：.!?,;\n]{0,60}[:：]?[\s*_]{0,6}\Z")


def _blocks(text: str, by_key: dict[str, Aspect], form: Form) -> Iterator[_Entry]:
    """Yield names with what stands beside and below them, up to the next name."""
    name, held = "", list[str]()
    lines = text.splitlines()
    for at, line in enumerate(lines):
        head = _head(line, by_key, form) or _title(lines, at)
        if head is None:
            held.append(line)
            continue
        if name:
            yield _entry(name, held, by_key, form)
        name, held = head[0], [head[1]]
    if name:
        yield _entry(name, held, by_key, form)


def _entry(name: str, held: list[str], by_key: dict[str, Aspect], form: Form) -> _Entry:
    aspect = by_key.get(_key(name, by_key))
    scale = aspect.scale if aspect else _ANY_NUMBER
    first, below = held[0].strip(" \t|*_"), "\n".join(held[1:]).strip()
    rating = parse_rating(first, scale=scale, form=form)
    if isinstance(rating, NoRating) and not first:
        rating = labeled_rating(
            below, scale=scale, form=form, aspect=aspect.name if aspect else None
        )
    beside = _SCALE_AT_END.search(name)
    if isinstance(rating, Rating) and beside and aspect and beside["high"] not in aspect.name:
        # `Fluency (1-10): 4` is out of 10
        stated = _Statement(rating.value, float(beside["high"]), rating.span, counts=True)
        rating = _settled(first or below, [stated], scale, form)
    return _Entry(name, f"{first}\n{below}".strip(), rating)


def _head(line: str, by_key: dict[str, Aspect], form: Form) -> tuple[str, str] | None:
    """Return name and rest of a line that begins what is said of one aspect, else `None`."""
    match = _HEAD.match(line)
    if match is None:
        return (line, "") if _key(line, by_key) in by_key else None
    name, rest = match["name"], match["rest"].strip()
    if _key(name, by_key) in by_key:
        return name, rest
    rated = isinstance(parse_rating(rest.strip(" |*_"), scale=_ANY_NUMBER, form=form), Rating)
    is_name = re.search(r"[^\W\d_]", name) and not _NEUTRAL.match(name)
    return (name, rest) if rated and is_name else None


def _title(lines: list[str], at: int) -> tuple[str, str] | None:
    """Return a line right above `Score: 3` as the name of an aspect that was not requested."""
    alone = at == 0 or not lines[at - 1].strip()
    if not alone or at + 1 == len(lines) or not _TITLE.match(lines[at]):
        return None
    if _NEUTRAL.match(lines[at]) or not _SCORE_LABEL.match(lines[at + 1]):
        return None
    return lines[at].strip(" \t#>*_`:："), ""
