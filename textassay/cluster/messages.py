"""What the process that holds a run and its workers on other machines say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from textassay.evaluation.feed import FedExample
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
    quoted,
)
from textassay.runtime.messages import Aspect, Usage
from textassay.runtime.settings import Settings

NO_PROGRESS = Progress(done=0, total=None, seconds=0.0, outcomes={}, usage=Usage())
"""The progress of what has not begun."""

Rows = list[tuple[str, bytes]]
"""Answers of models, as `AnswerStore` keeps them."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all workers of a run do."""

    spec: RunRequest
    settings: Settings
    info: DataInfo
    """What is known of all of the data."""
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """The models in the manifest of the run that is resumed, by role."""
    answers: Rows = field(default_factory=list)
    """Answers that the resumed run has already."""


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


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a worker is sent in one exchange."""

    examples: list[FedExample] = field(default_factory=list)
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

    @classmethod
    def of(cls, error: BaseException) -> Failed:
        """Return what another process is to know of an error."""
        text = quoted(error) if isinstance(error, TextassayError) else str(error)
        return cls(type(error).__name__, text, tuple(getattr(error, "__notes__", ())))

    def error(self) -> Exception:
        """Return an error of the same family, or a `RuntimeError` for one that is none of ours."""
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
    spent: float = 0.0
    """US dollars spent so far."""
    returned: float = 0.0
    """US dollars that it was granted and returns."""
    needed: float = 0.0
    """US dollars of the next request, if the worker has too few for it."""
    is_settling: bool = False
    """Whether requests are in flight that may cost less than they reserve."""
    ended: Ended | None = None
