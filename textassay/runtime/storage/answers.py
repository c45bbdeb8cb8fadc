"""Where answers are kept: the protocol, and its implementation in a folder, with diskcache.

diskcache evicts by default and pickles what is neither text nor bytes; here it holds nothing but
text keys and bytes, gives nothing up, and only writes. What the tasks of one turn of an event loop
look for is read by one query through SQLite: single looks through diskcache took a quarter more CPU
time in a cached run. An answer goes into a log first, which costs some microseconds and survives
the death of the process, and from there, with others, into the database. Knows keys and bytes; what
they mean is the business of `calls/cache.py`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import diskcache
import filelock

from textassay.runtime.concurrency import AsyncResource, GroupRead, Requests, in_thread
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.cache_folder import (
    DATABASE,
    LOG,
    Reader,
    cache_lock,
    checksum,
    locked,
    log_lock,
    log_owner,
    log_paths,
    log_record,
    logs,
    prepare,
    read_answers,
    read_log,
    refuse_links,
    require,
    unusable,
)

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
_ROWS_PER_TRANSACTION = 2000
_LOG_BYTES = 2_000_000
"""What may wait for a commit."""
_log = logging.getLogger(__name__)


class AnswerStore(Protocol):
    """Keeps bytes under keys and never loses or evicts what it has taken."""

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

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; return once it would survive the death of this process.

        The value is taken before the first suspension, and a canceled `put` still waits until it
        is kept: `CancelledError` means that it is. Another store at the same place may see it a
        moment later.

        Raises:
            StorageError: The store cannot be written.
        """
        ...

    async def put_all(self, answers: Mapping[str, bytes]) -> None:
        """Keep several answers, as `put` does each."""
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
        """Refuse: no value has a file of its own, and a row of somebody else could name any."""
        file = Path(self._directory) / DATABASE
        raise unusable(
            file, f"it contains a value in the file {file_path!r}, which textassay never writes"
        )


_COMMIT_SECONDS = 0.05
"""Time for which answers are collected before they are committed together: nobody waits for it, and
a commit costs about as much as several answers."""


class _AnswerWriter:
    """Writes `(key, value)` pairs to a folder's database; all of it runs on one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / DATABASE
        self._lock = cache_lock(folder)

    def open(self, own: _Logs | None = None) -> None:
        """Create the database or open it, which writes diskcache's settings; collect old logs."""
        with locked(self._lock), _as_unusable(self._file):
            refuse_links(self._file)
            if self._file.exists():
                _check_readable(self._file)
            self._cache = diskcache.Cache(
                str(self._folder), timeout=60, disk=_BytesInRows, **_SETTINGS
            )
            self._made = self._file.stat()
            try:
                for owner in {log_owner(entry) for entry in self._folder.glob(f"{LOG}*")}:
                    self._collect(owner)
                if own is not None:
                    own.open()
            except BaseException:
                self._cache.close()
                raise

    def _collect(self, owner: str) -> None:
        """Write what a killed process has left in its logs."""
        lock = log_lock(self._folder, owner)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:  # it lives
            return
        try:
            for file in logs(self._folder):
                if log_owner(file) == owner:
                    answers, problem = read_log(file)
                    if problem:
                        _log.warning("%s: %s; what came before is kept", file, problem)
                    self._set(answers)
                    file.unlink()
        finally:
            lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)

    def write(self, answers: Mapping[str, bytes]) -> None:
        """Write all answers in one transaction, or none."""
        with _as_unusable(self._file):
            # SQLite goes on writing to a file that was deleted, and what it takes is paid for
            if not os.path.samestat(self._file.stat(), self._made):
                raise FileNotFoundError(
                    errno.ENOENT, "was replaced by another file", str(self._file)
                )
            with locked(self._lock):
                self._set(answers)

    def _set(self, answers: Mapping[str, bytes]) -> None:
        with self._cache.transact():
            for key, value in answers.items():
                self._cache.set(key, value, tag=checksum(key, value))

    def close(self) -> None:
        """Close the connection of the calling thread; the last one moves the log into the file."""
        if self._file.exists():
            with locked(self._lock):
                self._cache.close()
        else:  # the lock would make the folder again
            self._cache.close()


class _Logs:
    """The logs of a store: a new one takes answers while those of the last are committed."""

    def __init__(self, folder: Path) -> None:
        owner = secrets.token_hex(8)
        self._paths = log_paths(folder, owner)
        self._path = next(self._paths)
        self._file: FileIO | None = None
        self.size = 0
        self._lock = log_lock(folder, owner)

    def open(self) -> None:
        """Hold them; under the folder's lock, as nobody else may take them for abandoned."""
        self._lock.acquire(blocking=False)

    def append(self, answers: Mapping[str, bytes]) -> None:
        """Append answers in one write; the kernel has them then."""
        record = b"".join(log_record(key, value) for key, value in answers.items())
        with _as_unusable(self._path):
            if self._file is None:
                self._file = self._path.open("xb", buffering=0)
            if self._file.write(record) < len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += len(record)

    def change(self) -> Path:
        """Have a new log take answers; return the one that took them."""
        self._close_file()
        path, self._path, self.size = self._path, next(self._paths), 0
        return path

    def close(self) -> None:
        """Give the logs up: what is left of them is collected when the folder is opened again."""
        self._close_file()
        self._lock.release()
        with _as_unusable(self._path):
            Path(self._lock.lock_file).unlink(missing_ok=True)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Commits:
    """Takes answers into a log, and commits them together a little later, on a thread of its own.

    After a failure nothing more is taken; what is in the logs is collected when the folder is
    opened the next time.
    """

    def __init__(self, folder: Path) -> None:
        self._name = f"the cache folder {folder}"
        self._writer, self._logs = _AnswerWriter(folder), _Logs(folder)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        try:
            self._thread.submit(self._writer.open, self._logs).result()
        except BaseException:
            self._thread.shutdown()
            raise
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._taken: dict[str, bytes] = {}
        self._in_work: dict[str, bytes] = {}
        self._at_once = threading.Event()
        self._closed = False
        self._failure: StorageError | None = None
        self._failure_reported = False

    def pending(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return those of the answers that are not committed yet, so that no reader sees them."""
        with self._lock:
            return {
                key: some[key]
                for some in (self._in_work, self._taken)
                for key in keys
                if key in some
            }

    async def put(self, answers: Mapping[str, bytes]) -> None:
        """Take answers; wait for a commit if they come faster than they can be committed."""
        self._take(answers)
        while self._logs.size >= _LOG_BYTES and not self._closed and not self._failure:
            self._at_once.set()
            await asyncio.wrap_future(self._thread.submit(_pass))

    def _take(self, answers: Mapping[str, bytes]) -> None:
        if os.getpid() != self._process:
            raise StorageError(f"{self._name} was opened before a fork; open it again")
        with self._lock:
            if self._closed:
                raise StorageError(f"{self._name} is closed")
            if self._failure is None:
                try:
                    self._logs.append(answers)
                except StorageError as error:
                    self._failure = error
            if self._failure is not None:
                self._failure_reported = True
                raise StorageError(str(self._failure)) from self._failure
            if not self._taken and not self._in_work:
                self._thread.submit(self._commit)
            self._taken.update(answers)

    def close(self) -> None:
        """Commit what was taken, end the thread, and raise a failure that no `put` has raised."""
        with self._lock:
            self._closed = True
            self._at_once.set()
        try:
            self._thread.submit(self._end).result()
        finally:
            self._thread.shutdown()
        if self._failure is not None and not self._failure_reported:
            raise self._failure

    def _commit(self) -> None:
        self._at_once.wait(_COMMIT_SECONDS)
        try:
            with self._lock:
                self._in_work, self._taken = self._taken, {}
                log = self._logs.change()
                if not self._closed:
                    self._at_once.clear()
            self._writer.write(self._in_work)
            log.unlink(missing_ok=True)
        except Exception as error:  # nobody else would learn of it
            self._failure = self._failure or self._storage_error(error)
            return
        with self._lock:
            self._in_work = {}
            if self._taken and not self._closed:
                self._thread.submit(self._commit)

    def _end(self) -> None:
        if self._taken and self._failure is None:
            self._commit()
        try:
            self._writer.close()
        finally:
            self._logs.close()

    def _storage_error(self, error: Exception) -> StorageError:
        if isinstance(error, StorageError):
            return error
        wrapped = StorageError(f"{self._name} cannot be written: {error!r}")
        wrapped.__cause__ = error
        return wrapped


def _pass() -> None:
    """Do nothing, behind the commit that is under way."""


@contextmanager
def _as_unusable(file: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, diskcache.Timeout) as error:
        raise unusable(file, error) from error


class DiskStore(AsyncResource):
    """Answers in a cache folder, which any number of processes may share.

    An answer goes into a log on the thread that puts it, and with others into the database a little
    later; what the tasks of an event loop fetch in one turn is read together, on the loop's thread.
    Use it from one thread.
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
        self._commits = _Commits(self.place)
        try:
            self._reader = Reader(self.place / DATABASE)
        except BaseException:
            self._commits.close()
            raise
        self._reads = GroupRead(self._read)

    def fetch(self, key: str) -> Awaitable[bytes | None]:
        """Return the value of `key`, or `None`; raises `StorageError` for a damaged one."""
        if self._closed:
            raise StorageError(f"the cache folder {self.place} is closed")
        return self._reads.request(key)

    def _read(self, requests: Requests) -> None:
        found = self._commits.pending(requests)
        missing = [key for key in requests if key not in found]
        try:
            found |= self._reader.find(missing)
        except StorageError:
            # a damaged value is the error of those alone who wait for it
            for key in missing:
                try:
                    found |= self._reader.find([key])
                except StorageError as error:
                    requests.pop(key).fail(error)
        for key, request in requests.items():
            request.answer(found.get(key))

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; after one `StorageError` every later `put` raises it."""
        await self._commits.put({key: value})

    async def put_all(self, answers: Mapping[str, bytes]) -> None:
        """Keep several answers with one write."""
        await self._commits.put(answers)

    async def aclose(self) -> None:
        """Commit what is waiting and close all files; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        # before the writer, whose connection moves the log into the file if it is the last one
        self._reader.close()
        await in_thread(self._commits.close)


class RecordedAnswers:
    """An answer store that nothing is added to: its folder may be read-only, or in use."""

    def __init__(self, folder: Path) -> None:
        require(folder)
        self.place = folder
        self._logged: dict[str, bytes] = {}
        self._reader: Reader | None = None

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`."""
        if self._reader is None:
            # the logs first: what is moved into the database meanwhile is found in both
            for file in logs(self.place):
                self._logged |= read_log(file)[0]
            self._reader = Reader(self.place / DATABASE)
        if key in self._logged:
            return self._logged[key]
        return self._reader.find([key]).get(key)

    async def fetch(self, key: str) -> bytes | None:
        """Do what `get` does, after a turn for others."""
        await asyncio.sleep(0)
        return self.get(key)

    async def put(self, key: str, value: bytes) -> None:
        """Raise `StorageError`: nothing is added."""
        raise StorageError(f"the answers in {self.place} were opened to be read only")

    async def put_all(self, answers: Mapping[str, bytes]) -> None:
        """Raise `StorageError`: nothing is added."""
        raise StorageError(f"the answers in {self.place} were opened to be read only")

    async def aclose(self) -> None:
        """Close the files; safe to call twice."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def merge_answers(target: Path, sources: Iterable[Path]) -> int:
    """Copy all answers; if two folders have the same key, the answer of the later is kept.

    Doing it again does no harm: keys name answers, and a key that is there is written over.
    """
    copied = 0
    prepare(target)
    writer = _AnswerWriter(target)
    writer.open()
    with closing(writer):
        for source in sources:
            entries = read_answers(source)
            while batch := list(islice(entries, _ROWS_PER_TRANSACTION)):
                writer.write(dict(batch))
                copied += len(batch)
    return copied


def _check_readable(file: Path) -> None:
    """Read what diskcache reads first: of a damaged file it would leave a connection open."""
    # not read only: what a killed process left unfinished is rolled back
    with closing(sqlite3.connect(file)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'Settings'").fetchall():
            connection.execute("SELECT key FROM Settings").fetchall()  # from its index
