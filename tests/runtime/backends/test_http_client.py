"""The HTTP client: what follows the first request is sent and read exactly as that was.

The first request to an address goes through aiohttp's session; later ones repeat what it sent.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.endpoint import Endpoint, read_address
from textassay.runtime.backends.http_client import LARGE, MAX_PATTERNS, HttpClient
from textassay.runtime.errors import MalformedResponse
from textassay.runtime.model import Request

MAX_BYTES = 1000
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
ZIPPED = gzip.compress(b'{"a": 1}')
BOMB = gzip.compress(b" " * 100_000)
FORMS = {
    "plain": PLAIN,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n{}",
    "packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
    % (len(ZIPPED), ZIPPED),
    "packed too long": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
    % (len(BOMB), BOMB),
    "announced too long": b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b" " * 1001,
    "endless": b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 5000,
    "after early hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + PLAIN,
    "after continue": b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "redirected": b"HTTP/1.1 308 X\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
    "rate limited": b"HTTP/1.1 429 X\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nwait",
    "with a cookie": PLAIN.replace(b"Content-Type", b"Set-Cookie: a=b\r\nContent-Type"),
    "torn": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
    "torn head": b"HTTP/1.1 200 OK\r\nContent-",
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "no length": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
}
ENDS = {"until the end", "HTTP/1.0", "endless", "torn", "torn head", "nothing", "no HTTP",
        "no length"}  # fmt: skip
"""Forms after which the server ends the connection."""
TOO_LONG = {"packed too long", "announced too long"}
"""Forms after which the client may end it."""


class Wire:
    """A server that answers each request with given bytes, and keeps what it received."""

    def __init__(self) -> None:
        self.next = PLAIN
        self.received: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                self.received.append(head + body)
                answer, self.next = self.next, PLAIN
                writer.write(answer)
                await writer.drain()
                if any(answer == FORMS[name] for name in ENDS):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    """Serve on the loopback; gives the address."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@asynccontextmanager
async def client(url: str, **endpoint: Any) -> AsyncIterator[HttpClient]:
    """Make a client and close it."""
    made = HttpClient(
        url,
        Endpoint(max_bytes=MAX_BYTES, **endpoint),
        name="direct/m",
        headers={"Content-Type": "application/json", "Authorization": "Bearer secret-key"},
    )
    try:
        yield made
    finally:
        await made.aclose()


async def outcome(http: HttpClient, url: str) -> tuple[Any, ...]:
    """Ask, and return the answer or the error in full."""
    try:
        status, headers, body = await http.send("POST", f"{url}/chat", b'{"a": "b"}')
    except (aiohttp.ClientError, MalformedResponse) as error:
        return type(error), str(error)
    return status, list(headers.items()), body


@pytest.mark.parametrize("form", FORMS)
async def test_a_later_answer_is_read_like_the_first(form: str) -> None:
    """Also one that is torn, packed, endless or no HTTP; and the client works on after it."""
    wire = Wire()
    async with listening(wire.serve) as url:
        wire.next = FORMS[form]
        async with client(url) as fresh:
            first = await outcome(fresh, url)
            assert (await outcome(fresh, url))[0] == 200
        async with client(url) as http:
            good = await outcome(http, url)
            wire.next = FORMS[form]
            before = wire.connections
            assert await outcome(http, url) == first
            assert await outcome(http, url) == good
            assert form in TOO_LONG or wire.connections == before + (form in ENDS)
    assert (first == good) is (form in ("plain", "after early hints", "after continue"))


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_bytes_received_on_an_idle_connection_are_not_an_answer(method: str) -> None:
    """Each later answer would be that of the request before."""
    writers: list[asyncio.StreamWriter] = []

    def answer(body: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                writer.write(answer(body or head.split()[1].rpartition(b"/")[2]))
        writer.close()

    async with listening(echo) as url, client(url) as http:
        for number in range(6):
            body, place = (b"%d" % number, "chat") if method == "POST" else (b"", str(number))
            assert (await http.send(method, f"{url}/{place}", body)).body == b"%d" % number
            if number in (1, 3):
                writers[-1].write(answer(b"stray"))
                for _ in range(10):  # until the client's side of the connection has read it
                    await asyncio.sleep(0)
    assert len(writers) == 3


async def test_a_later_request_is_sent_like_the_first() -> None:
    """Byte for byte: path, query, key and every other header; and so is one with its own."""
    wire = Wire()
    query = {"api-version": "2026-01 ä"}
    async with (
        listening(wire.serve) as url,
        client(url, query=query, headers={"X-Team": "ü"}) as http,
    ):
        for headers in (None, {"X-Call": "1"}, {"X-Call": "2"}, {"Authorization": "Bearer other"}):
            for body in (b"{}", b'{"a": 1}', b""):
                await http.send("POST", f"{url}/chat", body, headers)
                await http.send("POST", f"{url}/chat", body, headers)
                await http.send("POST", f"{url}/other", body, headers)
                first, second, other = wire.received[-3:]
                assert first == second
                assert other == first.replace(b"/chat?", b"/other?")
                assert first.endswith(b"\r\n\r\n" + body)
    assert wire.received[0].startswith(b"POST /v1/chat?api-version=2026-01+%C3%A4 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret-key\r\n" in wire.received[0]
    assert wire.received[-1].count(b"Authorization: ") == 1
    assert wire.connections == 1


async def test_other_methods_and_large_bodies_are_sent_as_well() -> None:
    """By the session, at any time."""
    wire = Wire()
    large = b"x" * (LARGE + 1)
    async with listening(wire.serve) as url, client(url) as http:
        for _ in range(2):
            await http.send("POST", url, b"{}")
            await http.send("POST", url, large)
            await http.send("GET", url, b"")
    assert [request.partition(b" ")[0] for request in wire.received] == [
        b"POST",
        b"POST",
        b"GET",
    ] * 2
    assert [len(request) > LARGE for request in wire.received] == [False, True, False] * 2


async def test_hooks_of_the_application_see_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing libraries add theirs to every session that is made."""
    wire, seen = Wire(), list[str]()

    async def begin(_: object, context: object, started: aiohttp.TraceRequestStartParams) -> None:
        started.headers["traceparent"] = f"00-{len(seen):032}-01"
        seen.append(started.method)

    made = aiohttp.ClientSession.__init__

    def traced(session: aiohttp.ClientSession, *args: Any, **options: Any) -> None:
        hooks = aiohttp.TraceConfig()
        hooks.on_request_start.append(begin)
        made(session, *args, trace_configs=[hooks], **options)

    monkeypatch.setattr(aiohttp.ClientSession, "__init__", traced)
    async with listening(wire.serve) as url, client(url) as http:
        for _ in range(3):
            await http.send("POST", url, b"{}")
    assert seen == ["POST"] * 3
    assert [f"00-{n:032}-01".encode() in sent for n, sent in enumerate(wire.received)] == [True] * 3


async def test_requests_with_headers_of_their_own_push_out_the_oldest() -> None:
    """Dated or signed ones are never sent twice, and must not fill the memory."""
    wire = Wire()
    async with listening(wire.serve) as url, client(url) as http:
        for turn in range(MAX_PATTERNS + 8):
            await http.send("POST", url, b"{}", {"X-Date": str(turn)})
            await http.send("POST", url, b"{}", {"X-Date": str(turn)})
        assert len(http._patterns) == MAX_PATTERNS
    assert all(
        one == other for one, other in zip(wire.received[::2], wire.received[1::2], strict=True)
    )


@pytest.mark.parametrize(
    ("given", "url", "login", "secrets"),
    [
        ("http://h/v1?a=b", "http://h/v1", None, ()),
        ("http://@h:80/v1/", "http://h:80/v1", None, ()),
        ("http://me:p%40ss@h/v1", "http://h/v1", "me:p@ss", ("p%40ss", "p@ss")),
        ("http://a-token@h/v1", "http://h/v1", "a-token:", ("a-token",)),
        ("http://\u00fc:\u4e2d@h", "http://h", "\u00fc:\u4e2d", ("\u4e2d",)),
    ],
)
async def test_the_parts_of_an_address(given, url, login, secrets):
    """A user and a password may be escaped, and are sent in UTF-8."""
    read = read_address(given)
    sent = "" if login is None else base64.b64encode(login.encode()).decode()
    assert read.url == url
    assert read.login == ({} if login is None else {"Authorization": f"Basic {sent}"})
    assert set(read.secrets) == {*secrets, *filter(None, [sent])}


@pytest.mark.parametrize(
    ("key", "variable", "words"),
    [
        ("sk-abcdefghijkl", "", "it; one was sent)"),
        (None, "", "it; none was sent)"),
        (None, "sk-other-and-unused", "none was sent; OPENAI_API_KEY is set, but is not read"),
    ],
)
async def test_a_wrong_and_a_missing_key_are_distinguished(
    mock_server, monkeypatch, key, variable, words
):
    monkeypatch.setenv("OPENAI_API_KEY", variable)
    server = await mock_server(require_key="another-key")
    model = DirectModel("direct/judge", api_base=server.url, api_key=key)
    with pytest.raises(errors.AuthenticationFailed) as caught:
        await model.generate(Request(prompt="x"))
    await model.aclose()
    assert words in str(caught.value)
    assert "api_key_env= names the variable" in str(caught.value)
