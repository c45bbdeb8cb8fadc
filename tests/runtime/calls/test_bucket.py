"""`Pace` spreads evenly, `Window` counts exactly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from textassay.runtime.calls.bucket import CATCH_UP, CELL, WINDOW, Pace, UsedShare, Window


def test_amounts_follow_each_other_at_the_rate() -> None:
    """Three thousand a minute are 1/50 s apart, less the margin."""
    pace = Pace(3000, one_second=True)
    pace.take(10.0, 1, waited=False)
    assert pace.free_at == pytest.approx(10.0 + WINDOW / 3000)


def test_a_rest_gives_no_credit() -> None:
    """After an idle hour only one request goes at once."""
    pace = Pace(3000, one_second=True)
    pace.take(0.0, 1, waited=False)
    pace.take(3600.0, 1, waited=False)
    assert pace.free_at > 3600.0


def test_lateness_of_a_waiter_is_made_good_up_to_a_bound() -> None:
    """A waiter woken 5 s late is credited for `CATCH_UP` seconds of them."""
    pace = Pace(3000, one_second=True)
    pace.take(0.0, 1, waited=False)
    pace.take(5.0, 1, waited=True)
    assert pace.free_at == pytest.approx(5.0 - CATCH_UP + WINDOW / 3000)


@given(st.floats(0.1, 1e6))
def test_catching_up_never_exceeds_what_a_bucket_of_one_second_forgives(per_minute: float) -> None:
    """One interval plus the credit stays within one second, or there is no credit."""
    pace = Pace(per_minute, one_second=True)
    assert pace.credit(1) == 0 or pace.credit(1) + pace.seconds_each < 1


def test_a_large_amount_is_credited_for_its_own_interval() -> None:
    """A correction that came late gives back up to what the next amount takes, and no more."""
    pace = Pace(6000, one_second=False)
    pace.take(0.0, 3000, waited=False)
    pace.correct(-3000)
    pace.take(20.0, 1000, waited=True)
    assert pace.free_at == pytest.approx(20.0)


def test_the_share_of_reserved_tokens_in_use_is_learnt() -> None:
    """It is 1 at first and soon what settlements say."""
    share = UsedShare()
    assert share.value == 1
    for _ in range(5):
        share.learn(100, 400)
    assert share.value == pytest.approx(0.25)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 50)), max_size=200),
    st.integers(1, 20),
    st.integers(50, 200),
)
def test_the_window_holds_what_was_added_within_it(
    steps: list[tuple[float, int]], max_requests: int, max_tokens: int
) -> None:
    """Going only when `ready_at` says so never passes a limit, and its counts are exact to one
    cell."""
    window, now, sent = Window(max_requests, max_tokens), 0.0, list[tuple[float, int]]()
    for pause, tokens in steps:
        now += pause
        ready = window.ready_at(now, tokens)
        if ready <= now:
            window.add(now, tokens)
            sent.append((now, tokens))
        within = [(t, n) for t, n in sent if t + WINDOW > now]
        slightly_longer = [(t, n) for t, n in sent if t + WINDOW + CELL > now]
        assert len(within) <= window.requests <= len(slightly_longer)
        assert window.requests <= max_requests
        assert (
            sum(n for _, n in within)
            <= window.tokens
            <= min(max_tokens, sum(n for _, n in slightly_longer))
        )
        assert ready <= now or ready < now + WINDOW + CELL


def test_an_amount_above_the_limit_goes_alone() -> None:
    """It waits for a window without tokens; requests without any do not stand in its way."""
    window = Window(math.inf, 100)
    window.add(0.0, 1)
    assert window.ready_at(1.0, 500) == WINDOW
    window.add(30.0, 0)
    assert window.ready_at(WINDOW, 500) == -math.inf


def test_corrections_reach_only_what_is_still_in_the_window() -> None:
    """What the window has passed is not subtracted twice."""
    window = Window(math.inf, 100)
    old, new = window.add(0.0, 50), window.add(50.0, 10)
    window.forget(WINDOW)
    window.correct(old, 0, -50)
    window.correct(new, 0, 5)
    assert (window.requests, window.tokens) == (1, 15)


def test_memory_is_bounded_by_cells() -> None:
    """A hundred thousand grants in a second take a hundred cells."""
    window = Window(math.inf, math.inf)
    for index in range(100_000):
        window.add(index * 1e-5, 1)
    assert len(window._cells) <= 101
    assert window.requests == 100_000
