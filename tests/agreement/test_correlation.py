"""The three coefficients of two arrays."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from textassay.agreement.correlation import (
    Cells,
    InversionCounter,
    kendall,
    kendall_rows,
    pearson,
    pearson_rows,
    spearman,
    spearman_rows,
)
from textassay.runtime.errors import DataError

COEFFICIENTS = [pearson, spearman, kendall]
SCIPY = {
    pearson: scipy.stats.pearsonr,
    spearman: scipy.stats.spearmanr,
    kendall: scipy.stats.kendalltau,
}

few_values = st.integers(0, 4)
many_values = st.integers(-1000, 1000)
two_arrays = st.integers(2, 70).flatmap(
    lambda n: st.tuples(*[st.lists(few_values | many_values, min_size=n, max_size=n)] * 2)
)


def test_six_numbers_with_ties_by_hand():
    """x = (1, 1, 2, 2, 3, 3) against (1, 2, 2, 3, 3, 3).

    12 pairs differ in x and 11 in y (15 less 1 and 3 tied); none disagrees, and of the 12 the pairs
    (2nd, 3rd), (4th, 5th), (4th, 6th) tie in y: 9 agree, tau-b = 9 / sqrt(12 * 11). Ranks of x are
    1.5 3.5 5.5 twice each, of y 1, 2.5, 2.5, 5, 5, 5, so rho = 13 / sqrt(16 * 15).
    """
    x, y = [1, 1, 2, 2, 3, 3], [1, 2, 2, 3, 3, 3]
    assert kendall(x, y) == pytest.approx(9 / np.sqrt(12 * 11), abs=1e-15)
    assert spearman(x, y) == pytest.approx(13 / np.sqrt(16 * 15), abs=1e-15)
    assert pearson(x, y) == pytest.approx(3 / np.sqrt(4 * (3 + 1 / 3)), abs=1e-15)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("shape", [(2, 1000), (5, 5), (1000, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("n", [2, 3, 17, 48, 49, 1600])
def test_equals_scipy(coefficient, shape, n):
    """Below and above the size at which the algorithm for tau changes."""
    rng = np.random.default_rng([n, *shape])
    x = rng.integers(0, shape[0] + 1, n)
    y = x * 0.3 + rng.integers(0, shape[1] + 1, n)
    ours = coefficient(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert ours is None
    else:
        assert ours == pytest.approx(SCIPY[coefficient](x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize(
    ("x", "y"),
    [([], []), ([1], [2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0.1, 0.1, 0.1]), ([7, 7], [7, 7])],
)
def test_a_constant_side_or_one_point_is_undefined(coefficient, x, y):
    assert coefficient(x, y) is None


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ([1, 2], [1, 2, 3], "equally long"),
        ([1, float("inf")], [1, 2], "finite"),
        ([1, float("nan")], [1, 2], "NaN"),
        ([1, "two"], [1, 2], "numbers"),
        ([[1, 2]], [[1, 2]], "dimension"),
    ],
)
def test_unusable_arrays_are_refused(x, y, says):
    with pytest.raises(DataError, match=says):
        pearson(x, y)


@given(two_arrays, st.randoms(use_true_random=False))
def test_order_sides_and_monotone_transforms_do_not_matter_and_a_sign_flips(arrays, random):
    x, y = arrays
    pairs = list(zip(x, y, strict=True))
    random.shuffle(pairs)
    for coefficient in COEFFICIENTS:
        value = coefficient(x, y)
        if value is None:
            assert coefficient(*zip(*pairs, strict=True)) is None
            continue
        assert -1 <= value <= 1
        assert coefficient(*zip(*pairs, strict=True)) == pytest.approx(value, abs=1e-12)
        assert coefficient(y, x) == pytest.approx(value, abs=1e-12)
        assert coefficient([-v for v in x], y) == pytest.approx(-value, abs=1e-12)
        if coefficient is not pearson:
            assert coefficient([np.arctan(v / 100) for v in x], y) == value


@given(st.integers(-280, 280), st.integers(-280, 280))
def test_scale_does_not_matter_at_any_magnitude(up, down):
    """No overflow and no underflow between 1e-280 and 1e280."""
    x, y = np.array([1.0, 2, 3, 5]), np.array([2.0, 1, 4, 3])
    for coefficient in COEFFICIENTS:
        assert coefficient(x * 10.0**up, y * 10.0**down) == pytest.approx(
            coefficient(x, y), abs=1e-12
        )


def test_numbers_that_differ_in_the_last_digit_are_not_constant():
    x = np.array([1.0, np.nextafter(1, 2), 1.0, np.nextafter(1, 2)])
    assert pearson(x, [0, 1, 0, 1]) == pytest.approx(1)
    assert kendall(x, [0, 1, 0, 1]) == pytest.approx(1)


@given(st.lists(st.integers(0, 9), max_size=40), st.data())
def test_weighted_inversions_equal_the_double_loop(ranks, data):
    weights = np.array(
        data.draw(st.lists(st.integers(0, 5), min_size=len(ranks), max_size=len(ranks))), float
    )
    expected = sum(
        weights[i] * weights[j]
        for i in range(len(ranks))
        for j in range(i + 1, len(ranks))
        if ranks[i] > ranks[j]
    )
    assert InversionCounter(np.array(ranks, int)).count(weights[:, None]).tolist() == [expected]


@settings(deadline=None)
@given(two_arrays, st.integers(0, 2**32 - 1))
def test_whole_weights_equal_repeated_rows(arrays, seed):
    """What the bootstrap rests on: a row of weight 3 counts as three rows."""
    x, y = (np.array(side, float) for side in arrays)
    weights = np.random.default_rng(seed).integers(0, 4, (len(x), 5))
    weights[:, 4] = 0  # no weight at all is undefined, without a warning
    found = Cells(x, y).coefficients(weights.astype(float))
    for coefficient, values in zip(COEFFICIENTS, found.values(), strict=True):
        for column, value in zip(weights.T, values, strict=True):
            expected = coefficient(np.repeat(x, column), np.repeat(y, column))
            assert (
                np.isnan(value) if expected is None else value == pytest.approx(expected, abs=1e-12)
            )


def test_rows_equal_one_by_one():
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 4, (2, 200, 7)).astype(float)
    for rows, one in ((pearson_rows, pearson), (spearman_rows, spearman), (kendall_rows, kendall)):
        expected = [one(a, b) for a, b in zip(x, y, strict=True)]
        assert [None if np.isnan(v) else v for v in rows(x, y).tolist()] == expected
