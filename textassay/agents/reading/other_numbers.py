"""Numbers in a judge's answer, and the blanking of those that are certainly no rating.

Blanking goes character for character, so that places stay valid. A number on another scale (`8/10`,
`3-4`) is not blanked but becomes `FOREIGN` characters: it is what the judge said, and no rating on
the scale asked for.
"""

from __future__ import annotations

import re

from textassay.lazy import lazy_pattern

NumberMatch = tuple[float | None, tuple[int, int]]
"""A number's value and place; the value is `None` for a range and for a number on another scale."""

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WORD = "(?:" + "|".join(_WORDS) + ")"
FOREIGN, OUT_OF = (
    "\ue000",
    "\ue001",
)  # stand for: a number on some other scale; "out of <the top of the scale>"

# the width of one rating: digits that are no part of a word, price, date, time, version or
# percentage
NUMBER = (
    r"(?:(?<![\w$€£#/])(?<!\d[.,:])(?<!\d-)"
    r"(?P<number>[+\-−]?\d++(?:[.,]\d++)?+)(?P<half>½|\s{1,8}and\s{1,3}(?:a|one)\s{1,8}half\b)?+"
    rf"(?![\w%/°])(?![.,:\-–]\d)(?!\s%)|(?P<foreign>{FOREIGN}++))"
)
# "4", "4.5" or "four"
_EITHER = rf"(?:\d{{1,3}}(?:\.\d{{1,2}})?|\b{_WORD}\b)"
_ON = r"(?<![\w.,/])"
_OFF = r"(?![\w%]|[.,]\d)"


def compiled(text: str) -> re.Pattern[str]:
    """Return a pattern that takes upper case for lower case."""
    return lazy_pattern(text, re.IGNORECASE)


_DIGITS = lazy_pattern(r"\d+")
_ANY = compiled(rf"\d+|\b{_WORD}\b")
# 4/5   8 out of 10   four out of a possible five
_OUT_OF_SOMETHING = compiled(
    rf"{_ON}(?P<got>{_EITHER})(?P<rest>(?:\s{{0,2}}/\s{{0,2}}"
    rf"|\s{{1,3}}(?:out\s{{1,3}})?of\s{{1,3}}(?:a\s{{1,3}}"
    rf"(?:possible\s{{1,3}})?)?)(?P<top>{_EITHER}))(?!/){_OFF}"
)
# a scale of 1 to 5   scale: 1 (worst) - 5
_SCALE = compiled(
    rf"\bscale\s{{0,3}}(?:of|from|is|:|being)?\s{{0,3}}\(?\[?{_EITHER}[^\d\n.]{{0,40}}?"
    rf"(?:\bto\b|\band\b|\bthrough\b|[-–—])\s{{0,3}}{_EITHER}{_OFF}"
)
# between 1 and 5
_BETWEEN = compiled(rf"\bbetween\s{{1,3}}{_EITHER}\s{{1,3}}and\s{{1,3}}{_EITHER}{_OFF}")
# (1-5)   [1 to 5]
_BRACKETED = compiled(rf"[(\[]\s?{_EITHER}\s?(?:[-–—~]|to)\s?{_EITHER}(?=\s?[)\],:;])")
# Score (out of 5): / Rating (max. 5): / Score out of 5:
_LIMIT = compiled(
    rf"(?<=[(\[])\s?(?:out\s{{1,3}}of|of|max(?:imum)?\.?(?:\s{{1,3}}of)?|up\s{{1,3}}to"
    rf"|/)\s{{0,3}}{_EITHER}\s?(?=[)\]])"
    rf"|\bout\s{{1,3}}of\s{{1,3}}{_EITHER}(?=\s{{0,3}}[:=])"
)
# [3, 4] or a bare 3, 4: several numbers are no rating
_SEVERAL = lazy_pattern(
    r"(?:\[\s?|\A\s{0,8}(?=[\d.,;\s]{1,80}\Z))\d{1,4}(?:\.\d{1,3})?(?:\s{0,2}[,;]\s{1,3}\d{1,4}"
    r"(?:\.\d{1,3})?){1,20}"
)
# 3-4   3 to 4   three or four
_RANGE = compiled(
    rf"{_ON}(?P<low>{_EITHER})(?P<link>\s{{0,2}}[-–—~‐‑]\s{{0,2}}|\s{{1,3}}(?:to"
    rf"|or)\s{{1,3}})(?P<high>{_EITHER}){_OFF}"
)
# 5-point Likert scale   a 5 star rating system
_POINTS = compiled(
    rf"{_ON}{_EITHER}[-‑\s]?(?:point|star|level)s?[-\s]{{1,3}}(?:likert\s{{1,3}})?"
    rf"(?:rating\s{{1,3}})?(?:scale|system)"
)
# 1 = bad   5 being the best   where 1 is worst
_LEGEND = compiled(
    rf"{_ON}{_EITHER}\s{{0,3}}(?:=|(?:is\s{{1,3}})?being\b|means\b|meaning\b|represent|denot"
    rf"|(?:is\s{{1,3}}|as\s{{1,3}})?"
    rf"the\s{{1,3}}(?:lowest|highest|worst|best)\b)|\bwhere\s{{1,3}}{_EITHER}\s{{1,3}}is\b"
)
# "1. It reads well." in a list, as opposed to "4. " that opens an answer: only two or more count
_LISTED = lazy_pattern(r"(?m)^[ \t>*_#-]{0,8}(?P<mark>\d{1,2}[.)])(?=[ \t]{1,4}[^\s\d])")
# "a four", "rating: Four", "three stars", but not "one of the", "two sentences", "four-part"
_SPELLED = compiled(
    rf"(?:(?<=\bof\s)|(?<=\ba\s)|(?<=\ban\s)|(?<=\bis\s)|(?<=\bas\s)|(?<=\bbe\s)|(?<=\bit\s)"
    rf"|(?<=\bat\s)|(?<=:\s)|(?<=:)"
    rf"|(?<=\A)|(?<=[\n*\"'(])){_WORD}\b(?!-\w|\s{{1,3}}of\b|\s(?:sentence|word|thing|more|that"
    rf"|who)"
    rf")|\b{_WORD}(?=[\s-]{{0,3}}(?:{OUT_OF}|(?:and\s{{1,3}}a\s{{1,3}}half\s{{1,3}})?"
    rf"(?:full\s)?stars?\b|points?\b))"
)

_A_WORD = compiled(rf"\b{_WORD}")


def found_in(m: re.Match[str], offset: int = 0) -> NumberMatch:
    """Return the number of a match of a pattern that holds `NUMBER`.

    Places are moved by `offset`.
    """
    if m["foreign"] is not None:
        start, end = m.span("foreign")
        return None, (start + offset, end + offset)
    start, end = m.span("number")
    value = _decimal(m["number"])
    if m["half"] is not None:
        value, end = value + 0.5, m.end("half")
    return value, (start + offset, end + offset)


def _decimal(digits: str) -> float:
    digits = digits.replace("−", "-")
    whole, comma, part = digits.partition(",")
    if comma:
        # 1,000 is a thousand; 4,5 is four and a half, as most of Europe writes it.
        digits = whole + part if len(part) == 3 else f"{whole}.{part}"
    return float(
        digits[:400]
    )  # longer ones are off every scale, and float() takes time over a megabyte of digits


def _number(word: str) -> float:
    word = word.lower()
    return float(_WORDS.index(word)) if word in _WORDS else float(word)


def blank_distractors(text: str, scale: tuple[float, float]) -> str:
    """Return text of the same length in which no number is left that is certainly not a rating."""
    given, spelled = (
        text,
        _A_WORD.search(text) is not None,
    )  # most answers spell no number, and digits are found fast
    # Pairs need two numbers; most answers have one, and these patterns are the slowest.
    if len((_ANY if spelled else _DIGITS).findall(text)) > 1:
        text = _blank_pairs(text, scale)
    for pattern in (_POINTS, _LEGEND, _LIMIT):
        text = pattern.sub(_blank, text)
    if spelled or (
        text != given and _A_WORD.search(text)
    ):  # what `_SPELLED` looks back for stands everywhere
        text = _SPELLED.sub(_digit, text)
    if len(_LISTED.findall(text)) > 1:
        text = _LISTED.sub(_blank, text)
    return text


def _blank_pairs(text: str, scale: tuple[float, float]) -> str:
    """Blank what holds two numbers that belong together."""

    def share(m: re.Match[str]) -> str:
        if _number(m["top"]) == scale[1]:
            return m["got"] + OUT_OF * len(m["rest"])
        return FOREIGN * len(m[0])

    def interval(m: re.Match[str]) -> str:
        low, high = _number(m["low"]), _number(m["high"])
        if (low, high) == scale:
            return _blank(m)
        spaced_dash = m["link"][0].isspace() and not m["link"].strip().isalpha()
        return (
            m[0] if spaced_dash or low >= high else FOREIGN * len(m[0])
        )  # "4 - 3 facts are wrong" is no range

    # Scales before ranges: "on a scale of 1-5" is no rating at all, "3-4" is one that cannot be
    # used.
    for pattern in (_SCALE, _BETWEEN, _BRACKETED):
        text = pattern.sub(_blank, text)
    text = _SEVERAL.sub(_foreign, _RANGE.sub(interval, text))
    return _OUT_OF_SOMETHING.sub(share, text)


def _blank(m: re.Match[str]) -> str:
    return " " * len(m[0])


def _foreign(m: re.Match[str]) -> str:
    return FOREIGN * len(m[0])


def _digit(m: re.Match[str]) -> str:
    return str(_WORDS.index(m[0].lower())).ljust(len(m[0]))
