"""One attempt may take only so long."""

from __future__ import annotations

import asyncio

import pytest

from examples.mock_server import Options, serve
from tests.virtual_time import run_skipping
from tests.waiting import eventually
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.timeout import DeadlineModel
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


@pytest.mark.asyncio
async def test_no_limit():
    """None means that nothing is limited."""
    assert (await DeadlineModel(ScriptedModel(["fine"]), timeout=None).generate(ASK)).samples
