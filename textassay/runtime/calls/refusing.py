"""Stands for a model that cannot be asked, and says why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.model import A, Model, Q, Wrapper


class RefusingModel(Wrapper):
    """A model that is known but cannot be asked, such as one whose cache is not open yet."""

    def __init__(self, wrapped: Model, reason: str) -> None:
        """Refuse each request with the reason."""
        super().__init__(wrapped)
        self._reason = reason

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Refuse.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(self._reason)
