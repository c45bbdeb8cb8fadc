"""Aggregators that learn all aspects at once: as good as scikit-learn's trees, one structure."""

import itertools

import numpy as np
import pytest

from tests.learning.planted import planted
from textassay.learning import JOINT, Aggregator
from textassay.learning.regression import fit_joint_mlp
from textassay.learning.trees import fit_joint_forest, fit_joint_tree
from textassay.runtime.errors import DataError


def standardized(rows=240):
    """Planted features and ratings, each with mean 0 and standard deviation 1."""
    x, y, _ = planted(rows)
    return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean(axis=0)) / y.std(axis=0)


def predicted(learned, x):
    return np.stack([one.predictor.predict(x) for one in learned], axis=1)


def splits_of(learned):
    """The lines of a predictor's text that say where its trees split."""
    names = ("split_feature", "threshold", "left_child", "right_child")
    return [ln for ln in learned.predictor.text.splitlines() if ln.startswith(names)]


def error_below(x, y, feature, threshold):
    sides = x[:, feature] <= threshold
    return sum(((y[side] - y[side].mean(axis=0)) ** 2).sum() for side in (sides, ~sides))


def test_the_first_split_has_the_least_error_over_all_aspects():
    """Held against every split that there is."""
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
    """Predictors differ by what their leaves hold; contributions add up."""
    x, y = standardized(120)
    first, second = learn(learner, x, y)
    assert splits_of(first) == splits_of(second)
    assert first.predictor.text != second.predictor.text
    values, base = first.predictor.contributions(x)
    assert values.sum(axis=1) + base == pytest.approx(first.predictor.predict(x), abs=1e-9)


def learn(learner, x, y):
    return learner(x, y, seed=0)


def test_networks_share_their_hidden_layer():
    x, y = standardized(120)
    first, second = (one.predictor for one in fit_joint_mlp(x, y, seed=0))
    assert (first.inner == second.inner).all()
    assert (first.bias == second.bias).all()
    assert (first.outer != second.outer).any()


@pytest.mark.parametrize("name", JOINT)
def test_rows_are_rated_on_every_aspect(name):
    """What to do where too few are is said."""
    x, y, groups = planted(60)
    y[:30, 0], y[28:, 1] = np.nan, np.nan
    with pytest.raises(DataError, match=f"{name}.*0 rows are rated on each of a, b.*'forest'"):
        Aggregator(name).fit(x, y, groups=groups, target_names=["a", "b"])
