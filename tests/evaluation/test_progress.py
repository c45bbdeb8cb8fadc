"""What a run tells about itself while it goes."""

from __future__ import annotations

import pytest

from textassay.evaluation.progress import Progress
from textassay.evaluation.progress_text import clock, line
from textassay.runtime.messages import Usage


def at(**fields):
    """A run after ten seconds."""
    return Progress(
        **{"done": 20, "total": 100, "seconds": 10.0, "outcomes": {"scored": 20}, "usage": Usage()}
        | fields
    )


def test_the_rate_counts_only_what_this_session_did():
    """Scores of an earlier session took no time, and the estimate does not pretend so."""
    assert (at().rate, at().seconds_left) == (2.0, 40.0)
    resumed = at(settled_before=15)
    assert (resumed.rate, resumed.seconds_left) == (0.5, 160.0)


@pytest.mark.parametrize(
    "fields", [{"done": 0}, {"total": None}, {"settled_before": 20}, {"seconds": 0.0}]
)
def test_what_cannot_be_estimated_is_not(fields):
    """No division by zero, no infinite time."""
    assert at(**fields).seconds_left is None
    assert "left" not in line(at(**fields))


def test_the_line_tells_what_matters():
    """How far, how fast, how long, how much, and what goes wrong."""
    now = at(
        outcomes={"scored": 17, "invalid": 2, "error": 1},
        usage=Usage(calls=21, cached_calls=4, cost=0.0123),
        failures={"RateLimited": 7},
    )
    told = (
        "20/100 | 2.0/s | 0:40 left | 21 calls + 4 cached | $0.0123 | 1 error | 2 invalid | "
        "RateLimited x7"
    )
    assert line(now) == told
    assert "took 0:10" in line(at(done=100))


def test_durations_are_read_at_a_glance():
    """Hours only where there are some."""
    assert [clock(seconds) for seconds in (0, 59.6, 61, 3600, 36061)] == [
        "0:00",
        "1:00",
        "1:01",
        "1:00:00",
        "10:01:01",
    ]
