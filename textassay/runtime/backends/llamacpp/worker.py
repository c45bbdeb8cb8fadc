"""One thread that owns a resource which must never be touched by two, and serves asyncio tasks from any loop.

Knows nothing of llama.cpp. Tasks run in the order of the keys that they give themselves
(`order.py`), and results return to their askers. Where a task belongs to a chain that goes on, the
thread waits a moment for the task that follows, while their common prefix is still there.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from textassay.runtime.backends.llamacpp.order import Order
from textassay.runtime.calls.conversation import Conversation, current_chain
from textassay.runtime.errors import ModelClosed

SEQUEL_SECONDS = 0.2
"""How long the next task of a chain is waited for. It comes in a hundredth of that, unless the
machine is busy or the asker does something else in between, and evaluating a long prompt anew takes
most models longer."""
_EXIT_SECONDS = 10.0


R_contra = TypeVar("R_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Resource(Protocol):
    """What a worker owns."""

    def close(self) -> None:
        """Release it; called on the owner thread."""
        ...


class WorkerTask(Protocol[R_contra, T_co]):
    """One piece of work; both methods run on the owner thread."""

    def prepare(self, resource: R_contra) -> bytes:
        """Get ready and return the key by which tasks are brought next to each other."""
        ...

    def run(self, resource: R_contra, abandoned: Callable[[], bool]) -> T_co:
        """Do the work; once `abandoned()` is true nobody wants the result."""
        ...


R = TypeVar("R", bound=Resource)

Together = Callable[[R, Sequence[WorkerTask[R, object]], Callable[[], bool]], Sequence[object]]
"""Runs several tasks at once and returns their results in order, an exception in place of a failed
one."""


class QueuedTask(Generic[R]):
    """A task in the queue with the future of its asker."""

    def __init__(self, task: WorkerTask[R, object], serial: int) -> None:
        self.task, self.serial = task, serial
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[object] = self.loop.create_future()
        self.chain = current_chain()
        self.continued = self.chain is not None and self.chain.continued
        self.key = b""
        self.arrived = 0
        self.abandoned = False
        self.done = False

    def deliver(self, result: object) -> None:
        """Hand the result, or the exception, to the asker's event loop."""
        self.done = True
        try:
            self.loop.call_soon_threadsafe(self._settle, result)
        except RuntimeError:
            self.abandoned = True  # the loop is closed: nobody is left to tell

    def _settle(self, result: object) -> None:
        if self.future.done():
            return
        if isinstance(result, BaseException):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class Worker(Generic[R]):
    """Runs tasks on one thread of its own."""

    def __init__(
        self,
        opening: Callable[[], R],
        *,
        name: str,
        capacity: int = 1,
        together: Together[R] | None = None,
        sequel_seconds: float = SEQUEL_SECONDS,
    ) -> None:
        """Store; `start` begins.

        Args:
            opening: Makes the resource, on the owner thread.
            name: Names thread and error messages.
            capacity: Most tasks that run at once.
            together: Runs several at once; needed where `capacity` is above 1.
            sequel_seconds: How long, at most, the next task of a chain is waited for.
        """
        self._opening, self._name, self._capacity, self._together = (
            opening,
            name,
            capacity,
            together,
        )
        self._sequel_seconds = sequel_seconds
        self._wake = threading.Condition()
        self._inbox: deque[QueuedTask[R]] = deque()
        self._stopping = False
        self._serial = itertools.count()
        self._queue = Order[QueuedTask[R]]()
        self._thread = threading.Thread(target=self._main, name=f"textassay {name}", daemon=True)
        self._watchers: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._ended = False

    async def start(self) -> R:
        """Start the thread and return the resource once it is open, or raise what opening raised."""
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[R] = loop.create_future()
        self._opening_loop = loop
        self._opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        self._thread.start()
        weakref.finalize(self, _join_at_exit, weakref.ref(self))
        return await asyncio.shield(self._opened)

    async def submit(self, task: WorkerTask[R, T]) -> T:
        """Queue a task and return its result; cancelling the caller takes effect at once.

        Raises:
            ModelClosed: The worker is stopped, or is being stopped before the task could run.
        """
        with self._wake:
            if self._stopping:
                raise ModelClosed(f"model {self._name!r} is closed")
            entry = QueuedTask[R](task, next(self._serial))
            if entry.chain is not None:
                entry.chain.tell(self._look_again)
            self._inbox.append(entry)
            self._wake.notify()
        try:
            return await entry.future  # type: ignore[return-value]  # the entry holds what the task returns
        except asyncio.CancelledError:
            entry.abandoned = True
            raise

    def stop(self) -> None:
        """Ask the thread to end; what is queued fails with `ModelClosed`.

        Safe to call twice and from any thread.
        """
        with self._wake:
            self._stopping = True
            self._wake.notify()

    async def stopped(self) -> None:
        """Wait until the thread has released its resource and ended."""
        loop = asyncio.get_running_loop()
        with self._wake:
            if self._ended or self._thread.ident is None:
                return
            future = loop.create_future()
            self._watchers.append((loop, future))
        await future

    def join(self, timeout_seconds: float) -> None:
        """Stop and wait for the thread from synchronous code, as at the interpreter's exit."""
        self.stop()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)

    def _main(self) -> None:
        try:
            resource = self._opening()
        except BaseException as error:
            self._tell_opened(error)
            self.stop()
            self._end()
            return
        self._tell_opened(resource)
        try:
            while self._collect(resource):
                chosen = self._queue.pop(self._capacity)
                if chosen:
                    self._run(resource, chosen)
                if len(chosen) == 1 and chosen[0].chain is not None and chosen[0].continued:
                    self._await_sequel(chosen[0].chain, resource)
        finally:
            try:
                resource.close()
            finally:
                self._end()

    def _collect(self, resource: R) -> bool:
        """Prepare and queue what came in; wait where there is nothing to do.

        Return whether to go on.
        """
        with self._wake:
            while not (self._inbox or self._queue or self._stopping):
                self._wake.wait()
            if self._stopping:
                return False
        self._sort_in(resource)
        return True

    def _look_again(self) -> None:
        with self._wake:
            self._wake.notify()

    def _await_sequel(self, chain: Conversation, resource: R) -> None:
        """Wait until the chain's next task is queued, or none will come, but not for long.

        Whether it shares more with the last one than others do is for the order to say: it may not,
        if a source was cut to fit.
        """
        # The next turn of a conversation is asked only after its answer reached the event loop, and
        # by then another task would have overwritten the cached prefix, which costs seconds to
        # evaluate again. Waiting a fraction of a second for it is cheaper; the deadline bounds what
        # an agent costs that thinks long between two turns.
        deadline = time.monotonic() + self._sequel_seconds
        while (
            not (chain.ended or self._has_next(chain)) and (left := deadline - time.monotonic()) > 0
        ):
            with self._wake:
                # wakes for any arrival: tokenizing it now is work that the wait would only delay
                self._wake.wait_for(lambda: self._inbox or self._stopping or chain.ended, left)
                if self._stopping:
                    return
            self._sort_in(resource)

    def _has_next(self, chain: Conversation) -> bool:
        return any(entry.chain is chain and not entry.abandoned for entry in self._queue)

    def _sort_in(self, resource: R) -> None:
        """Prepare and queue what came in."""
        with self._wake:
            arrived, self._inbox = self._inbox, deque()
        for entry in arrived:
            self._prepare(entry, resource)

    def _prepare(self, entry: QueuedTask[R], resource: R) -> None:
        if self._stopping:
            entry.deliver(ModelClosed(f"model {self._name!r} was closed before it answered"))
        elif not entry.abandoned:
            try:
                entry.key = entry.task.prepare(resource)
            except Exception as error:
                entry.deliver(error)
            else:
                self._queue.push(entry)

    def _run(self, resource: R, entries: list[QueuedTask[R]]) -> None:
        def abandoned() -> bool:
            return self._stopping or all(entry.abandoned for entry in entries)

        try:
            if self._together is None or self._capacity == 1:
                results: Sequence[object] = [entries[0].task.run(resource, abandoned)]
            else:
                results = self._together(resource, [entry.task for entry in entries], abandoned)
            settled = list(zip(entries, results, strict=True))
        except Exception as error:
            closed = ModelClosed(f"model {self._name!r} was closed before it answered")
            settled = [(entry, closed if self._stopping else error) for entry in entries]
        for entry, result in settled:
            entry.deliver(result)

    def _tell_opened(self, result: R | BaseException) -> None:
        def settle() -> None:
            if self._opened.done():
                return
            if isinstance(result, BaseException):
                self._opened.set_exception(result)
            else:
                self._opened.set_result(result)

        try:
            self._opening_loop.call_soon_threadsafe(settle)
        except RuntimeError:
            self.stop()  # the loop that asked for the resource is closed

    def _end(self) -> None:
        with self._wake:
            self._ended = self._stopping = True
            watchers, left = self._watchers, [*self._inbox, *self._queue.drain()]
            self._inbox.clear()
        for entry in left:
            entry.deliver(ModelClosed(f"model {self._name!r} was closed before it answered"))
        for loop, future in watchers:
            try:
                loop.call_soon_threadsafe(_fulfil, future)
            except RuntimeError:
                continue  # the loop is closed: nobody is left to tell


def _fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _join_at_exit(worker: weakref.ref[Worker[Any]]) -> None:
    """Let the thread end before the interpreter does.

    The C library's memory goes away under it otherwise.
    """
    alive = worker()
    if alive is not None:
        alive.join(_EXIT_SECONDS)
