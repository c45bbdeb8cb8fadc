"""The database of a cache folder, `cache.db`: a diskcache database of text keys and bytes.

diskcache evicts by default and pickles values other than text and bytes; this one never evicts, and
keeps bytes with their checksums in its rows. `AnswerDatabase` writes it through diskcache.
`DatabaseReader` reads it through SQLite: one query answers all lookups of a turn of the event loop,
as single lookups through diskcache take a quarter more CPU time in a cached run. It does not write
diskcache's settings into a folder that is in use or read-only.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import diskcache
import filelock

from textassay.runtime.errors import StorageError
from textassay.runtime.storage.answer_log import checksum, unusable

DATABASE = "cache.db"
"""diskcache's name of the database; SQLite keeps `-wal` and `-shm` beside it."""
_SETTINGS: dict[str, Any] = {
    # diskcache is a cache and evicts by default; these answers were paid for.
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**62,
    "statistics": 0,
    "tag_index": 0,
    # All values inline: a value in its own file could be lost separately.
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
_VALUES_PER_QUERY = 500
"""SQLite takes 999 values in a query, or more."""
_LOCK_SECONDS = 60.0


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a cache folder: one process writes at a time.

    SQLite before 3.51.3 can corrupt a file that two connections write to at the same moment.
    """
    lock = filelock.FileLock(folder / ".lock", thread_local=False)
    try:
        # a commit takes some milliseconds
        lock.acquire(timeout=_LOCK_SECONDS, poll_interval=0.002)
    except filelock.Timeout as error:
        raise StorageError(
            f"the cache folder {folder} has been locked by another process for {_LOCK_SECONDS:g} s"
        ) from error
    except OSError as error:
        raise StorageError(f"the cache folder {folder} cannot be written to: {error}") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def errors_as_unusable(file: Path) -> Iterator[None]:
    """Raise errors of files and databases as a `StorageError` that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError, diskcache.Timeout) as error:
        raise unusable(file, error) from error


class _BytesInRows(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Keeps bytes in the rows of a database: nothing is pickled, and no value has its own file."""

    def store(self, value: Any, read: bool, key: Any = None) -> Any:
        """Return the stored form of a value; types other than bytes would be pickled."""
        if type(value) is not bytes:
            raise StorageError(f"a cached value must be bytes, not {type(value).__name__}")
        return super().store(value, read, key)

    def remove(self, file_path: Any) -> None:
        """Refuse: values have no files, and an untrusted row could name any file."""
        file = Path(self._directory) / DATABASE
        raise unusable(file, f"a value is in the file {file_path!r}, which textassay never writes")


class AnswerDatabase:
    """Writes answers; to be used from one thread, under the folder's lock."""

    def __init__(self, folder: Path) -> None:
        """Create the database or open it, which writes diskcache's settings."""
        self._file = folder / DATABASE
        with errors_as_unusable(self._file):
            if self._file.exists():
                _check_readable(self._file)
            self._cache = diskcache.Cache(str(folder), timeout=60, disk=_BytesInRows, **_SETTINGS)
            self._made = self._file.stat()

    def write(self, answers: Mapping[str, bytes]) -> None:
        """Write all answers in one transaction."""
        with errors_as_unusable(self._file):
            # SQLite continues to write to a deleted file, and paid answers would be lost
            if not os.path.samestat(self._file.stat(), self._made):
                raise FileNotFoundError(
                    errno.ENOENT, "was replaced by another file", str(self._file)
                )
            with self._cache.transact():
                for key, value in answers.items():
                    self._cache.set(key, value, tag=checksum(key, value))

    def close(self) -> None:
        """Close the connection; the last one of all processes moves SQLite's log into the file."""
        self._cache.close()


def _check_readable(file: Path) -> None:
    """Read first, since diskcache leaves a connection to a damaged file open."""
    # not read-only, so that transactions of killed processes are rolled back
    with closing(sqlite3.connect(file)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'Settings'").fetchall():
            connection.execute("SELECT key FROM Settings").fetchall()  # from its index


class DatabaseReader:
    """Reads the database without writing to it, also while another process does.

    May be used from any one thread at a time.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / DATABASE
        # In a folder that cannot be written to, SQLite cannot make an index of its log; without a
        # log the file does not change, and needs none.
        log = self.file.with_name(f"{DATABASE}-wal")
        is_fixed = not os.access(folder, os.W_OK) and not log.exists()
        with errors_as_unusable(self.file):
            self._connection = sqlite3.connect(
                f"{self.file.absolute().as_uri()}?{'immutable=1' if is_fixed else 'mode=ro'}",
                uri=True,
                timeout=60,
                isolation_level=None,
                check_same_thread=False,
            )

    def find(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values of existing keys."""
        query = "SELECT key, value, tag FROM Cache WHERE key IN ({}) AND raw = 1"
        return self._find(query, "?", keys)

    def find_groups(self, groups: Sequence[str]) -> dict[str, bytes]:
        """Return the values of all keys `GROUP/...` of some groups."""
        # 0 is the character after /
        query = (
            "WITH wanted(name) AS (VALUES {}) SELECT key, value, tag FROM wanted CROSS JOIN Cache "
            "WHERE key > name || '/' AND key < name || '0' AND raw = 1"
        )
        return self._find(query, "(?)", groups)

    def count(self) -> int:
        """Return the number of entries."""
        return sum(count for (count,) in self._rows("SELECT COUNT(*) FROM Cache"))

    def entries(self) -> Iterator[tuple[str, bytes, str]]:
        """Iterate over key, value and its fault, empty without a fault."""
        for (message,) in self._rows("PRAGMA integrity_check(10)"):
            if message != "ok":
                yield "", b"", str(message)
        for key, value, tag in self._rows("SELECT key, value, tag FROM Cache"):
            sound = type(key) is str and type(value) is bytes and tag == checksum(key, value)
            yield str(key), value, "" if sound else _damage_message(key)

    def close(self) -> None:
        self._connection.close()

    def _find(self, query: str, mark: str, values: Sequence[str]) -> dict[str, bytes]:
        """Return key and value of each row, for a query that takes any number of values."""
        values_by_key: dict[str, bytes] = {}
        for start in range(0, len(values), _VALUES_PER_QUERY):
            some = values[start : start + _VALUES_PER_QUERY]
            for key, value, tag in self._rows(query.format(",".join([mark] * len(some))), some):
                if type(value) is not bytes or tag != checksum(key, value):
                    raise unusable(self.file, _damage_message(key))
                values_by_key[key] = value
        return values_by_key

    def _rows(self, query: str, values: Sequence[str] = ()) -> Iterator[Any]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            if str(error) == "no such table: Cache":  # its maker was killed before its first answer
                return
            raise unusable(self.file, error) from error


def _damage_message(key: object) -> str:
    return f"the value of {key} does not match its checksum"
