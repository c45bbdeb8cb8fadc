"""`gather` and `run_workers` own their tasks, keep their bounds and raise errors as they are."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import opcodes
from textassay.runtime.concurrency import gather, leading, run_workers
from textassay.runtime.errors import BudgetReached


async def after(turns: int, value: object) -> object:
    """Return (or raise) `value` after some turns of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


async def inverse(item: int) -> int:
    await asyncio.sleep(0)
    return 1 // item


def other_tasks() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


class Gauge:
    """Counts how many are inside, and the most there were."""

    def __init__(self) -> None:
        self.inside = self.peak = self.entered = 0

    async def __call__(self, item: int) -> int:
        self.inside, self.entered = self.inside + 1, self.entered + 1
        self.peak = max(self.peak, self.inside)
        try:
            await after(1 + item % 3, None)
            return item
        finally:
            self.inside -= 1


async def numbers(n: int) -> AsyncIterator[int]:
    for i in range(n):
        await asyncio.sleep(0)
        yield i


@given(turns=st.lists(st.integers(0, 5), max_size=12), limit=st.just(math.inf) | st.integers(1, 4))
def test_gather_keeps_the_order_given(turns: list[int], limit: float) -> None:
    async def main() -> list[object]:
        return await gather([after(t, i) for i, t in enumerate(turns)], limit=limit)

    assert asyncio.run(main()) == list(range(len(turns)))


async def test_gather_never_exceeds_its_limit() -> None:
    gauge = Gauge()
    assert await gather([gauge(i) for i in range(20)], limit=3) == list(range(20))
    assert gauge.peak == 3


async def test_gather_raises_the_error_itself_with_its_cause_and_cancels_the_rest() -> None:
    gauge = Gauge()

    async def fails() -> int:
        await asyncio.sleep(0)
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    async def waits() -> int:
        gauge.inside += 1
        try:
            return await asyncio.Event().wait()
        finally:
            gauge.inside -= 1

    with pytest.raises(ValueError, match="outer") as caught:
        await gather([waits(), fails(), waits()])
    assert isinstance(caught.value.__cause__, KeyError)
    assert gauge.inside == 0
    assert not other_tasks()


async def test_gather_closes_coroutines_that_never_started() -> None:
    with pytest.raises(ValueError, match="first"):
        await gather([after(0, ValueError("first")), *(after(0, i) for i in range(5))], limit=1)
    with pytest.raises(ValueError, match="at least 1"):
        await gather([after(0, 1), after(0, 2)], limit=0)
    with pytest.raises(ValueError, match="at least 1"):
        await anext(run_workers([1], Gauge(), workers=0))


async def test_gather_prefers_the_error_that_stops_the_run() -> None:
    with pytest.raises(BudgetReached):
        await gather([after(1, ValueError("small")), after(1, BudgetReached("spent"))])


async def test_cancelling_gather_cancels_its_children() -> None:
    gauge = Gauge()

    async def waits() -> None:
        gauge.inside += 1
        try:
            await asyncio.Event().wait()
        finally:
            gauge.inside -= 1

    task = asyncio.create_task(gather([waits(), waits()]))
    await after(3, None)
    assert gauge.inside == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gauge.inside == 0


async def test_a_cancelled_shared_future_is_not_taken_for_a_result() -> None:
    """A child that meets a cancelled future cancels the group instead of ending in silence."""
    shared: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    shared.cancel()

    async def joins() -> int:
        return await shared

    with pytest.raises(asyncio.CancelledError):
        await gather([joins(), asyncio.Event().wait()])


async def test_leading_picks_the_first_real_error_of_nested_groups() -> None:
    fatal, plain = BudgetReached("spent"), ValueError("plain")
    nested = BaseExceptionGroup(
        "a", [asyncio.CancelledError(), ExceptionGroup("b", [plain, KeyError()])]
    )
    assert leading(nested) is plain
    assert leading(ExceptionGroup("c", [plain, ExceptionGroup("d", [fatal])])) is fatal
    assert leading(plain) is plain


@given(n=st.integers(0, 30), workers=st.integers(1, 8), later=st.booleans())
def test_every_item_is_worked_on_exactly_once(n: int, workers: int, later: bool) -> None:
    gauge = Gauge()

    async def main() -> list[int]:
        items = numbers(n) if later else range(n)
        return [one async for some in run_workers(items, gauge, workers=workers) for one in some]

    assert sorted(asyncio.run(main())) == list(range(n))
    assert gauge.peak <= workers


async def test_results_come_as_they_finish() -> None:
    results = run_workers([9, 0, 0], lambda turns: after(turns, turns), workers=3)
    assert [result async for some in results for result in some] == [0, 0, 9]


async def test_a_slow_consumer_stops_the_workers() -> None:
    taken = []

    def items() -> Iterator[int]:
        for i in range(1000):
            taken.append(i)
            yield i

    async with aclosing(run_workers(items(), Gauge(), workers=4)) as results:
        await anext(results)
        await after(200, None)
        assert len(taken) <= 2 * 4 + 1


@pytest.mark.parametrize("workers", [1, 3])
async def test_leaving_early_stops_all_workers(workers: int) -> None:
    gauge = Gauge()
    results = run_workers(range(100), gauge, workers=workers)
    await anext(results)
    await results.aclose()
    assert gauge.inside == 0
    assert not other_tasks()


async def test_cancelling_the_consumer_stops_all_workers() -> None:
    gauge = Gauge()

    async def never_ends(item: int) -> None:
        gauge.inside += 1
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            gauge.inside -= 1

    async def consume() -> None:
        async for _ in run_workers(range(10), never_ends, workers=4):
            pass

    task = asyncio.create_task(consume())
    await after(5, None)
    assert gauge.inside == 4
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gauge.inside == 0
    assert not other_tasks()


@pytest.mark.parametrize("workers", [1, 4])
async def test_an_error_of_the_work_comes_out_as_it_is_after_what_was_ready(workers: int) -> None:
    seen = []

    async def consume() -> None:
        async for results in run_workers([1, 1, 0, 1, 1, 1], inverse, workers=workers):
            seen.extend(results)

    with pytest.raises(ZeroDivisionError):
        await consume()
    assert seen[:2] == [1, 1]
    assert not other_tasks()


@pytest.mark.parametrize("later", [True, False])
async def test_an_error_of_the_items_comes_out_as_it_is(later: bool) -> None:
    async def bad_later() -> AsyncIterator[int]:
        yield 1
        raise OSError("disk gone")

    def bad_now() -> Iterator[int]:
        yield 1
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        async for _ in run_workers(bad_later() if later else bad_now(), Gauge(), workers=3):
            pass
    assert not other_tasks()


def test_handing_out_an_item_is_cheap() -> None:
    """An item costs some 220 instructions, those of the worker's task among them."""

    async def work(item: int) -> int:
        return item

    async def total(items: int) -> int:
        return sum([sum(some) async for some in run_workers(range(items), work, workers=50)])

    def instructions(items: int) -> int:
        return opcodes(lambda: asyncio.run(total(items)))

    assert asyncio.run(total(1_200)) == 1_200 * 1_199 // 2
    assert (instructions(1_200) - instructions(200)) / 1_000 < 420


@given(n=st.integers(0, 40), workers=st.integers(1, 8))
def test_results_are_committed_before_they_are_yielded(n: int, workers: int) -> None:
    committed: list[int] = []

    async def main() -> None:
        seen: set[int] = set()
        async for some in run_workers(range(n), Gauge(), workers=workers, commit=committed.extend):
            seen.update(some)
            assert seen <= set(committed)

    asyncio.run(main())
    assert sorted(committed) == list(range(n))


async def test_items_of_one_turn_are_committed_together_however_slow_the_consumer() -> None:
    commits: list[list[int]] = []
    results = run_workers(range(16), lambda item: after(3, item), workers=16, commit=commits.append)
    async with aclosing(results):
        await anext(results)
        assert [sorted(batch) for batch in commits] == [list(range(16))]


@pytest.mark.parametrize("broken", ["work", "commit"])
async def test_finished_items_are_committed_although_another_fails(broken: str) -> None:
    committed: list[int] = []

    async def work(item: int) -> int:
        await after(item, None)
        if item == 20 and broken == "work":
            raise ValueError("unusable")
        return item

    def commit(results: list[int]) -> None:
        if 20 in results:
            raise ValueError("unusable")
        committed.extend(results)

    seen: list[int] = []

    async def consume() -> None:
        async for some in run_workers(range(100), work, workers=4, commit=commit):
            seen.extend(some)

    with pytest.raises(ValueError, match="unusable"):
        await consume()
    assert sorted(seen) == sorted(committed)
    assert {*range(17)} <= {*committed}
    assert not other_tasks()
