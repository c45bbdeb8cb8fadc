"""The HTTP client of every backend that asks over a network: bounded answers, and no redirects.

Bodies are not interpreted here. `ask` raises our errors, `send` also aiohttp's.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple

import aiohttp
import orjson
from aiohttp import hdrs
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from yarl import URL

from textassay.runtime.backends import http_errors
from textassay.runtime.backends.endpoint import Endpoint, proxy_for, read_address, with_login
from textassay.runtime.errors import AnswerTooLong, ConfigurationError, ModelClosed, ModelError
from textassay.runtime.parameters import ANYTHING
from textassay.version import __version__

LARGE = 1 << 20
"""Bytes of a request above which aiohttp warns of a single write (its `TOO_LARGE_BYTES_BODY`)."""

UNTIMED = aiohttp.ClientTimeout(total=None, sock_connect=None)
"""The time limit is `DeadlineModel`'s; aiohttp's own default is five minutes."""

MAX_PATTERNS = 64
"""Addresses, each with its headers, whose requests are remembered. A model has one or two, so that
16 and 256 act alike; it bounds the memory if a library sends new headers with every request."""


class HTTPAnswer(NamedTuple):
    """Status, headers and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Pattern(NamedTuple):
    """The part that all POSTs to one address with the same headers share."""

    request: aiohttp.ClientRequest
    """The connector finds a connection by it."""
    head: bytes
    """Request line and headers as the session sent them, up to the value of `Content-Length`."""


def json_headers(key: str | None, name: str) -> dict[str, str]:
    """Return the headers of requests in JSON.

    Args:
        key: The API key, if there is one.
        name: Header of the bare key, as Azure and some gateways want; empty for a bearer token.

    Raises:
        ConfigurationError: The key has a control character.
    """
    headers = {"Content-Type": "application/json", "User-Agent": f"textassay/{__version__}"}
    if not key:
        return headers
    if not key.isprintable():
        raise ConfigurationError("the API key contains a line end or another control character")
    return headers | ({name: key} if name else {"Authorization": f"Bearer {key}"})


class HttpClient:
    """Asks one server through one session, which belongs to the event loop of the first request."""

    def __init__(
        self,
        api_base: str,
        endpoint: Endpoint,
        *,
        name: str,
        headers: Mapping[str, str],
        key: str | None = None,
        is_bearer: bool = False,
    ) -> None:
        """Open nothing yet; with `is_bearer`, a library adds the key as `Authorization`."""
        address = read_address(api_base)
        self.base, self.has_login = address.url, bool(address.login)
        self.secrets = (*((key,) if key else ()), *address.secrets, *endpoint.secrets)
        # headers from the configuration may hold one, too
        has_key = bool(key or self.has_login or endpoint.secrets)
        key_note = "; one was sent" if has_key else _no_key_sent()
        self.server = http_errors.ServerName(self.base, self.secrets, key_note)
        """The server in messages."""
        self._endpoint = endpoint._replace(query={**address.query, **endpoint.query})
        is_bearer = is_bearer or "Authorization" in headers
        headers = with_login(headers, address, endpoint, key=bool(key) and is_bearer)
        self._name, self._headers = name, {**headers, **endpoint.headers}
        self._proxy = ""
        self._patterns: dict[tuple[object, ...], _Pattern] = {}
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        request: Mapping[str, Any] = ANYTHING,
    ) -> Any:
        """Return the JSON value of the answer to a request, or raise the error that it reports.

        `request` is the body as a value, with which a refusal is read.
        """
        try:
            answering = self.send(method, self.base + path, body, headers)
            del body  # takes eight times its length, see `send`
            answer = await answering
        except (aiohttp.ClientError, OSError) as error:
            raise self.network_error(error) from error
        return self.parse(*answer, request)

    async def post_json(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON value of the answer to a body in JSON.

        Gateways pass on a provider's error with a success status: it is raised, too.
        """
        payload = await self.ask("POST", path, orjson.dumps(body), request=body)
        if http_errors.is_error_payload(payload):
            raise http_errors.from_error_payload(payload, self.server, body)
        return payload

    def parse(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        request: Mapping[str, Any] = ANYTHING,
    ) -> Any:
        """Return the JSON value of an answer."""
        if not 200 <= status < 300:
            raise self.status_error(status, headers, body, request)
        return http_errors.parse_json(body, self.server)

    def status_error(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        request: Mapping[str, Any] = ANYTHING,
    ) -> ModelError:
        """Return the error that an unsuccessful answer reports."""
        return http_errors.from_status(status, headers, body, self.server, request)

    def network_error(self, error: BaseException) -> ModelError:
        """Return our error for an error of the network."""
        return http_errors.from_exception(error, self.server)

    def send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> Coroutine[Any, Any, HTTPAnswer]:
        """Send one request and return the answer with any status, unless it is too long."""
        session = self.session()
        # Hooks of an application that watches aiohttp are called by the session alone.
        is_special = self._proxy or session.trace_configs
        if method != "POST" or len(body) > LARGE or is_special:
            return self.request(method, url, body, headers)
        key = (url, *headers.items()) if headers else (url,)
        if pattern := self._patterns.get(key):
            # Joined here, before a connection is waited for: what orjson returns takes up to eight
            # times its length, and a thousand calls may be waiting.
            text = b"%b%d\r\n\r\n%b" % (pattern.head, len(body), body)
            return self._exchange(session, pattern.request, text)
        return self.request(method, url, body, headers, key)

    async def request(
        self,
        method: str,
        url: str | URL,
        body: bytes,
        headers: Mapping[str, str] | None,
        key: tuple[object, ...] = (),
    ) -> HTTPAnswer:
        """Send any request; remember it under a key as the pattern of similar requests."""
        response = await self.session().request(
            method,
            url,
            # aiohttp writes a file piece by piece
            data=body if len(body) <= LARGE else io.BytesIO(body),
            headers=headers,
            params=self._endpoint.query or None,
            # Following one would carry key and prompt to an address that the user did not choose.
            allow_redirects=False,
        )
        try:
            raw = await self.read(response.headers, response.content)
        except BaseException:
            response.close()  # the rest is not read, so the connection cannot be used again
            raise
        response.release()
        if key:
            if len(self._patterns) >= MAX_PATTERNS:
                del self._patterns[next(iter(self._patterns))]
            self._patterns[key] = _pattern(response.request_info)
        return HTTPAnswer(response.status, response.headers, raw)

    async def _exchange(
        self, session: aiohttp.ClientSession, request: aiohttp.ClientRequest, text: bytes
    ) -> HTTPAnswer:
        """Send a POST like an earlier one, on a connection of the session's connector.

        `session.request` builds new request and response objects for each call, which is more than
        half of its work; here only the body differs.
        """
        assert session.connector
        connection = await session.connector.connect(request, [], UNTIMED)
        try:
            protocol = connection.protocol
            assert protocol is not None
            transport = protocol.transport
            if transport is None:
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(read_until_eof=True)
            transport.write(text)
            del text  # frees the memory while the server thinks
            message, content = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:  # "early hints" and the like
                message, content = await protocol.read()
            raw = await self.read(message.headers, content)
            # A server may answer before it has read everything, and then read no further: the next
            # request must not follow.
            if transport.get_write_buffer_size():
                connection.close()
        except HttpProcessingError as error:
            connection.close()
            raise aiohttp.ClientResponseError(
                request.request_info,
                (),
                status=error.code,
                message=error.message,
                headers=error.headers,
            ) from error
        except BaseException:
            connection.close()
            raise
        connection.release()  # closes it if the server does not keep it open
        return HTTPAnswer(message.code, message.headers, raw)

    async def read(self, headers: Mapping[str, str], content: aiohttp.StreamReader) -> bytes:
        length, longest = int(headers.get(hdrs.CONTENT_LENGTH, -1)), self._endpoint.max_bytes
        if length > longest:
            raise self._too_long()
        # Content-Length counts the packed body, and a few kilobytes can unpack to gigabytes:
        # only plain bodies are read in one go.
        if length >= 0 and hdrs.CONTENT_ENCODING not in headers:
            # short bodies come with their headers, and then there is nothing to wait for
            return content.read_nowait() if content.is_eof() else await content.read()
        pieces: list[bytes] = []
        room = longest
        async for piece in content.iter_any():
            room -= len(piece)
            if room < 0:
                raise self._too_long()
            pieces.append(piece)
        return b"".join(pieces)

    def _too_long(self) -> AnswerTooLong:
        return AnswerTooLong(
            f"{self.base} answered with more than {self._endpoint.max_bytes} bytes"
        )

    def session(self) -> aiohttp.ClientSession:
        """Return the session, which belongs to the running loop."""
        if self._closed:
            raise ModelClosed(f"model {self._name!r} was used after it was closed")
        loop = asyncio.get_running_loop()
        if not self._session:
            self._proxy = self._endpoint.proxy or proxy_for(self.base)
            self._session = aiohttp.ClientSession(
                # `limit` 0: the number of calls in flight is the limiter's business.
                connector=_Connector(limit=0, ttl_dns_cache=300, ssl=self._endpoint.tls),
                timeout=UNTIMED,
                # Cookies would tie later requests to what earlier ones met.
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                proxy=self._proxy or None,
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
        if session:
            await session.close()


def _no_key_sent() -> str:
    """Say that no key was sent, and name a variable that is set but not read."""
    unread = "OPENAI_API_KEY"  # litellm alone reads it unasked
    also = f"; {unread} is set, but is not read unless named" if os.environ.get(unread) else ""
    return f"; none was sent{also}"


class _Connector(aiohttp.TCPConnector):
    """Drops connections that received something while they were idle.

    It would be taken for the answer to the next request.
    """

    async def connect(self, *args: Any, **kwargs: Any) -> Connection:
        """Return a connection for a request."""
        connection = await super().connect(*args, **kwargs)
        while connection.protocol is not None and connection.protocol.should_close:
            connection.close()
            connection = await super().connect(*args, **kwargs)
        return connection


def _pattern(request: aiohttp.RequestInfo) -> _Pattern:
    """Return the pattern of a POST that a session of the running loop has sent."""
    lines = [f"{request.method} {request.url.raw_path_qs} HTTP/1.1"]
    lines += [f"{k}: {v}" for k, v in request.headers.items() if k != hdrs.CONTENT_LENGTH]
    return _Pattern(
        aiohttp.ClientRequest(request.method, request.url, loop=asyncio.get_running_loop()),
        "\r\n".join([*lines, f"{hdrs.CONTENT_LENGTH}: "]).encode(),
    )
