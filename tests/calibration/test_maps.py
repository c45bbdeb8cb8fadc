"""Maps: monotone, cross-fitted, chosen by size and held-out error; refusals that say what to do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from textassay.calibration.conformal import fit_cells, grid_of
from textassay.calibration.maps import (
    Ordinal,
    Scales,
    fit_isotonic,
    fit_ordinal,
    learn_map,
    read_map,
)
from textassay.runtime.errors import ConfigurationError, DataError

SCALES = Scales((1.0, 5.0), (1.0, 5.0))


def planted(rows, sources, seed=0):
    """Scores and ratings of 1 to 5 with a bent relation."""
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 6, rows).astype(float)
    y = np.clip(5 - (5 - x) ** 2 / 4 + rng.normal(0, 0.3, rows), 1, 5)
    return x, y, np.arange(rows) % sources


@given(
    arrays(float, 30, elements=st.integers(0, 9).map(float)),
    arrays(float, 30, elements=st.floats(0, 1)),
)
def test_isotonic_is_monotone_and_keeps_the_mean(x, y):
    """Pool adjacent violators is a projection: monotone, and the mean of the ratings is kept."""
    fitted = fit_isotonic(x, y)
    values = fitted.predict(np.sort(x))
    steps = np.diff(values)
    assert (steps >= -1e-12).all() or (steps <= 1e-12).all()
    assert fitted.predict(x).mean() == pytest.approx(y.mean(), abs=1e-9)


def test_isotonic_by_hand():
    """A pair in the wrong order is pooled."""
    fitted = fit_isotonic(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4]))
    assert fitted.predict(np.array([1.0, 2, 2.5, 3, 4, 9])).tolist() == [1, 2.5, 2.5, 2.5, 4, 4]


def test_isotonic_falls_for_an_error_rate():
    """Scores where lower is better are turned round."""
    fitted = fit_isotonic(np.array([1.0, 2, 3]), np.array([3.0, 2, 1]))
    assert fitted.predict(np.array([1.0, 3])).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("rows", "sources", "kind"), [(200, 20, "isotonic"), (40, 10, "linear"), (12, 6, "shift")]
)
def test_auto_goes_by_how_much_was_rated(rows, sources, kind):
    """A curve from 60 rows of 8 sources, a line from 20 of 4, else a shift."""
    wide = Scales((0.0, 10.0), (1.0, 5.0))  # a shift by this is not the planted slope
    assert learn_map(*planted(rows, sources), scales=wide).kind == kind


def test_auto_takes_a_simpler_map_that_is_clearly_better():
    """With few rows of many distinct scores a line beats a curve, where the truth is a line."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 10, 64)
    learned = learn_map(x, 2 + 0.3 * x, np.arange(64), scales=Scales((0.0, 10.0), (1.0, 5.0)))
    assert learned.kind == "linear"


def test_cross_fitted_values_do_not_see_their_source():
    """Changing one source's ratings leaves the source's own values alone."""
    x, y, groups = planted(200, 20)
    before = learn_map(x, y, groups, scales=SCALES, method="isotonic").cross_fitted
    changed = np.where(groups == 3, 1.0, y)
    after = learn_map(x, changed, groups, scales=SCALES, method="isotonic").cross_fitted
    assert np.array_equal(before[groups == 3], after[groups == 3])
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("method", ["isotonic", "linear", "shift", "ordinal"])
def test_a_map_is_read_back_as_it_was(method):
    """JSON and back."""
    x, y, groups = planted(100, 10)
    learned = learn_map(x, np.round(y), groups, scales=SCALES, method=method)
    again = read_map(learned.map.to_dict())
    assert np.array_equal(again.predict(x), learned.map.predict(x))
    assert learned.map.to_dict()["kind"] == method


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
    """Proportional odds with slope 2 and thresholds 2, 4, 6 come out within sampling error."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, 20_000)
    y = 1.0 + (2 * x[:, None] + rng.logistic(size=(20_000, 1)) > np.array([2, 4, 6])).sum(axis=1)
    found = fit_ordinal(x, y)
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
def test_what_cannot_be_learned_from_is_refused(x, y, groups, words):
    """Few labels, one source, a constant judge and constant people: each said, never a number."""
    columns = np.array(x, float), np.array(y, float), np.array(groups)
    with pytest.raises(DataError, match=words):
        learn_map(*columns, scales=SCALES)


def test_a_shift_of_an_unbounded_score_is_refused():
    """Log-likelihoods have no scale that could be moved."""
    with pytest.raises(ConfigurationError, match="unbounded"):
        learn_map(*planted(12, 6), scales=Scales(None, (1.0, 5.0)), method="shift")


def test_grid_is_found_and_intervals_end_on_it():
    """The mean of three whole ratings lies on thirds; ends do too, moved outward."""
    y = np.array([1, 4 / 3, 2, 14 / 3, 5])
    grid = grid_of(y, (1.0, 5.0))
    assert grid.steps == 3
    low, high = grid.outward(np.array([2.1, -3]), np.array([2.7, 9]))
    assert low == pytest.approx([2, 1])
    assert high == pytest.approx([3, 5])
    assert grid_of(np.array([1.2345, 3.3]), (1.0, 5.0)).steps == 0


def test_too_few_sources_give_the_whole_scale():
    """Five sources cannot promise 90 %: the interval is the scale, not a guess."""
    x, y, groups = planted(40, 5)
    grid = grid_of(np.round(y), (1.0, 5.0))
    cells = fit_cells(x, np.round(y), np.round(y), groups, grid=grid, coverage=0.9)
    low, high = cells.around(np.array([3.0]), np.array([3.0]), grid)
    assert (low[0], high[0]) == (1, 5)


@pytest.mark.parametrize("method", ["shift", "linear", "isotonic", "ordinal"])
def test_ratings_count_as_many_rows_as_they_stand_for(method):
    """A row of weight 2 is a row that occurs twice, in every map and in the intervals."""
    rng = np.random.default_rng(3)
    scores = rng.integers(1, 6, 90).astype(float)
    ratings = np.clip(scores + rng.integers(-1, 2, 90), 1, 5)
    groups, weights = np.arange(90) // 3, np.where(ratings > scores, 2.0, 1.0)
    twice = np.repeat(np.arange(90), weights.astype(int))
    scales = Scales((1.0, 5.0), (1.0, 5.0))
    at = np.arange(1.0, 6.0)
    one = learn_map(scores, ratings, groups, scales=scales, weights=weights, method=method)
    two = learn_map(scores[twice], ratings[twice], groups[twice], scales=scales, method=method)
    assert one.map.predict(at) == pytest.approx(two.map.predict(at), abs=0.02)
    plain = learn_map(scores, ratings, groups, scales=scales, method=method)
    assert one.map.predict(at) != pytest.approx(plain.map.predict(at), abs=0.05)


def test_calibration_honors_sampling_probabilities():
    """High scores rated four times as often: weighted, the calibrated mean is that of all rows."""
    rng, gaps = np.random.default_rng(0), {True: [], False: []}
    for _ in range(40):
        scores = rng.integers(1, 6, 2000).astype(float)
        # people are stricter on what the judge likes, so a shift must know whom each rating stands
        # for
        truth = np.where(scores > 3, scores - 1.5, scores) + rng.normal(0, 0.3, 2000)
        chance = np.where(scores > 3, 0.2, 0.05)
        rated = rng.random(2000) < chance
        x, y, groups = scores[rated], truth[rated], np.arange(2000)[rated]
        for weighted in gaps:
            learned = learn_map(
                x, y, groups, scales=Scales((-1.0, 7.0), (-1.0, 7.0)), method="shift",
                weights=1 / chance[rated] if weighted else None,
            )  # fmt: skip
            gaps[weighted].append(float(learned.map.predict(scores).mean() - truth.mean()))
    assert abs(np.mean(gaps[True])) < 0.03
    assert np.mean(gaps[False]) < -0.2
