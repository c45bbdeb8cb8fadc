"""How judges word a rating: the rules of `rating`, in the order of how sure they are.

Works on text in which `asides` and `other_numbers` have blanked what is certainly no rating of the
judge. Every gap in a pattern is bounded.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from textassay.agents.reading.other_numbers import (
    FOREIGN,
    NUMBER,
    OUT_OF,
    NumberMatch,
    compiled,
    found_in,
)
from textassay.lazy import lazy_pattern

Form = Literal["number", "letters", "stars"]
"""How a rating is asked for; `letters` are A for the lowest point of the scale, B for the next, and
so on."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two statements of equal rank that give different ratings, so that neither counts."""

    message: str
    """What stands against what, for people."""


Statement = NumberMatch | Contradiction | None
"""What a rule makes of an answer: a rating, two that differ, or none."""

# what may stand between a label and its number: **  "  (  $\\boxed{
_MARKUP = r"[\s*_`\"'(\[{<$\\~]{0,12}(?:boxed\{|text\{)?"
_NOUNS = (
    r"(?:scor(?:e|ing)|rating|rate|grade|mark|evaluation|assessment|answer|verdict|judge?ment"
    r"|result|points|stars)"
)
# What may stand between a word and its number within one clause, and no other number.
_GAP = rf"[^.!?;\n\d{FOREIGN}]{{0,80}}?"
_VERBS = (
    r"rate|give|gives|given|giving|assign\w{0,3}|award\w{0,3}|deserv\w{1,3}|earn\w{0,3}"
    r"|receiv\w{1,3}|merit\w{0,3}"
    r"|gets?|getting|evaluat\w{1,3}|scor(?:es|ed|ing)|rat(?:ed|es|ing)|grad(?:ed|es|ing)"
)
_NO_NOUN = (  # "scored 3 penalties" is about the text, "scored 3 for fluency" is not
    rf"(?=[\s*_\"')\]]{{0,5}}(?:\Z|[.,;:!?\n({OUT_OF}–—-]"
    r"|\b(?:for|on|out|in|due|because|as|since|with|and|but|overall|points?|stars?)\b))"
)
# 4   **4/5**   - 3 points   Yes, 4   "4."
BARE = compiled(
    rf"\A(?:{_MARKUP}(?:yes|no)\b[\s,.:;–—-]{{1,4}}|\s{{0,4}}[-•–—]\s{{1,3}})?{_MARKUP}{NUMBER}"
    rf"(?:{OUT_OF}|\s{{0,3}}(?:points?|stars?))?[\s*_`\"'.!)\]}}>$~,;]{{0,20}}\Z"
)
# a score of 3 / I would rate it a 4 / scored 3 for fluency / the verdict is 2
_PHRASES = (
    rf"\b(?:score|rating|grade|mark)s?\b{_GAP}{NUMBER}",
    rf"\b(?:{_VERBS})\b{_GAP}\b(?:an?|as|of|at|it|this"
    rf"|a\s{{1,3}}solid)\s{{1,3}}[*_\"'(]{{0,3}}{NUMBER}",
    rf"\b(?:scor(?:es|ed|ing)|rat(?:ed|es|ing)|grad(?:ed|es|ing))\b{_GAP}{NUMBER}{_NO_NOUN}",
    r"\b(?:answer|verdict|judge?ment|evaluation|assessment)\s{1,3}(?:is"
    r"|would\sbe)\s{1,3}(?:an?\s{1,3})?[*_\"'(]{0,3}"
    rf"{NUMBER}{_NO_NOUN}",
)
# I cannot give this a score of 5 / a 4 rather than a 5 / not a score of 5 / to earn a 5
_NEGATED = compiled(
    r"\b(?:(?:cannot|can't|can not|unable to|not able to|won't|will not|refuse to|decline"
    r" to)\b[^.!?\n]{0,60}"
    r"|(?:not|n't|never|rather than|instead of|than|short of|why not|to"
    r" (?:get|earn|deserve|reach|merit|receive))"
    r"\s(?:quite\s|really\s|exactly\s)?(?:an?\s|the\s)?)\Z"
)
# a score of 5 would need more detail / a 5 is reserved for perfect texts
_HYPOTHETICAL = compiled(
    r"[\s*_\"')\]]{0,4}(?:would|needs?|requires?|asks\sfor|is\s(?:reserved|only|for|given|meant"
    r"|too)|means|could|should"
    r"|might|was\smy\sfirst|if)\b"
)
# Initial rating: 2
_PRELIMINARY = compiled(
    r"\b(?:initial|first|preliminary|provisional|tentative|draft|old|previous|earlier)\W{0,3}\Z"
)
# I rate it, I would give this
_FIRST_PERSON = compiled(
    r"\bI(?:'d|'ll|\swould|\swill|\scan|\sam|'m)?\s(?:\w{1,10}\s){0,2}?(?:rate|rating|give|giving"
    r"|score|scoring|assign|award|grade)\b"
)
# 3 out of 5, 4/5: `OUT_OF` stands for "out of <the top of the scale>"
_SHARE = compiled(rf"{NUMBER}\s{{0,4}}{OUT_OF}")
# 4 stars   3.5-star
_STARS = compiled(rf"{NUMBER}[\s-]{{0,6}}(?:full\s)?stars?\b")
# ★★★☆☆: only the filled ones count
_GLYPHS = lazy_pattern(r"[★⭐🌟]\ufe0f?(?:\s?[★⭐🌟]\ufe0f?){0,20}")
# *** as the whole answer; elsewhere asterisks are markup
_ASTERISKS = lazy_pattern(r"\A\s*(\*{1,20})\s*\Z")
# "Flow: 3" as a line of its own
_UNKNOWN_LABEL = lazy_pattern(
    rf"(?im)^[\s\d>*_#.)-]{{0,10}}[^\W\d_][\w \-/()'*]{{0,40}}:[ \t*_]{{0,4}}{NUMBER}(?:{OUT_OF})?["
    r" \t.*_]{0,6}$"
)
# 4 - The summary ...   4\n\nThe summary ...   "4. The" is decided by `_NUMBERED`
_OPENING = lazy_pattern(
    rf"\A[\s*_`\"'(\[#]{{0,12}}{NUMBER}(?:{OUT_OF})?(?=\s*\Z|["
    r" \t*_)\]]{0,4}(?:\n|[-–—:.,;(!]|[A-Z\"']))"
)
# ... of the auction. 2.5
_CLOSING = lazy_pattern(
    rf"(?:\A|[.!?:;)\]\"'\n>])[\s*_(\[\"'`]{{0,8}}(?:[-–—]\s)?{NUMBER}"
    rf"(?:{OUT_OF})?[\s.*_)\]\"'!`}}$]{{0,8}}\Z"
)
# "1. The summary": the first item of a list rather than a rating
_NUMBERED = lazy_pattern(rf"\A[\s*_#]{{0,12}}{NUMBER}[.)]\s{{1,4}}[^\W\d]")
# It reads well (4).
_PARENTHESIZED = lazy_pattern(rf"[(\[]\s?{NUMBER}(?:{OUT_OF})?\s?[)\]]")


# Rating: null / Score: None (see 3 issues) / "rating": N/A: what follows is no rating either
_NO_VALUE = compiled(
    rf"\b{_NOUNS}\"?\s{{0,3}}[:=]\s{{0,3}}[*_\"'(\[<]{{0,4}}(?:null|none|nil|n/?a|nan|undefined"
    rf"|unknown|unclear|not\b|no\b|cannot)"
    r"(?!\w)"
)
# I'm sorry / cannot be rated / N/A
DECLINED = compiled(
    r"\b(?:I|we)(?:'m| am| are)?\s{1,3}(?:really |so )?(?:sorry|unable|cannot|can't|can not|could"
    r" not|couldn't|won't"
    r"|will not|not able|not comfortable|decline|refuse|must decline)\b|\bas an ai\b"
    r"|\b(?:cannot|can't|impossible to|not possible to|unable to)\s{1,3}(?:be\s{1,3})?"
    r"(?:rat|scor|evaluat|assess|judg|provid|determin|giv)|\A\W{0,6}(?:n/?a\b|not applicable)"
)


def first_rating(
    text: str, scale: tuple[float, float], form: Form, aspect: str | None
) -> Statement:
    """Return the rating that the surest rule finds, on the scale or not.

    `None` if no rule finds one.
    """
    if (stated := stated_rating(text, scale, form, aspect, sure=True)) is not None:
        return stated
    phrased = _phrased(text, scale, aspect)
    if _NO_VALUE.search(text):
        return None
    shares = _shares(text, aspect)
    if shares is None and (last := last_of(_STARS.finditer(text))):
        return found_in(last)
    return shares or _glyphs(text) or _at_the_edge(text) or phrased


def _shares(text: str, aspect: str | None) -> Statement:
    """Return the rating given as `3 out of 5`, of several the one whose clause names the aspect."""
    matches, named, end = list(_SHARE.finditer(text)), _named(aspect), 0
    own: list[NumberMatch] = []
    for match in matches:
        if named is not None and named.search(text, end, match.start()):
            own.append(found_in(match))
        end = match.end()
    return agreed(own or [found_in(match) for match in matches])


def stated_rating(
    text: str, scale: tuple[float, float], form: Form, aspect: str | None, *, sure: bool = False
) -> Statement:
    """Return a rating that is nothing but a number, has a label, or is given in a phrase.

    Args:
        text: What the judge said, or the end of it.
        scale: Lowest and highest rating that was asked for.
        form: How the rating was asked for.
        aspect: Name of the judged aspect.
        sure: Whether a phrase counts only if its rating is on the scale.
    """
    # From the surest wording to the least sure: what follows is looked at only if nothing was
    # found.
    if bare := BARE.match(text):
        return found_in(bare)
    if labeled := labeled_rating(text, aspect):
        return _held_against_first_line(text, labeled)
    if form == "stars" and (stars := _STARS.search(text)):
        return found_in(stars)
    if _NO_VALUE.search(text):
        return None
    phrased = _phrased(text, scale, aspect)
    if not sure or phrased is None or isinstance(phrased, Contradiction) or _is_on(scale, phrased):
        return phrased
    return None


def agreed(statements: Sequence[NumberMatch]) -> Statement:
    """Return the last of several statements of equal rank if all give the same rating."""
    values = list(dict.fromkeys(value for value, _ in statements))
    if len(values) < 2:
        return statements[-1] if statements else None
    shown = " and ".join("a range" if value is None else f"{value:g}" for value in values[:2])
    return Contradiction(f"the answer gives more than one rating, {shown}")


# an answer's first line that is a number and nothing else, as in "1\n\nNote: ..."; "1." counts a
# list
_FIRST_LINE = lazy_pattern(rf"\A\s{{0,4}}{_MARKUP}{NUMBER}(?:{OUT_OF})?[ \t*_`\"')\]}}]{{0,8}}\n")


def _held_against_first_line(text: str, labeled: NumberMatch | Contradiction) -> Statement:
    first = _FIRST_LINE.match(text)
    if first is None or isinstance(labeled, Contradiction):
        return labeled
    return agreed([found_in(first), labeled])


def _phrased(text: str, scale: tuple[float, float], aspect: str | None) -> Statement:
    """Return the last rating given in a phrase, one that is on the scale if there is one."""
    stated: list[tuple[NumberMatch, bool]] = []
    for pattern in _phrases(aspect):
        for m in pattern.finditer(text):
            rating = found_in(m)
            before = text[max(0, rating[1][0] - 60) : rating[1][0]]
            if _HYPOTHETICAL.match(text, rating[1][1]) or _NEGATED.search(before):
                continue
            if _NEGATED.search(text[max(0, m.start() - 60) : m.start()]):
                continue
            stated.append(
                (rating, _FIRST_PERSON.search(text, max(0, m.start() - 20), m.end()) is not None)
            )
    own = [rating for rating, first_person in stated if first_person and _is_on(scale, rating)]
    # "I would rate" is a verdict each time; two that differ leave none.
    if isinstance(contradiction := agreed(own), Contradiction):
        return contradiction
    # On the scale before off it, then the last one: judges work up to their rating.
    ordered = sorted((rating for rating, _ in stated), key=lambda one: (_is_on(scale, one), one[1]))
    return ordered[-1] if ordered else None


def _at_the_edge(text: str) -> NumberMatch | None:
    """Return a rating that stands out by its place.

    It opens or closes the answer, or is the only number in parentheses or after a label.
    """
    unknown = list(_UNKNOWN_LABEL.finditer(text))
    if len(unknown) == 1:
        return found_in(unknown[0])
    if (opening := _OPENING.match(text)) and not _NUMBERED.match(text):
        return found_in(opening)
    end = len(text.rstrip())
    start = max(0, end - 60)
    if closing := _CLOSING.search(text[start:end]):
        return found_in(closing, start)
    aside = {found_in(m)[0]: m for m in _PARENTHESIZED.finditer(text)}
    if len(aside) == 1:
        return found_in(next(iter(aside.values())))
    return found_in(opening) if opening else None


def _is_on(scale: tuple[float, float], statement: NumberMatch) -> bool:
    return statement[0] is not None and scale[0] <= statement[0] <= scale[1]


def last_of(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    """Return the last match, or `None`."""
    return next(iter(deque(matches, maxlen=1)), None)


@lru_cache(maxsize=1024)
def _label(aspect: str | None) -> re.Pattern[str]:
    """Return the pattern of a labeled rating.

    It finds `Coherence: 3`, `"coherence_score": 3`, `Rating (1-3) = 2`, `Score for fluency is: 2`.
    """
    own = _stem(aspect)
    name = rf"(?P<own>{own})" if own else r"(?P<own>(?!))"
    return compiled(
        rf"(?:\b|_)(?:{name}|{_NOUNS}s?\b)[^\n:=.!?\d]{{0,60}}?(?:[:=|>]|-\s|—|–){_MARKUP}"
        rf"(?:is\s{{1,3}})?(?:an?\s{{1,3}})?{NUMBER}"
    )


@lru_cache(maxsize=1024)
def _phrases(aspect: str | None) -> tuple[re.Pattern[str], ...]:
    own = _stem(aspect)
    named = (
        (rf"\b{own}{_GAP}\b(?:is|as|at|of)\s{{1,3}}(?:an?\s{{1,3}})?{NUMBER}{_NO_NOUN}",)
        if own
        else ()
    )
    return tuple(map(compiled, _PHRASES + named))


@lru_cache(maxsize=1024)
def _stem(aspect: str | None) -> str:
    """Return a pattern for an aspect's name and its close forms.

    Coherence, coherent, coherently.
    """
    if not aspect or not aspect.strip():
        return ""
    words = [re.escape(word) for word in re.split(r"[\s_-]+", aspect.strip())]
    # Short names would lose too much: "tone" without its end would find "to".
    if len(aspect.strip()) > 6 and aspect.strip()[-2:].isalpha():
        words[-1] = words[-1][:-2] + r"\w{0,5}"
    return r"[\s_-]{1,3}".join(words)


@lru_cache(maxsize=1024)
def _named(aspect: str | None) -> re.Pattern[str] | None:
    stem = _stem(aspect)
    return compiled(stem) if stem else None


_LETTERS = lazy_pattern(r"[^\W\d_]+")
_SENTENCE_END = lazy_pattern(r"[.,:;!?]\s")
# the final score: 4   Overall: 4
_FINAL = compiled(r"\b(?:final|overall|total)\W{0,3}\Z")
# words before a label that leave it plain: "my overall score", as opposed to "fluency score"
_NEUTRAL = compiled(
    r"(?:final|overall|total|my|your|the|an?|numeric|numerical|single|given|aspect)\Z"
)


# a line that names something else to judge: "- Use of fact:"; not "Rationale:"
_HEADING = lazy_pattern(r"(?m)^[ \t>*_#.•\d)-]{0,10}(?P<name>[^\W\d_][^\n:]{0,60}):[ \t*_]{0,4}$")
# a heading of the judge's own remarks, not of another aspect
_REMARK = compiled(
    r"(?:(?:final|overall|my|the)\s)?(?:reason(?:s|ing)?|rationale|explanation|justification"
    r"|comments?|notes?|evidence"
    rf"|analysis|feedback|summary|conclusion|p\.?s\.?|{_NOUNS})\Z"
)


def labeled_rating(text: str, aspect: str | None) -> Statement:
    """Return the one rating of an answer.

    The first kind that occurs wins: a rating labeled with the aspect's own name, one that is
    announced as final, a plain one, any other.

    Statements of equal rank must agree. A plain label below a heading that names something else is
    about that: judges that ramble on rate other aspects there.
    """
    own, final, plain, others = _by_rank(text, aspect)
    if own:
        # "Coherence: 3 ... Final coherence score: 4": the one called final was meant to replace the
        # other.
        last = [m for m in own if _FINAL_WORD.search(text, max(0, m.start() - 20), m.end())]
        return agreed([found_in(m) for m in last or own])
    if final:
        return agreed([found_in(m) for m in final])
    if plain:
        kept = [
            m for m in plain if not _PRELIMINARY.search(text, max(0, m.start() - 20), m.start())
        ]
        return agreed([found_in(m) for m in _before_next_heading(text, kept or plain)])
    return found_in(others[0]) if len(others) == 1 else None


_FINAL_WORD = compiled(r"\bfinal")

Matches = list[re.Match[str]]


def _by_rank(text: str, aspect: str | None) -> tuple[Matches, Matches, Matches, Matches]:
    """Return the labels that name the aspect, say `final`, are plain, and name something else."""
    own, final, plain, others = Matches(), Matches(), Matches(), Matches()
    named = _named(aspect)
    for m in _label(aspect).finditer(text):
        before = text[max(0, m.start() - 40) : m.start()].rpartition("\n")[2]
        opens_line = m.start() <= 40 or "\n" in text[m.start() - 40 : m.start()]
        words = _LETTERS.findall(before) if opens_line and not _SENTENCE_END.search(before) else []
        if m["own"] or (named is not None and (named.search(before) or named.search(m[0]))):
            own.append(m)
        elif 0 < len(words) <= 3 and not all(map(_NEUTRAL.match, words)):
            others.append(m)
        elif _FINAL.search(before):
            final.append(m)
        else:
            plain.append(m)
    return own, final, plain, others


def _before_next_heading(text: str, plain: Matches) -> Matches:
    if len(plain) < 2:
        return plain
    for heading in _HEADING.finditer(text, plain[0].end()):
        if not _REMARK.match(heading["name"].strip(" *_")):
            return [m for m in plain if m.start() < heading.start()]
    return plain


def _glyphs(text: str) -> NumberMatch | None:
    if stars := _ASTERISKS.match(text):
        return float(len(stars[1])), stars.span(1)
    if (last := last_of(_GLYPHS.finditer(text))) is not None:
        return float(sum(last[0].count(star) for star in "★⭐🌟")), last.span()
    return None
