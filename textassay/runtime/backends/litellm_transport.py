"""The HTTP client that litellm's own clients send through: ours, behind the interface of httpx."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import httpx
import orjson

from textassay.runtime.backends import http_errors, openai_format
from textassay.runtime.backends.http_client import HttpClient
from textassay.runtime.backends.thoughts import read_parts
from textassay.runtime.backends.usage import read_usage
from textassay.runtime.base import Json, Price
from textassay.runtime.errors import MalformedResponse, PageAnswered

_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding", "connection")
"""Headers that describe the sent body, which is passed on in another encoding."""


class ClientTransport(httpx.AsyncBaseTransport):
    """Sends httpx's requests through an `HttpClient`, and reads their answers whole.

    A redirect is an error: it would send the prompt to another address, and take its answer for the
    model's.
    """

    def __init__(
        self,
        client: HttpClient,
        *,
        where: str,
        price: Price | None = None,
        left_out: Collection[str] = (),
    ) -> None:
        self._client, self._server, self._price = client, http_errors.ServerName(where), price
        self._left_out = frozenset(("host", *_OF_THE_WIRE, *left_out))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        headers = {k: v for k, v in request.headers.items() if k not in self._left_out}
        limit = (request.extensions.get("timeout") or {}).get("read")
        try:
            # httpx leaves time limits to the transport
            async with asyncio.timeout(limit) as scope:
                answer = await self._client.send(request.method, str(request.url), body, headers)
        except TimeoutError as error:
            if scope.expired():
                raise httpx.ReadTimeout("the time limit was exceeded", request=request) from error
            raise
        if 300 <= answer.status < 400:
            raise http_errors.from_status(*answer, self._server)
        headers_read = [(k, v) for k, v in answer.headers.items() if k.lower() not in _OF_THE_WIRE]
        # The library's parser refuses an answer with half of a surrogate pair.
        content = http_errors.whole_characters(answer.body)
        if answer.status < 300:
            content = self._readable(request.url.path, content, body)
        return httpx.Response(answer.status, headers=headers_read, content=content, request=request)

    def _readable(self, path: str, content: bytes, body: bytes) -> bytes:
        """Return the answer to a body in the form that libraries read.

        Raises:
            ModelError: It is an error, of which libraries keep the outermost message only, or it
                should be a chat in OpenAI's format and is not.
        """
        if http_errors.is_page(content):
            raise http_errors.page_answered(content, self._server)
        is_chat = path.endswith("/chat/completions")
        if not is_chat and b'"error"' not in content:
            return content
        try:
            payload = (
                http_errors.parse_json(content, self._server) if is_chat else orjson.loads(content)
            )
        except orjson.JSONDecodeError:
            return content  # the library reports it
        if http_errors.is_error_payload(payload):
            raise http_errors.from_error_payload(payload, self._server, orjson.loads(body))
        if not is_chat:
            return content
        try:
            listed = openai_format.choices_of(payload)
            # here, since litellm turns each reason that it does not know into "stop"
            choices = [*map(_plain, openai_format.drop_broken_off(listed))]
            return orjson.dumps({**payload, "choices": choices})
        except PageAnswered as page:
            raise PageAnswered(f"{self._server.where}: {page}") from page
        except (KeyError, TypeError, AttributeError) as reason:
            problem = f"the answer is not in the format of the API: {reason}"
        except MalformedResponse as broken_off:
            problem = str(broken_off)
        error = MalformedResponse(f"{self._server.where}: {problem}")
        error.usage = read_usage(payload, self._price)
        raise error


def _plain(choice: Json) -> Json:
    """Return a choice that litellm can read.

    Its content is a text with the thought beside it, and has no citations, whose forms vary.
    """
    message = choice["message"]
    text, thought = read_parts(message.get("content"))
    reason = choice.get("finish_reason")
    names = {"filtered": "content_filter", "length": "length"}
    # litellm makes a null "stop"
    if not (reason or text or thought or message.get("tool_calls")):
        raise MalformedResponse("the answer contains no text (finish_reason None)")
    plain = {"role": "assistant", **message, "content": text, "annotations": None}
    return {
        **choice,
        "finish_reason": names.get(openai_format.read_finish_reason(reason), reason),
        "message": plain if thought is None else {**plain, "reasoning_content": thought},
    }


class PlainClient(httpx.AsyncClient):
    """Passes requests to a transport unchanged: no cookies, no login of its own, no hooks.

    Cookies would make requests depend on earlier answers, and looking for them is most of the
    time that httpx adds to a call.
    """

    def __init__(self, transport: ClientTransport) -> None:
        """Ask through a transport that reads answers whole."""
        super().__init__(transport=transport, timeout=None, trust_env=False)
        self._plain = transport

    async def send(self, request: httpx.Request, **_: Any) -> httpx.Response:
        if self.is_closed:
            raise RuntimeError("the client is closed")
        return await self._plain.handle_async_request(request)
