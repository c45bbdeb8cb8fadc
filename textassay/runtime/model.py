"""What a model is.

Requests, responses, the three protocols, and the base of everything that wraps a model.

`generate` is the one ability every model has. `Scoring` is the second protocol, for models that
return log-probabilities of given choices and of a given continuation. `Deciding` is the third, for
models that send probabilities for the options of typed questions. Cache, single-flight, budget,
retry and limit are subclasses of `Wrapper` and know nothing of each other; `connected.py` puts them
together.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Literal, Protocol, Self, TypeVar, cast, runtime_checkable

from pydantic import Field, model_validator

from textassay.runtime.errors import CapabilityError, ConfigurationError, DataError
from textassay.runtime.images import Image, load
from textassay.runtime.messages import NO_USAGE, Effort, Message, Usage
from textassay.runtime.questions import DecisionRequest, DecisionResponse, QuestionLimits

Json = dict[str, Any]
FinishReason = Literal["stop", "length", "filtered", "other"]


class ChatMessage(Message):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str
    native: tuple[Json, ...] = ()
    """What stands for it in requests that offer functions, in OpenAI's format: an answer that
    calls some, as it came, or what they returned."""


class Function(Message):
    """A function that a model may call in its answer."""

    name: str
    """Its name."""
    description: str
    """What it does, in a sentence."""
    parameters: Json
    """JSON schema of its arguments, which is an object."""


class Prompted(Message, defer_build=True):
    """What all requests share: either chat messages or one plain prompt."""

    messages: tuple[ChatMessage, ...] = ()
    """A chat, for instruction-tuned models."""
    prompt: str | None = None
    """A plain prompt, for base models and completion servers."""
    images: tuple[Image, ...] = ()
    """Images that stand before the text of the chat's first message by the user, each after its
    number."""
    truncatable: str | None = None
    """The part of the text that may be cut at its end if not all of it fits, as it stands in
    the prompt.

    Only a local model that was opened with `truncate="source"` cuts anything."""
    temperature: float | None = Field(default=0.0, ge=0)
    """Sampling temperature; `None` leaves it to the model, and nothing is sent."""
    effort: Effort | None = None
    """How much the model is to think; `None` leaves it to the model, and nothing is sent."""
    thinking_tokens: int | None = Field(default=None, ge=0)
    """Most tokens of a thought, for families that take a number instead of `effort`."""
    extra: Json = Field(default_factory=dict)
    """Further fields for the provider, sent as they are."""
    required: tuple[str, ...] = ()
    """Fields that a server may not refuse: what the user typed, and what the meaning of the answer
    rests on. Others are left out if the server does not take them. Never sent and not part of the
    cache key."""
    thought_allowance: int = Field(default=0, ge=0)
    """How many of `max_tokens` are there for thoughts: limits and budgets do not reserve them in
    full. Never sent and not part of the cache key."""
    probing: bool = False
    """Whether the model is not known yet: an answer that is cut off is not kept, as it is asked for
    again with tokens for a thought. Never sent and not part of the cache key."""
    shared_prefix: int = Field(default=0, ge=0)
    """Characters at the beginning of the last message that, with the messages before it, stand in
    further requests, too; 0 if it is not known. Not part of the cache key."""
    prefix_mark: Literal["none", "block", "key"] = "none"
    """How the server is told of it: by a mark on a block of the content, or by a key in the body.
    Not part of the cache key."""
    thinking_fields: tuple[str, ...] = ()
    """Fields of the body that carry `effort` and `thinking_tokens`. Not part of the cache key."""
    cap_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Under which name the server takes `max_tokens`. Not part of the cache key."""

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if bool(self.messages) == (self.prompt is not None):
            raise ValueError("a request has either messages or a prompt")
        if self.images and not self.messages:
            raise ValueError("a plain prompt has no images")
        return self

    @property
    def text(self) -> str:
        """All the text that is sent, for estimates of its length."""
        return (
            self.prompt if self.prompt is not None else "\n".join(m.content for m in self.messages)
        )

    @property
    def prefix(self) -> str:
        """The text of `shared_prefix`, with which further requests begin."""
        *before, last = self.messages
        shared = (*(message.content for message in before), last.content[: self.shared_prefix])
        if self.images:  # they stand before the text
            shared = (*(image.key for image in self.images), *shared)
        return "\n".join(shared)


class Request(Prompted):
    """Asks for `n` sampled answers."""

    n: int = Field(default=1, ge=1)
    """Number of answers wanted."""
    draw: int = Field(default=0, ge=0)
    """Which repeat of an otherwise equal request this is, so that a repeat is not answered from the
    cache: two samples of one prompt differ in nothing else."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer, in tokens, thoughts included; `None` leaves it to the model."""
    seed: int | None = None
    """Seed of the sampling; a request with `draw` d is sent with `seed + d`."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer."""
    logprobs: int | None = Field(default=None, ge=0, le=20)
    """Alternatives to return with log-probabilities for every sampled token; `None` for no
    log-probabilities."""
    json_schema: Json | None = None
    """JSON schema that the answer must satisfy."""
    functions: tuple[Function, ...] = ()
    """Functions that the model may call. Each call is a JSON object in the text of the answer, with
    `name` and `arguments`, as a model without functions may write it."""
    dry_run_answer: str = ""
    """A well-formed answer of usual length: what a dry run answers. Never sent and not part of the
    cache key."""


class TokenLogprob(Message):
    """One token with its natural-log probability given all before it."""

    token: str
    logprob: float = Field(le=1e-6)
    top: tuple[tuple[str, float], ...] = ()
    """The likeliest tokens at this place with their log-probabilities, likeliest first."""


def is_distribution(tokens: Iterable[TokenLogprob]) -> bool:
    """Return whether a token has alternatives; the newest models return the likeliest alone."""
    return any(len(token.top) > 1 for token in tokens)


class Sample(Message):
    """One sampled answer."""

    text: str
    """The answer, without the thought before it."""
    finish_reason: FinishReason = "stop"
    logprobs: tuple[TokenLogprob, ...] | None = None
    """One entry a sampled token of `text`; `None` if none were asked for or the server sends
    none."""
    thought: str | None = None
    """What the model thought before it answered, as far as the server shows it; bounded."""
    from_thought: bool = False
    """Whether `text` is JSON that satisfies the schema and stood where thoughts stand, beside an
    empty answer: some servers bind the thought to the schema."""

    native: Json | None = None
    """An answer that calls functions as the server sent it, so that the chat can go on with it."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the model came to its limit of tokens before it answered anything."""
        return self.finish_reason == "length" and not self.text.strip()


MAX_THOUGHT = 4000
"""Characters of a thought that evidence keeps."""
LEFT_OUT = "\n[...]\n"
"""Stands where the middle of a thought was."""


def thought_note(samples: Iterable[Sample]) -> tuple[Json, ...]:
    """Return as evidence what the judge thought before the first of these answers that tells."""
    thought = next((sample.thought for sample in samples if sample.thought), None)
    if thought is None:
        return ()
    if len(thought) > MAX_THOUGHT:
        half = (MAX_THOUGHT - len(LEFT_OUT)) // 2
        thought = thought[:half] + LEFT_OUT + thought[-half:]
    return ({"text": "what the judge thought", "thought": thought},)


class Response(Message):
    """Answers to a `Request`."""

    samples: tuple[Sample, ...] = Field(min_length=1)
    """At most as many as were asked for, at least one."""
    usage: Usage = NO_USAGE
    model: str | None = None
    """The model as the server names it."""
    truncated_tokens: int = Field(default=0, ge=0)
    """Tokens of the source that were left out, if truncation was asked for."""

    @property
    def is_unfinished(self) -> bool:
        """Whether no sample holds anything of an answer."""
        return all(sample.is_unfinished for sample in self.samples)

    @property
    def is_cut(self) -> bool:
        """Whether no sample came to its end."""
        return all(sample.finish_reason == "length" for sample in self.samples)


class ChoicesRequest(Prompted):
    """Asks how likely each of several given answers is to come next."""

    choices: dict[str, tuple[str, ...]] = Field(min_length=1)
    """Surface forms by label, such as `{"yes": ("yes", "Yes"), "no": ("no", "No")}`."""
    alternatives: int = Field(default=20, ge=1, le=20)
    """Likeliest tokens among which choices are looked for, if the model is a server."""


class ChoicesResponse(Message, defer_build=True):
    """Answer to a `ChoicesRequest`."""

    logprobs: dict[str, float | None]
    """Natural log of the summed probability of a label's surface forms; `None` if the model did
    not report any."""
    follows_thought: bool = False
    """Whether the model thought before."""
    usage: Usage = NO_USAGE
    model: str | None = None
    truncated_tokens: int = Field(default=0, ge=0)
    """Tokens of the source that were left out, if truncation was asked for."""

    @property
    def mass(self) -> float:
        """Probability of all labels together."""
        # Rounding of single probabilities can lift the sum a hair above 1.
        return min(1.0, math.fsum(math.exp(lp) for lp in self.logprobs.values() if lp is not None))


def log_sum(logprobs: Iterable[float]) -> float | None:
    """Return the log of the summed probabilities; `None` for none, or if all are 0."""
    terms = [logprob for logprob in logprobs if logprob > -math.inf]
    if not terms:
        return None
    top = max(terms)
    return min(0.0, top + math.log(math.fsum(math.exp(term - top) for term in terms)))


class ContinuationRequest(Prompted):
    """Asks for the log-probability of a given text after a prompt."""

    continuation: str = Field(min_length=1)
    """The text, exactly as it follows the prompt (a leading space included)."""


class ContinuationResponse(Message, defer_build=True):
    """Answer to a `ContinuationRequest`."""

    tokens: tuple[TokenLogprob, ...] = Field(min_length=1)
    """The continuation's tokens in order."""
    usage: Usage = NO_USAGE
    model: str | None = None
    truncated_tokens: int = Field(default=0, ge=0)
    """Tokens of the source that were left out, if truncation was asked for."""

    @property
    def logprob(self) -> float:
        """Sum of the tokens' log-probabilities."""
        return math.fsum(t.logprob for t in self.tokens)


PromptedRequest = Request | ChoicesRequest | ContinuationRequest
AnyRequest = PromptedRequest | DecisionRequest
AnyResponse = Response | ChoicesResponse | ContinuationResponse | DecisionResponse
Q = TypeVar("Q", Request, ChoicesRequest, ContinuationRequest, DecisionRequest)
A = TypeVar("A", Response, ChoicesResponse, ContinuationResponse, DecisionResponse)


class Capabilities(Message):
    """What a model can do; `None` if that is unknown until it is asked."""

    n: bool | None = None
    """Several samples in one request."""
    logprobs: bool | None = None
    """Log-probabilities of sampled tokens, with alternatives."""
    json_schema: bool | None = None
    """Answers that satisfy a JSON schema."""
    seed: bool | None = None
    """Seeded sampling."""
    choices: bool | None = None
    """Log-probabilities of given choices."""
    continuation: bool | None = None
    """Log-probability of a given continuation."""
    functions: bool | None = None
    """Calls of functions that a request offers."""
    images: bool | None = False
    """Images beside the text of a chat; a model has to say that it takes them."""
    thinks: bool | None = None
    """Whether it thinks before it answers."""
    decide: bool = False
    """Probabilities for the options of typed questions, many in one request; a model has to say
    that it sends them. Others answer such questions through `calls.deciding`."""
    writes: bool = True
    """Text; decision models write none."""
    independent_questions: bool = False
    """Whether the provider promises that questions of one request do not influence each other."""
    question_limits: QuestionLimits = QuestionLimits()
    """The most questions, options, levels and tokens of one request that decides."""
    context_length: int | None = None
    """Longest prompt and answer together, in tokens."""

    @property
    def only_decides(self) -> bool:
        """Whether it is a decision model: it answers typed questions, and writes nothing."""
        return self.decide and not self.writes


@runtime_checkable
class Model(Protocol):
    """Answers prompts."""

    @property
    def name(self) -> str:
        """The name the user gave, such as `openai/gpt-4.1-mini`."""
        ...

    @property
    def identity(self) -> Mapping[str, Any]:
        """JSON values that, with a request, determine the answer.

        Model, address, quantization, ...; never a key.
        """
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do, as far as is known without asking it."""
        ...

    async def generate(self, request: Request) -> Response:
        """Return sampled answers.

        Raises:
            ModelError: The model could not be asked or did not answer usably.
        """
        ...

    async def aclose(self) -> None:
        """Release connections, threads and memory; safe to call twice.

        A call after it raises `ModelClosed`.
        """
        ...


@runtime_checkable
class Scoring(Protocol):
    """A model that also returns log-probabilities of given text."""

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return the log-probability of each choice as what comes next.

        Raises:
            CapabilityError: The model cannot.
            ModelError: The model could not be asked.
        """
        ...

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the log-probabilities of the tokens of a given text after a prompt.

        Raises:
            CapabilityError: The model cannot.
            ModelError: The model could not be asked.
        """
        ...


@runtime_checkable
class Deciding(Protocol):
    """A model that sends probabilities for the options of typed questions."""

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Return one answer for each question, in order; a question may be refused by itself.

        Raises:
            CapabilityError: The model cannot.
            ModelError: The model could not be asked.
        """
        ...


def load_images(images: Iterable[Image]) -> tuple[Image, ...]:
    """Return images as backends send them: addresses or data: URIs."""
    try:
        return tuple(map(load, images))
    except ValueError as error:
        raise DataError(str(error)) from error


async def with_images(request: Q) -> Q:
    """Return a request with its images as backends send them, read off the event loop.

    Raises:
        DataError: A file is gone, or is another than when the data were read.
    """
    images = await asyncio.to_thread(load_images, request.images)
    return request.model_copy(update={"images": images})


@runtime_checkable
class HoldsRecords(Protocol):
    """A model that answers with what an earlier run kept."""

    def value_of(self, key: str) -> bytes | None:
        """Return what the run kept under a key, such as what it learned of the model."""
        ...


class InProcessModel(ABC):
    """Base of models that run in this process.

    They queue calls themselves, and must be open to be known.
    """

    @abstractmethod
    async def open(self) -> Self:
        """Load the model; safe to call twice."""


def unwrap(model: Model) -> Model:
    """Return the model behind all wrappers."""
    while isinstance(model, Wrapper):
        model = model.wrapped
    return model


class Wrapper:
    """Base of everything that stands around a model: override `around`; the rest is forwarded."""

    def __init__(self, wrapped: Model) -> None:
        self.wrapped = wrapped

    @property
    def name(self) -> str:
        """The wrapped model's name."""
        return self.wrapped.name

    @property
    def identity(self) -> Mapping[str, Any]:
        """The wrapped model's identity."""
        return self.wrapped.identity

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's capabilities."""
        return self.wrapped.capabilities

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer `request`, usually by awaiting `call(request)`."""
        return await call(request)

    def generate(self, request: Request) -> Coroutine[Any, Any, Response]:
        """Answer through `around`.

        Returns its coroutine, so that each wrapper adds only one to step through.
        """
        return self.around(request, self.wrapped.generate)

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Answer through `around`."""
        return await self.around(request, scoring(self.wrapped, "choices").choices)

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Answer through `around`."""
        return await self.around(request, scoring(self.wrapped, "continuation").continuation)

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Answer through `around`."""
        return await self.around(request, deciding(self.wrapped).decide)

    async def aclose(self) -> None:
        """Close the wrapped model."""
        await self.wrapped.aclose()


def scoring(model: Model, ability: Literal["choices", "continuation"]) -> Scoring:
    """Return `model` as one that scores given text."""
    # The protocol alone is not enough: wrappers have its methods whatever they wrap.
    if isinstance(model, Scoring) and getattr(model.capabilities, ability) is not False:
        return model
    alternatives = (
        "log-probabilities of given choices"
        if ability == "choices"
        else "the log-probability of a given text"
    )
    raise CapabilityError(
        f"model {model.name!r} does not report {alternatives}; use a local model "
        "(llamacpp/PATH.gguf)"
        + (
            " or an API that returns top_logprobs"
            if ability == "choices"
            else " or a server whose completions echo"
        )
    )


def deciding(model: Model) -> Deciding:
    """Return `model` as one that decides by itself."""
    # Of wrappers the innermost one looks; without the protocol's own check, which takes longer than
    # all wrappers together.
    if isinstance(model, Wrapper) or (model.capabilities.decide and hasattr(model, "decide")):
        return cast(Deciding, model)
    raise CapabilityError(
        f"model {model.name!r} sends no probabilities for typed questions; use a decision model "
        "(decisions/NAME, systemone/NAME)"
    )


class RefusingModel(Wrapper):
    """A model that is known but cannot be asked, such as one whose cache is not open yet."""

    def __init__(self, wrapped: Model, reason: str) -> None:
        super().__init__(wrapped)
        self._reason = reason

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Refuse."""
        raise ConfigurationError(self._reason)
