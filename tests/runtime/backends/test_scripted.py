"""A model that answers from a script."""

from __future__ import annotations

import asyncio

import pytest

from textassay.runtime import errors
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.messages import Usage
from textassay.runtime.model import ChoicesRequest, ContinuationRequest, Request, Response, Sample

pytestmark = pytest.mark.asyncio

ASK = Request(prompt="How many?")


async def test_replies_come_in_turn():
    """Texts, samples, responses and errors."""
    whole = Response(samples=(Sample(text="c"),), usage=Usage(calls=7))
    model = ScriptedModel(
        ["a", Sample(text="b", finish_reason="length"), whole, errors.TimedOut("late")]
    )
    assert (await model.generate(ASK)).samples == (Sample(text="a"),)
    assert (await model.generate(ASK)).samples[0].finish_reason == "length"
    assert await model.generate(ASK) is whole
    with pytest.raises(errors.TimedOut, match="late"):
        await model.generate(ASK)


async def test_running_out_is_an_error_that_says_so():
    """A script that is too short is a mistake of its author."""
    model = ScriptedModel(["a"], name="judge")
    await model.generate(ASK)
    with pytest.raises(errors.ConfigurationError, match="'judge' has no reply left for request 2"):
        await model.generate(ASK)


async def test_one_reply_serves_all_samples_of_a_request():
    """n samples of one listed reply are equal."""
    response = await ScriptedModel(["a", "b"]).generate(Request(prompt="x", n=3))
    assert [s.text for s in response.samples] == ["a"] * 3


async def test_a_function_is_called_for_every_draw():
    """It sees the draw, and may be async."""

    async def reply(request: Request) -> str:
        await asyncio.sleep(0)
        return f"{request.n}:{request.draw}"

    response = await ScriptedModel(reply).generate(Request(prompt="x", n=3, draw=10))
    assert [s.text for s in response.samples] == ["1:10", "1:11", "1:12"]


async def test_it_keeps_what_it_was_asked():
    """Requests are recorded as they came, of all kinds."""
    model = ScriptedModel(
        ["a"],
        choices=lambda request: {"y": -0.5},
        continuation=lambda request: errors.TimedOut("no"),
    )
    asked = [
        ASK,
        ChoicesRequest(prompt="x", choices={"y": ("y",)}),
        ContinuationRequest(prompt="x", continuation=" y"),
    ]
    await model.generate(asked[0])
    await model.choices(asked[1])
    with pytest.raises(errors.TimedOut):
        await model.continuation(asked[2])
    assert model.requests == asked


async def test_usage_is_estimated_and_priced():
    """Tokens of prompt and samples, at the given price."""
    response = await ScriptedModel(["four short words here"], price=(1e6, 1e6)).generate(
        Request(prompt="Hi.", n=2)
    )
    assert response.usage.calls == 1
    assert response.usage.completion_tokens == 2 * 4
    assert response.usage.cost == response.usage.prompt_tokens + response.usage.completion_tokens


async def test_abilities_follow_the_script():
    """What no function was given for, it cannot do."""
    model = ScriptedModel(["a"])
    assert (model.capabilities.choices, model.capabilities.continuation) == (False, False)
    with pytest.raises(errors.CapabilityError):
        await model.choices(ChoicesRequest(prompt="x", choices={"y": ("y",)}))
    with pytest.raises(errors.CapabilityError):
        await model.continuation(ContinuationRequest(prompt="x", continuation=" y"))
