r"""Reads the rating out of what a judge said.

Knows how judges phrase a rating, nothing of prompts or models. Reading has three steps. First what
holds a number but is no rating is blanked out, character for character, so that places stay valid:
ranges (`1-5`), legends (`1 = bad`), scale words (`5-point scale`), list numbers, the second half of
`2/5`. Then what is not the judge's own statement: quotations, questions, reported claims, and what
stands before a withdrawal (`Wait, no.`). Then rules are tried in the order of how sure they are,
and the first that matches decides, even if its number turns out to be off the scale:

1. JSON with a rating field, which decides even if it holds null, a list or an object;
2. nothing but a number (or `Four`);
3. a label for the judged aspect, or a final or plain one: `Coherence: 3`, `**Final score:** 4`;
4. a phrase: `a score of 3`, `scoring a one out of five`, `I would rate it a 4` (the last counts);
5. `3 out of 5`, `4/5`; stars in words or as glyphs;
6. one line with an unknown label: `Flow: 3`;
7. a number that opens (`4 - The summary`) or closes (`... auction. 2.5`) the answer.

Two statements of equal rank that differ are no rating (`Contradictory`).

Decisions worth knowing: any Unicode decimal digits count; `4,5` is four and a half and `1,000` a
thousand; `three and a half` is 3.5; a rating given as a range (`3-4`) or out of something else
(`8/10` where 5 is the top) is none; text between `<think>` and `</think>` is not the answer; of a
very long answer only beginning and end are read. Every pattern is bounded, so time is linear in the
text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from textassay.agents.reading.asides import own_words, withdrawals
from textassay.agents.reading.json_rating import Unusable, json_rating
from textassay.agents.reading.letters import stated_letters
from textassay.agents.reading.other_numbers import (
    FOREIGN,
    OUT_OF,
    NumberMatch,
    blank_distractors,
    compiled,
)
from textassay.agents.reading.wording import (
    DECLINED,
    Contradiction,
    Form,
    Statement,
    agreed,
    first_rating,
    stated_rating,
)
from textassay.lazy import lazy_pattern

Reason = Literal["NoScoreFound", "OffScale", "Declined", "Contradictory"]
"""Why there is no rating: the answer holds none, holds one that the scale does not have, says no,
or states two that differ."""


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


_HEAD, _TAIL = 10_000, 30_000
"""Characters that are read at the beginning and at the end of a longer answer."""

_SHORT = 40
"""Characters of an answer that is likely to be given again, and little to keep."""

# <think>The summary covers ...</think>: reasoning models begin with it, and weigh several ratings
# there
_THOUGHT = compiled(r"\A\s{0,20}<think(?:ing)?>")
_THOUGHT_END = compiled(r"</think(?:ing)?>")
# __3__ in Markdown, $3$ in LaTeX: elsewhere `_` joins words and `$` makes a price
_MARKED = lazy_pattern(r"(?<!\w)(?P<mark>__|\$)\d{1,3}(?:[.,]\d{1,2})?(?P=mark)(?!\w)")
_SAME_WIDTH: dict[int, int | str] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},  # full-width forms
    **dict.fromkeys(map(ord, "’‘ʼ"), "'"),
    **dict.fromkeys(map(ord, "“”„«»「」"), '"'),
    **dict.fromkeys(map(ord, "\u00a0\u202f\u2009\u3000"), " "),
    **dict.fromkeys(map(ord, "\u200b\u200c\u2060\ufeff"), " "),  # no width at all
    **dict.fromkeys(map(ord, FOREIGN + OUT_OF), " "),
    ord("："): ":",
}


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
        aspect: Name of the judged aspect; if an answer rates several, the rating under this name
            counts.
    """
    if len(text) <= _SHORT:
        return _parse_short(text, *scale, form, aspect)
    return _parse(text, scale, form, aspect)


@lru_cache(
    maxsize=1024, typed=True
)  # a number, a letter, `Rating: 4`: judges who say no more say the same again
def _parse_short(
    text: str, low: float, high: float, form: Form, aspect: str | None
) -> Rating | NoRating:
    return _parse(text, (low, high), form, aspect)


def _parse(
    text: str, scale: tuple[float, float], form: Form, aspect: str | None
) -> Rating | NoRating:
    answer = blank_thoughts(text)
    cut = max(0, len(answer) - _HEAD - _TAIL)
    if cut:
        answer = answer[:_HEAD] + "\n" + answer[_HEAD + cut :]
    # Character for character, so that places in the result are places in the answer.
    shown = answer if answer.isascii() else answer.translate(_SAME_WIDTH)
    rating = _read(shown, scale, form, aspect)
    # Back from the place in the shortened text; one character is the line break put in between.
    if cut and isinstance(rating, Rating) and rating.span[0] > _HEAD:
        return Rating(rating.value, (rating.span[0] + cut - 1, rating.span[1] + cut - 1))
    return rating


def _read(
    shown: str, scale: tuple[float, float], form: Form, aspect: str | None
) -> Rating | NoRating:
    statement: Statement | Unusable = None
    # JSON decides before prose: what a form asks for in a field is not overruled by words around
    # it.
    if "{" in shown:
        statement = json_rating(shown, scale, form, aspect)
    if statement is None:
        statement = (
            _letter(shown, scale) if form == "letters" else _number(shown, scale, form, aspect)
        )
    if statement is None:
        return _missing(shown)
    if isinstance(statement, Unusable):
        return NoRating("Declined" if statement.declined else "NoScoreFound", statement.message)
    if isinstance(statement, Contradiction):
        return NoRating("Contradictory", statement.message)
    return _on_scale(shown, statement, scale, form)


def _on_scale(
    shown: str, statement: NumberMatch, scale: tuple[float, float], form: Form
) -> Rating | NoRating:
    value, (start, end) = statement
    if value is None:
        return NoRating(
            "OffScale",
            f"the rating is not one number on the scale from {scale[0]:g} to {scale[1]:g}",
        )
    if not scale[0] <= value <= scale[1]:
        if form == "letters":
            top = chr(ord("A") + min(int(scale[1] - scale[0]), 25))
            return NoRating("OffScale", f"{shown[start:end]} is not one of the letters A to {top}")
        return NoRating(
            "OffScale", f"the rating {value:g} is off the scale from {scale[0]:g} to {scale[1]:g}"
        )
    while (
        shown[start].isalpha() and end < len(shown) and shown[end].isalpha()
    ):  # a number that was spelled out
        end += 1
    return Rating(value, (start, end))


def _number(shown: str, scale: tuple[float, float], form: Form, aspect: str | None) -> Statement:
    """Return the rating in prose.

    The one after the last withdrawal that is followed by one, else any.
    """
    plain = _MARKED.sub(_unmarked, shown) if "__" in shown or "$" in shown else shown
    prose = own_words(blank_distractors(plain, scale))
    # Looked for in the text as it was said: "Wait, is it a 4?" is blanked as a question in `prose`.
    for at in withdrawals(shown):
        kept = stated_rating(prose[at:], scale, form, aspect)
        if isinstance(kept, Contradiction):
            return kept
        if kept is not None:
            value, (start, end) = kept
            return value, (start + at, end + at)
    return first_rating(prose, scale, form, aspect)


def _unmarked(match: re.Match[str]) -> str:
    return match[0].replace(match["mark"], " " * len(match["mark"]))


def _letter(shown: str, scale: tuple[float, float]) -> Statement | Unusable:
    """Return the rating behind a letter: A is the lowest point of the scale."""
    points = [
        (scale[0] + ord(m["letter"].upper()) - ord("A"), m.span("letter"))
        for m in stated_letters(shown)
    ]
    statement = agreed(points)
    if isinstance(statement, Contradiction):
        return Contradiction("the answer states more than one letter")
    return statement


def _missing(shown: str) -> NoRating:
    if DECLINED.search(shown):
        return NoRating("Declined", "the judge declined to rate")
    return NoRating(
        "NoScoreFound", "the answer contains no rating" if shown.strip() else "the answer is empty"
    )


def blank_thoughts(text: str) -> str:
    """Return an answer with a leading `<think>...</think>` block replaced by spaces."""
    if not _THOUGHT.match(text):
        return text
    ends = [m.end() for m in _THOUGHT_END.finditer(text)]
    # Never closed means that the answer was cut off while the judge was still thinking.
    end = ends[-1] if ends else len(text)
    return " " * end + text[end:]
