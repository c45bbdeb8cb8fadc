"""How often a provider is asked again, when it is given up, and what is said meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.batch_server import Faults, serve_batches
from tests.runtime.batches.test_batch import asked, opened, session
from tests.virtual_time import SkippingLoop, run_skipping, run_virtual
from tests.waiting import eventually
from textassay.runtime.batches.batch import (
    Availability,
    BatchUnfinished,
    Polling,
    PollPolicy,
    loop_time,
)
from textassay.runtime.batches.dialect import FileUnread
from textassay.runtime.errors import (
    ModelNotFound,
    NothingListening,
    PathNotFound,
    RateLimited,
    ServerFailed,
    TransientError,
)
from textassay.runtime.model import Response

GROWING = [0.1 * 1.5**n for n in range(16)]
"""Pauses until they reach a minute."""


def polling(policy: PollPolicy = PollPolicy()) -> Polling:  # noqa: B008
    return Polling(policy, Availability("direct/m"))


def waited(attempts: int, next_pause: Callable[[], float]) -> list[float]:
    """Return the pauses of so many attempts, which are slept in virtual time."""

    async def wait() -> list[float]:
        pauses = []
        for _ in range(attempts):
            pauses.append(next_pause())
            await asyncio.sleep(pauses[-1])
        return pauses

    return run_virtual(wait())


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        (None, [*GROWING, 60.0, 60.0]),
        (0.0, [*GROWING, 60.0, 60.0]),
        (90.0, [90.0] * 7),
        (86400.0, [PollPolicy.pause] * 7),
    ],
)
def test_pauses_are_bounded_whatever_the_provider_asks_for(
    retry_after: float | None, expected: list[float]
) -> None:
    """Never none, and never a day without a look."""
    waits = polling(PollPolicy(capacity=3600.0))
    refusal = RateLimited("full", retry_after=retry_after)
    found = waited(len(expected), lambda: waits.no_capacity(refusal, is_other_running=False))
    assert found == pytest.approx(expected)


def test_a_batch_without_room_is_given_up_unless_one_of_ours_is_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whose end makes room, be it a day later; all of it is reported once."""
    refusal, waits = RateLimited("full", retry_after=PollPolicy.pause), polling()
    found = waited(300, lambda: waits.no_capacity(refusal, is_other_running=True))
    assert sum(found) == pytest.approx(300 * PollPolicy.pause)
    assert [m for m in caplog.messages if "no capacity for another batch" in m] == caplog.messages
    assert len(caplog.messages) == 1
    alone = polling()
    with pytest.raises(RateLimited, match="full"):
        waited(300, lambda: alone.no_capacity(refusal, is_other_running=False))


@pytest.mark.parametrize(
    ("error", "has_answered", "longest"),
    [
        (NothingListening("refused"), False, PollPolicy.first_answer),
        (NothingListening("refused"), True, 300.0),
        (PathNotFound("404"), False, PollPolicy.first_answer),
        (PathNotFound("404"), True, 300.0),
        (ServerFailed("503"), False, 300.0),
    ],
)
def test_an_address_that_never_answered_is_given_up_sooner(
    error: TransientError, has_answered: bool, longest: float
) -> None:
    async def fail() -> None:
        waits = polling()
        if has_answered:
            waits.note_answer()
        began = loop_time()
        waits.outage(error, began)
        await asyncio.sleep(longest)
        waits.outage(error, loop_time())
        await asyncio.sleep(0.1)
        gives_up = type(error) is PathNotFound and not has_answered
        with pytest.raises(ModelNotFound if gives_up else type(error)):
            waits.outage(error, loop_time())
        waits.note_answer()
        waits.outage(error, loop_time())  # another one begins

    run_virtual(fail())


def test_a_look_that_fails_after_a_long_pause_is_repeated_soon() -> None:
    """An outage begins with the call that fails, not with the last that was answered."""

    async def look() -> None:
        waits = polling(PollPolicy(interval=3600.0, outage=300.0))
        for _ in range(30):
            await asyncio.sleep(waits.look_again())
            waits.note_answer()
        assert waits.look_again() == 3600.0
        await asyncio.sleep(3600.0)
        assert waits.outage(ServerFailed("503"), loop_time()) == GROWING[0]

    run_virtual(look())


def test_an_outage_is_reported_once_for_all_batches_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        provider = Availability("direct/m")
        batches = [Polling(PollPolicy(), provider) for _ in range(3)]
        batches[0].note_answer()
        for each in batches:
            each.outage(ServerFailed("503"), loop_time())
        assert caplog.messages == [
            "the batch API of direct/m fails with ServerFailed; it is tried again for 300 s"
        ]
        for each in batches:
            each.note_answer()
        assert caplog.messages[1:] == ["the batch API of direct/m answers again"]

    run_virtual(fail())


def test_an_unread_file_is_reported_once_and_waited_for_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By the clock of the event loop."""
    looks = 0

    async def look_every_minute() -> None:
        nonlocal looks
        file = polling()
        while True:
            file.unread(FileUnread("the provider has not read it (pending)"))
            looks += 1
            await asyncio.sleep(60.0)

    with pytest.raises(FileUnread, match=r"pending\) within 61 minutes; a resumed run looks"):
        run_virtual(look_every_minute())
    assert looks == 61
    assert [record.getMessage() for record in caplog.records] == [
        "the provider has not read it (pending); waiting for up to 60 minutes"
    ]


@pytest.mark.parametrize(
    "faults", [Faults(unread=8, unavailable=1), Faults(enqueued=2, unavailable=1)]
)
def test_one_failure_after_a_long_wait_is_not_an_outage(tmp_path: Path, faults: Faults) -> None:
    """With each request 110 seconds pass; an outage is 300 seconds without an answer."""
    policy = PollPolicy(quiet=0.01, interval=0.01, outage=300.0, call=100_000.0)

    async def submitted(loop: SkippingLoop) -> None:
        passing = replace(faults, passing=lambda: loop.skip(110.0))
        async with serve_batches(passing) as server:
            got = await session(tmp_path, server, asked(3), name="azure/m", policy=policy)
            assert all(isinstance(answer, Response) for answer in got), got
            assert (len(server.batches), passing.unread, passing.unavailable) == (1, 0, 0)

    run_skipping(submitted)


def test_a_provider_that_lists_batches_and_takes_none_is_given_up(tmp_path: Path) -> None:
    """Its answers to other requests do not begin the wait anew."""
    policy = PollPolicy(quiet=0.01, interval=0.01, outage=300.0, call=100_000.0)
    faults = Faults(unavailable=1_000_000)

    async def refused(loop: SkippingLoop) -> None:
        faults.passing = lambda: loop.skip(20.0)
        async with serve_batches(faults) as server:
            got = await session(tmp_path, server, asked(3), policy=policy)
            assert all(isinstance(answer, BatchUnfinished) for answer in got), got
            assert 1_000_000 - faults.unavailable < 15
            faults.unavailable = 0
            got = await session(tmp_path, server, asked(3), policy=policy)
            assert all(isinstance(answer, Response) for answer in got), got
            assert len(server.batches) == 1

    run_skipping(refused)


def test_requests_whose_tools_take_a_while_share_a_batch(tmp_path: Path) -> None:
    """The first gap between two requests may cost a batch, and later ones cost none."""

    async def trickle(loop: SkippingLoop) -> None:
        async with (
            serve_batches(Faults(unfollowed=503)) as server,
            opened(tmp_path, server, policy=PollPolicy()) as queue,
        ):
            asking: list[asyncio.Task[Response]] = []

            def queued() -> bool:
                waiting = sum(len(one.lines) for one in queue._queued.values())
                return waiting + sum(len(one.calls) for one in queue._tasks) == len(asking)

            for request in asked(8):
                asking.append(asyncio.create_task(queue.generate(request)))
                await eventually(queued)
                loop.skip(0.5)
            loop.skip(2.0)
            server.faults.unfollowed = 0
            await asyncio.gather(*asking)
            assert sorted(server.billed.values()) == [1] * 8
            assert len(server.batches) <= 2

    run_skipping(trickle)
