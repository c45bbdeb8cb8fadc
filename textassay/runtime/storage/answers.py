"""Stores of answers in a cache folder, see `AnswerStore`.

An answer goes into a log first, which costs some microseconds and survives the death of the process
(`answer_log.py`), and from there, with others, into the database (`answer_database.py`). Stores
have keys and bytes, which `calls/cache.py` encodes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from textassay.runtime.concurrency import AsyncResource, GroupRead, in_thread
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.answer_admin import prepare, read_answers, require
from textassay.runtime.storage.answer_database import AnswerDatabase, DatabaseReader, lock_folder
from textassay.runtime.storage.answer_log import AnswerLog, collect_logs, logs, read_log, unusable

_LOG_BYTES = 2_000_000
"""Size of the answers that may wait for a commit."""
_COMMIT_SECONDS = 0.05
"""Time for which answers are collected before they are committed together: no caller waits for it,
and a commit costs about as much as several answers."""


class _AnswerWriter:
    """Writes answers into a log, and commits them together a little later, in its own thread.

    After a failure no further answers are accepted; answers in the logs are collected when the
    folder is opened the next time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"the cache folder {folder}")
        try:
            self._thread.submit(self._open).result()
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

    def _open(self) -> None:
        with lock_folder(self._folder):
            self._database = AnswerDatabase(self._folder)
            try:
                collect_logs(self._folder, self._database.write)
                self._log = AnswerLog(self._folder)
            except BaseException:
                self._database.close()
                raise

    def pending(self, keys: Collection[str]) -> dict[str, bytes]:
        """Return the uncommitted values of these keys, which readers do not see."""
        with self._lock:
            waiting = (self._in_work, self._taken)
            return {key: some[key] for some in waiting if some for key in keys if key in some}

    def pending_in(self, groups: Collection[str]) -> dict[str, bytes]:
        """Return the uncommitted answers of some groups, by key."""
        with self._lock:
            waiting = {**self._in_work, **self._taken}
        return {key: value for key, value in waiting.items() if group_of(key) in groups}

    async def put(self, key: str, value: bytes) -> None:
        """Accept an answer; wait for a commit if answers come faster than commits."""
        self._take(key, value)
        while self._log.size >= _LOG_BYTES and not self._closed and not self._failure:
            self._at_once.set()
            behind_the_commit = self._thread.submit(int)
            await asyncio.wrap_future(behind_the_commit)

    def _take(self, key: str, value: bytes) -> None:
        if os.getpid() != self._process:
            raise StorageError(
                f"the cache folder {self._folder} was opened before a fork; open it again"
            )
        with self._lock:
            if self._closed:
                raise StorageError(f"the cache folder {self._folder} is closed")
            if not self._failure:
                try:
                    self._log.append(key, value)
                except StorageError as error:
                    self._failure = error
            if self._failure:
                self._failure_reported = True
                raise StorageError(str(self._failure)) from self._failure
            if not self._taken and not self._in_work:
                self._thread.submit(self._commit)
            self._taken[key] = value

    def close(self) -> None:
        """Commit all answers, end the thread, and raise a failure that no `put` has raised."""
        with self._lock:
            self._closed = True
            self._at_once.set()
        try:
            self._thread.submit(self._end).result()
        finally:
            self._thread.shutdown()
        if self._failure and not self._failure_reported:
            raise self._failure

    def _commit(self) -> None:
        self._at_once.wait(_COMMIT_SECONDS)
        with self._lock:
            self._in_work, self._taken = self._taken, {}
            log = self._log.change()
            if not self._closed:
                self._at_once.clear()
        try:
            with lock_folder(self._folder):
                self._database.write(self._in_work)
            log.unlink(missing_ok=True)
        except Exception as error:  # otherwise no caller would see it
            if not self._failure:
                self._failure = error if isinstance(error, StorageError) else unusable(log, error)
            return
        with self._lock:
            self._in_work = {}
            if self._taken and not self._closed:
                self._thread.submit(self._commit)

    def _end(self) -> None:
        if self._taken and not self._failure:
            self._commit()
        try:
            if self._folder.exists():
                with lock_folder(self._folder):
                    self._database.close()
            else:  # the lock would create the folder again
                self._database.close()
        finally:
            self._log.close()


def group_of(key: str) -> str:
    """Return the group of a key `GROUP/...`; a key of no group is its own."""
    return key.partition("/")[0]


def _by_group(values: dict[str, bytes]) -> dict[str, list[bytes]]:
    groups: dict[str, list[bytes]] = {}
    for key in sorted(values):
        groups.setdefault(group_of(key), []).append(values[key])
    return groups


class DiskStore(AsyncResource):
    """Answers in a cache folder, which any number of processes may share.

    `put` writes an answer into a log in the caller's thread, and a little later all new answers go
    into the database. Fetches of one turn of the event loop are read together, in the loop's
    thread. Use it from one thread.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open or create the cache folder; takes some milliseconds.

        Args:
            folder: A cache folder, an empty folder or a new one, on a local disk: SQLite is not
                safe on NFS.

        Raises:
            ConfigurationError: The folder has other content, or another format.
            StorageError: It cannot be written to, or a file in it is damaged.
        """
        self.place = Path(folder)
        self._closed = False
        prepare(self.place)
        self._writer = _AnswerWriter(self.place)
        try:
            self._reader = DatabaseReader(self.place)
        except BaseException:
            self._writer.close()
            raise
        self._reads = GroupRead[bytes | None](self._find, None)
        self._group_reads = GroupRead[list[bytes]](self._find_groups, [])

    def fetch(self, key: str) -> Awaitable[bytes | None]:
        """Return the value of `key`, or `None`; raises `StorageError` for a damaged one."""
        self._check_open()
        return self._reads.request(key)

    def fetch_group(self, group: str) -> Awaitable[list[bytes]]:
        """Return the values of all keys `GROUP/...`, in order of their keys."""
        self._check_open()
        return self._group_reads.request(group)

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"the cache folder {self.place} is closed")

    def _find(self, keys: Collection[str]) -> dict[str, bytes | None]:
        # pending answers first: an answer that is committed meanwhile is found in both
        pending = self._writer.pending(keys)
        return {**self._reader.find([key for key in keys if key not in pending]), **pending}

    def _find_groups(self, groups: Collection[str]) -> dict[str, list[bytes]]:
        pending = self._writer.pending_in(groups)
        return _by_group({**self._reader.find_groups([*groups]), **pending})

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; after one `StorageError` every later `put` raises it."""
        await self._writer.put(key, value)

    async def aclose(self) -> None:
        """Commit waiting answers and close all files; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        # before the writer, whose connection moves SQLite's log into the file if it is the last one
        self._reader.close()
        await in_thread(self._writer.close)


class RecordedAnswers:
    """A read-only answer store: its folder may be read-only, or in use."""

    def __init__(self, folder: Path) -> None:
        require(folder)
        self.place = folder
        self._logged: dict[str, bytes] = {}
        self._reader: DatabaseReader | None = None

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`."""
        reader = self._open()
        return self._logged[key] if key in self._logged else reader.find([key]).get(key)

    def get_group(self, group: str) -> list[bytes]:
        """Return the values of all keys `GROUP/...`, in order of their keys."""
        stored = self._open().find_groups([group])
        logged = {key: value for key, value in self._logged.items() if group_of(key) == group}
        return _by_group({**stored, **logged}).get(group, [])

    def _open(self) -> DatabaseReader:
        if self._reader is None:
            # the logs first: an answer that is moved into the database meanwhile is found in both
            for file in logs(self.place):
                self._logged |= read_log(file)[0]
            self._reader = DatabaseReader(self.place)
        return self._reader

    async def fetch(self, key: str) -> bytes | None:
        """Return the result of `get`, after a turn of the loop for other tasks."""
        await asyncio.sleep(0)
        return self.get(key)

    async def fetch_group(self, group: str) -> list[bytes]:
        """Return the result of `get_group`, after a turn of the loop for other tasks."""
        await asyncio.sleep(0)
        return self.get_group(group)

    async def put(self, key: str, value: bytes) -> None:
        """Raise `StorageError`."""
        raise StorageError(f"the answers in {self.place} were opened to be read only")

    async def aclose(self) -> None:
        """Close the files; safe to call twice."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def merge_answers(target: Path, sources: Iterable[Path]) -> int:
    """Copy all answers; if two folders have the same key, the later folder's answer is kept.

    Logs of killed processes in the target are collected. Repeating it is harmless: existing keys
    are overwritten.
    """
    copied = 0
    prepare(target)
    with lock_folder(target):
        database = AnswerDatabase(target)
        try:
            collect_logs(target, database.write)
            for source in sources:
                entries = read_answers(source)
                while batch := list(islice(entries, 2000)):
                    database.write(dict(batch))
                    copied += len(batch)
        finally:
            database.close()
    return copied
