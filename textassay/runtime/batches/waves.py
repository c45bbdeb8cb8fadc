"""Counts the waves of batches that a run would take, during a dry run.

A wave is what can be asked before any of its answers is needed. Knows which calls belong together
by the ledger of the piece of work that makes them; knows nothing of examples or methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from textassay.runtime.calls.usage import Ledger, current_ledger
from textassay.runtime.model import A, Model, Q, Wrapper

QUIET = 0.05
"""Seconds without a further request after which a wave is complete."""

TURNS = 20
"""Turns of the event loop that a wave is kept open after that: a busy process is not quiet."""


class Waves:
    """Holds requests back until no more come, as batches do, and counts how often.

    Counted for each piece of work by itself, and the largest number is what the run takes: pieces
    that begin later add no wave.
    """

    def __init__(self) -> None:
        self.count = 0
        """Waves of the piece of work that took the most so far."""
        self._of_each: WeakKeyDictionary[Ledger, int] = WeakKeyDictionary()
        self._outside = Ledger()  # stands for whatever is asked outside of any piece of work
        self._waiting: list[tuple[Ledger, asyncio.Future[None]]] = []
        self._last = 0.0
        self._is_timed = False

    async def next(self) -> None:
        """Return when the wave with the caller's request is complete."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((current_ledger() or self._outside, future))
        self._last = loop.time()
        if not self._is_timed:
            self._is_timed = True
            loop.call_later(QUIET, self._look, TURNS)
        await future

    def _look(self, turns: int) -> None:
        """Answer everybody, unless a request came since the last look."""
        loop = asyncio.get_running_loop()
        left = self._last + QUIET - loop.time()
        if left > 0:
            loop.call_later(left, self._look, TURNS)
        elif turns:
            loop.call_soon(self._look, turns - 1)
        else:
            self._complete()

    def _complete(self) -> None:
        waiting, self._waiting, self._is_timed = self._waiting, [], False
        for work in {id(work): work for work, _ in waiting}.values():
            number = self._of_each.get(work, 0) + 1
            self._of_each[work] = number
            self.count = max(self.count, number)
        for _, future in waiting:
            if not future.done():
                future.set_result(None)


class WavesModel(Wrapper):
    """Answers when the wave of the request is complete."""

    def __init__(self, wrapped: Model, waves: Waves) -> None:
        """Wrap a model of a dry run; models that wait for each other share `waves`."""
        super().__init__(wrapped)
        self._waves = waves

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Wait, then answer."""
        await self._waves.next()
        return await call(request)
