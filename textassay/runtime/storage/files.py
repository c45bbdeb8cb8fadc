"""Files that are either the old or the new one, whatever happens while they are written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from textassay.runtime.storage.json_text import encode


def write_json(path: Path, value: Any) -> None:
    """Replace the file at `path` by `value` as indented JSON, in one step that survives a crash and a power cut.

    The new content is first written to `.NAME.tmp` beside it. One process at a time may write to a
    path.

    Args:
        path: The file; its folder exists.
        value: JSON values.

    Raises:
        OSError: The folder cannot be written to, or the disk is full; the old file is untouched.
        TypeError: `value` is not JSON.
    """
    _write(path, encode(value, indent=True) + b"\n")


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path` by `text` in UTF-8, as `write_json` does.

    Raises:
        OSError: The folder cannot be written to, or the disk is full; the old file is untouched.
        UnicodeEncodeError: `text` is not UTF-8, as with half of a surrogate pair.
    """
    _write(path, text.encode("utf-8"))


def _write(path: Path, content: bytes) -> None:
    unfinished = unfinished_name(path)
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def unfinished_name(path: Path) -> Path:
    """Return where `write_json` keeps the new content until it is complete."""
    return path.with_name(f".{path.name}.tmp")


def _sync_folder(folder: Path) -> None:
    if (
        os.name != "posix"
    ):  # elsewhere a folder cannot be opened, and renames are journaled by the file system
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
