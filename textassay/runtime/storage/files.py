"""JSON files: replaced in one step, opened only if regular, or sealed with a digest.

A run folder may come from an untrusted source, so these functions never write through a link or
wait for a pipe.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError, StorageError


def write_json(path: Path, value: Any) -> None:
    """Atomically replace the file at `path` by `value` as indented JSON.

    The replacement survives a crash and a power cut. A link at this place is replaced, never
    followed.

    The new content is first written to a file of a random name beside it, `.NAME.RANDOM.tmp`, which
    a killed process may leave there. If several processes write to a path at once, the last one
    wins.
    """
    write_bytes(path, encode(value, indent=True) + b"\n")


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path` by `text` in UTF-8, as `write_json` does."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file at `path` by `content`, as `write_json` does."""
    # In the same folder, since a rename is atomic only within one file system.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        # Synced before the rename: file systems may write the new name before the content, and a
        # power cut would leave an empty file in place of the old one.
        write_synced(unfinished, [content])
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    # The rename itself is an entry of the folder, which has to reach the disk, too.
    sync_folder(path.parent)


def write_synced(path: Path, parts: Iterable[bytes]) -> None:
    """Write or replace a regular file, and force its content to the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(open_regular(path, flags), "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())


def is_unfinished(name: str) -> bool:
    """Return whether this is the name of an unfinished file of `write_json`."""
    return re.fullmatch(r"\..+\.[0-9a-f]{16}\.tmp", name) is not None


def open_regular(path: Path, flags: int) -> int:
    """Return a descriptor of a regular file, which `flags` may create."""
    # opening a named pipe waits for its other end, unless it is opened without blocking
    names = ["O_NONBLOCK", "O_BINARY", "O_CLOEXEC"]
    if flags & (os.O_WRONLY | os.O_RDWR):
        names.append("O_NOFOLLOW")
        # Without O_NOFOLLOW (Windows), this is the only check; with it, this gives the reason.
        if path.is_symlink():
            raise OSError(errno.ELOOP, "is a link, through which nothing is written", str(path))
    for name in names:
        flags |= getattr(os, name, 0)  # not all systems have these flags
    descriptor = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return descriptor


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def check_regular_file(path: Path) -> None:
    """Refuse a link, pipe, device or folder in place of a file; a missing file is allowed."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        problem = "is a link" if stat.S_ISLNK(mode) else "is not a regular file"
        raise OSError(errno.EINVAL, problem, str(path))


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to the disk: without it, a power cut may lose a new file."""
    # elsewhere a folder cannot be opened, and renames are journaled by the file system
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_of(content: Mapping[str, Any]) -> str:
    """Return 64 hex digits that identify a JSON object, independent of the order of its keys."""
    # ASCII and the shortest separators, so that the digest is independent of formatting.
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@contextmanager
def storage_errors(problem: str) -> Iterator[None]:
    """Raise each `OSError` of the block as a `StorageError` that begins with these words."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{problem}: {error}") from error


def check_new_folder(out: Path) -> None:
    """Refuse a path that is a file or a folder that is not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunFolderError(f"{out} exists and is not empty; choose a new folder")


def write_sealed(path: Path, content: Mapping[str, Any], *, format: int) -> None:
    """Write an object with its format and digest."""
    write_json(path, {"format": format, **content, "digest": digest_of(content)})


def read_sealed(path: Path, *, format: int, kind: str, missing: str, repair: str) -> dict[str, Any]:
    """Read an object that `write_sealed` wrote, and return it without format and digest."""
    try:
        content = decode(path.read_bytes())
    except FileNotFoundError:
        raise ConfigurationError(missing) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} contains no {kind}")
    version = content.pop("format", None)
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= format:
        raise ConfigurationError(
            f"{path} has format {version!r}; this version of textassay reads format {format}"
        )
    digest = content.pop("digest", None)
    try:
        is_intact = digest == digest_of(content)
    except (ValueError, RecursionError) as error:  # 1e400, or nested too deeply
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not is_intact:
        raise ConfigurationError(
            f"{path} was edited or damaged since it was written (its digest differs); {repair},"
            " or restore the file"
        )
    return content


def encode(
    value: Any,
    *,
    sort_keys: bool = False,
    indent: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> bytes:
    """Return `value` as JSON, on one line or indented."""
    try:
        large = orjson.dumps(
            value, default, sort_keys * orjson.OPT_SORT_KEYS | indent * orjson.OPT_INDENT_2
        )
        return bytes(memoryview(large))  # orjson's result takes up to eight times its length
    except orjson.JSONEncodeError as error:
        if "recursion" in str(error).lower():  # deeper than some readers support
            raise TypeError("nested too deeply to be written as JSON") from None
        layout: dict[str, Any] = {"indent": 2} if indent else {"separators": (",", ":")}
    try:
        text = json.dumps(value, default=default, sort_keys=sort_keys, allow_nan=False, **layout)
    except (ValueError, RecursionError) as error:  # NaN, or an object inside itself
        raise TypeError(str(error)) from None
    return text.encode("ascii")


def decode(text: bytes) -> Any:
    """Return the value of a JSON text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
