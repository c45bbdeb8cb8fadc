"""How many calls are kept in flight, judged by what simulated servers answer: each has a fixed
capacity, and queues, rejects, slows down or dies beyond it."""

from __future__ import annotations

import asyncio
import math
import random
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from tests.virtual_time import run_virtual
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.limits import LimitedModel, Limiter
from textassay.runtime.calls.retry import DeadlineModel, RetryingModel
from textassay.runtime.errors import ModelError, RateLimited, ServerFailed, TimedOut
from textassay.runtime.model import Request

Serve = Callable[[], Awaitable[None]]
Server = Callable[[random.Random], Serve]


@dataclass
class Seen:
    """What a simulated run looked like."""

    answers: list[float] = field(default_factory=list)
    """Times of the answers, in seconds from the start."""
    failed_attempts: Counter[type[ModelError]] = field(default_factory=Counter)
    failed: int = 0
    """Calls that failed for good."""
    in_flight: list[int] = field(default_factory=list)
    """Calls in flight, a hundred times during the run."""

    def rate(self, start: float, end: float) -> float:
        """Answers per second in this time."""
        return sum(start <= at < end for at in self.answers) / (end - start)

    @property
    def rejections(self) -> int:
        return self.failed_attempts[RateLimited] + self.failed_attempts[ServerFailed]


def simulate(
    server: Server, *, cap: int, seconds: float, timeout: float = 120, seed: int = 1
) -> Seen:
    """Let more workers than `cap` ask a simulated server without end."""
    dice, seen = random.Random(seed), Seen()

    async def main() -> None:
        serve = server(dice)

        async def reply(request: Request) -> str:
            await serve()
            return "5"

        limiter = Limiter(rpm=None, tpm=None, concurrency=cap, timeout=timeout)
        timed = DeadlineModel(ScriptedModel(reply), timeout=timeout, thinking_timeout=timeout)
        model = RetryingModel(
            LimitedModel(timed, limiter),
            total_timeout=1e9,
            on_failure=lambda error: seen.failed_attempts.update([type(error)]),
            rng=dice,
        )
        loop = asyncio.get_running_loop()

        async def work(name: int) -> None:
            for turn in range(1_000_000):
                try:
                    await model.generate(Request(prompt=f"{name} {turn}", max_tokens=1))
                except ModelError:
                    seen.failed += 1
                else:
                    seen.answers.append(loop.time())

        tasks = [asyncio.create_task(work(name)) for name in range(cap * 5 // 4)]
        for _ in range(100):
            await asyncio.sleep(seconds / 100)
            seen.in_flight.append(limiter.state.in_flight)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(main(), start=0.0)
    return seen


def unlimited(seconds: float, spread: float = 0.0) -> Server:
    """Takes any number of calls; latencies are lognormal around `seconds`."""
    return lambda dice: lambda: asyncio.sleep(seconds * dice.lognormvariate(0, spread))


def rejecting(
    places: int, *, later: int | None = None, down: tuple[float, float] = (0, 0)
) -> Server:
    """Rejects calls above so many (`later` after 60 s) with 429, and all with 503 while down."""

    def make(dice: random.Random) -> Serve:
        busy = 0

        async def serve() -> None:
            nonlocal busy
            now = asyncio.get_running_loop().time()
            if down[0] <= now < down[1]:
                await asyncio.sleep(0.05)
                raise ServerFailed("down", status=503)
            if busy >= (places if later is None or now < 60 else later):
                await asyncio.sleep(0.02)
                raise RateLimited("too many at once")
            busy += 1
            try:
                await asyncio.sleep(dice.lognormvariate(0, 0.5))
            finally:
                busy -= 1

        return serve

    return make


LOGNORMAL_MEAN = 1.133
"""Seconds that a call takes in a `rejecting` server."""


def queueing(
    places: int, seconds: float, *, spread: float = 0.0, later: float | None = None
) -> Server:
    """Lets calls wait for one of a few places; a call takes `seconds`, or `later` after 60 s."""

    def make(dice: random.Random) -> Serve:
        free = asyncio.Semaphore(places)

        async def serve() -> None:
            async with free:
                is_later = later is not None and asyncio.get_running_loop().time() > 60
                each = later if is_later and later is not None else seconds
                await asyncio.sleep(each * dice.lognormvariate(0, spread))

        return serve

    return make


@pytest.mark.parametrize(
    ("cap", "latency", "spread", "share"),
    [(300, 1.0, 0.0, 0.96), (30, 0.1, 0.0, 0.99), (64, 1.0, 0.5, 0.9), (64, 1.0, 1.0, 0.9)],
)
def test_a_server_without_limits_has_all_calls_in_flight_after_one_round(
    cap: int, latency: float, spread: float, share: float
) -> None:
    seen = simulate(unlimited(latency, spread), cap=cap, seconds=30)
    mean = latency * math.exp(spread**2 / 2)
    assert len(seen.answers) >= share * cap / mean * 30
    assert seen.failed_attempts.total() == 0


@pytest.mark.parametrize(
    ("places", "cap", "share"),
    [(1, 64, 0.95), (3, 64, 0.95), (50, 64, 0.85), (50, 1000, 0.85), (150, 300, 0.8)],
)
def test_a_server_that_rejects_calls_above_its_capacity_is_used_well(
    places: int, cap: int, share: float
) -> None:
    seen = simulate(rejecting(places), cap=cap, seconds=120)
    assert len(seen.answers) >= share * places / LOGNORMAL_MEAN * 120
    assert seen.failed == 0
    assert max(seen.in_flight[20:]) <= 1.1 * places + 1
    if places > 3:
        assert seen.rejections <= cap + 0.03 * len(seen.answers)


def test_a_capacity_that_falls_is_followed_and_one_that_rises_is_used() -> None:
    # of eight calls in flight, one more or less is an eighth: the mean of three servers
    runs = [
        simulate(rejecting(100, later=8), cap=100, seconds=120, seed=seed) for seed in (1, 2, 3)
    ]
    assert statistics.fmean(run.rate(80, 120) for run in runs) >= 0.9 * 8 / LOGNORMAL_MEAN
    for falling in runs:
        assert falling.failed == 0
        assert max(falling.in_flight[70:]) <= 10
    rising = simulate(rejecting(8, later=100), cap=100, seconds=240)
    assert rising.rate(200, 240) >= 0.9 * 100 / LOGNORMAL_MEAN


def test_half_a_minute_of_503_is_recovered_from() -> None:
    seen = simulate(rejecting(1000, down=(50, 80)), cap=100, seconds=200)
    assert max(seen.in_flight[30:40]) <= 10
    assert seen.rate(170, 200) >= 0.9 * 100 / LOGNORMAL_MEAN


@pytest.mark.parametrize(
    ("places", "seconds", "timeout", "cap", "length"),
    [
        (1, 0.5, 6, 64, 300),
        (1, 0.1, 6, 64, 300),
        (2, 0.5, 6, 64, 300),
        (4, 0.5, 6, 64, 300),
        (1, 1.9, 120, 64, 300),
        (1, 7, 120, 64, 300),
        (1, 1, 6, 64, 300),
        (4, 0.5, 20, 1000, 300),
        (30, 1.0, 20, 1000, 120),
        (40, 0.5, 120, 1000, 120),
    ],
)
def test_a_server_with_few_places_lets_no_call_time_out(
    places: int, seconds: float, timeout: float, cap: int, length: float
) -> None:
    seen = simulate(queueing(places, seconds), cap=cap, seconds=length, timeout=timeout)
    assert seen.failed_attempts.total() == 0
    assert len(seen.answers) >= 0.97 * places * length / seconds


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_few_calls_time_out_in_a_queue_of_calls_that_differ(seed: int) -> None:
    seen = simulate(queueing(4, 0.5, spread=0.5), cap=64, seconds=300, timeout=6, seed=seed)
    assert seen.failed_attempts[TimedOut] < 0.01 * len(seen.answers)
    assert seen.failed == 0


def test_a_queue_that_gets_slower_is_followed() -> None:
    """What was right before makes calls time out: few of them do until fewer are in flight."""
    seen = simulate(queueing(1, 0.05, later=1.0), cap=64, seconds=400, timeout=6)
    assert seen.rate(0, 60) >= 19.5
    assert seen.rate(80, 400) >= 0.95
    assert seen.failed_attempts[TimedOut] < 200
    assert seen.failed == 0


def test_single_calls_that_hang_do_not_hold_up_the_others() -> None:
    """One call in fifty is never answered, and the others at once: that is not load."""

    def server(dice: random.Random) -> Serve:
        return lambda: asyncio.sleep(1e6 if dice.random() < 0.02 else 0.1)

    seen = simulate(server, cap=64, seconds=60, timeout=6)
    assert min(seen.in_flight[5:]) == 64


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_rejections_at_random_do_not_hold_up_everything(share: float) -> None:
    """A faulty proxy, or a quota that others use up: fewer calls in flight would not help."""

    def server(dice: random.Random) -> Serve:
        async def serve() -> None:
            await asyncio.sleep(0.1)
            if dice.random() < share:
                raise RateLimited("at random")

        return serve

    rates = [simulate(server, cap=100, seconds=20, seed=seed).rate(0, 20) for seed in (1, 2)]
    assert sum(rates) / 2 >= 200


@pytest.mark.parametrize("rate", [10, 50])
def test_a_rate_that_the_server_enforces_is_reached_without_knowing_it(rate: int) -> None:
    """Its bucket holds what one second allows."""

    def server(dice: random.Random) -> Serve:
        level, last = float(rate), 0.0

        async def serve() -> None:
            nonlocal level, last
            now = asyncio.get_running_loop().time()
            level, last = min(rate, level + (now - last) * rate), now
            if level < 1:
                await asyncio.sleep(0.02)
                raise RateLimited("too many requests")
            level -= 1
            await asyncio.sleep(0.5)

        return serve

    seen = simulate(server, cap=64, seconds=120)
    assert len(seen.answers) >= 0.98 * rate * 120
    assert seen.rejections <= 0.25 * len(seen.answers)
