"""Lets libraries that ask through httpx use our HTTP client.

Bounded answers, no redirects, one endpoint.

Imported only where such a library is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import httpx
import orjson

from textassay.runtime.backends import http_errors
from textassay.runtime.backends.http_client import HttpClient
from textassay.runtime.backends.openai_format import whole_characters

_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding", "connection")
"""Headers that describe the body as it was sent, not as it was read."""


class ClientTransport(httpx.AsyncBaseTransport):
    """Sends httpx's requests through an `HttpClient`, and reads their answers whole.

    A redirect is an error: it would carry the prompt to another address, whose answer would count
    as the model's.
    """

    def __init__(self, client: HttpClient, *, where: str, left_out: Collection[str] = ()) -> None:
        self._client, self._where = client, where
        self._left_out = frozenset(("host", *_OF_THE_WIRE, *left_out))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        body = await request.aread()
        headers = {
            name: value for name, value in request.headers.items() if name not in self._left_out
        }
        limit = (request.extensions.get("timeout") or {}).get("read")
        try:
            # The library's own time limit is handed to the transport rather than kept by httpx.
            async with asyncio.timeout(limit) as scope:
                answer = await self._client.send(request.method, str(request.url), body, headers)
        except TimeoutError as error:
            if scope.expired():
                raise httpx.ReadTimeout("the time limit was exceeded", request=request) from error
            raise
        if 300 <= answer.status < 400:
            raise http_errors.from_status(
                answer.status, answer.headers, answer.body, where=self._where
            )
        kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in _OF_THE_WIRE]
        # Parsers behind this transport would refuse a whole answer for half of a surrogate pair.
        content = whole_characters(answer.body)
        self._refuse_errors(answer.status, content)
        return httpx.Response(answer.status, headers=kept, content=content, request=request)

    def _refuse_errors(self, status: int, content: bytes) -> None:
        """Raise the error in a success, of which libraries keep the outermost message only."""
        if status >= 300 or b'"error"' not in content:
            return
        try:
            payload = orjson.loads(content)
        except orjson.JSONDecodeError:
            return  # the library says what is wrong with it
        if http_errors.is_error_payload(payload):
            raise http_errors.from_error_payload(payload, where=self._where)


class PlainClient(httpx.AsyncClient):
    """Hands requests to a transport as they are: no cookies, no login of its own, no hooks.

    Cookies would tie later requests to what earlier ones met, and looking for them is most of the
    time that httpx adds to a call.
    """

    def __init__(self, transport: ClientTransport) -> None:
        """Ask through a transport that reads answers whole."""
        super().__init__(transport=transport, timeout=None, trust_env=False)
        self._plain = transport

    async def send(self, request: httpx.Request, **_: Any) -> httpx.Response:
        """Send one request."""
        if self.is_closed:
            raise RuntimeError("the client is closed")
        return await self._plain.handle_async_request(request)
