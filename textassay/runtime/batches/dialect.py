"""The protocol of providers' batch APIs, its messages, and their HTTP client.

`BatchHttp` sends JSON requests and uploads, and reads results of any length line by line.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
from aiohttp import hdrs

from textassay.runtime.backends import http_errors
from textassay.runtime.backends.endpoint import Endpoint, proxy_for
from textassay.runtime.backends.http_client import UNTIMED, HttpClient
from textassay.runtime.calls.call import PLAIN, Posting
from textassay.runtime.errors import (
    AnswerTooLong,
    CapabilityError,
    MalformedResponse,
    ModelError,
    RequestRefused,
)
from textassay.runtime.model import Request, Response
from textassay.version import __version__

PAGE = 100
"""Batches on one page of a provider's list: the most that OpenAI's API reference allows (1 to
100, 20 by default)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum size of one batch."""

    requests: int
    bytes: int


State = Literal["prepared", "uploaded", "submitted", "ended", "collected"]


@dataclass
class BatchRecord:
    """One batch in the run's book."""

    tag: str
    """Name of the batch, chosen by us and unique."""
    model: str
    """Digest of the model's identity."""
    group: str
    """The common property of its requests, such as the endpoint."""
    requests: int
    since: float
    """Time of its preparation, in seconds since the epoch."""
    attempt: int = 1
    """1 for a batch of new requests, 2 for requests that a first batch did not run."""
    known: frozenset[str] = frozenset()
    """Ids of batches at the provider that are not this one."""
    state: State = "prepared"
    uploaded: str = ""
    """The provider's name of the uploaded file; empty until the upload is noted."""
    id: str = ""
    """The provider's id of the batch; empty until the submission is noted."""

    @property
    def earliest(self) -> float:
        """Time before which it was not submitted by the provider's clock, which may differ."""
        return self.since - 600


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a batch."""

    ended: bool
    word: str
    """The provider's own word for it, such as `completed` or `expired`."""
    failure: str = ""
    """The provider's reason for refusing the whole batch; empty if it did not."""
    is_postponed: bool = False
    """Whether it was refused because too much is enqueued, so that it may be submitted later."""
    places: tuple[str, ...] = ()
    """The files or addresses with its results."""
    answer: Mapping[str, Any] | None = None
    """The provider's answer, if it contains the results itself."""

    @property
    def was_stopped(self) -> bool:
        """Whether it ended before all requests were run."""
        return any(word in self.word.lower() for word in ("expired", "cancel"))


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One line of a batch's results."""

    key: str
    """Custom id of the request; empty if the line cannot be read."""
    payload: Any = None
    """The answer in the provider's format, or `None`."""
    error: ModelError | None = None
    """The reason why there is no answer."""
    unrun: bool = False
    """Whether the request was never run, and so not billed: the batch expired or was canceled."""


UNREADABLE = BatchResult("")


class Dialect(ABC):
    """A provider's batch API for one model.

    Methods that ask the provider raise a `ModelError` if it cannot be reached, or refuses.
    """

    limits: Limits
    discount: float = 0.5
    """Price of a request in a batch, as a share of the price of a single call."""
    lacks: frozenset[str]
    """Capabilities that no model has in its batches, as `Capabilities` names them: `continuation`,
    the likelihood of a given text, in any case."""

    def __init__(self, http: BatchHttp, model: str) -> None:
        self._http, self._model = http, model

    @abstractmethod
    def group(self, request: Request, posting: Posting = PLAIN) -> str:
        """Return the common property of requests in one batch, such as the endpoint.

        Raises:
            CapabilityError: The provider cannot answer such requests.
        """

    @abstractmethod
    def encode(self, key: str, request: Request, posting: Posting = PLAIN) -> bytes:
        """Return the request as one line of JSON, without a line break; `key` is its custom id."""

    async def upload(self, file: Path) -> str:
        """Upload the lines of a batch and return the file's name.

        Empty, as here, if a submission has its requests in its body.
        """
        return ""

    @abstractmethod
    async def submit(self, batch: BatchRecord, file: Path) -> str:
        """Start a batch of the lines in a file, which is uploaded, and return its id.

        Raises:
            RateLimited: Too much is enqueued; the same may be submitted later.
            FileUnread: The uploaded file is not read yet; the same may be submitted later.
        """

    @abstractmethod
    async def find(self, batch: BatchRecord, keys: Collection[str]) -> str | None:
        """Return the id of a batch whose submission may not have been recorded, or `None`.

        Asks the provider in any case, so that an answer shows that it can be reached.

        Raises:
            Undecided: Only a batch that is still running shows it.
        """

    @abstractmethod
    async def status(self, batch_id: str) -> BatchStatus:
        """Return the state of a batch."""

    @abstractmethod
    def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncIterator[BatchResult]:
        """Yield the lines of an ended batch in any order; `keys` is the order of its requests.

        Raises:
            ResultsGone: The provider has deleted them.
        """

    @abstractmethod
    def read(self, payload: Any, request: Request) -> Response:
        """Return the answer in a line; raise a `ModelError` if it is not usable."""

    async def aclose(self) -> None:
        """Close all connections; safe to call twice."""
        await self._http.aclose()


class FileUnread(ModelError):
    """The provider has not read the uploaded file yet, so no batch of it was started."""

    # No request caused it, and the uploaded file is used when the run is resumed.
    stops_run = True


class Undecided(ModelError):
    """It is unknown until a batch of the provider ends whether it is ours."""


class ResultsGone(ModelError):
    """The provider has deleted the results of a batch."""


def check_request(
    request: Request, provider: str, lacks: Collection[str], *, takes_prompts: bool = False
) -> None:
    """Refuse a request with a feature that batches of a provider lack."""
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


class BatchHttp(HttpClient):
    """HTTP client of one provider; it raises our errors."""

    def __init__(
        self, api_base: str, endpoint: Endpoint, *, name: str, headers: Mapping[str, str], key: str
    ) -> None:
        headers = {"User-Agent": f"textassay/{__version__}", **headers}
        super().__init__(api_base, endpoint, name=name, headers=headers, key=key)

    async def get(self, path: str) -> Any:
        """Return the value at a path."""
        return await self.ask("GET", path, b"", {"Content-Type": "application/json"})

    async def post(self, path: str, body: bytes) -> Any:
        """Return the answer to a body."""
        return await self.ask("POST", path, body, {"Content-Type": "application/json"})

    async def upload(self, path: str, file: Path, fields: Mapping[str, str]) -> Any:
        """Upload a file as a form and return the parsed answer."""
        form = aiohttp.FormData(dict(fields))
        with file.open("rb") as opened:
            form.add_field(
                "file", opened, filename=file.name, content_type="application/octet-stream"
            )
            try:
                async with self.session().post(
                    self.base + path,
                    data=form,
                    params=self._endpoint.query or None,
                    # following one would send key and prompts to an address that no user chose
                    allow_redirects=False,
                ) as answer:
                    raw = await self.read(answer.headers, answer.content)
            except (aiohttp.ClientError, OSError) as error:
                raise self.network_error(error) from error
        return self.parse(answer.status, answer.headers, raw)

    async def lines(self, path: str) -> AsyncGenerator[Any]:
        """Yield the JSON values of a file of lines as they come; `None` for an invalid line."""
        rest = b""
        try:
            async with self._download(self.base + path) as answer:
                if answer.status in (404, 410):
                    raise ResultsGone(f"{self.base} has deleted the results ({path})")
                if not 200 <= answer.status < 300:
                    raw = await self.read(answer.headers, answer.content)
                    raise self.status_error(answer.status, answer.headers, raw)
                async for piece in answer.content.iter_any():
                    # The network cuts pieces anywhere, even within a line.
                    *whole, rest = (rest + piece).split(b"\n")
                    for line in whole:
                        if line.strip():
                            yield self._line(line)
                    # Bounds memory: the file may be of any length, a single line may not.
                    if len(rest) > self._endpoint.max_bytes:
                        raise AnswerTooLong(
                            f"{self.base} sent a line of more than {self._endpoint.max_bytes} bytes"
                        )
        except (aiohttp.ClientError, OSError) as error:
            raise self.network_error(error) from error
        if rest.strip():
            yield self._line(rest)

    @asynccontextmanager
    async def _download(self, url: str) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Get a file; the server may redirect to a storage elsewhere."""
        origin, params = _origin(url), self._endpoint.query or None
        session = self.session()
        # without the session's headers: the key is sent to the given address alone
        async with aiohttp.ClientSession(
            connector=session.connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=UNTIMED,
        ) as bare:
            for _ in range(5):
                if _origin(url) == origin:
                    getting = session.get(url, params=params, allow_redirects=False)
                else:
                    proxy = self._endpoint.proxy or proxy_for(url)
                    getting = bare.get(url, proxy=proxy or None, allow_redirects=False)
                async with getting as answer:
                    place = answer.headers.get(hdrs.LOCATION)
                    if answer.status not in (301, 302, 303, 307, 308) or not place:
                        yield answer
                        return
                    # the new address has its own query
                    url, params = urljoin(str(answer.url), place), None
                if origin[0] == "https" and _origin(url)[0] != "https":
                    raise RequestRefused(
                        f"{self.base} redirects to an address without TLS for the results"
                    )
        raise RequestRefused(f"{self.base} redirects too often for the results")

    def row_error(self, status: int, body: Any) -> ModelError:
        """Return the error that a line with a status other than 200 reports."""
        return self.status_error(status, {}, orjson.dumps(body))

    @staticmethod
    def _line(line: bytes) -> Any:
        try:
            return orjson.loads(http_errors.whole_characters(line))
        except orjson.JSONDecodeError:
            return None


def without_gaps(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that are not `None`."""
    return {name: value for name, value in fields.items() if value is not None}


async def read_array(file: Path) -> bytes:
    """Return the lines of a file as a JSON array."""
    lines = (await asyncio.to_thread(file.read_bytes)).splitlines()
    return b"[" + b",".join(lines) + b"]"


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def read_id(answer: Any, key: str = "id") -> str:
    """Return the id in an answer, which the provider calls `key`."""
    id_ = answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(id_, str):
        raise MalformedResponse(f"the answer of the batch API has no {key}")
    return id_
