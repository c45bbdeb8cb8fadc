"""What is asked again, how long one attempt may take, and what a failed call means for the run."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from examples.mock_server import Options, serve
from tests.loopback import listening
from tests.virtual_time import run_skipping, run_virtual, virtual
from tests.waiting import eventually
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.calls.budget import MeteredModel
from textassay.runtime.calls.call import Call, Posting
from textassay.runtime.calls.endpoints import EndpointsModel, EndpointState
from textassay.runtime.calls.limits import LimitedModel, Limiter
from textassay.runtime.calls.retry import (
    MAX_WAIT,
    MIN_WAIT,
    PROBE,
    DeadlineModel,
    Health,
    HealthModel,
    RetryingModel,
)
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    ContinuationRequest,
    Request,
    Response,
    Sample,
    TokenLogprob,
)

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


async def test_the_cost_of_unusable_answers_is_part_of_the_usage():
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


async def test_costs_before_the_budget_was_reached_count():
    model = ScriptedModel([billed(), errors.BudgetReached("the cost limit is reached")])
    metered = MeteredModel(RetryingModel(model, sleep=Clock().sleep))
    with pytest.raises(errors.BudgetReached):
        await metered.generate(ASK)
    assert metered.total.usage == Usage(calls=1, prompt_tokens=10, completion_tokens=1, cost=0.5)


async def test_an_answer_that_lacks_log_probabilities_was_paid_for_too():
    lacking = errors.NoLogprobs("none")
    lacking.usage = Usage(calls=1, prompt_tokens=10, completion_tokens=1, cost=0.5)
    metered = MeteredModel(RetryingModel(ScriptedModel([billed(), lacking]), sleep=Clock().sleep))
    with pytest.raises(errors.NoLogprobs):
        await metered.generate(ASK)
    assert metered.total.usage == Usage(calls=2, prompt_tokens=20, completion_tokens=2, cost=1.0)


@pytest.mark.parametrize("asked", [0.2, 7.0, 90.0])
async def test_the_wait_the_server_asks_for_is_kept(asked):
    clock = Clock()
    model = ScriptedModel([errors.RateLimited("no", retry_after=asked), "fine"])
    await RetryingModel(model, sleep=clock.sleep).generate(ASK)
    assert asked <= clock.waits[0] <= 1.1 * asked + 0.05


@pytest.mark.parametrize("asked", [None, 0.0])
async def test_a_limit_that_names_no_wait_is_waited_for(asked):
    """Resets in whole seconds come to 0 before the limit has room; six attempts took a second."""
    clock = Clock()
    model = ScriptedModel([errors.RateLimited("no", retry_after=asked)] * 5 + ["fine"])
    await RetryingModel(model, sleep=clock.sleep).generate(ASK)
    assert sum(clock.waits) > 30


@given(failed=st.integers(1, 1000), seed=st.integers())
async def test_unasked_waits_double_up_to_a_minute(failed, seed):
    model = RetryingModel(ScriptedModel(), rng=random.Random(seed))
    wait = model.wait_after(errors.ServerFailed("no"), failed)
    assert 0 <= wait <= min(MAX_WAIT, MIN_WAIT * 2 ** min(failed - 1, 20))


@given(st.integers())
async def test_six_attempts_at_a_limit_that_says_nothing_take_more_than_a_minute(seed):
    clock, model = Clock(), always(errors.RateLimited)
    retrying = RetryingModel(model, sleep=clock.sleep, rng=random.Random(seed))
    with pytest.raises(errors.RateLimited):
        await retrying.generate(ASK)
    assert len(clock.waits) == 5
    assert clock.waits[0] <= 0.5, "limits by the second are tried again soon"
    assert 60 < sum(clock.waits) < 180


@given(
    st.lists(st.sampled_from([None, 0.2, errors.ServerFailed("no")]), min_size=5, max_size=5),
    st.integers(),
)
async def test_only_limits_in_a_row_that_say_nothing_lengthen_the_waits(said, seed):
    """A server that turns single calls away does not make them wait for a minute."""
    clock = Clock()
    failures = [
        one if isinstance(one, Exception) else errors.RateLimited("no", retry_after=one)
        for one in said
    ]
    retrying = RetryingModel(
        ScriptedModel([*failures, "fine"]), sleep=clock.sleep, rng=random.Random(seed)
    )
    await retrying.generate(ASK)
    in_a_row = 0
    for number, (one, wait) in enumerate(zip(said, clock.waits, strict=True)):
        in_a_row = in_a_row + 1 if one is None else 0
        if one == 0.2:
            assert 0.2 <= wait <= 0.27 + 1e-9
        elif in_a_row > 1:
            longest = min(MAX_WAIT, MIN_WAIT * 5 ** (in_a_row - 1))
            assert longest / 2 <= wait <= longest
        else:
            assert 0 <= wait <= MIN_WAIT * 2**number


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


async def test_a_quick_answer_is_passed_on():
    model = DeadlineModel(ScriptedModel(["fine"]), timeout=5, thinking_timeout=5)
    assert (await model.generate(ASK)).samples[0].text == "fine"


def test_a_hanging_server_is_given_up():
    async def main(loop):
        async with serve(Options(p_hang=1, hang_s=1e6)) as server:
            model = DeadlineModel(
                DirectModel("direct/m", api_base=server.url), timeout=20, thinking_timeout=20
            )
            task = asyncio.create_task(model.generate(ASK))
            await eventually(lambda: server.counters.faults == {"hang": 1})
            loop.skip(20)
            with pytest.raises(errors.TimedOut, match=r"direct/m within 20 s"):
                await task
            await eventually(lambda: server.counters.in_flight == 0)
            await model.aclose()

    run_skipping(main)


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (DirectModel, "direct/m"),
        (LiteLLMModel, "openai/m"),
        (LiteLLMModel, "text-completion-openai/m"),
        (LiteLLMModel, "hosted_vllm/m"),
        (LiteLLMModel, "azure/m"),  # through a client of litellm's own
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_limit_of_half_an_hour_is_the_same_for_each_road(backend, name):
    """litellm's own default is 600 s."""
    load_litellm()
    ask = Request(messages=(ChatMessage(role="user", content="x"),))

    async def main(loop):
        arrived = asyncio.Event()

        async def hang(request: web.Request) -> web.Response:
            arrived.set()
            await asyncio.sleep(1e6)
            raise AssertionError("never reached")

        async with listening(hang) as url:
            backed = backend(name, api_base=url, api_key="k")
            model = DeadlineModel(backed, timeout=1800, thinking_timeout=1800)
            task = asyncio.create_task(model.generate(ask))
            await eventually(lambda: arrived.is_set() or task.done())
            loop.skip(1700)
            for _ in range(100):  # whatever is due by then has happened
                await asyncio.sleep(0)
            assert not task.done()
            loop.skip(100)
            with pytest.raises(errors.TimedOut, match=f"{name} within 1800 s"):
                await task
            await model.aclose()

    run_skipping(main)


async def test_a_timeout_from_within_stays_what_it_is():
    model = DeadlineModel(
        ScriptedModel(lambda request: TimeoutError("theirs")), timeout=5, thinking_timeout=5
    )
    with pytest.raises(TimeoutError, match="theirs"):
        await model.generate(ASK)


@virtual
async def test_each_attempt_has_its_own_deadline():
    """One timer serves them all: late ones are not given up early, and ended ones not at all."""
    loop = asyncio.get_running_loop()
    lasting = iter([60.0, 1e6, 3.0, 1e6, 25.0])
    slow = ScriptedModel(lambda _: asyncio.sleep(next(lasting), "done"))
    model = DeadlineModel(slow, timeout=20, thinking_timeout=20)

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
    model = DeadlineModel(ScriptedModel(hang), timeout=20, thinking_timeout=20)
    for _ in range(2):
        with pytest.raises(errors.TimedOut):
            run_virtual(model.generate(ASK))


@pytest.mark.parametrize("seconds", [1, 20])
@virtual
async def test_a_cancellation_is_not_a_timeout_not_even_in_the_turn_of_the_deadline(seconds):
    model = DeadlineModel(ScriptedModel(hang), timeout=20, thinking_timeout=20)
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
        answer = await model.send(Call(ASK, Posting(allowance=4096)))
        assert isinstance(answer, Response)
        assert answer.samples[0].text == "fine"
        with pytest.raises(errors.TimedOut, match="within 20 s"):
            await model.generate(ASK)

    run_virtual(main())


POISON = "DROP TABLE"


def model_of(
    reply: Callable[[Request], object], **settings: float
) -> tuple[HealthModel, ScriptedModel]:
    scripted = ScriptedModel(reply)
    return HealthModel(scripted, once=scripted, health=Health(**settings)), scripted


def blocked(kind: type[errors.FatalModelError] = errors.AuthenticationFailed) -> errors.ModelError:
    error = kind("403 Forbidden")
    error.may_be_text = True
    return error


async def outcomes(model: HealthModel, texts: list[str]) -> list[str]:
    """The class of each request's error, or its answer, one after the other."""
    found = []
    for text in texts:
        try:
            found.append((await model.generate(Request(prompt=text))).samples[0].text)
        except errors.ModelError as error:
            found.append(type(error).__name__)
    return found


@pytest.mark.parametrize("kind", [errors.AuthenticationFailed, errors.ModelNotFound])
def test_a_refusal_that_one_text_provokes_is_that_texts_error(kind):
    """A harmless request is answered, so the run goes on; before, it stopped there for ever."""
    model, _ = model_of(lambda r: blocked(kind) if POISON in r.text else "fine")
    found = asyncio.run(outcomes(model, ["a", POISON, "b", POISON, "c"]))
    assert found == ["fine", "RequestRefused", "fine", "RequestRefused", "fine"]


@pytest.mark.parametrize(
    ("error", "asked"),
    [(blocked(), ["a", PROBE]), (errors.AuthenticationFailed("401 and no 403 Forbidden"), ["a"])],
)
def test_a_refusal_of_everything_stops_the_run_with_its_own_error(error, asked):
    """What cannot come from the text, such as a wrong key, needs no probe."""
    model, scripted = model_of(lambda r: error)
    with pytest.raises(errors.AuthenticationFailed, match="403 Forbidden"):
        asyncio.run(model.generate(Request(prompt="a")))
    assert [r.text for r in scripted.requests] == asked


async def ask_in_an_outage(reply: Callable[[Request], object]) -> tuple[object, ScriptedModel]:
    """Return the outcomes of fifty calls of which the first begins in the second second."""
    model, scripted = model_of(reply)
    await outcomes(model, ["a"])
    await asyncio.sleep(2)
    return await asyncio.gather(*(outcomes(model, [f"b{i}"]) for i in range(50))), scripted


@virtual
async def test_a_server_that_answered_before_is_waited_for():
    loop = asyncio.get_running_loop()
    began = loop.time()

    def reply(request):
        return errors.NothingListening("no") if 1 < loop.time() - began < 7 else "fine"

    rest, scripted = await ask_in_an_outage(reply)
    assert rest == [["fine"]] * 50
    probes = [r for r in scripted.requests if r.text == PROBE]
    assert len(probes) == 4, "one caller probes for all: after 0, 1, 3 and 7 seconds"
    assert loop.time() - began < 12


@pytest.mark.parametrize(
    "last",
    [
        errors.RateLimited("429"),
        errors.MalformedResponse("<html>starting</html>"),
        errors.RequestRefused("400"),
        errors.ModelNotFound("404"),
    ],
    ids=lambda error: type(error).__name__,
)
@virtual
async def test_an_answer_to_the_last_probe_fails_no_waiting_request(last):
    """A server that comes back may say so with a rate limit, or its gateway with a page."""
    loop = asyncio.get_running_loop()
    began, told = loop.time(), []

    def reply(request):
        if 1 < loop.time() - began < 7:
            return errors.ServerFailed("503")
        if request.text == PROBE and not told:
            told.append(last)
            return last
        return "fine"

    rest, _ = await ask_in_an_outage(reply)
    assert told == [last]
    assert rest == [["fine"]] * 50


@pytest.mark.parametrize("kind", [errors.NothingListening, errors.ServerFailed, errors.TimedOut])
@virtual
async def test_an_outage_without_end_stops_the_run(kind):
    loop = asyncio.get_running_loop()
    model, scripted = model_of(
        lambda r: kind("down") if scripted.requests[1:] else "fine", outage_wait=60
    )
    await model.generate(Request(prompt="a"))
    began = loop.time()
    with pytest.raises(errors.ServerUnusable, match="outage_wait") as caught:
        await model.generate(Request(prompt="b"))
    assert caught.value.stops_run
    assert loop.time() - began == pytest.approx(60)
    assert len(scripted.requests) < 12, "the pauses between probes grow"


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("calls", [2, 8, 64])
@virtual
async def test_calls_that_were_in_flight_when_a_gateway_began_to_fail_are_waited_for(calls, status):
    """Though others were answered since they were begun, as new calls were refused already."""
    loop, health = asyncio.get_running_loop(), Health()
    began = loop.time()

    async def reply(request):
        down = 2 < loop.time() - began < 60
        await asyncio.sleep(0.01 if down else 1.5)
        return errors.ServerFailed(str(status), status=status) if down else "fine"

    scripted = ScriptedModel(reply)
    model = HealthModel(RetryingModel(scripted), once=scripted, health=health)
    queue = iter(range(8 * calls))

    async def work():
        return [await outcomes(model, [f"t{n}"]) for n in queue]

    found = await asyncio.gather(*(work() for _ in range(calls)))
    assert {answer for worker in found for [answer] in worker} == {"fine"}
    assert sum(map(len, found)) == 8 * calls


@virtual
async def test_a_text_that_fails_among_others_that_are_answered_is_its_own_error():
    async def reply(request):
        await asyncio.sleep(0.5)
        return errors.ServerFailed("500") if POISON in request.text else "fine"

    scripted = ScriptedModel(reply)
    model = HealthModel(RetryingModel(scripted), once=scripted, health=Health())
    texts = [["a", POISON], *([f"b{i}"] * 40 for i in range(4))]
    found = await asyncio.gather(*(outcomes(model, one) for one in texts))
    assert found[0] == ["fine", "ServerFailed"]
    assert PROBE not in [request.text for request in scripted.requests]


@virtual
async def test_a_second_outage_is_waited_for_too():
    """And a text that brings the server down each time is given up."""
    loop = asyncio.get_running_loop()
    began, crashed_at = loop.time(), [-100.0]

    def reply(request):
        now = loop.time() - began
        if POISON in request.text:
            crashed_at[0] = now
        if 1 < now < 9 or 10 < now < 30 or now - crashed_at[0] < 5:
            return errors.ServerFailed("503", status=503)
        return "fine"

    model, scripted = model_of(reply)
    await outcomes(model, ["a"])
    await asyncio.sleep(2)
    assert await outcomes(model, ["b"]) == ["fine"]
    assert await outcomes(model, [POISON, "c"]) == ["ServerFailed", "fine"]
    assert sum(POISON in request.text for request in scripted.requests) == 4


@pytest.mark.parametrize("kind", [errors.PageAnswered, errors.PathNotFound])
def test_a_page_in_place_of_a_model_stops_at_the_second(kind):
    """Later, a gateway may show one while what is behind it starts again."""
    health = Health()
    scripted = ScriptedModel(lambda r: kind("a page; ends in /v1"))
    retrying = RetryingModel(scripted, gives_up=health.finds_no_model, sleep=Clock().sleep)
    model = HealthModel(retrying, once=scripted, health=health)
    with pytest.raises(errors.ModelNotFound, match="/v1"):
        asyncio.run(model.generate(Request(prompt="a")))
    assert len(scripted.requests) == 2


async def test_a_gateway_that_answers_one_odd_body_first_stops_no_run():
    health = Health()
    scripted = ScriptedModel([errors.PageAnswered("Starting"), "fine"])
    retrying = RetryingModel(scripted, gives_up=health.finds_no_model, sleep=Clock().sleep)
    assert await outcomes(HealthModel(retrying, once=scripted, health=health), ["a"]) == ["fine"]


@pytest.mark.parametrize("kind", [errors.PageAnswered, errors.PathNotFound])
@virtual
async def test_a_page_between_answers_is_waited_for(kind):
    loop, health = asyncio.get_running_loop(), Health()
    began = loop.time()

    def reply(request):
        return kind("page") if 1 < loop.time() - began < 60 else "fine"

    scripted = ScriptedModel(reply)
    retrying = RetryingModel(scripted, gives_up=health.finds_no_model)
    model = HealthModel(retrying, once=scripted, health=health)
    assert await outcomes(model, ["a"]) == ["fine"]
    await asyncio.sleep(2)
    assert await outcomes(model, ["b"]) == ["fine"]


@virtual
async def test_a_path_that_never_answered_is_not_waited_for():
    """A server of chats may have no path for plain prompts."""
    health = Health()
    scripted = ScriptedModel(lambda r: "fine" if r.messages else errors.PathNotFound("404; /v1"))
    retrying = RetryingModel(scripted, gives_up=health.finds_no_model)
    model = HealthModel(retrying, once=scripted, health=health)
    chat = Request(messages=(ChatMessage(role="user", content="a"),))
    assert (await model.generate(chat)).samples[0].text == "fine"
    with pytest.raises(errors.ModelNotFound, match="/v1"):
        await model.generate(Request(prompt="a"))
    assert (await model.generate(chat)).samples[0].text == "fine"
    assert len(scripted.requests) == 4


def test_a_text_that_makes_the_server_fail_is_not_an_outage():
    model, scripted = model_of(lambda r: errors.ServerFailed("500") if POISON in r.text else "fine")
    found = run_virtual(outcomes(model, ["a", POISON, "b"]))
    assert found == ["fine", "ServerFailed", "fine"]
    assert [r.text for r in scripted.requests] == ["a", POISON, PROBE, POISON, "b"]


@pytest.mark.parametrize(
    "kind", [errors.ServerFailed, errors.MalformedResponse, errors.RateLimited]
)
def test_a_server_that_never_answers_is_not_asked_to_the_very_end(kind):
    model, scripted = model_of(lambda r: kind("no"), failure_limit=5)
    found = asyncio.run(outcomes(model, ["x"] * 4))
    assert found == [kind.__name__] * 4
    with pytest.raises(errors.ServerUnusable, match=r"5 calls .* in a row; the last error: no"):
        asyncio.run(model.generate(Request(prompt="x")))
    assert len(scripted.requests) == 5


def test_refusals_of_all_texts_stop_the_run_and_refusals_of_some_do_not():
    refused = errors.RequestRefused("no such parameter")
    model, _ = model_of(lambda r: refused, failure_limit=3)
    assert asyncio.run(outcomes(model, ["x"] * 3))[-1] == "ServerUnusable"
    model, _ = model_of(lambda r: "fine" if r.text == PROBE else refused, failure_limit=3)
    assert asyncio.run(outcomes(model, ["x"] * 7)) == ["RequestRefused"] * 7


def test_an_answer_in_between_starts_the_count_anew():
    model, scripted = model_of(
        lambda r: errors.RateLimited("no") if len(scripted.requests) % 3 else "fine",
        failure_limit=3,
    )
    assert set(asyncio.run(outcomes(model, ["x"] * 30))) == {"fine", "RateLimited"}


def test_the_probe_is_of_the_same_kind_as_the_request():
    scripted = ScriptedModel(choices=lambda r: blocked() if POISON in r.text else {"yes": -0.1})
    model = HealthModel(scripted, once=scripted, health=Health())
    with pytest.raises(errors.RequestRefused):
        asyncio.run(model.choices(ChoicesRequest(prompt=POISON, choices={"yes": ("yes",)})))
    assert isinstance(scripted.requests[-1], ChoicesRequest)


@virtual
async def test_cancelling_all_who_wait_leaves_nothing_behind():
    """The probing task ends, and its failure does not become an unhandled exception."""
    model, scripted = model_of(
        lambda r: errors.NothingListening("no") if scripted.requests[1:] else "fine",
        outage_wait=5,
    )
    await model.generate(Request(prompt="a"))
    task = asyncio.create_task(model.generate(Request(prompt="b")))
    await asyncio.sleep(1.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(10)
    assert (model.health.outage, len(asyncio.all_tasks())) == (None, 1)


@virtual
async def test_nothing_waits_for_an_endpoint_that_asked_to_wait_for_minutes() -> None:
    """The other is full most of the time, and answers everything all the same."""
    asked: Counter[int] = Counter()
    loop = asyncio.get_running_loop()
    began = loop.time()

    def model(number: int) -> tuple[LimitedModel, EndpointState]:
        limiter = Limiter(rpm=None, tpm=None, concurrency=4)

        async def reply(request: Request) -> object:
            asked[number] += 1
            if number == 1:
                return errors.RateLimited("429", retry_after=300.0)
            await asyncio.sleep(1)
            return "fine"

        return LimitedModel(ScriptedModel(reply), limiter), EndpointState(number, limiter, 1.0)

    models, states = zip(*map(model, (1, 2)), strict=True)
    both = EndpointsModel(models, states)

    async def caller(name: int) -> None:
        for number in range(10):
            await both.generate(Request(prompt=f"{name}/{number}"))

    await asyncio.gather(*map(caller, range(8)))
    assert loop.time() - began < 60
    assert asked[2] == 80


@pytest.mark.parametrize("kind", [errors.PageAnswered, errors.PathNotFound, errors.ServerFailed])
@virtual
async def test_an_endpoint_that_answers_with_a_page_is_rested(kind):
    limiters = [Limiter(rpm=None, tpm=None, concurrency=4) for _ in range(2)]
    models = [ScriptedModel(lambda r: kind("page")), ScriptedModel(lambda r: "fine")]
    states = [EndpointState(number, limiter, 1.0) for number, limiter in enumerate(limiters)]
    both = EndpointsModel(list(map(LimitedModel, models, limiters)), states)
    assert await outcomes(both, map(str, range(20))) == ["fine"] * 20
    assert len(models[0].requests) < 5
