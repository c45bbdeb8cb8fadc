"""Answers of a cache folder that are read only, such as those of an archived run."""

from __future__ import annotations

from pathlib import Path

from textassay.runtime.errors import StorageError
from textassay.runtime.storage.cache_folder import StoreInfo, cache_shards, info, require
from textassay.runtime.storage.shard import ShardReader


class RecordedAnswers:
    """An answer store that nothing is added to: its folder may be read-only, or in use."""

    def __init__(self, folder: Path) -> None:
        """Keep where the answers are, which are opened when one is first looked up.

        Raises:
            ConfigurationError: The folder is no cache folder, or of a newer format.
        """
        require(folder)
        self.folder = folder
        self._readers: list[ShardReader] | None = None

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`.

        Raises:
            StorageError: The answers cannot be read.
        """
        if self._readers is None:
            self._readers = [ShardReader(shard) for shard in cache_shards(self.folder)]
        found = (reader.get(key) for reader in self._readers)
        return next((value for value in found if value is not None), None)

    async def put(self, key: str, value: bytes) -> None:
        """Raise `StorageError`: nothing is added."""
        raise StorageError(f"the answers in {self.folder} were opened to be read only")

    async def aclose(self) -> None:
        """Close the files; safe to call twice."""
        readers, self._readers = self._readers or (), None
        for reader in readers:
            reader.close()

    def info(self) -> StoreInfo:
        """Return what the folder holds."""
        return info(self.folder)
