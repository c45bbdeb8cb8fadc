"""Redis: connections to it, and answers in it, for processes that share no disk.

Only here is its client imported, on first use. Bytes only: nothing is pickled. A value is kept with
a checksum of key and value before it. Redis must be set up to lose nothing: an append-only file,
and no eviction; a store in any other is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from textassay.runtime.concurrency import GroupRead, Requests, gather, to_the_end
from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.settings import expand
from textassay.runtime.storage.cache_folder import checksum

if TYPE_CHECKING:
    import redis
    import redis.asyncio

TIMEOUT = 10.0
"""Seconds after which a connection or an answer of Redis is given up, unless a caller says less."""
PREFIX = "textassay:answer:"
CHECKSUM_BYTES = 4
OUTAGE_SECONDS = 30.0
"""Time for which an unavailable Redis is retried before the run stops, resumable."""
AGAIN_SECONDS = 0.25
"""Time between two such attempts."""
MAX_READ = 500
"""Keys that are read at once."""


class _Batch(NamedTuple):
    """Answers that are written together."""

    answers: dict[str, bytes]
    written: asyncio.Future[None]


class RedisUnavailable(StorageError):
    """Redis did not answer, or refused."""

    is_late = False
    """Whether it may only be busy: it did not refuse, but no answer came in time."""


def open_async(url: str, *, timeout: float = TIMEOUT) -> redis.asyncio.Redis:
    """Return a client for event loops; it connects when it is first used."""
    module = _import()
    import redis.asyncio

    # attempts are the caller's: a limiter must go on at once, a store asks again for longer
    retry = redis.asyncio.retry.Retry(module.backoff.NoBackoff(), 0)
    try:
        return redis.asyncio.Redis.from_url(
            _address(url), socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry
        )
    except ValueError as error:
        raise ConfigurationError(f"{url} is not an address of Redis: “{error}”") from error


@contextmanager
def as_unavailable(url: str) -> Iterator[None]:
    """Raise `RedisUnavailable` in place of errors of the client."""
    module = _import()
    try:
        yield
    # The client lets some socket errors through as they are.
    except (module.exceptions.RedisError, OSError, TimeoutError) as error:
        unavailable = RedisUnavailable(f"Redis at {url} does not answer: “{error}”")
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


class RedisStore:
    """Answers in a Redis; implements `AnswerStore`.

    What is put while a write is under way is written together, and reads of one turn of the event
    loop go together. Use it from one event loop.
    """

    def __init__(self, url: str) -> None:
        self.place = url
        self._client: Any = open_async(url)
        self._pending: dict[str, bytes] = {}  # not written yet, so that a read would miss them
        self._next: _Batch | None = None
        self._writing: asyncio.Task[None] | None = None
        self._failure: StorageError | None = None
        self._requests = GroupRead(self._read_soon)
        self._reads: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    async def open(cls, url: str) -> RedisStore:
        """Connect, and check that Redis keeps what it takes."""
        store = cls(url)
        about: dict[str, Any] = {}
        try:
            with as_unavailable(url):
                for section in ("replication", "persistence", "memory"):
                    about |= await store._client.info(section)
            check_keeps(url, about)
        except BaseException as error:
            await store.aclose()
            if not isinstance(error, RedisUnavailable):
                raise
            raise ConfigurationError(
                f"answers cannot be kept: {str(error).rstrip('.')}; check that Redis runs there,"
                " or change or leave out cache="
            ) from error
        return store

    async def fetch(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`; retries while Redis is unavailable."""
        if key in self._pending:
            return self._pending[key]
        if self._closed:
            raise StorageError(f"the store in Redis at {self.place} is closed")
        return await self._requests.request(key)

    async def put_all(self, answers: Mapping[str, bytes]) -> None:
        """Keep several answers in one batch."""
        await gather([self.put(key, value) for key, value in answers.items()])

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; return once Redis has it, which a canceled `put` waits for as well.

        Retries while Redis is unavailable. After a failure, later ones fail at once.
        """
        if self._closed:
            raise StorageError(f"the store in Redis at {self.place} is closed")
        if self._failure is not None:
            raise StorageError(str(self._failure)) from self._failure
        if self._next is None:
            self._next = _Batch({}, asyncio.get_running_loop().create_future())
        batch = self._next
        batch.answers[key] = self._pending[key] = value
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        try:
            await to_the_end(batch.written)
        except asyncio.CancelledError:
            if (failure := batch.written.exception()) is not None:
                raise failure from None
            raise
        finally:
            # another `put` of the same key may be on its way still
            if self._pending.get(key) is value:
                del self._pending[key]

    async def aclose(self) -> None:
        """Write what is waiting and close all connections; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._writing is not None:
            await to_the_end(self._writing)
        for task in self._reads:
            task.cancel()
        await asyncio.gather(*self._reads, return_exceptions=True)
        await self._client.aclose()

    async def _write_all(self) -> None:
        """Write batch after batch: what is put meanwhile is the next."""
        while (batch := self._next) is not None:
            self._next = None
            try:
                if self._failure is None:
                    # MSET is atomic, and setting the same values again is harmless: a batch whose
                    # reply was lost can simply be sent again.
                    answers = batch.answers.items()
                    await self._ask("mset", {PREFIX + key: _sealed(key, v) for key, v in answers})
            # also if the loop ends: they would wait for ever
            except (Exception, asyncio.CancelledError) as error:
                self._failure = (
                    error
                    if isinstance(error, StorageError)
                    else StorageError(f"Redis at {self.place} was not written to: {error!r}")
                )
            if self._failure is None:
                batch.written.set_result(None)
            else:
                batch.written.set_exception(self._failure)
        self._writing = None

    def _read_soon(self, requests: Requests) -> None:
        all_of_them = list(requests.items())
        for start in range(0, len(all_of_them), MAX_READ):
            task = asyncio.create_task(self._read(dict(all_of_them[start : start + MAX_READ])))
            self._reads.add(task)
            task.add_done_callback(self._reads.discard)

    async def _read(self, requests: Requests) -> None:
        try:
            values = await self._ask("mget", [PREFIX + key for key in requests])
        except Exception as error:  # a fault of ours, too, must reach those who wait
            for request in requests.values():
                request.fail(error)
            return
        for (key, request), value in zip(requests.items(), values, strict=True):
            try:
                request.answer(None if value is None else _opened(key, value))
            except StorageError as error:
                request.fail(error)

    async def _ask(self, command: str, argument: Any) -> Any:
        """Send a command, again and again while Redis is unavailable."""
        deadline = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                with as_unavailable(self.place):
                    return await getattr(self._client, command)(argument)
            except RedisUnavailable:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(AGAIN_SECONDS)


def check_keeps(url: str, about: Mapping[str, Any]) -> None:
    """Refuse a Redis that evicts keys, or that loses what it took, or takes nothing."""
    if about.get("role") == "slave":
        raise ConfigurationError(
            f"Redis at {url} is a replica, which keeps only what its primary has: give the address"
            " of the primary"
        )
    if not about.get("aof_enabled"):
        raise ConfigurationError(
            f"Redis at {url} keeps no append-only file, so a restart could lose paid answers:"
            " set `appendonly yes`"
        )
    policy = about.get("maxmemory_policy", "noeviction")
    if about.get("maxmemory") and policy != "noeviction":
        raise ConfigurationError(
            f"Redis at {url} removes keys when its memory is full ({policy}), paid answers among"
            " them: set `maxmemory-policy noeviction`"
        )


def _sealed(key: str, value: bytes) -> bytes:
    return checksum(key, value).to_bytes(CHECKSUM_BYTES, "big") + value


def _opened(key: str, kept: bytes) -> bytes:
    """Return a value without its checksum."""
    value = kept[CHECKSUM_BYTES:]
    if kept[:CHECKSUM_BYTES] != checksum(key, value).to_bytes(CHECKSUM_BYTES, "big"):
        raise StorageError(f"the answer {key} in Redis is damaged; remove the key {PREFIX}{key}")
    return value
