"""Finds out which parameter of a request a server refuses, and what it takes instead.

No two servers use the same words, and the words change, but names do not. So `read_refusal` looks
for the names of the parameters that were sent (in the error's field or its message), and then for
what differs from the value that was sent: a number, levels of effort, another name. A message that
names a parameter and has no such sign refuses the parameter itself.

Patterns that are used once are written where they are used: errors are rare, and `re` keeps them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from textassay.lazy import lazy_pattern
from textassay.runtime.errors import Refusal
from textassay.runtime.parameters import EFFORTS, Parameter, sent_parameters, snake_case

SEARCHED_CHARACTERS = 8192
"""Longest beginning of an error body that is searched."""

# insufficient_quota (OpenAI, with status 429), billing_hard_limit_reached, 1113 (Zhipu: in arrears)
QUOTA_CODE = lazy_pattern(
    r"insufficient_(quota|balance|funds|credits?)|billing_(hard_limit_reached|not_active)|^1113$",
    re.I,
)
# You exceeded your current quota, please check your plan and billing details.
# Your credit balance is too low to access the API.   Insufficient Balance
QUOTA_TEXT = lazy_pattern(
    r"(current|monthly|usage) quota|credit balance is too low|insufficient"
    r" (balance|funds|credits?|quota)"
    r"|out of credits|(spending|billing) (hard )?limit|billing details",
    re.I,
)
# This model's maximum context length is 8192 tokens.   prompt is too long: 210000 tokens
# The input token count (40000) exceeds the maximum number of tokens allowed
# input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000 (Anthropic)
# `inputs` tokens + `max_new_tokens` must be <= 4097 (TGI)   maximum prompt length is (xAI)
# but not: must be less than or equal to `8192`, ... is less than the `context_window` (Groq)
CONTEXT = lazy_pattern(
    r"(?<!less than the `)context[ _-]?(length|window|size|limit)|maximum prompt length"
    r"|tokens\W+\+\s|(prompt|input|request) (is|was) too long|too many (input |prompt )?tokens"
    r"|max(imum)?[ _]model[ _]len|exceed\w{0,8} the (maximum|max|limit)[^.]{0,40}tokens|input token"
    r" count",
    re.I,
)
# content_filter, ResponsibleAIPolicyViolation (Azure)   rejected by our safety system   flagged
FILTER = lazy_pattern(
    r"content[ _]?(filter|polic(y|ies)|management polic)|responsibleaipolicy|safety"
    r" (system|filter)|flagged|moderation",
    re.I,
)
# The model `gpt-9` does not exist   model "x" not found, try pulling it first (Ollama)
NO_MODEL = lazy_pattern(
    r"model_not_found|model\b.{0,120}(does not exist|not found|is not available)|unknown model"
    r"|invalid model name|server is pinned to",
    re.I | re.S,
)
# image_url is only supported by certain models (OpenAI)   does not support image input (Mistral)
# At most 0 image(s) may be provided, ... is not a multimodal model (vLLM)   unknown variant
# `image_url`, expected `text` (DeepSeek)   image input is not supported - you may need to provide
# the mmproj (llama-server)   No endpoints found that support image input (OpenRouter)
NO_IMAGES = lazy_pattern(
    r"image_url is only supported|not a (multi-?modal|vision)|unknown variant .?image_url"
    r"|at most 0 image|\bmmproj\b|missing data required for image input"
    r"|support (for )?(image|vision|multi-?modal)(?!s? (format|type|url|size|larger))"
    r"|image (input|content)s? (is|are) not|(image|vision|multi-?modal)[\w ]{0,20} (is|are) not"
    r" (supported|enabled|available) (by|for|on|with|in) th(is|e) model",
    re.I,
)
# LiteLLM's proxy looks keys up in a database; without one it knows its master key alone
NO_KEY = lazy_pattern(r"no_db_connection|no connected db", re.I)

# litellm.BadRequestError: OpenAIException - ...   (Bedrock:) The model returned the following
# errors: ...
_WRAPPING_WORDS = lazy_pattern(
    r"^\s*((litellm\.)?\w*(Error|Exception)\s*(:|-)\s*"
    r"|An error occurred \(\w+\) when calling the \w+ operation: "
    r"|the model returned the following errors?:\s*)+",
    re.I,
)


class ErrorBody(NamedTuple):
    """The content of an error body."""

    message: str
    codes: str = ""
    """Its codes and types, joined by spaces."""
    param: str | None = None
    """The name in its field `param`."""


def read_error(body: bytes | str) -> ErrorBody:
    """Return the content of an error body: the innermost message, and the codes of all layers."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    found = _of_text(text, depth=4)
    return ErrorBody(
        found.message[:SEARCHED_CHARACTERS], found.codes[:SEARCHED_CHARACTERS], found.param
    )


def _of_text(text: str, depth: int) -> ErrorBody:
    """Return the content of a text, which may be JSON or quote it, up to `depth` times."""
    try:
        return _of_value(orjson.loads(text), depth)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        text = text[:SEARCHED_CHARACTERS]  # words, which may quote a body
    if depth and (inner := _find_quoted_body(text)) is not None:
        return _of_value(inner, depth - 1)
    return ErrorBody(_WRAPPING_WORDS.sub("", text))


def _find_quoted_body(text: str) -> Mapping[str, Any] | None:
    """Return the body of an error that a text quotes, as JSON or as Python writes it."""
    decoder = json.JSONDecoder(strict=False)
    for start in [m.start() for m in re.finditer(r"\{\s*['\"]", text)][:3]:
        try:
            if text[start + 1 :].lstrip()[:1] == '"':
                value, _ = decoder.raw_decode(text, start)
            else:
                value = ast.literal_eval(text[start : text.rindex("}") + 1])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict) and not value.keys().isdisjoint(("error", "message", "detail")):
            return value
    return None


def _of_value(payload: Any, depth: int) -> ErrorBody:
    # Google's API wraps an error in a list of one.
    while isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        return ErrorBody(str(payload))
    error = payload.get("error", payload)
    if not isinstance(error, dict):
        codes = _values(payload, "error_type", "code")
        return _within(ErrorBody(str(error), " ".join(codes)), depth)
    layers = (error, error.get("innererror"))
    codes = [code for layer in layers for code in _values(layer, "code", "type", "status")]
    message = error.get("message") or error.get("detail") or payload.get("detail")
    if isinstance(message, list) and message and isinstance(message[0], dict):
        message = _of_validation(message[0], codes)
    param = error.get("param")
    if isinstance(param, str) and " " in param.strip():
        message, param = f"{message}: {param}", None  # gateways put the sentence there
    found = ErrorBody(
        message if isinstance(message, str) else str(message or payload),
        " ".join(codes),
        param if isinstance(param, str) and param else None,
    )
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str) and raw.strip() and depth:
        return _join(found, _of_text(raw, depth - 1))
    return _within(found, depth)


def _values(layer: Any, *names: str) -> list[str]:
    """Return the values of those fields that an object has."""
    fields = layer if isinstance(layer, dict) else {}
    return [str(fields[name]) for name in names if fields.get(name) is not None]


def _within(found: ErrorBody, depth: int) -> ErrorBody:
    """Return the content of a message that may itself be, or quote, a body."""
    return _join(found, _of_text(found.message, depth - 1)) if depth else found


def _join(outer: ErrorBody, inner: ErrorBody) -> ErrorBody:
    codes = f"{outer.codes} {inner.codes}".strip()
    return ErrorBody(inner.message, codes, inner.param or outer.param)


def _of_validation(detail: Mapping[str, Any], codes: list[str]) -> str:
    """Return the message of one validation error of FastAPI's, with the field in front."""
    codes += _values(detail, "type")
    place, said = detail.get("loc"), str(detail.get("msg") or detail)
    return f"{_path(place)}: {said}" if isinstance(place, list | tuple) and place else said


def _path(place: Sequence[Any]) -> str:
    """Return the place of a field as `messages[0].role`."""
    parts = [str(part) for part in place]
    parts = parts[1:] if len(parts) > 1 and parts[0] == "body" else parts
    return re.sub(r"\.(\d+)\b", r"[\1]", ".".join(parts))


class _Mention(NamedTuple):
    """The name of a parameter that was sent, where a message has it."""

    parameter: Parameter
    field: str
    """The field of the body that carries the parameter."""
    value: Any
    """The value that was sent."""
    start: int
    """Where the name begins; -1 in the error's field `param`."""
    end: int
    is_plain: bool
    """Whether it is certainly a name: it is quoted, precedes `=` or `:`, or begins the message."""
    is_word: bool
    """Whether it is an ordinary word without quotes."""


def read_refusal(status: int, body: bytes | str, sent: Mapping[str, Any]) -> Refusal | None:
    """Return which parameter of a body a server refuses; `None` if its error is not a refusal.

    Only parameters that were sent can be refused, and only values other than the sent one offered.
    """
    # gateways pass a provider's refusal on with a status of success
    if status not in (200, 400, 403, 404, 416, 422):
        return None
    error = read_error(body)
    text = _normalize(error.message)
    if text.startswith("<"):
        return None  # a page of a firewall or gateway
    mentions = _find_mentions(error.param, text, sent)
    if status == 403:  # the user's own fields may have names that are words of the message
        mentions = [m for m in mentions if m.parameter.repair != "never"]
    if status == 404:
        # OpenRouter finds no provider that takes tools
        is_router = "no endpoints found" in text
        names = {mention.parameter.name for mention in mentions}
        return Refusal("drop", "functions") if is_router and "functions" in names else _api(text)
    if _is_other_fault(error, text, mentions):
        return None
    if not mentions:
        return _unnamed_level(text, sent) or _api(text)
    first = mentions[0]
    is_cap = any(mention.parameter.name == "max_tokens" for mention in mentions)
    if is_cap and re.search(r"\bbudget_tokens\b|\breasoning\.max_tokens\b", text):
        return Refusal("room", "max_tokens")
    match first.parameter.repair:
        case "level":
            found = _level(first, text)
        case "number":
            found = _number(first, text)
        case _:
            found = None
    return found or _drop(mentions, text)


def _normalize(message: str) -> str:
    """Return the beginning of a message in lower case, with names in snake_case.

    Addresses, statuses and quotations of the request are removed: their words say nothing.
    """
    # a server may quote the whole request further on
    text = re.sub(r"(?i)https?://\S+", "", message[:2000])
    text = snake_case(re.sub("[\u2018\u2019\u201c\u201d]", "'", text))
    text = re.sub(
        r"\d+ validation errors?(?: for \w+)?:?\s|error code: \d{3}\b|\[\d{3}\]:?"
        r"|['\"]code['\"]: ?['\"]?\d{3}\b",
        " ",
        text,
    )
    # the supported range is from 1 (inclusive) to 8193 (exclusive) (Vertex)
    text = text.replace(" (inclusive)", "")
    text = re.sub(r"(?<![\d.])(\d+) \(exclusive\)", lambda found: str(int(found[1]) - 1), text)
    # pydantic quotes the request, with words of the judged text
    return re.split(r"['\"]input['\"]:|\binput_value=", text, maxsplit=1)[0].strip()


def _find_mentions(param: str | None, text: str, sent: Mapping[str, Any]) -> list[_Mention]:
    """Return the parameters that were sent and that the error names, the likeliest first."""
    named = snake_case(param) if param else None
    found = []
    for parameter, field, value in sent_parameters(sent):
        is_named = named is not None and parameter.pattern.fullmatch(named) is not None
        # `include` lists everything that is requested in addition to an answer
        if (is_named or named == field) and (field != "include" or parameter.pattern.search(text)):
            found.append(_Mention(parameter, field, value, -1, -1, True, False))
        for match in parameter.pattern.finditer(text):
            start, end = match.span()
            before, behind = text[:start][-1:], text[end : end + 1]
            is_marked = before in ("'", '"', "`") or behind in ("'", '"', "`", "=", ":")
            is_word = match["word"] is not None and not is_marked
            is_plain = (is_marked or start == 0) and not is_word
            found.append(_Mention(parameter, field, value, start, end, is_plain, is_word))
    return sorted(found, key=lambda m: (m.is_word, m.start))


# --- errors about something else ----------------------------------------------------------------

_OTHER_CODE = lazy_pattern(
    r"context_length|context_size|content_filter|model_not_found|rate_limit|api_key|authentication"
    r"|overloaded|\b(?:401|402|404|408|409|429|5\d\d)\b",
    re.I,
)
# These refuse a parameter, even if the message has words of another fault.
_PLAIN = lazy_pattern(
    r"(?:unsupported|unknown|unrecognized|unexpected|extra)[_ ](?:\w+ )?(?:parameter|argument|field"
    r"|value|name|key|input)|extra_forbidden|integer_(?:above|below)"
    r"|does(?: not|n't) support (?:the )?parameter"
)
# API key not valid   Failed to call a function   temperature: Field required
_OTHER_FAULT = lazy_pattern(
    r"api[ _-]?key|tool_use_failed|json_validate_failed"
    r"|does not exist|not found\b|rate limit|invalid[ _]model\b"
    r"|request (?:is )?too large|reduce the length"
    r"|field required|missing (?:required )?(?:parameter|argument|field|propert)"
    r"|: (?:is )?required\b"
)


def _is_other_fault(error: ErrorBody, text: str, mentions: Sequence[_Mention]) -> bool:
    """Return whether the error is about the text, the account or the model."""
    if _OTHER_CODE.search(error.codes):
        return True
    both = f"{error.codes.lower()} {text}"
    # parameter `temperature` does not exist: the parameter, not the model
    is_gone = r"['\"`]? (?:does not exist|not found|(?:cannot|could not) be found)\b"
    if _PLAIN.search(both) or any(re.match(is_gone, text[m.end :]) for m in mentions if m.end >= 0):
        return False
    context = CONTEXT.search(text)
    # "exceeds the maximum ... tokens" may be about the cap as well as the context
    cap = r"max(?:imum)?[_ -](?:\w+[_ -])?tokens|num_predict"
    if context and not (context[0].startswith("exceed") and re.search(cap, text)):
        return True
    if QUOTA_TEXT.search(text) or any(QUOTA_CODE.search(code) for code in error.codes.split()):
        return True
    if any(pattern.search(both) for pattern in (FILTER, NO_KEY, _OTHER_FAULT)):
        return True
    return NO_MODEL.search(both) is not None and not mentions


# --- the API ------------------------------------------------------------------------------------


def _api(text: str) -> Refusal | None:
    """Return the refusal of a model that is served under another path only."""
    target = None
    named = r"\b(?:v1/)?(chat[/ ]completions|completions?|responses)(?: (?:api|endpoint))?\b"
    cue = (
        r"\b(not|unsupported|instead of|rather than)\b|(n't)\b"
        r"|\b(?:only|use|mean|via|through|try|switch|send|available)\b"
    )
    for match in re.finditer(named, text):
        if not re.search(r"/|api|endpoint", match[0]):
            continue  # the ordinary word
        cues = list(re.finditer(cue, text[max(0, match.start() - 40) : match.start()]))
        if cues and not (cues[-1][1] or cues[-1][2]):
            path = match[1].replace(" ", "/")
            target = f"/v1/{path if path != 'completion' else 'completions'}"
    return None if target is None else Refusal("api", "model", instead=target)


# --- levels -------------------------------------------------------------------------------------

_LEVEL = rf"['\"`]?\b(?:{'|'.join(EFFORTS)}|disabled?|auto|off|on)\b['\"`]?"
_LEVELS = lazy_pattern(rf"{_LEVEL}(?:\s*(?:,\s*(?:and|or)\b|,|/|\||\band\b|\bor\b)\s*{_LEVEL})*")
# 'low' and 'medium' are not supported   does not support 'low', 'medium'   invalid values: 'low'
_NOUN = r"(?: (?:of |for )?['\"`]?\w*(?:effort|value|level|setting|reasoning|thinking)\w*['\"`]?)*"
_DENIED_AFTER = lazy_pattern(
    rf"{_NOUN}(?: (?:is|are|was|were)(?: all| both)?)?"
    r" (?:not\b|no longer\b|un(?:supported|available|known)\b|invalid\b|disabled\b|refused\b"
    r"|rejected\b|deprecated\b|cannot\b|can't\b|isn't\b|aren't\b|(?:may|must) not\b)"
)
_DENIED_BEFORE = lazy_pattern(
    r"(?:(?:\bnot|n't) (?:support|accept|allow|permit|take|know)(?:ed|ing|s)?|\b(?:not|never) be"
    rf"|\b(?:unsupported|invalid|disallowed|unavailable|unknown)){_NOUN}(?: are| is)?[\s:(]*$"
)


def _level(first: _Mention, text: str) -> Refusal | None:
    """Return the refusal of a level of effort, with the levels that the message offers."""
    value = _effort_in(first.value)
    if isinstance(first.value, Mapping) and value is None:
        return _number(first, text)
    offered, denied = _find_levels(text, value)
    if not offered and any(level != value for level in denied):
        offered = {level for level in EFFORTS[:-1] if level not in denied and level != value}
    # without thoughts: the parameter is known, as it is for every model that thinks
    is_value = value in (None, "none") or re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", text)
    if not offered and (not is_value or (value is None and _PLAIN.search(text))):
        return None
    return _effort_refusal(first.parameter, offered)


def _effort_refusal(parameter: Parameter, offered: Collection[str]) -> Refusal:
    return Refusal("effort", parameter.name, values=tuple(e for e in EFFORTS if e in offered))


def _effort_in(value: Any) -> Any:
    return value.get("effort") if isinstance(value, Mapping) else value


def _find_levels(text: str, sent: Any) -> tuple[set[str], set[str]]:
    """Return the levels that a message offers, and the levels that it says are not taken."""
    offered: set[str] = set()
    denied: set[str] = set()
    for match in _LEVELS.finditer(text):
        levels = [word for word in re.findall(r"\w+", match[0]) if word in EFFORTS]
        is_word = len(levels) == 1 and match[0][0] not in "'\"`"
        if _DENIED_AFTER.match(text, match.end()) or _DENIED_BEFORE.search(text[: match.start()]):
            denied.update(() if is_word else levels)
        elif sent in levels:
            continue  # a list that has the level that was sent is of refused ones
        elif levels and re.match(r"\W*(?:or|and) (?:below|lower|less)", text[match.end() :]):
            offered.update(EFFORTS[EFFORTS.index("low") : EFFORTS.index(levels[-1]) + 1])
        elif not is_word:
            offered.update(levels)
    return offered, denied


def _unnamed_level(text: str, sent: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal of a level if a message offers several without naming the parameter."""
    for parameter, _, value in sent_parameters(sent):
        if parameter.repair == "level" and value is not None:
            offered, _ = _find_levels(text, _effort_in(value))
            if len(offered) > 1:
                return _effort_refusal(parameter, offered)
    return None


# --- numbers ------------------------------------------------------------------------------------

_NUMBER = lazy_pattern(r"(?<![\w./-])(?<!\w\[)(-?\d+(?:[,_]\d{3})*(?:\.\d+)?)(?![\w%/]|\.\d|-\w)")
_BOUND = lazy_pattern(
    r"[<>\u2264\u2265]|\b(?:max(?:imum)?|min(?:imum)?|bound|(?:at|the) (?:\w+ )?(?:most|least)"
    r"|limit\w*"
    r"|range|between|from|up to|exceed\w*|above|below|over|under|beyond|less|more|fewer|greater"
    r"|larger|lower|higher|smaller|largest|smallest|as high|only|cap\w*|ceiling|must|should"
    r"|outside|expected|too \w+|at least|not enough)\b"
)
# Could not finish the message because max_tokens was reached. Please try again with higher
_SPENT = lazy_pattern(
    r"\b(?:finish|unfinished|completed?\b|reached|hit\b|exhausted|ran out|run out|used up|cut off"
    r"|stopped|truncated|higher|larger|greater|bigger|increase|raise|more tokens|incomplete"
    r"|insufficient)"
)


def _number(first: _Mention, text: str) -> Refusal | None:
    """Return the refusal of a number, or of the name of `max_tokens`; or that it was too small."""
    limit = _nearest_bound(text, _number_in(first.value))
    is_cap = first.parameter.name == "max_tokens"
    if limit is not None:
        return Refusal("range", first.parameter.name, limit=limit)
    if not is_cap:
        return None
    if _SPENT.search(text):
        return Refusal("room", "max_tokens")
    names = set(re.findall(r"(?<!\w)max_(?:completion_)?tokens\b", text))
    if len(names) == 2 or (names and first.field not in names):
        return Refusal("rename", "max_tokens", instead=max(names - {first.field}))
    return None


def _number_in(value: Any) -> float | None:
    """Return the number that was sent; `None` if it is unknown."""
    if isinstance(value, Mapping):
        value = value.get("budget_tokens", value.get("max_tokens"))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _nearest_bound(text: str, sent: float | None) -> float | None:
    """Return the number in a message that is nearest to the one that was sent."""
    text = re.sub(r"(?<![\w.-])(\d+)(?:\s?[-\u2013]\s?|\.\.+)(\d+)(?![\w-])", r"\1 to \2", text)
    if not _BOUND.search(text):
        return None
    found = [(float(re.sub("[,_]", "", m[1])), text[: m.start()]) for m in _NUMBER.finditer(text)]
    if sent is None:  # the row of a batch
        is_least = re.search(r">=|\u2265|\b(?:below|at least|minimum|too small)\b", text)
        pick = max if is_least else min
        return pick((value for value, _ in found if value > 1), default=None)
    others = [(value, before) for value, before in found if value != sent]
    if not others:
        return None
    value, before = min(others, key=lambda pair: abs(pair[0] - sent))
    # must be less than 4097
    less = r"(?:(?<![<>=])<|\b(?:less|lower|smaller|fewer) than|\bbelow)\s*$"
    if value < sent and re.search(less, before):
        return value - 1
    more = r"(?:(?<![<>=])>|\b(?:more|higher|larger|greater) than|\babove)\s*$"
    if value > sent and re.search(more, before):
        return value + 1
    return value


# --- the parameter itself -----------------------------------------------------------------------

# unknown   Extra inputs are not permitted   doesn't   only 1 is allowed   please omit
_DENIAL = lazy_pattern(
    r"\bun(?:supported|known|recogni[sz]ed|expected|available)\b|\bextra\b|\binvalid\b|n't\b"
    r"|\b(?:no|not|cannot|never|only|drop|unable|error|without|fixed|blocked|must be|lacks?|off"
    r"|nothing|needed|incorrect|requires --|alternate)\b"
    r"|\b(?:deprecated|forbid|removed?|refus|reject|disallow|disabled|illegal|ignore|omit"
    r"|leave out|prohibited|incompatible)"
)


def _drop(mentions: Sequence[_Mention], text: str) -> Refusal | None:
    """Return the refusal of a parameter, whatever its value."""
    first = mentions[0]
    # a server that takes only one of the two, or neither, which its next refusal shows
    if {m.parameter.name for m in mentions[:2]} == {"temperature", "top_p"} and first.start >= 0:
        return Refusal("drop", "top_p")
    # without a denial nearby it may be a word of a quoted text
    around = text[max(0, first.start - 80) : first.end + 80]
    if not first.is_plain and not _DENIAL.search(around):
        return None
    return Refusal("drop", first.parameter.name)
