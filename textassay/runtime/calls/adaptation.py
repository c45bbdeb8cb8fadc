"""How requests are adapted to what a model takes, as learned from what its server refuses.

Providers differ in the parameters that they take, and models that think take few of them and need
tokens for their thoughts. No table of names keeps up with them, so a request is sent as the method
and the settings want it, a refusal that names a parameter changes it and every later one, and an
answer that shows a thought makes later ones longer. Knows requests and refusals; knows nothing of
how they are written on the wire.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Generic, Literal, TypeVar, cast

from textassay.lazy import lazy_pattern
from textassay.runtime.calls.budget import is_worth_caching
from textassay.runtime.calls.retry import probe_like
from textassay.runtime.errors import (
    AnswerUnfinished,
    BudgetReached,
    CapabilityError,
    ContextTooLong,
    MalformedResponse,
    ModelError,
    NoLogprobs,
    Refusal,
    RequestRefused,
)
from textassay.runtime.messages import NO_USAGE, Effort, Message, Usage
from textassay.runtime.model import (
    A,
    AnyResponse,
    Capabilities,
    ChatMessage,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    Json,
    Model,
    PromptedRequest,
    Q,
    Request,
    Response,
    Wrapper,
)
from textassay.runtime.parameters import BY_NAME, EFFORTS, OPTIONAL, THINKING_FIELDS
from textassay.runtime.questions import DecisionRequest
from textassay.runtime.settings import Settings
from textassay.runtime.storage.answers import AnswerStore
from textassay.runtime.storage.files import decode, encode

ALLOWANCES: Final = (4096, 16384, 32768)
"""Tokens for a thought, beside those for the answer: from the first at low and medium effort, from
the second at high effort; the next is for models that had too few. Published counts for short
judgments are 50 to 1,500 tokens at low and medium effort and several thousand at high effort."""

LOGPROB_ATTEMPTS: Final = 3
"""Requests for an answer without log-probabilities of a model that sends them: gateways choose a
provider for each request, so of one half of whose providers send none, one in eight stays."""

MODELS_KEPT = 20
"""Names of models that a run records; gateways may choose among more."""

LEAST_ALLOWANCE = 64
"""Below this a thought is not shortened any more to fit into a context."""

THINKING_NAMES = lazy_pattern(
    r"(^|[/.:])(o[1345]\b|gpt-5(?!(\.[1-4])?-chat|\.[1-4])|gpt-([6-9]|\d\d)|gpt-oss"
    r"|claude-[a-z]+-(4-[7-9]|[5-9])|gemini-(2\.5-pro|[3-9])|deepseek-(r\d|reasoner|v[4-9])"
    r"|qwq|qwen3\b(?!.*instruct)|magistral|grok-([4-9]|3-mini)|kimi-k2|glm-(4\.[5-9]|[5-9])|minimax-m)",
    re.I,
)
"""Names of models that think unless they are told not to: a first guess, which saves one answer
that is cut off. Sampling them at temperature 0 is refused, ignored or harmful (Gemini 3 and Qwen 3
repeat themselves)."""

MARKING_NAMES = lazy_pattern(r"(^|[/.])(anthropic|claude)\b|claude-", re.I)
"""Models that keep the beginning of a prompt only where it is marked; others keep it by
themselves."""

JSON_IN_WORDS = (
    "\n\nAnswer with one JSON object and nothing else. It must satisfy this JSON schema:\n"
)
"""What stands in for a schema that a server does not take."""

P = TypeVar("P", Request, ChoicesRequest, ContinuationRequest)

_OPENAI_HOST = lazy_pattern(r"//[^/]*\.(openai|azure)\.com")
_OPENROUTER_HOST = lazy_pattern(r"//[^/]*\bopenrouter\.ai")
_log = logging.getLogger(__name__)


class Sampling(Message):
    """What the settings of a model say of every request to it.

    What is set here replaces what the method wants, and is never left out in silence.
    """

    effort: Effort | None = None
    thinking_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    extra: Json = {}

    @classmethod
    def of(cls, settings: Settings) -> Sampling:
        """Return what the settings of one model say."""
        return cls(**{name: getattr(settings, name) for name in cls.model_fields})

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that are set."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if value not in (None, {})}


class ModelTraits(Message, defer_build=True):
    """What is known of one model at one address."""

    kind: Literal["learned"] = "learned"
    thinks: bool = False
    """Whether it thinks before it answers, as far as any answer has shown."""
    allowance: int = 0
    """Tokens that its thoughts have needed at least; an element of `ALLOWANCES`."""
    unsent: tuple[str, ...] = ()
    """Parameters that it refuses."""
    most: dict[str, int] = {}
    """Largest numbers that it takes, by parameter."""
    least: dict[str, int] = {}
    """Smallest numbers that it takes, by parameter."""
    cap_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    efforts: tuple[str, ...] = ()
    """Levels of effort that it takes; empty if unknown. `default` stands for not naming one."""


KNOWN: dict[bytes, ModelTraits] = {}
"""What this process has learned, by identity: later connections to the same model begin with it."""


class Adaptation:
    """How requests to one model are changed before they are sent; one for each connection."""

    def __init__(
        self, model: Model, sampling: Sampling | None = None, *, in_batches: bool = False
    ) -> None:
        self.name = model.name
        # In batches no request goes ahead of the others, and all have tokens for a thought, as an
        # answer that is cut off costs a batch.
        self._model, self._in_batches = model, in_batches
        self.sampling = sampling or Sampling()
        self._set_fields = self.sampling.fields
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
        self._differences: tuple[str, ...] | None = None
        self._omitted: set[str] = set()
        self._tried: set[tuple[object, ...]] = set()
        self._takes_all: bool | None = None
        """Whether requests are sent as they are unless they say how to think; `None` if that is to
        be worked out."""
        self._features: set[tuple[str, object]] = set()
        self._too_long: dict[int, int] = {}
        """Characters of the shortest prompt that the context did not hold, by the tokens for a
        thought that were asked for with it."""

    @cached_property
    def is_remote(self) -> bool:
        """Whether a server answers, which may refuse what it is sent."""
        return "api_base" in self._model.identity

    @cached_property
    def _key(self) -> bytes:
        return encode(dict(self._model.identity), sort_keys=True)

    @cached_property
    def _is_openai(self) -> bool:
        address = str(self._model.identity.get("api_base") or "")
        return bool(_OPENAI_HOST.search(address)) or self.name.startswith("openai/")

    @cached_property
    def _shuns_temperature(self) -> bool:
        return self.is_remote and THINKING_NAMES.search(self.name) is not None

    @cached_property
    def learned(self) -> ModelTraits:
        """What is known of the model by now."""
        known = KNOWN.get(self._key) if self.is_remote else None
        if known is not None:
            return known
        is_direct = self._model.identity.get("backend") == "openai-compatible"
        newest = self._shuns_temperature and self._is_openai and is_direct
        return ModelTraits(
            thinks=self._shuns_temperature,
            cap_field="max_completion_tokens" if newest else "max_tokens",
        )

    @property
    def learned_bytes(self) -> bytes:
        """What is known of the model, for a store of answers."""
        return encode(self.learned.model_dump())

    @property
    def store_key(self) -> str:
        """Key under which a store of answers keeps what was learned."""
        return hashlib.sha256(b"learned" + self._key).hexdigest()

    def restore(self, value: bytes) -> None:
        """Begin with what an earlier process has learned and stored."""
        if self._key not in KNOWN:
            self._learn(**ModelTraits.model_validate(decode(value)).model_dump())
            self.unsaved = False

    def _learn(self, **update: Any) -> None:
        self.learned = self.learned.model_copy(update=update)
        self._takes_all = None
        self._differences = None
        # A model of this process, or of a script, is another one with each object.
        if self.is_remote:
            KNOWN[self._key] = self.learned
        self.unsaved = True

    def learn_most(self, name: str, limit: int) -> None:
        """Learn the largest number of something that the model takes in one request."""
        self._learn(most={**self.learned.most, name: limit})

    # What is sent -------------------------------------------------------------------------------

    def fit(self, request: P, least: int = 0) -> P:
        """Return the request as it is sent, with at least so many tokens for a thought."""
        if isinstance(request, ContinuationRequest):
            return request
        if self._takes_all is None:
            self._takes_all = not (self._set_fields or self._in_batches or self._shuns_temperature)
            self._takes_all &= self.learned == ModelTraits()
        # Most requests: what follows takes longer than the look into a cache of answers.
        if (
            self._takes_all
            and request.effort is request.thinking_tokens is None
            and not (request.shared_prefix or least)
            and request.cap_field == "max_tokens"
        ):
            return request
        update = self._set(request)
        merged: P = request.model_copy(update=update) if update else request
        update = self._find_repairs(merged, least)
        if not self._omitted.issuperset(omitted := update.keys() & OPTIONAL.keys()):
            self._omitted |= omitted
            self._differences = None
        return merged.model_copy(update=update) if update else merged

    def _set(self, request: Request | ChoicesRequest) -> dict[str, Any]:
        """Return the fields that the settings replace."""
        own = self._set_fields
        if not own:
            return {}
        update = {name: value for name, value in own.items() if name in type(request).model_fields}
        if "extra" in own:
            update["extra"] = {**own["extra"], **request.extra}
        update["required"] = (*request.required, *own)
        return update

    def _find_repairs(self, request: Request | ChoicesRequest, least: int = 0) -> dict[str, Any]:
        """Return the fields that the model cannot take as they are."""
        learned, update = self.learned, cast("dict[str, Any]", {})
        if request.effort is not None or request.thinking_tokens is not None:
            update |= self._thinking(request)
        thinks = request.effort != "none" and (
            learned.thinks or request.effort is not None or request.thinking_tokens is not None
        )
        if self._in_batches and not learned.thinks:
            least = max(least, ALLOWANCES[0])
            update["probing"] = True
        if thinks or learned.allowance or least:
            update |= self._with_allowance(request, least)
        if (
            request.temperature == 0
            and self._shuns_temperature
            and "temperature" not in request.required
        ):
            update["temperature"] = None
        if learned.cap_field != request.cap_field:
            update["cap_field"] = learned.cap_field
        if request.shared_prefix and (mark := self._prefix_mark(request)) != "none":
            update["prefix_mark"] = mark
        if learned.unsent:
            update |= self._leave_out(learned.unsent, request)
        if learned.most or learned.least:
            update |= self._within_limits(request, update)
        return update

    def _prefix_mark(self, request: Request | ChoicesRequest) -> Literal["none", "block", "key"]:
        """Return how the server wants to be told which part of a prompt to keep."""
        unsent = self.learned.unsent
        if not is_worth_caching(request):
            return "none"
        if MARKING_NAMES.search(self.name) and "cache_control" not in unsent:
            return "block"
        return "key" if self._is_openai and "prompt_cache_key" not in unsent else "none"

    def _thinking(self, request: Request | ChoicesRequest) -> dict[str, Any]:
        update: dict[str, Any] = {}
        efforts = self.learned.efforts
        if request.effort is not None and efforts and request.effort not in efforts:
            if "default" in efforts:
                return {"effort": None, "thinking_fields": ()}
            update["effort"] = _nearest(request.effort, efforts)
        names = self._thinking_fields(request)
        left = tuple(name for name in names if name not in self.learned.unsent)
        if not left:
            setting = (
                f"effort {request.effort}"
                if request.effort is not None
                else f"thinking_tokens={request.thinking_tokens}"
            )
            raise CapabilityError(f"model {self.name!r} takes no {setting}; leave it out")
        return update | {"thinking_fields": left}

    def _thinking_fields(self, request: Request | ChoicesRequest) -> tuple[str, ...]:
        """Return the fields of a body that carry effort or thinking tokens, before any refusal."""
        if _OPENROUTER_HOST.search(str(self._model.identity.get("api_base") or "")):
            return ("reasoning",)
        if request.effort is None:
            return (
                ("thinking",)
                if self._model.identity.get("backend") == "litellm"
                else ("thinking_token_budget", "thinking_budget_tokens")
            )
        # Templates of open models take a switch instead of a level.
        is_open = not self._is_openai and self._model.identity.get("backend") == "openai-compatible"
        if request.effort == "none" and is_open:
            return ("reasoning_effort", "chat_template_kwargs")
        return ("reasoning_effort",)

    def _with_allowance(self, request: Request | ChoicesRequest, least: int) -> dict[str, Any]:
        allowance = max(self._least_allowance(request), self.learned.allowance, least)
        while self._too_long and len(request.text) >= self._too_long.get(allowance, math.inf):
            allowance //= 4
        if isinstance(request, ChoicesRequest):
            return {"thought_allowance": allowance}
        if request.max_tokens is None:
            return {}
        return {"max_tokens": request.max_tokens + allowance, "thought_allowance": allowance}

    def _least_allowance(self, request: Request | ChoicesRequest) -> int:
        """Return the first allowance that an effort asks for."""
        if request.thinking_tokens is not None:
            return max(request.thinking_tokens, self.learned.least.get("thinking_tokens", 0))
        return ALLOWANCES[1 if request.effort in ("high", "xhigh", "max") else 0]

    def _leave_out(self, names: Sequence[str], request: Request | ChoicesRequest) -> dict[str, Any]:
        update: dict[str, Any] = {}
        for name in names:
            if name in request.extra:
                raise CapabilityError(self._setting_refusal(name, request.extra[name]))
            if name in OPTIONAL and getattr(request, name, OPTIONAL[name]) != OPTIONAL[name]:
                if name in request.required:
                    raise CapabilityError(self._setting_refusal(name, getattr(request, name)))
                update[name] = OPTIONAL[name]
            elif name in ("logprobs", "top_logprobs") and _reads_logprobs(request):
                raise CapabilityError(
                    f"model {self.name!r} sends no log-probabilities of its tokens; ask for samples"
                    " instead (n=20), or use a model that sends them"
                )
            elif name == "json_schema" and getattr(request, name, None) is not None:
                messages = update.get("messages", request.messages)
                update |= _schema_in_words(cast("Request", request), messages)
            elif name == "functions" and isinstance(request, Request) and request.functions:
                update["functions"] = ()  # the chat is in words as well
            elif name == "system":
                update |= _without_system(update.get("messages", request.messages))
        return update

    def _setting_refusal(self, name: str, value: object) -> str:
        return f"model {self.name!r} refuses {name}={json.dumps(value)}; leave it out"

    def _within_limits(
        self, request: Request | ChoicesRequest, update: Mapping[str, Any]
    ) -> dict[str, Any]:
        most, least, within = self.learned.most, self.learned.least, cast("dict[str, Any]", {})
        logprobs = "logprobs" if isinstance(request, Request) else "alternatives"
        for name, wire in (
            ("max_tokens", "max_tokens"),
            ("thinking_tokens", "thinking_tokens"),
            ("n", "n"),
            (logprobs, "top_logprobs"),
        ):
            value = update.get(name, getattr(request, name, None))
            if value is None:
                continue
            fits = min(most.get(wire, value), value)
            fits = max(least.get(wire, fits), fits)
            if fits != value:
                within[name] = fits
            if name == "max_tokens" and fits < value:
                # the answer keeps its tokens as long as there are any
                allowance = update.get("thought_allowance", request.thought_allowance)
                within["thought_allowance"] = max(0, allowance - (value - fits))
        return within

    # What is learned ----------------------------------------------------------------------------

    def is_tried(self, request: PromptedRequest) -> bool:
        """Return whether the model is known to take each parameter of a request, or to refuse."""
        if self._in_batches or not self.is_remote:
            return True
        key = _shape(request)
        if key in self._tried:
            return True
        if self._features.issuperset(_features(request)):
            self._tried.add(key)
            return True
        return False

    def note_taken(self, request: PromptedRequest) -> None:
        """Learn that the model takes each parameter of a request."""
        self._tried.add(_shape(request))
        self._features.update(_features(request))

    def is_usual(self, response: AnyResponse) -> bool:
        """Return whether an answer came to its end and shows nothing new of the model."""
        if not isinstance(response, Response):
            return self.learned.thinks
        if not (self.answers_at_once or self.learned.thinks):
            return False
        for sample in response.samples:
            if sample.finish_reason == "length" or (self.answers_at_once and sample.thought):
                return False
        return self.learned.thinks or not response.usage.reasoning_tokens

    def note_answer(self, response: AnyResponse) -> None:
        """Learn from an answer whether the model thinks."""
        if not self.learned.thinks and _shows_thought(response):
            self._learn(thinks=True)
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

    def note_logprobs(self, request: PromptedRequest, response: AnyResponse) -> None:
        """Learn from an answer that the model sends log-probabilities."""
        if _reads_logprobs(request) and not self.sends_logprobs:
            # a thought that took all tokens has none
            is_cut = isinstance(response, Response) and not response.samples[0].logprobs
            self.sends_logprobs = not is_cut

    def note_too_long(self, request: PromptedRequest) -> None:
        """Learn that the context does not hold a request, nor as many tokens beside longer ones."""
        allowance, length = request.thought_allowance, len(request.text)
        self._too_long[allowance] = min(self._too_long.get(allowance, length), length)

    def allow_more_thought(self, request: PromptedRequest) -> bool:
        """Learn that a thought took all tokens; return whether the next request has more."""
        allowed = request.thought_allowance
        self._learn(thinks=True)
        if isinstance(request, ChoicesRequest):
            capped = None
        elif isinstance(request, Request):
            capped = request.max_tokens
        else:
            return False
        most = self.learned.most.get("max_tokens")
        if most is not None and capped is not None and capped >= most:
            return False
        if allowed < self.learned.allowance:  # another request has learned it meanwhile
            return True
        larger = [a for a in ALLOWANCES if a > allowed]
        if not larger:
            return False
        self._learn(allowance=larger[0])
        return True

    def learn(self, refusal: Refusal, request: PromptedRequest) -> bool:
        """Change what is sent from now on; return whether the request may be sent again."""
        learned, name = self.learned, refusal.parameter
        if name in request.extra:
            return self.drop_parameter(name, request)
        if refusal.kind == "rename":
            self._learn(cap_field=_OTHER_CAP[request.cap_field])
            return True
        if refusal.kind == "range" and refusal.limit is not None:
            return self._limit(name, int(refusal.limit), request)
        if name == "n":  # without it a server gives one answer
            return self._limit(name, 1, request)
        if refusal.kind == "effort" and request.effort is not None:
            taken = refusal.values
            if not taken and request.effort != "none":  # it does not say which: another may do
                taken = learned.efforts or EFFORTS[:-1]
            efforts = tuple(e for e in EFFORTS if e in taken and e != request.effort)
            if efforts:
                self._learn(efforts=efforts)
                sent = "default" if "default" in efforts else _nearest(request.effort, efforts)
                listed = f", but {', '.join(efforts)}" if refusal.values else ""
                _log.warning(
                    "%s takes no effort %s%s; %s is sent", self.name, request.effort, listed, sent
                )
                return True
        if name == "max_tokens":
            other = _OTHER_CAP[learned.cap_field]
            if other not in learned.unsent and refusal.kind == "drop":
                self._learn(cap_field=other, unsent=(*learned.unsent, learned.cap_field))
                return True
            return False
        return self.drop_parameter(self._thinking_field(name, request), request)

    @staticmethod
    def _thinking_field(name: str, request: PromptedRequest) -> str:
        """Return our field for a thought where an API, or a gateway, has another for it."""
        is_other = name in THINKING_FIELDS and name not in request.thinking_fields
        return request.thinking_fields[0] if is_other and request.thinking_fields else name

    def _limit(self, name: str, limit: int, request: PromptedRequest) -> bool:
        wire = BY_NAME[name].count
        logprobs = "alternatives" if isinstance(request, ChoicesRequest) else "logprobs"
        value = getattr(request, {"top_logprobs": logprobs}.get(wire, wire), None)
        if value is None or value == limit:
            return self.drop_parameter(self._thinking_field(name, request), request)
        limits = self.learned.most if value > limit else self.learned.least
        self._learn(**{"most" if value > limit else "least": {**limits, wire: limit}})
        words = f"takes {wire} {'up to' if value > limit else 'from'} {limit}"
        if wire in request.required:
            _log.warning("%s %s; %s is sent", self.name, words, limit)
        elif wire != "max_tokens":
            self._tell(words)
        return True

    def drop_parameter(self, name: str, request: PromptedRequest) -> bool:
        """Leave a parameter out from now on; return whether the request had it."""
        if name in self.learned.unsent or not _has(request, name):
            return False
        if name in OPTIONAL and name in request.required:
            # not learned: another value may do
            raise CapabilityError(self._setting_refusal(name, getattr(request, name)))
        self._learn(unsent=(*self.learned.unsent, name))
        if name != "system":
            self._tell(f"takes no {name}")
        if not isinstance(request, ContinuationRequest):
            self._find_repairs(request)  # raises where it may not be left out
        return True

    # Where a refusal names nothing ----------------------------------------------------------------

    def find_suspects(self, request: PromptedRequest) -> list[str]:
        """Return the parameters that may be refused: left out if need be, and not known yet."""
        known = {name for name, _ in self._features}
        return [
            name
            for name in SUSPECTS
            if name not in known and name not in request.required and _has(request, name)
        ]

    def probe_without(self, names: Sequence[str], request: P) -> P:
        """Return a harmless question that is asked like a request, but without some parameters."""
        probe: P = cast(P, probe_like(request))
        system: list[ChatMessage] = [m for m in request.messages if m.role == "system"]
        probe = probe.model_copy(update={"messages": (*system, *probe.messages)})
        if isinstance(probe, ContinuationRequest):
            return probe
        update = self._leave_out(names, probe)
        if not MARKS.keys().isdisjoint(names):
            update["prefix_mark"] = "none"
        return probe.model_copy(update=update)

    def send_again(self, name: str) -> None:
        """Take back that the model refuses a parameter: without it the request is refused, too."""
        self._learn(unsent=tuple(other for other in self.learned.unsent if other != name))
        self._omitted.discard(name)
        self._differences = None

    def _tell(self, what: str) -> None:
        _log.info("%s %s", self.name, what)

    # What scores say ----------------------------------------------------------------------------

    @property
    def settings_facts(self) -> dict[str, object]:
        """What the settings add to every request, for signatures."""
        facts: dict[str, object] = dict(self.sampling.fields)
        extra = facts.pop("extra", None)
        if extra:
            facts["extra"] = hashlib.sha256(encode(extra, sort_keys=True)).hexdigest()[:6]
        return facts

    @property
    def described(self) -> dict[str, Any]:
        """What is sent otherwise than method and settings want it, for manifests; empty if all is.

        Unlike `differences`, with what does not change an answer, such as tokens for thoughts.
        """
        learned = self.learned.model_dump(exclude={"kind"}, exclude_defaults=True, mode="json")
        if len(self._answered_as) > 1:
            learned["answered_as"] = list(self._answered_as)
        return learned | ({"omitted": sorted(self._omitted)} if self._omitted else {})

    @property
    def differences(self) -> tuple[str, ...]:
        """How what is sent differs from what method and settings want, for signatures."""
        if self._differences is None:  # looked at for every score
            self._differences = tuple(self._find_differences())
        return self._differences

    def _find_differences(self) -> list[str]:
        found = [f"unsent:{','.join(sorted(self._omitted))}"] if self._omitted else []
        if "json_schema" in self.learned.unsent:
            found.append("json:words")
        if "functions" in self.learned.unsent:
            found.append("functions:words")
        if self.sampling.effort is not None and self.learned.efforts:
            request = Request(prompt="-", effort=self.sampling.effort)
            update = self._thinking(request)
            found += [f"sent-effort:{update['effort'] or 'default'}"] if "effort" in update else []
        if self.sampling.thinking_tokens is not None:
            request = Request(prompt="-", thinking_tokens=self.sampling.thinking_tokens)
            tokens = self._within_limits(request, {}).get("thinking_tokens")
            found += [f"sent-thinking_tokens:{tokens}"] if tokens is not None else []
        return found


def _nearest(wished: Effort, efforts: Sequence[str]) -> str:
    """Return the level of effort that is nearest to a wish; of two, the higher one."""
    ranks: dict[str, int] = {effort: rank for rank, effort in enumerate(EFFORTS)}
    return min(efforts, key=lambda e: (abs(ranks[e] - ranks[wished]), -ranks[e]))


_DIFFERENCE = lazy_pattern(
    r"\|(?:[^|]+ )?(?:unsent:[\w,]+|(?:json|functions):words|sent-\w+:\w+)(?=\||$)"
)


def signature_of_method(signature: str) -> str:
    """Return a score's signature without what it says of how the model differs from the method."""
    return _DIFFERENCE.sub("", signature)


_OTHER_CAP = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


MARKS: Final = {"cache_control": "block", "prompt_cache_key": "key"}
"""Fields that say which beginning of a prompt to keep, with the mark that stands for each."""

SUSPECTS: Final = (*OPTIONAL, "json_schema", "functions", "system", *MARKS)
"""Parameters that are left out in probes: no score depends on them alone."""


def _has(request: PromptedRequest, name: str) -> bool:
    """Return whether a request carries a parameter."""
    if name in request.extra or name in request.thinking_fields:
        return True
    if name in MARKS:
        return request.prefix_mark == MARKS[name]
    if name == "system":
        return any(message.role == "system" for message in request.messages)
    if name in ("logprobs", "top_logprobs"):
        return _reads_logprobs(request)
    if name in OPTIONAL:
        return bool(getattr(request, name, OPTIONAL[name]) != OPTIONAL[name])
    return name in ("json_schema", "functions") and bool(getattr(request, name, None))


def _lacks_logprobs(error: RequestRefused | NoLogprobs, request: PromptedRequest) -> bool:
    """Return whether log-probabilities are refused or missing that a request reads."""
    refusal = error.refusal
    if refusal is None or refusal.kind != "drop" or refusal.parameter in request.extra:
        return False
    return refusal.parameter in ("logprobs", "top_logprobs") and _reads_logprobs(request)


def _reads_logprobs(request: PromptedRequest) -> bool:
    return isinstance(request, ChoicesRequest) or getattr(request, "logprobs", None) is not None


def _schema_in_words(request: Request, messages: Sequence[ChatMessage]) -> dict[str, Any]:
    words = JSON_IN_WORDS + encode(request.json_schema).decode()
    if request.prompt is not None:
        return {"json_schema": None, "prompt": request.prompt + words}
    *before, last = messages
    longer = last.model_copy(update={"content": last.content + words})
    return {"json_schema": None, "messages": (*before, longer)}


def _without_system(messages: Sequence[ChatMessage]) -> dict[str, Any]:
    """Return the chat with its system message at the beginning of the user's first one."""
    system = [message.content for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role != "system"]
    if not system:
        return {}
    if not rest or rest[0].role != "user":
        rest.insert(0, ChatMessage(role="user", content=""))
    content = "\n\n".join(part for part in (*system, rest[0].content) if part)
    return {"messages": (rest[0].model_copy(update={"content": content}), *rest[1:])}


_SHAPE = itemgetter("temperature", "top_p", "n", "logprobs", "effort", "thought_allowance")


def _shape(request: PromptedRequest) -> tuple[object, ...]:
    """Return what two requests have in common of which a server takes either both or none."""
    if isinstance(request, Request):
        values = vars(request)
        return (
            *_SHAPE(values),
            values["prompt"] is None,
            values["seed"] is None,
            not values["stop"],
            values["json_schema"] is None,
            not values["functions"],
            *values["extra"],
        )
    return (type(request), request.temperature, request.effort, request.thought_allowance)


def _features(request: PromptedRequest) -> set[tuple[str, object]]:
    """Return the parameters that a server may refuse, each with its value where that matters."""
    features: set[tuple[str, object]] = {("chat" if request.messages else "prompt", None)}
    if isinstance(request, ContinuationRequest):
        return features | {("continuation", None)}
    for name in ("temperature", "effort", "thought_allowance"):
        features.add((name, getattr(request, name)))
    features |= {(name, None) for name in request.extra}
    if any(message.role == "system" for message in request.messages):
        features.add(("system", None))
    if _reads_logprobs(request):
        features.add(("logprobs", None))
    if isinstance(request, Request):
        if request.n > 1:
            features.add(("n", request.n))
        for name in ("top_p", "seed", "stop"):
            if getattr(request, name) != OPTIONAL[name]:
                features.add((name, None))
        if request.json_schema is not None:
            features.add(("json_schema", None))
        if request.functions:
            features.add(("functions", None))
    return features


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

    Outside of the cache, so that answers are filed under what was sent. The first request that has
    a parameter which the model is not known to take goes alone; all that have it wait for it.
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
        if "logprobs" in learned.unsent or "top_logprobs" in learned.unsent:
            update |= {"logprobs": False, "choices": False}
        elif learned.thinks and own.logprobs and self.adaptation.is_remote:
            # a table may hold for effort `none` alone
            update |= {"logprobs": None, "choices": None}
        return own.model_copy(update=update) if update else own

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer with what the model takes."""
        if isinstance(request, DecisionRequest):  # is made as the settings say, and split outside
            return await call(request)
        if not self._is_restored:
            await self.restore()
        adaptation, attempts = self.adaptation, _AdaptedCall(self, request)
        try:
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
            elif self.adaptation.learned != ModelTraits():
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


class _AdaptedCall(Generic[P]):
    """The attempts at one request, each as it was learned from the one before."""

    spent = NO_USAGE
    """What answers cost that had too few tokens, or no log-probabilities."""
    _repairs = _least_allowance = _without_logprobs = 0
    _guess = ""
    """The parameter that probes found to be refused, until the request is answered without it."""

    def __init__(self, model: AdaptingModel, request: P) -> None:
        self._model, self._adaptation = model, model.adaptation
        self._request: P = request

    def next(self) -> P:
        """Return the request as it is sent next."""
        sent: P = self._adaptation.fit(self._request, self._least_allowance)
        return sent

    async def probe(self, sent: P, call: Callable[[P], Awaitable[A]]) -> A | None:
        """Do what `ask` does with a model of which it is not known whether it thinks."""
        if isinstance(sent, ChoicesRequest) and sent.messages and not sent.thought_allowance:
            # The one token that tells choices may be the first of a thought.
            self._least_allowance = ALLOWANCES[0]
            sent = self.next()
        answer = await self.ask(sent.model_copy(update={"probing": True}), call)
        if isinstance(answer, Response) and answer.is_cut and not sent.thought_allowance:
            # Some servers show a thought that is cut off as if it were the answer.
            self._least_allowance = ALLOWANCES[0]
            if self._has_more_than(sent):
                self.spent = answer.usage
                return None
        if answer is not None:
            # also where it was given tokens for a thought that it turned out not to need
            for request in (sent, self._adaptation.fit(self._request)):
                self._adaptation.note_taken(request)
            await self._model.save()
        return answer

    async def ask(self, sent: P, call: Callable[[P], Awaitable[A]]) -> A | None:
        """Return the answer; `None` to ask again as was learned from this attempt."""
        try:
            answer = await call(sent)
        except AnswerUnfinished as error:
            self._widen(sent, error.usage, error)
        except (RequestRefused, NoLogprobs) as error:
            self._count(error)
            if _lacks_logprobs(error, sent) and await self._sends_logprobs(sent, call):
                self._without_logprobs += 1
                if self._without_logprobs == LOGPROB_ATTEMPTS:
                    raise MalformedResponse(
                        f"{self._model.name} sends log-probabilities with other answers, and sent"
                        f" none with this one in {LOGPROB_ATTEMPTS} attempts ({error})"
                    ) from error
            elif not await self._finds_refused(sent, error, call):
                self._learn(sent, error)
        else:
            self._guess = ""
            self._adaptation.note_logprobs(sent, answer)
            self._adaptation.note_model(answer.model)
            if not self._adaptation.is_usual(answer):
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

    async def _finds_refused(
        self, sent: P, error: RequestRefused | NoLogprobs, call: Callable[[P], Awaitable[A]]
    ) -> bool:
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
                answer = await call(adaptation.probe_without(half, sent))
            except RequestRefused as refusal:
                self._count(refusal)
                suspects = suspects[len(half) :]
            else:
                self.spent += answer.usage
                suspects = half
        if len(suspects) != 1 or not adaptation.drop_parameter(suspects[0], sent):
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

    async def _sends_logprobs(self, sent: P, call: Callable[[P], Awaitable[A]]) -> bool:
        """Return whether the model sends log-probabilities with other answers.

        A harmless question finds it out before the first such answer. So what a run reads depends
        neither on the order of its texts nor on the number of calls in flight.
        """
        if not self._adaptation.sends_logprobs:
            try:
                question = cast(P, probe_like(sent))
                answer = await call(question)
            except (RequestRefused, NoLogprobs) as error:
                self._count(error)
            else:
                self.spent += answer.usage
                self._adaptation.note_logprobs(question, answer)
        return self._adaptation.sends_logprobs

    def _widen(self, sent: P, usage: Usage | None, cause: Exception | None = None) -> None:
        """Give the next attempt more tokens for its thought."""
        self.spent += usage or NO_USAGE
        if not self._adaptation.allow_more_thought(sent) or not self._has_more_than(sent):
            raise _out_of_tokens_error(self._model.name, sent) from cause

    def _has_more_than(self, sent: P) -> bool:
        """Return whether the next attempt has more tokens for its thought.

        It has not where the context, the server's maximum, or a request without a limit leaves
        none.
        """
        return self.next().thought_allowance > sent.thought_allowance

    def _learn(self, sent: P, error: RequestRefused | NoLogprobs) -> None:
        """Learn from a refusal; raises it if nothing can be learned."""
        if isinstance(error, ContextTooLong) and sent.thought_allowance > LEAST_ALLOWANCE:
            self._adaptation.note_too_long(sent)
            return
        if error.refusal is None or self._repairs == MAX_REPAIRS:
            raise error
        if error.refusal.kind == "room":
            self._widen(sent, None, error)
            return
        self._repairs += 1
        # What another request has learned meanwhile may be all that this one needs.
        plain = {"probing": False}
        if self.next().model_copy(update=plain) != sent.model_copy(update=plain):
            return
        try:
            may_repeat = self._adaptation.learn(error.refusal, sent)
        except CapabilityError as lacking:
            raise CapabilityError(f"{lacking} ({error})") from error
        if not may_repeat:
            raise error


def _out_of_tokens_error(name: str, sent: PromptedRequest) -> AnswerUnfinished:
    limit = sent.max_tokens if isinstance(sent, Request) else sent.thought_allowance
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

    def generate(self, request: Request) -> Coroutine[Any, Any, Response]:
        """Answer, sample by sample if needed; the first failure cancels the other samples."""
        # Not `async`: with a model that takes `n`, this wrapper adds no coroutine of its own.
        return self._split(request) if self._splits else self.wrapped.generate(request)

    async def _split(self, request: Request) -> Response:
        if request.n > MAX_SAMPLES_PER_DRAW:
            raise CapabilityError(
                f"{self.name} returns one sample per request; n={request.n} is above"
                f" {MAX_SAMPLES_PER_DRAW}"
            )
        first = MAX_SAMPLES_PER_DRAW * request.draw
        singles = [
            request.model_copy(update={"n": 1, "draw": first + index}) for index in range(request.n)
        ]
        if len(singles) == 1:
            return await self.wrapped.generate(singles[0])
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.wrapped.generate(single)) for single in singles]
        except BaseExceptionGroup as failures:
            # Wrappers further out decide by the class of an error, which a group would hide.
            raise failures.exceptions[0] from None
        return _join_responses([task.result() for task in tasks])


def _join_responses(responses: list[Response]) -> Response:
    """Return all samples as one response, in order, with the sum of usage."""
    return Response(
        samples=tuple(sample for response in responses for sample in response.samples),
        usage=sum((response.usage for response in responses), Usage()),
        model=responses[0].model,
    )
