r"""Values in a text: the numbers, letters and stars that may be a rating, and which of them count.

A number is bare if it counts nothing, belongs to no name, date or pair, and is not turned down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from textassay.agents.reading.words import (
    CHINESE_NUMBERS,
    HALF,
    LETTER,
    NO_NOUN,
    NUMBER,
    NUMBER_WORDS,
    TOP,
    UNIT,
)
from textassay.lazy import lazy_pattern

RatingForm = Literal["number", "letters", "stars"]
"""How ratings are asked for."""


class Statement(NamedTuple):
    """A rating that an answer states, on the scale or not."""

    value: float
    top: float | None
    """What it is out of, if the answer says so."""
    span: tuple[int, int]
    """Start and end of the value in the answer, in characters."""
    end: int
    """Where the value ends with all that belongs to it, such as `out of 5`."""


_VALUES: dict[RatingForm, str] = {
    "number": (
        rf"(?<!{LETTER})(?<![.,%$€£])(?P<value>{NUMBER})"
        rf"(?:{TOP}{UNIT}|{UNIT}(?!{LETTER}))"
    ),
    # an `I` by itself is the judge more often than the ninth letter
    "letters": r"(?<![\w.,'’])(?P<value>[A-Za-z])(?![\w'’])(?P<top>)",
    "stars": (
        rf"(?<!{LETTER})(?<![.,%$€£])(?P<value>{NUMBER})(?:{TOP})?{UNIT}(?!\w)"
        r"|(?P<glyphs>(?:[★⭐🌟][\ufe0f ]?){1,10})☆{0,10}"
    ),
}
WINDOW = 240
"""Characters before a number in which the clause that leads up to it begins, and behind it in which
its sentence ends; a sentence that is longer has no rating at that place."""


@lru_cache(maxsize=8)
def value_pattern(form: RatingForm) -> re.Pattern[str]:
    """Return the pattern of a value in a form, with the groups `value` (or `glyphs`) and `top`."""
    return re.compile(rf"(?i){_VALUES[form]}")


def statement_of(match: re.Match[str], low: float) -> Statement:
    """Return the statement of a matched value."""
    held = match.groupdict()
    if held.get("glyphs"):
        stars = sum(sign not in "\ufe0f " for sign in held["glyphs"])
        return Statement(float(stars), None, match.span("glyphs"), match.end())
    label = held["value"]
    if label.isascii() and label.isalpha() and len(label) == 1:
        value = low + ord(label.upper()) - ord("A")
    else:
        value = number_in(label)
    top = held["top"]
    return Statement(value, number_in(top) if top else None, match.span("value"), match.end())


def number_in(text: str) -> float:
    """Return the number that digits or a word stand for."""
    whole, *half = _AND_HALF.split(text.lower())
    word = NUMBER_WORDS.get(whole, CHINESE_NUMBERS.get(whole))
    number = float(whole.replace(",", ".").replace("−", "-")) if word is None else word
    return number + (0.5 if half else 0.0)


_AND_HALF = lazy_pattern(HALF)


def is_quoted(plain: str, line: int, at: int) -> bool:
    """Return whether a place lies inside quotation marks that opened on its line."""
    before = plain[line:at]
    if before.count("“") > before.count("”") or before.count("«") > before.count("»"):
        return True
    return before.count('"') % 2 == 1 and '"' in plain[at : at + WINDOW]


_COUNTS = lazy_pattern(
    rf"(?i)(?:\s(?:or|to|and)\s{NUMBER}(?=[ ]))?"  # 1 or 2 errors
    r"[ \t-]?(?:[%°‰]|\d+-[a-z]|per\s?cent\b|[ \t]?of\s(?!\d)"
    rf"|(?:(?<=[ -])(?!{NO_NOUN}\b)[^\W\d_]))"
)
# sentence 3, step 2: numbers of what is counted through
_NUMBERED = lazy_pattern(
    r"(?i)(?:[$€£#§¶№]|[^\W\d_]-|\w[~^@\\]|:\d|\d:|\b(?:sentence|paragraph|step|line|point|section|part|page|chapter"
    r"|criteri(?:on|a)|item|figure|table|question|claim|fact|example|turn|version|day|source"
    r"|document|passage|summary|response|output|text|number|no\.?|reference|year|week|month|round"
    r"|stage|phase)s?\s?"
    r"|\b(?:this|that|the|no|each|every|which|another|any|only)\s(?=one\b))\Z"
)
# why not a 5?   rather than a 5   not enough for a 5   to get a 5
_REJECTED = lazy_pattern(
    r"(?i)(?:\b(?:rather|instead|short|other|more|less|lower|higher)\s(?:than|of)"
    r"|\b(?:enough|needed|required|qualify)\sfor|\bnot\s(?:giving|awarding|assigning)"
    r"|\b(?:to|from)\s(?:be(?:ing)?|get(?:ting)?|earn(?:ing)?|reach(?:ing)?|deserv(?:e|ing)"
    r"|merit(?:ing)?|scor(?:e|ing)|receiv(?:e|ing)|warrant(?:ing)?|achiev(?:e|ing)"
    r"|justify(?:ing)?))\s(?:it\s)?(?:an?\s|the\s)?(?:[\w-]{1,12}\s)?"
    r"(?:(?:score|rating|grade|mark)\s(?:of\s)?)?\Z"
    # keeps it from a 5; where the article says 11
    r"|\bfrom\san?\s\Z|\b(?:says|said|states|claims|reads|mentions)\s\Z"
)
_PROPER = lazy_pattern(r"[a-z,’'] [A-Z][\w’'-]+ \Z")
_PAIR, _SECOND = lazy_pattern(r"[-–]\d"), lazy_pattern(r"\d[-–]\Z")
_WIDE_PAIR, _WIDE_SECOND = lazy_pattern(r"\s?[-–]\s?\d"), lazy_pattern(r"\d\s?[-–]\s?\Z")
# `one` is a pronoun or an article unless it is given, said to be, or stands by itself
_VALUED = lazy_pattern(
    r"(?i)(?:\b(?:an?|to|is|be|it|or|rather|so|that|minus|give|rate|score|than)|[:,;.–—-]|\A|\n)\s*\Z"
)
_PRONOUN = lazy_pattern(r"\s(?:that|which|who|of|could|can|might|may|cannot|does|has)\b")
# 15 * 4 = 60   1 = not toxic, 5 = toxic
_IN_SUM = lazy_pattern(r"[+×÷]\s{0,2}\Z|\d\s{1,3}\Z")
_DEFINES = lazy_pattern(r"\s?(?:[+×÷]|=\s?\w|(?:means|being|denotes|indicates|stands\sfor)\b)")
# where 1 is not helpful and 5 is very helpful
_OF_SCALE = lazy_pattern(
    r"(?i)\bwhere(?:\sa)?\s\Z|\b(?:is|being|means)\s[^.!?\n]{2,60}\b(?:and|while)(?:\sa)?\s\Z"
)
_LIST_MARK = lazy_pattern(r"(?:^|\n)[ \t]{0,8}(?:[-•*][ \t])?[(]?\Z")
_REQUIRES = lazy_pattern(
    rf"(?i)(?:\s(?:or|and)\s(?:an?\s)?{NUMBER})?\s(?:would\s(?:need|require|have)|requires?|needs?|demands?)\b"
)


def bare_numbers(
    text: str, form: RatingForm, low: float = 0.0, *, strict: bool = False
) -> Iterator[float]:
    """Yield the numbers that stand by themselves: they count nothing, and no one turns them down.

    Args:
        text: What follows a rating.
        form: How the rating was asked for; letters are bare in place of numbers.
        low: The lowest rating, which the letter A stands for.
        strict: Whether a number with a mere `not` before it counts, too.
    """
    for match in value_pattern(form).finditer(text):
        if _is_bare(text, match, form, strict=strict):
            yield statement_of(match, low).value


def _is_bare(text: str, match: re.Match[str], form: RatingForm, *, strict: bool = False) -> bool:
    """Return whether a number counts nothing, and no one turns it down or reports it."""
    start, end = match.span()
    before = text[max(0, start - 40) : start]
    if _COUNTS.match(text, end) or _NUMBERED.search(before):
        return False
    if text[end : end + 2][:1] == ":" and text[end + 1 : end + 2].isdigit():
        return False
    # Halo 3, May 2; and 2-0, which is the score of a match
    if _PROPER.search(before) or _PAIR.match(text, end) or _SECOND.search(before):
        return False
    if not strict and (_WIDE_PAIR.match(text, end) or _WIDE_SECOND.search(before)):
        return False
    if (match["value"] or "").lower() == "one" and (
        not _VALUED.search(before) or _PRONOUN.match(text, end)
    ):
        return False
    if _IN_SUM.search(before) or _DEFINES.match(text, end) or re.fullmatch(r"[12]\d{3}", match[0]):
        return False
    if _LIST_MARK.search(before) and re.match(r"[.)]\s+\S", text[end : end + 8]):
        return False
    if _OF_SCALE.search(text[max(0, start - 80) : start]) and re.match(
        r"\s(?:is|being|means)\s", text[end : end + 9]
    ):
        return False
    if _REJECTED.search(before) or _REQUIRES.match(text, end):
        return False
    if not strict and re.search(r"(?i)\bnot\s(?:quite\s)?(?:an?\s)?\Z", before):
        return False
    if is_quoted(text, text.rfind("\n", max(0, start - WINDOW), start) + 1, start):
        return False
    # articles and the judge are no letters
    return form != "letters" or (match["value"].isupper() and match["value"] != "I")
