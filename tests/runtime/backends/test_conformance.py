"""One battery for every backend that asks a server: what is true whichever way it is asked, of
servers that behave, fail, and do what no server should."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import math
import socket
import time
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from aiohttp import web

from examples.mock_server import Options
from tests.loopback import Handler, listening
from tests.responses_server import serve_responses
from tests.waiting import eventually
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    ContinuationRequest,
    Model,
    Request,
    Scoring,
)
from textassay.testing import MODEL_CHECKS

KEY = "sk-a-Key-that-nobody-may-see-0123456789"
CHAT = (
    ChatMessage(role="system", content="You rate."),
    ChatMessage(role="user", content="Rate this text."),
)
ASK = Request(messages=CHAT)
SCHEMA = {"type": "object", "properties": {"rating": {"type": "integer"}}, "required": ["rating"]}
TWO = ChoicesRequest(messages=CHAT, choices={"yes": ("yes", "Yes"), "no": ("no", "No")})
RAINED = ContinuationRequest(prompt="It rained,", continuation=" so we stayed at home.")

Backend = Callable[..., Model]
NAMES = {
    "direct": "direct/judge",
    "openai": "openai/judge",
    "vllm": "hosted_vllm/judge",
    "responses": "responses/judge",
    # these speak another format, or ask in their own way
    "groq": "groq/judge",
    "deepinfra": "deepinfra/judge",
    "anthropic": "anthropic/claude-sonnet-4-20250514",
    "mistral": "mistral/judge",
    "gemini": "gemini/gemini-2.0-flash",
}
CHATTING = ("direct", "openai", "vllm")
"""Those that ask for completions, of chats and prompts."""


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_imported() -> None:
    """The import takes seconds; do it once, outside of any event loop."""
    load_litellm()


@contextlib.asynccontextmanager
async def connecting(kind: str) -> AsyncIterator[Backend]:
    """What makes models of a backend, which are closed at the end."""
    async with contextlib.AsyncExitStack() as stack:
        front = ""

        def build(url: str, **more: Any) -> Model:
            more = {"api_key": KEY, **more}
            if kind == "responses":
                if front:  # the same server, in front of which that API stands
                    url = f"{front}/{urlsplit(url).port}/v1"
                model: Any = DirectModel(NAMES[kind], api_base=url, responses=True, **more)
            else:
                model = (DirectModel if kind == "direct" else LiteLLMModel)(
                    NAMES[kind], api_base=url, **more
                )
            stack.push_async_callback(model.aclose)
            return model

        if kind == "responses":
            front = await stack.enter_async_context(serve_responses())
        yield build


def backends(*kinds: str) -> Any:
    """A fixture that makes models of each of these backends."""

    @pytest_asyncio.fixture(params=kinds)
    async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
        async with connecting(request.param) as build:
            yield build

    return connect


connect = backends(*CHATTING, "responses")
connect_chat = backends(*CHATTING)
connect_any = backends(*(name for name in NAMES if name != "responses"))
"""Every way to ask for a chat."""


async def failure(
    model: Model, request: Request = ASK, hidden: tuple[str, ...] = (KEY, KEY[3:20])
) -> errors.TextassayError:
    """The error of a request that has to fail, checked for the key."""
    with pytest.raises(errors.TextassayError) as caught:
        await model.generate(request)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert not any(secret in shown for secret in hidden)
    assert str(caught.value).isprintable()
    return caught.value


# ---- a server that behaves ----


async def test_every_backend_passes_the_checks_for_all_models(connect, mock_server):
    server = await mock_server()
    is_litellm = isinstance(connect(server.url), LiteLLMModel)
    for check in MODEL_CHECKS:
        # litellm leaves a coroutine behind, which Python warns of, if a call is canceled at once
        if not (is_litellm and check.__name__ == "cancelling_leaves_it_usable"):
            await check(lambda: connect(server.url))


async def test_an_answer_has_text_usage_cost_and_the_name_of_the_model(connect, mock_server):
    server = await mock_server()
    response = await connect(server.url).generate(ASK)
    (sample,) = response.samples
    assert sample.text.startswith("Rating: ")
    assert (sample.finish_reason, sample.logprobs) == ("stop", None)
    usage = response.usage
    assert usage.prompt_tokens > 5
    assert usage.completion_tokens > 0
    assert usage.cost is None
    assert response.model == "judge"
    priced = (await connect(server.url, price=(2.0, 8.0)).generate(ASK)).usage
    cost = 2 * usage.prompt_tokens + 8 * usage.completion_tokens
    assert priced.cost == pytest.approx(cost / 1e6)


async def test_samples_come_in_one_request(connect_chat, mock_server):
    """At least one of them is an answer."""
    server = await mock_server()
    model = connect_chat(server.url)
    response = await model.generate(Request(messages=CHAT, n=5, temperature=1.0))
    assert len(response.samples) == 5
    assert len({s.text for s in response.samples}) > 1
    assert server.counters.requests == 1
    server.options.only_one = True
    assert len((await model.generate(Request(messages=CHAT, n=4))).samples) == 1


async def test_log_probabilities_of_sampled_tokens(connect, mock_server):
    """Tokens join to the text; alternatives are sorted and hold no more than all probability."""
    server = await mock_server()
    asked = Request(messages=CHAT, logprobs=5)
    (sample,) = (await connect(server.url).generate(asked)).samples
    assert sample.logprobs is not None
    assert "".join(t.token for t in sample.logprobs) == sample.text
    for token in sample.logprobs:
        assert len(token.top) == 5
        assert [lp for _, lp in token.top] == sorted((lp for _, lp in token.top), reverse=True)
        assert math.fsum(math.exp(lp) for _, lp in token.top) <= 1 + 1e-9
        assert dict(token.top)[token.token] == token.logprob
    server.options.omit_logprobs = True
    missing = await failure(connect(server.url), asked)
    assert type(missing) is errors.NoLogprobs
    assert "n=20" in str(missing)
    server.options.refuse_logprobs = True
    refused = await failure(connect(server.url), asked)
    assert type(refused) is errors.RequestRefused
    assert refused.refusal == errors.Refusal("drop", "logprobs")


async def test_the_server_reads_the_fields_of_the_request(connect_chat, mock_server):
    server = await mock_server()
    seen: list[Any] = []
    server.listener = seen.append
    asked = Request(
        messages=CHAT,
        temperature=0.5,
        top_p=0.9,
        max_tokens=17,
        stop=("\n\n", "END"),
        json_schema=SCHEMA,
        extra={"top_k": 5, "chat_template_kwargs": {"x": True}},
    )
    await connect_chat(server.url).generate(asked)
    (body,) = seen
    assert body.pop("response_format")["json_schema"]["schema"] == SCHEMA
    assert body == {
        "model": "judge",
        "messages": [{"role": m.role, "content": m.content} for m in CHAT],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 17,
        "stop": ["\n\n", "END"],
        **asked.extra,
    }


async def test_the_draw_is_part_of_the_seed(connect_chat, mock_server):
    server = await mock_server(reply=lambda body, draw: f"seed {body['seed']}")
    model = connect_chat(server.url)
    asked = [Request(messages=CHAT, seed=7, draw=draw, temperature=1.0) for draw in (0, 3)]
    texts = [(await model.generate(one)).samples[0].text for one in asked]
    assert texts == ["seed 7", "seed 10"]


async def test_plain_prompts_go_to_completions(connect_chat, mock_server):
    """With log-probabilities in the older format."""
    server = await mock_server()
    request = Request(prompt="The text is", n=2, logprobs=3)
    first, _ = (await connect_chat(server.url).generate(request)).samples
    assert first.logprobs is not None
    assert "".join(t.token for t in first.logprobs) == first.text
    assert {len(t.top) for t in first.logprobs} == {3}


async def test_choices_are_read_from_the_first_token(connect, mock_server):
    """Reported labels have their probability, others None; together they stay within 1."""
    server = await mock_server()
    model = connect(server.url)
    assert isinstance(model, Scoring)
    answer = await model.choices(TWO.model_copy(update={"choices": {**TWO.choices, "q": ("Q",)}}))
    assert answer.logprobs["q"] is None
    assert 0 < answer.mass < 1
    alone = await model.choices(ChoicesRequest(messages=CHAT, choices={"yes": ("Yes",)}))
    assert alone.logprobs["yes"] < answer.logprobs["yes"]


async def test_a_continuation_has_the_probabilities_of_its_tokens(connect_chat, mock_server):
    """One new token is asked for, and left out: to llama_cpp.server none means as many as its
    context holds, and other servers refuse to write none."""
    server = await mock_server(refuse_zero_tokens=True)
    seen: list[Any] = []
    server.listener = seen.append
    model = connect_chat(server.url)
    answer = await model.continuation(RAINED)
    assert "".join(t.token for t in answer.tokens) == RAINED.continuation
    assert answer.logprob == pytest.approx(math.fsum(t.logprob for t in answer.tokens))
    assert answer.logprob < 0
    server.options.ignore_echo = True
    with pytest.raises(errors.CapabilityError, match=r"(direct|judge|http).* does not echo"):
        await model.continuation(RAINED)
    assert [body["max_tokens"] for body in seen] == [1, 1]


async def test_a_chat_has_no_continuation(connect):
    with pytest.raises(errors.CapabilityError, match="plain prompt"):
        await connect("http://127.0.0.1:9/v1").continuation(
            ContinuationRequest(messages=CHAT, continuation=" x")
        )


async def test_a_second_model_works_after_the_first_was_closed(connect, mock_server):
    """In the same loop, and so does one that is still open."""
    server = await mock_server()
    first, other = connect(server.url), connect(server.url)
    for model in (other, first):
        await model.generate(ASK)
    await first.aclose()
    assert (await other.generate(ASK)).samples
    await other.aclose()
    assert (await connect(server.url).generate(ASK)).samples


async def test_identity_has_no_key(connect_chat):
    """What goes into caches and manifests never holds a key or a password."""
    own_header = Endpoint(key_header="X-Key")
    model = connect_chat("http://user:secret-password@127.0.0.1:8000/v1", endpoint=own_header)
    shown = str(model.identity) + repr(model)
    assert KEY not in shown
    assert "secret-password" not in shown
    assert "127.0.0.1:8000" in str(model.identity)


# ---- one that fails ----


def failing(status: int, error: str) -> dict[str, Any]:
    return {"p500": 1, "status": status, "error": error}


FAULTS: list[tuple[dict[str, Any], type[errors.TextassayError]]] = [
    (failing(401, "invalid_api_key the key {key} is wrong"), errors.AuthenticationFailed),
    (failing(403, "permission_denied you may not use this model"), errors.AuthenticationFailed),
    (failing(404, "model_not_found no such model"), errors.ModelNotFound),
    (failing(429, "rate_limit_exceeded slow down"), errors.RateLimited),
    (failing(429, "insufficient_quota you exceeded your current quota"), errors.QuotaExhausted),
    (failing(402, "payment_required insufficient balance"), errors.QuotaExhausted),
    (failing(400, "context_length_exceeded maximum context length is 9"), errors.ContextTooLong),
    (failing(400, "content_filter our content management policy"), errors.ContentRefused),
    (failing(400, "invalid_value temperature must be below 2"), errors.RequestRefused),
    (failing(422, "unprocessable unknown field"), errors.RequestRefused),
    (failing(500, "internal_error {key} made us fail"), errors.ServerFailed),
    (failing(502, "bad_gateway upstream is gone"), errors.ServerFailed),
    (failing(503, "overloaded come back later"), errors.ServerFailed),
    ({"require_key": "another-key"}, errors.AuthenticationFailed),
    ({"models": "other"}, errors.ModelNotFound),
    ({"context": 3}, errors.ContextTooLong),
    ({"p_filter": 1}, errors.ContentRefused),
    ({"p_drop": 1}, errors.ConnectionFailed),
    ({"p_broken": 1, "broken_style": "html"}, errors.PageAnswered),
    ({"p_broken": 1, "broken_style": "empty"}, errors.PageAnswered),
    *(
        ({"p_broken": 1, "broken_style": style}, errors.MalformedResponse)
        for style in ("truncated", "no_choices", "null_content")
    ),
]


async def test_every_fault_has_its_error(connect, mock_server):
    """It depends on what the server says, not on the way it is asked; and it is asked once."""
    server = await mock_server()
    model = connect(server.url)
    for fault, kind in FAULTS:
        server.options, before = Options(**fault), server.counters.requests
        found = await failure(model)
        assert type(found) is kind, (fault, repr(found))
        assert server.counters.requests == before + 1, fault
        if kind in (errors.RateLimited, errors.ServerFailed):
            assert found.retry_after == 1.0
        if kind is errors.ServerFailed:
            assert found.status == fault["status"]
        assert "require_key" not in fault or "[key]" in str(found)


async def test_every_form_of_retry_after_is_understood(connect, mock_server):
    """Seconds, milliseconds, a date, or words in the message."""
    server = await mock_server(p429=1, retry_after=2.5)
    model = connect(server.url)
    for style in ("seconds", "ms", "date", "text", "none"):
        server.options.retry_after_style = style
        began = time.monotonic()
        error = await failure(model)
        assert type(error) is errors.RateLimited
        if style == "date":  # has whole seconds, and what has passed since it was written counts
            took = time.monotonic() - began
            assert 3.0 - 0.8 - took <= error.retry_after <= 3.0 + 0.8
        else:
            assert error.retry_after == (None if style == "none" else pytest.approx(2.5)), style


async def test_a_refused_connection(connect_chat):
    """Nothing listens at the address, which the message names."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = await failure(connect_chat(f"http://127.0.0.1:{port}/v1"))
    assert type(error) is errors.NothingListening
    assert str(port) in str(error)


# ---- one that does what no server should ----

ANSWER = {
    "model": "m",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "4"}}
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
}
LOGIN = f"Basic {base64.b64encode(b'me:pass-word').decode()}"


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    async with listening(handler) as address:
        yield f"{address}/v1"


def answering(payload: Any, status: int = 200, **headers: str) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        kind = {"Content-Type": "application/json", **headers}
        return web.Response(body=body, status=status, headers=kind)

    return answer


async def test_a_redirect_is_refused_on_every_path(connect_any):
    """The prompt stays here: the other host is never asked, and its answer never scored; and the
    one that redirects is asked once."""
    asked, statuses = [], iter((302, 307, 308))

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(await request.text())
        return web.json_response(ANSWER)

    async def redirect(request: web.Request) -> web.Response:
        return web.Response(
            status=next(statuses), headers={"Location": other + "/chat/completions"}
        )

    async with serving(elsewhere) as other, serving(redirect) as url:
        model = connect_any(url)
        for _ in range(3):
            with pytest.raises(errors.PathNotFound, match=f"redirects to .{other}"):
                await model.generate(ASK)
    assert asked == []


async def test_no_cookie_is_sent_back(connect_any):
    """It would tie later requests to what earlier ones met."""
    cookies = []

    async def baking(request: web.Request) -> web.Response:
        cookies.append(request.headers.get("Cookie"))
        return web.json_response(ANSWER, headers={"Set-Cookie": "session=1; Path=/"})

    async with serving(baking) as url:
        model = connect_any(url)
        for _ in range(3):
            with contextlib.suppress(errors.ModelError):  # some providers speak another format
                await model.generate(ASK)
    assert cookies == [None] * 3


async def test_a_user_in_the_address_is_sent_as_a_login(connect_chat, monkeypatch):
    """In place of a key, also where a library insists on one; no error shows the password."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    logins = []

    async def guarded(request: web.Request) -> web.Response:
        logins.append(request.headers.get("Authorization"))
        if len(logins) == 3:
            return web.json_response({"error": f"me:pass-word, {LOGIN} is refused"}, status=403)
        return web.json_response(ANSWER)

    hidden = ("pass-word", LOGIN.removeprefix("Basic "))
    async with serving(guarded) as url:
        model = connect_chat(url.replace("://", "://me:pass-word@"), api_key=None)
        for _ in range(2):
            assert (await model.generate(ASK)).samples[0].text == "4"
        assert type(await failure(model, hidden=hidden)) is errors.AuthenticationFailed
    gone = await failure(model, hidden=hidden)
    assert isinstance(gone, errors.ConnectionFailed | errors.NothingListening)
    assert logins == [LOGIN] * 3


async def test_a_user_in_the_address_and_a_key_need_a_header_each(connect_chat):
    """Both as `Authorization` are refused before anything is sent; a key may have its own."""
    address = "http://me:pass-word@127.0.0.1:1/v1"
    with pytest.raises(errors.ConfigurationError, match=r"header of its own .*api_key_header"):
        connect_chat(address)
    other = Endpoint(headers={"authorization": "Negotiate"})
    with pytest.raises(errors.ConfigurationError, match="another header of that name"):
        connect_chat(address, api_key=None, endpoint=other)
    sent = []

    async def echo(request: web.Request) -> web.Response:
        sent.append((request.headers.get("Authorization"), request.headers.get("X-Key")))
        return web.json_response(ANSWER)

    async with serving(echo) as url:
        address = url.replace("://", "://me:pass-word@")
        await connect_chat(address, endpoint=Endpoint(key_header="X-Key")).generate(ASK)
    assert sent == [(LOGIN, KEY)]


async def test_a_short_password_does_not_change_what_an_error_is(connect_chat):
    """It is masked in what is shown, not in what is read."""
    spent = {"error": {"code": "insufficient_quota", "message": "You exceeded your quota."}}
    async with serving(answering(spent, 429)) as url:
        model = connect_chat(url.replace("://", "://me:a@"), api_key=None)
        with pytest.raises(errors.QuotaExhausted):
            await model.generate(ASK)


async def test_an_answer_is_bounded_as_sent_and_unpacked(connect_chat):
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
    for handler in (endless, bomb, answering(b" " * 3_000_000)):
        async with serving(handler) as url:
            model = connect_chat(url, endpoint=Endpoint(max_bytes=1 << 20))
            with pytest.raises(errors.MalformedResponse):
                await model.generate(ASK)
            await model.aclose()
    assert sent < 1 << 25


async def test_half_a_surrogate_is_replaced_and_read_once(connect_chat):
    """Before, direct/ called it no JSON, and asked and paid six times."""
    body = json.dumps(ANSWER).replace('"4"', r'"4 \ud83d and \\ud83d and \ud83d\ude00"')
    async with serving(answering(body.encode())) as url:
        response = await connect_chat(url).generate(ASK)
    assert response.samples[0].text == "4 \ufffd and \\ud83d and \U0001f600"


async def test_an_unusable_answer_reports_its_cost(connect_chat):
    """Providers bill it."""
    empty = {**ANSWER["choices"][0], "message": {"role": "assistant", "content": None}}
    async with serving(answering({**ANSWER, "choices": [empty]})) as url:
        with pytest.raises(errors.MalformedResponse) as caught:
            await connect_chat(url, price=(2.0, 4.0)).generate(ASK)
    assert caught.value.usage.prompt_tokens == 9
    assert caught.value.usage.cost == pytest.approx(22e-6)


async def test_an_answer_may_lack_all_but_its_text(connect_chat):
    async with serving(answering({"choices": [{"message": {"content": "4"}}]})) as url:
        response = await connect_chat(url).generate(ASK)
    assert response.samples[0].text == "4"


@pytest.mark.parametrize(
    "choices",
    [
        *(None, "abc", [1], [{}], [{"message": None}]),
        *([{"message": {"content": content}}] for content in (5, {"text": "4"}, [4])),
        # of 10, perhaps
        *([{"message": {"content": "1"}, "finish_reason": end}] for end in ("error", "cancelled")),
        [{"message": {"content": ""}, "finish_reason": None}],
    ],
)
async def test_an_answer_in_another_format_or_broken_off_is_malformed(connect_chat, choices):
    """Not the server's failure, and not a refusal; it was paid for."""
    async with serving(answering({**ANSWER, "choices": choices})) as url:
        with pytest.raises(errors.MalformedResponse) as caught:
            await connect_chat(url).generate(ASK)
    assert caught.value.usage.prompt_tokens == 9


async def test_an_error_with_a_status_of_success_is_not_an_answer(connect_chat):
    """R14: the gateway's upstream failed."""
    error = {"message": "Provider returned error", "code": 502}
    async with serving(answering({"error": error})) as url:
        with pytest.raises(errors.ServerFailed):
            await connect_chat(url).generate(ASK)


# ---- the lean client alone ----


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


async def test_making_a_model_opens_nothing_and_needs_no_loop():
    address = "http://127.0.0.1:1/v1"
    model = await asyncio.to_thread(DirectModel, "direct/org/judge", api_base=f"{address}/")
    identity = {"backend": "openai-compatible", "model": "org/judge", "api_base": address}
    assert (model.name, model.identity) == ("direct/org/judge", identity)


async def test_the_number_of_connections_is_not_limited(mock_server):
    """The limiter decides, not the pool."""
    server = await mock_server(hold_after=1)  # the first is answered
    async with connecting("direct") as build, asyncio.TaskGroup() as group:
        model = build(server.url)
        for _ in range(150):
            group.create_task(model.generate(ASK))
        await eventually(lambda: server.counters.in_flight == 149)
        server.options.hold_after = 0


async def test_another_loop_is_distinguished(mock_server):
    """A session belongs to its loop; using it elsewhere would hang."""
    server = await mock_server()
    async with connecting("direct") as build:
        model = build(server.url)
        await model.generate(ASK)
        with pytest.raises(errors.ConfigurationError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, model.generate(ASK))
