"""What real providers answered, read by every client that reads their format.

860 exchanges that were recorded by pydantic-ai. The text, read here independently of the clients,
must come out of each of them, counts of tokens must add up, and refusals must be told apart.

Left out are answers that a judge never gets, since it asks for nothing of the kind: with tools or
calls of them, with a summary of a long chat, and those of a job that had not begun. litellm reads
the Responses API only with a package that is not installed here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.benchmark_data import benchmark
from tests.loopback import listening
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.batches.providers import open_dialect
from textassay.runtime.messages import Usage
from textassay.runtime.model import ChatMessage, Request, Response

pytestmark = [
    pytest.mark.asyncio,
    # what litellm makes of parts in place of a text
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]

ASK = Request(messages=(ChatMessage(role="user", content="Rate it."),), temperature=None)
KEY = "sk-test-0123456789"
Row = dict[str, Any]


def recorded(kind: str) -> list[Row]:
    """The exchanges of one API that a judge may have."""
    rows = benchmark("provider-answers/answers.jsonl.gz")
    return [
        row for row in rows if row["kind"] == kind and not row["tools"] and not is_left_out(row)
    ]


def is_left_out(row: Row) -> bool:
    if row["status"] != 200:
        return False
    body = row["body"]
    if row["kind"] == "converse":
        return any("toolUse" in part for part in body["output"]["message"]["content"])
    if row["kind"] == "responses":
        kinds = {item["type"] for item in body["output"]}
        return bool(kinds & {"function_call", "compaction"}) or body["status"] == "queued"
    if row["kind"] == "messages":
        return any(part["type"] == "compaction" for part in body["content"])
    return False


EXPECTED = {
    "chat": {"read": 88, "tools": 136},
    "responses": {"read": 50, "tools": 97, "left out": 4},
    "messages": {"read": 26, "tools": 103, "left out": 1},
    "gemini": {"read": 45, "tools": 193},
    "converse": {"read": 70, "left out": 47},
}


async def test_the_rows_are_those_that_are_expected() -> None:
    """None is left out by an accident of the rule above."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in EXPECTED}
    for row in benchmark("provider-answers/answers.jsonl.gz"):
        use = "tools" if row["tools"] else "left out" if is_left_out(row) else "read"
        counts[row["kind"]][use] += 1
    assert counts == EXPECTED


# --- the independent reading ----------------------------------------------------------------------


def text_in(row: Row) -> str:
    """The answer; some models begin it with a thought between tags."""
    return re.sub(r"(?s)\A\s*<think(ing)?>.*?(</think(ing)?>|\Z)", "", whole_text_in(row))


def whole_text_in(row: Row) -> str:
    body = row["body"]
    if row["kind"] == "chat":
        content = body["choices"][0]["message"]["content"]
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content if part["type"] == "text")
        return content
    if row["kind"] == "responses":
        parts = [part for item in body["output"] for part in item.get("content") or ()]
        return "".join(part["text"] for part in parts if part["type"] == "output_text")
    if row["kind"] == "messages":
        return "".join(part["text"] for part in body["content"] if part["type"] == "text")
    if row["kind"] == "gemini":
        candidate = (body.get("candidates") or [{}])[0]
        parts = candidate.get("content", {}).get("parts", [])
        return "".join(part["text"] for part in parts if not part.get("thought"))
    parts = body["output"]["message"]["content"]
    return "".join(part.get("text", "") for part in parts)


def counts_in(row: Row) -> tuple[int, int, int] | None:
    """Prompt tokens, sampled tokens and cached tokens, as each API defines its fields."""
    used: dict[str, Any] = row["body"].get("usage") or row["body"].get("usageMetadata") or {}
    if row["kind"] == "chat":
        details = used.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens") or used.get("cached_tokens")
        cached = cached or used.get("num_cached_tokens")
        return used["prompt_tokens"], used["completion_tokens"], cached or 0
    if row["kind"] == "responses":
        cached = (used.get("input_tokens_details") or {}).get("cached_tokens", 0)
        return used["input_tokens"], used["output_tokens"], cached
    if row["kind"] == "messages":
        read, written = used["cache_read_input_tokens"], used["cache_creation_input_tokens"]
        return used["input_tokens"] + read + written, used["output_tokens"], read
    if row["kind"] == "gemini":
        if "promptTokenCount" not in used:
            return None
        sampled = used.get("candidatesTokenCount", 0) + used.get("thoughtsTokenCount", 0)
        return used["promptTokenCount"], sampled, used.get("cachedContentTokenCount", 0)
    return (
        used["totalTokens"] - used["outputTokens"],
        used["outputTokens"],
        used.get("cacheReadInputTokens", 0),
    )


# --- the clients ----------------------------------------------------------------------------------


@asynccontextmanager
async def replaying(rows: list[Row]) -> AsyncIterator[tuple[str, Callable[[Row], None]]]:
    """A server that answers every path with the row that was put up last."""
    shown: list[Row] = []

    async def answer(request: web.Request) -> web.Response:
        row = shown[-1]
        kind = {"Content-Type": "application/json"}
        return web.Response(body=json.dumps(row["body"]), status=row["status"], headers=kind)

    async with listening(answer) as address:
        yield address, shown.append


def responses_model(name: str, **more: Any) -> DirectModel:
    return DirectModel(name, responses=True, **more)


LIVE: dict[str, tuple[str, Callable[..., Any], str, str]] = {
    "chat, direct": ("chat", DirectModel, "direct/m", "/v1"),
    "chat, litellm": ("chat", LiteLLMModel, "openai/m", "/v1"),
    "chat, litellm, Mistral": ("chat", LiteLLMModel, "mistral/m", "/v1"),
    "responses, direct": ("responses", responses_model, "responses/m", "/v1"),
    "messages, litellm": ("messages", LiteLLMModel, "anthropic/claude-sonnet-4-5", ""),
    "gemini, litellm": ("gemini", LiteLLMModel, "gemini/gemini-2.5-flash", ""),
    "converse, litellm": ("converse", LiteLLMModel, "bedrock/converse/amazon.nova-pro-v1:0", ""),
}


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_imported() -> None:
    load_litellm()


@pytest.fixture(autouse=True)
def _bedrock_has_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")


async def outcome(answering: Any) -> Response | errors.TextassayError:
    try:
        return await answering
    except errors.TextassayError as error:
        return error


@pytest.mark.parametrize(("kind", "client", "name", "path"), LIVE.values(), ids=LIVE)
async def test_live_answers(kind: str, client: Callable[..., Any], name: str, path: str) -> None:
    rows = recorded(kind)
    async with AsyncExitStack() as stack:
        address, show = await stack.enter_async_context(replaying(rows))
        key = {} if kind == "converse" else {"api_key": KEY}
        model = client(name, api_base=address + path, **key)
        stack.push_async_callback(model.aclose)
        wrong = []
        for row in rows:
            if client is LiteLLMModel and is_unread_by_litellm(row, name):
                continue
            show(row)
            wrong += differences(row, await outcome(model.generate(ASK)))
    assert wrong == []


def is_unread_by_litellm(row: Row, name: str) -> bool:
    """Whether litellm itself refuses an answer: contents in parts where it expects OpenAI's own
    format, and an annotation of a kind that OpenAI does not have."""
    message = (
        row["body"]["choices"][0]["message"]
        if row["kind"] == "chat" and row["status"] == 200
        else {}
    )
    is_in_parts = name == "openai/m" and isinstance(message.get("content"), list)
    return is_in_parts or any(a["type"] == "file" for a in message.get("annotations") or ())


BATCHED = {
    "chat": "openai/m",
    "responses": "responses/m",
    "messages": "anthropic/m",
    "gemini": "gemini/m",
}


@pytest.mark.parametrize(("kind", "name"), BATCHED.items(), ids=BATCHED)
async def test_answers_in_batches(kind: str, name: str) -> None:
    provider = open_dialect(name, api_base="http://127.0.0.1:9", api_key=KEY, endpoint=Endpoint())
    wrong = []
    for row in recorded(kind):
        if row["status"] == 200:

            async def read(row: Row = row) -> Response:
                return provider.read(row["body"], ASK)

            wrong += differences(row, await outcome(read()))
    await provider.aclose()
    assert wrong == []


def differences(row: Row, got: Response | errors.TextassayError) -> list[str]:
    """What is wrong with the reading of a row."""
    where = f"{row['kind']} {row['host']} {row['test']} {row['step']}"
    if row["status"] != 200:
        is_unknown = row["status"] == 404 or "model_not_found" in str(row["body"])
        expected = errors.ModelNotFound if is_unknown else errors.RequestRefused
        return [] if isinstance(got, expected) else [f"{where}: {got!r}"]
    if not isinstance(got, Response):
        is_blocked = isinstance(got, errors.ContentRefused) and "promptFeedback" in row["body"]
        return [] if is_blocked else [f"{where}: {got!r}"]
    (sample,) = got.samples
    text = text_in(row)
    wrong = []
    if sample.text != (text.lstrip() if sample.thought else text):
        wrong.append(f"{where}: {sample.text!r} is not {text!r}")
    if sample.is_unfinished == bool(text):
        wrong.append(f"{where}: {sample!r}")
    return wrong + [f"{where}: {reason}" for reason in miscounted(row, got.usage)]


def miscounted(row: Row, usage: Usage) -> list[str]:
    counts = (usage.prompt_tokens, usage.completion_tokens, usage.cached_prompt_tokens)
    expected = counts_in(row)
    wrong = [f"{counts} is not {expected}"] if expected is not None and counts != expected else []
    if usage.reasoning_tokens > usage.completion_tokens:
        wrong.append("more of the answer is thought than there is")
    if usage.cached_prompt_tokens + usage.cache_write_tokens > usage.prompt_tokens:
        wrong.append("more of the prompt is cached than there is")
    return wrong
