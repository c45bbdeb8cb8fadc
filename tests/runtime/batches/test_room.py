"""How long a provider without room for a further batch is waited for."""

from __future__ import annotations

import asyncio

import pytest

from tests.virtual_time import VirtualTimeLoop
from textassay.runtime.batches.room import MAX_PAUSE, Room
from textassay.runtime.errors import RateLimited

HOUR = 3600.0


def pauses(refusals: list[RateLimited], *, is_running: bool = False) -> list[float]:
    """Return how long each refusal is waited for, in seconds."""

    async def measure() -> list[float]:
        room, found = Room("direct/m", poll=60.0, longest=HOUR), []
        clock = asyncio.get_running_loop().time
        for refusal in refusals:
            before = clock()
            await room.wait(refusal, is_running=is_running)
            found.append(clock() - before)
        return found

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(measure())


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        (None, [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
        (0.0, [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
        (90.0, [90.0] * 7),
        (86400.0, [MAX_PAUSE] * 7),
    ],
)
def test_pauses_are_bounded_whatever_the_provider_asks_for(
    retry_after: float | None, expected: list[float]
) -> None:
    """Never none, and never a day without a look."""
    refusal = RateLimited("full", retry_after=retry_after)
    assert pauses([refusal] * 7) == pytest.approx(expected)


def test_it_is_given_up_unless_a_batch_of_ours_is_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whose end makes room, be it a day later; all of it is reported once."""
    refusals = [RateLimited("full", retry_after=MAX_PAUSE)] * 300
    assert sum(pauses(refusals, is_running=True)) == pytest.approx(300 * MAX_PAUSE)
    assert [m for m in caplog.messages if "has no room for a further batch" in m] == caplog.messages
    assert len(caplog.messages) == 1
    with pytest.raises(RateLimited, match="full"):
        pauses(refusals)
