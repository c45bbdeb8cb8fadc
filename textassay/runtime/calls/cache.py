"""Answers requests from a store instead of a second call: the encoding, and the wrappers.

This module knows requests, responses and an `AnswerStore`, but no files. Errors are never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import ValidationError

from textassay.runtime.base import CACHED
from textassay.runtime.calls.call import Call, Send, Wrapper, decision_group
from textassay.runtime.errors import StorageError
from textassay.runtime.model import (
    AnyResponse,
    ChoicesResponse,
    ContinuationResponse,
    Model,
    Response,
    Sample,
    TokenLogprob,
)
from textassay.runtime.questions import DecisionRequest, DecisionResponse, Question, QuestionAnswer
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.files import decode, encode

_ANSWERS: dict[str, type[AnyResponse]] = {
    "generate": Response,
    "decide": DecisionResponse,
    "choices": ChoicesResponse,
    "continuation": ContinuationResponse,
}
_KINDS = {answer: kind for kind, answer in _ANSWERS.items()}


def encode_answer(response: AnyResponse) -> bytes:
    """Return the stored form of a response, without its usage, which is only paid once."""
    if isinstance(response, DecisionResponse):
        return encode({"kind": "decide", "answer": _stored_decisions(response)})
    fields = vars(response).copy()
    kind: type[AnyResponse] = type(response)
    if kind not in _KINDS:  # a class of the user's may have further fields
        kind = next(answer for answer in _KINDS if isinstance(response, answer))
        fields = {name: fields[name] for name in kind.model_fields}
    del fields["usage"]
    return encode({"kind": _KINDS[kind], "answer": fields}, default=_encode)


def _stored_answer(answer: QuestionAnswer) -> dict[str, Any]:
    """Return the fields of an answer that differ from their defaults."""
    fields = vars(answer)
    stored = {name: v for name, v in fields.items() if v not in (None, (), "", "scored")}
    return stored if answer.problem is None else {**stored, "problem": vars(answer.problem)}


def _stored_decisions(response: DecisionResponse) -> dict[str, Any]:
    others = response.model_dump(exclude={"usage", "answers"}, exclude_defaults=True)
    return {**others, "answers": [*map(_stored_answer, response.answers)]}


def _encode(part: Sample | TokenLogprob) -> dict[str, Any]:
    """Return the stored fields of a part: the optional ones of a sample only with a value."""
    if isinstance(part, TokenLogprob):
        return {"token": part.token, "logprob": part.logprob, "top": part.top}
    names = ["text", "finish_reason", "logprobs"]
    if part.thought is not None or part.from_thought:
        names += ["thought", "from_thought"]
    if part.native is not None:
        names.append("native")
    return {name: getattr(part, name) for name in names}


def decode_answer(value: bytes) -> AnyResponse:
    """Return a stored response, with the usage of a cached call.

    Raises:
        ValueError: The entry is damaged.
    """
    fields = decode(value)
    try:
        kind, answer = fields["kind"], fields["answer"]
        answer["usage"] = CACHED
        return _ANSWERS[kind].model_validate(answer)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no stored answer: {error!r}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


class StoredDecisions:
    """The stored answers to a request's questions, from any requests about the same material."""

    def __init__(self, request: DecisionRequest, values: Iterable[bytes]) -> None:
        """Read the entries of a `decision_group`; `ValueError` if one is damaged."""
        self._questions = request.questions
        self._found: dict[str, tuple[QuestionAnswer, DecisionResponse]] = {}
        for value in values:
            if digests := decode(value).get("questions"):
                response = cast(DecisionResponse, decode_answer(value))
                for digest, answer in zip(digests, response.answers, strict=True):
                    self._found[digest] = answer, response

    @property
    def lacking(self) -> list[Question]:
        """The questions without an answer."""
        return [question for question in self._questions if question.digest not in self._found]

    def respond(self) -> DecisionResponse:
        """Return the answers, all of which must be known."""
        pairs = [self._found[question.digest] for question in self._questions]
        answers = tuple([answer for answer, _ in pairs])
        return pairs[0][1].model_copy(update={"answers": answers})

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
    """Return the stored form of answers whose questions do not influence each other."""
    return encode({
        "kind": "decide",
        "answer": _stored_decisions(response),
        "questions": [question.digest for question in request.questions],
    })  # fmt: skip


async def look_up(store: AnswerStore, key: str) -> AnyResponse | None:
    """Return the response that a store has under a key; `None` if it has none."""
    value = await store.fetch(key)
    return None if value is None else _decode(store, key, value)


def _decode(store: AnswerStore, key: str, value: bytes) -> AnyResponse:
    try:
        return decode_answer(value)
    except ValueError as error:
        raise _unusable(store, key, error) from error


def _unusable(store: AnswerStore, key: str, error: ValueError) -> StorageError:
    return StorageError(
        f"the stored answer {key} in {store.place} cannot be used: {error}; `textassay cache"
        f" verify {store.place}` shows what else is damaged"
    )


def check_entry(value: bytes) -> None:
    """Raise `ValueError` if a value is neither an answer nor the traits of a model."""
    fields = decode(value)
    if not isinstance(fields, dict) or fields.get("kind") != "learned":
        decode_answer(value)


def _will_be_repeated(call: Call, response: AnyResponse) -> bool:
    """Return whether the request will be sent again under this key, with tokens for a thought."""
    return isinstance(response, Response) and (
        response.is_unfinished
        or (call.posting.may_think and not call.posting.allowance and response.is_cut)
    )


class StoringModel(Wrapper):
    """Stores every answer before it returns it; `CachedModel` looks it up under the same key.

    Next to the backend, so that a slot is held until its answer is stored: a killed process then
    loses no more answers than it had calls in flight.
    """

    def __init__(self, wrapped: Model, store: AnswerStore) -> None:
        super().__init__(wrapped)
        self.store = store
        # after an error of the store no call is made, as its answer would be lost
        self._full: StorageError | None = None

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Ask and store; a cancellation that arrives with the answer waits until it is stored."""
        if self._full is not None:
            raise StorageError(str(self._full)) from self._full
        response = await ask(call)
        if _will_be_repeated(call, response):
            return response
        try:
            await self._put(call, response)
        except StorageError as error:
            self._full = error
            raise
        return response

    async def _put(self, call: Call, response: AnyResponse) -> None:
        """Store an answer; answers to independent questions are found by each question."""
        request = call.request
        if isinstance(request, DecisionRequest) and self.capabilities.independent_questions:
            value = encode_decisions(request, cast(DecisionResponse, response))
        else:
            value = encode_answer(response)
        await self.store.put(call.key(self.identity_bytes), value)


class CachedModel(Wrapper):
    """Answers from the store, or asks; a `StoringModel` further in stores new answers.

    Closing the wrapper does not close the store, which models share.
    """

    def __init__(self, wrapped: Model, store: AnswerStore) -> None:
        super().__init__(wrapped)
        self.store = store

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        request = call.request
        # not `isinstance`, which is slow for objects of another pydantic class
        if type(request) is DecisionRequest and self.capabilities.independent_questions:
            return await self._decide(request, ask)
        key = call.key(self.identity_bytes)
        value = await self.store.fetch(key)
        # No `await` from here to single-flight: an answer that was not stored when the store was
        # read is still in flight now, and may not be later.
        return await ask(call) if value is None else _decode(self.store, key, value)

    async def _decide(self, request: DecisionRequest, ask: Send) -> DecisionResponse:
        """Answer from the store, and ask only the questions that it has no answer to."""
        group = decision_group(self.identity_bytes, request)
        values = await self.store.fetch_group(group)
        try:
            stored = StoredDecisions(request, values)
        except ValueError as error:
            raise _unusable(self.store, f"{group}/", error) from error
        lacking = stored.lacking
        if not lacking:
            return stored.respond()
        return stored.complete(
            cast(DecisionResponse, await ask(Call(request.with_questions(lacking))))
        )


class WithIdentity(Wrapper):
    """A model with another identity, such as the same model at another address."""

    def __init__(self, wrapped: Model, identity: Mapping[str, Any]) -> None:
        super().__init__(wrapped)
        self._identity = identity

    @property
    def identity(self) -> Mapping[str, Any]:
        return self._identity
