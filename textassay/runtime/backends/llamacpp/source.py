"""Resolves what follows `llamacpp/`: a path, or a file in a Hugging Face repository.

Repository files are downloaded once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from textassay.runtime.errors import ConfigurationError, ModelNotFound, NothingListening

# C:\models\m.gguf
_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")
# Qwen/Qwen2.5-0.5B-Instruct-GGUF@main:qwen2.5-0.5b-instruct-q8_0.gguf
_HUB = re.compile(r"^(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^:]+))?:(?P<file>[^:]+)$")


@dataclass(frozen=True)
class HubFile:
    """A file in a repository of the Hugging Face hub."""

    repo: str
    file: str
    revision: str | None = None


def parse_spec(spec: str) -> Path | HubFile:
    r"""Tell a path from `HF_REPO:FILE` (`HF_REPO@REVISION:FILE`).

    A drive such as `C:\models\m.gguf` is a path.

    Raises:
        ConfigurationError: Nothing is named.
    """
    if not spec.strip():
        raise ConfigurationError(
            "llamacpp/ needs a model: llamacpp/PATH.gguf or llamacpp/HF_REPO:FILE"
        )
    if not _DRIVE.match(spec) and not Path(spec).exists() and (match := _HUB.match(spec)):
        return HubFile(match["repo"], match["file"], match["revision"])
    return Path(spec).expanduser()


def locate(spec: str) -> Path:
    """Return the file a spec names, downloading it if it is not here yet.

    Blocks, with a progress bar on stderr.

    `HF_HUB_OFFLINE`, `HF_HOME`, `HF_TOKEN` and the hub's other settings hold as its own library
    reads them.

    Raises:
        ModelNotFound: There is no such file or repository, or it is not open to you.
        NothingListening: The hub cannot be reached, and the file is not in its cache.
        ConfigurationError: huggingface_hub is missing.
    """
    source = parse_spec(spec)
    if isinstance(source, Path):
        if not source.is_file():
            where = (
                f"{str(source)!r} is a folder"
                if source.is_dir()
                else f"there is no file {str(source)!r}"
            )
            hint = "" if spec != "embedded" else "; the model of the package is 'embedded' alone"
            raise ModelNotFound(f"{where}: llamacpp/ takes PATH.gguf or HF_REPO:FILE{hint}")
        return source
    return _download(source)


def _download(source: HubFile) -> Path:
    try:
        from huggingface_hub import errors, hf_hub_download
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "downloading a model needs huggingface_hub: pip install huggingface_hub"
        ) from error
    name = f"{source.repo}:{source.file}"
    try:
        return Path(hf_hub_download(source.repo, source.file, revision=source.revision))
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise NothingListening(
            f"{name} is not in the local cache, and the Hugging Face hub cannot be reached"
            " (offline, or HF_HUB_OFFLINE is set): download it where there is a network, or name a"
            " local file (llamacpp/PATH.gguf)"
        ) from error
    except errors.GatedRepoError as error:
        raise ModelNotFound(
            f"{name} is gated: accept its terms on the hub and set HF_TOKEN"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFound(
            f"there is no repository {source.repo!r} on the hub, or it is not open to you"
        ) from error
    except errors.EntryNotFoundError as error:
        raise ModelNotFound(f"repository {source.repo!r} has no file {source.file!r}") from error
    except errors.HFValidationError as error:
        raise ConfigurationError(f"{name} is not a repository and file: {error}") from error
    except (errors.HfHubHTTPError, OSError) as error:
        raise NothingListening(
            f"downloading {name} failed: {type(error).__name__}: {error}"
        ) from error
