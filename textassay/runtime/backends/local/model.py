"""`LocalModel`: a model of this process behind a work queue."""

from __future__ import annotations

import weakref
from typing import Generic, Protocol, Self, TypeVar, cast

from textassay.runtime.backends.local import work_queue
from textassay.runtime.backends.local.tasks import AnyRequest, AnyResponse
from textassay.runtime.backends.local.work_queue import WorkQueue
from textassay.runtime.errors import CapabilityError, ConfigurationError
from textassay.runtime.model import (
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    InProcessModel,
    Request,
    Response,
)


class LocalEngine(work_queue.Engine, Protocol):
    """A loaded model that answers requests."""

    @property
    def evaluated_tokens(self) -> int:
        """Tokens really evaluated so far."""
        ...


E = TypeVar("E", bound=LocalEngine)


class LocalModel(InProcessModel, Generic[E]):
    """A model on one thread of its own; the first use, or `open`, loads it."""

    def __init__(self, name: str, queue: WorkQueue[E, AnyRequest, AnyResponse]) -> None:
        self._name, self._queue = name, queue
        self._engine: E | None = None
        # For a model that nobody closed. At exit the queue joins its thread by itself.
        weakref.finalize(self, queue.stop).atexit = False

    @property
    def name(self) -> str:
        """The name the user gave."""
        return self._name

    @property
    def evaluated_tokens(self) -> int:
        """Tokens really evaluated so far; what requests of a batch or in turn share counts once."""
        return 0 if self._engine is None else self._engine.evaluated_tokens

    async def open(self) -> Self:
        """Find, or download, the model and load it; does nothing if that is done.

        Raises:
            ModelNotFound: There is no such file or repository.
            NothingListening: It must be downloaded, and the hub cannot be reached.
            ConfigurationError: It is no usable model, or does not fit into memory.
            ModelClosed: The model is closed.
        """
        engine = await self._queue.open()
        if self._engine is None:
            self._engine = engine
            self._has_opened()
        return self

    def _has_opened(self) -> None:
        """Do what is due once the model is loaded: nothing."""

    def _loaded(self) -> E:
        """Return what is loaded, or raise `ConfigurationError`."""
        if self._engine is None:
            raise ConfigurationError(
                f"model {self._name!r} is not open: its files decide what it is (await"
                " model.open())"
            )
        return self._engine

    async def generate(self, request: Request) -> Response:
        """Return `n` sampled answers.

        Raises:
            ContextTooLong: Prompt and `max_tokens` do not fit.
            ConfigurationError: Messages were given and the model has no chat template, the JSON
                schema cannot be kept, or extra fields were given.
            ModelClosed: The model is, or was meanwhile, closed.
        """
        if request.extra:
            raise ConfigurationError(
                f"a local model takes no extra fields, and was given {', '.join(request.extra)}"
            )
        return cast(Response, await self._ask(request))

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return the log of each choice's probability to come next, summed over its forms.

        Raises:
            RequestRefused: A form adds no token, or belongs to two choices.
            ContextTooLong: The prompt does not fit.
            ModelClosed: The model is, or was meanwhile, closed.
        """
        return cast(ChoicesResponse, await self._ask(request))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the log-probability of each token of the continuation.

        Raises:
            RequestRefused: The text adds no token, or nothing stands before its first.
            ContextTooLong: Prompt and continuation do not fit.
            ModelClosed: The model is, or was meanwhile, closed.
        """
        return cast(ContinuationResponse, await self._ask(request))

    async def _ask(self, request: AnyRequest) -> AnyResponse:
        if request.images:
            raise CapabilityError(f"{self._name!r} runs in this process and takes no images")
        if self._engine is None:
            await self.open()
        [answer] = await self._queue.ask([request])
        return answer

    async def aclose(self) -> None:
        """Stop, failing what is queued with `ModelClosed`, and free the memory.

        Safe to call twice.
        """
        await self._queue.aclose()
        self._engine = None

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
