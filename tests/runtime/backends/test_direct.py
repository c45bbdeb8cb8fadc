"""What only the direct client does; all else is in the battery for every backend."""

from __future__ import annotations

import asyncio
import gc

import pytest
from aiohttp import web

from tests.waiting import eventually
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.model import ChatMessage, Model, Request, Scoring

pytestmark = pytest.mark.asyncio

ASK = Request(messages=(ChatMessage(role="user", content="Rate this."),))


@pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "ftp://host/v1", "", "http://", "/v1"])
async def test_an_address_must_be_one(address):
    """Caught before anything is asked."""
    with pytest.raises(errors.ConfigurationError, match="api_base="):
        DirectModel("direct/m", api_base=address)


async def test_a_key_with_a_line_end_is_refused_without_being_shown():
    """A key read from a file often ends in a line end."""
    with pytest.raises(errors.ConfigurationError) as caught:
        DirectModel("direct/m", api_base="http://h/v1", api_key="sk-secret\n")
    assert "sk-secret" not in str(caught.value)


async def test_it_is_a_model_that_scores_and_connects_late():
    """Making one opens nothing and needs no loop."""
    model = await asyncio.to_thread(
        DirectModel, "direct/org/judge", api_base="http://127.0.0.1:1/v1/"
    )
    assert isinstance(model, Model)
    assert isinstance(model, Scoring)
    assert model.name == "direct/org/judge"
    assert model.identity == {
        "backend": "openai-compatible",
        "model": "org/judge",
        "api_base": "http://127.0.0.1:1/v1",
    }
    await model.aclose()


async def test_it_sends_the_key_and_further_fields(mock_server):
    """Extra fields go to the server as they are; without a key there is no header."""
    seen = []
    server = await mock_server(
        require_key="sesame", reply=lambda body, draw: seen.append(body) or "ok"
    )
    model = DirectModel("direct/m", api_base=server.url, api_key="sesame")
    await model.generate(
        ASK.model_copy(update={"extra": {"top_k": 5, "chat_template_kwargs": {"x": True}}})
    )
    await model.aclose()
    assert seen[0]["top_k"] == 5
    assert seen[0]["chat_template_kwargs"] == {"x": True}
    without = DirectModel("direct/m", api_base=server.url)
    with pytest.raises(errors.AuthenticationFailed):
        await without.generate(ASK)
    await without.aclose()


async def test_connections_are_limited(mock_server):
    """No more requests at once than connections."""
    server = await mock_server(hold_after=1)
    model = DirectModel("direct/m", api_base=server.url, connections=3)
    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(model.generate(ASK))
        await eventually(lambda: server.counters.in_flight == 3)
        server.options.hold_after = 0
    await model.aclose()
    assert server.counters.max_in_flight == 3


async def test_connections_are_not_limited_by_default(mock_server):
    """The limiter decides, not the pool."""
    server = await mock_server(hold_after=1)
    model = DirectModel("direct/m", api_base=server.url)
    async with asyncio.TaskGroup() as group:
        for _ in range(150):
            group.create_task(model.generate(ASK))
        await eventually(lambda: server.counters.in_flight == 149)  # the first is answered
        server.options.hold_after = 0
    await model.aclose()


async def test_closing_leaves_nothing_open(mock_server):
    """A forgotten connection would be a warning, and warnings fail tests."""
    server = await mock_server()
    model = DirectModel("direct/m", api_base=server.url)
    await model.generate(ASK)
    await model.aclose()
    del model
    gc.collect()


async def test_cancelling_a_request_ends_it_at_once(mock_server):
    """No answer is waited for."""
    server = await mock_server(latency_ms=30_000)
    model = DirectModel("direct/m", api_base=server.url)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await model.generate(ASK)
    await model.aclose()


async def test_another_loop_is_told_apart(mock_server):
    """A session belongs to its loop; using it elsewhere would hang."""
    server = await mock_server()
    model = DirectModel("direct/m", api_base=server.url)
    await model.generate(ASK)
    with pytest.raises(errors.ConfigurationError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, model.generate(ASK))
    await model.aclose()


async def test_a_redirect_is_not_followed():
    """The key must not go to another host; the message says where it would have gone."""

    async def redirect(request: web.BaseRequest) -> web.Response:
        return web.Response(
            status=308, headers={"Location": "https://elsewhere.example/v1/chat/completions"}
        )

    runner = web.ServerRunner(web.Server(redirect))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model = DirectModel(
        "direct/m", api_base=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", api_key="k"
    )
    with pytest.raises(errors.ModelNotFound, match=r"elsewhere\.example"):
        await model.generate(ASK)
    await model.aclose()
    await runner.cleanup()
