"""What every store of answers does, in a folder and in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.redis_server import redis_served
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.answers import AnswerStore, DiskStore, LocalStore, open_answers

Open = Callable[[], Awaitable[AnswerStore]]


@pytest.fixture(params=["folder", "redis"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens one more store at the same place."""
    if request.param == "folder":
        yield lambda: open_answers(tmp_path / "cache")
        return
    with redis_served(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as redis:
        yield lambda: open_answers(redis.url)


@pytest.mark.asyncio
async def test_what_is_put_is_found_then_and_later(open_store: Open) -> None:
    """Any text and any bytes; of several values of a key the last."""
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


@pytest.mark.asyncio
async def test_values_are_seen_before_their_commit(open_store: Open) -> None:
    """A value that waits for its commit is found already."""
    store = await open_store()
    for value in (b"1", b"2"):
        waiting = asyncio.create_task(store.put("a", value))
        await asyncio.sleep(0)
        assert await store.fetch("a") == value
        await waiting
        assert await store.fetch("a") == value
    await store.aclose()


@pytest.mark.asyncio
async def test_stores_at_one_place_see_each_other(open_store: Open) -> None:
    """Also after a look in vain, and while both write."""
    one, other = await open_store(), await open_store()
    assert (await one.fetch("a"), await other.fetch("a")) == (None, None)
    for number in range(20):
        await asyncio.gather(
            one.put(f"one {number}", b"1"), other.put(f"other {number}", b"2"), one.put("a", b"0")
        )
        assert await other.fetch(f"one {number}") == b"1"
        assert await one.fetch(f"other {number}") == b"2"
    await one.aclose()
    assert await other.fetch("a") == b"0"
    await other.aclose()


@pytest.mark.asyncio
async def test_a_cancelled_put_is_kept_all_the_same(open_store: Open) -> None:
    """Cancelling waits for the commit: when `CancelledError` arrives, another store sees it."""
    store, other = await open_store(), await open_store()
    task = asyncio.create_task(store.put("a", b"1"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await other.fetch("a") == b"1"
    await store.aclose()
    await other.aclose()


@pytest.mark.asyncio
async def test_closing_commits_what_is_waiting(open_store: Open) -> None:
    """Values handed in right before are kept; afterwards it refuses to read and write."""
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


@pytest.mark.asyncio
async def test_a_folder_is_a_store_and_redis_one_that_is_far_away(open_store: Open) -> None:
    """Only the latter must not be read while the event loop waits."""
    store = await open_store()
    assert isinstance(store, LocalStore) == isinstance(store, DiskStore)
    await store.aclose()
