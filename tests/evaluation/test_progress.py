"""The progress of a run while it goes."""

from __future__ import annotations

import os
import sys

import pytest

from textassay.evaluation.progress import Progress, TerminalLine, clock, cut, line
from textassay.runtime.base import Usage


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
def test_a_remaining_time_that_is_unknown_is_not_shown(fields):
    assert at(**fields).seconds_left is None
    assert "left" not in line(at(**fields))


def test_the_line_has_the_facts_that_matter():
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


@pytest.mark.parametrize("columns", [1, 2, 20, 60, 119, 120, 500])
def test_a_terminal_line_never_wraps(columns):
    """One that does could not be drawn over; it is cut visibly, and only if it must be."""
    whole = line(at(failures={"RateLimited": 7}, outcomes={"scored": 17, "invalid": 3}))
    shown = cut(whole, columns)
    assert len(shown) < max(columns, 2)
    assert shown == whole or shown.endswith("…")
    assert (shown == whole) == (len(whole) < columns)


def test_a_terminal_keeps_one_line(monkeypatch):
    """A real terminal of 40 columns: each state replaces the last, and the end is there whole."""
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    leader, follower = pty.openpty()
    termios = pytest.importorskip("termios")
    termios.tcsetwinsize(follower, (24, 40))
    with os.fdopen(follower, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        drawn = TerminalLine()
        for done in (1, 50, 100):
            drawn(at(done=done, failures={"RateLimited": 7}))
        drawn.end()
        terminal.flush()
        seen = b""
        while not seen.endswith(b"\n"):  # a terminal hands over what it has so far
            seen += os.read(leader, 4096)
        written = seen.decode()
    os.close(leader)
    *states, last = written.replace("\r\n", "\n").split("\r\x1b[K")[1:]
    assert [len(state) for state in states] == [39, 39, 39]
    assert last == line(at(done=100, failures={"RateLimited": 7})) + "\n"
