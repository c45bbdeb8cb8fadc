"""One writing thread for many waiting tasks, and one read for all that is looked for in a turn.

Values are written in batches, and each waiting task is woken afterward. `asyncio.to_thread` for
each batch would be shorter but take a quarter to two thirds more CPU per value
(docs/architecture.md).

Knows threads and event loops, and nothing of what is written or where; that is the `BatchWriter`'s
part.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Generic, Protocol, TypeVar

from textassay.runtime.concurrency import in_thread
from textassay.runtime.errors import StorageError

MAX_BATCH = 500
LINGER_SECONDS = 0.001

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class BatchWriter(Protocol[T_contra]):
    """Writes batches; every method is called on the one writing thread."""

    def open(self) -> None:
        """Get ready to write; an exception is raised by the constructor of `GroupCommit`."""
        ...

    def write(self, batch: Sequence[T_contra]) -> None:
        """Write all of `batch` or nothing.

        Raises:
            StorageError: Nothing was written.
        """
        ...

    def idle(self) -> None:
        """Do what may wait for a quiet moment.

        Called once when nothing was handed in for `idle_seconds`.
        """
        ...

    def close(self) -> None:
        """Finish; called once, also after a failure."""
        ...


class _Waiting(Generic[T]):
    """A value and the task that waits for it to be written."""

    __slots__ = ("completed", "failure", "future", "loop", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self.loop = asyncio.get_running_loop()
        self.completed = False
        self.failure: StorageError | None = None
        self.future: asyncio.Future[None] | None = None

    def complete(self, failure: StorageError | None) -> None:
        """Wake the task, on its event loop."""
        self.completed, self.failure = True, failure
        if self.future is not None and not self.future.done():
            self.future.set_result(None)

    async def until_completed(self) -> None:
        """Return once `complete` was called; a cancellation waits for that as well.

        A canceled task takes the future that it awaits with it, so the next wait is for a new one.
        """
        cancelled: asyncio.CancelledError | None = None
        while not self.completed:
            self.future = self.loop.create_future()
            try:
                await self.future
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None and self.failure is None:
            raise cancelled


class GroupCommit(Generic[T]):
    """Runs a `BatchWriter` on a thread of its own.

    What the tasks of a loop hand in during one turn is announced to the thread once, after that
    turn: notified of every value, it would wake in the middle of the turn, fight the loop for the
    interpreter and write a batch of one. A batch is collected for `LINGER_SECONDS` only while
    values come in quick turns, so that neither a lone task nor many that all wait are slowed down.
    After a failure nothing more is written: the waiting and all later `put` raise `StorageError`,
    unless later ones may try again.
    """

    def __init__(
        self,
        writer: BatchWriter[T],
        *,
        name: str,
        idle_seconds: float | None = None,
        retries: bool = False,
    ) -> None:
        """Start the thread and wait until the writer is open.

        Args:
            writer: What writes.
            name: Names the thread and, in errors, what cannot be written.
            idle_seconds: Quiet time after which the writer's `idle` is called; never if `None`.
            retries: Whether a batch is written although an earlier one failed.

        Raises:
            Exception: Whatever the writer's `open` raised.
        """
        self._writer, self._name, self._idle_seconds = writer, name, idle_seconds
        self._retries = retries
        self._queue: deque[_Waiting[T]] = deque()
        self._notified: set[asyncio.AbstractEventLoop] = set()
        # Any thread may put into a `SimpleQueue` without a lock of ours, and its `get` releases the
        # interpreter while it waits.
        self._wakeups: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._failure: StorageError | None = None
        self._failure_reported = False
        self._closed = False
        # What is handed in before the thread is asked to end is written by it.
        self._lock = threading.Lock()
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(opened,), name=name, daemon=True)
        self._thread.start()
        opened.result()

    async def put(self, value: T) -> None:
        """Return once `value` is written.

        The value is taken before the first suspension. A canceled `put` still waits for the write,
        which takes milliseconds: `CancelledError` means that the value has been written.

        Raises:
            StorageError: The value was not written.
        """
        if self._failure is not None and not self._closed and not self._retries:
            self._failure_reported = True
            raise StorageError(str(self._failure)) from self._failure
        waiting = _Waiting(value)
        with self._lock:
            if self._closed:
                raise StorageError(f"{self._name} is closed")
            self._queue.append(waiting)
        if (
            waiting.loop not in self._notified
        ):  # of each loop by itself, for one may have been stopped for good
            self._notified.add(waiting.loop)
            waiting.loop.call_soon(self._notify, waiting.loop)
        await waiting.until_completed()
        if waiting.failure is not None:
            self._failure_reported = True
            raise StorageError(str(waiting.failure)) from waiting.failure

    async def aclose(self) -> None:
        """Write what is waiting and end the thread; safe to call twice.

        Raises:
            StorageError: A failure that no `put` has raised.
        """
        await in_thread(self.close)

    def close(self) -> None:
        """Do what `aclose` does, blocking."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._wakeups.put(True)
        self._thread.join()
        if self._failure is not None and not self._failure_reported:
            self._failure_reported = True
            raise self._failure

    def _run(self, opened: Future[None]) -> None:
        try:
            self._writer.open()
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        linger = closing = is_idle = False
        while not closing:
            turns, closing = self._wait(None if is_idle else self._idle_seconds)
            if not turns:
                self._attempt(self._writer.idle)
                is_idle = True
                continue
            is_idle = False
            # Turns that follow each other quickly are worth one commit: its cost hardly depends on
            # the number of values. A lone value never waits for others.
            if linger and not closing and len(self._queue) < MAX_BATCH:
                time.sleep(LINGER_SECONDS)
                more, closing = self._drain_wakeups()
                turns += more
            linger = turns > 1
            self._write_all()
        # Even after a failure: the file must be closed and what was written before must reach the
        # disk.
        self._attempt(self._writer.close, after_failure=True)

    def _notify(self, loop: asyncio.AbstractEventLoop) -> None:
        """Announce what the tasks of a loop handed in during its last turn; called by that loop."""
        self._notified.discard(loop)
        self._wakeups.put(False)

    def _wait(self, seconds: float | None) -> tuple[int, bool]:
        """Wait for a wakeup; return how many came and whether to close.

        The count is 0 after a quiet time of so many seconds.
        """
        try:
            closing = self._wakeups.get(timeout=seconds)
        except queue.Empty:
            return 0, False
        more, closing_as_well = self._drain_wakeups()
        return 1 + more, closing or closing_as_well

    def _drain_wakeups(self) -> tuple[int, bool]:
        """Return how many wakeups came meanwhile, and whether one of them was to close."""
        count, closing = 0, False
        while True:
            try:
                closing |= self._wakeups.get_nowait()
            except queue.Empty:
                return count, closing
            count += 1

    def _write_all(self) -> None:
        """Write all that was handed in.

        What comes in during the last batch has a wakeup of its own.
        """
        full = True
        while full:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_BATCH))]
            full = len(batch) == MAX_BATCH
            if batch:
                if self._retries:
                    self._failure = None
                self._attempt(partial(self._writer.write, [waiting.value for waiting in batch]))
                self._resolve(batch)

    def _attempt(self, step: Callable[[], None], *, after_failure: bool = False) -> None:
        """Take a step unless one has failed before, and remember if it fails."""
        if self._failure is not None and not after_failure:
            return
        try:
            step()
        except StorageError as error:
            self._failure = self._failure or error
        except (
            Exception
        ) as error:  # this thread has nobody above it: waiters must learn of every error
            failure = StorageError(f"{self._name} cannot be written: {error!r}")
            failure.__cause__ = error
            self._failure = self._failure or failure

    def _resolve(self, batch: list[_Waiting[T]]) -> None:
        """Wake the waiters of a batch, with one call for each event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Waiting[T]]] = {}
        for waiting in batch:
            by_loop.setdefault(waiting.loop, []).append(waiting)
        for loop, waiters in by_loop.items():
            try:
                # Futures may be touched by their own loop's thread only.
                loop.call_soon_threadsafe(self._complete_all, waiters, self._failure)
            except RuntimeError:
                if not loop.is_closed():  # a closed loop has no waiters left
                    raise

    def _complete_all(self, batch: list[_Waiting[T]], failure: StorageError | None) -> None:
        for waiting in batch:
            waiting.complete(failure)


class ReadRequest:
    """A key that tasks wait for."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[bytes | None]] = []

    def answer(self, value: bytes | None) -> None:
        """Give its value to all tasks that were not canceled."""
        for future in self.waiting:
            if not future.done():
                future.set_result(value)

    def fail(self, error: Exception) -> None:
        """Have all of them raise an error."""
        for future in self.waiting:
            if not future.done():
                future.set_exception(error)


Requests = dict[str, ReadRequest]


class GroupRead:
    """Has what the tasks of an event loop request in one turn read together.

    While another thread writes, a look into a database took 51 microseconds of the loop's thread;
    seven looks together take 164.
    """

    def __init__(self, read: Callable[[Requests], None]) -> None:
        """Keep the function that answers the requests of one turn, now or later."""
        self._read = read
        self._requests: dict[asyncio.AbstractEventLoop, Requests] = {}

    def request(self, key: str) -> asyncio.Future[bytes | None]:
        """Return the value of a key as it will be after this turn."""
        loop = asyncio.get_running_loop()
        if (requests := self._requests.get(loop)) is None:
            requests = self._requests[loop] = {}
            loop.call_soon(self._end_turn, loop)
        if (request := requests.get(key)) is None:
            request = requests[key] = ReadRequest()
        future: asyncio.Future[bytes | None] = loop.create_future()
        request.waiting.append(future)
        return future

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        requests = self._requests.pop(loop)
        try:
            self._read(requests)
        except Exception as error:  # a fault of ours, too, must reach those who wait
            for request in requests.values():
                request.fail(error)
