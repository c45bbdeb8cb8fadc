"""Intervals hold what they promise: seeded draws of clustered, skewed ratings (see
benchmarks/coverage.py)."""

from __future__ import annotations

import pytest

from benchmarks.coverage import World, coverage, false_alarms


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


@pytest.mark.parametrize(("level", "documents"), [("dataset", 8), ("group", 20), ("system", 30)])
def test_equally_good_judges_are_rarely_told_apart(level, documents):
    found, given = false_alarms(World(systems=10), level, documents, draws=200)
    assert given > 180
    assert found / given <= 0.11
