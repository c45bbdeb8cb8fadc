"""Where the files of a model are: a local folder, or a repository of the Hugging Face Hub in a pinned revision.

`HF_HUB_OFFLINE` and the Hub's cache folders are honoured by the Hub's own client. Nothing here
reads weights.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines.extras import need

_HUB_ID = re.compile(r"(?P<id>[\w.\-]+/[\w.\-]+)(?:@(?P<revision>[\w.\-/]+))?")
_TEXT_FILES = ("*.json", "*.txt", "*.model")
_ONNX_FILES = ("model.onnx", "model.onnx_data", "onnx/model.onnx", "onnx/model.onnx_data")


@dataclass(frozen=True)
class ModelFiles:
    """A folder with a model's configuration, tokenizer and weights."""

    folder: Path
    label: str
    """What signatures call it: the Hub id with its commit, or the folder's name."""
    config: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def onnx(self) -> Path | None:
        """The ONNX graph, or `None` where there is none."""
        return next(
            (
                p
                for p in (self.folder / "model.onnx", self.folder / "onnx" / "model.onnx")
                if p.is_file()
            ),
            None,
        )

    @property
    def weights(self) -> tuple[Path, ...]:
        """Weights that transformers reads, safetensors if there are any."""
        return tuple(sorted(self.folder.glob("*.safetensors"))) or tuple(
            sorted(self.folder.glob("pytorch_model*.bin"))
        )

    def digest(self) -> str:
        """Return 12 hex digits that stand for configuration, tokenizer and weights; reads all of them."""
        total = hashlib.sha256()
        texts = [
            p
            for pattern in ("*.json", "*.txt", "*.model")
            for p in sorted(self.folder.glob(pattern))
        ]
        for path in (*texts, *self.weights, *((self.onnx,) if self.onnx else ())):
            with path.open("rb") as file:
                total.update(
                    f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0".encode()
                )
        return total.hexdigest()[:12]


def locate(model: str, *, engine: str = "auto") -> ModelFiles:
    """Return the files of a model, fetched from the Hub where they are not here yet.

    Args:
        model: A folder, or `organisation/name@revision` on the Hub.
        engine: Which weights to fetch: `transformers`, `onnx`, or `auto` for the former.

    Raises:
        ConfigurationError: There is no such folder, it holds no model, or the Hub's files cannot be
            had.
    """
    folder = Path(model).expanduser()
    if folder.exists():
        return read_folder(folder, folder.resolve().name)
    match = _HUB_ID.fullmatch(model)
    if match is None:
        raise ConfigurationError(
            f"no model at {model!r}: it is neither a folder nor a Hub id such as organisation/name@revision"
        )
    fetched = _fetch(match["id"], match["revision"], engine)
    # the cache names the folder of a snapshot after its commit
    return read_folder(fetched, f"{match['id']}@{fetched.name[:12]}")


def read_folder(folder: Path, label: str) -> ModelFiles:
    """Return the files in a folder.

    Raises:
        ConfigurationError: It is no folder of a model.
    """
    if not folder.is_dir() or not (folder / "config.json").is_file():
        raise ConfigurationError(
            f"{str(folder)!r} is no model: expected a folder with config.json, weights and tokenizer, as "
            "`save_pretrained` or `hf download` leave it"
        )
    return ModelFiles(
        folder, label, _json(folder / "config.json"), _json(folder / "tokenizer_config.json")
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigurationError(f"{str(path)!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"{str(path)!r} does not hold a JSON object")
    return found


def _fetch(repository: str, revision: str | None, engine: str) -> Path:
    hub = need(
        "huggingface_hub",
        extra="onnx" if engine == "onnx" else "nli",
        what=f"fetching {repository!r}",
    )
    try:
        if engine == "onnx":
            return Path(
                hub.snapshot_download(
                    repository, revision=revision, allow_patterns=[*_TEXT_FILES, *_ONNX_FILES]
                )
            )
        found = Path(
            hub.snapshot_download(
                repository, revision=revision, allow_patterns=[*_TEXT_FILES, "*.safetensors"]
            )
        )
        if not any(found.glob("*.safetensors")):
            found = Path(
                hub.snapshot_download(
                    repository, revision=revision, allow_patterns=["pytorch_model*.bin"]
                )
            )
        return found
    except (OSError, ValueError) as error:  # the Hub's errors are all one or the other
        at = f" --revision {revision}" if revision else ""
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigurationError(
            f"the model {repository!r} is not on this machine and could not be fetched ({reason}); fetch it where "
            f"there is a network with `hf download {repository}{at}`, or name a folder that holds it instead"
        ) from error
