"""JSON objects with a format number and a digest over their content, so that edits are noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError
from textassay.runtime.storage.files import write_json


def digest_of(content: Mapping[str, Any]) -> str:
    """Return 64 hex digits that stand for a JSON object, whatever the order of its keys."""
    # ASCII and the tightest separators: the digest must not depend on who formatted the file.
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def check_new_folder(out: Path) -> None:
    """Refuse a path that is a file or a folder with something in it.

    Raises:
        RunFolderError: The path is a file or a folder that is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunFolderError(f"{out} exists and is not empty; choose a new folder")


def write_sealed(path: Path, content: Mapping[str, Any], *, format: int) -> None:
    """Write an object with its format and digest.

    Raises:
        OSError: The file cannot be written.
    """
    write_json(path, {"format": format, **content, "digest": digest_of(content)})


def read_sealed(path: Path, *, format: int, kind: str, missing: str, repair: str) -> dict[str, Any]:
    """Read an object that `write_sealed` wrote, and return it without format and digest.

    Args:
        path: The file.
        format: Newest format that can be read.
        kind: What the file holds, such as `evaluator`, for error messages.
        missing: Message if there is no such file.
        repair: How to get a good file again, such as `fit again`, for error messages.

    Raises:
        ConfigurationError: There is no such file, it is of a newer format, or it was changed since
            it was written.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ConfigurationError(missing) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} contains no {kind}")
    version = content.pop("format", None)
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= format:
        raise ConfigurationError(
            f"{path} has format {version!r}; this version of textassay reads format {format}"
        )
    if content.pop("digest", None) != digest_of(content):
        raise ConfigurationError(
            f"{path} was edited or damaged since it was written (its digest differs); {repair},"
            " or restore the file"
        )
    return content
