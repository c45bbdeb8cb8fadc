"""What only the litellm backend does; all else is in the battery for every backend."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import traceback

import pytest
from aiohttp import web

from tests.loopback import listening
from tests.pictures import png_uri
from tests.waiting import HANGS_AFTER
from textassay.runtime import errors
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.images import ImageReader
from textassay.runtime.model import ChatMessage, ContinuationRequest, Request

pytestmark = pytest.mark.asyncio

ASK = Request(messages=(ChatMessage(role="user", content="Rate this."),))


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_imported() -> None:
    load_litellm()


async def test_making_a_model_does_not_import_litellm():
    """Four seconds are spent on first use only, and the environment stays untouched until then."""
    program = (
        "import os, sys; before = dict(os.environ)\n"
        "from textassay.runtime.backends.litellm import LiteLLMModel\n"
        "model = LiteLLMModel('openai/gpt-4.1-mini', price=(1.0, 2.0)); model.name, "
        "model.identity, model.price\n"
        "assert 'litellm' not in sys.modules and dict(os.environ) == before"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANGS_AFTER)  # noqa: ASYNC221


@pytest.mark.parametrize(
    ("name", "n", "logprobs", "seed", "json_schema"),
    [
        ("openai/gpt-4.1-mini", True, True, True, True),
        ("openai/an-unknown-one", True, True, True, None),
        ("openai/o3", True, False, True, True),
        ("anthropic/claude-sonnet-4-20250514", False, False, False, True),
        ("mistral/mistral-large-latest", False, False, True, True),
    ],
)
async def test_abilities_by_provider(name, n, logprobs, seed, json_schema):
    """As litellm lists them; what it lists but does not know of the model is left open."""
    shown = LiteLLMModel(name).capabilities
    assert (shown.n, shown.logprobs, shown.choices, shown.seed) == (n, logprobs, logprobs, seed)
    assert shown.json_schema is json_schema


async def test_prices_come_from_the_table_where_none_is_given():
    """Per million tokens; unknown models have none."""
    assert LiteLLMModel("openai/gpt-4.1-mini").price == pytest.approx((0.4, 1.6, 0.1))
    assert LiteLLMModel("openai/gpt-4.1-mini", price=(1.0, 2.0)).price == (1.0, 2.0)
    assert LiteLLMModel("openai/an-unknown-one").price is None


async def test_a_known_model_costs_what_the_table_says(mock_server):
    """Without a given price the cost is litellm's."""
    server = await mock_server()
    model = LiteLLMModel("openai/gpt-4.1-mini", api_base=server.url, api_key="k")
    usage = (await model.generate(ASK)).usage
    await model.aclose()
    assert usage.cost == pytest.approx(
        (0.4 * usage.prompt_tokens + 1.6 * usage.completion_tokens) / 1e6
    )


async def test_an_unknown_provider_is_a_mistake_of_configuration():
    """It says what names look like, before anything is asked."""
    with pytest.raises(errors.ConfigurationError, match="nosuch/model"):
        _ = LiteLLMModel("nosuch/model").capabilities


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"logprobs": 5}, "n=20"), ({"n": 4}, "n=1"), ({"seed": 1}, "no seed=")],
)
async def test_parameters_the_provider_does_not_take_are_refused_by_name(fields, said):
    """By litellm's own table: nothing is sent. The error names the option, too."""
    model = LiteLLMModel(
        "anthropic/claude-sonnet-4-20250514", api_key="k", api_base="http://127.0.0.1:9"
    )
    with pytest.raises(errors.RequestRefused, match=said) as caught:
        await model.generate(ASK.model_copy(update=fields))
    assert caught.value.refusal == errors.Refusal("drop", next(iter(fields)))
    await model.aclose()


@pytest.mark.parametrize(
    ("name", "fields", "refusal"),
    [
        ("openai/gpt-5", {"temperature": 0.0}, errors.Refusal("drop", "temperature")),
        ("openai/gpt-5", {"top_p": 0.5}, errors.Refusal("drop", "top_p")),
        ("openai/gpt-5", {"logprobs": 5}, errors.Refusal("drop", "logprobs")),
        ("openai/gpt-5", {"stop": ("END",)}, errors.Refusal("drop", "stop")),
        ("openai/o3", {"temperature": 0.0}, errors.Refusal("drop", "temperature")),
        ("openai/o3", {"top_p": 0.5}, errors.Refusal("drop", "top_p")),
        ("mistral/mistral-large-latest", {"n": 4}, errors.Refusal("drop", "n")),
        (
            "anthropic/claude-opus-4-7",
            {"temperature": 0.0},
            errors.Refusal("drop", "temperature"),
        ),
        (
            "gemini/gemini-2.5-pro",
            {"extra": {"reasoning_effort": "great"}},
            errors.Refusal(
                "effort",
                "reasoning_effort",
                values=("none", "minimal", "low", "medium", "high"),
            ),
        ),
    ],
)
async def test_what_litellm_refuses_by_its_own_tables(name, fields, refusal):
    """Nothing is sent; the run goes on without the parameter, if that is allowed."""
    model = LiteLLMModel(name, api_key="k", api_base="http://127.0.0.1:9")
    request = ASK.model_copy(update={"temperature": None, **fields})
    with pytest.raises(errors.RequestRefused) as caught:
        await model.generate(request)
    assert caught.value.refusal == refusal
    await model.aclose()


async def test_a_plain_prompt_is_not_turned_into_a_chat():
    """litellm would do so in silence."""
    model = LiteLLMModel(
        "anthropic/claude-sonnet-4-20250514", api_key="k", api_base="http://127.0.0.1:9"
    )
    with pytest.raises(errors.CapabilityError, match="takes chats only"):
        await model.generate(Request(prompt="Once upon a time"))
    assert model.capabilities.continuation is False
    await model.aclose()


async def test_a_key_from_the_environment_is_scrubbed_as_well(mock_server, monkeypatch):
    """litellm reads the variable by itself; an echo of it stays out of errors and their
    tracebacks."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key.from/the+environment")
    server = await mock_server(require_key="another")
    model = LiteLLMModel("openai/judge", api_base=server.url)
    with pytest.raises(errors.AuthenticationFailed) as caught:
        await model.generate(ASK)
    await model.aclose()
    assert os.environ["OPENAI_API_KEY"] not in "".join(traceback.format_exception(caught.value))


async def test_a_time_limit_of_litellm_is_ours(mock_server):
    """Its Timeout becomes TimedOut."""
    server = await mock_server(p_hang=1)
    # an argument of litellm's own, which for this provider is no further field of the body
    model = LiteLLMModel("hosted_vllm/judge", api_base=server.url, api_key="k")
    with pytest.raises(errors.TimedOut):
        await model.generate(ASK.model_copy(update={"extra": {"timeout": 0.1}}))
    await model.aclose()


@pytest.mark.parametrize("name", ["openai/gpt-4.1-mini", "gemini/gemini-2.0-flash"])
async def test_a_missing_key_is_told_at_once(name, monkeypatch):
    """Nothing was sent, and no retry would help; no traceback of litellm's stands in the
    message."""
    for variable in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    model = LiteLLMModel(name)
    with pytest.raises(errors.AuthenticationFailed, match=r"no key: .*api_key_env=NAME") as shown:
        await model.generate(ASK)
    assert "Traceback" not in str(shown.value)
    await model.aclose()


async def test_a_server_of_ones_own_needs_no_key(mock_server, monkeypatch):
    """OpenAI's client wants a key even where the server wants none."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = await mock_server()
    model = LiteLLMModel("openai/judge", api_base=server.url)
    assert (await model.generate(ASK)).samples[0].text
    await model.aclose()


async def test_a_missing_echo_names_the_model(mock_server):
    """A run that is stopped by it says which of several models it was."""
    server = await mock_server(ignore_echo=True)
    model = LiteLLMModel("text-completion-openai/m", api_base=server.url, api_key="k")
    with pytest.raises(errors.CapabilityError, match="text-completion-openai/m"):
        await model.continuation(ContinuationRequest(prompt="A summary:", continuation=" good"))
    await model.aclose()


async def test_messages_to_a_completion_endpoint_leave_no_open_connection(mock_server):
    """litellm opens a client per call there; none is left for the interpreter to complain of."""
    server = await mock_server()
    program = (
        "import asyncio, sys\n"
        "from textassay.runtime.backends.litellm import LiteLLMModel\n"
        "from textassay.runtime.model import ChatMessage, ContinuationRequest, Request\n"
        "async def main():\n"
        "    model = LiteLLMModel('text-completion-openai/m', api_base=sys.argv[1], api_key='k')\n"
        "    ask = Request(messages=(ChatMessage(role='user', content='Rate.'),))\n"
        "    for _ in range(2):\n"
        "        await model.generate(ask)\n"
        "    await model.aclose()\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, server.url, stderr=asyncio.subprocess.PIPE
    )
    _, said = await done.communicate()
    assert done.returncode == 0, said.decode()
    assert b"Unclosed" not in said


@pytest.mark.parametrize("provider", ["openai/m", "gemini/gemini-2.5-flash", "anthropic/m"])
async def test_images_are_sent_in_the_form_of_the_provider(provider):
    """Files in any; litellm downloads addresses for some providers, which is switched off."""
    bodies = []

    async def refuse(request):
        bodies.append(await request.text())
        return web.json_response({"error": {"message": "no"}}, status=400)

    file, link = ImageReader(), ImageReader()
    file.take(png_uri())
    link.take("http://example.org/cat")
    async with listening(refuse) as url:
        model = LiteLLMModel(provider, api_base=url, api_key="a-key")
        for images in (file.images, link.images):
            request = ASK.model_copy(update={"images": tuple(images)})
            loads = provider != "openai/m" and images is link.images
            with pytest.raises(errors.CapabilityError if loads else errors.RequestRefused):
                await model.generate(request)
        await model.aclose()
    assert png_uri().partition(",")[2] in bodies[0]
    assert len(bodies) == (2 if provider == "openai/m" else 1)
