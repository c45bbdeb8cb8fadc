"""How long an uploaded file is waited for that the provider has not read yet."""

from __future__ import annotations

import asyncio
import logging

from textassay.runtime.batches.provider import FileUnread

_log = logging.getLogger(__name__)

USUAL_SECONDS = 60.0
"""Time in which a file is usually read, so that nothing is reported before."""


class UnreadFile:
    """The wait for one file: reported once, and bounded."""

    def __init__(self, patience: float) -> None:
        """Start when the file is first found unread; `patience` is in seconds."""
        self._patience = patience
        self._since: float | None = None
        self._reported = False

    def wait_longer(self, error: FileUnread) -> None:
        """Allow another look.

        Raises:
            FileUnread: The file has been unread for too long.
        """
        # The clock of the loop, as that of the pauses between looks.
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        waited = now - self._since
        if waited > self._patience:
            raise FileUnread(
                f"{error} within {waited / 60:.0f} minutes; a resumed run looks at it again"
            ) from error
        if waited > USUAL_SECONDS and not self._reported:
            self._reported = True
            _log.warning("%s; waiting for up to %.0f minutes", error, self._patience / 60)
