"""OpenAI's Responses API in front of servers of chats on this machine, as the tests start them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from tests.loopback import listening

Json = dict[str, Any]
TAKEN = frozenset({
    "model", "input", "store", "temperature", "top_p", "max_output_tokens", "reasoning",
    "top_logprobs", "include", "text", "prompt_cache_key",
})  # fmt: skip
ONLY_HERE = "This model is only supported in v1/responses and not in v1/chat/completions."


@asynccontextmanager
async def serve_responses(thought: str = "") -> AsyncIterator[str]:
    """Serve; `ADDRESS/PORT/v1` leads to the server of chats at that port of this machine.

    Args:
        thought: The beginning of every answer, in a separate item.
    """
    async with aiohttp.ClientSession() as http:

        async def answer(request: web.Request) -> web.StreamResponse:
            port, _, path = request.path.strip("/").partition("/v1/")
            if path != "responses":
                return _refusal(404, ONLY_HERE, "model")
            body = await request.json()
            if (refusal := _refused(body)) is not None:
                return refusal
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            key = {"Authorization": request.headers.get("Authorization", "")}
            try:
                async with http.post(url, json=chat_of(body), headers=key) as answered:
                    raw, status, headers = await answered.read(), answered.status, answered.headers
            except aiohttp.ClientError:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            passed = {name: v for name, v in headers.items() if name.startswith("Retry-After")}
            if status == 200 and b'"finish_reason":' in raw and raw.endswith(b"}"):
                chat = await answered.json()
                return web.json_response(response_of(chat, thought))
            kind = headers.get("Content-Type", "")
            return web.Response(body=raw, status=status, headers={**passed, "Content-Type": kind})

        async with listening(answer) as address:
            yield address


def _refused(body: Json) -> web.Response | None:
    unknown = next((name for name in body if name not in TAKEN), None)
    if unknown is not None:
        return _refusal(400, f"Unknown parameter: '{unknown}'.", unknown, "unknown_parameter")
    most = body.get("max_output_tokens")
    if most is not None and most < 16:
        return _refusal(
            400,
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but "
            f"got {most} instead.",
            "max_output_tokens",
            "integer_below_min_value",
        )
    return None


def _refusal(status: int, message: str, param: str, code: str | None = None) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return web.json_response({"error": error}, status=status)


def chat_of(body: Json) -> Json:
    """The same request to a server of chats."""
    chat: Json = {name: body[name] for name in ("model", "temperature", "top_p") if name in body}
    chat["messages"] = body["input"]
    if body.get("max_output_tokens") == 16:  # the fewest, of which one token is wanted
        chat["max_tokens"] = 1
    if "message.output_text.logprobs" in body.get("include", ()):
        chat |= {"logprobs": True, "top_logprobs": body["top_logprobs"]}
    if "text" in body:
        chat["response_format"] = {"type": "json_schema", "json_schema": body["text"]["format"]}
    return chat


def response_of(chat: Mapping[str, Any], thought: str = "") -> Json:
    """The answer of a server of chats as an answer of this API."""
    (choice,) = chat["choices"]
    text, finish, given = choice["message"]["content"], choice["finish_reason"], chat.get("usage")
    part = {"type": "output_text", "text": text, "annotations": []}
    part["logprobs"] = (choice.get("logprobs") or {}).get("content") or []
    output: list[Json] = [
        {"type": "message", "role": "assistant", "content": [] if text is None else [part]}
    ]
    if thought:
        summary = [{"type": "summary_text", "text": thought}]
        output.insert(0, {"type": "reasoning", "summary": summary})
    incomplete = {"length": "max_output_tokens"}.get(finish, finish)
    used = given and {
        "input_tokens": given["prompt_tokens"],
        "output_tokens": given["completion_tokens"] + len(thought),
        "output_tokens_details": {"reasoning_tokens": len(thought)},
    }
    return {
        "object": "response",
        "model": chat.get("model"),
        "status": "completed" if finish == "stop" else "incomplete",
        "incomplete_details": None if finish == "stop" else {"reason": incomplete},
        "error": None,
        "output": output,
        "usage": used,
    }
