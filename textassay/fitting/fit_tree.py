"""`fit --method hd-eval`: alignment with a model that rates criteria and takes them apart.

The request is checked against the data before anything is asked; then each layer of criteria is
rated by a run in its own folder, and `alignment` decides what is taken apart.

OUT/fit.json        the request; the same command resumes an alignment that was stopped
OUT/layers/N.json   the tree as it stood at layer N
OUT/layers/N/       the run that rated the nodes of layer N
OUT/answers/        answers of models, unless a cache is named
OUT/evaluator.json  written last, with the report
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import compress
from pathlib import Path
from typing import Any

from textassay.agents.planning import Decomposer, Decomposition
from textassay.agents.prompt_template import Task
from textassay.evaluation.opening import batched_models, open_book, open_models, open_store
from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import Session, finish, open_session
from textassay.fitting.agreement import build_report
from textassay.fitting.alignment import (
    Aligned,
    NodeValues,
    align,
    check_learnable,
)
from textassay.fitting.importance import importance_over_folds
from textassay.fitting.learn import (
    FeatureTable,
    Fitter,
    Unseen,
    background_rows,
    human_aspects,
    rating_scales,
    read_table,
    sides,
)
from textassay.fitting.report import (
    Fit,
    fractions,
    human_aspect,
    provenance,
    size_of,
)
from textassay.fitting.request import FitByModel, FitTree
from textassay.learning.splits import Mask
from textassay.methods.fitted.evaluator import Evaluator, is_evaluator
from textassay.methods.hd_eval import (
    BY_MODEL,
    PUBLISHED,
    SCALE,
    HDEvalOptions,
    NodeRatings,
    decomposer_for,
    node_scorer,
)
from textassay.methods.library import tasks, trees
from textassay.methods.library.profiles import with_absolute_path as absolute_profile
from textassay.methods.method import model_for
from textassay.prompts import TASKS, TREES
from textassay.runtime.concurrency import gather
from textassay.runtime.connected import usage_ledger, with_store
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError
from textassay.runtime.messages import Aspect, AspectTree, Example, Usage
from textassay.runtime.model import Json, Model
from textassay.runtime.settings import Settings
from textassay.runtime.storage.files import write_json
from textassay.runtime.storage.run_folder import RunFolder, lock_run

OF_THE_TREE = ("tree", "depth", "output")
"""Options of HD-Eval that alignment decides itself."""
WatchSession = Callable[[Session], AbstractAsyncContextManager[Any]]
"""Shows how a session goes while its block runs."""


def task_for(task: str | None, aspects: Sequence[str]) -> Task:
    """Return the task with those human aspects that it defines: the first layer."""
    names = (
        [task]
        if task is not None
        else [tasks.DEFAULT, *(name for name in TASKS if name != tasks.DEFAULT)]
    )
    best: tuple[list[str], str] = ([], names[0])
    for name in names:
        known = {aspect.name.casefold() for aspect in tasks.load(name).aspects}
        defined = [aspect for aspect in aspects if aspect.casefold() in known]
        if len(defined) > len(best[0]):
            best = (defined, name)
    if not best[0]:
        raise ConfigurationError(
            f"no task defines what people rated ({', '.join(aspects)}), so there is no first layer;"
            " give the definitions in a TOML file with task=FILE"
        )
    return tasks.load(best[1], best[0])


def rated_examples(data: Examples, request: FitByModel) -> list[Example]:
    """Return the examples that people rated on a wanted aspect, at most `limit` of them."""
    names = human_aspects(data.check(), request.aspect_names)
    examples: list[Example] = []
    for example in data:
        if len(examples) == request.limit:
            break
        if any(example.human.get(name) is not None for name in names):
            examples.append(example)
    return examples


class Layers:
    """Rates and decomposes criteria by model, keeping every layer's tree and run in a folder.

    Attributes:
        unscored: Ratings that could not be had, by outcome.
        rating: Whether ratings are being asked for, or could not be had.
    """

    def __init__(
        self,
        alignment: Alignment,
        folder: Path,
        models: Mapping[str, Model],
        connected: Mapping[str, Model],
        watch: WatchSession,
    ) -> None:
        self._alignment, self._folder, self._watch = alignment, folder, watch
        self._models, self._connected = models, connected
        self._options = alignment.judging
        self.unscored: dict[str, int] = {}
        self.rating = False

    async def grow(self) -> Aligned:
        """Return the tree that is found, with what was learned over it."""
        alignment = self._alignment
        return await align(
            alignment.people,
            alignment.train,
            alignment.roots,
            alignment.request.growth,
            aggregators=alignment.request.aggregator,
            fitter=alignment.fitter,
            rate=self.rate,
            take_apart=self.take_apart,
            given=alignment.tree is not None,
        )

    async def rate(
        self,
        name: int | str,
        tree: AspectTree,
        nodes: Sequence[Aspect],
        examples: Sequence[Example] | None = None,
    ) -> NodeValues:
        """Return ratings from the run of that name; the judge is asked for missing ones."""
        self.rating = True
        method = NodeRatings(self._models, self._alignment.task, tree, nodes, self._options)
        folder = self._folder / str(name)
        async with (
            self._alignment.session(method, self._connected, folder, examples) as session,
            self._watch(session),
        ):
            scores = (await finish(session)).scores
        ids = {node.label: node.id for node in nodes}
        ratings: dict[str, dict[str, float | None]] = {node.id: {} for node in nodes}
        for score in scores:
            ratings[ids[score.aspect]][score.id] = score.value
            if score.value is None:
                self.unscored[score.outcome] = self.unscored.get(score.outcome, 0) + 1
        self.rating = False
        return ratings

    async def take_apart(self, layer: int, aspects: Sequence[Aspect]) -> list[Decomposition]:
        """Return the parts of the criteria; those that an earlier call settled are in its file."""
        # the parts are kept apart from the cache: asked again, a model may write others, and the
        # ratings of the earlier ones would be lost
        file = self._folder / f"{layer}.json"
        if self._alignment.tree is not None:
            return parts_in(self._alignment.tree, aspects)
        if file.exists():
            return read_parts(file, aspects)
        decomposer = self._alignment.decomposer(self._models)
        decompositions = await gather([decomposer(aspect) for aspect in aspects])
        write_json(file, [one.model_dump(mode="json") for one in decompositions])
        return decompositions


@asynccontextmanager
async def _unwatched(session: Session) -> AsyncIterator[None]:
    yield


class Alignment:
    """One alignment: checked when constructed, performed by `run`, counted by `dry_run`.

    Attributes:
        unscored: Ratings that could not be had, by outcome, after `run`.
        begun: Whether there is a folder to continue in.
    """

    def __init__(self, request: FitByModel, data: Examples) -> None:
        """Check the request against the data: examples with human ratings."""
        self.request, self.data = request, data
        options = dict(request.options)
        named = getattr(request, "tree", None)
        if named is None and isinstance(request, FitTree):
            named = options.pop("tree", None)
        self.tree_name: str = named or BY_MODEL
        self.options = HDEvalOptions.read(options)
        self.unscored: dict[str, int] = {}
        self.begun = False
        for name in OF_THE_TREE:
            if name in self.options.model_fields_set:
                raise ConfigurationError(
                    f"option {name} cannot be combined with fit, which decides it itself; a tree "
                    "is named by tree=, its layers by layers="
                )
        self.task = task_for(request.task, human_aspects(data.check(), request.aspect_names))
        self.examples = rated_examples(data, request)
        self.people = read_table(Examples(self.examples), aspects=request.aspect_names)
        self.fitter = Fitter(rating_scales(self.people, request.scales), request.seed)
        self.train = self._split()
        self.tree = given_tree(self.tree_name, self.task)
        self.roots = (
            tuple(aspect.model_copy(update={"scale": SCALE}) for aspect in self.task.aspects)
            if self.tree is None
            else self.tree.roots
        )
        self._check_learnable()

    def _check_learnable(self) -> None:
        check_learnable(
            self.people,
            self.train,
            self.roots,
            aggregators=self.request.aggregator,
            fitter=self.fitter,
            measure=self._measure,
        )

    def _measure(self, aggregator: str, rows: FeatureTable) -> object:
        """Measure the importance by which criteria are chosen, to see whether it can be done."""
        return importance_over_folds(aggregator, rows, self.fitter)

    def _split(self) -> Mask:
        """Return which rows are learned from; those of neither side are dropped and not rated."""
        train, test = self._sides()
        used = train | test
        self.examples = self.select(used)
        # ratings are paid for per row, so rows of neither side must not reach the judge
        self.people = self.people.rows(used)
        return train[used]

    def _sides(self) -> tuple[Mask, Mask]:
        return sides(self.people, self.request)

    def select(self, rows: Mask) -> list[Example]:
        """Return the examples of some rows."""
        ids = set(compress(self.people.ids, rows))
        return [example for example in self.examples if example.id in ids]

    def decomposer(self, models: Mapping[str, Model]) -> Decomposer:
        """Return the agent that writes criteria."""
        instead = "give one with tree=FILE, or rate the first layer alone with layers=1"
        return decomposer_for(models, self.task, self.judging, instead=instead)

    @property
    def ships_all(self) -> bool:
        """Whether what is shipped learns from the held-out rows, too, after these were measured.

        The criteria are chosen by training rows, so only held-out rows can be measured.
        """
        return not self.request.holds_out

    @property
    def judging(self) -> HDEvalOptions:
        """How the judge and the decomposer are asked."""
        prompt = self.options.prompt
        # the evaluator may be applied from another folder
        if prompt is not None and prompt.endswith(".jinja"):
            prompt = str(Path(prompt).absolute())
        profile = absolute_profile(self.options.profile)
        update = {"children": self.request.growth.children, "prompt": prompt, "profile": profile}
        return self.options.model_copy(update=update)

    def session(
        self,
        method: NodeRatings,
        connected: Mapping[str, Model],
        folder: Path | None,
        examples: Sequence[Example] | None = None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open or resume the run that rates a layer's nodes, on all examples or on those given.

        Without a folder, only count its requests.
        """
        return open_session(
            self.examples if examples is None else examples,
            RunRequest(
                method=method.name,
                models={role: model.name for role, model in connected.items()},
                # the models carry the alignment's own store already; a cache of the run would keep
                # answers twice
                settings=self.request.settings.model_copy(update={"cache": None, "no_cache": True}),
                out=folder,
                resume=folder is not None and (folder / "manifest.json").exists(),
            ),
            method=method,
            models=connected,
            dry=folder is None,
        )

    def _plan(self) -> Json:
        """Return what must not change between two calls, as JSON values.

        Another aggregator may: it can make other criteria matter, and then the file of the next
        layer's parts differs.
        """
        request = self.request
        # not what changes the report alone, but never which ratings are asked for
        learning: Json = {
            "train_fraction": request.train_fraction, "test_fraction": request.test_fraction,
            "seed": request.seed, "aspects": request.aspect_names, "scales": request.scales,
            "by_row": request.split == "row", "new_systems": False, "raters": "mean",
        }  # fmt: skip
        if request.test_fraction is None:  # as earlier versions have it
            del learning["test_fraction"]
            learning["train_fraction"] = request.share
        tree = {} if self.tree is None else {"tree": trees.tree_digest(self.tree)}
        names = {role: m if isinstance(m, str) else m.name for role, m in request.models.items()}
        # through JSON, so that tuples and lists compare equal to what the file holds
        plan: Json = json.loads(
            json.dumps(
                {
                    "format": 1,
                    "data": self.data.check().digest,
                    "limit": request.limit,
                    "task": {"name": self.task.name, "digest": self.task.digest},
                    "roots": [root.name for root in self.roots],
                    "models": names,
                    "options": self.options.model_dump(mode="json"),
                    "growth": request.growth.as_dict(given=self.tree is not None),
                    "learning": learning,
                    **tree,
                }
            )
        )
        return plan

    async def run(self, watch: WatchSession = _unwatched) -> Fit:
        """Run the alignment, or resume one that was stopped.

        A folder may be resumed with the same request, or with other aggregators.
        """
        out = self.request.out
        if out is None:
            raise ConfigurationError("fit needs out=EVALUATOR_DIR")
        async with AsyncExitStack() as stack:
            connected = await open_models(self.request.models, self.request.settings, stack)
            # before there is a folder, which would only be in the way of the corrected request
            self._check_models(connected)
            open_folder(out, self._plan())
            # two processes would pay for the same ratings, and submit the same batches
            stack.callback(lock_run(out).release)
            self.begun = True
            store = await open_store(self.request.settings, out / ANSWERS, stack)
            book = await open_book(batched_models(connected), out, stack)
            models = {r: with_store(model, store, book=book) for r, model in connected.items()}
            layers = self._layers(out / LAYERS, models, connected, watch)
            try:
                aligned = await layers.grow()
                self.unscored = layers.unscored
                return self._fit(aligned, models)
            except DataError as error:
                # an error while ratings are asked for is not one of learning, and these notes
                # would mislead
                if not layers.rating:
                    note_saved_progress(error, out, self.request.settings)
                raise

    def _check_models(self, models: Mapping[str, Model]) -> None:
        """Refuse a model that cannot write criteria."""
        if self.request.growth.layers > 1 and self.tree is None:
            self.decomposer(models)

    def _layers(
        self,
        folder: Path,
        models: Mapping[str, Model],
        connected: Mapping[str, Model],
        watch: WatchSession,
    ) -> Layers:
        """Return what rates criteria and has them proposed."""
        return Layers(self, folder, models, connected, watch)

    async def dry_run(self, watch: WatchSession = _unwatched) -> Usage:
        """Return the greatest usage: every criterion with as many parts as it may have."""
        # the estimate should fail now if the run itself would
        if self.request.out is not None and not (self.request.out / PLAN).exists():
            check_out(self.request.out)
            RunFolder.check_new(self.request.out)
        async with AsyncExitStack() as stack:
            connected = await open_models(self.request.models, self.request.settings, stack)
            store = await open_store(self.request.settings, None, stack)
            models = {role: with_store(model, store, dry=True) for role, model in connected.items()}
            await self._ask_all(models, connected, watch)
            ledgers = {id(model): usage_ledger(model).usage for model in models.values()}
            # by identity: roles that share one model share its ledger, which must be counted once
            return sum(ledgers.values(), Usage())

    async def _ask_all(
        self, models: Mapping[str, Model], connected: Mapping[str, Model], watch: WatchSession
    ) -> None:
        """Ask dry models everything that may be asked."""
        tree, nodes = AspectTree(aspects=self.roots), self.roots
        for layer in range(1, self.request.growth.layers + 1):
            if layer > 1:
                tree = tree.with_children(await self._largest(layer, nodes, models))
                nodes = tree.layer(layer)
            if not nodes:
                break
            await self._count(
                NodeRatings(models, self.task, tree, nodes, self.judging), connected, watch
            )

    async def _count(
        self, method: NodeRatings, connected: Mapping[str, Model], watch: WatchSession
    ) -> None:
        """Count what rating the examples would ask; nothing is asked."""
        async with self.session(method, connected, None) as session, watch(session):
            async for _ in session.engine.scores():
                pass

    async def _largest(
        self, layer: int, nodes: Sequence[Aspect], models: Mapping[str, Model]
    ) -> list[Aspect]:
        """Return as many criteria as a layer may have, given those of the layer above it."""
        growth = self.request.growth
        # all of the first layer is decomposed, so the largest second layer has parts of each
        keep = len(nodes) if layer == 2 else growth.kept(given=self.tree is not None)
        if self.tree is None:
            decomposer = self.decomposer(models)
            await gather([decomposer(node) for node in nodes[:keep]])
            return _stand_ins(nodes[:keep], layer, growth.children)
        # the branches with most parts: which ones matter is not known before people's ratings are
        # compared
        parts = sorted(parts_in(self.tree, nodes), key=lambda one: -len(one.aspects))
        return [part for one in parts[:keep] for part in one.aspects]

    def _grown(self, aligned: Aligned) -> Json:
        """Return how the tree grew: `growth` for the evaluator, `report` for the report."""
        growth = self.request.growth.as_dict(given=self.tree is not None)
        return {"growth": growth, "report": {"alignment": aligned.layers}}

    def _fit(self, aligned: Aligned, models: Mapping[str, Model]) -> Fit:
        table = self.people
        request = self.request
        made = provenance(table, aligned.parts, self.data.check(), request, fractions(request))
        if self.ships_all:
            made["split"]["shipped"] = size_of(aligned.parts.train.joined(aligned.parts.test))
        grown = self._grown(aligned)
        # rows without any usable rating are known only after the judge was asked
        made["data"]["left_out"] = (
            len(table.ids) - len(aligned.parts.train.ids) - len(aligned.parts.test.ids)
        )
        decomposed: Json = (
            {"decomposer": model_for(models, "decomposer").name}
            if self.tree is None
            else {"tree": self.tree_name}
        )
        evaluator = self._evaluator(
            aligned, models, made | {"growth": grown["growth"], **decomposed}
        )
        report = build_report(
            aligned.choice,
            Unseen.held_out(aligned.choice, aligned.parts),
            aligned.parts,
            self.fitter,
            request,
            made={
                "kind": "hd-eval",
                **made,
                **grown["report"],
                "warnings": list(aligned.warnings),
                "unscored": self.unscored,
            },
        )
        return Fit(evaluator, report)

    def _evaluator(self, aligned: Aligned, models: Mapping[str, Model], made: Json) -> Evaluator:
        """Return the evaluator that what was learned makes, with what it was made from."""
        options, table = self.judging, self.people
        nodes = [aligned.tree[name] for name in aligned.parts.train.names]
        definitions = {aspect.name: aspect.definition for aspect in self.task.aspects}
        rows, aggregator = aligned.parts.train, aligned.choice.aggregator
        if self.ships_all:
            rows = rows.joined(aligned.parts.test)
            aggregator = self.fitter.fit(aligned.choice.chosen, rows, with_sources=True)
        return Evaluator(
            kind="hd-eval",
            aspects=tuple(
                human_aspect(n, self.fitter.scales[n], definitions.get(n)) for n in table.aspects
            ),
            features=aligned.parts.train.names,
            aggregator=aggregator.to_dict(),
            background=background_rows(rows, aggregator),
            task=self.task,
            tree=aligned.tree,
            model=model_for(models, "scorer").name,
            prompts=node_scorer(models, self.task, options, nodes).prompt_digest,
            options=options.model_dump(mode="json"),
            made=made,
        )


def _stand_ins(aspects: Sequence[Aspect], layer: int, count: int) -> list[Aspect]:
    """Return as many parts of each criterion as it may have."""
    parts = [
        (f"Part {layer}.{number}", aspect.id)
        for aspect in aspects
        for number in range(1, count + 1)
    ]
    words = "how well the text does in this respect, in one sentence."
    return [
        Aspect(name=name, definition=words, scale=SCALE, parent=parent) for name, parent in parts
    ]


PLAN, LAYERS, ANSWERS = "fit.json", "layers", "answers"


def given_tree(option: str, task: Task) -> AspectTree | None:
    """Return the tree that an option names, every node on the judge's scale."""
    if option == BY_MODEL:
        return None
    if option != PUBLISHED:
        return AspectTree(aspects=_rated_alike(trees.load(option, task)))
    if task.name not in TREES:
        raise ConfigurationError(
            f"no tree is published for the task {task.name!r}; there is one for"
            f" {', '.join(TREES)}. Name one of these or a file, or let the model grow it (model)"
        )
    tree = trees.load(task.name, task)
    published = {root.id: root for root in tree.roots}
    # the task decides what is judged: aspects without a published branch stay as roots
    nodes = [published.get(aspect.id, aspect) for aspect in task.aspects]
    roots = {node.id for node in nodes}
    nodes += [node for node in tree if node.parent and node.id.partition("/")[0] in roots]
    return AspectTree(aspects=_rated_alike(nodes))


def parts_in(tree: AspectTree, aspects: Sequence[Aspect]) -> list[Decomposition]:
    """Return what criteria are made of in a tree; those without parts are left out."""
    children = ((aspect, tree.children(aspect.id)) for aspect in aspects)
    return [Decomposition(of=aspect, aspects=parts) for aspect, parts in children if parts]


def _rated_alike(nodes: Iterable[Aspect]) -> tuple[Aspect, ...]:
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


def note_saved_progress(error: DataError, out: Path, settings: Settings) -> None:
    """Add to a learning error that the paid ratings are kept, and what to change."""
    error.add_note(
        f"the model's ratings are kept in {out / LAYERS}; only learning from them failed"
    )
    error.add_note(
        "to continue, fit again in this folder with another aggregator, such as ridge or avg;"
    )
    if not settings.no_cache:
        error.add_note(
            f"or, with more rated rows or another task, with a new folder and the cache "
            f"{settings.cache or out / ANSWERS}: what was asked before is not asked again"
        )


def read_parts(file: Path, aspects: Sequence[Aspect]) -> list[Decomposition]:
    """Read the parts of criteria, as one layer of an alignment keeps them."""
    try:
        decompositions = [
            Decomposition.model_validate(one) for one in json.loads(file.read_bytes())
        ]
    except (OSError, ValueError, TypeError) as error:
        raise RunFolderError(
            f"{file} cannot be read: {error}; delete it to ask for the parts again"
        ) from error
    # another aggregator can rank other criteria first; their parts must not be taken for these
    before = ", ".join(one.of.id for one in decompositions)
    now = ", ".join(aspect.id for aspect in aspects)
    if before != now:
        raise RunFolderError(
            f"{file} contains the parts of {before}, but {now} are to be decomposed; delete the"
            " layers from there on, or choose another folder"
        )
    return decompositions


def check_out(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    if is_evaluator(folder):
        raise RunFolderError(
            f"{folder} already contains an evaluator; choose another folder for out=, or delete it"
        )
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file; out= is a folder to make")
    # a folder of something else is never written into: `report.json` is a common name
    if folder.is_dir() and any(folder.iterdir()):
        raise RunFolderError(f"{folder} is not empty; choose another folder for out=")
