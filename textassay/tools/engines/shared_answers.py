"""Equal inputs of a model share one evaluation, while it is under way and for a while after.

The systems of one source come after each other and are compared with the same references, so on
SummEval seven of eight inputs are repeats. Requests without a waiting caller are removed from the
queue; a failed evaluation is not remembered.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from textassay.tools.engines.engine import Array, Encoding

MAX_BYTES = 64 * 2**20
"""Answers that are remembered."""

T = TypeVar("T")
Submit = Callable[[Sequence[Encoding]], list[Future[Array]]]


@dataclass(slots=True)
class _Shared:
    future: Future[Array]
    waiting: int = 0


class SharedAnswers:
    """Answers of a model by input; usable from any number of tasks, threads and event loops."""

    def __init__(self, submit: Submit, *, max_bytes: int = MAX_BYTES) -> None:
        """Keep what evaluates inputs, and how many bytes of answers to remember."""
        self._submit, self._max_bytes = submit, max_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[Encoding, _Shared] = OrderedDict()
        self._bytes = 0

    async def ask(self, encodings: Sequence[Encoding]) -> list[Array]:
        """Return one array per input, in order.

        Raises:
            Exception: Whatever the evaluation raised.
        """
        joined = self._join(encodings)
        try:
            return [await shared_result(shared.future) for shared in joined]
        finally:
            self._leave(encodings, joined)

    @property
    def inputs(self) -> tuple[Encoding, ...]:
        """Inputs whose answers are remembered or under way."""
        with self._lock:
            return tuple(self._known)

    def _join(self, encodings: Sequence[Encoding]) -> list[_Shared]:
        with self._lock:
            fresh = [e for e in dict.fromkeys(encodings) if not self._usable(e)]
            futures = self._submit(fresh) if fresh else []
            for encoding, future in zip(fresh, futures, strict=True):
                self._known[encoding] = _Shared(future)
            joined = [self._known[encoding] for encoding in encodings]
            for encoding, shared in zip(encodings, joined, strict=True):
                shared.waiting += 1
                self._known.move_to_end(encoding)
        for encoding, future in zip(fresh, futures, strict=True):
            # Outside of the lock: a future that is done already calls back at once, and `_remember`
            # locks.
            future.add_done_callback(partial(self._remember, encoding))
        return joined

    def _usable(self, encoding: Encoding) -> bool:
        shared = self._known.get(encoding)
        return shared is not None and not shared.future.cancelled()

    def _remember(self, encoding: Encoding, done: Future[Array]) -> None:
        """Count a finished answer, and drop the least recently used ones."""
        with self._lock:
            shared = self._known.get(encoding)
            if shared is None or shared.future is not done:
                return
            if done.cancelled() or done.exception() is not None:
                del self._known[encoding]
                return
            self._bytes += done.result().nbytes
            for oldest in list(self._known):
                if self._bytes <= self._max_bytes:
                    break
                future = self._known[oldest].future
                # What is still under way has waiters and no size yet.
                if future.done():
                    self._bytes -= future.result().nbytes
                    del self._known[oldest]

    def _leave(self, encodings: Sequence[Encoding], joined: Sequence[_Shared]) -> None:
        abandoned = []
        with self._lock:
            for encoding, shared in zip(encodings, joined, strict=True):
                shared.waiting -= 1
                if not shared.waiting and not shared.future.done():
                    abandoned.append(shared.future)
                    if self._known.get(encoding) is shared:
                        del self._known[
                            encoding
                        ]  # whoever comes now must not join what is cancelled
        for future in abandoned:  # outside of the lock: it calls `_remember`
            future.cancel()


async def shared_result(future: Future[T]) -> T:
    """Await a thread's future that others may await too: canceling one waiter leaves it alone."""
    wrapped = asyncio.wrap_future(future)
    # a waiter that gave up never looks at the error, of which asyncio would complain at length
    wrapped.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(wrapped)
