"""`Call`, one request on its way to one model: the request, its cache key, and its posting.

All fields of a `Request` are part of the key. A `Posting` says how to send the request, and does
not change the answer. Wrappers pass both on as a `Call`. Only backends that are `PostingModel`s
read the posting; models of users take the request alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, cast

from textassay.runtime.base import Message
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import CapabilityError, ConfigurationError
from textassay.runtime.model import (
    AnyRequest,
    AnyResponse,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Deciding,
    Model,
    Prompted,
    Request,
    Response,
    scoring,
)
from textassay.runtime.questions import DecisionRequest, DecisionResponse
from textassay.runtime.storage.files import encode


class Posting(NamedTuple):
    """How to send a request to one model; no field changes the answer."""

    required: tuple[str, ...] = ()
    """Fields that the server must take, since the user typed them or the method needs them. Others
    are left out if the server refuses them."""
    dry_run_answer: str = ""
    """The answer of a dry run: well-formed, and of usual length."""
    shared_prefix: int = 0
    """Characters at the beginning of the last message that, with the messages before it, begin
    further requests, too; 0 if unknown."""
    prefix_mark: Literal["none", "block", "key"] = "none"
    """How the server is shown this prefix: by a mark on a block of the content, or by a key in the
    body."""
    cap_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The server's name for `max_tokens`."""
    allowance: int = 0
    """Tokens for a thought, in addition to `max_tokens`; limits and budgets reserve a part of
    them."""
    thinking_fields: tuple[str, ...] = ()
    """Fields of the body that carry `effort` and `thinking_tokens`."""
    may_think: bool = False
    """Whether the model may turn out to think: an answer that is cut off is not stored then, as the
    request is repeated with an allowance."""

    def prefix_of(self, request: Prompted) -> str:
        """Return the text of the shared prefix."""
        *before, last = request.messages
        shared = (*(message.content for message in before), last.content[: self.shared_prefix])
        if request.images:  # they precede the text
            shared = (*(image.key for image in request.images), *shared)
        return "\n".join(shared)

    def most_tokens(self, request: Request) -> int | None:
        """Return the most tokens of thought and answer; `None` leaves them to the model."""
        return None if request.max_tokens is None else request.max_tokens + self.allowance


MIN_CACHED_TOKENS = 1024
"""Tokens of the shortest prefix that providers cache: OpenAI's guide to prompt caching. Anthropic's
names 512 to 4,096 by model."""

PLAIN = Posting()
"""The posting of a plain request."""


class Call:
    """A request on its way to one model."""

    __slots__ = ("_key", "posting", "request")

    def __init__(self, request: AnyRequest, posting: Posting = PLAIN) -> None:
        self.request, self.posting = request, posting
        self._key = (b"", "")

    def key(self, identity: bytes) -> str:
        """Return the request's key under an identity; three wrappers need it, so it is kept."""
        if self._key[0] != identity:
            self._key = (identity, request_key(identity, self.request))
        return self._key[1]

    def with_request(self, request: AnyRequest) -> Call:
        """Return a call of another request with the same posting."""
        return Call(request, self.posting)


Send = Callable[[Call], Coroutine[Any, Any, AnyResponse]]
"""Sends a call to a model, and returns the response of the request's kind."""


# ---- keys ----


def identity_bytes(identity: Mapping[str, Any]) -> bytes:
    """Return a model's identity as bytes, from which `request_key` makes keys faster."""
    return _canonical(identity, "the identity of the model")


def request_key(identity: Mapping[str, Any] | bytes, request: AnyRequest) -> str:
    """Return the cache key of a request: the SHA-256, in hex, of identity and fields."""
    if not isinstance(identity, bytes):
        identity = identity_bytes(identity)
    if type(request) is DecisionRequest:  # `isinstance` of another pydantic class is slow
        questions = hashlib.sha256("".join(q.digest for q in request.questions).encode())
        return f"{decision_group(identity, request)}/{questions.hexdigest()}"
    # `kind` distinguishes a choice between texts from a sampled answer to the same prompt
    fields = {**vars(request), "kind": type(request).__name__}
    if request.images:  # by their content, not their path
        fields["images"] = [(image.number, image.name, image.key) for image in request.images]
    # the identity's JSON ends at its brace, so no other pair of texts has the same bytes
    return hashlib.sha256(identity + _canonical(fields, "the request")).hexdigest()


def decision_group(identity: bytes, request: DecisionRequest) -> str:
    """Return the beginning of the keys of all answers about the request's material."""
    return hashlib.sha256(identity + b"decide" + request.shared_digest).hexdigest()


def _canonical(value: Any, name: str) -> bytes:
    try:
        return encode(value, sort_keys=True, default=_fields)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} contains something that is not JSON: {error}") from error


def _fields(part: Any) -> dict[str, Any]:
    if isinstance(part, Message):
        return vars(part)
    raise TypeError(f"{type(part).__name__} is not a JSON value")


# ---- models ----


class PostingModel:
    """Base of backends whose `generate` and `choices` take a posting as their second argument.

    `continuation` and `decide` take none, as no field of it concerns them.
    """


class ModelProxy:
    """Base of models with the name, identity and capabilities of another one, which they close."""

    def __init__(self, wrapped: Model) -> None:
        self.wrapped = wrapped

    @property
    def name(self) -> str:
        return self.wrapped.name

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.wrapped.identity

    @property
    def capabilities(self) -> Capabilities:
        return self.wrapped.capabilities

    async def aclose(self) -> None:
        await self.wrapped.aclose()


class Wrapper(ModelProxy):
    """Base of wrappers around a model: override `around`, or nothing to forward all calls."""

    changes_questions: ClassVar[bool] = False
    """Whether it must see typed questions before they are put into words for a chat model."""

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self._ask = sender(wrapped)

    @property
    def settings_facts(self) -> Mapping[str, object]:
        """Parameters that the model's settings add to every request, for signatures."""
        return self.wrapped.settings_facts if isinstance(self.wrapped, Wrapper) else {}

    @cached_property
    def identity_bytes(self) -> bytes:
        """The identity for keys."""
        # on first use: a local model's is the digest of its file, which is known once it is open
        return identity_bytes(self.identity)

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Answer `call`, usually by awaiting `ask(call)`."""
        return await ask(call)

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Answer a request of any kind through `around`.

        Returns the coroutine of `around`, so that each wrapper adds only one.
        """
        return self.around(call, self._ask)

    def generate(self, request: Request) -> Coroutine[Any, Any, Response]:
        """Answer a plain request."""
        return cast("Coroutine[Any, Any, Response]", self.send(Call(request)))

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Answer a plain request."""
        scoring(self.wrapped, "choices")
        return cast(ChoicesResponse, await self.send(Call(request)))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Answer a plain request."""
        scoring(self.wrapped, "continuation")
        return cast(ContinuationResponse, await self.send(Call(request)))

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Answer typed questions."""
        return cast(DecisionResponse, await self.send(Call(request)))


def sender(model: Model) -> Send:
    """Return a function that sends calls to a model, which need not be a wrapper."""
    return model.send if isinstance(model, Wrapper) else partial(_post, model)


async def fill_up(response: Response, send: Send, call: Call) -> Response:
    """Return a response with all samples of its request, of which the server may send fewer.

    The others are asked for with further draws, so that a cache never gives a sample twice, and at
    the same time, as each request may be a batch that takes hours.
    """
    request = cast(Request, call.request)
    n, samples, usage = request.n, response.samples[: request.n], response.usage
    truncated, draw = response.truncated_tokens, request.draw + len(samples)
    while missing := n - len(samples):
        step, end = len(response.samples), draw + missing
        parts = [{"n": min(step, end - at), "draw": at} for at in range(draw, end, step)]
        draw = end
        calls = [Call(request.model_copy(update=part), call.posting) for part in parts]
        for response in await gather([cast(Awaitable[Response], send(each)) for each in calls]):
            samples += response.samples[: n - len(samples)]
            usage += response.usage
            truncated = max(truncated, response.truncated_tokens)
    update = {"samples": samples, "usage": usage, "truncated_tokens": truncated}
    return response.model_copy(update=update)


async def _post(model: Model, call: Call) -> AnyResponse:
    """Ask a model that is not a wrapper."""
    request, posting = call.request, call.posting
    if isinstance(request, Request):  # first, as it is the usual kind
        if isinstance(model, PostingModel):
            writer: Any = model
            return cast(Response, await writer.generate(request, posting))
        if posting.allowance:
            request = request.model_copy(update={"max_tokens": posting.most_tokens(request)})
        return await model.generate(request)
    if isinstance(request, ChoicesRequest):
        scorer: Any = scoring(model, "choices")
        arguments = (request, posting) if isinstance(model, PostingModel) else (request,)
        return cast(ChoicesResponse, await scorer.choices(*arguments))
    if isinstance(request, ContinuationRequest):
        return await scoring(model, "continuation").continuation(request)
    return await deciding(model).decide(request)


def deciding(model: Model) -> Deciding:
    """Return `model` typed as a model with `decide`.

    Raises:
        CapabilityError: It cannot.
    """
    # a wrapper is not checked, as its innermost one does it; `isinstance` of the protocol would
    # take longer than all wrappers together
    if isinstance(model, Wrapper) or (model.capabilities.decide and hasattr(model, "decide")):
        return cast(Deciding, model)
    raise CapabilityError(
        f"model {model.name!r} sends no probabilities for typed questions; use a decision model "
        "(decisions/NAME, systemone/NAME)"
    )


def layers(model: Model) -> Iterator[Model]:
    """Yield a model and those inside of it, from the outermost wrapper to the backend."""
    while isinstance(model, Wrapper):
        yield model
        model = model.wrapped
    yield model


def unwrap(model: Model) -> Model:
    """Return the model inside all wrappers."""
    *_, inner = layers(model)
    return inner


class RefusingModel(Wrapper):
    """A model that cannot be asked, such as one whose cache is not open yet."""

    def __init__(self, wrapped: Model, reason: str) -> None:
        super().__init__(wrapped)
        self._reason = reason

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        raise ConfigurationError(self._reason)
