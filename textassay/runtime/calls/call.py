"""One request on its way to one model: what is asked, its cache key, and how it is sent.

A `Request` holds what is asked, and all of it is part of the key. A `Posting` holds how the request
is sent, and changes no answer. Wrappers pass both on as a `Call`; only backends that are
`PostingModel`s read the posting. Models of users are given the request alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, cast

from textassay.runtime.errors import CapabilityError, ConfigurationError
from textassay.runtime.messages import Message
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
    """How a request is sent to one model: nothing of it changes the answer."""

    required: tuple[str, ...] = ()
    """Fields that a server may not refuse: what the user typed, and what the meaning of the answer
    rests on. Others are left out if the server does not take them."""
    dry_run_answer: str = ""
    """A well-formed answer of usual length: what a dry run answers."""
    shared_prefix: int = 0
    """Characters at the beginning of the last message that, with the messages before it, begin
    further requests, too; 0 if it is not known."""
    prefix_mark: Literal["none", "block", "key"] = "none"
    """How the server is told of it: by a mark on a block of the content, or a key in the body."""
    cap_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Under which name the server takes `max_tokens`."""
    allowance: int = 0
    """Tokens for a thought, beside `max_tokens`; limits and budgets do not reserve all of them."""
    thinking_fields: tuple[str, ...] = ()
    """Fields of the body that carry `effort` and `thinking_tokens`."""
    is_probe: bool = False
    """Whether the model is not known yet: an answer that is cut off is not kept, as it is asked for
    again with an allowance."""

    def prefix_of(self, request: Prompted) -> str:
        """Return the text of `shared_prefix`, with which further requests begin."""
        *before, last = request.messages
        shared = (*(message.content for message in before), last.content[: self.shared_prefix])
        if request.images:  # they stand before the text
            shared = (*(image.key for image in request.images), *shared)
        return "\n".join(shared)

    def most_tokens(self, request: Request) -> int | None:
        """Return the tokens of the longest answer with its thought; `None` for the model's own."""
        return None if request.max_tokens is None else request.max_tokens + self.allowance


MIN_CACHED_TOKENS = 1024
"""Shortest prefix that most providers keep, in tokens."""

PLAIN = Posting()
"""The posting of a request of which nothing else is known."""


class Call:
    """A request on its way to one model."""

    __slots__ = ("_key", "posting", "request")

    def __init__(self, request: AnyRequest, posting: Posting = PLAIN) -> None:
        self.request, self.posting = request, posting
        self._key = (b"", "")

    def key(self, identity: bytes) -> str:
        """Return the request's key under an identity, made once: three wrappers need it."""
        if self._key[0] != identity:
            self._key = (identity, request_key(identity, self.request))
        return self._key[1]

    def about(self, request: AnyRequest) -> Call:
        """Return a call of another request, sent in the same way."""
        return Call(request, self.posting)


Send = Callable[[Call], Coroutine[Any, Any, AnyResponse]]
"""Asks a model; what is returned is of the kind that the request asks for."""


# ---- keys ----


def identity_bytes(identity: Mapping[str, Any]) -> bytes:
    """Return a model's identity as `request_key` takes it, for callers that need many keys."""
    return _canonical(identity, "the identity of the model")


def request_key(identity: Mapping[str, Any] | bytes, request: AnyRequest) -> str:
    """Return the name of the answer to a request: SHA-256, in hex, of all its fields."""
    if not isinstance(identity, bytes):
        identity = identity_bytes(identity)
    if type(request) is DecisionRequest:  # `isinstance` of another pydantic class is slow
        questions = hashlib.sha256("".join(q.digest for q in request.questions).encode())
        return f"{decision_group(identity, request)}/{questions.hexdigest()}"
    # `kind` keeps a choice between texts apart from a sampled answer to the same prompt
    fields = {**vars(request), "kind": type(request).__name__}
    if request.images:  # by content, wherever it lies
        fields["images"] = [(image.number, image.name, image.key) for image in request.images]
    # the identity's JSON is complete and ends at its brace, so that no other pair of texts joins to
    # the same bytes
    return hashlib.sha256(identity + _canonical(fields, "the request")).hexdigest()


def decision_group(identity: bytes, request: DecisionRequest) -> str:
    """Return what begins the keys of all answers about this material, whatever was asked."""
    return hashlib.sha256(identity + b"decide" + request.shared_digest).hexdigest()


def _canonical(value: Any, what: str) -> bytes:
    try:
        return encode(value, sort_keys=True, default=_fields)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{what} contains something that is not JSON: {error}") from error


def _fields(part: Any) -> dict[str, Any]:
    if isinstance(part, Message):
        return vars(part)
    raise TypeError(f"{type(part).__name__} is no JSON value")


# ---- models ----


class PostingModel:
    """Base of backends whose `generate` and `choices` take a posting as their second argument.

    `continuation` and `decide` take none, as no field of it concerns them.
    """


class Wrapper:
    """Base of everything that stands around a model: override `around`; the rest is forwarded."""

    def __init__(self, wrapped: Model) -> None:
        self.wrapped, self._ask = wrapped, sender(wrapped)

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

    @property
    def settings_facts(self) -> Mapping[str, object]:
        """What the settings of the model add to every request, for signatures."""
        return self.wrapped.settings_facts if isinstance(self.wrapped, Wrapper) else {}

    @cached_property
    def identity_bytes(self) -> bytes:
        """The model's identity as keys hold it."""
        # on first use: a local model's is the digest of its file, known once it is open
        return identity_bytes(self.identity)

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Answer `call`, usually by awaiting `ask(call)`."""
        return await ask(call)

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Answer a request of any kind through `around`.

        Returns its coroutine, so that each wrapper adds only one to step through.
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

    async def aclose(self) -> None:
        """Close the wrapped model."""
        await self.wrapped.aclose()


def sender(model: Model) -> Send:
    """Return how a model is asked: wrappers take calls, and backends a request of some kind."""
    return model.send if isinstance(model, Wrapper) else partial(_post, model)


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
        given = (request, posting) if isinstance(model, PostingModel) else (request,)
        return cast(ChoicesResponse, await scorer.choices(*given))
    if isinstance(request, ContinuationRequest):
        return await scoring(model, "continuation").continuation(request)
    return await deciding(model).decide(request)


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


def unwrap(model: Model) -> Model:
    """Return the model behind all wrappers."""
    while isinstance(model, Wrapper):
        model = model.wrapped
    return model


class RefusingModel(Wrapper):
    """A model that is known but cannot be asked, such as one whose cache is not open yet."""

    def __init__(self, wrapped: Model, reason: str) -> None:
        super().__init__(wrapped)
        self._reason = reason

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Refuse."""
        raise ConfigurationError(self._reason)
