"""A cache folder: its marker, and the operations of `textassay cache`.

textassay-cache.json     marks the folder as ours, with the format's number
.lock                    held while a process commits or deletes answers
cache.db                 the answers, a diskcache database
pending-ID-N             logs of one open store: answers that are not in the database yet
pending-ID.lock          held while that store is open
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import orjson

from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.storage.answer_database import DATABASE, DatabaseReader, lock_folder
from textassay.runtime.storage.answer_log import logs, read_log, unusable
from textassay.runtime.storage.files import (
    check_regular_file,
    is_unfinished,
    read_regular,
    storage_errors,
    write_json,
)

FORMAT = 1
MARKER = "textassay-cache.json"


class StoreInfo(NamedTuple):
    """The content of a store of answers."""

    folder: Path
    entries: int
    """Number of answers; an answer that is being moved from a log into the database may count
    twice.
    """
    bytes: int
    """Size on disk."""


class Verification(NamedTuple):
    """The result of `verify`."""

    folder: Path
    entries: int
    """Number of valid entries."""
    problems: tuple[str, ...]
    """The first hundred faults: file, and key if it is known."""

    @property
    def ok(self) -> bool:
        """Whether all entries are valid."""
        return not self.problems


def is_cache_folder(folder: Path) -> bool:
    """Return whether `folder` has the marker of a cache folder."""
    return (folder / MARKER).is_file()


def holds_answers(folder: Path) -> bool:
    """Return whether there is a cache folder; a missing or empty folder can become one."""
    _check_own_files(folder)
    return is_cache_folder(folder)


def require(folder: Path) -> None:
    """Refuse a folder that is not a cache folder, has another format, or has links among its files.

    Links and pipes, which textassay never makes, could lead to other files, or hang.
    """
    if not is_cache_folder(folder):
        raise ConfigurationError(f"{folder} is not a cache folder: it has no {MARKER}")
    try:
        with storage_errors(f"the cache folder {folder} cannot be used"):
            number = orjson.loads(read_regular(folder / MARKER))["format"]
            for file in (*_database_files(folder), *logs(folder)):
                check_regular_file(file)
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise StorageError(
            f'{folder / MARKER} is damaged; it should contain {{"format": {FORMAT}}}'
        ) from error
    if number != FORMAT:
        raise ConfigurationError(
            f"the cache folder {folder} has format {number!r}, and this version of textassay reads"
            f" {FORMAT}; use another folder or another version of textassay"
        )


def prepare(folder: Path) -> None:
    """Create a cache folder if it is missing or empty; otherwise `require` it."""
    _check_own_files(folder)
    if not is_cache_folder(folder):
        with storage_errors(f"the cache folder {folder} cannot be created"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.name == "posix":
                folder.chmod(0o700)
            # replaced in one step: several processes may do so at once
            description = "answers of models, kept by textassay"
            write_json(folder / MARKER, {"what": description, "format": FORMAT})
    require(folder)


def read_answers(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Iterate over the keys and values of a cache folder; a key's newest value comes last."""
    require(folder)
    for file, key, value, problem in _entries(folder):
        if problem:
            raise unusable(file, f"{key}: {problem}")
        yield key, value


def info(folder: str | Path) -> StoreInfo:
    """Return the size of a cache folder, which may be in use."""
    folder = Path(folder)
    require(folder)
    entries = sum(len(read_log(file)[0]) for file in logs(folder))
    if (folder / DATABASE).exists():
        with closing(DatabaseReader(folder)) as reader:
            entries += reader.count()
    return StoreInfo(folder, entries, _size(folder))


def verify(folder: str | Path, decode: Callable[[bytes], object] = bytes) -> Verification:
    """Read all of a cache folder, which may be in use, and report faults."""
    folder = Path(folder)
    require(folder)
    sound, problems = 0, list[str]()
    try:
        for file, key, value, problem in _entries(folder):
            if defect := problem or _undecodable(key, value, decode):
                problems.append(f"{file}: {defect}")
            else:
                sound += 1
    except StorageError as error:
        problems.append(f"{folder / DATABASE}: {error.__cause__ or error}")
    return Verification(folder=folder, entries=sound, problems=tuple(problems[:100]))


def clear(folder: str | Path) -> StoreInfo:
    """Delete all answers in a cache folder, and return its previous size."""
    folder = Path(folder)
    require(folder)
    with lock_folder(folder):
        _check_closed(folder / DATABASE)
        try:
            before = info(folder)
        except StorageError:  # unreadable, which is a reason to clear it
            before = StoreInfo(folder, 0, _size(folder))
        with storage_errors(f"the cache folder {folder} cannot be cleared"):
            for each in (*_database_files(folder), *logs(folder)):
                each.unlink(missing_ok=True)
    return before


def _check_own_files(folder: Path) -> None:
    """Refuse a file, and a folder with other files."""
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"the cache folder {folder} is a file")
    is_new = not folder.is_dir() or all(is_unfinished(e.name) for e in folder.iterdir())
    # in this order, since another process may create the marker meanwhile
    if not is_new and not is_cache_folder(folder):
        raise ConfigurationError(
            f"{folder} contains other files and is not a cache folder; choose a new or empty folder"
        )


def _check_closed(file: Path) -> None:
    """Refuse a database that is open elsewhere, which prevents it from leaving WAL mode."""
    try:
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.DatabaseError as error:  # any other error: the file is damaged
        if "locked" in str(error):
            raise ConfigurationError(
                f"the cache folder {file.parent} is in use by another process; clear it when "
                "that has ended"
            ) from None


def _entries(folder: Path) -> Iterator[tuple[Path, str, bytes, str]]:
    """Iterate over file, key, value and its fault; a key's newest value comes last."""
    # read before the database: an answer that is moved meanwhile is found in both
    logged = [(file, *read_log(file)) for file in logs(folder)]
    file = folder / DATABASE
    if file.exists():
        with closing(DatabaseReader(folder)) as reader:
            for entry in reader.entries():
                yield file, *entry
    for log, answers, problem in logged:
        for key, value in answers.items():
            yield log, key, value, ""
        if problem:
            yield log, "", b"", problem


def _database_files(folder: Path) -> list[Path]:
    """Return the files of the database, in the order of deletion."""
    # The log comes first: a remaining log would be applied to the next database of that name.
    return [folder / f"{DATABASE}{end}" for end in ("-journal", "-wal", "-shm", "")]


def _size(folder: Path) -> int:
    size = 0
    for each in (*_database_files(folder), *logs(folder)):
        with suppress(FileNotFoundError):
            size += each.stat().st_size
    return size


def _undecodable(key: str, value: bytes, decode: Callable[[bytes], object]) -> str:
    try:
        decode(value)
    except ValueError as error:
        return f"the value of {key} cannot be decoded: {error}"
    return ""
