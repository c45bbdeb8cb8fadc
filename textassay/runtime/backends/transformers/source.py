"""Resolves what follows `transformers/`: a folder, or a Hugging Face repository.

Repositories are downloaded once.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from textassay.runtime.backends.llamacpp.digest import file_digest
from textassay.runtime.errors import ConfigurationError, ModelNotFound, NothingListening

# gpt2   google/flan-t5-xl   google/flan-t5-xl@main
_HUB = re.compile(r"^(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[^@]+))?$")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_PARTS = ("*.json", "*.model", "merges.txt", "vocab.txt", "*.jinja", *_WEIGHTS)


def locate(spec: str) -> Path:
    """Return the folder of a model, downloading it if it is not here yet; blocks.

    `HF_HUB_OFFLINE`, `HF_HOME`, `HF_TOKEN` and the hub's other settings hold as its own library
    reads them. Code that a repository brings is neither downloaded nor run.

    Args:
        spec: `PATH` or `REPOSITORY[@REVISION]`.

    Raises:
        ModelNotFound: There is no such folder or repository, or it is not open to you.
        NothingListening: The hub cannot be reached, and the model is not in its cache.
        ConfigurationError: huggingface_hub is missing, or nothing is named.
    """
    folder = Path(spec).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelNotFound(f"folder {spec!r} contains no config.json, so it is not a model")
        return folder
    match = _HUB.match(spec)
    if match is None or spec.startswith((".", "/", "~")):
        raise ModelNotFound(
            f"there is no folder {spec!r}: transformers/ takes a folder or REPOSITORY[@REVISION]"
        )
    return _download(match["repo"], match["revision"])


def _download(repo: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import errors, snapshot_download
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "downloading a model needs huggingface_hub: pip install 'textassay[transformers]'"
        ) from error
    from httpx import HTTPError  # what the hub's library raises without a network

    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(_PARTS)))
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise NothingListening(
            f"{repo} is not in the local cache, and the Hugging Face hub cannot be reached "
            "(offline, or HF_HUB_OFFLINE is set): download it on a machine with a network, or name "
            "a folder (transformers/PATH)"
        ) from error
    except errors.GatedRepoError as error:
        raise ModelNotFound(
            f"{repo} is gated: accept its terms on the hub and set HF_TOKEN"
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ModelNotFound(
            f"there is no repository {repo!r} on the hub (or no such revision), or it is not open "
            "to you"
        ) from error
    except errors.HFValidationError as error:
        raise ConfigurationError(f"{repo} is not a repository: {error}") from error
    except (errors.HfHubHTTPError, HTTPError, OSError) as error:
        raise NothingListening(
            f"downloading {repo} failed: {type(error).__name__}: {error}"
        ) from error


def folder_digest(folder: Path) -> str:
    """Return one SHA-256, in hex, over the files in a model's folder that affect its answers."""
    whole = hashlib.sha256()
    named = {path for pattern in _PARTS for path in folder.glob(pattern) if path.is_file()}
    for path in sorted(named):
        # Names count as well: the same bytes as config.json and as tokenizer.json are not the same
        # model.
        whole.update(f"{path.name} {file_digest(path)}\n".encode())
    return whole.hexdigest()
