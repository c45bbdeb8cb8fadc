"""Several endpoints of one model: which of them a request goes to."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.virtual_time import run_virtual
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.endpoints import EndpointsModel, EndpointState
from textassay.runtime.calls.limits import LimitedModel, Limiter
from textassay.runtime.errors import RateLimited
from textassay.runtime.model import Request


def test_nothing_waits_for_an_endpoint_that_asked_to_wait_for_minutes() -> None:
    """The other is full most of the time, and answers everything all the same."""
    asked: Counter[int] = Counter()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def model(number: int) -> tuple[LimitedModel, EndpointState]:
            limiter = Limiter(rpm=None, tpm=None, concurrency=4)

            async def reply(request: Request) -> object:
                asked[number] += 1
                if number == 1:
                    return RateLimited("429", retry_after=300.0)
                await asyncio.sleep(1)
                return "fine"

            limited = LimitedModel(ScriptedModel(reply), limiter)
            return limited, EndpointState(number, limiter, 1.0)

        models, states = zip(*map(model, (1, 2)), strict=True)
        both = EndpointsModel(models, states)

        async def caller(name: int) -> None:
            for number in range(10):
                await both.generate(Request(prompt=f"{name}/{number}"))

        await asyncio.gather(*map(caller, range(8)))
        return loop.time() - began

    assert run_virtual(main()) < 60
    assert asked[2] == 80
