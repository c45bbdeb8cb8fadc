"""Reads the ratings of several aspects out of one answer.

Each rating is read by the name beside it, never by its position: from JSON objects with the
aspects' names as keys, or with a field that names the aspect and one that holds its rating; from
lines, `Name: rating` or the name alone with `Score: rating` below it. An aspect that the answer
leaves out has no rating, a name that was not requested is reported, and an aspect that is rated
twice and differently has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from textassay.agents.reading.json_fields import other_scale_in, rating_of_field, subject_of
from textassay.agents.reading.json_in_prose import JsonObject, find_json
from textassay.agents.reading.notation import plain_text
from textassay.agents.reading.outcomes import DECLINED, NoRating, Rating, declines
from textassay.agents.reading.ratings import MAX_ANSWER, parse_rating
from textassay.agents.reading.scales import without_scales
from textassay.agents.reading.values import RatingForm
from textassay.lazy import lazy_pattern
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Json

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


def parse_joint(text: str, aspects: tuple[Aspect, ...], form: RatingForm = "number") -> JointAnswer:
    """Return the rating of each aspect. Never raises; the first 40,000 characters are read."""
    reply = plain_text(text[:MAX_ANSWER])
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


def _from_json(text: str, by_key: dict[str, Aspect], form: RatingForm) -> list[_Entry]:
    """Return what JSON says.

    Names are keys, whose values may be objects with a `score` or `rating`, or stand in a field
    `aspect` beside them, one object each; either may lie in a field or a list of another object.
    """
    entries = list[_Entry]()
    for part in find_json(text) if "{" in text else ():
        for held in _objects(part.value, by_key):
            entries += _entries_of(held, by_key, form)
    return entries


def _objects(held: object, by_key: dict[str, Aspect]) -> Iterator[JsonObject]:
    """Yield the objects that hold ratings: the value, its items, or what a field wraps."""
    if isinstance(held, list):
        for one in held:
            yield from _objects(one, by_key)
    elif isinstance(held, JsonObject):
        yield held
        for key, inner in held.items():
            wraps = isinstance(inner, list) or (
                isinstance(inner, JsonObject) and any(_key(k, by_key) in by_key for k in inner)
            )
            if wraps and _key(key, by_key) not in by_key:
                yield from _objects(inner, by_key)


def _entries_of(held: JsonObject, by_key: dict[str, Aspect], form: RatingForm) -> Iterator[_Entry]:
    subject = subject_of(held)
    # A name that stands twice with different ratings has none.
    pairs = [*held.items(), *held.contradicted.items()]
    if subject is not None:
        pairs = [(subject, value) for key, value in pairs if key.lower() in ("score", "rating")]
    for name, value in pairs:
        aspect = by_key.get(_key(name, by_key))
        holder = value if isinstance(value, JsonObject) else held
        if isinstance(value, JsonObject):
            value = value.get("score", value.get("rating"))
        elif isinstance(value, list) and aspect is None:
            continue
        scale = aspect.scale if aspect else _ANY_NUMBER
        rating = _field(value, scale, form)
        other = aspect and (other_scale_in(holder, scale) or other_scale_in(held, scale))
        if other and isinstance(rating, Rating):
            rating = NoRating("OffScale", f"the answer names another scale ({other:.60})")
        # what an object says of itself is no aspect
        if aspect is not None or not _ABOUT_SCALE.search(name):
            yield _Entry(name, str(value), rating)


_ABOUT_SCALE = lazy_pattern(r"(?i)scale|max|min|out.?of|range|total|overall.?comment")


def _field(held: object, scale: tuple[float, float], form: RatingForm) -> Rating | NoRating:
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


def _blocks(text: str, by_key: dict[str, Aspect], form: RatingForm) -> Iterator[_Entry]:
    """Yield names with what stands beside and below them, up to the next name."""
    name, held, above = "", list[str](), list[str]()
    lines = [one for line in text.splitlines() for one in _split(line, by_key)]
    for at, line in enumerate(lines):
        head = _head(line, by_key, form) or _title(lines, at)
        if head is None:
            (held if name else above).append(line)
            continue
        if name:
            yield _entry(name, held, by_key, form, "\n".join(above))
        name, held = head[0], [head[1]]
    if name:
        yield _entry(name, held, by_key, form, "\n".join(above))


def _split(line: str, by_key: dict[str, Aspect]) -> list[str]:
    """Return the parts of `Relevance: 4, Flow: 3`, or the line if it is not all names."""
    parts = re.split(r"(?<=\d)[ \t]?[,;][ \t](?=[^\W\d])", line)
    names = [_key(part.partition(":")[0], by_key) for part in parts]
    return parts if len(parts) > 1 and all(name in by_key for name in names) else [line]


def _entry(
    name: str, held: list[str], by_key: dict[str, Aspect], form: RatingForm, above: str
) -> _Entry:
    aspect = by_key.get(_key(name, by_key))
    scale = aspect.scale if aspect else _ANY_NUMBER
    first, below = held[0].strip(" \t|*_"), "\n".join(held[1:]).strip()
    rating = parse_rating(first, scale=scale, form=form)
    if isinstance(rating, NoRating) and not first:
        rating = parse_rating(below, scale=scale, form=form, aspect=aspect.name if aspect else None)
    if isinstance(rating, Rating) and aspect is not None:
        # `Fluency (1-10): 4` is out of 10, and so is all below `I use a scale of 1 to 10`
        beside = name if name.strip(" *#") not in aspect.name else ""
        other = without_scales(f"{above}\nScore {_LAST.sub('', beside)}:\n{below}", scale, "")[1]
        if other:
            rating = NoRating("OffScale", f"the answer names another scale ({other:.60})")
    return _Entry(name, f"{first}\n{below}".strip(), rating)


# the words of a name before `(1-10)`, which is looked at alone
_LAST = lazy_pattern(r"\A[^(\[]*")


def _head(line: str, by_key: dict[str, Aspect], form: RatingForm) -> tuple[str, str] | None:
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
