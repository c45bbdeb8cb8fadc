"""Text to token ids, reusing the ids of an earlier text that begins alike.

Criteria are asked about the same source in turn, so most of a prompt has been tokenized before.
Whether its ids can be reused depends on what may be merged across the place where the two texts
part. A **border** is the space between two words, letter-space-letter. If no token of the
vocabulary holds a letter followed by a space, nothing is ever merged across a border, neither by
byte-level BPE nor by SentencePiece's BPE, and the pre-tokenizers of BPE start afresh there: the ids
of a text are then those of its part before the border followed by those of the rest.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.llamacpp.weights import Ids
from textassay.runtime.errors import RequestRefused

MIN_REUSED = 64
"""Characters below which looking for an earlier text takes as long as tokenizing again."""
MAX_REMEMBERED = 256
"""Texts whose ids are kept: the prompts of as many sources may be asked in turn."""

# A byte of 0x80 or above may be the end of any letter.
_LETTER_AND_SPACE = re.compile(rb"[A-Za-z\x80-\xff] ")
# Every kind of text that pre-tokenizers treat specially, between borders.
_PROBE = (
    "The quick brown fox's tail isn't 1234567 cm long, e.g. here\n\nand  there (see below) "
    "“quoted” words — Über straße être кошка и собака 中文 字 word x y z\ttab end. Next one"
)


class Vocabulary(Protocol):
    """A vocabulary that tokenizes."""

    size: int
    merges_pairs: bool
    """Whether ids come from merging neighbors, as in BPE, until no token of the vocabulary is
    made."""

    def encode(self, text: str) -> Ids:
        """Return the ids of plain text, or raise `RequestRefused`."""
        ...

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for."""
        ...

    @property
    def always_parsed(self) -> Sequence[str]:
        """Texts that are taken for one token wherever they stand."""
        ...


class Encoded(NamedTuple):
    """A text with its ids and, for each id, where its bytes end in the text."""

    text: str
    ids: Ids
    ends: NDArray[np.int64]


class PrefixEncoder:
    """Tokenizes texts, each from the last border that it shares with an earlier one.

    Not thread-safe: one thread uses it.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Take a vocabulary; it is searched at the first text that is long enough."""
        self._vocabulary = vocabulary
        self._texts: list[str] = []  # sorted, so that a text's best match is one of two neighbors
        self._encoded: dict[str, Encoded] = {}
        self._order: deque[str] = deque()

    def encode(self, text: str, *, remember: bool = True) -> Ids:
        """Return the ids of a text, the same as those of the vocabulary itself.

        Args:
            text: The text, in which nothing is a control token.
            remember: Whether texts to come may begin like this one.

        Raises:
            RequestRefused: The text cannot be tokenized.
        """
        if not remember or len(text) < MIN_REUSED or not self.has_borders:
            return self._vocabulary.encode(text)
        if text in self._encoded:
            return self._encoded[text].ids
        earlier, shared = self._best_match(text)
        encoded = self._extended(earlier, shared, text) if earlier else self._anew(text)
        if encoded is None:
            return self._vocabulary.encode(text)
        self._remember(encoded)
        return encoded.ids

    def last_border(self, text: str) -> int:
        """Return the place of the last border in a text, or 0 if it has none.

        The ids of what stands before it do not depend on what stands, or follows, after it.
        """
        return _border_before(text, len(text)) if self.has_borders else 0

    def after_border(self, text: str, border: int) -> str:
        """Return what to tokenize in place of `text[border:]`.

        SentencePiece's models put a space in front of every text, so the border's own is left out.
        """
        return text[border + self._added_space if border else 0 :]

    @cached_property
    def has_borders(self) -> bool:
        """Whether nothing in this vocabulary crosses a border."""
        if not self._vocabulary.merges_pairs:
            return False
        if any(_LETTER_AND_SPACE.search(piece) for piece in self._pieces):
            return False
        # llama.cpp takes these out of a text first; what stands beside one is a text of its own.
        for name in self._vocabulary.always_parsed:
            if name in (" ", "▁") or not name or name[0].isalpha() or name[-1].isalpha():
                return False
        return self._splits_at_borders()

    @cached_property
    def _pieces(self) -> list[bytes]:
        return [self._vocabulary.piece(token) for token in range(self._vocabulary.size)]

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.array([len(piece) for piece in self._pieces], np.int64)

    @cached_property
    def _added_space(self) -> int:
        """1 if a space is put in front of every text, else 0."""
        return int(self._lengths[self._vocabulary.encode("word")].sum()) - len("word")

    def _splits_at_borders(self) -> bool:
        """Test the borders on a varied text, in case the pre-tokenizer is an unknown one."""
        if self._added_space not in (0, 1):
            return False
        whole, borders = self._vocabulary.encode(_PROBE), 0
        border = _border_before(_PROBE, len(_PROBE))
        while border:
            tail = self.after_border(_PROBE, border)
            halves = [self._vocabulary.encode(part) for part in (_PROBE[:border], tail)]
            if not np.array_equal(np.concatenate(halves), whole):
                return False
            border, borders = _border_before(_PROBE, border), borders + 1
        return borders > 0

    def _best_match(self, text: str) -> tuple[Encoded | None, int]:
        """Return the earlier text with the longest common prefix, and the last border in it."""
        place = bisect_left(self._texts, text)
        best, longest = None, 0
        for neighbor in self._texts[max(0, place - 1) : place + 1]:
            shared = _common_length(neighbor, text)
            if shared > longest:
                best, longest = neighbor, shared
        border = _border_before(text, longest)
        return (self._encoded[best], border) if best is not None and border else (None, 0)

    def _extended(self, earlier: Encoded, border: int, text: str) -> Encoded | None:
        """Return a text's ids: up to the border the earlier text's, then its own."""
        at = len(text[:border].encode())
        kept = int(np.searchsorted(earlier.ends, at, side="right"))
        # The border is not between two tokens of the earlier text, so none of its ids can be kept.
        if not kept or earlier.ends[kept - 1] != at:
            return self._anew(text)
        try:
            tail = self._vocabulary.encode(self.after_border(text, border))
        except RequestRefused:
            return None  # the whole text is refused likewise, and its error counts from its start
        ids = np.concatenate([earlier.ids[:kept], tail])
        ends = np.concatenate([earlier.ends[:kept], at + np.cumsum(self._lengths[tail])])
        return self._checked(Encoded(text, ids, ends))

    def _anew(self, text: str) -> Encoded | None:
        ids = self._vocabulary.encode(text)
        return self._checked(Encoded(text, ids, np.cumsum(self._lengths[ids]) - self._added_space))

    @staticmethod
    def _checked(encoded: Encoded) -> Encoded | None:
        """Return it unless its pieces do not spell the text, as when a character has no token."""
        spelled = int(encoded.ends[-1]) if len(encoded.ends) else 0
        # Without the exact place of each id in the text, later texts could be joined at the wrong
        # one.
        return encoded if spelled == len(encoded.text.encode()) else None

    def _remember(self, encoded: Encoded) -> None:
        for array in (encoded.ids, encoded.ends):
            # The same arrays are handed out again and again.
            array.setflags(write=False)
        self._texts.insert(bisect_left(self._texts, encoded.text), encoded.text)
        self._encoded[encoded.text] = encoded
        self._order.append(encoded.text)
        if len(self._order) > MAX_REMEMBERED:
            oldest = self._order.popleft()
            del self._texts[bisect_left(self._texts, oldest)]
            del self._encoded[oldest]


def _border_before(text: str, stop: int) -> int:
    """Return the last place of a space between two letters in `text[:stop]`, or 0."""
    place = text.rfind(" ", 0, max(0, stop - 1))
    while place > 0 and not (text[place - 1].isalpha() and text[place + 1].isalpha()):
        place = text.rfind(" ", 0, place)
    return max(0, place)


def _common_length(one: str, other: str) -> int:
    """Return how many leading characters agree."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # comparing slices takes a hundredth of comparing characters
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
