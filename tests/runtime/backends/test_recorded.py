"""What real providers and servers answered, read again by every client that reads their format.

860 exchanges of providers were recorded by pydantic-ai. The text, read here independently of the
clients, must come out of each of them, counts of tokens must add up, and refusals must be told
apart. Left out are answers that a judge never gets: with tools or calls of them, with a summary of
a long chat, and those of a job that had not begun. litellm reads the Responses API only with a
package that is not installed here.

`python -m tests.recorded_servers.record` recorded the servers. The first three had the same random
GGUF file behind them, so their numbers are comparable.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.benchmark_data import benchmark
from tests.loopback import listening
from tests.recorded_servers.questions import QUESTIONS
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.base import Usage
from textassay.runtime.batches.model import open_dialect
from textassay.runtime.model import ChatMessage, Request, Response

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
async def replaying() -> AsyncIterator[tuple[str, Callable[[Row], None]]]:
    """A server that answers every path with the row that was put up last."""
    shown: list[Row] = []

    async def answer(request: web.Request) -> web.Response:
        row = shown[-1]
        return web.json_response(row["body"], status=row["status"])

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
    wrong = []
    async with replaying() as (address, show):
        key = {} if kind == "converse" else {"api_key": KEY}
        model = client(name, api_base=address + path, **key)
        for row in recorded(kind):
            show(row)
            wrong += differences(row, await outcome(model.generate(ASK)))
        await model.aclose()
    assert wrong == []


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


# ---- servers ----

FOLDER = Path(__file__).parents[2] / "recorded_servers"
BACKENDS = {"direct": DirectModel, "openai": LiteLLMModel}
LLAMA = ("llama_cpp_server", "litellm_proxy", "llama_server")
"""Servers that evaluated the same file."""

Asking = Callable[[str, str], Any]


@pytest_asyncio.fixture(params=BACKENDS)
async def server_says(request: pytest.FixtureRequest) -> AsyncIterator[Asking]:
    """Ask a question of a server that gives the recorded answers."""

    async def ask(server: str, question: str) -> Any:
        exchanges = json.loads((FOLDER / f"{server}.json").read_text())[question]

        async def answer(_: web.Request) -> web.Response:
            given = exchanges.pop(0)
            return web.Response(
                status=given["status"], content_type=given["type"], text=given["body"]
            )

        async with listening(answer) as url:
            model = BACKENDS[request.param](
                f"{request.param}/judge", api_base=f"{url}/v1", api_key="sk-any-key"
            )
            try:
                found = await QUESTIONS.get(question, QUESTIONS["chat"])(model)
            finally:
                await model.aclose()
        assert not exchanges, "it is asked as often as when it was recorded"
        return found

    yield ask


@pytest.mark.parametrize(
    ("server", "samples"),
    [("llama_cpp_server", 1), ("litellm_proxy", 1), ("llama_server", 3), ("transformers_serve", 1)],
)
async def test_a_chat_is_answered_and_counted(server, samples, server_says):
    """Servers that ignore n give one sample, which is an answer."""
    response = await server_says(server, "chat")
    assert response.samples[0].text
    assert response.samples[0].finish_reason == "length"
    assert response.usage.prompt_tokens > 10
    assert response.usage.completion_tokens >= 6
    assert len((await server_says(server, "samples")).samples) == samples


@pytest.mark.parametrize("question", ["chat logprobs", "prompt logprobs"])
@pytest.mark.parametrize("server", LLAMA)
async def test_log_probabilities_are_read(question, server, server_says):
    """In the shape of chats or of completions, whichever a server sends for either."""
    (sample,) = (await server_says(server, question)).samples
    assert len(sample.logprobs) == 3
    assert "".join(token.token for token in sample.logprobs) == sample.text
    assert all(token.logprob < 0 for token in sample.logprobs)


@pytest.mark.parametrize("server", LLAMA)
async def test_choices_are_read(server, server_says):
    """The same probabilities from every server of the same model."""
    found = (await server_says(server, "prompt choices")).logprobs
    assert found == pytest.approx({"rate": -3.694, "5": -4.467}, abs=0.005)
    chat = await server_says(server, "chat choices")
    expected = -2.637 if server == "llama_server" else -2.785  # it puts one token more before it
    assert chat.logprobs["J"] == pytest.approx(expected, abs=0.005)
    assert chat.logprobs["i"] < chat.logprobs["J"]


@pytest.mark.parametrize("server", ["llama_cpp_server", "litellm_proxy"])
async def test_an_echo_is_aligned_whatever_characters_it_holds(server, server_says):
    """Tokens of a part of a character come as empty texts, which count all the same."""
    plain = await server_says(server, "continuation")
    assert "".join(token.token for token in plain.tokens) == " it is good."
    found = await server_says(server, "continuation of characters")
    assert [token.token for token in found.tokens[3:9]] == [" ", "", "", "", "good", ""]
    assert len(found.tokens) == 20
    assert all(token.logprob < 0 for token in found.tokens)


async def test_a_schema_is_kept(server_says):
    """By llama-server, which turns it into a grammar; the model behind it wanders off."""
    (sample,) = (await server_says("llama_server", "schema")).samples
    assert sample.text.startswith("{")
    assert not sample.text.strip("{ \n\t")
    assert sample.finish_reason == "length"


SILENT = ("llama_server", "transformers_serve")
PROXIED = ("llama_cpp_server", "litellm_proxy")
REFUSED = [
    (SILENT, "continuation", errors.CapabilityError, "does not echo"),
    (SILENT, "continuation of characters", errors.CapabilityError, "does not echo"),
    *(
        (("transformers_serve",), question, errors.NoLogprobs, "no log-probabilities")
        for question in ("chat logprobs", "chat choices", "prompt logprobs", "prompt choices")
    ),
    (PROXIED, "schema", errors.RequestRefused, "response_format"),  # they answer 500
    (LLAMA, "too long", errors.ContextTooLong, ""),
    (("litellm_proxy", "transformers_serve"), "wrong model", errors.ModelNotFound, ""),
    # the proxy has no database of keys, and says only that
    (("litellm_proxy",), "wrong key", errors.AuthenticationFailed, ""),
]


@pytest.mark.parametrize(
    ("server", "question", "kind", "said"),
    [(server, *rest) for servers, *rest in REFUSED for server in servers],
)
async def test_abilities_that_a_server_lacks_are_reported(
    server, question, kind, said, server_says
):
    with pytest.raises(kind, match=said or None) as caught:
        await server_says(server, question)
    assert type(caught.value) is kind
    # one text that is too long is that text's error
    assert kind is not errors.ContextTooLong or not caught.value.stops_run
