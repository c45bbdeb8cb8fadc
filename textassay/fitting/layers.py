"""The layers of an alignment: criteria rated and decomposed by model, each layer in its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from textassay.agents.decomposer import Decomposer, Decomposition
from textassay.agents.task import Task
from textassay.evaluation.api import finish
from textassay.evaluation.session import Session
from textassay.fitting.alignment import Aligned, NodeValues, align, in_parallel
from textassay.fitting.checked_alignment import CheckedAlignment
from textassay.fitting.given_tree import parts_in
from textassay.fitting.tree_folder import read_parts
from textassay.methods.fitted.node_ratings import NodeRatings
from textassay.methods.hd_eval import HDEvalOptions, decomposer_for
from textassay.runtime.errors import parameter
from textassay.runtime.messages import Aspect, AspectTree, Example, Score
from textassay.runtime.model import Model
from textassay.runtime.storage.files import write_json

WatchSession = Callable[[Session], AbstractAsyncContextManager[Any]]
"""Shows how a session goes while its block runs."""


class Layers:
    """Rates and decomposes criteria by model, keeping every layer's tree and run in a folder.

    Attributes:
        unscored: Ratings that could not be had, by outcome.
        rating: Whether ratings are being asked for, or could not be had.
    """

    def __init__(
        self,
        alignment: CheckedAlignment,
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
            alignment.order.growth,
            aggregators=alignment.order.learning.aggregators,
            fitter=alignment.fitter,
            rate=self.rate,
            take_apart=self.take_apart,
            given=alignment.tree is not None,
        )

    async def rate(self, layer: int, tree: AspectTree, nodes: Sequence[Aspect]) -> NodeValues:
        """Return the ratings of a layer's nodes; the judge is asked for those that are missing."""
        return await self.rated(str(layer), tree, nodes)

    async def rated(
        self,
        name: str,
        tree: AspectTree,
        nodes: Sequence[Aspect],
        examples: Sequence[Example] | None = None,
    ) -> NodeValues:
        """Return ratings from the run of that name, on all examples or on those given."""
        self.rating = True
        method = NodeRatings(self._models, self._alignment.task, tree, nodes, self._options)
        folder = self._folder / name
        async with (
            self._alignment.session(method, self._connected, folder, examples) as session,
            self._watch(session),
        ):
            scores = (await finish(session)).scores
        ids = {node.label: node.id for node in nodes}
        ratings: dict[str, dict[str, float | None]] = {node.id: {} for node in nodes}
        for score in scores:
            ratings[ids[score.aspect]][score.id] = score.value
            self._count(score)
        self.rating = False
        return ratings

    def _count(self, score: Score) -> None:
        if score.value is None:
            self.unscored[score.outcome] = self.unscored.get(score.outcome, 0) + 1

    async def take_apart(self, layer: int, aspects: Sequence[Aspect]) -> list[Decomposition]:
        """Return the parts of the criteria.

        Those that an earlier call settled are read from its file.
        """
        # the parts are kept apart from the cache: asked again, a model may write others, and the
        # ratings of the earlier ones would be lost
        file = self._folder / f"{layer}.json"
        if self._alignment.tree is not None:
            return parts_in(self._alignment.tree, aspects)
        if file.exists():
            return read_parts(file, aspects)
        decomposer = tree_decomposer(self._models, self._alignment.task, self._options)
        decompositions = await in_parallel(decomposer, aspects)
        write_json(file, [one.model_dump(mode="json") for one in decompositions])
        return decompositions


def tree_decomposer(models: Mapping[str, Model], task: Task, options: HDEvalOptions) -> Decomposer:
    """Return the agent that takes criteria apart for `fit`, which names tree and layers itself.

    Raises:
        ConfigurationError: There is no model for it, or its profile says that it cannot.
    """
    instead = (
        f"give one with {parameter('tree', 'FILE')}, or rate the first layer alone with "
        f"{parameter('layers', '1')}"
    )
    return decomposer_for(models, task, options, instead=instead)
