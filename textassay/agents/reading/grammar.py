r"""The grammar of ratings in prose: which number of an answer is the rating.

Judges state a rating in more words than a list can hold, so this module does not look for phrases.
A number is the rating unless something says that it is another number:

- it counts, numbers or measures something (`values.py`): `4 errors`, `step 4`, `aged 4`, `3 to 4`;
- the sentence shows it: a quotation, an example, a question;
- the clause only mentions it: `not a 4`, `more than 4`, `if ...`, `the users' rating of 4`;
- it belongs to another aspect or text: `Style: 4`, `Assistant 2: 4`, `its fluency is a 4`.

Numbers that are left have a rank by what leads up to them. `Score: 4`, `fluency is a 4`, or a 4
below the line `Rating` are **named**. `I give it a 4` and `this merits a 4` are **given**, if the
sentence has no other number. Of the others only those count that open the answer or **close** it,
set off by a sign or an article: `4. It reads well.`, `It drags, so 3.`, `That is mildly good: +1`.
A closing number counts where no other does.

Everything is looked for in one sentence and in a window before it, so time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from textassay.agents.reading.values import (
    WINDOW,
    RatingForm,
    Statement,
    is_bare,
    is_quoted,
    ranges_of,
    statement_of,
    value_pattern,
)
from textassay.agents.reading.words import (
    CJK,
    DENIED_ELSEWHERE,
    FOREIGN,
    MENTIONS,
    NOUN,
    OTHERS,
    RATING,
    REASONS,
    TEXTS,
    any_of,
)
from textassay.lazy import lazy_pattern

Rank = Literal["stated", "closing", "set off", "loose"]
"""How sure it is that a number is the rating: by words, by its place at the end, or not at all."""


class Reading(NamedTuple):
    """A number of an answer that may be its rating."""

    statement: Statement
    rank: Rank


def chosen_of(readings: list[Reading]) -> list[Statement]:
    """Return the statements among the numbers of an answer; the closing one only if it is alone."""
    stated = [reading.statement for reading in readings if reading.rank == "stated"]
    if stated or not readings or readings[-1].rank != "closing":
        return stated
    closing = [one.statement for one in readings if one.rank in ("closing", "set off")]
    return closing[-1:] if len({statement.value for statement in closing}) == 1 else []


def readings_of(plain: str, form: RatingForm, own: str, low: float) -> Iterator[Reading]:
    """Yield the numbers of a text that nothing excludes, each with its rank, in order."""
    if _EXAMPLES.match(plain):
        return
    compares = _COMPARES.search(plain) is not None
    for sentence in _sentences_of(plain, own):
        read = [
            (statement_of(match, low), lead)
            for match in _values_in(sentence, form)
            if (lead := _lead_of(sentence, match)) is not None
        ]
        is_single = len({one.value for one, lead in read if not lead.is_other}) == 1
        for statement, lead in read:
            yield Reading(statement, _rank_of(sentence, statement, lead, is_single, compares))


# --- sentences

_EXPLANATION = lazy_pattern(rf"\W*(?:{REASONS}|(?i:{NOUN})\s?[:：])")
_BREAK = lazy_pattern(
    r"(?<=[.!?;])(?<!\bvs\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bno\.)(?<!\bca\.)(?<!\bapprox\.)"
    rf"[\"”’)\]]{{0,2}}[ \t]+|(?<=[。！？；।])|\n+|[ \t]{{1,3}}(?={REASONS})"
)
# Here is an example of the output:
_EXAMPLE = lazy_pattern(
    r"(?i)(?:\b(?:example|sample|template|format|schema)\b|(?m:^)\W*e\.g\.)[^.!?\n]{0,60}[:：]"
)
# Example:   of several lines
_EXAMPLES = lazy_pattern(r"(?i)\W{0,8}(?:example|sample)s?(?:\s\w{1,12}){0,2}\W*\n")
# The text contains the following lines:
REPORTS_BELOW = lazy_pattern(
    rf"(?i)\b(?:{TEXTS}|line)\s(?:says|reads|contains|includes)(?:(?:\s[\w ]{{1,40}})?:|\s?\Z)"
    r"\s{0,20}(?:json\s{0,20})?\Z"
)


class _Sentence(NamedTuple):
    """A sentence of an answer, or a line without an end."""

    plain: str
    """The answer."""
    own: str
    """Pattern of the aspect's name; empty for none."""
    start: int
    end: int
    text: str
    line: int
    """Where its line begins."""
    above: str
    """The last line above that is not empty."""
    is_first: bool
    is_last: bool
    """Whether nothing but an explanation under its own name follows."""

    def names_aspect(self, text: str) -> bool:
        return bool(self.own) and _name_of(self.own).search(text) is not None


@lru_cache(maxsize=256)
def _name_of(own: str) -> re.Pattern[str]:
    return re.compile(rf"(?i)(?<![^\W{CJK}]){own}")


def _sentences_of(plain: str, own: str) -> Iterator[_Sentence]:
    bounds, at = list[tuple[int, int]](), 0
    said = len(plain.rstrip(_SIGNS))
    for match in _BREAK.finditer(plain):
        bounds.append((at, match.start()))
        at = match.end()
    bounds.append((at, len(plain)))
    bounds = [(start, end) for start, end in bounds if plain[start:end].strip()]
    for index, (start, end) in enumerate(bounds):
        line = plain.rfind("\n", 0, start) + 1
        above = plain[max(0, line - WINDOW) : line].rstrip()
        is_last = index == len(bounds) - 1 or _EXPLANATION.match(plain, end) is not None
        is_last = is_last or end >= said
        yield _Sentence(
            plain,
            own,
            start,
            end,
            plain[start:end],
            line,
            above[above.rfind("\n") + 1 :],
            is_first=index == 0,
            is_last=is_last,
        )


def _values_in(sentence: _Sentence, form: RatingForm) -> list[re.Match[str]]:
    """Return the numbers of a sentence that stand for themselves and are the judge's own."""
    plain, text = sentence.plain, sentence.text
    found = list(value_pattern(form).finditer(plain, sentence.start, sentence.end))
    if not found or text.rstrip(" \"”').").endswith(("?", "？")):
        return []
    if _EXAMPLE.search(f"{sentence.above}\n{text}") or REPORTS_BELOW.search(sentence.above):
        return []
    if text.lstrip().startswith(">"):
        return []
    ranges = ranges_of(plain, found)
    return [
        match
        for match in found
        if match not in ranges
        and is_bare(plain, match, form)
        and (text.strip(' "“”.') == match[0] or not is_quoted(plain, sentence.line, match.start()))
        and not _is_value_of_other(sentence, match)
    ]


# --- labels

_LABEL = lazy_pattern(
    r"[ \t]*(?:[-•+|*→>]|#{1,6}|\(?\d{1,2}[.)])?[ \t]*"
    r"(?P<label>[^\W\d_][^\n:：=|→.!?]{0,48}?)[ \t]*"
    r"(?:\([^()\n]{0,30}\)[ \t]*)?(?:[:：=|→]|[-=]>|[–—-](?=\s))[ \t|*\"“\[(]*"
)
# Tone (4/5): warm
_IN_BRACKETS = lazy_pattern(r"[ \t\W]*(?P<label>[^\W\d_][^\n:.!?()]{0,48}?)[ \t]*\(")
# names of no aspect
_GENERAL = lazy_pattern(
    rf"(?i)(?:.*\b)?(?:{NOUN}|final|overall|total|tl;?dr|bottom\sline|conclusion|so|therefore|thus"
    r"|hence|number|output|response|here|assistant|judge|evaluator|revised|updated?|correction|option|category)"
    rf"(?:\b.*)?|.*{FOREIGN}.*"
)


def _is_form_of(name: str, own: str) -> bool:
    """Return whether a name is another form of the aspect's: `fluent` of `fluency`."""
    return own.isalpha() and len(own) > 5 and name.lower().startswith(own[: max(5, len(own) - 4)])


_HEADING = lazy_pattern(r"\s*#{1,6}\s.*|[^.!?\n]*[:：]\s*")


def _is_heading(line: str) -> bool:
    return _HEADING.fullmatch(line) is not None


# Assistant 2: 4
_INDEXED = lazy_pattern(
    r"(?i)(?!step\s|level|option|final|overall).*\s(?:\d{1,2}|[a-d])"
    r"|(?:.*\b)?(?:scale|range|max\w*|min\w*|average|mean|ortalama\w*|reached)(?:\b.*)?"
)


def _is_value_of_other(sentence: _Sentence, match: re.Match[str]) -> bool:
    """Return whether a number is the value of a name that is not of the rating: `Style: 4`."""
    if sentence.start != sentence.line:
        return False
    label = _LABEL.match(sentence.plain, sentence.line, match.start())
    if label is not None and label.end() == match.start():
        name = label["label"].strip()
    elif (
        before := _IN_BRACKETS.fullmatch(sentence.plain, sentence.line, match.start())
    ) and re.match(r"\)\W*:", sentence.plain[match.end() : match.end() + 6]):
        name = before["label"]
    elif _is_heading(sentence.above) and not sentence.text[: match.start() - sentence.start].strip(
        _SIGNS
    ):
        name = sentence.above.strip(_SIGNS)
    else:
        return False
    if sentence.names_aspect(name) or _is_form_of(name, sentence.own):
        return False
    words = len(name.split())
    if words <= 4 and _INDEXED.fullmatch(name):
        return True
    is_name = words <= 3 and not _JUDGE.search(name)
    return bool(sentence.own) and is_name and _GENERAL.fullmatch(name) is None


# --- clauses

_SOFT = lazy_pattern(
    r",\s+|[，、；…—→(\[]|;\s|=>|\s[-–—]+\s"
    r"|\b(?:(?<!anything\s)but|while|although|though|whereas|so|because|since|therefore|thus|hence)\b"
)
_MENTIONS = lazy_pattern(rf"\b{MENTIONS}\b")
_OTHERS = lazy_pattern(rf"\b{OTHERS}\b")
_DENIED_ELSEWHERE = lazy_pattern(DENIED_ELSEWHERE)
_CONDITION = lazy_pattern(
    r"(?i)\b(?:if|unless|suppose|wenn|si|если)\b(?!\s(?:i|we|\d+)\b)"
    rf"|\A\W*in\s(?:it|(?:the|this)\s{TEXTS}),|\bas\sof\snow\b"
    r"|(?:\A|[,;]\s)\W*(?:should|were|had|(?:in\sorder\s)?to\s(?:be|get|earn|reach|deserve|merit|receive|score|achieve))\b"
    r"|如果|もし|만약"
)
_CONDITION_BEHIND = lazy_pattern(
    r"(?i)[^,(–—-]*(?:\b(?:if|unless|had)\b|,\sit\swould\b|아니|言えない|ではない|不是)"
)
_RATING = lazy_pattern(rf"(?i)(?<!\w)(?:{RATING}(?!\w|\sscale)|{FOREIGN})")
# Result: 4   but not: the result is 4
_NAME_AND_SIGN = lazy_pattern(
    rf"(?i)(?<!\w)(?:{NOUN}|final|overall|total|{FOREIGN})\W{{0,3}}[:：=|→–-][\s\"“*(\[]*\Z"
)
_GIVING = any_of(
    "rat(?:e[ds]?|ing) scor(?:e[ds]?|ing) grade[ds]? giv(?:e[sn]?|ing) gave assign(?:s|ed|ing)?"
    " award(?:s|ed|ing)? receiv(?:es?|ed|ing) gets? got earn(?:s|ed|ing)? deserv(?:es?|ing)"
    " merit(?:s|ing)? warrant(?:s|ing)? justif(?:y|ies) judged? land(?:s|ing)? puts? brings?"
    " places? leaves?"
)
_GIVES = lazy_pattern(rf"(?<!\w){_GIVING}(?!\w)")
_AND = lazy_pattern(r"\band\b")


@lru_cache(maxsize=256)
def _gives(own: str) -> re.Pattern[str]:
    """Return the pattern of a clause in which the text gets a rating: `it deserves`, `earning`."""
    text = rf"(?:{TEXTS}|it|this|that|which{f'|{own}' if own else ''})"
    return re.compile(
        rf"(?:\A\W*(?:and\s)?(?:\w+ly\s)?|(?<!\w){text}\s(?:\w+\s){{0,2}}?){_GIVING}(?!\w)"
        rf"|(?<!\w){text}\s?(?:is|['’]s)\s(?:[a-z]+\s){{0,2}}\Z"
    )


@lru_cache(maxsize=256)
def _possible(own: str) -> re.Pattern[str]:
    """Return the pattern of what is only possible, but for `the rating would be`."""
    rated = rf"(?:{RATING}{f'|{own}' if own else ''})"
    return re.compile(
        rf"(?<!\w)(?!{rated}\s)\w+(?:\s(?:would|could|might|may|can|must|will)|['’]d)\b"
    )


# it says: 4   the text calls it great: 4/5
_REPORTS = lazy_pattern(
    r"\b(?:says|said|states|claims|tells|asks|calls|describes|writes|cites|quotes|prints|contains|begins|ends|number\sof)\b"
    rf"|\bthe\s(?:judge|evaluator|grader)\b"
    rf"|\b{RATING}\s(?:in|given\sin|(?:that\s)?it\s(?:gives|has|says))\b"
    r"|\baccording\sto\sthe\s(?!rubric|scale|criteri|definition|guideline)"
)
# I'd place the climax at 4   the score of the match
_OBJECT = lazy_pattern(
    rf"\b(?:{_GIVING}|place|put|call|score\sof|rating\sof|mark\sof)\s(?:the|his|her|their)\s(?P<what>[a-z-]{{3,}})"
)
_JUDGE = lazy_pattern(
    r"(?i)(?<!\w)(?:i|we|let['’]?s|let\sme|my|mine|me|ich|je|yo|eu|io|ik|я|tôi|मैं|jag|jeg)(?!\w)"
    r"|(?<!\w)(?:j['’]|ставлю|даю|doy|otorgo|hodnotím|oceniam|puanım|vergebe|gebe|bewerte)"
    r"|我|私|저는|나는|打|给|評価"
)
_COUNTED = lazy_pattern(
    r"(?i)\b"
    + any_of(
        "facts points claims sentences questions items criteria details statements errors answers"
        " references requirements arguments events keywords sources citations topics steps? words?"
        " mistakes? issues? times years? confiden(?:t|ce) flesch grade_level seed temperature"
        " version supported aged? total_of footnote season turns? count"
    )
    + r"\b"
)
# its style alone   the coherence
_QUALITY = lazy_pattern(
    r"(?i)\b(?:[a-z]{3,}(?:ence|ency|ance|ancy|ness|ity|acy)|style|grammar|spelling|tone|structure)\b"
)
_CONCERNING = lazy_pattern(
    r"(?i)\b(?:for|on|regarding|concerning|in\sterms\sof|when\sit\scomes\sto)\s"
    r"(?:(?:its|the|their|this|an?)\s)*(?P<what>[a-z-]{3,})"
)
_ANYTHING = lazy_pattern(
    rf"(?i)(?:me|us|now|all|everything|this|that|these|those|it|reasons?|most|such|balance|whole"
    rf"|which|being|not|both|\w+ing|\w*scale|whole|entire|overall|final|given|above|same|top|high\w*|low\w*"
    rf"|max\w*|full|following|provided|candidate|generated|model|system|assistant|{RATING}|{TEXTS})s?"
)


class _Lead(NamedTuple):
    """What leads up to a number that the judge asserts."""

    text: str
    """The sentence up to the number."""
    is_named: bool
    """Whether the clause names a rating or the asked aspect."""
    is_given: bool
    """Whether the judge gives it, or the text earns it."""
    about_aspect: bool
    """Whether the sentence names the asked aspect."""
    is_other: bool
    """Whether it is a count, or the rating of something or somebody else."""


def _lead_of(sentence: _Sentence, match: re.Match[str]) -> _Lead | None:
    """Return what leads up to a number; `None` if the sentence only mentions it."""
    before = sentence.plain[max(sentence.start, match.start() - WINDOW) : match.start()]
    behind = sentence.plain[match.end() : min(sentence.end, match.end() + WINDOW)]
    lead = " ".join(before.lower().split())
    clause = _clause_of(lead)
    # behind another number
    latest = re.split(r"\d", clause)[-1]
    nearest = _AND.split(clause)[-1]
    near = behind[:50]
    is_own = sentence.names_aspect(latest) or (
        sentence.names_aspect(near) and not re.search(r"\d", near)
    )
    is_rated = is_own or bool(_RATING.search(latest) or _NAME_AND_SIGN.search(lead))
    by_judge = bool(_JUDGE.search(lead) or _JUDGE.search(behind[:20]))
    gives = _gives(sentence.own)
    is_given = by_judge or bool(gives.search(clause) or gives.match(nearest))
    if _is_mentioned(lead, clause, behind) or (
        not by_judge and _possible(sentence.own).search(clause)
    ):
        return None
    is_other = (
        _OTHERS.search(clause)
        or _REPORTS.search(clause)
        or _DENIED_ELSEWHERE.match(clause)
        or (not is_rated and _COUNTED.search(nearest))
        or (not (is_given or is_rated) and _GIVES.search(clause))
        or (
            not sentence.names_aspect(before + behind)
            and _is_of_other(sentence, lead, clause, behind, is_said=is_given or is_rated)
        )
    )
    return _Lead(
        before,
        is_named=is_rated or _is_below_name(sentence, before),
        is_given=is_given,
        about_aspect=is_own or sentence.names_aspect(re.split(r"\d", lead)[-1]),
        is_other=bool(is_other),
    )


def _is_mentioned(lead: str, clause: str, behind: str) -> bool:
    """Return whether a number is denied, compared or supposed."""
    name, _, value = clause.rpartition(":")
    # behind a colon that ends more than a name a new clause begins
    asserting = value if len(name.split()) > 4 else clause
    # Score 1: it is poor
    if behind.lstrip().startswith(":") and _LEVEL.search(clause):
        return True
    return any(
        pattern.search(text)
        for pattern, text in (
            (_MENTIONS, asserting),
            (_CONDITION, lead),
            (_CONDITION_BEHIND, behind),
        )
    )


def _is_of_other(
    sentence: _Sentence, lead: str, clause: str, behind: str, *, is_said: bool
) -> bool:
    """Return whether a number is given to another aspect or thing than the asked one."""
    things = [found["what"] for found in _OBJECT.finditer(clause)]
    if sentence.own:
        if (is_said or len(clause.split()) < 3) and _QUALITY.search(clause):
            return True
        # for its style alone I would give it a 4
        opening = _CONCERNING.match(lead.lstrip(_SIGNS))
        things += [found["what"] for found in _CONCERNING.finditer(clause) if is_said]
        things += [opening["what"]] if opening and is_said else []
    if beside := _CONCERNING.match(behind.lstrip()):
        things.append(beside["what"])
    # `disfluency` is the asked `fluency`
    own = re.compile(sentence.own or "(?!)", re.IGNORECASE)
    return not all(_ANYTHING.fullmatch(thing) or own.search(thing) for thing in things)


def _clause_of(lead: str) -> str:
    """Return the last clause, with the one before it if it only continues that one."""
    clauses = [clause for clause in _SOFT.split(lead) if clause.strip(_SIGNS + "_'“")]
    if not clauses or _NEW_CLAUSE.search(lead):
        return ""
    if len(clauses) > 1 and _RELATIVE.match(clauses[-1]):
        return f"{clauses[-2]} {clauses[-1]}"
    return clauses[-1]


_LEVEL = lazy_pattern(rf"(?<!\w)(?:{RATING})\s?\Z")
# it drags, so 3
_NEW_CLAUSE = lazy_pattern(r"(?:[,;]|\b(?:so|therefore|thus|hence))\s?\Z")
_RELATIVE = lazy_pattern(r"\s*(?:\w+\s)?(?:which|whom?|that)\b")
_SIGNS = " \t\n*#-•>.:→=([\"'“”)]|!`"
"""Signs around a number that opens or closes a sentence."""


def _is_below_name(sentence: _Sentence, before: str) -> bool:
    """Return whether a number opens the line below the name of a rating."""
    if before.strip(_SIGNS) or sentence.start != sentence.line:
        return False
    above = sentence.above.strip(" #*:-=_")
    is_name = _GENERAL.fullmatch(above) is not None or sentence.names_aspect(above)
    return 0 < len(above) < 60 and is_name


# what sets a number off: a sign, an article, `so`, or nothing before it
_SET_OFF = lazy_pattern(
    r"(?i)(?:[:：=→(\[,–—-]|=>|\b(?:so|an?|eine?|une?|una|uma?|een|en|hence|thus|therefore|yes|ok|say)|[は为是打给]|\A\W*)\s?[\"“]?\Z"
)
_SECOND_ITEM = lazy_pattern(r"\n\s*\(?2[.)]\s")


# Response 1 is better than Response 2
_COMPARES = lazy_pattern(
    rf"(?i)\b({TEXTS}|assistant|model)\s(?:1|2|a|b)\b[^\n]{{0,160}}\b\1\s(?:1|2|a|b)\b"
)


def _rank_of(
    sentence: _Sentence, statement: Statement, lead: _Lead, is_single: bool, compares: bool
) -> Rank:
    """Return the rank of a number.

    Args:
        sentence: Its sentence.
        statement: The number.
        lead: What leads up to it.
        is_single: Whether the sentence has no other number.
        compares: Whether the answer compares two texts, of which a number alone may name one.
    """
    if lead.is_other:
        return "loose"
    if lead.is_named or (lead.is_given and is_single):
        return "stated"
    if compares or not is_single:
        return "loose"
    opens = not lead.text.strip(_SIGNS)
    if opens and sentence.is_first:
        # `1. It is ...` begins a list
        is_item = not sentence.is_last and _SECOND_ITEM.search(sentence.plain) is not None
        return "loose" if is_item else "stated"
    is_set_off = opens or statement.top is not None or lead.about_aspect
    if not is_set_off and not _SET_OFF.search(lead.text):
        return "loose"
    return "closing" if sentence.is_last else "set off"
