"""Words, numbers and marks of texts that are compared with quotations, however they are typed.

What typing alone changes is evened out: case, white space, quotation marks and dashes, characters
without a width, Markdown's emphasis and bullets, words that a line break divides, and `did n't` for
`didn't`. Signs, symbols and fractions of a number stay with it: `-5`, `.5`, `3/4`, `10%`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0e4f\u0e80-\u0eff\u1000-\u104f\u1780-\u17dd\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff"
)
# -5   +.5   1,000.5   10:30   3/4: a number with its sign, but not the "-" of "3-4" or "3 -4"
_NUMBER = r"(?:(?<!\d\s)(?<![^\s(\[])[-+](?=\.?\d))?(?:(?<![\w.])\.(?=\d))?\d+(?:[.,:/]\d+)*"
_ASCII = re.compile(rf"{_NUMBER}|[a-z]+|[^\w\s]|_")
_UNSPACED_WORD = re.compile(f"[{_UNSPACED}]")

_MARKS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
    # one mark for all quotations: inside JSON a model writes '...' for "..."
    **dict.fromkeys('"\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb', "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    "\u2044": "/",
    # no width at all: soft hyphens, joiners, marks of direction
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", ""),
}
_PLAIN = str.maketrans(_MARKS)
# 10\u00b2 is not 102, and 5\u00bd is not 51/2, which is what NFKC makes of them
_RAISED = re.compile(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u2079])")
_VULGAR = re.compile(r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e])")
# **bold**   _emphasis_   at the beginning of a line: "# ", "- ", "> "
_EMPHASIS = re.compile(
    r"(?<!\w)\*{1,3}(?=\S)|(?<=\S)\*{1,3}(?!\w)|(?<!\w)__?(?=\w)|(?<=\w)__?(?!\w)"
)
_LINE_MARK = re.compile(r"(?m)^[ \t]*(?:#{1,6}|[-*+>])[ \t]+")
# did n't   can not: tokenized text, as many news corpora hold it
_SPLIT_NOT = re.compile(r"\s+(?=n't\b)|(?<=\bcan)\s+(?=not\b)")
_SHORT_NOT = re.compile(r"'t\b")
_DIVIDED = re.compile(r"(?<=[^\W\d_])-[ \t]*\n\s*(?=[^\W\d_])")
BESIDE_NUMBERS = frozenset("+<>=\u2264\u2265\u2260\u00b1\u2248~")
"""Signs that belong to the number after them."""


def plain(text: str) -> str:
    """Return a text as it is compared."""
    if text.isascii():
        text = text.translate(_PLAIN)
    else:
        text = _VULGAR.sub(" ", _RAISED.sub("^", text.translate(_PLAIN)))
        # Translated twice: NFKC itself yields such marks (primes out of a quadruple prime).
        text = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    text = _EMPHASIS.sub("", _LINE_MARK.sub("", text.casefold()))
    return _SPLIT_NOT.sub("", re.sub("'{2,}", "'", text))


def spellings(text: str) -> Iterator[str]:
    """Yield a text, and again with the words put together that line breaks divide."""
    yield text
    whole = _DIVIDED.sub("", text)
    if whole != text:
        yield whole


def tokens(text: str) -> list[str]:
    """Return words, numbers and marks of a plain text, in order."""
    return _pattern(text).findall(text)


def joined(text: str) -> list[bool]:
    """Return whether each token is part of a longer word, such as `5` in `5m`, `can` in `can't`.

    A quotation does not end with such a token or begin right after it.
    """
    spans = [match.span() for match in _pattern(text).finditer(text)]
    found = [False] * len(spans)
    for left, ((start, end), (after, stop)) in enumerate(pairwise(spans)):
        if end != after:
            continue
        if text[after] == "'":
            found[left] = _SHORT_NOT.match(text, after) is not None
            continue
        pair = text[start:end], text[after:stop]
        # where words have no spaces between them, one may begin anywhere
        found[left] = all(is_word(one) and not _UNSPACED_WORD.match(one) for one in pair)
    return found


def words_in(found: Sequence[str]) -> float:
    """Return how many words tokens have; a sign of a script without spaces is half a word."""
    return sum(0.5 if _UNSPACED_WORD.match(token) else 1.0 for token in found if is_word(token))


def is_word(token: str) -> bool:
    """Return whether a token is a word or a number."""
    return any(map(str.isalnum, token))


def stripped(found: list[str]) -> list[str]:
    """Return tokens without the punctuation around them, which models add.

    What changes a number stays: currencies, `%`, signs of comparison.
    """
    kept = [
        at for at, token in enumerate(found)
        if is_word(token) or _counts(token, found[at - 1 : at] + found[at + 1 : at + 2])
    ]  # fmt: skip
    return found[kept[0] : kept[-1] + 1] if any(map(is_word, found)) else []


def _counts(token: str, beside: list[str]) -> bool:
    numbers = any(char.isdigit() for one in beside for char in one)
    symbol = token in "%\u2030\u00b0" or unicodedata.category(token) == "Sc"
    return numbers and (symbol or token in BESIDE_NUMBERS)


def _pattern(text: str) -> re.Pattern[str]:
    # marks that combine with letters are no letters for `re`, and listing them takes a while
    return _ASCII if text.isascii() else _unicode_pattern()


@cache
def _unicode_pattern() -> re.Pattern[str]:
    marks = "".join(
        re.escape(char) for char in map(chr, range(0x300, 0x10000))
        if unicodedata.category(char).startswith("M")
    )  # fmt: skip
    letter = rf"(?![{_UNSPACED}])[^\W\d_]"
    return re.compile(
        rf"{_NUMBER}[{marks}]*|[{_UNSPACED}][{marks}]*|{letter}(?:{letter}|(?![{_UNSPACED}])[{marks}])*"
        r"|[^\w\s]|_"
    )
