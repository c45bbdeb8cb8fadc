"""Append-only files of JSON lines that survive the death of the process at any moment.

Rows are written by one thread in batches; an `append` returns when its rows have reached the
kernel, which a killed process cannot take back. They are forced to the disk about once a second and
when the journal is closed. Knows nothing of what the rows mean.
"""

from __future__ import annotations

import codecs
import errno
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from textassay.runtime.concurrency import AsyncResource
from textassay.runtime.errors import DataError, StorageError
from textassay.runtime.storage.files import decode, open_regular
from textassay.runtime.storage.group_commit import GroupCommit

SYNC_SECONDS = 1.0
"""Longest time that rows are in the kernel only, where a power cut would lose them."""

_BLOCK = 1 << 16


class Journal(AsyncResource):
    """A file of JSON lines that this process alone appends to."""

    def __init__(
        self, path: str | Path, *, sync_seconds: float = SYNC_SECONDS, retries: bool = False
    ) -> None:
        """Open or create the file, without a torn last line.

        With 0 `sync_seconds` every batch is forced to the disk before its `append` returns. With
        `retries` rows may be appended again after some were refused, by people who do not mean to
        stop because a disk was full for a while.
        """
        self.path = Path(path)
        self._commits = GroupCommit(
            _LineWriter(self.path, sync_seconds),
            name=f"the journal {self.path}",
            idle_seconds=SYNC_SECONDS,
            retries=retries,
        )

    async def append(self, *rows: bytes) -> None:
        """Append rows, next to each other; return once the kernel has them.

        A canceled `append` still waits for that: `CancelledError` means that the rows are written.
        """
        if not rows:
            return
        lines = b"\n".join(rows) + b"\n"
        if lines.count(b"\n") != len(rows):
            broken = next(row for row in rows if b"\n" in row)
            raise ValueError(f"a row of {self.path} contains a line break: {broken[:80]!r}")
        await self._commits.put(lines)

    async def aclose(self) -> None:
        """Write what is waiting, force it to the disk and close the file; safe to call twice."""
        await self._commits.aclose()

    def close(self) -> None:
        """Do what `aclose` does, blocking."""
        self._commits.close()


def read_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a file of JSON lines, also while it grows.

    A torn last line is left out.
    """
    for number, line in read_lines(path):
        yield parse_row(path, number, line)


def parse_row(path: str | Path, number: int, line: bytes) -> dict[str, Any]:
    """Return the JSON object on a line."""
    if line.isspace() or line.startswith(codecs.BOM_UTF8):
        what = "a blank line" if line.isspace() else "a byte order mark"
        raise DataError(
            f"{path}:{number}: {what}, which textassay never writes: the file was edited; remove it"
        )
    try:
        row = decode(line)
    except ValueError as error:
        raise DataError(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"{path}:{number}: not a JSON object but {type(row).__name__}")
    return row


def read_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Iterate over line numbers, from 1, and lines that are complete."""
    try:
        with os.fdopen(open_regular(Path(path), os.O_RDONLY), "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n") and not _is_complete(line):
                    return
                yield number, line
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error


def _is_complete(line: bytes) -> bool:
    """Return whether a last line without a line break is a whole row.

    No part of a JSON object is one itself.
    """
    try:
        return isinstance(decode(line), dict)
    except ValueError:
        return False


class _LineWriter:
    """Appends complete lines to a file; all its methods run on the journal's thread."""

    def __init__(self, path: Path, sync_seconds: float) -> None:
        self._path = path
        self._sync_seconds = sync_seconds
        self._descriptor = -1
        self._size = 0
        self._unsynced = False
        self._synced_at = time.monotonic()
        self._left: OSError | None = None

    def open(self) -> None:
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            with os.fdopen(open_regular(self._path, flags), "r+b") as file:
                _mend_last_line(file)
            # Reopened: appending mode puts every row at the end, wherever the repair stopped.
            self._descriptor = open_regular(self._path, os.O_WRONLY | os.O_APPEND)
            self._size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise self._refused(error) from error

    def write(self, batch: Sequence[bytes]) -> None:
        if self._left is not None:
            raise self._refused(self._left)
        rest = memoryview(b"".join(batch))
        written = 0
        try:
            # Checked before each batch: writing to a deleted file succeeds, and its rows are gone.
            self._refuse_absence()
            # On a disk that is almost full, a write may take only part of the bytes without an
            # error.
            while written < len(rest):
                written += os.write(self._descriptor, rest[written:])
            self._unsynced = True
            # A sync takes milliseconds on an SSD and far longer on a disk; once a second for all
            # rows together.
            if time.monotonic() - self._synced_at >= self._sync_seconds:
                self._sync()
        except OSError as error:
            self._take_back(error)
            raise self._refused(error) from error
        self._size += written

    def idle(self) -> None:
        try:
            self._sync()
        except OSError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        try:
            try:
                self._sync()
            finally:
                os.close(self._descriptor)
        except OSError as error:
            raise self._refused(error) from error

    def _refuse_absence(self) -> None:
        """Raise if the file was deleted or moved: what is written to it then would be lost."""
        if not os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
            raise FileNotFoundError(errno.ENOENT, "was replaced by another file", str(self._path))

    def _sync(self) -> None:
        if self._unsynced:
            os.fsync(self._descriptor)
            self._unsynced = False
            self._synced_at = time.monotonic()

    def _take_back(self, reason: OSError) -> None:
        """Remove what was written of a batch, whose waiters are about to learn that it was not."""
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError as error:
            # what is written next would follow rows that nobody was told of
            self._left = reason
            reason.add_note(f"and rows of a failed batch are left at the end of the file: {error}")

    def _refused(self, error: OSError) -> StorageError:
        return StorageError(
            f"{self._path} cannot be written: {error}; its earlier content is intact"
        )


def _mend_last_line(file: BinaryIO) -> None:
    """Cut off a torn last line, or end it if only its line break is missing."""
    end = file.seek(0, os.SEEK_END)
    # Read backwards in blocks, for the file of a long run may have gigabytes.
    start, tail = end, b""
    while start > 0 and b"\n" not in tail:
        size = min(_BLOCK, start)
        start -= size
        file.seek(start)
        tail = file.read(size) + tail
    last = tail[tail.rfind(b"\n") + 1 :]
    if not last:
        return
    if _is_complete(last):
        file.write(b"\n")
    else:
        file.truncate(end - len(last))
