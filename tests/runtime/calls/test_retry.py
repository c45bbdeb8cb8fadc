"""What is asked again, how long it waits, when it gives up, and how long one attempt may take."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.mock_server import Options, serve
from tests.virtual_time import run_skipping, run_virtual
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


TRANSIENT = [
    errors.RateLimited,
    errors.ServerFailed,
    errors.ConnectionFailed,
    errors.TimedOut,
    errors.MalformedResponse,
]
FINAL = [
    errors.RequestRefused,
    errors.ContextTooLong,
    errors.ContentRefused,
    errors.AuthenticationFailed,
    errors.ModelNotFound,
    errors.QuotaExhausted,
    errors.CapabilityError,
]


@pytest.mark.asyncio
async def test_an_answer_is_passed_on():
    """Without a failure nothing is repeated."""
    model = ScriptedModel(["fine"])
    assert (await RetryingModel(model).generate(ASK)).samples[0].text == "fine"
    assert len(model.requests) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", TRANSIENT)
async def test_a_transient_error_is_asked_again(kind):
    """The answer after two failures is the answer."""
    clock = Clock()
    model = ScriptedModel([kind("no"), kind("no"), "fine"])
    response = await RetryingModel(model, sleep=clock.sleep).generate(ASK)
    assert response.samples[0].text == "fine"
    assert len(clock.waits) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", FINAL)
async def test_any_other_error_is_not(kind):
    """Refusals, fatal errors and wrong configuration come through at once, unchanged."""
    model = always(kind)
    with pytest.raises(kind, match=r"^no$"):
        await RetryingModel(model, sleep=Clock().sleep).generate(ASK)
    assert len(model.requests) == 1


@pytest.mark.asyncio
async def test_a_foreign_error_is_not_asked_again():
    """A bug is not a transient failure."""
    model = ScriptedModel(lambda request: ZeroDivisionError("bug"))
    with pytest.raises(ZeroDivisionError):
        await RetryingModel(model, sleep=Clock().sleep).generate(ASK)
    assert len(model.requests) == 1


@pytest.mark.asyncio
async def test_it_gives_up_after_the_attempts_and_says_how_many():
    """The last error comes through with the number of attempts."""
    model, seen = always(errors.ServerFailed, status=503), []
    with pytest.raises(errors.ServerFailed, match=r"no \(after 4 attempts\)") as caught:
        await RetryingModel(
            model, attempts=4, sleep=Clock().sleep, on_failure=seen.append
        ).generate(ASK)
    assert caught.value.status == 503
    assert len(model.requests) == len(seen) == 4


@pytest.mark.asyncio
async def test_one_attempt_means_no_retry():
    """With attempts=1 the error is left as it is."""
    model = always(errors.TimedOut)
    with pytest.raises(errors.TimedOut, match=r"^no$"):
        await RetryingModel(model, attempts=1, sleep=Clock().sleep).generate(ASK)
    assert len(model.requests) == 1


@pytest.mark.asyncio
async def test_attempts_mean_what_they_say_where_nothing_listens():
    """A refused connection is tried as often as any failure, with short waits."""
    clock, model = Clock(), always(errors.NothingListening)
    with pytest.raises(errors.NothingListening, match="after 6 attempts"):
        await RetryingModel(model, attempts=6, sleep=clock.sleep).generate(ASK)
    assert len(model.requests) == 6
    assert sum(clock.waits) <= 3.1


def billed():
    """Return the error of an answer that cost half a dollar and could not be used."""
    error = errors.MalformedResponse("no")
    error.usage = Usage(calls=1, prompt_tokens=10, completion_tokens=1, cost=0.5)
    return error


@pytest.mark.asyncio
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


@pytest.mark.asyncio
async def test_what_was_paid_before_the_budget_was_reached_counts():
    """An unusable answer is billed, and the next attempt at its request is one too many."""
    model = ScriptedModel([billed(), errors.BudgetReached("the cost limit is reached")])
    metered = MeteredModel(RetryingModel(model, sleep=Clock().sleep))
    with pytest.raises(errors.BudgetReached):
        await metered.generate(ASK)
    assert metered.total.usage == Usage(calls=1, prompt_tokens=10, completion_tokens=1, cost=0.5)


@pytest.mark.asyncio
@pytest.mark.parametrize("asked", [0.0, 0.2, 7.0, 90.0])
async def test_the_wait_the_server_asks_for_is_kept(asked):
    """Never less than asked, and little more."""
    clock = Clock()
    model = ScriptedModel([errors.RateLimited("no", retry_after=asked), "fine"])
    await RetryingModel(model, sleep=clock.sleep).generate(ASK)
    assert asked <= clock.waits[0] <= 1.1 * asked + 0.05


@pytest.mark.asyncio
@given(failed=st.integers(1, 1000), seed=st.integers())
async def test_unasked_waits_double_up_to_a_minute(failed, seed):
    """Full jitter between nothing and the doubled ceiling, at most a minute."""
    model = RetryingModel(ScriptedModel(), rng=random.Random(seed))
    wait = model.wait_after(errors.ServerFailed("no"), failed)
    assert 0 <= wait <= min(MAX_WAIT, MIN_WAIT * 2 ** min(failed - 1, 20))


@pytest.mark.asyncio
async def test_it_does_not_begin_a_wait_that_passes_the_total_time():
    """A server that asks to wait an hour is given up at once."""
    clock, model = Clock(), always(errors.RateLimited, retry_after=3600.0)
    with pytest.raises(errors.RateLimited):
        await RetryingModel(model, total_timeout=600, sleep=clock.sleep).generate(ASK)
    assert clock.waits == []


@pytest.mark.asyncio
async def test_the_time_of_the_attempts_counts():
    """Slow failures use up the total time as well."""

    async def slow(request):
        await asyncio.sleep(0.06)
        return errors.ServerFailed("no", retry_after=0.0)

    model = ScriptedModel(slow)
    with pytest.raises(errors.ServerFailed):
        await RetryingModel(model, attempts=100, total_timeout=0.15).generate(ASK)
    assert len(model.requests) <= 3


@pytest.mark.asyncio
async def test_cancellation_is_prompt_and_never_retried():
    """Cancelling during a wait ends it, however long it is; no further attempt is made."""
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


@pytest.mark.asyncio
async def test_many_requests_at_once_keep_their_own_counts():
    """Attempts of one request are not those of another."""

    def odd(request):
        return errors.ServerFailed("no") if request.seed % 2 else "fine"

    model = ScriptedModel(odd)
    retrying = RetryingModel(model, attempts=3, sleep=lambda seconds: asyncio.sleep(0))

    async def ask(seed):
        try:
            return (await retrying.generate(Request(prompt="x", seed=seed))).samples[0].text
        except errors.ServerFailed as error:
            return str(error)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(seed)) for seed in range(40)]
    assert [t.result() for t in tasks] == ["fine", "no (after 3 attempts)"] * 20
    assert len(model.requests) == 20 + 60


@pytest.mark.asyncio
async def test_every_ability_is_retried():
    """Continuations and choices go through the same rule."""
    answers = iter([errors.ConnectionFailed("no"), [TokenLogprob(token=" b", logprob=-1.0)]])
    model = ScriptedModel(continuation=lambda request: next(answers))
    retrying = RetryingModel(model, sleep=Clock().sleep)
    assert (
        await retrying.continuation(ContinuationRequest(prompt="a", continuation=" b"))
    ).logprob == -1.0


@pytest.mark.asyncio
async def test_a_quick_answer_is_passed_on():
    """Nothing changes within the limit."""
    model = DeadlineModel(ScriptedModel(["fine"]), timeout=5)
    assert (await model.generate(ASK)).samples[0].text == "fine"


def test_a_hanging_server_is_given_up():
    """The request to the server ends with the attempt."""

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


@pytest.mark.asyncio
async def test_a_timeout_from_within_stays_what_it_is():
    """Only our own limit is translated."""
    model = DeadlineModel(ScriptedModel(lambda request: TimeoutError("theirs")), timeout=5)
    with pytest.raises(TimeoutError, match="theirs"):
        await model.generate(ASK)


@pytest.mark.asyncio
async def test_cancellation_is_not_a_timeout():
    """Cancelling from outside cancels."""

    async def hang(request):
        await asyncio.sleep(30)

    task = asyncio.create_task(DeadlineModel(ScriptedModel(hang), timeout=20).generate(ASK))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_each_attempt_has_its_own_deadline():
    """One timer serves them all: late ones are not given up early, and ended ones not at all."""

    async def main():
        loop = asyncio.get_running_loop()
        lasting = iter([60.0, 1e6, 3.0, 1e6, 25.0])

        async def hang(request):
            await asyncio.sleep(next(lasting))
            return "done"

        model = DeadlineModel(ScriptedModel(hang), timeout=20)

        async def ask(start):
            await asyncio.sleep(start)
            began = loop.time()
            try:
                await model.generate(ASK)
            except errors.TimedOut:
                return f"given up after {loop.time() - began:g}"
            return f"answered after {loop.time() - began:g}"

        asked = await asyncio.gather(*map(ask, (0, 5, 6, 100, 101)))
        late = "given up after 20"
        assert asked == [late, late, "answered after 3", late, late]

    run_virtual(main())


def test_the_next_event_loop_has_deadlines_of_its_own():
    """A model may be used in one loop after the other."""

    async def hang(request):
        await asyncio.sleep(1e6)

    model = DeadlineModel(ScriptedModel(hang), timeout=20)
    for _ in range(2):
        with pytest.raises(errors.TimedOut):
            run_virtual(model.generate(ASK))


def test_a_cancellation_in_the_turn_of_the_deadline_stays_one():
    """Whoever cancels a task at that moment sees it canceled."""

    async def main():
        async def hang(request):
            await asyncio.sleep(1e6)

        model = DeadlineModel(ScriptedModel(hang), timeout=20)
        task = asyncio.create_task(model.generate(ASK))
        asyncio.get_running_loop().call_later(20, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())


@pytest.mark.asyncio
async def test_no_limit():
    """None means that nothing is limited."""
    assert (await DeadlineModel(ScriptedModel(["fine"]), timeout=None).generate(ASK)).samples


def test_a_request_with_tokens_for_a_thought_may_take_longer() -> None:
    """As long as it may at most; others keep their limit."""

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
