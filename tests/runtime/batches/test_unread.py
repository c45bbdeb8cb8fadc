"""A file that a provider has not read yet is waited for, but not without end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.batch_server import Faults, serve_batches
from tests.runtime.batches.test_queue import asked, session
from tests.virtual_time import SkippingLoop, run_skipping, run_virtual
from textassay.runtime.batches.patience import Patience
from textassay.runtime.batches.provider import FileUnread
from textassay.runtime.batches.unread import UnreadFile
from textassay.runtime.model import Response


def test_it_is_reported_once_and_waited_for_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    """By the clock of the event loop."""
    looks = 0

    async def look_every_minute() -> None:
        nonlocal looks
        file = UnreadFile(3600.0)
        while True:
            file.wait_longer(FileUnread("the provider has not read it (pending)"))
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
def test_one_failure_after_a_long_wait_is_no_outage(tmp_path: Path, faults: Faults) -> None:
    """With each request 110 seconds pass; an outage is 300 seconds without an answer."""
    patience = Patience(quiet=0.01, poll=0.01, outage=300.0, call=100_000.0)

    async def submitted(loop: SkippingLoop) -> None:
        passing = replace(faults, passing=lambda: loop.skip(110.0))
        async with serve_batches(passing) as server:
            got = await session(tmp_path, server, asked(3), name="azure/m", patience=patience)
            assert all(isinstance(answer, Response) for answer in got), got
            assert (len(server.batches), passing.unread, passing.unavailable) == (1, 0, 0)

    run_skipping(submitted)
