"""Words and n-grams as the lexical tools count them.

A word is a run of letters and digits, with inner apostrophes and hyphens; Han characters and kana
stand alone, since their scripts do not mark words. Nothing here is specific to English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# kana, CJK with its first extension, compatibility ideographs
_HAN_KANA = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# don't   state-of-the-art   2024   日
_WORD = re.compile(rf"[{_HAN_KANA}]|[^\W_{_HAN_KANA}]+(?:['\u2019\-][^\W_{_HAN_KANA}]+)*")


def words(text: str) -> list[str]:
    """Return the words of a text, as written."""
    return _WORD.findall(text)


def folded_words(text: str) -> list[str]:
    """Return the words of a text without regard to case."""
    return _WORD.findall(text.casefold())


def ngrams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """Iterate over all runs of `n` tokens, in order; none if there are fewer."""
    return zip(*(tokens[i:] for i in range(n)), strict=False)
