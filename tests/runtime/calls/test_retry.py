"""What is asked again, how long it waits, when it gives up, and how long one attempt may take."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.mock_server import Options, serve
from tests.virtual_time import run_skipping, run_virtual, virtual
from tests.waiting import eventually
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.retry import MAX_WAIT, MIN_WAIT, DeadlineModel, RetryingModel
from textassay.runtime.calls.usage import MeteredModel
from textassay.runtime.messages import Usage
from textassay.runtime.model import ContinuationRequest, Request, Response, Sample, TokenLogprob

ASK = Request(prompt="x")


class Clock:
    """Sleeps without taking time, and remembers how long."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def always(error: type[errors.ModelError], **fields: object) -> ScriptedModel:
    return ScriptedModel(lambda request: error("no", **fields))


@pytest.mark.parametrize(
    "kind",
    [
        errors.RateLimited,
        errors.ServerFailed,
        errors.ConnectionFailed,
        errors.TimedOut,
        errors.MalformedResponse,
    ],
)
async def test_a_transient_error_is_asked_again(kind):
    clock = Clock()
    model = ScriptedModel([kind("no"), kind("no"), "fine"])
    response = await RetryingModel(model, sleep=clock.sleep).generate(ASK)
    assert response.samples[0].text == "fine"
    assert len(clock.waits) == 2


@pytest.mark.parametrize(
    "kind",
    [
        errors.RequestRefused,
        errors.ContextTooLong,
        errors.ContentRefused,
        errors.AuthenticationFailed,
        errors.ModelNotFound,
        errors.QuotaExhausted,
        errors.CapabilityError,
        ZeroDivisionError,
    ],
)
async def test_any_other_error_is_not(kind):
    model = ScriptedModel(lambda request: kind("no"))
    with pytest.raises(kind, match=r"^no$"):
        await RetryingModel(model, sleep=Clock().sleep).generate(ASK)
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("kind", "attempts", "message", "longest"),
    [
        (errors.ServerFailed, 4, r"^no \(after 4 attempts\)$", 60),
        (errors.TimedOut, 1, "^no$", 0),
        (errors.NothingListening, 6, "after 6 attempts", 3.1),
    ],
)
async def test_it_gives_up_after_the_attempts_and_says_how_many(kind, attempts, message, longest):
    """Where nothing listens, the waits are short."""
    model, clock, seen = ScriptedModel(lambda _: kind("no")), Clock(), []
    with pytest.raises(kind, match=message):
        await RetryingModel(
            model, attempts=attempts, sleep=clock.sleep, on_failure=seen.append
        ).generate(ASK)
    assert len(model.requests) == len(seen) == attempts
    assert sum(clock.waits) <= longest


def billed():
    """Return the error of an answer that cost half a dollar and could not be used."""
    error = errors.MalformedResponse("no")
    error.usage = Usage(calls=1, prompt_tokens=10, completion_tokens=1, cost=0.5)
    return error


async def test_what_unusable_answers_cost_is_part_of_the_usage():
    fine = Response(
        samples=(Sample(text="fine"),), usage=Usage(calls=1, prompt_tokens=10, cost=0.5)
    )
    model = ScriptedModel([billed(), billed(), fine])
    answer = await RetryingModel(model, sleep=Clock().sleep).generate(ASK)
    assert answer.usage == Usage(calls=3, prompt_tokens=30, completion_tokens=2, cost=1.5)
    spent = RetryingModel(ScriptedModel([billed(), billed()]), attempts=2, sleep=Clock().sleep)
    with pytest.raises(errors.MalformedResponse) as caught:
        await spent.generate(ASK)
    assert caught.value.usage == Usage(calls=2, prompt_tokens=20, completion_tokens=2, cost=1.0)


async def test_what_was_paid_before_the_budget_was_reached_counts():
    model = ScriptedModel([billed(), errors.BudgetReached("the cost limit is reached")])
    metered = MeteredModel(RetryingModel(model, sleep=Clock().sleep))
    with pytest.raises(errors.BudgetReached):
        await metered.generate(ASK)
    assert metered.total.usage == Usage(calls=1, prompt_tokens=10, completion_tokens=1, cost=0.5)


@pytest.mark.parametrize("asked", [0.0, 0.2, 7.0, 90.0])
async def test_the_wait_the_server_asks_for_is_kept(asked):
    clock = Clock()
    model = ScriptedModel([errors.RateLimited("no", retry_after=asked), "fine"])
    await RetryingModel(model, sleep=clock.sleep).generate(ASK)
    assert asked <= clock.waits[0] <= 1.1 * asked + 0.05


@given(failed=st.integers(1, 1000), seed=st.integers())
async def test_unasked_waits_double_up_to_a_minute(failed, seed):
    model = RetryingModel(ScriptedModel(), rng=random.Random(seed))
    wait = model.wait_after(errors.ServerFailed("no"), failed)
    assert 0 <= wait <= min(MAX_WAIT, MIN_WAIT * 2 ** min(failed - 1, 20))


async def test_it_does_not_begin_a_wait_that_passes_the_total_time():
    clock, model = Clock(), always(errors.RateLimited, retry_after=3600.0)
    with pytest.raises(errors.RateLimited):
        await RetryingModel(model, total_timeout=600, sleep=clock.sleep).generate(ASK)
    assert clock.waits == []


async def test_the_time_of_the_attempts_counts():
    async def slow(request):
        await asyncio.sleep(0.06)
        return errors.ServerFailed("no", retry_after=0.0)

    model = ScriptedModel(slow)
    with pytest.raises(errors.ServerFailed):
        await RetryingModel(model, attempts=100, total_timeout=0.15).generate(ASK)
    assert len(model.requests) <= 3


async def test_cancellation_is_prompt_and_never_retried():
    model, waits = always(errors.RateLimited, retry_after=30.0), asyncio.Event()

    async def sleep(seconds):
        waits.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(RetryingModel(model, sleep=sleep).generate(ASK))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(model.requests) == 1


async def test_many_requests_at_once_keep_their_own_counts():
    model = ScriptedModel(lambda r: errors.ServerFailed("no") if r.seed % 2 else "fine")
    retrying = RetryingModel(model, attempts=3, sleep=lambda seconds: asyncio.sleep(0))
    asks = (retrying.generate(Request(prompt="x", seed=seed)) for seed in range(40))
    found = await asyncio.gather(*asks, return_exceptions=True)
    assert {str(one) for one in found[1::2]} == {"no (after 3 attempts)"}
    assert {one.samples[0].text for one in found[::2]} == {"fine"}
    assert len(model.requests) == 20 + 60


async def test_every_ability_is_retried():
    answers = iter([errors.ConnectionFailed("no"), [TokenLogprob(token=" b", logprob=-1.0)]])
    model = ScriptedModel(continuation=lambda request: next(answers))
    retrying = RetryingModel(model, sleep=Clock().sleep)
    assert (
        await retrying.continuation(ContinuationRequest(prompt="a", continuation=" b"))
    ).logprob == -1.0


@pytest.mark.parametrize("limit", [5, None])
async def test_a_quick_answer_is_passed_on(limit):
    model = DeadlineModel(ScriptedModel(["fine"]), timeout=limit)
    assert (await model.generate(ASK)).samples[0].text == "fine"


def test_a_hanging_server_is_given_up():
    async def main(loop):
        async with serve(Options(p_hang=1, hang_s=1e6)) as server:
            model = DeadlineModel(DirectModel("direct/m", api_base=server.url), timeout=20)
            task = asyncio.create_task(model.generate(ASK))
            await eventually(lambda: server.counters.faults == {"hang": 1})
            loop.skip(20)
            with pytest.raises(errors.TimedOut, match=r"direct/m within 20 s"):
                await task
            await eventually(lambda: server.counters.in_flight == 0)
            await model.aclose()

    run_skipping(main)


async def test_a_timeout_from_within_stays_what_it_is():
    model = DeadlineModel(ScriptedModel(lambda request: TimeoutError("theirs")), timeout=5)
    with pytest.raises(TimeoutError, match="theirs"):
        await model.generate(ASK)


@virtual
async def test_each_attempt_has_its_own_deadline():
    """One timer serves them all: late ones are not given up early, and ended ones not at all."""
    loop = asyncio.get_running_loop()
    lasting = iter([60.0, 1e6, 3.0, 1e6, 25.0])
    model = DeadlineModel(ScriptedModel(lambda _: asyncio.sleep(next(lasting), "done")), timeout=20)

    async def ask(start):
        await asyncio.sleep(start)
        began = loop.time()
        try:
            await model.generate(ASK)
        except errors.TimedOut:
            return "given up", loop.time() - began
        return "answered", loop.time() - began

    late = ("given up", 20)
    found = await asyncio.gather(*map(ask, (0, 5, 6, 100, 101)))
    assert found == [late, late, ("answered", 3), late, late]


async def hang(request):
    await asyncio.sleep(1e6)


def test_the_next_event_loop_has_deadlines_of_its_own():
    model = DeadlineModel(ScriptedModel(hang), timeout=20)
    for _ in range(2):
        with pytest.raises(errors.TimedOut):
            run_virtual(model.generate(ASK))


@pytest.mark.parametrize("seconds", [1, 20])
@virtual
async def test_a_cancellation_is_no_timeout_not_even_in_the_turn_of_the_deadline(seconds):
    model = DeadlineModel(ScriptedModel(hang), timeout=20)
    task = asyncio.create_task(model.generate(ASK))
    asyncio.get_running_loop().call_later(seconds, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_request_with_tokens_for_a_thought_may_take_longer() -> None:
    async def main() -> None:
        async def slow(request: Request) -> str:
            await asyncio.sleep(50)
            return "fine"

        model = DeadlineModel(ScriptedModel(slow), timeout=20, thinking_timeout=60)
        thinking = ASK.model_copy(update={"thought_allowance": 4096})
        assert (await model.generate(thinking)).samples[0].text == "fine"
        with pytest.raises(errors.TimedOut, match="within 20 s"):
            await model.generate(ASK)

    run_virtual(main())
