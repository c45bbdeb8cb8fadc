"""Limits how long one attempt may take.

The innermost wrapper, so that waiting in a queue of ours does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textassay.runtime.errors import TimedOut, parameter
from textassay.runtime.model import A, Model, Q, Wrapper


class DeadlineModel(Wrapper):
    """Gives up an attempt after `timeout` seconds."""

    def __init__(self, wrapped: Model, *, timeout: float | None = 120.0) -> None:
        """Wrap a model.

        Args:
            wrapped: The model.
            timeout: Seconds one attempt may take; `None` for no limit.
        """
        super().__init__(wrapped)
        self.timeout = timeout

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer, or cancel the attempt.

        Raises:
            TimedOut: The time is over.
        """
        try:
            async with asyncio.timeout(self.timeout) as scope:
                return await call(request)
        except TimeoutError as error:
            # A `TimeoutError` from further in (a socket, a nested scope) is not about this time
            # limit.
            if not scope.expired():
                raise
            raise TimedOut(
                f"no answer from {self.name} within {self.timeout:g} s "
                f"({parameter('timeout', 'SECONDS')})"
            ) from error
