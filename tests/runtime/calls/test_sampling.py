"""Many samples from a model that gives one a request."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import HANGS_AFTER
from textassay.runtime import errors
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.adaptation import OneSamplePerRequest
from textassay.runtime.model import Capabilities, Request

pytestmark = pytest.mark.asyncio

ONE = Capabilities(n=False)


def drawing(**more: object) -> ScriptedModel:
    return ScriptedModel(lambda request: f"draw {request.draw}", capabilities=ONE, **more)


async def test_each_sample_is_asked_by_itself():
    """Samples come in order, with the sum of what they cost."""
    model = drawing(price=(1.0, 1.0))
    response = await OneSamplePerRequest(model).generate(Request(prompt="x", n=4, draw=2))
    assert [s.text for s in response.samples] == [f"draw {2000 + i}" for i in range(4)]
    assert [r.n for r in model.requests] == [1] * 4
    assert response.usage.calls == 4
    assert response.usage.cost == pytest.approx(4 * (1 + 4) / 1e6, rel=0.5)


async def test_a_model_that_gives_several_is_left_alone():
    """With n supported or unknown the request goes through as it is."""
    for n in (True, None):
        model = ScriptedModel(["same"], capabilities=Capabilities(n=n))
        assert (
            len((await OneSamplePerRequest(model).generate(Request(prompt="x", n=3))).samples) == 3
        )
        assert model.requests == [Request(prompt="x", n=3)]


async def test_the_samples_are_asked_at_once():
    """All of them are in flight together."""
    waiting, all_here = 0, asyncio.Event()

    async def wait(request):
        nonlocal waiting
        waiting += 1
        if waiting == 5:
            all_here.set()
        await all_here.wait()
        return "x"

    async with asyncio.timeout(HANGS_AFTER):
        await OneSamplePerRequest(ScriptedModel(wait, capabilities=ONE)).generate(
            Request(prompt="x", n=5)
        )
    assert waiting == 5


async def test_a_failure_is_the_error_itself_and_cancels_the_rest():
    """No group of exceptions reaches the caller, and no request goes on."""
    cancelled = 0

    async def reply(request):
        nonlocal cancelled
        if request.draw == 1:
            return errors.ServerFailed("no")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    with pytest.raises(errors.ServerFailed, match="no"):
        await OneSamplePerRequest(ScriptedModel(reply, capabilities=ONE)).generate(
            Request(prompt="x", n=3)
        )
    assert cancelled == 2


async def test_it_says_that_several_can_be_asked_for():
    """Callers need not know."""
    assert OneSamplePerRequest(drawing()).capabilities.n is True
    assert OneSamplePerRequest(ScriptedModel(capabilities=Capabilities())).capabilities.n is None


async def test_more_samples_than_draws_are_apart():
    """Beyond a thousand the numbering would collide."""
    with pytest.raises(errors.CapabilityError, match="1000"):
        await OneSamplePerRequest(drawing()).generate(Request(prompt="x", n=1001))


MIXTURES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 12)),
    min_size=2,
    max_size=6,
    unique_by=lambda a: a[0],
)


@given(asked=MIXTURES)
async def test_no_two_samples_of_different_draws_share_a_number(asked):
    """Whatever mixture of n and draw is asked."""
    model = drawing()
    for draw, n in asked:
        await OneSamplePerRequest(model).generate(Request(prompt="x", n=n, draw=draw))
    draws = [r.draw for r in model.requests]
    assert len(draws) == len(set(draws)) == sum(n for _, n in asked)
