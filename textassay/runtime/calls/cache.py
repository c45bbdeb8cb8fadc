"""Answers from a store instead of asking twice: cache keys, and the wrappers that use them.

Knows requests, responses and an `AnswerStore`; knows nothing of files. Errors are never kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.messages import CACHED
from textassay.runtime.model import (
    A,
    AnyRequest,
    AnyResponse,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Model,
    Prompted,
    PromptedRequest,
    Q,
    Request,
    Response,
    Sample,
    TokenLogprob,
    Wrapper,
    deciding,
)
from textassay.runtime.questions import DecisionRequest, DecisionResponse, QuestionAnswer
from textassay.runtime.storage import cache_folder
from textassay.runtime.storage.answers import AnswerStore
from textassay.runtime.storage.cache_folder import Verification
from textassay.runtime.storage.files import decode, encode

KEY_FORMAT = 1
"""Part of every key; a new number makes every kept answer unknown."""

_UNKEYED = frozenset({
    "messages", "images", "truncatable", "dry_run_answer", "required", "thought_allowance",
    "probing", "thinking_fields", "cap_field", "shared_prefix", "prefix_mark",
})  # fmt: skip
"""Fields of requests that are no part of a key, or not as they are."""
_ADDED: dict[str, Any] = {"effort": None, "thinking_tokens": None, "functions": ()}
"""Fields that requests did not have when key format 1 was fixed: part of a key only if set."""
_ADDED_TO_SCORING: dict[str, Any] = {
    "effort": None,
    "thinking_tokens": None,
    "temperature": 0.0,
    "alternatives": 20,
    "extra": {},
}
"""The same for requests that score given text."""


class _Keyed:
    """Which fields of one kind of request are part of its key."""

    def __init__(self, request: type[Prompted], added: Mapping[str, Any]) -> None:
        names = request.model_fields.keys() - _UNKEYED
        self._always = sorted(names - added.keys())
        self._added = {name: unset for name, unset in added.items() if name in names}
        # in C, as a look into the cache makes a key
        self._take, self._take_added = itemgetter(*self._always), itemgetter(*self._added)
        self._unset = tuple(self._added.values())

    def fields(self, request: Prompted) -> dict[str, Any]:
        """Return those that always are, and those of `added` that are set."""
        values = vars(request)
        fields = dict(zip(self._always, self._take(values), strict=True))
        if self._take_added(values) != self._unset:
            fields |= {n: values[n] for n, unset in self._added.items() if values[n] != unset}
        return fields


_KEYED = {
    "generate": _Keyed(Request, _ADDED),
    "choices": _Keyed(ChoicesRequest, _ADDED_TO_SCORING),
    "continuation": _Keyed(ContinuationRequest, _ADDED_TO_SCORING),
}

LEARNED = "learned"
"""The `kind` of entries that hold no answer but what a model takes or refuses."""

_BEGINNING = 32
"""Characters of a part that is looked for by which its places are found."""

_ANSWERS: dict[str, type[AnyResponse]] = {
    "generate": Response,
    "decide": DecisionResponse,
    "choices": ChoicesResponse,
    "continuation": ContinuationResponse,
}


def identity_bytes(identity: Mapping[str, Any]) -> bytes:
    """Return a model's identity as `request_key` takes it, for callers that need many keys."""
    return _canonical(identity, "the identity of the model")


def request_key(identity: Mapping[str, Any] | bytes, request: AnyRequest) -> str:
    """Return the name of the answer to a request: SHA-256, in hex, of all that changes it."""
    if not isinstance(identity, bytes):
        identity = identity_bytes(identity)
    if isinstance(request, DecisionRequest):
        return decision_keys(identity, request, together=True)[0]
    # Names of fields are part of the digest (their order is not: keys are sorted). Renaming one, or
    # adding one, would make every answer that was paid for unknown.
    is_sampled = isinstance(request, Request)
    # `kind` keeps a choice between texts apart from a sampled answer to the same prompt.
    kind = (
        "generate"
        if is_sampled
        else "choices"
        if isinstance(request, ChoicesRequest)
        else "continuation"
    )
    fields = _KEYED[kind].fields(request)
    if is_sampled and request.thought_allowance:
        # An answer that came to its end is the same however much longer its thought might have
        # been, and others are not kept.
        fields["max_tokens"] -= request.thought_allowance
    fields["key"], fields["kind"] = KEY_FORMAT, kind
    fields["messages"] = [(message.role, message.content) for message in request.messages]
    if isinstance(request, Request) and request.functions:
        fields["functions"] = [vars(function) for function in request.functions]
        fields["messages"] = [
            (one.role, one.content, *([one.native] if one.native else ()))
            for one in request.messages
        ]
    if request.images:
        fields["images"] = [(one.number, one.name, one.digest) for one in request.images]
    if request.truncatable is not None:
        # as the field was called when key format 1 was fixed
        fields["shorten"] = _places(request, request.truncatable)
    # the identity's JSON is complete and ends at its brace, so that no other pair of texts joins to
    # the same bytes
    return hashlib.sha256(identity + _canonical(fields, "the request")).hexdigest()


def decision_keys(
    identity: Mapping[str, Any] | bytes, request: DecisionRequest, *, together: bool
) -> list[str]:
    """Return the key of each question's answer by itself, or of all `together`.

    Every field of the request is part of a key, of its questions those that it answers.
    """
    if not isinstance(identity, bytes):
        identity = identity_bytes(identity)
    shared = hashlib.sha256(identity + b"decide%d" % KEY_FORMAT + request.shared_digest)
    digests = [question.digest for question in request.questions]
    keys = []
    for part in [b"".join(digests)] if together else digests:
        whole = shared.copy()
        whole.update(part)
        keys.append(whole.hexdigest())
    return keys


def _places(request: PromptedRequest, part: str) -> list[int]:
    """Return where the truncatable text occurs; with the prompt, that determines it."""
    if request.prompt is not None:
        return [len(part), _find(request.prompt, part)]
    return [len(part), *[_find(message.content, part) for message in request.messages]]


def _find(text: str, part: str) -> int:
    """Do what `text.find(part)` does, without its 20 µs of preparation for a needle of 1 kB."""
    # For a long needle, `str.find` builds tables first, which costs more than the search itself.
    beginning = part[:_BEGINNING]
    at = text.find(beginning)
    while at >= 0 and not text.startswith(part, at):
        at = text.find(beginning, at + 1)
    return at


def _canonical(value: Any, what: str) -> bytes:
    try:
        return encode(value, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{what} contains something that is not JSON: {error}") from error


_last: ContextVar[tuple[AnyRequest, bytes, str] | None] = ContextVar(
    "textassay_request_key", default=None
)


class Keys:
    """Keys of requests to one model.

    A request that is not answered yet is asked for its key three times: by the cache, by
    single-flight, and where its answer is kept. The cache makes it; the others find it in a context
    variable, of which each task has its own and the tasks that it starts see a copy.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @cached_property
    def identity(self) -> bytes:
        """The model's identity as keys hold it."""
        # on first use: a local model's is the digest of its file, known once it is open
        return identity_bytes(self._model.identity)

    def compute(self, request: AnyRequest) -> str:
        """Return `request_key` of the request as it is now."""
        return request_key(self.identity, request)

    def keep(self, request: AnyRequest, key: str) -> None:
        """Have `get` find the key of a request in inner wrappers."""
        _last.set((request, self.identity, key))

    def get(self, request: AnyRequest) -> str:
        """Return the key that was made for this very request on its way in, or else make it."""
        last = _last.get()
        # `is` rather than `==`: wrappers in between replace a request (one per sample, say), and a
        # task may ask several models in turn.
        if last is not None and last[0] is request and last[1] == self.identity:
            return last[2]
        return request_key(self.identity, request)


def encode_answer(response: AnyResponse) -> bytes:
    """Return a response as it is stored: without its usage, which was paid only once."""
    if type(response) is Response and _is_bare(response):
        # What the lines below give for it, in a third of the time: each answer is encoded once.
        fields = vars(response).copy()
        del fields["usage"]
        return encode({"kind": "generate", "answer": fields}, default=_encode)
    if isinstance(response, DecisionResponse):
        answers = [*map(_stored_answer, response.answers)]
        return encode(
            {"kind": "decide", "answer": {**_beside_answers(response), "answers": answers}}
        )
    kind = next(kind for kind, answer in _ANSWERS.items() if isinstance(response, answer))
    answer = response.__pydantic_serializer__.to_python(response, exclude={"usage"})
    if kind == "generate":
        answer["samples"] = [_without_defaults(sample) for sample in answer["samples"]]
    return encode({"kind": kind, "answer": answer})


def _stored_answer(answer: QuestionAnswer) -> dict[str, Any]:
    """Return the fields of an answer that are not their defaults."""
    fields = vars(answer)
    kept = {name: v for name, v in fields.items() if v not in (None, (), "scored")}
    return kept if answer.problem is None else {**kept, "problem": vars(answer.problem)}


def _beside_answers(response: DecisionResponse) -> dict[str, Any]:
    return response.model_dump(exclude={"usage", "answers"}, exclude_defaults=True)


def _encode(part: Sample | TokenLogprob) -> dict[str, Any]:
    return _without_defaults(vars(part)) if type(part) is Sample else vars(part)


def _without_defaults(sample: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a sample as they are stored; nothing is stored of a missing thought."""
    names = ["text", "finish_reason", "logprobs"]
    if sample["thought"] is not None or sample["from_thought"]:
        names += ["thought", "from_thought"]
    if sample["native"] is not None:
        names.append("native")
    return {name: sample[name] for name in names}


def _is_bare(response: Response) -> bool:
    """Return whether no part of a response is of a subclass, which may hold more fields."""
    return all(
        type(sample) is Sample
        and (sample.logprobs is None or all(type(t) is TokenLogprob for t in sample.logprobs))
        for sample in response.samples
    )


def decode_answer(value: bytes) -> AnyResponse:
    """Return a kept response, with the usage of one that cost nothing."""
    fields = decode(value)
    try:
        kind, answer = fields["kind"], fields["answer"]
        answer["usage"] = CACHED
        return _ANSWERS[kind].model_validate(answer)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no kept answer: {error!r}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


async def look_up(store: AnswerStore, key: str) -> AnyResponse | None:
    """Return the response that a store keeps under a key, if any."""
    value = await store.fetch(key)
    return None if value is None else _decode(store, key, value)


def _decode(store: AnswerStore, key: str, value: bytes) -> AnyResponse:
    try:
        return decode_answer(value)
    except ValueError as error:
        raise StorageError(
            f"the kept answer {key} in {store.place} cannot be used: {error}; `textassay cache"
            f" verify {store.place}` shows what else is damaged"
        ) from error


def verify(folder: str | Path) -> Verification:
    """Read everything in a cache folder, decode every entry, and report what is damaged."""
    return cache_folder.verify(folder, _check_entry)


def _check_entry(value: bytes) -> None:
    """Raise `ValueError` if a value is neither an answer nor what was learned of a model."""
    fields = decode(value)
    if not isinstance(fields, dict) or fields.get("kind") != LEARNED:
        decode_answer(value)


def _is_asked_again(request: AnyRequest, response: AnyResponse) -> bool:
    """Return whether a better answer will come under the same key, with tokens for a thought."""
    return isinstance(response, Response) and (
        response.is_unfinished
        or (request.probing and not request.thought_allowance and response.is_cut)
    )


class StoringModel(Wrapper):
    """Keeps every answer before it returns; `CachedModel` looks them up, with the same key.

    Right at the backend, so that a slot is held until its answer is safe: what a killed process has
    asked in vain is then never more than what was in flight.
    """

    def __init__(self, wrapped: Model, store: AnswerStore) -> None:
        super().__init__(wrapped)
        self.store, self._keys = store, Keys(wrapped)
        # The error of a store that failed once: asking on would pay for answers that are lost.
        self._full: StorageError | None = None

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Ask and store; a cancellation that arrives with the answer waits until it is stored."""
        if self._full is not None:
            raise StorageError(str(self._full)) from self._full
        response = await call(request)
        if _is_asked_again(request, response):
            return response
        try:
            await self.store.put(self._keys.get(request), encode_answer(response))
        except StorageError as error:
            self._full = error
            raise
        return response

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Ask and store each answer by itself, if it would be the same without the others."""
        if self._full is not None or not self.capabilities.independent_questions:
            return await super().decide(request)
        response = await deciding(self.wrapped).decide(request)
        keys = decision_keys(self._keys.identity, request, together=False)
        try:
            shared = _beside_answers(response)
            await self.store.put_all(
                {
                    key: encode(
                        {
                            "kind": "decide",
                            "answer": {**shared, "answers": [_stored_answer(answer)]},
                        }
                    )
                    for key, answer in zip(keys, response.answers, strict=True)
                }
            )
        except StorageError as error:
            self._full = error
            raise
        return response


class CachedModel(Wrapper):
    """Answers from the store what it holds; a `StoringModel` inside keeps new answers.

    The store is not closed with the wrapper: models share it, and whoever opened it closes it.
    """

    def __init__(self, wrapped: Model, store: AnswerStore) -> None:
        super().__init__(wrapped)
        self.store, self._keys = store, Keys(wrapped)

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer from the store, or ask."""
        key = self._keys.compute(request)
        value = await self.store.fetch(key)
        # From here to single-flight nothing may be awaited: an answer that was not kept when the
        # store was read is still in flight now, and would not be later.
        if value is not None:
            return cast(A, _decode(self.store, key, value))
        self._keys.keep(request, key)
        return await call(request)

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Answer from the store, and ask those questions alone that it has no answer to."""
        if not self.capabilities.independent_questions:
            return await super().decide(request)
        keys = decision_keys(self._keys.identity, request, together=False)
        fetches = [self.store.fetch(key) for key in keys]  # read in one turn of the loop
        kept = [
            None if value is None else cast(DecisionResponse, _decode(self.store, key, value))
            for key, value in zip(keys, [await fetch for fetch in fetches], strict=True)
        ]
        missing = [q for q, one in zip(request.questions, kept, strict=True) if one is None]
        if not missing:
            found = [one.answers[0] for one in kept if one is not None]
            return cast(DecisionResponse, kept[0]).model_copy(update={"answers": tuple(found)})
        response = await deciding(self.wrapped).decide(request.about(missing))
        new = iter(response.answers)
        answers = [next(new) if one is None else one.answers[0] for one in kept]
        return response.model_copy(update={"answers": tuple(answers)})


class WithIdentity(Wrapper):
    """A model under another identity: the same one at another address, say."""

    def __init__(self, wrapped: Model, identity: Mapping[str, Any]) -> None:
        super().__init__(wrapped)
        self._identity = identity

    @property
    def identity(self) -> Mapping[str, Any]:
        """The identity it is known by."""
        return self._identity
