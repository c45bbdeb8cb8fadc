"""How judges word a rating: the rules of `parsing`, in the order of how sure they are.

Works on text in which `distractors` has blanked what is certainly no rating. Every gap in a pattern
is bounded.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from textassay.agents.reading.other_numbers import (
    FOREIGN,
    NUMBER,
    OUT_OF,
    Found,
    compiled,
    found_in,
)

Form = Literal["number", "letters", "stars"]
"""How a rating is asked for; `letters` are A for the lowest point of the scale, B for the next, and
so on."""

_MARKUP = r"[\s*_`\"'(\[{<$\\~]{0,12}(?:boxed\{|text\{)?"
_NOUNS = r"(?:scor(?:e|ing)|rating|rate|grade|mark|evaluation|assessment|answer|verdict|judge?ment|result|points|stars)"
_GAP = rf"[^.!?;\n\d{FOREIGN}]{{0,80}}?"
_VERBS = (
    r"rate|give|gives|given|giving|assign\w{0,3}|award\w{0,3}|deserv\w{1,3}|earn\w{0,3}|receiv\w{1,3}|merit\w{0,3}"
    r"|gets?|getting|evaluat\w{1,3}|scor(?:es|ed|ing)|rat(?:ed|es|ing)|grad(?:ed|es|ing)"
)
_NO_NOUN = (  # "scored 3 penalties" is about the text, "scored 3 for fluency" is not
    rf"(?=[\s*_\"')\]]{{0,5}}(?:\Z|[.,;:!?\n({OUT_OF}–—-]"
    r"|\b(?:for|on|out|in|due|because|as|since|with|and|but|overall|points?|stars?)\b))"
)
BARE = compiled(
    rf"\A(?:{_MARKUP}(?:yes|no)\b[\s,.:;–—-]{{1,4}}|\s{{0,4}}[-•–—]\s{{1,3}})?{_MARKUP}{NUMBER}"
    rf"(?:{OUT_OF}|\s{{0,3}}(?:points?|stars?))?[\s*_`\"'.!)\]}}>$~,;]{{0,20}}\Z"
)
_PHRASES = (
    rf"\b(?:score|rating|grade|mark)s?\b{_GAP}{NUMBER}",
    rf"\b(?:{_VERBS})\b{_GAP}\b(?:an?|as|of|at|it|this|a\s{{1,3}}solid)\s{{1,3}}[*_\"'(]{{0,3}}{NUMBER}",
    rf"\b(?:scor(?:es|ed|ing)|rat(?:ed|es|ing)|grad(?:ed|es|ing))\b{_GAP}{NUMBER}{_NO_NOUN}",
)
_NEGATED = compiled(
    r"\b(?:cannot|can't|can not|unable to|not able to|won't|will not|refuse to|decline to)\b[^.!?\n]{0,60}\Z"
)
_SHARE = compiled(rf"{NUMBER}{OUT_OF}")
_STARS = compiled(rf"{NUMBER}[\s-]{{0,6}}(?:full\s)?stars?\b")
_GLYPHS = re.compile(r"[★⭐🌟]\ufe0f?(?:\s?[★⭐🌟]\ufe0f?){0,20}")
_ASTERISKS = re.compile(r"\A\s*(\*{1,20})\s*\Z")
_UNKNOWN_LABEL = re.compile(
    rf"(?im)^[\s\d>*_#.)-]{{0,10}}[^\W\d_][\w \-/()'*]{{0,40}}:[ \t*_]{{0,4}}{NUMBER}(?:{OUT_OF})?[ \t.*_]{{0,6}}$"
)
_OPENING = re.compile(
    rf"\A[\s*_`\"'(\[#]{{0,12}}{NUMBER}(?:{OUT_OF})?(?=\s*\Z|[ \t*_)\]]{{0,4}}(?:\n|[-–—:.,;(!]|[A-Z\"']))"
)
_CLOSING = re.compile(
    rf"(?:\A|[.!?:;)\]\"'\n>])[\s*_(\[\"'`]{{0,8}}(?:[-–—]\s)?{NUMBER}(?:{OUT_OF})?[\s.*_)\]\"'!`}}$]{{0,8}}\Z"
)
_NUMBERED = re.compile(rf"\A[\s*_#]{{0,12}}{NUMBER}[.)]\s{{1,4}}[^\W\d]")
_PARENTHESISED = re.compile(rf"[(\[]\s?{NUMBER}(?:{OUT_OF})?\s?[)\]]")


def first_rating(
    text: str, scale: tuple[float, float], form: Form, aspect: str | None
) -> Found | None:
    """Return the rating that the surest rule finds, on the scale or not; `None` where no rule finds one."""
    if bare := BARE.match(text):
        return found_in(bare)
    if labelled := _labelled(text, aspect):
        return labelled
    if form == "stars" and (stars := _STARS.search(text)):
        return found_in(stars)
    phrased = _phrased(text, scale, aspect)
    if phrased is not None and _is_on(scale, phrased):
        return phrased
    for pattern in (_SHARE, _STARS):
        if last := last_of(pattern.finditer(text)):
            return found_in(last)
    return _glyphs(text) or _at_the_edge(text) or phrased


def _phrased(text: str, scale: tuple[float, float], aspect: str | None) -> Found | None:
    """Return the last rating given in a phrase, one that is on the scale where there is one."""
    matches = [m for pattern in _phrases(aspect) for m in pattern.finditer(text)]
    stated = [m for m in matches if not _NEGATED.search(text[max(0, m.start() - 60) : m.start()])]
    found = sorted((found_in(m) for m in stated), key=lambda item: (_is_on(scale, item), item[1]))
    return found[-1] if found else None


def _at_the_edge(text: str) -> Found | None:
    """Return a rating that opens or closes the answer, or is its only number in parentheses or behind a label."""
    unknown = list(_UNKNOWN_LABEL.finditer(text))
    if len(unknown) == 1:
        return found_in(unknown[0])
    if (opening := _OPENING.match(text)) and not _NUMBERED.match(text):
        return found_in(opening)
    end = len(text.rstrip())
    start = max(0, end - 60)
    if closing := _CLOSING.search(text[start:end]):
        return found_in(closing, start)
    aside = {found_in(m)[0]: m for m in _PARENTHESISED.finditer(text)}
    if len(aside) == 1:
        return found_in(next(iter(aside.values())))
    return found_in(opening) if opening else None


def _is_on(scale: tuple[float, float], found: Found) -> bool:
    return found[0] is not None and scale[0] <= found[0] <= scale[1]


def last_of(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    """Return the last match, `None` where there is none."""
    return next(iter(deque(matches, maxlen=1)), None)


@lru_cache(maxsize=1024)
def _label(aspect: str | None) -> re.Pattern[str]:
    """Return what finds `Coherence: 3`, `"coherence_score": 3`, `Rating (1-3) = 2`, `Score for fluency is: 2`."""
    own = _stem(aspect)
    name = rf"(?P<own>{own})" if own else r"(?P<own>(?!))"
    return compiled(
        rf"(?:\b|_)(?:{name}|{_NOUNS}s?\b)[^\n:=.!?\d]{{0,60}}?(?:[:=]|-\s|—|–){_MARKUP}"
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
    """Return a pattern for an aspect's name and its close forms: coherence, coherent, coherently."""
    if not aspect or not aspect.strip():
        return ""
    words = [re.escape(word) for word in re.split(r"[\s_-]+", aspect.strip())]
    if len(aspect.strip()) > 6 and aspect.strip()[-2:].isalpha():
        words[-1] = words[-1][:-2] + r"\w{0,5}"
    return r"[\s_-]{1,3}".join(words)


@lru_cache(maxsize=1024)
def _named(aspect: str | None) -> re.Pattern[str] | None:
    stem = _stem(aspect)
    return compiled(stem) if stem else None


_LETTERS = re.compile(r"[^\W\d_]+")
_SENTENCE_END = re.compile(r"[.,:;!?]\s")
_FINAL = compiled(r"\b(?:final|overall|total)\W{0,3}\Z")
_NEUTRAL = compiled(
    r"(?:final|overall|total|my|your|the|an?|numeric|numerical|single|given|aspect)\Z"
)


def _labelled(text: str, aspect: str | None) -> Found | None:
    """Return the rating with the aspect's own label, else a final, else a plain, else the only other one.

    Of several with the aspect's name or `final` the last counts, as it does for an echo of the
    prompt; of several plain ones the first, since judges that ramble on rate other aspects there.
    """
    own, final, plain, others = [], [], [], []
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
    if own or final:
        return found_in((own or final)[-1])
    if plain:
        return found_in(plain[0])
    return found_in(others[0]) if len(others) == 1 else None


def _glyphs(text: str) -> Found | None:
    if stars := _ASTERISKS.match(text):
        return float(len(stars[1])), stars.span(1)
    if (last := last_of(_GLYPHS.finditer(text))) is not None:
        return float(sum(last[0].count(star) for star in "★⭐🌟")), last.span()
    return None
