"""Requests that are asked one after the other, each beginning like the one before.

A local model still holds what a conversation's last request began with, so it waits a moment for
the next one. Which conversation is being asked travels in a context variable, so that neither
requests nor the wrappers around a model need to carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Conversation:
    """The requests of one caller in turn; notifies listeners when no further one will come."""

    def __init__(self) -> None:
        self.has_next = True
        """Whether another request will follow the next one; set it before that is asked."""
        self.ended = False
        """Whether nothing more will be asked."""
        self._listeners: set[Callable[[], None]] = set()

    def on_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the conversation ends, or now if it has ended.

        It is called from the thread that ends the conversation.

        Adding a listener twice has no further effect.
        """
        self._listeners.add(listener)
        if self.ended:
            listener()

    def end(self) -> None:
        """Mark the conversation as ended, and notify its listeners."""
        self.ended = True
        for listener in self._listeners:
            listener()


_current: ContextVar[Conversation | None] = ContextVar("textassay_conversation", default=None)


def current_conversation() -> Conversation | None:
    """Return the conversation that is being asked here, if one is."""
    return _current.get()


@contextmanager
def conversation() -> Iterator[Conversation]:
    """Give a conversation to which every request belongs that is asked inside the block.

    It ends with the block.
    """
    current = Conversation()
    token = _current.set(current)
    try:
        yield current
    finally:
        current.end()
        _current.reset(token)
