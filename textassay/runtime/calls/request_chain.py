"""Requests that are asked one after the other, each beginning like the one before.

A local model still holds what a chain's last request began with, so it waits a moment for the next
one. Which chain is being asked travels in a context variable, so that neither requests nor the
wrappers around a model need to carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class RequestChain:
    """The requests of one caller in turn; notifies listeners when no further one will come."""

    def __init__(self) -> None:
        self.has_next = True
        """Whether another request will follow the next one; set it before that is asked."""
        self.ended = False
        """Whether nothing more will be asked."""
        self._listeners: set[Callable[[], None]] = set()

    def on_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the chain ends, or now if it has ended.

        It is called from the thread that ends the chain.

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
