"""Answers from a store instead of asking twice: how they are written, and the wrappers.

Knows requests, responses and an `AnswerStore`; knows nothing of files. Errors are never kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from textassay.runtime.calls.call import Call, Send, Wrapper, decision_group
from textassay.runtime.errors import StorageError
from textassay.runtime.messages import CACHED
from textassay.runtime.model import (
    AnyResponse,
    ChoicesResponse,
    ContinuationResponse,
    Model,
    Response,
    Sample,
    TokenLogprob,
)
from textassay.runtime.questions import (
    DecisionRequest,
    DecisionResponse,
    Question,
    QuestionAnswer,
)
from textassay.runtime.storage import cache_folder
from textassay.runtime.storage.answers import AnswerStore
from textassay.runtime.storage.cache_folder import Verification
from textassay.runtime.storage.files import decode, encode

LEARNED = "learned"
"""The `kind` of entries that hold no answer but what a model takes or refuses."""

_ANSWERS: dict[str, type[AnyResponse]] = {
    "generate": Response,
    "decide": DecisionResponse,
    "choices": ChoicesResponse,
    "continuation": ContinuationResponse,
}


def encode_answer(response: AnyResponse) -> bytes:
    """Return a response as it is stored: without its usage, which was paid only once."""
    if type(response) is Response and _is_bare(response):
        # What the lines below give for it, in a third of the time: each answer is encoded once.
        fields = vars(response).copy()
        del fields["usage"]
        return encode({"kind": "generate", "answer": fields}, default=_encode)
    if isinstance(response, DecisionResponse):
        return encode({"kind": "decide", "answer": _stored_decisions(response)})
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


def _stored_decisions(response: DecisionResponse) -> dict[str, Any]:
    others = response.model_dump(exclude={"usage", "answers"}, exclude_defaults=True)
    return {**others, "answers": [*map(_stored_answer, response.answers)]}


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


class KeptDecisions:
    """The kept answers to a request's questions, whatever they were asked together with."""

    def __init__(self, request: DecisionRequest, values: Iterable[bytes]) -> None:
        """Read the values of a `decision_group`; `ValueError` for one that is damaged."""
        self._questions = request.questions
        self._found: dict[str, tuple[QuestionAnswer, DecisionResponse]] = {}
        for value in values:
            if digests := decode(value).get("questions"):
                response = cast(DecisionResponse, decode_answer(value))
                for digest, answer in zip(digests, response.answers, strict=True):
                    self._found[digest] = answer, response

    @property
    def lacking(self) -> list[Question]:
        """The questions that were not answered yet."""
        return [question for question in self._questions if question.digest not in self._found]

    def respond(self) -> DecisionResponse:
        """Return the answers if none is lacking."""
        found = [self._found[question.digest] for question in self._questions]
        answers = tuple([answer for answer, _ in found])
        return found[0][1].model_copy(update={"answers": answers})

    def complete(self, new: DecisionResponse) -> DecisionResponse:
        """Return the answers, given the response to the lacking questions."""
        if not self._found:
            return new
        following = iter(new.answers)
        answers = [
            self._found[q.digest][0] if q.digest in self._found else next(following)
            for q in self._questions
        ]
        return new.model_copy(update={"answers": tuple(answers)})


def encode_decisions(request: DecisionRequest, response: DecisionResponse) -> bytes:
    """Return answers as they are stored if each would be the same without the others."""
    return encode({
        "kind": "decide",
        "answer": _stored_decisions(response),
        "questions": [question.digest for question in request.questions],
    })  # fmt: skip


async def look_up(store: AnswerStore, key: str) -> AnyResponse | None:
    """Return the response that a store keeps under a key, if any."""
    value = await store.fetch(key)
    return None if value is None else _decode(store, key, value)


def _decode(store: AnswerStore, key: str, value: bytes) -> AnyResponse:
    try:
        return decode_answer(value)
    except ValueError as error:
        raise _unusable(store, key, error) from error


def _unusable(store: AnswerStore, key: str, error: ValueError) -> StorageError:
    return StorageError(
        f"the kept answer {key} in {store.place} cannot be used: {error}; `textassay cache"
        f" verify {store.place}` shows what else is damaged"
    )


def verify(folder: str | Path) -> Verification:
    """Read everything in a cache folder, decode every entry, and report what is damaged."""
    return cache_folder.verify(folder, _check_entry)


def _check_entry(value: bytes) -> None:
    """Raise `ValueError` if a value is neither an answer nor what was learned of a model."""
    fields = decode(value)
    if not isinstance(fields, dict) or fields.get("kind") != LEARNED:
        decode_answer(value)


def _is_asked_again(call: Call, response: AnyResponse) -> bool:
    """Return whether a better answer will come under the same key, with tokens for a thought."""
    return isinstance(response, Response) and (
        response.is_unfinished
        or (call.posting.is_probe and not call.posting.allowance and response.is_cut)
    )


class StoringModel(Wrapper):
    """Keeps every answer before it returns; `CachedModel` looks them up, with the same key.

    Right at the backend, so that a slot is held until its answer is safe: what a killed process has
    asked in vain is then never more than what was in flight.
    """

    def __init__(self, wrapped: Model, store: AnswerStore) -> None:
        super().__init__(wrapped)
        self.store = store
        # The error of a store that failed once: asking on would pay for answers that are lost.
        self._full: StorageError | None = None

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Ask and store; a cancellation that arrives with the answer waits until it is stored."""
        if self._full is not None:
            raise StorageError(str(self._full)) from self._full
        response = await ask(call)
        if _is_asked_again(call, response):
            return response
        try:
            await self._put(call, response)
        except StorageError as error:
            self._full = error
            raise
        return response

    async def _put(self, call: Call, response: AnyResponse) -> None:
        """Store an answer; to typed questions so that each is found by its question, if it can."""
        request = call.request
        if isinstance(request, DecisionRequest) and self.capabilities.independent_questions:
            value = encode_decisions(request, cast(DecisionResponse, response))
        else:
            value = encode_answer(response)
        await self.store.put(call.key(self.identity_bytes), value)


class CachedModel(Wrapper):
    """Answers from the store what it holds; a `StoringModel` inside keeps new answers.

    The store is not closed with the wrapper: models share it, and whoever opened it closes it.
    """

    def __init__(self, wrapped: Model, store: AnswerStore) -> None:
        super().__init__(wrapped)
        self.store = store

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Answer from the store, or ask."""
        request = call.request
        # not `isinstance`, which is slow for a pydantic class that it is not
        if type(request) is DecisionRequest and self.capabilities.independent_questions:
            return await self._decide(request, ask)
        key = call.key(self.identity_bytes)
        value = await self.store.fetch(key)
        # From here to single-flight nothing may be awaited: an answer that was not kept when the
        # store was read is still in flight now, and would not be later.
        return await ask(call) if value is None else _decode(self.store, key, value)

    async def _decide(self, request: DecisionRequest, ask: Send) -> DecisionResponse:
        """Answer from the store, and ask those questions alone that it has no answer to."""
        group = decision_group(self.identity_bytes, request)
        values = await self.store.fetch_group(group)
        try:
            kept = KeptDecisions(request, values)
        except ValueError as error:
            raise _unusable(self.store, f"{group}/", error) from error
        lacking = kept.lacking
        if not lacking:
            return kept.respond()
        return kept.complete(cast(DecisionResponse, await ask(Call(request.about(lacking)))))


class WithIdentity(Wrapper):
    """A model under another identity: the same one at another address, say."""

    def __init__(self, wrapped: Model, identity: Mapping[str, Any]) -> None:
        super().__init__(wrapped)
        self._identity = identity

    @property
    def identity(self) -> Mapping[str, Any]:
        """The identity it is known by."""
        return self._identity
