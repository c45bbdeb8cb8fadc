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
from types import MappingProxyType
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import EndpointSettings, Settings, expand


class Provider(NamedTuple):
    """How a provider is reached by default, with the same variables that litellm reads."""

    default_address: str = ""
    address_variables: tuple[str, ...] = ()
    """Environment variables with another address; the first that is set counts."""
    key_variables: tuple[str, ...] = ()
    """Environment variables with the key; the first that is set counts."""
    key_header: str = ""
    """Header with the bare key; empty for `Authorization: Bearer`."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Further headers of every request."""
    max_bytes: int = 0
    """Length of its longest answers, if that is more than `Endpoint.max_bytes`."""

    @property
    def address(self) -> str:
        """The address that the environment names, or the default; empty if there is neither."""
        return first_set(self.address_variables) or self.default_address

    @property
    def key(self) -> str:
        """The key in the environment; empty if there is none."""
        return first_set(self.key_variables)


def first_set(variables: Iterable[str]) -> str:
    """Return the value of the first environment variable that is set, or an empty string."""
    return next(filter(None, map(os.environ.get, variables)), "")


PROVIDERS = {
    "direct": Provider(),
    "responses": Provider(),
    "openai": Provider(
        "https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE"), ("OPENAI_API_KEY",)
    ),
    "azure": Provider(
        "", ("AZURE_API_BASE",), ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"), key_header="api-key"
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
"""How servers are reached whose provider has a batch API, by the part of a model's name before the
slash."""


class Endpoint(NamedTuple):
    """Headers, query, key and connection of the requests to one server."""

    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    key_header: str = ""
    """Header with the bare key; empty for `Authorization: Bearer`."""
    tls: ssl.SSLContext | Literal[True] = True
    """`True` for the system's certificate authorities."""
    proxy: str = ""
    """Empty for the proxy that the environment names."""
    max_bytes: int = 32 * 2**20
    """Size of an answer, as sent and unpacked, above which it is malformed: some hundred times the
    longest thought."""
    secrets: tuple[str, ...] = ()
    """Values that came from environment variables, which must never be shown."""


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
    proxy = expand(settings.proxy or "", "proxy", secrets)
    return Endpoint(
        headers=headers,
        query=query,
        key_header=settings.api_key_header or "",
        tls=_tls(settings),
        proxy=proxy,
        secrets=tuple(secrets),
    )


def _tls(settings: EndpointSettings) -> ssl.SSLContext | Literal[True]:
    if settings.client_key and not settings.client_cert:
        raise ConfigurationError("client_key needs client_cert, the certificate that it belongs to")
    # aiohttp makes its default context once for all sessions
    if not settings.ca and not settings.client_cert:
        return True
    for path in filter(None, (settings.ca, settings.client_cert, settings.client_key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from error
    try:
        context = ssl.create_default_context(cafile=settings.ca)
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"ca: {settings.ca} contains no PEM certificates: {error}"
        ) from error
    if settings.client_cert:
        try:
            context.load_cert_chain(settings.client_cert, settings.client_key)
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"client_cert: {settings.client_cert} cannot be used: {error}"
            ) from error
    return context


def split_address(api_base: str) -> tuple[str, dict[str, str]]:
    """Return the address without its query, and the query, which is sent with every request."""
    parts = urlsplit(api_base)
    address = parts._replace(query="", fragment="").geturl().rstrip("/")
    return address, dict(parse_qsl(parts.query, keep_blank_values=True))


class ServerAddress(NamedTuple):
    """The parts of an address as a user gives it."""

    url: str
    """The address without user, password, query and fragment."""
    query: Mapping[str, str]
    login: Mapping[str, str]
    """The header that user and password are sent as; empty if neither is given."""
    secrets: tuple[str, ...]
    """The password, or without one the user, in each of its forms; never to be shown."""


def read_address(api_base: str) -> ServerAddress:
    """Return the parts of an address."""
    address, query = split_address(api_base)
    parts = urlsplit(address)
    login, _, host = parts.netloc.rpartition("@")
    url = parts._replace(netloc=host).geturl()
    user, _, password = login.partition(":")
    if not user and not password:
        return ServerAddress(url, query, {}, ())
    credentials = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    secret = password or user  # some services take a token in place of a user
    secrets = (credentials, secret, unquote(secret))
    return ServerAddress(url, query, {"Authorization": f"Basic {credentials}"}, secrets)


def with_login(
    headers: Mapping[str, str], address: ServerAddress, endpoint: Endpoint, *, key: bool
) -> dict[str, str]:
    """Return headers with the header of the login in an address, if it has one."""
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


def proxy_for(address: str) -> str:
    """Return the proxy for an address, from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`.

    Empty if there is none. This machine is never asked through a proxy that only the environment
    names.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    # A proxy resolves 127.0.0.1 as itself.
    if _is_loopback(host) or urllib.request.proxy_bypass(f"{host}:{parts.port or ''}".rstrip(":")):
        return ""
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all", "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
