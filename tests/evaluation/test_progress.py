"""What a run tells about itself while it goes."""

from __future__ import annotations

import io
import re
import sys

import pytest

from textassay.evaluation.progress import Progress, clock, line, terminal_line
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
    assert at(**fields).seconds_left is None
    assert "left" not in line(at(**fields))


def test_the_line_tells_what_matters():
    now = at(
        outcomes={"scored": 17, "invalid": 2, "error": 1},
        usage=Usage(calls=21, cached_calls=4, cost=0.0123),
        failures={"RateLimited": 7},
    )
    shown = (
        "20/100 | 2.0/s | 0:40 left | 21 calls + 4 cached | $0.0123 | 1 error | 2 invalid | "
        "RateLimited x7"
    )
    assert line(now) == shown
    assert "took 0:10" in line(at(done=100))


def test_durations_are_read_at_a_glance():
    assert [clock(seconds) for seconds in (0, 59.6, 61, 3600, 36061)] == [
        "0:00",
        "1:00",
        "1:01",
        "1:00:00",
        "10:01:01",
    ]


def test_a_terminal_keeps_one_line(monkeypatch):
    """On 40 columns each state replaces the last, cut; the end is there whole."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    for name, value in (("COLUMNS", "40"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    states = [at(done=done, failures={"RateLimited": 7}) for done in (1, 50, 100)]
    with terminal_line() as show:
        for now in states:
            show(now)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", sys.stderr.getvalue())
    *drawn, last, end = re.split(r"[\r\n]+", plain)
    cut = dict.fromkeys(shown for shown in drawn if shown)
    assert [shown[:6] for shown in cut] == ["1/100 ", "50/100", "100/10"]
    assert {len(shown) for shown in cut} == {40}
    assert all(shown.endswith("…") for shown in cut)
    assert (last, end) == (line(states[-1]), "")
