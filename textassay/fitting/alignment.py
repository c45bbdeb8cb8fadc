"""Learning from people with a model that writes and rates criteria: the base of trees and rubrics.

The request is checked against the data before anything is asked; then criteria are rated by runs in
folders of their own.

OUT/fit.json        the request; the same command resumes an alignment that was stopped
OUT/layers/NAME/    a run that rated criteria
OUT/answers/        answers of models, unless a cache is named
OUT/evaluator.json  written last, with the report
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from pydantic import TypeAdapter

from textassay.agents.prompt_template import Task
from textassay.arrays import Mask
from textassay.evaluation.opening import models_in_batches, open_book, open_models, open_store
from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import Session, finish, open_session
from textassay.fitting.feature_table import (
    FeatureTable,
    Split,
    check_no_leaks,
    rating_scales,
    split_masks,
)
from textassay.fitting.held_out import build_report, held_out_scores
from textassay.fitting.learn import ChosenAggregator, Fitter, Unseen, background_rows, choose
from textassay.fitting.read_table import human_aspects, read_table
from textassay.fitting.report import Fit, fractions, human_aspect, provenance, row_and_group_counts
from textassay.fitting.request import FitByModel
from textassay.methods.fitted.evaluator import Evaluator, is_evaluator
from textassay.methods.hd_eval import SCALE, HDEvalOptions, NodeRatings
from textassay.methods.library import tasks
from textassay.methods.library.profiles import with_absolute_path as absolute_profile
from textassay.methods.method import model_for
from textassay.prompts import TASKS
from textassay.runtime.base import Json, Usage
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError
from textassay.runtime.messages import Aspect, AspectTree, Example
from textassay.runtime.model import Model
from textassay.runtime.stack import usage_ledger, with_store
from textassay.runtime.storage.files import write_json
from textassay.runtime.storage.run_folder import check_new, lock_run

WatchSession = Callable[[Session], AbstractAsyncContextManager[Any]]
"""Shows the progress of a session while its block runs."""
NodeValues = Mapping[str, Mapping[str, float | None]]
"""Value by node's id and example's id."""
PLAN, LAYERS, ANSWERS = "fit.json", "layers", "answers"
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class AlignmentResult:
    """The criteria, and the aggregator learned over them."""

    tree: AspectTree
    choice: ChosenAggregator
    """The last layer's aggregator, over all nodes."""
    parts: Split
    """Training and held-out rows with the ratings of all nodes."""
    layers: list[Json]
    """Findings and decisions of each layer, as JSON values."""
    warnings: tuple[str, ...] = ()
    """Notes on the decisions."""


class Alignment(ABC):
    """One alignment: checked when constructed, executed by `run`, counted by `dry_run`."""

    reported_as: ClassVar[str]
    """Part of the report on how the criteria grew."""
    _models: Mapping[str, Model]
    """The models that rate criteria, by role, once `run` has begun."""
    _connected: Mapping[str, Model]
    """The same without the alignment's store."""
    _watch: WatchSession
    _folder: Path | None = None
    """Folder of the layers, unless requests are only counted."""
    _rating = False  # whether ratings are being requested, or have failed

    def __init__(self, request: FitByModel, data: Examples) -> None:
        """Check the request against the data: examples with human ratings."""
        self.request, self.data = request, data
        self.options = HDEvalOptions.read(request.options)
        self.unscored: dict[str, int] = {}  # failed ratings, by outcome
        self.begun = False  # whether there is a folder to continue in
        for name in ("tree", "depth", "output"):  # alignment decides them itself
            if name in self.options.model_fields_set:
                raise ConfigurationError(
                    f"option {name} cannot be combined with fit, which decides it itself; a tree "
                    "is named by tree=, its layers by layers="
                )
        self.task = task_for(request.task, human_aspects(data.check(), request.aspect_names))
        examples = select_rated(data, request)
        people = read_table(Examples(examples), aspects=request.aspect_names)
        self.fitter = Fitter(rating_scales(people, request.scales), request.seed)
        train, test = self._sides(people)
        used = train | test
        # ratings cost money per row, so rows on neither side must not reach the judge
        self.people, self.train = people.rows(used), train[used]
        ids = set(self.people.ids)
        self.examples = [example for example in examples if example.id in ids]
        self.roots = self._find_roots()
        self._check_learnable()

    def _find_roots(self) -> tuple[Aspect, ...]:
        """Return the criteria of the first layer."""
        return on_judges_scale(self.task.aspects)

    @property
    @abstractmethod
    def growth(self) -> Json:
        """How far criteria grow, as JSON values."""

    @abstractmethod
    async def grow(self) -> AlignmentResult:
        """Find criteria, have them rated, and learn how people weigh them."""

    @abstractmethod
    async def _ask_all(self) -> None:
        """Send dry models every possible request."""

    @abstractmethod
    def _measure(self, aggregator: str, rows: FeatureTable) -> object:
        """Check that the importance by which criteria are chosen can be measured."""

    @abstractmethod
    def _check_models(self, models: Mapping[str, Model]) -> None:
        """Refuse a model that cannot write criteria."""

    def _author(self) -> Json:
        """Return the author of the criteria, for the evaluator."""
        return {"decomposer": model_for(self._models, "decomposer").name}

    def _sides(self, people: FeatureTable) -> tuple[Mask, Mask]:
        return split_masks(people, self.request)

    def _check_learnable(self) -> None:
        """Fit once to placeholder ratings, so that data that cannot be learned fail before a call.

        Whether learning is possible depends on the rows: the number of groups and the variance of
        the human ratings, but not on the judge's ratings.
        """
        train = self.split(_placeholder_ratings(self.people, self.roots, self.fitter.seed)).train
        try:
            choice = choose(self.request.aggregator, train, self.fitter)
            self._measure(choice.chosen, train)
        except DataError as error:
            groups = len(np.unique(train.groups))
            raise DataError(
                f"the {len(train.ids)} rows to learn from, in {groups} groups, are not enough:"
                f" {error}; give more groups, a larger share to learn from "
                "(train_fraction=), or aggregator=avg"
            ) from error

    def select(self, rows: Mask) -> list[Example]:
        """Return the examples of some rows."""
        ids = set(compress(self.people.ids, rows))
        return [example for example in self.examples if example.id in ids]

    def split(self, ratings: NodeValues) -> Split:
        """Return training and held-out rows with the ratings as features, without empty rows."""
        table = self.people.with_features(ratings)
        empty = np.isnan(table.features[self.train]).all(axis=0)
        # a criterion that the judge never rated would count as its mean everywhere
        if empty.any():
            name = table.names[int(np.flatnonzero(empty)[0])]
            raise DataError(
                f"the judge gave criterion {name!r} no usable rating on any row to learn from"
            )
        check_no_leaks(table)
        return Split(*(table.rows(side & table.filled) for side in (self.train, ~self.train)))

    @property
    def ships_all(self) -> bool:
        """Whether the saved evaluator also learns from the held-out rows, after the measurement."""
        return False

    @property
    def judging(self) -> HDEvalOptions:
        """Options for asking the judge and the decomposer."""
        prompt = self.options.prompt
        # the evaluator may be applied from another folder
        if prompt is not None and prompt.endswith(".jinja"):
            prompt = str(Path(prompt).absolute())
        profile = absolute_profile(self.options.profile)
        return self.options.model_copy(update={"prompt": prompt, "profile": profile})

    def _plan(self) -> Json:
        """Return the facts that must not change between two calls, as JSON values.

        The aggregator may change: other criteria may then matter, and the next layer's file of
        parts differs.
        """
        request = self.request
        # without options that change the report but not the requested ratings
        learning: Json = {
            "train_fraction": request.train_fraction, "test_fraction": request.test_fraction,
            "seed": request.seed, "aspects": request.aspect_names, "scales": request.scales,
            "by_row": request.split == "row", "new_systems": False,
        }  # fmt: skip
        names = {role: m if isinstance(m, str) else m.name for role, m in request.models.items()}
        content: Json = {
            "format": 1,
            "data": self.data.check().digest,
            "limit": request.limit,
            "task": {"name": self.task.name, "digest": self.task.digest},
            "roots": [root.name for root in self.roots],
            "models": names,
            "options": self.options.model_dump(mode="json"),
            "growth": self.growth,
            "learning": learning,
        }
        # through JSON, so that tuples and lists compare equal to the file's content
        plan: Json = json.loads(json.dumps(content))
        return plan

    async def run(self, watch: WatchSession = nullcontext) -> Fit:
        """Run the alignment, or resume one that was stopped.

        A folder may be resumed with the same request, or with other aggregators.
        """
        out = self.request.out
        if out is None:
            raise ConfigurationError("fit needs out=EVALUATOR_DIR")
        async with AsyncExitStack() as stack:
            connected = await open_models(self.request.models, self.request.settings, stack)
            # before the folder exists, which would block the corrected request
            self._check_models(connected)
            open_folder(out, self._plan())
            # two processes would pay for the same ratings, and submit the same batches
            stack.callback(lock_run(out).release)
            self.begun = True
            store = await open_store(self.request.settings, out / ANSWERS, stack)
            book = await open_book(models_in_batches(connected), out, stack)
            models = {r: with_store(model, store, book=book) for r, model in connected.items()}
            self._models, self._connected, self._watch = models, connected, watch
            self._folder, self._rating, self.unscored = out / LAYERS, False, {}
            try:
                return self._fit(await self.grow())
            except DataError as error:
                # an error in requesting ratings is not an error of learning, so the notes would
                # mislead
                if not self._rating:
                    self._note_saved_progress(error, out)
                raise

    async def dry_run(self, watch: WatchSession = nullcontext) -> Usage:
        """Return the largest usage: every criterion with the maximum number of parts."""
        # the estimate must fail if the run would
        if self.request.out is not None and not (self.request.out / PLAN).exists():
            check_out(self.request.out)
            check_new(self.request.out)
        async with AsyncExitStack() as stack:
            connected = await open_models(self.request.models, self.request.settings, stack)
            store = await open_store(self.request.settings, None, stack)
            models = {role: with_store(model, store, dry=True) for role, model in connected.items()}
            self._models, self._connected, self._watch = models, connected, watch
            self._folder = None
            await self._ask_all()
            ledgers = {id(model): usage_ledger(model).usage for model in models.values()}
            # by identity: roles that share a model share its ledger, which is counted once
            return sum(ledgers.values(), Usage())

    async def rate(
        self,
        name: int | str,
        tree: AspectTree,
        nodes: Sequence[Aspect],
        examples: Sequence[Example] | None = None,
    ) -> NodeValues:
        """Return ratings from the run of that name; missing ones are requested from the judge."""
        self._rating = True
        async with self._session(tree, nodes, name, examples) as session, self._watch(session):
            scores = (await finish(session)).scores
        ids = {node.label: node.id for node in nodes}
        ratings: dict[str, dict[str, float | None]] = {node.id: {} for node in nodes}
        for score in scores:
            ratings[ids[score.aspect]][score.id] = score.value
            if score.value is None:
                self.unscored[score.outcome] = self.unscored.get(score.outcome, 0) + 1
        self._rating = False
        return ratings

    def _session(
        self,
        tree: AspectTree,
        nodes: Sequence[Aspect],
        name: int | str = "",
        examples: Sequence[Example] | None = None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open or resume the run that rates nodes; without a folder, only count its requests."""
        method = NodeRatings(self._models, self.task, tree, nodes, self.judging)
        folder = None if self._folder is None else self._folder / str(name)
        return open_session(
            self.examples if examples is None else examples,
            RunRequest(
                method=method.name,
                models={role: model.name for role, model in self._connected.items()},
                # the models have the alignment's store; a cache would store answers twice
                settings=self.request.settings.model_copy(update={"cache": False}),
                out=folder,
                resume=folder is not None and (folder / "manifest.json").exists(),
            ),
            method=method,
            models=self._connected,
            dry=folder is None,
        )

    async def _count(self, tree: AspectTree, nodes: Sequence[Aspect]) -> None:
        """Count the requests for rating the examples, without sending them."""
        async with self._session(tree, nodes) as session, self._watch(session):
            async for _ in session.engine.scores():
                pass

    def _fit(self, aligned: AlignmentResult) -> Fit:
        request, parts = self.request, aligned.parts
        origin = provenance(self.people, parts, self.data.check(), request, fractions(request))
        rows, aggregator = parts.train, aligned.choice.aggregator
        if self.ships_all:
            rows = rows.join(parts.test)
            origin["split"]["shipped"] = row_and_group_counts(rows)
            aggregator = self.fitter.fit(aligned.choice.chosen, rows, with_sources=True)
        # rows without any usable rating are known only after the judge has answered
        origin["data"]["left_out"] = (
            len(self.people.ids) - len(parts.train.ids) - len(parts.test.ids)
        )
        unseen = Unseen.of_held_out(aligned.choice, parts)
        report = build_report(
            aligned.choice,
            unseen,
            parts,
            self.fitter,
            request,
            origin={
                "kind": "hd-eval",
                **origin,
                self.reported_as: aligned.layers,
                "warnings": list(aligned.warnings),
                "unscored": self.unscored,
            },
        )
        definitions = {aspect.name: aspect.definition for aspect in self.task.aspects}
        nodes = [aligned.tree[name] for name in parts.train.names]
        judge = NodeRatings(self._models, self.task, aligned.tree, nodes, self.judging)
        evaluator = Evaluator(
            kind="hd-eval",
            aspects=tuple(
                human_aspect(name, self.fitter.scales[name], definitions.get(name))
                for name in self.people.aspects
            ),
            features=parts.train.names,
            aggregator=aggregator.to_dict(),
            background=background_rows(rows, aggregator),
            task=self.task,
            tree=aligned.tree,
            model=model_for(self._models, "scorer").name,
            prompts=judge.scorer.prompt_digest,
            settings=dict(judge.scorer.ask.settings),
            options=self.judging.model_dump(mode="json"),
            made={**origin, "growth": self.growth, **self._author()},
        )
        predictions = list(held_out_scores(unseen))
        return Fit(evaluator, report, unscored=self.unscored, predictions=predictions)

    def _note_saved_progress(self, error: DataError, out: Path) -> None:
        """Add to a learning error that the paid ratings are kept, and what to change."""
        settings = self.request.settings
        error.add_note(
            f"the model's ratings are kept in {out / LAYERS}; only learning from them failed"
        )
        error.add_note(
            "to continue, fit again in this folder with another aggregator, such as ridge or avg;"
        )
        if settings.cache is not False:
            error.add_note(
                f"or, with more rated rows or another task, with a new folder and the cache "
                f"{settings.cache or out / ANSWERS}: earlier requests are not sent again"
            )


def task_for(task: str | None, aspects: Sequence[str]) -> Task:
    """Return the task with those human aspects that it defines: the first layer."""
    names = (
        [task]
        if task is not None
        else [tasks.DEFAULT, *(name for name in TASKS if name != tasks.DEFAULT)]
    )
    best: tuple[list[str], str] = ([], names[0])
    for name in names:
        in_task = {aspect.name.casefold() for aspect in tasks.load(name).aspects}
        defined = [aspect for aspect in aspects if aspect.casefold() in in_task]
        if len(defined) > len(best[0]):
            best = (defined, name)
    if not best[0]:
        raise ConfigurationError(
            f"no task defines the aspects that people rated ({', '.join(aspects)}), so there is "
            "no first layer;"
            " give the definitions in a TOML file with task=FILE"
        )
    return tasks.load(best[1], best[0])


def select_rated(data: Examples, request: FitByModel) -> list[Example]:
    """Return the examples that people rated on a wanted aspect, at most `limit` of them."""
    names = human_aspects(data.check(), request.aspect_names)
    examples: list[Example] = []
    for example in data:
        if len(examples) == request.limit:
            break
        if any(example.human.get(name) is not None for name in names):
            examples.append(example)
    return examples


def on_judges_scale(nodes: Iterable[Aspect]) -> tuple[Aspect, ...]:
    return tuple(node.model_copy(update={"scale": SCALE}) for node in nodes)


def open_folder(out: Path, plan: Json) -> None:
    """Begin an alignment in a new folder, or check that the one in it is the same."""
    file = out / PLAN
    if is_evaluator(out) or not file.exists():
        check_out(out)
        try:
            (out / LAYERS).mkdir(parents=True, exist_ok=True)
            write_json(file, plan)
        except OSError as error:
            raise RunFolderError(f"the folder {out} cannot be written to: {error}") from error
        return
    try:
        before = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file} cannot be read: {error}") from error
    for key, value in plan.items():
        if before.get(key) != value:
            raise RunFolderError(
                f"{out} contains another alignment: its {key} is {before.get(key)!r}, not "
                f"{value!r}; choose another folder for out="
            )


def read_kept(file: Path, kind: TypeAdapter[Kept], again: str) -> Kept:
    """Read criteria of a model from an alignment's file."""
    try:
        return kind.validate_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file} cannot be read: {error}; delete it to {again}") from error


def check_out(folder: Path) -> None:
    """Refuse a folder with other content."""
    if is_evaluator(folder):
        raise RunFolderError(
            f"{folder} already contains an evaluator; choose another folder for out=, or delete it"
        )
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file; out= is a folder to make")
    # never write into a folder with other content: `report.json` is a common name
    if folder.is_dir() and any(folder.iterdir()):
        raise RunFolderError(f"{folder} is not empty; choose another folder for out=")


def _placeholder_ratings(people: FeatureTable, roots: Sequence[Aspect], seed: int) -> NodeValues:
    """Return ratings like a fair judge's: a row's mean human rating plus equal noise."""
    gaps = np.isnan(people.human)
    centered = np.where(gaps, 0.0, people.human - np.nanmean(people.human, axis=0))
    signal = centered.sum(axis=1) / np.maximum(1, (~gaps).sum(axis=1))
    noise = np.random.default_rng(seed).normal(size=(len(roots), len(signal)))
    ratings = signal + (signal.std() or 1.0) * noise
    return {
        root.id: dict(zip(people.ids, map(float, row), strict=True))
        for root, row in zip(roots, ratings, strict=True)
    }
