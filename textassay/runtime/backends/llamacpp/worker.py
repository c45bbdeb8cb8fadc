"""One thread that owns a resource, runs tasks on it, and serves asyncio tasks from any loop.

Knows nothing of llama.cpp. Tasks run in the order of the keys that they give themselves
(`order.py`), and results are delivered to their callers. A second thread prepares what is submitted
while the owner runs something else. If a task belongs to a conversation with more requests to come,
the owner waits briefly for the next one while their common prefix is still cached.

Models that take batches of like length have a thread of another kind, `backends/batching.py`;
docs/architecture.md says why the two stay apart.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from textassay.runtime.backends.llamacpp.order import PrefixOrder
from textassay.runtime.backends.llamacpp.queued_task import QueuedTask, Resource, WorkerTask
from textassay.runtime.calls.conversation import Conversation
from textassay.runtime.errors import ModelClosed

NEXT_TURN_SECONDS = 0.2
"""How long to wait for the next task of a conversation. It comes in a hundredth of that, unless the
machine is busy or the caller does something else in between, and evaluating a long prompt again
takes most models longer."""
_EXIT_SECONDS = 10.0

T = TypeVar("T")
R = TypeVar("R", bound=Resource)

Together = Callable[[R, Sequence[WorkerTask[R, object]], Callable[[], bool]], Sequence[object]]
"""Runs several tasks at once and returns their results in order, an exception in place of a failed
one."""


class ThreadWorker(Generic[R]):
    """Runs tasks on one thread of its own, and prepares them on another."""

    def __init__(
        self,
        opening: Callable[[], R],
        *,
        name: str,
        capacity: int = 1,
        together: Together[R] | None = None,
        next_turn_seconds: float = NEXT_TURN_SECONDS,
    ) -> None:
        """Store; `start` begins.

        Args:
            opening: Makes the resource, on the owner thread.
            name: Names thread and error messages.
            capacity: Most tasks that run at once.
            together: Runs several at once; needed if `capacity` is above 1.
            next_turn_seconds: How long, at most, to wait for the next task of a conversation.
        """
        self._opening, self._name, self._capacity, self._together = (
            opening,
            name,
            capacity,
            together,
        )
        self._next_turn_seconds = next_turn_seconds
        self._wake = threading.Condition()
        self._inbox: deque[QueuedTask[R]] = deque()
        self._ready: deque[QueuedTask[R]] = deque()
        self._submitted = self._prepared = 0
        self._stopping = False
        self._queue = PrefixOrder[QueuedTask[R]]()
        self._thread = threading.Thread(target=self._main, name=f"textassay {name}", daemon=True)
        self._preparing = threading.Thread(
            target=self._prepare_all, name=f"textassay {name}: prepares", daemon=True
        )
        self._watchers: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._ended = False

    async def start(self) -> R:
        """Start the thread and return the opened resource, or raise what opening it raised."""
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[R] = loop.create_future()
        self._opening_loop = loop
        # Marks an error as retrieved: a caller that was canceled will not ask for it.
        self._opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        self._thread.start()
        weakref.finalize(self, _join_at_exit, weakref.ref(self))
        # Shielded: the thread settles this future whether or not the caller still waits.
        return await asyncio.shield(self._opened)

    async def submit(self, task: WorkerTask[R, T]) -> T:
        """Queue a task and return its result; canceling the caller takes effect at once.

        Raises:
            ModelClosed: The worker is stopped, or is being stopped before the task could run.
        """
        with self._wake:
            if self._stopping:
                raise ModelClosed(f"model {self._name!r} is closed")
            entry = QueuedTask[R](task, self._submitted)
            if entry.conversation is not None:
                # The owner may be waiting for the next task of a conversation that has ended.
                entry.conversation.on_end(self._look_again)
            self._inbox.append(entry)
            self._submitted += 1
            self._wake.notify_all()
        try:
            # The future's result has the type of the task that was submitted.
            return await entry.future  # type: ignore[return-value]
        except asyncio.CancelledError:
            # Only noted here: the task may be running on the owner's thread, which looks between
            # batches.
            entry.abandoned = True
            raise

    def stop(self) -> None:
        """Ask the thread to end; what is queued fails with `ModelClosed`.

        Safe to call twice and from any thread.
        """
        with self._wake:
            self._stopping = True
            self._wake.notify_all()

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
            self._resolve_opening(error)
            self.stop()
            self._end()
            return
        self._resource = resource
        self._preparing.start()
        self._resolve_opening(resource)
        try:
            while self._collect():
                chosen = self._queue.pop(self._capacity)
                if chosen:
                    self._run(resource, chosen)
                if len(chosen) == 1 and chosen[0].conversation is not None and chosen[0].has_next:
                    self._await_next_turn(chosen[0].conversation)
        finally:
            self.stop()
            self._preparing.join()  # it reads the resource
            try:
                resource.close()
            finally:
                self._end()

    def _collect(self) -> bool:
        """Queue what is prepared; wait if there is nothing to do.

        Returns:
            Whether to continue.
        """
        with self._wake:
            self._wake.wait_for(lambda: self._ready or self._queue or self._stopping)
            # What has been asked so far may share more with the last task than what is prepared,
            # and a prefix that another task overwrites costs more than this wait. What arrived
            # while a task ran is mostly prepared by now.
            submitted = self._submitted
            self._wake.wait_for(lambda: self._prepared >= submitted or self._stopping)
            self._sort_in()
            return not self._stopping

    def _look_again(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _await_next_turn(self, conversation: Conversation) -> None:
        """Wait until the conversation's next task is queued, or none will come, but not for long.

        Whether it shares more with the last one than others do is for the order to say: it may not,
        if a source was cut to fit.
        """
        # The next turn of a conversation is asked only after its answer reached the event loop, and
        # by then another task would have overwritten the cached prefix, which costs seconds to
        # evaluate again. Waiting a fraction of a second for it is cheaper; the deadline bounds what
        # an agent costs that thinks long between two turns.
        deadline = time.monotonic() + self._next_turn_seconds
        while (
            not (conversation.ended or self._has_next(conversation))
            and (left := deadline - time.monotonic()) > 0
        ):
            with self._wake:
                self._wake.wait_for(
                    lambda: self._ready or self._stopping or conversation.ended, left
                )
                if self._stopping:
                    return
                self._sort_in()

    def _has_next(self, conversation: Conversation) -> bool:
        return any(
            entry.conversation is conversation and not entry.abandoned for entry in self._queue
        )

    def _sort_in(self) -> None:
        while self._ready:
            self._queue.push(self._ready.popleft())

    def _prepare_all(self) -> None:
        """Prepare what is submitted, first come, first served, until the worker stops."""
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._inbox or self._stopping)
                if self._stopping:
                    return
                entry = self._inbox.popleft()
            # Outside the lock: tokenizing takes long enough to hold up whoever submits.
            usable = not entry.abandoned and self._prepare(entry)
            with self._wake:
                # Counted whether usable or not: `_collect` waits for everything that was submitted
                # so far.
                self._prepared += 1
                if usable:
                    self._ready.append(entry)
                self._wake.notify_all()

    def _prepare(self, entry: QueuedTask[R]) -> bool:
        """Prepare a task; if that fails, deliver the error to its caller and return `False`."""
        try:
            entry.key = entry.task.prepare(self._resource)
        except Exception as error:
            entry.deliver(error)
            return False
        return True

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

    def _resolve_opening(self, result: R | BaseException) -> None:
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
            watchers = self._watchers
            left = [*self._inbox, *self._ready, *self._queue.drain()]
            self._inbox.clear()
            self._ready.clear()
        for entry in left:
            entry.deliver(ModelClosed(f"model {self._name!r} was closed before it answered"))
        for loop, future in watchers:
            try:
                loop.call_soon_threadsafe(_resolve, future)
            except RuntimeError:
                continue  # the loop is closed: nobody is left to tell


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _join_at_exit(worker: weakref.ref[ThreadWorker[Any]]) -> None:
    """Let the thread end before the interpreter does.

    The C library's memory goes away under it otherwise.
    """
    alive = worker()
    if alive is not None:
        alive.join(_EXIT_SECONDS)
