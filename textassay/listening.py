"""Serves pages on this machine; checks Host headers and makes links.

A page on the web can reach a local server through a name that it points at this machine (DNS
rebinding), so a server only answers to its own names. Numeric addresses cannot be redirected in
this way.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from textassay.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from aiohttp import web


@asynccontextmanager
async def listen(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve an application inside the block; yield the port, a free one if `port` is 0."""
    # imported here: most commands serve nothing
    from aiohttp import web

    # answers to pages that poll must not delay the end
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen at {host}:{port}: {error.strerror or error}; give another port="
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def answers_to(header: str, listening: str) -> bool:
    """Return whether a server that listens at this address should answer to a Host header."""
    name = header.rsplit(":", 1)[0] if not header.endswith("]") else header
    # an IPv6 address is in brackets, and has colons
    name = (name[1:-1] if ":" in name and name[0] == "[" else name).lower()
    if name in ("localhost", listening.lower()):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return not is_loopback(listening) and name == socket.gethostname().lower()
    return address.is_loopback or not is_loopback(listening)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server that listens at this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def link(listening: str, port: int) -> str:
    """Return the address of a server for people: `http://HOST:PORT`.

    For a server that listens at all addresses (`0.0.0.0`, `::`), it is the one that other machines
    use.
    """
    try:
        address = ipaddress.ip_address(listening)
    except ValueError:
        return f"http://{listening}:{port}"
    if address.is_unspecified:
        listening = _own_address(address.version)
    return f"http://[{listening}]:{port}" if ":" in listening else f"http://{listening}:{port}"


def origin(url: str) -> str | None:
    """Return a web address in the form of `Origin` headers; `None` for any other text.

    Such a form is in lower case and punycode, and omits the default port of the scheme.
    """
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
        host = f"[{ipaddress.IPv6Address(name)}]" if ":" in name else name.encode("idna").decode()
    except ValueError:
        return None
    has_more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    # a.example   [2001:db8::1]
    is_host = re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9.])?|\[[0-9a-f:.]+\]", host)
    default_ports = {"http": 80, "https": 443}
    if parts.scheme not in default_ports or has_more or port == 0 or not is_host:
        return None
    suffix = "" if port in (None, default_ports[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{host}{suffix}"


def host_name(header: str) -> str:
    """Return the name in a Host header or an origin, without scheme and port; empty if none."""
    try:
        return urlsplit(f"//{header.rpartition('://')[2]}").hostname or ""
    except ValueError:
        return ""


def _own_address(version: int) -> str:
    # Addresses reserved for documentation: a socket that is connected to one knows the address at
    # which other machines reach this one, and nothing is sent.
    family, elsewhere = (
        (socket.AF_INET, "192.0.2.1") if version == 4 else (socket.AF_INET6, "2001:db8::1")
    )
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    except OSError:
        # a machine without such a network is reached by its name, or from this machine alone
        return socket.gethostname()
