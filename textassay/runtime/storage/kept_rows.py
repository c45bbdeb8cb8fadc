"""The judged rows of a run whose data came from memory, beside its scores: `rows.jsonl`.

An ordinary data set, so that whoever reads a run's data reads them the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textassay.runtime.errors import StorageError
from textassay.runtime.messages import Example
from textassay.runtime.storage.files import encode, write_bytes
from textassay.runtime.storage.run_files import ROWS, as_json


def keep_rows(folder: Path, examples: Iterable[Example]) -> None:
    """Write the examples of a run into its folder, unless they are there.

    Raises:
        StorageError: The file cannot be written.
    """
    path = folder / ROWS
    if path.exists():
        return
    lines = (encode(_content(example), default=as_json) + b"\n" for example in examples)
    try:
        write_bytes(path, b"".join(lines))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error


def kept_rows(folder: Path) -> Path | None:
    """Return the file of rows that a run keeps; `None` if it keeps none."""
    path = folder / ROWS
    return path if path.is_file() else None


def _content(example: Example) -> dict[str, object]:
    """Return the fields of an example that are not empty."""
    return {
        name: value
        for name, value in vars(example).items()
        if name in ("id", "output") or value not in (None, (), {})
    }
