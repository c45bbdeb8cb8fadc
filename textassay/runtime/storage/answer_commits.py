"""Writes the answers of a store, and shows those that are on their way.

Both stores keep answers through it: a folder (`answers`) and Redis (`redis_answers`).
"""

from __future__ import annotations

from textassay.runtime.storage.group_commit import BatchWriter, GroupCommit


class AnswerCommits:
    """Group commit of answers by key.

    Attributes:
        pending: Answers that are not committed yet. Readers of a store see committed ones only, so
            a store looks here first.
    """

    def __init__(self, writer: BatchWriter[tuple[str, bytes]], *, name: str) -> None:
        """Start the writing thread; arguments and errors as of `GroupCommit`."""
        self.pending: dict[str, bytes] = {}
        self._commits = GroupCommit(writer, name=name)

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; return after the commit, which a canceled `put` waits for as well.

        Raises:
            StorageError: The value was not written.
        """
        self.pending[key] = value
        try:
            await self._commits.put((key, value))
        finally:
            # another `put` of the same key may be on its way still
            if self.pending.get(key) is value:
                del self.pending[key]

    async def aclose(self) -> None:
        """Write what is waiting and end the thread; safe to call twice.

        Raises:
            StorageError: A failure that no `put` has raised.
        """
        await self._commits.aclose()

    def close(self) -> None:
        """Do what `aclose` does, blocking."""
        self._commits.close()
