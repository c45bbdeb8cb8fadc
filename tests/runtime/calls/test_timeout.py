"""One attempt may take only so long."""

from __future__ import annotations

import asyncio
import time

import pytest

from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.timeout import DeadlineModel
from textassay.runtime.model import Request

pytestmark = pytest.mark.asyncio

ASK = Request(prompt="x")


async def test_a_quick_answer_is_passed_on():
    """Nothing changes within the limit."""
    model = DeadlineModel(ScriptedModel(["fine"]), timeout=5)
    assert (await model.generate(ASK)).samples[0].text == "fine"


async def test_a_hanging_server_is_given_up(mock_server):
    """The request to the server ends with the attempt."""
    server = await mock_server(p_hang=1, hang_s=30)
    model = DeadlineModel(DirectModel("direct/m", api_base=server.url), timeout=0.1)
    began = time.monotonic()
    with pytest.raises(errors.TimedOut, match=r"direct/m within 0\.1 s"):
        await model.generate(ASK)
    assert time.monotonic() - began < 2
    await model.aclose()
    assert server.counters.faults == {"hang": 1}


async def test_a_timeout_from_within_stays_what_it_is():
    """Only our own limit is translated."""
    model = DeadlineModel(ScriptedModel(lambda request: TimeoutError("theirs")), timeout=5)
    with pytest.raises(TimeoutError, match="theirs"):
        await model.generate(ASK)


async def test_cancellation_is_not_a_timeout():
    """Cancelling from outside cancels."""

    async def hang(request):
        await asyncio.sleep(30)

    task = asyncio.create_task(DeadlineModel(ScriptedModel(hang), timeout=20).generate(ASK))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_limit():
    """None means that nothing is limited."""
    assert (await DeadlineModel(ScriptedModel(["fine"]), timeout=None).generate(ASK)).samples
