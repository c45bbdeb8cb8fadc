"""Local and global attribution."""

import itertools
import math

import numpy as np
import pytest

from tests.learning.planted import planted
from textassay.learning import (
    NAMES,
    Aggregator,
    explain,
    global_importance,
    permutation_importance,
    sampled_shapley,
)
from textassay.runtime.errors import ConfigurationError, DataError

EXACT = [name for name in NAMES if not name.startswith("mlp")]


def exact_shapley(function, row, background):
    """The definition, over all subsets, with features not in the subset taken from the background
    row."""
    width = len(row)
    values = np.zeros(width)
    for feature in range(width):
        others = [i for i in range(width) if i != feature]
        for size in range(width):
            weight = math.factorial(size) * math.factorial(width - size - 1) / math.factorial(width)
            for subset in itertools.combinations(others, size):
                without = background.copy()
                without[list(subset)] = row[list(subset)]
                with_it = without.copy()
                with_it[feature] = row[feature]
                values[feature] += weight * (
                    function(with_it[None])[0] - function(without[None])[0]
                )
    return values


@pytest.mark.parametrize("name", EXACT)
def test_exact_contributions_sum_to_the_prediction(name):
    x, y, groups = planted(200)
    x[::7, 3] = np.nan
    aggregator = Aggregator(name).fit(x, y, groups=groups)
    found = aggregator.contributions(x)
    assert found.values.shape == (200, 2, 8)
    total = found.baseline + found.values.sum(axis=2)
    assert np.abs(total - aggregator.predict(x, clip=False)).max() < 1e-9


def test_contributions_of_a_sum_are_the_shapley_values_against_the_mean():
    x, y, _ = planted(60, features=4)
    aggregator = Aggregator("ridge").fit(x, y[:, 0])
    found = aggregator.contributions(x[:3])

    def function(rows):
        return aggregator.predict(rows, clip=False)[:, 0]

    for row, values in zip(x[:3], found.values[:, 0], strict=True):
        assert values == pytest.approx(exact_shapley(function, row, x.mean(axis=0)), abs=1e-9)


def test_sampled_values_sum_exactly_and_approach_the_definition():
    """A function with a product in it, one background row: all orders give the definition's
    values."""

    def function(rows):
        return rows[:, 0] * rows[:, 1] + 3 * rows[:, 2] ** 2 - rows[:, 3]

    rng = np.random.default_rng(0)
    x, background = rng.normal(size=(5, 4)), rng.normal(size=(1, 4))
    found = sampled_shapley(function, x, background, samples=400, seed=1)
    assert np.abs(found.baseline + found.values.sum(axis=2) - function(x)[:, None]).max() < 1e-9
    for row, values, error in zip(x, found.values[:, 0], found.standard_error[:, 0], strict=True):
        expected = exact_shapley(function, row, background[0])
        assert (np.abs(values - expected) <= 4 * error + 1e-12).all()
        assert values[2:] == pytest.approx(
            expected[2:], abs=1e-9
        )  # additive features do not depend on the order


@pytest.mark.parametrize("name", ["mlp", "ridge"])
def test_explain_takes_any_aggregator_and_sums_to_the_prediction(name):
    x, y, _ = planted(80)
    aggregator = Aggregator(name).fit(x, y)
    found = explain(aggregator, x[:6], x, samples=6)
    total = found.baseline + found.values.sum(axis=2) + found.systems
    assert np.abs(total - aggregator.predict(x[:6], clip=False)).max() < 1e-9


def test_permutation_importance_tells_which_aspect_a_feature_is_about():
    x, y, groups = planted(360)
    aggregator = Aggregator("ridge").fit(x[:180], y[:180], groups=groups[:180])
    found = permutation_importance(aggregator.predict, x[180:], y[180:], repeats=12)
    assert found.importances.shape == (8, 2, 12)
    assert found.mean[0, 0] > 3 * abs(found.mean[0, 1])
    assert found.mean[1, 1] > 3 * abs(found.mean[1, 0])


def test_a_feature_that_is_not_used_has_no_importance_at_all():
    x, y, _ = planted(60)
    found = permutation_importance(
        lambda rows: rows[:, 0], x, y[:, 0], columns=[f"c{i}" for i in range(8)], repeats=3
    )
    assert (found.mean[1:] == 0).all()
    assert (found.sd[1:] == 0).all()
    assert found.ranking()[0][0] == "c0"


def test_features_that_cover_for_each_other_show_when_shuffled_together():
    x, y, _ = planted(300)
    twins = np.column_stack([x[:, 0], x[:, 0]])

    def predict(rows):
        return rows.mean(axis=1)

    found = permutation_importance(
        predict, twins, y[:, 0], columns={"one": [0], "other": [1], "both": [0, 1]}
    )
    assert found.mean[2, 0] > 1.5 * (found.mean[0, 0] + found.mean[1, 0])


def test_global_importance_agrees_with_what_was_planted():
    x, y, groups = planted(300)
    for name in ("ridge", "forest", "lightgbm", "auto"):
        values = Aggregator(name).fit(x, y, groups=groups).contributions(x).values
        assert set(np.argsort(-global_importance(values)[0])[:2]) == {0, 2}
        assert set(np.argsort(-global_importance(values)[1])[:2]) == {1, 2}


def test_rows_without_features_have_no_attribution():
    x, y, _ = planted(60)
    rows = np.array([[np.nan] * 8, [3.0] * 8])
    values = Aggregator("avg").fit(x, y).contributions(rows).values
    assert np.isnan(values[0]).all()
    assert (global_importance(values) == np.abs(values[1])).all()
    with pytest.raises(DataError, match="no row"):
        global_importance(values[:1])


def test_unusable_questions_say_why():
    x, y, _ = planted(20)

    def predict(rows):
        return rows[:, :2]

    with pytest.raises(ConfigurationError, match="1 repeat"):
        permutation_importance(predict, x, y, repeats=0)
    with pytest.raises(DataError, match="vary"):
        permutation_importance(predict, x, np.ones(20))
    with pytest.raises(DataError, match="2 names for 8"):
        permutation_importance(predict, x, y, columns=["a", "b"])
    with pytest.raises(ConfigurationError, match="2 samples"):
        sampled_shapley(predict, x, x, samples=1)
    with pytest.raises(DataError, match="background"):
        sampled_shapley(predict, x, x[:0])
