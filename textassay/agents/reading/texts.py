"""Tells a number that rates another text of the prompt from one that rates the asked one.

An answer may rate the source first, or only the source: `The article is superb, a 5. The summary
is missing.` Or it says behind the rating of one text that another one is asked: `I'd go 4 for A.
Now B, which is the one to be rated.`
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from textassay.agents.reading.values import WINDOW, lower_of
from textassay.agents.reading.words import GIVING, TEXTS, any_of
from textassay.lazy import lazy_pattern

_SOURCES = (
    "article", "source", "original", "document", "reference", "transcript", "artikel", "artículo",
    "articulo", "articolo", "artigo", "文章", "原文", "記事",
)  # fmt: skip
_SOURCE = rf"(?:{'|'.join(_SOURCES)})(?:\s(?:text|document|article|answer|response|version))?"
_TEXT = any_of(
    "summary response answer translation paraphrase candidate output reply rewrite rewriting"
    " zusammenfassung übersetzung antwort r[ée]sum[ée] traduction resumen traducci[óo]n riassunto"
    " traduzione resumo 摘要 总结 译文 回答 要約 翻訳"
)
# the summary, but not: in summary, its summary, a short summary, the answer to the question
_MADE = lazy_pattern(
    r"(?<!in\s)(?<!its\s)(?<!\ba\s)(?<!\ban\s)(?<!\ba\sshort\s)(?<!\ba\sbrief\s)(?<![a-zà-ü])"
    rf"{_TEXT}(?!\sto\s(?:the|its|this|that)\s|\sis\sgiven\b)"
)
# ## Source   **Summary** (to be rated):
_HEADING = lazy_pattern(
    rf"\n[\W\d]{{0,12}}(?:(?:the|original)\s)?(?:(?P<source>{_SOURCE})|{_TEXT})"
    r"(?:\s\([^()\n]{1,40}\))?[ \t:：#*_]*(?=\n|\Z)"
)
# The article is a   Article fluency:   I rate the article   I really loved the article
_RATES_SOURCE = lazy_pattern(
    r"(?:\A|[,:(—–-]\s*|\s(?:and|but|while|whereas|so)\s|(?<!given)(?<!considering)(?<!seeing)(?<!fact)\sthat\s)[^\w,]{0,6}(?:(?:the|this|der|el|il|o|de)\s|l['’])?"
    rf"(?:(?!in\b)\w+\s)?{_SOURCE}(?:\sitself|['’]s)?"
    r"(?:\s?[:：=]|\s[\w ]{1,30}[:：]|は|(?<=[文章事])"
    r"|\s(?:\w+\s){0,2}?(?:is|was|gets?|got|deserves|merits|would|reads|earns|scores?|ist|est|es|è|mérite|merece)\b)"
    rf"|(?<!\w)(?:{GIVING}|(?:lik|lov|enjoy)(?:e|ed)|for)(?:\sto)?\s(?:the|this)\s(?:original\s)?{_SOURCE}\b(?!['’])"
)


# Text B, which I was asked to rate   the second one, which is under review   Draft 2 (to be rated)
_ASKED = lazy_pattern(
    r"(?:\b(?<!any\s)(?<!some\s)(?<!other\s)(?:second|other|next|new|candidate|two|revised|edited|the\sones?)\b"
    rf"(?!\s(?:aspect|criteri|dimension|point|question|part|paragraph|sentence|section|step))|(?:{TEXTS}|version|assistant|model)\s[b-h2-9]\b)"
    r"(?![^.!?\n]{0,80}\b(?:above|already)\b)[^.!?\n]{0,60}(?:\b(?:asked|supposed|meant|have|had|am|was|i['’]m)\s"
    r"(?:asked\s)?to\s(?:rate|evaluate|judge|assess|score)\b"
    r"|(?:ones?\s|(?:is|are|was)\s|[(,]\s?)to\sbe\s(?:rated|evaluated|judged|assessed|scored)"
    r"|\bunder\s(?:review|evaluation)|\byou\s(?:wanted|asked)|\basked\s(?:about|for)\b)"
)


class _Texts(NamedTuple):
    """Where an answer speaks of several texts."""

    lower: str
    second: int
    """Where it says that another text than before is the asked one; 0 for nowhere."""
    made: int
    """Where it first names a text that was made from a source."""
    headings: list[tuple[int, bool]]
    """Where sections of the two begin, and whether of the source."""


@lru_cache(maxsize=1)
def _texts_of(plain: str) -> _Texts | None:
    """Return where an answer speaks of several texts; `None` if it speaks of one."""
    lower = lower_of(plain)
    stems = ("rat", "eval", "judg", "assess", "scor")
    is_asked = (
        "to " in lower and any(f"to {s}" in lower or f"to be {s}" in lower for s in stems)
    ) or (
        "you asked" in lower
        or "asked about" in lower
        or "you wanted" in lower
        or "under review" in lower
        or "under evaluation" in lower
    )
    one = _ASKED.search(lower) if is_asked else None
    second = max(lower.rfind(sign, 0, one.start()) for sign in ".!?\n") + 1 if one else 0
    made = _MADE.search(lower) if _names_source(lower) else None
    if made is None:
        return _Texts(lower, second, -1, []) if second else None
    found = _HEADING.finditer(f"\n{lower}") if "\n" in plain else ()
    headings = [(one.start(), one["source"] is not None) for one in found]
    return _Texts(lower, second, made.start(), headings)


def rates_other_text(plain: str, start: int, at: int, end: int) -> bool:
    """Return whether a number rates the source, or a text before the one that is asked.

    Args:
        plain: The answer without markup.
        start: Where the sentence of the number begins.
        at: Where the number is.
        end: Where the sentence ends.
    """
    texts = _texts_of(plain)
    if texts is None:
        return False
    if at < texts.second or texts.made < 0:
        return at < texts.second
    above = [is_source for place, is_source in texts.headings if place < at]
    if above and len({is_source for _, is_source in texts.headings}) == 2:
        return above[-1]
    lead, behind = (
        texts.lower[max(start, at - WINDOW) : at],
        texts.lower[at : min(end, at + WINDOW)],
    )
    if texts.made < at and not _names_source(lead + behind):
        return False
    made = [one.end() for one in _MADE.finditer(lead)]
    if _gives_to_source(lead[made[-1] if made else 0 :]):
        return True
    if made or _MADE.search(behind):
        return False
    if _RATES_SOURCE.search(behind):
        return True
    # The article is superb. It deserves a 5. The summary is missing.
    if texts.made < at or not re.search(r"\bit\b", lead):
        return False
    earlier = re.split(r"[.!?;] ", texts.lower[max(0, start - WINDOW) : start])
    return len(earlier) > 1 and not earlier[-1] and _gives_to_source(earlier[-2])


def _gives_to_source(lower: str) -> bool:
    """Return whether words rate the source, and do not go on with a consequence or a denial."""
    ends = [found.end() for found in _RATES_SOURCE.finditer(lower)]
    further = r"\b(?:so|therefore|thus|hence|not|missing|about)\b|n['’]t\b"
    return bool(ends) and re.search(further, lower[ends[-1] :]) is None


def follows_asked(plain: str, at: int) -> bool:
    """Return whether a place is behind words that say which of several texts is asked."""
    texts = _texts_of(plain)
    return texts is not None and 0 < texts.second <= at


def _names_source(lower: str) -> bool:
    return (
        "article" in lower
        or "source" in lower
        or "original" in lower
        or "document" in lower
        or "reference" in lower
        or "transcript" in lower
        or (("arti" in lower or not lower.isascii()) and any(one in lower for one in _SOURCES))
    )
