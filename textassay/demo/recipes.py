"""The demo's recipes, each a method with the options that suit a very small model, and its folder.

The folder can be read while it grows, and resumed after a stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textassay.runtime.errors import RunFolderError, StorageError
from textassay.runtime.messages import Message
from textassay.runtime.storage.files import write_json
from textassay.tools.registry import has_extra
from textassay.version import __version__

TASKS = ("summarization", "dialogue", "data-to-text")
"""Tasks of the demo; the bundled translations are left out, for its model reads English only."""

TRIVIAL = ("length", "novelty", "rougeL")
"""Tools that look at the surface alone: what a judge must beat to be worth its while."""
LEXICAL = ("rougeL", "chrf", "coverage", "repetition")
"""Tools that Fusion-Eval fuses."""
FITTED = "hd-eval-fitted"
"""What the rows of the fitted evaluator are called, and its folder."""
MARK = "demo.json"


class Recipe(Message):
    """One method as the demo runs it."""

    name: str
    """What its rows are called, and its folder."""
    method: str
    """The method, as `textassay score --method` takes it."""
    options: dict[str, Any] = {}
    """Its options, as `--set` takes them."""
    tools: tuple[str, ...] = ()
    """Its assistant evaluators."""
    unit: str = ""
    """What its values are."""
    tasks: tuple[str, ...] = TASKS
    """The tasks that it runs on."""
    extra: str = ""
    """Extra of the package that it needs; where it is not installed the recipe is left out."""


BASELINES = Recipe(name="trivial", method="tools", tools=TRIVIAL)
RECIPES = (
    Recipe(name="g-eval", method="g-eval", unit="rating"),
    Recipe(name="gptscore", method="gptscore", options={"pmi": True}, unit="nats/token"),
    Recipe(name="decomp-eval", method="decomp-eval", unit="P(yes)"),
    Recipe(name="checklist", method="checklist", unit="P(yes)"),
    # judges facts only; the bundled ratings of data-to-text have no aspect about facts
    Recipe(name="claims", method="claims", unit="P(yes)", tasks=("summarization", "dialogue")),
    Recipe(name="coascore", method="coascore", unit="rating"),
    Recipe(name="fusion-eval", method="fusion-eval", tools=LEXICAL, unit="0 to 1"),
    Recipe(name="hd-eval", method="hd-eval", unit="rating"),
    Recipe(
        name="embedding",
        method="tools",
        tools=("embedding?engine=static&per=sentence",),
        unit="cosine",
        extra="static",
    ),
)
"""The methods; what else they are given comes from the model's profile."""
NODES = Recipe(name="hd-eval-nodes", method="hd-eval", options={"output": "nodes"})
"""HD-Eval's rating of every criterion for itself: what `fit` learns from."""


def list_recipes(task: str) -> tuple[Recipe, ...]:
    """Return the methods that run on a task, in order; those that can, by what is installed."""
    return tuple(r for r in RECIPES if task in r.tasks and r not in left_out())


def left_out() -> tuple[Recipe, ...]:
    """Return the recipes whose extra is not installed."""
    return tuple(recipe for recipe in RECIPES if not has_extra(recipe.extra))


@dataclass(frozen=True)
class DemoFolder:
    """The demo's folder."""

    folder: Path
    tasks: tuple[str, ...] = TASKS
    """What is shown; the folder may hold other tasks besides."""

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
        """Make the folder, or resume that of an earlier demo."""
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
        """Write the table of agreement as JSON."""
        try:
            write_json(self.agreement, content)
        except OSError as error:
            raise StorageError(f"cannot write {self.agreement}: {error}") from error
