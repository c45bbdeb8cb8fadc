"""What the process that holds a run and its workers, here or elsewhere, say to each other."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from textassay.evaluation.data import FedExample
from textassay.evaluation.progress import Progress
from textassay.evaluation.request import RunRequest
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.errors import (
    BudgetReached,
    CapabilityError,
    ConfigurationError,
    FatalModelError,
    ModelError,
    StorageError,
    TextassayError,
    UnknownName,
)
from textassay.runtime.messages import Aspect, Example, Usage

NO_PROGRESS = Progress(done=0, total=None, seconds=0.0, outcomes={}, usage=Usage())
"""The progress of what has not begun."""

PackedExample = FedExample | tuple[dict[str, Any], tuple[str, ...]]
"""An example as its fields; as it is, if it is of a class of the caller's."""

Rows = list[tuple[str, bytes]]
"""Answers of models, as `AnswerStore` keeps them."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all workers of a run do."""

    request: RunRequest
    info: DataInfo
    """What is known of all of the data."""
    answers_folder: Path | None = None
    """Where the run keeps answers, for workers on its machine; others send theirs."""
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """The models in the manifest of the run that is resumed, by role."""
    answers: Rows = field(default_factory=list)
    """Answers that the resumed run has already, for workers that cannot read them."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the limits that one worker keeps to: the `number`-th of `count`, from 0."""

    number: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Opened:
    """What a worker has opened, before it asks anything."""

    version: str
    """Version of textassay."""
    manifest: Mapping[str, Any]
    aspects: tuple[Aspect, ...]
    signature: str
    in_work: int
    """Examples that it works on at once."""
    notices: tuple[str, ...] = ()
    """What the user should know before anything is asked; names parameters."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a worker is sent in one exchange."""

    examples: list[PackedExample] = field(default_factory=list)
    part: Part = field(default_factory=Part)
    grant: float = 0.0
    """US dollars that it may spend further."""
    return_unspent: bool = False
    """Whether to return what it was granted and needs for nothing in flight."""
    is_last_grant: bool = False
    """Whether there is no more money to be had."""
    report_at: int = 1
    """Number of scores to report at once, without waiting for more."""
    finish: bool = False
    """Whether to take no more examples and to end."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An error in a form that another process can read."""

    type: str
    message: str
    notes: tuple[str, ...] = ()
    unknown: tuple[str, str, tuple[str, ...], str] | None = None
    """What an `UnknownName` is made of: kind, name, those that there are, and where it is named."""

    @classmethod
    def of(cls, error: BaseException) -> Failed:
        """Return what another process is to know of an error."""
        text = str(error)
        unknown = None
        if type(error) is UnknownName:
            unknown = (error.kind, error.name, tuple(map(str, error.known)), error.where)
        return cls(type(error).__name__, text, tuple(getattr(error, "__notes__", ())), unknown)

    def error(self) -> Exception:
        """Return an error of the same family, or a `RuntimeError` for one that is none of ours."""
        error: Exception
        if self.unknown is not None:
            kind, name, known, where = self.unknown
            error = UnknownName(kind, name, known, where=where)
        else:
            # the family decides the exit status and whether a run can be resumed
            error = _FAMILY.get(self.type, RuntimeError)(self.message or self.type)
        for note in self.notes:
            error.add_note(note)
        return error


def _by_name(family: type[TextassayError]) -> dict[str, type[TextassayError]]:
    """Return the family for the name of each of its classes, whose constructors differ."""
    names = {family.__name__: family}
    for child in family.__subclasses__():
        names |= dict.fromkeys(_by_name(child), family)
    return names


_FAMILY: dict[str, type[Exception]] = {
    # from the general to the special, so that the nearest family wins
    name: family
    for each in (
        ConfigurationError,
        CapabilityError,
        ModelError,
        FatalModelError,
        StorageError,
        BudgetReached,
    )
    for name, family in _by_name(each).items()
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a worker ended, and what the method leaves for people to read."""

    failed: Failed | None = None
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """Texts by the names of their files."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker has done since its last report, and where it stands."""

    progress: Progress
    part: Part
    """The part of the limits that it keeps to."""
    scores: list[bytes] = field(default_factory=list)
    """Each as its line of `scores.jsonl`."""
    answers: Rows = field(default_factory=list)
    """Answers that came since, among them all that the scores rest on."""
    is_answered: bool = False
    """Whether any request was answered so far."""
    warnings: list[tuple[str, str]] = field(default_factory=list)
    """Warnings that were logged since: the logger, and what it said."""
    spent: float = 0.0
    """US dollars spent so far."""
    returned: float = 0.0
    """US dollars that it was granted and returns."""
    needed: float = 0.0
    """US dollars of the next request, if the worker has too few for it."""
    is_settling: bool = False
    """Whether requests are in flight that may cost less than they reserve."""
    ended: Ended | None = None


class WorkerLost(Exception):
    """A worker, or the machine that it runs on, is gone."""


class Worker(Protocol):
    """A worker as the process sees it that holds the run; every call may raise `WorkerLost`."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    async def open(self, job: Job) -> Opened | Failed:
        """See `WorkerSession.open`."""
        ...

    async def exchange(self, instructions: Instructions) -> Report:
        """See `WorkerSession.exchange`."""
        ...

    async def stop(self) -> Report:
        """See `WorkerSession.stop`."""
        ...

    def kill(self) -> None:
        """End the worker at once; safe to call twice, and if it is lost."""
        ...


class WorkerPool(Protocol):
    """Where workers can be started: this machine, or a cluster."""

    async def start_workers(self, most: int) -> Sequence[Worker]:
        """Start workers if there is room, so that at most `most` live, and return the new ones."""
        ...


def pack(report: Report) -> bytes:
    """Return a report as bytes for `unpack`."""
    # level 1: three times as fast as the standard level; the result is a few percent larger
    return zlib.compress(pickle.dumps(report, pickle.HIGHEST_PROTOCOL), level=1)


def unpack(packed: bytes) -> Report:
    """Return the report that a worker of this run has packed.

    Only for what a worker sent: unpickling runs whatever the bytes say, and the workers of a
    cluster are trusted with the run's keys as it is.
    """
    report: Report = pickle.loads(zlib.decompress(packed))
    return report


def pack_examples(examples: Sequence[FedExample]) -> list[PackedExample]:
    """Return examples for `unpack_examples`, in a form that is pickled in an eighth of the time."""
    return [
        (vars(handed.example), handed.completed) if type(handed.example) is Example else handed
        for handed in examples
    ]


def unpack_examples(packed: Sequence[PackedExample]) -> list[FedExample]:
    """Return the examples that were packed."""
    return [
        each if isinstance(each, FedExample) else FedExample(Example(**each[0]), each[1])
        for each in packed
    ]
