"""What every aggregator promises, and what each family is."""

import hashlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learning.planted import planted
from textassay.learning import JOINT, Aggregator
from textassay.learning import NAMES as AGGREGATOR_NAMES
from textassay.learning.standardizer import Standardizer
from textassay.runtime.errors import CapabilityError, ConfigurationError, DataError, UnknownName

ROOT = Path(__file__).parents[2]
EVERY = pytest.mark.parametrize("name", AGGREGATOR_NAMES)
SCALES = {"first": (1, 5), "second": (0, 10)}
NAMES = ("judge/first", "judge/second", *(f"f{i}" for i in range(6)))


ROWS = 120


def fresh(name, **arguments):
    x, y, groups = planted(ROWS)
    aggregator = Aggregator(name, scales=SCALES, **arguments)
    return aggregator.fit(
        x, y, groups=groups, feature_names=NAMES, target_names=("first", "second")
    )


fitted = cache(fresh)  # tests that only read one share it


@EVERY
def test_finds_the_signal_and_stays_on_the_scale(name):
    x, y, _ = planted(400, seed=1)
    predicted = fitted(name).predict(x)
    least = 0.45 if name == "avg" else 0.65  # the plain average gives noise as much weight
    assert predicted.shape == (400, 2)
    for column, (low, high) in enumerate([(1, 5), (0, 10)]):
        assert np.corrcoef(predicted[:, column], y[:, column])[0, 1] > least
        assert predicted[:, column].min() >= low
        assert predicted[:, column].max() <= high
        assert predicted[:, column].mean() == pytest.approx(y[:, column].mean(), abs=0.3)


@EVERY
def test_equal_seeds_give_equal_bits(name):
    x, *_ = planted(50, seed=2)
    assert (fresh(name, threads=2).predict(x) == fitted(name).predict(x)).all()


def test_loaded_in_a_new_process_all_give_equal_bits(tmp_path):
    x, *_ = planted(30, seed=2)
    x[3, 1] = np.nan
    for name in AGGREGATOR_NAMES:
        aggregator = fitted(name)
        text = json.dumps(aggregator.to_dict(), allow_nan=False)
        (tmp_path / f"{name}.json").write_text(text)
        again = Aggregator.from_dict(json.loads(text))
        assert (again.name, again.features_, again.targets_) == (name, NAMES, ("first", "second"))
        assert (again.notes_, again.leaks_, again.scales) == (aggregator.notes_, [], SCALES)
        assert again.to_dict() == aggregator.to_dict()
    np.save(tmp_path / "features.npy", x)
    code = (
        "import json, sys, numpy as np; from pathlib import Path; from textassay.learning import "
        "Aggregator\n"
        "for path in Path(sys.argv[1]).glob('*.json'):\n"
        "    made = Aggregator.from_dict(json.loads(path.read_text()))\n"
        "    np.save(path.with_suffix('.npy'), made.predict(np.load(path.parent / 'features.npy')))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=ROOT)
    for name in AGGREGATOR_NAMES:
        assert (np.load(tmp_path / f"{name}.npy") == fitted(name).predict(x)).all(), name


@EVERY
def test_no_constant_from_few_rows(name):
    """LightGBM at its defaults predicts one number below 40 rows."""
    for n in (20, 39):
        x, y, groups = planted(n, per_group=2)
        predicted = Aggregator(name).fit(x, y[:, 0], groups=groups).predict(x)
        assert len(np.unique(predicted)) > 2
        assert np.corrcoef(predicted[:, 0], y[:, 0])[0, 1] > 0.4


@EVERY
def test_a_score_does_not_depend_on_its_batch_and_a_gap_counts_as_the_mean(name):
    """A row without any feature has no prediction."""
    x, *_ = planted(40, seed=2)
    aggregator = fitted(name)
    together = aggregator.predict(x)
    alone = np.concatenate([aggregator.predict(x[i : i + 1]) for i in range(len(x))])
    assert (alone == together).all()
    with_gap, with_mean = x.copy(), x.copy()
    with_gap[:, 2] = np.nan
    with_mean[:, 2] = planted(ROWS)[0][:, 2].mean()
    assert (aggregator.predict(with_gap) == aggregator.predict(with_mean)).all()
    predicted = aggregator.predict([[None] * 8, [3.0] * 8])
    assert np.isnan(predicted[0]).all()
    assert np.isfinite(predicted[1]).all()


@EVERY
def test_gaps_in_training_are_left_out_per_aspect(name):
    """A row without a rating teaches the other aspect; a row without features teaches nothing."""
    x, y, groups = planted(ROWS)
    x[5], y[7, 0], y[8] = np.nan, np.nan, np.nan
    x[10:20, 3] = np.nan
    aggregator = Aggregator(name).fit(x, y, groups=groups, target_names=["a", "b"])
    rows = {"a": 117, "b": 117} if name in JOINT else {"a": 117, "b": 118}  # joint ones need both
    assert {k: v["rows"] for k, v in aggregator.notes_.items()} == rows
    assert {k: v["groups"] for k, v in aggregator.notes_.items()} == {"a": 20, "b": 20}


@EVERY
def test_units_of_features_and_ratings_do_not_matter(name):
    """Shifting and scaling moves predictions along: scales of judges and people may differ."""
    x, y, groups = planted(60)
    plain = Aggregator(name).fit(x, y[:, 0], groups=groups).predict(x)
    moved = Aggregator(name).fit(x * 4 + 8, y[:, 0] * 2 + 16, groups=groups).predict(x * 4 + 8)
    assert np.corrcoef(moved[:, 0], plain[:, 0])[0, 1] > 0.999
    assert np.abs(moved - (plain * 2 + 16)).max() < 0.1


def test_avg_weighs_own_features_alike_and_corrw_by_correlation():
    """Features name an aspect between slashes; those of other aspects are not averaged."""
    x, y, _ = planted(200)
    x = x[:, :3]

    def used(aggregator):
        return (np.abs(aggregator.contributions(x).values).max(axis=0) > 0).tolist()

    aggregator = Aggregator("avg").fit(
        x,
        y,
        feature_names=["a/First", "first/deep", "judge/other"],
        target_names=["first", "unnamed"],
        aspect_names=["first", "unnamed", "other"],
    )
    assert used(aggregator) == [[True, True, False], [True, True, True]]
    names = {"feature_names": ["gpt-4/first", "gpt-4/second", "rouge"]}
    for name in ("avg", "corrw"):  # features that name no aspect are taken, as Fusion-Eval does
        other = Aggregator(name).fit(x, y, target_names=["first", "second"], **names)
        assert used(other) == [[True, False, True], [False, True, True]]

    def r(predicted, expected):
        return np.corrcoef(predicted, expected)[0, 1]

    z = (x - x.mean(axis=0)) / x.std(axis=0)
    predicted = aggregator.predict(x, clip=False)
    assert r(predicted[:, 0], z[:, :2].mean(axis=1)) == pytest.approx(1)
    assert r(predicted[:, 1], z.mean(axis=1)) == pytest.approx(1)
    corrw = Aggregator("corrw").fit(x, y[:, 0]).predict(x, clip=False)
    weighted = z @ [r(column, y[:, 0]) for column in z.T]
    assert r(corrw[:, 0], weighted) == pytest.approx(1)
    opposite = np.stack([x[:, 0], -x[:, 0]], axis=1)
    turned = Aggregator("corrw").fit(opposite, y[:, 0]).predict(opposite)
    assert r(turned[:, 0], y[:, 0]) > 0.7


def test_linear_recovers_exact_weights():
    x = np.random.default_rng(0).normal(size=(40, 3))
    aggregator = Aggregator("linear").fit(x, 2 * x[:, 0] - x[:, 1] + 7)
    assert aggregator.predict([[1, 1, 1]], clip=False)[0, 0] == pytest.approx(8, abs=1e-9)


def test_nnls_gives_no_feature_a_negative_weight():
    x, y, _ = planted(100)
    x[:, 0] *= -1
    for name, some_fall in (("nnls", False), ("linear", True)):
        values = Aggregator(name).fit(x, y[:, 0]).contributions(x).values[:, 0]
        falls = [np.polyfit(x[:, i], values[:, i], 1)[0] < -1e-9 for i in range(x.shape[1])]
        assert any(falls) == some_fall


def test_boosting_never_falls_where_a_judge_clearly_rises():
    """It may bend where no direction is clear."""
    aggregator = fitted("lightgbm")
    x, *_ = planted(60, seed=4)
    for low in range(1, 5):
        below, above = x.copy(), x.copy()
        below[:, 0], above[:, 0] = low, low + 1
        assert (aggregator.predict(above)[:, 0] >= aggregator.predict(below)[:, 0]).all()
    x = np.random.default_rng(0).normal(size=(400, 2))
    bent = Aggregator("lightgbm").fit(x, x[:, 0] ** 2).predict(x)
    assert np.corrcoef(bent, x[:, 0] ** 2, rowvar=False)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["aspects"][0]["predictor"].update(intercept=9.0), "edited or damaged"),
        (lambda d: d.pop("digest"), "edited or damaged"),
        (lambda d: d.update(format=4), "format 4"),
        (lambda d: d.pop("format"), "format None"),
    ],
)
def test_an_edited_or_newer_aggregator_is_refused(change, says):
    data = fitted("ridge").to_dict()
    change(data)
    with pytest.raises(DataError, match=says):
        Aggregator.from_dict(data)


X, Y, GROUPS = planted(30)


@pytest.mark.parametrize(
    ("name", "x", "y", "arguments", "says"),
    [
        ("ridge", X[:4], Y[:4], {}, "4 rated rows.*at least 5"),
        ("ridge", X, np.full(30, 3.0), {}, "rate all rows 3"),
        ("ridge", X, np.full(30, np.nan), {}, "0 rated rows"),
        ("ridge", np.ones((30, 2)), Y, {}, "no feature varies"),
        ("ridge", np.full((30, 2), np.nan), Y, {}, "no row has any feature"),
        ("ridge", X, Y[:20], {}, "human ratings must be as long"),
        ("ridge", X, Y, {"groups": [1]}, "as long as"),
        ("ridge", X, Y, {"groups": [1] * 30}, "at least 2 groups"),
        ("ridge", X, Y, {"feature_names": ["a"]}, "1 feature names for 8"),
        ("ridge", X, Y, {"target_names": ["a", "a"]}, "repeat: a"),
        ("ridge", [["a"]], [1], {}, "table of numbers"),
        ("ridge", np.where(X[0, 0] == X, np.inf, X), Y, {}, "finite"),
        ("ridge", np.empty((0, 3)), np.empty(0), {}, "rows and columns"),
        ("ridge", X, Y + 9, {"target_names": ["a", "b"]}, "'b'.*off the scale 0-9"),
        ("avg", -X[:, :1], Y[:, 0], {}, "does not rise"),
        ("nnls", -X[:, :1], Y[:, 0], {}, "weight 0"),
        # no leaf may hold a single row
        ("tree", [[1.0]] + [[0.0]] * 39, [2.0, 4.0] * 20, {}, "predicts 3 for all of 40 rows"),
    ],
)
def test_unusable_training_data_says_why(name, x, y, arguments, says):
    with pytest.raises(DataError, match=says):
        Aggregator(name, scales={"b": (0, 9)}).fit(x, y, **arguments)


def test_a_fit_that_fails_leaves_nothing_of_an_earlier_one():
    names = {"feature_names": [*NAMES, "copy"], "target_names": ["a", "b"]}
    aggregator = Aggregator("ridge").fit(np.column_stack([X, Y[:, 1] * 2 + 1]), Y, **names)
    assert aggregator.leaks_ == [("copy", "b")]  # a feature that holds the answer
    with pytest.raises(DataError, match="rate all rows 3"):
        aggregator.fit(X[:, :3], np.full(30, 3.0))
    with pytest.raises(ConfigurationError, match="not fitted"):
        aggregator.predict(X[:, :3])


def test_names_and_shapes_are_checked_before_use():
    with pytest.raises(UnknownName, match=r"svm.*lightgbm"):
        Aggregator("svm")
    with pytest.raises(ConfigurationError, match="not fitted"):
        Aggregator("avg").predict(X)
    with pytest.raises(DataError, match="8 features, not 3"):
        fitted("avg").predict(X[:, :3])
    with pytest.raises(CapabilityError, match="sampled_shapley"):
        fitted("mlp").contributions(X)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_predictions_never_leave_what_people_said(seed, features, shift, scale):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(30, features)), shift + scale * rng.normal(size=30)
    predicted = (
        Aggregator("ridge", seed=seed).fit(x, y).predict(rng.normal(size=(20, features)) * 10)
    )
    assert ((predicted >= y.min()) & (predicted <= y.max())).all()


@pytest.mark.parametrize(
    ("name", "path", "change"),
    [
        ("ridge", ["means"], lambda old: old[:1]),
        ("ridge", ["inverse_sds"], lambda old: 1.0),
        ("ridge", ["inverse_sds"], lambda old: "none"),
        ("ridge", ["bounds"], lambda old: old[:1]),
        ("ridge", ["features"], lambda old: 5),
        ("ridge", ["aspects"], lambda old: [5]),
        ("ridge", ["scales"], lambda old: 5),
        ("ridge", ["aspects", 0, "predictor", "weights"], lambda old: old[:1]),
        ("ridge", ["aspects", 0, "predictor", "weights"], lambda old: 10**400),
        ("ridge", ["aspects", 0, "mean"], lambda old: [1]),
        ("kernel", ["aspects", 0, "predictor", "weights"], lambda old: old[:1]),
        ("kernel", ["aspects", 0, "predictor", "rows"], lambda old: [one[:1] for one in old]),
        ("mlp", ["aspects", 0, "predictor", "bias"], lambda old: old[:1]),
        ("mlp", ["aspects", 0, "predictor", "inner"], lambda old: old[:1]),
        ("tree", ["features"], lambda old: [*old, "more"]),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(name, path, change):
    """An aggregator from somebody else has a right digest."""
    x, y, groups = planted(90, features=3)
    data = Aggregator(name).fit(x, y, groups=groups, target_names=["a", "b"]).to_dict()
    at = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = change(at[path[-1]])
    content = {key: value for key, value in data.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    with pytest.raises(DataError, match="is damaged"):
        Aggregator.from_dict({**content, "digest": hashlib.sha256(text.encode()).hexdigest()})


@EVERY
def test_a_value_beyond_training_counts_as_the_bound(name):
    x, y, groups = planted(90)
    aggregator = Aggregator(name).fit(x, y, groups=groups)
    beyond, at = x[:6].copy(), x[:6].copy()
    beyond[:, 0], at[:, 0] = 1e6, 5.0
    assert (aggregator.predict(beyond, clip=False) == aggregator.predict(at, clip=False)).all()
    shown = aggregator.clip_bounds(beyond)
    assert (shown[:, 0] == 5.0).all()
    assert np.isnan(shown[:, 1:]).all()
    assert np.isnan(aggregator.clip_bounds(x)).all()


@pytest.mark.parametrize("name", ["avg", "corrw", "linear", "nnls", "ridge", "auto"])
def test_one_outlier_among_few_training_rows_does_not_ruin_learning(name):
    x, y, groups = planted(42, seed=3)
    x = x + np.random.default_rng(0).normal(size=x.shape) / 10
    spoiled = x.copy()
    spoiled[7, 0] = 1e7
    test, human, _ = planted(300, seed=4)
    found = Aggregator(name).fit(spoiled, y[:, 0], groups=groups).predict(test)[:, 0]
    clean = Aggregator(name).fit(x, y[:, 0], groups=groups).predict(test)[:, 0]
    r = [np.corrcoef(one, human[:, 0])[0, 1] for one in (found, clean)]
    assert r[0] > r[1] - 0.15


def test_rare_values_of_a_mostly_constant_feature_are_kept():
    """If a judge gives 5 to nine rows of ten, only the tenth distinguishes rows."""
    x = np.full((40, 1), 5.0)
    x[::10] = 1.0
    found = Standardizer.learn(x)
    assert (found.low[0], found.high[0]) == (1, 5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.floats(-1e9, 1e9))
def test_standardised_values_stay_within_those_of_training(values, new):
    x = np.array(values)[:, None]
    found = Standardizer.learn(x)
    inside, z = found(x), found(np.array([[new]]))
    assert inside.min() - 1e-9 <= z[0, 0] <= inside.max() + 1e-9
    again = Standardizer.from_dict(json.loads(json.dumps(found.to_dict())))
    assert (again(x) == inside).all()
