"""Where answers are kept: the protocol, and its implementation in a folder, with diskcache.

diskcache evicts by default and pickles what is neither text nor bytes; here it holds nothing but
text keys and bytes, gives nothing up, and only writes: what is there is read through SQLite. Knows
keys and bytes; what they mean is the business of `calls/cache.py`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import time
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import diskcache

from textassay.runtime.concurrency import AsyncResource
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.cache_folder import (
    DATABASE,
    Reader,
    acquire,
    cache_lock,
    checksum,
    databases,
    held,
    prepare,
    read_answers,
    refuse_links,
    require,
    unusable,
)
from textassay.runtime.storage.group_commit import AnswerCommits, GroupRead, Requests

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
    # pages, 8 MB: filled within 10,000 answers, so that memory is flat from there on
    "sqlite_cache_size": 2**11,
    "sqlite_journal_mode": "wal",
    # a truncated file is an error when it is read, and a crash when it is mapped
    "sqlite_mmap_size": 0,
    # In WAL mode, NORMAL can lose the last commits in a power cut but never damages the file, and
    # saves a sync for each batch.
    "sqlite_synchronous": 1,
    "sqlite_wal_autocheckpoint": 8192,
}
_KNOWN_SETTINGS = {*_SETTINGS, *diskcache.DEFAULT_SETTINGS, "count", "size", "hits", "misses"}
_ROWS_PER_TRANSACTION = 2000


class AnswerStore(Protocol):
    """Keeps bytes under keys and never loses or evicts what it has taken."""

    @property
    def place(self) -> str | Path:
        """The folder, or the address of a Redis."""
        ...

    def fetch(self, key: str) -> Awaitable[bytes | None]:
        """Return the value of `key`, or `None`; sees values whose `put` is not done yet.

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


class _BytesInRows(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Keeps bytes in the rows of a database: nothing is pickled, and no value has its own file."""

    def store(self, value: Any, read: bool, key: Any = None) -> Any:
        """Return the value as it is stored; what is not bytes would be pickled."""
        if type(value) is not bytes:
            raise StorageError(f"a cached value must be bytes, not {type(value).__name__}")
        return super().store(value, read, key)

    def remove(self, file_path: Any) -> None:
        """Refuse: no value has a file of its own, and a planted row could name any."""
        file = Path(self._directory) / DATABASE
        raise unusable(
            file, f"it contains a value in the file {file_path!r}, which textassay never writes"
        )


LOCK_HELD_SECONDS = 0.05
"""Longest time for which one process keeps others from writing: taking the lock costs about as much
as committing a few answers, so that it is kept while commits follow each other."""
LOCK_IDLE_SECONDS = 0.01
"""Quiet time after which the lock is given back."""


class _Writer:
    """Writes `(key, value)` pairs to a folder's database; all of it runs on one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / DATABASE
        self._lock = cache_lock(folder)
        self._locked_since = 0.0

    def open(self) -> None:
        """Create the database or open it, which writes diskcache's settings."""
        with held(self._lock), self._as_unusable():
            refuse_links(self._file)
            if self._file.exists():
                _refuse_unknown_settings(self._file)
            self._cache = diskcache.Cache(
                str(self._folder), timeout=60, disk=_BytesInRows, **_SETTINGS
            )
            self._made = self._file.stat()

    def write(self, batch: Sequence[tuple[str, bytes]]) -> None:
        """Write all pairs in one transaction, or none."""
        with self._as_unusable():
            # SQLite goes on writing to a file that was deleted, and what it takes is paid for
            if not os.path.samestat(self._file.stat(), self._made):
                raise FileNotFoundError(
                    errno.ENOENT, "was replaced by another file", str(self._file)
                )
            self._take_lock()
            try:
                with self._cache.transact():
                    for key, value in batch:
                        self._cache.set(key, value, tag=checksum(key, value))
            except BaseException:
                self._release_lock()
                raise
            if time.monotonic() - self._locked_since > LOCK_HELD_SECONDS:
                self._release_lock()

    def idle(self) -> None:
        """Let other processes write; every batch is committed when it is written."""
        self._release_lock()

    def _take_lock(self) -> None:
        """Take the folder's lock, or keep it for commits that follow each other quickly."""
        if not self._lock.is_locked:
            acquire(self._lock)
            self._locked_since = time.monotonic()

    def _release_lock(self) -> None:
        if self._lock.is_locked:
            self._lock.release()

    def close(self) -> None:
        """Close the connection of the calling thread; the last one moves the log into the file."""
        self._release_lock()
        if self._file.exists():
            with held(self._lock):
                self._cache.close()
        else:  # the lock would make the folder again
            self._cache.close()

    @contextmanager
    def _as_unusable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, diskcache.Timeout) as error:
            raise unusable(self._file, error) from error


class DiskStore(AsyncResource):
    """Answers in a cache folder, which any number of processes may share.

    Writing is done by one thread in batches; what the tasks of an event loop fetch in one turn is
    read together, on the loop's thread. Use it from one thread.
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
        self.place = Path(folder)
        self._closed = False
        prepare(self.place)
        with ExitStack() as stack:
            writer = _Writer(self.place)
            self._commits = AnswerCommits(
                writer, name=f"the cache folder {self.place}", idle_seconds=LOCK_IDLE_SECONDS
            )
            stack.callback(self._commits.close)
            self._readers = [
                stack.enter_context(closing(Reader(file))) for file in databases(self.place)
            ]
            stack.pop_all()
        self._reads = GroupRead(self._read)

    def fetch(self, key: str) -> Awaitable[bytes | None]:
        """Return the value of `key`, or `None`.

        Raises:
            StorageError: The value or a file is damaged, or the store is closed.
        """
        if self._closed:
            raise StorageError(f"the cache folder {self.place} is closed")
        return self._reads.request(key)

    def _read(self, requests: Requests) -> None:
        pending = self._commits.pending
        found = {key: pending[key] for key in requests if key in pending}
        missing = [key for key in requests if key not in found]
        try:
            found |= _found(self._readers, missing)
        except StorageError:
            # a damaged value is the error of those alone who wait for it
            for key in missing:
                try:
                    found |= _found(self._readers, [key])
                except StorageError as error:
                    requests.pop(key).fail(error)
        for key, request in requests.items():
            request.answer(found.get(key))

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; return after the commit, which a canceled `put` waits for as well.

        Raises:
            StorageError: The disk is full, a file is damaged, or the store is closed; so are all
                later `put`.
        """
        await self._commits.put(key, value)

    async def aclose(self) -> None:
        """Commit what is waiting and close all files; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        # before the writer, whose connection moves the log into the file if it is the last one
        for reader in self._readers:
            reader.close()
        await self._commits.aclose()


class RecordedAnswers:
    """An answer store that nothing is added to: its folder may be read-only, or in use."""

    def __init__(self, folder: Path) -> None:
        require(folder)
        self.place = folder
        self._readers: list[Reader] | None = None

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`."""
        if self._readers is None:
            self._readers = [Reader(file) for file in databases(self.place)]
        return _found(self._readers, [key]).get(key)

    async def fetch(self, key: str) -> bytes | None:
        """Do what `get` does, after a turn for others."""
        await asyncio.sleep(0)
        return self.get(key)

    async def put(self, key: str, value: bytes) -> None:
        """Raise `StorageError`: nothing is added."""
        raise StorageError(f"the answers in {self.place} were opened to be read only")

    async def aclose(self) -> None:
        """Close the files; safe to call twice."""
        readers, self._readers = self._readers or (), None
        for reader in readers:
            reader.close()


def merge_answers(target: Path, sources: Iterable[Path]) -> int:
    """Copy all answers; if two folders have the same key, the answer of the later is kept.

    Doing it again does no harm: keys name answers, and a key that is there is written over.
    """
    copied = 0
    prepare(target)
    writer = _Writer(target)
    writer.open()
    with closing(writer):
        for source in sources:
            entries = read_answers(source)
            while batch := list(islice(entries, _ROWS_PER_TRANSACTION)):
                writer.write(batch)
                copied += len(batch)
    return copied


def _found(readers: Iterable[Reader], keys: Sequence[str]) -> dict[str, bytes]:
    """Return the values of the keys that are there, each from the first database that has it."""
    found: dict[str, bytes] = {}
    for reader in readers:
        if missing := [key for key in keys if key not in found]:
            found |= reader.find(missing)
    return found


def _refuse_unknown_settings(file: Path) -> None:
    """Refuse settings that diskcache would misread.

    It turns every row of its table Settings into an attribute and, for names that begin with
    `sqlite_`, runs a pragma of that name: a planted row could set anything.
    """
    # not read only: what a killed process left unfinished is rolled back
    with closing(sqlite3.connect(file)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'Settings'").fetchall():
            return
        names = {name for (name,) in connection.execute("SELECT key FROM Settings")}
    strange = sorted(map(repr, names - _KNOWN_SETTINGS))
    if strange:
        raise unusable(file, f"it has the unknown setting {strange[0]}")
