"""Local and global attribution, and what intervals of importance promise."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from tests.learning.planted import planted
from textassay.learning import (
    NAMES,
    Aggregator,
    explain,
    folds,
    global_importance,
    permutation_importance,
    pool_importances,
    sample_shapley,
)
from textassay.runtime.errors import ConfigurationError, DataError


def exact_shapley(function, row, background):
    """The definition, over all subsets; what is not in the subset is the background row's."""
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


def first_two(rows):
    return rows[:, :2]


def importance(x, y, **arguments):
    """The importance of predictions that are the first two features."""
    return permutation_importance(first_two, x, y, **arguments)


@pytest.mark.parametrize("name", NAMES)
def test_contributions_of_any_aggregator_sum_to_the_prediction(name):
    """Exact or sampled; a row without features has none."""
    x, y, groups = planted(120)
    x[::7, 3] = np.nan
    aggregator = Aggregator(name).fit(x, y, groups=groups)
    assert aggregator.explains_exactly == (not name.startswith("mlp"))
    rows = np.vstack([x[:20], np.full((1, 8), np.nan)]) if aggregator.explains_exactly else x[1:7]
    found = explain(aggregator, rows, x[1:7], samples=6)
    assert found.values.shape == (len(rows), 2, 8)
    total = found.baseline + found.values.sum(axis=2) + found.systems
    assert total == pytest.approx(aggregator.predict(rows, clip=False), abs=1e-9, nan_ok=True)
    if aggregator.explains_exactly:
        assert np.isnan(found.values[20]).all()
        magnitudes = np.abs(found.values[:20]).mean(axis=0)
        assert global_importance(found.values) == pytest.approx(magnitudes)
        with pytest.raises(DataError, match="no row"):
            global_importance(found.values[20:])


def test_contributions_of_a_sum_are_the_shapley_values_against_the_mean():
    x, y, _ = planted(60, features=4)
    aggregator = Aggregator("ridge").fit(x, y[:, 0])
    found = aggregator.contributions(x[:3])

    def function(rows):
        return aggregator.predict(rows, clip=False)[:, 0]

    for row, values in zip(x[:3], found.values[:, 0], strict=True):
        assert values == pytest.approx(exact_shapley(function, row, x.mean(axis=0)), abs=1e-9)


def test_sampled_values_sum_exactly_and_follow_the_definition():
    """One background row: an order and its reverse are exact for products of two features."""

    def function(rows):
        return rows[:, 0] * rows[:, 1] + 3 * rows[:, 2] ** 2 - rows[:, 3]

    rng = np.random.default_rng(0)
    x, background = rng.normal(size=(5, 4)), rng.normal(size=(1, 4))
    found = sample_shapley(function, x, background, samples=400, seed=1)
    assert np.abs(found.baseline + found.values.sum(axis=2) - function(x)[:, None]).max() < 1e-9
    for row, values in zip(x, found.values[:, 0], strict=True):
        expected = exact_shapley(function, row, background[0])
        assert values == pytest.approx(expected, abs=1e-9)


def test_permutation_importance_shows_which_aspect_a_feature_is_about():
    """Features that cover for each other show when they are shuffled together."""
    x, y, groups = planted(360)
    aggregator = Aggregator("ridge").fit(x[:180], y[:180], groups=groups[:180])
    found = permutation_importance(aggregator.predict, x[180:], y[180:], repeats=12)
    assert found.importances.shape == (8, 2, 12)
    assert found.mean[0, 0] > 3 * abs(found.mean[0, 1])
    assert found.mean[1, 1] > 3 * abs(found.mean[1, 0])
    twins, columns = x[:, [0, 0]], {"one": [0], "other": [1], "both": [0, 1]}
    found = permutation_importance(lambda r: r.mean(axis=1), twins, y[:, 0], columns=columns)
    assert found.mean[2, 0] > 1.5 * (found.mean[0, 0] + found.mean[1, 0])


def test_global_importance_agrees_with_what_was_planted():
    x, y, groups = planted(300)
    for name in ("ridge", "forest", "lightgbm", "auto"):
        values = Aggregator(name).fit(x, y, groups=groups).contributions(x).values
        assert set(np.argsort(-global_importance(values)[0])[:2]) == {0, 2}
        assert set(np.argsort(-global_importance(values)[1])[:2]) == {1, 2}


SEEDS = range(20)
PLANTED, IRRELEVANT = [0, 1, 2], [3, 4, 5, 6, 7]


def held_out_importance(name, seed):
    x, y, groups = planted(240, seed=seed)
    train = folds(groups, 2, seed=seed) == 0
    aggregator = Aggregator(name, seed=seed).fit(x[train], y[train], groups=groups[train])
    rest = ~train
    return permutation_importance(
        aggregator.predict, x[rest], y[rest], groups=groups[rest], repeats=5, seed=seed
    )


def least_expected(trials):
    """The fewest of the trials that an interval of 95 % holds, but for one chance in a hundred."""
    return int(binom.ppf(0.01, trials, 0.95))


@pytest.mark.parametrize("name", ["linear", "ridge", "lightgbm"])
def test_intervals_hold_0_for_the_irrelevant_and_not_for_the_planted(name):
    """The first two carry an aspect each, the third both; the other five are noise."""
    covers, covers_overall = [], []
    for seed in SEEDS:
        found = held_out_importance(name, seed)
        assert {name for name, _ in found.ranking()[:3]} == {f"feature_{i}" for i in PLANTED}
        interval, overall = found.interval(), found.overall_interval()
        assert interval.shape == (8, 2, 2)
        assert (overall[PLANTED, 0] > 0).all()
        assert interval[0, 0, 0] > 0
        assert interval[1, 1, 0] > 0
        assert (interval[..., 0] <= found.mean).all()
        assert (found.mean <= interval[..., 1]).all()
        low, high = interval[IRRELEVANT, :, 0], interval[IRRELEVANT, :, 1]
        covers += ((low <= 0) & (high >= 0)).ravel().tolist()
        covers_overall += ((overall[IRRELEVANT, 0] <= 0) & (overall[IRRELEVANT, 1] >= 0)).tolist()
    assert sum(covers) >= least_expected(len(covers))
    assert sum(covers_overall) >= least_expected(len(covers_overall))


def test_an_interval_holds_the_importance_that_is_known():
    """For y = x + noise and the prediction x it is twice the variance of x; here over that of y."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(100, 1))
        y = x[:, 0] + 0.5 * rng.normal(size=100)
        [[[low, high]]] = permutation_importance(
            lambda rows: rows[:, 0], x, y, repeats=5, seed=seed
        ).interval()
        hits += low <= 2 / y.var() <= high
    assert hits >= least_expected(200)


def test_rows_of_one_source_count_as_one():
    """Six copies of a row carry no more information than the row."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = x[:, 0] + rng.normal(size=80)

    def width(rows, ratings, groups):
        found = permutation_importance(
            lambda r: r.sum(axis=1), rows, ratings, groups=groups, repeats=30
        )
        return np.diff(found.interval()[:, 0]).ravel()

    once = width(x, y, None)
    copies = (np.repeat(x, 6, axis=0), np.repeat(y, 6))
    assert width(*copies, np.repeat(np.arange(80), 6)) == pytest.approx(once, rel=0.2)
    assert (width(*copies, None) < 0.6 * once).all()


def test_a_feature_that_is_not_used_has_no_importance_at_all():
    x, y, groups = planted(60)
    found = permutation_importance(lambda rows: rows[:, 0], x, y[:, 0], groups=groups, repeats=3)
    assert (found.mean[1:] == 0).all()
    assert (found.sd[1:] == 0).all()
    assert (found.interval()[1:] == 0).all()
    assert found.ranking()[0][0] == "feature_0"


def test_rows_without_a_rating_lend_their_features_only():
    """The error grows over rated rows; influences of the groups still add up to nothing."""
    x, y, groups = planted(120)
    y[::3, 0] = np.nan
    found = importance(x, y, groups=groups, repeats=4)
    assert np.abs(found.influences.sum(axis=2)).max() < 1e-12
    assert np.isfinite(found.interval()).all()
    alone = permutation_importance(lambda rows: rows[:, 1], x, y[:, 1], groups=groups, repeats=4)
    assert found.interval()[:, 1] == pytest.approx(alone.interval()[:, 0])


def test_rows_with_gaps_exchange_features_with_rows_that_have_the_same_gaps():
    """A row that borrowed a gap would have no feature left, and so no prediction."""
    x, y, _ = planted(120)
    x[:60, 1:], x[60:, 0] = np.nan, np.nan
    x[119] = np.nan
    aggregator = Aggregator("ridge").fit(x[:, :3], y)
    assert np.isnan(aggregator.predict(x[119:, :3])).all()
    found = permutation_importance(aggregator.predict, x[:, :3], y, repeats=4)
    assert np.isfinite(found.interval()).all()
    assert (found.interval()[0, 0] > 0).all()
    assert np.abs(found.influences.sum(axis=2)).max() < 1e-12
    # half of the rows have the feature: its importance over all rows is half of that over them
    whole = x[:60, :1], y[:60, :1] - y[:60, 0].mean()
    alone = permutation_importance(lambda rows: rows[:, 0] - 3, *whole, repeats=50)
    padded = np.pad(whole[0], ((0, 60), (0, 0)), constant_values=np.nan)
    with_gaps = permutation_importance(
        lambda rows: np.nan_to_num(rows[:, 0] - 3), padded, np.tile(whole[1], (2, 1)), repeats=50
    )
    assert with_gaps.mean[0, 0] == pytest.approx(alone.mean[0, 0] / 2, rel=0.1)


def test_parts_together_are_their_mean_with_a_narrower_interval():
    x, y, groups = planted(240)

    def part(chosen):
        return importance(x[chosen], y[chosen], groups=groups[chosen], repeats=5)

    parts = [part(groups % 2 == number) for number in (0, 1)]
    both = pool_importances(parts)
    assert both.names == parts[0].names
    assert both.mean == pytest.approx((parts[0].mean + parts[1].mean) / 2)
    widths = [np.diff(one.interval())[0, 0, 0] for one in (*parts, both)]
    assert widths[2] == pytest.approx(np.hypot(widths[0], widths[1]) / 2, rel=0.05)


def test_an_importance_that_nothing_could_be_exchanged_for_is_missing():
    """Not 0; parts that could not measure it are left out of the mean of all."""
    x, y, _ = planted(6)
    x, y = x[:, :3].copy(), y[:, :1]
    for row in range(6):  # a row per pattern of gaps
        x[row, [(row + 1) >> bit & 1 == 1 for bit in range(3)]] = np.nan

    def measure(features, ratings, columns):
        return permutation_importance(
            lambda rows: np.nansum(rows, axis=1), features, ratings, columns=columns, repeats=5
        )

    columns = {"all": [0, 1, 2], "first": [0]}
    alone = measure(x, y, columns)
    assert np.isnan(alone.mean[0]).all()
    assert np.isnan(alone.interval()[0]).all()
    assert np.isfinite(alone.interval()[1]).all()
    assert [name for name, _ in alone.ranking()] == ["first", "all"]
    # a partner without a rating has a feature to lend
    lent = measure(np.vstack([x, x[:1] + 1]), np.vstack([y, [[np.nan]]]), columns)
    assert np.isfinite(lent.interval()).all()
    whole = measure(planted(60)[0][:, :3], planted(60)[1][:, :1], columns)
    both = pool_importances([alone, whole])
    assert both.mean[0] == pytest.approx(whole.mean[0])
    assert both.sd[0] == pytest.approx(whole.sd[0])
    assert np.linalg.norm(both.influences[0]) == pytest.approx(np.linalg.norm(whole.influences[0]))
    assert both.mean[1] == pytest.approx((alone.mean[1] + whole.mean[1]) / 2)
    none = pool_importances([alone, alone])
    assert np.isnan([none.mean[0], none.sd[0]]).all()


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda x, y: importance(x, y, repeats=0), ConfigurationError, "1 repeat"),
        (lambda x, y: importance(x, np.ones(20)), DataError, "vary"),
        (lambda x, y: importance(x, y, columns=["a", "b"]), DataError, "2 feature names for 8"),
        (
            lambda x, y: importance(x, y, groups=[1, 2, 3]),
            DataError,
            "equally long, not 20, 20 and 3",
        ),
        (lambda x, y: sample_shapley(first_two, x, x, samples=1), ConfigurationError, "2 samples"),
        (lambda x, y: sample_shapley(first_two, x, x[:0], samples=8), DataError, "background"),
    ],
)
def test_unusable_questions_say_why(ask, error, says):
    x, y, _ = planted(20)
    with pytest.raises(error, match=says):
        ask(x, y)
    assert np.isnan(importance(x, y, groups=["one"] * 20, repeats=2).interval()).all()
