"""What only one backend does; all else is in the battery for every backend."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from aiohttp import web

from tests.loopback import listening
from tests.pictures import png_uri
from tests.waiting import HANGS_AFTER, eventually
from textassay import connect
from textassay.runtime import errors
from textassay.runtime.backends.by_name import backend_points
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.images import ImageReader
from textassay.runtime.messages import Usage
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    ContinuationRequest,
    Model,
    Request,
    Response,
    Sample,
    Scoring,
)
from textassay.runtime.settings import Settings

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
    ("fields", "said"), [({"logprobs": 5}, "n=20"), ({"n": 4}, "n=1"), ({"seed": 1}, "no seed=")]
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
        ("anthropic/claude-opus-4-7", {"temperature": 0.0}, errors.Refusal("drop", "temperature")),
        (
            "gemini/gemini-2.5-pro",
            {"extra": {"reasoning_effort": "great"}},
            errors.Refusal(
                "effort", "reasoning_effort", values=("none", "minimal", "low", "medium", "high")
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


ASK_OF_SCRIPTED = Request(prompt="How many?")


async def test_replies_come_in_turn():
    """Texts, samples, responses and errors."""
    whole = Response(samples=(Sample(text="c"),), usage=Usage(calls=7))
    model = ScriptedModel(
        ["a", Sample(text="b", finish_reason="length"), whole, errors.TimedOut("late")]
    )
    assert (await model.generate(ASK_OF_SCRIPTED)).samples == (Sample(text="a"),)
    assert (await model.generate(ASK_OF_SCRIPTED)).samples[0].finish_reason == "length"
    assert await model.generate(ASK_OF_SCRIPTED) is whole
    with pytest.raises(errors.TimedOut, match="late"):
        await model.generate(ASK_OF_SCRIPTED)


async def test_running_out_is_an_error_that_says_so():
    """A script that is too short is a mistake of its author."""
    model = ScriptedModel(["a"], name="judge")
    await model.generate(ASK_OF_SCRIPTED)
    with pytest.raises(errors.ConfigurationError, match="'judge' has no reply left for request 2"):
        await model.generate(ASK_OF_SCRIPTED)


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
        ASK_OF_SCRIPTED,
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


MODULE = """
from textassay.runtime.backends.scripted import ScriptedModel

def make(name, settings):
    return ScriptedModel(lambda request: f"{name} {settings.timeout:g}", name=name)

def broken(name, settings):
    raise KeyError("no such house")

def nothing(name, settings):
    return object()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with three backends on the path."""
    (tmp_path / "house_models.py").write_text(MODULE)
    info = tmp_path / "house_models-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-models\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[textassay.models]\n"
        "house = house_models:make\n"
        "broken = house_models:broken\n"
        "nothing = house_models:nothing\n"
        "absent = house_models_absent:make\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("house_models", None)


async def test_a_prefix_of_another_package_opens_its_model(installed):
    """The callable gets the whole name and the settings."""
    assert {"house", "broken", "nothing", "absent"} <= set(backend_points())
    async with connect("house/judge-1", settings=Settings(timeout=7)) as model:
        response = await model.generate(Request(prompt="Rate."))
    assert model.name == "house/judge-1"
    assert response.samples[0].text == "house/judge-1 7"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "broken/x",
            "'broken/x' of house-models cannot be made by 'house_models:broken': KeyError",
        ),
        ("absent/x", "house-models cannot be made by 'house_models_absent:make': ModuleNotFound"),
        ("nothing/x", "is not a model: it has no name"),
    ],
)
async def test_a_backend_that_fails_is_named_with_its_package(installed, name, said):
    """The user learns which package to turn to."""
    with pytest.raises(ConfigurationError, match=said):
        async with connect(name):
            pass
