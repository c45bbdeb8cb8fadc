r"""Reads a rating in prose by elimination, where no phrase of the grammar leads up to one.

Each number of the answer is sorted out that something else explains: it counts a noun, numbers a
list, bounds a range, is quoted or reported of somebody else, is denied, compared or set under a
condition, or has a name of its own before it (`Errors: 3`). A number that remains is the rating if
it has a place where a rating is put:

1. behind a word or an arrow that concludes: `..., so 3.`, `→ 2`, `Bottom line: a 2`, `5 from me`;
2. behind a judge who speaks of nothing but the text: `I have to settle for a coherence of 1`;
3. behind the aspect's name with a noun of ratings: `the only defensible fluency rating is 1`;
4. in parentheses behind a short assessment: `Moderately consistent (3)`.

A conclusion wins over numbers that were weighed before it; in any other place all must agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal, NamedTuple

from textassay.agents.reading.grammar import (
    NOUN,
    TEXTS,
    WINDOW,
    RatingForm,
    Statement,
    closing_at,
    closure_of,
    grammar_of,
    is_bare,
    is_quoted,
    is_settled,
    opening_before,
    statement_of,
    value_pattern,
)
from textassay.lazy import lazy_pattern

_Place = Literal["conclusion", "judged", "unplaced", "explained"]


def remaining_statement(plain: str, form: RatingForm, own: str, low: float) -> Statement | None:
    """Return the rating that remains when all other numbers are explained, if there is one."""
    if form == "letters":
        return None
    numbers = list(_placed(plain, form, own, low))
    placed = [(at, found) for at, found in numbers if at in ("conclusion", "judged")]
    if not placed:
        return None
    place, last = placed[-1]
    if place == "conclusion":
        rivals = {found.value for at, found in placed if at == place}
    else:
        rivals = {found.value for _, found in placed}
    return last if rivals == {last.value} else None


class _Answer(NamedTuple):
    """An answer, and what its places are compared with."""

    plain: str
    form: RatingForm
    own: str
    first: int
    """Where the text begins."""
    last: int
    """Where the text ends."""
    lists_own: bool
    """Whether a line begins with the aspect's name and a sign."""


def _placed(
    plain: str, form: RatingForm, own: str, low: float
) -> Iterator[tuple[_Place, Statement]]:
    answer = _Answer(
        plain,
        form,
        own,
        len(plain) - len(plain.lstrip()),
        len(plain.rstrip()),
        bool(own) and re.search(rf"(?im)^\W{{0,9}}{own}\W{{0,3}}[:=|]", plain) is not None,
    )
    single = "\n" not in plain.strip()
    for match in value_pattern(form).finditer(plain):
        # `(2) It is hard to follow.` is no item of a list, for there is no other one
        bracket = plain[answer.first : min(match.start(), answer.first + 4)].strip()
        only_item = single and match.start() <= answer.first + 2 and bracket in ("(", "[")
        if only_item or is_bare(plain, match, form):
            yield _place_of(answer, match), statement_of(match, low)


_SENTENCE_START = lazy_pattern(r"[.!?;。…][\"”’)\]]{0,2}\s+|\n")
_CLAUSE_START = lazy_pattern(
    r"[,;:：(\[—–→⇒]|\s-{1,2}\s|\b(?:but|yet|and|so|which|because|since)\b"
)
# several values, one of which is the rating: 3 or 4, 3/4, between 3 and 4
_SEVERAL = lazy_pattern(
    r"(?i)\s{0,2}(?:[-–—~/+*×:;|\\<>=]|\b(?:or|to|and|vs?)\b)\s{0,2}(?:an?\s)?[\d$]"
)
_SEVERAL_BEFORE = lazy_pattern(
    r"(?i)(?:\d|ten|nine|eight|seven|six|five|four|three|two|one)\s{0,2}(?:[-–~/+*×:;|\\<>=,→⇒]{1,2}|\b(?:or|to|and|vs?\.?)\b)"
    r"\s{0,2}(?:an?\s)?\Z"
)


# which makes it one of five
_ONE_OF = lazy_pattern(r"(?i)one\sof\b")


def _place_of(answer: _Answer, match: re.Match[str]) -> _Place:
    """Return where a number is put, and whether it has another meaning."""
    plain, form, own = answer.plain, answer.form, answer.own
    start, end = match.span()
    opened = opening_before(plain, start)
    stop = closing_at(plain, end, opened)
    begin = start - len(opened) if stop > end else start
    window = max(0, begin - WINDOW)
    at = window
    for boundary in _SENTENCE_START.finditer(plain, window, begin):
        at = boundary.end()
    line = plain.rfind("\n", window, begin) + 1 or window
    if plain[line : line + 8].lstrip().startswith(">") or is_quoted(plain, line, begin):
        return "explained"
    if (
        _ONE_OF.match(match[0])
        or _SEVERAL.match(plain, end)
        or _SEVERAL_BEFORE.search(plain, max(0, start - 12), start)
    ):
        return "explained"
    lead = " ".join(plain[at:begin].split()).lower()
    if _CONDITION.search(lead):
        return "explained"
    clause = lead
    for boundary in _CLAUSE_START.finditer(lead):
        clause = lead[boundary.end() :]
    if _TURNED_DOWN.search(clause):
        return "explained"
    if _MINE.match(plain, end) and _CONCLUDES_ONLY.fullmatch(lead):
        return "conclusion"
    if opened in ("(", "[") and stop > end and begin == answer.first:
        return "judged"
    after = closure_of(plain, stop, grammar_of(own), statement_of(match, 1.0).value)
    if after is None or not is_settled(plain, after.at, form, strict=False):
        return "unplaced"
    if (concludes := _CONCLUDES.search(lead)) and not _BY_OTHERS.search(clause):
        return "unplaced" if answer.lists_own and _OF_ALL.search(concludes[0]) else "conclusion"
    if _BY_OTHERS.search(lead) or _COMMAND.match(lead):
        return "explained"
    if _is_own_label(lead, own):
        return "judged"
    if _names_another(plain[at:begin], lead, own):
        return "explained"
    if _is_judged(lead, own) or _is_earned(lead, own):
        return "judged"
    if stop > end and opened.strip() in ("(", "[") and after.ends and _is_short(lead, own):
        return "judged"
    return "unplaced"


_COMMAND = lazy_pattern(r"\W*(?:please\s)?(?:give|rate|score|assign|output|answer\s)\b")
# what is judged beside the asked aspect: coherence, clarity, readiness, style
_QUALITY = lazy_pattern(
    r"(?:\A\W*|\b(?:for|on|of|its|the|my|rate|give|grade|score|so)\s)(?!balance|sentence|quality|evidence|audience|reference|difference|instance)(?P<name>\w{2,}(?:[iu]ty|ence"
    r"|ness|ance|cy|ture)|style|grammar|spelling|tone|flow|depth|length|vocabulary|layout|content)\b"
)
_NAME = lazy_pattern(r"(?<=[a-z,’'] )[A-Z][a-z]+")


def _names_another(written: str, lead: str, own: str) -> bool:
    """Return whether a number is given to somebody, or to another aspect than the asked one."""
    if any(own[:4] != name[0].lower()[:4] for name in _NAME.finditer(written)):
        return True
    begun = max((match.start() for match in _FIRST_PERSON.finditer(lead)), default=0)
    if len(lead.split()) <= 2 * MIN_LONG:
        begun = 0
    names = [match["name"] for match in _QUALITY.finditer(lead, begun)]
    return bool(names) and not (own and own in lead) and all(n[:4] != own[:4] for n in names)


# a total beside a line of the asked aspect is a rating of another thing
_OF_ALL = lazy_pattern(r"overall|total")
_ARTICLE = (
    r"(?:(?:an?|my|it['’]?s|it|is|we|i['’]?(?:d|ll|m)?|say|at|give|rate|score|rating|of|solid"
    r"|the\s(?:[\w-]{3,15}\s)?(?=score|rating))\s?){0,5}"
)
_THEREFORE = (
    r"(?:so|therefore|thus|hence|accordingly|consequently|as\sa\sresult|finally|ultimately|in\s(?:short|sum|the\send|conclusion|total)"
    r"|all\sin\sall|on\sbalance)"
)
_CONCLUDES = lazy_pattern(
    rf"(?:(?:\A|[\s(>*-]){_THEREFORE}[\s,:=–—-]*"
    r"|\b(?:let['’]?s\s(?:say|call\sit|go\swith)|call(?:ing)?\sit|settl(?:e|ed|ing)\s(?:on|at|for)"
    r"|chang(?:e|ed|ing)\s(?:it|this|that|my\s\w+|the\s\w+)\sto|(?:this|that|which)\s\w+s\s(?:it|this|that)(?:\s(?:at|to|as|in))?"
    # not a 2 but a 3
    r"|not\s(?:an?\s)?\d(?:\.\d)?,?\sbut)(?:\s|\Z)"
    rf"|\A\W*(?:(?:my|the|our)\s)?(?:overall|total|final(?:\s{NOUN})?|verdict|output|rate|bottom\sline|tl;?dr|conclusion"
    r"|full\smarks|top\smarks|yes|(?:given|considering|based\son)\s(?:all\s)?(?:the|this|that)\s\w+)\s?[,:=–—-]+\s?"
    rf"|\A\W*(?:→|⇒|=>|->)\s?){_ARTICLE}\Z"
)
_CONCLUDES_ONLY = lazy_pattern(rf"\W*(?:{_THEREFORE}[\s,:]*)?(?:an?\s?)?")
# 5 from me   3 it is   4 is my rating
_MINE = lazy_pattern(rf"(?i)\s(?:from\sme|it\sis|is\smy\s(?:final\s)?{NOUN})\s?(?=[.!,;]|\Z|\n)")
_CONDITION = lazy_pattern(
    r"\b(?:if(?!\s(?:i|we)\s(?:had|have|must)\b|\sforced|\spressed)|unless|until|suppose|imagine|assuming|provided\sthat|had\s(?:it|the)|were\s(?:it|the)"
    r"|would\s(?:need|require|mean)|either|whether|anywhere|where\s\d)\b|\?"
)
_TURNED_DOWN = lazy_pattern(
    r"\b(?:not|never|nor|neither|nothing|none|nobody|no\sone|cannot|nicht|hardly|barely|almost|nearly|than|at\sleast|at\smost|under|over"
    r"|above|below|between|beyond|short\sof|up\sto|from|to\s(?:be|get|earn|reach|receive|score)"
    r"|anything\sbut|could|might|may|maybe|perhaps|possibly|about|around|roughly|approximately"
    r"|no(?!\s(?:choice|doubt|hesitation|other|question)))\b|n['’]t\b|[<>≥≤≈~√#$]"
)
# a number that somebody says, or that is found in a text, is not the judge's
_BY_OTHERS = lazy_pattern(
    r"\b(?:says|said|reads(?!\s(?:well|badly|like|as|\w+ly)\b)|writes|wrote|states|stated|claims?|claimed|contains?|mentions?|lists?"
    r"|ends|asks?|asked|tells?|told|begs?|instructs?|wants?|gave|got|was|were|thought|considered"
    r"|earned|received|won|lost|counts?|counted|finds?|found|sees?|saw|needs?|needed|following|as\sfollows"
    r"|(?<!be\s)(?<!is\s)(?:rated|scored|awarded|assigned)|he|she|they|his|her|their|you|your|who|later"
    r"|critics?|reviewers?|readers?|raters?|annotators?|humans?|colleagues?|others?|authors?|users?"
    r"|articles?|sources?|references?|prompts?|numbers?\sof|amount|average\s(?:score|rating|is|of|was)|default|previous|expected"
    r"|example|earlier|initially|first|typical|ideal|draft|max(?:imum)?|min(?:imum)?"
    r"|confidence|step|original|expect\w*|recommend\w*|add(?:ing)?|please|wish|hope|repeats|quotes|shows|cites|read|errors?|mistakes?|typos?|words?|sentences?\s\w+\sis)\b"
)
_FIRST_PERSON = lazy_pattern(r"\b(?:i|we)(?:['’](?:d|ll|m|ve))?\b|\bmy\b|\bme\b")
_DEFINITE = lazy_pattern(r"\b(?:the|this|that|these|those)\s(?P<noun>(?:[\w'’-]+\s?){1,4})")
_GIVES = lazy_pattern(
    rf"(?:\b(?:an?|as|at|to|of|with|is|be|(?:giv\w+|rat\w+|scor\w+|mark\w*|award\w*|assign\w*|call\w*|mak\w+)\sit|rate|give|score|grade|mark|say|pick|choose|select|with|think|towards?|{NOUN},?)|[:=])"
    r"(?:\s(?:a|an|solid|strong|clear|weak|low|high|full|firm))*\Z"
)


@lru_cache(maxsize=256)
def _about_text(own: str) -> re.Pattern[str]:
    stem = rf"|{own[:5]}" if len(own) > 4 else rf"|{own}" if own else ""
    return re.compile(rf"\b(?:{TEXTS}|{NOUN}|scale|lowest|highest|middle|one{stem})")


@lru_cache(maxsize=256)
def _own_rating(own: str) -> re.Pattern[str]:
    return re.compile(
        rf"\b(?:{own}\s{NOUN}|{NOUN}\s(?:for|of|on)\s(?:the\s|its\s)?{own})"
        r"(?:\s(?:is|of|at|as|to\sbe|should\sbe|must\sbe|would\sbe|number|a|an|around)|\s?[:=]){1,3}\Z"
    )


def _is_judged(lead: str, own: str) -> bool:
    """Return whether a judge gives the number to the text, and speaks of nothing else."""
    if own and _own_rating(own).search(lead):
        return True
    if _RATING_IS.search(lead) and _speaks_of_text(lead, own):
        return True
    persons = [match.end() for match in _FIRST_PERSON.finditer(lead)]
    if not persons or not _GIVES.search(lead):
        return False
    begun = persons[-1]
    about = _about_text(own)
    nouns = [match["noun"] for match in _DEFINITE.finditer(lead, begun)]
    return all(about.search(noun) for noun in nouns) and (
        bool(nouns) or bool(about.search(lead, begun)) or _GIVEN.search(lead) is not None
    )


# the most suitable rating is 3; the score should be 3
_RATING_IS = lazy_pattern(
    r"(?:\bthe(?:\s(?!age|star)[\w-]{3,20}){1,2}\srating\s(?:is|would\sbe)"
    r"|\b(?:rating|score)\s(?:should|must|has\sto)\s(?:\w+\s)?be)(?:\san?)?\Z"
)
_GIVEN = lazy_pattern(
    r"\b(?:rate|give|score|grade|award|assign|say|put|go|call|judge|mark|settle|pick|choose|select|it|this|think)\b"
)
_EARNS = lazy_pattern(
    r"(?:(?:\A|\s)(?:and|but)(?:\s\w+ly)?\s(?:merits|deserves|warrants|earns|receives|gets|rates)"
    r"|,\swhich\s(?:corresponds|amounts|equates|translates|maps|leads)\sto"
    r"|\b(?:is|be)\s(?:awarded|given|rated|scored|graded|assigned|assessed|evaluated|judged|placed)"
    r"|\b(?:merits|deserves|warrants|merit|deserve|warrant))"
    r"(?:\s(?:an?|the|as|at|only|just))*(?:\s[\w-]{1,15})?"
    rf"(?:\s{NOUN}(?:\sof|\sat|,))?(?:\san?)?\Z"
)


def _is_earned(lead: str, own: str) -> bool:
    """Return whether the text earns the number, and the sentence speaks of it first."""
    earns = _EARNS.search(lead)
    if earns is None:
        return False
    nouns = [match["noun"] for match in _DEFINITE.finditer(lead, 0, earns.start())]
    if not nouns:
        return lead.startswith("it ")
    # `..., which corresponds to` speaks of the whole sentence
    subject = nouns[0 if "which" in earns[0] else -1]
    return _about_text(own).match(subject) is not None


_LABEL = lazy_pattern(rf"[\W\d]*(?P<word>[^\W\d]{{4,30}})(?:\s{NOUN})?\s?[:=–—-]\s?\Z")
SIMILAR = 0.75
"""Share of equal letters of two forms of a word: `engaging` and `engagingness` share 0.8."""


def _is_own_label(lead: str, own: str) -> bool:
    """Return whether the lead is the aspect's name in another form, or misspelled."""
    label = _LABEL.fullmatch(lead)
    if label is None or not own.isalpha():
        return False
    word = label["word"]
    return word[:4] == own[:4] and SequenceMatcher(None, word, own).ratio() >= SIMILAR


MAX_SHORT = 5
"""Words of an assessment before a number in parentheses; a longer sentence may refer to a note."""
MIN_LONG = 4
"""Words of a clause that says something; fewer are a name."""


def _is_short(lead: str, own: str) -> bool:
    words = lead.split()
    if not 0 < len(words) <= MAX_SHORT:
        return False
    return lead.startswith("overall") or (
        bool(_about_text(own).search(lead)) and not lead.endswith(":")
    )


_THIRD = lazy_pattern(r"\b(?:gives|rates|awards|assigns|scores)\b")


def _speaks_of_text(lead: str, own: str) -> bool:
    """Return whether a lead names nothing but the text or its rating."""
    about = _about_text(own)
    named = (match["noun"] for match in _THE.finditer(lead))
    return _THIRD.search(lead) is None and all(about.search(noun) for noun in named)


_THE = lazy_pattern(
    r"\b(?:the|its|(?:this|that)(?!\s\w+\s(?:an?|at|be|as|in)\b))\s(?P<noun>(?:[\w'’-]+\s?){1,3})"
)
_SIGNED = lazy_pattern(r"\s?(?:[:：;=—–→⇒]|[=-]>|-{1,2})\s?(?:an?\s?)?\Z")
_JUDGES = lazy_pattern(r"\b(?:but|though|yet|too|very|not|quite|rather|slightly|mostly)\b")
_VERBLESS = lazy_pattern(r"\b(?:is|are|be|of|at|in|as|a|the|with)\s?\Z")
