"""What is asked again, how long it waits, and when it gives up."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime import errors
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.retry import MAX_WAIT, MIN_WAIT, RetryingModel
from textassay.runtime.calls.usage import MeteredModel
from textassay.runtime.messages import Usage
from textassay.runtime.model import ContinuationRequest, Request, Response, Sample, TokenLogprob

pytestmark = pytest.mark.asyncio

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


async def test_an_answer_is_passed_on():
    """Without a failure nothing is repeated."""
    model = ScriptedModel(["fine"])
    assert (await RetryingModel(model).generate(ASK)).samples[0].text == "fine"
    assert len(model.requests) == 1


@pytest.mark.parametrize("kind", TRANSIENT)
async def test_a_transient_error_is_asked_again(kind):
    """The answer after two failures is the answer."""
    clock = Clock()
    model = ScriptedModel([kind("no"), kind("no"), "fine"])
    response = await RetryingModel(model, sleep=clock.sleep).generate(ASK)
    assert response.samples[0].text == "fine"
    assert len(clock.waits) == 2


@pytest.mark.parametrize("kind", FINAL)
async def test_any_other_error_is_not(kind):
    """Refusals, fatal errors and wrong configuration come through at once, unchanged."""
    model = always(kind)
    with pytest.raises(kind, match=r"^no$"):
        await RetryingModel(model, sleep=Clock().sleep).generate(ASK)
    assert len(model.requests) == 1


async def test_a_foreign_error_is_not_asked_again():
    """A bug is not a transient failure."""
    model = ScriptedModel(lambda request: ZeroDivisionError("bug"))
    with pytest.raises(ZeroDivisionError):
        await RetryingModel(model, sleep=Clock().sleep).generate(ASK)
    assert len(model.requests) == 1


async def test_it_gives_up_after_the_attempts_and_says_how_many():
    """The last error comes through with the number of attempts."""
    model, seen = always(errors.ServerFailed, status=503), []
    with pytest.raises(errors.ServerFailed, match=r"no \(after 4 attempts\)") as caught:
        await RetryingModel(
            model, attempts=4, sleep=Clock().sleep, on_failure=seen.append
        ).generate(ASK)
    assert caught.value.status == 503
    assert len(model.requests) == len(seen) == 4


async def test_one_attempt_means_no_retry():
    """With attempts=1 the error is left as it is."""
    model = always(errors.TimedOut)
    with pytest.raises(errors.TimedOut, match=r"^no$"):
        await RetryingModel(model, attempts=1, sleep=Clock().sleep).generate(ASK)
    assert len(model.requests) == 1


async def test_attempts_mean_what_they_say_where_nothing_listens():
    """A refused connection is tried as often as any failure, with short waits: a wrong address says
    so at once."""
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


async def test_what_unusable_answers_cost_is_part_of_the_usage():
    """An answer that was billed and could not be used counts, whether or not a later attempt
    succeeds."""
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
    """An unusable answer is billed, and the next attempt at its request is one too many."""
    model = ScriptedModel([billed(), errors.BudgetReached("the cost limit is reached")])
    metered = MeteredModel(RetryingModel(model, sleep=Clock().sleep))
    with pytest.raises(errors.BudgetReached):
        await metered.generate(ASK)
    assert metered.total.usage == Usage(calls=1, prompt_tokens=10, completion_tokens=1, cost=0.5)


@pytest.mark.parametrize("asked", [0.0, 0.2, 7.0, 90.0])
async def test_the_wait_the_server_asks_for_is_kept(asked):
    """Never less than asked, and little more."""
    clock = Clock()
    model = ScriptedModel([errors.RateLimited("no", retry_after=asked), "fine"])
    await RetryingModel(model, sleep=clock.sleep).generate(ASK)
    assert asked <= clock.waits[0] <= 1.1 * asked + 0.05


@given(failed=st.integers(1, 1000), seed=st.integers())
async def test_unasked_waits_double_up_to_a_minute(failed, seed):
    """Full jitter between nothing and the doubled ceiling, at most a minute."""
    model = RetryingModel(ScriptedModel(), rng=random.Random(seed))
    wait = model.wait_after(errors.ServerFailed("no"), failed)
    assert 0 <= wait <= min(MAX_WAIT, MIN_WAIT * 2 ** min(failed - 1, 20))


async def test_it_does_not_begin_a_wait_that_passes_the_total_time():
    """A server that asks to wait an hour is given up at once."""
    clock, model = Clock(), always(errors.RateLimited, retry_after=3600.0)
    with pytest.raises(errors.RateLimited):
        await RetryingModel(model, total_timeout=600, sleep=clock.sleep).generate(ASK)
    assert clock.waits == []


async def test_the_time_of_the_attempts_counts():
    """Slow failures use up the total time as well."""

    async def slow(request):
        await asyncio.sleep(0.06)
        return errors.ServerFailed("no", retry_after=0.0)

    model = ScriptedModel(slow)
    with pytest.raises(errors.ServerFailed):
        await RetryingModel(model, attempts=100, total_timeout=0.15).generate(ASK)
    assert len(model.requests) <= 3


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


async def test_every_ability_is_retried():
    """Continuations and choices go through the same rule."""
    answers = iter([errors.ConnectionFailed("no"), [TokenLogprob(token=" b", logprob=-1.0)]])
    model = ScriptedModel(continuation=lambda request: next(answers))
    retrying = RetryingModel(model, sleep=Clock().sleep)
    assert (
        await retrying.continuation(ContinuationRequest(prompt="a", continuation=" b"))
    ).logprob == -1.0
