"""A task in a worker's queue: what it must be able to do, and whom to hand its result to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from textassay.runtime.calls.conversation import current_conversation

R_contra = TypeVar("R_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class Resource(Protocol):
    """What a worker owns."""

    def close(self) -> None:
        """Release it; called on the owner thread."""
        ...


class WorkerTask(Protocol[R_contra, T_co]):
    """One piece of work."""

    def prepare(self, resource: R_contra) -> bytes:
        """Get ready and return the key by which tasks are brought next to each other.

        Runs beside the owner thread, one task at a time, and may only read what the resource never
        changes.
        """
        ...

    def run(self, resource: R_contra, abandoned: Callable[[], bool]) -> T_co:
        """Do the work, on the owner thread.

        Once `abandoned()` is true, the result is no longer needed.
        """
        ...


R = TypeVar("R", bound=Resource)


class QueuedTask(Generic[R]):
    """A task in the queue, with the future that its caller awaits."""

    def __init__(self, task: WorkerTask[R, object], serial: int) -> None:
        self.task, self.serial = task, serial
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[object] = self.loop.create_future()
        self.conversation = current_conversation()
        # Read now, on the caller's thread: once the task runs it may concern the next request.
        self.has_next = self.conversation is not None and self.conversation.has_next
        self.key = b""
        self.arrived = 0
        self.abandoned = False
        self.done = False

    def deliver(self, result: object) -> None:
        """Hand the result, or the exception, to the caller's event loop."""
        self.done = True
        try:
            self.loop.call_soon_threadsafe(self._settle, result)
        except RuntimeError:
            self.abandoned = True  # the loop is closed: nobody is left to tell

    def _settle(self, result: object) -> None:
        # Canceled between the worker's call and this turn of the loop.
        if self.future.done():
            return
        if isinstance(result, BaseException):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)
