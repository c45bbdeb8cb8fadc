"""A small OpenAI-compatible server that answers at once, or badly: for tests and benchmarks.

    python -m examples.mock_server --port 0 --latency-ms 100 --p429 0.2     prints its address

    async with serve(Options(p429=0.2)) as server:                          inside a program
        ... server.url, server.counters

`POST /v1/chat/completions` and `/v1/completions` (with `n`, `logprobs`, `seed`, `echo`), `GET
/v1/models`, `/counters` and `/healthz`. Replies depend on the model and the prompt only, and on the
draw if the temperature is above 0. Every request meets at most one fault, drawn from a seeded
generator with the probabilities `p429`, `p500`, `p_broken`, `p_drop` and `p_hang`; the limits `rpm`
and `tpm` are enforced besides.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import email.utils
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields
from typing import Any

import orjson
from aiohttp import web

from examples.mock_replies import Json, chat_logprobs, count_tokens, reply_to, text_logprobs

RETRY_AFTER_STYLES = ("seconds", "ms", "date", "text", "none")
BROKEN_STYLES = ("truncated", "html", "empty", "no_choices", "null_content")


@dataclass
class Options:
    """How the server behaves; may be changed while it runs."""

    latency_ms: float = 0.0
    """Time before every answer."""
    latency_max_ms: float = 0.0
    """Longest time before an answer; if above `latency_ms`, times are drawn uniformly between."""
    reply: Any = "score"
    """`score` for ratings as prompts ask for them, `text` for a sentence, or, inside a program, a
    `Reply`."""
    p429: float = 0.0
    retry_after: float = 1.0
    """Seconds that a 429 or 500 asks to wait; below 0, a 500 asks for none."""
    retry_after_style: str = "seconds"
    """How a 429 gives this time: one of `RETRY_AFTER_STYLES`, or `random`."""
    p500: float = 0.0
    status: int = 500
    """The status of the share `p500` of answers."""
    error: str = "the server had an error"
    """Message and code of these answers; `{key}` is replaced by the key that was sent."""
    p_broken: float = 0.0
    broken_style: str = "random"
    """The form of a 200 that is not an answer: one of `BROKEN_STYLES`, or `random`."""
    p_drop: float = 0.0
    p_hang: float = 0.0
    hang_s: float = 30.0
    p_filter: float = 0.0
    """Share of answers that a content filter empties."""
    hold_after: int = 0
    """Number of requests after which all others wait until this is 0; 0 for no wait."""
    rpm: float = 0.0
    """Requests per minute; the requests of one second may come at once. 0 for no limit."""
    tpm: float = 0.0
    """Tokens per minute, counted as prompt and `max_tokens`."""
    context: int = 0
    """Longest prompt in tokens; 0 for no limit."""
    require_key: str = ""
    models: str = ""
    """Known models, separated by commas; if empty, any."""
    refuse_n: bool = False
    only_one: bool = False
    """Answer with one choice, ignoring `n`."""
    refuse_logprobs: bool = False
    omit_logprobs: bool = False
    """Answer without the log-probabilities that were asked for."""
    ignore_echo: bool = False
    refuse_zero_tokens: bool = False
    refuse_tools: bool = False
    call_tools: bool = False
    """Answer a JSON object that names an `action` as two calls of that tool."""
    seed: int = 0


@dataclass
class Counters:
    """Counters of the server."""

    requests: int = 0
    ok: int = 0
    limited: int = 0
    """Requests above `rpm` or `tpm`."""
    refused: int = 0
    """Requests that no server would answer: wrong key, unknown model, too long, ..."""
    faults: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    max_in_flight: int = 0
    bodies: Counter[int] = field(default_factory=Counter)
    """How often each body came, by its hash."""

    def as_json(self) -> Json:
        """Return all counters, with the number of different bodies and of the commonest one."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "bodies"}
        repeats = max(self.bodies.values(), default=0)
        return values | {"distinct_bodies": len(self.bodies), "max_repeats": repeats}


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(
        self, status: int, message: str, code: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers or {}

    def response(self) -> web.Response:
        """Return the answer in the format of the API."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        body = {"error": {"message": str(self), "type": kind, "param": None, "code": self.code}}
        return web.Response(
            status=self.status,
            body=orjson.dumps(body),
            headers=self.headers,
            content_type="application/json",
        )


class Bucket:
    """Refills evenly, up to the amount of one second."""

    def __init__(self, per_minute: float) -> None:
        self.rate = per_minute / 60
        self.most = max(1.0, self.rate)
        self.level = self.most
        self.at = time.monotonic()

    def take(self, amount: float) -> float:
        """Take `amount` and return 0, or nothing and return the seconds until there is enough."""
        now = time.monotonic()
        self.level = min(self.most, self.level + (now - self.at) * self.rate)
        self.at = now
        wanted = min(
            amount, self.most
        )  # a larger amount is let through by a full bucket, and leaves a debt
        if self.level >= wanted:
            self.level -= amount
            return 0.0
        return (wanted - self.level) / self.rate


class MockServer:
    """Answers requests and counts them."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.counters = Counters()
        self.url = ""
        """Address up to and including `/v1`."""
        self.listener: Callable[[Json], object] | None = None
        """Called with the body of every request."""
        self._rng = random.Random(options.seed)
        self._requests = Bucket(options.rpm) if options.rpm else None
        self._tokens = Bucket(options.tpm) if options.tpm else None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        if request.method == "POST" and request.path in ("/v1/chat/completions", "/v1/completions"):
            self.counters.requests += 1
            self.counters.in_flight += 1
            self.counters.max_in_flight = max(self.counters.max_in_flight, self.counters.in_flight)
            try:
                return await self._answer(request)
            except Refusal as refusal:
                return refusal.response()
            finally:
                self.counters.in_flight -= 1
        if request.path == "/counters":
            return _json(self.counters.as_json())
        if request.path == "/v1/models":
            names = self.options.models.split(",") if self.options.models else ["mock"]
            return _json(
                {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
            )
        if request.path == "/healthz":
            return _json({"status": "ok"})
        return Refusal(404, f"no such path: {request.path}", "not_found").response()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        options, number = self.options, self.counters.requests
        raw = await request.content.read()  # `request.read` takes no more than a megabyte
        repeat = self.counters.bodies[hash(raw)]
        self.counters.bodies[hash(raw)] += 1
        body: Json = orjson.loads(raw)
        if self.listener is not None:
            self.listener(body)
        prompt = prompt_of(body)
        self._check(request, body, prompt)
        self._check_limits(prompt, body)
        while 0 < options.hold_after < number:  # noqa: ASYNC110  # set by any thread
            await asyncio.sleep(0.005)
        highest = max(options.latency_ms, options.latency_max_ms)
        if highest:
            await asyncio.sleep(self._rng.uniform(options.latency_ms, highest) / 1000)
        fault = self._draw_fault()
        if fault is not None:
            self.counters.faults[fault] += 1
            return await self._fail(fault, request)
        self.counters.ok += 1
        return _json(complete(body, prompt, repeat, options))

    def _check(self, request: web.BaseRequest, body: Json, prompt: str) -> None:
        """Refuse requests that this server never answers."""
        options = self.options
        refusal: Refusal | None = None
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if options.require_key and key != options.require_key:
            refusal = Refusal(401, f"Incorrect API key provided: {key}.", "invalid_api_key")
        elif options.models and body.get("model") not in options.models.split(","):
            refusal = Refusal(
                404, f"The model `{body.get('model')}` does not exist.", "model_not_found"
            )
        elif options.context and count_tokens(prompt) > options.context:
            message = (
                f"This model's maximum context length is {options.context} tokens,"
                f" not {count_tokens(prompt)}."
            )
            refusal = Refusal(400, message, "context_length_exceeded")
        elif options.refuse_n and body.get("n", 1) > 1:
            refusal = Refusal(400, "Only n=1 is supported.", "unsupported_value")
        elif options.refuse_logprobs and body.get("logprobs") not in (None, False):
            refusal = Refusal(
                400, "logprobs is not supported with this model.", "unsupported_parameter"
            )
        elif options.refuse_tools and body.get("tools"):
            refusal = Refusal(400, f"{body.get('model')} does not support tools", "bad_request")
        elif not _answers_calls(body):
            refusal = Refusal(400, "'tool_calls' must be followed by their results", "bad_request")
        elif options.refuse_zero_tokens and body.get("max_tokens") == 0:
            refusal = Refusal(400, "max_tokens must be at least 1, got 0.", "invalid_value")
        if refusal is not None:
            self.counters.refused += 1
            raise refusal

    def _check_limits(self, prompt: str, body: Json) -> None:
        wait = self._requests.take(1) if self._requests else 0.0
        if not wait and self._tokens:
            wait = self._tokens.take(count_tokens(prompt) + (body.get("max_tokens") or 16))
        if wait:
            self.counters.limited += 1
            raise Refusal(
                429, "Rate limit reached.", "rate_limit_exceeded", {"Retry-After": f"{wait:.3f}"}
            )

    def _draw_fault(self) -> str | None:
        options = self.options
        roll = self._rng.random()
        for name in ("p429", "p500", "p_broken", "p_drop", "p_hang", "p_filter"):
            roll -= getattr(options, name)
            if roll < 0:
                return name.removeprefix("p_").removeprefix("p")
        return None

    async def _fail(self, fault: str, request: web.BaseRequest) -> web.StreamResponse:
        options = self.options
        if fault == "429":
            style = self._style(options.retry_after_style, RETRY_AFTER_STYLES)
            message = "Rate limit reached." + (
                f" Please try again in {options.retry_after:g}s." if style == "text" else ""
            )
            raise Refusal(
                429, message, "rate_limit_exceeded", _retry_after(options.retry_after, style)
            )
        if fault == "500":
            key = request.headers.get("Authorization", "").removeprefix("Bearer ")
            headers = (
                _retry_after(options.retry_after, "seconds") if options.retry_after >= 0 else {}
            )
            raise Refusal(
                options.status,
                options.error.replace("{key}", key),
                options.error.split()[0],
                headers,
            )
        if fault == "broken":
            return _broken(self._style(options.broken_style, BROKEN_STYLES))
        if fault == "filter":
            choice = {
                "index": 0,
                "finish_reason": "content_filter",
                "message": {"role": "assistant", "content": None},
            }
            return _json({"object": "chat.completion", "choices": [choice]})
        if fault == "hang":
            await asyncio.sleep(options.hang_s)
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _style(self, style: str, styles: tuple[str, ...]) -> str:
        return self._rng.choice(styles) if style == "random" else style


def complete(body: Json, prompt: str, repeat: int, options: Options) -> Json:
    """Return the answer to a chat or completion request.

    Args:
        body: The request.
        prompt: All its text.
        repeat: How often the same body came before: distinguishes draws without a seed.
        options: Determine the reply.
    """
    n, seed, one = (
        1 if options.only_one else body.get("n") or 1,
        body.get("seed"),
        body.get("max_tokens") == 1,
    )
    first = repeat * n if seed is None else seed
    draws = range(first, first + n) if body.get("temperature", 1.0) > 0 else [0] * n
    wants = body.get("logprobs") not in (None, False) and not options.omit_logprobs
    echoed = prompt if body.get("echo") and not options.ignore_echo else ""
    texts = [reply_to(body, prompt, draw, options.reply) for draw in draws]
    choices: list[Json] = []
    for index, text in enumerate(texts):
        choice: Json = {
            "index": index,
            "finish_reason": "length" if one else "stop",
            "logprobs": None,
        }
        if "messages" in body:
            choice["message"] = {"role": "assistant", "content": text}
            if options.call_tools and body.get("tools") and text.startswith('{"action"'):
                choice["message"] = _as_calls(orjson.loads(text))
                choice["finish_reason"] = "tool_calls"
            if wants:
                choice["logprobs"] = chat_logprobs(text, prompt, body.get("top_logprobs") or 0, one)
        else:
            choice["text"] = echoed + text
            if wants:
                choice["logprobs"] = text_logprobs(echoed, text, prompt, body["logprobs"], one)
        choices.append(choice)
    asked, answered = count_tokens(prompt), sum(map(count_tokens, texts))
    usage = {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
    }
    kind = "chat.completion" if "messages" in body else "text_completion"
    return {
        "id": "mock-1",
        "object": kind,
        "created": 0,
        "model": body.get("model"),
        "choices": choices,
        "usage": usage,
    }


def _as_calls(fields: Json) -> Json:
    """Return a message that calls a tool twice, as models do that may call several."""
    arguments = {name: value for name, value in fields.items() if name != "action"}
    called = {"name": fields["action"], "arguments": orjson.dumps(arguments).decode()}
    calls = [{"id": f"call_{n}", "type": "function", "function": called} for n in range(2)]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _answers_calls(body: Json) -> bool:
    """Return whether each call of a tool is followed by its result, and nothing else by one."""
    waiting: list[str] = []
    for message in body.get("messages", ()):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return False
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return not waiting


def prompt_of(body: Json) -> str:
    """Return all text of a request."""
    if "messages" in body:
        return "\n".join(f"{m['role']}: {_content(m['content'])}" for m in body["messages"])
    return str(body.get("prompt", ""))


def _content(content: Any) -> str:
    """Return a message's text, which some clients send as a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content)


def _broken(style: str) -> web.Response:
    if style == "no_choices":
        return _json({"object": "chat.completion", "choices": []})
    if style == "null_content":
        message = {"role": "assistant", "content": None}
        return _json(
            {
                "object": "chat.completion",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            }
        )
    if style == "html":
        return web.Response(
            text="<html><body><h1>502 Bad Gateway</h1></body></html>", content_type="text/html"
        )
    body = (
        b'{"object": "chat.completion", "choices": [{"index": 0, "mess'
        if style == "truncated"
        else b""
    )
    return web.Response(body=body, content_type="application/json")


def _retry_after(seconds: float, style: str) -> dict[str, str]:
    if style == "ms":
        return {"Retry-After-Ms": f"{1000 * seconds:g}"}
    if style == "date":
        return {
            "Retry-After": email.utils.formatdate(math.ceil(time.time() + seconds), usegmt=True)
        }
    return {"Retry-After": f"{seconds:g}"} if style == "seconds" else {}


def _json(value: Json) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


@contextlib.asynccontextmanager
async def serve(
    options: Options, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[MockServer]:
    """Serve inside the block; port 0 is any free port."""
    server = MockServer(options)
    async with serving(server, host=host, port=port):
        yield server


@contextlib.asynccontextmanager
async def serving(
    server: MockServer, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[None]:
    """Have a server answer until the block is left, and say in its `url` where."""
    runner = web.ServerRunner(
        web.Server(server.handle, handler_cancellation=True, access_log=None), shutdown_timeout=0.1
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=4096).start()
        server.url = f"http://{host}:{runner.addresses[0][1]}/v1"
        yield
    finally:
        await runner.cleanup()


async def main(host: str, port: int, options: Options) -> None:
    """Serve until interrupted."""
    async with serve(options, host=host, port=port) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return host, port and one argument for every option."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    for option in fields(Options):
        flag = "--" + option.name.replace("_", "-")
        if isinstance(option.default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(option.default), default=option.default)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    given = vars(parse())
    address = (given.pop("host"), given.pop("port"))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*address, Options(**given)))
