"""Every error textassay raises on purpose.

    TextassayError
    |-- ConfigurationError        the request cannot be carried out; no model was called
    |   |-- DataError             a data file or record (names file, line and field)
    |   |-- UnknownName           no such method, task, aspect, tool, prefix or setting (lists them)
    |   |   `-- UnknownParameter  a public function has no such parameter; a TypeError, too
    |   |-- PromptError           a prompt file is missing or does not render
    |   |-- GraphError            a graph that cannot run (unknown node, wrong type, cycle)
    |   |-- CapabilityError       the model cannot do what the method needs (names what would)
    |   |   `-- NoLogprobs        it sends no usable log-probabilities
    |   `-- RunFolderError        a run folder in use, foreign, read-only or of a newer format
    |-- ModelError                the model could not be asked, or did not answer usably
    |   |-- TransientError        may pass: retried; carries `retry_after`
    |   |   |-- RateLimited       429
    |   |   |-- ServerFailed      5xx
    |   |   |-- ConnectionFailed  the connection was dropped
    |   |   |-- NothingListening  connection refused or host unknown; fatal after all retries
    |   |   |-- TimedOut          no answer within the time limit of one attempt
    |   |   `-- MalformedResponse a 200 whose body is not a usable answer
    |   |       |-- AnswerTooLong longer than `max_bytes` of its `Endpoint`
    |   |       `-- PageAnswered  a page or text in place of an answer
    |   |           `-- PathNotFound  404 and the like that does not name the model
    |   |-- AnswerUnfinished      a thought used all tokens; paid for, `invalid` rather than `error`
    |   |-- RequestRefused        this request, not every request: never retried
    |   |   |-- ContextTooLong    the prompt does not fit the model's context
    |   |   `-- ContentRefused    the provider's filter refused it
    |   `-- FatalModelError       would hit every call: stops the run, which stays resumable
    |       |-- AuthenticationFailed
    |       |-- ModelNotFound
    |       |-- ImagesRefused     the model accepts only texts
    |       |-- QuotaExhausted
    |       |-- ServerUnusable    down for too long, or fails every call
    |       `-- ModelClosed       used after it was closed
    |-- StorageError              cache or journal fails: stops the run, which stays resumable
    |-- AgentExited               an agent tried to end the process: stops the run (resumable)
    |-- ClusterLost               workers are lost again and again: stops the run (resumable)
    `-- BudgetReached             `--max-cost` is spent: stops the run, which stays resumable

The first family is never retried and exits 2; the rest become typed outcomes of single scores or
stop a run (exit 3). Messages never hold keys: backends strip them at the edge.

A message names a parameter as Python takes it, at the start of a word: `give price=(IN, OUT)`,
`leave out seed=`, `options={'steps': 'auto'}`. The command line prints its flag instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

if TYPE_CHECKING:
    from textassay.runtime.base import Usage


class TextassayError(Exception):
    """Base of every error raised on purpose by textassay."""

    stops_run: ClassVar[bool] = False
    """Whether the run stops (and stays resumable) rather than the one score becoming an `error`."""
    usage: Usage | None = None
    """Cost of the requests that showed it: set if a server answered them, and may bill them."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the error without its constructor, which may take other arguments."""
        return type(self).__new__, (type(self), *self.args), vars(self)


class ConfigurationError(TextassayError):
    """The request cannot be carried out; no model was called."""

    stops_run = True


class DataError(ConfigurationError):
    """A data file or record is unusable; the message names file, line and field."""


class UnknownName(ConfigurationError):
    """No such method, task, aspect, tool, model prefix or setting."""

    def __init__(
        self, kind: str, name: str, known: Sequence[object] = (), *, where: str = ""
    ) -> None:
        """Build the message from the unknown name and the known ones.

        Args:
            kind: Kind of the name, such as `"method"`.
            name: The unknown name.
            known: The names that exist, in the order to show.
            where: File with the name; empty without one.
        """
        words = [str(item) for item in known]
        near = nearest(name, words)
        message = (f"{where}: " if where else "") + f"unknown {kind} {name!r}"
        if near is not None:
            message += f"; did you mean {near!r}?"
        if words:
            message += f"{'' if near is not None else ';'} known: {', '.join(words)}"
        super().__init__(message)
        self.kind, self.name, self.known, self.where = kind, name, tuple(words), where


class UnknownParameter(UnknownName, TypeError):
    """A public function has no such parameter."""

    def __init__(self, function: str, name: str, known: Sequence[object] = ()) -> None:
        super().__init__(f"parameter of {function}", name, known)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` most likely means; `None` if none is near."""
    from difflib import get_close_matches  # only errors need it

    by_form = {_form(item): item for item in known}
    # Below this cutoff difflib suggests names that share little but their length.
    near = get_close_matches(_form(name), by_form, n=1, cutoff=0.7)
    return by_form[near[0]] if near else None


def _form(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


class PromptError(ConfigurationError):
    """A prompt file is missing or does not render."""


class GraphError(ConfigurationError):
    """A graph that cannot run: an unknown node, a wrong type on an edge, or a cycle."""


class CapabilityError(ConfigurationError):
    """The model lacks an ability that the method needs."""


class RunFolderError(ConfigurationError):
    """A run folder is in use, foreign, read-only or of a newer format."""


class ModelError(TextassayError):
    """The model could not be asked, or did not answer usably."""

    failing_since: float | None = None
    """When the first of its attempts failed (`time.monotonic`), if it was attempted several
    times."""


class TransientError(ModelError):
    """May succeed later; retried up to the configured number of attempts."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """Keep the time that the server requests.

        Args:
            message: The server's message.
            retry_after: Seconds to wait before the next request; `None` if unknown.
        """
        super().__init__(message)
        self.retry_after = retry_after


class RateLimited(TransientError):
    """The provider asked for fewer requests (HTTP 429)."""


class ServerFailed(TransientError):
    """The server answered with a 5xx status, or with one of 4xx that means "not now"."""

    def __init__(
        self, message: str, *, status: int = 500, retry_after: float | None = None
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.status = status


class ConnectionFailed(TransientError):
    """The connection was dropped before an answer came."""


class NothingListening(TransientError):
    """The connection was refused or the host is unknown; stops a run once retries are spent."""

    stops_run = True


class TimedOut(TransientError):
    """No answer within the time limit of one attempt."""


class MalformedResponse(TransientError):
    """A successful status whose body is not a usable answer."""


class AnswerTooLong(MalformedResponse):
    """An answer of more bytes than `Endpoint.max_bytes` of `backends/endpoint.py` allows."""


class PageAnswered(MalformedResponse):
    """A success without a model's answer, such as a page; two before any answer stop a run."""


class PathNotFound(PageAnswered):
    """404 and the like: a wrong address, or a gateway whose server restarts.

    If no request of the same form was answered before, the second one becomes `ModelNotFound`,
    which stops the run; otherwise a server that is down is waited for.
    """


OUTAGE = (ServerFailed, ConnectionFailed, NothingListening, TimedOut, PageAnswered)
"""Errors of servers that may be down."""


class AnswerUnfinished(ModelError):
    """The model used all its tokens before it began to answer."""


class Refusal(NamedTuple):
    """The refused part of a request, as far as the server's error names it."""

    kind: Literal["drop", "rename", "range", "effort", "room", "api"]
    """`drop`: it refuses the parameter, or this value of it; `rename`: it takes `max_tokens` under
    its other name; `range`: it takes numbers up to, or from, `limit`; `effort`: it takes other
    levels of effort (`values`); `room`: the thought took all tokens, and none were left for
    the answer; `api`: it serves the model through the Responses API only."""
    parameter: str
    """Name of the parameter in `parameters.PARAMETERS`, or of a field that the user added."""
    limit: float | None = None
    """The nearest number that it takes, for `range`."""
    values: tuple[str, ...] = ()
    """The accepted levels, for `effort`."""


class NoLogprobs(CapabilityError):
    """The server refuses log-probabilities, or sends no usable ones."""

    refusal: Refusal = Refusal("drop", "logprobs")
    """The refusal, equal to a refusal of the parameter."""


class RequestRefused(ModelError):
    """The server refuses this request; repeating it will not help."""

    refusal: Refusal | None = None
    """The refused parameter, if the server names one: the request may be sent without it."""
    is_vague: bool = False
    """Whether the server's message names neither a parameter nor another reason."""


class ContextTooLong(RequestRefused):
    """The prompt does not fit into the model's context."""


class ContentRefused(RequestRefused):
    """The provider's content filter refused the request."""


class FatalModelError(ModelError):
    """Would affect every call; the run stops and remains resumable."""

    stops_run = True

    may_be_text: bool = False
    """Whether the text of the request may have provoked it, as firewalls and filters answer 403."""


class AuthenticationFailed(FatalModelError):
    """The key is missing, wrong or not allowed to use the model."""


class ModelNotFound(FatalModelError):
    """The server does not know the model, or has never answered at this path."""


class ImagesRefused(FatalModelError):
    """The model accepts only texts, and the request has an image."""


class QuotaExhausted(FatalModelError):
    """The account's quota is spent; waiting for the rate limit does not help."""


class ServerUnusable(FatalModelError):
    """The server was down for longer than a run waits, or failed many calls in a row."""


class ModelClosed(FatalModelError):
    """The model was used after it was closed."""


class StorageError(TextassayError):
    """A cache or journal cannot be read or written; the run stops and stays resumable."""

    stops_run = True


class BudgetReached(TextassayError):
    """The cost limit is reached; the run stops and stays resumable."""

    stops_run = True


class ClusterLost(TextassayError):
    """The cluster, or worker after worker, is lost; the run stops and stays resumable."""

    stops_run = True


class AgentExited(TextassayError):
    """An agent raised `SystemExit` or `KeyboardInterrupt`, its cause.

    The run stops and remains resumable.
    """

    stops_run = True
