"""Learns single trees, random forests, gradient boosting, and trees for all aspects at once.

Works on standardized arrays. LightGBM grows the trees of one aspect. Its defaults need 20 rows a
leaf and predict a constant below 40 rows without a word, so leaves shrink with the data here.
Boosting respects the direction in which a feature clearly moves with the ratings: a judge's higher
score never lowers the prediction, which is worth some hundreds of rows.

Joint trees are CART trees with several outputs (Breiman et al., 1984; the criterion is the sum of
the outputs' squared errors, as in scikit-learn, which HD-Eval uses: appendix C.3). LightGBM grows
none, but reads them: each aspect's leaves are written in its text format, so that predictions and
exact Shapley values come from one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.arrays import Codes, Floats
from textassay.learning.training import FitResult, Training
from textassay.runtime.errors import DataError

_BINS = 64
"""Most values of a feature between which a tree may split."""


@dataclass(frozen=True, slots=True)
class Forest:
    """The parameters of random forests, of one target and of several."""

    trees: int = 100
    features: float = 1 / 3
    """Share of the features among which a split chooses."""
    leaf: int = 3
    """Fewest rows of a leaf."""


FOREST = Forest()


class Trees:
    """An ensemble in LightGBM's text format; exact Shapley values by TreeSHAP.

    Args:
        text: The model as LightGBM writes it.

    References:
        Lundberg et al., "From local explanations to global understanding with explainable AI for
        trees" (2020).
    """

    def __init__(self, text: str) -> None:
        import lightgbm  # heavy, so on first use

        self.text = text
        self._model = lightgbm.Booster(model_str=text)
        # LightGBM averages a forest's predictions and adds up its contributions
        averaged = any(line.strip() == "average_output" for line in text[:2000].splitlines())
        self.width: int = self._model.num_feature()
        self._divisor = self._model.num_trees() if averaged else 1

    def predict(self, features: Floats) -> Floats:
        return np.asarray(self._model.predict(np.ascontiguousarray(features), num_threads=1), float)

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return exact Shapley values, shape (n, features), and the expected prediction."""
        contributions = self._model.predict(
            np.ascontiguousarray(features), pred_contrib=True, num_threads=1
        )
        contributions = np.asarray(contributions, float) / self._divisor
        return contributions[:, :-1], float(contributions[0, -1]) if len(contributions) else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "trees", "lightgbm": self.text}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trees:
        # an evaluator may come from elsewhere, and LightGBM trusts the text: it reads outside
        # of arrays, follows cycles and ends the process
        try:
            _check_text(data["lightgbm"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"the evaluator's trees are damaged: {error}; fit again") from error
        return cls(data["lightgbm"])


_INTEGER = re.compile(r"-?[0-9]{1,9}")
_FLOAT = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?(e[-+]?[0-9]{1,3})?")


def _check_text(text: str) -> None:
    """Raise ValueError unless a text in LightGBM's format is safe to be read by LightGBM."""
    if not text.isascii() or "\r" in text or "\0" in text:
        raise ValueError("characters that LightGBM does not write")
    body, end, rest = text.partition("\nend of trees\n")
    head, *trees = re.split(r"^(?=Tree=)", body + "\n", flags=re.MULTILINE)
    if not end or re.search(r"^Tree=", rest, flags=re.MULTILINE):
        raise ValueError("no end of trees")
    first, *lines = head.split("\n")
    fields = _fields([line for line in lines if line not in ("", "average_output")])
    one_output = {"version": "v4", "num_class": "1", "num_tree_per_iteration": "1"}
    if first != "tree" or not (one_output | {"label_index": "0"}).items() <= fields.items():
        raise ValueError("not trees of one output")
    width = int(_numbers(fields, "max_feature_idx", 1, _INTEGER)[0]) + 1
    for name in ("feature_names", "feature_infos"):
        if len(fields.get(name, "").split(" ")) != width:
            raise ValueError(f"{name} does not list {width} features")
    # LightGBM finds the trees by their sizes if they are there
    sizes = fields.get("tree_sizes")
    if sizes is not None and sizes != " ".join(str(len(tree)) for tree in trees):
        raise ValueError("tree_sizes do not match the trees")
    for number, tree in enumerate(trees):
        _check_tree(number, tree, width)


def _check_tree(number: int, text: str, width: int) -> None:
    fields = _fields(text.rstrip("\n").split("\n"))
    leaves = int(_numbers(fields, "num_leaves", 1, _INTEGER)[0])
    expected = {"Tree": str(number), "num_cat": "0", "is_linear": "0"}
    if not expected.items() <= fields.items() or leaves < 1:
        raise ValueError(f"tree {number} is of another kind")
    _numbers(fields, "leaf_value", leaves, _FLOAT)
    if leaves == 1:  # LightGBM reads no further
        return
    for name in ("leaf_weight", "leaf_count"):
        _numbers(fields, name, leaves, _FLOAT)
    for name in ("split_gain", "threshold", "internal_value", "internal_weight", "internal_count"):
        _numbers(fields, name, leaves - 1, _FLOAT)
    split, kinds, left, right = (
        [int(text) for text in _numbers(fields, name, leaves - 1, _INTEGER)]
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    if not all(0 <= feature < width for feature in split):
        raise ValueError(f"tree {number} splits at a feature that does not exist")
    # the lowest bit says that a split is one of categories, which lie elsewhere in the text
    if not all(kind in range(0, 12, 2) for kind in kinds):
        raise ValueError(f"tree {number} has splits of another kind")
    # splits are numbered from 0 in the order in which they were made, leaves -1, -2, ...
    if sorted([*left, *right]) != [*range(-leaves, 0), *range(1, leaves - 1)]:
        raise ValueError(f"tree {number} is malformed: some nodes are unreachable or shared")
    depth = [1] * (leaves - 1)
    for node, children in enumerate(zip(left, right, strict=True)):
        for child in children:
            if 0 <= child <= node:
                raise ValueError(f"tree {number} has a split before the one that leads to it")
            if child > 0:
                depth[child] = depth[node] + 1
    if max(depth) > 1000:  # LightGBM explains predictions by recursion
        raise ValueError(f"tree {number} is too deep")


def _fields(lines: Sequence[str]) -> dict[str, str]:
    fields = dict(line.split("=", 1) for line in lines)
    if len(fields) != len(lines):
        raise ValueError("a field is there twice")
    return fields


def _numbers(fields: Mapping[str, str], name: str, count: int, kind: re.Pattern[str]) -> list[str]:
    numbers = fields[name].split(" ")
    if len(numbers) != count or not all(map(kind.fullmatch, numbers)):
        raise ValueError(f"{name} has no list of {count} numbers")
    return numbers


def fit_tree(training: Training) -> FitResult:
    """Grow one regression tree."""
    return _train(
        training, 1, learning_rate=1.0, num_leaves=15, min_data_in_leaf=_leaf(len(training.target))
    )


def fit_forest(training: Training) -> FitResult:
    """A random forest: each tree sees 63 % of the rows, each split a third of the features."""
    return _train(
        training,
        FOREST.trees,
        boosting="rf",
        learning_rate=1.0,
        num_leaves=int(np.clip(len(training.target) // 20, 15, 255)),
        min_data_in_leaf=FOREST.leaf,
        bagging_fraction=0.632,
        bagging_freq=1,
        feature_fraction_bynode=FOREST.features,
    )


def fit_boosting(training: Training) -> FitResult:
    """Gradient boosting, monotone in every feature that clearly rises or falls with the ratings."""
    return boost(training, clear_directions(training))


def boost(training: Training, directions: Codes) -> FitResult:
    """Gradient boosting that never falls in features of direction 1 nor rises in features of -1."""
    return _train(
        training,
        200,
        learning_rate=0.05,
        num_leaves=7,
        max_depth=3,
        min_data_in_leaf=_leaf(len(training.target)),
        lambda_l2=1.0,
        monotone_constraints=directions.tolist(),
    )


def clear_directions(training: Training) -> Codes:
    """Return 1 or -1 for features with a clear sign of covariance with the target, else 0.

    Standard errors come from the rows' products, which scatter widely for a feature that helps at
    one end of its range and harms at the other (White, 1980).
    """
    features = training.features - training.features.mean(axis=0)
    products = features * (training.target - training.target.mean())[:, None]
    sums, standard_errors = products.sum(axis=0), np.sqrt((products**2).sum(axis=0))
    clear = np.abs(sums) > 2 * standard_errors
    return np.where(clear, np.sign(sums), 0).astype(np.intp)


def _leaf(rows: int) -> int:
    return int(np.clip(rows // 20, 2, 50))


def _train(training: Training, rounds: int, **settings: Any) -> FitResult:
    import lightgbm  # heavy, so on first use

    # LightGBM stops with an error of its own if a bag of rows comes out empty
    if len(training.target) < 2:
        raise DataError(f"trees need at least 2 rows to learn from, not {len(training.target)}")
    parameters = {
        "objective": "regression",
        "verbosity": -1,
        "num_threads": training.threads,
        # equal data, seed and versions must give equal predictions with any number of threads,
        # which takes a fixed layout as well
        "deterministic": True,
        "force_row_wise": True,
        "seed": training.seed % 2**31,
        # scores on a scale of a few values would lose values to merged bins
        "min_data_in_bin": 1,
        # finding splits is most of the time, and takes as long as there are bins
        "max_bin": _BINS - 1,
        "use_missing": False,
        **settings,
    }
    data = lightgbm.Dataset(
        training.features, training.target, params={"verbosity": -1}, free_raw_data=True
    )
    return FitResult(
        Trees(lightgbm.train(parameters, data, rounds).model_to_string(num_iteration=-1)), {}
    )


@dataclass(frozen=True, slots=True)
class Binned:
    """Features as numbers of bins, which is all that a split looks at."""

    codes: Codes
    """Bin of each value, shape (n, features)."""
    thresholds: list[Floats]
    """Borders between the bins of each feature; a value on a border is in the lower bin."""

    @classmethod
    def of(cls, features: Floats) -> Binned:
        """Return features in bins: one per value if there are few, else quantiles of the rows."""
        thresholds = []
        for column in features.T:
            values = np.unique(column)
            if len(values) > _BINS:
                values = np.unique(np.quantile(column, np.linspace(0, 1, _BINS), method="nearest"))
            # between two values, so that rounding cannot carry a row to the other side
            thresholds.append((values[:-1] + values[1:]) / 2)
        columns = zip(thresholds, features.T, strict=True)
        codes = np.stack([np.searchsorted(edges, column) for edges, column in columns], axis=1)
        return cls(codes, thresholds)


@dataclass(slots=True)
class JointTree:
    """One tree; nodes are numbered in the order in which they were split."""

    feature: Codes
    """Feature of each split, -1 for leaves, shape (nodes,)."""
    bin: Codes
    """Rows of up to this bin go left, shape (nodes,)."""
    left: Codes
    """Number of the left child; the right one's is the next, shape (nodes,)."""
    count: Codes
    """Rows in each node, shape (nodes,)."""
    value: Floats
    """Mean of each target over the node's rows, shape (nodes, targets)."""


def fit_joint_tree(
    features: Floats, targets: Floats, seed: int, *, leaf: int | None = None
) -> list[FitResult]:
    """Grow one regression tree over all targets; return a predictor for each."""
    least = _leaf(len(targets)) if leaf is None else leaf
    binned = Binned.of(features)
    return _as_trees([_grow(binned, targets, np.arange(len(targets)), least)], binned, forest=False)


def fit_joint_forest(features: Floats, targets: Floats, seed: int) -> list[FitResult]:
    """Grow a random forest over all targets; return a predictor for each."""
    rng, binned = np.random.default_rng(seed), Binned.of(features)
    grown = [
        _grow(
            binned,
            targets,
            np.sort(rng.integers(len(targets), size=len(targets))),
            FOREST.leaf,
            rng,
        )
        for _ in range(FOREST.trees)
    ]
    return _as_trees(grown, binned, forest=True)


def _grow(
    binned: Binned, targets: Floats, rows: Codes, leaf: int, rng: np.random.Generator | None = None
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
        in_split = splits[node]
        codes, y, node = codes[in_split], y[in_split], node[in_split]
        goes_right = codes[np.arange(len(node)), best[node]] > at[node]
        node = 2 * (np.cumsum(splits) - 1)[node] + goes_right
        nodes = 2 * int(splits.sum())
        first += nodes
    joined = map(np.concatenate, (feature, split, left, count, value))
    return JointTree(*joined)


def _best_splits(
    codes: Codes, y: Floats, node: Codes, sizes: Codes, leaf: int, rng: np.random.Generator | None
) -> tuple[Codes, Codes]:
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
        gain[order >= max(1, round(FOREST.features * width))] = 0.0
    flat = gain.reshape(nodes, -1)
    best = flat.argmax(axis=1)
    helps = flat[np.arange(nodes), best] > 1e-9
    return np.where(helps, best // bins, -1), np.where(helps, best % bins, -1)


def _as_trees(grown: Sequence[JointTree], binned: Binned, *, forest: bool) -> list[FitResult]:
    """Return a predictor for each target: the same trees with that target's values."""
    targets = grown[0].value.shape[1]
    return [
        FitResult(Trees(_text(grown, binned, target, forest=forest)), {"joint": targets})
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
    trees = [_tree_text(n, tree, binned, target) for n, tree in enumerate(grown)]
    return "\n".join([*head, "", *trees, "end of trees", ""])


def _tree_text(number: int, tree: JointTree, binned: Binned, target: int) -> str:
    is_leaf = tree.feature < 0
    # LightGBM numbers splits from 0 and leaves as -1, -2, ... in the same child fields
    place = np.where(is_leaf, -np.cumsum(is_leaf, dtype=np.intp), np.cumsum(~is_leaf) - 1)
    splits = np.flatnonzero(~is_leaf)
    leaf, counted = tree.value[is_leaf, target], tree.count[is_leaf]
    fields: dict[str, Sequence[float] | Codes | Floats] = {
        "Tree": [number], "num_leaves": [len(leaf)], "num_cat": [0]
    }  # fmt: skip
    if len(splits):
        fields |= {
            "split_feature": tree.feature[splits], "split_gain": np.zeros(len(splits)),
            "threshold": [binned.thresholds[tree.feature[i]][tree.bin[i]] for i in splits],
            "decision_type": np.full(len(splits), 2), "left_child": place[tree.left[splits]],
            "right_child": place[tree.left[splits] + 1],
        }  # fmt: skip
    fields |= {
        "leaf_value": leaf, "leaf_weight": counted, "leaf_count": counted,
        "internal_value": tree.value[splits, target], "internal_weight": tree.count[splits],
        "internal_count": tree.count[splits], "is_linear": [0], "shrinkage": [1],
    }  # fmt: skip
    lines = [
        f"{name}=" + " ".join(repr(float(v)) if v != int(v) else str(int(v)) for v in values)
        for name, values in fields.items()
    ]
    return "\n".join([*lines, "", ""])
