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

from textassay.agents.decomposer import Decomposition
from textassay.fitting.curves import agreement
from textassay.fitting.learn import Choice, Fitter, choose, importance_over_folds, predicted_by
from textassay.fitting.report import Parts
from textassay.fitting.table import FeatureTable, refuse_leaks
from textassay.learning.splits import Mask
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.graph.concurrency import gather
from textassay.runtime.messages import Aspect, AspectTree
from textassay.runtime.model import Json

Ratings = Mapping[str, Mapping[str, float | None]]
"""Value by node's id and example's id."""
Rate = Callable[[int, AspectTree, Sequence[Aspect]], Awaitable[Ratings]]
"""Rates a layer's nodes of the tree on all rows, training and held-out."""
TakeApart = Callable[[int, Sequence[Aspect]], Awaitable[Sequence[Decomposition]]]
"""Yields the parts of criteria that become a layer."""


@dataclass(frozen=True)
class Growth:
    """How far the tree grows.

    Attributes:
        layers: Layers of criteria; the first is what people rate.
        children: Most parts of a criterion.
        keep: Criteria that are taken apart from the second layer on; all of the first are.
    """

    layers: int = 3
    children: int = 4
    keep: int = 4

    def __post_init__(self) -> None:
        for name, most in (("layers", 6), ("children", 26), ("keep", 1000)):
            if not 1 <= getattr(self, name) <= most:
                raise ConfigurationError(
                    f"{name} lies between 1 and {most}, not {getattr(self, name)}"
                )


@dataclass(frozen=True)
class Aligned:
    """A grown tree and what was learnt over its nodes.

    Attributes:
        tree: The tree.
        choice: The last layer's aggregator, over all nodes.
        parts: Training and held-out rows with the ratings of all nodes.
        layers: What was found and decided at each layer, as JSON values.
    """

    tree: AspectTree
    choice: Choice
    parts: Parts
    layers: list[Json]


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
) -> Aligned:
    """Grow a tree layer by layer and learn how people weigh its nodes.

    What is expanded is decided on the training rows alone; held-out rows are rated for the report.

    Args:
        people: Rated rows; their features are not looked at.
        train: Which rows are learnt from, shape (n,).
        roots: The first layer.
        growth: How far the tree grows.
        aggregators: Names; of several the one with the least error over folds is a layer's proxy.
        fitter: How aggregators are fitted.
        rate: Rates nodes.
        take_apart: Takes criteria apart.

    Raises:
        DataError: The ratings do not allow to learn from them.
        TextassayError: As `rate` and `take_apart` raised it.
    """
    tree = AspectTree(aspects=tuple(roots))
    ratings: dict[str, Mapping[str, float | None]] = {}
    told: list[Json] = []
    expanded: Sequence[Aspect] = ()
    for layer in range(1, growth.layers + 1):
        notes: list[Json] = []
        if layer > 1:
            found = await take_apart(layer, expanded)
            tree = tree.with_children(part for one in found for part in one.aspects)
            notes = [{**note, "under": one.of.id} for one in found for note in one.notes]
        nodes = tree.layer(layer)
        ratings |= await rate(layer, tree, nodes)
        parts = parts_of(people, train, {node.id: ratings[node.id] for node in tree})
        choice = choose(aggregators, parts.train, fitter)
        ranking = _ranking(choice.chosen, parts.train, fitter, nodes)
        last = layer == growth.layers
        expanded = (
            () if last else nodes if layer == 1 else [node for node, _ in ranking[: growth.keep]]
        )
        told.append(_layer(layer, nodes, choice, parts, ranking, expanded, notes))
    return Aligned(tree, choice, parts, told)


def rehearse(
    people: FeatureTable,
    train: Mask,
    roots: Sequence[Aspect],
    *,
    aggregators: Sequence[str],
    fitter: Fitter,
) -> None:
    """Learn once from stand-ins of ratings, so that what cannot be learnt is refused before any call.

    Whether learning is possible depends on the rows: how many groups there are, how the human
    ratings vary. What the judge says does not come into it.

    Raises:
        DataError: The training rows do not allow to learn with the aggregators.
    """
    parts = parts_of(people, train, _stand_ins(people, roots, fitter.seed))
    try:
        choice = choose(aggregators, parts.train, fitter)
        _ranking(choice.chosen, parts.train, fitter, list(roots))
    except DataError as error:
        groups = len(np.unique(parts.train.groups))
        raise DataError(
            f"the {len(parts.train.ids)} rows to learn from, in {groups} groups, do not suffice:"
            f" {error}; give more groups, a larger share to learn from (--train-fraction), or"
            " --aggregator avg"
        ) from error


def _stand_ins(people: FeatureTable, roots: Sequence[Aspect], seed: int) -> Ratings:
    """Return what a fair judge might say.

    The mean human rating of a row and as much noise as signal.
    """
    gaps = np.isnan(people.human)
    centered = np.where(gaps, 0.0, people.human - np.nanmean(people.human, axis=0))
    signal = centered.sum(axis=1) / np.maximum(1, (~gaps).sum(axis=1))
    noise = np.random.default_rng(seed).normal(size=(len(roots), len(signal)))
    said = signal + (signal.std() or 1.0) * noise
    return {
        root.id: dict(zip(people.ids, map(float, row), strict=True))
        for root, row in zip(roots, said, strict=True)
    }


def parts_of(people: FeatureTable, train: Mask, ratings: Ratings) -> Parts:
    """Return training and held-out rows with the ratings as features.

    Rows without any are left out.

    Raises:
        DataError: A node has no rating on any training row, or one holds the answer.
    """
    table = people.with_features(ratings)
    filled = table.filled
    empty = np.isnan(table.features[train]).all(axis=0)
    if empty.any():
        name = table.names[int(np.flatnonzero(empty)[0])]
        raise DataError(
            f"the judge gave criterion {name!r} no usable rating on any row to learn from"
        )
    refuse_leaks(table)
    return Parts(table.rows(train & filled), table.rows(~train & filled))


def _ranking(
    name: str, train: FeatureTable, fitter: Fitter, nodes: Sequence[Aspect]
) -> list[tuple[Aspect, float]]:
    """Return a layer's nodes by importance, averaged over the human aspects, most important first."""
    by_id = {node.id: node for node in nodes}
    return [
        (by_id[f], value)
        for f, value in importance_over_folds(name, train, fitter).ranking()
        if f in by_id
    ]


def _layer(
    layer: int,
    nodes: Sequence[Aspect],
    choice: Choice,
    parts: Parts,
    ranking: Sequence[tuple[Aspect, float]],
    expanded: Sequence[Aspect],
    notes: Sequence[Json],
) -> Json:
    chosen = {node.id for node in expanded}
    return {
        "layer": layer,
        "criteria": [
            {"id": n.id, "name": n.name, "definition": n.definition, "parent": n.parent}
            for n in nodes
        ],
        "aggregator": choice.chosen,
        "features": len(parts.train.names),
        "agreement": agreement(predicted_by(choice.aggregator, parts.test), parts.test),
        "importance": [
            {"criterion": node.id, "importance": value, "expanded": node.id in chosen}
            for node, value in ranking
        ],
        "unused": list(notes),
    }


async def in_parallel(
    take_one: Callable[[Aspect], Awaitable[Decomposition]], aspects: Sequence[Aspect]
) -> list[Decomposition]:
    """Take several criteria apart at once, in order."""
    return await gather(take_one(aspect) for aspect in aspects)
