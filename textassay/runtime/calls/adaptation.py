"""Adapts requests to a model: repairs parameters that its server refuses, from then on.

`AdaptingModel` sends a call as `traits.fit` returns it. A refusal changes the traits for this call
and all later ones (`traits.repair`), and an answer that shows a thought gives later calls tokens
for one. The first request of each kind goes alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from textassay.runtime.base import NO_USAGE, Json, Usage
from textassay.runtime.calls.call import Call, Send, Wrapper, identity_bytes, layers
from textassay.runtime.calls.retry import probe_like
from textassay.runtime.calls.traits import (
    ALLOWANCES,
    RECORDED_TRAITS,
    AdaptationMemory,
    ModelTraits,
    Sampling,
    acceptance_key,
    carries,
    choose_effort,
    fit,
    guess_traits,
    limit_number,
    reads_logprobs,
    repair,
)
from textassay.runtime.errors import (
    AnswerUnfinished,
    CapabilityError,
    ContextTooLong,
    MalformedResponse,
    NoLogprobs,
    Refusal,
    RequestRefused,
    TextassayError,
)
from textassay.runtime.model import (
    AnyResponse,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    Model,
    Request,
    Response,
)
from textassay.runtime.parameters import LOGPROBS, OPTIONAL, SUSPECTS
from textassay.runtime.questions import DecisionRequest
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.files import decode, encode

_log = logging.getLogger(__name__)

KNOWN: dict[bytes, ModelTraits] = {}
"""Traits that this process has learned, by identity: later connections begin with them."""


class Adaptation:
    """A connection's knowledge about its model, learned from refusals and answers."""

    def __init__(
        self, model: Model, sampling: Sampling | None = None, *, in_batches: bool = False
    ) -> None:
        self._model, self.sampling = model, sampling or Sampling()
        # In batches no request goes ahead of the others, and all have tokens for a thought, as an
        # answer that is cut off costs a batch.
        self._in_batches = in_batches
        self.unsaved = False
        """Whether something was learned that is not stored yet."""
        self.lock = asyncio.Lock()
        """Held by a request that shows whether the model takes its parameters."""
        self.answers_at_once = False
        """Whether an answer without a thought has come, and none with one."""
        self.sends_logprobs = False
        """Whether an answer with log-probabilities has come."""
        self.has_probed = False
        """Whether probes have looked for a refused parameter, which they do once."""
        self.answered_as: list[str] = []
        """Names of the models that answers report, in order; a resumed run begins with its own."""
        self._omitted: set[str] = set()
        """Optional parameters that calls had and that were not sent."""
        self._tried: set[tuple[object, ...]] = set()
        """The keys of calls (`acceptance_key`) that were answered."""
        self._taken: set[str] = set()
        """Parameters of such calls."""

    @cached_property
    def is_remote(self) -> bool:
        """Whether a server answers, which may refuse parameters."""
        return "api_base" in self._model.identity

    @cached_property
    def _key(self) -> bytes:
        return identity_bytes(self._model.identity)

    @cached_property
    def learned(self) -> ModelTraits:
        """The model's traits as known so far."""
        learned = KNOWN.get(self._key) if self.is_remote else None
        return learned or guess_traits(self._model)

    @property
    def learned_bytes(self) -> bytes:
        """The traits for a store of answers."""
        return encode(self.learned.model_dump(include={"kind", *RECORDED_TRAITS}))

    @property
    def store_key(self) -> str:
        """The key of the traits in a store of answers."""
        return hashlib.sha256(b"learned" + self._key).hexdigest()

    def restore(self, value: bytes) -> None:
        """Begin with the traits that an earlier process has stored."""
        if self._key not in KNOWN:
            stored = ModelTraits.model_validate(decode(value))
            recorded = stored.model_dump(include=RECORDED_TRAITS)
            self.adopt(self.learned.learn(**recorded), unsaved=False)

    def learn(self, **update: Any) -> None:
        """Replace some of the traits."""
        self.adopt(self.learned.learn(**update))

    def adopt(self, traits: ModelTraits, *, unsaved: bool = True) -> None:
        """Adapt later calls to these traits."""
        self.learned = traits
        self.__dict__.pop("differences", None)
        # Models of this process, and scripts, may differ although their identities are equal.
        if self.is_remote:
            KNOWN[self._key] = traits
        self.unsaved = unsaved

    def adapt(self, call: Call, floor: int = 0) -> Call:
        """Return the adapted form of a wanted call, with `floor` tokens for a thought or more."""
        if self._in_batches and not self.learned.thinks:
            floor = max(floor, ALLOWANCES[0])
            call = Call(call.request, call.posting._replace(may_think=True))
        adapted = fit(self.learned, call, floor)
        if adapted.request is not call.request:
            omitted = {n for n in OPTIONAL if carries(call, n) and not carries(adapted, n)}
            if not omitted <= self._omitted:
                self._omitted |= omitted
                self.__dict__.pop("differences", None)
        return adapted

    def is_tried(self, call: Call) -> bool:
        """Return whether a call with the same parameters was answered, or need not be tried."""
        return self._in_batches or not self.is_remote or acceptance_key(call) in self._tried

    def note_taken(self, call: Call) -> None:
        """Remember that the model takes each parameter of a call."""
        self._tried.add(acceptance_key(call))
        self._taken.update(name for name in SUSPECTS if carries(call, name))

    def note_answer(self, call: Call, answer: AnyResponse) -> None:
        """Learn the model's name, and whether it thinks and sends log-probabilities."""
        names = self.answered_as
        # a gateway may choose among more than a manifest should list
        if answer.model and len(names) < 20 and answer.model not in names:
            names.append(answer.model)
            if len(names) == 2:
                _log.warning(
                    "the answers of %s come from another model: before from %r, now from %r; scores"
                    " of both have the same signature",
                    self._model.name,
                    *names,
                )
        if not self.learned.thinks and _shows_thought(answer):
            self.learn(thinks=True)
        first = answer.samples[0] if isinstance(answer, Response) else None
        # an answer that is cut off, such as the one token of choices, may begin a thought
        if first is not None and first.finish_reason == "stop":
            self.answers_at_once = not self.learned.thinks
        # a thought that took all tokens has no log-probabilities
        if not self.sends_logprobs and (first is None or first.logprobs):
            self.sends_logprobs = reads_logprobs(call.request)

    def note_too_long(self, call: Call) -> None:
        """Learn that prompts of this length or more exceed the context with this allowance."""
        allowance, length = call.posting.allowance, len(call.request.text)
        too_long = self.learned.too_long
        self.learn(too_long={**too_long, allowance: min(too_long.get(allowance, length), length)})

    def allow_more_thought(self, call: Call) -> None:
        """Learn that a thought took all tokens of a call: later ones have more."""
        larger = next((a for a in ALLOWANCES if a > call.posting.allowance), 0)
        self.learn(thinks=True, allowance=max(larger, self.learned.allowance))

    def find_suspects(self, call: Call) -> list[str]:
        """Return the parameters of a call that may be refused, and that a probe may lack."""
        others = {*call.request.extra, *self._taken}
        return [name for name in SUSPECTS if name not in others and carries(call, name)]

    def probe_without(self, names: Sequence[str], call: Call) -> Call:
        """Return a harmless question with the parameters of a call except these."""
        request: Any = call.request
        question: Any = probe_like(call).request
        system = [message for message in request.messages if message.role == "system"]
        probe = question.model_copy(update={"messages": (*system, *question.messages)})
        traits = self.learned.learn(unsent=(*self.learned.unsent, *names))
        return fit(traits, Call(probe, call.posting._replace(required=())))

    def send_again(self, name: str) -> None:
        """Send a parameter that was left out."""
        self._omitted.discard(name)
        self.learn(unsent=tuple(other for other in self.learned.unsent if other != name))

    @property
    def described(self) -> dict[str, Any]:
        """How calls differ from the ones that method and settings ask for, for manifests.

        Unlike `differences`, it has changes that affect no answer, such as tokens for thoughts.
        """
        learned = self.learned.model_dump(
            include=RECORDED_TRAITS, exclude_defaults=True, mode="json"
        )
        if self.answered_as:
            learned["answered_as"] = list(self.answered_as)
        return learned | ({"omitted": sorted(self._omitted)} if self._omitted else {})

    @cached_property
    def differences(self) -> tuple[str, ...]:
        """How calls differ from the ones that method and settings ask for, for signatures."""
        # cached until something is learned, as it is read for every score
        traits, sampling = self.learned, self.sampling
        differences = [f"unsent:{','.join(sorted(self._omitted))}"] if self._omitted else []
        differences += ["json:words"] * ("json_schema" in traits.unsent)
        differences += ["functions:words"] * ("functions" in traits.unsent)
        if sampling.effort is not None:
            effort = choose_effort(traits, sampling.effort)
            differences += [f"sent-effort:{effort or 'default'}"] * (effort != sampling.effort)
        tokens = sampling.thinking_tokens
        if tokens is not None:
            limited = limit_number(traits, "thinking_tokens", tokens)
            differences += [f"sent-thinking_tokens:{limited}"] * (limited != tokens)
        return tuple(differences)


def signature_of_method(signature: str) -> str:
    """Return a score's signature without the `differences` of its model."""
    difference = r"unsent:[\w,]+|(?:json|functions):words|sent-\w+:\w+"
    return re.sub(rf"\|(?:[^|]+ )?(?:{difference})(?=\||$)", "", signature)


def _shows_thought(response: AnyResponse) -> bool:
    if response.usage.reasoning_tokens:
        return True
    if isinstance(response, Response):
        return bool([sample for sample in response.samples if sample.thought])
    return isinstance(response, ChoicesResponse) and response.follows_thought


class AdaptingModel(Wrapper, AdaptationMemory):
    """Sends each request as an `Adaptation` says, and again if that learned better.

    Outside of the cache, so that answers are filed under the request that was sent. The first
    request of each kind goes alone, and similar ones wait for it.
    """

    def __init__(
        self, wrapped: Model, adaptation: Adaptation, store: AnswerStore | None = None
    ) -> None:
        super().__init__(wrapped)
        self.adaptation = adaptation
        self._store = store
        self._is_restored = store is None
        self._restoring = asyncio.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's capabilities, without the refused ones."""
        capabilities, learned = self.wrapped.capabilities, self.adaptation.learned
        update: dict[str, Any] = {}
        if learned.thinks or self.adaptation.answers_at_once:
            update["thinks"] = learned.thinks
        if not set(LOGPROBS).isdisjoint(learned.unsent):
            update |= {"logprobs": False, "choices": False}
        elif learned.thinks and capabilities.logprobs and self.adaptation.is_remote:
            # a table of abilities may be true for effort `none` only
            update |= {"logprobs": None, "choices": None}
        return capabilities.model_copy(update=update) if update else capabilities

    @property
    def settings_facts(self) -> Mapping[str, object]:
        return self.adaptation.sampling.facts

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        # typed questions are sent as the settings say; `DecidingModel` adapts them
        if type(call.request) is DecisionRequest:
            return await ask(call)
        if not self._is_restored:
            await self.restore()
        adaptation, attempts = self.adaptation, _AdaptedCall(self, call, ask)
        try:
            while True:
                attempt, answer = attempts.next(), None
                if adaptation.is_tried(attempt):
                    answer = await attempts.ask(attempt)
                else:
                    async with adaptation.lock:
                        # the request before this one may have tried it
                        while answer is None and not adaptation.is_tried(
                            attempt := attempts.next()
                        ):
                            answer = await attempts.ask_first(attempt)
                if answer is not None:
                    return answer
        except TextassayError as error:
            if attempts.guess:  # the request is refused without this parameter, too
                adaptation.send_again(attempts.guess)
                await self.save()
            if attempts.spent is not NO_USAGE:
                error.usage = attempts.spent + (error.usage or NO_USAGE)
            raise

    async def restore(self) -> None:
        async with self._restoring:  # the first requests come together
            if self._store is None or self._is_restored:
                return
            value = await self._store.fetch(self.adaptation.store_key)
            if value is not None:
                self.adaptation.restore(value)
            elif self.adaptation.learned != guess_traits(self.wrapped):
                # learned earlier in this process: replays of this store need it, too
                self.adaptation.unsaved = True
                await self.save()
            self._is_restored = True

    async def save(self) -> None:
        if self.adaptation.unsaved and self._store is not None:
            self.adaptation.unsaved = False
            await self._store.put(self.adaptation.store_key, self.adaptation.learned_bytes)

    @property
    def extra(self) -> Json:
        return self.adaptation.sampling.extra

    def most(self, name: str) -> int:
        return self.adaptation.learned.most.get(name, 0)

    def learn_most(self, name: str, limit: int) -> None:
        self.adaptation.learn(most={**self.adaptation.learned.most, name: limit})


class _AdaptedCall:
    """The attempts at one request; each one uses the knowledge from earlier ones."""

    MAX_REPAIRS: Final = 5
    """Changes to one request because its server refuses a parameter: OpenAI's models that think
    refuse `max_tokens`, `temperature`, `top_p`, `stop` and `logprobs` (docs/thinking.md)."""
    LOGPROB_ATTEMPTS: Final = 3
    """Attempts to get log-probabilities from a model that sends them with other answers: gateways
    choose a provider for each request, and if half of the providers send none, one in eight
    requests still fails."""

    spent = NO_USAGE
    """Cost of the answers that had too few tokens, or no log-probabilities."""
    _repairs = _least_allowance = _without_logprobs = 0
    guess = ""
    """The parameter that probes found, until the request is answered without it."""

    def __init__(self, model: AdaptingModel, call: Call, ask: Send) -> None:
        self._model, self._adaptation, self._ask = model, model.adaptation, ask
        self._call = self._adaptation.sampling.apply_to(call)

    def next(self) -> Call:
        """Return the request to send next."""
        self._known = self._adaptation.learned
        return self._adaptation.adapt(self._call, self._least_allowance)

    async def ask_first(self, attempt: Call) -> AnyResponse | None:
        """Do what `ask` does, of a model that may refuse the parameters, or may think."""
        request = attempt.request
        if (
            isinstance(request, ChoicesRequest)
            and request.messages
            and not attempt.posting.allowance
        ):
            # the one token of an answer to choices may be the first of a thought
            self._least_allowance = ALLOWANCES[0]
            attempt = self.next()
        answer = await self.ask(Call(attempt.request, attempt.posting._replace(may_think=True)))
        if isinstance(answer, Response) and answer.is_cut and not attempt.posting.allowance:
            # some servers show a thought that is cut off as if it were the answer
            self._least_allowance = ALLOWANCES[0]
            if self._has_more_than(attempt):
                self.spent = answer.usage
                return None
        if answer is not None:
            # without the allowance, too, if the model turned out not to need it
            for call in (attempt, self._adaptation.adapt(self._call)):
                self._adaptation.note_taken(call)
        return answer

    async def ask(self, attempt: Call) -> AnyResponse | None:
        """Return the answer; `None` to ask again, as this attempt has shown something new."""
        try:
            answer = await self._ask(attempt)
        except AnswerUnfinished as error:
            self._widen(attempt, error.usage, error)
        except (RequestRefused, NoLogprobs) as error:
            self._count(error)
            refusal = error.refusal
            lacks_logprobs = refusal and refusal.kind == "drop" and refusal.parameter in LOGPROBS
            if (
                lacks_logprobs
                and reads_logprobs(attempt.request)
                and await self._sends_logprobs(attempt)
            ):
                self._without_logprobs += 1
                if self._without_logprobs == self.LOGPROB_ATTEMPTS:
                    raise MalformedResponse(
                        f"{self._model.name} sends log-probabilities with other answers, and sent"
                        f" none with this one in {self.LOGPROB_ATTEMPTS} attempts ({error})"
                    ) from error
            else:
                self._learn(attempt, error, refusal or await self._probe(attempt, error))
        else:
            self.guess = ""
            self._adaptation.note_answer(attempt, answer)
            if not (
                isinstance(answer, Response)
                and answer.samples[0].finish_reason == "length"
                and answer.is_unfinished
            ):
                if self._adaptation.unsaved:
                    await self._model.save()
                if self.spent is NO_USAGE:
                    return answer
                return answer.model_copy(update={"usage": self.spent + answer.usage})
            self._widen(attempt, answer.usage)
        await self._model.save()
        return None

    async def _probe(self, attempt: Call, error: RequestRefused | NoLogprobs) -> Refusal | None:
        """Return the refusal of the parameter that probes find, if a refusal names none.

        Each probe leaves out half of the suspects: if it is answered, the refused parameter is
        among them. There are three at most, which is enough for eight suspects. A parameter that
        the user set stops the run, so two more probes, with it and without it, have to show that it
        is refused, and not the text.
        """
        adaptation = self._adaptation
        is_vague = isinstance(error, RequestRefused) and error.is_vague
        if not is_vague or adaptation.has_probed or adaptation.is_tried(attempt):
            return None
        adaptation.has_probed = True
        suspects = adaptation.find_suspects(attempt)
        for _ in range(3):
            if len(suspects) < 2:
                break
            half = suspects[: len(suspects) // 2]
            is_answered = await self._answer(adaptation.probe_without(half, attempt))
            suspects = half if is_answered else suspects[len(half) :]
        if len(suspects) != 1:
            return None
        if suspects[0] in attempt.posting.required:
            with_it, without = (
                adaptation.probe_without(names, attempt) for names in ((), suspects)
            )
            if await self._answer(with_it) or not await self._answer(without):
                return None
        self.guess = suspects[0]
        return Refusal("drop", self.guess)

    def _count(self, error: RequestRefused | NoLogprobs) -> None:
        """Add the cost of an error to `spent`, which the last error reports."""
        if error.usage is not None:
            self.spent, error.usage = self.spent + error.usage, None

    async def _sends_logprobs(self, attempt: Call) -> bool:
        """Return whether the model sends log-probabilities with other answers.

        A harmless question shows it before the first such answer has come. So the reading of a run
        depends neither on the order of its texts nor on the number of calls in flight.
        """
        if not self._adaptation.sends_logprobs:
            question = probe_like(attempt)
            if answer := await self._answer(question):
                self._adaptation.note_answer(question, answer)
        return self._adaptation.sends_logprobs

    async def _answer(self, question: Call) -> AnyResponse | None:
        """Return the answer to a harmless question; `None` if it is refused."""
        try:
            answer = await self._ask(question)
        except (RequestRefused, NoLogprobs) as error:
            self._count(error)
            return None
        self.spent += answer.usage
        return answer

    def _widen(self, attempt: Call, usage: Usage | None, cause: Exception | None = None) -> None:
        """Give the next attempt more tokens for its thought; raise if none are left."""
        self.spent += usage or NO_USAGE
        self._adaptation.allow_more_thought(attempt)
        if self._has_more_than(attempt):
            return
        request, posting = attempt.request, attempt.posting
        limit = posting.most_tokens(request) if isinstance(request, Request) else posting.allowance
        tokens = "tokens that its server allows" if limit is None else f"{limit} tokens"
        raise AnswerUnfinished(
            f"{self._model.name} spent all {tokens} on its thought; set effort=low, or use a model"
            " that thinks less"
        ) from cause

    def _has_more_than(self, attempt: Call) -> bool:
        """Return whether the next attempt has more tokens for its thought, if any are left."""
        return self.next().posting.allowance > attempt.posting.allowance

    def _learn(
        self, attempt: Call, error: RequestRefused | NoLogprobs, refusal: Refusal | None
    ) -> None:
        """Learn from a refusal; raise it if nothing can be learned."""
        # a thought of fewer than 64 tokens is not shortened any more
        if isinstance(error, ContextTooLong) and attempt.posting.allowance > 64:
            self._adaptation.note_too_long(attempt)
            return
        if refusal is None or self._repairs == self.MAX_REPAIRS:
            raise error
        if refusal.kind == "room":
            self._widen(attempt, None, error)
            return
        self._repairs += 1
        before = self._adaptation.learned
        # another request may have learned meanwhile what this one needs
        if before != self._known and not self.guess:
            return
        try:
            traits = repair(before, refusal, attempt)
            if traits is before:
                raise error
            self._adaptation.adopt(traits)
            self.next()  # raises if the refused parameter may not be left out
        except CapabilityError as lacking:
            raise CapabilityError(f"{lacking} ({error})") from error


def adaptation_of(model: Model) -> Adaptation | None:
    """Return how requests to a model are adapted; `None` if they are not."""
    candidates = (getattr(layer, "adaptation", None) for layer in layers(model))
    return next((candidate for candidate in candidates if isinstance(candidate, Adaptation)), None)
