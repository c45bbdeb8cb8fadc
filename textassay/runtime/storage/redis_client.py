"""Connections to Redis; the only file that imports its client, on first use.

Knows addresses and errors; what is kept in Redis is the business of its callers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from textassay.runtime.environment import expand
from textassay.runtime.errors import ConfigurationError, StorageError

if TYPE_CHECKING:
    import redis
    import redis.asyncio

TIMEOUT = 10.0
"""Seconds after which a connection or an answer of Redis is given up, unless a caller says less."""


class RedisUnavailable(StorageError):
    """Redis did not answer, or refused."""

    is_late = False
    """Whether it may only be busy: it did not refuse, but no answer came in time."""


def open_async(url: str, *, timeout: float = TIMEOUT) -> redis.asyncio.Redis:
    """Return a client for event loops; it connects when it is first used.

    Raises:
        ConfigurationError: The address cannot be used, or the package is missing.
    """
    module = _import()
    import redis.asyncio

    with _addresses(url):
        client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(
            _address(url),
            **_settings(redis.asyncio.retry.Retry(module.backoff.NoBackoff(), 0), timeout),
        )
    return client


def open_blocking(url: str) -> redis.Redis:
    """Return a client for threads; it connects when it is first used.

    Raises:
        ConfigurationError: The address cannot be used, or the package is missing.
    """
    module = _import()
    with _addresses(url):
        client: redis.Redis = module.Redis.from_url(
            _address(url), **_settings(module.retry.Retry(module.backoff.NoBackoff(), 0), TIMEOUT)
        )
    return client


@contextmanager
def as_unavailable(url: str) -> Iterator[None]:
    """Raise `RedisUnavailable` in place of errors of the client.

    Raises:
        RedisUnavailable: Redis did not answer, or refused.
    """
    module = _import()
    try:
        yield
    # The client lets some socket errors through as they are.
    except (module.exceptions.RedisError, OSError, TimeoutError) as error:
        unavailable = RedisUnavailable(f"Redis at {url} does not answer: {error}")
        unavailable.is_late = isinstance(error, module.exceptions.TimeoutError | TimeoutError)
        raise unavailable from error


def _import() -> Any:
    try:
        import redis
        import redis.backoff
        import redis.retry
    except ImportError as error:
        raise ConfigurationError(
            "redis:// needs the package redis: pip install 'textassay[redis]'"
        ) from error
    return redis


def _address(url: str) -> str:
    expanded = expand(url, "the address of Redis", [])
    parts = urlsplit(expanded)
    database = parts.path.strip("/")
    if parts.scheme != "unix" and database and not database.isdecimal():
        raise ConfigurationError(
            f"{url}: the path of an address of Redis must be the number of a database"
        )
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        # others change what the client returns, or are given by us
        if name != "db" and not name.startswith("ssl_"):
            raise ConfigurationError(
                f"{url}: the address of Redis takes no option {name!r}, only db and those of TLS "
                "(ssl_...)"
            )
    return expanded


@contextmanager
def _addresses(url: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ConfigurationError(f"{url} is not an address of Redis: {error}") from error


def _settings(retry: Any, timeout: float) -> dict[str, Any]:
    # attempts are the caller's: a limiter must go on at once, a store asks again for longer
    return {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": retry}
