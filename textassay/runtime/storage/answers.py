"""Where answers are kept: the protocol, and its implementation on disk with diskcache, locked down.

diskcache pickles by default, evicts by default, and its JSON disk still unpickles rows that say so;
here it can hold nothing but text keys and bytes, and never gives anything up.
Knows keys and bytes; what they mean is the business of `cache.py`. `DiskStore` is safe to open in
any number of processes on one folder: each writes to a shard of its own and reads all.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

import diskcache

from textassay.runtime.errors import StorageError
from textassay.runtime.resource import AsyncResource
from textassay.runtime.settings import is_redis
from textassay.runtime.storage.answer_commits import AnswerCommits
from textassay.runtime.storage.cache_folder import (
    StoreInfo,
    cache_shards,
    claim_shard,
    clear,
    info,
    prepared_folder,
    verify,
)
from textassay.runtime.storage.redis_answers import RedisStore
from textassay.runtime.storage.shard import (
    DATABASE,
    JOURNAL,
    RAW,
    ShardReader,
    checksum,
    connect_read_only,
    refuse_linked_shards,
    unusable,
)
from textassay.runtime.storage.written_keys import WrittenKeys

__all__ = [
    "AnswerStore",
    "DiskStore",
    "RemoteStore",
    "StoreInfo",
    "clear",
    "info",
    "open_answers",
    "verify",
]


_SETTINGS: dict[str, Any] = {
    # diskcache is a cache and evicts by default; these answers were paid for.
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**62,
    "statistics": 0,
    "tag_index": 0,
    # All values inline: a value in a file of its own is one more thing that can go missing.
    "disk_min_file_size": 2**62,
    "sqlite_auto_vacuum": 0,
    "sqlite_cache_size": (
        2**11
    ),  # pages, 8 MB: filled within 10,000 answers, so that memory is flat from there on
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": (
        0
    ),  # a truncated file is an error when it is read, and a crash when it is mapped
    # In WAL mode, NORMAL can lose the last commits in a power cut but never damages the file, and
    # saves a sync for each batch.
    "sqlite_synchronous": 1,
    "sqlite_wal_autocheckpoint": 8192,
}
_COUNTERS = frozenset({"count", "size", "hits", "misses"})

MIN_FREE_BYTES = 2**20
"""Least space on the disk with which a shard is opened: its log begins with some 100 kB."""

_INSERT = (
    "INSERT INTO Cache (key, raw, store_time, access_time, tag, mode, value)"
    f" VALUES (?, 1, ?, ?, ?, {RAW}, ?)"
)
"""Adds a row as diskcache does, whose triggers count it; other columns have their defaults."""


class AnswerStore(Protocol):
    """Keeps bytes under keys and never loses or evicts what it has taken."""

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`.

        Sees values whose `put` is not done yet.

        Raises:
            StorageError: The store cannot be read.
        """
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; return once it would survive the death of this process.

        The value is taken before the first suspension, and a canceled `put` still waits until it
        is kept: `CancelledError` means that it is.

        Raises:
            StorageError: The store cannot be written.
        """
        ...

    async def aclose(self) -> None:
        """Release files and threads; safe to call twice."""
        ...

    def info(self) -> StoreInfo:
        """Return what the store holds."""
        ...


@runtime_checkable
class RemoteStore(AnswerStore, Protocol):
    """A store that is too far away to be read while the event loop waits."""

    async def fetch(self, key: str) -> bytes | None:
        """Do what `get` does, without holding up the event loop.

        Raises:
            StorageError: The store cannot be read.
        """
        ...


class BytesDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Stores text keys and inline bytes; never pickles, unpickles or touches another file."""

    def put(self, key: Any) -> tuple[str, bool]:
        """Return the key as it is stored."""
        if type(key) is not str:
            raise StorageError(f"a cache key must be a string, not {type(key).__name__}")
        return key, True

    def get(self, key: Any, raw: Any) -> str:
        """Return a stored key."""
        # A key that is not raw is a pickle: reading it would run code from a folder somebody may
        # have sent.
        if not raw or type(key) is not str:
            self._refuse("a key that is not text")
        return key

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, None, Any]:
        """Return the value as it is stored."""
        if type(value) is not bytes or read:
            raise StorageError(f"a cached value must be bytes, not {type(value).__name__}")
        return 0, RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: Any, filename: Any, value: Any, read: bool) -> bytes:
        """Return a stored value."""
        if mode != RAW or filename is not None or type(value) is not bytes or read:
            self._refuse(f"a value of mode {mode!r}")
        return value

    def remove(self, file_path: Any) -> None:
        """Refuse: no value has a file of its own, and a planted row could name any."""
        self._refuse(f"a value in the file {file_path!r}")

    def _refuse(self, what: str) -> NoReturn:
        raise StorageError(
            f"{self._directory} contains {what}, which textassay never writes; it was not read"
        )


class ShardWriter:
    """Writes `(key, value)` pairs into one shard; all its methods run on the one writing thread."""

    def __init__(self, folder: Path) -> None:
        """Store the shard's folder, which exists and is locked for this process."""
        self._folder, self._file = folder, folder / DATABASE
        self._cache: diskcache.Cache | None = None
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Create the shard, or check that it can be written; it is connected by the first `write`.

        Raises:
            StorageError: It is damaged or cannot be written.
        """
        refuse_linked_shards(self._folder)
        try:
            if self._file.exists():
                _roll_back(self._file)
                _check(self._file)
            else:
                _create(self._file)
            self._made = self._file.stat()
        except (sqlite3.Error, OSError) as error:
            raise unusable(self._file, error) from error

    def write(self, batch: Sequence[tuple[str, bytes]]) -> None:
        """Write all pairs in one transaction, or none.

        Raises:
            StorageError: The disk is full, or the file is damaged or gone.
        """
        file = self._file
        try:
            # SQLite goes on writing to a file that was deleted, and what it takes is paid for
            if not os.path.samestat(file.stat(), self._made):
                raise FileNotFoundError(errno.ENOENT, "was replaced by another file", str(file))
            # Not before: diskcache writes all its settings, with two syncs, and many a run finds
            # all its answers.
            if self._cache is None:
                self._cache = diskcache.Cache(str(self._folder), disk=BytesDisk, **_SETTINGS)
                self._connection = _connect_to_write(self._file)
            try:
                self._add(batch)
            except sqlite3.IntegrityError:  # a key is there already
                self._replace(batch)
        except (sqlite3.Error, OSError, diskcache.Timeout) as error:
            raise unusable(file, error) from error

    def _add(self, batch: Sequence[tuple[str, bytes]]) -> None:
        """Write pairs whose keys are new, in half the time that diskcache takes to look first."""
        assert self._connection is not None
        now = time.time()
        rows = [(key, now, now, checksum(key, value), value) for key, value in batch]
        with self._connection:  # commits, or rolls back
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_INSERT, rows)

    def _replace(self, batch: Sequence[tuple[str, bytes]]) -> None:
        assert self._cache is not None
        with self._cache.transact():
            for key, value in batch:
                self._cache.set(key, value, tag=checksum(key, value))

    def idle(self) -> None:
        """Do nothing; every batch is committed when it is written."""

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
        if self._cache is not None:
            self._cache.close()


class DiskStore(AsyncResource):
    """Answers in a cache folder.

    Writing is done by one thread in batches, reading right on the calling thread (some 6
    microseconds). Use it from one thread. Answers of other processes are seen in shards that
    existed when this store was opened.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open or create the cache folder; takes some milliseconds.

        Args:
            folder: A cache folder, an empty folder or a new one, on a local disk: SQLite is not
                safe on NFS.

        Raises:
            ConfigurationError: The folder holds something else, or a newer format.
            StorageError: It cannot be written to, or a file in it is damaged.
        """
        self.folder = Path(folder)
        self._readers: tuple[ShardReader, ...] = ()
        # Only this process adds to its shard: in a new one, a key that it has not written need not
        # be looked for. Most requests of a new run are such, and after every commit the next read
        # takes its pages from the file again.
        self._written: WrittenKeys | None = None
        self._closed = False
        with ExitStack() as stack:
            stack.enter_context(prepared_folder(self.folder))
            shard, self._lock = claim_shard(self.folder)
            with ExitStack() as undo:
                # Undone in reverse order: the file is closed before another process may claim the
                # shard.
                undo.callback(self._lock.release)
                self._commits = AnswerCommits(
                    ShardWriter(shard), name=f"the cache folder {self.folder}"
                )
                undo.callback(self._commits.close)
                others = [other for other in cache_shards(self.folder) if other != shard]
                # The own shard first: most hits are of answers that an earlier session of this run
                # wrote.
                for each in (shard, *others):
                    reader = ShardReader(each)
                    undo.callback(reader.close)
                    self._readers = (*self._readers, reader)
                if self._readers[0].is_empty:
                    self._written = WrittenKeys()
                undo.pop_all()

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`.

        Raises:
            StorageError: A file is damaged, or the store is closed.
        """
        value = self._commits.pending.get(key)
        if value is not None:
            return value
        if self._closed:
            raise StorageError(f"the cache folder {self.folder} is closed")
        known = self._written is None or key in self._written
        for reader in self._readers if known else self._readers[1:]:
            value = reader.get(key)
            if value is not None:
                self._share_snapshot(reader)
                return value
        return None

    def _share_snapshot(self, reader: ShardReader) -> None:
        """Have reads of one shard share a transaction until this turn of the event loop is over.

        A transaction for every read takes as long as the reading. None is begun before a hit: a
        run without any would gain nothing.
        """
        if reader.in_transaction:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # nothing would end it
        # In this order: a commit that the snapshot lacks is then announced to the loop after the
        # end, so that an answer is seen whenever it has left `pending`.
        loop.call_soon(self._end_snapshot, reader)
        reader.begin()

    def _end_snapshot(self, reader: ShardReader) -> None:
        if not self._closed:
            reader.end()

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; return after the commit, which a canceled `put` waits for as well.

        Raises:
            StorageError: The disk is full, a file is damaged, or the store is closed; so are all
                later `put`.
        """
        if self._written is not None:
            self._written.add(key)
        await self._commits.put(key, value)

    async def aclose(self) -> None:
        """Commit what is waiting, close all files and free the shard; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            for reader in self._readers:
                reader.close()
            await self._commits.aclose()
        finally:
            self._lock.release()

    def info(self) -> StoreInfo:
        """Return what the folder holds, the shards of other processes included.

        Raises:
            StorageError: A file is damaged.
        """
        return info(self.folder)


async def open_answers(place: str | Path) -> AnswerStore:
    """Open the store at a folder or at the address of a Redis.

    Raises:
        ConfigurationError: There is something else, or a Redis that could lose answers.
        StorageError: It cannot be opened.
    """
    if not is_redis(place):
        return DiskStore(place)
    return await RedisStore.open(place)


def _connect_to_write(file: Path) -> sqlite3.Connection:
    """Return a connection to a shard that diskcache has opened, set up as diskcache's own.

    Two writing connections are safe here since one thread uses them, one after the other.
    """
    connection = sqlite3.connect(file, timeout=60, isolation_level=None)
    for name, value in _SETTINGS.items():
        if name.startswith("sqlite_"):
            connection.execute(f"PRAGMA {name.removeprefix('sqlite_')} = {value}")
    return connection


def _create(file: Path) -> None:
    """Create a database without tables in WAL mode, with one sync instead of SQLite's four."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        # no journal in a file, which a killed process would leave and no reader can roll back
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA journal_mode = WAL")
    # SQLite ignores the log of an empty file: a power cut must not leave one beside the answers
    with file.open("rb+") as made:
        os.fsync(made.fileno())


def _roll_back(file: Path) -> None:
    """Undo what a killed process began to write; a connection that only reads could not."""
    if file.with_name(f"{file.name}{JOURNAL}").exists():
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("SELECT 1 FROM sqlite_master").fetchall()


def _check(file: Path) -> None:
    """Refuse a file that cannot be written, or whose settings diskcache would misread."""
    # asked of the system rather than tried: closing a file of its own would drop SQLite's locks
    for place in (file.parent, file):  # the log stands beside the file
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
    if shutil.disk_usage(file.parent).free < MIN_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
    with closing(connect_read_only(file)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'Settings'").fetchall():
            return
        names = {name for (name,) in connection.execute("SELECT key FROM Settings")}
    # diskcache reads every row of its table Settings into attributes and, for names that begin with
    # `sqlite_`, runs a pragma of that name: a planted row could set anything.
    strange = sorted(
        map(repr, names - set(diskcache.DEFAULT_SETTINGS) - set(_SETTINGS) - _COUNTERS)
    )
    if strange:
        raise unusable(file, f"it has the unknown setting {strange[0]}")
