"""What a report is made from: a run folder, and the data that it judged.

Knows files; nothing of statistics or HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from textassay.calibration.columns import People
from textassay.meta.ranks import Floats
from textassay.report.score_table import ScoreTable
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError, RunFolderError
from textassay.runtime.messages import Example
from textassay.runtime.storage.run_files import read_manifest


@dataclass
class RunSource:
    """One run.

    Attributes:
        name: What the page calls it: the folder's name, made unique between the runs.
        folder: The run folder.
        manifest: How it was made.
        table: Its scores.
        stress: Its `stress.json`, empty if it has none.
    """

    name: str
    folder: Path
    manifest: dict[str, Any]
    table: ScoreTable
    stress: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(_at(self.manifest, "method", "name") or "scores")

    @property
    def models(self) -> dict[str, str]:
        """Name of the model by role; the role `""` serves every role that is not named."""
        models = self.manifest.get("models")
        items = models.items() if isinstance(models, Mapping) else ()
        return {str(role): str(_at(model, "name") or model) for role, model in items}

    def higher_is_better(self, aspect: str) -> bool:
        """Return whether a high score on an aspect is a good one, as the manifest says."""
        for known in _at(self.manifest, "method", "aspects") or ():
            if isinstance(known, Mapping) and known.get("name") == aspect:
                return bool(known.get("higher_is_better", True))
        return True


@dataclass
class DataSource:
    """The examples that were judged.

    Attributes:
        name: Name of the file, without its folder.
        examples: By id; empty if the data could not be found.
        missing: Why there are none, for readers of the page; `None` if there are.
    """

    name: str
    examples: dict[str, Example]
    missing: str | None = None

    surface: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Trivial measures of the texts by name and id, once somebody has asked for them."""

    def ratings(self, aspect: str) -> Floats:
        """Return all mean ratings of a human aspect, without gaps."""
        ratings = (example.human.get(aspect) for example in self.examples.values())
        return np.array([rating for rating in ratings if rating is not None], float)

    @cached_property
    def people(self) -> People:
        """The ratings as the decisions take them; read once, since a live page asks again."""
        return People(list(self.examples.values()))

    @property
    def systems(self) -> list[str]:
        """Names of the systems."""
        return sorted({one.system for one in self.examples.values() if one.system is not None})


def open_run(folder: str | Path, *, name: str | None = None) -> RunSource:
    """Open a run folder, without its scores.

    Raises:
        RunFolderError: It holds no run, or one of a newer format.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    return RunSource(
        name or folder.resolve().name, folder, manifest, ScoreTable(folder), _stress(folder)
    )


def open_runs(folders: list[str | Path]) -> list[RunSource]:
    """Open runs under names that differ: the last parts of their paths that tell them apart.

    Raises:
        RunFolderError: A folder holds no run, or one of a newer format.
    """
    paths = [Path(folder).resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        raise RunFolderError("the same run is given twice; give two different run folders")
    depth = 1
    # two runs are often called the same in different folders
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return [open_run(path, name="/".join(path.parts[-depth:])) for path in paths]


def open_data(run: RunSource, data: str | Path | Examples | None) -> DataSource:
    """Read the examples that a run judged.

    Args:
        run: The run, whose manifest names its data.
        data: The data, opened or by its path, with ratings if there are any; `None` for the file
            that the manifest names, which is read only if it still is what the run judged.

    Raises:
        DataError: `data` is given and cannot be read.
    """
    if data is not None:
        given = data if isinstance(data, Examples) else Examples(data)
        return DataSource(Path(given.name).name, _by_id(given))
    path, fields = _at(run.manifest, "data", "path"), _at(run.manifest, "spec", "fields") or {}
    if not path:
        return DataSource("", {}, "the run judged data from memory; name the file of data")
    name = Path(path).name
    if not Path(path).is_file():
        return DataSource(name, {}, f"{name} is no longer where the run found it")
    try:
        examples = Examples(path, fields=fields)
        info = examples.check()
    except DataError:
        return DataSource(name, {}, f"{name} can no longer be read")
    # texts of changed data beside old scores would show evidence for other words
    if info.digest != _at(run.manifest, "data", "digest") and not _at(
        run.manifest, "spec", "limit"
    ):
        return DataSource(name, {}, f"{name} has changed since the run judged it")
    return DataSource(name, _by_id(examples))


def _by_id(examples: Examples) -> dict[str, Example]:
    return {example.id: example for example in examples}


def _stress(folder: Path) -> dict[str, Any]:
    path = folder / "stress.json"
    if not path.exists():
        return {}
    try:
        document = dict(json.loads(path.read_bytes()))
        document["tests"] = [dict(test) for test in document["tests"]]
        return document
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} contains no verdicts of a stress run: {error}") from error


def _at(value: Any, *keys: str) -> Any:
    """Return what lies below these keys in nested objects; `None` if a key is missing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
