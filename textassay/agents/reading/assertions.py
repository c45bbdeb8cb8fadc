r"""Finds out whether a sentence asserts a level of the scale, or only mentions one.

`phrases.py` has the phrases that lead up to a rating. Here a number is read by its place in the
sentence: as the object of a verb whose subject is the judge (`I settle on a 2`), as what is
approved (`An eight seems right`), as what a text merits or is (`a text that merits a rating of 9`),
or beside a label with a word for a rating (`Step 5. Give the score: 3`). A clause that is
hypothetical, negated, comparative, or about somebody or something else only mentions its number.
"""

from __future__ import annotations

import re
from functools import lru_cache

from textassay.agents.reading.values import number_in
from textassay.agents.reading.words import (
    KIND,
    MODAL,
    NOUN,
    NUMBER,
    ONLY_MENTIONED,
    SETS,
    SO,
    TEXT,
    TEXTS,
)  # fmt: skip
from textassay.lazy import lazy_pattern

_ONLY_MENTIONED = lazy_pattern(rf"\b{ONLY_MENTIONED}\b")
# a solid   about an   the rating of
_LEVEL = (
    r"(?:(?:about|around|roughly|exactly)\s)?(?:an?|the|my)\s(?:[a-z-]{3,14}\s){0,2}"
    rf"(?:{NOUN}\sof\s(?:an?\s)?)?"
)
_BEGUN = rf"(?:(?:{SO}|and|but|so|still|then|ok(?:ay)?|(?:for|to)\sme)\s?,?\s)*"
# 2 seems right   3 is where I'll leave it   8 it is
_APPROVAL = lazy_pattern(
    r"(?i)\s(?:it\sis\b(?=[ ]*(?:[.,!;]|$))"
    r"|(?:fair|right|appropriate|justified|warranted|reasonable)\b"
    r"|is\s(?:where|what)\s(?:i|we)\b"
    r"|(?:(?:seems|feels|sounds|looks|appears|is|strikes\sme\sas)(?:\sto\s(?:me|us)(?:\sto\sbe)?)?)"
    r"\s(?:like\s)?(?:(?:the|an?|most|only|just|about|fully|entirely)\s){0,2}"
    r"(?:right|fair(?:est)?|apt|appropriate|justified|warranted|reasonable|deserved|fitting|suitable"
    r"|due|in\sorder|my)\b(?!\sfor\sthe\b|\sto\s(?!me\b|us\b)|\sif\b))"
)
_JUDGE = lazy_pattern(r"(?P<start>.*[\s(]|)(?:i|we|let\sme|let['’]?s)(?=['’\s])(?P<tail>.*)")
# for its style alone
_CONCERNING = lazy_pattern(
    r".*\b(?:for|on|regarding|concerning|in\sterms\sof|when\sit\scomes\sto)\s"
    r"(?:(?:its|the|their|this)\s)*(?P<what>[\w-]+).*"
)
_ANYTHING = (
    rf"me|us|now|all|everything|th(?:is|at|ese|ose)|it|reasons?|most|such|balance|whole|{TEXTS}"
)
_MINE = lazy_pattern(rf"(?:.*\s)?my\s(?:{KIND}\s)*{NOUN}\s?[:：=]")

_COUNTED = lazy_pattern(
    r"\b(?:facts|points|claims|sentences|questions|items|details|statements|errors|mistakes|issues"
    r"|times|words|typos|sources|places)\b.*:"
)
# Please answer with the rating: 4   The film got my rating: 4
_REQUESTS = lazy_pattern(r".*\b(?:please|respond|write|output|ask\w*|got|gets|has|had)\s")


class _Patterns:
    """What may lead up to an asserted number, for an aspect of one name."""

    def __init__(self, own: str) -> None:
        name = own or NOUN
        its = (
            rf"(?:{TEXT}|(?:its|the)\s(?:\w{{4,12}}\s)?(?:{name}|{TEXTS})"
            rf"(?:\sof\s(?:the|this)\s(?:\w+\s){{0,2}}{TEXTS})?|{own or TEXT})"
        )
        surely = (
            rf"(?:{MODAL}|\w+ly|be|comfortable|confident|happy|glad|ready|gonna|then|still|now)"
        )
        self.object = re.compile(
            rf"(?:['’](?:d|ll|m|ve|re))?\s(?:{surely}\s){{0,5}}{SETS}(?:\s(?:of|for|to|on|in)?\s?{its}){{0,3}}"
            rf"(?:\s(?:up|down|in|out|back|as|at|on|with|for|to|of|is|it['’]s|that['’]s|around|about|be))*"
            rf"\s(?:{_LEVEL}|{NOUN}\sof\s|an?\s{name}\sof\s)?"
        )
        self.merit = re.compile(
            rf".*\b(?:(?:this|the)\s(?:{TEXTS}|{name})|this|it|{TEXTS}\s(?:that|which))"
            rf"\s(?:(?:\w+ly|{MODAL})\s)?(?:merit|deserv|earn|warrant|receiv|get|achiev|justif)\w*"
            rf"\s(?:it\s|this\s)?(?:an?|the|my)\s(?:[a-z-]{{3,14}}\s){{0,2}}{NOUN}\sof\s(?:an?\s)?"
        )
        self.result = re.compile(
            rf".*\b(?:put|bring|plac|leav|land|drag|lift|rais|lower|drop|pull|push)\w*\s(?:it|this|{TEXT})"
            rf"\s(?:(?:\w+ly|down|up|out|right)\s)*(?:(?:at|to|with|on)\s(?:{_LEVEL})?|{_LEVEL})"
            rf"|{_BEGUN}(?:this(?:\sone)?|it|{TEXT})\s(?:lands|comes\s(?:in|out)|ends\sup)\sat\s(?:{_LEVEL})?"
            r"|.*\b(?:the|my)\s(?:\w+\s)?(?:right|fair|fairest|appropriate|best|fitting|honest|correct)"
            rf"\s(?:number|figure|choice|{NOUN})\s(?:here\s)?is\s(?:{_LEVEL})?"
        )
        self.being = re.compile(
            rf"{_BEGUN}(?:(?:for|on|in\sterms\sof)\s{name}\s?,?\s)?(?!the\s(?:answer|solution|code|question|title)\b){TEXT}(?:\sis|['’]s|\swould\sbe)\s(?:(?:\w+ly|about|just|still)\s)?{_LEVEL}"
            rf"|{_BEGUN}{own or '(?!)'}\s(?:is|was|seems|feels|remains)\s[^:]{{3,60}}:\s?"
        )
        self.label = re.compile(
            rf"(?:(?:.*\s)?(?:the|an?|my|your|its|this|is|{KIND}|give|assign|aggregate|combined)\s)?"
            rf"(?:{name}\s)?(?!grade\slevel){NOUN}"
            rf"(?:\s(?:for|of|on|in)\s(?:{TEXT}|(?:the\s|its\s)?{name}))?"
            r"(?:(?:(?<=score)|(?<=ating)|(?<=grade)|(?<=level))\s(?:assigned|given|awarded|here|now"
            r"|according\sto(?:\sthe)?\s\w+))?\s?[:：=]\s?"
        )
        self.about = re.compile(rf"{name}|{_ANYTHING}")


_patterns = lru_cache(maxsize=256)(_Patterns)


def asserts_level(before: str, lead: str, plain: str, end: int, own: str, *, ends: bool) -> bool:
    """Return whether a sentence asserts the number that ends at a place.

    Args:
        before: The sentence up to the clause of the number, in lower case.
        lead: The clause up to the number, likewise.
        plain: The answer.
        end: Where the number ends, with the scale behind it.
        own: Pattern of the aspect's name; empty for none.
        ends: Whether the sentence ends with the number, or with what it is a rating of.
    """
    approved = is_approved(plain, end)
    if not (lead or approved) or sets_condition(before):
        return False
    clause = f"{lead} ".lstrip()
    if approved and re.fullmatch(rf"{_BEGUN}(?:{_LEVEL}|{NOUN}\sof\s)?", clause):
        return True
    if _MINE.fullmatch(lead):
        return not _REQUESTS.match(lead)
    judge = _JUDGE.fullmatch(clause)
    if _ONLY_MENTIONED.search(lead) or re.search(r"\d", judge["tail"] if judge else lead):
        return False
    patterns = _patterns(own)
    if judge:
        if re.search(r"\b(?:wh(?:ich|om|at)|say|think|claim)\s\Z", judge["start"]):
            return False
        concerning = _CONCERNING.fullmatch(f"{before} {judge['start']}")
        if concerning and not patterns.about.match(concerning["what"]):
            return False
        return patterns.object.fullmatch(judge["tail"]) is not None
    if patterns.label.fullmatch(lead):
        return not _REQUESTS.match(lead)
    # correct this and the text would be a 5
    is_consequence = before and "would be" in clause
    if ends and not is_consequence and patterns.being.fullmatch(clause):
        return _COUNTED.search(clause) is None
    if re.search(r"\bwould\b", clause):
        return False
    return bool(patterns.merit.fullmatch(clause) or (ends and patterns.result.fullmatch(clause)))


def sets_condition(before: str) -> bool:
    """Return whether the clauses before a number set a condition."""
    return re.search(
        r"\b(?:if|unless|were|had|suppose|when|once|should)\b(?!\s\d+\s(?:is|=|means)\s[^,]*\sand\s\d|\s(?:i|we)\s(?:had|have|must)\b)",
        before,
    ) is not None  # fmt: skip


def is_approved(plain: str, end: int) -> bool:
    """Return whether words behind a number say that it is the right one."""
    return _APPROVAL.match(plain, end) is not None


_A_LEVEL = lazy_pattern(
    rf"(?i)(?<!from\s)(?<!than\s)(?<!to\s)\ban?\s(?:[a-z-]{{3,14}}\s)?(?P<value>{NUMBER})"
    r"(?=\s(?:on|out\sof|for|in)\b|\s?/|[.,;)!]|$)"
)


@lru_cache(maxsize=8)
def levels_of(plain: str) -> frozenset[float]:
    """Return the levels that a text speaks of, but for those that it only mentions."""
    return frozenset(
        number_in(match["value"])
        for match in _A_LEVEL.finditer(plain)
        if not _ONLY_MENTIONED.search(
            re.split(r"[.!?,;:\n]", plain[max(0, match.start() - 120) : match.start()])[-1].lower()
        )
    )
