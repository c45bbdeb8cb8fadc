"""Names a model file by the SHA-256 of its content, so that a cache never mixes up two files of one name."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_known: dict[tuple[str, int, int], str] = {}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a model file, in hex; of a split model, of all its parts in order.

    Remembered by path, size and time of change as long as the process lives. Reads about a gigabyte
    a second, so call it off the event loop.

    Raises:
        OSError: A part cannot be read.
    """
    digests = [_one(part) for part in parts(path)]
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


def parts(path: Path) -> list[Path]:
    """Return the files of a model: itself, or all parts where its name ends like `-00001-of-00003.gguf`."""
    match = _PART.search(path.name)
    if match is None:
        return [path]
    stem, total = path.name[: match.start()], int(match[2])
    return [
        path.with_name(f"{stem}-{number:05d}-of-{total:05d}.gguf") for number in range(1, total + 1)
    ]


def _one(path: Path) -> str:
    path = path.resolve()
    status = path.stat()
    key = (str(path), status.st_size, status.st_mtime_ns)
    if key not in _known:
        with path.open("rb") as file:
            _known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _known[key]
