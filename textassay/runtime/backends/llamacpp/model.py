"""`LlamaCppModel`: a GGUF file that answers prompts and scores given text, in this process."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from textassay.runtime.backends.llamacpp.chunks import MIN_LIMIT
from textassay.runtime.backends.llamacpp.digest import file_digest
from textassay.runtime.backends.llamacpp.engine import BATCH, KvType
from textassay.runtime.backends.llamacpp.fitting import Truncate
from textassay.runtime.backends.llamacpp.library import (
    BEHIND_API,
    gpu_in_sight,
    library_version,
    offloads,
)
from textassay.runtime.backends.llamacpp.loading import LoadedGGUF, Loader
from textassay.runtime.backends.llamacpp.queued_task import WorkerTask
from textassay.runtime.backends.llamacpp.source import locate
from textassay.runtime.backends.llamacpp.tasks import (
    Rules,
    ScoringTask,
    WritingTask,
    plan_choices,
    plan_continuation,
    run_together,
)
from textassay.runtime.backends.llamacpp.worker import ThreadWorker
from textassay.runtime.errors import ConfigurationError, ModelClosed
from textassay.runtime.model import (
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    InProcessModel,
    Request,
    Response,
)

Mode = Literal["exact", "throughput"]
T = TypeVar("T")

DEFAULT_SEQUENCES = 8
REFILL = 4
"""Requests taken from the queue at once in throughput mode, per sequence: a sequence that has
finished its answer goes on with the next one instead of waiting for the longest."""
MAX_BATCH = 8192
"""Most tokens that may be evaluated together."""


class LlamaCppModel(InProcessModel):
    """A local model on one thread of its own; the first use, or `open`, loads it.

    In exact mode the log-probabilities of a request are the same bits whatever was asked before, in
    whatever order and on however many threads. Throughput mode evaluates several requests in one
    batch; it pays on GPUs, and scores then depend a little on what else was in the batch.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        *,
        n_ctx: int | None = None,
        n_gpu_layers: int | None = None,
        threads: int | None = None,
        mode: Mode = "exact",
        kv: KvType = "f16",
        truncate: Truncate = "error",
        sequences: int | None = None,
        batch: int = BATCH,
        flash_attention: bool = False,
        seed: int | None = None,
        check_tensors: bool = False,
        sha256: str | None = None,
    ) -> None:
        r"""Store what to load.

        Args:
            name: The name the user gave, such as `llamacpp/model.gguf`.
            path: A GGUF file (of a split model, its first part) or `HF_REPO:FILE`.
            n_ctx: Longest prompt and answer together, in tokens; the model's own, at most 8192,
                if not given.
            n_gpu_layers: Layers to put on the GPU, -1 for all; `None` is all that the build can. A
                build that cannot is warned about if layers were asked for, or if a GPU is in
                sight.
            threads: Threads of one evaluation; as many as this process may use if not given.
            mode: `"exact"`, or `"throughput"` for several sequences in one batch.
            kv: Type of the cached keys and values.
            truncate: `"source"` cuts a request's `truncatable` text at its end if the request is
                too long; `"error"` refuses it.
            sequences: Sequences in one batch in throughput mode, 2 to 64, by default 8; each takes
                the memory of one context.
            batch: Most tokens evaluated together, 36 to 8192.
            flash_attention: Whether attention is computed in blocks, which is faster on long
                prompts and rounds by how they were cut; in throughput mode only.
            seed: Seed for requests that bring none of their own.
            check_tensors: Whether to search the file for NaN and infinity before use, which reads
                it whole.
            sha256: What the file's SHA-256 must be, in hex, for a file that is known.
        """
        self._name, self._spec = name, str(path)
        self._n_ctx, self._gpu_layers, self._threads = n_ctx, n_gpu_layers, threads
        self._mode, self._kv, self._truncate = mode, kv, truncate
        self._sequences = (sequences or DEFAULT_SEQUENCES) if mode == "throughput" else 1
        self._batch, self._flash_attention = batch, flash_attention
        self._capacity = 1 if self._sequences == 1 else REFILL * self._sequences
        self._seed, self._check_tensors = seed, check_tensors
        self._sha256 = sha256
        self._rules = Rules(name, truncate, seed)
        self._opening = asyncio.Lock()
        self._worker: ThreadWorker[LoadedGGUF] | None = None
        self._loaded: LoadedGGUF | None = None
        self._digest = ""
        self._closed = False
        self._check_arguments(sequences)

    def _check_arguments(self, sequences: int | None) -> None:
        for what, value, least in (
            ("n_ctx", self._n_ctx, 2),
            ("n_gpu_layers", self._gpu_layers, -1),
            ("threads", self._threads, 1),
        ):
            if value is not None and not least <= value < 2**31:
                raise ConfigurationError(f"{what} must be at least {least}, not {value}")
        if self._mode not in ("exact", "throughput"):
            raise ConfigurationError(f"mode must be 'exact' or 'throughput', not {self._mode!r}")
        if self._kv not in ("f16", "f32"):
            raise ConfigurationError(f"kv must be 'f16' or 'f32', not {self._kv!r}")
        if self._truncate not in ("error", "source"):
            raise ConfigurationError(
                f"truncate must be 'error' or 'source', not {self._truncate!r}"
            )
        if self._mode == "throughput" and not 2 <= self._sequences <= 64:
            raise ConfigurationError(
                f"throughput mode takes 2 to 64 sequences, not {self._sequences}"
            )
        if not MIN_LIMIT <= self._batch <= MAX_BATCH:
            raise ConfigurationError(
                f"batch must be {MIN_LIMIT} to {MAX_BATCH} tokens, not {self._batch}"
            )
        if sequences is not None and self._mode == "exact":
            raise ConfigurationError("sequences needs mode='throughput': exact mode has one")
        if self._flash_attention and self._mode == "exact":
            raise ConfigurationError(
                "flash_attention needs mode='throughput': its results depend on how a prompt was"
                " cut, which exact mode rules out"
            )

    @property
    def name(self) -> str:
        """The name the user gave."""
        return self._name

    @property
    def identity(self) -> Mapping[str, Any]:
        """What determines a score.

        The file's content, the context, how it is evaluated, and by which version.

        The number of threads is left out: it changes nothing.

        Raises:
            ConfigurationError: The model is not open.
        """
        loaded = self._loaded
        if loaded is None:
            raise ConfigurationError(
                f"model {self._name!r} is not open: its file decides what it is (await"
                " model.open())"
            )
        return {
            "backend": "llamacpp",
            "file": self._digest,
            "quantisation": loaded.weights.quantisation,
            "n_ctx": loaded.engine.n_ctx,
            "kv": self._kv,
            "mode": self._mode if self._mode == "exact" else f"throughput{self._sequences}",
            "flash_attention": self._flash_attention,
            # Left out at its default, so that answers kept before this option existed are still
            # found.
            **({} if self._batch == BATCH else {"batch": self._batch}),
            "gpu_layers": (
                (-1 if self._gpu_layers is None else self._gpu_layers) if offloads() else 0
            ),
            "truncate": self._truncate,
            "seed": self._seed,
            "library": f"llama-cpp-python {library_version()}",
        }

    @property
    def capabilities(self) -> Capabilities:
        """Everything but a length that is known before the model is open."""
        length = self._n_ctx if self._loaded is None else self._loaded.engine.n_ctx
        return Capabilities(
            n=True,
            logprobs=True,
            json_schema=True,
            seed=True,
            choices=True,
            continuation=True,
            context_length=length,
        )

    @property
    def evaluated_tokens(self) -> int:
        """Tokens really evaluated so far; prompts that share a prefix cost it once."""
        return 0 if self._loaded is None else self._loaded.engine.evaluated_tokens

    async def open(self) -> Self:
        """Find, or download, the file and load it; does nothing if that is done.

        Raises:
            ModelNotFound: There is no such file.
            NothingListening: It must be downloaded, and the hub cannot be reached.
            ConfigurationError: It is no usable model, or does not fit into memory.
            ModelClosed: The model is closed.
        """
        async with self._opening:
            self._check_open()
            if self._loaded is None:
                path = await asyncio.to_thread(locate, self._spec)
                # The digest before loading: it is the model's identity, and a damaged file should
                # not be loaded.
                digest = await asyncio.to_thread(file_digest, path)
                self._check_digest(path, digest)
                await self._load(path, digest)
        return self

    def _check_digest(self, path: Path, digest: str) -> None:
        if self._sha256 is not None and digest != self._sha256:
            raise ConfigurationError(
                f"the file of model {self._name!r} is damaged: {path} has the SHA-256 {digest},"
                f" but {self._sha256!r} was expected; install it again (pip install"
                " --force-reinstall textassay). Models behind an API need no file, such as "
                f"{BEHIND_API}"
            )

    async def _load(self, path: Path, digest: str) -> None:
        layers = 0 if not offloads() else -1 if self._gpu_layers is None else self._gpu_layers
        load = Loader(
            path,
            self._n_ctx,
            layers,
            self._threads,
            self._kv,
            self._sequences,
            self._check_tensors,
            self._batch,
            self._flash_attention,
        )
        worker = ThreadWorker[LoadedGGUF](
            load, name=self._name, capacity=self._capacity, together=run_together
        )
        try:
            loaded = await worker.start()
        except BaseException:
            worker.stop()
            raise
        if self._closed:
            worker.stop()
            await worker.stopped()
            self._check_open()
        self._worker, self._loaded, self._digest = worker, loaded, digest
        # For a model that nobody closed. At exit the worker joins its thread by itself.
        weakref.finalize(self, worker.stop).atexit = False
        self._warn_without_offload()

    def _warn_without_offload(self) -> None:
        wanted_offload = bool(self._gpu_layers) or (self._gpu_layers is None and gpu_in_sight())
        if wanted_offload and not offloads():
            warnings.warn(
                f"{self._name}: this build of llama-cpp-python cannot use a GPU, so the model runs"
                " on the CPU; docs/local-models.md has the line that builds it for CUDA or Metal,"
                " n_gpu_layers=0 silences this",
                stacklevel=4,
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ModelClosed(f"model {self._name!r} is closed")

    async def generate(self, request: Request) -> Response:
        """Return `n` sampled answers.

        Raises:
            ContextTooLong: Prompt and `max_tokens` do not fit.
            ConfigurationError: Messages were given and the file has no chat template, or the JSON
                schema cannot be kept.
            ModelClosed: The model is, or was meanwhile, closed.
        """
        if request.extra:
            raise ConfigurationError(
                f"a local model takes no extra fields, and was given {', '.join(request.extra)}"
            )
        return await self._submit(WritingTask(self._rules, request))

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return the log of each choice's probability to come next, summed over its forms.

        Raises:
            RequestRefused: A form adds no token, or belongs to two choices.
            ContextTooLong: The prompt does not fit.
            ModelClosed: The model is, or was meanwhile, closed.
        """
        return await self._submit(ScoringTask(self._rules, request, plan_choices))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the log-probability of each token of the continuation.

        Raises:
            RequestRefused: Nothing stands before the first token.
            ContextTooLong: Prompt and continuation do not fit.
            ModelClosed: The model is, or was meanwhile, closed.
        """
        return await self._submit(ScoringTask(self._rules, request, plan_continuation))

    async def _submit(self, task: WorkerTask[LoadedGGUF, T]) -> T:
        self._check_open()
        if self._worker is None:
            await self.open()
        if self._worker is None:
            raise ModelClosed(f"model {self._name!r} is closed")
        return await self._worker.submit(task)

    async def aclose(self) -> None:
        """Stop, failing what is queued with `ModelClosed`, and free the memory.

        Safe to call twice.
        """
        self._closed = True
        if self._worker is not None:
            self._worker.stop()
            await self._worker.stopped()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
