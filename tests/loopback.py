"""Servers on this machine, in the test's event loop or in a thread beside it."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from aiohttp import BodyPartReader, web

from tests.waiting import HANGS_AFTER

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def listening(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Have every path answered by a handler; yields the address, without a slash at its end.

    A handler whose client goes away is canceled.
    """
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        host = "https://localhost" if tls else "http://127.0.0.1"
        yield f"{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def make_certificate(folder: Path, host: str) -> Path:
    """Return a certificate for a host that no authority has signed, with its key, in one file."""
    key, pem, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    names = ("-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}")
    try:
        command = (*made, *names, "-keyout", str(key), "-out", str(pem))
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    both.write_text(pem.read_text() + key.read_text())
    return both


@asynccontextmanager
async def tunneling(handler: Handler, certificate: Path) -> AsyncIterator[str]:
    """Have every host of a certificate answered by a handler; yields the address of the proxy."""

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        there, back = await asyncio.open_connection("127.0.0.1", port)

        async def pass_on(come: asyncio.StreamReader, go: asyncio.StreamWriter) -> None:
            while piece := await come.read(2**16):
                go.write(piece)
            go.close()

        await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    async with listening(handler, tls) as address:
        port = int(address.rpartition(":")[2])
        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        async with proxy:
            yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"


async def form_of(request: web.BaseRequest) -> dict[str, bytes]:
    """Return the fields of a form, with the content of its files.

    `Request.post` of aiohttp leaves a file open if the client dies in the middle of it.
    """
    fields: dict[str, bytes] = {}
    parts = await request.multipart()
    while (part := await parts.next()) is not None:
        assert isinstance(part, BodyPartReader)
        assert part.name is not None
        fields[part.name] = bytes(await part.read(decode=True))
    return fields


@contextmanager
def in_thread(serving: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Serve in a thread and event loop of its own, since a command has the loop of this thread."""
    ready, done = threading.Event(), threading.Event()
    entered: list[T] = []

    async def main() -> None:
        async with serving() as value:
            entered.append(value)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert ready.wait(HANGS_AFTER), "the server did not start"
    try:
        yield entered[0]
    finally:
        done.set()
        thread.join(HANGS_AFTER)
