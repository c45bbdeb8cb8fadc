"""Requests that begin alike: who goes first, and which follow each other.

Providers keep what they have computed for the beginning of a prompt, and charge a part of the price
for prompts that begin in the same way: only once the first answer is there, though. `PrefixModel`
sends the first one ahead. A local model still holds what the last request began with, so it waits a
moment for the next one of a `RequestChain`. Which chain is being asked travels in a context
variable, so that neither requests nor the wrappers around a model need to carry it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from textassay.runtime.calls.usage import is_worth_caching
from textassay.runtime.model import A, Model, Q, Wrapper

MAX_PREFIXES = 4096
"""Prefixes that are remembered; the oldest is forgotten first."""


class PrefixModel(Wrapper):
    """Holds requests back until the first one with the same prefix was answered.

    Inside of the cache: a request that is answered from disk computes no prefix anywhere.
    """

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self._first: dict[int, asyncio.Event] = {}

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer, behind the first request with this prefix."""
        if not is_worth_caching(request):
            return await call(request)
        prefix = hash(request.prefix)
        first = self._first.get(prefix)
        if first is not None:
            await first.wait()
            return await call(request)
        if len(self._first) >= MAX_PREFIXES:
            del self._first[next(iter(self._first))]
        self._first[prefix] = answered = asyncio.Event()
        try:
            return await call(request)
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
def chained() -> Iterator[RequestChain]:
    """Give a chain to which every request belongs that is asked inside the block.

    It ends with the block.
    """
    current = RequestChain()
    token = _current.set(current)
    try:
        yield current
    finally:
        current.end()
        _current.reset(token)
