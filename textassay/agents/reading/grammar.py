r"""The grammar of ratings in prose: which number of an answer is the rating.

Judges state a rating in more words than a list can hold, so the grammar has no list of phrases. A
number is the rating unless something says that it is another number:

- it counts, numbers or measures something (`values.py`): `4 errors`, `step 4`, `aged 4`;
- it is in a range, a quotation, an example or a question, or the value of another name
  (`sentences.py`): `3 to 4`, `Style: 4`;
- the clause only mentions it, or gives it to another aspect or text (`clauses.py`): `not a 4`,
  `if ...`, `the users' rating of 4`, `its style is a 4`.

The numbers that are left have a rank by what leads up to them. `Score: 4`, `fluency is a 4`, and a
4 below the line `Rating` are **stated**, as are `I give it a 4` and `it merits a 4` if the sentence
has no other number, and a number that opens the answer: `4. It reads well.` Others count only where
no number is stated: if the last one is in the last sentence, set off by a sign or an article
(**closing**): `It drags, so 3.`, `That is mildly good: +1`.

An answer may rate several aspects in any form: `fluency 5, coherence 4, style 2. Overall 3.5.`
Every number has an owner: the name beside it or, for a number without one, the topic that a label
or the beginning of its sentence names. The number of the asked aspect is the rating, and the others
do not contest it (`chosen_of`).

The grammar looks at one sentence at a time and at a window before it, so time is linear.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from textassay.agents.reading.clauses import Lead, Owner, lead_of
from textassay.agents.reading.outcomes import RatingForm
from textassay.agents.reading.sentences import (
    SIGNS,
    TENTATIVE,
    Sentence,
    Sentences,
    is_value_of_other,
    values_of,
)
from textassay.agents.reading.texts import follows_asked, rates_other_text
from textassay.agents.reading.values import WINDOW, Statement, statement_of
from textassay.agents.reading.words import NOUN, NUMBER, TEXTS
from textassay.lazy import lazy_alternatives, lazy_pattern

Rank = Literal["stated", "said", "closing", "set off", "loose"]
"""How sure it is that a number is the rating: by the name of a rating or its place at the
beginning, by other words of the judge, by its place at the end, or not at all."""


class RankedNumber(NamedTuple):
    """A number of an answer that may be its rating."""

    statement: Statement
    rank: Rank
    owner: Owner
    sentence: str
    """The first characters of its sentence."""

    @property
    def stands_alone(self) -> bool:
        """Whether a sentence within the answer is the rating: `One out of five. Sorry!`."""
        # not: alert(1)
        opens = bool(re.match(r"\w(?!.*\w\()", words := self.sentence.strip(" \n\t¡¿")))
        # A three.
        is_digit = re.search(r"\d|\AAn?\s", words) or self.statement.end > self.statement.span[1]
        is_short = self.is_brief or TENTATIVE.match(self.sentence)
        return self.rank == "set off" and bool(is_short and opens and is_digit)

    @property
    def is_brief(self) -> bool:
        """Whether its sentence is too short for more than a rating."""
        return len(self.sentence.split()) <= _BRIEF

    @property
    def may_revise(self) -> bool:
        """Whether it may take back a rating that comes before it."""
        return self.rank != "loose" or self.is_brief or _REVISION.search(self.sentence) is not None


_BRIEF = 5
"""Most words of a sentence that is too short for more than a rating: 1 and 20 read 4 and 7 ratings
fewer of 4,320, and invent 1 and 4 more."""
# That makes it 3.   Settling on 3.   6 it is.
_SETTLING = lazy_pattern(
    rf"(?i)(?:(?:no|yes|ok(?:ay)?)[,;]\s)?(?!(?:the|an?|its|his|her)\s)(?:(?:[a-z]+\s){{2,4}}|(?:so\s)?it['’]s\s|(?:so|ok(?:ay)?|overall|thus)[,:]?\s)(?:an?\s)?{NUMBER}\W*"
    rf"|(?:so\s)?{NUMBER}\s(?:it\sis|then)\W*"
)
_REVISION = lazy_pattern(
    r"(?i)\b(?:no(?=\W*[,.!:;–—-])|wait|actually|reflection|make\sthat|rather|correct(?:ion|ed)|sorry|oops|hmm+|again"
    r"|scratch|revis\w+|updat\w+|chang\w+)\b"
)


def chosen_of(numbers: list[RankedNumber]) -> tuple[list[Statement], list[Statement]]:
    """Return the ratings among the numbers of an answer, and the numbers that may revise them.

    The ratings are the stated ones and those with the name of the asked aspect or, if there are
    neither, the closing one, unless a number that is set off before it differs. Numbers of other
    owners are left out first: all beside one with the aspect's name in an answer that rates
    several things, but for a stated rating.
    """
    mine = [one for one in numbers if one.owner == "aspect" and one.rank != "loose"]
    mine = [one for one in mine if one.rank in ("stated", "said")] or mine
    labeled = [one for one in numbers if one.owner == "named other"]
    beside = [one for one in numbers if one.owner not in ("aspect", "whole")]
    several = len(labeled) > 1 or (bool(mine) and len(beside) > 1)
    left_out: set[Owner] = {"named other"}
    if mine:
        left_out.add("other")
    if several or (mine and labeled):
        left_out.add("whole")
    if mine and several:
        left_out |= {"unnamed", "rating"}
    numbers = [
        one
        for one in numbers
        if one.owner not in left_out
        or (one.owner == "rating" and one.rank == "stated")
        or (one.owner == "whole" and not mine and _sums_up(one.statement, labeled))
    ]
    ratings = [one for one in numbers if one.rank == "stated"]
    ratings = ratings or [one for one in numbers if one.rank == "said" or one in mine]
    if not ratings and any(one.owner in ("other", "named other") for one in beside):
        named = [one for one in numbers if one.owner == "aspect"]
        ratings = named[-1:] if len({one.statement.value for one in named}) == 1 else []
    ratings = ratings or [one for one in numbers if one.stands_alone and len(numbers) == 1]
    if not ratings and numbers and numbers[-1].rank == "closing":
        last = numbers[-1]
        set_off = [one for one in numbers if one.rank in ("closing", "set off")]
        is_only = len({one.statement.value for one in set_off}) == 1
        # So 2, for this reader. It is for this one, so 2.
        is_only = is_only or [one.statement.value for one in set_off[-2:-1]] == [
            last.statement.value
        ]
        # not: So 3. So 4.
        settles = [bool(_SETTLING.fullmatch(one.sentence.strip())) for one in set_off[-2:]]
        ratings = [last] if is_only or settles == [False, True] else []
    # ... 3 was too generous. 2 it is.
    firm = rf"(?i)\W*(?:so,?\s)?{NUMBER}\sit\sis\b"
    if len(ratings) > 1 and ratings[-1].rank == "said" and re.match(firm, ratings[-1].sentence):
        ratings = ratings[-1:]
    # I would go for 4. It is closer to a 5 than to a 3.
    leaning = rf"(?i)\b(?:closer|nearer)\sto\s(?:an?\s)?{NUMBER}\sthan\b"
    beside = [one for one in numbers if not re.search(leaning, one.sentence)]
    if any(one in beside for one in ratings):
        numbers, ratings = beside, [one for one in ratings if one in beside]
    sentences = [one.sentence for one in ratings]
    revising = [one for one in numbers if one.may_revise or one.sentence in sentences]
    return [one.statement for one in ratings], [one.statement for one in revising]


def _sums_up(whole: Statement, parts: list[RankedNumber]) -> bool:
    """Return whether a rating is the sum of others, or out of more points than each of them."""
    tops = [one.statement.top or 0.0 for one in parts]
    is_sum = whole.value == sum(one.statement.value for one in parts)
    return is_sum or (whole.top is not None and min(tops) > 0 and max(tops) < whole.top)


_COMPARED = (
    "(?:summary|text|response|output|answer|reply|translation|story|essay|completion|candidate"
    "|submission|caption|code|solution|assistant|model|dialog(?:ue)?|conversation|version|draft|poem)"
)
# response 1 is better than response 2, in lower case
_COMPARISON = lazy_pattern(
    rf"\W(?:({_COMPARED})\s[12ab]\b[^\n]{{0,160}}\b\1\s[12ab]\b|a\s?[:=–-]\s?\d[^\n]{{0,20}}\Wb\s?[:=–-]\s?\d)"
)


@lru_cache(maxsize=1)
def _compares(plain: str) -> bool:
    """Return whether an answer compares two texts, of which a number alone may name one."""
    return _COMPARISON.search(f"\n{plain.lower()}") is not None


_LETTERED = lazy_pattern(
    rf"(?i:\b{_COMPARED})\s(?:[A-D]|\d)\b|\b[A-D](?:['’]s\s|\s?[:=–-])|\bof\s[A-D]\b"
)


# Example:   of several lines
_EXAMPLES = lazy_pattern(r"(?i)\W{0,8}(?:example|sample)s?(?:\s\w{1,12}){0,5}\W*\n")
# better than fair (3), but not good (4)
_IN_BRACKETS = lazy_pattern(r"\w[\"”]? \((\d(?:\.\d)?)\)")


def readings_of(plain: str, form: RatingForm, own: str, low: float) -> list[RankedNumber]:
    """Return the numbers of an answer that the sentence asserts, each with its rank, in order.

    Args:
        plain: The answer without markup.
        form: How ratings are asked for.
        own: Pattern of the aspect's name; empty for none.
        low: Lowest rating, which the letter A stands for.
    """
    if _EXAMPLES.match(plain):
        return []
    anchors = set(_IN_BRACKETS.findall(plain)) if "(" in plain else ()
    sentences = Sentences(plain, own)
    is_one = len(sentences.bounds) == 1 or not own or not re.search(own, plain, re.IGNORECASE)
    # ## Disfluency, of fluency
    if not is_one and "\n" in plain and re.search(rf"(?im)^\W*(?:non|un|in|dis)-?{own}\W*$", plain):
        return []
    numbers, given = list[RankedNumber](), list[tuple[Statement, Sentence, int]]()
    for index, sentence in sentences.with_values(form):
        found, text = list[tuple[Statement, Lead, str]](), sentence.text[: 2 * WINDOW]
        mentioned, end = -1, 0
        for match in values_of(sentence, form):
            statement = statement_of(match, low)
            given.append((statement, sentence, end))
            end = match.end()
            if is_value_of_other(sentence, match):
                numbers.append(RankedNumber(statement, "loose", "named other", text))
                continue
            is_likewise = mentioned > 0 and _LIKEWISE.fullmatch(plain, mentioned, match.start())
            lead = None if is_likewise else lead_of(sentence, match)
            if lead is None or lead.owner == "other":
                mentioned = match.end()
            is_anchor = len(anchors) > 1 and lead and lead.owner == "unnamed"
            if lead is not None and not (is_anchor and lead.text.endswith("(")):
                texts = _LETTERED.findall(lead.text) if re.search(r"[A-D\d]\b", lead.text) else []
                is_other = texts and _compares(plain) and not follows_asked(plain, match.start())
                if is_other and not any(map(sentence.names_aspect, texts)):
                    lead = lead._replace(owner="other")
                has_topic = not is_one and lead.owner in ("unnamed", "rating")
                topic = sentences.topics[index] if has_topic else ""
                if topic == "other" and "aspect" in sentences.topics:
                    lead = lead._replace(owner="other")
                if rates_other_text(plain, sentence.start, match.start(), sentence.end):
                    lead = lead._replace(owner="named other")
                found.append((statement, lead, topic))
        mine = [
            (number.value, lead.is_said) for number, lead, _ in found if "other" not in lead.owner
        ]
        # six for strict readers, but seven is fair
        is_single = len({value for value, _ in mine}) == 1 or sum(given for _, given in mine) == 1
        for statement, lead, topic in found:
            if topic == "aspect" and is_single:
                lead = lead._replace(owner="aspect")
            rank = _rank_of(sentence, statement, lead, is_single)
            numbers.append(RankedNumber(statement, rank, lead.owner, text))
    is_several = len({statement.value for statement, *_ in given}) > 1
    return _without_rivals(numbers, given) if is_several else numbers


# what limits a rating: if it counts   taken as a summary   under a strict view   some readers
_CASE = lazy_alternatives(
    r"\W*(?:(?:and|but|or|then|while|whereas|yet|\w+,)\s)?",
    condition=r"(?P<if>(?:if|assuming|supposing|unless)\b(?!\s(?:[^,]*\b(?:everything|all|whole|overall|together|honest)\b|(?:you|we)\s(?:ask|must|need|have|want|insist)"
    r"|(?:i|we)(?:['’]m|\s(?:have|had|must|may|am|were|can|need))|(?:\w+ly\s)?(?:pressed|forced|pushed|asked)"
    r"|needed|necessary|anything|only)\b)|otherwise\b|else\b)",
    reading=rf"(?P<as>as(?=\s(?:an?|the)\s(?!whole\b|{TEXTS}))|(?:(?!based|compared|overall)\w+ed|taken|read|seen|understood)"
    r"(?=\s(?:\w+\s)?(?:as(?!\san?\swhole)|by|under|on|from|against|in|with|to)\b|\s\w+ly\b)|(?:think|look)ing(?=\s))",
    setting=r"(?P<in>with|between|for|from|by|under|on|in|to)(?:in|out)?\s(?!(?:(?:this|that|these|those|such)\b(?!\s(?:an?\s)?(?:\w+\s)?(?:view|reading|interpretation|definition|standard|assumption))|me|my"
    r"|us|all|which|balance|reflection|example|instance|mind|now|sum|summary|conclu\w+|total|general|fact|view|particular|short"
    r"|the\s(?:\w+\s)?(?:whole|end|circumstances|rubric|scale|criteria)|an?\s\d|\d)\b)",
    person=r"(?P<some>some|others|many|most|half|part|one|another)\s",
    part=rf"(?:the|an?|my|its)\s(?:(?P<first>first|second|other|last)\s(?!{TEXTS}\b(?<!paragraph)(?<!sentence))"
    rf"|(?!{TEXTS}\b)[\w-]+\s(?!{NOUN}\b|(?:ha[sd]|have|is|was|are|were|does|would|should|could|can|may|might"
    rf"|will|and|or|of|that|which|to)\b|{TEXTS}\b(?<!paragraph)(?<!sentence))(?P<noun>\w{{3,}})\b)",
)


def _without_rivals(
    numbers: list[RankedNumber], given: list[tuple[Statement, Sentence, int]]
) -> list[RankedNumber]:
    """Return the numbers of an answer, loose where they are given for cases beside other ones.

    Args:
        numbers: Its numbers.
        given: Each number that it gives or mentions, with its sentence, and where the number before
            it in the sentence ends.
    """
    cases, loose = dict[str, tuple[float, int]](), set[int]()
    for statement, sentence, end in given:
        case = _case_of(sentence, statement.span[0], end)
        rival, start = cases.setdefault(case, (statement.value, sentence.start))
        if case and rival != statement.value:
            loose |= {start, sentence.start}
    starts = {statement.span: sentence.start for statement, sentence, _ in given}
    return [
        one._replace(rank="loose") if starts.get(one.statement.span) in loose else one
        for one in numbers
    ]


def _case_of(sentence: Sentence, at: int, end: int) -> str:
    """Return the kind of case for which alone a number is given; empty for none.

    Args:
        sentence: Its sentence.
        at: Where it is.
        end: Where the number before it in the sentence ends; 0 for none.
    """
    lead = sentence.plain[max(sentence.start, end, at - WINDOW) : at].lower()
    case = (not end and _CASE.match(lead)) or _CASE.match(lead, lead.rfind(", ") + 1)
    if not case or (end and "," not in lead and ";" not in lead):
        return ""
    kind = case.lastgroup or ""
    # Without its end it would be a 5. With it, it's a 3.
    is_supposed = case[kind] == "with" and re.search(r"\b(?<!i\s)would\b", lead) is not None
    name = case[kind] if kind in ("in", "noun") else kind
    return f"{name} {sentence.names_aspect(lead)} {is_supposed}"


# strict readers would give it a 2, lenient ones a 4
_LIKEWISE = lazy_pattern(
    r",\s(?:and\s|or\s)?(?:[\w-]+\s){0,2}(?:ones?|others?|rest|latter|without|with|for|as)\s"
    r"(?:[\w-]+\s){0,3}"
)
# what sets a number off: a sign, an article, `so`, or nothing before it
_SET_OFF = lazy_pattern(
    r"(?i)(?:[:：=→(\[,–—-]|[=-]>|\b(?!only|nearly|roughly|barely|hardly)[a-z]+ly|\b(?:so|an?(?:\s(?!total|further|mere|score|step|level)[\w-]+,?){0,2}|(?:eine?|une?|una|uma?|een|en)(?:\s[\w-]+){0,1}|(?<=,\s)(?:also|but|yet)|donc|daher|somit|quindi|dunque|portanto|hence|thus|therefore|yes|ok|say|i\.e\.|namely)|[は为是打给值]|所以，?|因此|よって|따라서|그래서|\A\W*)\s*[\"“]?\Z"
)
# nothing, or an article: a well-deserved 4, definitely a 4
_OPENING = lazy_pattern(
    rf"(?i)[\s{re.escape(SIGNS)}]*(?:(?:solid|strong|weak|clear|firm|low|high)\s|(?:[a-z]+ly\s)?an?\s(?:(?!total|further|mere|score|step|level)[\w-]+,?\s){{0,2}})?[\s{re.escape(SIGNS)}]*"
)
# Medium (2)   The answer is 4
_WORDS_BEFORE = lazy_pattern(
    rf"(?i)\W*(?:(?:[^\W\d_]+\s){{1,3}}\(|(?:(?:the\s)?(?:final\s)?{NOUN}\s)?is)\s?"
)


def _rank_of(sentence: Sentence, statement: Statement, lead: Lead, is_single: bool) -> Rank:
    """Return the rank of a number.

    Args:
        sentence: Its sentence.
        statement: The number.
        lead: What leads up to it.
        is_single: Whether the sentence has no other number.
    """
    if lead.owner in ("other", "named other"):
        return "loose"
    if sentence.is_tentative:
        return "closing" if sentence.is_last else "set off"
    if lead.is_named or (lead.owner == "aspect" and lead.is_said and is_single):
        return "stated"
    if lead.is_said and is_single:
        return "said"
    opens = _OPENING.fullmatch(lead.text) is not None
    if not (is_single or (opens and sentence.is_first)) or _compares(sentence.plain):
        return "loose"
    if sentence.is_first and (opens or _WORDS_BEFORE.fullmatch(lead.text)):
        return "stated"
    settles = _SETTLING.fullmatch(sentence.text.strip())
    if settles or (sentence.is_last and lead.is_about_aspect):
        return "closing" if sentence.is_last else "set off"
    if opens or statement.top is not None or _SET_OFF.search(lead.text):
        return "closing" if sentence.is_last else "set off"
    return "loose"
