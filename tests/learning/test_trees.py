"""Trees: as good as scikit-learn's, one structure for all aspects, texts that are not trusted."""

import itertools

import numpy as np
import pytest

from tests.learning.planted import planted
from textassay.learning import JOINT, Aggregator
from textassay.learning.regression import fit_joint_mlp
from textassay.learning.training import Training
from textassay.learning.trees import (
    Trees,
    fit_boosting,
    fit_forest,
    fit_joint_forest,
    fit_joint_tree,
    fit_tree,
)
from textassay.runtime.errors import DataError


def standardized(rows=240):
    x, y, _ = planted(rows)
    return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean(axis=0)) / y.std(axis=0)


def predicted(learned, x):
    return np.stack([one.predictor.predict(x) for one in learned], axis=1)


def splits_of(learned):
    names = ("split_feature", "threshold", "left_child", "right_child")
    return [ln for ln in learned.predictor.text.splitlines() if ln.startswith(names)]


def error_below(x, y, feature, threshold):
    sides = x[:, feature] <= threshold
    return sum(((y[side] - y[side].mean(axis=0)) ** 2).sum() for side in (sides, ~sides))


def test_the_first_split_has_the_least_error_over_all_aspects():
    """Compared with every possible split."""
    x, y = standardized(60)
    learned = fit_joint_tree(x, y, seed=0, leaf=3)
    feature, threshold = (
        float(line.partition("=")[2].split()[0]) for line in splits_of(learned[0])[:2]
    )
    possible = [
        (error_below(x, y, f, (a + b) / 2), f, (a + b) / 2)
        for f in range(x.shape[1])
        for a, b in itertools.pairwise(np.unique(x[:, f]))
        if min((below := x[:, f] <= (a + b) / 2).sum(), (~below).sum()) >= 3
    ]
    least, best, at = min(possible)
    assert (feature, threshold) == (best, pytest.approx(at))
    assert least < (y**2).sum()


@pytest.mark.parametrize("leaf", [2, 20])
def test_a_tree_equals_scikit_learns(leaf):
    """In how far it follows the ratings; equally good splits are broken at random there."""
    sklearn = pytest.importorskip("sklearn.tree", reason="needs scikit-learn")
    x, y = standardized()
    ours = fit_joint_tree(x, y, seed=0, leaf=leaf)
    theirs = sklearn.DecisionTreeRegressor(min_samples_leaf=leaf, random_state=0).fit(x, y)
    error = ((predicted(ours, x) - y) ** 2).sum()
    assert error == pytest.approx(((theirs.predict(x) - y) ** 2).sum(), rel=0.02)


@pytest.mark.parametrize("learner", [fit_joint_tree, fit_joint_forest])
def test_trees_split_once_for_all_aspects(learner):
    x, y = standardized(120)
    first, second = learner(x, y, seed=0)
    assert splits_of(first) == splits_of(second)
    assert first.predictor.text != second.predictor.text
    values, base = first.predictor.contributions(x)
    assert values.sum(axis=1) + base == pytest.approx(first.predictor.predict(x), abs=1e-9)


def test_networks_share_their_hidden_layer():
    x, y = standardized(120)
    first, second = (one.predictor for one in fit_joint_mlp(x, y, seed=0))
    assert (first.inner == second.inner).all()
    assert (first.bias == second.bias).all()
    assert (first.outer != second.outer).any()


@pytest.mark.parametrize("name", JOINT)
def test_rows_are_rated_on_every_aspect(name):
    x, y, groups = planted(60)
    y[:30, 0], y[28:, 1] = np.nan, np.nan
    with pytest.raises(DataError, match=f"{name}.*0 rows are rated on each of a, b.*'forest'"):
        Aggregator(name).fit(x, y, groups=groups, target_names=["a", "b"])


def data(width=3, rows=90):
    rng = np.random.default_rng(2)
    features = rng.normal(size=(rows, width))
    return features, features[:, 0] + features[:, -1] ** 2


def training(target=None):
    x, y = data()
    y = y if target is None else target
    return Training(x, y, np.arange(len(x)) // 2, np.ones(3, bool), 1)


def test_trees_are_read_as_they_were_written():
    """As they were: those that LightGBM grew, joint ones, and trees that never split."""
    x, y = data()
    grown = [fit(training()) for fit in (fit_tree, fit_forest, fit_boosting)]
    for fit in (fit_joint_tree, fit_joint_forest):
        for target in (np.stack([y, -y], axis=1), np.zeros((len(y), 2))):
            grown += fit(x, target, seed=1)
    for learned in grown:
        again = Trees.from_dict(learned.predictor.to_dict())
        assert np.array_equal(again.predict(x), learned.predictor.predict(x))
        assert again.to_dict() == learned.predictor.to_dict()
    constant = fit_tree(training(np.full(90, 2.5))).predictor
    assert Trees.from_dict(constant.to_dict()).predict(x) == pytest.approx(2.5)


TEXT = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=a b
feature_infos=[-1:1] [-1:1]

Tree=0
num_leaves=3
num_cat=0
split_feature=0 1
split_gain=1 1
threshold=0.5 -1.5e-3
decision_type=2 2
left_child=1 -1
right_child=-3 -2
leaf_value=1 2 3
leaf_weight=1 1 1
leaf_count=1 1 1
internal_value=0 0
internal_weight=3 2
internal_count=3 2
is_linear=0
shrinkage=1


end of trees
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("split_feature=0 1", "split_feature=0 2"),
        ("split_feature=0 1", "split_feature=0 -1"),
        ("split_feature=0 1", "split_feature=0 500000000"),
        ("split_feature=0 1", "split_feature=0"),
        ("split_feature=0 1", "split_feature=0 1\nsplit_feature=0 7"),
        ("split_feature=0 1\n", ""),
        ("decision_type=2 2", "decision_type=1 2"),
        ("left_child=1 -1", "left_child=0 -1"),
        ("left_child=1 -1", "left_child=1 0"),
        ("left_child=1 -1", "left_child=1 -100000000"),
        ("left_child=1 -1", "left_child=100000000 -1"),
        ("left_child=1 -1", "left_child=1 -2"),
        ("leaf_value=1 2 3", "leaf_value=1 2"),
        ("leaf_value=1 2 3", "leaf_value=1 2 nan"),
        ("leaf_value=1 2 3", "leaf_value=1 2 3_0"),
        ("internal_count=3 2", "internal_count=3"),
        ("num_leaves=3", "num_leaves=1000000000"),
        ("num_leaves=3", "num_leaves=0"),
        ("num_cat=0", "num_cat=1"),
        ("is_linear=0", "is_linear=1"),
        ("num_class=1", "num_class=3"),
        ("max_feature_idx=1", "max_feature_idx=1000000"),
        ("label_index=0\n", "label_index=0\ntree_sizes=10\n"),
        ("end of trees\n", ""),
        ("end of trees\n", "end of trees\n\nTree=1\nnum_leaves=9\n"),
        ("shrinkage=1", "shrinkage=1\r\nsplit_feature=0 9"),
        (TEXT, "no trees"),
    ],
)
def test_other_texts_are_refused(old, new):
    """LightGBM read outside of its arrays, never ended, or ended the process."""
    rows = np.array([[0.0, -1.0], [0.0, 0.0], [1.0, 0.0]])
    assert Trees.from_dict({"lightgbm": TEXT}).predict(rows).tolist() == [1, 2, 3]
    assert old in TEXT
    for content in ({"lightgbm": TEXT.replace(old, new)}, {}, {"lightgbm": 5}, {"lightgbm": None}):
        with pytest.raises(DataError, match="trees are damaged"):
            Trees.from_dict(content)
