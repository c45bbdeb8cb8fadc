r"""Finds out whether a sentence asserts a level of the scale, or only mentions one.

`grammar.py` knows the phrases that lead up to a rating. Here a number is read by syntax: it is the
object of a verb whose subject is the judge (`I settle on a 2`), the subject of an approval (`An
eight seems right`), the complement of a rating that a text merits (`a text that merits a rating of
9`), or what a label with a word for a rating names (`Step 5. Give the score: 3`). A clause that is
hypothetical, negated, comparative, or about somebody else only mentions its number.
"""

from __future__ import annotations

import re
from functools import lru_cache

from textassay.agents.reading.values import number_in
from textassay.agents.reading.words import KIND, NOUN, NUMBER, OTHERS, SO, TEXT, TEXTS, any_of
from textassay.lazy import lazy_pattern

_MENTIONS = any_of(
    # negated, compared, bounded
    r"not never no cannot \w+n['’]t hardly barely neither nor without than between below above over"
    " beyond under least most almost nearly up_to short less more"
    # hypothetical, or weighed before
    " if unless were had could might may should ought perhaps maybe possibly potentially would_have"
    r" consider(?:ed|ing)? thought wonder\w* hesitat\w* torn tempted debat\w* argu\w+ lean\w*"
    " initially (?:at_)?first earlier originally previously was reserve[ds]? keep_(?:a|the)"
    # noticed, begun with, taken off
    r" want\w* wish\w* hop(?:e|ed|ing) need\w* expect\w* mean\w* see saw seen f(?:i|ou)nd notic\w+"
    r" count\w* read start\w* beg[iau]n\w* dock\w* deduct\w* subtract\w* remov\w+ t(?:a|oo)k\w*"
    r" knock\w* los\w+ add\w* penali\w+ have has us(?:e|ed|ing) compar\w+ stop\w*"
    # said by somebody
    r" says said claim\w* stat(?:e|es|ed) mentions? asks? asked t(?:ell|old) you he she they who"
    " author writer reader readers user users critic critics reviewer reviewers annotator annotators"
    rf" prompt instructions perfect ideal other {OTHERS}"
)
_ONLY_MENTIONS = lazy_pattern(rf"\b{_MENTIONS}\b")
_CONDITIONAL = lazy_pattern(
    r"\b(?:(?:if|unless|were|had|suppose|when|once|should)\b(?!\s(?:i|we)\s(?:had|have|must)\b))"
)
"""A clause before the number that sets a condition."""
_QUALITIES = r"(?:[a-z-]{3,14}\s){0,2}"
_LEVEL = rf"(?:(?:about|around|roughly|exactly)\s)?(?:an?|the|my|its)\s{_QUALITIES}(?:{NOUN}\sof\s(?:an?\s)?)?"
_JUDGE = lazy_pattern(r"(?:.*[\s(])?(?:i|we|let\sme|let['’]?s)(?=['’\s])(?P<tail>.*)")
# 2 seems right   3 is where I'll leave it   8 it is
_APPROVED = lazy_pattern(
    r"(?i)\s(?:it\sis\b|is\s(?:where|what)\s(?:i|we)\b"
    r"|(?:seems|feels|sounds|looks|appears|is|would\sbe|strikes\sme\sas)(?:\sto\s(?:me|us)(?:\sto\sbe)?)?"
    r"\s(?:like\s)?(?:(?:the|an?|most|only|just|about|fully|entirely)\s){0,2}"
    r"(?:right|fair(?:est)?|apt|appropriate|justified|warranted|reasonable|deserved|fitting|suitable"
    r"|due|in\sorder|my)\b)"
)
_ARTICLE = lazy_pattern(
    rf"(?:(?:so|but|and|thus|hence|still|ok(?:ay)?|then|overall|therefore)\s?,?\s)*(?:{_LEVEL}|(?:{NOUN}\sof\s(?:an?\s)?)?)"
)


# for its style alone
_CONCERNING = lazy_pattern(
    r".*\b(?:for|on|regarding|concerning|in\sterms\sof|when\sit\scomes\sto)\s(?:(?:its|the|their|this)\s)*(?P<what>[\w-]+).*"
)
_ANYTHING = lazy_pattern(
    rf"me|us|now|all|everything|th(?:is|at|ese|ose)|it|reasons?|most|such|balance|reflection|whole|{TEXTS}"
)


@lru_cache(maxsize=256)
def _patterns(own: str) -> tuple[re.Pattern[str], ...]:
    name = own or NOUN
    ends = (
        rf"(?:\s|\A)(?:{_LEVEL}|an?|at|on|with|for|to|as|is|say(?:ing)?|giv(?:e|ing)|rat(?:e|ing)"
        rf"|scor(?:e|ing)|assign(?:ing)?|award(?:ing)?|put|call|go|pick|choose|select"
        rf"|(?:(?:rat|giv|scor|grad|call|judg)\w+\s(?:[\w’'-]+\s){{0,3}})(?:it|this|that|its|{TEXTS}|{name})"
        rf"|{NOUN}\s(?:of|is)|about|around)\s?\Z"
    )
    merits = (
        rf".*\b(?:(?:this|the)\s(?:{TEXTS}|{name})|this|it|{TEXTS}\s(?:that|which))\b"
        rf".*\b(?:merit|deserv|earn|warrant|receiv|get|achiev|justif)\w*"
        rf"\s(?:it\s|this\s)?(?:an?|the|my)\s{_QUALITIES}{NOUN}\sof\s(?:an?\s)?"
    )
    being = rf"(?:(?:{SO}|and|but|so|(?:for|to)\sme)\s?,?\s)*(?:th(?:is|at)|it)(?:\sis|['’]s)\s(?:{_SURELY}\s)?{_LEVEL}"
    label = (
        rf"(?:(?:.*\s)?(?:the|an?|my|your|its|this|is|with|{KIND}|give|assign|aggregate|combined)\s)?(?:{name}\s)?"
        rf"(?!grade\slevel){NOUN}(?:\s(?:for|of|on|in)\s(?:{TEXT}|(?:the\s|its\s)?{name}))?"
        rf"(?:\s(?:\w+ed|according|after|based|given|now|here|below)(?:\s[^\W\d]+){{0,3}})?\s?[:：=]\s?"
    )
    about = rf"{name}|{_ANYTHING.pattern}"
    return tuple(map(re.compile, (ends, merits, being, label, about)))


_SURELY = r"(?:\w+ly|definitely|about|just|still|more\slike|at\smost|basically)"
_MINE = lazy_pattern(rf"(?:.*\s)?my\s(?:{KIND}\s)*{NOUN}\s?[:：=]")


def sets_condition(before: str) -> bool:
    """Return whether the clauses before a number set a condition."""
    return _CONDITIONAL.search(before) is not None


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
        if not _ONLY_MENTIONS.search(
            re.split(r"[.!?,;:\n]", plain[max(0, match.start() - 120) : match.start()])[-1].lower()
        )
    )


def sets_condition(before: str) -> bool:
    """Return whether the clauses before a number set a condition."""
    return _CONDITIONAL.search(before) is not None


_A_LEVEL = lazy_pattern(
    rf"(?i)(?<!from\s)(?<!than\s)(?<!to\s)\ban?\s(?:[a-z-]{{3,14}}\s)?(?P<value>{NUMBER})"
    r"(?=\s(?:on|out\sof|for|in)\b|\s?/|[.,;)!]|$)"
)


def other_level_in(plain: str, value: float) -> bool:
    """Return whether a text speaks of another level, and not only as of one that it rules out."""
    return any(
        number_in(match["value"]) != value
        and not _ONLY_MENTIONS.search(
            re.split(r"[.!?,;:\n]", plain[: match.start()][-120:])[-1].lower()
        )
        for match in _A_LEVEL.finditer(plain)
    )


def is_approved(plain: str, end: int) -> bool:
    """Return whether words behind a number say that it is the right one."""
    return _APPROVED.match(plain, end) is not None


def asserts_level(before: str, lead: str, plain: str, end: int, own: str, *, ends: bool) -> bool:
    """Return whether a sentence asserts the number that ends at a place.

    Args:
        before: The sentence up to the clause of the number, in lower case.
        lead: The clause up to the number, likewise.
        plain: The answer.
        end: Where the number ends, with the scale behind it.
        own: Pattern of the aspect's name; empty for none.
        ends: Whether the sentence ends with the number.
    """
    if sets_condition(before):
        return False
    if _ARTICLE.fullmatch(f"{lead} ".lstrip()) and is_approved(plain, end):
        return True
    if _MINE.fullmatch(lead):
        return True
    if _ONLY_MENTIONS.search(lead) or re.search(r"\d", lead):
        return False
    object_, merits, being, label, about = _patterns(own)
    if judge := _JUDGE.fullmatch(f"{lead} "):
        concerning = _CONCERNING.fullmatch(f"{before} {lead}"[: -len(judge["tail"])])
        if concerning and not about.match(concerning["what"]):
            return False
        return len(judge["tail"].split()) <= _FAR and object_.search(judge["tail"]) is not None
    if merits.fullmatch(f"{lead} ") or label.fullmatch(lead):
        return True
    return ends and being.fullmatch(f"{lead} ") is not None


_FAR = 14
"""Words between the judge and the number, beyond which they belong to different clauses."""
