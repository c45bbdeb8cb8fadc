"""What every store of answers does, in a folder and in Redis, and what Redis must keep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.harness import rows_of, served, textassay, write_examples
from tests.redis_server import RedisServer, redis_served
from textassay.runtime.connected import open_answers
from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.storage.answers import AnswerStore
from textassay.runtime.storage.redis import PREFIX, RedisStore

Open = Callable[[], Awaitable[AnswerStore]]


@pytest.fixture(params=["folder", "redis"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens one more store at the same place."""
    if request.param == "folder":
        yield lambda: open_answers(tmp_path / "cache")
        return
    with redis_served(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as redis:
        yield lambda: open_answers(redis.url)


async def test_what_is_put_is_found_then_and_later(open_store: Open) -> None:
    answers = {f"key {i} \u00bd": bytes([i]) * i for i in range(100)} | {"": b"", "null": b"\0"}
    store = await open_store()
    await asyncio.gather(*(store.put(key, value) for key, value in answers.items()))
    await store.put("null", b"second")
    await store.aclose()
    store = await open_store()
    answers["null"] = b"second"
    assert [await store.fetch(key) for key in answers] == [*answers.values()]
    assert await store.fetch("unknown") is None
    await store.aclose()


async def test_values_are_seen_before_their_commit(open_store: Open) -> None:
    store = await open_store()
    for value in (b"1", b"2"):
        waiting = asyncio.create_task(store.put("a", value))
        await asyncio.sleep(0)
        assert await store.fetch("a") == value
        await waiting
        assert await store.fetch("a") == value
    await store.aclose()


async def test_stores_at_one_place_see_each_other(open_store: Open) -> None:
    one, other = await open_store(), await open_store()
    assert (await one.fetch("a"), await other.fetch("a")) == (None, None)
    puts = [one.put(f"one {i}", b"1") for i in range(20)]
    puts += [other.put(f"other {i}", b"2") for i in range(20)]
    await asyncio.gather(*puts, one.put("a", b"0"))
    await one.aclose()
    assert [await other.fetch(f"one {i}") for i in range(20)] == [b"1"] * 20
    assert await other.fetch("a") == b"0"
    one = await open_store()
    await other.aclose()
    assert [await one.fetch(f"other {i}") for i in range(20)] == [b"2"] * 20
    await one.aclose()


async def test_a_cancelled_put_is_kept_all_the_same(open_store: Open) -> None:
    store, other = await open_store(), await open_store()
    task = asyncio.create_task(store.put("a", b"1"))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):  # a folder has it at once
        await task
    await store.aclose()
    assert await other.fetch("a") == b"1"
    await other.aclose()


async def test_closing_commits_what_is_waiting(open_store: Open) -> None:
    store = await open_store()
    puts = [asyncio.create_task(store.put(f"k{i}", b"v")) for i in range(700)]
    await asyncio.sleep(0)
    await store.aclose()
    await store.aclose()
    await asyncio.gather(*puts)
    with pytest.raises(StorageError, match="closed"):
        await store.fetch("k0")
    with pytest.raises(StorageError, match="closed"):
        await store.put("k0", b"w")
    again = await open_store()
    assert [await again.fetch(f"k{i}") for i in range(700)] == [b"v"] * 700
    await again.aclose()


DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_served(tmp_path, *DURABLE) as started:
        yield started


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


async def test_a_damaged_answer_is_an_error(redis: RedisServer) -> None:
    store = await RedisStore.open(redis.url)
    await store.put("key", b"answer")
    client = pytest.importorskip("redis").Redis.from_url(redis.url)
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
async def test_a_redis_that_forgets_is_refused(
    tmp_path: Path, options: tuple[str, ...], named: str
) -> None:
    with (
        redis_served(tmp_path, *options) as redis,
        pytest.raises(ConfigurationError, match=named),
    ):
        await RedisStore.open(redis.url)


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
