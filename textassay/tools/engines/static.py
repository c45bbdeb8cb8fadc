"""The engine of the extra `static`: a vector per token from a table, with numpy and tokenizers.

Reads folders as model2vec and sentence-transformers' StaticEmbedding write them, and the vectors
that the package wordllama ships (MIT, 16 MB). A token's vector does not depend on its context, so
texts of any length are read whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines.engine import Array, Encoding, Head, Tokenizer
from textassay.tools.engines.extras import need
from textassay.tools.engines.files import ModelFiles

_TABLES = ("embeddings", "embedding.weight")


class StaticTokenizer(Tokenizer):
    """A tokenizer that frames nothing and leaves out what the vocabulary lacks."""

    def encode(self, first: str, second: str | None = None) -> Encoding:
        """Return the tokens of a text; a pair is refused."""
        if second is not None:
            raise ConfigurationError("static vectors embed single texts and cannot judge pairs")
        unknown = self.unknown
        ids = tuple(token for token in self.encode_plain(first) if token != unknown)
        return Encoding(ids, (0,) * len(ids), (0,) * len(ids))

    def special_tokens(self, *, pair: bool) -> int:
        """Return 0."""
        return 0


class StaticEngine:
    """A table of vectors."""

    name = "static"

    def __init__(
        self, files: ModelFiles, head: Head, *, device: str = "auto", layer: int | None = None
    ) -> None:
        if head != "encode" or layer is not None:
            raise ConfigurationError(
                f"{files.label} is a table of static vectors: it embeds texts (the tool"
                " `embedding`) and has neither layers nor a head that judges"
            )
        if device not in ("auto", "cpu"):
            raise ConfigurationError(f"static vectors are read on the CPU, not on {device!r}")
        tokenizers = need("tokenizers", extra="static", what="the static engine")
        self.files = files
        self.config: Mapping[str, Any] = files.config
        self.max_tokens: int | None = None
        self.tokenizer: Tokenizer = StaticTokenizer(_read_tokenizer(tokenizers, files))
        self._table, self._rows, self._weights = _read_vectors(files)

    def run(self, batch: Sequence[Encoding]) -> list[Array]:
        """Return the vectors of each text's tokens, shape `(tokens, width)`."""
        return [self._vectors(np.array(encoding.ids, np.intp)) for encoding in batch]

    def _vectors(self, ids: NDArray[np.intp]) -> Array:
        rows = ids if self._rows is None else self._rows[ids]
        vectors = self._table[rows].astype(np.float32)
        # model2vec may keep a shared row for several tokens, and weigh each token by itself.
        return vectors if self._weights is None else vectors * self._weights[ids, None]


def _read_tokenizer(tokenizers: Any, files: ModelFiles) -> Any:
    try:
        return tokenizers.Tokenizer.from_file(str(files.tokenizer_file))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise ConfigurationError(f"cannot read {str(files.tokenizer_file)!r}: {error}") from error


def _read_vectors(
    files: ModelFiles,
) -> tuple[NDArray[Any], NDArray[np.intp] | None, NDArray[np.float32] | None]:
    """Return the table, the row of each token (`None` if in order), and a factor per token."""
    safetensors = need("safetensors.numpy", extra="static", what="the static engine")
    try:
        tensors = safetensors.load_file(str(files.vectors))
    except Exception as error:  # safetensors' errors share no base of their own
        raise ConfigurationError(f"cannot read {str(files.vectors)!r}: {error}") from error
    table = next((tensors[name] for name in _TABLES if name in tensors), None)
    if table is None or table.ndim != 2:
        raise ConfigurationError(
            f"{str(files.vectors)!r} contains no table of vectors: expected a matrix called"
            f" {' or '.join(_TABLES)}"
        )
    rows, weights = tensors.get("mapping"), tensors.get("weights")
    return (
        table,
        None if rows is None else rows.astype(np.intp),
        None if weights is None else weights.astype(np.float32),
    )
