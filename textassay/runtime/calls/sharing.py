"""Makes equal calls of several tasks once, and sends prompts with a shared beginning in a row.

Tasks share equal requests in flight, and agents whose result never changes. The first caller makes
the call, without a task of its own, which would add a tenth to its CPU time.

Providers cache the beginning of a prompt, and charge less for later prompts with the same
beginning, but only after the first answer. So `PrefixModel` sends the first one ahead. A local
model still has the beginning of its last prompt, so it waits a moment for the next request of a
`RequestChain`. The current chain is in a context variable, so that neither requests nor wrappers
need to pass it on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar, cast

from textassay.runtime.base import CACHED, P, R
from textassay.runtime.calls.budget import is_worth_caching
from textassay.runtime.calls.cache import look_up
from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.errors import TextassayError
from textassay.runtime.model import AnyResponse, Model, Prompted
from textassay.runtime.storage.answer_store import AnswerStore


class _SharedResult(NamedTuple, Generic[R]):
    """The result or the error of a call."""

    result: R | None
    error: BaseException | None = None
    traceback: TracebackType | None = None
    """The error's original traceback, to which each caller that raises the error would add."""


Error = TypeVar("Error", bound=BaseException)


def _without_cost(error: Error) -> Error:
    """Return an error for a caller that does not pay for the failed request."""
    if not isinstance(error, TextassayError) or error.usage is None:
        return error
    copied = copy(error)
    copied.usage = None
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__  # last: setting a cause sets it
    return copied


class SharedCalls(Generic[R]):
    """Calls in progress by key: the first caller makes the call, and later ones join it.

    If the first caller is canceled, so is the call, and one of the others makes it again.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, list[asyncio.Future[_SharedResult[R] | None]]] = {}
        """The futures of the callers that have joined a call: its outcome, or `None` if it was
        canceled."""

    async def join(
        self,
        key: Hashable,
        call: Callable[[], Awaitable[R]],
        anew: Callable[[], Awaitable[R]] | None = None,
    ) -> tuple[R, bool]:
        """Return the result of the call under `key`, and whether this caller made the call.

        Exactly one of the callers that get a result gets `True`. A failure reaches all callers.
        `anew` replaces `call` after a canceled call, whose result may have been stored.
        """
        make = call
        while (joined := self._calls.get(key)) is not None:
            waiter: asyncio.Future[_SharedResult[R] | None] = (
                asyncio.get_running_loop().create_future()
            )
            joined.append(waiter)
            try:
                outcome = await waiter
            except asyncio.CancelledError:
                joined.remove(waiter)
                raise
            if outcome is None:
                make = anew or call  # unless another caller that waited is quicker
            elif outcome.error is not None:
                raise _without_cost(outcome.error).with_traceback(outcome.traceback)
            else:
                return cast(R, outcome.result), False
        joined, outcome = [], None
        self._calls[key] = joined
        task = cast("asyncio.Task[object]", asyncio.current_task())
        cancellations = task.cancelling()
        try:
            result = await make()
            outcome = _SharedResult(result)
            return result, True
        except BaseException as error:
            closed = isinstance(error, GeneratorExit)
            # an earlier count is of a cancellation that was swallowed
            if not closed and task.cancelling() <= cancellations:
                outcome = _SharedResult(None, error, error.__traceback__)
            raise
        finally:
            # No `await` before the caller goes on, so that an equal request finds either this call
            # or the stored result.
            del self._calls[key]
            for waiter in joined:
                if not waiter.done():
                    waiter.set_result(outcome)


class SharedModel(Wrapper):
    """Makes one call for equal requests that are in flight at the same time.

    One caller gets the response, or the error, with its cost, and the others without it.
    """

    def __init__(self, wrapped: Model, store: AnswerStore | None = None) -> None:
        """Wrap a model, whose identity must not change.

        If the caller that made the call is canceled, the `store` may have its answer already.
        """
        super().__init__(wrapped)
        self._store = store
        self._shared: SharedCalls[AnyResponse] = SharedCalls()

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        key = call.key(self.identity_bytes)
        response, first = await self._shared.join(
            key, lambda: ask(call), lambda: self._anew(key, call, ask)
        )
        return response if first else response.model_copy(update={"usage": CACHED})

    async def _anew(self, key: str, call: Call, ask: Send) -> AnyResponse:
        stored = None if self._store is None else await look_up(self._store, key)
        return await ask(call) if stored is None else stored


class once(Generic[P, R]):
    """Calls an agent once for equal arguments, such as G-Eval's steps for an aspect.

    Keeps all results except failures: make one for each run.
    """

    def __init__(self, agent: Callable[P, Awaitable[R]]) -> None:
        # a graph reads the annotations of `__wrapped__`
        self._agent = self.__wrapped__ = agent
        self._results: dict[Hashable, R] = {}
        self._shared: SharedCalls[R] = SharedCalls()

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result for these arguments."""
        key = (args, tuple(sorted(kwargs.items())))
        if key in self._results:
            return self._results[key]
        result, _ = await self._shared.join(key, lambda: self._agent(*args, **kwargs))
        # all callers of one call get here, and return the first one's object
        return self._results.setdefault(key, result)


class PrefixModel(Wrapper):
    """Holds requests back until the first one with the same prefix is answered.

    Inside of the cache, as an answer from disk does not fill the provider's cache.
    """

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self._first: dict[int, asyncio.Event] = {}

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Answer; a request without a shared prefix needs no coroutine of this wrapper."""
        return self.around(call, self._ask) if is_worth_caching(call) else self._ask(call)

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        assert isinstance(call.request, Prompted)
        prefix = hash(call.posting.prefix_of(call.request))
        first = self._first.get(prefix)
        if first is not None:
            await first.wait()
            return await ask(call)
        if len(self._first) >= 4096:  # a bound for memory: the oldest prefix is sent ahead again
            del self._first[next(iter(self._first))]
        self._first[prefix] = answered = asyncio.Event()
        try:
            return await ask(call)
        finally:
            answered.set()


class RequestChain:
    """The successive requests of one caller; notifies listeners when it ends."""

    def __init__(self) -> None:
        self.has_next = True
        """Whether another request will follow the next one; set it before the next one is sent."""
        self.ended = False
        """Whether no further request will come."""
        self._listeners: set[Callable[[], None]] = set()

    def on_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the chain ends, in the thread that ends it, or now if it has ended.

        Adding a listener twice has no further effect.
        """
        self._listeners.add(listener)
        if self.ended:
            listener()

    def end(self) -> None:
        """Mark the chain as ended, and notify its listeners."""
        self.ended = True
        for listener in self._listeners:
            listener()


_current: ContextVar[RequestChain | None] = ContextVar("textassay_request_chain", default=None)


def current_chain() -> RequestChain | None:
    """Return the chain of the current task; `None` outside of one."""
    return _current.get()


@contextmanager
def chain_requests() -> Iterator[RequestChain]:
    """Put all requests inside the block into one chain, which ends with the block."""
    current = RequestChain()
    token = _current.set(current)
    try:
        yield current
    finally:
        current.end()
        _current.reset(token)
