"""One attempt may take only so long."""

from __future__ import annotations

import asyncio

import pytest

from examples.mock_server import Options, serve
from tests.virtual_time import run_skipping, run_virtual
from tests.waiting import eventually
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.retry import DeadlineModel
from textassay.runtime.model import Request

ASK = Request(prompt="x")


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
