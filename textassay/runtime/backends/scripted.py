"""Models without a server: one that answers from a script, and the stand-in of a dry run.

`ScriptedModel`, for tests and examples, is a real backend like the others: it respects `n`, counts
tokens (by estimate), keeps its requests, can be closed. `DryRunModel` counts the requests that
another model would get. Uses no network.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from textassay.runtime.base import Price, Usage, cost_at
from textassay.runtime.calls.budget import Ledger, current_ledger, estimate_tokens, prompt_tokens
from textassay.runtime.calls.call import (
    PLAIN,
    Call,
    ModelProxy,
    Posting,
    PostingModel,
    Send,
    Wrapper,
)
from textassay.runtime.errors import CapabilityError, ConfigurationError, ModelClosed
from textassay.runtime.model import (
    AnyRequest,
    AnyResponse,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Model,
    Request,
    Response,
    Sample,
    TokenLogprob,
)
from textassay.runtime.questions import (
    DECIDED,
    DECIDED_JOINTLY,
    DecisionRequest,
    DecisionResponse,
    QuestionAnswer,
    distribution,
)

ScriptedReply = str | Sample | Response | BaseException
"""An answer's text, one sample, all samples with usage, or an error to raise."""

ScriptedReplies = (
    Iterable[ScriptedReply] | Callable[[Request], ScriptedReply | Awaitable[ScriptedReply]]
)


class ScriptedModel:
    """Answers from `replies`, in turn or by a function of the request.

    A list has one reply per request; a text or sample in it is repeated `n` times. A function is
    called for each of the `n` samples, with the request for that sample alone (`n=1`, `draw`
    counted up), unless it returns a whole `Response`, which answers the whole request.
    """

    def __init__(
        self,
        replies: ScriptedReplies = (),
        *,
        name: str = "scripted",
        capabilities: Capabilities | None = None,
        choices: Callable[[ChoicesRequest], Any] | None = None,
        continuation: Callable[[ContinuationRequest], Any] | None = None,
        decide: Callable[[DecisionRequest], Any] | None = None,
        price: Price | None = None,
    ) -> None:
        """Keep the script.

        Args:
            replies: Replies in turn, or a function `Request -> reply`, sync or async.
            name: The model's name.
            capabilities: The model's abilities; by default all that the script covers.
            choices: Function `ChoicesRequest -> {label: log-probability or None}` or a whole
                response, sync or async.
            continuation: Function `ContinuationRequest -> tokens` or a whole response, sync or
                async.
            decide: Function `DecisionRequest -> answers`, sync or async: for each question the
                probabilities by option, or a `QuestionAnswer`; or a whole response. Questions
                count as independent. Without replies it is a decision model, which writes nothing.
            price: US dollars per million prompt and completion tokens; free if not given.
        """
        self.name = name
        self._function = replies if callable(replies) else None
        # A copy of a list, which the caller may change.
        self._left = iter([] if callable(replies) else list(replies))
        self._choices, self._continuation, self._decide = choices, continuation, decide
        self.capabilities = capabilities or Capabilities(
            n=True,
            logprobs=True,
            json_schema=True,
            seed=True,
            choices=bool(choices),
            continuation=bool(continuation),
            images=True,
            decide=bool(decide),
            writes=not decide or replies != (),
            independent_questions=bool(decide),
        )
        self._price = price or (0.0, 0.0)
        self._closed = False
        self.requests: list[AnyRequest] = []
        """All requests so far, in order."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The name; two scripts that differ should be named differently."""
        return {"backend": "scripted", "model": self.name}

    async def generate(self, request: Request) -> Response:
        """Return the script's answer, or raise its error.

        Raises:
            ConfigurationError: The list of replies has run out.
        """
        self._note(request)
        if self._function:
            replies = await self._draw(self._function, request)
        else:
            replies = [self._next()] * request.n
        samples: list[Sample] = []
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
            if isinstance(reply, Response):
                return reply
            samples.append(reply if isinstance(reply, Sample) else Sample(text=reply))
        return Response(
            samples=tuple(samples), usage=self._usage(request, samples), model=self.name
        )

    async def _draw(
        self, function: Callable[[Request], Any], request: Request
    ) -> list[ScriptedReply]:
        replies: list[ScriptedReply] = []
        for index in range(request.n):
            single = request
            if request.n > 1:
                single = request.model_copy(update={"n": 1, "draw": request.draw + index})
            replies.append(await _await_value(function(single)))
            # a whole response answers the whole request
            if isinstance(replies[-1], Response | BaseException):
                break
        return replies

    def _next(self) -> ScriptedReply:
        for reply in self._left:
            return reply
        raise ConfigurationError(
            f"scripted model {self.name!r} has no reply left for request {len(self.requests)}; "
            "give it more replies, or a function"
        )

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return the answer of the function for choices.

        Raises:
            CapabilityError: There is no such function.
        """
        answer = await self._score(request, self._choices, "choices")
        if isinstance(answer, ChoicesResponse):
            return answer
        return ChoicesResponse(logprobs=answer, usage=self._usage(request, ()), model=self.name)

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the answer of the function for continuations.

        Raises:
            CapabilityError: There is no such function.
        """
        answer = await self._score(request, self._continuation, "continuations")
        if isinstance(answer, ContinuationResponse):
            return answer
        return ContinuationResponse(
            tokens=tuple(answer), usage=self._usage(request, ()), model=self.name
        )

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Return the answer of the function for typed questions, checked like a server's.

        Raises:
            CapabilityError: There is no such function.
        """
        answer = await self._score(request, self._decide, "typed questions")
        if isinstance(answer, DecisionResponse):
            return answer
        return DecisionResponse(
            answers=tuple(
                value if isinstance(value, QuestionAnswer) else distribution(question, value)
                for question, value in zip(request.questions, answer, strict=True)
            ),
            way=DECIDED,
            usage=self._usage(request, ()),
            model=self.name,
        )

    async def _score(
        self, request: AnyRequest, function: Callable[[Any], Any] | None, kind: str
    ) -> Any:
        self._note(request)
        if not function:
            raise CapabilityError(f"scripted model {self.name!r} was given no function for {kind}")
        answer = await _await_value(function(request))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Refuse further requests."""
        self._closed = True

    def _note(self, request: AnyRequest) -> None:
        if self._closed:
            raise ModelClosed(f"scripted model {self.name!r} was used after it was closed")
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


async def _await_value(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


ASSUMED_THOUGHT_TOKENS = 600
"""Estimated tokens of a thought: about the median, 623, of the 11 counts for short judgments in
docs/thinking.md (0 to 2,206); the estimate of thoughts is proportional to it."""


class DryRunModel(ModelProxy, PostingModel):
    """Answers every request with its `dry_run_answer` and counts the tokens of the real model.

    Prompt tokens are estimates; completion tokens are the upper bound `n * max_tokens` (256 a
    sample if a request sets none). For each answer of a model that thinks, as far as is known,
    `ASSUMED_THOUGHT_TOKENS` are added to them and to the `reasoning_tokens`. Its identity is the
    real model's, so that answers in the cache are not counted.
    """

    def __init__(self, real: Model, *, price: Price | None = None) -> None:
        """Stand in for `real`, which is never asked."""
        super().__init__(real)
        self._price = price

    def _usage(self, prompt_tokens: int, answer_tokens: int, thought_tokens: int = 0) -> Usage:
        completed, price = answer_tokens + thought_tokens, self._price
        return Usage(
            calls=1,
            prompt_tokens=prompt_tokens,
            completion_tokens=completed,
            reasoning_tokens=thought_tokens,
            cost=cost_at(price, prompt_tokens, completed) if price else None,
        )

    async def generate(self, request: Request, posting: Posting = PLAIN) -> Response:
        """Return `dry_run_answer` `n` times."""
        # Tokens that spell the answer, for readers of log-probabilities.
        words = re.findall(r"\w+|\W", posting.dry_run_answer)
        tokens = tuple(TokenLogprob(token=word, logprob=0.0, top=((word, 0.0),)) for word in words)
        sample = Sample(
            text=posting.dry_run_answer, logprobs=None if request.logprobs is None else tokens
        )
        answer = request.max_tokens or 256
        thought = request.n * _assume_thought(posting)
        usage = self._usage(prompt_tokens(request), request.n * answer, thought)
        return Response(samples=(sample,) * request.n, usage=usage)

    async def choices(self, request: ChoicesRequest, posting: Posting = PLAIN) -> ChoicesResponse:
        """Return equal probabilities."""
        even = -math.log(len(request.choices))
        usage = self._usage(prompt_tokens(request), 1, _assume_thought(posting))
        return ChoicesResponse(logprobs=dict.fromkeys(request.choices, even), usage=usage)

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return a log-probability of -1 for every word."""
        words = re.findall(r"\w+|\W", request.continuation)
        # one token, as some servers refuse to answer with none
        usage = self._usage(estimate_tokens(request.text + request.continuation), 1)
        return ContinuationResponse(
            tokens=tuple(TokenLogprob(token=w, logprob=-1.0) for w in words), usage=usage
        )

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Return equal probabilities."""
        answers = [
            distribution(question, dict.fromkeys(question.names, 1 / len(question.options)))
            for question in request.questions
        ]
        usage = self._usage(prompt_tokens(request), 1)
        independent = self.capabilities.independent_questions
        way = DECIDED if independent else DECIDED_JOINTLY
        return DecisionResponse(answers=tuple(answers), way=way, usage=usage)


def _assume_thought(posting: Posting) -> int:
    # in batches, every model gets tokens for a thought
    return ASSUMED_THOUGHT_TOKENS if posting.allowance and not posting.may_think else 0


class BatchWaves:
    """Holds requests back until no more come, as batches do, and counts the waves.

    A wave is all requests that can be sent before any of their answers is needed. Waves are
    counted for each piece of work (each ledger), and the largest number is the run's: pieces that
    begin later add no wave.
    """

    QUIET: Final = 0.05
    """Seconds without a further request after which a wave is complete. Three waves of 300
    requests take 0.17 s (a quarter: 0.05, four times: 0.62), and all three count them right."""
    TURNS: Final = 20
    """Turns of the event loop for which a wave is open after that: a busy process is not quiet.
    Eight requests, each ten turns after 60 ms of other work, are one wave with 20 turns or 80,
    and eight waves with 5."""

    def __init__(self) -> None:
        self.count = 0
        """Most waves of one piece of work so far."""
        self._by_work: WeakKeyDictionary[Ledger, int] = WeakKeyDictionary()
        self._outside = Ledger()  # for requests outside of any piece of work
        self._waiting: list[tuple[Ledger, asyncio.Future[None]]] = []
        self._last = 0.0
        self._is_timed = False

    async def next(self) -> None:
        """Return when the wave with the caller's request is complete."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((current_ledger() or self._outside, future))
        self._last = loop.time()
        if not self._is_timed:
            self._is_timed = True
            loop.call_later(self.QUIET, self._check, self.TURNS)
        await future

    def _check(self, turns: int) -> None:
        """Complete the wave unless a request came since the last check."""
        loop = asyncio.get_running_loop()
        remaining = self._last + self.QUIET - loop.time()
        if remaining > 0:
            loop.call_later(remaining, self._check, self.TURNS)
        elif turns:
            loop.call_soon(self._check, turns - 1)
        else:
            self._complete()

    def _complete(self) -> None:
        waiting, self._waiting, self._is_timed = self._waiting, [], False
        for work in {id(work): work for work, _ in waiting}.values():
            self._by_work[work] = self._by_work.get(work, 0) + 1
            self.count = max(self.count, self._by_work[work])
        for _, future in waiting:
            if not future.done():
                future.set_result(None)


class WavesModel(Wrapper):
    """Answers when the wave of the request is complete; models that wait together share one."""

    def __init__(self, wrapped: Model, waves: BatchWaves) -> None:
        super().__init__(wrapped)
        self._waves = waves

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        await self._waves.next()
        return await ask(call)
