"""A work queue: one thread that owns a model and answers requests of tasks in any event loop.

Requests wait while the thread is busy, so batches grow with the load and a single request runs at
once. An `Order` chooses the requests of the next batch: `PrefixOrder` for models that keep the
prefix of the last prompt, `LengthOrder` for models that pad a batch to its longest row. Knows
nothing of models.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from textassay.runtime.backends.local.tokens import common_prefix
from textassay.runtime.calls.sharing import current_chain
from textassay.runtime.errors import ModelClosed

PATIENCE = 512
"""Turns that a request may wait while others go first that share more with the last one; at most
one request in as many turns is preferred for it, so that at most 0.2 % of the requests lose the
prefix of their predecessor (0.8 % with a quarter of it; with four times, 0.05 %, and waits are four
times as long)."""
MAX_BATCH = 256
"""Most requests in a batch of similar length: each has a row of logits, together 150 MB for a
vocabulary of 150,000 tokens (40 MB with a quarter of it, 600 MB with four times)."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchRunner(Protocol):
    """The model of a queue, which calls it on its thread alone."""

    def prepare(self, item: Any, /) -> Any:
        """Return a request as `run` and the order take it; an error is raised for it alone."""
        ...

    def run(self, batch: Sequence[Any], abandoned: Callable[[], bool], /) -> Sequence[Any]:
        """Return the results of prepared requests in order, or the exception of one that failed.

        Once `abandoned()` is true no caller waits for them, and `run` may raise any error.
        """
        ...

    def close(self) -> None:
        """Free the model."""
        ...


AnyRunner = TypeVar("AnyRunner", bound=BatchRunner)


class QueuedRequest(Generic[Item, Result]):
    """A request in the queue, with the future that its caller awaits.

    The future is pending until the result is delivered, so it can be canceled until then.
    """

    __slots__ = ("chain", "future", "has_next", "item", "number", "prepared")

    def __init__(self, item: Item, number: int) -> None:
        self.item, self.number = item, number
        self.future: Future[Result] = Future()
        self.prepared: Any = None
        self.chain = current_chain()
        # Read now, on the caller's thread: once the request runs it may concern the next one.
        self.has_next = bool(self.chain and self.chain.has_next)

    def deliver(self, result: Result | BaseException) -> None:
        """Give the result, or the exception, to the caller unless it was canceled."""
        if not self.future.set_running_or_notify_cancel():
            return
        if isinstance(result, BaseException):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class Order(ABC):
    """Prepared requests that wait, and the order and batches in which they run."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Any, int, QueuedRequest[Any, Any]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[QueuedRequest[Any, Any]]:
        return (entry for _, _, entry in self._waiting)

    @abstractmethod
    def add(self, entry: QueuedRequest[Any, Any]) -> None:
        """Add a request."""

    @abstractmethod
    def take(self) -> list[QueuedRequest[Any, Any]]:
        """Take the next batch; canceled requests are dropped, so it may be empty."""


class WorkQueue(Generic[AnyRunner, Item, Result]):
    """Answers single requests in batches, on one thread that opens, runs and closes an engine.

    Usable from any number of tasks, threads and event loops. A request that is canceled before it
    has run leaves the queue; an engine may stop early once no caller waits for its batch.
    """

    def __init__(
        self,
        open_engine: Callable[[], AnyRunner],
        order: Order,
        *,
        name: str,
        next_turn_seconds: float = 0.0,
    ) -> None:
        """The thread starts with the first request."""
        self._open_engine, self._order, self._name = open_engine, order, name
        self._next_turn_seconds = next_turn_seconds
        self._wake = threading.Condition()
        self._inbox: deque[QueuedRequest[Item, Result]] = deque()
        self._opening: Future[AnyRunner] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._submitted = 0
        self.batches = 0
        """Batches answered so far."""
        self.requests = 0
        """Requests answered so far."""

    async def open(self) -> AnyRunner:
        """Return the engine, opened once for all callers; canceling one does not stop it."""
        with self._wake:
            opening = self._start()
        return opening.result() if opening.done() else await await_shared(opening)

    async def ask(self, items: Sequence[Item]) -> list[Result]:
        """Answer requests, in order."""
        futures = self.submit(items)
        try:
            return [await asyncio.wrap_future(future) for future in futures]
        finally:
            for future in futures:
                future.cancel()  # has no effect on futures that are done

    def submit(self, items: Sequence[Item]) -> list[Future[Result]]:
        """Queue requests and return a future for each, which may be canceled."""
        with self._wake:
            self._start()
            entries = [
                QueuedRequest[Item, Result](item, self._submitted + n)
                for n, item in enumerate(items)
            ]
            self._submitted += len(entries)
            self._inbox.extend(entries)
            self._wake.notify()
            chain = entries[0].chain if entries else None
            if self._next_turn_seconds and chain:
                # The thread may wait for a next request that never comes.
                chain.on_end(self._look_again)
        return [entry.future for entry in entries]

    def stop(self) -> None:
        """Ask the thread to end, from any thread; open requests fail with `ModelClosed`."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    async def aclose(self) -> None:
        """Stop, and wait until the thread has closed the engine; safe to call twice."""
        self.stop()
        if self._thread:
            await asyncio.to_thread(self._thread.join)

    def _start(self) -> Future[AnyRunner]:
        if self._closed:
            raise ModelClosed(f"model {self._name!r} is closed")
        if not self._opening:
            self._opening = Future()
            self._thread = threading.Thread(
                target=self._work,
                args=(self._opening,),
                name=f"textassay-{self._name}",
                daemon=True,
            )
            # A thread that outlives the interpreter would use a library's freed memory.
            atexit.register(self._join_at_exit)
            self._thread.start()
        return self._opening

    def _join_at_exit(self) -> None:
        self.stop()
        if self._thread:
            self._thread.join(10.0)

    def _look_again(self) -> None:
        with self._wake:
            self._wake.notify()

    # ---- on the thread ----

    def _work(self, opening: Future[AnyRunner]) -> None:
        try:
            engine = self._open()
        except BaseException as error:  # given to the callers that wait for the engine
            self._fail(opening, error)
        else:
            opening.set_result(engine)
            try:
                while self._collect(engine):
                    batch = self._order.take()
                    if batch:
                        self._run(engine, batch)
                        self._await_next_turn(batch)
            finally:
                self._end(engine)
        finally:
            atexit.unregister(self._join_at_exit)

    def _open(self) -> AnyRunner:
        engine = self._open_engine()
        if self._closed:
            engine.close()
            raise self._was_closed()
        return engine

    def _fail(self, opening: Future[AnyRunner], error: BaseException) -> None:
        with self._wake:
            self._opening = None  # so that the next request tries again
            waiting, self._inbox = self._inbox, deque()
        opening.set_exception(error)
        for entry in waiting:
            entry.deliver(error)

    def _collect(self, engine: AnyRunner) -> bool:
        """Wait for work, and prepare new requests; return whether to continue."""
        with self._wake:
            self._wake.wait_for(lambda: self._inbox or len(self._order) or self._closed)
        # No more than are there now: callers could ask as fast as requests are prepared.
        for _ in range(len(self._inbox)):
            if self._closed:
                break
            entry = self._inbox.popleft()
            if entry.future.cancelled():
                continue
            try:
                entry.prepared = engine.prepare(entry.item)
                self._order.add(entry)
            except Exception as error:  # belongs to the caller
                entry.deliver(error)
        return not self._closed

    def _run(self, engine: AnyRunner, batch: list[QueuedRequest[Item, Result]]) -> None:
        def is_abandoned() -> bool:
            return self._closed or all(entry.future.cancelled() for entry in batch)

        results: Sequence[Result | Exception]
        try:
            results = engine.run([entry.prepared for entry in batch], is_abandoned)
            if len(results) != len(batch):
                raise ValueError(f"{self._name}: {len(batch)} requests, but {len(results)} answers")
        except Exception as error:  # belongs to the callers
            results = [self._was_closed() if self._closed else error] * len(batch)
        self.batches, self.requests = self.batches + 1, self.requests + len(batch)
        for entry, result in zip(batch, results, strict=True):
            entry.deliver(result)

    def _await_next_turn(self, batch: list[QueuedRequest[Item, Result]]) -> None:
        """Wait a moment for a chain's next request, unless the chain has ended.

        It is sent only after the answer has reached the event loop, and by then another request
        would have overwritten the prefix that both share. The order decides whether it runs next.
        """
        chain = batch[0].chain
        if len(batch) > 1 or not chain or not batch[0].has_next:
            return

        def is_next(entry: QueuedRequest[Item, Result]) -> bool:
            return entry.chain is chain and not entry.future.cancelled()

        if self._next_turn_seconds and not any(map(is_next, self._order)):
            with self._wake:
                self._wake.wait_for(
                    lambda: self._closed or chain.ended or any(map(is_next, self._inbox)),
                    self._next_turn_seconds,
                )

    def _end(self, engine: AnyRunner) -> None:
        with self._wake:
            self._closed, self._opening = True, None
            waiting, self._inbox = [*self._order, *self._inbox], deque()
        for entry in waiting:
            entry.deliver(self._was_closed())
        engine.close()

    def _was_closed(self) -> ModelClosed:
        return ModelClosed(f"model {self._name!r} was closed before it answered")


class PrefixOrder(Order):
    """Runs the request that shares the longest prefix with the last one, then its neighbors.

    Once in `PATIENCE` turns, a request that has waited for as many turns goes first, so that none
    starves. Prepared requests have a `key`, in bytes.
    """

    def __init__(self, most: int = 1) -> None:
        super().__init__()
        self._most = most  # that run together
        self._arrivals: deque[tuple[int, bytes, QueuedRequest[Any, Any]]] = deque()
        self._last = b""
        self._turn = self._last_preferred = 0

    def add(self, entry: QueuedRequest[Any, Any]) -> None:
        key: bytes = entry.prepared.key
        insort(self._waiting, (key, entry.number, entry))
        self._arrivals.append((self._turn, key, entry))

    def take(self) -> list[QueuedRequest[Any, Any]]:
        """Take the next request and its successors in order."""
        batch: list[QueuedRequest[Any, Any]] = []
        self._turn += 1
        place = self._next() if self._waiting else 0
        while self._waiting and len(batch) < self._most:
            # Removing an entry brings the next one in order to the same place.
            place = min(place, len(self._waiting) - 1)
            key, _, entry = self._waiting.pop(place)
            if not entry.future.cancelled():
                if not batch:
                    self._last = key
                batch.append(entry)
            elif not batch and self._waiting:
                place = self._next()
        return batch

    def _next(self) -> int:
        """Return the place of the entry that has waited longest, or of the one most alike."""
        # Entries are taken out of the sorted list only; here they are dropped at the front.
        while self._arrivals and self._arrivals[0][2].future.done():
            self._arrivals.popleft()
        if self._arrivals:
            arrived, key, oldest = self._arrivals[0]
            if self._turn - max(arrived, self._last_preferred) > PATIENCE:
                self._last_preferred = self._turn
                return bisect_left(self._waiting, (key, oldest.number))
        # In a sorted list, the entry with the longest common prefix is next to the last key.
        after = bisect_left(self._waiting, (self._last, -1))
        places = [place for place in (after, after - 1) if 0 <= place < len(self._waiting)]
        last = np.frombuffer(self._last, np.uint8)

        def shared_bytes(place: int) -> int:
            return common_prefix(last, np.frombuffer(self._waiting[place][0], np.uint8))

        return max(places, key=shared_bytes)


class LengthOrder(Order):
    """Batches of similar length, sized by tokens with padding.

    Every batch has the oldest waiting request, so that none starves, and its nearest neighbors in
    length, so that padding is short. A prepared request's length is its number of tokens; one
    with more than `batch_tokens` is a batch of its own.
    """

    def __init__(self, *, batch_tokens: int = 8192) -> None:
        super().__init__()
        self._batch_tokens = batch_tokens

    def add(self, entry: QueuedRequest[Any, Any]) -> None:
        self._waiting.append((len(entry.prepared), entry.number, entry))

    def take(self) -> list[QueuedRequest[Any, Any]]:
        """Take the oldest request and others of similar length."""
        waiting = [item for item in self._waiting if not item[2].future.cancelled()]
        oldest_length = waiting[0][0] if waiting else 0
        batch: dict[int, QueuedRequest[Any, Any]] = {}
        longest = tokens = 0
        # the oldest is the first, as sorting leaves equals in the order in which they came
        for length, number, entry in sorted(waiting, key=lambda item: abs(item[0] - oldest_length)):
            padded = max(longest, length) * (len(batch) + 1)
            padding = padded - tokens - length
            # Small batches do not fill the device, so padding them costs no time: without the 512,
            # prompts of 10 to 80 tokens take 27 % more batches with 64 waiting. Without the share,
            # prompts of about 400 tokens have 36 % more tokens with 16 waiting, 5 % with 64; a
            # quarter of it takes twice the batches.
            is_wasteful = padded > 512 and padding > 0.15 * padded
            is_full = len(batch) == MAX_BATCH or padded > self._batch_tokens
            if batch and (is_full or is_wasteful):
                break
            batch[number] = entry
            longest, tokens = max(longest, length), tokens + length
        self._waiting = [item for item in waiting if item[1] not in batch]
        return list(batch.values())


async def await_shared(future: Future[Result]) -> Result:
    """Await a thread's future; canceling one of several waiters does not affect it."""
    loop = asyncio.get_running_loop()
    # an event rather than the result: asyncio would log an error that no task retrieves, if the
    # loop ends before a canceled waiter is woken
    is_done = asyncio.Event()

    def wake(_: Future[Result]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it all waiters
            loop.call_soon_threadsafe(is_done.set)

    future.add_done_callback(wake)
    await is_done.wait()
    return future.result()
