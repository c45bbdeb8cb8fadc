"""The wrapper that sends requests as a model takes them; see `adaptation.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic

from textassay.runtime.calls.adaptation import ALLOWANCES, LEAST_ALLOWANCE, Adaptation
from textassay.runtime.errors import (
    AnswerUnfinished,
    CapabilityError,
    ContextTooLong,
    NoLogprobs,
    RequestRefused,
)
from textassay.runtime.messages import NO_USAGE, Usage
from textassay.runtime.model import (
    A,
    AnyRequest,
    Capabilities,
    ChoicesRequest,
    Model,
    Q,
    Request,
    Response,
    Wrapper,
)
from textassay.runtime.storage.answers import AnswerStore, RemoteStore

MAX_REPAIRS = 5
"""Times that one request is changed because a server refuses a parameter."""


class AdaptingModel(Wrapper):
    """Sends each request as an `Adaptation` says, and again when that has learned better.

    Outside of the cache, so that answers are filed under what was sent. The first request that has
    a parameter which the model is not known to take goes alone; all that have it wait for it.
    """

    def __init__(
        self, wrapped: Model, adaptation: Adaptation, store: AnswerStore | None = None
    ) -> None:
        """Wrap a model.

        Args:
            wrapped: The model.
            adaptation: What is known of it.
            store: Keeps what is learned for later processes.
        """
        super().__init__(wrapped)
        self.adaptation = adaptation
        self._store = store
        self._is_restored = store is None

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's, less what it has refused."""
        own, learned = self.wrapped.capabilities, self.adaptation.learned
        update: dict[str, Any] = {}
        if learned.thinks or self.adaptation.answers_at_once:
            update["thinks"] = learned.thinks
        if "logprobs" in learned.unsent or "top_logprobs" in learned.unsent:
            update |= {"logprobs": False, "choices": False}
        return own.model_copy(update=update) if update else own

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer with what the model takes.

        Raises:
            AnswerUnfinished: Its thought left no tokens for an answer, however many it was given.
            CapabilityError: It lacks what the answer's meaning rests on, or refuses what the user
                set.
        """
        if not self._is_restored:
            await self._restore()
        adaptation, attempts = self.adaptation, _Attempts(self, request)
        while True:
            sent, answer = attempts.next(), None
            if adaptation.is_tried(sent):
                answer = await attempts.ask(sent, call)
            else:
                async with adaptation.lock:
                    # The one before may have found out.
                    while answer is None and not adaptation.is_tried(sent := attempts.next()):
                        answer = await attempts.probe(sent, call)
            if answer is not None:
                return answer

    async def _restore(self) -> None:
        self._is_restored = True
        store, key = self._store, self.adaptation.store_key
        assert store is not None
        value = await store.fetch(key) if isinstance(store, RemoteStore) else store.get(key)
        if value is not None:
            self.adaptation.restore(value)

    async def save(self) -> None:
        """Have later processes begin with what was learned."""
        if self.adaptation.unsaved and self._store is not None:
            self.adaptation.unsaved = False
            await self._store.put(self.adaptation.store_key, self.adaptation.learned_bytes)


class _Attempts(Generic[Q]):
    """The attempts at one request, each as it was learned from the one before."""

    _spent = NO_USAGE
    _repairs = _least_allowance = 0
    _most_allowance: int | None = None

    def __init__(self, model: AdaptingModel, request: Q) -> None:
        self._model, self._adaptation = model, model.adaptation
        self._request: Q = request

    def next(self) -> Q:
        """Return the request as it is sent next."""
        sent: Q = self._adaptation.fit(self._request, self._least_allowance, self._most_allowance)
        return sent

    async def probe(self, sent: Q, call: Callable[[Q], Awaitable[A]]) -> A | None:
        """Do what `ask` does with a model of which it is not known whether it thinks."""
        if isinstance(sent, ChoicesRequest) and sent.messages and not sent.thought_allowance:
            # The one token that tells choices may be the first of a thought.
            self._least_allowance = ALLOWANCES[0]
            sent = self.next()
        answer = await self.ask(sent.model_copy(update={"probing": True}), call)
        if isinstance(answer, Response) and answer.is_cut and not sent.thought_allowance:
            # Some servers show a thought that is cut off as if it were the answer.
            self._least_allowance = ALLOWANCES[0]
            self._spent = answer.usage
            return None
        if answer is not None:
            # also where it was given tokens for a thought that it turned out not to need
            for request in (sent, self._adaptation.fit(self._request)):
                self._adaptation.note_taken(request)
            self._adaptation.note_answer(answer)
            await self._model.save()
        return answer

    async def ask(self, sent: Q, call: Callable[[Q], Awaitable[A]]) -> A | None:
        """Return the answer; `None` to ask again as was learned from this attempt."""
        try:
            answer = await call(sent)
        except AnswerUnfinished as error:
            self._widen(sent, error.usage, error)
        except (RequestRefused, NoLogprobs) as error:
            self._learn(sent, error)
        else:
            if not self._adaptation.is_usual(answer):
                if isinstance(answer, Response) and answer.is_unfinished:
                    self._widen(sent, answer.usage)
                    await self._model.save()
                    return None
                if not sent.probing:
                    self._adaptation.note_answer(answer)
                    await self._model.save()
            if self._spent is NO_USAGE:
                return answer
            return answer.model_copy(update={"usage": self._spent + answer.usage})
        await self._model.save()
        return None

    def _widen(self, sent: Q, usage: Usage | None, cause: Exception | None = None) -> None:
        """Give the next attempt more tokens for its thought."""
        self._spent += usage or NO_USAGE
        if not self._adaptation.widen(sent):
            raise _unfinished(self._model.name, sent, self._spent) from cause

    def _learn(self, sent: Q, error: RequestRefused | NoLogprobs) -> None:
        """Learn from a refusal; raises it if nothing can be learned."""
        if isinstance(error, ContextTooLong) and sent.thought_allowance > LEAST_ALLOWANCE:
            self._most_allowance = sent.thought_allowance // 4
            return
        if error.refusal is None or self._repairs == MAX_REPAIRS:
            raise error
        if error.refusal.kind == "room":
            self._widen(sent, getattr(error, "usage", None), error)
            return
        self._repairs += 1
        # What another request has learned meanwhile may be all that this one needs.
        if self.next() != sent.model_copy(update={"probing": False}):
            return
        try:
            may_repeat = self._adaptation.learn(error.refusal, sent)
        except CapabilityError as lacking:
            raise CapabilityError(f"{lacking} ({error})") from error
        if not may_repeat:
            raise error


def _unfinished(name: str, sent: AnyRequest, spent: Usage) -> AnswerUnfinished:
    limit = sent.max_tokens if isinstance(sent, Request) else sent.thought_allowance
    error = AnswerUnfinished(
        f"{name} used all {limit} tokens before it answered; lower its effort "
        "(effort=low), or use a model that thinks less"
    )
    error.usage = spent if spent is not NO_USAGE else None
    return error


def adaptation_of(model: Model) -> Adaptation | None:
    """Return how requests to a model are adapted; `None` for one that is asked as it is."""
    while isinstance(model, Wrapper):
        found = getattr(model, "adaptation", None)
        if isinstance(found, Adaptation):
            return found
        model = model.wrapped
    return None
