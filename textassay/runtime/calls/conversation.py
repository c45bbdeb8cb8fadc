"""Requests that are asked one after the other, each beginning like the one before: a chain.

A local model still holds what a chain's last request began with, so it waits a moment for the next
one. Which chain is being asked travels in a context variable, so that neither requests nor the
wrappers around a model need to carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Conversation:
    """The requests of one caller in turn; notifies listeners when no further one will come."""

    def __init__(self) -> None:
        self.continued = True
        """Whether another request will follow the next one; set it before that is asked."""
        self.ended = False
        """Whether nothing more will be asked."""
        self._told: set[Callable[[], None]] = set()

    def tell(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the chain ends, from the caller's thread, or now if it has ended.

        Adding a listener twice has no further effect.
        """
        self._told.add(listener)
        if self.ended:
            listener()

    def end(self) -> None:
        """Mark the chain as ended, and notify its listeners."""
        self.ended = True
        for listener in self._told:
            listener()


_current: ContextVar[Conversation | None] = ContextVar("textassay_chain", default=None)


def current_chain() -> Conversation | None:
    """Return the chain that is being asked here, if one is."""
    return _current.get()


@contextmanager
def conversation() -> Iterator[Conversation]:
    """Give a chain to which every request belongs that is asked inside the block.

    It ends with the block.
    """
    chain = Conversation()
    token = _current.set(chain)
    try:
        yield chain
    finally:
        chain.end()
        _current.reset(token)
