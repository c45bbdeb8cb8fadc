"""`RedisStore`: answers in a real Redis, which must keep them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import rows_of, served, textassay, write_examples
from tests.redis_server import RedisServer, redis_served
from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.storage.answers import open_answers
from textassay.runtime.storage.redis import PREFIX, RedisStore, open_blocking

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_served(tmp_path, *DURABLE) as started:
        yield started


@pytest.mark.asyncio
async def test_answers_outlast_a_restart_and_are_seen_by_others(redis: RedisServer) -> None:
    one, other = await open_answers(redis.url), await RedisStore.open(redis.url)
    values = {f"key{i}": bytes([i]) * i for i in range(200)}
    await asyncio.gather(*(one.put(key, value) for key, value in values.items()))
    redis.stop()  # as `kill -9` does
    reading = [asyncio.create_task(other.fetch(key)) for key in values]
    writing = asyncio.create_task(one.put("late", b"kept once Redis is back"))
    await asyncio.to_thread(redis.start)
    assert await asyncio.gather(*reading) == list(values.values())
    await writing
    assert await other.fetch("late") == b"kept once Redis is back"
    assert await other.fetch("unknown") is None
    await one.aclose()
    await other.aclose()


@pytest.mark.asyncio
async def test_a_damaged_answer_is_an_error(redis: RedisServer) -> None:
    store = await RedisStore.open(redis.url)
    await store.put("key", b"answer")
    client = open_blocking(redis.url)
    client.append(PREFIX + "key", b"!")
    client.close()
    with pytest.raises(StorageError, match="damaged"):
        await store.fetch("key")
    await store.aclose()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ((), "appendonly yes"),
        ((*DURABLE, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"), "noeviction"),
        ((*DURABLE, "--replicaof", "127.0.0.1", "1"), "is a replica"),
    ],
)
@pytest.mark.asyncio
async def test_a_redis_that_forgets_is_refused(
    tmp_path: Path, options: tuple[str, ...], named: str
) -> None:
    """So is one that takes nothing."""
    with (
        redis_served(tmp_path, *options) as redis,
        pytest.raises(ConfigurationError, match=named),
    ):
        await RedisStore.open(redis.url)


@pytest.mark.asyncio
async def test_a_redis_that_is_not_there_is_named() -> None:
    pytest.importorskip("redis")
    with pytest.raises(ConfigurationError, match="cannot be kept"):
        await RedisStore.open("redis://127.0.0.1:1/0")


def test_runs_share_answers_and_limits_through_redis(redis: RedisServer, tmp_path: Path) -> None:
    data = write_examples(tmp_path / "data.jsonl", 6)
    with served() as server:
        common = ("--method", "llm-score", "--aspects", "fluency", "--model", "direct/mock")
        common += ("--api-base", server.url, "--cache", redis.url, "--limits", redis.url)
        for name in ("one", "two"):
            done = textassay("score", data, *common, "--rpm", "6000", "--out", tmp_path / name)
            assert done.code == 0, done.err
        assert server.counters.requests == 6
    assert all(row["usage"]["cached_calls"] == 1 for row in rows_of(tmp_path / "two"))
    assert not (tmp_path / "two" / "answers").exists()
