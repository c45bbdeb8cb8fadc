"""Opens the examples of a run as its request says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from textassay.evaluation.request import RunRequest
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.data.pairs import Paired


def open_examples(source: Any, request: RunRequest) -> Examples:
    """Open the data as the request says: with its field map, in its units, paired.

    Raises:
        DataError: There is nothing to read.
    """
    data = Examples(
        source,
        fields=request.fields or None,
        unit=request.unit,
        conversation_chars=request.conversation_chars,
    )
    return data if request.pair is None else Examples(Paired(data))


async def checked_examples(source: Any, request: RunRequest) -> tuple[Examples, DataInfo]:
    """Open the data and read all of it once: a file off the event loop, an iterable on it.

    Raises:
        DataError: A row is broken, or there is nothing to read.
    """
    data = open_examples(source, request)
    # an iterable may belong to the caller's thread, such as a cursor of a database
    info = await asyncio.to_thread(data.check) if isinstance(source, str | Path) else data.check()
    return data, info
