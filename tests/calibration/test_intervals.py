"""Intervals and p-values over sources."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from textassay.calibration.intervals import mean_over_groups

VALUES = st.lists(st.integers(-40, 40).map(lambda one: one / 8), min_size=2, max_size=30)


def mean_of(values):
    values = np.asarray(values, float)
    return mean_over_groups(values, np.arange(len(values)), len(values))


def test_symmetric_sources_have_students_interval():
    """As scipy has it."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    low, high = student.interval(0.9, 4, loc=3, scale=np.std(values, ddof=1) / 5**0.5)
    found = mean_of(values).estimate(0.9)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_a_tail_makes_the_interval_longer_on_its_side():
    """And moves the other end only if nothing can lie beyond it."""
    mean = mean_of([5.0] * 17 + [4.0, 3.0, 4.0])
    t = student.interval(0.95, 19, loc=mean.value, scale=mean.variance**0.5)
    plain, one_tailed = mean.estimate(0.95), mean.estimate(0.95, one_tailed=True)
    assert plain.low < t[0]
    assert plain.high == pytest.approx(t[1])
    assert one_tailed.low <= plain.low
    assert mean.value < one_tailed.high < plain.high


@given(VALUES, st.sampled_from([0.8, 0.95, 0.999]))
def test_a_test_finds_what_the_interval_excludes(values, confidence):
    """At every level."""
    mean = mean_of(values)
    if mean.variance > 0:
        found = mean.estimate(confidence)
        assert (mean.p_value() < 1 - confidence) == (not found.low <= 0 <= found.high)


@given(VALUES, st.booleans())
def test_mirrored_sources_have_the_mirrored_interval(values, one_tailed):
    """No side is preferred, and the value is inside."""
    found, other = (
        mean_of(one).estimate(0.95, one_tailed=one_tailed) for one in (values, np.negative(values))
    )
    assert (found.low, found.high) == pytest.approx((-other.high, -other.low))
    assert found.low <= found.value <= found.high


def test_a_clear_difference_of_few_sources_is_found():
    """A skewness that six sources have by chance does not hide that all differ by much."""
    drawn = np.random.default_rng(0).normal(3, 1, (200, 6))
    assert np.mean([mean_of(row).p_value() < 0.05 for row in drawn]) > 0.95
