"""Reads several ratings from one answer, each by the name beside it and never by its position.

An aspect that the answer leaves out has no rating, a name that was not requested is reported, and
an aspect that is rated twice and differently has none. Takes JSON, lines, tables, and blocks in
which the rating stands below the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from textassay.agents.reading.json_in_prose import JsonObject, find_json
from textassay.agents.reading.json_rating import NAME_KEYS, SCORE_KEYS
from textassay.agents.reading.rating import NoRating, Rating, blank_thoughts, parse_rating
from textassay.agents.reading.wording import Form
from textassay.runtime.messages import Aspect, slug
from textassay.runtime.model import Json

MAX_ANSWER = 40_000
QUOTED = 120


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """What one answer says of several aspects."""

    ratings: tuple[float | NoRating, ...]
    """For each aspect that was asked for, in that order."""
    invented: tuple[Json, ...] = ()
    """`{text, problem}` for each rated name that was not requested."""
    texts: tuple[str, ...] = ()
    """What stands beside and below each aspect's name, its rating among it; empty if it is left
    out."""


# Fluency (1-3): 2
_PARENTHESES = re.compile(r"\([^()]{0,60}\)")
LEFT_OUT = NoRating("NoScoreFound", "the answer leaves this aspect out")


def parse_joint(text: str, aspects: tuple[Aspect, ...], form: Form = "number") -> JointAnswer:
    """Return the rating of each aspect. Never raises; the first 40,000 characters are read.

    Args:
        text: What the judge said.
        aspects: What was asked for; the slugs of their names differ.
        form: How ratings were asked for.
    """
    reply = blank_thoughts(text)[:MAX_ANSWER]
    by_key = _by_key(aspects)
    named = _from_json(reply)
    pairs = list(named if named is not None else _blocks(reply, by_key))
    by_aspect: dict[str, list[Rating | NoRating]] = {}
    beside: dict[str, str] = {}
    invented: list[Json] = []
    for name, rest in pairs:
        key = _key(name, by_key)
        if key in by_key:
            aspect = by_key[key]
            by_aspect.setdefault(aspect.id, []).append(_rating(rest, aspect, form))
            beside.setdefault(aspect.id, rest.strip())
        elif _looks_rated(rest) or _SCORE_LABEL.match(rest):
            invented.append(
                {
                    "text": f"{name.strip()}: {rest.strip()}"[:QUOTED],
                    "problem": "it was not requested",
                }
            )
    # Whether the judge declines does not depend on the scale, so any one will do.
    declined = parse_rating(reply, scale=(0.0, 1.0)) if not by_aspect else None
    missing = (
        declined if isinstance(declined, NoRating) and declined.reason == "Declined" else LEFT_OUT
    )
    ratings = tuple(_settled(by_aspect.get(aspect.id, []), missing) for aspect in aspects)
    return JointAnswer(
        ratings, tuple(invented), tuple(beside.get(aspect.id, "") for aspect in aspects)
    )


def _by_key(aspects: tuple[Aspect, ...]) -> dict[str, Aspect]:
    """Return the aspects by slug.

    An aspect is also found under the slug of its name without parentheses, if no other aspect
    shares that slug.
    """
    by_key = {slug(aspect.name): aspect for aspect in aspects}
    short = [slug(_PARENTHESES.sub(" ", aspect.name)) for aspect in aspects]
    return {k: a for k, a in zip(short, aspects, strict=True) if short.count(k) == 1} | by_key


def _settled(read: list[Rating | NoRating], missing: NoRating) -> float | NoRating:
    """Return the one rating of an aspect; several that differ are none."""
    values = {item.value for item in read if isinstance(item, Rating)}
    if len(values) == 1:
        return values.pop()
    if values:
        listed = " and ".join(f"{value:g}" for value in sorted(values))
        return NoRating("NoScoreFound", f"the answer rates this aspect more than once, as {listed}")
    return next((item for item in read if isinstance(item, NoRating)), missing)


def _rating(rest: str, aspect: Aspect, form: Form) -> Rating | NoRating:
    """Return the rating in the text beside a name: in its first line, or else below."""
    first, _, below = rest.strip().partition("\n")
    read = parse_rating(first, scale=aspect.scale, form=form, aspect=aspect.name)
    if isinstance(read, NoRating) and read.reason == "NoScoreFound" and below.strip():
        return parse_rating(below, scale=aspect.scale, form=form, aspect=aspect.name)
    return read


# score-of-fluency, fluency-score: slugs of "Score of fluency" and "Fluency score"
_AFFIX = re.compile(r"\A(?:(?:score|rating)-(?:of|for)-)|(?:-(?:score|rating))\Z")


def _key(name: str, by_key: dict[str, Aspect]) -> str:
    # "## 1. **Fluency" -> "Fluency"
    plain = re.sub(r"\A[\s#>*_`\"'“”(\[•–-]*(?:\(?\d{1,3}[.):]\s*)?", "", name)
    # Judges copy "(1-3)" from the prompt, or leave it out.
    key = slug(_PARENTHESES.sub(" ", plain))
    if (
        key not in by_key and (whole := slug(plain)) in by_key
    ):  # parentheses that belong to the name
        return whole
    return key if key in by_key else _AFFIX.sub("", key)


# "4", "4/5", "**4** - because", "B.", "★★★" at the beginning of what stands beside a name
_RATED = re.compile(
    r"\W{0,12}(?:\d{1,4}(?:[.,]\d{1,3})?|[A-Z]|[★⭐🌟]+)(?=\W{0,6}(?:\Z|[/(,;.–—-]|\n|out"
    r" of|stars?\b|points?\b))"
)


def _looks_rated(rest: str) -> bool:
    return _RATED.match(rest.strip()) is not None


def _from_json(text: str) -> list[tuple[str, str]] | None:
    """Return names with what is said of them, from all JSON in an answer; `None` without any."""
    named: list[tuple[str, str]] = []
    seen = False
    for part in find_json(text):
        value = part.value
        if (
            isinstance(value, dict)
            and len(value) == 1
            and isinstance(inner := next(iter(value.values())), list | dict)
        ):
            value = _unwrapped(value, inner)
        if isinstance(value, dict):
            rows = [_named(value)] if _holds_name(value) else list(value.items())
            # a name that stands twice with different ratings has none
            rows += value.contradicted.items() if isinstance(value, JsonObject) else ()
        elif any(isinstance(row, dict) for row in value):
            rows = [_named(row) for row in value]
        else:  # [1], a reference
            continue
        seen = True
        named += [(str(name), _text_of(held)) for name, held in rows]
    return named if seen else None


def _holds_name(row: dict[str, Any]) -> bool:
    """Return whether an object is about one aspect: `{"aspect": "coherence", "score": 4}`."""
    return any(key in row for key in NAME_KEYS) and any(key in row for key in SCORE_KEYS)


def _unwrapped(outer: dict[str, Any], inner: Any) -> Any:
    """Return `inner` if it is the list of ratings, not the rating of one aspect."""
    return outer if isinstance(inner, dict) and any(key in inner for key in SCORE_KEYS) else inner


def _named(row: Any) -> tuple[Any, Any]:
    if not isinstance(row, dict):
        return "", row
    name = next((row[key] for key in NAME_KEYS if key in row), None)
    return (name, row) if name is not None else next(iter(row.items()), ("", ""))


def _text_of(held: Any) -> str:
    if isinstance(held, dict):
        held = next((held[key] for key in SCORE_KEYS if key in held), "")
    return (
        held
        if isinstance(held, str)
        else ""
        if isinstance(held, bool) or held is None
        else str(held)
    )


_PLAIN_LABEL = (
    r"(?:final |overall"
    r" )?(?:scor(?:e|ing)|rating|grade|reason(?:ing)?|rationale|explanation|justification|comments?"
    r"|definition|note|evidence|analysis|answer)"
)
# "Score: 3", "Reasoning: 2 facts are wrong" name no aspect
_NEUTRAL = re.compile(rf"(?i)\A[\W\d]*{_PLAIN_LABEL}(?:\s*\([^()]{{0,40}}\))?\W*\Z")
# "1. **Fluency", "- Fluency", "## Fluency" up to what separates it from its rating
_MARK = r"^(?P<name>[\s#>*_`\"'“(\[•–-]{0,12}(?:\(?\d{1,3}[.)]\s{0,3})?[^:：=|\n]{1,90}?)"
_HEADS = tuple(
    re.compile(_MARK + sign + r"(?P<rest>.*)$")
    for sign in (r"\s{0,3}[:：=|]", r"\s{1,3}[-–—]", r"\s(?=\d)")
)
"""What stands between a name and its rating: a colon, else a dash, else a space (with names that
are known)."""
# Fluency: 3, Coherence: 4 on one line
_SEVERAL = re.compile(r"(?<=[\d★⭐])\s{0,3}[,;|]\s{1,3}(?=[^\W\d_][^\n,;|:：=]{0,60}[:：=])")
# |---|:-:| between a table's header and its rows
_RULE = re.compile(r"\A[\s|:+-]*\Z")


def _blocks(text: str, by_key: dict[str, Aspect]) -> Iterator[tuple[str, str]]:
    """Yield names with what stands beside and below them, up to the next name."""
    name, held = "", list[str]()
    lines = list(_lines(text))
    for at, line in enumerate(lines):
        head = _head(line, by_key) or _title(lines, at)
        if head is None:
            held.append(line)
            continue
        if name:
            yield name, "\n".join(held)
        name, held = head[0], [head[1]]
    if name:
        yield name, "\n".join(held)


# Score: 3   - **Rating:** 4
_SCORE_LABEL = re.compile(r"(?i)\A\W{0,12}(?:score|rating)\W{0,6}(?=\d)")
### Engagement   Engagement:
_TITLE = re.compile(r"\A[\s#>*_`]{0,12}[^\W\d_][^:：.!?,;\n]{0,60}[:：]?[\s*_]{0,6}\Z")


def _title(lines: list[str], at: int) -> tuple[str, str] | None:
    """Return a line as the name of an aspect that was not requested.

    It stands alone, right above `Score: 3`.
    """
    alone = at == 0 or not lines[at - 1].strip()
    if (
        not alone
        or at + 1 == len(lines)
        or not _TITLE.match(lines[at])
        or _NEUTRAL.match(lines[at])
    ):
        return None
    return (lines[at].strip(" \t#>*_`:："), "") if _SCORE_LABEL.match(lines[at + 1]) else None


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        row = line.strip()
        if row.startswith("|"):  # a table's row reads as "Name: 4 because"
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            if len(cells) > 2 and re.fullmatch(r"\d{0,3}[.)]?", cells[0]):
                cells = cells[1:]
            if not _RULE.match(row):
                yield f"{cells[0]}: {next(filter(_looks_rated, cells[1:]), ' '.join(cells[1:]))}"
            continue
        yield from _SEVERAL.split(line)


def _head(line: str, by_key: dict[str, Aspect]) -> tuple[str, str] | None:
    """Return name and rest of a line that begins what is said of one aspect.

    `None` for any other line.
    """
    matches = [match for head in _HEADS if (match := head.match(line)) and match["rest"].strip()]
    for match in matches:
        if _key(match["name"], by_key) in by_key:
            return match["name"], match["rest"]
    for match in matches[:2]:
        if (
            _looks_rated(match["rest"])
            and not _NEUTRAL.match(match["name"])
            and re.search(r"[^\W\d_]", match["name"])
        ):
            return match["name"], match["rest"]
    return (line, "") if _key(line, by_key) in by_key else None
