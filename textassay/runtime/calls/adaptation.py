"""Requests are adapted to a model: parameters that its server refuses are repaired from then on.

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
from typing import Any, Final, cast

from textassay.runtime.calls.call import Call, Send, Wrapper, identity_bytes, layers
from textassay.runtime.calls.retry import probe_like
from textassay.runtime.calls.traits import (
    ALLOWANCES,
    RECORDED_TRAITS,
    Memory,
    ModelTraits,
    Sampling,
    carries,
    choose_effort,
    drop_parameter,
    find_number,
    fit,
    guess_traits,
    limit_number,
    reads_logprobs,
    repair,
)
from textassay.runtime.errors import (
    AnswerUnfinished,
    BudgetReached,
    CapabilityError,
    ContextTooLong,
    MalformedResponse,
    ModelError,
    NoLogprobs,
    RequestRefused,
)
from textassay.runtime.messages import NO_USAGE, Usage
from textassay.runtime.model import (
    AnyResponse,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    Json,
    Model,
    Prompted,
    Request,
    Response,
)
from textassay.runtime.parameters import LOGPROBS, OPTIONAL, SUSPECTS
from textassay.runtime.questions import DecisionRequest
from textassay.runtime.storage.answers import AnswerStore
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
        self._answered_as: list[str] = []
        """Names of the models that answers report, in order."""
        self._omitted: set[str] = set()
        """Optional parameters that calls had and that were not sent."""
        self._tried: set[tuple[object, ...]] = set()
        """The keys of calls (`_shape`) that were answered."""
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
        known = KNOWN.get(self._key) if self.is_remote else None
        return known or guess_traits(self._model)

    @property
    def learned_bytes(self) -> bytes:
        """The traits for a store of answers."""
        return encode(self.learned.model_dump(include={"kind", *RECORDED_TRAITS}))

    @property
    def store_key(self) -> str:
        """The key of the traits in a store of answers."""
        return hashlib.sha256(b"learned" + self._key).hexdigest()

    @property
    def is_guess(self) -> bool:
        """Whether nothing was learned yet."""
        return self.learned == guess_traits(self._model)

    def restore(self, value: bytes) -> None:
        """Begin with the traits that an earlier process has stored."""
        if self._key not in KNOWN:
            stored = ModelTraits.model_validate(decode(value))
            recorded = {name: getattr(stored, name) for name in RECORDED_TRAITS}
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

    def want(self, call: Call) -> Call:
        """Return a call with the parameters that the settings add to it."""
        return self.sampling.put_into(call)

    def adapt(self, call: Call, least: int = 0) -> Call:
        """Return a wanted call as it is sent, with at least `least` tokens for a thought."""
        if self._in_batches and not self.learned.thinks:
            least = max(least, ALLOWANCES[0])
            call = Call(call.request, call.posting._replace(is_probe=True))
        sent = fit(self.learned, call, least)
        if sent.request is not call.request:
            omitted = {n for n in OPTIONAL if carries(call, n) and not carries(sent, n)}
            if not omitted <= self._omitted:
                self._omitted |= omitted
                self.__dict__.pop("differences", None)
        return sent

    def is_tried(self, call: Call) -> bool:
        """Return whether a call with the same parameters was answered, or need not be tried."""
        return self._in_batches or not self.is_remote or _shape(call) in self._tried

    def note_taken(self, call: Call) -> None:
        """Remember that the model takes each parameter of a call."""
        self._tried.add(_shape(call))
        self._taken.update(name for name in SUSPECTS if carries(call, name))

    def note_answer(self, call: Call, answer: AnyResponse) -> None:
        """Learn the model's name, and whether it thinks and sends log-probabilities."""
        if answer.model is not None and answer.model not in self._answered_as:
            self._note_model(answer.model)
        thinks = self.learned.thinks
        if not thinks and _shows_thought(answer):
            thinks = True
            self.learn(thinks=True)
        first = answer.samples[0] if isinstance(answer, Response) else None
        # an answer that is cut off, such as the one token of choices, may begin a thought
        if first is not None and first.finish_reason == "stop":
            self.answers_at_once = not thinks
        # a thought that took all tokens has no log-probabilities
        if not self.sends_logprobs and (first is None or first.logprobs):
            self.sends_logprobs = reads_logprobs(call.request)

    def _note_model(self, name: str) -> None:
        """Record another name that the server gives its model; warn of the second one."""
        names = self._answered_as
        if len(names) == 20:  # gateways may choose among more than a manifest should list
            return
        names.append(name)
        if len(names) == 2:
            _log.warning(
                "the answers of %s come from another model: before from %r, now from %r; scores of"
                " both have the same signature",
                self._model.name,
                *names,
            )

    def note_too_long(self, call: Call) -> None:
        """Learn that prompts of this length or more exceed the context with this allowance."""
        allowance, length = call.posting.allowance, len(call.request.text)
        known = self.learned.too_long
        shortest = min(known.get(allowance, length), length)
        self.learn(too_long={**known, allowance: shortest})

    def allow_more_thought(self, call: Call) -> bool:
        """Learn that a thought took all tokens; return whether the next request has more."""
        allowed, request = call.posting.allowance, call.request
        self.learn(thinks=True)
        if not isinstance(request, (Request, ChoicesRequest)):
            return False
        capped, most = find_number("max_tokens", call), self.learned.most.get("max_tokens")
        if most is not None and capped is not None and capped >= most:
            return False
        if allowed < self.learned.allowance:  # learned from another request meanwhile
            return True
        larger = next((a for a in ALLOWANCES if a > allowed), 0)
        if larger:
            self.learn(allowance=larger)
        return bool(larger)

    # ---- refusals that name no parameter ----

    def find_suspects(self, call: Call) -> list[str]:
        """Return the parameters of a call that may be refused, and may be left out."""
        user_set = {*call.posting.required, *call.request.extra, *self._taken}
        return [name for name in SUSPECTS if name not in user_set and carries(call, name)]

    def probe_without(self, names: Sequence[str], call: Call) -> Call:
        """Return a harmless question with the parameters of a call but for these."""
        probe, request = probe_like(call), call.request
        assert isinstance(request, Prompted)
        assert isinstance(probe.request, Prompted)
        system = [message for message in request.messages if message.role == "system"]
        shown = probe.request.model_copy(update={"messages": (*system, *probe.request.messages)})
        traits = self.learned.learn(unsent=(*self.learned.unsent, *names))
        return fit(traits, probe.about(cast("Request | ChoicesRequest", shown)))

    def drop(self, name: str, call: Call) -> bool:
        """Leave a parameter out from now on; return whether the call had it."""
        before, traits = self.learned, drop_parameter(self.learned, name, call)
        if traits is not before:
            self.adopt(traits)
        return traits is not before

    def send_again(self, name: str) -> None:
        """Undo `drop`."""
        self._omitted.discard(name)
        self.learn(unsent=tuple(other for other in self.learned.unsent if other != name))

    # ---- records ----

    @property
    def described(self) -> dict[str, Any]:
        """How calls differ from the ones that method and settings ask for, for manifests.

        Unlike `differences`, it has changes that affect no answer, such as tokens for thoughts.
        """
        learned = self.learned.model_dump(
            include=RECORDED_TRAITS, exclude_defaults=True, mode="json"
        )
        if len(self._answered_as) > 1:
            learned["answered_as"] = list(self._answered_as)
        return learned | ({"omitted": sorted(self._omitted)} if self._omitted else {})

    @cached_property
    def differences(self) -> tuple[str, ...]:
        """How calls differ from the ones that method and settings ask for, for signatures."""
        # cached until something is learned, as it is read for every score
        traits, sampling = self.learned, self.sampling
        found = [f"unsent:{','.join(sorted(self._omitted))}"] if self._omitted else []
        found += ["json:words"] * ("json_schema" in traits.unsent)
        found += ["functions:words"] * ("functions" in traits.unsent)
        if sampling.effort is not None:
            effort = choose_effort(traits, sampling.effort)
            found += [f"sent-effort:{effort or 'default'}"] * (effort != sampling.effort)
        tokens = sampling.thinking_tokens
        if tokens is not None:
            sent = limit_number(traits, "thinking_tokens", tokens)
            found += [f"sent-thinking_tokens:{sent}"] * (sent != tokens)
        return tuple(found)


def signature_of_method(signature: str) -> str:
    """Return a score's signature without the `differences` of its model."""
    difference = r"unsent:[\w,]+|(?:json|functions):words|sent-\w+:\w+"
    return re.sub(rf"\|(?:[^|]+ )?(?:{difference})(?=\||$)", "", signature)


def _shape(call: Call) -> tuple[object, ...]:
    """Return the key of calls that a server accepts or refuses alike."""
    request, allowance = call.request, call.posting.allowance
    if not isinstance(request, Request):
        assert isinstance(request, Prompted)
        return (type(request), request.temperature, request.effort, allowance)
    return (
        request.temperature,
        request.top_p,
        request.n,
        request.logprobs,
        request.effort,
        allowance,
        request.messages[0].role if request.messages else "prompt",
        request.seed is None,
        not request.stop,
        request.json_schema is None,
        not request.functions,
        *request.extra,
    )


def _shows_thought(response: AnyResponse) -> bool:
    if response.usage.reasoning_tokens:
        return True
    if isinstance(response, Response):
        return bool([sample for sample in response.samples if sample.thought])
    return isinstance(response, ChoicesResponse) and response.follows_thought


class AdaptingModel(Wrapper, Memory):
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
        """The wrapped model's, less those that it has refused."""
        own, learned = self.wrapped.capabilities, self.adaptation.learned
        update: dict[str, Any] = {}
        if learned.thinks or self.adaptation.answers_at_once:
            update["thinks"] = learned.thinks
        if not set(LOGPROBS).isdisjoint(learned.unsent):
            update |= {"logprobs": False, "choices": False}
        elif learned.thinks and own.logprobs and self.adaptation.is_remote:
            # a table of abilities may be true for effort `none` only
            update |= {"logprobs": None, "choices": None}
        return own.model_copy(update=update) if update else own

    @property
    def settings_facts(self) -> Mapping[str, object]:
        """What the settings add to every request."""
        return self.adaptation.sampling.facts

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Answer, repairing parameters that the model refuses."""
        # typed questions are sent as the settings say; `DecidingModel` adapts them
        if type(call.request) is DecisionRequest:
            return await ask(call)
        if not self._is_restored:
            await self.restore()
        adaptation, attempts = self.adaptation, _Attempts(self, call, ask)
        try:
            while True:
                sent, answer = attempts.next(), None
                if adaptation.is_tried(sent):
                    answer = await attempts.ask(sent)
                else:
                    async with adaptation.lock:
                        # the request before this one may have tried it
                        while answer is None and not adaptation.is_tried(sent := attempts.next()):
                            answer = await attempts.ask_first(sent)
                if answer is not None:
                    return answer
        except (ModelError, BudgetReached, CapabilityError) as error:
            await attempts.take_back_guess()
            if attempts.spent is not NO_USAGE:
                error.usage = attempts.spent + (error.usage or NO_USAGE)
            raise

    async def restore(self) -> None:
        if self._is_restored:
            return
        async with self._restoring:  # the first requests come together
            if self._store is None or self._is_restored:
                return
            value = await self._store.fetch(self.adaptation.store_key)
            if value is not None:
                self.adaptation.restore(value)
            elif not self.adaptation.is_guess:
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


class _Attempts:
    """The attempts at one request; each one uses the knowledge from earlier ones."""

    MAX_REPAIRS: Final = 5
    """Changes to one request because its server refuses a parameter."""
    LOGPROB_ATTEMPTS: Final = 3
    """Attempts to get log-probabilities from a model that sends them with other answers: gateways
    choose a provider for each request, and if half of the providers send none, one in eight
    requests still fails."""

    spent = NO_USAGE
    """Cost of the answers that had too few tokens, or no log-probabilities."""
    _repairs = _least_allowance = _without_logprobs = 0
    _guess = ""
    """The parameter that probes found, until the request is answered without it."""

    def __init__(self, model: AdaptingModel, call: Call, ask: Send) -> None:
        self._model, self._adaptation, self._ask = model, model.adaptation, ask
        self._call = self._adaptation.want(call)

    def next(self) -> Call:
        """Return the request as it is sent next."""
        return self._adaptation.adapt(self._call, self._least_allowance)

    async def ask_first(self, sent: Call) -> AnyResponse | None:
        """Do what `ask` does, of a model that may refuse the parameters, or may think."""
        request = sent.request
        if isinstance(request, ChoicesRequest) and request.messages and not sent.posting.allowance:
            # the one token of an answer to choices may be the first of a thought
            self._least_allowance = ALLOWANCES[0]
            sent = self.next()
        answer = await self.ask(Call(sent.request, sent.posting._replace(is_probe=True)))
        if isinstance(answer, Response) and answer.is_cut and not sent.posting.allowance:
            # some servers show a thought that is cut off as if it were the answer
            self._least_allowance = ALLOWANCES[0]
            if self._has_more_than(sent):
                self.spent = answer.usage
                return None
        if answer is not None:
            # without the allowance, too, if the model turned out not to need it
            for taken in (sent, self._adaptation.adapt(self._call)):
                self._adaptation.note_taken(taken)
            await self._model.save()
        return answer

    async def ask(self, sent: Call) -> AnyResponse | None:
        """Return the answer; `None` to ask again, as this attempt has shown something new."""
        adaptation = self._adaptation
        try:
            answer = await self._ask(sent)
        except AnswerUnfinished as error:
            self._widen(sent, error.usage, error)
        except (RequestRefused, NoLogprobs) as error:
            self._count(error)
            if self._lacks_logprobs(error, sent) and await self._sends_logprobs(sent):
                self._without_logprobs += 1
                if self._without_logprobs == self.LOGPROB_ATTEMPTS:
                    raise MalformedResponse(
                        f"{self._model.name} sends log-probabilities with other answers, and sent"
                        f" none with this one in {self.LOGPROB_ATTEMPTS} attempts ({error})"
                    ) from error
            elif not await self._finds_refused(sent, error):
                self._learn(sent, error)
        else:
            self._guess = ""
            adaptation.note_answer(sent, answer)
            if not (
                isinstance(answer, Response)
                and answer.samples[0].finish_reason == "length"
                and answer.is_unfinished
            ):
                if adaptation.unsaved:
                    await self._model.save()
                if self.spent is NO_USAGE:
                    return answer
                return answer.model_copy(update={"usage": self.spent + answer.usage})
            self._widen(sent, answer.usage)
        await self._model.save()
        return None

    async def _finds_refused(self, sent: Call, error: RequestRefused | NoLogprobs) -> bool:
        """Return whether probes find the parameter behind a refusal that names none.

        Each probe leaves out half of the suspects: if it is answered, the refused parameter is
        among them. There are three at most, which is enough for eight suspects.
        """
        adaptation = self._adaptation
        is_vague = isinstance(error, RequestRefused) and error.is_vague
        if not is_vague or adaptation.has_probed or adaptation.is_tried(sent):
            return False
        adaptation.has_probed = True
        suspects = adaptation.find_suspects(sent)
        for _ in range(3):
            if len(suspects) < 2:
                break
            half = suspects[: len(suspects) // 2]
            try:
                answer = await self._ask(adaptation.probe_without(half, sent))
            except RequestRefused as refusal:
                self._count(refusal)
                suspects = suspects[len(half) :]
            else:
                self.spent += answer.usage
                suspects = half
        if len(suspects) != 1 or not adaptation.drop(suspects[0], sent):
            return False
        self._guess = suspects[0]
        return True

    async def take_back_guess(self) -> None:
        """Send the parameter that probes found again, as the request is refused without it, too."""
        if self._guess:
            self._adaptation.send_again(self._guess)
            self._guess = ""
            await self._model.save()

    def _count(self, error: RequestRefused | NoLogprobs) -> None:
        """Add the cost of an error to `spent`, which the last error reports."""
        if error.usage is not None:
            self.spent, error.usage = self.spent + error.usage, None

    @staticmethod
    def _lacks_logprobs(error: RequestRefused | NoLogprobs, call: Call) -> bool:
        """Return whether the request reads log-probabilities that were refused or not sent."""
        refusal, request = error.refusal, call.request
        if refusal is None or refusal.kind != "drop" or refusal.parameter in request.extra:
            return False
        return refusal.parameter in LOGPROBS and reads_logprobs(request)

    async def _sends_logprobs(self, sent: Call) -> bool:
        """Return whether the model sends log-probabilities with other answers.

        A harmless question shows it before the first such answer has come. So the reading of a run
        depends neither on the order of its texts nor on the number of calls in flight.
        """
        if not self._adaptation.sends_logprobs:
            question = probe_like(sent)
            try:
                answer = await self._ask(question)
            except (RequestRefused, NoLogprobs) as error:
                self._count(error)
            else:
                self.spent += answer.usage
                self._adaptation.note_answer(question, answer)
        return self._adaptation.sends_logprobs

    def _widen(self, sent: Call, usage: Usage | None, cause: Exception | None = None) -> None:
        """Give the next attempt more tokens for its thought.

        Raises:
            AnswerUnfinished: It has none left.
        """
        self.spent += usage or NO_USAGE
        if self._adaptation.allow_more_thought(sent) and self._has_more_than(sent):
            return
        request, posting = sent.request, sent.posting
        limit: int | None = posting.allowance
        if isinstance(request, Request):
            limit = posting.most_tokens(request)
        tokens = "tokens that its server allows" if limit is None else f"{limit} tokens"
        raise AnswerUnfinished(
            f"{self._model.name} used all {tokens} before it answered; lower its effort "
            "(effort=low), or use a model that thinks less"
        ) from cause

    def _has_more_than(self, sent: Call) -> bool:
        """Return whether the next attempt has more tokens for its thought.

        The context or the server's maximum may leave none, or the request may have no limit.
        """
        return self.next().posting.allowance > sent.posting.allowance

    def _learn(self, sent: Call, error: RequestRefused | NoLogprobs) -> None:
        """Learn from a refusal; raise it if nothing can be learned."""
        # a thought of fewer than 64 tokens is not shortened any more
        if isinstance(error, ContextTooLong) and sent.posting.allowance > 64:
            self._adaptation.note_too_long(sent)
            return
        if error.refusal is None or self._repairs == self.MAX_REPAIRS:
            raise error
        if error.refusal.kind == "room":
            self._widen(sent, None, error)
            return
        self._repairs += 1
        # another request may have learned meanwhile what this one needs
        if not _is_same(self.next(), sent):
            return
        try:
            before = self._adaptation.learned
            traits = repair(before, error.refusal, sent)
            if traits is before:
                raise error
            self._adaptation.adopt(traits)
            self.next()  # raises if the refused parameter may not be left out
        except CapabilityError as lacking:
            raise CapabilityError(f"{lacking} ({error})") from error


def _is_same(one: Call, other: Call) -> bool:
    """Return whether two calls are sent in the same form."""
    postings = [call.posting._replace(is_probe=False) for call in (one, other)]
    return one.request == other.request and postings[0] == postings[1]


def adaptation_of(model: Model) -> Adaptation | None:
    """Return how requests to a model are adapted; `None` if they are not."""
    found = (getattr(layer, "adaptation", None) for layer in layers(model))
    return next((one for one in found if isinstance(one, Adaptation)), None)
