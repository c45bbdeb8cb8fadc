"""`fit --method hd-eval`: HD-Eval's iterative alignment (Liu et al. 2024, algorithm 1).

A model rates criteria and divides them into parts; criteria are divided if they matter for people's
ratings. Each layer of criteria is rated by a run in its own folder.

Line 15 of the algorithm prints the layers r < j for the proxy aggregator of layer j. The layer's
own criteria would then have no attribution, which line 17 needs; here the proxy sees all layers up
to and including j.

OUT/layers/N.json   the parts of criteria by the model, layer N of the tree, from 2 on
OUT/layers/N/       the run that rated the nodes of layer N
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from textassay.agents.planning import Decomposer, Decomposition
from textassay.agents.prompt_template import Task
from textassay.agreement.correlation import number_or_none
from textassay.fitting.alignment import Alignment, AlignmentResult, on_judges_scale, read_kept
from textassay.fitting.feature_table import FeatureTable
from textassay.fitting.importance import format_span, importance_over_folds, saliency_over_folds
from textassay.fitting.learn import Fitter, choose, correlations, predict
from textassay.fitting.request import MAX_KEEP, FitTree
from textassay.learning.attribution import Importance
from textassay.methods.hd_eval import SCALE, HDEvalOptions, decomposer_for
from textassay.methods.library import trees
from textassay.methods.library.trees import PUBLISHED
from textassay.prompts import TREES
from textassay.runtime.base import Json
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import ConfigurationError, RunFolderError
from textassay.runtime.messages import Aspect, AspectTree
from textassay.runtime.model import Model
from textassay.runtime.storage.files import write_json


class TreeAlignment(Alignment):
    """The alignment of a tree of criteria that the model grows."""

    request: FitTree
    reported_as = "alignment"
    _usual_keep = 4

    def _measure(self, aggregator: str, rows: FeatureTable) -> object:
        return importance_over_folds(aggregator, rows, self.fitter)

    @property
    def ships_all(self) -> bool:
        """Whether the shipped evaluator also learns from the held-out rows, once measured.

        The criteria are chosen by training rows, so only held-out rows can be measured.
        """
        return not self.request.holds_out

    @property
    def judging(self) -> HDEvalOptions:
        return super().judging.model_copy(update={"children": self.request.children})

    @property
    def _keep(self) -> int:
        """Number of criteria that are divided in a layer, from the second one on."""
        return self.request.keep or self._usual_keep

    @property
    def growth(self) -> Json:
        names = ("layers", "children", "keep", "saliency", "noise")
        return {name: getattr(self.request, name) for name in names} | {"keep": self._keep}

    def _check_models(self, models: Mapping[str, Model]) -> None:
        if self.request.layers > 1:
            self.decomposer(models)

    def decomposer(self, models: Mapping[str, Model]) -> Decomposer:
        """Return the agent that writes criteria."""
        instead = "give one with tree=FILE, or rate the first layer alone with layers=1"
        return decomposer_for(models, self.task, self.judging, instead=instead)

    async def grow(self) -> AlignmentResult:
        """Grow a tree layer by layer and learn how people weigh its nodes.

        Training rows alone decide which criteria are divided; held-out rows are rated for the
        report.
        """
        request, keep = self.request, self._keep
        tree = AspectTree(aspects=self.roots)
        ratings: dict[str, Mapping[str, float | None]] = {}
        layers: list[Json] = []
        warnings: list[str] = []
        expanded: Sequence[Aspect] = ()
        # each layer learns again over all nodes so far, since parts change the weight of a
        # criterion
        for layer in range(1, request.layers + 1):
            notes: list[Json] = []
            if layer > 1:
                decompositions = await self.take_apart(layer, expanded)
                tree = tree.with_children(part for d in decompositions for part in d.aspects)
                notes = [{**note, "under": decomposition.of.id} for decomposition in decompositions
                         for note in decomposition.notes]  # fmt: skip
            nodes = tree.layer(layer)
            if not nodes:  # no kept criterion has parts in the given tree
                break
            ratings |= await self.rate(layer, tree, nodes)
            parts = self.split({node.id: ratings[node.id] for node in tree})
            choice = choose(request.aggregator, parts.train, self.fitter)
            ranking = _rank(choice.chosen, parts.train, self.fitter, nodes, request.saliency)
            # all criteria of the first layer, which people rated, are divided; the last layer has
            # no parts
            prunes = 1 < layer < request.layers and keep < len(nodes)
            if prunes and ranking.is_noise:
                warnings.append(self._noise_warning(layer, len(nodes), keep))
            stops = prunes and ranking.is_noise and request.noise == "stop"
            last = layer == request.layers or stops
            expanded = () if last else nodes if layer == 1 else ranking.nodes[:keep]
            layers.append(
                {
                    "layer": layer,
                    "criteria": [
                        {"id": n.id, "name": n.name, "definition": n.definition, "parent": n.parent}
                        for n in nodes
                    ],
                    "aggregator": choice.chosen,
                    "features": len(parts.train.names),
                    "agreement": correlations(predict(choice.aggregator, parts.test), parts.test),
                    "importance": ranking.as_json({node.id for node in expanded}),
                    "is_noise": ranking.is_noise,
                    "unused": notes,
                }
            )
            if stops:
                break
        return AlignmentResult(tree, choice, parts, layers, tuple(warnings))

    def _noise_warning(self, layer: int, count: int, keep: int) -> str:
        noisy = (
            f"layer {layer}: no criterion has an importance distinguishable from 0 where all"
            f" {count} of the layer are tested together (95 % for all of them; the report's"
            f" intervals are of one each), so the choice of {keep} to divide further would be"
            " arbitrary"
        )
        if self.request.noise == "prune":
            return f"{noisy}; the tree was pruned anyway"
        return (
            f"{noisy}: the tree stops at this layer. Rate more rows, keep all criteria"
            f" (keep={MAX_KEEP}), or prune anyway (noise=prune)"
        )

    async def take_apart(self, layer: int, aspects: Sequence[Aspect]) -> list[Decomposition]:
        """Return the parts of the criteria, from the layer's file if an earlier call wrote one."""
        # the parts are stored outside of the cache: a repeated request may yield other parts, and
        # the ratings of the earlier ones would be lost
        assert self._folder is not None  # a dry run divides nothing
        file = self._folder / f"{layer}.json"
        if file.exists():
            return read_parts(file, aspects)
        decomposer = self.decomposer(self._models)
        decompositions = await gather([decomposer(aspect) for aspect in aspects])
        write_json(file, [parts.model_dump(mode="json") for parts in decompositions])
        return decompositions

    async def _ask_all(self) -> None:
        tree, nodes = AspectTree(aspects=self.roots), self.roots
        for layer in range(1, self.request.layers + 1):
            if layer > 1:
                # all criteria of the first layer are divided
                keep = len(nodes) if layer == 2 else self._keep
                tree = tree.with_children(await self._largest(layer, nodes, keep))
                nodes = tree.layer(layer)
            if not nodes:
                break
            await self._count(tree, nodes)

    async def _largest(self, layer: int, nodes: Sequence[Aspect], keep: int) -> list[Aspect]:
        """Return a layer of maximum size, given the layer above it."""
        decomposer = self.decomposer(self._models)
        await gather([decomposer(node) for node in nodes[:keep]])
        words = "how well the text does in this respect, in one sentence."
        return [
            Aspect(name=f"Part {layer}.{number}", definition=words, scale=SCALE, parent=node.id)
            for node in nodes[:keep]
            for number in range(1, self.request.children + 1)
        ]


class GivenTreeAlignment(TreeAlignment):
    """The alignment of a tree of criteria that is published, or given in a file."""

    _usual_keep = MAX_KEEP

    def _find_roots(self) -> tuple[Aspect, ...]:
        self.tree = load_tree(self.request.tree, self.task)
        return self.tree.roots

    def _plan(self) -> Json:
        return super()._plan() | {"tree": trees.tree_digest(self.tree)}

    def _author(self) -> Json:
        return {"tree": self.request.tree}

    def _check_models(self, models: Mapping[str, Model]) -> None:
        """No model writes criteria."""

    async def take_apart(self, layer: int, aspects: Sequence[Aspect]) -> list[Decomposition]:
        return parts_in(self.tree, aspects)

    async def _largest(self, layer: int, nodes: Sequence[Aspect], keep: int) -> list[Aspect]:
        # the branches with most parts, since people's ratings are not known yet
        branches = sorted(parts_in(self.tree, nodes), key=lambda branch: -len(branch.aspects))
        return [part for branch in branches[:keep] for part in branch.aspects]


def load_tree(option: str, task: Task) -> AspectTree:
    """Return the tree that an option names, every node on the judge's scale."""
    if option != PUBLISHED:
        return AspectTree(aspects=on_judges_scale(trees.load(option, task)))
    if task.name not in TREES:
        raise ConfigurationError(
            f"no tree is published for the task {task.name!r}; there is one for"
            f" {', '.join(TREES)}. Name one of these or a file, or let the model grow it (model)"
        )
    tree = trees.load(task.name, task)
    published = {root.id: root for root in tree.roots}
    # the task decides on the aspects: those without a published branch stay as roots
    nodes = [published.get(aspect.id, aspect) for aspect in task.aspects]
    roots = {node.id for node in nodes}
    nodes += [node for node in tree if node.parent and node.id.partition("/")[0] in roots]
    return AspectTree(aspects=on_judges_scale(nodes))


def parts_in(tree: AspectTree, aspects: Sequence[Aspect]) -> list[Decomposition]:
    """Return the parts of criteria in a tree, without criteria that have no parts."""
    children = ((aspect, tree.children(aspect.id)) for aspect in aspects)
    return [Decomposition(of=aspect, aspects=parts) for aspect, parts in children if parts]


def read_parts(file: Path, aspects: Sequence[Aspect]) -> list[Decomposition]:
    """Read the parts of criteria from the file of a layer."""
    decompositions = read_kept(file, TypeAdapter(list[Decomposition]), "ask for the parts again")
    # another aggregator may rank other criteria first, whose parts must not be mixed up
    before = ", ".join(decomposition.of.id for decomposition in decompositions)
    now = ", ".join(aspect.id for aspect in aspects)
    if before != now:
        raise RunFolderError(
            f"{file} contains the parts of {before}, but {now} are to be decomposed; delete the"
            " layers from there on, or choose another folder"
        )
    return decompositions


@dataclass(frozen=True)
class _CriterionRanking:
    """A layer's nodes, the most important first, by importance averaged over the human aspects."""

    nodes: list[Aspect]
    saliency: dict[str, float]
    permutation: Importance

    @property
    def is_noise(self) -> bool:
        """Whether no node's permutation importance differs from 0.

        Intervals cover 95 % for all nodes of the layer together (Bonferroni): of many useless
        criteria, one interval would exclude 0 by chance.
        """
        spans = self.permutation.overall_interval(1 - 0.05 / len(self.nodes))
        low = dict(zip(self.permutation.names, spans, strict=True))
        return not any(low[node.id][0] > 0 for node in self.nodes)

    def as_json(self, expanded: set[str]) -> list[Json]:
        importance = self.permutation
        spans = dict(zip(importance.names, importance.overall_interval(), strict=True))
        return [
            {
                "criterion": node.id,
                "importance": number_or_none(self.saliency[node.id]),
                "permutation_ci": format_span(spans[node.id]),
                "expanded": node.id in expanded,
            }
            for node in self.nodes
        ]


def _rank(
    name: str, train: FeatureTable, fitter: Fitter, nodes: Sequence[Aspect], saliency: str
) -> _CriterionRanking:
    # measured even if criteria are ranked by Shapley values: only permutation has the intervals
    # that distinguish importance from noise
    permutation = importance_over_folds(name, train, fitter)
    values = dict(permutation.ranking())
    if saliency == "shapley":
        values = saliency_over_folds(name, train, fitter)
    # nodes without a measurement come last
    by_importance = sorted(nodes, key=lambda node: -np.nan_to_num(values[node.id], nan=-np.inf))
    return _CriterionRanking(by_importance, values, permutation)
