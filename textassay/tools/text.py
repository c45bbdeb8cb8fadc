"""Texts cut into words, n-grams, sentences, and windows that a model can take.

A word is a run of letters and digits, with inner apostrophes and hyphens. Every Han character and
kana is a word, since their scripts do not mark words. Nothing here is specific to English.

Sentences are found by rules that need no model and no download, for list items, abbreviations,
initials, quotations, the end marks of several scripts, and tokenized text (`a draw on sunday . he
was`). They take one pass over the text. `NltkSplitter` cuts as several papers do.

Windows are parts of texts that are longer than a model takes; every word is in at least one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from typing import Protocol
from unicodedata import category, normalize

from textassay.runtime.errors import ConfigurationError
from textassay.tools.tool import need

_BEFORE_NAMES, _MAY_END, _STARTERS = (
    frozenset(words.split())
    for words in (
        # titles and similar words, which a name or number follows: never the end of a sentence
        """
        mr mrs ms mx dr prof rev hon sen rep gov gen col lt sgt capt cmdr adm maj pres st ste mt ft
        fig figs eq eqs no nos vol vols pp ed eds vs v cf al e.g i.e viz approx dept messrs mmes fr
        hr herr frau nr bzw usw z.b d.h jan feb mar apr jun jul aug sep sept oct nov dec
        """,
        # may end a sentence: they do if a word follows that begins sentences and no names
        "inc ltd co corp llc jr sr etc bros plc a.m p.m am pm u.s u.k u.n e.u d.c ph.d b.c a.d",
        # begin sentences and no names
        """
        the a an he she it they we i you this that these those there but and so in on at as if when
        while however his her their our its my your what who why how where meanwhile for after
        before by with from to not no yes
        """,
    )
)

_BREAK = re.compile(
    r"""
      (?P<end> [.!?\u2026\u061f\u06d4\u0964\u0965]+                                  # end marks
          # closing quotes and brackets around them
          (?: \s+(?:''|[\u2019\u201d])(?=\s|$) | [)\]}"'\u2019\u201d\u00bb]* )
      ) (?= \s | $ )
      # full-width marks need no space
    | (?P<wide> [\u3002\uff01\uff1f\uff61]+ [\u300d\u300f\u201d\u2019\uff09)\]]* )
    | (?P<line> [^\S\n]* \n \s* )
    """,
    re.VERBOSE,
)
# "- ", "1. ", "(2) ", "b) " at the beginning of a list item
_ITEM = re.compile(r"(?:[-*\u2022\u2023\u25aa\u25cf\u2013\u2014]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s")
# the word right before a dot, without brackets and quotation marks: (e.g -> e.g
_LAST_WORD = re.compile(r"[^\s(\[{\"'\u2018\u201c]+$")


@cache  # made on first use, as it takes 10 ms and most methods only split sentences
def _word_pattern() -> re.Pattern[str]:
    """Return the pattern of a word: don't   state-of-the-art   2024   日   हिन्दी."""
    # kana, CJK with its first extension, compatibility ideographs
    han_kana = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    # vowel signs and accents of any script, which belong to their word
    codes = range(0x300, 0xFE30)
    marks = "".join(char for code in codes if category(char := chr(code)) in ("Mn", "Mc"))
    letters = rf"(?:[^\W_{han_kana}][{marks}]*)+"
    return re.compile(rf"[{han_kana}]|{letters}(?:['\u2019\-]{letters})*")


NGramCounts = Callable[[str], int]
"""Tokens of a text, without special ones."""


class SentenceSplitter(Protocol):
    """Cuts a text into sentences."""

    @property
    def signature(self) -> str:
        """Short name with a version; part of the signature of scores that depend on it."""

    def split(self, text: str) -> list[str]:
        """Return the sentences in order, stripped and not empty.

        Together they have every character of the text but white space.
        """


class RuleSplitter:
    """Splits by rules, which hold for every script that marks the ends of sentences."""

    signature = "rules-1"

    def split(self, text: str) -> list[str]:
        return [
            sentence for start, end in self._spans(text) if (sentence := text[start:end].strip())
        ]

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        start = 0
        for match in _BREAK.finditer(text):
            end = match.end("end") if match["end"] else match.end()
            if self._breaks(text, start, match):
                yield start, end
                start = end
        yield start, len(text)

    def _breaks(self, text: str, start: int, match: re.Match[str]) -> bool:
        if match["line"]:
            return not self._is_wrapped_line(text, start, match)
        return bool(match["wide"]) or self._ends(text, start, match)

    def _is_wrapped_line(self, text: str, start: int, match: re.Match[str]) -> bool:
        """Return whether a line break is inside a sentence, because the line was full."""
        if match["line"].count("\n") > 1 or match.end() >= len(text):
            return False
        line_start = max(text.rfind("\n", 0, match.start()) + 1, start)
        # the author ended a short line (a heading, a verse), an editor or terminal a longer one
        is_full = 40 <= match.start() - line_start <= 120
        following = text[match.end() : match.end() + 8]
        return is_full and following[:1].islower() and not _ITEM.match(following)

    def _ends(self, text: str, start: int, match: re.Match[str]) -> bool:
        """Return whether an end mark ends a sentence."""
        after = text[match.end() : match.end() + 40].lstrip()
        if not after:
            return True
        mark = match["end"].rstrip(")]}\"'\u2019\u201d\u00bb ")
        if match.start() == start or text[match.start() - 1].isspace():
            # the mark is a token of its own: tokenized text
            words = text[max(start, match.start() - 30) : match.start()].lower().split()
            last = words[-1] if words else ""
            return last not in _BEFORE_NAMES or last in ("no", "v", "mar")
        if mark != ".":
            asks = mark in ("!", "?") and match["end"] == mark
            return asks or not after[0].islower()
        before = _LAST_WORD.search(text, max(start, match.start() - 30), match.start())
        sentence = text[start : match.start()].strip()
        return self._dot_ends(before[0] if before else "", sentence, after)

    def _dot_ends(self, word: str, sentence: str, after: str) -> bool:
        low = word.lower().lstrip("-\u2013\u2014")
        if _ITEM.fullmatch(sentence + ". ") or _ITEM.fullmatch(sentence + ") "):
            return False  # the number of a list item
        if after[0].islower():
            return False
        if low in _BEFORE_NAMES:
            # "No. 5" continues a sentence, "He said no. Then" ends one.
            return low == "no" and not after[0].isdigit()
        next_word = re.split(r"[\s,]", after.lstrip("\"'\u2018\u201c(["), maxsplit=1)[0]
        if low in _MAY_END or re.fullmatch(r"(?:[a-z]\.)+[a-z]", low):
            return next_word.lower() in _STARTERS
        if len(word) == 1 and word.isalpha() and word != "I":  # an initial
            return next_word.lower() in _STARTERS
        return True


DEFAULT_SPLITTER = RuleSplitter()
"""The default splitter of tools."""


class NltkSplitter:
    """Splits as `nltk.sent_tokenize` does."""

    def __init__(self) -> None:
        """Load the model, so that missing data is an error before any model is called."""
        nltk = need("nltk.tokenize", extra="nltk", what="sentences=nltk")
        try:
            self._model = nltk.PunktTokenizer("english")
        except LookupError as error:
            raise ConfigurationError(
                "sentences=nltk needs NLTK's data: python -m nltk.downloader punkt_tab"
            ) from error

    @property
    def signature(self) -> str:
        """`nltk-` with NLTK's version."""
        return f"nltk-{version('nltk')}"

    def split(self, text: str) -> list[str]:
        sentences: list[str] = self._model.tokenize(text)
        return [stripped for sentence in sentences if (stripped := sentence.strip())]


def words(text: str) -> list[str]:
    """Return the words of a text, as written."""
    return _word_pattern().findall(text)


def casefold_words(text: str) -> list[str]:
    """Return the words of a text without regard to case or to how accents are encoded."""
    return _word_pattern().findall(normalize("NFC", text).casefold())


def ngrams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """Iterate over all runs of `n` tokens, in order; empty if there are fewer."""
    return zip(*(tokens[i:] for i in range(n)), strict=False)


def split_long(sentences: Sequence[str], count: NGramCounts, limit: int) -> list[str]:
    """Cut sentences that are too long between words, or inside a word that is too long itself."""
    pieces: list[str] = []
    for sentence in sentences:
        pieces += [sentence] if count(sentence) <= limit else _cut(sentence, count, limit)
    return pieces


def pack_sentences(
    sentences: Sequence[str], count: NGramCounts, limit: int, *, overlap: int = 0
) -> list[str]:
    """Return windows of whole sentences with at most `limit` tokens; longer sentences are cut.

    `overlap` sentences of the window before are repeated, as far as they fit.
    """
    pieces = split_long(sentences, count, limit)
    windows: list[str] = []
    start = 0
    while start < len(pieces):
        end = start + 1
        while end < len(pieces) and count(" ".join(pieces[start : end + 1])) <= limit:
            end += 1
        windows.append(" ".join(pieces[start:end]))
        if end == len(pieces):
            break
        # at least one new sentence in every window
        back = overlap
        while back and (
            end - back <= start or count(" ".join(pieces[end - back : end + 1])) > limit
        ):
            back -= 1
        start = end - back
    return windows


def _cut(sentence: str, count: NGramCounts, limit: int) -> list[str]:
    # between words first, and inside a word only if the word alone is too long
    units, glue = sentence.split(), " "
    if len(units) == 1:
        units, glue = list(sentence), ""
    if len(units) == 1:
        return units  # one character: no smaller piece exists
    pieces: list[str] = []
    while units:
        size = _longest(units, glue, count, limit)
        piece = glue.join(units[:size])
        pieces += [piece] if size > 1 or count(piece) <= limit else _cut(piece, count, limit)
        units = units[size:]
    return pieces


def _longest(units: Sequence[str], glue: str, count: NGramCounts, limit: int) -> int:
    """Return how many leading units fit, by bisection; at least 1."""
    low, high = 1, len(units)
    # longer texts have more tokens: bisection tokenizes a dozen times rather than once a word
    while low < high:
        middle = (low + high + 1) // 2
        if count(glue.join(units[:middle])) <= limit:
            low = middle
        else:
            high = middle - 1
    return low
