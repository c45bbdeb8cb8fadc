"""Token ids, and the vocabulary that turns text into ids and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.errors import RequestRefused

Ids = NDArray[np.int32]


class Vocabulary(ABC):
    """The tokens of a model: turns text into ids, and ids into text."""

    size: int
    head: Sequence[int]
    """The token with which training texts began, if they had one."""
    end_ids: frozenset[int]
    """Tokens that end an answer."""
    merges_pairs: bool
    """Whether ids come from merging neighbors as long as that makes a token of the vocabulary."""
    special_texts: Mapping[str, int]
    """Text of each token that is parsed in templates, with its id."""
    always_parsed: Sequence[str]
    """Texts that are always taken for one token."""

    @abstractmethod
    def strips(self, token: int) -> tuple[bool, bool]:
        """Return whether a special token swallows the white space before it, and after it."""

    @abstractmethod
    def piece(self, token: int, *, special: bool = True) -> bytes:
        """Return the bytes of a token; of a special one its name, or nothing if not `special`."""

    @abstractmethod
    def _encode_valid(self, text: str) -> Ids:
        """Return the ids of a text that is valid Unicode."""

    def encode(self, text: str) -> Ids:
        """Return the ids of plain text, which adds no tokens and contains no control tokens."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestRefused(
                f"the text is not valid Unicode: {error.reason} at character {error.start}"
            ) from error
        return self._encode_valid(text)

    def text(self, token: int) -> str:
        """Return a token as text; bytes of incomplete characters become U+FFFD."""
        return self.piece(token).decode("utf-8", "replace")


def common_prefix(one: NDArray[Any], other: NDArray[Any]) -> int:
    """Return the number of leading ids, or bytes, that agree."""
    length = min(len(one), len(other))
    differ = one[:length] != other[:length]
    return int(differ.argmax()) if differ.any() else length


def sort_key(ids: Ids) -> bytes:
    """Return ids as bytes that sort as the ids do."""
    return ids.astype(">u4").tobytes()
