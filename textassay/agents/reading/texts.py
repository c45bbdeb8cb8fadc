"""Tells a number that rates the source from one that rates the text that was made from it.

An answer that speaks of both, an article and its summary, may rate the article first, or only the
article: `The article is superb, a 5. The summary is missing.`
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from textassay.agents.reading.values import WINDOW, lower_of
from textassay.agents.reading.words import GIVING, NOUN, any_of
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
# the summary, but not: in summary, its summary
_MADE = lazy_pattern(rf"(?<!in\s)(?<!its\s)(?<!\w){_TEXT}")
# ## Source   **Summary** (to be rated):
_HEADING = lazy_pattern(
    rf"(?m)^[\W\d]*(?:(?:the|original)\s)?(?:(?P<source>{_SOURCE})|{_TEXT})"
    r"(?:\s\([^()\n]{1,40}\))?[\s:：#*_]*$"
)
# The article is a   Article fluency:   I rate the article   I really loved the article
_RATES_SOURCE = lazy_pattern(
    r"(?:\A|[,:(—–-]\s*|\s(?:and|but|while|whereas|so)\s)[^\w,]*(?:(?:the|this|der|el|il|o|de)\s|l['’])?"
    rf"(?:(?!in\b)\w+\s)?{_SOURCE}(?:\sitself|['’]s)?"
    r"(?:\s?[:：=]|\s[\w ]{1,30}[:：]|は|(?<=[文章事])"
    r"|\s(?:\w+\s){0,2}?(?:is|was|gets?|got|deserves|merits|would|reads|earns|scores?|ist|est|es|è|mérite|merece)\b)"
    rf"|(?<!\w)(?:{GIVING}|(?:lik|lov|enjoy)(?:e|ed)|for)(?:\sto)?\s(?:the|this)\s(?:original\s)?{_SOURCE}\b(?!['’])"
)


class _Texts(NamedTuple):
    """Where an answer speaks of a source and of the text that was made from it."""

    lower: str
    made: int
    """Where it first names the text that was made."""
    headings: list[tuple[int, bool]]
    """Where sections of the two begin, and whether of the source."""


@lru_cache(maxsize=1)
def _texts_of(plain: str) -> _Texts | None:
    """Return the two texts of an answer; `None` if it does not speak of both."""
    lower = lower_of(plain)
    if not _names_source(lower):
        return None
    made = _MADE.search(lower)
    if made is None:
        return None
    found = _HEADING.finditer(lower) if "\n" in plain else ()
    headings = [(one.start(), one["source"] is not None) for one in found]
    return _Texts(lower, made.start(), headings)


def rates_source(plain: str, start: int, at: int, end: int) -> bool:
    """Return whether a number rates the source, in an answer that speaks of another text, too.

    Args:
        plain: The answer without markup.
        start: Where the sentence of the number begins.
        at: Where the number is.
        end: Where the sentence ends.
    """
    texts = _texts_of(plain)
    if texts is None:
        return False
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
    if _RATES_SOURCE.search(lead, made[-1] if made else 0):
        return True
    if made or _MADE.search(behind):
        return False
    if _RATES_SOURCE.search(behind):
        return True
    # The article is superb. It deserves a 5. The summary is missing.
    if texts.made < at or re.match(rf"\W*(?:\w+\s)?{NOUN}\s?[:：=]", lead):
        return False
    earlier = re.split(r"[.!?;\n]\s", texts.lower[max(0, start - 2 * WINDOW) : start])
    named = [*filter(_names_source, earlier[-4:])]
    return bool(named and _RATES_SOURCE.search(named[-1]))


def _names_source(lower: str) -> bool:
    return any(word in lower for word in _SOURCES)
