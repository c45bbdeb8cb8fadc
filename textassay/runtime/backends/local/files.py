"""Locates models: local paths, the Hugging Face hub, and the SHA-256 that identifies a file.

The hub's own library reads `HF_HUB_OFFLINE`, `HF_HOME`, `HF_TOKEN` and its other settings. Code in
a repository is neither downloaded nor run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs

from textassay.runtime.errors import ConfigurationError, ModelNotFound, NothingListening
from textassay.runtime.storage.files import write_json

_MODEL_PARTS = (
    "*.json", "*.model", "merges.txt", "vocab.txt", "*.jinja", "*.safetensors",
    "pytorch_model*.bin",
)  # fmt: skip


class HubFile(NamedTuple):
    """A file in a repository of the Hugging Face hub."""

    repo: str
    file: str
    revision: str | None = None


def parse_spec(spec: str) -> Path | HubFile:
    r"""Return a path, or the parts of `HF_REPO[@REVISION]:FILE`; `C:\models\m.gguf` is a path."""
    if not spec.strip():
        raise ConfigurationError(
            "llamacpp/ needs a model: llamacpp/PATH.gguf or llamacpp/HF_REPO:FILE"
        )
    # Qwen/Qwen2.5-0.5B-Instruct-GGUF@main:qwen2.5-0.5b-instruct-q8_0.gguf
    hub_file = r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^:]+))?:(?P<file>[^:]+)"
    is_path = re.match(r"[A-Za-z]:[\\/]", spec) or Path(spec).exists()
    if not is_path and (match := re.fullmatch(hub_file, spec)):
        return HubFile(match["repo"], match["file"], match["revision"])
    return Path(spec).expanduser()


def locate_gguf(spec: str) -> Path:
    """Return the file named after `llamacpp/`, downloaded if necessary; blocks."""
    source = parse_spec(spec)
    if isinstance(source, HubFile):
        return download(source.repo, source.file, revision=source.revision)
    if not source.is_file():
        is_folder, name = source.is_dir(), repr(str(source))
        where = f"{name} is a folder" if is_folder else f"there is no file {name}"
        hint = "" if spec != "embedded" else "; the embedded model is 'embedded' alone"
        raise ModelNotFound(f"{where}: llamacpp/ takes PATH.gguf or HF_REPO:FILE{hint}")
    return source


def locate_folder(spec: str) -> Path:
    """Return the folder named after `transformers/`, downloaded if necessary; blocks."""
    folder = Path(spec).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelNotFound(f"folder {spec!r} contains no config.json, so it is not a model")
        return folder
    if place := hub_repository(spec):
        repository, revision = place
        return download(repository, revision=revision, patterns=_MODEL_PARTS)
    raise ModelNotFound(
        f"there is no folder {spec!r}: transformers/ takes a folder or REPOSITORY[@REVISION]"
    )


def hub_repository(spec: str) -> tuple[str, str | None] | None:
    """Return repository and revision of `REPOSITORY[@REVISION]`, or `None` if it is a path."""
    # gpt2   google/flan-t5-xl   google/flan-t5-xl@main
    match = re.fullmatch(r"(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[^@]+))?", spec)
    if not match or spec.startswith((".", "/", "~")) or Path(spec).exists():
        return None
    return match["repo"], match["revision"]


def download(
    repo: str,
    file: str | None = None,
    *,
    revision: str | None = None,
    patterns: Sequence[str] = (),
    cached_only: bool = False,
    package: str = "huggingface_hub",
) -> Path:
    """Return a file of a hub repository, or the folder of the files that match; blocks.

    Files in the hub's cache are not downloaded again; with `cached_only` nothing is downloaded.
    `package` is the package to install if the hub's library is missing.
    """
    try:
        from huggingface_hub import errors, hf_hub_download, snapshot_download
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"downloading {repo} needs huggingface_hub: pip install {package}"
        ) from error
    from httpx import HTTPError  # the hub's library raises it without a network

    name = f"{repo}:{file}" if file else repo
    try:
        if file:
            return Path(hf_hub_download(repo, file, revision=revision))
        return Path(
            snapshot_download(
                repo, revision=revision, allow_patterns=list(patterns), local_files_only=cached_only
            )
        )
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise NothingListening(
            f"{name} is not in the local cache, and the Hugging Face hub cannot be reached"
            " (offline, or HF_HUB_OFFLINE is set): download it where there is a network, or name a"
            f" local {'file (llamacpp/PATH.gguf)' if file else 'folder (transformers/PATH)'}"
        ) from error
    except errors.GatedRepoError as error:
        raise ModelNotFound(
            f"{name} is gated: accept its terms on the hub and set HF_TOKEN"
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ModelNotFound(
            f"there is no repository {repo!r} on the hub (or no such revision), or it is not open"
            " to you"
        ) from error
    except errors.EntryNotFoundError as error:
        raise ModelNotFound(f"repository {repo!r} has no file {file!r}") from error
    except errors.HFValidationError as error:
        raise ConfigurationError(f"{name} cannot be on the hub: {error}") from error
    except (errors.HfHubHTTPError, HTTPError, OSError) as error:
        raise NothingListening(
            f"downloading {name} failed: {type(error).__name__}: {error}"
        ) from error


# ---- which file it is ----


def folder_digest(folder: Path) -> str:
    """Return one SHA-256, in hex, over the files in a model's folder that affect its answers."""
    whole = hashlib.sha256()
    named = {path for pattern in _MODEL_PARTS for path in folder.glob(pattern) if path.is_file()}
    for path in sorted(named):
        # Names count as well: the same bytes as config.json and as tokenizer.json are not the same
        # model.
        whole.update(f"{path.name} {file_digest(path)}\n".encode())
    return whole.hexdigest()


def file_digest(path: Path, remembered: Path | None = None, *, min_bytes: int = 64 * 2**20) -> str:
    """Return the SHA-256 of a file, in hex; of a split GGUF model, of all its parts in order.

    Hashing a 42 GB file takes half a minute, so digests of files of at least `min_bytes` are
    remembered in the file `remembered` by path, size, inode and times of change. If that file
    cannot be read or written, the model is hashed again.
    """
    digests = [_digest(part, remembered or digests_file(), min_bytes) for part in parts(path)]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def parts(path: Path) -> list[Path]:
    """Return the files of a model: itself, or all parts of a split one (`-00001-of-00003.gguf`)."""
    match = re.search(r"-(\d{5})-of-(\d{5})\.gguf$", path.name)
    if not match:
        return [path]
    stem, total = path.name[: match.start()], int(match[2])
    return [
        path.with_name(f"{stem}-{number:05d}-of-{total:05d}.gguf") for number in range(1, total + 1)
    ]


def digests_file() -> Path:
    """Return the file of remembered digests, in the platform's folder for caches."""
    return Path(platformdirs.user_cache_dir("textassay", appauthor=False)) / "gguf-digests.json"


def _digest(path: Path, store: Path, min_bytes: int) -> str:
    # Files in the hub's cache are links whose targets are named by content.
    path = path.resolve()
    facts = _facts(path)
    digests = _remember(store) if facts[0] >= min_bytes else {}
    match digests.get(str(path)):
        case {"facts": [*same], "sha256": str(digest)} if tuple(same) == facts:
            if re.fullmatch(r"[0-9a-f]{64}", digest):
                return digest
    began = time.time_ns()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # file systems may give two writes within two seconds the same time of change
    settled = _facts(path) == facts and began - facts[2] > 2e9
    if facts[0] >= min_bytes and settled:
        digests = _remember(store)  # again: hashing takes minutes, and others hash as well
        digests[str(path)] = {"sha256": digest, "facts": list(facts)}
        # an unwritable folder costs the next start a hash, nothing else
        with contextlib.suppress(OSError):
            store.parent.mkdir(parents=True, exist_ok=True)
            write_json(store, digests)
    return digest


def _facts(path: Path) -> tuple[int, ...]:
    """Return size, inode, and the times of change of content and of entry, in nanoseconds."""
    status = path.stat()
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _remember(store: Path) -> dict[str, Any]:
    try:
        stored = json.loads(store.read_bytes())
    except (OSError, ValueError):  # missing or damaged: the files are hashed
        return {}
    return stored if isinstance(stored, dict) else {}
