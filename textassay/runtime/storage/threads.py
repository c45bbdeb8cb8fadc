"""Blocking work that always runs to its end, even if its caller is canceled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


async def in_thread(work: Callable[[], R], *, discard: Callable[[R], object] | None = None) -> R:
    """Return what `work` returns, which runs in a thread; a cancellation waits for its end.

    `asyncio.to_thread` leaves a canceled caller without the result, so that it is never closed,
    and drops work that no thread has begun yet, such as closing a file.

    Args:
        work: Called once, in a thread of its own.
        discard: Called with the result if the caller was canceled meanwhile.

    Raises:
        asyncio.CancelledError: The caller was canceled; `work` has ended.
        Exception: Whatever `work` raised.
    """
    # a future and no task, so that a loop that ends and cancels all its tasks waits for it too
    running = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return running.result()
    if running.exception() is None and discard is not None:
        discard(running.result())
    raise cancelled
