"""Which folders may hold a run, and the lock of the one process that writes to it."""

from __future__ import annotations

from pathlib import Path

import filelock

from textassay.runtime.errors import RunFolderError, parameter
from textassay.runtime.storage.cache_folder import is_cache_folder, was_begun
from textassay.runtime.storage.files import is_unfinished, refuse_irregular
from textassay.runtime.storage.run_files import (
    ANSWERS,
    BATCHES,
    MANIFEST,
    SCORES,
    SUMMARY,
    read_manifest,
)

LOCK = ".lock"


def refuse_foreign(path: Path) -> None:
    """Refuse a folder for a new run unless it is absent, empty, or left by a run without scores.

    Raises:
        RunFolderError: It holds a run or other files, or is a file.
    """
    if (path / MANIFEST).exists() and not _is_empty_run(path):
        raise RunFolderError(
            f"{path} already contains a run; resume it with `textassay resume {path}` (in Python: "
            "resume=True), or choose another folder"
        )
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file; name a folder for the run")
    for entry in _entries(path):
        if not _is_leftover(entry):
            raise RunFolderError(
                f"{path} contains other files ({entry.name}) and no run; choose a new or empty "
                "folder"
            )


def holds_more(path: Path) -> bool:
    """Return whether a folder has files that no run without a score leaves."""
    return not all(map(_is_leftover, _entries(path)))


def refuse_taken(path: Path) -> None:
    """Refuse a folder for a new run that another process writes to, or that `refuse_foreign` does.

    What another process writes or discards looks foreign at some moments; so a folder that does is
    looked at again while nobody else can write to it, and one in use is refused as such.

    Raises:
        RunFolderError: It is in use, holds a run or other files, or is a file.
    """
    try:
        refuse_foreign(path)
    except RunFolderError:
        if not _is_lock(path / LOCK):
            refuse_foreign(path)  # a run that was just discarded has removed its lock
            return
        lock = lock_run(path)
        try:
            refuse_foreign(path)
        finally:
            lock.release()


def _entries(path: Path) -> list[Path]:
    """Return what is in a folder; nothing if there is none, or if it is removed meanwhile."""
    try:
        return list(path.iterdir())
    except (FileNotFoundError, NotADirectoryError):  # the latter if a folder above it is a file
        return []


def _is_lock(path: Path) -> bool:
    """Return whether a file can be a lock of ours: taking one truncates it, so it is empty."""
    try:
        refuse_irregular(path)
        return path.stat().st_size == 0
    except OSError:
        return False


def _is_leftover(entry: Path) -> bool:
    """Return whether a folder's entry is left over from a run that ended before its first score."""
    if entry.is_symlink():
        return False
    if entry.name == ANSWERS:
        return _is_left_cache(entry)
    if entry.name == LOCK:
        return _is_lock(entry)
    files = (MANIFEST, SUMMARY, SCORES) if (entry.parent / MANIFEST).exists() else ()
    # A process that is killed while it writes one of them leaves a file beside it.
    return entry.name in files or any(
        is_unfinished(entry.name, file) for file in (MANIFEST, SUMMARY, SCORES)
    )


def _is_left_cache(folder: Path) -> bool:
    try:
        return is_cache_folder(folder) or was_begun(folder)
    except FileNotFoundError:  # removed while it was looked at, with the run that it was part of
        return True


def has_scores(path: Path) -> bool:
    """Return whether a run holds any line, a torn one included."""
    try:
        return (path / SCORES).stat().st_size > 0
    except FileNotFoundError:
        return False


def _is_empty_run(path: Path) -> bool:
    """Return whether a folder holds a run of ours that ended before its first score or batch."""
    try:
        has_begun = has_scores(path) or (path / BATCHES).exists()
        return "models" in read_manifest(path) and not has_begun
    except RunFolderError:  # somebody else's manifest.json, or one of a later version
        return False


def refuse_links(path: Path) -> None:
    """Refuse to write to a run folder with linked files, which an untrusted one may hold.

    Raises:
        RunFolderError: There is such a file.
    """
    for name in (SCORES, SUMMARY, MANIFEST, LOCK):
        try:
            refuse_irregular(path / name)
        except OSError as error:
            raise RunFolderError(
                f"{path / name} {error.strerror}; textassay writes only to files of the run folder"
            ) from error
    if (path / ANSWERS).is_symlink():
        raise RunFolderError(
            f"{path / ANSWERS} is a link; name the folder that it leads to with "
            f"{parameter('cache')}"
        )


def lock_run(path: Path) -> filelock.BaseFileLock:
    """Return the lock of a run's folder, held for this process.

    Raises:
        RunFolderError: It is in use, or cannot be written to.
    """
    lock = filelock.FileLock(path / LOCK, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout as error:
        raise RunFolderError(
            f"the run folder {path} is in use by another process; wait until that has ended, or"
            " name another folder"
        ) from error
    except OSError as error:
        raise not_writable(path, error) from error
    return lock


def not_writable(path: Path, error: Exception) -> RunFolderError:
    """Return the error that says why a folder cannot be written to."""
    return RunFolderError(f"the run folder {path} cannot be written to: {error}")
