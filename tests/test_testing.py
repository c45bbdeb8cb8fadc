"""The battery that others put their models through: our own pass it, and broken ones do not."""

from __future__ import annotations

from typing import Any

import pytest

import textassay
from textassay import testing
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.base import Usage
from textassay.runtime.errors import ConfigurationError, ModelClosed, ServerFailed
from textassay.runtime.model import Capabilities, Request, Response, Sample


class Echo:
    """A model of somebody else's: the protocol and nothing more."""

    def __init__(self, fails: int = 0, usage: Usage | None = None) -> None:
        self.fails, self.closed, self.asked = fails, False, 0
        self.usage = usage or Usage(calls=1, prompt_tokens=100, completion_tokens=10, cost=None)

    name = "own/echo"
    capabilities = Capabilities()

    @property
    def identity(self) -> dict[str, Any]:
        return {"backend": "echo"}

    async def generate(self, request: Request) -> Response:
        if self.closed:
            raise ModelClosed("closed")
        self.asked += 1
        if self.asked <= self.fails:
            raise ServerFailed("down", status=503)
        return Response(samples=(Sample(text="4"),), usage=self.usage)

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("check", testing.MODEL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["scripted", "direct", "own", "connected"])
async def test_models_pass(kind, check, mock_server):
    """The scripted one, the HTTP client, one that has only the protocol, and that one connected."""
    server = await mock_server()
    made = {
        "scripted": lambda: testing.ScriptedModel(
            lambda request: "yes", capabilities=Capabilities(n=True, seed=True)
        ),
        "direct": lambda: DirectModel("direct/m", api_base=server.url),
        "own": Echo,
        "connected": lambda: textassay.connect(Echo()),
    }
    await check(made[kind])


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"capabilities": Capabilities(n=True)}, "3 samples"),
        ({"capabilities": Capabilities(logprobs=True)}, "left out silently"),
        ({"capabilities": Capabilities(choices=True)}, "no choices"),
        ({"name": ""}, "name"),
    ],
)
async def test_models_that_promise_too_much_do_not(broken, said):
    """The message says what the protocol asks for."""
    with pytest.raises(AssertionError, match=said):
        await testing.check_model(type("Broken", (Echo,), broken))


async def test_a_model_of_ones_own_is_limited_retried_priced_and_cached(tmp_path):
    """`connect` takes an object; before, it raised AttributeError."""
    own = Echo(fails=2)
    async with textassay.connect(own, cache=tmp_path / "c", price=(1.0, 2.0), rpm=1000) as model:
        first = await model.generate(Request(prompt="x"))
        again = await model.generate(Request(prompt="x"))
        assert model.failures == {"ServerFailed": 2}
        assert model.limiter.state.requests_last_minute == 3
    assert (first.usage.calls, first.usage.cost) == (1, pytest.approx(120e-6))
    assert (again.usage.calls, again.usage.cached_calls) == (0, 1)
    assert own.asked == 3
    assert own.closed


@pytest.mark.parametrize("given", [object(), 5, type("Half", (), {"name": "x"})()])
async def test_objects_that_are_not_models_are_refused(given):
    """It says which parts of the protocol are missing."""
    with pytest.raises(ConfigurationError, match="generate"):
        textassay.connect(given)


async def test_settings_that_a_model_object_cannot_heed_are_refused():
    """The address is the object's own."""
    with pytest.raises(ConfigurationError, match="api_base"):
        textassay.connect(Echo(), api_base="http://127.0.0.1:1/v1")


async def test_a_cache_outside_of_async_with_is_an_error(tmp_path, mock_server):
    """Before, it worked and kept nothing."""
    server = await mock_server()
    model = textassay.connect("direct/m", api_base=server.url, cache=tmp_path / "c")
    with pytest.raises(ConfigurationError, match="async with"):
        await model.generate(Request(prompt="x"))
    with pytest.raises(ConfigurationError, match="async with"):
        await textassay.evaluate([{"output": "x"}], method="llm-score", model=model)
    assert not (tmp_path / "c").exists()
    await model.aclose()
