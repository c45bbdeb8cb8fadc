"""How a server is reached: address, headers, query, certificates and proxy, read once.

Secrets are in environment variables and are looked up here; they never reach a manifest.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import urllib.request
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import EndpointSettings, Settings, expand

MAX_ANSWER_BYTES = 32 * 2**20
"""Size of a server's answer, as sent and unpacked, beyond which it is malformed: some hundred times
the longest thought."""
"""Longest answer that is read if nothing else is said, in bytes."""


class Provider(NamedTuple):
    """How a provider is reached if settings do not say it: where litellm finds it, too."""

    default_address: str | None = None
    address_variables: tuple[str, ...] = ()
    """Variables of the environment with another address: the first that is set."""
    key_variables: tuple[str, ...] = ()
    """Variables with the key: the first that is set."""
    key_header: str | None = None
    """Header with the key; `None` for `Authorization: Bearer`."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Further headers of every request."""
    max_bytes: int = 0
    """How long its answers can be at least, whatever `MAX_ANSWER_BYTES` is."""

    @property
    def address(self) -> str | None:
        """The address that the environment names, or else the default."""
        return _first_set(self.address_variables) or self.default_address

    @property
    def key(self) -> str | None:
        """The key that the environment has."""
        return _first_set(self.key_variables)


def _first_set(variables: Iterable[str]) -> str | None:
    return next(filter(None, map(os.environ.get, variables)), None)


PROVIDERS = {
    "direct": Provider(),
    "responses": Provider(),
    "openai": Provider(
        "https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE"), ("OPENAI_API_KEY",)
    ),
    "azure": Provider(
        None, ("AZURE_API_BASE",), ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"), key_header="api-key"
    ),
    "groq": Provider("https://api.groq.com/openai/v1", ("GROQ_API_BASE",), ("GROQ_API_KEY",)),
    "together_ai": Provider(
        "https://api.together.xyz/v1",
        ("TOGETHER_AI_API_BASE",),
        ("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
    ),
    "anthropic": Provider(
        "https://api.anthropic.com/v1",
        ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
        ("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta",
        ("GEMINI_API_BASE",),
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        key_header="x-goog-api-key",
        max_bytes=2**30,  # all answers of a batch come in one
    ),
}
"""Those whose batches are known, by the part of a model's name before the slash."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What goes with every request to one server, and how its connection is made."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    key_header: str | None = None
    """Header that carries the key as it is; `None` for `Authorization: Bearer`."""
    tls: ssl.SSLContext | None = None
    """`None` for the system's certificate authorities."""
    proxy: str | None = None
    """`None` for what the environment says."""
    max_bytes: int = MAX_ANSWER_BYTES
    secrets: tuple[str, ...] = ()
    """What must never be shown: values that came from environment variables."""


def endpoint_of(settings: Settings) -> Endpoint:
    """Return the endpoint that settings describe."""
    secrets: list[str] = []
    query = {
        name: expand(value, f"query {name!r}", secrets) for name, value in settings.query.items()
    }
    headers = {
        name: expand(value, f"header {name!r}", secrets) for name, value in settings.headers.items()
    }
    for name, value in headers.items():
        # A line end in a value would begin a header of its own.
        if not (name + value).isprintable():
            raise ConfigurationError(
                f"the header {name!r} contains a line end or control character"
            )
    proxy = None if settings.proxy is None else expand(settings.proxy, "proxy", secrets)
    return Endpoint(
        headers=headers,
        query=query,
        key_header=settings.api_key_header,
        tls=_tls(settings),
        proxy=proxy,
        secrets=tuple(secrets),
    )


def _tls(settings: EndpointSettings) -> ssl.SSLContext | None:
    if settings.client_key is not None and settings.client_cert is None:
        raise ConfigurationError("client_key needs client_cert, the certificate that it belongs to")
    # None leaves verification to aiohttp's default context, which it makes once for all sessions.
    if settings.ca is None and settings.client_cert is None:
        return None
    _check_readable(settings.ca, settings.client_cert, settings.client_key)
    try:
        context = ssl.create_default_context(cafile=settings.ca)
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"ca: {settings.ca} contains no PEM certificates: {error}"
        ) from error
    if settings.client_cert is not None:
        try:
            context.load_cert_chain(settings.client_cert, settings.client_key)
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"client_cert: {settings.client_cert} cannot be used: {error}"
            ) from error
    return context


def _check_readable(*paths: Path | None) -> None:
    for path in paths:
        try:
            if path is not None:
                path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from error


def split_address(api_base: str) -> tuple[str, dict[str, str]]:
    """Return the address without its query, and the query, which is sent with every request."""
    parts = urlsplit(api_base)
    address = parts._replace(query="", fragment="").geturl().rstrip("/")
    return address, dict(parse_qsl(parts.query, keep_blank_values=True))


class ServerAddress(NamedTuple):
    """The parts of an address as a user gives it."""

    url: str
    """Without user, password, query and fragment."""
    query: Mapping[str, str]
    login: Mapping[str, str]
    """The header that user and password are sent as; empty if neither is given."""
    secrets: tuple[str, ...]
    """What must never be shown: the password in each of its forms, or else the user."""


def read_address(api_base: str) -> ServerAddress:
    """Return the parts of an address."""
    address, query = split_address(api_base)
    parts = urlsplit(address)
    written, _, host = parts.netloc.rpartition("@")
    url = parts._replace(netloc=host).geturl()
    user, _, password = written.partition(":")
    if not user and not password:
        return ServerAddress(url, query, {}, ())
    sent = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    secret = password or user  # some services take a token in place of a user
    secrets = (sent, secret, unquote(secret))
    return ServerAddress(url, query, {"Authorization": f"Basic {sent}"}, secrets)


def with_login(
    headers: Mapping[str, str], address: ServerAddress, endpoint: Endpoint, *, key: bool
) -> dict[str, str]:
    """Return headers with those of the login in an address, if it has one."""
    if not address.login:
        return dict(headers)
    if key:
        raise ConfigurationError(
            "the user in api_base= is sent as `Authorization`; an API key beside it"
            " needs a header of its own (api_key_header=NAME)"
        )
    if any(name.lower() == "authorization" for name in (*headers, *endpoint.headers)):
        raise ConfigurationError(
            "the user in api_base= is sent as `Authorization`, and there is another"
            " header of that name: leave out one"
        )
    return {**headers, **address.login}


def proxy_for(address: str) -> str | None:
    """Return the proxy for an address, from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`.

    This machine is never asked through a proxy that only the environment names.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    # A proxy resolves 127.0.0.1 as itself.
    if _is_loopback(host) or urllib.request.proxy_bypass(f"{host}:{parts.port or ''}".rstrip(":")):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
