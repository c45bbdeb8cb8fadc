"""Puts rows that are asked for at about the same time into one call of a function over many rows.

Knows the event loop's turns and nothing of what is computed. A row's result must not depend on its
company.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Batched(Generic[T, R]):
    """An async function of one row, from a function of many.

    It waits no longer than until everybody has had a turn.

    Args:
        compute: Takes rows and returns one result for each, in order.
    """

    def __init__(self, compute: Callable[[Sequence[T]], Sequence[R]]) -> None:
        self._compute = compute
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []

    async def __call__(self, row: T) -> R:
        """Return the row's result.

        What the function raises, it raises for every row of the batch.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((row, future))
        if len(self._waiting) == 1:
            # a turn of the event loop instead of a timer: rows that are ready together come
            # together, and a lone row does not wait
            loop.call_soon(self._flush_after, 0)
        return await future

    def _flush_after(self, seen: int) -> None:
        """Compute once a whole turn of the loop has brought no further row."""
        if len(self._waiting) > seen:
            asyncio.get_running_loop().call_soon(self._flush_after, len(self._waiting))
            return
        batch, self._waiting = self._waiting, []
        try:
            results = self._compute([row for row, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
