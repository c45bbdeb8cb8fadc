"""Records which parameters a model takes, and returns requests that fit it.

Providers take different parameters, and models that think take few of them and need tokens for
their thoughts. No list of model names stays up to date, so the `ModelTraits` of a model begin with
a guess and are learned from refusals. Two functions without state use them: `fit` returns a call as
the model takes it, and `repair` returns the traits that explain a refusal. This module knows
requests and refusals, but not how they are written on the wire.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Literal, cast

from textassay.lazy import lazy_pattern
from textassay.runtime.base import Effort, Json, Message
from textassay.runtime.calls.call import MIN_CACHED_TOKENS, Call, Posting
from textassay.runtime.errors import CapabilityError, Refusal
from textassay.runtime.model import (
    AnyRequest,
    ChatMessage,
    ChoicesRequest,
    Model,
    Prompted,
    Request,
)
from textassay.runtime.parameters import (
    BY_NAME,
    EFFORTS,
    LOGPROBS,
    MARKS,
    OPTIONAL,
    THINKING_FIELDS,
)
from textassay.runtime.settings import Settings
from textassay.runtime.storage.files import encode

ALLOWANCES: Final = (4096, 16384, 32768)
"""Tokens for a thought, in addition to the answer's: the first at low and medium effort, the second
at high effort, and the next one for a model that ran out of them. All of the 11 counts for short
judgments in docs/thinking.md (0 to 2,206 tokens) fit into the first, and only 6 into a quarter of
it; at high effort, 6,264 were counted. The last is the length that Qwen3's model card recommends
for most queries; OpenAI's guide to reasoning reserves 25,000 with the answer."""

THINKING_NAMES = lazy_pattern(
    r"^(?!.*(?:instruct|non-?(?:reasoning|thinking)))(?:.*(?:reasoning|thinking)|(?:.*[/.:])?"
    r"(?:o[1345]\b|gpt-5(?!(\.[1-4])?-chat|\.[1-4])|gpt-([6-9]|\d\d)|gpt-oss"
    r"|claude-[a-z]+-(4-[7-9]|[5-9])|gemini-(2\.5-pro|[3-9])|deepseek-(r\d|reasoner|v[4-9])"
    r"|qwq|qwen3\b(?!-coder)|magistral|grok-([4-9]|3-mini)|kimi-k2|glm-(4\.[5-9]|[5-9])|minimax-m))",
    re.I,
)
"""Names of models that think by default: a first guess, which saves one answer that is cut off.
Their servers refuse or ignore temperature 0, or it does harm (Gemini 3 and Qwen 3 repeat
themselves)."""

_log = logging.getLogger(__name__)


class Sampling(Message):
    """Parameters that the user's settings add to every request.

    They replace the method's, and are never left out silently.
    """

    effort: Effort | None = None
    thinking_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    extra: Json = {}

    @classmethod
    def of(cls, settings: Settings) -> Sampling:
        """Return the sampling parameters among a model's settings."""
        return cls(**{name: getattr(settings, name) for name in cls.model_fields})

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The fields that are set."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if value not in (None, {})}

    @property
    def facts(self) -> dict[str, object]:
        """The fields that are set, for signatures."""
        facts: dict[str, object] = dict(self.fields)
        extra = facts.pop("extra", None)
        if extra:
            facts["extra"] = hashlib.sha256(encode(extra, sort_keys=True)).hexdigest()[:6]
        return facts

    def apply_to(self, call: Call) -> Call:
        """Return the call as the user wants it."""
        changes, request = self.fields, call.request
        if not changes or not isinstance(request, Request | ChoicesRequest):
            return call
        update = {
            name: value for name, value in changes.items() if name in type(request).model_fields
        }
        if "extra" in changes:
            update["extra"] = {**changes["extra"], **request.extra}
        required = (*call.posting.required, *changes)
        return Call(request.model_copy(update=update), call.posting._replace(required=required))


class ModelTraits(Message, defer_build=True):
    """Knowledge about one model at one address: guessed from its name at first, then learned."""

    kind: Literal["learned"] = "learned"
    name: str = ""
    """The model's name, for messages."""
    thinks: bool = False
    """Whether it thinks before it answers, judging by its name and its answers so far."""
    omits_zero_temperature: bool = False
    """Whether a temperature of 0 is left out."""
    effort_fields: tuple[str, ...] = ("reasoning_effort",)
    """Fields of a body that carry an effort."""
    no_effort_fields: tuple[str, ...] = ()
    """Further fields that carry effort `none`: chat templates of open models have a switch."""
    budget_fields: tuple[str, ...] = ("thinking_token_budget", "thinking_budget_tokens")
    """Fields of a body that carry a number of tokens for a thought."""
    prefix_mark: Literal["none", "block", "key"] = "none"
    """How requests mark the beginning of a prompt that its server should cache."""
    cap_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The field of a body that limits the tokens of an answer."""
    allowance: int = 0
    """Smallest element of `ALLOWANCES` that its thoughts have fit into so far."""
    unsent: tuple[str, ...] = ()
    """Parameters that it refuses."""
    most: dict[str, int] = {}
    """Largest numbers that it takes, by parameter."""
    least: dict[str, int] = {}
    """Smallest numbers that it takes, by parameter."""
    efforts: tuple[str, ...] = ()
    """Levels of effort that it takes; empty if unknown. `default` means that none is sent."""
    too_long: dict[int, int] = {}
    """Characters of the shortest prompt that exceeded the context, by the allowance for a thought
    that was sent with it."""

    def learn(self, **update: Any) -> ModelTraits:
        """Return the traits with some of them replaced."""
        return self.model_copy(update=update)


RECORDED_TRAITS: Final = {"thinks", "cap_field", "allowance", "unsent", "most", "least", "efforts"}
"""Traits that runs and stores of answers record; others follow from name and address."""


def guess_traits(model: Model) -> ModelTraits:
    """Return the traits that a model's name and address suggest."""
    identity, name = model.identity, model.name
    if "api_base" not in identity:  # it runs in this process, or is scripted
        return ModelTraits(name=name)
    address, backend = str(identity["api_base"] or ""), identity.get("backend")
    is_openai = name.startswith("openai/") or bool(
        re.search(r"//[^/]*\.(openai|azure)\.com", address)
    )
    is_direct = backend == "openai-compatible"
    thinks = THINKING_NAMES.search(name) is not None
    # Anthropic keeps the beginning of a prompt only if it is marked; others keep it anyway.
    is_claude = re.search(r"(^|[/.])(anthropic|claude)\b|claude-", name, re.I)
    guess = ModelTraits(
        name=name,
        thinks=thinks,
        omits_zero_temperature=thinks,
        prefix_mark="block" if is_claude else "key" if is_openai else "none",
        cap_field="max_completion_tokens" if thinks and is_openai and is_direct else "max_tokens",
        no_effort_fields=("chat_template_kwargs",) if is_direct and not is_openai else (),
    )
    if re.search(r"//[^/]*\bopenrouter\.ai", address):
        fields = ("reasoning",)
        return guess.learn(effort_fields=fields, no_effort_fields=(), budget_fields=fields)
    return guess.learn(budget_fields=("thinking",)) if backend == "litellm" else guess


class AdaptationMemory:
    """`DecidingModel`'s view of the adaptation of its model: settings and learned limits.

    `AdaptingModel` has and stores both for a connected model. This base class serves models without
    a connection: it has no settings, and forgets the limits with the process.
    """

    def __init__(self) -> None:
        self._most: dict[str, int] = {}

    @property
    def extra(self) -> Json:
        """Further fields that the settings add to every request."""
        return {}

    def most(self, name: str) -> int:
        """Return how many (`questions`, `options`, `levels`) the model takes; 0 if unknown."""
        return self._most.get(name, 0)

    def learn_most(self, name: str, limit: int) -> None:
        """Learn the largest number of something that the model takes in one request."""
        self._most[name] = limit

    async def restore(self) -> None:
        """Begin with the traits that an earlier process has stored."""

    async def save(self) -> None:
        """Store the traits for later processes."""


# ---- fitting a request ----


def fit(traits: ModelTraits, call: Call, floor: int = 0) -> Call:
    """Return a call as the model takes it, with `floor` tokens for a thought or more.

    Raises:
        CapabilityError: The model refuses a parameter that the user set or the method needs.
    """
    request, posting = call.request, call.posting
    # a tuple of classes, since a union would be built for each call
    if not isinstance(request, (Request, ChoicesRequest)):
        return call
    has_effort = request.effort is not None or request.thinking_tokens is not None
    # changes of the request, and of its posting
    update: dict[str, Any] = {}
    posted: dict[str, Any] = {}
    if has_effort:
        effort = choose_effort(traits, request.effort)
        if effort != request.effort:
            update["effort"] = effort
        posted["thinking_fields"] = _thinking_fields(traits, request, effort)
    thinks = request.effort != "none" and (traits.thinks or has_effort)
    if (thinks or traits.allowance or floor) and getattr(request, "max_tokens", 1) is not None:
        posted["allowance"] = _thought_allowance(traits, request, floor)
    is_zero = request.temperature == 0 and "temperature" not in posting.required
    if traits.omits_zero_temperature and is_zero:
        update["temperature"] = None
    if traits.cap_field != posting.cap_field:
        posted["cap_field"] = traits.cap_field
    # a token has at least one character, and servers ignore a mark of a prefix that is too short
    is_long = posting.shared_prefix > MIN_CACHED_TOKENS
    mark = traits.prefix_mark if is_long else posting.prefix_mark
    if mark != "none":
        is_refused = any(MARKS.get(name) == mark for name in traits.unsent)
        posted["prefix_mark"] = "none" if is_refused else mark
    if traits.unsent:
        update |= _without_refused(traits, call)
    if traits.most or traits.least:
        _limit_numbers(traits, call, update, posted)
    if not (update or posted):
        return call
    return Call(
        request.model_copy(update=update) if update else request,
        posting._replace(**posted) if posted else posting,
    )


def choose_effort(traits: ModelTraits, effort: Effort | None) -> Effort | None:
    """Return the level to send for an effort: the nearest that the model takes, the higher of two.

    `None` leaves it to the model.
    """
    efforts = traits.efforts
    if effort is None or not efforts or effort in efforts:
        return effort
    return None if "default" in efforts else _nearest_effort(effort, efforts)


def _thinking_fields(
    traits: ModelTraits, request: Request | ChoicesRequest, effort: Effort | None
) -> tuple[str, ...]:
    """Return the fields that carry effort or thinking tokens, without the refused ones."""
    if request.effort is None:
        fields = traits.budget_fields
    elif effort is None:
        return ()
    else:
        no_effort = request.effort == "none"
        fields = traits.effort_fields + (traits.no_effort_fields if no_effort else ())
    names = tuple(name for name in fields if name not in traits.unsent)
    if not names:
        budget = f"thinking_tokens={request.thinking_tokens}"
        setting = budget if request.effort is None else f"effort {request.effort}"
        raise CapabilityError(f"model {traits.name!r} takes no {setting}; leave it out")
    return names


def _thought_allowance(traits: ModelTraits, request: Request | ChoicesRequest, floor: int) -> int:
    """Return the tokens for a thought, fewer if prompt and thought would exceed the context."""
    if request.thinking_tokens is not None:
        first = max(request.thinking_tokens, traits.least.get("thinking_tokens", 0))
    else:
        first = ALLOWANCES[1 if request.effort in ("high", "xhigh", "max") else 0]
    allowance = max(first, traits.allowance, floor)
    if traits.too_long:
        length = len(request.text)
        while length >= traits.too_long.get(allowance, math.inf):
            allowance //= 4
    return allowance


def _without_refused(traits: ModelTraits, call: Call) -> dict[str, Any]:
    """Return the fields of a request without the parameters that the model refuses."""
    request = cast("Request | ChoicesRequest", call.request)
    update: dict[str, Any] = {}
    for name in traits.unsent:
        if name in request.extra:
            value = encode({name: request.extra[name]}).decode()
            raise CapabilityError(f"model {traits.name!r} refuses a field: leave out extra={value}")
        if not carries(call, name):
            continue
        if name in OPTIONAL:
            if name in call.posting.required:
                raise _setting_error(traits, name, getattr(request, name))
            update[name] = OPTIONAL[name]
        elif name in LOGPROBS:
            raise CapabilityError(
                f"model {traits.name!r} sends no log-probabilities of its tokens; ask for samples"
                " instead (n=20), or use a model that sends them"
            )
        elif name == "json_schema":
            messages = update.get("messages", request.messages)
            update |= _schema_in_words(cast("Request", request), messages)
        elif name == "functions":
            update["functions"] = ()  # the prompt describes them, too
        elif name == "system":
            update |= _without_system(update.get("messages", request.messages))
    return update


def _setting_error(traits: ModelTraits, name: str, value: object) -> CapabilityError:
    """Return the error on a parameter that the user set, and that is never left out silently."""
    return CapabilityError(
        f"model {traits.name!r} refuses {name}={json.dumps(value)}; leave it out"
    )


def _limit_numbers(
    traits: ModelTraits, call: Call, update: dict[str, Any], posted: dict[str, Any]
) -> None:
    """Change numbers to the nearest that the model takes, in `update` and `posted`.

    If tokens have to be saved, the thought gets fewer first, and then the answer.
    """
    request = call.request
    for name in ("thinking_tokens", "n", "logprobs", "alternatives"):
        value = getattr(request, name, None)
        count = "top_logprobs" if name in ("logprobs", "alternatives") else name
        if value is not None and (fits := limit_number(traits, count, value)) != value:
            update[name] = fits
    if isinstance(request, Request) and request.max_tokens is not None:
        allowance = posted.get("allowance", call.posting.allowance)
        whole = limit_number(traits, "max_tokens", request.max_tokens + allowance)
        posted["allowance"] = min(allowance, max(0, whole - request.max_tokens))
        update["max_tokens"] = whole - posted["allowance"]


def limit_number(traits: ModelTraits, count: str, value: int) -> int:
    """Return the number nearest to the requested one that the model takes."""
    fits = min(traits.most.get(count, value), value)
    return max(traits.least.get(count, fits), fits)


def _nearest_effort(effort: Effort, efforts: Sequence[str]) -> Effort:
    """Return the level nearest to an effort; of two, the higher."""
    ranks: dict[str, int] = {level: rank for rank, level in enumerate(EFFORTS)}
    nearest = min(efforts, key=lambda e: (abs(ranks[e] - ranks[effort]), -ranks[e]))
    return cast("Effort", nearest)


def _schema_in_words(request: Request, messages: Sequence[ChatMessage]) -> dict[str, Any]:
    """Return the fields of a request that states its schema at the end of the prompt."""
    words = (
        "\n\nAnswer with one JSON object and nothing else. It must satisfy this JSON schema:\n"
        + encode(request.json_schema).decode()
    )
    if request.prompt is not None:
        return {"json_schema": None, "prompt": request.prompt + words}
    *before, last = messages
    longer = last.model_copy(update={"content": last.content + words})
    return {"json_schema": None, "messages": (*before, longer)}


def _without_system(messages: Sequence[ChatMessage]) -> dict[str, Any]:
    """Return the chat with its system messages at the beginning of the first user message."""
    system = [message.content for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role != "system"]
    if not rest or rest[0].role != "user":
        rest.insert(0, ChatMessage(role="user", content=""))
    content = "\n\n".join(part for part in (*system, rest[0].content) if part)
    return {"messages": (rest[0].model_copy(update={"content": content}), *rest[1:])}


# ---- learning from a refusal ----


def repair(traits: ModelTraits, refusal: Refusal, call: Call) -> ModelTraits:
    """Return the traits that explain a refusal of the call; the same ones if it shows nothing new.

    Raises:
        CapabilityError: The model refuses a value that the user set; it may take another one.
    """
    request, posting, name = call.request, call.posting, refusal.parameter
    if name in request.extra:
        return drop_parameter(traits, name, call)
    if refusal.kind == "rename":
        return traits.learn(cap_field=_other_cap_field(posting.cap_field))
    if refusal.kind == "range" and refusal.limit is not None:
        return _learn_limit(traits, name, int(refusal.limit), call)
    if name == "n":  # a server that takes no `n` gives one answer
        return _learn_limit(traits, name, 1, call)
    if refusal.kind == "effort" and (efforts := _remaining_efforts(traits, refusal, call)):
        return traits.learn(efforts=efforts)
    if name == "max_tokens":
        other = _other_cap_field(traits.cap_field)
        if other in traits.unsent or refusal.kind != "drop":
            return traits
        return traits.learn(cap_field=other, unsent=(*traits.unsent, traits.cap_field))
    return drop_parameter(traits, _field_name(name, posting), call)


def _other_cap_field(field: str) -> str:
    """Return the other of the two names of the token limit."""
    return "max_tokens" if field == "max_completion_tokens" else "max_completion_tokens"


def _remaining_efforts(traits: ModelTraits, refusal: Refusal, call: Call) -> tuple[str, ...]:
    """Return the levels of effort that the model may take."""
    effort = cast("Request | ChoicesRequest", call.request).effort
    if effort is None:
        return ()
    values = refusal.values
    if not values and effort != "none":  # the refusal names no level: any other one may do
        values = traits.efforts or EFFORTS[:-1]
    efforts = tuple(e for e in EFFORTS if e in values and e != effort)
    if efforts:
        level = "default" if "default" in efforts else _nearest_effort(effort, efforts)
        listed = f", but {', '.join(efforts)}" if refusal.values else ""
        _log.warning("%s takes no effort %s%s; %s is sent", traits.name, effort, listed, level)
    return efforts


def _field_name(name: str, posting: Posting) -> str:
    """Return the field that carries a parameter of thinking, whose name depends on the API."""
    is_other = name in THINKING_FIELDS and name not in posting.thinking_fields
    return posting.thinking_fields[0] if is_other and posting.thinking_fields else name


def _learn_limit(traits: ModelTraits, name: str, limit: int, call: Call) -> ModelTraits:
    """Return the traits with a limit of a number; without the parameter if it was at the limit."""
    count = BY_NAME[name].count
    value = find_number(count, call)
    if value is None or value == limit:
        return drop_parameter(traits, _field_name(name, call.posting), call)
    side = "most" if value > limit else "least"
    words = f"takes {count} {'up to' if value > limit else 'from'} {limit}"
    if count in call.posting.required:
        _log.warning("%s %s; %s is sent", traits.name, words, limit)
    elif count != "max_tokens":
        _log.info("%s %s", traits.name, words)
    return traits.learn(**{side: {**getattr(traits, side), count: limit}})


def find_number(count: str, call: Call) -> int | None:
    """Return the number that a call carries; `None` if it carries none."""
    request = call.request
    if count == "max_tokens":
        return call.posting.most_tokens(request) if isinstance(request, Request) else None
    if count == "top_logprobs":
        count = "alternatives" if isinstance(request, ChoicesRequest) else "logprobs"
    number: int | None = getattr(request, count, None)
    return number


def drop_parameter(traits: ModelTraits, name: str, call: Call) -> ModelTraits:
    """Return the traits of a model that refuses a parameter; the same ones if it was not sent."""
    if name in traits.unsent or not carries(call, name):
        return traits
    if name in OPTIONAL and name in call.posting.required:
        raise _setting_error(traits, name, getattr(call.request, name))
    if name != "system":
        _log.info("%s takes no %s", traits.name, name)
    return traits.learn(unsent=(*traits.unsent, name))


def carries(call: Call, name: str) -> bool:
    """Return whether a call carries a parameter."""
    request, posting = call.request, call.posting
    if name in request.extra or name in posting.thinking_fields:
        return True
    if name in MARKS:
        return posting.prefix_mark == MARKS[name]
    if name == "system":
        return any(m.role == "system" for m in getattr(request, "messages", ()))
    if name in LOGPROBS:
        return reads_logprobs(request)
    if name in OPTIONAL or name in ("json_schema", "functions"):
        default = BY_NAME[name].default
        return bool(getattr(request, name, default) != default)
    return False


def acceptance_key(call: Call) -> tuple[object, ...]:
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


def reads_logprobs(request: AnyRequest) -> bool:
    """Return whether the answer to a request depends on log-probabilities."""
    return isinstance(request, ChoicesRequest) or getattr(request, "logprobs", None) is not None
