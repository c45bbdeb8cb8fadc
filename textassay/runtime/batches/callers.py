"""Those who wait for answers that come in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from textassay.runtime.model import AnyResponse


class Callers:
    """Who waits for which answer, by the key of the request."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[AnyResponse]] = {}

    def __contains__(self, key: object) -> bool:
        """Return whether anybody waits for the answer to a request."""
        return key in self._waiting

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys as they are now; what is woken meanwhile does no harm."""
        return iter(list(self._waiting))

    async def wait(self, key: str) -> AnyResponse:
        """Return the answer to a request once there is one.

        Raises:
            Exception: Whatever the request failed with.
        """
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            return await future
        finally:
            if self._waiting.get(key) is future:
                del self._waiting[key]

    def answer(self, key: str, answer: AnyResponse) -> None:
        """Wake who waits for the answer to a request, if anybody does."""
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(answer)

    def fail(self, key: str, error: Exception) -> None:
        """Raise an error where the answer to a request is waited for, if it is."""
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_exception(error)
