"""Finds the scales that an answer names, the asked one or another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from textassay.agents.reading.notation import blank_out
from textassay.agents.reading.outcomes import RatingForm
from textassay.agents.reading.sentences import names_rating
from textassay.agents.reading.values import is_quoted, lower_of, number_in
from textassay.agents.reading.words import FOREIGN, GIVING, NOUN, NUMBER, any_of
from textassay.lazy import lazy_pattern


def numbers_of(value: object) -> list[float]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, str):
        return [number_in(found) for found in HAS_NUMBER.findall(value)]
    if isinstance(value, dict):
        value = list(value.values())
    return [n for one in value for n in numbers_of(one)] if isinstance(value, list) else []


def is_scale(numbers: Sequence[float], scale: tuple[float, float]) -> bool:
    """Return whether numbers that name a scale are its top, or both of its ends."""
    return (
        bool(numbers)
        and max(numbers) == scale[1]
        and (len(numbers) == 1 or min(numbers) == scale[0])
    )


_SCALE = any_of(
    "max(?:imum)? min(?:imum)? highest lowest top best upper full out possible total bound scale"
    " range denominator"
)
_RATED = any_of("score rating value marks? points? of the grading")
# max score   out of   total points possible
SCALE_NAME = lazy_pattern(rf"(?:{_RATED} )*{_SCALE}(?: (?:{_SCALE}|{_RATED}))*")
HAS_NUMBER = lazy_pattern(rf"(?i){NUMBER}")
# 1-5   1 to 5   1 (worst) to 5 (best)   between 0 and 10
_RANGE = (
    rf"{NUMBER}(?:\s?\([^()\n]{{1,30}}\)|\s?=\s?\w{{1,20}})?\s{{0,4}}(?:-|–|—|~|〜|～|-?to-?|until|till|through|and|bis|à|al?|do|tot|до|到|至)"
    rf"\s{{0,4}}{NUMBER}(?:\s?\([^()\n]{{1,30}}\))?"
)
_A = r"(?:(?:on|in|using|with|from|by)\s)?(?:(?:an?|the|my|our|your)\s)?"
# words of which a text has one, what may come before a mention, and the mention
_SCALES = (
    # on a scale of 1 to 5, using the range 1-5, rated from 0 to 10
    (
        ("scale", "rang", " from", " between"),
        rf"{_A}(?:[^\W\d]\w{{0,11}}\s)?(?<!of\sthe\s)",
        r"(?:scales?|ranges?|ranging"
        r"|(?:number|integer|value|rated|graded|scored?|rating)\s(?:from|between))\b"
        r"(?:\s?(?:is|of|from|goes|runs|ranging|between|was|used|[:(=]))*"
        # not: a range of 6 to 8 weeks
        rf"\s{{0,3}}(?P<numbers>{_RANGE})(?!\s(?!points|stars|marks|this|is|its|as)[a-z]+s\b)",
    ),
    # auf einer Skala von 1 bis 5, sur une échelle de 1 à 5, en una escala de 1 a 5, 满分5分
    (
        ("skal", "chelle", "escala", "scala", "шкал", "schaal"),
        r"(?:(?:auf|sur|en|numa|em|su|in|по|op|w|på)\s)?(?:\w{1,6}\s)?",
        r"(?:skal[aięe]|[ée]chelle|escala|scala|шкале|schaal)"
        rf"\s(?:von|del?|da|от|van|od|från)\s(?P<numbers>{_RANGE})",
    ),
    # 5段階で言えば4です
    (
        ("段階",),
        "",
        r"(?P<numbers>\d{1,3})段階(?:評価)?(?:で(?:言えば|いえば|言うと|評価すると|は)?|中の?)?、?",
    ),
    (
        ("分制", "満点", "만점"),
        "",
        rf"(?P<numbers>{NUMBER})(?:分制|点?満点(?:中|で)?|점?\s?만점(?:에서?|중)?)",
    ),
    # 10 üzerinden 7, 10 में से 7
    (("üzerinden", "में से"), "", rf"(?P<numbers>{NUMBER})\s{{1,8}}(?:üzerinden|में\sसे)"),
    (("满分", "滿分"), "", rf"[满滿]分(?:为|是|為)?\s?(?P<numbers>{NUMBER})分?(?:的话)?"),
    # 按照1到5分评分,其中1分最低,5分最高
    (("到", "至"), "", rf"(?:按照?|从|用|在)\s?(?P<numbers>{_RANGE})分?(?:制|范围|的)?"),
    (
        ("最低", "最差"),
        "",
        rf"(?P<numbers>{NUMBER}分?\w{{0,2}}最[低差][^\d。.!?\n]{{0,6}}{NUMBER}分?\w{{0,2}}最[高好])",
    ),
    (
        ("on ", "using "),
        r",?\s?(?<!\w)",
        rf"(?:on|using)\s(?:the\s)?(?P<numbers>{_RANGE})(?=\s?[:,])",
    ),
    # on a 1-5 scale, on a 10-point scale
    (
        ("scale", "range"),
        _A,
        rf"(?P<numbers>{_RANGE})[\s-](?:point\s)?(?:likert\s)?(?:rating\s)?(?:scale|range)\b",
    ),
    (("scale",), _A, rf"(?P<numbers>{NUMBER})[\s-]?points?\s(?:likert\s)?(?:rating\s)?scale\b"),
    # the maximum is 10, best possible score: 10
    (
        ("max", "highest", "best", "top", "full", "perfect", "points possible"),
        r"(?<!\w)",
        r"(?P<top>max(?:imum)?|highest|best|top|full|perfect|points(?=\spossible))(?:\s(?:possible|available))?"
        r"(?:\s(?:scores?|ratings?|marks?|values?|points?|grade))?\s{0,12}(?:is|would\sbe|of|[:=(])"
        rf"[ ]{{0,12}}(?P<numbers>{NUMBER})(?!\s?/|\s(?:is|seems|feels)\s(?:\w+ed|fair|right)\b)",
    ),
    # my scale goes up to 10
    (
        ("scale",),
        "(?<!of the )",
        r"\bscale\s(?:\w{1,12}\s){0,2}?(?:of|is|up\sto|to|out\sof|:)\s?"
        rf"(?P<numbers>{NUMBER})",
    ),
    # Score: 4 [1-10]
    (("(", "["), r"(?<=\d)\s?", rf"[(\[]\s?(?P<numbers>{_RANGE})\s?[)\]]"),
    # max 10
    (("max",), r"(?<!\w)", rf"max(?:imum|\.)?\s(?P<numbers>{NUMBER})(?!\s(?!points?\b)[^\W\d_])"),
    # Out of: 10   4 (of 5)   2 points. Out of 5, that is
    (
        ("out of", "outof", "(of", "(on ", "(from ", "(von ", "(sur ", "(su "),
        r"(?:(?:\A|(?<=\n)|(?<=[.] ))[ \t]*|(?<=\())",
        r"(?:out\s?of\s?:?|(?<=\()(?:of(?=\s\d)|(?:on|from|von|sur|su)(?=\s\d{1,3}\))))\s?"
        rf"(?:an?\s|the\s)?(?:possible\s|maximum\s|total\s)?(?:of\s)?(?P<numbers>{NUMBER})(?!\s(?!i\b)[^\W\d_])",
    ),
)
_SCALE_WORDING = tuple(
    (words, lazy_pattern(rf"(?:{before})\Z"), lazy_pattern(rf"{pattern}(?![^\W\d])"))
    for words, before, pattern in _SCALES
)


# Rating (1-5): 4
_BESIDE_NAME = lazy_pattern(
    r"(?P<inside>[(\[](?P<numbers>[^()\[\]\n]{0,80})[)\]])"
    r"(?=[ ]{0,5}(?:[:：=|→–-]|is\s(?:an?\s)?\d|\d))"
)


@lru_cache(maxsize=256)
def _name_before(own: str) -> re.Pattern[str]:
    """Return the pattern of a rating's or the aspect's name that ends a text."""
    return re.compile(rf"(?:{NOUN}|{FOREIGN}{rf'|{own}' if own else ''})\s?\Z")


def _mentions(
    lower: str, before: re.Pattern[str], pattern: re.Pattern[str]
) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield the matches of a pattern, each with the place where what comes before it begins."""
    at = 0
    for match in pattern.finditer(lower):
        opening = before.search(lower, max(at, match.start() - 40), match.start())
        if opening is not None:
            at = match.end()
            yield opening.start(), match


def without_scales(plain: str, scale: tuple[float, float], own: str) -> tuple[str, str]:
    """Return the text without mentions of the asked scale, and any other scale that it names.

    The numbers in `(1-5)` behind a name and in `on a scale of 1 to 5` are not ratings.
    """
    lower = lower_of(plain)
    patterns = [rest for words, *rest in _SCALE_WORDING if any(map(lower.__contains__, words))]
    if "(" in plain or "[" in plain:
        patterns.append([_name_before(own), _BESIDE_NAME])
    for before, pattern in patterns:
        spans = list[tuple[int, int]]()
        for start, match in _mentions(lower, before, pattern):
            line = plain.rfind("\n", 0, start) + 1
            # I'm revising my rating from 3 to 4
            changes = r"\b(?:rais|lower|revis|chang|adjust|upgrad|downgrad)\w*\s(?:\w+\s)?\Z"
            if is_quoted(plain, line, start) or re.search(changes, lower[line:start][-40:]):
                continue
            inside = "inside" in match.re.groupindex
            numbers = numbers_of(match["numbers"])
            of_hundred = inside and ("percent" in match["numbers"] or "%" in match["numbers"])
            # `Score [4]`, `Score (four)`, `Style (4/5)`: the rating itself
            if not of_hundred and inside and (not numbers or _ALONE.fullmatch(match["inside"])):
                continue
            if (of_hundred and scale[1] != 100) or not is_scale(numbers, scale):
                if _is_of_part(plain[line:start], plain, scale, own):
                    spans.append((start, match.end()))
                    continue
                return plain, " ".join(plain[start : match.end()].split())
            # so I give it the top mark: 5
            latest = re.split(r"\d", lower[line:start])[-1]
            if "top" in match.re.groupindex and _IS_GIVEN.search(latest):
                continue
            start, end = match.span("inside") if inside else (start, match.end())
            # `On a scale of 1 to 5: 4`
            if not inside and not plain[plain.rfind("\n", 0, start) + 1 : start].strip():
                end += len(_PAUSE.match(plain, end)[0])  # type: ignore[index]
            spans.append((start, end))
        plain, lower = blank_out(plain, spans), blank_out(lower, spans)
    return plain, ""


# ## Content (max. 40), of which the total is out of 100
_PART = lazy_pattern(r"[\W\d]*(?P<name>[^\W\d_][^\n:：()]{0,40})[(\[]\s?")


def _is_of_part(before: str, plain: str, scale: tuple[float, float], own: str) -> bool:
    """Return whether a scale in brackets belongs to a part, beside a rating out of the asked top.

    Args:
        before: Its line up to the scale.
        plain: The answer without markup.
        scale: Lowest and highest rating that was asked for.
        own: Pattern of the aspect's name; empty for none.
    """
    part = _PART.fullmatch(before)
    if part is None or names_rating(part["name"].strip()):
        return False
    is_own = bool(own) and re.search(own, part["name"], re.IGNORECASE) is not None
    of_top = rf"(?:\d\s?(?:/|out\sof)|max\w*\.?)\s?{scale[1]:g}(?!\d)"
    return not is_own and re.search(of_top, plain) is not None


_IS_GIVEN = lazy_pattern(rf"(?<!\w)(?:{GIVING}|hence|thus|so)\s[^.!?\n]{{0,60}}\Z")
_PAUSE = lazy_pattern(r"(?:\s?[,:])?")
_ALONE = lazy_pattern(
    rf"[(\[]{{1,2}}\s?(?:{NUMBER})(?:\s?(?:/|out\sof)\s?{NUMBER})?\s?[)\]]{{1,2}}"
)


def scale_in_words(scale: tuple[float, float], form: RatingForm) -> str:
    if form == "letters":
        return f"the letters A to {chr(ord('A') + min(int(scale[1] - scale[0]), 25))}"
    return f"the scale from {scale[0]:g} to {scale[1]:g}"
