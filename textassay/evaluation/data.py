"""Opens the examples of a run as its spec says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from textassay.evaluation.spec import RunSpec
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.data.pairs import Paired


def open_examples(source: Any, spec: RunSpec) -> Examples:
    """Open the data as the spec says: with its field map, in its units, paired.

    Raises:
        DataError: There is nothing to read.
    """
    data = Examples(
        source,
        fields=spec.fields or None,
        unit=spec.unit,
        conversation_chars=spec.conversation_chars,
    )
    return data if spec.pair is None else Examples(Paired(data))


async def checked_examples(source: Any, spec: RunSpec) -> tuple[Examples, DataInfo]:
    """Open the data and read all of it once: a file off the event loop, an iterable on it.

    Raises:
        DataError: A row is broken, or there is nothing to read.
    """
    data = open_examples(source, spec)
    # an iterable may belong to the caller's thread, such as a cursor of a database
    info = await asyncio.to_thread(data.check) if isinstance(source, str | Path) else data.check()
    return data, info
