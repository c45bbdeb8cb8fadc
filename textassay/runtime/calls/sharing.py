"""What several tasks want at once is done once, and prompts that begin alike follow each other.

Equal requests in flight, and agents whose result never changes, are shared. The first caller makes
the call, without a task of its own, which would add a tenth to its CPU time.

Providers keep what they have computed for the beginning of a prompt, and charge a part of the price
for prompts that begin in the same way: only once the first answer is there, though. `PrefixModel`
sends the first one ahead. A local model still holds what the last request began with, so it waits a
moment for the next one of a `RequestChain`. Which chain is being asked travels in a context
variable, so that neither requests nor the wrappers around a model need to carry it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast

from textassay.runtime.calls.budget import is_worth_caching
from textassay.runtime.calls.cache import look_up
from textassay.runtime.calls.call import Call, Send, Wrapper, sender
from textassay.runtime.messages import CACHED
from textassay.runtime.model import AnyResponse, Model, Prompted
from textassay.runtime.storage.answers import AnswerStore

P = ParamSpec("P")
R = TypeVar("R")


class _SharedResult(NamedTuple, Generic[R]):
    """How a call ended."""

    result: R | None
    error: BaseException | None = None
    traceback: TracebackType | None = None
    """Where the error came from; each caller that raises it would otherwise add to it."""


E = TypeVar("E", bound=BaseException)


def _without_cost(error: E) -> E:
    """Return an error as it is for one who does not pay for the failed request."""
    if getattr(error, "usage", None) is None:
        return error
    # not `copy.copy`, which calls the constructor with arguments that it may not take
    copied = type(error).__new__(type(error), *error.args)
    vars(copied).update(vars(error), usage=None)
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__  # last: setting a cause sets it
    return copied


class SharedCalls(Generic[R]):
    """Calls in progress by key, each made by its first caller; callers with a known key join it.

    If that caller is canceled, so is the call, and one of those that have joined makes it anew.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, list[asyncio.Future[_SharedResult[R] | None]]] = {}
        """For each call in progress, what those that have joined it wait for: its outcome, or
        `None` if it was canceled."""

    async def join(
        self,
        key: Hashable,
        call: Callable[[], Awaitable[R]],
        anew: Callable[[], Awaitable[R]] | None = None,
    ) -> tuple[R, bool]:
        """Return the result of the call under `key`, and whether this caller made the call.

        Exactly one of the callers that get a result gets `True`. A failure reaches all callers.
        `anew` makes the call after one that was canceled, whose result may have been kept.
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
                make = anew or call  # unless another one of those that waited is quicker
            elif outcome.error is not None:
                raise _without_cost(outcome.error).with_traceback(outcome.traceback)
            else:
                return cast(R, outcome.result), False
        joined, outcome = [], None
        self._calls[key] = joined
        task = asyncio.current_task()
        cancellations = 0 if task is None else task.cancelling()
        try:
            result = await make()
            outcome = _SharedResult(result)
            return result, True
        except BaseException as error:
            closed = isinstance(error, GeneratorExit)
            # a count that was there before is of a cancellation that somebody has swallowed
            if not (closed or (task is not None and task.cancelling() > cancellations)):
                outcome = _SharedResult(None, error, error.__traceback__)
            raise
        finally:
            # Without an await before the caller goes on: an equal request finds either this call or
            # what its caller made of it.
            del self._calls[key]
            for waiter in joined:
                if not waiter.done():
                    waiter.set_result(outcome)


class SharedModel(Wrapper):
    """Asks equal requests that are in flight at the same time only once.

    One caller gets the response with its cost, the others with none. If the request fails, it fails
    for all of them, and one of them gets the error with what it cost.
    """

    def __init__(self, wrapped: Model, store: AnswerStore | None = None) -> None:
        """Wrap a model, whose identity stays the same as long as the wrapper lives.

        If the caller that asked is canceled, its answer may have come to the `store` by then.
        """
        super().__init__(wrapped)
        self._store = store
        self._shared: SharedCalls[AnyResponse] = SharedCalls()

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Join an equal request in flight, or ask."""
        key = call.key(self.identity_bytes)
        response, first = await self._shared.join(
            key, lambda: ask(call), lambda: self._anew(key, call, ask)
        )
        return response if first else response.model_copy(update={"usage": CACHED})

    async def _anew(self, key: str, call: Call, ask: Send) -> AnyResponse:
        kept = None if self._store is None else await look_up(self._store, key)
        return await ask(call) if kept is None else kept


class CalledOnce(Generic[P, R]):
    """Calls an agent once for equal arguments and remembers the result, but no failure."""

    def __init__(self, agent: Callable[P, Awaitable[R]]) -> None:
        # whose annotations a graph reads
        self._agent = self.__wrapped__ = agent
        self._results: dict[Hashable, R] = {}
        self._shared: SharedCalls[R] = SharedCalls()

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result for these arguments."""
        key = (args, tuple(sorted(kwargs.items())))
        if key in self._results:
            return self._results[key]
        result, _ = await self._shared.join(key, lambda: self._agent(*args, **kwargs))
        # All callers of one call get here; the first one's object is what everybody keeps.
        return self._results.setdefault(key, result)


def once(agent: Callable[P, Awaitable[R]]) -> CalledOnce[P, R]:
    """Return `agent` so that equal arguments share one call, as G-Eval's steps for an aspect do.

    Results live as long as the returned object: make one for each run.
    """
    return CalledOnce(agent)


MAX_PREFIXES = 4096
"""Prefixes that are remembered; the oldest is forgotten first."""


class PrefixModel(Wrapper):
    """Holds requests back until the first one with the same prefix was answered.

    Inside of the cache: a request that is answered from disk computes no prefix anywhere.
    """

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self._first: dict[int, asyncio.Event] = {}

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Answer; a request that shares nothing passes by without a coroutine of this wrapper."""
        ask = sender(self.wrapped)
        return self.around(call, ask) if is_worth_caching(call) else ask(call)

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Answer, behind the first request with this prefix."""
        assert isinstance(call.request, Prompted)
        prefix = hash(call.posting.prefix_of(call.request))
        first = self._first.get(prefix)
        if first is not None:
            await first.wait()
            return await ask(call)
        if len(self._first) >= MAX_PREFIXES:
            del self._first[next(iter(self._first))]
        self._first[prefix] = answered = asyncio.Event()
        try:
            return await ask(call)
        finally:
            answered.set()


class RequestChain:
    """The requests of one caller in turn; notifies listeners when no further one will come."""

    def __init__(self) -> None:
        self.has_next = True
        """Whether another request will follow the next one; set it before that is asked."""
        self.ended = False
        """Whether nothing more will be asked."""
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
    """Return the chain that is being asked here, if one is."""
    return _current.get()


@contextmanager
def chain_requests() -> Iterator[RequestChain]:
    """Give every request that is asked inside the block a chain, which ends with the block."""
    current = RequestChain()
    token = _current.set(current)
    try:
        yield current
    finally:
        current.end()
        _current.reset(token)
