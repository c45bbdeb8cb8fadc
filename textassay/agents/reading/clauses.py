r"""What leads up to a number of a sentence: whether the judge asserts it, and as whose rating.

The lead of a number is its sentence up to it, its clause the part of the lead behind the last
comma, bracket or conjunction. A clause may only mention its number (`not a 4`, `if ...`), give it
to something else (`the users' rating of 4`, `its style is a 4`), or assert it with the name of a
rating (`a score of 4`) or in the words of a judge (`I give it a 4`, `it deserves a 4`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from textassay.agents.reading.sentences import (
    JUDGE,
    QUALITY_NAME,
    RATING_ELSEWHERE,
    SIGNS,
    Sentence,
    is_below_rating_name,
)
from textassay.agents.reading.values import WINDOW
from textassay.agents.reading.words import (
    COUNTED,
    FITTING,
    GIVING,
    JUDGES,
    LOOK,
    NO_OTHER_THING,
    NOT_ASSERTED,
    NOT_ASSERTED_CJK,
    NOT_ASSERTED_FOREIGN,
    NOUN,
    OTHERS,
    RATING,
    REPORTING,
    TEXTS,
)
from textassay.lazy import lazy_alternatives, lazy_pattern

Owner = Literal["aspect", "rating", "whole", "other", "named other", "unnamed"]
"""What a number is: of the asked aspect, by its name; a rating by that word; of all aspects; of
something else, perhaps by a name before a sign; or of nothing that has a name."""


class Lead(NamedTuple):
    """What leads up to a number that the sentence asserts."""

    text: str
    """The sentence up to the number."""
    is_named: bool
    """Whether the clause, or the line above, names a rating or the asked aspect."""
    is_said: bool
    """Whether it is named so, the judge gives it, or the text earns it."""
    is_about_aspect: bool
    """Whether the sentence names the asked aspect."""
    owner: Owner


class _Place(NamedTuple):
    """A number's place in its sentence."""

    sentence: Sentence
    before: str
    behind: str
    """In lower case."""
    lead: str
    """What is before it, in lower case with single spaces."""
    clause: str
    """The clause of the lead that ends at the number."""
    antecedent: str
    """The clause before one that begins with `which`; empty before others."""
    latest: str
    """The clause from a colon on that ends more than a name, without the aspect's name."""


# I would say it is below average and award it a 4
_SAYS = lazy_pattern(
    rf"{JUDGES}|\A\s?(?:would\s|will\s)?"
    rf"(?:{GIVING}\s(?:it|this|the)|say|settle|choose|pick|opt|go\s(?:with|for)|call\s(?:it|this))\b"
)
_AND = lazy_pattern(r"\band\b")
# if you ask me I would give it a 4
# I would perhaps give it a 4
_HEDGES = lazy_pattern(
    r"(?<=\Ai)(?:\s(?:would|do)(?:n['’]t|\snot)\shesitate\b|\scould\s\w+\sis\b"
    r"|(?:['’]d|\swould)?\s(?:\w+\s){0,4}?(?:perhaps|maybe|possibly)\b)"
    r"|(?<=\bdeserves)\s(?:perhaps|maybe)\b|(?<=\bmerits)\s(?:perhaps|maybe)\b"
    # perhaps about 4
    r"|\A\W*perhaps(?=(?:\s(?:somewhere|around|about|roughly|an?|only|just))*\s?\Z)"
)
# denied: it is not what I would call a 4, nor would I call it a 5
_BEFORE_JUDGE = lazy_pattern(
    r".*?(?P<denied>\b(?:(?:nor|never)\s\w+|(?:not|\w+n['’]t)\s(?:what|\w+thing))\s)?(?=(?<!\w)i(?!\w))"
)


_QUOTATION = lazy_pattern(r"\"[^\"]+\"")


def lead_of(sentence: Sentence, match: re.Match[str]) -> Lead | None:
    """Return the words before a number; `None` if the sentence only mentions it."""
    before = sentence.plain[max(sentence.start, match.start() - WINDOW) : match.start()]
    behind = sentence.plain[match.end() : min(sentence.end, match.end() + WINDOW)]
    if sentence.is_tentative:
        return Lead(before, is_named=False, is_said=False, is_about_aspect=False, owner="unnamed")
    lead = " ".join((_QUOTATION.sub("it", before) if '"' in before else before).lower().split())
    # my colleague, whose view I value, would call it a 4
    if ", wh" in lead:
        lead = re.sub(
            r",\s(?:who|whose|whom|which)\s[^,:;()\d]*,(?=\s(?:(?:\w+\s)?(?:\w+[sd]|gave|found|thought)|i(?:['’]\w+)?)\b)",
            "",
            lead,
        )
    # I am fairly (not entirely) sure of a 4
    lead = re.sub(r"(?<=\w )\([^()\d]{1,40}\) ?(?=\w)", "", lead) if ")" in lead else lead
    if not behind.strip(SIGNS) and _RATING.fullmatch(lead.strip(SIGNS)):
        return Lead(before, is_named=True, is_said=True, is_about_aspect=False, owner="rating")
    if lead == "→":  # the cell of a table
        return Lead(before, is_named=True, is_said=True, is_about_aspect=True, owner="aspect")
    clauses = _CLAUSE_BREAK.split(lead)
    clause = _last_clause(clauses, lead)
    is_judge_before = JUDGE.search(before) is not None
    # in more than 20 characters, for `we` begins `well`
    near = _BUT.split(behind[:40])[0]
    by_judge = is_judge_before or any(one.start() < 20 for one in JUDGE.finditer(near))
    # it would be petty to give anything less than
    by_judge = by_judge or " anything " in clause
    if by_judge or sentence.names_aspect(clause):
        clause = _NO_MORE_THAN.sub("", clause)
    latest = _latest_of(lead, sentence.without_aspect(clause))
    behind = behind.lower()
    place = _Place(sentence, before, behind, lead, clause, _antecedent_of(clauses), latest)
    if _is_mentioned(place, by_judge=by_judge):
        return None
    latest = _behind_numbers(place.clause)
    names_aspect = _names_aspect(place, latest)
    is_rated = names_aspect or _names_rating(place, latest)
    nearest = _AND.split(place.clause)[-1]
    is_fitting = _FITS.match(behind) is not None
    is_said = is_rated or by_judge or is_fitting or _is_earned(place, nearest)
    # to put a single number on it, 4   4 if you need one figure
    a_number = r"\b(?:an?|one)\s(?:single\s)?(?:number|figure)\b(?!\sof)"
    is_said = is_said or re.search(a_number, f"{lead} {behind}") is not None
    is_about_aspect = names_aspect or sentence.names_aspect(_behind_numbers(lead))
    is_other = (
        # two errors make it a 3
        (
            not is_rated
            and (not lead.rstrip(' "“«').endswith(" a") or lead.endswith(" is a"))
            and COUNTED.search(_behind_numbers(nearest)) is not None
        )
        or _is_of_others(place, is_said=is_said)
        or _is_of_other_thing(place, is_said=is_said)
    )
    # On coherence there is little to say: 4
    is_topic = is_about_aspect and sentence.names_aspect(" ".join(lead.split()[:5]))
    owner: Owner = "other" if is_other else "aspect" if names_aspect or is_topic else "unnamed"
    if owner == "unnamed" and _WHOLE.search(lead):
        owner = "whole"
    elif owner == "unnamed" and is_rated:
        owner = "rating"
    return Lead(
        before,
        is_named=is_rated or is_below_rating_name(sentence, before),
        is_said=is_said,
        is_about_aspect=is_about_aspect,
        owner=owner,
    )


# 4 seems about right
_FITS = lazy_pattern(
    rf"\s(?:it\sis\b|then\b|from\sme\b)|(?:\s(?:therefore|thus|\w+ly))?\s(?:is|seems|feels|looks|sounds|appears|strikes\sme\sas|would\s(?:be|seem))\s(?:to\sbe\s)?"
    rf"(?:(?!not|less|hardly)\w+\s){{0,3}}{FITTING}\b"
)
_WHOLE = lazy_pattern(r"\b(?:overall|averaged?|mean|total)\b")
_CLAUSE_BREAK = lazy_pattern(
    r",\s+|[，、；…—→(\[]|\s[-–—]+\s"
    r"|\b(?:(?<!anything\s)but|while|although|though|whereas|so(?!\sfar\b)|because|since|therefore|thus|hence)\b"
)
# it drags, so 3   it drags, so: 3
_NEW_CLAUSE = lazy_pattern(r"(?:[,;]|(?<=\w{4}\s)→|\b(?:so|therefore|thus|hence|but|yet):?)\s?\Z")
# to which I gave a 4, but not: which is why I give it a 4, which makes it a 4
_RELATIVE = lazy_pattern(
    r"\s*(?:\w+\s)?(?:which|where)\b"
    r"(?!\s(?:is\s(?:why|how)|(?:makes|brings|drags|pulls|lifts|lowers|keeps|leaves|puts)\s(?:it|this))\b)"
)


def _last_clause(clauses: list[str], lead: str) -> str:
    clauses = [clause for clause in clauses if clause.strip(SIGNS + "_'“")]
    if not clauses or _NEW_CLAUSE.search(lead, max(0, len(lead) - 12)):
        return ""
    rest = clauses[-1].rpartition(":")[2]
    return rest if len(rest.split()) > 3 else clauses[-1]


def _latest_of(lead: str, clause: str) -> str:
    """Return the part of a clause without the aspect's name that may say something of a number."""
    _name, _, value = clause.rpartition(":")
    is_apart = len(lead.split()) > 4 or JUDGE.search(value)
    nearest = _AND.split(value if is_apart else clause)
    is_said = _BEFORE_JUDGE.match(clause) and _SAYS.search(nearest[-1])
    return nearest[-1] if is_said else " and ".join(nearest)


def _antecedent_of(clauses: list[str]) -> str:
    clauses = [clause for clause in clauses[-2:] if clause.strip(SIGNS)]
    return clauses[0] if len(clauses) == 2 and _RELATIVE.match(clauses[1]) else ""


def _behind_numbers(text: str) -> str:
    """Return the part of a text after its last digit."""
    latest = re.split(r"\d", text)[-1]
    return latest if latest == text else _BESIDE.sub("", latest)


# 5 for style
_BESIDE = lazy_pattern(r",?\s?(?:points\s)?(?:for|on|in|regarding)\s[^\d,;.]{0,50}")


# --- numbers that are only mentioned: denied, compared or supposed

# the midpoint of the scale, which is 4   the scale's middle is 4
_OF_SCALE = lazy_pattern(
    r"\b(?:scale|midpoint|middle|cent(?:er|re))(?:['’]s\s\w+|\sof\s(?:the|my|this)\sscale)?,?"
    r"\s(?:which\s)?(?:is|being|means|would\sbe)(?:\san?)?\s?\Z"
    r"|\bhow\si\s(?:read|see|understand)\sthe\s?\Z|[,(]\s?which\si\s(?:take|understand)\sto\s\w+(?:\san?)?\s?\Z"
)
# my apologies if it seems strict, but it is a 4
_BUT = lazy_pattern(r",\s(?:but|yet|still)\b")
# conditions that the judge meets: if you ask me   if pressed   if 1 is poor   if that makes sense
_MET = (
    r"(?:i(?!\s(?:were(?!\s(?:\w+ly\s)?(?:press|forc|ask|push|to\b))|was|had(?!\sto)|could|knew)\b)|(?:an?\s)?(?:\d+|number|figure|score|rating)|needed|necessary"
    r"|it\swere\sup\sto\sme|one\swants\sto"
    # my honest, if slightly uncomfortable, rating
    r"|(?:slightly|somewhat|rather|perhaps|a\s(?:bit|little))\s\w+(?=,)"
    # half points are allowed   a reluctant one
    r"|(?:decimals|halves|fractions|(?:half|fractional|decimal)\s(?!of\b)\w+)|an?\s(?:[\w-]+\s){1,3}one"
    r"|(?:that|this|it)(?:\s(?:makes|helps|seems|sounds)|(?:['’]s|\sis)\s(?:all\sright|ok(?:ay)?|fine|acceptable|allowed|permissible))|anything|only(?=\W*\Z|\s(?:just|by)\b)"
    r"|(?:we|you)(?!\s(?:only\s)?(?:(?:give|rate|select|score)\b(?=(?:\s\w+){0,3}\s?\Z)|must(?!\s\w)|consider|count|take|look|ignore|read|include|disregard|did|do(?:n['’]t|\snot)|like[ds]?\s|prefer|care|value|treat|accept|assume|expect|are\s(?!ask)))"
    r"|(?:really\s|absolutely\s)?(?:press|forc|push|ask|requir|compel)\w+)\b"
)
# in lower case
_CONDITION = lazy_alternatives(
    r"\b",
    conjunction=r"(?<!even\s)(?:if|unless|s['’]ils?|se\sfosse|als\shet|gdyby|(?<!i\s)suppose|assuming|provided\sthat|as\slong\sas|wenn|si"
    rf"|если)\b(?!\s{_MET})",
    purpose=r"so\sthat\s(?:it|this|the\s\w+)\s(?:w|c|sh)ould\b",
    time=r"before\si\b|once\s(?:\w+ed|it|the|this|these|those|all)\b|as\sof\snow\b",
    weighing=r"on\s(?:the\s)?(?:one|other)\shand\b|and\sso\s(?:is|does|would)\b",
    world=r"in\san?\s(?:ideal|perfect)\b",
    # here is how to raise it to a 5   I will write a version that gets a 5   the path to a 5
    goal=r"(?:(?:here|below)(?:['’]s|\sis|\sare)\s(?:(?:how|what)\b[^,;:]*\b(?:to|could|would|can)\b(?!\s(?:rate|score|grade))"
    r"|[^,;:]*\s(?:that|which)\s(?:would|should|could|will)\b)"
    r"|(?:here|below|let\sme|(?:i|we)(?:['’]|\s(?:have|will|would|can|could)\b))(?=[^,;:]*\b(?:re)?(?:writ(?:e|ten)|wrote|draft(?:ed)?|version)\s)[^,;:]*\s(?:to|that|so|worth|which)\b"
    r"|(?:path|way|road|route|steps?)\sto(?:wards?)?(?=(?:\san?)?\s?\Z))[^,;:]*\Z",
)
_CONDITION_ELSEWHERE = lazy_pattern("如果|もし|만약|अगर|यदि|eğer|jeśli|إذا|لو\\s")
# what opens a sentence, in lower case
_CONDITION_FIRST = lazy_alternatives(
    r"\W*",
    # for a 4, it must   in that case,   to a beginner
    setting=rf"in\s(?:the|this|that|my|your)\s(?:\w+\s)?examples?\b|provided\b|for\scomparison\b|for\san?\Z|in\s(?:it|that\scase|(?:the|this)\s{TEXTS}),"
    r"|to\s(?:an?|some|most|many)\s(?!\w+\smind)|when\s(?:it|its|the|this|all)\b(?!\scomes)",
    # in an earlier round, I gave it a 4
    past=r"(?:in\san?\s)?(?:earlier|previous)(?:\s\w+)?,?\s(?:i|we|it|this|the\s\w+)\s"
    r"(?:gave|got|had|rated|scored|graded|awarded|assigned|received|earned)\b(?![^,;:]*[,;:])",
    # It could be a 4. Or a 3.
    alternative=r"or\s(?:an?\s)?\Z",
    # add an end and it is a 5
    demand=r"(?:add|fix|remove|cut|drop|change|replace|shorten|correct|include|delete)\b"
    r"(?!\s(?:it|that|this|these|them|up|all)\b)[^.,;]*\band\b",
    inversion=r"(?:wäre|hätte|würde)\b",
    # pour obtenir un 5   um eine 5 zu bekommen   要得到5分
    goal=r"(?:pour|para|per)\s(?!(?:moi|m[ií]|me|mim|el|la|le|il|lo|l['’]|der|die|das|cette?|est[ea]|quest[oa]|su|son)\b)[a-zéè]+(?:er|oir|re|ir|ar)(?:\s(?:an?|al?|un[ea]?))*\s?\Z|(?:um|om)\s(?:eine?|een|auf)\b"
    r"|(?:чтобы|aby)\s|(?:要|想)(?:得到?|拿到?|达到)",
    # according to the review, but not: to the rubric, to me
    source=r"(?:according\sto|laut|selon|según|secondo|segundo|volgens|enligt|ifølge|według|podle"
    r"|согласно)\s(?![^,]{0,20}(?:rubri|[sš][ck]al|crit|krit|definition|guideline|instruction|scor"
    r"|éch|esc|gril)|(?:me|moi|mir|mim|yo|mig|mij)\b)",
)
# were it shorter   should it end well   to be a 5
_INVERSION = lazy_pattern(
    r"(?:\A|[,;]\s|\band\s)\W*(?:had(?!\sto\b)|(?:in\sorder\s)?to\s(?:make\s(?:it|this|that)(?=(?:\san?)?\s?(?:\s\d|\Z))|be\s(?:an?|the|\d|rated|worth)"
    r"|get|earn|reach|deserve|merit|receive|score|achieve)"
    r"|(?:should|were)(?!\si\s(?:have|need|be|asked|forced|pressed|to\s(?:choose|give|pick))))\b"
)
_CONDITION_BEHIND = lazy_alternatives(
    r"(?:[^,:\"(–—-]*|\s?[,(–—-]\s?)",
    condition=rf"\b(?:if(?!\s{_MET})|unless(?!\si\b)|had)\b",
    other_case=r",\s(?:it\swould|otherwise|else)\b",
    later=r"\b(?:for\snow|pending)\b",
    # 5点を取るには
    goal=r"[点점분]?[をを]?(?:付ける|つける|取る|得る|出す)(?:に|ため)|[点점분]?[을를]\s?(?:받|주|얻)으?려",
    denial=r",\sbut\s(?:i\s)?(?:can(?:no|['’])t|won['’]t)\W*\Z|아니|(?:어렵|힘들)(?!지\s?않)|무리(?!가?\s?없)|言えない|では(?:ない|あり)|不是",
)
# it would be a 4 without the last paragraph
_MODAL = lazy_pattern(
    r"\b(?:(?:would|should|can|must|will)(?!\sonly\b|\shave\s(?!to\b))|d(?<=['’]d))\b"
)
_WISHED = lazy_pattern(
    r"\b(?:without|but\sfor|except\sfor)\b(?!\s(?:any\s|much\s)?(?:doubt|hesitat|question))"
    r"|\bwith\s(?:an?\s|one\s|some\s)?(?:more|less|fewer|better|another|different)\b|\b(?:were(?!\si\s(?:asked|forced|pressed|to\b))|had)\b(?!\sto\b)(?<!more\shad)(?<!higher\shad)"
    r"|\b(?:with|after)\san?\s(?:[\w-]+\s){0,2}(?:edit|revision|rewrite|polish|correction)\b"
)
# a 5 to a flawless text   a 5 for some readers   a 3 for answers which lack depth
_TO_ANY = lazy_pattern(
    rf"(?:\s[-–—])?\sfor\s(?:that\sone|the\s(?:previous|other|earlier|former)\s(?:one|{TEXTS}))\b|\sto\s(?:an?\s(?!{TEXTS}|\d)|(?:(?:any|every|who)\w*\s(?!{TEXTS})|one\sthat\b))|\sfor\s(?:one|some|many|most)\s(?!thing|of\b|{TEXTS})"
    r"|(?:\s(?:is|would\sbe)\s\w+)?\s(?:for|to)\s(?:answer|response|text|output|translation|stor(?=i)|summar(?=i)|repl(?=i)|essay)(?:ies|s)\s(?:that|which|whose|with)\b"
)
_WISHED_OF_TEXT = lazy_pattern(
    rf"\A\W*with\b|\bbut\b|\bwill\b|\b(?:would|can|must|should)\s(?!(?:\w+ly\s)?(?:be|seem|sit|come|fall|{GIVING})\b)"
    r"|\band\s(?:it|this|the\s\w+)\swould\b"
)
# the summary would, the rating of it should
_DEFINITE = lazy_pattern(
    rf"(?:\b(?:it|this|that)|\b(?:the|this)\s(?:[\w-]+\s){{0,2}}{TEXTS})\s*(?:\w+ly\s)?\Z|(?<!\w)(?P<rating>{RATING})\b"
)


# its style merits no more than a 3, I can't give it more than a 3, it can't exceed a 3
_NO_MORE_THAN = lazy_pattern(
    r"(?<!\w)(?:not?|hard(?:[-\s]pressed)?|(?:can|could|should|would)(?:not|\snot)|\w+n?['’]t)\s(?:\w+\s){0,4}?"
    r"(?:(?:more|higher|better|further)\sthan|\w+\s(?:beyond|above|over|past)|exceed)\b"
    r"|\b(?:hard|difficult)\sto\s\w+\sanything\sbut\b"
    # no reason not to award a 5   no reason to give anything less than a 5
    r"|\b(?:be|feel|seem)\s\w+\sto\s\w+\sanything\s(?:less|other|lower)\sthan\b"
    r"|\bno\s(?:\w+\s)?reason\s(?:not\sto|to\s(?:deny|withhold|(?:\w+\s){1,3}(?:less|lower)\sthan))\b"
)


def _is_mentioned(place: _Place, *, by_judge: bool) -> bool:
    """Return whether a clause does not assert its number."""
    # Score 1: it is poor
    latest = place.latest
    judge = _BEFORE_JUDGE.match(latest)
    if judge and not judge["denied"]:
        latest = latest[judge.end() :]
    is_level = (
        not by_judge
        and place.behind.lstrip().startswith(":")
        and any(name.end() == len(place.clause) for name in _RATING.finditer(place.clause))
    )
    # Suppose that it is a joke. Then it's a 4.
    is_supposed = place.lead.startswith("then ") and re.search(
        r"(?i)\b(?:suppos|assum|imagin)\w+\b[^.!?\n]*[.!?]\s*\Z",
        place.sentence.plain[max(0, place.sentence.start - WINDOW) : place.sentence.start],
    )
    return bool(
        is_level
        or is_supposed
        or _OF_SCALE.search(place.lead)
        or NOT_ASSERTED.search(_HEDGES.sub("", latest))
        or _is_conditional(_BUT.split(place.lead)[-1])
        or _CONDITION_BEHIND.match(place.behind)
        or _TO_ANY.match(place.behind)
        or _is_only_possible(place, by_judge=by_judge)
    )


def _is_conditional(lead: str) -> bool:
    """Return whether the words up to a number say when it would be the rating."""
    found = _CONDITION_FIRST.match(lead) or _CONDITION.search(lead) or _INVERSION.search(lead)
    return found is not None or (
        not lead.isascii() and _CONDITION_ELSEWHERE.search(lead) is not None
    )


# a 4, and a 5 had it ended well
_AND_CLAUSE = lazy_pattern(r",\sand\b|[;:]")


def _is_only_possible(place: _Place, *, by_judge: bool) -> bool:
    """Return whether a modal verb states a possibility other than the judge's own rating."""
    clause = place.sentence.without_aspect(place.clause)
    modal = _MODAL.search(clause)
    if modal is None:
        return False
    opening, beside = place.lead.lstrip(SIGNS), _AND_CLAUSE.split(place.behind)[0]
    if _WISHED.match(opening) or _WISHED.search(clause) or _WISHED.search(beside):
        return True
    # this text, which is short, would be a 4
    parts = place.lead.rsplit(",", 2)
    is_cut = len(parts) == 3 and modal.start() < 2 and _RELATIVE.match(parts[1])
    subject = _DEFINITE.search(parts[0] if is_cut else clause[: modal.start()])
    if place.antecedent and not JUDGE.search(place.antecedent + clause):
        return True
    if by_judge or (subject and subject["rating"]):
        return False
    return subject is None or bool(
        _WISHED_OF_TEXT.search(place.lead) or _WISHED_OF_TEXT.search(place.behind)
    )


# --- numbers that are named or given

_RATING = lazy_pattern(rf"(?<!\w){RATING}(?!\w)")
# Result: 4   but not: the result is 4
_NAME_AND_SIGN = lazy_pattern(
    rf"(?i)(?<!\w)(?:{NOUN}|final|overall|total|tl;?dr|bottom\sline|(?:points|score)\s(?:awarded|given|earned)|my\spoints)\W{{0,3}}[:：=|→;–-][\s\"“*(\[]*\Z"
)


def _names_rating(place: _Place, latest: str) -> bool:
    """Return whether the clause names a rating in `latest`, what is behind its other numbers."""
    return bool(
        _RATING.search(latest)
        or _NAME_AND_SIGN.search(place.lead)
        or RATING_ELSEWHERE.search(latest)
    )


def _names_aspect(place: _Place, latest: str) -> bool:
    """Return whether the aspect is named before the number, or soon behind it: `4 for fluency`."""
    sentence = place.sentence
    beside, near = _BESIDE.match(place.behind), place.behind[:50]
    return (
        sentence.names_aspect(latest)
        or (beside is not None and sentence.names_aspect(beside[0]))
        or (sentence.names_aspect(re.split(r"[,;]", near)[0]) and not re.search(r"\d", near))
    )


def _is_earned(place: _Place, nearest: str) -> bool:
    """Return whether the clause, or its part behind `and`, says that the text gets the number."""
    pattern = _giving_pattern(place.sentence.own)
    return bool(pattern.search(place.clause) or pattern.match(nearest))


@lru_cache(maxsize=256)
def _giving_pattern(own: str) -> re.Pattern[str]:
    """Return the pattern of a clause in which the text gets a rating: `it deserves`, `earning`."""
    text = rf"(?:{TEXTS}|it|this|that|which{f'|{own}' if own else ''})"
    return re.compile(
        rf"(?:\A\W*(?:and\s)?(?:\w+ly\s)?|(?<!\w){text}\s(?:\w+\s){{0,2}}?){GIVING}(?!\w)"
        # the text is rather dull (2)
        rf"|(?<!\w){text}\s?(?:is|['’]s)\s(?:[a-z]+\s){{0,2}}\Z"
        # it seems fair to give it a 2
        rf"|\b{FITTING}\sto\s{GIVING}(?!\w)"
        # it is clearly a solid 2
        rf"|(?<!\w)(?:it|this|that{f'|{own}' if own else ''})\s?(?:is|['’]s)\s"
        r"(?:(?:[a-z]+ly|just|only|still)\s)?an?(?:\s[\w-]+)?\Z"
    )


# --- numbers that belong to another thing or person

_GIVES = lazy_pattern(rf"(?<!\w){GIVING}(?!\w)")
# it says: 4   the score in it   according to the author
_REPORTS = lazy_pattern(
    rf"\b{REPORTING}\b|\bi\s(?:\w+\s(?:it\s)?(?:\w+\s)?and\s)?got\s?\Z|\bwould\ssay(?<!\bi\swould\ssay)|\bthe\s(?:judge|evaluator|grader)\b"
    rf"|\b{RATING}\s(?:in\s(?!the\s(?:region|range|order|area|vicinity)\b)|(?:that\s)?it\s(?:gives|has|says))\b"
    r"|\baccording\sto\sthe\s(?!rubric|scale|criteri|definition|guideline)"
    rf"|\bthe\s(?:article|source|document|context|transcript)\s(?!is\b|was\b|{GIVING}\b)\w+\s?\Z"
)
_AVERAGE = lazy_pattern(
    r"\b(?:averaged?|mean)\b[^.]{0,30}\b(?:aspects|criteria|dimensions|categories|qualities|scores)\b"
)


def _is_of_others(place: _Place, *, is_said: bool) -> bool:
    """Return whether another person gives the number, or another thing gets it."""
    clause = place.clause
    return bool(
        OTHERS.search(f"{place.antecedent} {place.latest}")
        or _REPORTS.search(clause)
        or _AVERAGE.search(place.lead)
        or NOT_ASSERTED_FOREIGN.search(f" {place.latest}")
        or (not place.latest.isascii() and NOT_ASSERTED_CJK.search(place.latest))
        or _is_given_by_others(place, is_said=is_said)
    )


# its sequel got a   most readers gave it a
_GETS = lazy_pattern(
    rf"(?:gets?|got|receive[ds]?|earn(?:s|ed)?|scored)(?:\s(?:an?|{RATING}|of))*\s?\Z"
    r"|(?:gave|rated|scored|graded|awarded|assigned)\s(?:it|this|them|the)\b"
)
_ASKED = lazy_pattern(rf"\b(?:it|this|that|which|one|{TEXTS}|{RATING})\b")


def _is_given_by_others(place: _Place, *, is_said: bool) -> bool:
    """Return whether the subject of a verb of giving is neither the judge nor the judged text."""
    clause = place.sentence.without_aspect(place.clause)
    verbs = [*_GIVES.finditer(clause)]
    if not verbs or not is_said:
        return bool(verbs)
    at = verbs[-1].start()
    subject = _AND.split(clause[:at])[-1].strip(SIGNS)
    return bool(
        subject
        and _GETS.match(clause, at)
        and not _ASKED.search(subject)
        and not JUDGE.search(clause[: verbs[-1].end()])
        and not place.sentence.names_aspect(place.clause)
    )


# I'd place the climax at 4   the score of the match
_RATED_THING = lazy_pattern(
    rf"\b(?:{GIVING}|call|find|(?:score|rating|mark)\sof)\s(?:the|his|her|their)\s(?P<thing>[a-z-]{{3,}})"
)
# for its style   in terms of style
_CONCERNED_THING = lazy_pattern(
    rf"\b(?:for|on(?!\s{LOOK})|regarding|concerning|in\sterms\sof|when\sit\scomes\sto|with\sre(?:spect|gard)\sto|as\s(?:for|regards))\s"
    r"(?!the\s(?:time\sbeing|moment)\b)(?:(?:its|the|their|an?)\s)*+(?!(?:its|the|their)\Z)(?P<thing>[a-z-]{3,})"
)


def _is_of_other_thing(place: _Place, *, is_said: bool) -> bool:
    """Return whether a number is given to another aspect or thing than the asked one."""
    own = place.sentence.own
    beside = _BESIDE.match(place.behind)
    if own and beside and QUALITY_NAME.search(beside[0]):
        # `disfluency` names the same aspect as the asked `fluency`
        return not re.search(own, beside[0], re.IGNORECASE)
    # although for style I would be closer to 2
    opening = _CONCERNED_THING.match(place.clause.lstrip(SIGNS))
    if (
        own
        and opening
        and QUALITY_NAME.search(f"{opening['thing']} ")
        and not re.search(own, opening[0])
    ):
        return True
    if place.sentence.names_aspect(place.before + place.behind):
        return False
    if own and QUALITY_NAME.search(f"{place.antecedent} {place.latest}"):
        return True
    # its grammar gets a 5, and the wording is a 4
    subject = re.search(
        r"\b(?:the|its)\s(?:[a-z]+\s)?([a-z]+)\s(?:is|gets|deserves|merits|earns)\s(?:like\s)?(?:an?|level)\s?\Z",
        place.clause,
    )
    if own and subject and QUALITY_NAME.search(place.sentence.text):
        return NO_OTHER_THING.fullmatch(subject[1]) is None
    name = re.compile(own or "(?!)", re.IGNORECASE)
    things = _things_of(place, is_said=is_said)
    return not all(NO_OTHER_THING.fullmatch(thing) or name.search(thing) for thing in things)


def _things_of(place: _Place, *, is_said: bool) -> Iterator[str]:
    """Yield the nouns of the things that a number is given to, or is said to concern."""
    found = [*_RATED_THING.finditer(place.clause)]
    if place.sentence.own and is_said:
        # behind the verb or the judge: the note on his age makes it a 4
        verbs = [*_GIVES.finditer(place.clause)] or [*JUDGE.finditer(place.clause)]
        start = verbs[-1].end() if verbs else len(place.clause)
        found += _CONCERNED_THING.finditer(place.clause, start)
        # for its style alone, if that counted, I would give it a 4
        openings = (_CONCERNED_THING.match(one.lstrip(SIGNS)) for one in (place.lead, place.clause))
        found += filter(None, openings)
    beside = _CONCERNED_THING.match(place.behind.lstrip())
    found += [beside] if beside else []
    return (match["thing"] for match in found)
