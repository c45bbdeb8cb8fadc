"""Identifies a model file by its SHA-256, so that a cache never confuses files of one name.

Hashing a 42 GB file takes half a minute, so digests of large files are remembered on disk by
path, size, inode and times of change. The file of digests is a convenience: what cannot be read is
hashed, what cannot be written is hashed again next time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import platformdirs

from textassay.runtime.storage.files import write_json

MIN_REMEMBERED_BYTES = 64 * 2**20
"""Smaller files are hashed each time, which takes a twentieth of a second."""
MAX_REMEMBERED = 1000
"""Most files that are remembered; the ones remembered first are dropped."""
_SETTLED_NS = 2 * 10**9  # file systems may give two writes within this time one time of change
# model-00001-of-00003.gguf
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_known: dict[tuple[str, tuple[int, ...]], str] = {}


def file_digest(
    path: Path, remembered: Path | None = None, *, min_bytes: int = MIN_REMEMBERED_BYTES
) -> str:
    """Return the SHA-256 of a model file, in hex; of a split model, of all its parts in order.

    Reads about a gigabyte a second the first time, so call it off the event loop.

    Args:
        path: The file; of a split model, its first part.
        remembered: The file of digests; by default `default_file()`.
        min_bytes: Smallest file that is remembered there.

    Raises:
        OSError: A part cannot be read.
    """
    digests = [_one(part, remembered, min_bytes) for part in parts(path)]
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


def parts(path: Path) -> list[Path]:
    """Return the files of a model: itself, or all parts of a split one (`-00001-of-00003.gguf`)."""
    match = _PART.search(path.name)
    if match is None:
        return [path]
    stem, total = path.name[: match.start()], int(match[2])
    return [
        path.with_name(f"{stem}-{number:05d}-of-{total:05d}.gguf") for number in range(1, total + 1)
    ]


def default_file() -> Path:
    """Return where digests are remembered: in the platform's folder for caches."""
    return Path(platformdirs.user_cache_dir("textassay", appauthor=False)) / "gguf-digests.json"


def _one(path: Path, remembered: Path | None, min_bytes: int) -> str:
    # Files in the hub's cache are links whose targets are named by content.
    path = path.resolve()
    facts = _facts(path)
    key = (str(path), facts)
    if key in _known:
        return _known[key]
    large = facts[0] >= min_bytes
    store = (remembered or default_file()) if large else None
    digest = _recall(store, path, facts) if store is not None else None
    if digest is None:
        began = time.time_ns()
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        # a file that changes now could change again without its facts telling
        settled = _facts(path) == facts and began - facts[2] > _SETTLED_NS
        if store is not None and settled:
            _remember(store, path, facts, digest)
    return _known.setdefault(key, digest)


def _facts(path: Path) -> tuple[int, ...]:
    """Return size, inode, and the times of change of content and of entry, in nanoseconds."""
    status = path.stat()
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _recall(store: Path, path: Path, facts: tuple[int, ...]) -> str | None:
    entry = _read(store).get(str(path))
    if not isinstance(entry, dict) or entry.get("facts") != list(facts):
        return None
    digest = entry.get("sha256")
    return digest if isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest) else None


def _read(store: Path) -> dict[str, Any]:
    try:
        stored = json.loads(store.read_bytes())
    except (OSError, ValueError):  # missing or damaged: the files are hashed
        return {}
    return stored if isinstance(stored, dict) else {}


def _remember(store: Path, path: Path, facts: tuple[int, ...], digest: str) -> None:
    known = _read(store)
    # Taken out and put in again, so that it is the latest when the first ones are dropped.
    known.pop(str(path), None)
    known[str(path)] = {"sha256": digest, "facts": list(facts)}
    # a name per process: two that start at once must not write one unfinished file
    own = store.with_name(f"{store.name}.{os.getpid()}")
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        write_json(own, dict(list(known.items())[-MAX_REMEMBERED:]))
        own.replace(store)
    except OSError:  # an unwritable folder costs the next start a hash, nothing else
        _forget(own)


def _forget(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
