"""A cache folder: shards, marker and locks; and what the command line does to it.

    textassay-cache.json    marks the folder as ours, with the format's number
    .lock                   held while a shard is claimed or the folder is cleared
    shard-000.lock          held by the process that writes to the shard; freed when it dies
    shard-000/cache.db      the answers

There are as many shards as processes have ever written at once; each is reused by later processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import filelock
import orjson

from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.storage.files import is_unfinished, read_regular, write_json
from textassay.runtime.storage.shard import (
    DATABASE,
    ShardReader,
    files_of,
    refuse_linked_shards,
    size_on_disk,
)

FORMAT = 1
MARKER = "textassay-cache.json"
MAX_SHARDS = 1000
MAX_PROBLEMS = 100

_LOCK = ".lock"
_LOCK_SECONDS = 30.0


class StoreInfo(NamedTuple):
    """What a store of answers holds."""

    folder: Path | str
    """The cache folder, or the address of a Redis."""
    entries: int
    """Answers; one that two processes stored at once counts twice."""
    bytes: int
    """Size on disk."""
    shards: int
    """Files that the answers lie in."""


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


def is_cache_folder(folder: Path) -> bool:
    """Return whether `folder` has the marker of a cache folder."""
    return (folder / MARKER).is_file()


def was_begun(folder: Path) -> bool:
    """Return whether a folder holds only what an interrupted creation of a cache folder leaves."""
    return folder.is_dir() and all(
        entry.name == _LOCK or is_unfinished(entry.name, MARKER) for entry in folder.iterdir()
    )


def cache_shards(folder: Path) -> list[Path]:
    """Return the folders of the shards that exist, in order of their numbers."""
    return sorted(file.parent for file in folder.glob(f"shard-*/{DATABASE}"))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's own lock, under which shards are claimed and removed.

    Raises:
        StorageError: Another process held it for too long, or the folder cannot be written to.
    """
    lock = _lock(folder / _LOCK)
    try:
        lock.acquire(timeout=_LOCK_SECONDS, poll_interval=0.01)
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
def prepared_folder(folder: Path) -> Iterator[None]:
    """Create the folder and its marker if missing, check them, and hold the folder's lock.

    Raises:
        ConfigurationError: The folder holds something else, or a newer format.
        StorageError: It cannot be written to.
    """
    _refuse_foreign(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the cache folder {folder} cannot be created: {error}") from error
    with locked(folder):
        if not is_cache_folder(folder):
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
        require(folder)
        yield


def holds_answers(folder: Path) -> bool:
    """Return whether there is a cache folder: one that is missing or empty can become one.

    Raises:
        ConfigurationError: The folder holds something else.
    """
    _refuse_foreign(folder)
    return is_cache_folder(folder)


def require(folder: Path) -> None:
    """Return if `folder` is a cache folder that this version can read.

    Raises:
        ConfigurationError: It is not, or is of a newer format.
    """
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


def claim_shard(folder: Path) -> tuple[Path, filelock.BaseFileLock]:
    """Return the first shard that no living process writes to, and its lock.

    Hold the folder's lock meanwhile.

    Raises:
        StorageError: The folder cannot be written to, or all shards are taken.
    """
    # The operating system frees the lock of a process that dies, so its shard is the next one's.
    for number in range(MAX_SHARDS):
        shard = folder / f"shard-{number:03d}"
        lock = _lock(shard.with_suffix(".lock"))
        try:
            lock.acquire(blocking=False)
            shard.mkdir(mode=0o700, exist_ok=True)
        except filelock.Timeout:
            continue
        except OSError as error:
            lock.release()
            raise StorageError(
                f"the cache folder {folder} cannot be written to: {error}"
            ) from error
        return shard, lock
    raise StorageError(
        f"the cache folder {folder} is in use by {MAX_SHARDS} processes; use another one"
    )


def info(folder: str | Path) -> StoreInfo:
    """Return what a cache folder holds, also while it is in use.

    Raises:
        ConfigurationError: It is no cache folder, or of a newer format.
        StorageError: A file is damaged.
    """
    folder = Path(folder)
    require(folder)
    shards = cache_shards(folder)
    entries = 0
    for shard in shards:
        with _reading(shard) as reader:
            entries += reader.count()
    return StoreInfo(
        folder=folder, entries=entries, bytes=sum(map(size_on_disk, shards)), shards=len(shards)
    )


def verify(folder: str | Path, decode: Callable[[bytes], object] = bytes) -> Verification:
    """Read everything in a cache folder and report what is damaged.

    Changes nothing and may run while it is in use.

    Args:
        folder: The cache folder.
        decode: Raises `ValueError` for a value that cannot be used.

    Raises:
        ConfigurationError: It is no cache folder, or of a newer format.
    """
    folder = Path(folder)
    require(folder)
    sound, problems = 0, []
    for shard in cache_shards(folder):
        own: list[str] = []
        try:
            with _reading(shard) as reader:
                for key, value, problem in reader.entries():
                    defect = problem if value is None else _undecodable(key, value, decode)
                    if defect is None:
                        sound += 1
                    else:
                        own.append(f"{shard / DATABASE}: {defect}")
        except StorageError as error:
            own.append(f"{shard / DATABASE}: {error.__cause__ or error}")
        problems += own[:MAX_PROBLEMS]
    return Verification(folder=folder, entries=sound, problems=tuple(problems))


def clear(folder: str | Path) -> StoreInfo:
    """Delete all answers in a cache folder and return what it held in files.

    The folder itself stays.

    Raises:
        ConfigurationError: It is in use, no cache folder, or of a newer format.
        StorageError: A file cannot be deleted.
    """
    folder = Path(folder)
    require(folder)
    with locked(folder), ExitStack() as stack:
        shards = cache_shards(folder)
        for shard in shards:
            refuse_linked_shards(shard)
        # Holding the folder's lock keeps newcomers out; each shard's lock shows that no writer is
        # left.
        locks = [_lock(lock) for lock in sorted(folder.glob("shard-*.lock"))]
        for lock in locks:
            try:
                lock.acquire(blocking=False)
            except filelock.Timeout:
                raise ConfigurationError(
                    f"the cache folder {folder} is in use by another process; clear it when that"
                    " has ended"
                ) from None
            stack.callback(lock.release)
        entries, size = sum(map(_count, shards)), sum(map(size_on_disk, shards))
        try:
            for shard in shards:
                for file in files_of(shard):
                    file.unlink(missing_ok=True)
                with suppress(OSError):  # something else lies in it, which is not ours to delete
                    shard.rmdir()
        except OSError as error:
            raise StorageError(f"the cache folder {folder} cannot be cleared: {error}") from error
    return StoreInfo(folder=folder, entries=entries, bytes=size, shards=len(shards))


def _count(shard: Path) -> int:
    """Return the number of entries of a shard to be deleted, 0 if it is too damaged to read."""
    try:
        with _reading(shard) as reader:
            return reader.count()
    except StorageError:
        return 0


@contextmanager
def _reading(shard: Path) -> Iterator[ShardReader]:
    reader = ShardReader(shard)
    try:
        yield reader
    finally:
        reader.close()


def _undecodable(key: str, value: bytes, decode: Callable[[bytes], object]) -> str | None:
    try:
        decode(value)
    except ValueError as error:
        return f"the value of {key} cannot be decoded: {error}"
    return None


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"the cache folder {folder} is a file")
    if folder.is_dir() and not is_cache_folder(folder) and not was_begun(folder):
        raise ConfigurationError(
            f"{folder} contains other files and is not a cache folder; choose a new or empty folder"
        )


def _lock(file: Path) -> filelock.BaseFileLock:
    # Claimed on one thread and released on another: a lock that is local to a thread would not know
    # that it is held.
    return filelock.FileLock(file, thread_local=False)
