"""Sharing: what is wanted by several at once is done once, whoever of them is cancelled."""

import asyncio
import traceback

import pytest

from tests.runtime.counting import PAID, CountingModel
from textassay.runtime.calls.cache import CachedModel, StoringModel
from textassay.runtime.calls.single_flight import SharedModel, once
from textassay.runtime.calls.usage import MeteredModel
from textassay.runtime.errors import RateLimited, ServerFailed
from textassay.runtime.messages import Usage
from textassay.runtime.model import ChoicesRequest, ContinuationRequest, Request
from textassay.runtime.storage.answers import DiskStore

FREE = Usage(cached_calls=1)
ASKED = Request(prompt="Rate it.")


async def turns(count: int = 5) -> None:
    """Let all other tasks run until they wait."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_equal_requests_in_flight_are_asked_once():
    """One of ten pays, all get the same samples; other requests and later ones are asked."""
    model = CountingModel(waits=True)
    shared = SharedModel(model)
    tasks = [asyncio.create_task(shared.generate(ASKED)) for _ in range(10)]
    other = asyncio.create_task(shared.generate(Request(prompt="Rate it!")))
    await turns()
    assert len(model.asked) == 2
    model.gate.set()
    responses = [await task for task in tasks]
    assert [r.usage for r in responses] == [PAID] + [FREE] * 9
    assert {r.samples[0].text for r in responses} == {"answer 1"}
    assert (await other).usage == PAID
    assert (await shared.generate(ASKED)).usage == PAID
    assert len(model.asked) == 3


@pytest.mark.asyncio
async def test_other_kinds_are_shared_too():
    """Choices and continuations of the same prompt are shared among themselves."""
    model = CountingModel(waits=True)
    shared = SharedModel(model)
    choices = ChoicesRequest(prompt="p", choices={"yes": ("yes",)})
    continuation = ContinuationRequest(prompt="p", continuation="yes")
    tasks = [asyncio.create_task(shared.choices(choices)) for _ in range(2)]
    tasks += [asyncio.create_task(shared.continuation(continuation)) for _ in range(2)]
    await turns()
    model.gate.set()
    assert [(await task).usage for task in tasks] == [PAID, FREE, PAID, FREE]


@pytest.mark.asyncio
async def test_a_cancelled_leader_hands_over():
    """Exactly one of the others pays, for a request that it makes anew."""
    model = CountingModel(waits=True)
    shared = SharedModel(model)
    leader, *others = [asyncio.create_task(shared.generate(ASKED)) for _ in range(4)]
    await turns()
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    await turns()
    others.append(asyncio.create_task(shared.generate(ASKED)))
    await turns()
    model.gate.set()
    assert [(await task).usage for task in others] == [PAID] + [FREE] * 3
    assert (len(model.asked), model.cancelled) == (2, 1)


@pytest.mark.asyncio
async def test_a_leader_that_is_cancelled_while_its_answer_is_kept_has_asked_for_all(tmp_path):
    """The answer is paid for: the others find it where it is kept."""
    model = CountingModel(waits=True)
    async with DiskStore(tmp_path) as store:
        cached = CachedModel(SharedModel(StoringModel(model, store), store), store)
        leader, *others = [asyncio.create_task(cached.generate(ASKED)) for _ in range(3)]
        await turns()
        model.gate.set()
        # its next turn ends in `put`, which a cancellation does not interrupt
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leader.cancel()
        await asyncio.wait([leader])
        assert leader.cancelled()
        assert [(await task).samples[0].text for task in others] == ["answer 1"] * 2
    assert len(model.asked) == 1


@pytest.mark.asyncio
async def test_cancelling_one_that_joined_leaves_the_others():
    """The request goes on for those that are left."""
    model = CountingModel(waits=True)
    shared = SharedModel(model)
    tasks = [asyncio.create_task(shared.generate(ASKED)) for _ in range(3)]
    await turns()
    tasks[1].cancel()
    await turns()
    assert tasks[1].cancelled()
    model.gate.set()
    assert [(await tasks[0]).usage, (await tasks[2]).usage] == [PAID, FREE]
    assert (len(model.asked), model.cancelled) == (1, 0)


@pytest.mark.asyncio
async def test_the_last_one_to_be_cancelled_cancels_the_request():
    """Nobody waits any more: the request ends before the cancellation is over."""
    model = CountingModel(waits=True)
    shared = SharedModel(model)
    tasks = [asyncio.create_task(shared.generate(ASKED)) for _ in range(3)]
    await turns()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert model.cancelled == len(model.asked) == 1
    assert len(asyncio.all_tasks()) == 1
    model.gate.set()
    assert (await shared.generate(ASKED)).usage == PAID


@pytest.mark.asyncio
async def test_a_failure_reaches_everyone_and_is_forgotten():
    """All that wait get the same exception, whose traceback does not grow with their number."""
    model = CountingModel(waits=True)
    model.error = ServerFailed("503", retry_after=2.0)
    shared = SharedModel(model)
    tasks = [asyncio.create_task(shared.generate(ASKED)) for _ in range(50)]
    await turns()
    model.gate.set()
    await asyncio.wait(tasks)
    assert {id(task.exception()) for task in tasks} == {id(model.error)}
    assert len(list(traceback.walk_tb(model.error.__traceback__))) < 12
    model.error = None
    assert (await shared.generate(ASKED)).usage == PAID


@pytest.mark.asyncio
async def test_a_failure_is_paid_for_once():
    """An answer that cannot be used is billed once, however many callers its error reaches."""
    model = CountingModel(waits=True)
    model.error = RateLimited("429", retry_after=2.0)
    model.error.usage = PAID
    metered = MeteredModel(SharedModel(model))
    tasks = [asyncio.create_task(metered.generate(ASKED)) for _ in range(3)]
    await turns()
    model.gate.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert metered.total.usage == PAID
    assert sorted(error.usage is None for error in errors) == [False, True, True]
    assert [(str(error), error.retry_after) for error in errors] == [("429", 2.0)] * 3


@pytest.mark.asyncio
async def test_an_error_that_a_cancellation_became_does_not_reach_the_others():
    """Some clients report a canceled request as a failed connection."""

    class Careless(CountingModel):
        async def generate(self, request):
            try:
                return await super().generate(request)
            except asyncio.CancelledError:
                raise ServerFailed("closed") from None

    model = Careless(waits=True)
    shared = SharedModel(model)
    leader, other = (asyncio.create_task(shared.generate(ASKED)) for _ in range(2))
    await turns()
    leader.cancel()
    await asyncio.wait([leader])
    model.gate.set()
    assert (await other).usage == PAID


@pytest.mark.asyncio
async def test_cache_around_sharing_never_asks_twice(tmp_path):
    model = CountingModel(waits=True)
    async with DiskStore(tmp_path) as store:
        cached = CachedModel(SharedModel(StoringModel(model, store)), store)
        tasks = [asyncio.create_task(cached.generate(ASKED))]
        await turns()
        model.gate.set()
        while not tasks[0].done():
            tasks.append(asyncio.create_task(cached.generate(ASKED)))
            await asyncio.sleep(0)
        usages = [(await task).usage for task in tasks]
    assert len(model.asked) == 1
    assert len(tasks) > 3
    assert sorted(usages, key=lambda usage: -usage.calls) == [PAID] + [FREE] * (len(tasks) - 1)


class Steps:
    """An agent that writes down what it was called with, and waits for the test."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.gate = asyncio.Event()
        self.fails = False

    async def __call__(self, aspect: str, *, language: str = "en") -> str:
        self.calls.append(aspect)
        await self.gate.wait()
        if self.fails:
            raise ServerFailed("503")
        return f"steps for {aspect} in {language}"


@pytest.mark.asyncio
async def test_an_agent_is_called_once_for_equal_arguments():
    """Calls at once and calls later share one result; other arguments have their own."""
    agent = Steps()
    memo = once(agent)
    tasks = [asyncio.create_task(memo("coherence")) for _ in range(5)]
    tasks.append(asyncio.create_task(memo("fluency", language="de")))
    await turns()
    agent.gate.set()
    assert [await task for task in tasks] == ["steps for coherence in en"] * 5 + [
        "steps for fluency in de"
    ]
    assert await memo("coherence") == "steps for coherence in en"
    assert agent.calls == ["coherence", "fluency"]


@pytest.mark.asyncio
async def test_an_agent_that_failed_is_called_again():
    """Those that wait together fail together; the failure is not remembered."""
    agent = Steps()
    agent.fails = True
    memo = once(agent)
    tasks = [asyncio.create_task(memo("coherence")) for _ in range(2)]
    await turns()
    agent.gate.set()
    await asyncio.wait(tasks)
    assert [type(task.exception()) for task in tasks] == [ServerFailed] * 2
    agent.fails = False
    assert await memo("coherence") == "steps for coherence in en"
    assert len(agent.calls) == 2


@pytest.mark.asyncio
async def test_cancelling_one_caller_of_an_agent_leaves_the_others():
    """The second caller makes the call anew."""
    agent = Steps()
    memo = once(agent)
    first, second = (asyncio.create_task(memo("coherence")) for _ in range(2))
    await turns()
    first.cancel()
    await turns()
    assert first.cancelled()
    agent.gate.set()
    assert await second == "steps for coherence in en"
    assert len(agent.calls) == 2


@pytest.mark.asyncio
async def test_arguments_that_cannot_be_remembered_are_an_error():
    """A list is not hashable, and is told of rather than asked each time."""
    memo = once(Steps())
    with pytest.raises(TypeError, match="unhashable"):
        await memo(["coherence"])
