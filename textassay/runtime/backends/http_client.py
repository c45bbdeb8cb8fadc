"""The HTTP client of every backend that asks over a network: bounded answers, and no redirects.

Sends one request and returns status, headers and body. Knows nothing of models or of what bodies
mean; its errors are aiohttp's and ours.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp

from textassay.runtime.backends import http_errors
from textassay.runtime.backends.endpoint import Endpoint, proxy_for
from textassay.runtime.errors import ConfigurationError, MalformedResponse, ModelClosed, parameter

LARGE = 1 << 20
"""Bytes of a request above which aiohttp complains of one write."""


class HTTPAnswer(NamedTuple):
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Asks one server through one session, which belongs to the event loop of the first request."""

    def __init__(
        self,
        address: str,
        endpoint: Endpoint,
        *,
        name: str,
        headers: Mapping[str, str],
        connections: int = 0,
    ) -> None:
        """Store how to ask; nothing is connected yet.

        Args:
            address: The server's address, for messages and for the proxy that it needs.
            endpoint: How the server is reached.
            name: The model's name, for messages.
            headers: Headers of every request; those of the endpoint are added.
            connections: Most connections at once; 0 for no limit.
        """
        self._where = http_errors.public_address(address)
        self._address, self._endpoint, self._name = address, endpoint, name
        self._headers = {**headers, **endpoint.headers}
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> HTTPAnswer:
        """Send one request and return the answer, whatever its status.

        Raises:
            MalformedResponse: The answer is longer than `max_bytes`, as sent or unpacked.
            ModelClosed: The client is closed.
            ConfigurationError: It was opened in another event loop.
        """
        session = self.session()
        # aiohttp writes a file piece by piece
        data = body if len(body) <= LARGE else io.BytesIO(body)
        response = await session.request(
            method,
            url,
            data=data,
            headers=headers,
            params=self._endpoint.query or None,
            # Following one would carry key and prompt to an address that nobody chose.
            allow_redirects=False,
        )
        try:
            raw = await self._read(response)
        finally:
            # gives the connection back, or closes it if a part of the answer was not read
            response.release()
        return HTTPAnswer(response.status, response.headers, raw)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        length, longest = response.content_length, self._endpoint.max_bytes
        if length is not None and length > longest:
            raise self._too_long(response)
        # The stated length is that of the packed body, and a few kilobytes can unpack to gigabytes:
        # only plain bodies are read in one go.
        if length is not None and "content-encoding" not in response.headers:
            return await response.read()
        pieces: list[bytes] = []
        left = longest
        async for piece in response.content.iter_any():
            left -= len(piece)
            if left < 0:
                raise self._too_long(response)
            pieces.append(piece)
        return b"".join(pieces)

    def _too_long(self, response: aiohttp.ClientResponse) -> MalformedResponse:
        response.close()  # the rest is not read, so the connection cannot be used again
        return MalformedResponse(
            f"{self._where} answered with more than {self._endpoint.max_bytes} bytes "
            f"({parameter('max_answer_bytes', 'BYTES')})"
        )

    def session(self) -> aiohttp.ClientSession:
        """Return the session, which belongs to the running loop."""
        if self._closed:
            raise ModelClosed(f"model {self._name!r} was used after it was closed")
        loop = asyncio.get_running_loop()
        if self._session is None:
            tls = True if self._endpoint.tls is None else self._endpoint.tls
            self._session = aiohttp.ClientSession(
                # `limit` 0: the number of calls in flight is the limiter's business.
                connector=aiohttp.TCPConnector(limit=self._connections, ttl_dns_cache=300, ssl=tls),
                # The time limit is `DeadlineModel`'s; aiohttp's own default is five minutes.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                # Cookies would tie later requests to what earlier ones met.
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                proxy=self._endpoint.proxy or proxy_for(self._address),
            )
            self._loop = loop
        elif self._loop is not loop:
            raise ConfigurationError(
                f"model {self._name!r} was opened in another event loop; connect once in each loop"
            )
        return self._session

    async def aclose(self) -> None:
        """Close all connections; safe to call twice."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
