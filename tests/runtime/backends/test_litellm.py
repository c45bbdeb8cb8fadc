"""What only the backend of litellm does; all else is in the battery for every backend."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.loopback import listening
from tests.pictures import png_uri
from textassay.runtime import errors
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.errors import Refusal
from textassay.runtime.images import ImageReader
from textassay.runtime.model import ChatMessage, Request

ASK = Request(messages=(ChatMessage(role="user", content="Rate this."),))
NOBODY = {"api_base": "http://127.0.0.1:9", "api_key": "k"}
CLAUDE = "anthropic/claude-sonnet-4-20250514"


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_imported() -> None:
    load_litellm()


@pytest_asyncio.fixture
async def build() -> AsyncIterator[Callable[..., LiteLLMModel]]:
    """Make models that are closed at the end."""
    models: list[LiteLLMModel] = []

    def make(name: str, **options: Any) -> LiteLLMModel:
        models.append(LiteLLMModel(name, **options))
        return models[-1]

    yield make
    for model in models:
        await model.aclose()


PROGRAM = """
import asyncio, os, sys
before = dict(os.environ)
from textassay.runtime.backends.litellm import LiteLLMModel
from textassay.runtime.model import ChatMessage, Request
model = LiteLLMModel('text-completion-openai/m', api_base=sys.argv[1], api_key='k')
model.name, model.identity
assert 'litellm' not in sys.modules and dict(os.environ) == before
async def main():
    ask = Request(messages=(ChatMessage(role='user', content='Rate.'),))
    for _ in range(2):
        await model.generate(ask)
    await model.aclose()
asyncio.run(main())
"""


async def test_litellm_is_imported_on_first_use_and_leaves_no_open_connection(mock_server):
    """It takes seconds, and opens a client per call of a completion endpoint; none is left for the
    interpreter to complain of."""
    server = await mock_server()
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, server.url, stderr=asyncio.subprocess.PIPE
    )
    _, said = await done.communicate()
    assert done.returncode == 0, said.decode()
    assert b"Unclosed" not in said


@pytest.mark.parametrize(
    ("name", "n", "logprobs", "seed", "json_schema"),
    [
        ("openai/gpt-4.1-mini", True, True, True, True),
        ("openai/an-unknown-one", True, True, True, None),
        ("openai/o3", True, False, True, True),
        (CLAUDE, False, False, False, True),
        ("mistral/mistral-large-latest", False, False, True, True),
    ],
)
async def test_abilities_by_provider(name, n, logprobs, seed, json_schema):
    """As litellm lists them; what it lists but does not know of the model is left open."""
    shown = LiteLLMModel(name).capabilities
    assert (shown.n, shown.logprobs, shown.choices, shown.seed) == (n, logprobs, logprobs, seed)
    assert shown.json_schema is json_schema


async def test_prices_come_from_the_table_where_none_is_given(build, mock_server):
    """Per million tokens; unknown models have none."""
    assert LiteLLMModel("openai/gpt-4.1-mini").price == pytest.approx((0.4, 1.6, 0.1))
    assert LiteLLMModel("openai/gpt-4.1-mini", price=(1.0, 2.0)).price == (1.0, 2.0)
    assert LiteLLMModel("openai/an-unknown-one").price is None
    server = await mock_server()
    model = build("openai/gpt-4.1-mini", api_base=server.url, api_key="k")
    usage = (await model.generate(ASK)).usage
    cost = (0.4 * usage.prompt_tokens + 1.6 * usage.completion_tokens) / 1e6
    assert usage.cost == pytest.approx(cost)


async def test_a_model_that_the_table_lists_without_a_price_costs_an_unknown_sum(build):
    """litellm calculates 0 for it."""
    answer = {"candidates": [{"content": {"parts": [{"text": "4"}]}, "finishReason": "STOP"}],
              "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 10}}  # fmt: skip

    async def reply(request):
        return web.json_response(answer)

    async with listening(reply) as url:
        model = build("gemini/gemini-3-pro-preview", api_base=url, api_key="k")
        assert model.price is None
        assert (await model.generate(ASK)).usage.cost is None


async def test_an_unknown_provider_is_a_mistake_of_configuration():
    """It says what names look like, before anything is asked."""
    with pytest.raises(errors.ConfigurationError, match="nosuch/model"):
        _ = LiteLLMModel("nosuch/model").capabilities


GEMINI_LEVELS = ("none", "minimal", "low", "medium", "high")


@pytest.mark.parametrize(
    ("name", "fields", "refusal", "said"),
    [
        (CLAUDE, {"logprobs": 5}, Refusal("drop", "logprobs"), "n=20"),
        (CLAUDE, {"n": 4}, Refusal("drop", "n"), "n=1"),
        (CLAUDE, {"seed": 1}, Refusal("drop", "seed"), "no seed="),
        ("openai/gpt-5", {"temperature": 0.0}, Refusal("drop", "temperature"), ""),
        ("openai/gpt-5", {"top_p": 0.5}, Refusal("drop", "top_p"), ""),
        ("openai/gpt-5", {"logprobs": 5}, Refusal("drop", "logprobs"), ""),
        ("openai/gpt-5", {"stop": ("END",)}, Refusal("drop", "stop"), ""),
        ("openai/o3", {"temperature": 0.0}, Refusal("drop", "temperature"), ""),
        ("openai/o3", {"top_p": 0.5}, Refusal("drop", "top_p"), ""),
        ("mistral/mistral-large-latest", {"n": 4}, Refusal("drop", "n"), ""),
        ("anthropic/claude-opus-4-7", {"temperature": 0.0}, Refusal("drop", "temperature"), ""),
        (
            "gemini/gemini-2.5-pro",
            {"extra": {"reasoning_effort": "great"}},
            Refusal("effort", "reasoning_effort", values=GEMINI_LEVELS),
            "",
        ),
    ],
)
async def test_what_litellm_refuses_by_its_own_tables(name, fields, refusal, said, build):
    """Nothing is sent; the run goes on without the parameter, if that is allowed."""
    request = ASK.model_copy(update={"temperature": None, **fields})
    with pytest.raises(errors.RequestRefused, match=said or None) as caught:
        await build(name, **NOBODY).generate(request)
    assert caught.value.refusal == refusal


async def test_a_plain_prompt_is_not_turned_into_a_chat(build):
    """litellm would do so in silence."""
    model = build(CLAUDE, **NOBODY)
    with pytest.raises(errors.CapabilityError, match="takes chats only"):
        await model.generate(Request(prompt="Once upon a time"))
    assert model.capabilities.continuation is False


async def test_a_key_from_the_environment_is_scrubbed_as_well(build, mock_server, monkeypatch):
    """litellm reads the variable by itself; an echo of it stays out of errors and tracebacks."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key.from/the+environment")
    server = await mock_server(require_key="another")
    with pytest.raises(errors.AuthenticationFailed) as caught:
        await build("openai/judge", api_base=server.url).generate(ASK)
    assert os.environ["OPENAI_API_KEY"] not in "".join(traceback.format_exception(caught.value))


async def test_a_time_limit_of_litellm_is_ours(build, mock_server):
    """Its Timeout becomes TimedOut."""
    server = await mock_server(p_hang=1)
    # an argument of litellm's own, which it does not add to this provider's body
    model = build("hosted_vllm/judge", api_base=server.url, api_key="k")
    with pytest.raises(errors.TimedOut):
        await model.generate(ASK.model_copy(update={"extra": {"timeout": 0.1}}))


@pytest.mark.parametrize("name", ["openai/gpt-4.1-mini", "gemini/gemini-2.0-flash"])
async def test_a_missing_key_is_reported_at_once(name, build, monkeypatch):
    """Nothing was sent, and no retry would help; no traceback of litellm's is in the message."""
    for variable in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(errors.AuthenticationFailed, match=r"no key: .*api_key_env=NAME") as shown:
        await build(name).generate(ASK)
    assert "Traceback" not in str(shown.value)


async def test_a_server_of_ones_own_needs_no_key(build, mock_server, monkeypatch):
    """OpenAI's client wants a key even where the server wants none."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = await mock_server()
    assert (await build("openai/judge", api_base=server.url).generate(ASK)).samples[0].text


@pytest.mark.parametrize("provider", ["openai/m", "gemini/gemini-2.5-flash", "anthropic/m"])
async def test_images_are_sent_in_the_form_of_the_provider(provider, build):
    """Files in any; litellm downloads addresses for some providers, which is switched off."""
    bodies = []

    async def refuse(request):
        bodies.append(await request.text())
        return web.json_response({"error": {"message": "no"}}, status=400)

    file, link = ImageReader(), ImageReader()
    file.take(png_uri())
    link.take("http://example.org/cat")
    async with listening(refuse) as url:
        model = build(provider, api_base=url, api_key="a-key")
        for images in (file.images, link.images):
            request = ASK.model_copy(update={"images": tuple(images)})
            loads = provider != "openai/m" and images is link.images
            with pytest.raises(errors.CapabilityError if loads else errors.RequestRefused):
                await model.generate(request)
    assert png_uri().partition(",")[2] in bodies[0]
    assert len(bodies) == (2 if provider == "openai/m" else 1)


async def test_other_words_for_an_end_and_other_answers_are_read_as_by_our_own_client(build):
    """litellm makes every word that it does not know "stop", and asks again for any JSON."""
    message = {"role": "assistant", "content": "Score: 1"}
    words = {"safety": "filtered", "recitation": "filtered", "max_output_tokens": "length"}
    bodies: list[Any] = [
        *({"choices": [{"index": 0, "message": message, "finish_reason": word}]} for word in words),
        {"status": "ok"},
    ]

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(bodies.pop(0))

    async with listening(answer) as url:
        model = build("openai/judge", api_base=url, api_key="k")
        found = [(await model.generate(ASK)).samples[0].finish_reason for _ in words]
        assert found == [*words.values()]
        with pytest.raises(errors.PageAnswered, match=r"openai/judge: .*no choices.*ends in /v1"):
            await model.generate(ASK)
