"""The protocol of batch providers, and the types that it exchanges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from textassay.runtime.errors import ModelError
from textassay.runtime.model import Request, Response


@dataclass(frozen=True, slots=True)
class Limits:
    """What one batch may hold."""

    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a batch is."""

    ended: bool
    word: str
    """The provider's own word for it, such as `completed` or `expired`."""
    failure: str | None = None
    """Why the provider refused the whole batch; `None` if it did not."""
    is_postponed: bool = False
    """Whether it was refused because too much is enqueued; the same may be submitted later."""
    places: tuple[str, ...] = ()
    """Where its results lie, as the provider names files or addresses."""
    answer: Mapping[str, Any] | None = None
    """The provider's answer, if it contains the results itself."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One line of a batch's results."""

    key: str
    """Custom id of the request; empty if the line cannot be read."""
    payload: Any = None
    """The answer, in the format of the provider; `None` if there is none."""
    error: ModelError | None = None
    """Why there is no answer."""
    unrun: bool = False
    """Whether the request was never run, and so not paid for: the batch expired or was canceled."""


UNREADABLE = BatchResult("")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that is written down and may have been submitted."""

    tag: str
    """Name of the batch, chosen by us and unique."""
    group: str
    file: Path
    """Its lines, as the provider takes them."""
    count: int
    keys: frozenset[str]
    since: float
    """When it was prepared, in seconds since the epoch."""
    known: frozenset[str] = frozenset()
    """Batches of the provider that are others for certain."""
    uploaded: str | None = None
    """The provider's name of the uploaded file, if the upload is known to have happened."""


HALF_PRICE = 0.5


GIVEN_TEXT = frozenset({"continuation"})
"""What no batch API returns: the likelihood of a given text."""
TOKEN_PROBABILITIES = frozenset({"logprobs", "choices"})


class BatchProvider(Protocol):
    """A provider's batch API for one model."""

    name: str
    limits: Limits
    discount: float
    """Price of a request in a batch, as a share of its price alone."""
    lacks: frozenset[str]
    """Capabilities that no model has in its batches, as `Capabilities` names them."""

    def group(self, request: Request) -> str:
        """Return what requests of one batch have in common, such as the endpoint.

        Raises:
            CapabilityError: The provider cannot answer such requests.
        """
        ...

    def encode(self, key: str, request: Request) -> bytes:
        """Return the request as one line of JSON, without a line break; `key` is its custom id."""
        ...

    async def submit(self, batch: Prepared, uploaded: Callable[[str], Awaitable[None]]) -> str:
        """Start a batch and return the provider's id of it.

        Args:
            batch: What to start.
            uploaded: Called with the provider's name of the file once that is there.

        Raises:
            RateLimited: Too much is enqueued; the same may be submitted later.
            FileUnread: The uploaded file is not read yet; the same may be submitted later.
            ModelError: It was not started.
        """
        ...

    async def find(self, batch: Prepared) -> str | None:
        """Return the id of a batch whose submission may not have been recorded, or `None`.

        Raises:
            Undecided: Only a batch that is still running tells.
            ModelError: The provider could not be asked.
        """
        ...

    async def status(self, batch_id: str) -> BatchStatus:
        """Return how far a batch is.

        Raises:
            ModelError: The provider could not be asked.
        """
        ...

    def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncIterator[BatchResult]:
        """Yield the lines of an ended batch, in any order.

        Args:
            batch_id: The provider's id of the batch.
            status: How it ended.
            keys: Custom ids of its requests, in the order in which they were submitted.

        Raises:
            ResultsGone: The provider has deleted them.
            ModelError: The provider could not be asked.
        """
        ...

    def read(self, payload: Any, request: Request) -> Response:
        """Return the answer that a line holds.

        Raises:
            ModelError: It holds none that can be used.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; safe to call twice."""
        ...


class FileUnread(ModelError):
    """The provider has not read the uploaded file yet, so no batch of it was started."""

    # One that stays unread is no fault of a request: what was uploaded waits for a resume.
    stops_run = True


class Undecided(ModelError):
    """Whether a batch of the provider is ours shows only once it has ended."""


class ResultsGone(ModelError):
    """The provider has deleted the results of a batch."""


def json_array(lines: Iterable[bytes]) -> bytes:
    """Return a JSON array of lines."""
    return b"[" + b",".join(lines) + b"]"
