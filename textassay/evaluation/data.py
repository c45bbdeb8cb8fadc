"""Opens the examples of a run as its spec says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from textassay.evaluation.spec import RunSpec
from textassay.methods.library.tasks import load
from textassay.prompts import TASKS
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.data.pairs import Paired
from textassay.runtime.messages import Aspect


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
        labels=_labels(spec),
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


def _labels(spec: RunSpec) -> dict[str, tuple[str, ...]]:
    """Return the labels of the aspects that the spec names; built-in tasks have none."""
    aspects = [aspect for aspect in spec.aspects or () if isinstance(aspect, Aspect)]
    # a folder that was copied without the file of its task can still be read
    if spec.task is not None and spec.task not in TASKS and Path(spec.task).is_file():
        task = load(spec.task)
        aspects += (*task.aspects, *task.optional)
    return {aspect.label: tuple(aspect.labels) for aspect in aspects if aspect.labels}
