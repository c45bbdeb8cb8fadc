"""A model's files, in a folder or a pinned revision on the Hugging Face Hub.

Nothing here reads weights.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from textassay.runtime.backends.local.files import download, file_digest
from textassay.runtime.errors import ConfigurationError, ModelError

PACKAGED_VECTORS = "wordllama"
"""Package whose vectors the extra `static` brings."""

# organization/name@revision
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
    vectors: Path | None = None
    """The table of a static model, or `None` if the folder holds a network."""
    tokenizer_file: Path | None = None
    """The tokenizer of a static model."""

    @property
    def onnx(self) -> Path | None:
        """The ONNX graph, or `None`."""
        places = (self.folder / "model.onnx", self.folder / "onnx" / "model.onnx")
        return next((place for place in places if place.is_file()), None)

    @property
    def weights(self) -> tuple[Path, ...]:
        """Weights that transformers reads, safetensors if there are any."""
        return tuple(sorted(self.folder.glob("*.safetensors"))) or tuple(
            sorted(self.folder.glob("pytorch_model*.bin"))
        )

    def digest(self) -> str:
        """Return 12 hex digits that stand for configuration, tokenizer and weights.

        Reads all of them.
        """
        total = hashlib.sha256()
        texts = [p for pattern in _TEXT_FILES for p in sorted(self.folder.glob(pattern))]
        parts = (self.vectors, self.tokenizer_file, self.onnx)
        named = [path for path in parts if path is not None and path not in self.weights]
        for path in dict.fromkeys((*texts, *self.weights, *named)):
            total.update(f"{path.name}\0{file_digest(path)}\0".encode())
        return total.hexdigest()[:12]


def locate(model: str, *, engine: str = "auto", cached_only: bool = False) -> ModelFiles:
    """Return the files of a model, fetched from the Hub unless they are here or `cached_only`.

    `model` is a folder, `organization/name@revision` on the Hub, or `wordllama` for the vectors of
    that package; `engine` says which weights to fetch, by default those for transformers.
    """
    folder = Path(model).expanduser()
    if folder.exists():
        return read_folder(folder, folder.resolve().name)
    if model == PACKAGED_VECTORS:
        return _packaged()
    match = _HUB_ID.fullmatch(model)
    if match is None:
        raise ConfigurationError(
            f"no model at {model!r}: it is neither a folder nor a Hub id such as"
            " organization/name@revision"
        )
    fetched = _fetch(match["id"], match["revision"], engine, cached_only=cached_only)
    # the cache names the folder of a snapshot after its commit
    return read_folder(fetched, f"{match['id']}@{fetched.name[:12]}")


def on_hub(model: str) -> bool:
    """Return whether a model's name is a Hub id rather than a folder."""
    return not Path(model).expanduser().exists() and _HUB_ID.fullmatch(model) is not None


def read_folder(folder: Path, label: str) -> ModelFiles:
    """Return the files in a folder, or raise `ConfigurationError` if it is not one of a model."""
    nested = folder / "0_StaticEmbedding"  # where sentence-transformers puts a table
    if (nested / "model.safetensors").is_file():
        return ModelFiles(
            folder,
            label,
            _json(folder / "config_sentence_transformers.json"),
            vectors=nested / "model.safetensors",
            tokenizer_file=nested / "tokenizer.json",
        )
    if not folder.is_dir() or not (folder / "config.json").is_file():
        raise ConfigurationError(
            f"{str(folder)!r} is not a model: expected a folder with config.json, weights and"
            " tokenizer, as `save_pretrained` or `hf download` leave it"
        )
    config = _json(folder / "config.json")
    static = _is_static(folder, config)
    return ModelFiles(
        folder,
        label,
        config,
        _json(folder / "tokenizer_config.json"),
        vectors=folder / "model.safetensors" if static else None,
        tokenizer_file=folder / "tokenizer.json" if static else None,
    )


def _is_static(folder: Path, config: Mapping[str, Any]) -> bool:
    """Return whether a folder holds a table of vectors, as model2vec writes it."""
    if config.get("model_type") == "model2vec":
        return True
    modules = folder / "modules.json"
    return modules.is_file() and b"StaticEmbedding" in modules.read_bytes()


def has_packaged_vectors() -> bool:
    """Return whether the vectors of the extra `static` are there; reads none of them."""
    try:
        _packaged()
    except ConfigurationError:
        return False
    return True


def _packaged() -> ModelFiles:
    """Return the vectors that the package wordllama ships; its code is not run."""
    spec = find_spec(PACKAGED_VECTORS)
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            f"the vectors of {PACKAGED_VECTORS!r} are not installed: pip install"
            " 'textassay[static]'"
        )
    folder = Path(spec.origin).parent
    vectors = sorted((folder / "weights").glob("*.safetensors"))
    tokenizers = sorted((folder / "tokenizers").glob("*.json"))
    if len(vectors) != 1 or len(tokenizers) != 1:
        raise ConfigurationError(
            f"{str(folder)!r} does not contain one table and one tokenizer; this release of "
            f"{PACKAGED_VECTORS} is laid out differently: pip install 'textassay[static]'"
        )
    label = f"{PACKAGED_VECTORS}-{version(PACKAGED_VECTORS)}"
    return ModelFiles(folder, label, vectors=vectors[0], tokenizer_file=tokenizers[0])


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigurationError(f"{str(path)!r} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{str(path)!r} is not a JSON object")
    return content


def _fetch(repository: str, revision: str | None, engine: str, *, cached_only: bool) -> Path:
    def snapshot(*patterns: str) -> Path:
        return download(
            repository,
            revision=revision,
            patterns=patterns,
            cached_only=cached_only,
            package=f"'textassay[{'onnx' if engine == 'onnx' else 'nli'}]'",
        )

    try:
        if engine == "onnx":
            return snapshot(*_TEXT_FILES, *_ONNX_FILES)
        # Two steps: repositories often hold the same weights in both formats, gigabytes each.
        folder = snapshot(*_TEXT_FILES, "*.safetensors")
        if not any(folder.rglob("*.safetensors")):
            folder = snapshot("pytorch_model*.bin")
        return folder
    except ModelError as error:
        at = f" --revision {revision}" if revision else ""
        reason = str(error.__cause__).partition("\n")[0] or type(error.__cause__).__name__
        raise ConfigurationError(
            f"the model {repository!r} is not on this machine and could not be fetched ({reason});"
            f" fetch it where there is a network with `hf download {repository}{at}`, or give"
            " a folder that contains it instead"
        ) from error
