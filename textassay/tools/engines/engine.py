"""What an engine is: texts to tokens, batches of tokens to arrays.

Knows no metric and imports no framework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from textassay.tools.engines.files import ModelFiles

EngineName = Literal["auto", "transformers", "onnx", "static"]
"""`auto` takes `static` for a table of vectors, and transformers unless it is not installed or the
folder holds nothing but an ONNX export."""

Head = Literal["classify", "encode", "answer", "likelihood"]
"""What is wanted of a model: logits of labels, hidden states of tokens, logits of an answer's first
token, or log-probabilities of the tokens of a second text after a first."""

Array = NDArray[np.float32]
_POSITIONS_AFTER_PADDING = (
    "roberta",
    "xlm-roberta",
    "camembert",
    "mpnet",
    "longformer",
    "data2vec-text",
    "ibert",
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, or a pair, as tokens."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    """Segment of each token."""
    special: tuple[int, ...]
    """1 for tokens that frame the text, such as `[CLS]`, else 0."""

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """A fast tokenizer without truncation or padding; safe to use from several threads."""

    def __init__(self, backend: Any) -> None:
        """Take a `tokenizers.Tokenizer` and switch off its truncation and padding."""
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # a "[SEP]" inside an evaluated text is text
        self.backend = backend

    def encode(self, first: str, second: str | None = None) -> Encoding:
        """Return a text or pair of texts with the model's special tokens."""
        encoding = self.backend.encode(first, second)
        return Encoding(
            tuple(encoding.ids), tuple(encoding.type_ids), tuple(encoding.special_tokens_mask)
        )

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special ones."""
        return len(self.backend.encode(text, add_special_tokens=False).ids)

    def encode_plain(self, text: str) -> list[int]:
        """Return the tokens of a text without special ones."""
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def special_tokens(self, *, pair: bool) -> int:
        """Return the number of special tokens around a text, or in a pair."""
        return int(self.backend.num_special_tokens_to_add(pair))

    @property
    def unknown(self) -> int | None:
        """The vocabulary's unknown token, or `None`."""
        named = getattr(self.backend.model, "unk_token", None)
        index = (
            self.backend.token_to_id(named)
            if named
            else getattr(self.backend.model, "unk_id", None)
        )
        return None if index is None else int(index)


class Engine(Protocol):
    """A loaded model."""

    name: str
    """`transformers`, `onnx` or `static`."""
    files: ModelFiles
    config: Mapping[str, Any]
    """The model's `config.json`."""
    tokenizer: Tokenizer
    max_tokens: int | None
    """Longest input in tokens, special ones included; `None` if the model sets no limit."""

    def run(self, batch: Sequence[Encoding]) -> list[Array]:
        """Return one array per input, in order.

        Its shape is `(labels,)` for `classify`, `(tokens, width)` for `encode`, `(vocabulary,)` for
        `answer`, and `(tokens of the second text,)` for `likelihood`, whose segments are 0 for the
        text that the encoder reads and 1 for the text that is scored.
        """
        ...


def labels(config: Mapping[str, Any]) -> dict[int, str]:
    """Return the labels of a classifier by index, from `id2label`; empty without any."""
    return {int(index): str(label) for index, label in (config.get("id2label") or {}).items()}


def longest_input(files: ModelFiles) -> int | None:
    """Return the longest input that a model takes, in tokens; `None` if nothing says."""
    limits = [files.tokenizer_config.get("model_max_length")]
    positions = files.config.get("max_position_embeddings")
    if isinstance(positions, int) and files.config.get("model_type") in _POSITIONS_AFTER_PADDING:
        # RoBERTa counts positions from after the padding's id: 514 of them take 512 tokens.
        positions -= int(files.config.get("pad_token_id") or 0) + 1
    limits.append(positions)
    # "no limit" is written as a huge number
    known = [int(limit) for limit in limits if isinstance(limit, int | float) and 0 < limit < 10**6]
    return min(known, default=None)


def pad(batch: Sequence[Encoding], pad_id: int) -> dict[str, NDArray[np.int64]]:
    """Return a batch as arrays of shape `(batch, longest)`, with an attention mask.

    The mask leaves padding out.
    """
    shape = (len(batch), max(map(len, batch)))
    ids, mask, types = (
        np.full(shape, pad_id, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
    )
    for row, encoding in enumerate(batch):
        ids[row, : len(encoding)] = encoding.ids
        types[row, : len(encoding)] = encoding.types
        mask[row, : len(encoding)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
