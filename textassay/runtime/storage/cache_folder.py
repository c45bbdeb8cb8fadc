"""A cache folder: its marker, lock and databases, read only; and what the command line does to it.

    textassay-cache.json    marks the folder as ours, with the format's number
    .lock                   held while a process creates, commits or deletes answers
    cache.db                the answers, a diskcache database
    pending-ID-N            logs of one open store: answers that are not in the database yet
    pending-ID.lock         held while that store is open
    shard-NNN/cache.db      answers that versions of format 1 wrote; they are only read

In a database every row is a text key and inline bytes with their checksum; anything else is damage.
Here it is read through SQLite alone, as diskcache would write its settings into it: the folder may
be in use, or on a disk that cannot be written to.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
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

FORMAT = 2
MARKER = "textassay-cache.json"
DATABASE = "cache.db"
"""Name of a database, as diskcache gives it; SQLite keeps `-wal` and `-shm` beside it."""
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
    files: int
    """Databases and logs that the answers lie in."""


class Verification(NamedTuple):
    """What `verify` found."""

    folder: Path
    entries: int
    """Entries that were read and are well."""
    problems: tuple[str, ...]
    """What is damaged: file, and key if it is known; at most `MAX_PROBLEMS` per file."""

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
        f"`textassay cache verify {_folder_of(file)}` shows what is damaged"
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


def require(folder: Path) -> int:
    """Return the format of a cache folder that this version can read."""
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
    if number not in range(1, FORMAT + 1):
        raise ConfigurationError(
            f"the cache folder {folder} has format {number!r}, and this version of textassay reads"
            f" {FORMAT}; use another folder or another version of textassay"
        )
    return int(number)


def prepare(folder: Path) -> None:
    """Create the folder and its marker if missing, and check them.

    A folder of format 1 becomes one of this format, which earlier versions refuse: they would not
    find the answers that are written from now on.
    """
    _refuse_foreign(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the cache folder {folder} cannot be created: {error}") from error
    if is_cache_folder(folder) and require(folder) == FORMAT:
        return
    with held(cache_lock(folder)):
        if is_cache_folder(folder):
            require(folder)
        else:
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
def held(lock: filelock.BaseFileLock) -> Iterator[None]:
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


def databases(folder: Path) -> list[Path]:
    """Return the databases of a cache folder, first its own, then those of format 1."""
    own = folder / DATABASE
    return [own] * os.path.lexists(own) + sorted(folder.glob(f"shard-*/{DATABASE}"))


def logs(folder: Path) -> list[Path]:
    """Return the logs of answers that are not in the database yet, an owner's newest first."""
    return sorted(folder.glob(f"{LOG}*-*"), reverse=True)


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


class LogReader:
    """The answers that a log holds at this moment; does what a `Reader` of a database does.

    A record that its process, or the disk in a power cut, did not finish writing is left out.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.answers: dict[str, bytes] = {}
        self.problem: str | None = None
        refuse_links(file)
        try:
            content = read_regular(file)
        except FileNotFoundError:  # its process has ended well meanwhile
            content = b""
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
                return
            if checksum(key, value) != check:
                self.problem = f"the record after {len(self.answers)} answers is damaged"
                return
            self.answers[key] = value

    def find(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values of those keys that are there."""
        return {key: self.answers[key] for key in keys if key in self.answers}

    def count(self) -> int:
        """Return the number of entries."""
        return len(self.answers)

    def entries(self) -> Iterator[tuple[str, bytes | None, str | None]]:
        """Iterate over key, value and, in place of a value, what is wrong with it."""
        for key, value in self.answers.items():
            yield key, value, None
        if self.problem is not None:
            yield "", None, self.problem

    def close(self) -> None:
        """Do nothing; the file was read at once."""


def refuse_links(file: Path) -> None:
    """Refuse a database with links or pipes in place of its files, which lead elsewhere or hang."""
    if _is_in_shard(file) and file.parent.is_symlink():
        raise StorageError(
            f"{file.parent} is a link, which textassay never makes; remove it, or name the folder "
            "it leads to with cache="
        )
    for each in _files_of(file):
        try:
            refuse_irregular(each)
        except OSError as error:
            raise unusable(each, error.strerror) from error


class Reader:
    """Reads one database without writing to it, also while another process does.

    May be used from any one thread at a time.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        refuse_links(file)
        try:
            self._connection = _connect_read_only(file)
            try:
                self._has_table = self._look_for_table()
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise unusable(file, error) from error

    def find(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values of those keys that are there."""
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            some = keys[start : start + _KEYS_PER_QUERY]
            places = ",".join("?" * len(some))
            where = f"WHERE key IN ({places}) AND raw = 1"
            for key, *row in self._rows(f"{_SELECT} {where}", some):
                if (problem := _problem(key, *row)) is not None:
                    raise unusable(self.file, problem)
                found[key] = row[-1]
        return found

    def count(self) -> int:
        """Return the number of entries."""
        return sum(count for (count,) in self._rows("SELECT COUNT(*) FROM Cache"))

    def entries(self) -> Iterator[tuple[str, bytes | None, str | None]]:
        """Iterate over key, value and, in place of a value, what is wrong with it."""
        for (message,) in self._rows("PRAGMA integrity_check(10)"):
            if message != "ok":
                yield "", None, str(message)
        for key, *row in self._rows(_SELECT):
            problem = _problem(key, *row)
            yield str(key), None if problem else row[-1], problem

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, query: str, values: Sequence[str] = ()) -> Iterator[Any]:
        try:
            if self._has_table or self._look_for_table():
                yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise unusable(self.file, error) from error

    def _look_for_table(self) -> bool:
        found = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'Cache'")
        return bool(found.fetchall())


def sources(folder: Path) -> list[Path]:
    """Return all files that hold answers, the newest first."""
    # logs before the database: what is moved from one to the other meanwhile is found in both
    return logs(folder) + databases(folder)


def open_source(file: Path) -> Reader | LogReader:
    """Open a database or a log."""
    return Reader(file) if file.name == DATABASE else LogReader(file)


def open_sources(folder: Path) -> list[Reader | LogReader]:
    """Open all files that hold answers at once, the newest first.

    What is moved from a log into the database meanwhile is found in one of them.
    """
    with ExitStack() as opened:
        readers = [opened.enter_context(closing(open_source(file))) for file in sources(folder)]
        opened.pop_all()
    return readers


def read_answers(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Iterate over the keys and values of a cache folder."""
    require(folder)
    readers = open_sources(folder)
    try:
        # first those that a newer one of the same key replaces
        for reader in reversed(readers):
            for key, value, problem in reader.entries():
                if value is None:
                    raise unusable(reader.file, f"{key}: {problem}")
                yield key, value
    finally:
        for reader in readers:
            reader.close()


def info(folder: str | Path) -> StoreInfo:
    """Return what a cache folder holds, also while it is in use."""
    folder = Path(folder)
    require(folder)
    files = sources(folder)
    entries = 0
    for file in files:
        with closing(open_source(file)) as reader:
            entries += reader.count()
    return StoreInfo(folder, entries, sum(map(_size, files)), len(files))


def verify(folder: str | Path, decode: Callable[[bytes], object] = bytes) -> Verification:
    """Read all of a cache folder, which may be in use, and report what is damaged."""
    folder = Path(folder)
    require(folder)
    sound, problems = 0, []
    for file in sources(folder):
        own: list[str] = []
        try:
            with closing(open_source(file)) as reader:
                for key, value, problem in reader.entries():
                    defect = problem if value is None else _undecodable(key, value, decode)
                    if defect is None:
                        sound += 1
                    else:
                        own.append(f"{file}: {defect}")
        except StorageError as error:
            own.append(f"{file}: {error.__cause__ or error}")
        problems += own[:MAX_PROBLEMS]
    return Verification(folder=folder, entries=sound, problems=tuple(problems))


def clear(folder: str | Path) -> StoreInfo:
    """Delete all answers in a cache folder, which stays, and return what it held."""
    folder = Path(folder)
    require(folder)
    with held(cache_lock(folder)):
        files = sources(folder)
        for file in files:
            refuse_links(file)
        for file in databases(folder):
            _refuse_use(file)
        entries, size = sum(map(_count, files)), sum(map(_size, files))
        try:
            for file in files:
                for each in _files_of(file):
                    each.unlink(missing_ok=True)
                if file.parent != folder:
                    with suppress(OSError):  # something else lies in it, which is not ours
                        file.parent.rmdir()
        except OSError as error:
            raise StorageError(f"the cache folder {folder} cannot be cleared: {error}") from error
    return StoreInfo(folder, entries, size, len(files))


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
                f"the cache folder {_folder_of(file)} is in use by another process; clear it when "
                "that has ended"
            ) from None


def _is_in_shard(file: Path) -> bool:
    return file.parent.name.startswith("shard-")


def _folder_of(file: Path) -> Path:
    """Return the cache folder of a database."""
    return file.parent.parent if _is_in_shard(file) else file.parent


def _files_of(file: Path) -> tuple[Path, ...]:
    """Return the files of a database, in the order in which they are to be deleted."""
    # The log goes first: one that outlives its database would be applied to the next of that name.
    return tuple(file.with_name(f"{file.name}{end}") for end in ("-journal", "-wal", "-shm", ""))


def _size(file: Path) -> int:
    size = 0
    for each in _files_of(file):
        with suppress(FileNotFoundError):
            size += each.stat().st_size
    return size


def _count(file: Path) -> int:
    """Return the number of entries of a database to be deleted, 0 if it is too damaged to read."""
    try:
        with closing(open_source(file)) as reader:
            return reader.count()
    except StorageError:
        return 0


def _undecodable(key: str, value: bytes, decode: Callable[[bytes], object]) -> str | None:
    try:
        decode(value)
    except ValueError as error:
        return f"the value of {key} cannot be decoded: {error}"
    return None


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


def _connect_read_only(file: Path) -> sqlite3.Connection:
    """Return a connection that cannot write to the database.

    In a folder that cannot be written to, the file is opened as immutable: SQLite would otherwise
    try to create an index beside it.
    """
    mode = "mode=ro"
    if not os.access(file.parent, os.W_OK):
        log = file.with_name(f"{file.name}-wal")
        has_log = log.exists() and log.stat().st_size > 0
        if has_log and not file.with_name(f"{file.name}-shm").exists():
            raise StorageError(
                f"{log} contains answers that cannot be read in a read-only folder; copy "
                f"{_folder_of(file)} to a writable place and read the copy"
            )
        if not has_log:
            # Safe only without a log: SQLite ignores the log of a file that it takes for immutable.
            mode = "immutable=1"
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=60,
        isolation_level=None,
        check_same_thread=False,
    )
