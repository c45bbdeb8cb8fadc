"""Adapts a tokenizer of the `tokenizers` library to this package's tokenizer interface.

Evaluated text is data: the name of a control token inside it stays text. The same code that does
this for GGUF files (`llamacpp/tokens.py`) does it here; this is what it needs to know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from textassay.runtime.backends.llamacpp.weights import Ids
from textassay.runtime.errors import ConfigurationError, RequestRefused

# <0x0A>: how SentencePiece's vocabularies name a byte that is part of no other token
_BYTE = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")


class Vocabulary:
    """Text to token ids and back.

    Args:
        tokenizer: A fast tokenizer of transformers.
        label: The model's name, for error messages.

    Raises:
        ConfigurationError: The tokenizer has no fast form.
    """

    def __init__(self, tokenizer: Any, *, label: str) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ConfigurationError(
                f"the tokenizer of {label} has no fast form (tokenizer.json), which textassay needs"
            )
        self.tokenizer, self.label = tokenizer, label
        self._backend = backend
        self.size = int(backend.get_vocab_size())
        self._added = backend.get_added_tokens_decoder()
        begins = self._added_around("x")[0]
        self.bos = begins[0] if begins else None
        self.adds_bos = bool(begins)
        self.end_mark = self._added_around("x")[1]
        eos = tokenizer.eos_token_id
        self.eos = eos if isinstance(eos, int) else None
        self.end_ids = frozenset(() if self.eos is None else (self.eos,))

    @property
    def special_texts(self) -> Mapping[str, int]:
        """Text of each token that was added to the vocabulary, with its id."""
        return {token.content: number for number, token in self._added.items() if token.content}

    @cached_property
    def always_parsed(self) -> tuple[str, ...]:
        """Texts of added tokens that are not special: they are taken for the token in any text."""
        return tuple(token.content for token in self._added.values() if not token.special)

    def strips(self, token: int) -> tuple[bool, bool]:
        """Return whether a special token swallows the white space before it, and after it."""
        return bool(self._added[token].lstrip), bool(self._added[token].rstrip)

    @cached_property
    def merges_pairs(self) -> bool:
        """Whether tokens are merged from pairs (BPE) and nothing rewrites the text before that."""
        parsed = json.loads(self._backend.to_str())
        return bool(parsed["model"]["type"] == "BPE" and parsed.get("normalizer") is None)

    def encode(self, text: str) -> Ids:
        """Return the ids of plain text: nothing is added, and no special token is read out of it.

        Raises:
            RequestRefused: The text holds lone surrogates.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestRefused(
                f"the text is not valid Unicode: {error.reason} at character {error.start}"
            ) from error
        # Set each time: the backend is shared with transformers, which sets it for its own calls.
        self._backend.encode_special_tokens = True
        self._backend.no_truncation()
        self._backend.no_padding()
        return np.array(self._backend.encode(text, add_special_tokens=False).ids, np.int32)

    def text(self, token: int) -> str:
        """Return a token's text, for people."""
        return self.piece(token, special=True).decode("utf-8", "replace")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes that a token adds to a text; none for a special one unless asked for."""
        if token in self._added and self._added[token].special and not special:
            return b""
        name = self._backend.id_to_token(token)
        if name is None:  # rows of a padded output layer that stand for no token
            return b""
        if token in self._added:
            return str(name).encode()
        if self._byte_level:
            return bytes(_BYTES[c] for c in name if c in _BYTES)
        if match := _BYTE.match(name):
            return bytes([int(match[1], 16)])
        return str(name).replace("\u2581", " ").encode()

    @cached_property
    def _byte_level(self) -> bool:
        return self._kind("decoder", "ByteLevel")

    @cached_property
    def _description(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self._backend.to_str())
        return {name: parsed.get(name) for name in ("pre_tokenizer", "decoder")}

    def _kind(self, part: str, kind: str) -> bool:
        return f'"type": "{kind}"' in json.dumps(self._description[part])

    def _added_around(self, text: str) -> tuple[list[int], list[int]]:
        """Return the ids that the tokenizer's own template puts before and after a text."""
        plain = self._backend.encode(text, add_special_tokens=False).ids
        whole = self._backend.encode(text, add_special_tokens=True).ids
        for start in range(len(whole) - len(plain) + 1):
            if whole[start : start + len(plain)] == plain:
                return whole[:start], whole[start + len(plain) :]
        return [], []


def _byte_letters() -> dict[str, int]:
    """Return the byte for each letter in which byte-level BPE spells it (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + number): byte for number, byte in enumerate(others)}


_BYTES = _byte_letters()
