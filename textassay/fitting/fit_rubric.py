"""`fit --method rubric`: criteria that a model proposes from rated texts, kept while they help.

The folder is that of an alignment; OUT/layers/N.json holds the criteria of round N,
OUT/layers/N/ the run that rated them on the training rows (0: the aspects themselves), and
OUT/layers/held-out/ the run that rated the held-out rows on what is left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from textassay.agents.ask import Ask
from textassay.agents.decomposer import Decomposer, Decomposition
from textassay.agents.material import fenced
from textassay.fitting.alignment import Aligned, Measure, NodeValues
from textassay.fitting.alignment_order import AlignmentOrder
from textassay.fitting.fit_from_scores import Learning, sides
from textassay.fitting.fit_tree import Alignment
from textassay.fitting.layers import Layers, WatchSession
from textassay.fitting.rubric import RubricGrowth, Shown, grow_rubric, importance_for
from textassay.fitting.table import FeatureTable
from textassay.learning.splits import Codes, Mask
from textassay.methods.fitted.node_ratings import NodeRatings
from textassay.methods.hd_eval import SCALE
from textassay.methods.library import profiles
from textassay.methods.method import model_for
from textassay.prompts import nonce
from textassay.runtime.errors import MalformedResponse, RunFolderError
from textassay.runtime.graph.concurrency import gather
from textassay.runtime.messages import Aspect, AspectTree, Example
from textassay.runtime.model import Json, Model
from textassay.runtime.storage.files import write_json

PROMPT = "rubric"
MAX_WORDS = 400
"""Words of a source that a proposing model is shown of each text."""


@dataclass(frozen=True)
class RubricOrder(AlignmentOrder):
    """The request for a rubric.

    Attributes:
        rubric: How it grows; `growth` and `tree` have no effect.
    """

    rubric: RubricGrowth = field(default_factory=RubricGrowth)


class Rubric(Alignment):
    """One rubric: checked when constructed, found by `run`, counted by `dry_run`."""

    order: RubricOrder

    def _split(self, learning: Learning) -> Mask:
        """Return which rows are learned from: few, and spread over many sources."""
        train, test = sides(self.people, learning)
        labels, seed = self.order.rubric.labels, learning.seed
        train = spread(train, self.people.groups, labels, seed)
        # held-out rows only tell how good the result is; a share that was asked for is kept whole
        if learning.test_fraction is None:
            test = spread(test, self.people.groups, 2 * labels, seed)
        used = train | test
        kept = {id_ for id_, is_used in zip(self.people.ids, used, strict=True) if is_used}
        self.examples = [example for example in self.examples if example.id in kept]
        self.people = self.people.rows(used)
        return train[used]

    def _check_learnable(self, measure: Measure | None = None) -> None:
        # as criteria will be judged: with few labels folds are too small to be measured one by one
        super()._check_learnable(measure or self._measure)

    def _measure(self, _: str, table: FeatureTable) -> None:
        for root in self.roots:
            importance_for(root, table, self.fitter)

    def _layers(
        self,
        folder: Path,
        models: Mapping[str, Model],
        connected: Mapping[str, Model],
        watch: WatchSession,
    ) -> Rounds:
        return Rounds(self, folder, models, connected, watch)

    def _check_models(self, models: Mapping[str, Model]) -> None:
        self.proposer(models)

    def _plan(self) -> Json:
        return super()._plan() | {"rubric": self.order.rubric.as_dict()}

    def _grown(self, aligned: Aligned) -> Json:
        growth = self.order.rubric.as_dict()
        return {"growth": growth, "report": {"rubric": aligned.layers}}

    def proposer(self, models: Mapping[str, Model]) -> Decomposer:
        """Return the agent that proposes criteria.

        Raises:
            ConfigurationError: There is no model for it, or its profile says that it cannot write.
        """
        options = self.judging
        profiles.require_generation(
            "criteria", "learn from recorded scores", options.profile, models, "decomposer"
        )
        ask = Ask(model_for(models, "decomposer"), PROMPT, self.task, seed=options.seed)
        count = self.order.rubric.count
        return Decomposer(ask, count=count, scale=SCALE, repairs=options.parse_retries)

    def shown(self, root: Aspect, ids: Sequence[str]) -> Json:
        """Return what the prompt names of rated texts: their texts and ratings, and the scale."""
        human = {name.casefold(): name for name in self.people.aspects}[root.name.casefold()]
        by_id = {example.id: example for example in self.examples}
        chosen = [by_id[id_] for id_ in ids]
        texts = [text for one in chosen for text in (one.source, one.context, one.output) if text]
        number = nonce(texts)
        low, high = self.fitter.scales[human]
        return {
            "pairs": tuple(
                {"rating": f"{one.human[human]:g}", "texts": tuple(self._texts(one, number))}
                for one in chosen
            ),
            "low": f"{low:g}",
            "high": f"{high:g}",
        }

    def _texts(self, example: Example, number: str) -> list[dict[str, str]]:
        task = self.task
        parts = (
            ("source", task.source_name, example.source),
            ("context", task.context_name, example.context),
            ("output", task.output_name, example.output),
        )
        shown = [
            (kind, label, text if kind == "output" else _beginning(text))
            for kind, label, text in parts
            if text and text.strip()
        ]
        return fenced(shown, number)

    async def _ask_all(
        self, models: Mapping[str, Model], connected: Mapping[str, Model], watch: WatchSession
    ) -> None:
        tree, growth = AspectTree(aspects=self.roots), self.order.rubric
        learned = rows_of(self, self.train)
        await self.count(
            NodeRatings(models, self.task, tree, self.roots, self.judging), connected, watch
        )
        proposer = self.proposer(models)
        ids = [example.id for example in learned[: growth.pairs]]
        for number in range(1, growth.rounds + 1):
            known = [node for node in tree if node.parent is not None]
            await gather([proposer(root, known, **self.shown(root, ids)) for root in self.roots])
            new = [
                Aspect(name=f"Criterion {number}.{at}", definition="how well the text does in it.",
                       scale=SCALE, parent=root.id)
                for root in self.roots
                for at in range(1, growth.count + 1)
            ]  # fmt: skip
            tree = tree.with_children(new)
            # in the worst case every criterion stays, and is rated on the held-out rows as well
            await self.count(
                NodeRatings(models, self.task, tree, new, self.judging), connected, watch
            )


class Rounds(Layers):
    """Proposes and rates criteria by model, keeping every round in a folder."""

    _alignment: Rubric

    async def grow(self) -> Aligned:
        """Return the rubric that is found, with what was learned over it."""
        rubric = self._alignment
        self._proposer = rubric.proposer(self._models)
        return await grow_rubric(
            rubric.people,
            rubric.train,
            rubric.roots,
            rubric.order.rubric,
            aggregators=rubric.order.learning.aggregators,
            fitter=rubric.fitter,
            rate=self.rate_on,
            propose=self.propose,
        )

    async def rate_on(
        self, name: str, tree: AspectTree, nodes: Sequence[Aspect], rows: Mask
    ) -> NodeValues:
        """Return the criteria's ratings on some rows."""
        return await self.rated(name, tree, nodes, rows_of(self._alignment, rows))

    async def propose(
        self, number: int, shown: Shown, known: Sequence[Aspect]
    ) -> list[Decomposition]:
        """Return the criteria of a round; those that an earlier call settled are read from a file.

        An aspect for which the model has nothing new to propose is left out.
        """
        file = self._folder / f"{number}.json"
        ids = {root.id: list(_ids(shown, root)) for root in self._alignment.roots}
        if file.exists():
            return _read(file, ids)
        answers = await gather(
            [self._proposed(root, ids[root.id], known) for root in self._alignment.roots]
        )
        found = [one for one in answers if one is not None]
        write_json(file, {"shown": ids, "proposed": [one.model_dump(mode="json") for one in found]})
        return found

    async def _proposed(
        self, root: Aspect, ids: Sequence[str], known: Sequence[Aspect]
    ) -> Decomposition | None:
        own = [node for node in known if node.parent == root.id]
        try:
            return await self._proposer(root, own, **self._alignment.shown(root, ids))
        except MalformedResponse:
            # after the first round this is what "nothing else comes to mind" looks like; a model
            # that cannot make a list at all must be told
            if not known:
                raise
            return None


def spread(rows: Mask, groups: Codes, count: int, seed: int) -> Mask:
    """Return at most `count` of the rows, as evenly over the groups as there are rows.

    Args:
        rows: Which rows may be taken, shape (n,).
        groups: Code of each row's group, shape (n,).
        count: How many to take.
        seed: Seed of the draw.
    """
    at = np.flatnonzero(rows)
    if len(at) <= count:
        return rows
    rng = np.random.default_rng(seed)
    at = at[rng.permutation(len(at))]
    rank = np.zeros(len(at), int)
    for code in np.unique(groups[at]):
        inside = np.flatnonzero(groups[at] == code)
        rank[inside] = np.arange(len(inside))
    chosen = at[np.lexsort((rng.random(len(at)), rank))[:count]]
    found: Mask = np.zeros(len(rows), bool)
    found[chosen] = True
    return found


def rows_of(rubric: Rubric, rows: Mask) -> list[Example]:
    """Return the examples of some rows."""
    ids = {id_ for id_, one in zip(rubric.people.ids, rows, strict=True) if one}
    return [example for example in rubric.examples if example.id in ids]


def _ids(shown: Shown, root: Aspect) -> Sequence[str]:
    return next(ids for name, ids in shown.items() if name.casefold() == root.name.casefold())


def _beginning(text: str) -> str:
    words = text.split()
    return text if len(words) <= MAX_WORDS else f"{' '.join(words[:MAX_WORDS])} [...]"


def _read(file: Path, shown: Mapping[str, Sequence[str]]) -> list[Decomposition]:
    """Read the criteria of a round.

    Raises:
        RunFolderError: The file was edited, or its criteria were proposed from other texts.
    """
    try:
        held = json.loads(file.read_bytes())
        found = [Decomposition.model_validate(one) for one in held["proposed"]]
        same = held["shown"] == dict(shown)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunFolderError(
            f"{file} cannot be read: {error}; delete it to have criteria proposed again"
        ) from error
    if not same:
        raise RunFolderError(
            f"{file} contains criteria that were proposed from other texts; delete the rounds from"
            " there on, or choose another folder"
        )
    return found
