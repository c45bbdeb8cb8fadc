"""What a failed call means for the run, and for the endpoint that it was sent to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from tests.virtual_time import run_virtual, virtual
from textassay.runtime import errors
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.endpoints import EndpointsModel, EndpointState
from textassay.runtime.calls.health import PROBE, Health, HealthModel
from textassay.runtime.calls.limits import LimitedModel, Limiter
from textassay.runtime.model import ChoicesRequest, Request

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
async def test_what_the_last_probe_is_told_fails_nobody_who_waits(last):
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


def test_a_text_that_makes_the_server_fail_is_no_outage():
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
    with pytest.raises(errors.ServerUnusable, match=r"the last 5 calls .* the last: no"):
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
    """The task that probes ends by itself, and its failure is nobody's warning."""
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
