"""Splits that keep groups together."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.learning import folds, group_codes, split_rows
from textassay.runtime.errors import ConfigurationError, DataError

groupings = (
    st.lists(st.integers(0, 8), min_size=2, max_size=60)
    .filter(lambda g: len(set(g)) > 1)
    .map(group_codes)
)


def test_codes_number_groups_in_order_and_rows_without_one_are_their_own_group():
    assert group_codes(["b", "a", None, "b", None]).tolist() == [0, 1, 2, 0, 3]
    gap = float("nan")
    assert group_codes(["b", gap, gap, "b"]).tolist() == [0, 1, 2, 0]


@given(groupings, st.integers(0, 2**32))
def test_a_split_keeps_groups_whole_and_grows_with_its_share(groups, seed):
    parts = [split_rows(groups, fraction, seed=seed) for fraction in (0.01, 0.3, 0.6, 0.99)]
    for chosen in parts:
        assert not set(groups[chosen]) & set(groups[~chosen])
        assert chosen.any()
        assert not chosen.all()
    for small, large in pairwise(parts):
        assert not (small & ~large).any()
    assert (split_rows(groups, 0.3, seed=seed) == parts[1]).all()


@given(groupings, st.integers(2, 6), st.integers(0, 2**32))
def test_folds_keep_groups_whole_and_none_is_empty(groups, count, seed):
    fold = folds(groups, count, seed=seed)
    assert sorted(set(fold)) == list(range(min(count, len(set(groups)))))
    assert all(len(set(fold[groups == group])) == 1 for group in set(groups))


def test_shares_and_folds_are_even():
    groups = np.repeat(np.arange(200), np.arange(200) % 7 + 1)
    assert split_rows(groups, 0.25, seed=1).mean() == pytest.approx(0.25, abs=0.01)
    assert np.ptp(np.bincount(folds(groups, 5, seed=0))) <= 2


@pytest.mark.parametrize(
    ("split", "error", "says"),
    [
        *((lambda f=f: split_rows(np.arange(2), f, seed=0), ConfigurationError, "and 1")
          for f in (0, 1, -1, 2)),
        (lambda: split_rows(np.zeros(9, int), 0.5, seed=0), DataError, "at least 2 groups"),
        (lambda: folds(np.zeros(9, int), 5, seed=0), DataError, "at least 2 groups"),
        (lambda: folds(np.arange(9), 1, seed=0), ConfigurationError, "at least 2 folds"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_split_are_refused(split, error, says):
    with pytest.raises(error, match=says):
        split()
