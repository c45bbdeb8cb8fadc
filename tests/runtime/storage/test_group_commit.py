"""Group commit: one announcement a turn, every value written and every waiter told, however a loop
ends."""

import asyncio
import threading

import pytest

from tests.waiting import HANGS_AFTER
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.group_commit import MAX_BATCH, GroupCommit


class Kept:
    """Keeps batches in memory; waits for leave before each."""

    def __init__(self, *, refused=None, held=False):
        self.batches, self.refused, self.closed = [], refused, False
        self.leave = threading.Event()
        if not held:
            self.leave.set()

    def open(self):
        pass

    def write(self, batch):
        assert self.leave.wait(HANGS_AFTER)
        if self.refused in batch:
            raise StorageError("the disk is full")
        self.batches.append(list(batch))

    def idle(self):
        pass

    def close(self):
        self.closed = True


async def test_what_one_turn_hands_in_is_one_batch():
    kept = Kept()
    commits = GroupCommit(kept, name="it")
    for turn in range(3):
        await asyncio.gather(*(commits.put((turn, i)) for i in range(40)))
    await commits.aclose()
    assert kept.batches == [[(turn, i) for i in range(40)] for turn in range(3)]
    assert kept.closed


@pytest.mark.parametrize("count", [MAX_BATCH - 1, MAX_BATCH, MAX_BATCH + 1, 3 * MAX_BATCH])
async def test_more_than_a_batch_is_written_to_the_last_value(count):
    kept = Kept()
    commits = GroupCommit(kept, name="it")
    await asyncio.gather(*map(commits.put, range(count)))
    assert [value for batch in kept.batches for value in batch] == list(range(count))
    assert max(map(len, kept.batches)) <= MAX_BATCH
    await commits.aclose()


async def test_closing_before_the_turn_has_ended_writes_what_it_handed_in():
    """A blocking `close` comes before the announcement that the turn owes."""
    kept = Kept()
    commits = GroupCommit(kept, name="it")
    puts = [asyncio.ensure_future(commits.put(i)) for i in range(MAX_BATCH + 5)]
    closing = asyncio.get_running_loop().create_future()

    def close():  # runs after the first steps of the puts, in their turn
        commits.close()
        closing.set_result([value for batch in kept.batches for value in batch])

    asyncio.get_running_loop().call_soon(close)
    assert await closing == list(range(MAX_BATCH + 5))
    await asyncio.gather(*puts)
    with pytest.raises(StorageError, match="it is closed"):
        await commits.put("late")


async def test_values_that_come_during_a_write_are_written_next():
    kept = Kept(held=True)
    commits = GroupCommit(kept, name="it")
    puts = []
    for value in range(5):
        puts.append(asyncio.ensure_future(commits.put(value)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    kept.leave.set()
    await asyncio.gather(*puts)
    assert [value for batch in kept.batches for value in batch] == list(range(5))
    await commits.aclose()


async def test_a_failure_reaches_every_waiter():
    kept = Kept(refused=MAX_BATCH + 1)
    commits = GroupCommit(kept, name="it")
    results = await asyncio.gather(*map(commits.put, range(3 * MAX_BATCH)), return_exceptions=True)
    assert results[:MAX_BATCH] == [None] * MAX_BATCH
    assert {str(result) for result in results[MAX_BATCH:]} == {"the disk is full"}
    assert kept.batches == [list(range(MAX_BATCH))]
    with pytest.raises(StorageError, match="the disk is full"):
        await commits.put("late")
    await commits.aclose()
    assert kept.closed


def test_a_loop_that_ends_before_its_announcement_holds_up_no_other():
    """Its value goes with the next announcement of any loop, and a later loop makes its own."""
    kept = Kept()
    commits = GroupCommit(kept, name="it")
    stopped = asyncio.new_event_loop()
    left = stopped.create_task(commits.put("left"))
    stopped.call_soon(stopped.stop)  # before the announcement, which is for the next turn
    stopped.run_forever()
    assert not left.done()
    asyncio.run(commits.put("other"))
    assert [value for batch in kept.batches for value in batch] == ["left", "other"]
    stopped.run_until_complete(left)
    stopped.close()
    asyncio.run(commits.put("later"))
    commits.close()
    assert [value for batch in kept.batches for value in batch] == ["left", "other", "later"]


def test_loops_of_several_threads_are_all_served():
    kept = Kept()
    commits = GroupCommit(kept, name="it")

    async def hand_in(thread):
        for turn in range(50):
            await asyncio.gather(*(commits.put((thread, turn, i)) for i in range(3)))

    threads = [threading.Thread(target=asyncio.run, args=(hand_in(thread),)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS_AFTER)
        assert not thread.is_alive()
    commits.close()
    written = [value for batch in kept.batches for value in batch]
    assert sorted(written) == [
        (thread, turn, i) for thread in range(4) for turn in range(50) for i in range(3)
    ]


async def test_closing_beside_puts_leaves_nobody_waiting():
    for _ in range(200):
        kept = Kept()
        commits = GroupCommit(kept, name="it")
        closing = threading.Thread(target=commits.close)
        closing.start()
        async with asyncio.timeout(HANGS_AFTER):
            results = await asyncio.gather(*map(commits.put, range(20)), return_exceptions=True)
        closing.join()
        written = [value for batch in kept.batches for value in batch]
        assert written == [value for value, result in enumerate(results) if result is None]
        assert all(isinstance(result, StorageError) for result in results if result is not None)
