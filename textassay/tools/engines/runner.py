"""A model behind a batcher: loaded at first use, with one worker thread, shared among tools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakValueDictionary

from textassay.runtime.backends.batching import Batcher
from textassay.runtime.errors import ConfigurationError, ModelClosed
from textassay.tools.engines.engine import Array, Encoding, Engine, EngineName, Head
from textassay.tools.engines.extras import check_installed, need
from textassay.tools.engines.files import PACKAGED_VECTORS, ModelFiles, locate, on_hub, read_folder
from textassay.tools.engines.onnx import OnnxEngine
from textassay.tools.engines.pytorch import PytorchEngine
from textassay.tools.engines.shared_answers import SharedAnswers, shared_result
from textassay.tools.engines.static import StaticEngine

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

Key = tuple[str, Head, EngineName, str, int | None, int]


class Runner:
    """Runs one model for any number of tools, tasks and event loops; use `runner_for`."""

    def __init__(self, key: Key) -> None:
        """Keep what to load; nothing is read yet."""
        self.model, self.head, self.engine_name, self.device, self.layer, self.batch_tokens = key
        self.label = self.model
        """The model as signatures call it; with commit or digest once it is loaded."""
        self._lock = threading.Lock()
        self._users = 0
        self._loading: Future[Engine] | None = None
        self._batcher: Batcher[Encoding, Encoding, Array] | None = None
        self._answers: SharedAnswers | None = None

    def acquire(self) -> None:
        """Count one more user; the last `release` closes the model."""
        with self._lock:
            self._users += 1

    async def release(self) -> None:
        """Count one user less, and free the model when none is left."""
        with self._lock:
            self._users -= 1
            # Closed outside of the lock: closing waits for the worker's thread.
            batcher = self._batcher if self._users == 0 else None
            if self._users == 0:
                self._batcher = self._loading = self._answers = None
        if batcher is not None:
            await batcher.aclose()

    async def open(self) -> Engine:
        """Return the engine, loaded by a thread of its own at the first call.

        Raises:
            ConfigurationError: The model cannot be found, read or used.
        """
        with self._lock:
            if self._loading is None:
                self._loading = Future()
                # A thread of its own rather than the caller's task: a caller that is canceled must
                # not leave the others without a model.
                threading.Thread(target=self._load, args=(self._loading,), daemon=True).start()
            loading = self._loading
        return await shared_result(loading)

    def check(self) -> None:
        """Find out, without loading or downloading, what would keep the model from being opened.

        A model on the Hub that is not here yet passes unless the Hub's client is offline.

        Raises:
            ConfigurationError: Its extra is not installed, there is no such folder, or it could not
                be fetched.
        """
        self._check_extra()
        # Asking the Hub whether a model exists would need the network for a dry run.
        if not on_hub(self.model) or _hub_is_offline():
            locate(self.model, engine=self._preferred(), download=False)

    def _check_extra(self) -> None:
        """Look at what is installed before a download of half a gigabyte, not after it."""
        folder = Path(self.model).expanduser()
        static = self.model == PACKAGED_VECTORS or (
            folder.exists() and read_folder(folder, folder.name).vectors is not None
        )
        engine = "static" if static else self._preferred()
        check_installed(
            MODULES[engine], extra=EXTRA_OF[engine], what=f"the {engine} engine ({self.model})"
        )

    async def ask(self, encodings: Sequence[Encoding]) -> list[Array]:
        """Run the model on inputs, batched with what others ask at the same time.

        Raises:
            ModelClosed: The tool was closed.
        """
        await self.open()
        answers = self._answers
        if answers is None:
            raise ModelClosed(f"the model {self.label} was closed")
        return await answers.ask(encodings)

    @property
    def batches(self) -> tuple[int, int]:
        """Batches run and requests answered so far."""
        return (self._batcher.batches, self._batcher.requests) if self._batcher else (0, 0)

    @property
    def known(self) -> tuple[Encoding, ...]:
        """Inputs whose answers are remembered or under way."""
        return self._answers.inputs if self._answers else ()

    def _load(self, loading: Future[Engine]) -> None:
        try:
            self._check_extra()
            files = locate(self.model, engine=self._preferred())
            engine = self._engine(files)
            # A commit names its content; a folder is named by a digest of what lies in it now.
            label = files.label if "@" in files.label else f"{files.label}#{files.digest()}"
            batcher: Batcher[Encoding, Encoding, Array] = Batcher(
                lambda encoding: encoding,
                engine.run,
                batch_tokens=self.batch_tokens,
                name=files.label,
            )
        except Exception as error:  # handed to whoever waits for the model
            loading.set_exception(error)
            return
        with self._lock:
            self.label, self._batcher = f"{label}|engine:{engine.name}", batcher
            self._answers = SharedAnswers(batcher.submit)
        loading.set_result(engine)

    def _preferred(self) -> EngineName:
        if self.engine_name == "auto" and not (find_spec("torch") and find_spec("transformers")):
            return "onnx" if find_spec("onnxruntime") else "transformers"
        return self.engine_name

    def _engine(self, files: ModelFiles) -> Engine:
        kind = self._preferred()
        if files.vectors is not None and self.engine_name in ("auto", "static"):
            kind = "static"
        elif kind == "static":
            raise ConfigurationError(
                f"{str(files.folder)!r} contains no table of vectors; leave engine=static out to "
                "run it as a network"
            )
        elif kind == "auto":
            kind = "onnx" if files.onnx and not files.weights else "transformers"
        return _ENGINES[kind](files, self.head, device=self.device, layer=self.layer)


# Weak: a runner lives as long as some tool holds it.
_RUNNERS: WeakValueDictionary[Key, Runner] = WeakValueDictionary()


def runner_for(
    model: str,
    head: Head,
    *,
    engine: EngineName = "auto",
    device: str = "auto",
    layer: int | None = None,
    batch_tokens: int = 8192,
) -> Runner:
    """Return the runner of a model, the same one for equal arguments while it is in use.

    Args:
        model: A folder, or a Hub id with a revision.
        head: What is wanted of it.
        engine: Which engine runs it.
        device: Where; see the engines.
        layer: For `encode`, the layer whose states are wanted; the last if `None`.
        batch_tokens: Most tokens in a batch, padding included.
    """
    key: Key = (model, head, engine, device, layer, batch_tokens)
    runner = _RUNNERS.get(key)
    if runner is None:
        runner = _RUNNERS[key] = Runner(key)
    runner.acquire()
    return runner


def _hub_is_offline() -> bool:
    hub = need("huggingface_hub.constants", extra="nli", what="a model on the Hub")
    return bool(hub.HF_HUB_OFFLINE)
