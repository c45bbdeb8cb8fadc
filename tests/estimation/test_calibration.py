"""Maps from scores to ratings: monotone, cross-fitted, chosen by held-out error, and as folders."""

import copy

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.estimation.columns import SCALES, columns_of
from textassay.estimation.calibration import FILE, FORMAT, calibrate, load
from textassay.estimation.maps import (
    MapScales,
    Ordinal,
    fit_cells,
    fit_isotonic,
    fit_ordinal,
    grid_of,
    learn_map,
)
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.storage.files import write_sealed


def planted(rows, sources, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 6, rows).astype(float)
    y = np.clip(5 - (5 - x) ** 2 / 4 + rng.normal(0, 0.3, rows), 1, 5)
    return x, y, np.arange(rows) % sources


@given(
    arrays(float, 30, elements=st.integers(0, 9).map(float)),
    arrays(float, 30, elements=st.integers(1, 5).map(float)),
    arrays(float, 30, elements=st.integers(1, 9).map(lambda texts: 1 / texts)),
)
def test_isotonic_keeps_the_order_of_all_scores_on_the_raters_scale(x, y, weights):
    """So a rank correlation cannot fall."""
    slope = float(weights * (x - np.average(x, weights=weights)) @ y)
    assume(abs(slope) > 1e-6)
    values = fit_isotonic(x, y, weights, MapScales((0, 9), (1, 5))).predict(np.arange(10.0))
    assert (np.diff(values) * np.sign(slope) > 0).all()
    assert values.min() >= 1
    assert values.max() <= 5


def test_equal_ratings_are_one_block_though_rounding_separates_their_means():
    """With such weights the weighted mean of 3 is 3.0000000000000004."""
    ratings, weights = np.array([1.0, 3, 3, 3, 3, 5]), np.array([1, 1, 1, 1, 1 / 5, 1])
    fitted = fit_isotonic(np.arange(6.0), ratings, weights, MapScales((0, 5), (1, 5)))
    assert len(fitted.scores) == 3
    assert (np.diff(fitted.predict(np.arange(6.0))) > 0.1).all()


def test_the_report_keeps_the_order_that_the_map_keeps():
    """The maps of several folds would give equal scores an order, and a lower rank correlation."""
    x, y, groups = planted(80, 40)
    _, report = calibrate(columns_of(x, y, groups), scales=SCALES)
    before, after = report["agreement"]["before"], report["agreement"]["after"]
    assert (after["spearman"], after["kendall"]) == (before["spearman"], before["kendall"])
    assert after["mean_absolute_error"] < before["mean_absolute_error"]


def test_isotonic_by_hand():
    """Scores 2 and 3, in the wrong order, are one block; the mean counts once at each end."""
    scores, ratings = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    fitted = fit_isotonic(scores, ratings, np.ones(4), MapScales((1, 4), (1, 5)))
    assert fitted.scores.tolist() == [1, 2.5, 4]
    assert fitted.predict(np.array([1.0, 2, 2.5, 3, 4, 9])) == pytest.approx(
        [1.75, 2.25, 2.5, 2.75, 3.25, 3.25]
    )
    # turned round, for scores of which a lower one is better
    falling = fit_isotonic(scores, 5 - ratings, np.ones(4), MapScales((1, 4), (1, 5)))
    assert falling.predict(np.array([1.0, 2, 4])) == pytest.approx([3.25, 2.75, 1.75])
    # 2 and 3 are a block of 2.9 with the center 2.75: it goes on with the line's slope, .5, to 3
    block = fit_isotonic(
        np.array([1.0, 1, 2, 3, 3]),
        np.array([1.0, 3, 3, 1, 5]),
        np.ones(5),
        MapScales(None, (1, 3)),
    )
    assert block.predict(np.array([1.0, 2, 3])) == pytest.approx([2.2, 2.6, 3.0])


@pytest.mark.parametrize(
    ("rows", "sources", "kind"), [(200, 20, "isotonic"), (40, 10, "linear"), (12, 6, "shift")]
)
def test_auto_goes_by_how_much_was_rated(rows, sources, kind):
    wide = MapScales((0.0, 10.0), (1.0, 5.0))  # a shift by this is not the planted slope
    assert learn_map(*planted(rows, sources), scales=wide).map.kind == kind


def test_auto_takes_a_simpler_map_that_is_clearly_better():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 10, 64)
    learned = learn_map(x, 2 + 0.3 * x, np.arange(64), scales=MapScales((0.0, 10.0), (1.0, 5.0)))
    assert learned.map.kind == "linear"


def test_cross_fitted_values_do_not_see_their_source():
    x, y, groups = planted(200, 20)
    before = learn_map(x, y, groups, scales=SCALES, method="isotonic").cross_fitted
    changed = np.where(groups == 3, 1.0, y)
    after = learn_map(x, changed, groups, scales=SCALES, method="isotonic").cross_fitted
    assert np.array_equal(before[groups == 3], after[groups == 3])
    assert not np.array_equal(before, after)


def test_ordinal_gives_a_distribution_and_the_mean_follows_from_it():
    """Odds of 1 to 4, 3 to 2 and 9 to 1 of at most 1, 2 and 4: shares of .2, .4, .3 and .1."""
    known = Ordinal(np.array([1.0, 2, 4, 5]), np.log([0.25, 1.5, 9]), 2.0)
    at = np.array([0.0])
    assert known.distribution(at)[0] == pytest.approx([0.2, 0.4, 0.3, 0.1])
    assert known.predict(at) == pytest.approx(0.2 * 1 + 0.4 * 2 + 0.3 * 4 + 0.1 * 5)
    # a point of score moves the log odds of every rung by the slope
    odds = np.cumsum(known.distribution(np.array([1.0]))[0])[:3]
    assert np.log(odds / (1 - odds)) == pytest.approx(np.log([0.25, 1.5, 9]) - 2)


def test_ordinal_recovers_planted_thresholds():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, 20_000)
    y = 1.0 + (2 * x[:, None] + rng.logistic(size=(20_000, 1)) > np.array([2, 4, 6])).sum(axis=1)
    found = fit_ordinal(x, y, np.ones(20_000))
    assert found.slope == pytest.approx(2, rel=0.05)
    assert found.thresholds == pytest.approx([2, 4, 6], rel=0.06)
    assert found.distribution(np.array([1.0, 3.0])).sum(axis=1) == pytest.approx([1, 1])


@pytest.mark.parametrize(
    ("x", "y", "groups", "words"),
    [
        ([1.0] * 7, range(7), range(7), "only 7 rows"),
        (range(9), range(9), [0] * 9, "belong to one source"),
        ([4.0] * 9, range(9), range(9), "gives 4 to every rated row"),
        (range(9), [3.0] * 9, range(9), "people gave 3 to every rated row"),
    ],
)
def test_ratings_that_teach_nothing_are_refused(x, y, groups, words):
    columns = np.array(x, float), np.array(y, float), np.array(groups)
    with pytest.raises(DataError, match=words):
        learn_map(*columns, scales=SCALES)


def test_a_shift_of_an_unbounded_score_is_refused():
    with pytest.raises(ConfigurationError, match="unbounded"):
        learn_map(*planted(12, 6), scales=MapScales(None, (1.0, 5.0)), method="shift")


def test_intervals_end_on_the_grid_and_few_sources_give_the_whole_scale():
    """The mean of three whole ratings lies on thirds; five sources cannot promise 90 %."""
    grid = grid_of(np.array([1, 4 / 3, 2, 14 / 3, 5]), (1.0, 5.0))
    assert grid.steps == 3
    low, high = grid.outward(np.array([2.1, -3]), np.array([2.7, 9]))
    assert low == pytest.approx([2, 1])
    assert high == pytest.approx([3, 5])
    assert grid_of(np.array([1.2345, 3.3]), (1.0, 5.0)).steps == 0
    x, y, groups = planted(40, 5)
    grid = grid_of(np.round(y), (1.0, 5.0))
    cells = fit_cells(x, np.round(y), np.round(y), groups, grid=grid, coverage=0.9)
    low, high = cells.around(np.array([3.0]), np.array([3.0]), grid)
    assert (low[0], high[0]) == (1, 5)


@pytest.mark.parametrize("method", ["shift", "linear", "isotonic", "ordinal"])
def test_ratings_count_as_many_rows_as_they_represent(method):
    """A row of weight 2 is a row that occurs twice, in every map and in the intervals."""
    rng = np.random.default_rng(3)
    scores = rng.integers(1, 6, 90).astype(float)
    ratings = np.clip(scores + rng.integers(-1, 2, 90), 1, 5)
    groups, weights = np.arange(90) // 3, np.where(ratings > scores, 2.0, 1.0)
    twice = np.repeat(np.arange(90), weights.astype(int))
    at = np.arange(1.0, 6.0)
    one = learn_map(scores, ratings, groups, scales=SCALES, weights=weights, method=method)
    two = learn_map(scores[twice], ratings[twice], groups[twice], scales=SCALES, method=method)
    # the rating that is added at each end of the isotonic curve has the rows' mean weight
    near = 0.03 if method == "isotonic" else 0.02
    assert one.map.predict(at) == pytest.approx(two.map.predict(at), abs=near)
    plain = learn_map(scores, ratings, groups, scales=SCALES, method=method)
    assert one.map.predict(at) != pytest.approx(plain.map.predict(at), abs=0.05)


def content_of(method):
    n = 120
    scores = np.arange(n) % 5 + 1.0
    ratings = np.clip(scores + np.arange(n) % 3 - 1, 1, 5)
    columns = columns_of(scores, ratings, np.arange(n))
    made, _ = calibrate(columns, scales=SCALES, method=method)
    return made.to_dict()


CONTENT = {kind: content_of(kind) for kind in ("isotonic", "linear", "shift", "ordinal")}


def write(folder, aspect):
    write_sealed(folder / FILE, {"aspects": [aspect], "sources": []}, format=FORMAT)
    return folder


@pytest.mark.parametrize("kind", CONTENT)
def test_a_saved_calibration_is_read(tmp_path, kind):
    [aspect] = load(write(tmp_path, CONTENT[kind])).aspects
    assert aspect.map.kind == kind
    assert aspect.to_dict() == CONTENT[kind]


@pytest.mark.parametrize(
    ("kind", "path", "change"),
    [
        ("isotonic", "map.ratings", lambda old: [*old[:-1], 1e308]),
        ("isotonic", "map.ratings", lambda old: [100 * one for one in old]),
        ("isotonic", "map.ratings", lambda old: old[:-1]),
        ("isotonic", "map.ratings", lambda old: [old[1], old[0], *old[2:]]),
        ("isotonic", "map.ratings", lambda old: []),
        ("isotonic", "map.scores", lambda old: old[::-1]),
        ("isotonic", "map.scores", lambda old: "1 2 3"),
        ("linear", "map.high", lambda old: 1e308),
        ("linear", "map.low", lambda old: 6),
        ("linear", "map.slope", lambda old: None),
        ("ordinal", "map.grid", lambda old: old[::-1]),
        ("ordinal", "map.grid", lambda old: [*old[:-1], 400]),
        ("ordinal", "map.thresholds", lambda old: old[:-1]),
        ("ordinal", "map.thresholds", lambda old: old[::-1]),
        ("isotonic", "coverage", lambda old: -5),
        ("isotonic", "coverage", lambda old: True),
        ("isotonic", "grid", lambda old: {"low": 5.0, "high": 1.0, "steps": 1}),
        ("isotonic", "grid.steps", lambda old: -1),
        ("isotonic", "intervals.below", lambda old: [-one for one in np.add(old, 1).tolist()]),
        ("isotonic", "intervals.above", lambda old: old[:-1]),
        ("isotonic", "intervals.edges", lambda old: old[::-1]),
        ("isotonic", "scale.raters", lambda old: [5, 1]),
        ("isotonic", "scale.judge", lambda old: [1, 1]),
        ("isotonic", "range", lambda old: [5, 1]),
    ],
)
def test_maps_that_no_fit_makes_are_refused(tmp_path, kind, path, change):
    """It would give ratings off the scale, invalid intervals, or a traceback."""
    aspect = copy.deepcopy(CONTENT[kind])
    *way, last = path.split(".")
    at = aspect
    for name in way:
        at = at[name]
    at[last] = change(at[last])
    with pytest.raises(DataError, match="a calibration is damaged"):
        load(write(tmp_path, aspect))


@pytest.mark.parametrize("text", ["NaN", "1e400", "[" * 900 + "]" * 900, "[" * 5000 + "]" * 5000])
def test_json_of_other_programs_is_refused(tmp_path, text):
    (tmp_path / FILE).write_text(f'{{"format": {FORMAT}, "aspects": [{text}], "digest": "0"}}')
    with pytest.raises(ConfigurationError, match=r"cannot be read|was edited"):
        load(tmp_path)
