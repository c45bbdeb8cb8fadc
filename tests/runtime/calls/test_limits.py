"""The limiter admits requests within all limits at once; `LimitedModel` reserves and settles."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.virtual_time import run_virtual, virtual
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.calls.budget import estimate_tokens
from textassay.runtime.calls.limits import (
    MAX_PAUSE,
    WINDOW,
    LimitedModel,
    Limiter,
    Permit,
    Window,
)
from textassay.runtime.errors import (
    ConfigurationError,
    ContentRefused,
    ModelError,
    RateLimited,
    ServerFailed,
)
from textassay.runtime.model import Request, Response, Sample


def limiter(
    rpm: float | None = None,
    tpm: float | None = None,
    concurrency: int = 10_000,
    first_share: float = 1.0,
) -> Limiter:
    return Limiter(rpm=rpm, tpm=tpm, concurrency=concurrency, first_share=first_share)


def now() -> float:
    return asyncio.get_running_loop().time()


async def admit_many(
    limit: Limiter, amounts: list[int], then: Callable[[int, Permit], Awaitable[None]] | None = None
) -> list[tuple[int, float]]:
    """Ask for all amounts at once; return which were admitted when, in the order of admission."""
    admitted: list[tuple[int, float]] = []

    async def one(index: int, tokens: int) -> None:
        async with limit.admit(tokens) as grant:
            admitted.append((index, now()))
            if then is not None:
                await then(index, grant)

    async with asyncio.TaskGroup() as tasks:
        for index, tokens in enumerate(amounts):
            tasks.create_task(one(index, tokens))
    return admitted


async def keep_busy(
    limit: Limiter, *, seconds: float, workers: int, latency: Callable[[], float]
) -> list[float]:
    """Let workers ask without end for some seconds."""
    began, grants = now(), list[float]()

    async def work() -> None:
        while now() < began + seconds:
            async with limit.admit():
                if now() < began + seconds:
                    grants.append(now() - began)
                await asyncio.sleep(latency())

    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(work())
    return grants


def test_a_window_keeps_no_more_than_its_minute():
    """Also where nobody asks for its state, as without a limit of tokens."""
    window = Window()
    for second in range(300):
        window.add(1000.0 + second, 7)
    assert (window.requests, window.tokens) == (WINDOW // 1 + 1, 7 * (WINDOW // 1 + 1))
    assert len(window._cells) == window.requests


def most_in(times: list[float], seconds: float) -> int:
    """Return the most times in any half-open window of that length."""
    most, first = 0, 0
    for last, time in enumerate(times):
        while times[first] + seconds <= time:
            first += 1
        most = max(most, last - first + 1)
    return most


@dataclass
class Call:
    """One request of the property test: when it comes, what it takes, how it ends."""

    arrives: float
    tokens: int
    lasts: float
    used: float | None
    fails: bool
    cancelled_after: float | None


@dataclass
class Sent:
    """What the property test saw going out."""

    order: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    grants: list[Permit] = field(default_factory=list)


calls = st.builds(
    Call,
    arrives=st.integers(0, 200_000).map(lambda milliseconds: milliseconds / 1000),
    tokens=st.integers(0, 1200),
    lasts=st.floats(0, 90),
    used=st.none() | st.floats(0, 1),
    fails=st.booleans(),
    cancelled_after=st.none() | st.floats(0, 150),
)


@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    plan=st.lists(calls, min_size=1, max_size=40),
    rpm=st.none() | st.floats(0.5, 60),
    tpm=st.none() | st.floats(300, 3000),
    concurrency=st.integers(1, 20),
    first_share=st.sampled_from([0.02, 1.0]),
    late=st.sampled_from([0.0, 0.001, 0.2]),
)
def test_no_window_is_ever_above_a_limit_and_nothing_leaks(
    plan: list[Call],
    rpm: float | None,
    tpm: float | None,
    concurrency: int,
    first_share: float,
    late: float,
) -> None:
    limit, sent, in_flight = limiter(rpm, tpm, concurrency, first_share), Sent(), 0
    plan.sort(key=lambda call: call.arrives)

    async def one(index: int, call: Call) -> None:
        nonlocal in_flight
        await asyncio.sleep(call.arrives)
        try:
            async with limit.admit(call.tokens) as grant:
                place = len(sent.times)
                sent.order.append(index)
                sent.times.append(now())
                sent.grants.append(grant)
                in_flight += 1
                assert in_flight <= concurrency
                check(place)
                try:
                    await asyncio.sleep(call.lasts)
                    if call.used is not None:
                        grant.settle(int(call.used * call.tokens))
                    if call.fails:
                        raise ServerFailed("told to fail")
                finally:
                    in_flight -= 1
        except ServerFailed:
            assert call.fails

    def check(place: int) -> None:
        window = [i for i, time in enumerate(sent.times) if time + 60.0 > now()]
        assert rpm is None or len(window) <= max(1.0, rpm)
        others = sum(sent.grants[i].tokens for i in window if i != place)
        own = sent.grants[place].tokens
        assert tpm is None or others == 0 or own == 0 or others + own <= tpm

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            for index, call in enumerate(plan):
                task = tasks.create_task(one(index, call))
                if call.cancelled_after is not None:
                    asyncio.get_running_loop().call_later(call.cancelled_after, task.cancel)
        assert (limit.state.in_flight, limit.state.waiting) == (0, 0)

    dice = random.Random(len(plan))
    run_virtual(main(), lateness=lambda: dice.uniform(0, late))
    if late == 0:
        arrivals = [plan[index].arrives for index in sent.order]
        assert arrivals == sorted(arrivals)


@pytest.mark.parametrize(
    ("rpm", "lateness"), [(3000, 0.0), (3000, 0.005), (3000, 0.02), (60, 0.005), (20_000, 0.005)]
)
def test_ninety_eight_percent_of_the_limit_are_reached_and_never_more(
    rpm: int, lateness: float
) -> None:
    dice = random.Random(7)
    seconds = 180 if rpm <= 3000 else 70
    grants = run_virtual(
        keep_busy(limiter(rpm), seconds=seconds, workers=200, latency=lambda: dice.uniform(0, 0.2)),
        lateness=lambda: dice.expovariate(1 / lateness) if lateness else 0.0,
    )
    assert len(grants) >= 0.98 * rpm * seconds / 60
    assert most_in(grants, 60.0) <= rpm


def test_there_are_no_bursts() -> None:
    dice = random.Random(3)
    grants = run_virtual(
        keep_busy(limiter(3000), seconds=100, workers=200, latency=lambda: dice.uniform(0, 0.2)),
        lateness=lambda: dice.expovariate(100),
    )
    assert most_in(grants, 1.0) <= 56
    assert most_in(grants, 0.01) <= 7


@pytest.mark.parametrize("rpm", [30, 90, 600, 3000])
def test_a_server_with_a_bucket_of_one_second_refuses_nothing(rpm: int) -> None:
    """The bucket holds one second's requests (one at least) and the way there takes from 0 to 0."""
    dice = random.Random(rpm)
    way = (
        0.2 if rpm >= 600 else 0.0
    )  # a bucket that holds a single request forgives no jitter at all
    grants = run_virtual(
        keep_busy(limiter(rpm), seconds=120, workers=100, latency=lambda: dice.uniform(0, 1)),
        lateness=lambda: dice.uniform(0, 0.01),
    )
    capacity = max(1.0, rpm / 60)
    level, before = capacity, 0.0
    for arrival in sorted(time + dice.uniform(0, way) for time in grants):
        level = min(capacity, level + (arrival - before) * rpm / 60)
        assert level >= 1 - 1e-9, f"refused at {arrival}"
        level, before = level - 1, arrival


def test_a_large_request_is_not_overtaken() -> None:
    """900 tokens among a stream of fifties go in their turn, as soon as they are paid for."""
    admitted = run_virtual(admit_many(limiter(tpm=60_000), [50] * 10 + [900] + [50] * 10))
    assert [index for index, _ in admitted] == list(range(21))
    times = [time for _, time in admitted]
    assert times[10] - times[0] == pytest.approx(0.5, rel=0.02)
    assert times[11] - times[10] == pytest.approx(0.9, rel=0.02)


def test_a_request_above_the_whole_token_limit_goes_alone() -> None:
    admitted = run_virtual(admit_many(limiter(tpm=1000), [10, 5000, 10]), start=0.0)
    times = [time for _, time in admitted]
    assert times[1] == pytest.approx(WINDOW)
    assert times[2] >= times[1] + WINDOW


def test_tokens_given_back_let_the_next_go_at_once() -> None:
    async def settle_early(index: int, grant: Permit) -> None:
        await asyncio.sleep(1.0)
        grant.settle(100)

    admitted = run_virtual(
        admit_many(limiter(tpm=6000), [3000, 3000, 3000], settle_early), start=0.0
    )
    assert [time for _, time in admitted] == pytest.approx(
        [0.0, 100 * WINDOW / 6000, 200 * WINDOW / 6000], abs=0.1
    )


def test_tokens_used_beyond_the_reservation_are_paid_by_who_follows() -> None:
    """1,000 reserved and 4,000 used of 6,000 a minute: the next waits 40 s."""

    async def overrun(index: int, grant: Permit) -> None:
        grant.settle(4000)

    limit = limiter(tpm=6000)
    admitted = run_virtual(admit_many(limit, [1000, 1000, 2001], overrun), start=0.0)
    times = [time for _, time in admitted]
    assert times[1] == pytest.approx(4000 * WINDOW / 6000)
    assert times[2] >= times[1] + WINDOW  # 4,000 + 2,001 are above 6,000


@pytest.mark.parametrize(
    ("reserved", "spread"), [(300, 0), (300, 90), (4200, 0), (4200, 90), (60, 40)]
)
def test_the_token_limit_is_used_in_full_with_wrong_reservations(
    reserved: int, spread: int
) -> None:
    dice = random.Random(reserved + spread)
    times, used = list[float](), list[int]()

    async def main() -> None:
        limit, began = limiter(tpm=60_000), now()

        async def work() -> None:
            while now() < began + 300:
                tokens = 100 + dice.randint(-spread, spread)
                async with limit.admit(reserved) as grant:
                    times.append(now() - began)
                    used.append(tokens)
                    await asyncio.sleep(dice.uniform(0.5, 1.5))
                    grant.settle(tokens)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(50):
                tasks.create_task(work())

    run_virtual(main())
    in_time = sum(tokens for time, tokens in zip(times, used, strict=True) if time < 300)
    attainable = 60_000 / (WINDOW * 100 + max(0, reserved - 100)) * 100 * 300
    assert 0.97 * attainable <= in_time <= 5 * 60_000
    most = max(
        sum(n for t, n in zip(times, used, strict=True) if s <= t < s + 1) for s in range(10, 300)
    )
    assert most <= 2000  # twice an even second


async def fail_with(limit: Limiter, error: BaseException, settled: int | None) -> None:
    async with limit.admit(500) as grant:
        if settled is not None:
            grant.settle(settled)
        raise error


@pytest.mark.parametrize(("settled", "left"), [(None, 0), (120, 120)])
@pytest.mark.parametrize("error", [ServerFailed("no"), ValueError("no"), asyncio.CancelledError()])
@virtual
async def test_a_failed_request_still_counts_but_its_tokens_only_if_known(
    error: BaseException, settled: int | None, left: int
) -> None:
    limit = limiter(rpm=100, tpm=1000)
    with pytest.raises(type(error)):
        await fail_with(limit, error, settled)
    state = limit.state
    assert (state.in_flight, state.requests_last_minute, state.tokens_last_minute) == (
        0,
        1,
        left,
    )


@virtual
async def test_a_waiter_that_is_cancelled_leaves_the_queue_at_once_and_no_trace() -> None:
    """Those behind it move up."""

    limit = limiter(rpm=600, tpm=60_000, concurrency=1)
    order: list[str] = []

    async def one(name: str) -> None:
        async with limit.admit(100):
            order.append(name)

    holder = limit.admit(100)
    await holder.__aenter__()
    async with asyncio.TaskGroup() as tasks:
        first, second, _ = (tasks.create_task(one(name)) for name in "abc")
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(0)
        assert limit.state.waiting == 2
        await holder.__aexit__(None, None, None)  # admits the second...
        assert limit.state.in_flight == 1
        second.cancel()  # ...which is cancelled before it can run
    assert order == ["c"]
    state = limit.state
    assert (
        state.in_flight,
        state.waiting,
        state.requests_last_minute,
        state.tokens_last_minute,
    ) == (0, 0, 2, 200)


@virtual
async def test_a_pause_holds_everyone_and_the_longest_one_counts() -> None:
    """Nobody goes, whether there was a queue or not; then the pace goes on."""
    limit, began = limiter(rpm=60_000), now()
    limit.pause(30)
    limit.pause(5)
    assert limit.state.paused_for == 30
    admitted = await admit_many(limit, [0] * 50)
    assert admitted[0][1] == began + 30
    assert admitted[-1][1] == pytest.approx(began + 30, abs=0.1)
    assert limit.state.paused_for == 0
    limit, began = limiter(rpm=60), now()
    asyncio.get_running_loop().call_later(2.5, limit.pause, 100)
    times = [time - began for _, time in await admit_many(limit, [0] * 6)]
    assert times[2] < 2.5
    assert times[3] == pytest.approx(102.5)


@pytest.mark.parametrize("bad", [-1, 0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["rpm", "tpm", "concurrency"])
def test_limits_that_are_not_positive_numbers_are_refused(name: str, bad: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Limiter(**{"rpm": None, "tpm": None, "concurrency": 1, name: bad})  # type: ignore[arg-type]


def test_a_limiter_serves_one_event_loop_after_another() -> None:
    limit = limiter(rpm=600)
    for _ in range(2):
        assert len(run_virtual(admit_many(limit, [0] * 20))) == 20


@pytest.mark.parametrize("count", [1, 3, 7])
def test_parts_of_a_limit_add_up_to_it(count: int) -> None:
    limiters = [Limiter(rpm=600, tpm=6000, concurrency=20) for _ in range(count)]
    for number, limiter in enumerate(limiters):
        limiter.divide(number, count)
    assert sum(limiter.concurrency for limiter in limiters) == 20
    assert sum(limiter.rpm for limiter in limiters) == pytest.approx(600)
    assert sum(limiter.tpm for limiter in limiters) == pytest.approx(6000)
    limiters[0].divide(0, 1)
    assert (limiters[0].rpm, limiters[0].tpm, limiters[0].concurrency) == (600, 6000, 20)
    with pytest.raises(ConfigurationError, match="cannot be divided into 21 parts"):
        limiters[0].divide(0, 21)


def test_a_smaller_part_holds_at_once() -> None:
    async def main() -> list[float]:
        limiter = Limiter(rpm=6000, tpm=None, concurrency=20, first_share=1.0)
        loop, times = asyncio.get_running_loop(), list[float]()

        async def ask() -> None:
            async with limiter.admit():
                times.append(loop.time())

        tasks = [asyncio.create_task(ask()) for _ in range(30)]
        await asyncio.sleep(0.1)
        limiter.divide(0, 10)
        await asyncio.gather(*tasks)
        return times

    times = run_virtual(main())
    late = [at for at in times if at > times[0] + 0.2]
    gaps = [after - before for before, after in pairwise(late)]
    assert len(late) > 10
    assert min(gaps) >= 0.099


REQUEST = Request(prompt="Is this text coherent?", max_tokens=100, n=2)


def limited_by(
    rpm: float | None = None, tpm: float | None = 10_000, concurrency: int = 20
) -> Limiter:
    return Limiter(rpm=rpm, tpm=tpm, concurrency=concurrency)


def using(prompt_tokens: int, completion_tokens: int) -> Response:
    usage = Usage(calls=1, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    return Response(samples=(Sample(text="5"),), usage=usage)


@pytest.mark.parametrize("used", [(12, 34), (0, 0)])
@virtual
async def test_prompt_and_longest_answer_are_reserved_and_the_usage_is_settled(
    used: tuple[int, int],
) -> None:
    """An answer without a count of tokens keeps its reservation."""
    limit, seen = limited_by(), list[int]()

    def reply(request: Request) -> Response:
        seen.append(limit.state.tokens_last_minute)
        return using(*used)

    await LimitedModel(ScriptedModel(reply), limit).generate(REQUEST)
    assert seen == [estimate_tokens(REQUEST.text) + 200]
    assert limit.state.tokens_last_minute == (sum(used) or seen[0])


def test_answers_teach_how_much_to_reserve() -> None:
    async def main() -> None:
        limit = limited_by()
        reserved: list[int] = []
        request = Request(prompt="Is this text coherent?")

        def reply(_: Request) -> Response:
            reserved.append(limit.state.tokens_last_minute)
            return using(10, 50)

        model = LimitedModel(ScriptedModel(reply), limit)
        await model.generate(request)
        await model.generate(request)
        prompt = estimate_tokens(request.text)
        assert reserved == [prompt + 256, 60 + prompt + 60]

    run_virtual(main())


@pytest.mark.parametrize(
    ("error", "is_load", "paused"),
    [
        (RateLimited("slow down"), True, 0.0),
        (RateLimited("slow down", retry_after=7.5), True, 7.5),
        (RateLimited("tomorrow", retry_after=86_400), True, MAX_PAUSE),
        (ServerFailed("overloaded", status=503), True, 0.0),
        (ServerFailed("overloaded", status=503, retry_after=3), True, 3.0),
        (ServerFailed("oops", status=500), False, 0.0),
        (ServerFailed("oops", status=502, retry_after=2), False, 2.0),
        (ContentRefused("no"), False, 0.0),
    ],
)
@virtual
async def test_the_effect_of_an_error_on_all_calls(
    error: ModelError, is_load: bool, paused: float
) -> None:
    limit = limited_by(rpm=1000)
    before = limit.limit
    with pytest.raises(type(error)):
        await LimitedModel(ScriptedModel([error]), limit).generate(REQUEST)
    state = limit.state
    assert (state.limit < before, state.paused_for, state.in_flight) == (is_load, paused, 0)
    assert (state.requests_last_minute, state.tokens_last_minute) == (1, 0)


@virtual
async def test_a_retry_after_holds_all_models_behind_the_limiter() -> None:
    limit, loop = limited_by(tpm=None), asyncio.get_running_loop()
    refused = LimitedModel(ScriptedModel([RateLimited("slow down", retry_after=30)]), limit)
    fine = LimitedModel(ScriptedModel(["5"]), limit)
    began = loop.time()
    with pytest.raises(RateLimited):
        await refused.generate(REQUEST)
    await fine.generate(REQUEST)
    assert loop.time() == began + 30


@virtual
async def test_cancelling_a_call_frees_its_place() -> None:
    async def slow(request: Request) -> str:
        await asyncio.sleep(10)
        return "5"

    for cancel_after in (0.0, 0.5, 5.0, 9.999, 12.0):
        limit = limited_by(rpm=30, concurrency=2)
        model = LimitedModel(ScriptedModel(slow), limit)
        tasks = [asyncio.create_task(model.generate(REQUEST)) for _ in range(5)]
        await asyncio.sleep(cancel_after)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert (limit.state.in_flight, limit.state.waiting) == (0, 0)
