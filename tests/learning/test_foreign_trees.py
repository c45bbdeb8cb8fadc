"""Trees of an evaluator from somebody else: LightGBM would trust their text, so it is checked."""

import numpy as np
import pytest

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


def data(width=3, rows=90):
    rng = np.random.default_rng(2)
    features = rng.normal(size=(rows, width))
    return features, features[:, 0] + features[:, -1] ** 2


def training(target=None):
    x, y = data()
    y = y if target is None else target
    return Training(x, y, np.arange(len(x)) // 2, np.ones(3, bool), 1)


@pytest.mark.parametrize("fit", [fit_tree, fit_forest, fit_boosting])
def test_trees_come_back(fit):
    """As they were, also those that LightGBM grew."""
    grown = fit(training()).predictor
    again = Trees.from_dict(grown.to_dict())
    x, _ = data()
    assert np.array_equal(again.predict(x), grown.predict(x))
    assert again.to_dict() == grown.to_dict()


def test_joint_trees_and_single_leaves_come_back():
    """Also a tree that never splits, since all targets are equal."""
    x, y = data()
    for fit in (fit_joint_tree, fit_joint_forest):
        for target in (np.stack([y, -y], axis=1), np.zeros((len(y), 2))):
            for learned in fit(x, target, seed=1):
                text = learned.predictor.to_dict()
                assert np.array_equal(
                    Trees.from_dict(text).predict(x), learned.predictor.predict(x)
                )
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


def test_the_example_is_read():
    """Each of the next ones differs from it in one place."""
    trees = Trees.from_dict({"lightgbm": TEXT})
    assert trees.predict(np.array([[0.0, -1.0], [0.0, 0.0], [1.0, 0.0]])).tolist() == [1, 2, 3]


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
    assert old in TEXT
    with pytest.raises(DataError, match="trees are damaged"):
        Trees.from_dict({"lightgbm": TEXT.replace(old, new)})


@pytest.mark.parametrize("content", [{}, {"lightgbm": 5}, {"lightgbm": None}])
def test_what_is_no_text_is_refused(content):
    """As a text of another form is."""
    with pytest.raises(DataError, match="trees are damaged"):
        Trees.from_dict(content)
