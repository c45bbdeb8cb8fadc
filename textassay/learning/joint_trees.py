"""Trees whose leaves hold all aspects at once: every split serves them together.

Knows standardized arrays. These are CART trees with several outputs (Breiman et al., 1984; the
criterion is the sum of the outputs' squared errors, as in scikit-learn, which HD-Eval uses:
appendix C.3). LightGBM grows none, but reads them: each aspect's leaves are written in its text
format, so that predictions and exact Shapley values come from one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textassay.learning.training import Floats, Learned
from textassay.learning.trees import Trees

Ints = NDArray[np.intp]

_BINS = 64
"""Most values of a feature between which a tree may split."""
_TREES = 100
_SHARE = 1 / 3
"""Features that a split of the forest chooses among."""
_ROWS_PER_LEAF_OF_FOREST = 3


@dataclass(frozen=True, slots=True)
class Binned:
    """Features as numbers of bins, which is all that a split looks at.

    Attributes:
        codes: Bin of each value, shape (n, features).
        thresholds: By feature, the values between its bins; a bin's rows lie at or below its own.
    """

    codes: Ints
    thresholds: list[Floats]

    @classmethod
    def of(cls, features: Floats) -> Binned:
        """Return features in bins.

        One per value if there are few, else quantiles of the rows.
        """
        thresholds = []
        for column in features.T:
            values = np.unique(column)
            if len(values) > _BINS:
                values = np.unique(np.quantile(column, np.linspace(0, 1, _BINS), method="nearest"))
            # between two values rather than at one: rounding of a value cannot carry a row to the
            # other side
            thresholds.append((values[:-1] + values[1:]) / 2)
        columns = zip(thresholds, features.T, strict=True)
        codes = np.stack([np.searchsorted(edges, column) for edges, column in columns], axis=1)
        return cls(codes, thresholds)


@dataclass(slots=True)
class JointTree:
    """One tree; nodes are numbered in the order in which they were split.

    Attributes:
        feature: Of each split, -1 for leaves, shape (nodes,).
        bin: Rows of up to this bin go left, shape (nodes,).
        left: Number of the left child; the right one's is the next, shape (nodes,).
        count: Rows in each node, shape (nodes,).
        value: Mean of each target over the node's rows, shape (nodes, targets).
    """

    feature: Ints
    bin: Ints
    left: Ints
    count: Ints
    value: Floats


def learn_joint_tree(
    features: Floats, targets: Floats, *, seed: int, leaf: int | None = None
) -> list[Learned]:
    """Grow one regression tree over all targets; return a predictor for each.

    Args:
        features: Standardized, shape (n, features).
        targets: Standardized, shape (n, targets).
        seed: Not used: nothing is random.
        leaf: Fewest rows of a leaf, by default a twentieth of them.
    """
    least = int(np.clip(len(targets) // 20, 2, 50)) if leaf is None else leaf
    binned = Binned.of(features)
    return _written([_grow(binned, targets, np.arange(len(targets)), least)], binned, forest=False)


def learn_joint_forest(features: Floats, targets: Floats, *, seed: int) -> list[Learned]:
    """Grow a random forest over all targets; return a predictor for each.

    Each tree sees a bootstrap of the rows, each split a third of the features.

    Args:
        features: Standardized, shape (n, features).
        targets: Standardized, shape (n, targets).
        seed: Of rows and features.
    """
    rng, binned = np.random.default_rng(seed), Binned.of(features)
    grown = [
        _grow(
            binned,
            targets,
            np.sort(rng.integers(len(targets), size=len(targets))),
            _ROWS_PER_LEAF_OF_FOREST,
            rng,
        )
        for _ in range(_TREES)
    ]
    return _written(grown, binned, forest=True)


def _grow(
    binned: Binned,
    targets: Floats,
    rows: Ints,
    leaf: int,
    rng: np.random.Generator | None = None,
) -> JointTree:
    """Grow a tree layer by layer, all nodes of a layer at once."""
    codes, y = binned.codes[rows], targets[rows]
    feature, split, left, count, value = [], [], [], [], []
    node = np.zeros(len(rows), np.intp)  # of each row, counted within the layer
    nodes = first = 1  # nodes of the layer, and the number of the next layer's first node
    while nodes:
        sizes = np.bincount(node, minlength=nodes)
        sums = np.stack([np.bincount(node, weights=t, minlength=nodes) for t in y.T], axis=1)
        best, at = _best_splits(codes, y, node, sizes, leaf, rng)
        splits = best >= 0
        children = first + 2 * (np.cumsum(splits) - 1)
        feature.append(best)
        split.append(at)
        left.append(np.where(splits, children, -1))
        count.append(sizes)
        value.append(sums / sizes[:, None])
        kept = splits[node]
        codes, y, node = codes[kept], y[kept], node[kept]
        goes_right = codes[np.arange(len(node)), best[node]] > at[node]
        node = 2 * (np.cumsum(splits) - 1)[node] + goes_right
        nodes = 2 * int(splits.sum())
        first += nodes
    joined = map(np.concatenate, (feature, split, left, count, value))
    return JointTree(*joined)


def _best_splits(
    codes: Ints,
    y: Floats,
    node: Ints,
    sizes: Ints,
    leaf: int,
    rng: np.random.Generator | None,
) -> tuple[Ints, Ints]:
    """Return the best feature and bin to split each node at, -1 if none lowers the error."""
    nodes, width, bins = len(sizes), codes.shape[1], int(codes.max(initial=0)) + 1
    shape = (nodes, width, bins)
    cells = ((node[:, None] * width + np.arange(width)) * bins + codes).ravel()
    cell_count = nodes * width * bins
    below = np.bincount(cells, minlength=cell_count).reshape(shape).cumsum(axis=2)
    above = sizes[:, None, None] - below
    allowed = (below >= leaf) & (above >= leaf)
    gain = np.zeros(shape)
    for target in y.T:
        weights = np.repeat(target, width)
        part = np.bincount(cells, weights=weights, minlength=cell_count).reshape(shape)
        part = part.cumsum(axis=2)
        whole = part[:, :1, -1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            # the reduction of the squared error; the sum over targets is what makes a split serve
            # all of them
            gain += part**2 / below + (whole - part) ** 2 / above - whole**2 / sizes[:, None, None]
    gain = np.where(allowed, gain, 0.0)
    if rng is not None:
        # ranks of random numbers: each node gets its own random third of the features
        order = rng.random((nodes, width)).argsort(axis=1).argsort(axis=1)
        gain[order >= max(1, round(_SHARE * width))] = 0.0
    flat = gain.reshape(nodes, -1)
    best = flat.argmax(axis=1)
    helps = flat[np.arange(nodes), best] > 1e-9
    return np.where(helps, best // bins, -1), np.where(helps, best % bins, -1)


def _written(grown: Sequence[JointTree], binned: Binned, *, forest: bool) -> list[Learned]:
    """Return a predictor for each target: the same trees with that target's values."""
    targets = grown[0].value.shape[1]
    return [
        Learned(Trees(_text(grown, binned, target, forest=forest)), {"joint": targets})
        for target in range(targets)
    ]


def _text(grown: Sequence[JointTree], binned: Binned, target: int, *, forest: bool) -> str:
    """Return trees in LightGBM's text format, version 4."""
    width = len(binned.thresholds)
    head = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={width - 1}",
        "objective=regression",
        *(["average_output"] if forest else []),
        "feature_names=" + " ".join(f"Column_{i}" for i in range(width)),
        "feature_infos=" + " ".join(["[-1e300:1e300]"] * width),
    ]
    trees = [_tree_text(n, one, binned, target) for n, one in enumerate(grown)]
    return "\n".join([*head, "", *trees, "end of trees", ""])


def _tree_text(number: int, tree: JointTree, binned: Binned, target: int) -> str:
    is_leaf = tree.feature < 0
    number_of_leaf = np.cumsum(is_leaf, dtype=np.intp)
    # LightGBM numbers splits from 0 and leaves as -1, -2, ... in the same child fields
    place = np.where(is_leaf, -number_of_leaf, np.cumsum(~is_leaf) - 1)  # leaves: -1, -2, ...
    splits = np.flatnonzero(~is_leaf)
    edges = [float(binned.thresholds[tree.feature[i]][tree.bin[i]]) for i in splits]
    leaf, inner = tree.value[is_leaf, target], tree.value[splits, target]

    def line(name: str, values: Sequence[float] | Ints | Floats) -> str:
        return f"{name}=" + " ".join(repr(float(v)) if v != int(v) else str(int(v)) for v in values)

    counted = tree.count[is_leaf]
    lines = [f"Tree={number}", f"num_leaves={len(leaf)}", "num_cat=0"]
    if len(splits):
        lines += [
            line("split_feature", tree.feature[splits]),
            line("split_gain", np.zeros(len(splits))),
            line("threshold", edges),
            line("decision_type", np.full(len(splits), 2)),
            line("left_child", place[tree.left[splits]]),
            line("right_child", place[tree.left[splits] + 1]),
        ]
    lines += [line("leaf_value", leaf), line("leaf_weight", counted), line("leaf_count", counted)]
    lines += [
        line("internal_value", inner),
        line("internal_weight", tree.count[splits]),
        line("internal_count", tree.count[splits]),
        "is_linear=0",
        "shrinkage=1",
        "",
        "",
    ]
    return "\n".join(lines)
