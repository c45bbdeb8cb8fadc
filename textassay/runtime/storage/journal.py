"""Append-only files of JSON lines that survive the death of the process at any moment.

An `append` returns when its rows have reached the kernel, so a killed process does not lose them.
They are forced to the disk about once a second, when the journal is closed, and on request. The
content of rows is not known here.
"""

from __future__ import annotations

import codecs
import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from textassay.runtime.concurrency import AsyncResource, in_thread
from textassay.runtime.errors import DataError, StorageError
from textassay.runtime.storage.files import decode, open_regular, storage_errors


class Journal(AsyncResource):
    """A file of JSON lines to which only this process appends."""

    def __init__(self, path: str | Path) -> None:
        """Open or create the file, without a torn last line."""
        self.path = Path(path)
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            with os.fdopen(open_regular(self.path, flags), "r+b") as file:
                _mend_last_line(file)
            # Reopened in appending mode, so that every row is at the end, wherever the repair
            # stopped.
            self._descriptor = open_regular(self.path, os.O_WRONLY | os.O_APPEND)
            self._made = os.fstat(self._descriptor)
            self._size = self._made.st_size
        except OSError as error:
            raise self._write_error(error) from error
        self._left: OSError | None = None
        # A sync takes milliseconds on an SSD and far longer on a disk, and would hold up the loop.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"the journal {self.path}")
        self._is_sync_due = self._closed = False
        self._closing = threading.Event()
        self._sync_error: StorageError | None = None

    def append(self, *rows: bytes) -> None:
        """Append consecutive rows and return when the kernel has them, after microseconds.

        Raises:
            StorageError: They could not be written (then none of them was), or earlier rows could
                not be forced to the disk.
        """
        if not rows:
            return
        lines = b"\n".join(rows) + b"\n"
        if lines.count(b"\n") != len(rows):
            broken = next(row for row in rows if b"\n" in row)
            raise ValueError(f"a row of {self.path} contains a line break: {broken[:80]!r}")
        if self._closed:
            raise StorageError(f"the journal {self.path} is closed")
        self._raise_sync_error()
        if self._left:
            raise self._write_error(self._left)
        self._write(lines)
        if not self._is_sync_due:
            self._is_sync_due = True
            self._thread.submit(self._sync_soon)

    async def sync(self) -> None:
        """Force appended rows to the disk; a cancellation waits for this as well."""
        await in_thread(self._sync)

    async def aclose(self) -> None:
        """Force everything to the disk and close the file; safe to call twice."""
        await in_thread(self.close)

    def close(self) -> None:
        """Close like `aclose`, but blocking."""
        if self._closed:
            return
        self._closed = True
        self._closing.set()
        self._thread.shutdown()
        try:
            self._raise_sync_error()
        finally:
            os.close(self._descriptor)

    def _write(self, lines: bytes) -> None:
        try:
            # Checked before each write, since writing to a deleted file succeeds and loses the
            # rows.
            if not os.path.samestat(self.path.stat(), self._made):
                raise FileNotFoundError(
                    errno.ENOENT, "was replaced by another file", str(self.path)
                )
            # On an almost full disk, a write may accept only part of the bytes without an error.
            count = os.write(self._descriptor, lines)
            while count < len(lines):
                count += os.write(self._descriptor, lines[count:])
        except OSError as error:
            self._take_back(error)
            raise self._write_error(error) from error
        self._size += count

    def _take_back(self, reason: OSError) -> None:
        """Remove the written part of rows whose `append` fails."""
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError as error:
            # later rows would follow failed ones
            self._left = reason
            reason.add_note(f"and rows that failed are left at the end of the file: {error}")

    def _sync_soon(self) -> None:
        # Until then rows are only in the kernel, where a power cut would lose them.
        self._closing.wait(1.0)
        self._is_sync_due = False  # before the sync: rows that are appended meanwhile need another
        try:
            self._sync()
        except StorageError as error:
            self._sync_error = error

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._write_error(error) from error

    def _raise_sync_error(self) -> None:
        error, self._sync_error = self._sync_error, None
        if error:
            raise error

    def _write_error(self, error: OSError) -> StorageError:
        return StorageError(
            f"{self.path} cannot be written: {error}; its earlier content is intact"
        )


def read_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a file of JSON lines, which may grow, except a torn last row."""
    for number, line in read_lines(path):
        yield parse_row(path, number, line)


def parse_row(path: str | Path, number: int, line: bytes) -> dict[str, Any]:
    """Return the JSON object on a line."""
    if line.isspace() or line.startswith(codecs.BOM_UTF8):
        part = "blank line" if line.isspace() else "byte order mark"
        raise DataError(f"{path}:{number}: unexpected {part} (the file was edited); remove it")
    try:
        row = decode(line)
    except ValueError as error:
        raise DataError(f"{path}:{number}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"{path}:{number}: not a JSON object but {type(row).__name__}")
    return row


def read_lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Iterate over line numbers, from 1, and complete lines."""
    with (
        storage_errors(f"{path} cannot be read"),
        os.fdopen(open_regular(Path(path), os.O_RDONLY), "rb") as file,
    ):
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n") and not _is_complete(line):
                return
            yield number, line


def _is_complete(line: bytes) -> bool:
    """Return whether a last line without a line break is a whole row."""
    try:
        return isinstance(decode(line), dict)
    except ValueError:
        return False


def _mend_last_line(file: BinaryIO) -> None:
    """Cut off a torn last line, or end it if only its line break is missing."""
    end = file.seek(0, os.SEEK_END)
    # Read backwards in blocks, since the file of a long run may have gigabytes.
    start, tail = end, b""
    while start > 0 and b"\n" not in tail:
        size = min(1 << 16, start)
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
