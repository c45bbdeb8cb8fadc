"""`fit --method hd-eval`.

Iterative alignment with a model that rates criteria and takes them apart. `tree_folder` says what
its folder holds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from textassay.evaluation.opening import batched_of, open_book, open_models, open_store
from textassay.evaluation.session import Session
from textassay.fitting.alignment import Aligned, in_parallel
from textassay.fitting.alignment_order import AlignmentOrder
from textassay.fitting.checked_alignment import CheckedAlignment
from textassay.fitting.fit_from_scores import check_out, human_aspect, made_of
from textassay.fitting.given_tree import parts_in
from textassay.fitting.layers import Layers, WatchSession, tree_decomposer
from textassay.fitting.learn import background_of
from textassay.fitting.report import report_of
from textassay.fitting.result import Fit
from textassay.fitting.tree_folder import ANSWERS, LAYERS, PLAN, note_saved_progress, open_folder
from textassay.methods.fitted.evaluator import Evaluator
from textassay.methods.fitted.node_ratings import NodeRatings, scorer_of
from textassay.methods.hd_eval import SCALE
from textassay.methods.method import model_for
from textassay.runtime.connected import ledger_of, with_store
from textassay.runtime.errors import ConfigurationError, DataError, parameter
from textassay.runtime.messages import Aspect, AspectTree, Example, Usage
from textassay.runtime.model import Json, Model
from textassay.runtime.storage.run_folder import RunFolder, lock_run


@asynccontextmanager
async def _unwatched(session: Session) -> AsyncIterator[None]:
    yield


class Alignment(CheckedAlignment):
    """One alignment: checked when constructed, performed by `run`, counted by `dry_run`.

    Attributes:
        unscored: Ratings that could not be had, by outcome, after `run`.
        begun: Whether there is a folder to continue in.
    """

    def __init__(self, order: AlignmentOrder) -> None:
        """Check the order against the data.

        Raises:
            ConfigurationError: Something does not fit; nothing was asked.
            DataError: The ratings do not allow to learn from them.
        """
        super().__init__(order)
        self.unscored: dict[str, int] = {}
        self.begun = False

    async def run(self, watch: WatchSession = _unwatched) -> Fit:
        """Run the alignment, or resume one that was stopped.

        A folder may be resumed with the same request, or with other aggregators.

        Raises:
            RunFolderError: The folder is in use by another process, or holds an evaluator,
                something else, or another alignment.
            DataError: The ratings that the model gave do not allow to learn; notes say where they
                are kept.
            TextassayError: What stopped it; what is finished is kept.
        """
        out = self.order.out
        if out is None:
            raise ConfigurationError(f"fit needs {parameter('out', 'EVALUATOR_DIR')}")
        async with AsyncExitStack() as stack:
            connected = await open_models(self.order.models, self.order.settings, stack)
            # before there is a folder, which would only be in the way of the corrected request
            self._check_models(connected)
            open_folder(out, self._plan())
            # two processes would pay for the same ratings, and submit the same batches
            stack.callback(lock_run(out).release)
            self.begun = True
            store = await open_store(self.order.settings, out / ANSWERS, stack)
            book = await open_book(batched_of(connected), out, stack)
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
                    note_saved_progress(error, out, self.order.settings)
                raise

    def _check_models(self, models: Mapping[str, Model]) -> None:
        """Refuse a model that cannot write criteria.

        Raises:
            ConfigurationError: Its profile says so.
        """
        if self.order.growth.layers > 1 and self.tree is None:
            tree_decomposer(models, self.task, self.judging)

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
        """Return the greatest usage: every criterion with as many parts as it may have.

        Raises:
            RunFolderError: The folder holds something else, or cannot be written to.
        """
        # the estimate should fail now if the run itself would
        if self.order.out is not None and not (self.order.out / PLAN).exists():
            check_out(self.order.out)
            RunFolder.check_new(self.order.out)
        async with AsyncExitStack() as stack:
            connected = await open_models(self.order.models, self.order.settings, stack)
            store = await open_store(self.order.settings, None, stack)
            models = {role: with_store(model, store, dry=True) for role, model in connected.items()}
            await self._ask_all(models, connected, watch)
            ledgers = {id(model): ledger_of(model).usage for model in models.values()}
            # by identity: roles that share one model share its ledger, which must be counted once
            return sum(ledgers.values(), Usage())

    async def _ask_all(
        self, models: Mapping[str, Model], connected: Mapping[str, Model], watch: WatchSession
    ) -> None:
        """Ask dry models everything that may be asked."""
        tree, nodes = AspectTree(aspects=self.roots), self.roots
        for layer in range(1, self.order.growth.layers + 1):
            if layer > 1:
                tree = tree.with_children(await self._largest(layer, nodes, models))
                nodes = tree.layer(layer)
            if not nodes:
                break
            method = NodeRatings(models, self.task, tree, nodes, self.judging)
            await self.count(method, connected, watch)

    async def count(
        self,
        method: NodeRatings,
        connected: Mapping[str, Model],
        watch: WatchSession,
        examples: Sequence[Example] | None = None,
    ) -> None:
        """Count what rating the examples would ask; nothing is asked."""
        async with (
            self.session(method, connected, None, examples) as session,
            watch(session),
        ):
            async for _ in session.engine.scores():
                pass

    async def _largest(
        self, layer: int, nodes: Sequence[Aspect], models: Mapping[str, Model]
    ) -> list[Aspect]:
        """Return as many criteria as a layer may have, given those of the layer above it."""
        growth = self.order.growth
        # all of the first layer is decomposed, so the largest second layer has parts of each
        keep = len(nodes) if layer == 2 else growth.kept(given=self.tree is not None)
        if self.tree is None:
            await in_parallel(tree_decomposer(models, self.task, self.judging), nodes[:keep])
            return _stand_ins(nodes[:keep], layer, growth.children)
        # the branches with most parts: which ones matter is not known before people's ratings are
        # compared
        parts = sorted(parts_in(self.tree, nodes), key=lambda one: -len(one.aspects))
        return [part for one in parts[:keep] for part in one.aspects]

    def _grown(self, aligned: Aligned) -> Json:
        """Return how the tree grew: `growth` for the evaluator, `report` for the report."""
        growth = self.order.growth.as_dict(given=self.tree is not None)
        return {"growth": growth, "report": {"alignment": aligned.layers}}

    def _fit(self, aligned: Aligned, models: Mapping[str, Model]) -> Fit:
        table = self.people
        made = made_of(table, aligned.parts, self.order.data.check(), self.order.learning)
        grown = self._grown(aligned)
        # rows without any usable rating are known only after the judge was asked
        made["data"]["left_out"] = (
            len(table.ids) - len(aligned.parts.train.ids) - len(aligned.parts.test.ids)
        )
        decomposed: Json = (
            {"decomposer": model_for(models, "decomposer").name}
            if self.tree is None
            else {"tree": self.order.tree}
        )
        evaluator = self._evaluator(
            aligned, models, made | {"growth": grown["growth"], **decomposed}
        )
        report = report_of(
            aligned.choice,
            aligned.parts,
            self.fitter,
            depth=self.order.learning.depth,
            made={
                "kind": "hd-eval",
                **made,
                **grown["report"],
                "warnings": list(aligned.warnings),
                "unscored": self.unscored,
            },
            repeats=self.order.learning.repeats,
        )
        return Fit(evaluator, report)

    def _evaluator(self, aligned: Aligned, models: Mapping[str, Model], made: Json) -> Evaluator:
        """Return the evaluator that what was learned makes, with what it was made from."""
        options, table = self.judging, self.people
        nodes = [aligned.tree[name] for name in aligned.parts.train.names]
        definitions = {aspect.name: aspect.definition for aspect in self.task.aspects}
        aggregator = aligned.choice.aggregator
        return Evaluator(
            kind="hd-eval",
            aspects=tuple(
                human_aspect(n, self.fitter.scales[n], definitions.get(n)) for n in table.aspects
            ),
            features=aligned.parts.train.names,
            aggregator=aggregator.to_dict(),
            background=background_of(aligned.parts.train, aggregator),
            task=self.task,
            tree=aligned.tree,
            model=model_for(models, "scorer").name,
            prompts=scorer_of(models, self.task, options, nodes).prompt_digest,
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
