"""The protocol of the stores of answers; `answers.py` has the stores in a cache folder."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Protocol


class AnswerStore(Protocol):
    """Keeps bytes under keys, without loss or eviction."""

    @property
    def place(self) -> Path:
        """The folder."""
        ...

    def fetch(self, key: str) -> Awaitable[bytes | None]:
        """Return the value of `key`, or `None`; sees values whose `put` is not done yet.

        Raises:
            StorageError: The store cannot be read.
        """
        ...

    def fetch_group(self, group: str) -> Awaitable[list[bytes]]:
        """Return the values of all keys `GROUP/...`, in order of their keys, as `fetch` does."""
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; return when it survives the death of this process.

        The value is taken before the first suspension, and a canceled `put` still waits until it
        is kept: `CancelledError` means that it is. Another store at the same place may see it a
        moment later.

        Raises:
            StorageError: The store cannot be written.
        """
        ...

    async def aclose(self) -> None:
        """Release files and threads; safe to call twice."""
        ...
