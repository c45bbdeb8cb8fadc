"""The limit on calls in flight finds what a server bears, and leaves alone what only varies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.virtual_time import run_virtual
from textassay.runtime.calls.adaptive_concurrency import AdaptiveLimit, Congestion
from textassay.runtime.calls.rate_limiter import Limiter
from textassay.runtime.errors import RateLimited, ServerFailed, TimedOut

Server = Callable[[], Awaitable[None]]


class Observed:
    """What a simulated run looked like."""

    def __init__(self) -> None:
        self.answered = self.refused = self.timed_out = 0
        self.limits: list[tuple[float, int]] = []

    def limits_between(self, start: float, end: float) -> list[int]:
        return [limit for time, limit in self.limits if start <= time < end]


def simulate(
    make: Callable[[random.Random], Server],
    *,
    cap: int,
    seconds: float,
    seed: int = 1,
    timeout: float | None = None,
    workers: int | None = None,
) -> Observed:
    """Let workers, by default twice `cap`, ask a simulated server without end."""
    dice, seen = random.Random(seed), Observed()

    async def main() -> None:
        server = make(dice)
        limiter = Limiter(rpm=None, tpm=None, concurrency=cap, timeout=timeout)
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def work() -> None:
            while loop.time() < began + seconds:
                try:
                    async with limiter.admit() as grant:
                        try:
                            async with asyncio.timeout(timeout):
                                await server()
                        except TimeoutError as late:
                            limiter.timed_out(grant)
                            seen.timed_out += 1
                            raise TimedOut("late") from late
                        except RateLimited:
                            limiter.rate_limited(grant)
                            raise
                        except ServerFailed as error:
                            if error.status == 503:
                                limiter.overloaded(grant)
                            raise
                    seen.answered += 1
                except (RateLimited, ServerFailed, TimedOut):
                    seen.refused += 1
                    await asyncio.sleep(dice.uniform(0, 0.5))

        async def watch() -> None:
            while loop.time() < began + seconds:
                seen.limits.append((loop.time() - began, limiter.state.limit))
                await asyncio.sleep(seconds / 100)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch())
            for _ in range(workers or 2 * cap):
                tasks.create_task(work())

    run_virtual(main(), start=0.0)
    return seen


def variable(spread: float) -> Callable[[random.Random], Server]:
    """A server that bears any number of calls; latencies are lognormal with median 1 s."""

    def make(dice: random.Random) -> Server:
        return lambda: asyncio.sleep(dice.lognormvariate(0, spread))

    return make


def at_most(places: int, down: tuple[float, float] = (0, 0)) -> Callable[[random.Random], Server]:
    """A server that answers 429 above so many calls at once, and 503 while it is down."""

    def make(dice: random.Random) -> Server:
        busy = 0

        async def serve() -> None:
            nonlocal busy
            if down[0] <= asyncio.get_running_loop().time() < down[1]:
                await asyncio.sleep(0.05)
                raise ServerFailed("down", status=503)
            if busy >= places:
                await asyncio.sleep(0.02)
                raise RateLimited("too many at once")
            busy += 1
            try:
                await asyncio.sleep(dice.lognormvariate(0, 0.5))
            finally:
                busy -= 1

        return serve

    return make


def queueing(places: int) -> Callable[[random.Random], Server]:
    """A server that lets calls wait for one of a few places, of half a second each."""

    def make(dice: random.Random) -> Server:
        free = asyncio.Semaphore(places)

        async def serve() -> None:
            async with free:
                await asyncio.sleep(0.5 * dice.lognormvariate(0, 0.3))

        return serve

    return make


@pytest.mark.parametrize("spread", [0.5, 1.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_variable_latency_is_no_reason_to_shrink(spread: float, seed: int) -> None:
    """Lognormal latencies: the limit goes to the cap and stays there."""
    seen = simulate(variable(spread), cap=100, seconds=200, seed=seed)
    assert set(seen.limits_between(10, 200)) == {100}


def test_it_doubles_until_the_cap() -> None:
    """From 32 to 500 in a few rounds."""
    seen = simulate(variable(0.1), cap=500, seconds=8)
    assert seen.limits[0][1] == 32
    assert seen.limits[-1][1] == 500


def test_it_settles_around_what_the_server_bears() -> None:
    """A server with 50 places: near to full use, with few rejections."""
    seen = simulate(at_most(50), cap=400, seconds=200)
    late = seen.limits_between(20, 200)
    assert min(late) >= 30
    assert max(late) <= 55
    assert seen.refused < 0.02 * seen.answered


def test_it_goes_below_where_it_started() -> None:
    """A server with 3 places, asked 32 at once at first: hardly any rejections once it has
    settled."""
    seen = simulate(at_most(3), cap=100, seconds=200)
    assert max(seen.limits_between(20, 200)) <= 6
    assert min(seen.limits_between(0, 200)) >= 1


def test_it_recovers_from_an_outage() -> None:
    """A minute of 503 brings it down; a hundred seconds later it is back at the cap."""
    seen = simulate(at_most(1000, down=(50, 110)), cap=200, seconds=230)
    assert max(seen.limits_between(100, 110)) < 20
    assert seen.limits[-1][1] == 200


def test_calls_that_only_queue_in_the_server_are_fewer_and_no_less_is_done() -> None:
    """40 places and a cap of 1,000: well below the cap in the end, at the throughput of 40 busy
    places."""
    seen = simulate(queueing(40), cap=1000, seconds=240)
    assert max(seen.limits_between(180, 240)) < 700
    assert seen.answered >= 0.97 * 40 / (0.5 * 1.046) * 240


def test_longer_answers_are_not_taken_for_congestion() -> None:
    """Latency goes up sixfold for good: the limit may try fewer, and comes back."""

    def make(dice: random.Random) -> Server:
        def serve() -> Awaitable[None]:
            base = 0.5 if asyncio.get_running_loop().time() < 60 else 3.0
            return asyncio.sleep(base * dice.lognormvariate(0, 0.5))

        return serve

    seen = simulate(make, cap=100, seconds=300)
    assert min(seen.limits_between(0, 300)) >= 32
    assert set(seen.limits_between(200, 300)) == {100}


def test_rejections_at_random_do_not_bring_it_down_to_nothing() -> None:
    """One answer in five is a 429 and one in twenty a 500, whatever is in flight: it stops
    shrinking."""

    def make(dice: random.Random) -> Server:
        async def serve() -> None:
            await asyncio.sleep(0.1)
            draw = dice.random()
            if draw < 0.2:
                raise RateLimited("at random")
            if draw < 0.25:
                raise ServerFailed("at random")

        return serve

    seen = simulate(make, cap=100, seconds=60)
    assert min(seen.limits_between(10, 60)) >= 6


def test_an_episode_cuts_once() -> None:
    """Ten rejections of calls that were in flight together are one cut; the next call's is
    another."""

    async def main() -> None:
        limiter = Limiter(rpm=None, tpm=None, concurrency=20)
        first = [limiter.admit() for _ in range(10)]
        for grant in first:
            await grant.__aenter__()
        for grant in first:
            limiter.rate_limited(grant)
        assert limiter.limit == 14
        limiter.rate_limited()  # no telling whose: those from before the cut are still in flight
        assert limiter.limit == 14
        for grant in first:
            await grant.__aexit__(None, None, None)
        async with limiter.admit() as later:
            limiter.rate_limited(later)
            assert limiter.limit == 10  # 9.8, but no further than to half of 20 before it is judged

    run_virtual(main())


def test_without_adaptation_the_limit_stays() -> None:
    """Rejections and overload change nothing."""

    async def main() -> None:
        limiter = Limiter(rpm=None, tpm=None, concurrency=20, adaptive=False)
        limiter.rate_limited()
        async with limiter.admit() as grant:
            limiter.rate_limited(grant)
            limiter.overloaded(grant)
        assert limiter.state.limit == 20

    run_virtual(main())


def test_an_unused_limit_does_not_grow() -> None:
    """Five calls in flight say nothing about whether 33 would do."""
    limit = AdaptiveLimit(1000)
    for index in range(500):
        limit.answered(float(index), 1.0, 5)
    assert limit.limit == 32


def test_it_never_goes_below_one() -> None:
    """However often it is cut."""
    limit = AdaptiveLimit(1000)
    for _ in range(1000):
        limit.cut(AdaptiveLimit.CUT)
        limit.rejected()
        assert limit.limit >= 1
    assert limit.limit == 1


def test_failures_of_the_server_pause_growth() -> None:
    """One failure in eight calls is too many to grow on; one in twenty is not."""
    for every, grows in ((8, False), (20, True)):
        limit = AdaptiveLimit(1000)
        for index in range(1, 320):
            if index % every == 0:
                limit.failed()
            else:
                limit.answered(index / 100, 1.0, limit.limit)
        assert (limit.limit > 32) is grows


def test_latency_that_buys_throughput_is_not_congestion() -> None:
    """A server that batches: three times the latency for four times the throughput is a good
    trade."""
    congestion, now, verdicts = Congestion(), 0.0, set()
    for latency, each in ((1.0, 0.1), (3.0, 0.025), (3.0, 0.025), (3.0, 0.025)):
        for _ in range(10 * Congestion.BLOCK):
            now += each
            verdicts.add(congestion.answered(now, latency, 10))
    assert verdicts == {None, "free"}


def serial(places: int, seconds: float) -> Callable[[random.Random], Server]:
    """A server that answers `places` calls at a time, each in `seconds`, and lets the others
    wait."""

    def make(dice: random.Random) -> Server:
        free = asyncio.Semaphore(places)

        async def serve() -> None:
            async with free:
                await asyncio.sleep(seconds)

        return serve

    return make


@pytest.mark.parametrize(
    ("places", "seconds", "timeout"),
    [(1, 0.5, 6), (1, 0.1, 6), (2, 0.5, 6), (4, 0.5, 6), (1, 1.9, 120), (1, 7, 120), (1, 1, 6)],
)
def test_a_server_with_few_places_lets_no_call_time_out(places, seconds, timeout) -> None:
    """One request at a time, half a second each, 6 s of patience: before, most of the first 32 were
    lost."""
    seen = simulate(serial(places, seconds), cap=64, seconds=300, timeout=timeout)
    assert seen.timed_out == 0
    assert seen.answered >= 0.98 * places * 300 / seconds - 64


def test_calls_that_time_out_lower_the_limit() -> None:
    """A server that gets slower: what was right before makes calls time out, and the limit
    follows."""

    def make(dice: random.Random) -> Server:
        free = asyncio.Semaphore(1)

        async def serve() -> None:
            async with free:
                await asyncio.sleep(0.05 if asyncio.get_running_loop().time() < 60 else 1.0)

        return serve

    seen = simulate(make, cap=64, seconds=400, timeout=6)
    assert min(seen.limits_between(0, 60)) >= 4
    assert max(seen.limits_between(200, 400)) <= 8
    assert seen.timed_out < 0.3 * seen.answered


def test_single_calls_that_hang_do_not_lower_the_limit() -> None:
    """One call in fifty is never answered, and the others at once: the server has not too much to
    do."""

    def make(dice: random.Random) -> Server:
        return lambda: asyncio.sleep(1e6 if dice.random() < 0.02 else 0.1)

    seen = simulate(make, cap=64, seconds=60, timeout=6)
    assert set(seen.limits_between(5, 60)) == {64}


def test_a_server_that_answers_side_by_side_is_not_started_slowly() -> None:
    """Four calls that take equally long are enough to go to the cap."""
    seen = simulate(lambda dice: lambda: asyncio.sleep(0.1), cap=64, seconds=10, timeout=120)
    assert set(seen.limits_between(0.2, 10)) == {64}


def test_a_thousand_calls_are_in_flight_after_one_round() -> None:
    """Calls of 1 s that do not slow each other down: 20, then 1,000."""
    seen = simulate(lambda dice: lambda: asyncio.sleep(1), cap=1000, seconds=6, timeout=120)
    assert {limit for _, limit in seen.limits} == {20, 1000}
    assert set(seen.limits_between(1.1, 6)) == {1000}


@pytest.mark.parametrize(("cap", "probes"), [(2, 2), (64, 4), (200, 4), (1000, 20)])
def test_an_unknown_server_is_asked_a_fiftieth_of_the_calls_at_first(cap, probes) -> None:
    """But at least four, and no more than the cap, even if that is set later."""
    assert AdaptiveLimit(cap, timeout=120).limit == probes
    later = AdaptiveLimit(1000, timeout=120)
    later.set_cap(cap)
    assert later.limit == probes


@pytest.mark.parametrize("places", [10, 50, 500])
def test_a_leap_that_meets_rejections_is_taken_back_to_what_was_answered(places) -> None:
    """From 20 to 1,000 calls: the rejections are one wave, whatever number is answered."""
    limit = AdaptiveLimit(1000, timeout=120)
    for _ in range(20):
        limit.answered(1.0, 1.0, 20)
    assert limit.limit == 1000
    limit.cut(AdaptiveLimit.CUT)
    for _ in range(1000 - places):
        limit.rejected()
    assert limit.limit == 20
    for left in range(places, 0, -1):
        limit.answered(2.0, 1.0, left)
    assert limit.limit == max(20, places)


def test_answers_before_the_first_rejection_of_a_leap_count() -> None:
    """Of 1,000 calls, 300 were answered when the first is rejected, and 100 more are after it."""
    limit = AdaptiveLimit(1000, timeout=120)
    for _ in range(20):
        limit.answered(1.0, 1.0, 20)
    for _ in range(300):
        limit.answered(2.0, 1.0, 1000)
    limit.cut(AdaptiveLimit.CUT)
    assert limit.limit == 300
    for _ in range(600):
        limit.rejected()
    for _ in range(100):
        limit.answered(2.1, 1.0, 400)
    assert limit.limit == 400
    limit.cut(AdaptiveLimit.CUT)  # the leap is over: cut as always
    assert limit.limit == 280


def test_a_thousand_calls_to_a_server_with_few_places_are_no_storm() -> None:
    """50 places: one wave of rejections, and then about as many calls as there are places."""
    seen = simulate(at_most(50), cap=1000, seconds=120, timeout=120)
    assert max(seen.limits_between(10, 120)) <= 60
    assert seen.refused < 1000 + 0.02 * seen.answered
    assert seen.answered > 0.75 * 50 / 1.13 * 120


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_leap_is_over_when_its_lower_limit_meets_rejections(seed: int) -> None:
    """With fewer workers than the leap allowed, answers do not undo the cuts that follow it."""
    seen = simulate(at_most(50), cap=1000, seconds=60, timeout=120, workers=200, seed=seed)
    assert seen.refused < 300
    assert max(seen.limits_between(10, 60)) <= 75


@pytest.mark.parametrize(("places", "seconds"), [(4, 0.5), (30, 1.0), (100, 1.0)])
def test_growth_in_leaps_leaves_no_call_to_time_out(places, seconds) -> None:
    """More calls than the server has places wait in it, but never longer than the timeout."""
    seen = simulate(serial(places, seconds), cap=1000, seconds=60, timeout=20)
    assert seen.timed_out == 0
    assert seen.answered >= 0.9 * places * 60 / seconds


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_variable_latency_is_no_reason_to_start_slowly_for_long(seed: int) -> None:
    """Lognormal latencies with a time limit far away: at the cap after some seconds."""
    seen = simulate(variable(1.0), cap=100, seconds=60, seed=seed, timeout=120)
    assert set(seen.limits_between(25, 60)) == {100}
