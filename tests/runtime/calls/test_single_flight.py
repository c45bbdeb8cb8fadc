"""Sharing: what is wanted by several at once is done once, whoever of them is cancelled."""

import asyncio

import pytest

from tests.runtime.counting import PAID, CountingModel
from textassay.runtime.calls.cache import CachedModel
from textassay.runtime.calls.single_flight import SharedModel, once
from textassay.runtime.errors import ServerFailed
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
    """One of the others asks anew and pays; the one that was asked in vain has ended by then."""
    model = CountingModel(waits=True)
    shared = SharedModel(model)
    leader, *others = [asyncio.create_task(shared.generate(ASKED)) for _ in range(4)]
    await turns()
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    assert model.cancelled == 1
    await turns()
    others.append(asyncio.create_task(shared.generate(ASKED)))
    await turns()
    model.gate.set()
    assert [(await task).usage for task in others] == [PAID] + [FREE] * 3
    assert len(model.asked) == 2


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
    assert len(model.asked) == 1
    assert not model.cancelled


@pytest.mark.asyncio
async def test_if_all_are_cancelled_nothing_is_left():
    """Nothing goes on when the cancellations are over, and the next request is asked."""
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
    """All that wait get the same exception; the next request is asked."""
    model = CountingModel(waits=True)
    model.error = ServerFailed("503", retry_after=2.0)
    shared = SharedModel(model)
    tasks = [asyncio.create_task(shared.generate(ASKED)) for _ in range(3)]
    await turns()
    model.gate.set()
    await asyncio.wait(tasks)
    assert {id(task.exception()) for task in tasks} == {id(model.error)}
    model.error = None
    assert (await shared.generate(ASKED)).usage == PAID


@pytest.mark.asyncio
async def test_cache_around_sharing_never_asks_twice(tmp_path):
    """Requests that arrive at every moment around the end of a flight find the flight or the kept
    answer."""
    model = CountingModel(waits=True)
    async with DiskStore(tmp_path) as store:
        cached = CachedModel(SharedModel(model), store)
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
    """Of three callers, the second calls the agent when the first is canceled; both others get what
    it returns."""
    agent = Steps()
    memo = once(agent)
    first, *others = (asyncio.create_task(memo("coherence")) for _ in range(3))
    await turns()
    first.cancel()
    await turns()
    assert first.cancelled()
    agent.gate.set()
    assert [await each for each in others] == ["steps for coherence in en"] * 2
    assert len(agent.calls) == 2


@pytest.mark.asyncio
async def test_arguments_that_cannot_be_remembered_are_an_error():
    """A list is not hashable, and is told of rather than asked each time."""
    memo = once(Steps())
    with pytest.raises(TypeError, match="unhashable"):
        await memo(["coherence"])
