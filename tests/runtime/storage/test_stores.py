"""What several stores of answers at one place do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from textassay.runtime.errors import StorageError
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.answers import DiskStore

Open = Callable[[], AnswerStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Open:
    """Opens one more store at the same place."""
    return lambda: DiskStore(tmp_path / "cache")


async def test_stored_answers_are_found_at_once_and_later(open_store: Open) -> None:
    answers = {f"key {i} \u00bd": bytes([i]) * i for i in range(100)} | {"": b"", "null": b"\0"}
    store = open_store()
    await asyncio.gather(*(store.put(key, value) for key, value in answers.items()))
    await store.put("null", b"second")
    await store.aclose()
    store = open_store()
    answers["null"] = b"second"
    assert [await store.fetch(key) for key in answers] == [*answers.values()]
    assert await store.fetch("unknown") is None
    await store.aclose()


async def test_values_are_seen_before_their_commit(open_store: Open) -> None:
    store = open_store()
    for value in (b"1", b"2"):
        waiting = asyncio.create_task(store.put("a", value))
        await asyncio.sleep(0)
        assert await store.fetch("a") == value
        await waiting
        assert await store.fetch("a") == value
    await store.aclose()


async def test_stores_at_one_place_see_each_other(open_store: Open) -> None:
    one, other = open_store(), open_store()
    assert (await one.fetch("a"), await other.fetch("a")) == (None, None)
    puts = [one.put(f"one {i}", b"1") for i in range(20)]
    puts += [other.put(f"other {i}", b"2") for i in range(20)]
    await asyncio.gather(*puts, one.put("a", b"0"))
    await one.aclose()
    assert [await other.fetch(f"one {i}") for i in range(20)] == [b"1"] * 20
    assert await other.fetch("a") == b"0"
    one = open_store()
    await other.aclose()
    assert [await one.fetch(f"other {i}") for i in range(20)] == [b"2"] * 20
    await one.aclose()


async def test_a_cancelled_put_is_kept_all_the_same(open_store: Open) -> None:
    store, other = open_store(), open_store()
    task = asyncio.create_task(store.put("a", b"1"))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):  # a folder has it at once
        await task
    await store.aclose()
    assert await other.fetch("a") == b"1"
    await other.aclose()


async def test_closing_commits_what_is_waiting(open_store: Open) -> None:
    store = open_store()
    puts = [asyncio.create_task(store.put(f"k{i}", b"v")) for i in range(700)]
    await asyncio.sleep(0)
    await store.aclose()
    await store.aclose()
    await asyncio.gather(*puts)
    with pytest.raises(StorageError, match="closed"):
        await store.fetch("k0")
    with pytest.raises(StorageError, match="closed"):
        await store.put("k0", b"w")
    again = open_store()
    assert [await again.fetch(f"k{i}") for i in range(700)] == [b"v"] * 700
    await again.aclose()
