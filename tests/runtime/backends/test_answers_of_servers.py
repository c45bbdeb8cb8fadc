"""Recorded and hostile answers, through every backend that asks over a network.

What real servers answer is read in `test_recorded_servers.py`; here are single forms of it, and
what no server should send.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.loopback import listening
from tests.work import grows_linearly
from textassay.runtime import errors
from textassay.runtime.backends import http_errors, openai_format
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.endpoint import Endpoint, read_address
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.model import ChatMessage, ChoicesRequest, ContinuationRequest, Model, Request

pytestmark = pytest.mark.asyncio

ASK = Request(messages=(ChatMessage(role="user", content="Rate this."),))
CHAT = {
    "model": "m",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "4"}}
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
}
BACKENDS = {
    "direct": ("direct/m", DirectModel),
    "openai": ("openai/m", LiteLLMModel),
    "vllm": ("hosted_vllm/m", LiteLLMModel),
    "groq": ("groq/m", LiteLLMModel),
    "deepinfra": ("deepinfra/m", LiteLLMModel),
    "anthropic": ("anthropic/claude-sonnet-4-20250514", LiteLLMModel),
    "mistral": ("mistral/m", LiteLLMModel),
    "gemini": ("gemini/gemini-2.0-flash", LiteLLMModel),
}
OPENAI_LIKE = ("direct", "openai", "vllm")
LOGIN = f"Basic {base64.b64encode(b'me:pass-word').decode()}"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_imported() -> None:
    load_litellm()


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server on the loopback that answers every path in one way."""
    async with listening(handler) as address:
        yield f"{address}/v1"


Ask = Callable[..., Awaitable[Any]]


@pytest_asyncio.fixture
async def build() -> AsyncIterator[Callable[..., Model]]:
    """Make models by the short name of their backend, and close them."""
    models: list[Model] = []

    def make(kind: str, url: str, **more: Any) -> Model:
        name, backend = BACKENDS[kind]
        models.append(backend(name, api_base=url, **{"api_key": "sk-test-0123456789", **more}))
        return models[-1]

    yield make
    for model in models:
        await model.aclose()


def answering(payload: Any, status: int = 200, **headers: str) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        kind = {"Content-Type": "application/json", **headers}
        return web.Response(body=body, status=status, headers=kind)

    return answer


@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize("kind", BACKENDS)
async def test_a_redirect_is_refused_on_every_path(kind, status, build):
    """The prompt stays here: the other host is never asked, and its answer never scored."""
    asked = []

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(await request.text())
        return web.json_response(CHAT)

    async with serving(elsewhere) as other:

        async def redirect(request: web.Request) -> web.Response:
            return web.Response(status=status, headers={"Location": other + "/chat/completions"})

        async with serving(redirect) as url:
            with pytest.raises(errors.ModelNotFound, match="redirects to"):
                await build(kind, url).generate(ASK)
    assert asked == []


@pytest.mark.parametrize("kind", BACKENDS)
async def test_no_cookie_is_sent_back(kind, build):
    """It would tie later requests to what earlier ones met."""
    cookies = []

    async def baking(request: web.Request) -> web.Response:
        cookies.append(request.headers.get("Cookie"))
        return web.json_response(CHAT, headers={"Set-Cookie": "session=1; Path=/"})

    async with serving(baking) as url:
        model = build(kind, url)
        for _ in range(3):
            with contextlib.suppress(errors.ModelError):  # some providers speak another format
                await model.generate(ASK)
    assert cookies == [None] * 3


@pytest.mark.parametrize("kind", OPENAI_LIKE)
async def test_a_user_in_the_address_is_sent_as_a_login(kind, build, monkeypatch):
    """In place of a key, also where a library insists on one; no error shows the password."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    logins = []

    async def guarded(request: web.Request) -> web.Response:
        logins.append(request.headers.get("Authorization"))
        if len(logins) == 3:
            return web.json_response({"error": f"me:pass-word, {LOGIN} is refused"}, status=403)
        return web.json_response(CHAT)

    async with serving(guarded) as url:
        model = build(kind, url.replace("://", "://me:pass-word@"), api_key=None)
        for _ in range(2):
            assert (await model.generate(ASK)).samples[0].text == "4"
        with pytest.raises(errors.AuthenticationFailed) as refused:
            await model.generate(ASK)
    with pytest.raises((errors.ConnectionFailed, errors.NothingListening)) as gone:
        await model.generate(ASK)
    assert logins == [LOGIN] * 3
    for caught in (refused, gone):
        shown = "".join(traceback.format_exception(caught.value))
        assert "pass-word" not in shown
        assert LOGIN.removeprefix("Basic ") not in shown


@pytest.mark.parametrize("kind", OPENAI_LIKE)
async def test_a_user_in_the_address_and_a_key_need_a_header_each(kind, build):
    """Both as `Authorization` are refused before anything is sent; a key may have its own."""
    address = "http://me:pass-word@127.0.0.1:1/v1"
    with pytest.raises(errors.ConfigurationError, match=r"header of its own .*api_key_header"):
        build(kind, address)
    other = Endpoint(headers={"authorization": "Negotiate"})
    with pytest.raises(errors.ConfigurationError, match="another header of that name"):
        build(kind, address, api_key=None, endpoint=other)
    sent = []

    async def echo(request: web.Request) -> web.Response:
        sent.append((request.headers.get("Authorization"), request.headers.get("X-Key")))
        return web.json_response(CHAT)

    async with serving(echo) as url:
        address = url.replace("://", "://me:pass-word@")
        await build(kind, address, endpoint=Endpoint(key_header="X-Key")).generate(ASK)
    assert sent == [(LOGIN, "sk-test-0123456789")]


@pytest.mark.parametrize("kind", OPENAI_LIKE)
async def test_a_short_password_does_not_change_what_an_error_is(kind, build):
    """It is masked in what is shown, not in what is read."""
    spent = {"error": {"code": "insufficient_quota", "message": "You exceeded your quota."}}
    async with serving(answering(spent, 429)) as url:
        model = build(kind, url.replace("://", "://me:a@"), api_key=None)
        with pytest.raises(errors.QuotaExhausted):
            await model.generate(ASK)


@pytest.mark.parametrize(
    ("given", "url", "login", "secrets"),
    [
        ("http://h/v1?a=b", "http://h/v1", None, ()),
        ("http://@h:80/v1/", "http://h:80/v1", None, ()),
        ("http://me:p%40ss@h/v1", "http://h/v1", "me:p@ss", ("p%40ss", "p@ss")),
        ("http://a-token@h/v1", "http://h/v1", "a-token:", ("a-token",)),
        ("http://\u00fc:\u4e2d@h", "http://h", "\u00fc:\u4e2d", ("\u4e2d",)),
    ],
)
async def test_the_parts_of_an_address(given, url, login, secrets):
    """A user and a password may be escaped, and are sent in UTF-8."""
    read = read_address(given)
    sent = "" if login is None else base64.b64encode(login.encode()).decode()
    assert read.url == url
    assert read.login == ({} if login is None else {"Authorization": f"Basic {sent}"})
    assert set(read.secrets) == {*secrets, *filter(None, [sent])}


@pytest.mark.parametrize("form", ["endless", "gzip bomb", "announced"])
@pytest.mark.parametrize("kind", OPENAI_LIKE)
async def test_an_answer_is_bounded_as_sent_and_unpacked(kind, form, build):
    """Before, an endless body took 4 GB in 8 seconds."""
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while sent < 1 << 28:
            await response.write(b" " * 65536)
            sent += 65536
        return response

    bomb = answering(gzip.compress(b" " * 50_000_000), **{"Content-Encoding": "gzip"})
    announced = answering(b" " * 3_000_000)
    handler = {"endless": endless, "gzip bomb": bomb, "announced": announced}[form]
    async with serving(handler) as url:
        model = build(kind, url, endpoint=Endpoint(max_bytes=1 << 20))
        with pytest.raises(errors.MalformedResponse):
            await model.generate(ASK)
        await model.aclose()
    assert sent < 1 << 25


@pytest.mark.parametrize("kind", OPENAI_LIKE)
async def test_half_a_surrogate_is_replaced_and_read_once(kind, build):
    """Before, direct/ called it no JSON, and asked and paid six times."""
    body = json.dumps(CHAT).replace('"4"', r'"4 \ud83d and \\ud83d and \ud83d\ude00"')
    async with serving(answering(body.encode())) as url:
        response = await build(kind, url).generate(ASK)
    assert response.samples[0].text == "4 \ufffd and \\ud83d and \U0001f600"


@pytest.mark.parametrize("shown", [2**63, -1, 1e300, "many", True, None, {}])
async def test_usage_that_cannot_be_is_unknown(shown, build):
    """An answer is read all the same; nothing absurd reaches a run folder."""
    payload = {**CHAT, "usage": {"prompt_tokens": shown, "completion_tokens": 1}}
    async with serving(answering(payload)) as url:
        usage = (await build("direct", url, price=(1.0, 1.0)).generate(ASK)).usage
    assert usage.prompt_tokens == 0
    assert usage.cost == (pytest.approx(1e-6) if shown is None else None)


@pytest.mark.parametrize("given", [0.5, 800.0, "x", None, True])
@pytest.mark.parametrize("place", ["token", "alternative"])
async def test_a_log_probability_above_0_is_malformed(given, place, build):
    """Before, a score came of it, or an OverflowError."""
    token = {"token": "4", "logprob": given if place == "token" else -0.1}
    token["top_logprobs"] = [{"token": "4", "logprob": given if place == "alternative" else -0.1}]
    choice = {**CHAT["choices"][0], "logprobs": {"content": [token]}}
    async with serving(answering({**CHAT, "choices": [choice]})) as url:
        with pytest.raises(errors.MalformedResponse):
            await build("direct", url).choices(
                ChoicesRequest(messages=ASK.messages, choices={"4": ("4",)})
            )


async def test_an_unusable_answer_tells_what_it_cost(build):
    """Providers bill it."""
    empty = {**CHAT["choices"][0], "message": {"role": "assistant", "content": None}}
    async with serving(answering({**CHAT, "choices": [empty]})) as url:
        for kind in OPENAI_LIKE:
            with pytest.raises(errors.MalformedResponse) as caught:
                await build(kind, url, price=(2.0, 4.0)).generate(ASK)
            assert caught.value.usage.prompt_tokens == 9
            assert caught.value.usage.cost == pytest.approx(22e-6)


# upstream llama-server: a completion's log-probabilities come in the shape of chats
LLAMA_SERVER = {
    "choices": [
        {
            "text": " 4",
            "index": 0,
            "finish_reason": "length",
            "logprobs": {
                "content": [
                    {
                        "id": 220,
                        "token": " 4",
                        "bytes": [32, 52],
                        "logprob": -0.25,
                        "top_logprobs": [
                            {"id": 220, "token": " 4", "bytes": [32, 52], "logprob": -0.25},
                            {"id": 221, "token": " 5", "bytes": [32, 53], "logprob": -1.75},
                        ],
                    }
                ]
            },
        }
    ],
    "object": "text_completion",
    "model": "embedded.gguf",
    "usage": {"completion_tokens": 1, "prompt_tokens": 12, "total_tokens": 13},
}


@pytest.mark.parametrize("kind", ["direct", "openai"])
async def test_llama_servers_completions_tell_log_probabilities(kind, build):
    """Before, all eight methods with plain prompts were refused."""
    async with serving(answering(LLAMA_SERVER)) as url:
        found = await build(kind, url).choices(
            ChoicesRequest(prompt="Rating:", choices={"4": ("4",), "5": ("5",)})
        )
    assert found.logprobs == {"4": pytest.approx(-0.25), "5": pytest.approx(-1.75)}


async def test_llama_server_does_not_echo_and_that_is_what_is_said(build):
    """Not that there are no log-probabilities."""
    async with serving(answering(LLAMA_SERVER)) as url:
        with pytest.raises(errors.CapabilityError, match="does not echo"):
            await build("direct", url).continuation(
                ContinuationRequest(prompt="It is", continuation=" so")
            )


async def test_an_echoed_character_of_several_tokens_is_aligned():
    """llama_cpp.server shows the bytes of a curly quote as empty tokens at its place."""
    prompt, continuation = "a “so”:", " plain"
    tokens = ["a", " ", "", "", "“", "so", "", "", "”", ":", " plain", "\n"]
    places = [0, 1, 2, 2, 2, 3, 5, 5, 5, 6, 7, 13]
    logprobs = [None, *[-0.5] * (len(tokens) - 1)]
    payload = {
        "choices": [
            {
                "text": prompt + continuation + "\n",
                "logprobs": {"tokens": tokens, "token_logprobs": logprobs, "text_offset": places},
            }
        ]
    }
    found = openai_format.read_continuation(payload, prompt, continuation)
    assert [(t.token, t.logprob) for t in found] == [(" plain", -0.5)]


async def test_an_echo_asks_for_one_token(build):
    """To llama_cpp.server none means as many as its context holds."""
    seen = []

    async def note(request: web.Request) -> web.Response:
        seen.append((await request.json())["max_tokens"])
        return web.json_response(LLAMA_SERVER)

    async with serving(note) as url:
        for kind in ("direct", "openai"):
            with pytest.raises(errors.CapabilityError):
                await build(kind, url).continuation(
                    ContinuationRequest(prompt="It is", continuation=" so")
                )
    assert seen == [1, 1]


WRONG_NAME = {
    "error": {
        "message": "/chat/completions: Invalid model name passed in model=nope. Call `/v1/models`",
        "type": "None",
        "param": "None",
        "code": "400",
    }
}
WRONG_KEY = {
    "error": {
        "message": "No connected db.",
        "type": "no_db_connection",
        "param": None,
        "code": "400",
    }
}
BAD_FIELD = {
    "error": {
        "message": "1 validation error for ChatCompletion response_format.type Input should be "
        "'text'",
        "type": "internal_server_error",
        "code": None,
    }
}


@pytest.mark.parametrize(
    ("status", "payload", "kind"),
    [
        (400, WRONG_NAME, errors.ModelNotFound),
        (400, WRONG_KEY, errors.AuthenticationFailed),
        (500, BAD_FIELD, errors.RequestRefused),
    ],
)
@pytest.mark.parametrize("backend", OPENAI_LIKE)
async def test_refusals_of_litellms_proxy_and_llama_cpps_server(
    status, payload, kind, backend, build
):
    """A wrong name or key stops the run, and a field that is not taken is no outage."""
    async with serving(answering(payload, status)) as url:
        with pytest.raises(errors.ModelError) as caught:
            await build(backend, url).generate(ASK)
    assert type(caught.value) is kind


# transformers serve: `n` and the schema are ignored, and usage may be missing
TRANSFORMERS = {k: v for k, v in CHAT.items() if k != "usage"} | {"id": "req_0"}


@pytest.mark.parametrize("kind", OPENAI_LIKE)
async def test_transformers_serve_gives_one_sample_and_no_usage(kind, build):
    """One sample is an answer; its cost is unknown."""
    async with serving(answering(TRANSFORMERS)) as url:
        response = await build(kind, url).generate(ASK.model_copy(update={"n": 3}))
    assert len(response.samples) == 1
    assert response.usage.cost is None


@pytest.mark.parametrize(
    "said", ["exceed", "exceeds the maximum ", "model ", "1", "try again retry wait ", "sk-", "x"]
)
async def test_error_bodies_are_read_in_linear_time(said):
    """Before, 200 KB of one word held up the event loop for a minute."""

    def read(text):
        body = json.dumps({"error": {"message": f"wait {text}"}}).encode()
        for status in (400, 403, 429, 500):
            http_errors.from_status(status, {}, body, where="h", secret="sk-a-secret-key")

    assert grows_linearly(read, said, 12_500)
