"""What a provider's batch API is to the rest: the protocol of dialects, and what it exchanges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from textassay.runtime.errors import CapabilityError, ModelError
from textassay.runtime.model import Request, Response

HALF_PRICE = 0.5
GIVEN_TEXT = frozenset({"continuation"})
"""What no batch API returns: the likelihood of a given text."""
TOKEN_PROBABILITIES = frozenset({"logprobs", "choices"})
CLOCK_SECONDS = 600.0
"""Difference between a provider's clock and ours that is reckoned with."""
PAGE = 100
"""Batches on one page of a provider's list."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one batch may hold."""

    requests: int
    bytes: int


State = Literal["prepared", "uploaded", "submitted", "ended", "collected"]


@dataclass
class BatchRecord:
    """One batch, as the run's book has it."""

    tag: str
    """Name of the batch, chosen by us and unique."""
    model: str
    """Digest of the model's identity."""
    group: str
    """What its requests have in common, such as the endpoint."""
    requests: int
    since: float
    """When it was prepared, in seconds since the epoch."""
    attempt: int = 1
    """1 for a batch of new requests, 2 for one of requests that a first batch did not run."""
    known: frozenset[str] = frozenset()
    """Batches of the provider that are others for certain."""
    state: State = "prepared"
    uploaded: str | None = None
    """The provider's name of the uploaded file, if the upload is known to have happened."""
    id: str | None = None
    """The provider's id of the batch, once it is known to be submitted."""


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
    """Where its results are, as the provider names files or addresses."""
    answer: Mapping[str, Any] | None = None
    """The provider's answer, if it contains the results itself."""

    @property
    def was_stopped(self) -> bool:
        """Whether it ended before all of it was run."""
        return any(word in self.word.lower() for word in ("expired", "cancel"))


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


class Dialect(Protocol):
    """A provider's batch API for one model.

    What asks the provider raises a `ModelError` if that could not be asked, or refused.
    """

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

    async def upload(self, file: Path) -> str | None:
        """Upload the lines of a batch and return the file's name; `None` if none is needed."""
        ...

    async def submit(self, batch: BatchRecord, file: Path) -> str:
        """Start a batch of the lines in a file, which is uploaded, and return its id.

        Raises:
            RateLimited: Too much is enqueued; the same may be submitted later.
            FileUnread: The uploaded file is not read yet; the same may be submitted later.
        """
        ...

    async def find(self, batch: BatchRecord, keys: Collection[str]) -> str | None:
        """Return the id of a batch whose submission may not have been recorded, or `None`.

        Asks the provider in any case, so that an answer tells that it can be reached.

        Raises:
            Undecided: Only a batch that is still running tells.
        """
        ...

    async def status(self, batch_id: str) -> BatchStatus:
        """Return how far a batch is."""
        ...

    def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncIterator[BatchResult]:
        """Yield the lines of an ended batch in any order; `keys` is the order of its requests.

        Raises:
            ResultsGone: The provider has deleted them.
        """
        ...

    def read(self, payload: Any, request: Request) -> Response:
        """Return the answer that a line holds; a `ModelError` if it cannot be used."""
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


def check_request(
    request: Request, provider: str, lacks: Collection[str], *, takes_prompts: bool = False
) -> None:
    """Refuse a request that asks for what batches of a provider lack."""
    lacking = {
        "several samples (n=1)": "n" in lacks and request.n > 1,
        "log-probabilities": "logprobs" in lacks and request.logprobs is not None,
        "a seed": "seed" in lacks and request.seed is not None,
        "functions": "functions" in lacks and bool(request.functions),
        "plain prompts": not takes_prompts and request.prompt is not None,
    }
    for feature, is_requested in lacking.items():
        if is_requested:
            raise CapabilityError(f"batches of {provider} do not take {feature}")
