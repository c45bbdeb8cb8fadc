"""Logs of answers: uncommitted answers of an open store survive its process.

    pending-ID-N       a log of one open store: answers that are not in the database yet
    pending-ID.lock    held while that store is open; who gets it may collect the logs

A record is the lengths of key and value, their checksum, and both. A process that is killed, or a
power cut, leaves an unfinished record at the end, which is dropped.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import FileIO
from itertools import count
from pathlib import Path

import filelock

from textassay.runtime.errors import StorageError
from textassay.runtime.storage.files import read_regular

_NAME = "pending-"
_RECORD = struct.Struct("<III")
_log = logging.getLogger(__name__)


def checksum(key: str, value: bytes) -> int:
    """Return the checksum that is stored with an answer, to detect a changed key or value."""
    return zlib.crc32(value, zlib.crc32(key.encode()))


def unusable(file: Path, reason: object) -> StorageError:
    """Return the error for a file that cannot be read or written, with advice."""
    return StorageError(
        f"the cache file {file} cannot be used: {reason}; free space or permissions may help, and "
        f"`textassay cache verify {file.parent}` shows the damage"
    )


class AnswerLog:
    """The logs of one open store: a new log receives answers while the last is committed."""

    def __init__(self, folder: Path) -> None:
        """Reserve a unique name, under the folder's lock, or the log would count as abandoned."""
        owner = secrets.token_hex(8)
        self._paths = log_paths(folder, owner)
        self._path = next(self._paths)
        self._file: FileIO | None = None
        self.size = 0
        self._lock = _owner_lock(folder, owner)
        self._lock.acquire(blocking=False)

    def append(self, key: str, value: bytes) -> None:
        """Append an answer in one write to the kernel."""
        record = log_record(key, value)
        try:
            if self._file is None:
                self._file = self._path.open("xb", buffering=0)
            if self._file.write(record) < len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise unusable(self._path, error) from error
        self.size += len(record)

    def change(self) -> Path:
        """Start a new log; return the previous one."""
        self._close_file()
        path, self._path, self.size = self._path, next(self._paths), 0
        return path

    def close(self) -> None:
        """Release the logs; remaining answers are collected when the folder is opened again."""
        self._close_file()
        self._lock.release()
        try:
            Path(self._lock.lock_file).unlink(missing_ok=True)
        except OSError as error:
            raise unusable(Path(self._lock.lock_file), error) from error

    def _close_file(self) -> None:
        if self._file:
            self._file.close()
            self._file = None


def log_paths(folder: Path, owner: str) -> Iterator[Path]:
    """Iterate over the paths of an owner's logs, in order."""
    return (folder / f"{_NAME}{owner}-{number:010}" for number in count())


def log_record(key: str, value: bytes) -> bytes:
    """Return an answer as a record of a log."""
    name = key.encode()
    return _RECORD.pack(len(name), len(value), checksum(key, value)) + name + value


def logs(folder: Path, owner: str = "*") -> list[Path]:
    """Return the logs of an owner, or of all owners, oldest first."""
    return sorted(folder.glob(f"{_NAME}{owner}-*"))


def read_log(file: Path) -> tuple[dict[str, bytes], str]:
    """Return the present answers of a log, and its fault, empty without a fault.

    Raises:
        StorageError: The file cannot be read.
    """
    answers: dict[str, bytes] = {}
    try:
        content = read_regular(file)
    except FileNotFoundError:  # committed meanwhile
        return answers, ""
    except OSError as error:
        raise unusable(file, error) from error
    at = 0
    while at + _RECORD.size <= len(content):
        key_size, value_size, check = _RECORD.unpack_from(content, at)
        middle = at + _RECORD.size + key_size
        # a key that is not UTF-8 has a wrong checksum
        key = content[middle - key_size : middle].decode(errors="replace")
        value = content[middle : middle + value_size]
        at = middle + value_size
        if at > len(content) or not key_size:
            break
        if checksum(key, value) != check:
            return answers, f"the record after {len(answers)} answers is damaged"
        answers[key] = value
    return answers, ""


def collect_logs(folder: Path, commit: Callable[[Mapping[str, bytes]], None]) -> None:
    """Commit the answers in logs of killed processes, and remove these logs."""
    owners = {
        entry.name.removeprefix(_NAME).removesuffix(".lock").partition("-")[0]
        for entry in folder.glob(f"{_NAME}*")
    }
    for owner in owners:
        lock = _owner_lock(folder, owner)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:  # its process is running
            continue
        try:
            for file in logs(folder, owner):
                answers, problem = read_log(file)
                if problem:
                    _log.warning("%s: %s; what came before is kept", file, problem)
                commit(answers)
                file.unlink()
        finally:
            lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _owner_lock(folder: Path, owner: str) -> filelock.BaseFileLock:
    return filelock.FileLock(folder / f"{_NAME}{owner}.lock", thread_local=False)
