"""The mock server as models that think: their refusals, the place of their thoughts, their usage.

    python -m examples.thinking_server --family openai --thought 600        prints its address

Every family gives the answers of `examples.mock_server`, after a thought of `thought` tokens. A
request with fewer tokens than thought and answer take is cut off, as the family does it. The
families are public APIs and servers of 2026; one fault is reported per reply, as they do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from aiohttp import web

from examples.mock_replies import Json, count_tokens
from examples.mock_server import MockServer, Options, complete, prompt_of, serving

WORDS = "Is it a 2, as the order is odd, or a 4, as the facts hold? Rating: 1? No, read it again. "
TOKENS = count_tokens(WORDS)

Place = Literal["hidden", "reasoning", "reasoning_content", "tags", "open", "parts", "block"]


@dataclass(frozen=True)
class Family:
    """How one kind of API behaves."""

    thought: Place
    """Place of the thought: nowhere, in a field of the message, in the text between tags or before
    a closing tag, or as a part or block of the content."""
    refuses: dict[str, Any] = field(default_factory=dict)
    """Parameters that are refused, unless they have the value given here."""
    counts: Literal["inside", "beside", "never"] = "inside"
    """Whether the tokens of a thought are counted: within the completion, beside it, or not at
    all."""
    spent: Literal["empty", "null", "400"] = "empty"
    """The answer if the thought takes all tokens: an empty text, null, or a status of 400."""
    error: Callable[[str, str], Json] = lambda name, text: {
        "error": {"message": text, "type": "invalid_request_error", "param": name, "code": None}
    }
    """Body of a refusal, made of a parameter's name and a sentence."""


_NEVER = object()
_OPENAI = {
    "max_tokens": _NEVER, "temperature": 1, "top_p": 1, "stop": _NEVER, "logprobs": False,
    "logit_bias": _NEVER, "presence_penalty": 0, "frequency_penalty": 0,
}  # fmt: skip
FAMILIES = {
    "openai": Family("hidden", _OPENAI),
    "openai-400": Family("hidden", _OPENAI, spent="400"),
    "vllm": Family("reasoning", spent="null"),
    "raw": Family("tags", counts="never"),
    "open": Family("open", counts="never"),
    "mistral": Family(
        "parts",
        {"seed": _NEVER},
        counts="never",
        error=lambda name, text: {
            "detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": text}]
        },
    ),
    "deepseek": Family("reasoning_content", {"logprobs": False}, spent="null"),
    "xai": Family(
        "reasoning_content",
        {"stop": _NEVER, "presence_penalty": _NEVER, "logprobs": False},
        counts="beside",
        spent="null",
        error=lambda name, text: {"code": "invalid-argument", "error": text},
    ),
    "anthropic": Family(
        "block",
        {"temperature": 1, "top_p": _NEVER, "top_k": _NEVER, "reasoning_effort": _NEVER},
        error=lambda name, text: {
            "type": "error", "error": {"type": "invalid_request_error", "message": text},
        },
    ),
}  # fmt: skip


class ThinkingServer(MockServer):
    """Answers as a family of models that think."""

    def __init__(self, family: str, thought: int = 600, options: Options | None = None) -> None:
        super().__init__(options or Options())
        self.family, self.thought = FAMILIES[family], thought
        self.cut = 0
        """Answers that had too few tokens."""
        self.efforts: tuple[str, ...] = ()
        """Accepted levels of effort; all if empty."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        if request.method == "POST" and request.path == "/v1/messages":
            self.counters.requests += 1
            return await self._answer(request)
        if request.path == "/v1/completions":  # models that think take chats alone
            error = {"error": {"message": "This is a chat model.", "type": "invalid_request_error"}}
            return web.json_response(error, status=404)
        return await super().handle(request)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body: Json = orjson.loads(await request.content.read())
        if self.listener is not None:
            self.listener(body)
        for name, taken in self.family.refuses.items():
            if name in body and body[name] != taken:
                self.counters.refused += 1
                text = f"Unsupported parameter: `{name}` is not supported with this model."
                if name == "max_tokens":
                    text += " Use `max_completion_tokens` instead."
                return web.json_response(self.family.error(name, text), status=400)
        effort = body.get("reasoning_effort")
        if self.efforts and effort is not None and effort not in self.efforts:
            self.counters.refused += 1
            levels = ", ".join(f"'{level}'" for level in self.efforts)
            text = f"Unsupported value: 'reasoning_effort' does not support '{effort}' with this"
            text += f" model. Supported values are: {levels}."
            return web.json_response(self.family.error("reasoning_effort", text), status=400)
        repeat = self.counters.bodies[hash(str(body))]
        self.counters.bodies[hash(str(body))] += 1
        if self.options.latency_ms:
            await asyncio.sleep(self.options.latency_ms / 1000)
        if self.family.thought == "block":
            return self._message(body, repeat)
        answer = complete(body, prompt_of(body), repeat, self.options)
        usage, room = answer["usage"], body.get("max_completion_tokens") or body.get("max_tokens")
        thought_tokens = shown = 0
        for choice in answer["choices"]:
            thought, text, is_cut = self._within(choice["message"]["content"], room)
            if is_cut and not text and self.family.spent == "400":
                message = (
                    "Could not finish the message because max_tokens or model output limit was"
                    " reached. Please try again with higher max_tokens."
                )
                return web.json_response(self.family.error("", message), status=400)
            choice["message"] = self._shown(thought, text, is_cut)
            choice["finish_reason"] = "length" if is_cut else "stop"
            if choice.get("logprobs"):
                choice["logprobs"]["content"][:0] = _thought_tokens(self.family.thought)
            thought_tokens += count_tokens(thought)
            shown += count_tokens(text)
        beside = self.family.counts == "beside"
        usage["completion_tokens"] = shown if beside else shown + thought_tokens
        usage["total_tokens"] = usage["prompt_tokens"] + shown + thought_tokens
        if self.family.counts != "never":
            usage["completion_tokens_details"] = {"reasoning_tokens": thought_tokens}
        self.counters.ok += 1
        return web.json_response(answer)

    def _within(self, text: str, room: int | None) -> tuple[str, str, bool]:
        """Return thought and text, cut at the token limit, and whether anything is missing."""
        thought = (WORDS * (self.thought // TOKENS + 1))[: self.thought * len(WORDS) // TOKENS]
        needed = count_tokens(thought)
        if room is None or room >= needed + count_tokens(text):
            return thought, text, False
        self.cut += 1
        if room >= needed:
            return thought, text[: 4 * (room - needed)], True
        return thought[: room * len(WORDS) // TOKENS], "", True

    def _shown(self, thought: str, text: str, is_cut: bool) -> Json:
        message: Json = {"role": "assistant", "content": text}
        place, ended = self.family.thought, bool(text) or not is_cut
        if not text and self.family.spent == "null":
            message["content"] = None
        if place in ("reasoning", "reasoning_content"):
            message[place] = thought
        elif place in ("tags", "open"):
            opening = "<think>\n" if place == "tags" else ""
            message["content"] = opening + thought + (f"\n</think>\n\n{text}" if ended else "")
        elif place == "parts":
            message["content"] = [
                {"type": "thinking", "thinking": [{"type": "text", "text": thought}]},
                *([{"type": "text", "text": text}] if text else []),
            ]
        return message

    def _message(self, body: Json, repeat: int) -> web.Response:
        """Answer in the format of Anthropic's Messages API."""
        system = body.get("system") or ""
        parts = system if isinstance(system, str) else "".join(p["text"] for p in system)
        chat = [{"role": "system", "content": parts}, *body["messages"]]
        answer = complete(
            {**body, "messages": chat}, prompt_of({"messages": chat}), repeat, Options()
        )
        text = answer["choices"][0]["message"]["content"]
        thought, text, is_cut = self._within(text, body["max_tokens"])
        # the newest models show only that there was a thought
        blocks: list[Json] = [{"type": "thinking", "thinking": "", "signature": "s"}]
        if text:
            blocks.append({"type": "text", "text": text})
        self.counters.ok += 1
        return web.json_response(
            {
                "id": "mock-1",
                "type": "message",
                "role": "assistant",
                "model": body["model"],
                "content": blocks,
                "stop_reason": "max_tokens" if is_cut else "end_turn",
                "stop_sequence": None,
                "usage": {
                    "input_tokens": answer["usage"]["prompt_tokens"],
                    "output_tokens": count_tokens(thought) + count_tokens(text),
                    "cache_read_input_tokens": 0,
                    "cache_creation_input_tokens": 0,
                },
            }
        )


def _thought_tokens(place: Place) -> list[Json]:
    """Return the tokens of a thought, which servers list before the tokens of the answer."""
    tokens = ("1", " or", " 4", "</think>") if place != "hidden" else ()
    return [
        {"token": t, "logprob": -0.1, "top_logprobs": [{"token": t, "logprob": -0.1}]}
        for t in tokens
    ]


@contextlib.asynccontextmanager
async def serve(
    family: str, thought: int = 600, options: Options | None = None
) -> AsyncIterator[ThinkingServer]:
    """Serve until the block is left, at any free port."""
    server = ThinkingServer(family, thought, options)
    async with serving(server):
        yield server


async def main(family: str, thought: int) -> None:
    """Serve until interrupted."""
    async with serve(family, thought) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", default="openai", choices=FAMILIES)
    parser.add_argument("--thought", type=int, default=600, help="tokens of every thought")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(given.family, given.thought))
