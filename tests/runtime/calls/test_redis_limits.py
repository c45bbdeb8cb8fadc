"""`SharedLimiter`: several processes keep one set of limits together, through a real Redis."""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.server import counters, server
from tests.redis_server import RedisServer, redis_served
from tests.runtime.processes import start
from tests.virtual_time import run_virtual, virtual
from tests.waiting import eventually
from textassay import connect
from textassay.runtime.calls.limits import WINDOW
from textassay.runtime.calls.redis_limits import (
    BEAT,
    BLOCK,
    RedisQuota,
    Reply,
    SharedLimiter,
    usable_for,
)
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import Settings
from textassay.runtime.storage.redis import RedisUnavailable

PROCESSES = 4
WORKERS = 12
"""Requests of each process that can be under way at once: together fewer than a server's bucket
holds, as what waits while a process is held up comes at once."""
LEASE = 2 * BLOCK
"""Seconds of capacity that a process holds at most."""
TOKENS = 8
"""Tokens of each request and its answer, as the server counts them."""

ASKING = (
    f"WORKERS = {WORKERS}"
    + """
import asyncio, itertools, json, sys, time
from contextlib import suppress
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.calls.redis_limits import RedisQuota, SharedLimiter
from textassay.runtime.errors import ModelError
from textassay.runtime.model import ChatMessage, Request

async def phase(redis, url, rpm, tpm):
    limits = {"rpm": rpm, "tpm": tpm, "concurrency": 400}
    limiter = SharedLimiter(RedisQuota(redis, url, **limits), **limits, adaptive=False)
    await limiter.open()
    backend = DirectModel("direct/mock", api_base=url) if url else None
    sent = []

    async def ask(text):
        async with limiter.admit(9) as permit:
            sent.append(time.time())
            if len(sent) == 1:
                print("asks")
            if backend is None:
                await asyncio.sleep(0.005)
            else:
                message = ChatMessage(role="user", content=text)
                with suppress(ModelError):
                    await backend.generate(Request(messages=(message,), max_tokens=1))
            permit.settle(8)

    async def work(number):
        for turn in itertools.count():
            await ask(f"worker {number:02} turn {turn:06}")

    print("ready")
    sys.stdin.readline()
    tasks = [asyncio.create_task(work(number)) for number in range(WORKERS)]
    await asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await limiter.aclose()
    if backend is not None:
        await backend.aclose()
    print(json.dumps(sent))

for line in sys.stdin:
    asyncio.run(phase(*json.loads(line)))
"""
)


class Asking:
    """A process that asks as fast as its limiter lets it."""

    def __init__(self) -> None:
        self.process = start(ASKING)

    def prepare(self, redis: str, url: str, rate: int) -> None:
        """Have it open its limiter."""
        self._tell(json.dumps([redis, url, rate * 60, rate * 60 * TOKENS]))

    def begin(self) -> None:
        """Have it ask, once it is ready."""
        assert self._line() == "ready"
        self._tell("")

    def wait(self) -> None:
        """Wait until it has asked, however long it takes to get to run."""
        assert self._line() == "asks"

    def end(self) -> None:
        """Have it stop."""
        self._tell("")

    def sent(self) -> list[float]:
        """The times at which it asked, once it has stopped."""
        found: list[float] = json.loads(self._line())
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_served(tmp_path) as started:
        yield started


@pytest.fixture
def asking() -> Iterator[list[Asking]]:
    with ExitStack() as stack:
        found = [Asking() for _ in range(PROCESSES)]
        for each in found:
            stack.callback(each.close)
        yield found


def begin(asking: list[Asking], redis: str, url: str, rate: int) -> None:
    """Have all ask at the same moment; return once each of them does."""
    for each in asking:
        each.prepare(redis, url, rate)
    for each in asking:
        each.begin()
    for each in asking:
        each.wait()


def ended(asking: list[Asking]) -> list[list[float]]:
    """Have all stop, and return the times at which each has asked."""
    for each in asking:
        each.end()
    return [each.sent() for each in asking]


def fullest(times: list[float], window: float) -> int:
    """Return the most times in any half-open window of this length."""
    return max(bisect_left(times, begin + window) - at for at, begin in enumerate(times))


def refusals(times: list[float], rate: float, amount: float) -> int:
    """Return how many of them a server refuses whose bucket holds what one second allows."""
    level, last, refused = rate, times[0], 0
    for at in times:
        level, last = min(rate, level + (at - last) * rate), at
        refused += level < amount
        level -= amount * (level >= amount)
    return refused


def test_four_processes_keep_limits_while_redis_restarts_and_one_is_killed(
    redis: RedisServer, asking: list[Asking]
) -> None:
    rate = 50
    with server(rpm=rate * 60, tpm=rate * 60 * TOKENS) as url:
        begin(asking, redis.url, url, rate)
        restart_between(redis)
        times = sorted(chain(*ended(asking)))
        assert counters(url)["limited"] == 0
    assert fullest(times, 1.0) <= rate + PROCESSES * WORKERS

    rate = 500
    begin(asking, redis.url, "", rate)
    restart_between(redis)
    times = sorted(chain(*ended(asking)))
    assert fullest(times, 1.0) <= rate + PROCESSES * WORKERS
    assert refusals(times, rate, 1) == refusals(times, rate * TOKENS, TOKENS) == 0

    begin(asking, redis.url, "", rate)
    time.sleep(0.5)
    asking[0].process.kill()
    time.sleep(0.5)
    assert all(ended(asking[1:]))


def restart_between(redis: RedisServer) -> None:
    """Have them ask for a while before Redis is started again, and for a while after it."""
    time.sleep(1.2)
    redis.stop()
    redis.start()
    time.sleep(1.2)


@pytest.mark.parametrize("rate", [50, 500])
async def test_times_that_processes_reserve_follow_each_other_without_a_gap(
    redis: RedisServer, rate: int
) -> None:
    limits = {"rpm": rate * 60, "tpm": rate * 60 * TOKENS, "concurrency": 400}
    quotas = [RedisQuota(redis.url, "quota", **limits) for _ in range(PROCESSES)]
    interval = WINDOW / (rate * 60)
    try:
        times: list[float] = []
        for quota in cycle(quotas):
            share = await quota.exchange([TOKENS] * 20)
            for start in share.starts:
                # not before its turn, and later only if nothing was reserved any more
                turn = times[-1] + interval if times else share.now
                assert abs(share.now + start - max(share.now, turn)) < 1e-5
                times.append(share.now + start)
            assert LEASE / 2 <= share.starts[-1] - share.starts[0] + interval <= LEASE
            if len(times) >= 5 * rate:
                break
        assert fullest(times, 1.0) <= rate
    finally:
        for quota in quotas:
            await quota.aclose()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
async def test_a_restart_that_nobody_noticed_is_no_burst(redis: RedisServer, kind: str) -> None:
    """The client connects again without an error, and the new Redis knows of no other process."""
    url = redis.url if kind == "tcp" else redis.unix_url
    limits = {"rpm": 3000, "tpm": None, "concurrency": 8}
    quotas = [RedisQuota(url, "quota", **limits) for _ in range(PROCESSES)]

    async def answered(quota: RedisQuota) -> Reply:
        while True:
            # a connection whose end the event loop has not seen yet fails once
            with suppress(RedisUnavailable):
                return await quota.exchange([1])

    try:
        for quota in quotas:
            assert (await answered(quota)).starts
        redis.stop()
        redis.start()
        after = [await answered(quota) for quota in quotas]
        assert [share.starts for share in after] == [()] * PROCESSES
        assert all(share.apart_for > 0 for share in after)
    finally:
        for quota in quotas:
            await quota.aclose()


class Reserving:
    """The script's arithmetic for one process, on the virtual clock and without a server."""

    def __init__(self, shared: dict[str, float], rate: int, distance: float = 0.0005) -> None:
        """Answer after twice `distance` seconds."""
        self.shared, self.interval, self.distance = shared, 1 / rate, distance
        self.url = "nowhere"

    async def exchange(self, tokens=(), *, block=BLOCK, **state):
        await asyncio.sleep(self.distance)
        now = asyncio.get_running_loop().time()
        starts: list[float] = []
        for _ in tokens:
            start = max(now, self.shared["free_at"])
            if starts and start - now > starts[0] + block:
                break
            self.shared["free_at"] = start + self.interval
            starts.append(start - now)
        await asyncio.sleep(self.distance)
        return Reply(now, 100, PROCESSES, 0.0, 0.0, tuple(starts))

    async def leave(self) -> None:
        """Nothing is kept of a process."""

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("distance", [0.0005, 0.04])
@pytest.mark.parametrize("rate", [50, 500])
def test_four_limiters_use_up_what_they_reserve(rate: int, distance: float) -> None:
    async def main() -> list[tuple[float, int]]:
        shared = {"free_at": 0.0}
        loop, times = asyncio.get_running_loop(), list[tuple[float, int]]()
        limits = {"rpm": rate * 60, "tpm": rate * 60 * TOKENS, "concurrency": 400}

        async def work(limiter: SharedLimiter) -> None:
            while True:
                async with limiter.admit(TOKENS + 1) as permit:
                    times.append((loop.time(), id(limiter)))
                    await asyncio.sleep(0.005)
                    permit.settle(TOKENS)

        async with AsyncExitStack() as stack:
            limiters = []
            for _ in range(PROCESSES):
                limiter = SharedLimiter(Reserving(shared, rate, distance), **limits, adaptive=False)
                await limiter.open()
                stack.push_async_callback(limiter.aclose)
                limiters.append(limiter)
            with suppress(TimeoutError):
                async with asyncio.timeout(10), asyncio.TaskGroup() as group:
                    for limiter in limiters * 30:
                        group.create_task(work(limiter))
        return times

    sent = run_virtual(main())
    times = [at for at, _ in sent]
    shares = Counter(limiter for _, limiter in sent)
    assert min(shares.values()) > 0.9 * len(times) / PROCESSES
    assert 0.98 * 10 * rate <= len(times) <= 10 * rate + PROCESSES
    assert fullest(times, 1.0) <= rate + PROCESSES


@given(
    rate=st.sampled_from([0.5, 1, 7, 50, 500]),
    processes=st.integers(1, 16),
    late=st.lists(st.floats(0, 1), min_size=1, max_size=400),
)
def test_late_requests_are_no_burst(rate: float, processes: int, late: list[float]) -> None:
    most = usable_for(rate * 60, processes)
    assert most > 0
    begins = [at * WINDOW / 60 / rate for at in range(int(2 * rate) + 2)]
    times = sorted(begin + share * most for begin, share in zip(begins, cycle(late), strict=False))
    assert fullest(times, 1.0) <= rate + processes


async def test_calls_in_flight_are_divided_among_the_processes_that_live(
    redis: RedisServer,
) -> None:
    async with limiters(redis.url, 2, concurrency=5) as (one, other):
        await eventually(lambda: sorted((one.limit, other.limit)) == [2, 3])
        finished = asyncio.Event()
        tasks = [asyncio.create_task(hold(each, 5, finished)) for each in (one, other)]
        await eventually(lambda: one.state.in_flight + other.state.in_flight == 5)
        finished.set()
        await asyncio.gather(*tasks)
        await one.aclose()
        await eventually(lambda: other.limit == 5)


async def test_a_pause_is_shared(redis: RedisServer) -> None:
    async with limiters(redis.url, 2) as (one, other):
        loop = asyncio.get_running_loop()
        began = loop.time()
        one.pause(0.6)
        await eventually(lambda: other.state.paused_for or loop.time() > began + 0.6)
        async with other.admit():
            assert loop.time() - began >= 0.6
        one.pause(100)
        await eventually(lambda: other.state.paused_for > 1)


async def test_tokens_that_were_not_used_are_given_to_the_other_process(
    redis: RedisServer,
) -> None:
    async with limiters(redis.url, 2, tpm=60_000) as (one, other):
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with one.admit(100_000) as permit:  # 100 seconds' worth, until it is settled
            permit.settle(10)
        async with other.admit(10):
            assert loop.time() - began < 90
        began = loop.time()
        async with one.admit(10) as permit:
            permit.settle(1010)  # and a debt is everybody's
        for _ in range(5):  # the first may come before the debt is known
            async with other.admit(100):
                pass
        assert loop.time() - began >= (1010 + 4 * 100) / 1000 - 0.1


async def test_a_process_that_lost_redis_says_so_once(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with limiters(redis.url, 1, rpm=60_000) as (one,):
        async with one.admit():
            pass
        redis.stop()
        while one.is_shared:
            async with one.admit():
                await asyncio.sleep(0.02)
        await asyncio.sleep(2 * BEAT)  # in which it tries again
        async with one.admit():
            pass
        assert [r.levelname for r in caplog.records].count("WARNING") == 1
        assert "last share" in caplog.text
        assert not one.is_shared
        await asyncio.to_thread(redis.start)
        await eventually(lambda: one.is_shared)


@pytest.mark.parametrize(("concurrency", "count"), [(5, 4), (8, 7)])
async def test_every_process_has_a_part_of_the_calls(
    redis: RedisServer, concurrency: int, count: int
) -> None:
    async with limiters(redis.url, count, concurrency=concurrency) as all_of_them:
        finished, in_flight = asyncio.Event(), [0]
        sent: Counter[int] = Counter()

        async def work(number: int) -> None:
            while not finished.is_set():
                async with all_of_them[number].admit():
                    sent[number] += 1
                    in_flight.append(sum(each.state.in_flight for each in all_of_them))
                    await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(work(number)) for number in [*range(count)] * 5]
        await eventually(lambda: len(sent) == count and min(sent.values()) >= 20)
        finished.set()
        await asyncio.gather(*tasks)
        assert max(in_flight) <= concurrency


async def test_a_share_is_given_up_only_once_the_process_keeps_to_less(redis: RedisServer) -> None:
    """Until the reply that takes some away has arrived, all of them may be in use."""
    answered = asyncio.Event()

    class Distant(RedisQuota):
        async def exchange(self, *args: Any, **more: Any) -> Reply:
            share = await super().exchange(*args, **more)
            await answered.wait()
            return share

    limits: dict[str, Any] = {"rpm": None, "tpm": None, "concurrency": 4}
    async with AsyncExitStack() as stack:
        found = []
        for kind in (Distant, RedisQuota):
            limiter = SharedLimiter(kind(redis.url, "judge", **limits), adaptive=False, **limits)
            answered.set()
            await limiter.open()
            stack.push_async_callback(limiter.aclose)
            answered.clear()
            found.append(limiter)
        one, other = found
        finished, released = asyncio.Event(), asyncio.Event()
        waiting = asyncio.create_task(hold(other, 2, finished))
        await asyncio.sleep(3 * BEAT)  # by now, half of the calls of `one` are the other's
        holding = asyncio.create_task(hold(one, 4, released))
        await eventually(lambda: one.state.in_flight == 4)
        await asyncio.sleep(2 * BEAT)
        assert other.state.in_flight == 0
        answered.set()
        released.set()
        await holding
        await eventually(lambda: other.state.in_flight == 2)
        finished.set()
        await waiting


async def test_a_pause_that_was_over_before_redis_came_back_is_not_kept_again(
    redis: RedisServer,
) -> None:
    async with limiters(redis.url, 2) as (one, other):
        redis.stop()
        await eventually(lambda: not (one.is_shared or other.is_shared))
        one.pause(0.2)
        await eventually(lambda: not one.state.paused_for)
        await asyncio.to_thread(redis.start)
        await eventually(lambda: one.is_shared and other.is_shared)
        await asyncio.sleep(2 * BEAT)  # in which the other would be told of it
        assert one.state.paused_for == other.state.paused_for == 0


@pytest.mark.parametrize("ends", ["canceled", "closed"])
async def test_tokens_that_nobody_waits_for_any_more_are_given_back(
    redis: RedisServer, ends: str
) -> None:
    async with limiters(redis.url, 2, tpm=60_000) as (one, other):
        began = asyncio.get_running_loop().time()
        async with one.admit(2000) as permit:  # two seconds' worth: whoever is next waits
            permit.settle(2000)
        waiting = asyncio.create_task(one.admit(40_000).__aenter__())
        await asyncio.sleep(2 * BEAT)  # in which they are reserved
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if ends == "closed":
            await one.aclose()
        else:
            await asyncio.sleep(2 * BEAT)  # in which they are given back
        async with other.admit(10):
            assert asyncio.get_running_loop().time() - began < 20


async def test_connections_that_break_cost_no_requests(redis: RedisServer) -> None:
    """At two requests a second, a time that is lost is half a second."""
    from redis.asyncio import from_url

    async with limiters(redis.url, 4, rpm=120) as all_of_them, from_url(redis.url) as client:
        loop = asyncio.get_running_loop()
        began, sent = loop.time(), 0
        enough = asyncio.Event()

        async def work(limiter: SharedLimiter) -> None:
            nonlocal sent
            while True:
                async with limiter.admit():
                    sent += 1
                    if sent in (2, 4, 6):
                        await client.client_kill_filter(_type="normal", skipme=True)
                    if sent >= 8:
                        enough.set()

        tasks = [asyncio.create_task(work(each)) for each in all_of_them]
        await enough.wait()
        seconds = loop.time() - began
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert 3.4 < seconds < 7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limits": "redis://:secret@host:1/0"}, "environment variable"),
        ({"limits": "postgres://:secret@host"}, "shared through Redis"),
        ({"limits": ["redis://:secret@host"]}, "valid string"),
        ({"cache": "redis://me:secret@host:1/0"}, "environment variable"),
        ({"headers": {"Authorization": ["secret"]}}, "valid string"),
    ],
)
def test_settings_take_no_secret_and_repeat_none(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        Settings.model_validate(given)
    assert "secret" not in str(caught.value)
    assert Settings(limits="redis://:${PASS}@host:1/0").limits == "redis://:${PASS}@host:1/0"


@pytest.mark.parametrize("kind", ["limits", "cache"])
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("0?decode_responses=true", "takes no option 'decode_responses'"),
        ("answers", "must be the number of a database"),
        ("0", "limits cannot be shared|answers cannot be kept"),
    ],
)
async def test_what_an_address_does_not_take_is_refused(
    kind: str, place: str, message: str
) -> None:
    pytest.importorskip("redis")
    where = {kind: f"redis://127.0.0.1:1/{place}"}
    with pytest.raises(ConfigurationError, match=message):
        async with connect("direct/m", api_base="http://127.0.0.1:1/v1", **where):
            pass


class Late(Reserving):
    """A Redis that answers late, or refuses, so many times."""

    def __init__(self, times: int, *, is_late: bool) -> None:
        super().__init__({"free_at": 0.0}, 50)
        self.times, self.is_late, self.asked = times, is_late, 0

    async def exchange(self, tokens=(), **state):
        self.asked += 1
        if self.asked <= self.times:
            error = RedisUnavailable("Redis does not answer")
            error.is_late = self.is_late
            raise error
        return await super().exchange(tokens, **state)


@pytest.mark.parametrize(
    ("times", "is_late", "asked"), [(9, True, 10), (10, True, None), (1, False, None)]
)
@virtual
async def test_a_busy_redis_is_waited_for_at_the_start(times, is_late, asked) -> None:
    quota = Late(times, is_late=is_late)
    limiter = SharedLimiter(quota, rpm=3000, tpm=None, concurrency=8, adaptive=False)
    if asked is None:
        with pytest.raises(ConfigurationError, match="limits cannot be shared"):
            await limiter.open()
        assert quota.asked == times
        return
    await limiter.open()
    assert (quota.asked, limiter.is_shared) == (asked, True)
    await limiter.aclose()


@asynccontextmanager
async def limiters(
    url: str,
    count: int,
    *,
    rpm: float | None = None,
    tpm: float | None = None,
    concurrency: int = 8,
) -> AsyncIterator[list[SharedLimiter]]:
    """Open so many limiters of one quota."""
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            quota = RedisQuota(url, "judge", rpm=rpm, tpm=tpm, concurrency=concurrency)
            limiter = SharedLimiter(
                quota, rpm=rpm, tpm=tpm, concurrency=concurrency, adaptive=False
            )
            await limiter.open()
            stack.push_async_callback(limiter.aclose)
            found.append(limiter)
        yield found


async def hold(limiter: SharedLimiter, count: int, finished: asyncio.Event) -> None:
    """Ask for so many places at once and keep them until the event."""

    async def one() -> None:
        async with limiter.admit():
            await finished.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
