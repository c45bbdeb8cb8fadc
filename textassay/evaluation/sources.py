"""Opens the examples of a run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from textassay.evaluation.request import RunRequest, Shard
from textassay.methods.library.tasks import load
from textassay.prompts import TASKS
from textassay.runtime.base import T
from textassay.runtime.data.dataset import DataInfo, Examples, PairedExamples
from textassay.runtime.labels import LabelScale
from textassay.runtime.messages import Aspect, Example, label_scales


def open_examples(source: Any, request: RunRequest) -> Examples:
    """Open the data of the request: with its field map, unit and pairs."""
    data = Examples(
        source,
        fields=request.fields or None,
        missing=request.missing,
        unit=request.unit,
        conversation_chars=request.conversation_chars,
        labels=_labels(request),
        strict_columns=request.strict_columns,
    )
    return data if request.pair is None else Examples(PairedExamples(data))


async def check_examples(source: Any, request: RunRequest) -> tuple[Examples, DataInfo]:
    """Open the data and read them once: a file in a thread, an iterable in the event loop."""
    data = open_examples(source, request)
    # an iterable may belong to the caller's thread, such as a cursor of a database
    info = await asyncio.to_thread(data.check) if isinstance(source, str | Path) else data.check()
    return data, info


class CompletedScores(Protocol):
    """The pairs of example and aspect that are scored already."""

    def has(self, example_id: str, aspect: str) -> bool:
        """Return whether the pair has a score other than `error`."""
        ...


class Source(Protocol):
    """The examples that a session judges."""

    info: DataInfo
    """Facts about all of the data."""

    @property
    def total(self) -> int:
        """Number of examples, at most."""
        ...

    def map(self, function: Callable[[Example], T | None]) -> Iterator[T] | AsyncIterator[T]:
        """Yield the function's values for the examples without `None`, lazily."""
        ...

    def end(self) -> None:
        """Yield nothing more; safe to call twice."""
        ...


class LocalSource:
    """The data that this process reads, or the part of them that the run judges."""

    def __init__(
        self,
        examples: Examples,
        info: DataInfo,
        *,
        limit: int | None = None,
        shard: str | None = None,
    ) -> None:
        self.examples, self.info = examples, info
        self.judged, self.total = select_examples(examples, info.count, limit=limit, shard=shard)
        self._ended = False

    def map(self, function: Callable[[Example], T | None]) -> Iterator[T]:
        """Yield the values that are not `None`, until `end`."""
        for example in self.judged:
            if self._ended:
                return
            if (value := function(example)) is not None:
                yield value

    def end(self) -> None:
        """Read no further example."""
        self._ended = True


async def open_source(examples: Any, request: RunRequest) -> LocalSource:
    """Open the data, read them once, and select the part that the request judges."""
    data, info = await check_examples(examples, request)
    return LocalSource(data, info, limit=request.limit, shard=request.shard)


class FedExample(NamedTuple):
    """One example, and the aspects that are scored already."""

    example: Example
    completed: tuple[str, ...] = ()


@dataclass
class FedSource:
    """Examples that another process passes one by one, until `end`.

    Must be used in the event loop in which they are passed, and mapped once.
    """

    info: DataInfo
    """Facts about all of the data, which that process has checked."""
    _waiting: deque[FedExample] = field(default_factory=deque)
    _completed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False

    @property
    def total(self) -> int:
        """Number of examples of all workers together."""
        return self.info.count

    def put(self, examples: Iterable[FedExample]) -> None:
        """Add examples, unless the source has ended."""
        if not self._ended:
            self._waiting.extend(examples)
            self._changed.set()

    def end(self) -> None:
        """Stop, and drop waiting examples; safe to call twice."""
        self._ended = True
        self._waiting.clear()
        self._changed.set()

    def has(self, example_id: str, aspect: str) -> bool:
        """Return whether an example was passed with a score on the aspect."""
        return aspect in self._completed.get(example_id, ())

    async def map(self, function: Callable[[Example], T | None]) -> AsyncIterator[T]:
        """Yield the values that are not `None`, waiting for examples until `end`."""
        while True:
            while self._waiting:
                if (value := function(self._take())) is not None:
                    yield value
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()

    def _take(self) -> Example:
        handed = self._waiting.popleft()
        if handed.completed:
            self._completed[handed.example.id] = handed.completed
        else:
            self._completed.pop(handed.example.id, None)
        return handed.example


def _labels(request: RunRequest) -> dict[str, LabelScale]:
    """Return the labels of the aspects that the request names."""
    aspects = [aspect for aspect in request.aspects or () if isinstance(aspect, Aspect)]
    # a folder that was copied without its task file can still be read
    if request.task is not None and (request.task in TASKS or Path(request.task).is_file()):
        task = load(request.task)
        aspects += (*task.aspects, *task.optional)
    return label_scales(aspects)


class DataShard:
    """Some neighboring examples of a data set, as often as they are iterated."""

    def __init__(self, examples: Examples, start: int, stop: int) -> None:
        self._examples, self._start, self._stop = examples, start, stop

    def __iter__(self) -> Iterator[Example]:
        return self._examples.part(self._start, self._stop)


def select_examples(
    examples: Examples, count: int, *, limit: int | None, shard: str | None
) -> tuple[Iterable[Example], int]:
    """Return the examples that a run judges, and their number."""
    start, stop = shard_bounds(count, limit=limit, shard=shard)
    return (examples if stop - start == count else DataShard(examples, start, stop)), stop - start


def shard_bounds(count: int, *, limit: int | None, shard: str | None) -> tuple[int, int]:
    """Return the first example that a run judges, from 0, and the one after its last."""
    judged = count if limit is None else min(count, limit)
    return (0, judged) if shard is None else Shard.parse(shard).bounds(judged)
