"""Runs a model for the tools that name it: loaded at first use, and asked equal inputs once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary, finalize

from textassay.runtime.backends.local.work_queue import LengthOrder, WorkQueue, shared_result
from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines.engine import (
    PACKAGED_VECTORS,
    Array,
    Encoding,
    Engine,
    EngineName,
    Head,
    ModelFiles,
    OnnxEngine,
    StaticEngine,
    locate,
    on_hub,
    read_folder,
)
from textassay.tools.engines.pytorch import PytorchEngine
from textassay.tools.tool import check_installed, need

MAX_BYTES = 64 * 2**20
"""Answers that a runner remembers."""
MODULES: dict[str, tuple[str, ...]] = {
    "auto": ("torch", "transformers"),
    "transformers": ("torch", "transformers"),
    "onnx": ("onnxruntime", "tokenizers"),
    "static": ("tokenizers", "safetensors"),
}
"""Modules that each engine imports."""
EXTRA_OF = {"auto": "nli", "transformers": "nli", "onnx": "onnx", "static": "static"}
_ENGINES: dict[str, Callable[..., Engine]] = {
    "transformers": PytorchEngine,
    "onnx": OnnxEngine,
    "static": StaticEngine,
}


class ModelKey(NamedTuple):
    """What a tool needs of which model: tools with equal keys share a runner."""

    model: str
    """A folder, or a Hub id with a revision."""
    head: Head
    engine: EngineName = "auto"
    device: str = "auto"
    layer: int | None = None
    """For `encode`, the layer whose states are wanted; the last if `None`."""
    batch_tokens: int = 8192
    """Most tokens in a batch, padding included."""

    def check_extra(self) -> None:
        """Look at what is installed before a download of half a gigabyte, not after it."""
        folder = Path(self.model).expanduser()
        static = self.model == PACKAGED_VECTORS or (
            folder.exists() and read_folder(folder, folder.name).vectors is not None
        )
        engine = "static" if static else self.preferred
        check_installed(
            MODULES[engine], extra=EXTRA_OF[engine], what=f"the {engine} engine ({self.model})"
        )

    @property
    def preferred(self) -> EngineName:
        """The engine to use, as far as what is installed decides."""
        if self.engine == "auto" and not (find_spec("torch") and find_spec("transformers")):
            return "onnx" if find_spec("onnxruntime") else "transformers"
        return self.engine

    def load(self, files: ModelFiles) -> Engine:
        """Read the model into memory."""
        kind = self.preferred
        if files.vectors is not None and self.engine in ("auto", "static"):
            kind = "static"
        elif kind == "static":
            raise ConfigurationError(
                f"{str(files.folder)!r} contains no table of vectors; leave engine=static out to "
                "run it as a network"
            )
        elif kind == "auto":
            kind = "onnx" if files.onnx and not files.weights else "transformers"
        return _ENGINES[kind](files, self.head, device=self.device, layer=self.layer)


@dataclass(frozen=True)
class QueuedEngine:
    """An engine as the work queue takes it."""

    engine: Engine
    label: str
    """The model as signatures call it, with commit or digest and engine."""

    def prepare(self, encoding: Encoding) -> Encoding:
        """Return it: tools tokenize."""
        return encoding

    def run(self, batch: Sequence[Encoding], _: Callable[[], bool]) -> list[Array]:
        """Run the model on a batch."""
        return self.engine.run(batch)

    def close(self) -> None:
        """Nothing to do: the memory goes with the last reference."""


def _open(key: ModelKey) -> QueuedEngine:
    key.check_extra()
    files = locate(key.model, engine=key.preferred)
    engine = key.load(files)
    # A commit names its content; a folder is named by a digest of what lies in it now.
    label = files.label if "@" in files.label else f"{files.label}#{files.digest()}"
    return QueuedEngine(engine, f"{label}|engine:{engine.name}")


@dataclass(slots=True)
class _Shared:
    future: Future[Array]
    waiting: int = 0


class Runner:
    """Runs one model for any number of tools, tasks and event loops; use `runner_for`.

    Equal inputs share one evaluation, while it is under way and for a while after: the systems of
    one source come after each other and are compared with the same references, so on SummEval seven
    of eight inputs are repeats. An input that nobody waits for leaves the queue; a failed
    evaluation is not remembered.
    """

    def __init__(self, key: ModelKey, *, max_bytes: int = MAX_BYTES) -> None:
        self.key = key
        self.label = key.model
        """The model as signatures call it; with commit or digest once it is loaded."""
        self.users = 0
        """Tools that have it; the last one closes the model."""
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[Encoding, _Shared] = OrderedDict()
        self._bytes = 0
        self._queue = WorkQueue[QueuedEngine, Encoding, Array](
            partial(_open, key),
            LengthOrder(batch_tokens=key.batch_tokens),
            name=key.model,
        )
        finalize(self, self._queue.stop).atexit = False  # for tools that nobody closed

    async def release(self) -> None:
        """Count one user less, and free the model when none is left."""
        with _LOCK:
            self.users -= 1
            if self.users:
                return
            _RUNNERS.pop(self.key, None)
        await self._queue.aclose()
        self._known.clear()

    async def open(self) -> Engine:
        """Return the engine, loaded at the first call."""
        opened = await self._queue.open()
        self.label = opened.label
        return opened.engine

    def check(self) -> None:
        """Find out, without loading or downloading, what would keep the model from being opened.

        A model on the Hub that is not here yet passes unless the Hub's client is offline.
        """
        self.key.check_extra()
        # Asking the Hub whether a model exists would need the network for a dry run.
        if not on_hub(self.key.model) or _hub_is_offline():
            locate(self.key.model, engine=self.key.preferred, cached_only=True)

    async def ask(self, encodings: Sequence[Encoding]) -> list[Array]:
        """Run the model on inputs, batched with what others ask at the same time."""
        await self.open()
        joined = self._join(encodings)
        try:
            return [await shared_result(shared.future) for shared in joined]
        finally:
            self._leave(encodings, joined)

    @property
    def batches(self) -> tuple[int, int]:
        """Batches run and requests answered so far."""
        return self._queue.batches, self._queue.requests

    @property
    def known(self) -> tuple[Encoding, ...]:
        """Inputs whose answers are remembered or under way."""
        with self._lock:
            return tuple(self._known)

    def _join(self, encodings: Sequence[Encoding]) -> list[_Shared]:
        with self._lock:
            fresh = [e for e in dict.fromkeys(encodings) if not self._usable(e)]
            futures = self._queue.submit(fresh)
            for encoding, future in zip(fresh, futures, strict=True):
                self._known[encoding] = _Shared(future)
            joined = [self._known[encoding] for encoding in encodings]
            for encoding, shared in zip(encodings, joined, strict=True):
                shared.waiting += 1
                self._known.move_to_end(encoding)
        for encoding, future in zip(fresh, futures, strict=True):
            # Outside of the lock: a future that is done already calls back at once, and `_remember`
            # locks.
            future.add_done_callback(partial(self._remember, encoding))
        return joined

    def _usable(self, encoding: Encoding) -> bool:
        shared = self._known.get(encoding)
        return shared is not None and not shared.future.cancelled()

    def _remember(self, encoding: Encoding, done: Future[Array]) -> None:
        """Count a finished answer, and drop the least recently used ones."""
        with self._lock:
            shared = self._known.get(encoding)
            if shared is None or shared.future is not done:
                return
            if done.cancelled() or done.exception() is not None:
                del self._known[encoding]
                return
            self._bytes += done.result().nbytes
            for oldest in list(self._known):
                if self._bytes <= self._max_bytes:
                    break
                future = self._known[oldest].future
                # What is still under way has waiters and no size yet.
                if future.done():
                    self._bytes -= future.result().nbytes
                    del self._known[oldest]

    def _leave(self, encodings: Sequence[Encoding], joined: Sequence[_Shared]) -> None:
        abandoned = []
        with self._lock:
            for encoding, shared in zip(encodings, joined, strict=True):
                shared.waiting -= 1
                if not shared.waiting and not shared.future.done():
                    abandoned.append(shared.future)
                    if self._known.get(encoding) is shared:
                        # whoever comes now must not join what is canceled
                        del self._known[encoding]
        for future in abandoned:  # outside of the lock: it calls `_remember`
            future.cancel()


# Weak: a runner lives as long as some tool holds it.
_RUNNERS: WeakValueDictionary[ModelKey, Runner] = WeakValueDictionary()
_LOCK = threading.Lock()


def runner_for(key: ModelKey) -> Runner:
    """Return the runner of a model, the same one for equal keys while it is in use."""
    with _LOCK:
        runner = _RUNNERS.get(key)
        if runner is None:
            runner = _RUNNERS[key] = Runner(key)
        runner.users += 1
    return runner


def _hub_is_offline() -> bool:
    hub = need("huggingface_hub.constants", extra="nli", what="a model on the Hub")
    return bool(hub.HF_HUB_OFFLINE)
