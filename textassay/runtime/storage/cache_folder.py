"""A cache folder: its marker, lock and database, read only; and what the command line does to it.

    textassay-cache.json    marks the folder as ours, with the format's number
    .lock                   held while a process creates, commits or deletes answers
    cache.db                the answers, a diskcache database
    pending-ID-N            logs of one open store: answers that are not in the database yet
    pending-ID.lock         held while that store is open

In the database every row is a text key and inline bytes with their checksum; anything else is
damage. Here it is read through SQLite alone, as diskcache would write its settings into it: the
folder may be in use, or on a disk that cannot be written to.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import orjson

from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.storage.files import (
    is_unfinished,
    read_regular,
    refuse_irregular,
    write_json,
)

FORMAT = 1
MARKER = "textassay-cache.json"
DATABASE = "cache.db"
"""Name of the database, as diskcache gives it; SQLite keeps `-wal` and `-shm` beside it."""
RAW = 1
"""The mode of a value that lies in the row itself."""
MAX_PROBLEMS = 100

_SELECT = "SELECT key, raw, mode, filename, tag, value FROM Cache"
_KEYS_PER_QUERY = 500
"""SQLite takes 999 values in a query, or more."""
_LOCK = ".lock"
_LOCK_SECONDS = 60.0
_POLL_SECONDS = 0.002
"""Between two looks whether the lock is free: a commit takes some milliseconds."""
LOG = "pending-"
_RECORD = struct.Struct("<III")
"""How a record of a log begins: bytes of key and value, which follow, and their checksum."""


class StoreInfo(NamedTuple):
    """What a store of answers holds."""

    folder: Path
    entries: int
    """Answers; one that is just moved from a log into a database may count twice."""
    bytes: int
    """Size on disk."""


class Verification(NamedTuple):
    """What `verify` found."""

    folder: Path
    entries: int
    """Entries that were read and are well."""
    problems: tuple[str, ...]
    """What is damaged: file, and key if it is known; at most `MAX_PROBLEMS`."""

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


def checksum(key: str, value: bytes) -> int:
    """Return what is stored beside a value, so that a changed key or value is noticed."""
    return zlib.crc32(value, zlib.crc32(key.encode()))


def unusable(file: Path, reason: object) -> StorageError:
    """Return the error for a file that cannot be read or written, with what to do."""
    return StorageError(
        f"the cache file {file} cannot be used: {reason}; free space or permissions may help, and "
        f"`textassay cache verify {file.parent}` shows what is damaged"
    )


def is_cache_folder(folder: Path) -> bool:
    """Return whether `folder` has the marker of a cache folder."""
    return (folder / MARKER).is_file()


def was_begun(folder: Path) -> bool:
    """Return whether a folder holds only what an interrupted creation of a cache folder leaves."""
    return folder.is_dir() and all(
        entry.name == _LOCK or is_unfinished(entry.name, MARKER) for entry in folder.iterdir()
    )


def holds_answers(folder: Path) -> bool:
    """Return whether there is a cache folder: one that is missing or empty can become one."""
    _refuse_foreign(folder)
    return is_cache_folder(folder)


def require(folder: Path) -> None:
    """Refuse a folder that is no cache folder, or has a newer format."""
    if not is_cache_folder(folder):
        raise ConfigurationError(f"{folder} is not a cache folder: it has no {MARKER}")
    try:
        number = orjson.loads(read_regular(folder / MARKER))["format"]
    except OSError as error:
        raise StorageError(f"{folder / MARKER} cannot be read: {error}") from error
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
    """Create the folder and its marker if missing, and check them."""
    _refuse_foreign(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the cache folder {folder} cannot be created: {error}") from error
    if is_cache_folder(folder):
        require(folder)
        return
    with locked(cache_lock(folder)):
        if is_cache_folder(folder):  # made by another process meanwhile
            require(folder)
            return
        _refuse_foreign(folder)
        try:
            if os.name == "posix":
                folder.chmod(0o700)
            write_json(
                folder / MARKER,
                {"what": "answers of models, kept by textassay", "format": FORMAT},
            )
        except OSError as error:
            raise StorageError(
                f"the cache folder {folder} cannot be written to: {error}"
            ) from error


def cache_lock(folder: Path) -> filelock.BaseFileLock:
    """Return the lock of a folder: one process writes at a time.

    SQLite before 3.51.3 can corrupt a file that two connections write to at the same moment.
    """
    return filelock.FileLock(folder / _LOCK, thread_local=False)


@contextmanager
def locked(lock: filelock.BaseFileLock) -> Iterator[None]:
    """Hold the lock of a folder."""
    folder = Path(lock.lock_file).parent
    try:
        lock.acquire(timeout=_LOCK_SECONDS, poll_interval=_POLL_SECONDS)
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


def logs(folder: Path) -> list[Path]:
    """Return the logs of answers that are not in the database yet, an owner's oldest first."""
    return sorted(folder.glob(f"{LOG}*-*"))


def log_paths(folder: Path, owner: str) -> Iterator[Path]:
    """Iterate over where the logs of an owner lie, one after the other."""
    return (folder / f"{LOG}{owner}-{number:010}" for number in count())


def log_owner(entry: Path) -> str:
    """Return whose log or lock this is."""
    return entry.name.removeprefix(LOG).removesuffix(".lock").partition("-")[0]


def log_lock(folder: Path, owner: str) -> filelock.BaseFileLock:
    """Return the lock that the owner of logs holds; whoever else gets it may collect them."""
    return filelock.FileLock(folder / f"{LOG}{owner}.lock", thread_local=False)


def log_record(key: str, value: bytes) -> bytes:
    """Return an answer as a log keeps it."""
    name = key.encode()
    return _RECORD.pack(len(name), len(value), checksum(key, value)) + name + value


def read_log(file: Path) -> tuple[dict[str, bytes], str]:
    """Return the answers that a log holds at this moment, and what is damaged, empty if nothing is.

    A record that its process, or the disk in a power cut, did not finish writing is left out.
    """
    answers: dict[str, bytes] = {}
    refuse_links(file)
    try:
        content = read_regular(file)
    except FileNotFoundError:  # its process has ended well meanwhile
        return answers, ""
    except OSError as error:
        raise unusable(file, error) from error
    at = 0
    while at + _RECORD.size <= len(content):
        key_size, value_size, check = _RECORD.unpack_from(content, at)
        middle = at + _RECORD.size + key_size
        # a key that is no UTF-8 has another checksum
        key = content[middle - key_size : middle].decode(errors="replace")
        value = content[middle : middle + value_size]
        at = middle + value_size
        if at > len(content) or not key_size:
            break
        if checksum(key, value) != check:
            return answers, f"the record after {len(answers)} answers is damaged"
        answers[key] = value
    return answers, ""


def refuse_links(file: Path) -> None:
    """Refuse a database with links or pipes in place of its files, which lead elsewhere or hang."""
    for each in _files_of(file):
        try:
            refuse_irregular(each)
        except OSError as error:
            raise unusable(each, error.strerror) from error


class Reader:
    """Reads the database without writing to it, also while another process does.

    May be used from any one thread at a time.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        refuse_links(file)
        try:
            self._connection = _connect_read_only(file)
        except sqlite3.Error as error:
            raise unusable(file, error) from error

    def find(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values of those keys that are there."""
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            some = keys[start : start + _KEYS_PER_QUERY]
            where = f"WHERE key IN ({','.join('?' * len(some))}) AND raw = 1"
            for key, *row in self._rows(f"{_SELECT} {where}", some):
                if problem := _problem(key, *row):
                    raise unusable(self.file, problem)
                found[key] = row[-1]
        return found

    def count(self) -> int:
        """Return the number of entries."""
        return sum(count for (count,) in self._rows("SELECT COUNT(*) FROM Cache"))

    def entries(self) -> Iterator[tuple[str, bytes, str]]:
        """Iterate over key, value and what is wrong with it, empty if nothing is."""
        for (message,) in self._rows("PRAGMA integrity_check(10)"):
            if message != "ok":
                yield "", b"", str(message)
        for key, *row in self._rows(_SELECT):
            yield str(key), row[-1], _problem(key, *row)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, query: str, values: Sequence[str] = ()) -> Iterator[Any]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            if str(error) == "no such table: Cache":  # its maker was killed before its first answer
                return
            raise unusable(self.file, error) from error


def _entries(folder: Path) -> Iterator[tuple[Path, str, bytes, str]]:
    """Iterate over file, key, value and what is wrong with it; a key's newest value comes last."""
    # read before the database: what is moved from one to the other meanwhile is found in both
    logged = [(file, *read_log(file)) for file in logs(folder)]
    file = folder / DATABASE
    if os.path.lexists(file):
        with closing(Reader(file)) as reader:
            for entry in reader.entries():
                yield file, *entry
    for log, answers, problem in logged:
        for key, value in answers.items():
            yield log, key, value, ""
        if problem:
            yield log, "", b"", problem


def read_answers(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Iterate over the keys and values of a cache folder; a key's newest value comes last."""
    require(folder)
    for file, key, value, problem in _entries(folder):
        if problem:
            raise unusable(file, f"{key}: {problem}")
        yield key, value


def info(folder: str | Path) -> StoreInfo:
    """Return what a cache folder holds, also while it is in use."""
    folder = Path(folder)
    require(folder)
    entries = sum(len(read_log(file)[0]) for file in logs(folder))
    if os.path.lexists(folder / DATABASE):
        with closing(Reader(folder / DATABASE)) as reader:
            entries += reader.count()
    return StoreInfo(folder, entries, _size(folder))


def verify(folder: str | Path, decode: Callable[[bytes], object] = bytes) -> Verification:
    """Read all of a cache folder, which may be in use, and report what is damaged."""
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
    return Verification(folder=folder, entries=sound, problems=tuple(problems[:MAX_PROBLEMS]))


def clear(folder: str | Path) -> StoreInfo:
    """Delete all answers in a cache folder, which stays, and return what it held."""
    folder = Path(folder)
    require(folder)
    with locked(cache_lock(folder)):
        database = folder / DATABASE
        for file in (database, *logs(folder)):
            refuse_links(file)
        _refuse_use(database)
        try:
            found = info(folder)
        except StorageError:  # too damaged to be read, which is a reason to clear it
            found = StoreInfo(folder, 0, _size(folder))
        try:
            for each in (*_files_of(database), *logs(folder)):
                each.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"the cache folder {folder} cannot be cleared: {error}") from error
    return found


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"the cache folder {folder} is a file")
    if folder.is_dir() and not is_cache_folder(folder) and not was_begun(folder):
        raise ConfigurationError(
            f"{folder} contains other files and is not a cache folder; choose a new or empty folder"
        )


def _refuse_use(file: Path) -> None:
    """Refuse a database that is open anywhere: leaving its WAL mode needs it alone."""
    try:
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.DatabaseError as error:  # any other: it is damaged
        if "locked" in str(error):
            raise ConfigurationError(
                f"the cache folder {file.parent} is in use by another process; clear it when "
                "that has ended"
            ) from None


def _files_of(file: Path) -> tuple[Path, ...]:
    """Return the files of a database, in the order in which they are to be deleted."""
    # The log goes first: one that outlives its database would be applied to the next of that name.
    return tuple(file.with_name(f"{file.name}{end}") for end in ("-journal", "-wal", "-shm", ""))


def _size(folder: Path) -> int:
    size = 0
    for each in (*_files_of(folder / DATABASE), *logs(folder)):
        with suppress(FileNotFoundError):
            size += each.stat().st_size
    return size


def _undecodable(key: str, value: bytes, decode: Callable[[bytes], object]) -> str:
    try:
        decode(value)
    except ValueError as error:
        return f"the value of {key} cannot be decoded: {error}"
    return ""


def _problem(key: Any, raw: Any, mode: Any, filename: Any, tag: Any, value: Any) -> str:
    """Return what is wrong with a row, empty if nothing is."""
    if raw != 1 or type(key) is not str:
        return "a key that is not text, which textassay never writes"
    if mode != RAW or filename is not None or type(value) is not bytes:
        return (
            f"the value of {key} is not plain bytes (mode {mode!r}), which textassay never writes"
        )
    return "" if tag == checksum(key, value) else f"the value of {key} does not match its checksum"


def _connect_read_only(file: Path) -> sqlite3.Connection:
    """Return a connection that cannot write to the database."""
    # In a folder that cannot be written to, SQLite cannot make an index of its log; without a log
    # the file does not change, and needs none.
    log = file.with_name(f"{file.name}-wal")
    is_fixed = not os.access(file.parent, os.W_OK) and not log.exists()
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?{'immutable=1' if is_fixed else 'mode=ro'}",
        uri=True,
        timeout=60,
        isolation_level=None,
        check_same_thread=False,
    )
