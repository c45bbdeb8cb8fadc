"""Intervals hold what they promise: seeded draws of clustered, skewed ratings (see
benchmarks/coverage.py)."""

from __future__ import annotations

import pytest

from benchmarks.coverage import World, coverage, false_alarms
from benchmarks.coverage_designs import HEAVIEST, agreeing


@pytest.mark.parametrize(
    ("level", "documents", "systems"),
    [("dataset", 6, 5), ("dataset", 30, 5), ("group", 30, 8), ("system", 40, 10)],
)
def test_a_95_percent_interval_holds_the_truth(level, documents, systems):
    """At system level it may hold it more often, never less; percentiles of resampled documents
    hold 4 to 90 %."""
    counts = coverage(World(systems=systems), level, documents, draws=300, resamples=100)
    for name, (held, given) in counts.items():
        assert given > 150, name
        assert 0.91 <= held / given <= (1.0 if level == "system" else 0.995), (name, held, given)


def test_intervals_over_sources_of_one_to_forty_rows_hold_the_truth():
    """Resamples of the sources, with t on their number less one, hold it in 91 % of 500 draws."""
    for name, found in agreeing(120, 40, top=0.3, heaviest=HEAVIEST).items():
        held, given = found.plain
        assert given > 110, name
        assert held / given >= 0.915, name


def test_intervals_from_ratings_that_are_mostly_equal_have_a_note():
    """Nine in ten are the top grade; of 12 sources too few have another one."""
    for found in agreeing(30, 12, top=0.9, heaviest=None).values():
        assert found.warned[1] > 9 * found.plain[1]


@pytest.mark.parametrize(("level", "documents"), [("dataset", 8), ("group", 20), ("system", 30)])
def test_equally_good_judges_are_rarely_told_apart(level, documents):
    found, given = false_alarms(World(systems=10), level, documents, draws=200)
    assert given > 180
    assert found / given <= 0.11
