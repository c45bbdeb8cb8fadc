"""A file that a provider has not read yet is waited for, but not without end."""

from __future__ import annotations

import asyncio

import pytest

from tests.virtual_time import run_virtual
from textassay.runtime.batches.provider import FileUnread
from textassay.runtime.batches.unread import UnreadFile


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
