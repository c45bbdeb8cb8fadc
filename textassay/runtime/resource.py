"""What has a lifetime: open inside `async with`, closed at its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class AsyncResource(ABC):
    """Base of what is closed with `aclose`; `async with` calls it, whatever ended the block."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close it; safe to call twice."""

    async def __aenter__(self) -> Self:
        """Return the resource itself; override if entering opens something."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
