"""The model that comes with the package.

`embedded`, a GGUF file of a few megabytes and the SHA-256 it must have.
"""

from __future__ import annotations

from pathlib import Path

from textassay.runtime.backends.llamacpp.library import BEHIND_API
from textassay.runtime.backends.llamacpp.model import LlamaCppModel, usable_cores
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import LocalSettings

NAME = "embedded"
"""As `--model` and `connect` take it."""
FOLDER = Path(__file__).parents[3] / "models"
FILE, CHECKSUM = "embedded.gguf", "embedded.gguf.sha256"
MAX_THREADS = 4
"""The model is small: more threads wait for each other longer than they compute."""
_WITHOUT = f"Models behind an API need no file, such as {BEHIND_API}"


def embedded_model(local: LocalSettings, folder: Path = FOLDER) -> LlamaCppModel:
    """Return the packaged model, which is checked when it is opened.

    Sources that do not fit its context are cut unless `truncate` says otherwise. It runs on the
    CPU, with one core left to everything else, since threads that wait for a core slow the others
    down; `n_gpu_layers` and `threads` change it.
    """
    threads = max(1, min(MAX_THREADS, usable_cores() - 1))
    defaults = {"truncate": "source", "n_gpu_layers": 0, "threads": threads}
    chosen = {key: value for key, value in local.model_dump().items() if value is not None}
    return LlamaCppModel(NAME, folder / FILE, **{**defaults, **chosen}, sha256=_expected(folder))


def _expected(folder: Path) -> str:
    """Return the SHA-256 that stands in the checksum file, as `sha256sum` writes it."""
    for name in (FILE, CHECKSUM):
        if not (folder / name).is_file():
            raise ConfigurationError(
                f"the embedded model is missing from this installation ({folder / name}); install"
                f" textassay again (pip install --force-reinstall textassay). {_WITHOUT}"
            )
    words = (folder / CHECKSUM).read_text(encoding="utf-8", errors="replace").split()
    return words[0] if words else ""
