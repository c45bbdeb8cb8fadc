"""Temporary folders of workers; those of workers that were killed are removed by the next one."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

PREFIX = "textassay-worker-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make an empty folder that is removed at the end of the block.

    A worker that is killed, or whose node dies, cannot remove its folder. So each holds a lock
    next to its folder, which the operating system releases, and removes folders whose lock is free.

    Yields:
        The folder, which only this user can read.
    """
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{PREFIX}*.lock"):
        _remove_if_abandoned(left)
    folder = parent / f"{PREFIX}{secrets.token_hex(8)}"
    # before the folder exists, so that no other worker ever sees it without a lock
    with _lock(folder.with_suffix(".lock")) as lock:
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                Path(lock.lock_file).unlink()


def _remove_if_abandoned(place: Path) -> None:
    # whoever removed it first, or a folder that another user left, is none of our business
    with suppress(OSError, filelock.Timeout):
        if sys.platform != "win32" and place.lstat().st_uid != os.getuid():
            return
        with _lock(place).acquire(blocking=False):
            shutil.rmtree(place.with_suffix(""), ignore_errors=True)
            place.unlink(missing_ok=True)


def _lock(place: Path) -> filelock.BaseFileLock:
    # closed by whichever thread ends the session
    return filelock.FileLock(place, thread_local=False)
