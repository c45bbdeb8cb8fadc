"""Rows and answers of batches in the format of each provider, and where files of them may go."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from aiohttp import web

from tests.loopback import listening
from tests.responses_server import response_of
from textassay.runtime import errors
from textassay.runtime.backends import responses_format
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.batches.anthropic import AnthropicDialect
from textassay.runtime.batches.dialect import BatchHttp, BatchStatus, Dialect
from textassay.runtime.batches.model import open_dialect
from textassay.runtime.errors import (
    AnswerTooLong,
    CapabilityError,
    PathNotFound,
    RequestRefused,
)
from textassay.runtime.model import ChatMessage, Function, Request, Sample

ASK = Request(messages=(ChatMessage(role="user", content="Rate it."),), temperature=None)
Open = Callable[[str], Dialect]


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[Open]:
    """Open batch APIs that are never asked."""
    made: list[Dialect] = []

    def make(name: str) -> Dialect:
        where = {"api_base": "http://127.0.0.1:9/v1", "api_key": "k", "endpoint": Endpoint()}
        made.append(open_dialect(name, **where))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for dialect in made:
        await dialect.aclose()


def body_of(row: bytes) -> dict[str, Any]:
    """The request in a row, without its messages."""
    line = orjson.loads(row)
    body = line.get("body") or line.get("params") or line["request"]
    return {key: value for key, value in body.items() if key not in ("messages", "contents")}


# fmt: off
TOKENS = {"input_tokens": 20, "output_tokens": 310, "cache_read_input_tokens": 1500}
R04 = {"stop_reason": "end_turn", "usage": TOKENS, "content": [
    {"type": "thinking", "thinking": "", "signature": "x"}, {"type": "text", "text": "4"}]}
R06 = {"candidates": [{"finishReason": "STOP", "content": {
    "parts": [{"text": "maybe 2", "thought": True}, {"text": "4"}]}}]}
UNFINISHED = Sample(text="", finish_reason="length")
FOUR = Sample(text="4", thought="maybe 2")
CHAT = {"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}]}
ANSWERS = {
    "R04": ("anthropic/m", R04, Sample(text="4")),
    "R05": ("anthropic/m", R04 | {"content": R04["content"][:1], "stop_reason": "max_tokens"},
            UNFINISHED),
    "R05 ended": ("anthropic/m", R04 | {"content": R04["content"][:1]}, UNFINISHED),
    "tags": ("anthropic/m", R04 | {"content": [
        {"type": "text", "text": "<thinking>maybe 2</thinking>\n4"}]}, FOUR),
    "R06": ("gemini/m", R06, FOUR),
    "R07": ("gemini/m", R06 | {"candidates": [
        {"finishReason": "MAX_TOKENS", "content": {"role": "model"}}],
        "usageMetadata": {"promptTokenCount": 9, "thoughtsTokenCount": 8}}, UNFINISHED),
    "cut by a filter": ("gemini/m", {"candidates": [
        {"finishReason": "RECITATION", "content": {"parts": [{"text": "1"}]}}]},
        Sample(text="1", finish_reason="filtered")),
    "responses": ("responses/m", response_of(CHAT), Sample(text="4")),
}
# fmt: on


@pytest.mark.parametrize(("name", "payload", "sample"), ANSWERS.values(), ids=ANSWERS)
async def test_answers_without_their_thoughts(name, payload, sample, opened: Open) -> None:
    assert opened(name).read(payload, ASK).samples == (sample,)


async def test_an_account_without_money_ends_a_row_as_it_ends_a_call(opened: Open) -> None:
    """The single calls for rows that failed at the server would fail, too."""
    told = {"type": "billing_error", "message": "Check your payment details."}
    result = {"type": "errored", "error": {"type": "error", "error": told}}
    dialect = opened("anthropic/m")
    assert isinstance(dialect, AnthropicDialect)
    found = dialect._read_result({"custom_id": "k", "result": result})
    assert isinstance(found.error, errors.QuotaExhausted)


async def test_a_failed_precondition_of_gemini_is_a_refusal(opened: Open) -> None:
    """Its code is one of two that google/rpc/code.proto maps to 400 besides INVALID_ARGUMENT."""
    error = {"code": 9, "message": "User location is not supported for the API use."}
    answer = {"response": {"inlinedResponses": {"inlinedResponses": [{"error": error}]}}}
    status = BatchStatus(ended=True, word="SUCCEEDED", failure="", answer=answer)
    found = [one async for one in opened("gemini/m").results("batches/b", status, ["k"])]
    assert [type(one.error) for one in found] == [RequestRefused]


async def test_a_refusal_of_anthropic_is_not_an_answer(opened: Open) -> None:
    """R05."""
    with pytest.raises(errors.ContentRefused) as caught:
        opened("anthropic/m").read(R04 | {"content": [], "stop_reason": "refusal"}, ASK)
    assert caught.value.usage.prompt_tokens == 1520


# fmt: off
ROWS = {
    "anthropic": ("anthropic/m", {"effort": "minimal"}, {
        "output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}, "max_tokens": 4096}),
    "anthropic, off": ("anthropic/m", {"effort": "none"}, {
        "thinking": {"type": "disabled"}, "max_tokens": 4096}),
    "anthropic, a budget": (
        "anthropic/m",
        {"thinking_tokens": 2048, "extra": {"output_config": {"x": 1}}, "json_schema": {}},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 6144,
         "output_config": {"format": {"type": "json_schema", "schema": {}}, "x": 1}}),
    "gemini": ("gemini/gemini-3.6-flash", {"effort": "max"}, {
        "generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}}),
    "gemini 2.5": (
        "gemini/gemini-2.5-flash",
        {"effort": "none", "extra": {"generationConfig": {"topK": 3}, "labels": {}}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}, "topK": 3}, "labels": {}}),
    "gemini, a budget": ("gemini/gemini-2.5-pro", {"thinking_tokens": 300}, {
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 300}}}),
    "openai": ("openai/m", {"extra": {"verbosity": "low"}}, {"verbosity": "low"}),
    "groq": ("groq/m", {"extra": {"service_tier": "flex"}}, {"service_tier": "flex"}),
    "together": ("together_ai/m", {"extra": {"reasoning": {}}}, {"reasoning": {}}),
}
# fmt: on


@pytest.mark.parametrize(("name", "fields", "sent"), ROWS.values(), ids=ROWS)
async def test_effort_and_further_fields_reach_the_rows(name, fields, sent, opened: Open) -> None:
    """No temperature is sent where it is left to the model."""
    body = body_of(opened(name).encode("key", ASK.model_copy(update=fields)))
    assert body == (sent if "gemini" in name else {"model": "m", **sent})


async def test_requests_are_written_as_the_apis_take_them(opened: Open) -> None:
    system = ChatMessage(role="system", content="Be strict.")
    request = Request(
        messages=(system, *ASK.messages),
        temperature=0.5,
        top_p=0.9,
        max_tokens=7,
        stop=("END",),
        json_schema={"type": "object"},
    )
    names = ("anthropic/m", "gemini/m", "together_ai/m", "groq/m")
    rows = {name: orjson.loads(opened(name).encode("key", request)) for name in names}
    assert rows["anthropic/m"]["params"] == {
        "model": "m",
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "system": "Be strict.",
        "messages": [{"role": "user", "content": "Rate it."}],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
    }
    assert rows["gemini/m"]["request"] == {
        "systemInstruction": {"parts": [{"text": "Be strict."}]},
        "contents": [{"role": "user", "parts": [{"text": "Rate it."}]}],
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxOutputTokens": 7,
            "stopSequences": ["END"],
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
        },
    }
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    chat = {
        "model": "m",
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 7,
        "stop": ["END"],
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    assert rows["together_ai/m"] == {"custom_id": "key", "body": chat}
    where = {"custom_id": "key", "method": "POST", "url": "/v1/chat/completions"}
    assert rows["groq/m"] == {**where, "body": chat}
    responses = opened("responses/m")
    assert orjson.loads(responses.encode("key", ASK)) == {
        **where,
        "url": "/v1/responses",
        "body": {"model": "m", **responses_format.request_fields(ASK)},
    }


LOOK = Function(name="look", description="Look it up.", parameters={"type": "object"})


async def test_fields_that_the_apis_lack_are_refused_before_anything_is_submitted(
    opened: Open,
) -> None:
    lacking: dict[str, list[dict[str, Any]]] = {
        "anthropic/m": [{"n": 2}, {"seed": 1}, {"logprobs": 5}, {"functions": (LOOK,)}],
        "groq/m": [{"n": 2}, {"logprobs": 5}],
        "gemini/m": [{"logprobs": 5}],
        "together_ai/m": [],
    }
    for name, fields in lacking.items():
        dialect = opened(name)
        for field in fields:
            with pytest.raises(CapabilityError, match=f"(?i)batches of {name.split('/')[0]}"):
                dialect.group(ASK.model_copy(update=field))
        with pytest.raises(CapabilityError, match="plain prompts"):
            dialect.group(Request(prompt="Rate it"))
    with pytest.raises(RequestRefused):
        opened("responses/m").group(ASK.model_copy(update={"seed": 1}))


async def test_paths_in_batches_are_those_of_the_provider(opened: Open) -> None:
    """Azure's have no version."""
    names = ("openai/m", "azure/m", "together_ai/m")
    assert [opened(name).group(ASK) for name in names] == [
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/chat/completions",
    ]


# files that go to a provider and come from it

SECRETS = Endpoint(query={"token": "query-secret"}, max_bytes=1000)


@asynccontextmanager
async def asking(address: str) -> AsyncIterator[BatchHttp]:
    http = BatchHttp(address, SECRETS, name="m", headers={"api-key": "header-secret"}, key="k")
    try:
        yield http
    finally:
        await http.aclose()


async def test_files_are_not_uploaded_to_where_a_server_leads(tmp_path: Path) -> None:
    """They hold the prompts, and the key goes with them."""
    (tmp_path / "requests").write_bytes(b"the prompts")
    asked: list[web.Request] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        return web.json_response({"id": "file-1"})

    async with listening(elsewhere) as other:

        async def leading(request: web.Request) -> web.StreamResponse:
            await request.read()
            raise web.HTTPTemporaryRedirect(f"{other}/files")

        async with listening(leading) as address, asking(address) as http:
            with pytest.raises(PathNotFound, match="redirects to"):
                await http.upload("/files", tmp_path / "requests", {"purpose": "batch"})
    assert not asked


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_without_an_end_is_refused(tmp_path: Path, status: int) -> None:
    """To an upload or in place of results; it would take all memory."""
    (tmp_path / "requests").write_bytes(b"the prompts")

    async def endless(request: web.Request) -> web.StreamResponse:
        await request.read()
        answer = web.StreamResponse(status=status)
        await answer.prepare(request)
        while True:
            await answer.write(b" " * 1000)

    async with listening(endless) as address, asking(address) as http:
        with pytest.raises(AnswerTooLong, match="more than 1000 bytes"):
            await http.upload("/files", tmp_path / "requests", {"purpose": "batch"})
        with pytest.raises(AnswerTooLong, match="more than 1000 bytes"):
            async for _ in http.lines("/results"):
                pass


async def test_results_in_a_storage_elsewhere_are_fetched_without_the_key() -> None:
    """As providers have them that lead to a signed address."""
    asked: list[web.Request] = []

    async def storage(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        return web.Response(body=b'{"a": 1}\n\n{"b": \n{"c": 3}')

    async with listening(storage) as other:

        async def leading(request: web.Request) -> web.StreamResponse:
            assert request.headers["api-key"] == "header-secret"
            raise web.HTTPFound(f"{other}/bucket/file?signed=yes")

        async with listening(leading) as address, asking(address) as http:
            assert [line async for line in http.lines("/files/1")] == [{"a": 1}, None, {"c": 3}]
    (request,) = asked
    assert request.path_qs == "/bucket/file?signed=yes"
    assert not any("secret" in value for value in request.headers.values())


async def test_a_redirect_on_the_same_server_keeps_the_key() -> None:
    """As gateways have them that add a slash; one that never ends is refused."""

    async def serving(request: web.Request) -> web.StreamResponse:
        assert request.headers["api-key"] == "header-secret"
        if request.path == "/round":
            raise web.HTTPFound("/round")
        if not request.path.endswith("/"):
            raise web.HTTPTemporaryRedirect(request.path + "/")
        return web.Response(body=b"1\n2")

    async with listening(serving) as address, asking(address) as http:
        assert [line async for line in http.lines("/files/1/content")] == [1, 2]
        with pytest.raises(RequestRefused, match="redirects too often"):
            async for _ in http.lines("/round"):
                pass


async def test_a_user_in_the_address_is_sent_as_a_login_on_the_same_server() -> None:
    """In place of a key of the environment, and to results elsewhere it is not sent."""
    logins = []

    async def serving(request: web.Request) -> web.StreamResponse:
        logins.append(request.headers.get("Authorization"))
        if request.path == "/files/1":
            raise web.HTTPFound("/files/1/" if len(logins) == 1 else f"{other}/files/1/")
        return web.Response(body=b"1")

    async with listening(serving) as address, listening(serving) as other:
        with_user = address.replace("://", "://me:pass-word@")
        async with asking(with_user) as http:
            for _ in range(2):
                assert [line async for line in http.lines("/files/1")] == [1]
    login = f"Basic {base64.b64encode(b'me:pass-word').decode()}"
    assert logins == [login, login, login, None]


async def test_a_line_that_is_too_long_is_distinguished_from_a_damaged_one() -> None:
    """A resumed run with a larger limit reads it."""

    async def serving(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"1\n" + b"x" * 2000)

    async with listening(serving) as address, asking(address) as http:
        with pytest.raises(AnswerTooLong, match="a line of more than 1000 bytes"):
            async for _ in http.lines("/files/1"):
                pass
