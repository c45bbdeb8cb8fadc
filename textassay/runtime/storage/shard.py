"""Reads one file of answers, and says what a file of answers is.

The file is a diskcache database in which every row is a text key and inline bytes with their
checksum; anything else is damage. It is read through read-only SQLite connections: opening a second
`diskcache.Cache` would write its settings into a file that another process writes to, and SQLite
before 3.51.3 can corrupt a file with two writing connections.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from textassay.runtime.errors import StorageError, parameter
from textassay.runtime.storage.files import refuse_irregular

DATABASE = "cache.db"
"""Name of a shard's file, as diskcache gives it; SQLite keeps `-wal` and `-shm` beside it."""

JOURNAL = "-journal"
"""Suffix of what earlier versions left if they were killed while they created a shard."""

RAW = 1  # the mode of a value that lies in the row itself


def checksum(key: str, value: bytes) -> int:
    """Return what is stored beside a value, so that a changed key or value is noticed."""
    return zlib.crc32(value, zlib.crc32(key.encode()))


class ShardReader:
    """Reads one shard through a read-only connection, also while another process writes to it.

    May be used from any one thread at a time.

    Attributes:
        is_empty: Whether nothing had been written when the file was last looked at.
    """

    def __init__(self, folder: Path) -> None:
        """Open the shard in `folder`.

        Raises:
            StorageError: It is damaged or cannot be read.
        """
        self.file = folder / DATABASE
        refuse_linked_shards(folder)
        try:
            self._connection = connect_read_only(self.file)
            try:
                self.is_empty = self._has_no_table()
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise unusable(self.file, error) from error
        # one for all reads: making a cursor takes a tenth of a read
        self._cursor = self._connection.cursor()

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`.

        Raises:
            StorageError: The file is damaged, or holds something else than bytes under this key.
        """
        try:
            # until the first answer is written
            if self.is_empty:
                self.is_empty = self._has_no_table()
                if self.is_empty:
                    return None
            rows = self._cursor.execute(
                "SELECT mode, filename, tag, value FROM Cache WHERE key = ? AND raw = 1", (key,)
            ).fetchall()
        except sqlite3.Error as error:
            raise unusable(self.file, error) from error
        if not rows:
            return None
        # A checksum for every read: a damaged answer would otherwise become a score.
        problem = _problem(key, 1, *rows[0])
        if problem is not None:
            raise unusable(self.file, problem)
        return rows[0][3]  # type: ignore[no-any-return]  # its type was checked

    @property
    def in_transaction(self) -> bool:
        """Whether `begin` was called and `end` was not."""
        return self._connection.in_transaction

    def begin(self) -> None:
        """Have all reads until `end` see the file as it is at the first of them."""
        self._cursor.execute("BEGIN")

    def end(self) -> None:
        """Have later reads see what was written meanwhile."""
        if self._connection.in_transaction:  # an error while reading ends it as well
            self._cursor.execute("COMMIT")

    def count(self) -> int:
        """Return the number of entries."""
        if self.is_empty:
            return 0
        try:
            ((count,),) = self._connection.execute("SELECT COUNT(*) FROM Cache").fetchall()
        except sqlite3.Error as error:
            raise unusable(self.file, error) from error
        return int(count)

    def entries(self) -> Iterator[tuple[str, bytes | None, str | None]]:
        """Iterate over key, value and, in place of a value, what is wrong with it.

        Raises:
            StorageError: The file itself is damaged.
        """
        if self.is_empty:
            return
        try:
            for message in self._connection.execute("PRAGMA integrity_check(10)").fetchall():
                if message != ("ok",):
                    yield "", None, str(message[0])
            for key, *row in self._connection.execute(
                "SELECT key, raw, mode, filename, tag, value FROM Cache"
            ):
                problem = _problem(key, *row)
                yield str(key), None if problem else row[-1], problem
        except sqlite3.Error as error:
            raise unusable(self.file, error) from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _has_no_table(self) -> bool:
        found = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'Cache'")
        return not found.fetchall()


def size_on_disk(folder: Path) -> int:
    """Return the bytes of all files of a shard."""
    return sum(file.stat().st_size for file in files_of(folder) if file.exists())


def files_of(folder: Path) -> tuple[Path, ...]:
    """Return the files that a shard may have, in the order in which they are to be deleted."""
    # The log goes first: one that outlives its database would be applied to the next of that name.
    return tuple(folder / f"{DATABASE}{suffix}" for suffix in (JOURNAL, "-wal", "-shm", ""))


def unusable(file: Path, reason: object) -> StorageError:
    """Return the error for a file that cannot be read or written, with what to do."""
    return StorageError(
        f"the cache file {file} cannot be used: {reason}; free space or permissions may help, and "
        f"`textassay cache verify {file.parent.parent}` shows what is damaged"
    )


def _problem(key: Any, raw: Any, mode: Any, filename: Any, tag: Any, value: Any) -> str | None:
    """Return what is wrong with a row, or `None`."""
    if raw != 1 or type(key) is not str:
        return "a key that is not text, which textassay never writes"
    if mode != RAW or filename is not None or type(value) is not bytes:
        return (
            f"the value of {key} is not plain bytes (mode {mode!r}), which textassay never writes"
        )
    if tag != checksum(key, value):
        return f"the value of {key} does not match its checksum"
    return None


def refuse_linked_shards(folder: Path) -> None:
    """Refuse a shard with links or pipes in place of its files, which would lead elsewhere or hang.

    Raises:
        StorageError: The folder is a link, or something in it is no regular file.
    """
    if folder.is_symlink():
        raise StorageError(
            f"{folder} is a link, which textassay never makes; remove it, or name the folder it "
            f"leads to with {parameter('cache')}"
        )
    for file in files_of(folder):
        try:
            refuse_irregular(file)
        except OSError as error:
            raise unusable(file, error.strerror) from error


def connect_read_only(file: Path) -> sqlite3.Connection:
    """Return a connection that cannot write to the database.

    In a folder that cannot be written to, the file is opened as immutable: SQLite would otherwise
    try to create an index beside it.

    Raises:
        StorageError: The folder cannot be written to, and some answers are still in the log beside
            the file, if they can only be read together with such an index.
    """
    mode = "mode=ro"
    if not os.access(file.parent, os.W_OK):
        log = file.with_name(f"{file.name}-wal")
        if log.exists() and log.stat().st_size and not file.with_name(f"{file.name}-shm").exists():
            raise StorageError(
                f"{log} contains answers that cannot be read in a read-only folder; copy "
                f"{file.parent.parent} to a writable place and read the copy"
            )
        if not log.exists() or not log.stat().st_size:
            # Safe only without a log: SQLite ignores the log of a file that it takes for immutable.
            mode = "immutable=1"
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=60,
        isolation_level=None,
        check_same_thread=False,
    )
