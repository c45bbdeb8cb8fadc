"""Dynamic batching: many callers, one worker thread, batches of like length sized by tokens.

Requests wait while the worker is busy, so batches grow with the load and a lone request is not held
up. Every batch holds the oldest waiting request, so none starves, and its nearest neighbors in
length, so little is padding. Knows nothing of models: it is given a function that makes a request
countable and one that answers a batch.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from textassay.runtime.errors import ModelClosed

Item = TypeVar("Item")
EncodedItem = TypeVar("EncodedItem")
Result = TypeVar("Result")

_PADDING_SHARE = 0.15  # of a batch's tokens that may be padding
_SMALL_BATCH_TOKENS = 512  # below this a larger batch is worth any padding


@dataclass(slots=True)
class _Waiting(Generic[Item, EncodedItem, Result]):
    number: int
    item: Item
    future: Future[Result] = field(default_factory=Future)
    encoded: EncodedItem | None = None
    length: int = 0


class Batcher(Generic[Item, EncodedItem, Result]):
    """Answers single requests in batches.

    Usable from any number of tasks, threads and event loops.
    """

    def __init__(
        self,
        encode: Callable[[Item], EncodedItem],
        answer: Callable[[Sequence[EncodedItem]], Sequence[Result]],
        *,
        length: Callable[[EncodedItem], int] = len,  # type: ignore[assignment]
        batch_tokens: int = 8192,
        batch_size: int = 256,
        linger_seconds: float = 0.002,
        name: str = "tool",
    ) -> None:
        """Keep the two functions; the thread starts with the first request.

        Args:
            encode: Turns a request into what the model takes; runs in the worker thread.
            answer: Answers a batch, in order; runs in the worker thread.
            length: Tokens of an encoded request.
            batch_tokens: Most tokens in a batch, padding included; a longer request makes a batch
                of its own.
            batch_size: Most requests in a batch.
            linger_seconds: How long an idle worker waits for company after a request came.
            name: Shown in the name of the thread.
        """
        self._encode, self._answer, self._length = encode, answer, length
        self.batch_tokens, self.batch_size, self.linger_seconds, self.name = (
            batch_tokens,
            batch_size,
            linger_seconds,
            name,
        )
        self.batches = 0
        """Batches answered so far."""
        self.requests = 0
        """Requests answered so far."""
        self._inbox: deque[_Waiting[Item, EncodedItem, Result]] = deque()
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._number = 0

    async def ask(self, requests: Sequence[Item]) -> list[Result]:
        """Answer requests, in order. Cancelling takes those that have not begun out of the queue.

        Raises:
            ModelClosed: The batcher was closed.
            Exception: Whatever `encode` or `answer` raised.
        """
        if not requests:
            return []
        futures = self.submit(requests)
        try:
            return [await asyncio.wrap_future(future) for future in futures]
        finally:
            for future in futures:
                future.cancel()  # does nothing to those that are done

    def submit(self, requests: Sequence[Item]) -> list[Future[Result]]:
        """Queue requests and return a future for each; canceling one takes it out of the queue.

        Raises:
            ModelClosed: The batcher was closed.
        """
        with self._condition:
            if self._closed:
                raise ModelClosed(f"the model of {self.name} was closed")
            waiting: list[_Waiting[Item, EncodedItem, Result]] = []
            for request in requests:
                self._number += 1
                waiting.append(_Waiting(self._number, request))
            self._inbox.extend(waiting)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name=f"textassay-{self.name}", daemon=True
                )
                self._thread.start()
            self._condition.notify()
        return [w.future for w in waiting]

    async def aclose(self) -> None:
        """Stop the worker after the batch it is at; what still waits fails with `ModelClosed`.

        Safe to call twice.
        """
        with self._condition:
            self._closed = True
            self._condition.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            await asyncio.to_thread(thread.join)

    def _work(self) -> None:
        ready: list[_Waiting[Item, EncodedItem, Result]] = []  # in order of length
        while True:
            with self._condition:
                while not (self._inbox or ready or self._closed):
                    self._condition.wait()
                # Only an idle worker lingers: while it was busy, company has gathered by itself.
                if not ready and not self._closed and len(self._inbox) < self.batch_size:
                    self._condition.wait_for(
                        lambda: self._closed or len(self._inbox) >= self.batch_size,
                        self.linger_seconds,
                    )
                arrived, closed = list(self._inbox), self._closed
                self._inbox.clear()
            if closed:
                for waiting in [*ready, *arrived]:
                    if waiting.future.set_running_or_notify_cancel():
                        waiting.future.set_exception(
                            ModelClosed(f"the model of {self.name} was closed")
                        )
                return
            self._admit(arrived, ready)
            self._answer_next(ready)

    def _admit(
        self,
        arrived: list[_Waiting[Item, EncodedItem, Result]],
        ready: list[_Waiting[Item, EncodedItem, Result]],
    ) -> None:
        for waiting in arrived:
            if waiting.future.cancelled():
                continue
            try:
                waiting.encoded = self._encode(waiting.item)
                waiting.length = self._length(waiting.encoded)
            except Exception as error:  # belongs to whoever asked
                if waiting.future.set_running_or_notify_cancel():
                    waiting.future.set_exception(error)
                continue
            # Sorted by length, a batch is a stretch of the list: neighbors need the least padding.
            insort(ready, waiting, key=lambda w: w.length)

    def _answer_next(self, ready: list[_Waiting[Item, EncodedItem, Result]]) -> None:
        ready[:] = [w for w in ready if not w.future.cancelled()]
        if not ready:
            return
        low, high = self._window(ready)
        # From here on a request can no longer be canceled; this is False for one that was.
        batch = [w for w in ready[low:high] if w.future.set_running_or_notify_cancel()]
        del ready[low:high]
        if not batch:
            return
        try:
            # `_admit` has encoded each of them.
            answers = self._answer([w.encoded for w in batch])  # type: ignore[misc]
            if len(answers) != len(batch):
                raise ValueError(f"{self.name}: {len(batch)} requests, but {len(answers)} answers")
        except Exception as error:  # belongs to whoever asked
            for waiting in batch:
                waiting.future.set_exception(error)
            return
        self.batches, self.requests = self.batches + 1, self.requests + len(batch)
        for waiting, answer in zip(batch, answers, strict=True):
            waiting.future.set_result(answer)

    def _window(self, ready: list[_Waiting[Item, EncodedItem, Result]]) -> tuple[int, int]:
        """Return the slice of `ready` that fills a batch with the least padding.

        It contains the oldest request.
        """
        # The oldest request is in every batch, so none waits for neighbors of its length for ever.
        low = min(range(len(ready)), key=lambda i: ready[i].number)
        high, tokens = low + 1, ready[low].length
        while True:
            below = self._padding(ready, low - 1, high, tokens, joins=low - 1)
            above = self._padding(ready, low, high + 1, tokens, joins=high)
            if below is None and above is None:
                return low, high
            if above is None or (below is not None and below < above):
                low -= 1
                tokens += ready[low].length
            else:
                tokens += ready[high].length
                high += 1

    def _padding(
        self,
        ready: list[_Waiting[Item, EncodedItem, Result]],
        low: int,
        high: int,
        tokens: int,
        *,
        joins: int,
    ) -> int | None:
        """Return the padding of `low:high`, or `None` if it is too large or too wasteful.

        Args:
            ready: Requests in order of length.
            low: First of the stretch.
            high: One after its last.
            tokens: Tokens of the stretch without the request that joins.
            joins: Which request that is.
        """
        if low < 0 or high > len(ready) or high - low > self.batch_size:
            return None
        padded = (high - low) * ready[high - 1].length
        padding = padded - tokens - ready[joins].length
        # Small batches do not fill the device anyway, so padding them costs no time.
        wasteful = padded > _SMALL_BATCH_TOKENS and padding > _PADDING_SHARE * padded
        return None if padded > self.batch_tokens or wasteful else padding
