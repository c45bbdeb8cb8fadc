"""The demo's runs: the public pipeline over the bundled examples.

Every step is what a command of `textassay` does, and leaves what that command leaves.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from textassay.demo import data_file
from textassay.demo.recipes import BASELINES, FITTED, NODES, DemoFolder, Recipe, list_recipes
from textassay.evaluation.api import open_evaluation
from textassay.evaluation.run import Run
from textassay.evaluation.session import Session, finish
from textassay.fitting.fit_from_scores import fit_recorded
from textassay.learning.splits import group_codes, split_rows
from textassay.methods.fitted.evaluator import is_evaluator
from textassay.methods.library import tasks, trees
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import StorageError
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings
from textassay.runtime.storage.files import write_text

TRAIN_FRACTION, SEED = 0.5, 0
"""Half of the sources to learn from, the other half to judge; rows of one source stay together."""

WatchSession = Callable[[str, str, Session], AbstractAsyncContextManager[None]]
"""Shows how a session goes while its block runs, given the task, what is run, and the session."""


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
            self._fit(task)
            await self._apply(task)

    def _write_data(self, task: str) -> None:
        """Copy a task's examples, and write those of the held-out sources to another file."""
        lines = data_file(task).read_text(encoding="utf-8").splitlines(keepends=True)
        groups = group_codes(example.group for example in Examples(data_file(task)))
        # the same split as `fit` makes with these settings, so that the file holds exactly its
        # held-out rows
        trained = split_rows(groups, TRAIN_FRACTION, seed=SEED)
        held_out = (line for line, used in zip(lines, trained, strict=True) if not used)
        try:
            shutil.copyfile(data_file(task), self._layout.data(task))
            write_text(self._layout.data(task, held_out=True), "".join(held_out))
        except OSError as error:
            raise StorageError(
                f"cannot write the examples to {self._layout.folder}: {error}"
            ) from error

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

    def _fit(self, task: str) -> None:
        """Do what `textassay fit --scores` does, over the ratings of every criterion."""
        folder = self._layout.evaluator(task)
        # an evaluator is written last, so a folder with one was finished by an earlier demo
        if not is_evaluator(folder):
            data = Examples(self._layout.data(task))
            fit = fit_recorded(
                data, scores=(self._nodes(task),), train_fraction=TRAIN_FRACTION, seed=SEED
            )
            fit.save(folder)

    async def _apply(self, task: str) -> Run:
        """Score the held-out sources, as `textassay score --method FOLDER` does."""
        evaluator = str(self._layout.evaluator(task))
        arguments = {"method": evaluator, "options": {"scores": (self._nodes(task),)}}
        return await self._session(
            (task, FITTED), self._layout.data(task, held_out=True), arguments
        )

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
    """Return the aspects of a task that the published tree decomposes.

    Only their nodes are known before the run.
    """
    task = tasks.load(name)
    roots = {root.id for root in trees.load(name, task).roots}
    return [aspect.name for aspect in task.aspects if aspect.id in roots]
