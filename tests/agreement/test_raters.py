"""Agreement among raters: alpha against the reference implementation, pairs by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmark_data import benchmark
from textassay.agreement.raters import (
    MEASUREMENTS,
    krippendorff_alpha,
    mean_of_others,
    pair_agreement,
    rater_agreement,
    rating_table,
)
from textassay.runtime.errors import DataError, UnknownName

NAN = math.nan
PAPER = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_is_krippendorffs_own(level, alpha):
    """The worked example C of Krippendorff (2011): four observers, twelve units, gaps."""
    assert krippendorff_alpha(PAPER, level=level) == pytest.approx(alpha, abs=5e-4)


tables = st.lists(
    st.lists(st.sampled_from([1.0, 2.0, 2.5, 3.0, 5.0, None]), min_size=3, max_size=3),
    min_size=2,
    max_size=12,
)


@given(table=tables)
def test_alpha_equals_the_reference_implementation(table):
    krippendorff = pytest.importorskip("krippendorff")
    data = rating_table(table)
    paired = data[np.count_nonzero(~np.isnan(data), axis=1) > 1]
    for level in MEASUREMENTS:
        ours = krippendorff_alpha(table, level=level)
        if len(np.unique(paired[~np.isnan(paired)])) < 2:
            assert ours is None
            continue
        theirs = krippendorff.alpha(reliability_data=data.T, level_of_measurement=level)
        assert ours == pytest.approx(theirs, abs=1e-9)


@given(table=tables, seed=st.integers(0, 2**16))
def test_the_order_of_items_and_raters_does_not_matter_to_alpha(table, seed):
    rng = np.random.default_rng(seed)
    data = rating_table(table)
    shuffled = rng.permuted(data, axis=1)[rng.permutation(len(data))]
    for level in MEASUREMENTS:
        ours, other = (krippendorff_alpha(side, level=level) for side in (data, shuffled))
        assert (ours is None) == (other is None)
        assert ours is None or ours == pytest.approx(other, abs=1e-9)


def test_full_agreement_is_one_no_variation_is_undefined_and_short_rows_have_gaps():
    assert krippendorff_alpha([[1, 1], [2, 2], [5, 5]], level="ordinal") == 1
    for table in ([[3, 3], [3, 3]], [[3], [4]], []):
        assert krippendorff_alpha(table) is None
    assert krippendorff_alpha([[1, 1, 2], [2, 2]]) == krippendorff_alpha([[1, 1, 2], [2, 2, None]])


def test_values_that_are_not_ratings_are_refused():
    for table, says in (
        ([["good", 1.0]], "rows of numbers"),
        ([[1, 2], [math.inf, 2]], "item 1 by rater 0 is infinite"),
        (np.array([1.0, 2.0]), "two dimensions"),
    ):
        with pytest.raises(DataError, match=says):
            krippendorff_alpha(table)
    with pytest.raises(UnknownName, match="ratio"):
        krippendorff_alpha([[1, 2]], level="ratio")
    with pytest.raises(DataError, match="one score per item"):
        rater_agreement([[1, 2], [2, 1]], judge=[1])


def test_the_others_leave_the_rater_out_and_only_items_that_both_rated_count():
    found = mean_of_others([[1, 2, 6], [3, None, 5], [4, None, None]])
    np.testing.assert_array_equal(found, [[4, 3.5, 1.5], [5, NAN, 3], [NAN, NAN, NAN]])
    found = pair_agreement([1, 2, NAN, 4], [1, 3, 3, NAN])
    assert (found.n, found.same, found.mean_difference, found.pearson) == (2, 0.5, 0.5, 1.0)
    assert pair_agreement([NAN, 1], [1, NAN]).same is None


def test_people_and_judge_are_compared_on_the_same_items():
    ratings = [[1, 1, None], [2, 3, None], [4, 4, None], [5, 4, None], [1, 5, None]]
    found = rater_agreement(ratings, judge=[1, 2, 4, 5, None])
    alone = rater_agreement(ratings[:4], judge=[1, 2, 4, 5])
    assert found == alone
    assert (found.raters, found.items, found.ratings) == (2, 4, 8)
    first, second = [1, 2, 4, 5], [1, 3, 4, 4]
    between = np.corrcoef(first, second)[0, 1]
    assert found.between_raters.pearson == pytest.approx(between)
    assert found.ceiling.pearson == pytest.approx(between)  # of two raters, the others are one
    assert found.judge_rater.pearson == pytest.approx((1 + between) / 2)
    assert found.judge_others.pearson == pytest.approx((1 + between) / 2)
    assert found.as_dict()["alpha"]["interval"] == found.alpha["interval"]


def test_one_rater_has_no_agreement_but_the_judge_has():
    found = rater_agreement([[1], [2], [3]], judge=[1, 3, 2])
    assert found.alpha == dict.fromkeys(MEASUREMENTS)
    assert found.between_raters is None
    assert found.ceiling is None
    assert found.judge_rater.pearson == pytest.approx(0.5)
    assert found.judge_others is None


def test_the_experts_of_summeval_agree_as_published():
    rows = benchmark("alttest/summeval.jsonl.gz")
    table = rating_table([row["annotators"]["coherence"] for row in rows])
    pairs = [pair_agreement(table[:, a], table[:, b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert [round(pair.pearson, 3) for pair in pairs] == [0.724, 0.614, 0.616]
    assert [round(pair.spearman, 3) for pair in pairs] == [0.715, 0.629, 0.623]
    found = rater_agreement(table)
    assert found.between_raters.pearson == pytest.approx(sum(p.pearson for p in pairs) / 3)
    assert found.ceiling.pearson > found.between_raters.pearson
