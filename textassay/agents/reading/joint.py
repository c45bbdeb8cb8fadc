"""Reads the ratings of several aspects out of one answer.

Each rating is read by the name beside it, never by its position: from JSON objects with the
aspects' names as keys, or with a field that names the aspect and one that holds its rating; from
lines, `Name: rating` or the name alone with `Score: rating` below it. An aspect that the answer
leaves out has no rating, a name that was not requested is reported, and an aspect that is rated
twice and differently has none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from textassay.agents.reading.json_fields import (
    JsonField,
    fields_of,
    other_scale_beside,
    rating_of_field,
)
from textassay.agents.reading.json_in_prose import find_json
from textassay.agents.reading.lists import slugs_of
from textassay.agents.reading.notation import plain_text
from textassay.agents.reading.outcomes import (
    DECLINED,
    MAX_ANSWER,
    MAX_QUOTED,
    NoRating,
    Rating,
    RatingForm,
)
from textassay.agents.reading.ratings import parse_rating
from textassay.agents.reading.scales import without_scales
from textassay.lazy import lazy_pattern
from textassay.runtime.base import Json
from textassay.runtime.declining import declines
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect


class JointAnswer(NamedTuple):
    """What one answer says of several aspects."""

    ratings: tuple[float | NoRating, ...]
    """For each aspect that was asked for, in that order."""
    invented: tuple[Json, ...] = ()
    """`{text, problem}` for each rated name that was not requested."""
    texts: tuple[str, ...] = ()
    """The text beside and below each aspect's name, with its rating; empty for a missing aspect."""


def parse_joint(text: str, aspects: tuple[Aspect, ...], form: RatingForm = "number") -> JointAnswer:
    """Return the rating of each aspect. Never raises; the first 40,000 characters are read."""
    reply = plain_text(text[:MAX_ANSWER])
    reader = _JointReader(aspects, form)
    read: dict[str, list[_Entry]] = {aspect.id: [] for aspect in aspects}
    invented: list[Json] = []
    for entry in list(reader.read_json(reply)) or reader.read_lines(reply):
        if entry.aspect is not None:
            read[entry.aspect.id].append(entry)
        elif isinstance(entry.rating, Rating):
            shown = f"{entry.name.strip()}: {entry.text}"[:MAX_QUOTED]
            invented.append({"text": shown, "problem": "it was not requested"})
    missing = NoRating("NoScoreFound", "the answer leaves this aspect out")
    if not any(read.values()) and declines(reply):
        missing = NoRating(DECLINED, "the judge declined to rate")
    return JointAnswer(
        tuple(_agree_on([entry.rating for entry in read[a.id]], missing) for a in aspects),
        tuple(invented),
        tuple(read[a.id][0].text if read[a.id] else "" for a in aspects),
    )


def _agree_on(read: list[Rating | NoRating], missing: NoRating) -> float | NoRating:
    """Return the rating of an aspect; ratings that differ count as missing."""
    values = {item.value for item in read if isinstance(item, Rating)}
    if len(values) > 1:
        listed = " and ".join(f"{value:g}" for value in sorted(values))
        message = f"the answer rates this aspect more than once, as {listed}"
        return NoRating("Contradictory", message)
    if values:
        return values.pop()
    return next((item for item in read if isinstance(item, NoRating)), missing)


class _Entry(NamedTuple):
    """What an answer says under one name."""

    aspect: Aspect | None
    """The one that is meant; `None` if it was not requested."""
    name: str
    text: str
    """The text beside and below the name."""
    rating: Rating | NoRating


_ANY_NUMBER = (-1e6, 1e6)
"""The scale for names that were not requested."""
_ABOUT_SCALE = lazy_pattern(r"(?i)scale|max|min|out.?of|range|total|overall.?comment")
# "1. **Fluency" up to the colon (or the bar of a table) before its rating
_HEAD = lazy_pattern(
    r"^(?P<name>[^:：=\n]{1,90}?)\s{0,3}(?:[:：=]|(?<=[^\s|])\s{0,20}\|)(?P<rest>.*)$"
)
# "Score: 3", "Reasoning: 2 facts are wrong" name no aspect
_NEUTRAL = lazy_pattern(
    r"(?i)\A[\W\d]*(?:final |overall )?(?:score|rating|reason(?:ing)?|rationale|explanation"
    r"|justification|comments?|definition|note|evidence|analysis|answer)\W*\Z"
)
# ### Engagement   Engagement:   above   Score: 3
_TITLE = lazy_pattern(
    r"[\s#>*_`]{0,12}(?P<name>[^\W\d_][^:：.!?,;\n]{0,60})[:：]?[\s*_]{0,6}"
    r"\n(?i:\W{0,12}(?:score|rating)\W{0,6})\d"
)


class _JointReader:
    """Reads the parts of an answer under the names of aspects."""

    def __init__(self, aspects: tuple[Aspect, ...], form: RatingForm) -> None:
        self._form: RatingForm = form
        # without parentheses, too, if no other aspect is called so
        short = Counter(slugs_of(aspect.name)[2] for aspect in aspects)
        self._by_slug = {
            name: aspect for aspect in aspects if short[name := slugs_of(aspect.name)[2]] == 1
        } | {slug(aspect.name): aspect for aspect in aspects}

    def aspect_of(self, name: str) -> Aspect | None:
        """Return the aspect that an answer means by a name."""
        return next((self._by_slug[one] for one in slugs_of(name) if one in self._by_slug), None)

    def read_json(self, text: str) -> Iterator[_Entry]:
        """Yield the ratings of the JSON in an answer, and the other numbers in it under names."""
        for part in find_json(text, lenient=True) if "{" in text else ():
            for field in fields_of(JsonField("", part.value), self.aspect_of):
                name = field.about or field.key
                aspect = self.aspect_of(name) if field.kind == "own" else None
                rating = self._rating_in(field, aspect)
                is_named = field.is_rating or name == field.key
                is_rated = isinstance(rating, Rating) and not _ABOUT_SCALE.search(name)
                if aspect or (is_named and is_rated):
                    yield _Entry(aspect, name, str(field.value), rating)

    def _rating_in(self, field: JsonField, aspect: Aspect | None) -> Rating | NoRating:
        scale = aspect.scale if aspect else _ANY_NUMBER
        value = rating_of_field(field.value, scale, self._form)
        if value is None:
            return NoRating(
                "NoScoreFound", f"the answer gives it {str(field.value)[:MAX_QUOTED]!r}"
            )
        if not scale[0] <= value <= scale[1]:
            return NoRating("OffScale", f"the rating {value:g} is off the scale")
        other = other_scale_beside(field, scale) if aspect else ""
        return _other_scale(other) if other else Rating(value, (0, 0))

    def read_lines(self, text: str) -> Iterator[_Entry]:
        """Yield names with the text beside and below them, up to the next name."""
        lines = [part for line in text.splitlines() for part in self._split(line)]
        heads = [self._head(line) or self._title(lines, at) for at, line in enumerate(lines)]
        starts = [at for at, head in enumerate(heads) if head]
        above = "\n".join(lines[: starts[0]]) if starts else ""
        for start, end in pairwise([*starts, len(lines)]):
            name, beside = heads[start] or ("", "")
            yield self._entry(name, beside, "\n".join(lines[start + 1 : end]).strip(), above)

    def _split(self, line: str) -> list[str]:
        """Return the parts of `Relevance: 4, Flow: 3`, or the line if it is not all names."""
        parts = re.split(r"(?<=\d)[ \t]?[,;][ \t](?=[^\W\d])", line)
        named = all(self.aspect_of(part.partition(":")[0]) for part in parts)
        return parts if len(parts) > 1 and named else [line]

    def _head(self, line: str) -> tuple[str, str] | None:
        """Return name and rest of a line that begins what is said of one aspect, else `None`."""
        match = _HEAD.match(line)
        name, rest = (match["name"], match["rest"].strip()) if match else (line, "")
        if self.aspect_of(name):
            return name, rest
        rated = parse_rating(rest.strip(" |*_"), scale=_ANY_NUMBER, form=self._form)
        is_name = re.search(r"[^\W\d_]", name) and not _NEUTRAL.match(name)
        return (name, rest) if isinstance(rated, Rating) and is_name else None

    def _title(self, lines: list[str], at: int) -> tuple[str, str] | None:
        """Return a line right above `Score: 3` as the name of an aspect that was not requested."""
        if at > 0 and lines[at - 1].strip():
            return None
        title = _TITLE.match("\n".join(lines[at : at + 2]))
        return (title["name"], "") if title and not _NEUTRAL.match(lines[at]) else None

    def _entry(self, name: str, beside: str, below: str, above: str) -> _Entry:
        aspect = self.aspect_of(name)
        scale = aspect.scale if aspect else _ANY_NUMBER
        first = beside.strip(" \t|*_")
        label = aspect.name if aspect and not first else None
        rating = parse_rating(first or below, scale=scale, form=self._form, aspect=label)
        if isinstance(rating, Rating) and aspect is not None:
            # `Fluency (1-10): 4` is out of 10, and so is all below `I use a scale of 1 to 10`
            own = name.strip(" *#") in aspect.name
            brackets = "" if own else re.sub(r"\A[^(\[]*", "", name)
            if other := without_scales(f"{above}\nScore {brackets}:\n{below}", scale, "")[1]:
                rating = _other_scale(other)
        return _Entry(aspect, name, f"{first}\n{below}".strip(), rating)


def _other_scale(other: str) -> NoRating:
    return NoRating("OffScale", f"the answer names another scale ({other:.60})")
