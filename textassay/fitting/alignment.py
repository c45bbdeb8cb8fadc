"""HD-Eval's iterative alignment (Liu et al. 2024, algorithm 1).

Grow criteria where people's ratings say they matter.

Knows rated rows, a function that rates nodes and one that takes a node apart; nothing of models,
prompts or files.

Line 15 of the algorithm prints the layers r < j for the proxy aggregator of layer j. It would leave
the layer's own criteria without attribution, which line 17 asks for; here the proxy sees all layers
up to and including j.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from textassay.agents.planning import Decomposition
from textassay.fitting.importance import importance_over_folds, saliency_over_folds
from textassay.fitting.learn import (
    Choice,
    FeatureTable,
    Fitter,
    Parts,
    choose,
    correlations,
    predict,
    refuse_leaks,
)
from textassay.fitting.request import MAX_KEEP, Growth
from textassay.learning.attribution import Importance
from textassay.learning.splits import Mask
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Aspect, AspectTree
from textassay.runtime.model import Json

NodeValues = Mapping[str, Mapping[str, float | None]]
"""Value by node's id and example's id."""
Rate = Callable[[int, AspectTree, Sequence[Aspect]], Awaitable[NodeValues]]
"""Rates a layer's nodes of the tree on all rows, training and held-out."""
TakeApart = Callable[[int, Sequence[Aspect]], Awaitable[Sequence[Decomposition]]]
"""Yields the parts of criteria that become a layer."""
Measure = Callable[[str, FeatureTable], object]
"""Measures importance by an aggregator of that name on some rows, to see whether it can be done."""

_NOISE = 0.05
"""Probability that criteria which say nothing are taken for some that do."""


@dataclass(frozen=True)
class Aligned:
    """A grown tree and what was learned over its nodes."""

    tree: AspectTree
    choice: Choice  # the last layer's aggregator, over all nodes
    parts: Parts  # training and held-out rows with the ratings of all nodes
    layers: list[Json]  # what was found and decided at each layer, as JSON values
    warnings: tuple[str, ...] = ()  # what people should know of how it was decided


async def align(
    people: FeatureTable,
    train: Mask,
    roots: Sequence[Aspect],
    growth: Growth,
    *,
    aggregators: Sequence[str],
    fitter: Fitter,
    rate: Rate,
    take_apart: TakeApart,
    given: bool = False,
) -> Aligned:
    """Grow a tree layer by layer and learn how people weigh its nodes.

    What is expanded is decided on the training rows alone; held-out rows are rated for the report.
    """
    tree = AspectTree(aspects=tuple(roots))
    ratings: dict[str, Mapping[str, float | None]] = {}
    layers: list[Json] = []
    warnings: list[str] = []
    expanded: Sequence[Aspect] = ()
    keep = growth.kept(given=given)
    # each layer learns again over all nodes so far: a criterion's weight changes once its parts are
    # there beside it
    for layer in range(1, growth.layers + 1):
        notes: list[Json] = []
        if layer > 1:
            decompositions = await take_apart(layer, expanded)
            tree = tree.with_children(part for one in decompositions for part in one.aspects)
            notes = [{**note, "under": one.of.id} for one in decompositions for note in one.notes]
        nodes = tree.layer(layer)
        if not nodes:  # no criterion that was kept has parts in the given tree
            break
        ratings |= await rate(layer, tree, nodes)
        parts = split_ratings(people, train, {node.id: ratings[node.id] for node in tree})
        choice = choose(aggregators, parts.train, fitter)
        ranking = _rank(choice.chosen, parts.train, fitter, nodes, growth.saliency)
        # the first layer is what people rated, so all of it is expanded; the last one has nothing
        # below
        prunes = 1 < layer < growth.layers and keep < len(nodes)
        if prunes and ranking.is_noise:
            warnings.append(_noise_warning(layer, len(nodes), keep, growth))
        stops = prunes and ranking.is_noise and growth.noise == "stop"
        last = layer == growth.layers or stops
        expanded = () if last else nodes if layer == 1 else ranking.nodes[:keep]
        layers.append(_layer(layer, nodes, choice, parts, ranking, expanded, notes))
        if stops:
            break
    return Aligned(tree, choice, parts, layers, tuple(warnings))


def _noise_warning(layer: int, count: int, keep: int, growth: Growth) -> str:
    noisy = (
        f"layer {layer}: no criterion has an importance distinguishable from 0 where all {count} of"
        " the layer are tested together (95 % for all of them; the report's intervals are of one"
        f" each), so the choice of {keep} to divide further would be arbitrary"
    )
    if growth.noise == "prune":
        return f"{noisy}; the tree was pruned anyway"
    return (
        f"{noisy}: the tree stops at this layer. Rate more rows, keep all criteria"
        f" (keep={MAX_KEEP}), or prune anyway (noise=prune)"
    )


def check_learnable(
    people: FeatureTable,
    train: Mask,
    roots: Sequence[Aspect],
    *,
    aggregators: Sequence[str],
    fitter: Fitter,
    measure: Measure,
) -> None:
    """Fit once to placeholder ratings, so that data that cannot be learned fails before any call.

    Whether learning is possible depends on the rows: how many groups there are, how the human
    ratings vary. What the judge says does not come into it.
    """
    parts = split_ratings(people, train, _stand_ins(people, roots, fitter.seed))
    try:
        choice = choose(aggregators, parts.train, fitter)
        measure(choice.chosen, parts.train)
    except DataError as error:
        groups = len(np.unique(parts.train.groups))
        raise DataError(
            f"the {len(parts.train.ids)} rows to learn from, in {groups} groups, are not enough:"
            f" {error}; give more groups, a larger share to learn from "
            "(train_fraction=), or aggregator=avg"
        ) from error


def _stand_ins(people: FeatureTable, roots: Sequence[Aspect], seed: int) -> NodeValues:
    """Return placeholder ratings like those of a fair judge.

    Each is a row's mean human rating plus as much noise as signal.
    """
    gaps = np.isnan(people.human)
    centered = np.where(gaps, 0.0, people.human - np.nanmean(people.human, axis=0))
    signal = centered.sum(axis=1) / np.maximum(1, (~gaps).sum(axis=1))
    noise = np.random.default_rng(seed).normal(size=(len(roots), len(signal)))
    ratings = signal + (signal.std() or 1.0) * noise
    return {
        root.id: dict(zip(people.ids, map(float, row), strict=True))
        for root, row in zip(roots, ratings, strict=True)
    }


def split_ratings(people: FeatureTable, train: Mask, ratings: NodeValues) -> Parts:
    """Return training and held-out rows with the ratings as features.

    Rows without any are left out.
    """
    table = people.with_features(ratings)
    filled = table.filled
    empty = np.isnan(table.features[train]).all(axis=0)
    # a criterion that the judge never rated would silently count as its mean everywhere
    if empty.any():
        name = table.names[int(np.flatnonzero(empty)[0])]
        raise DataError(
            f"the judge gave criterion {name!r} no usable rating on any row to learn from"
        )
    refuse_leaks(table)
    return Parts(table.rows(train & filled), table.rows(~train & filled))


@dataclass(frozen=True)
class _Ranking:
    """A layer's nodes by importance, averaged over the human aspects, most important first."""

    nodes: list[Aspect]
    saliency: dict[str, float]
    permutation: Importance

    @property
    def is_noise(self) -> bool:
        """Whether no node's permutation importance differs from 0.

        Intervals hold for all nodes of the layer together (Bonferroni): of many criteria that say
        nothing, the interval of one would miss 0 by chance.
        """
        spans = self.permutation.overall_interval(1 - _NOISE / len(self.nodes))
        low = dict(zip(self.permutation.names, spans, strict=True))
        return not any(low[node.id][0] > 0 for node in self.nodes)

    def as_json(self, expanded: set[str]) -> list[Json]:
        """Return JSON values."""
        importance = self.permutation
        spans = dict(zip(importance.names, importance.overall_interval(), strict=True))
        return [
            {
                "criterion": node.id,
                "importance": None if np.isnan(self.saliency[node.id]) else self.saliency[node.id],
                "permutation_ci": None
                if np.isnan(spans[node.id]).any()
                else spans[node.id].tolist(),
                "expanded": node.id in expanded,
            }
            for node in self.nodes
        ]


def _rank(
    name: str, train: FeatureTable, fitter: Fitter, nodes: Sequence[Aspect], saliency: str
) -> _Ranking:
    # measured even if criteria are ranked by Shapley values: only permutation has the intervals
    # that tell importance from noise
    permutation = importance_over_folds(name, train, fitter)
    values = dict(permutation.ranking())
    if saliency == "shapley":
        values = saliency_over_folds(name, train, fitter)
    # what could not be measured comes last
    by_importance = sorted(nodes, key=lambda node: -np.nan_to_num(values[node.id], nan=-np.inf))
    return _Ranking(by_importance, values, permutation)


def _layer(
    layer: int,
    nodes: Sequence[Aspect],
    choice: Choice,
    parts: Parts,
    ranking: _Ranking,
    expanded: Sequence[Aspect],
    notes: Sequence[Json],
) -> Json:
    return {
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
        "unused": list(notes),
    }
