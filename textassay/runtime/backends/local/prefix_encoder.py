"""Tokenizes texts that begin like earlier ones from the place where they begin to differ.

Criteria are asked about the same source in turn, so most of a prompt has been tokenized before. Its
ids can be reused if no token crosses the place where two texts begin to differ. A **border** is the
space between two words, letter-space-letter. If no token of the vocabulary contains a letter
followed by a space, neither byte-level BPE nor SentencePiece's BPE ever merges across a border, and
the pre-tokenizers of BPE start afresh there: the ids of a text are the ids of its part before the
border followed by the ids of the rest.

With ten criteria over 100 sources of SummEval, asked criterion by criterion, tokenizing a prompt of
550 tokens takes 0.31 ms of CPU time with it and 1.37 ms without (SmolLM2's byte-level BPE), and one
of 870 tokens 0.21 and 0.82 ms (the embedded model's SentencePiece). On a CPU the difference is less
than 2 % of a request even with the embedded model (60 ms). It stays for GPUs, where the model's
one thread tokenizes between batches that take milliseconds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.tokens import Ids, Vocabulary
from textassay.runtime.errors import RequestRefused

MAX_REMEMBERED = 256
"""Texts whose ids are kept: the prompts of as many sources may be asked in turn. Of 100 sources in
turn, 64 save 5 % of the time for tokenizing, and 256 or 1,024 save 77 %."""

# All kinds of text that pre-tokenizers treat specially, between borders.
_PROBE = (
    "The quick brown fox's tail isn't 1234567 cm long, e.g. here\n\nand  there (see below) "
    "“quoted” words — Über straße être кошка и собака 中文 字 word x y z\ttab end. Next one"
)


class TextIds(NamedTuple):
    """A text with its ids and, for each id, the place in the text at which its bytes end."""

    text: str
    ids: Ids
    ends: NDArray[np.int64]


class PrefixEncoder:
    """Tokenizes texts on one thread, each from the last border shared with an earlier one."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._texts: list[str] = []  # sorted, so that a text's best match is one of two neighbors
        self._encoded: dict[str, TextIds] = {}  # the oldest first

    def encode(self, text: str, *, remember: bool = True) -> Ids:
        """Return the same ids of a text as the vocabulary itself.

        `remember` says whether later texts may begin like this one.
        """
        # for a short text, looking for an earlier one takes as long as tokenizing
        if not remember or len(text) < 64 or not self.has_borders:
            return self._vocabulary.encode(text)
        if text in self._encoded:
            return self._encoded[text].ids
        earlier, shared = self._best_match(text)
        encoded = self._extend(earlier, shared, text) if earlier else self._anew(text)
        if not encoded:
            return self._vocabulary.encode(text)
        self._remember(encoded)
        return encoded.ids

    def last_border(self, text: str) -> int:
        """Return the place of the last border in a text, or 0 if it has none.

        Text after it cannot change the ids before it.
        """
        return _border_before(text, len(text)) if self.has_borders else 0

    def after_border(self, text: str, border: int) -> str:
        """Return the text to tokenize in place of `text[border:]`.

        SentencePiece's models put a space before every text, so the border's own is left out.
        """
        return text[border + self._added_space if border else 0 :]

    @cached_property
    def has_borders(self) -> bool:
        """Whether no token of this vocabulary crosses a border."""
        if not self._vocabulary.merges_pairs:
            return False
        # A byte of 0x80 or above may be the end of any letter.
        crosses = re.compile(rb"[A-Za-z\x80-\xff] ").search
        if any(map(crosses, self._pieces)):
            return False
        # The library finds these in a text first, and tokenizes the text before and after one.
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
        """1 if a space is put before every text, else 0."""
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

    def _best_match(self, text: str) -> tuple[TextIds | None, int]:
        """Return the earlier text with the longest common prefix, and the last border in it."""
        place = bisect_left(self._texts, text)
        best, longest = "", 0
        for neighbor in self._texts[max(0, place - 1) : place + 1]:
            shared = _common_length(neighbor, text)
            if shared > longest:
                best, longest = neighbor, shared
        border = _border_before(text, longest)
        return (self._encoded[best], border) if border else (None, 0)

    def _extend(self, earlier: TextIds, border: int, text: str) -> TextIds | None:
        """Return a text's ids: the earlier text's up to the border, then its own."""
        at = len(text[:border].encode())
        count = int(np.searchsorted(earlier.ends, at, side="right"))
        # The border is not between two tokens of the earlier text, so none of its ids can be kept.
        if not count or earlier.ends[count - 1] != at:
            return self._anew(text)
        try:
            tail = self._vocabulary.encode(self.after_border(text, border))
        except RequestRefused:
            return None  # the whole text is refused, too, and its error counts from its start
        ids = np.concatenate([earlier.ids[:count], tail])
        ends = np.concatenate([earlier.ends[:count], at + np.cumsum(self._lengths[tail])])
        return self._verify(TextIds(text, ids, ends))

    def _anew(self, text: str) -> TextIds | None:
        ids = self._vocabulary.encode(text)
        return self._verify(TextIds(text, ids, np.cumsum(self._lengths[ids]) - self._added_space))

    @staticmethod
    def _verify(encoded: TextIds) -> TextIds | None:
        """Return it unless its pieces do not spell the text, as if a character has no token."""
        spelled = int(encoded.ends[-1]) if len(encoded.ends) else 0
        # Without the exact place of each id, later texts could be joined at a wrong one.
        return encoded if spelled == len(encoded.text.encode()) else None

    def _remember(self, encoded: TextIds) -> None:
        for array in (encoded.ids, encoded.ends):
            # The same arrays are handed out again and again.
            array.setflags(write=False)
        self._texts.insert(bisect_left(self._texts, encoded.text), encoded.text)
        self._encoded[encoded.text] = encoded
        if len(self._encoded) > MAX_REMEMBERED:
            oldest = next(iter(self._encoded))
            del self._texts[bisect_left(self._texts, oldest)], self._encoded[oldest]


def _border_before(text: str, stop: int) -> int:
    """Return the last place of a space between two letters in `text[:stop]`, or 0."""
    place = text.rfind(" ", 0, max(0, stop - 1))
    while place > 0 and not (text[place - 1].isalpha() and text[place + 1].isalpha()):
        place = text.rfind(" ", 0, place)
    return max(0, place)


def _common_length(one: str, other: str) -> int:
    """Return the number of leading characters that agree."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # comparing slices takes a hundredth of comparing characters
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
