"""Requests are adapted to what a model takes, as its refusals and answers have shown.

`AdaptingModel` sends a call as `traits.fit` says. A refusal changes the traits for it and every
later one (`traits.repair`), and an answer that shows a thought makes later ones longer. The first
request of each kind goes alone. `OneSamplePerRequest` asks for samples one by one where a model
sends one at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Coroutine, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, cast

from textassay.lazy import lazy_pattern
from textassay.runtime.calls.call import Call, Send, Wrapper, identity_bytes, sender
from textassay.runtime.calls.retry import probe_like
from textassay.runtime.calls.traits import (
    ALLOWANCES,
    LOGPROBS,
    RECORDED_TRAITS,
    SUSPECTS,
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
from textassay.runtime.parameters import OPTIONAL
from textassay.runtime.questions import DecisionRequest
from textassay.runtime.storage.answers import AnswerStore
from textassay.runtime.storage.files import decode, encode

LOGPROB_ATTEMPTS: Final = 3
"""Requests for an answer without log-probabilities of a model that sends them: gateways choose a
provider for each request, so of one half of whose providers send none, one in eight stays."""

MODELS_KEPT = 20
"""Names of models that a run records; gateways may choose among more."""

LEAST_ALLOWANCE = 64
"""Below this a thought is not shortened any more to fit into a context."""

_log = logging.getLogger(__name__)


KNOWN: dict[bytes, ModelTraits] = {}
"""What this process has learned, by identity: later connections to the same model begin with it."""


class Adaptation:
    """What is known of a model and what its answers have shown; one for each connection."""

    def __init__(
        self, model: Model, sampling: Sampling | None = None, *, in_batches: bool = False
    ) -> None:
        self.name = model.name
        # In batches no request goes ahead of the others, and all have tokens for a thought, as an
        # answer that is cut off costs a batch.
        self._model, self._in_batches = model, in_batches
        self.sampling = sampling or Sampling()
        self._has_settings = bool(self.sampling.fields)
        self.unsaved = False
        """Whether something was learned that is not stored yet."""
        self.lock = asyncio.Lock()
        """Held by the request that finds out whether the model takes a parameter."""
        self.answers_at_once = False
        """Whether an answer without a thought has come, and none with one."""
        self.sends_logprobs = False
        """Whether an answer with log-probabilities has come."""
        self.has_probed = False
        """Whether it was probed what a refusal that named nothing was about: once is enough."""
        self._answered_as: list[str] = []
        """The names of models that answers gave, in order; at most `MODELS_KEPT`."""
        self._omitted: set[str] = set()
        self._tried: set[tuple[object, ...]] = set()
        self._taken: set[str] = set()

    @cached_property
    def is_remote(self) -> bool:
        """Whether a server answers, which may refuse what it is sent."""
        return "api_base" in self._model.identity

    @cached_property
    def _key(self) -> bytes:
        return identity_bytes(self._model.identity)

    @cached_property
    def learned(self) -> ModelTraits:
        """What is known of the model by now."""
        known = KNOWN.get(self._key) if self.is_remote else None
        return known or guess_traits(self._model)

    @property
    def learned_bytes(self) -> bytes:
        """What is known of the model, for a store of answers."""
        return encode(self.learned.model_dump(include={"kind", *RECORDED_TRAITS}))

    @property
    def store_key(self) -> str:
        """Key under which a store of answers keeps what was learned."""
        return hashlib.sha256(b"learned" + self._key).hexdigest()

    @property
    def is_guess(self) -> bool:
        """Whether nothing was learned yet."""
        return self.learned == guess_traits(self._model)

    def restore(self, value: bytes) -> None:
        """Begin with what an earlier process has learned and stored."""
        if self._key not in KNOWN:
            stored = ModelTraits.model_validate(decode(value))
            self.learn(
                self.learned.learn(**{name: getattr(stored, name) for name in RECORDED_TRAITS})
            )
            self.unsaved = False

    def learn(self, traits: ModelTraits) -> None:
        """Send what suits these traits from now on."""
        self.learned = traits
        self.__dict__.pop("differences", None)
        # A model of this process, or of a script, is another one with each object.
        if self.is_remote:
            KNOWN[self._key] = traits
        self.unsaved = True

    def learn_most(self, name: str, limit: int) -> None:
        """Learn the largest number of something that the model takes in one request."""
        self.learn(self.learned.learn(most={**self.learned.most, name: limit}))

    def want(self, call: Call) -> Call:
        """Return a call as the settings want it."""
        return self.sampling.put_into(call) if self._has_settings else call

    def adapt(self, call: Call, least: int = 0) -> Call:
        """Return a wanted call as it is sent, with at least so many tokens for a thought."""
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
        """Return whether the model is known to take each parameter of a call, or to refuse."""
        return self._in_batches or not self.is_remote or _shape(call) in self._tried

    def note_taken(self, call: Call) -> None:
        """Learn that the model takes each parameter of a call."""
        self._tried.add(_shape(call))
        self._taken.update(name for name in SUSPECTS if carries(call, name))

    def note_answer(self, response: AnyResponse) -> None:
        """Learn from an answer whether the model thinks."""
        if not self.learned.thinks and _shows_thought(response):
            self.learn(self.learned.learn(thinks=True))
        # what was cut, such as the one token that tells choices, may be the beginning of a thought
        if isinstance(response, Response) and response.samples[0].finish_reason == "stop":
            self.answers_at_once = not self.learned.thinks

    def note_model(self, name: str | None) -> None:
        """Learn which model the server says that it is; warns of the first change."""
        names = self._answered_as
        if name is None or name in names or len(names) == MODELS_KEPT:
            return
        names.append(name)
        if len(names) == 2:
            _log.warning(
                "the answers of %s come from another model: before from %r, now from %r; scores of"
                " both have the same signature",
                self.name,
                *names,
            )

    def note_logprobs(self, call: Call, response: AnyResponse) -> None:
        """Learn from an answer that the model sends log-probabilities."""
        if reads_logprobs(call.request) and not self.sends_logprobs:
            # a thought that took all tokens has none
            is_cut = isinstance(response, Response) and not response.samples[0].logprobs
            self.sends_logprobs = not is_cut

    def note_too_long(self, call: Call) -> None:
        """Learn that prompt and allowance exceed the context, as do longer prompts with it."""
        allowance, length = call.posting.allowance, len(call.request.text)
        known = self.learned.too_long
        shortest = min(known.get(allowance, length), length)
        self.learn(self.learned.learn(too_long={**known, allowance: shortest}))

    def allow_more_thought(self, call: Call) -> bool:
        """Learn that a thought took all tokens; return whether the next request has more."""
        allowed, request = call.posting.allowance, call.request
        self.learn(self.learned.learn(thinks=True))
        if not isinstance(request, Request | ChoicesRequest):
            return False
        capped, most = find_number("max_tokens", call), self.learned.most.get("max_tokens")
        if most is not None and capped is not None and capped >= most:
            return False
        if allowed < self.learned.allowance:  # another request has learned it meanwhile
            return True
        larger = next((a for a in ALLOWANCES if a > allowed), 0)
        if larger:
            self.learn(self.learned.learn(allowance=larger))
        return bool(larger)

    # where a refusal names nothing

    def find_suspects(self, call: Call) -> list[str]:
        """Return the parameters that may be refused: left out if need be, and not known yet."""
        user_set = {*call.posting.required, *call.request.extra, *self._taken}
        return [name for name in SUSPECTS if name not in user_set and carries(call, name)]

    def probe_without(self, names: Sequence[str], call: Call) -> Call:
        """Return a harmless question that is asked like a call, but without some parameters."""
        probe, request = probe_like(call), call.request
        assert isinstance(request, Prompted)
        assert isinstance(probe.request, Prompted)
        system = [message for message in request.messages if message.role == "system"]
        shown = probe.request.model_copy(update={"messages": (*system, *probe.request.messages)})
        traits = self.learned.learn(unsent=(*self.learned.unsent, *names))
        return fit(traits, probe.about(cast("Request | ChoicesRequest", shown)))

    def drop(self, name: str, call: Call) -> bool:
        """Leave a parameter out from now on; return whether the call had it."""
        traits = drop_parameter(self.learned, name, call)
        if traits is not None:
            self.learn(traits)
        return traits is not None

    def send_again(self, name: str) -> None:
        """Take back that the model refuses a parameter: without it the request is refused, too."""
        kept = tuple(other for other in self.learned.unsent if other != name)
        self._omitted.discard(name)
        self.learn(self.learned.learn(unsent=kept))

    # what scores say

    @property
    def described(self) -> dict[str, Any]:
        """How requests differ from those of method and settings, for manifests; empty if none does.

        Unlike `differences`, with what does not change an answer, such as tokens for thoughts.
        """
        learned = self.learned.model_dump(
            include=RECORDED_TRAITS, exclude_defaults=True, mode="json"
        )
        if len(self._answered_as) > 1:
            learned["answered_as"] = list(self._answered_as)
        return learned | ({"omitted": sorted(self._omitted)} if self._omitted else {})

    @cached_property
    def differences(self) -> tuple[str, ...]:
        """How what is sent differs from what method and settings want, for signatures."""
        # kept until something is learned, as it is looked at for every score
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


def _lacks_logprobs(error: RequestRefused | NoLogprobs, call: Call) -> bool:
    """Return whether log-probabilities are refused or missing that a request reads."""
    refusal, request = error.refusal, call.request
    if refusal is None or refusal.kind != "drop" or refusal.parameter in request.extra:
        return False
    return refusal.parameter in LOGPROBS and reads_logprobs(request)


_DIFFERENCE = lazy_pattern(
    r"\|(?:[^|]+ )?(?:unsent:[\w,]+|(?:json|functions):words|sent-\w+:\w+)(?=\||$)"
)


def signature_of_method(signature: str) -> str:
    """Return a score's signature without what it says of how the model differs from the method."""
    return _DIFFERENCE.sub("", signature)


_SHAPE = itemgetter("temperature", "top_p", "n", "logprobs", "effort")


def _shape(call: Call) -> tuple[object, ...]:
    """Return the key of calls that a server accepts or refuses alike."""
    request, allowance = call.request, call.posting.allowance
    if not isinstance(request, Request):
        assert isinstance(request, Prompted)
        return (type(request), request.temperature, request.effort, allowance)
    values = vars(request)
    return (
        *_SHAPE(values),
        allowance,
        values["messages"][0].role if values["messages"] else "prompt",
        values["seed"] is None,
        not values["stop"],
        values["json_schema"] is None,
        not values["functions"],
        *values["extra"],
    )


def _shows_thought(response: AnyResponse) -> bool:
    if isinstance(response, Response):
        shown = any(sample.thought for sample in response.samples)
    else:
        shown = isinstance(response, ChoicesResponse) and response.follows_thought
    return shown or bool(response.usage.reasoning_tokens)


MAX_PROBES: Final = 3
"""Harmless questions by which a refused parameter is found: enough for eight, more than any request
of a method has."""

MAX_REPAIRS = 5
"""Times that one request is changed because a server refuses a parameter."""


class AdaptingModel(Wrapper):
    """Sends each request as an `Adaptation` says, and again when that has learned better.

    Outside of the cache, so that answers are filed under what was sent. The first request of each
    kind goes alone; all that are like it wait for it.
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
        """The wrapped model's, less what it has refused."""
        own, learned = self.wrapped.capabilities, self.adaptation.learned
        update: dict[str, Any] = {}
        if learned.thinks or self.adaptation.answers_at_once:
            update["thinks"] = learned.thinks
        if not set(LOGPROBS).isdisjoint(learned.unsent):
            update |= {"logprobs": False, "choices": False}
        elif learned.thinks and own.logprobs and self.adaptation.is_remote:
            # a table may hold for effort `none` alone
            update |= {"logprobs": None, "choices": None}
        return own.model_copy(update=update) if update else own

    @property
    def settings_facts(self) -> Mapping[str, object]:
        """What the settings add to every request."""
        return self.adaptation.sampling.facts

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Answer with what the model takes."""
        if isinstance(call.request, DecisionRequest):  # as the settings say, and split outside
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
                        # The one before may have found out.
                        while answer is None and not adaptation.is_tried(sent := attempts.next()):
                            answer = await attempts.probe(sent)
                if answer is not None:
                    return answer
        except (ModelError, BudgetReached, CapabilityError) as error:
            await attempts.take_back_guess()
            if attempts.spent is not NO_USAGE:
                error.usage = attempts.spent + (error.usage or NO_USAGE)
            raise

    async def restore(self) -> None:
        """Begin with what an earlier process has learned and stored."""
        if self._is_restored:
            return
        async with self._restoring:  # the first requests come together
            if self._store is None or self._is_restored:
                return
            value = await self._store.fetch(self.adaptation.store_key)
            if value is not None:
                self.adaptation.restore(value)
            elif not self.adaptation.is_guess:
                # known from earlier in this process: whoever replays these answers needs it, too
                self.adaptation.unsaved = True
                await self.save()
            self._is_restored = True

    @property
    def extra(self) -> Json:
        """Further fields that the settings add to every request."""
        return self.adaptation.sampling.extra

    def most(self, name: str) -> int:
        """Return the largest number of something that the model takes; 0 if it is not known."""
        return self.adaptation.learned.most.get(name, 0)

    def learn_most(self, name: str, limit: int) -> None:
        """Learn the largest number of something that the model takes in one request."""
        self.adaptation.learn_most(name, limit)

    async def save(self) -> None:
        """Have later processes begin with what was learned."""
        if self.adaptation.unsaved and self._store is not None:
            self.adaptation.unsaved = False
            await self._store.put(self.adaptation.store_key, self.adaptation.learned_bytes)


class _Attempts:
    """The attempts at one request, each as it was learned from the one before."""

    def __init__(self, model: AdaptingModel, call: Call, ask: Send) -> None:
        self._model, self._adaptation, self._ask = model, model.adaptation, ask
        self._call = self._adaptation.want(call)
        self.spent = NO_USAGE
        """What answers cost that had too few tokens, or no log-probabilities."""
        self._repairs = self._least_allowance = self._without_logprobs = 0
        self._guess = ""
        """The parameter that probes found to be refused, until the request is answered without."""

    def next(self) -> Call:
        """Return the request as it is sent next."""
        return self._adaptation.adapt(self._call, self._least_allowance)

    async def probe(self, sent: Call) -> AnyResponse | None:
        """Do what `ask` does with a model of which it is not known whether it thinks."""
        request = sent.request
        if isinstance(request, ChoicesRequest) and request.messages and not sent.posting.allowance:
            # The one token that tells choices may be the first of a thought.
            self._least_allowance = ALLOWANCES[0]
            sent = self.next()
        answer = await self.ask(Call(sent.request, sent.posting._replace(is_probe=True)))
        if isinstance(answer, Response) and answer.is_cut and not sent.posting.allowance:
            # Some servers show a thought that is cut off as if it were the answer.
            self._least_allowance = ALLOWANCES[0]
            if self._has_more_than(sent):
                self.spent = answer.usage
                return None
        if answer is not None:
            # also where it was given tokens for a thought that it turned out not to need
            for taken in (sent, self._adaptation.adapt(self._call)):
                self._adaptation.note_taken(taken)
            await self._model.save()
        return answer

    async def ask(self, sent: Call) -> AnyResponse | None:
        """Return the answer; `None` to ask again as was learned from this attempt."""
        try:
            answer = await self._ask(sent)
        except AnswerUnfinished as error:
            self._widen(sent, error.usage, error)
        except (RequestRefused, NoLogprobs) as error:
            self._count(error)
            if _lacks_logprobs(error, sent) and await self._sends_logprobs(sent):
                self._without_logprobs += 1
                if self._without_logprobs == LOGPROB_ATTEMPTS:
                    raise MalformedResponse(
                        f"{self._model.name} sends log-probabilities with other answers, and sent"
                        f" none with this one in {LOGPROB_ATTEMPTS} attempts ({error})"
                    ) from error
            elif not await self._finds_refused(sent, error):
                self._learn(sent, error)
        else:
            self._guess = ""
            self._adaptation.note_logprobs(sent, answer)
            self._adaptation.note_model(answer.model)
            if isinstance(answer, Response) and answer.is_unfinished:
                self._widen(sent, answer.usage)
                await self._model.save()
                return None
            self._adaptation.note_answer(answer)
            await self._model.save()
            if self.spent is NO_USAGE:
                return answer
            return answer.model_copy(update={"usage": self.spent + answer.usage})
        await self._model.save()
        return None

    async def _finds_refused(self, sent: Call, error: RequestRefused | NoLogprobs) -> bool:
        """Return whether probes find what a refusal that names nothing is about.

        Each leaves out half of the parameters that may be refused: if it is answered, the refused
        one is among them.
        """
        adaptation = self._adaptation
        is_vague = isinstance(error, RequestRefused) and error.is_vague
        if not is_vague or adaptation.has_probed or adaptation.is_tried(sent):
            return False
        adaptation.has_probed = True
        suspects = adaptation.find_suspects(sent)
        for _ in range(MAX_PROBES):
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
        """Send what probes found again: the request is refused without it, too."""
        if self._guess:
            self._adaptation.send_again(self._guess)
            self._guess = ""
            await self._model.save()

    def _count(self, error: RequestRefused | NoLogprobs) -> None:
        """Count what an error cost here: what is raised in the end has the sum."""
        if error.usage is not None:
            self.spent, error.usage = self.spent + error.usage, None

    async def _sends_logprobs(self, sent: Call) -> bool:
        """Return whether the model sends log-probabilities with other answers.

        A harmless question finds it out before the first such answer. So what a run reads depends
        neither on the order of its texts nor on the number of calls in flight.
        """
        if not self._adaptation.sends_logprobs:
            question = probe_like(sent)
            try:
                answer = await self._ask(question)
            except (RequestRefused, NoLogprobs) as error:
                self._count(error)
            else:
                self.spent += answer.usage
                self._adaptation.note_logprobs(question, answer)
        return self._adaptation.sends_logprobs

    def _widen(self, sent: Call, usage: Usage | None, cause: Exception | None = None) -> None:
        """Give the next attempt more tokens for its thought."""
        self.spent += usage or NO_USAGE
        if not self._adaptation.allow_more_thought(sent) or not self._has_more_than(sent):
            raise _out_of_tokens_error(self._model.name, sent) from cause

    def _has_more_than(self, sent: Call) -> bool:
        """Return whether the next attempt has more tokens for its thought.

        It has not where the context, the server's maximum, or a request without a limit leaves
        none.
        """
        return self.next().posting.allowance > sent.posting.allowance

    def _learn(self, sent: Call, error: RequestRefused | NoLogprobs) -> None:
        """Learn from a refusal; raises it if nothing can be learned."""
        if isinstance(error, ContextTooLong) and sent.posting.allowance > LEAST_ALLOWANCE:
            self._adaptation.note_too_long(sent)
            return
        if error.refusal is None or self._repairs == MAX_REPAIRS:
            raise error
        if error.refusal.kind == "room":
            self._widen(sent, None, error)
            return
        self._repairs += 1
        # What another request has learned meanwhile may be all that this one needs.
        if not _is_same(self.next(), sent):
            return
        try:
            traits = repair(self._adaptation.learned, error.refusal, sent)
            if traits is None:
                raise error
            self._adaptation.learn(traits)
            self.next()  # raises where what is refused may not be left out
        except CapabilityError as lacking:
            raise CapabilityError(f"{lacking} ({error})") from error


def _is_same(one: Call, other: Call) -> bool:
    """Return whether two calls are sent in the same form."""
    postings = [call.posting._replace(is_probe=False) for call in (one, other)]
    return one.request == other.request and postings[0] == postings[1]


def _out_of_tokens_error(name: str, sent: Call) -> AnswerUnfinished:
    request, limit = sent.request, cast("int | None", sent.posting.allowance)
    if isinstance(request, Request):
        limit = sent.posting.most_tokens(request)
    tokens = "tokens that its server allows" if limit is None else f"{limit} tokens"
    return AnswerUnfinished(
        f"{name} used all {tokens} before it answered; lower its effort "
        "(effort=low), or use a model that thinks less"
    )


def adaptation_of(model: Model) -> Adaptation | None:
    """Return how requests to a model are adapted; `None` for one that is asked as it is."""
    while isinstance(model, Wrapper):
        found = getattr(model, "adaptation", None)
        if isinstance(found, Adaptation):
            return found
        model = model.wrapped
    return None


MAX_SAMPLES_PER_DRAW = 1000
"""Sample i of a request with draw d becomes draw `1000 * d + i`, so that no two samples of one
prompt share a draw."""


class OneSamplePerRequest(Wrapper):
    """Splits a request for `n` samples into `n` concurrent ones if the model gives one each.

    Request by request, sample `i` (from 0) of draw `d` is asked as draw `1000 d + i` with `n = 1`;
    a request for one sample is renumbered in the same way, so whatever mixture of `n` and `draw` is
    asked for one prompt, two samples have equal draws only if they have equal `d` and `i`. Asking
    for more samples of the same draw thereby repeats the first ones, which a cache answers. Unless
    the model is known to be unable, nothing is changed.
    """

    @cached_property
    def _splits(self) -> bool:
        """Whether the model gives one sample per request, as far as known before the first call."""
        return self.wrapped.capabilities.n is False

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's, with several samples."""
        own = self.wrapped.capabilities
        return own.model_copy(update={"n": True}) if own.n is False else own

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Answer, sample by sample if needed; the first failure cancels the other samples."""
        # Not `async`: with a model that takes `n`, this wrapper adds no coroutine of its own.
        if self._splits and isinstance(call.request, Request):
            return self._split(call, call.request)
        return sender(self.wrapped)(call)

    async def _split(self, call: Call, request: Request) -> AnyResponse:
        if request.n > MAX_SAMPLES_PER_DRAW:
            raise CapabilityError(
                f"{self.name} returns one sample per request; n={request.n} is above"
                f" {MAX_SAMPLES_PER_DRAW}"
            )
        first = MAX_SAMPLES_PER_DRAW * request.draw
        singles = [
            call.about(request.model_copy(update={"n": 1, "draw": first + index}))
            for index in range(request.n)
        ]
        ask = sender(self.wrapped)
        if len(singles) == 1:
            return await ask(singles[0])
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(single)) for single in singles]
        except BaseExceptionGroup as failures:
            # Wrappers further out decide by the class of an error, which a group would hide.
            raise failures.exceptions[0] from None
        return _join_responses([cast(Response, task.result()) for task in tasks])


def _join_responses(responses: list[Response]) -> Response:
    """Return all samples as one response, in order, with the sum of usage."""
    return Response(
        samples=tuple(sample for response in responses for sample in response.samples),
        usage=sum((response.usage for response in responses), Usage()),
        model=responses[0].model,
    )
