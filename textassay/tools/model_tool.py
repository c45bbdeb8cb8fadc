"""The base of tools with a model, and the runner of the model.

A `Runner` loads a model at first use. Tools with the same model and settings share it, and it
evaluates equal inputs once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, NamedTuple, TypedDict
from weakref import WeakValueDictionary, finalize

from textassay.runtime.backends.local.work_queue import LengthOrder, WorkQueue, await_shared
from textassay.runtime.errors import ConfigurationError, ContextTooLong, ModelClosed
from textassay.tools.engines import (
    ENGINES,
    PACKAGED_VECTORS,
    Array,
    Encoding,
    EngineName,
    Head,
    ModelFiles,
    ToolEngine,
    locate,
    on_hub,
    read_folder,
)
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import TextTool, check_installed, need


class ModelKey(NamedTuple):
    """Model and settings of a tool: tools with equal keys share a runner."""

    model: str
    """A folder, or a Hub id with a revision."""
    head: Head
    engine: EngineName
    device: str
    layer: int | None
    """Layer of the states that `encode` returns; the last one if `None`."""
    batch_tokens: int

    def check_extra(self) -> None:
        """Check for the engine's modules before a download of half a gigabyte."""
        folder = Path(self.model).expanduser()
        static = self.model == PACKAGED_VECTORS or (
            folder.exists() and bool(read_folder(folder, folder.name).vectors)
        )
        engine = ENGINES["static" if static else self.preferred]
        name = f"the {engine.name} engine ({self.model})"
        check_installed(engine.modules, extra=engine.extra, what=name)

    @property
    def preferred(self) -> EngineName:
        """The engine to use, given the installed packages."""
        if self.engine != "auto":
            return self.engine
        if self.head in ("answer", "likelihood"):
            return "transformers"  # no other engine runs a decoder
        if not (find_spec("torch") and find_spec("transformers")):
            return "onnx" if find_spec("onnxruntime") else "transformers"
        return "auto"

    def open(self) -> ToolEngine:
        """Find, or fetch, the model and read it into memory."""
        self.check_extra()
        files = locate(self.model, engine=self.preferred)
        engine = ENGINES[self._kind(files)](files, self.head, device=self.device, layer=self.layer)
        # a commit identifies its content; a folder is identified by a digest of its files
        label = files.label if "@" in files.label else f"{files.label}#{files.digest()}"
        engine.label = f"{label}|engine:{engine.name}"
        return engine

    def _kind(self, files: ModelFiles) -> EngineName:
        if files.vectors and self.engine in ("auto", "static"):
            return "static"
        kind = self.preferred
        if kind == "static":
            raise ConfigurationError(
                f"{str(files.folder)!r} contains no table of vectors; leave engine=static out to "
                "run it as a network"
            )
        if kind == "auto":
            return "onnx" if files.onnx and not files.weights else "transformers"
        return kind


@dataclass(slots=True)
class _Shared:
    future: Future[Array]
    waiting: int = 0


class Runner:
    """Runs one model for any number of tools, tasks and event loops; use `runner_for`.

    Equal inputs share one evaluation, during and after it: the systems of one source follow each
    other and are compared with the same references, so on SummEval seven of eight inputs are
    repeats. An input for which no caller waits leaves the queue; a failed evaluation is not kept.
    """

    def __init__(self, key: ModelKey) -> None:
        self.key = key
        self.label = key.model
        """Name of the model in signatures, with commit or digest once it is loaded."""
        self.users = 0
        """Number of tools that use it; the last one closes the model."""
        self._lock = threading.Lock()
        self._known: OrderedDict[Encoding, _Shared] = OrderedDict()
        self._bytes = 0
        self._queue = WorkQueue[ToolEngine, Encoding, Array](
            key.open, LengthOrder(batch_tokens=key.batch_tokens), name=key.model
        )
        finalize(self, self._queue.stop).atexit = False  # for tools that were not closed

    async def release(self) -> None:
        """Remove one user, and free the model after the last one."""
        with _LOCK:
            self.users -= 1
            if self.users:
                return
            _RUNNERS.pop(self.key, None)
        await self._queue.aclose()
        self._known.clear()

    async def open(self) -> ToolEngine:
        """Return the engine, loaded at the first call."""
        engine = await self._queue.open()
        self.label = engine.label
        return engine

    def check(self) -> None:
        """Check, without loading or downloading, that the model can be opened.

        A model on the Hub that is not on this machine passes unless the Hub's client is offline.
        """
        self.key.check_extra()
        if on_hub(self.key.model):
            hub = need("huggingface_hub.constants", extra="nli", what="a model on the Hub")
            if not hub.HF_HUB_OFFLINE:
                return  # asking whether it exists would need the network for a dry run
        locate(self.key.model, engine=self.key.preferred, cached_only=True)

    async def ask(self, encodings: Sequence[Encoding]) -> list[Array]:
        """Run the model on inputs, batched with concurrent inputs of others."""
        await self.open()
        joined = self._join(encodings)
        try:
            return [await await_shared(shared.future) for shared in joined]
        finally:
            self._leave(encodings, joined)

    @property
    def batches(self) -> tuple[int, int]:
        """Batches run and requests answered so far."""
        return self._queue.batches, self._queue.requests

    def _join(self, encodings: Sequence[Encoding]) -> list[_Shared]:
        with self._lock:
            fresh = [e for e in dict.fromkeys(encodings) if e not in self._known]
            futures = self._queue.submit(fresh)
            self._known.update(zip(fresh, map(_Shared, futures), strict=True))
            joined = [self._known[encoding] for encoding in encodings]
            for encoding, shared in zip(encodings, joined, strict=True):
                shared.waiting += 1
                self._known.move_to_end(encoding)
        for encoding, future in zip(fresh, futures, strict=True):
            # outside of the lock: `_remember` locks, and a future that is done calls it at once
            future.add_done_callback(partial(self._remember, encoding))
        return joined

    def _remember(self, encoding: Encoding, done: Future[Array]) -> None:
        """Count a finished answer, and drop the least recently used ones."""
        with self._lock:
            shared = self._known.get(encoding)
            if not shared or shared.future is not done:
                return
            if done.exception():
                del self._known[encoding]
                return
            self._bytes += _size(encoding, done)
            while self._bytes > 64 * 2**20:
                # evaluations that are not done have waiters and no size yet
                oldest = next(e for e, answer in self._known.items() if answer.future.done())
                self._bytes -= _size(oldest, self._known.pop(oldest).future)

    def _leave(self, encodings: Sequence[Encoding], joined: Sequence[_Shared]) -> None:
        abandoned = []
        with self._lock:
            for encoding, shared in zip(encodings, joined, strict=True):
                shared.waiting -= 1
                if not shared.waiting and not shared.future.done():
                    abandoned.append(shared.future)
                    if self._known.get(encoding) is shared:
                        # a new caller must not join a canceled evaluation
                        del self._known[encoding]
        for future in abandoned:  # outside of the lock: it calls `_remember`
            future.cancel()


def _size(encoding: Encoding, done: Future[Array]) -> int:
    """Return the approximate size in bytes of an answer and its input: a token is five objects."""
    return done.result().nbytes + 64 * len(encoding)


# weak, so that a runner lives as long as a tool has it
_RUNNERS: WeakValueDictionary[ModelKey, Runner] = WeakValueDictionary()
_LOCK = threading.Lock()


def runner_for(key: ModelKey) -> Runner:
    """Return the runner of a model, the same one for equal keys while it is in use."""
    with _LOCK:
        runner = _RUNNERS.get(key)
        if not runner:
            runner = _RUNNERS[key] = Runner(key)
        runner.users += 1
    return runner


class ModelOptions(TypedDict, total=False):
    """Options of every tool with a model."""

    engine: EngineName
    """`transformers`, `onnx`, `static`, or `auto`; encoder-decoder models run on transformers."""
    device: str
    """`cpu`, `cuda`, ...; `auto`, the default, takes a GPU when there is one."""
    batch_tokens: int
    """Most tokens in a batch, padding included; 8,192 by default."""
    splitter: SentenceSplitter
    """Finds the sentences to judge, or at which a long text is cut into windows."""


class ModelTool(TextTool):
    """A tool with a model; a subclass names the head it needs."""

    extra: ClassVar[str | None] = "nli"
    head: ClassVar[Head] = "classify"
    layer: int | None = None
    """Layer of the states that the head `encode` returns; the last one if `None`."""

    def __init__(
        self,
        name: str,
        model: str,
        *,
        engine: EngineName = "auto",
        device: str = "auto",
        batch_tokens: int = 8192,
        splitter: SentenceSplitter = DEFAULT_SPLITTER,
    ) -> None:
        self.name, self.model, self.engine, self.device = name, model, engine, device
        self.batch_tokens, self.splitter = batch_tokens, splitter
        self._runner: Runner | None = None
        self._closed = False

    @property
    def runner(self) -> Runner:
        """The runner of the model, shared with tools of the same model and settings."""
        if self._closed:
            raise ModelClosed(f"the tool {self.name} was closed")
        if not self._runner:
            key = ModelKey(
                self.model, self.head, self.engine, self.device, self.layer, self.batch_tokens
            )
            self._runner = runner_for(key)
        return self._runner

    def settings(self) -> Mapping[str, object]:
        """The model as named, and once loaded with its commit or digest and its engine."""
        return {"model": self._runner.label if self._runner else self.model, "layer": self.layer}

    async def ask(self, engine: ToolEngine, encodings: Sequence[Encoding]) -> list[Array]:
        """Run the model on inputs."""
        longest = max(map(len, encodings), default=0)
        if engine.max_tokens and longest > engine.max_tokens:
            raise ContextTooLong(
                f"{self.name}: {longest} tokens, but the model takes {engine.max_tokens}"
            )
        return await self.runner.ask(encodings)

    async def ask_grouped(
        self, engine: ToolEngine, groups: Sequence[Sequence[Encoding]]
    ) -> list[list[Array]]:
        """Run the model on inputs, all at once, and return the answers of each group."""
        answers = iter(await self.ask(engine, [encoding for group in groups for encoding in group]))
        return [[next(answers) for _ in group] for group in groups]

    async def prepare(self, *, load: bool = True) -> None:
        """Find out whether the model can be used, and load it; see `Preparable`."""
        await asyncio.to_thread(self.runner.check)
        if load:
            await self.runner.open()

    async def aclose(self) -> None:
        """Free the model unless another tool uses it; safe to call twice."""
        self._closed = True
        # before the await, so that a second call does not release it twice
        runner, self._runner = self._runner, None
        if runner:
            await runner.release()
