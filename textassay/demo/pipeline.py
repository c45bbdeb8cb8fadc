"""The demo's runs: the public pipeline over the bundled examples, in a folder that can be resumed.

A recipe is a method with the options that suit a very small model. Every step is what a command of
`textassay` does, and leaves what that command leaves; the folder can be read while it grows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textassay.demo import data_file
from textassay.evaluation.api import open_evaluation
from textassay.evaluation.run import Run
from textassay.evaluation.session import Session, finish
from textassay.learning.splits import group_codes, split_rows
from textassay.methods.fitted.evaluator import is_evaluator
from textassay.methods.library import tasks, trees
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import RunFolderError
from textassay.runtime.messages import Message
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings
from textassay.runtime.storage.files import storage_errors, write_json, write_text
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
TRAIN_FRACTION, SEED = 0.5, 0
"""Half of the sources to learn from, the other half to judge; rows of one source stay together."""

WatchSession = Callable[[str, str, Session], AbstractAsyncContextManager[None]]
"""Shows how a session goes while its block runs, given the task, what is run, and the session."""


class Recipe(Message):
    """One method as the demo runs it."""

    name: str  # what its rows are called, and its folder
    method: str  # the method, as `textassay score --method` takes it
    options: dict[str, Any] = {}  # its options, as `--set` takes them
    tools: tuple[str, ...] = ()  # its assistant evaluators
    unit: str = ""  # what its values are
    tasks: tuple[str, ...] = TASKS  # the tasks that it runs on
    # extra of the package that it needs; where it is not installed the recipe is left out
    extra: str = ""


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
        name="embedding", method="tools", tools=("embedding?engine=static&per=sentence",),
        unit="cosine", extra="static",
    ),
)  # fmt: skip
"""The methods; what else they are given comes from the model's profile."""
NODES = Recipe(name="hd-eval-nodes", method="hd-eval", options={"output": "nodes"})
"""HD-Eval's rating of every criterion for itself: what `fit` learns from."""


def list_recipes(task: str) -> tuple[Recipe, ...]:
    """Return the methods that run on a task, in order; those that can, by what is installed."""
    return tuple(r for r in RECIPES if task in r.tasks and r not in left_out())


def left_out() -> tuple[Recipe, ...]:
    """Return the recipes whose extra is not installed."""
    from textassay.tools.registry import has_extra  # with it come all tools

    return tuple(recipe for recipe in RECIPES if not has_extra(recipe.extra))


@dataclass(frozen=True)
class DemoFolder:
    """The demo's folder."""

    folder: Path
    tasks: tuple[str, ...] = TASKS  # what is shown; the folder may hold other tasks besides

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
                # scores of two models side by side in one table would look like one demo
                if json.loads(file.read_bytes()) != mark:
                    raise RunFolderError(
                        f"{self.folder} contains the demo of another model or another version of "
                        "textassay; give --out a new folder"
                    )
            elif self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                raise RunFolderError(
                    f"{self.folder} contains something else; give --out a folder that is new or "
                    "empty"
                )
            for part in ("data", "runs", "evaluators"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            # last, so that the mark says that the folders are there
            write_json(file, mark)
        except ValueError as error:
            raise RunFolderError(
                f"{file} cannot be read: {error}; give --out a new folder"
            ) from error
        except OSError as error:
            raise RunFolderError(
                f"the folder {self.folder} cannot be written to: {error}"
            ) from error

    def write_agreement(self, content: object) -> None:
        """Write the table of agreement as JSON."""
        with storage_errors(f"cannot write {self.agreement}"):
            write_json(self.agreement, content)


def count_steps(layout: DemoFolder) -> int:
    """Return how many sessions a demo has."""
    return sum(len(list_recipes(task)) + 3 for task in layout.tasks)


class Pipeline:
    """The demo's runs, in order; one that is finished already is only read."""

    def __init__(self, layout: DemoFolder, model: Model, watch: WatchSession) -> None:
        self._layout, self._model, self._watch = layout, model, watch

    async def run(self) -> None:
        """Run everything."""
        for task in self._layout.tasks:
            self._write_data(task)
            for recipe in (BASELINES, *list_recipes(task), NODES):
                await self._score(task, recipe)
            await self._fit(task)
            await self._apply(task)

    def _write_data(self, task: str) -> None:
        """Copy a task's examples, and write those of the held-out sources to another file."""
        lines = data_file(task).read_text(encoding="utf-8").splitlines(keepends=True)
        groups = group_codes(example.group for example in Examples(data_file(task)))
        # the split that `fit` makes with these settings: the file has its held-out rows
        trained = split_rows(groups, TRAIN_FRACTION, seed=SEED)
        held_out = (line for line, used in zip(lines, trained, strict=True) if not used)
        with storage_errors(f"cannot write the examples to {self._layout.folder}"):
            shutil.copyfile(data_file(task), self._layout.data(task))
            write_text(self._layout.data(task, held_out=True), "".join(held_out))

    async def _score(self, task: str, recipe: Recipe) -> Run:
        """Do what `textassay score` does, or `textassay tools score` for what asks no model."""
        arguments: dict[str, Any] = {
            "method": recipe.method, "options": recipe.options, "tools": recipe.tools
        }  # fmt: skip
        if recipe.method != BASELINES.method:  # tools ask no model
            arguments |= {"task": task, "model": self._model}
        if recipe is NODES:
            arguments["aspects"] = _with_a_tree(task)
        return await self._session((task, recipe.name), self._layout.data(task), arguments)

    async def _fit(self, task: str) -> None:
        """Do what `textassay fit --scores` does, over the ratings of every criterion."""
        folder = self._layout.evaluator(task)
        # an evaluator is written last, so a folder with one was finished by an earlier demo
        if not is_evaluator(folder):
            from textassay.fitting.api import fit  # one step takes it

            found = await fit(
                self._layout.data(task), scores=self._nodes(task), train_fraction=TRAIN_FRACTION,
                seed=SEED,
            )  # fmt: skip
            found.save(folder)

    async def _apply(self, task: str) -> Run:
        """Score the held-out sources, as `textassay score --method FOLDER` does."""
        evaluator = str(self._layout.evaluator(task))
        arguments = {"method": evaluator, "options": {"scores": (self._nodes(task),)}}
        held_out = self._layout.data(task, held_out=True)
        return await self._session((task, FITTED), held_out, arguments)

    def _nodes(self, task: str) -> str:
        return f"{NODES.method}={self._layout.run(task, NODES.name)}"

    async def _session(
        self, place: tuple[str, str], data: Path, arguments: Mapping[str, Any]
    ) -> Run:
        """Run or resume one session to its end; all sessions share one cache of answers."""
        folder = self._layout.run(*place)
        opened = open_evaluation(
            data,
            **arguments,
            out=folder,
            # a finished run is resumed as well: it asks nothing, and its scores are read back
            resume=(folder / "manifest.json").exists(),
            settings=Settings(cache=self._layout.answers),
        )
        async with opened as session, self._watch(*place, session):
            return await finish(session)


def _with_a_tree(name: str) -> list[str]:
    """Return the aspects of a task whose nodes are known before the run: in the published tree."""
    task = tasks.load(name)
    roots = {root.id for root in trees.load(name, task).roots}
    return [aspect.name for aspect in task.aspects if aspect.id in roots]
