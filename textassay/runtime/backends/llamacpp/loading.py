"""Opens a model file on its owner thread.

Weights, context, tokenizer and chat template together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from textassay.runtime.backends.llamacpp.chat import ChatTemplate
from textassay.runtime.backends.llamacpp.engine import BATCH, KvType, LlamaEngine
from textassay.runtime.backends.llamacpp.memory import check_memory
from textassay.runtime.backends.llamacpp.tokens import GGUFTokenizer
from textassay.runtime.backends.llamacpp.weights import Weights
from textassay.runtime.errors import ConfigurationError

DEFAULT_CONTEXT = 8192
"""Most tokens of context if none is asked for; a model trained on fewer gets those."""


@dataclass
class LoadedGGUF:
    """What the owner thread works with; other threads only read the vocabulary."""

    weights: Weights
    engine: LlamaEngine
    tokenizer: GGUFTokenizer

    def close(self) -> None:
        """Free the context before the weights."""
        self.engine.close()
        self.weights.close()


@dataclass(frozen=True)
class Loader:
    """Loads with these options when called."""

    path: Path
    n_ctx: int | None
    gpu_layers: int
    threads: int | None
    kv: KvType
    sequences: int
    check_tensors: bool
    batch: int = BATCH
    flash_attention: bool = False

    def __call__(self) -> LoadedGGUF:
        """Load.

        Raises:
            ConfigurationError: The file is no usable model, or does not fit into memory.
        """
        weights = Weights(
            self.path,
            gpu_layers=self.gpu_layers,
            check_tensors=self.check_tensors,
            # Repacked weights round by a row's place in the batch, which exact mode rules out.
            repack=self.sequences > 1,
        )
        try:
            n_ctx = self._context(weights)
            # After the weights, whose memory is then accounted for; before the context, whose
            # allocation the kernel may answer by killing the process.
            check_memory(
                weights,
                n_ctx=n_ctx,
                sequences=self.sequences,
                kv=self.kv,
                gpu_layers=self.gpu_layers,
            )
            threads = self.threads or usable_cores()
            engine = LlamaEngine(
                weights,
                n_ctx=n_ctx,
                threads=threads,
                kv=self.kv,
                sequences=self.sequences,
                batch=self.batch,
                flash_attention=self.flash_attention,
            )
        except BaseException:
            weights.close()
            raise
        return LoadedGGUF(weights, engine, GGUFTokenizer(weights, self._template(weights)))

    def _context(self, weights: Weights) -> int:
        trained = weights.trained_context
        if self.n_ctx is None:
            return min(trained, DEFAULT_CONTEXT)
        if self.n_ctx > trained:
            raise ConfigurationError(
                f"n_ctx={self.n_ctx} is beyond the {trained} tokens that {str(self.path)!r} was"
                " trained on"
            )
        return self.n_ctx

    def _template(self, weights: Weights) -> ChatTemplate:
        return ChatTemplate(
            weights.metadata.get("tokenizer.chat_template"),
            file=self.path.name,
            bos="" if weights.bos is None else weights.text(weights.bos),
            eos="" if weights.eos is None else weights.text(weights.eos),
        )


def usable_cores() -> int:
    """Return the cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
