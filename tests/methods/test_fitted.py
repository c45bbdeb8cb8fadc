"""Rows that are asked for together are computed together."""

import asyncio

from textassay.methods.fitted.scores import Batched


def counting():
    sizes = []

    def double(rows):
        sizes.append(len(rows))
        return [2 * sum(row) for row in rows]

    return Batched(double), sizes


async def test_rows_asked_for_together_are_one_call_and_each_gets_its_own():
    batched, sizes = counting()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(batched([i, 1])) for i in range(50)]
    assert [task.result() for task in tasks] == [2 * (i + 1) for i in range(50)]
    assert sizes == [50]
    assert await batched([1]) == 2
    assert sizes == [50, 1]


async def test_a_cancelled_row_does_not_hold_up_the_others():
    batched, _ = counting()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(batched([i])) for i in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
    assert (tasks[0].result(), tasks[2].result()) == (0, 4)
    assert tasks[1].cancelled()


async def test_an_error_of_the_function_reaches_every_row():
    def fails(rows):
        raise ValueError("no")

    batched = Batched(fails)
    found = await asyncio.gather(batched([1]), batched([2]), return_exceptions=True)
    assert [str(one) for one in found] == ["no", "no"]
