"""Everything that decides what a run yields, and its record in the manifest."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version as installed
from typing import Any

from pydantic import ValidationError

from textassay.methods.method import Method
from textassay.runtime.data import DataInfo
from textassay.runtime.errors import RunFolderError
from textassay.runtime.messages import Message
from textassay.runtime.model import Model
from textassay.runtime.run_folder import FORMAT
from textassay.runtime.settings import Settings
from textassay.version import __version__

SETTABLE = ("attempts", "timeout", "total_timeout")
"""Run-time settings that `--set` reaches; every other key is an option of the method."""
LIBRARIES = ("litellm", "pydantic", "aiohttp")


class RunSpec(Message):
    """What was asked for, by names: enough to build the same run again."""

    method: str
    """Name of the method, or of a method object's class."""
    task: str | None = None
    """Built-in task, or path of a TOML file."""
    aspects: tuple[str, ...] | None = None
    """Names of the aspects; `None` for all of the task."""
    models: dict[str, str] = {}
    """Names of models by role; the role `""` serves every role that is not named."""
    options: dict[str, Any] = {}
    """Options of the method."""
    tools: tuple[str, ...] = ()
    """Assistant evaluators."""
    data: str | None = None
    """Path of the data; `None` where they came from memory."""
    fields: dict[str, str] = {}
    """Field map from the data's names to ours."""
    limit: int | None = None
    """Only the first so many examples."""


def split_settings(pairs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return run-time settings and method options from `--set` pairs."""
    runtime = {key: value for key, value in pairs.items() if key in SETTABLE}
    return runtime, {key: value for key, value in pairs.items() if key not in SETTABLE}


def manifest_of(
    spec: RunSpec, method: Method, models: Mapping[str, Model], data: DataInfo, settings: Settings
) -> dict[str, Any]:
    """Return the manifest: what is needed to repeat the run, and what it ran on; never a key."""
    return {
        "format": FORMAT,
        "textassay": __version__,
        "python": platform.python_version(),
        "libraries": {name: installed(name) for name in LIBRARIES},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "spec": spec.model_dump(mode="json"),
        "method": method.describe(),
        "signature": method.signature,
        "models": {role: {"name": model.name, "identity": dict(model.identity)} for role, model in models.items()},
        "data": {"path": spec.data, "digest": data.digest, "count": data.count},
        "settings": settings.model_dump(mode="json"),
    }


def spec_of(manifest: Mapping[str, Any]) -> RunSpec:
    """Read the spec back from a manifest.

    Raises:
        RunFolderError: The manifest was edited or is not a run's.
    """
    try:
        return RunSpec(**manifest["spec"])
    except (KeyError, TypeError, ValidationError) as error:
        raise RunFolderError(f"manifest.json does not tell how the run was made: {error}") from error


def check_same_run(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to resume a run whose scores would not be comparable.

    Raises:
        RunFolderError: Data, method, prompts or model differ; names what and how.
    """
    for what, path in (
        ("the data", ("data", "digest")),
        ("the method, its options or its prompts", ("method",)),
        ("the signature", ("signature",)),
        ("the models", ("models",)),
    ):
        before: Any = old
        after: Any = new
        for key in path:
            before, after = (before or {}).get(key), (after or {}).get(key)
        if before != after:
            raise RunFolderError(f"this run cannot be resumed: {what} changed from {before!r} to {after!r}")
