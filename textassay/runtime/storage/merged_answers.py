"""Merges the answers of several cache folders into one, so a merged run can be resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from textassay.runtime.errors import StorageError
from textassay.runtime.storage.answers import ShardWriter
from textassay.runtime.storage.cache_folder import (
    cache_shards,
    claim_shard,
    prepared_folder,
    require,
)
from textassay.runtime.storage.shard import DATABASE, ShardReader, unusable

ROWS_PER_TRANSACTION = 2000


def merge_answers(target: Path, sources: Iterable[Path]) -> int:
    """Copy all answers; if two folders have the same key, the answer of the later is kept.

    Doing it again does no harm: keys name answers, and a key that is there is written over.

    Args:
        target: Cache folder, which is made if it is missing.
        sources: Cache folders, which are only read.

    Returns:
        The number of answers copied.

    Raises:
        ConfigurationError: A folder is no cache folder.
        StorageError: A folder is damaged, or the target cannot be written to.
    """
    copied = 0
    # The folder's lock is held for claiming only; the shard's own lock keeps it while it is
    # written.
    with prepared_folder(target):
        shard, lock = claim_shard(target)
    try:
        with closing(ShardWriter(shard)) as writer:
            writer.open()
            for source in sources:
                entries = read_answers(source)
                while batch := list(islice(entries, ROWS_PER_TRANSACTION)):
                    writer.write(batch)
                    copied += len(batch)
    finally:
        lock.release()
    return copied


def read_answers(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Iterate over the keys and values of a cache folder.

    Raises:
        ConfigurationError: It is no cache folder.
        StorageError: A file in it is damaged.
    """
    require(folder)
    for shard in cache_shards(folder):
        with closing(ShardReader(shard)) as reader:
            for key, value, problem in reader.entries():
                if value is None:
                    raise unusable(shard / DATABASE, StorageError(f"{key}: {problem}"))
                yield key, value
