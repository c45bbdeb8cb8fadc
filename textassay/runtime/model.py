"""The protocol of models: requests, responses, capabilities.

Requests, responses and the three protocols. Every field of a request is part of its cache key.

`generate` is the one ability every model has. `Scoring` is the second protocol, for models that
return log-probabilities of given choices and of a given continuation. `Deciding` is the third, for
models that send probabilities for the options of typed questions.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, Self, TypeVar, runtime_checkable

from pydantic import Field, model_validator

from textassay.runtime.base import NO_USAGE, Effort, Json, Message, Usage
from textassay.runtime.errors import CapabilityError, DataError
from textassay.runtime.images import Image, load
from textassay.runtime.questions import DecisionRequest, DecisionResponse, QuestionLimits

FinishReason = Literal["stop", "length", "filtered", "other"]


class ChatMessage(Message):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str
    native: tuple[Json, ...] = ()
    """Messages in OpenAI's format that replace it in requests with functions: an unchanged answer
    with calls, or the results of the calls.
    """


class Function(Message, defer_build=True):
    """A function that a model may call in its answer."""

    name: str
    """Its name."""
    description: str
    """Its purpose, in a sentence."""
    parameters: Json
    """JSON schema of its arguments, which is an object."""


class Prompted(Message, defer_build=True):
    """Base of all requests: either chat messages or one plain prompt."""

    messages: tuple[ChatMessage, ...] = ()
    """A chat, for instruction-tuned models."""
    prompt: str | None = None
    """A plain prompt, for base models and completion servers."""
    images: tuple[Image, ...] = ()
    """Images in front of the text of the chat's first message by the user, each after its
    number."""
    truncatable: str | None = None
    """The part of the text that may be cut at its end if it does not fit, exactly as in the prompt.

    Only a local model that was opened with `truncate="source"` cuts anything."""
    temperature: float | None = Field(default=0.0, ge=0)
    """Sampling temperature; `None` sends none, for the model's default."""
    effort: Effort | None = None
    """Amount of thinking; `None` sends none, for the model's default."""
    thinking_tokens: int | None = Field(default=None, ge=0)
    """Maximum tokens of a thought, for families that take a number instead of `effort`."""
    extra: Json = Field(default_factory=dict)
    """Further fields for the provider, sent unchanged."""

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


class Request(Prompted):
    """Asks for `n` sampled answers."""

    n: int = Field(default=1, ge=1)
    """Number of answers."""
    draw: int = Field(default=0, ge=0)
    """Number of the repeat among otherwise equal requests, so that a repeat is not answered from
    the cache.
    """
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer in tokens; `None` for the model's default. A model that thinks gets more, for
    its thought.
    """
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


class TokenLogprob(Message):
    """One token with its natural-log probability given all before it."""

    token: str
    logprob: float = Field(le=1e-6)
    top: tuple[tuple[str, float], ...] = ()
    """The likeliest tokens at this position with their log-probabilities, likeliest first."""


def is_distribution(tokens: Iterable[TokenLogprob]) -> bool:
    """Return whether a token has alternatives; the newest models return the likeliest alone."""
    return any(len(token.top) > 1 for token in tokens)


class Sample(Message):
    """One sampled answer."""

    text: str
    """The answer, without the thought before it."""
    finish_reason: FinishReason = "stop"
    logprobs: tuple[TokenLogprob, ...] | None = None
    """One entry per sampled token of `text`; `None` if they were not requested or the server sends
    none.
    """
    thought: str | None = None
    """The model's thought before its answer, as far as the server shows it; of limited length."""
    from_thought: bool = False
    """Whether `text` is JSON that satisfies the schema but came as the thought, with an empty
    answer: some servers apply the schema to the thought.
    """

    native: Json | None = None
    """An answer that calls functions in the server's form, to continue the chat."""

    @property
    def is_unfinished(self) -> bool:
        """Whether the model reached its token limit before it began to answer."""
        return self.finish_reason == "length" and not self.text.strip()


MAX_THOUGHT = 4000
"""Characters of a thought that evidence keeps."""
LEFT_OUT = "\n[...]\n"
"""Replaces the middle of a long thought."""


def thought_note(samples: Iterable[Sample]) -> tuple[Json, ...]:
    """Return the first thought of these answers as evidence."""
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
    """The answers: at least one, at most the requested number."""
    usage: Usage = NO_USAGE
    model: str | None = None
    """The model as the server names it."""
    truncated_tokens: int = Field(default=0, ge=0)
    """Tokens of the source that were left out, if truncation was asked for."""

    @property
    def is_unfinished(self) -> bool:
        """Whether all samples are unfinished."""
        return all(sample.is_unfinished for sample in self.samples)

    @property
    def is_cut(self) -> bool:
        """Whether all samples are cut off."""
        return all(sample.finish_reason == "length" for sample in self.samples)


class ChoicesRequest(Prompted):
    """Requests the probability of each of several given answers as the next text."""

    choices: dict[str, tuple[str, ...]] = Field(min_length=1)
    """Surface forms by label, such as `{"yes": ("yes", "Yes"), "no": ("no", "No")}`."""
    alternatives: int = Field(default=20, ge=1, le=20)
    """Number of likeliest tokens that are searched for choices, if the model is a server."""


class ChoicesResponse(Message, defer_build=True):
    """Answer to a `ChoicesRequest`."""

    logprobs: dict[str, float | None]
    """Natural log of the summed probability of a label's surface forms; `None` if it is not
    reported.
    """
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
    """Return the log of the summed probabilities; `None` without any, or if all are 0."""
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
Imaged = TypeVar("Imaged", Request, ChoicesRequest, ContinuationRequest, DecisionRequest)


class Capabilities(Message):
    """Abilities of a model; `None` if unknown before a request."""

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
    """Images beside the text of a chat; must be set explicitly."""
    thinks: bool | None = None
    """Whether it thinks before it answers."""
    decide: bool = False
    """Probabilities for the options of typed questions, many in one request; must be set
    explicitly. Other models answer such questions through `calls.deciding`.
    """
    writes: bool = True
    """Written text, which decision models do not send."""
    independent_questions: bool = False
    """Whether the provider promises that questions of one request do not influence each other."""
    question_limits: QuestionLimits = QuestionLimits()
    """Maximum questions, options, levels and tokens of one request with typed questions."""
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
        """The model's abilities, as far as they are known without a request."""
        ...

    async def generate(self, request: Request) -> Response:
        """Return sampled answers.

        Raises:
            ModelError: The request failed or the answer is unusable.
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
        """Return the log-probability of each choice as the next text.

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
        """Return one answer for each question, in order; single questions may be refused.

        Raises:
            CapabilityError: The model cannot.
            ModelError: The model could not be asked.
        """
        ...


def load_images(images: Iterable[Image]) -> tuple[Image, ...]:
    """Return images in the form for requests: addresses or data: URIs."""
    try:
        return tuple(map(load, images))
    except ValueError as error:
        raise DataError(str(error)) from error


async def with_images(request: Imaged) -> Imaged:
    """Return a request with its images in the form for requests, read off the event loop.

    Raises:
        DataError: A file is missing, or has changed since the data were read.
    """
    images = await asyncio.to_thread(load_images, request.images)
    return request.model_copy(update={"images": images})


class InProcessModel(ABC):
    """Base of models that run in this process.

    They queue calls themselves, and are known only when they are open.
    """

    @abstractmethod
    async def open(self) -> Self:
        """Load the model; safe to call twice."""


def scoring(model: Model, ability: Literal["choices", "continuation"]) -> Scoring:
    """Return `model` as one that scores given text."""
    # The protocol alone is not enough, since all wrappers have its methods.
    if isinstance(model, Scoring) and getattr(model.capabilities, ability) is not False:
        return model
    values, where = {
        "choices": ("log-probabilities of given choices", "an API that returns top_logprobs"),
        "continuation": ("the log-probability of a given text", "a server whose completions echo"),
    }[ability]
    raise CapabilityError(
        f"model {model.name!r} does not report {values}; use a local model (llamacpp/PATH.gguf) or"
        f" {where}"
    )
