"""The layout of the demo's folder.

One folder that can be read while it grows and resumed after a stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textassay.demo.recipes import TASKS
from textassay.runtime.errors import RunFolderError, StorageError
from textassay.runtime.storage.files import write_json
from textassay.version import __version__

MARK = "demo.json"


@dataclass(frozen=True)
class DemoFolder:
    """The demo's folder.

    Attributes:
        folder: Its path.
        tasks: What is shown; the folder may hold other tasks besides.
    """

    folder: Path
    tasks: tuple[str, ...] = TASKS

    def data(self, task: str, *, held_out: bool = False) -> Path:
        """Return the file of a task's examples: all of them, or the held-out ones only."""
        return self.folder / "data" / f"{task}{'-held-out' if held_out else ''}.jsonl"

    def run(self, task: str, name: str) -> Path:
        """Return the run folder of a recipe."""
        return self.folder / "runs" / task / name

    def evaluator(self, task: str) -> Path:
        """Return the folder of the evaluator that was fitted for a task."""
        return self.folder / "evaluators" / task

    @property
    def answers(self) -> Path:
        """The answers' cache, which all runs share."""
        return self.folder / "answers"

    @property
    def agreement(self) -> Path:
        """The table of agreement as JSON."""
        return self.folder / "agreement.json"

    def open(self, model: Mapping[str, Any]) -> None:
        """Make the folder, or resume that of an earlier demo.

        Args:
            model: Identity of the model that is asked; an earlier demo must have asked the same.

        Raises:
            RunFolderError: It holds something else, the demo of another model or version, or cannot
                be written to.
        """
        mark = {"format": 1, "textassay": __version__, "model": dict(model)}
        file = self.folder / MARK
        try:
            if file.exists():
                self._check(file, mark)
            elif self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                raise RunFolderError(
                    f"{self.folder} contains something else; give --out a folder that is new or "
                    "empty"
                )
            for part in ("data", "runs", "evaluators"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            # last, so that the mark says that the folders are there
            write_json(file, mark)
        except OSError as error:
            raise RunFolderError(
                f"the folder {self.folder} cannot be written to: {error}"
            ) from error

    def _check(self, file: Path, mark: dict[str, Any]) -> None:
        try:
            before = json.loads(file.read_bytes())
        except ValueError as error:
            raise RunFolderError(
                f"{file} cannot be read: {error}; give --out a new folder"
            ) from error
        # scores of two models side by side in one table of agreement would look like one demo
        if before != mark:
            raise RunFolderError(
                f"{self.folder} contains the demo of another model or another version of "
                "textassay; give --out a new folder"
            )

    def write_agreement(self, content: object) -> None:
        """Write the table of agreement as JSON.

        Raises:
            StorageError: The folder cannot be written to.
        """
        try:
            write_json(self.agreement, content)
        except OSError as error:
            raise StorageError(f"cannot write {self.agreement}: {error}") from error
