"""A model that answers from a script: a list of replies, or a function.

For tests, examples and dry runs.

A real backend like the others: it honors `n`, counts tokens (by estimate), keeps what it was
asked, can be closed. Knows nothing of networks.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from textassay.runtime.calls.token_estimates import estimate_tokens, prompt_tokens
from textassay.runtime.errors import CapabilityError, ConfigurationError, ModelClosed
from textassay.runtime.messages import Price, Usage, cost_at
from textassay.runtime.model import (
    AnyRequest,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Request,
    Response,
    Sample,
)

ScriptedReply = str | Sample | Response | BaseException
"""An answer's text, one sample, all samples with usage, or an error to raise."""

ScriptedReplies = (
    Iterable[ScriptedReply] | Callable[[Request], ScriptedReply | Awaitable[ScriptedReply]]
)
T = TypeVar("T")


class ScriptedModel:
    """Answers from `replies`, in turn or by a function of the request.

    A list gives one reply a request; a text or sample in it is repeated `n` times. A function is
    called once for each of the `n` samples, with the request as it would read for that sample alone
    (`n=1`, `draw` counted up), until one of its replies is a whole `Response`, which answers the
    request as it is.
    """

    def __init__(
        self,
        replies: ScriptedReplies = (),
        *,
        name: str = "scripted",
        capabilities: Capabilities | None = None,
        choices: Callable[[ChoicesRequest], Any] | None = None,
        continuation: Callable[[ContinuationRequest], Any] | None = None,
        price: Price | None = None,
    ) -> None:
        """Keep the script.

        Args:
            replies: Replies in turn, or a function `Request -> reply`, sync or async.
            name: The model's name.
            capabilities: What the model says it can do; by default all of what the script covers.
            choices: Function `ChoicesRequest -> {label: log-probability or None}` or a whole
                response, sync or async.
            continuation: Function `ContinuationRequest -> tokens` or a whole response, sync or
                async.
            price: US dollars per million prompt and completion tokens; free if not given.
        """
        self._name = name
        self._function = replies if callable(replies) else None
        # A copy: the caller may go on to change the list.
        self._left = None if callable(replies) else iter(list(replies))
        self._choices, self._continuation = choices, continuation
        self._capabilities = capabilities or Capabilities(
            n=True,
            logprobs=True,
            json_schema=True,
            seed=True,
            choices=choices is not None,
            continuation=continuation is not None,
            images=True,
        )
        self._price = price or (0.0, 0.0)
        self._closed = False
        self.requests: list[AnyRequest] = []
        """Every request that was asked, in order."""

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    @property
    def identity(self) -> Mapping[str, Any]:
        """The name; two scripts that differ should be named differently."""
        return {"backend": "scripted", "model": self._name}

    @property
    def capabilities(self) -> Capabilities:
        """What the script covers, or what was given."""
        return self._capabilities

    async def generate(self, request: Request) -> Response:
        """Return what the script says; raise what it says to raise.

        Raises:
            ConfigurationError: The list of replies has run out.
        """
        self._note(request)
        if self._left is not None:
            replies = [self._next()] * request.n
        else:
            replies = await self._drawn(request)
        samples: list[Sample] = []
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
            if isinstance(reply, Response):
                return reply
            samples.append(reply if isinstance(reply, Sample) else Sample(text=reply))
        return Response(
            samples=tuple(samples), usage=self._usage(request, samples), model=self._name
        )

    async def _drawn(self, request: Request) -> list[ScriptedReply]:
        assert self._function is not None
        replies: list[ScriptedReply] = []
        for index in range(request.n):
            one = (
                request
                if request.n == 1
                else request.model_copy(update={"n": 1, "draw": request.draw + index})
            )
            replies.append(await _awaited(self._function(one)))
            # A whole response answers the request as it is, so the remaining samples are not asked
            # for.
            if isinstance(replies[-1], Response | BaseException):
                break
        return replies

    def _next(self) -> ScriptedReply:
        assert self._left is not None
        for reply in self._left:
            return reply
        raise ConfigurationError(
            f"scripted model {self._name!r} has no reply left for request {len(self.requests)}; "
            "give it more replies, or a function"
        )

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return what the function for choices says.

        Raises:
            CapabilityError: There is no such function.
        """
        self._note(request)
        if self._choices is None:
            raise CapabilityError(
                f"scripted model {self._name!r} was given no function for choices"
            )
        answer = await _awaited(self._choices(request))
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, ChoicesResponse):
            return answer
        return ChoicesResponse(logprobs=answer, usage=self._usage(request, ()), model=self._name)

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return what the function for continuations says.

        Raises:
            CapabilityError: There is no such function.
        """
        self._note(request)
        if self._continuation is None:
            raise CapabilityError(
                f"scripted model {self._name!r} was given no function for continuations"
            )
        answer = await _awaited(self._continuation(request))
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, ContinuationResponse):
            return answer
        return ContinuationResponse(
            tokens=tuple(answer), usage=self._usage(request, ()), model=self._name
        )

    async def aclose(self) -> None:
        """Refuse further requests."""
        self._closed = True

    def _note(self, request: AnyRequest) -> None:
        if self._closed:
            raise ModelClosed(f"scripted model {self._name!r} was used after it was closed")
        self.requests.append(request)

    def _usage(self, request: AnyRequest, samples: Iterable[Sample]) -> Usage:
        prompted = prompt_tokens(request)
        most = getattr(request, "max_tokens", None)  # used up, if that is what cut a sample
        answered = sum(
            most if most and sample.finish_reason == "length" else estimate_tokens(sample.text)
            for sample in samples
        )
        cost = cost_at(self._price, prompted, answered)
        return Usage(calls=1, prompt_tokens=prompted, completion_tokens=answered, cost=cost)


async def _awaited(value: T | Awaitable[T]) -> T:
    return await value if inspect.isawaitable(value) else value
