"""Those who wait for answers that come in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from textassay.runtime.model import AnyResponse


class Callers:
    """Who waits for which answer, by the key of the request."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[AnyResponse]]] = {}

    def __contains__(self, key: object) -> bool:
        """Return whether anybody waits for the answer to a request."""
        return key in self._waiting

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys as they are now; what is woken meanwhile does no harm."""
        return iter(list(self._waiting))

    @contextmanager
    def waiting(self, key: str) -> Iterator[asyncio.Future[AnyResponse]]:
        """Have a future for the answer to a request; what comes from now on is not missed."""
        future: asyncio.Future[AnyResponse] = asyncio.get_running_loop().create_future()
        # asyncio logs an exception that is never retrieved, and the caller may have left
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        waiting = self._waiting.setdefault(key, [])
        waiting.append(future)
        try:
            yield future
        finally:
            waiting.remove(future)
            if not waiting:
                del self._waiting[key]

    def answer(self, key: str, answer: AnyResponse) -> None:
        """Wake who waits for the answer to a request, if anybody does."""
        for future in self._waiting.get(key, ()):
            if not future.done():
                future.set_result(answer)

    def fail(self, key: str, error: Exception) -> None:
        """Raise an error where the answer to a request is waited for, if it is."""
        for future in self._waiting.get(key, ()):
            if not future.done():
                future.set_exception(error)
