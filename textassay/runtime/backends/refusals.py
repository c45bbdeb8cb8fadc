"""Which parameter of a request a server refuses, and what it takes instead.

No two servers use the same words, and the words change; names do not. So the name of a parameter is
looked for (in its field, or as it stands in the message), and few signs beside it: numbers, levels
of effort, another name. A message that names a parameter and shows no other sign refuses the
parameter itself.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from textassay.lazy import lazy_pattern
from textassay.runtime.errors import Refusal

SEARCHED_CHARACTERS = 8192
"""Longest beginning of what a server said that is searched for what it means."""

MAX_DEPTH = 4
"""How often a body inside a body is opened."""

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
# vLLM quotes a validation error as Python writes it: [{'type': 'extra_forbidden', 'loc': ('body',
# 'zzz'), 'msg': 'Extra inputs are not permitted', 'input': 1}]
_QUOTED_DETAIL = lazy_pattern(
    r"'loc': [\[(]([^\])]{0,200})[\])].{0,20}?'msg': (['\"])(.*?)\2", re.S
)


class ErrorBody(NamedTuple):
    """What an error body says."""

    message: str
    codes: str = ""
    """Its codes and types, joined by spaces."""
    param: str | None = None
    """The name in its field for the parameter."""


def read_error(body: bytes | str) -> ErrorBody:
    """Return what an error body says: the innermost message, and the codes of all layers."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    found = _of_text(text, MAX_DEPTH)
    return ErrorBody(
        found.message[:SEARCHED_CHARACTERS], found.codes[:SEARCHED_CHARACTERS], found.param
    )


def _of_text(text: str, depth: int) -> ErrorBody:
    """Return what a text says, which may be JSON or hold it."""
    try:
        return _of_value(orjson.loads(text), depth)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        text = text[:SEARCHED_CHARACTERS]  # words, which may quote a body
    if depth and (inner := _find_quoted_body(text)) is not None:
        return _of_value(inner, depth - 1)
    words = _WRAPPING_WORDS.sub("", text)
    detail = _QUOTED_DETAIL.search(words)
    if detail is None:
        return ErrorBody(words)
    place = re.findall(r"\w+", detail[1])
    return ErrorBody(f"{_path(place)}: {detail[3]}")


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


_CODES = ("code", "type", "status")


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
    codes = _values(error, *_CODES) + _values(error.get("innererror"), *_CODES)
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
    """Return the fields of an object that are there."""
    fields = layer if isinstance(layer, dict) else {}
    return [str(fields[name]) for name in names if fields.get(name) is not None]


def _within(found: ErrorBody, depth: int) -> ErrorBody:
    """Return what the message says that may itself be, or quote, a body."""
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


REPAIRABLE = (200, 400, 403, 416, 422)
"""Statuses of refusals; gateways pass a provider's on with a status of success."""

READ_CHARACTERS = 2000
"""Longest beginning of a message that is read: a server may quote the whole request behind it."""

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "default")
"""Levels of effort, from least to most; `default` is Qwen's word for switched on."""

# --- names --------------------------------------------------------------------------------------

_CAPS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "max_tokens_to_sample",
    "num_predict",
)
_FORMATS = ("response_format", "text.format", "output_config.format")
_SAME = (_CAPS, _FORMATS)
"""Names of one thing, one of which a server may take instead of another."""
_EFFORT = ("reasoning_effort", "thinking_level")
_BUDGET = "thinking.budget_tokens"
_ROLE_FIELD = "messages.role"
_FLOATS = frozenset({"temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty"})
_NOT_DROPPED = frozenset({"model", "messages", "input", "inputs", "prompt", "contents", "include"})
"""What a request cannot be without, and fields that hold the refused one."""

# Each name, by how it is written: joined by underscores, hyphens or spaces, in any case. At one
# place the first of them counts.
_WRITTEN = {
    r"messages?(?:\[\d+\]|\.\d+|\[\])\.role": _ROLE_FIELD,
    r"thinking\.(?:\w+\.)*budget_tokens|budget_tokens|reasoning\.max_tokens": _BUDGET,
    r"thinking\.type(?:\.\w+)?|(?:adaptive|extended|interleaved)_thinking": "thinking.type",
    r"(?:thinking_config\.)?thinking_level": "thinking_level",
    r"(?:thinking_config\.)?(?:thinking_)?budget(?!_tokens)": "thinking_budget",
    r"reasoning(?:_|\.)effort|output_config\.effort|(?:reasoning_|thinking_|think_)?effort"
    r"(?:_levels?)?|think(?:ing)?_values?|reasoning_(?:values?|levels?)": "reasoning_effort",
    r"max(?:imum)?_tokens_to_sample": "max_tokens_to_sample",
    r"max(?:imum)?_(?:number_of_)?completion_tokens": "max_completion_tokens",
    r"max(?:imum)?_(?:number_of_)?output_tokens": "max_output_tokens",
    r"max(?:imum)?_new_tokens": "max_new_tokens",
    r"max(?:imum)?_tokens": "max_tokens",
    r"top_logprobs?": "top_logprobs",
    r"(?:response_)?logprobs?|log_prob(?:abilitie)?s": "logprobs",
    r"(?:random_)?seed": "seed",
    r"stop(?:_sequences?|_words?)?": "stop",
    r"candidate_count|n": "n",
    r"penalt(?:y|ies)": "penalty",
    r"text\.format(?:\.\w+)*": "text.format",
    r"output_(?:config\.)?format(?:\.\w+)*": "output_config.format",
    r"response_format(?:\.\w+)*|(?:response_)?json_schema|response_(?:json_)?schema"
    r"|response_mime_type|json_mode|structured_outputs?": "response_format",
    r"chat_template_kwargs(?:\.\w+)*": "chat_template_kwargs",
    # messages.0.content.0.text.cache_control
    r"(?:[\w.\[\]]+\.)?cache_control(?:\.\w+)*": "cache_control",
} | {
    name: name
    for name in (
        "thinking_token_budget", "num_predict", "temperature", "top_p", "top_k", "min_p",
        "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias",
        "reasoning_format", "prompt_mode", "tool_choice", "enable_thinking", "thinking",
    )
}  # fmt: skip
_CANONICAL = tuple(_WRITTEN.values())
_NAME = lazy_pattern(
    r"(?<![\w-])(?:(?:generation_config|inference_config|body|options)\.)?(?:"
    + "|".join(f"(?P<k{i}>{text.replace('_', '[_ -]?')})" for i, text in enumerate(_WRITTEN))
    + r")(?![\w-])"
)
_ENGLISH = frozenset({"stop", "n", "seed", "thinking", "thinking_budget", "prompt_mode"})
"""Names that are ordinary words, too: another name in the same message comes before them."""

# What stands behind these words, up to the end of the sentence, is what the server takes instead.
_SUGGESTION = lazy_pattern(
    r"\b(?:use|using|try|did you mean|do you mean|switch to|replaced (?:by|with)|renamed(?: to)?"
    r"|moved to|in fav(?:o|ou)r of|superseded by|prefer|supply|send|set|specify|pass|takes?"
    r"|expects?|accepts?|available as|known as|called)\b(?! (?:only )?(?:one|both)\b)"
)
_SUGGESTED_BEFORE = lazy_pattern(r"['\"`]? (?:instead|should be used|replaces)\b(?! of)")
_SUGGESTION_END = lazy_pattern(
    r"[.!?;:](?=\s|$)|\n|\s-\s|\s\(|\binstead of\b|\brather than\b|\bin place of\b|,? not\b"
)
# What stands behind these words is a condition, not what is refused.
_CONDITION = lazy_pattern(r"\b(?:when|while|if|unless|until|alongside)\b")
_CONDITION_END = lazy_pattern(r"[,.!?;:](?=\s|$)|\n|\s-\s")
_NEGATION = lazy_pattern(r"(?:\bnot|n't|\bcannot|\bnever|\bno longer|\bunable to)\W+$")
# unknown   Extra inputs are not permitted   doesn't   only 1 is allowed   please omit
_DENIAL = lazy_pattern(
    r"\bun(?:supported|known|recogni[sz]ed|expected|available)\b|\bextra\b|\binvalid\b|n't\b"
    r"|\b(?:no|not|cannot|never|only|drop|unable|error|without|fixed|blocked|must be|lacks?|off"
    r"|nothing|needed|incorrect)\b"
    r"|\b(?:deprecated|forbid|removed?|refus|reject|disallow|disabled|illegal|ignore|omit"
    r"|leave out|prohibited|incompatible)"
)


class _Mention(NamedTuple):
    """A known name where it stands in a message."""

    name: str
    start: int
    end: int
    is_aside: bool
    """Whether it is suggested, or part of a condition."""
    is_marked: bool
    """Whether it is quoted, or stands before `=` or `:`."""


class _Fault(NamedTuple):
    """What a server says, and which names are in it."""

    text: str
    param: str | None
    """The name in the error's own field, as the OpenAI API writes it."""
    mentions: tuple[_Mention, ...]
    """Likeliest first."""

    @property
    def names(self) -> list[str]:
        """Names that may be the refused one, likeliest first."""
        given = [self.param] if self.param and self.param not in _NOT_DROPPED else []
        return list(dict.fromkeys([*given, *(mention.name for mention in self.mentions)]))

    @property
    def main(self) -> str | None:
        """The likeliest name."""
        return next(iter(self.names), None)


def read_refusal(status: int, body: bytes | str) -> Refusal | None:
    """Return which parameter a server refuses, or `None` if its error is about something else."""
    if status not in (*REPAIRABLE, 404):
        return None
    error = read_error(body)
    text = _normal(error.message)
    if text.startswith("<"):
        return None  # a page of a firewall or gateway
    if status == 404:
        # a router says so of tools, by which it looks for a provider
        return _functions(text) if "no endpoints found" in text else _api(text)
    mentions = _mentions(text)
    if _is_other_fault(error, text, mentions):
        return None
    fault = _Fault(text, _canonical_name(error.param) if error.param else None, mentions)
    if not fault.names and (found := _api(text)):
        return found
    return (
        _messages(fault)
        or _effort(fault)
        or _thinking(fault)
        or _functions(text)
        or _room(fault)
        or _range(fault)
        or _rename(fault)
        or _drop(fault)
        or (_drop_unknown(text, error.codes) if status != 403 else None)
    )


_URL = lazy_pattern(r"https?://\S+", re.I)
_STATUS = lazy_pattern(
    r"\d+ validation errors?(?: for \w+)?:?\s|error code: \d{3}\b|\[\d{3}\]:?"
    r"|['\"]code['\"]: ?['\"]?\d{3}\b"
)
# pydantic quotes what was sent, with words of whatever text is judged
_ECHO = lazy_pattern(r"['\"]input['\"]:|\binput_value=")
# the supported range is from 1 (inclusive) to 8193 (exclusive) (Vertex)
_EXCLUSIVE = lazy_pattern(r"(?<![\d.])(\d+) \(exclusive\)")
_ADVICE_OF_LITELLM = lazy_pattern(r",? ?(?:to drop|or set `litellm|set `litellm)\b.*", re.S)


def _normal(message: str) -> str:
    """Return a message in lower case, names in snake_case, without addresses and curly quotes."""
    text = re.sub("[\u2018\u2019\u201c\u201d]", "'", _URL.sub("", message[:READ_CHARACTERS]))
    text = _STATUS.sub(" ", _snake(text)).replace(" (inclusive)", "")
    text = _EXCLUSIVE.sub(lambda match: str(int(match[1]) - 1), text)
    return _ADVICE_OF_LITELLM.sub("", _ECHO.split(text, maxsplit=1)[0]).strip()


def _snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", text).lower()


def _canonical_name(param: str) -> str:
    """Return a name as the OpenAI API writes it."""
    name = _snake(param)
    match = _NAME.fullmatch(name)
    if match is not None:
        return _name_in(match)
    root = re.split(r"[.\[]", name, maxsplit=1)[0]
    return root if root in _NOT_DROPPED else name


def _name_in(match: re.Match[str]) -> str:
    assert match.lastgroup is not None
    return _CANONICAL[int(match.lastgroup[1:])]


def _mentions(text: str) -> tuple[_Mention, ...]:
    """Return where known names stand: suggestions, conditions and ordinary words last."""
    asides = _asides(text)
    found = []
    for match in _NAME.finditer(text):
        start, end = match.span()
        is_aside = any(first <= start < last for first, last in asides)
        is_aside = is_aside or _SUGGESTED_BEFORE.match(text, end) is not None
        is_marked = text[:start][-1:] in ("'", '"', "`") or text[end : end + 1] in tuple("'\"`=:")
        found.append(_Mention(_name_in(match), start, end, is_aside, is_marked))
    return tuple(sorted(found, key=lambda m: (m.is_aside, m.name in _ENGLISH and not m.is_marked)))


def _asides(text: str) -> list[tuple[int, int]]:
    """Return the parts of a message that suggest something or name a condition."""
    asides = []
    for cue, end in ((_SUGGESTION, _SUGGESTION_END), (_CONDITION, _CONDITION_END)):
        for match in cue.finditer(text):
            if not _NEGATION.search(text, 0, match.start()):
                stop = end.search(text, match.end())
                asides.append((match.end(), stop.start() if stop else len(text)))
    return asides


# --- errors about something else ----------------------------------------------------------------

_OTHER_CODE = lazy_pattern(
    r"context_length|context_size|content_filter|model_not_found|rate_limit|api_key|authentication"
    r"|overloaded|\b(?:401|402|404|408|409|429|5\d\d)\b",
    re.I,
)
# Words by which a parameter is refused, whatever else the message speaks of
_PLAIN = lazy_pattern(
    r"(?:unsupported|unknown|unrecognized|unexpected|extra)[_ ](?:\w+ )?(?:parameter|argument|field"
    r"|value|name|key|input)|extra_forbidden|integer_(?:above|below)"
    r"|does(?: not|n't) support (?:the )?parameter"
)
# API key not valid   Failed to call a function
_OTHER_FAULT = lazy_pattern(
    r"api[ _-]?key|tool_use_failed|json_validate_failed"
    r"|does not exist|not found\b|rate limit|invalid[ _]model\b"
    r"|request (?:is )?too large|reduce the length"
)
# parameter `temperature` does not exist: said of the name, not of the model
_GONE = lazy_pattern(r"['\"`]? (?:does not exist|not found|(?:cannot|could not) be found)\b")
_CAP_WORDS = lazy_pattern(r"max(?:imum)?[_ -](?:\w+[_ -])?tokens|num_predict")


def _is_other_fault(error: ErrorBody, text: str, mentions: tuple[_Mention, ...]) -> bool:
    """Return whether the error is about the text, the account or the model."""
    if _OTHER_CODE.search(error.codes):
        return True
    both = f"{error.codes.lower()} {text}"
    if _PLAIN.search(both) or any(_GONE.match(text, m.end) for m in mentions):
        return False
    context = CONTEXT.search(text)
    # "exceeds the maximum ... tokens" is said of the cap as well as of the context
    if context and not (context[0].startswith("exceed") and _CAP_WORDS.search(text)):
        return True
    if QUOTA_TEXT.search(text) or any(QUOTA_CODE.search(code) for code in error.codes.split()):
        return True
    if any(pattern.search(both) for pattern in (FILTER, NO_KEY, _OTHER_FAULT)):
        return True
    return NO_MODEL.search(both) is not None and not mentions


# --- the API, and the messages ------------------------------------------------------------------

_ENDPOINT = lazy_pattern(
    r"\b(?:v1/)?(chat[/ ]completions|completions?|responses)(?: (?:api|endpoint))?\b"
)
_PATHS = {"chat": "/v1/chat/completions", "comp": "/v1/completions", "resp": "/v1/responses"}
_ENDPOINT_CUE = lazy_pattern(
    r"\b(not|unsupported|instead of|rather than)\b|(n't)\b"
    r"|\b(?:only|use|mean|via|through|try|switch|send|available)\b"
)


def _api(text: str) -> Refusal | None:
    """Return the refusal of a model that is served under another path only."""
    target = None
    for match in _ENDPOINT.finditer(text):
        if not re.search(r"/|api|endpoint", match[0]):
            continue  # completions as such
        cues = list(_ENDPOINT_CUE.finditer(text, max(0, match.start() - 40), match.start()))
        if cues and not (cues[-1][1] or cues[-1][2]):
            target = _PATHS[match[1][:4]]
    return None if target is None else Refusal("api", "model", instead=target)


# System role not supported   Developer instruction is not enabled   Unexpected role "developer"
_ROLE = lazy_pattern(
    r"\b(?:system|developer)['\"`]?[ _](?:role|message|prompt|instruction)s?\b"
    r"|\broles?\b.{0,60}\b(?:system|developer)\b|\b(?:system|developer)\b.{0,40}\broles?\b"
)
# The conversation must end with a user message   Expected last role User but got assistant
_PREFILL = lazy_pattern(
    r"\bprefill|\b(?:end|ends|ending|last|final|finish)\b.{0,40}\b(?:user|assistant)\b"
    r"|\b(?:user|assistant)\b.{0,30}\b(?:last|final|the end)\b"
)


def _messages(fault: _Fault) -> Refusal | None:
    """Return the refusal of a role, or of an answer that is begun for the model."""
    if fault.main not in (None, _ROLE_FIELD) and fault.param != "messages":
        return None
    if _PREFILL.search(fault.text) and "empty" not in fault.text:
        return Refusal("prefill", "messages")
    is_denied = _ROLE.search(fault.text) and _DENIAL.search(fault.text)
    if is_denied or _ROLE_FIELD in fault.names or "must alternate" in fault.text:
        return Refusal("role", "messages")
    return None


# --- effort and thinking ------------------------------------------------------------------------

_LEVEL = f"(?:{'|'.join(LEVELS)})"
_LISTED = rf"['\"`]?\b(?:{'|'.join(LEVELS)}|disabled?|auto|off|on)\b['\"`]?"
_LEVELS_LISTED = lazy_pattern(
    rf"{_LISTED}(?:\s*(?:,\s*(?:and|or)\b|,|/|\||\band\b|\bor\b)\s*{_LISTED})*"
)
# What a level behind these words is: refused by the first group, offered by the second
_LEVEL_CUE = lazy_pattern(
    r"\b(not (?:\w+ )?(?:support|take|accept|allow|permit)\w*|n't (?:support|take|accept|allow)"
    r"|cannot be|unsupported|invalid|got|given|received|sent|provided|instead of|rather than"
    r"|refus\w+|reject\w+)\b"
    r"|\b(supports?|supported|allowed|valid|available|accepts?|takes?|one of|must be|use|only"
    r"|choose|expected|permitted|set to|try|pick|between|options?)\b"
)
_LEVEL_REFUSED = lazy_pattern(
    r"\W*(?:(?:is|are|was|were) (?:not|un|in|refused|rejected)|cannot|isn't|aren't"
    r"|not (?:supported|allowed))"
)
_OR_LESS = lazy_pattern(r"\W*(?:or|and) (?:below|lower|less)")
_ONE_LEVEL = lazy_pattern(
    rf"['\"`]{_LEVEL}['\"`]"
    rf"|(?:\b(?:value|level|effort|support|be|to|take|set|is|are|use)s?|[:=])\s+{_LEVEL}\b(?! of\b)"
    rf"|={_LEVEL}\b|\b(?:minimal|xhigh)\b"
)
_VALUE_FAULT = lazy_pattern(r"\bvalues?\b|\blevel '|\bone of\b|\bmust be\b|\bmandatory\b|\brange\b")
# unsupported reasoning_effort "pro": a value that is no level
_OTHER_WORD = lazy_pattern(r"(['\"`])(?!reasoning|thinking|effort|output)[a-z]{1,10}\1")
# Reasoning is mandatory for this endpoint and cannot be disabled.   only works in thinking mode
_ALWAYS = lazy_pattern(
    r"\b(?:reasoning|thinking)\b(?!\.).{0,60}"
    r"\b(?:mandatory|(?:cannot|can ?not|can't|must not) be (?:disabled|turned off|switched off)"
    r"|always|required|must (?:stay|remain|be) (?:on|enabled))\b"
    r"|\bdisabl\w+ (?:reasoning|thinking)\b.{0,30}\b(?:not|impossible)\b"
    r"|\bonly (?:works|runs|operates)\b.{0,20}\bthinking\b"
    r"|\b(?:mandatory|always|(?:cannot|can't) disable|requires?)\b.{0,30}\b(?:reasoning|thinking)\b"
    r"(?! ?\.?(?:type|budget))"
)


_THINKING_TYPE = lazy_pattern(
    r"thinking\.type\.(\w+)(['\"`]? (?:(?:is|was) )?(?:not|un\w+|no longer|deprecated|removed))?"
)


def _effort(fault: _Fault) -> Refusal | None:
    """Return the refusal of a level of effort, or of no thinking at all."""
    text, main = fault.text, fault.main
    # a budget of 0 switches thinking off, as the effort `none` does
    is_zero = 0 in _numbers(text)
    if main == "thinking_budget":
        if _ALWAYS.search(text) or (_NUMBER.search(text) and (is_zero or not _is_bounded(text))):
            return Refusal("effort", "reasoning_effort")
        return None
    levels = _offered_levels(text)
    if main in _EFFORT:
        signs = (_ONE_LEVEL, _VALUE_FAULT, _ALWAYS, _OTHER_WORD)
        is_value = bool(levels) or is_zero or any(sign.search(text) for sign in signs)
    else:
        is_value = main in (None, "thinking", "reasoning") and (
            len(levels) >= 3 or _ALWAYS.search(text) is not None
        )
    return Refusal("effort", "reasoning_effort", values=levels) if is_value else None


def _offered_levels(text: str) -> tuple[str, ...]:
    """Return the levels of effort that a message offers."""
    offered: set[str] = set()
    refused: set[str] = set()
    for match in _LEVELS_LISTED.finditer(text):
        found = [word for word in re.findall(r"\w+", match[0]) if word in LEVELS]
        before = re.split(r"[.;]\s|[(]", text[max(0, match.start() - 60) : match.start()])[-1]
        after = text[match.end() : match.end() + 25]
        cues = list(_LEVEL_CUE.finditer(before))
        is_offered = bool(cues) and cues[-1][2] is not None
        if _LEVEL_REFUSED.match(after) or (cues and not is_offered):
            refused.update(found)
        elif found and is_offered and _OR_LESS.match(after):
            offered.update(LEVELS[LEVELS.index("low") : LEVELS.index(found[-1]) + 1])
        elif len(found) >= 2 or (is_offered and match[0][0] in "'\"`"):
            offered.update(found)
    return tuple(level for level in LEVELS if level in offered - refused)


def _thinking(fault: _Fault) -> Refusal | None:
    """Return the refusal of a way to set thinking, with the other ways that the message names."""
    if fault.main != "thinking.type":
        return None
    refused: list[str] = []
    others: list[str] = []
    for mention in fault.mentions:
        match = _THINKING_TYPE.match(fault.text, mention.start)
        if match is not None:
            is_refused = match[2] is not None or not (mention.is_aside or refused)
            (refused if is_refused else others).append(match[1])
    return Refusal("thinking", "thinking", values=tuple(dict.fromkeys(others)))


# --- functions ----------------------------------------------------------------------------------

_CALLS = r"\b(?:tools|tool choice|tool[ _](?:use|calls?|calling)|function[ _]call(?:s|ing)?)\b"
# ... does not support tools   Unsupported parameter: 'tools'   No endpoints found that support tool
# use   Function calling is not enabled   "auto" tool choice requires --enable-auto-tool-choice
_NO_FUNCTIONS = lazy_pattern(
    rf"(?:(?:\bnot|n't|\bcannot|\bno endpoints found that) (?:support|use|call)"
    rf"|\bunsupported\b|\bunknown\b|\bunrecognized\b)[^.]{{0,40}}{_CALLS}"
    rf"|{_CALLS}[^.]{{0,40}}(?:(?:\bnot|n't) (?:\w+ )?(?:support|enabled|available|allowed)"
    rf"|\bunsupported\b|\brequires --)"
)


def _functions(text: str) -> Refusal | None:
    """Return the refusal of functions that a model may call."""
    return Refusal("drop", "tools") if _NO_FUNCTIONS.search(text) else None


# --- numbers ------------------------------------------------------------------------------------

_FIGURE = r"-?\d+(?:[,_]\d{3})*(?:\.\d+)?"
_NUMBER = lazy_pattern(rf"(?<![\w.\[/-])({_FIGURE})(?![\w%/]|\.\d|-\w)")
_PAIR = lazy_pattern(
    rf"[\[(]\s*({_FIGURE})\s*(?:,|-|to)\s*({_FIGURE})\s*\]"
    rf"|\(\s*({_FIGURE})\s*(?:,\s|-|to)\s*({_FIGURE})\s*\)"
    rf"|\brange\b[^.]{{0,40}}?({_FIGURE})-({_FIGURE})\b"
    rf"|between\s+({_FIGURE})\s+and\s+({_FIGURE})"
    rf"|({_FIGURE})\s*(?:\.\.+|\u2013|to|and|<=?\s*\w+\s*<=?)\s*({_FIGURE})"
)
_UPPER = lazy_pattern(
    r"<=|\u2264|\b(?:maximum|max|at (?:the )?most|up to|limit|capped|above|over|beyond|largest"
    r"|ceiling)\b|\bexceed|\btoo (?:large|big|high|many|long)\b|\bor (?:less|fewer)\b"
    r"|\b(?:no|not|cannot be|never) (?:be )?(?:more|greater|larger|higher|bigger)\b"
)
_LOWER = lazy_pattern(
    r">=|\u2265|\b(?:minimum|min|at (?:the )?least|below|under)\b"
    r"|\btoo (?:small|low|few|short|little)\b|\bor more\b"
    r"|\b(?:no|not|cannot be|never) (?:be )?(?:less|fewer|lower|smaller)\b"
)
# at most 4096   maximum value of 8   limit of 4096   less than or equal to 5   exceeds 4096
_BOUND = lazy_pattern(
    r"(?:(?:<=|>=|=<|=>|\u2264|\u2265)"
    r"|\b(?:less|greater|more|lower|higher|smaller|larger|fewer) than(?: or equal to)?"
    r"|\b(?:at (?:the )?(?:most|least)|up to|exceeds?|above|below|over|under|beyond|limited to"
    r"|capped at|restricted to|(?:upper|lower) bound(?: is| of|:)?)"
    r"|\b(?:maximum|minimum|max|min|limits?|caps?|largest|ceiling)\b"
    r"(?:[ _]['\"`]?[\w.]+['\"`]?){0,4}?"
    r"(?: is| of|:| at|,)?)"
    rf"(?: (?:the|a|an|value|of))*\s*[('\"`]*({_FIGURE})(?![\w%])"
)
# 8192 at most   16 or more   8192 is the maximum
_BOUND_BEFORE = lazy_pattern(
    rf"(?<![\w.\[/-])({_FIGURE})['\"`)]*(?: [a-z_]+){{0,3}}?"
    r" (?:at (?:the )?(?:very )?(?:most|least)\b"
    r"|or (?:less|fewer|lower|below|more|higher|greater|above)\b"
    r"|is the (?:\w+ )?"
    r"(?:max|min|limit|most|least|largest|highest|upper|lower|smallest|ceiling|cap|floor)"
    r"|is as (?:high|low|far) as)"
)
_STRICT = lazy_pattern(
    r"(?:(?<![<>=])([<>])(?!=)|\b(less|lower|smaller|fewer|greater|more|higher|larger) than)"
    rf"\s*({_FIGURE})"
)
_ONLY = lazy_pattern(rf"\bonly ({_FIGURE})(?![\w%])")
_NEGATED = lazy_pattern(r"(?:\bnot|n't|\bcannot|\bnever|\bno)(?: be| have| a| value)*\s*$")
_MORE = lazy_pattern(r"\b(?:more|greater|larger|higher|bigger) than\b")
_FEWER = lazy_pattern(r"\b(?:less|fewer|smaller|lower) than\b")
_DEMAND = lazy_pattern(r"\b(?:must|should|expected|has to|needs? to)\b")
# Could not finish the message because max_tokens was reached. Please try again with higher
_SPENT = lazy_pattern(
    r"\b(?:finish|unfinished|completed?\b|reached|hit\b|exhausted|ran out|run out|used up|cut off"
    r"|stopped|truncated|higher|larger|greater|bigger|increase|raise|more tokens|incomplete"
    r"|insufficient)"
)


def _room(fault: _Fault) -> Refusal | None:
    """Return the refusal of a cap that the thought used up, or that is below its budget."""
    cap = next((name for name in fault.names if name in _CAPS), None)
    if cap is None or fault.main not in (*_CAPS, _BUDGET):
        return None
    is_spent = _SPENT.search(fault.text) is not None and not _is_bounded(fault.text)
    return Refusal("room", cap) if is_spent or _BUDGET in fault.names else None


def _range(fault: _Fault) -> Refusal | None:
    """Return the refusal of a number that is too large or too small."""
    name = fault.main
    if name is None or name in (*_FORMATS, *_EFFORT, "tool_choice"):
        return None
    limit = _limit(fault.text, is_integer=name not in _FLOATS)
    return None if limit is None else Refusal("range", name, limit=limit)


def _is_bounded(text: str) -> bool:
    return any(sign.search(text) for sign in (_PAIR, _BOUND, _BOUND_BEFORE, _STRICT))


def _limit(text: str, *, is_integer: bool) -> float | None:
    """Return the number to use instead of the one that was sent."""
    is_upper, is_lower = _UPPER.search(text) is not None, _LOWER.search(text) is not None
    pair = _PAIR.search(text)
    if pair is not None:
        low, high = sorted(_value(part) for part in pair.groups() if part)
        sent = _numbers(f"{text[: pair.start()]} {text[pair.end() :]}")
        is_below = sent[0] < low if sent else is_lower and not is_upper
        return low if is_below else high
    numbers = set(_numbers(text))
    if is_integer and len(numbers) == 2 and is_upper != is_lower:
        # the refused number lies beyond the limit, on whichever side that is
        return min(numbers) if is_upper else max(numbers)
    bound, strict = _BOUND.search(text), _STRICT.search(text)
    if strict is not None and (bound is None or bound.start() >= strict.start()):
        return _beside(strict, text, is_integer=is_integer)
    bound = bound or _BOUND_BEFORE.search(text) or (_ONLY.search(text) if is_integer else None)
    if bound is not None:
        return _value(bound[1])
    more, fewer = _MORE.search(text) is not None, _FEWER.search(text) is not None
    if is_integer and len(numbers) == 2 and more != fewer:
        # "6000 are more than this model's 4096", but "must be more than its 1024, got 512"
        return min(numbers) if more != bool(_DEMAND.search(text)) else max(numbers)
    return None


def _beside(strict: re.Match[str], text: str, *, is_integer: bool) -> float | None:
    """Return the nearest number that is less, or more, than the one in a comparison."""
    bound = _value(strict[3])
    if _NEGATED.search(text, 0, strict.start()):
        return bound  # "cannot be greater than 8"
    is_less = strict[1] == "<" or strict[2] in ("less", "lower", "smaller", "fewer")
    if _numbers(text[: strict.start()]) and not _DEMAND.search(text):
        return bound  # "300000 > 128000" says what is wrong
    if not is_integer:
        return None
    return bound - 1 if is_less else bound + 1


def _numbers(text: str) -> list[float]:
    return [_value(match[1]) for match in _NUMBER.finditer(text)]


def _value(digits: str) -> float:
    return float(re.sub(r"[,_]", "", digits))


# --- the parameter itself -----------------------------------------------------------------------

# temperature: Field required   Missing required parameter: 'messages'
_MISSING = lazy_pattern(
    r"field required|missing (?:required )?(?:parameter|argument|field|propert)"
    r"|: (?:is )?required\b"
)
# A name that is not known counts where the message calls it a parameter, or has underscores.
_IDENTIFIER = r"[a-z_][\w.\[\]]*\w"
_UNKNOWN_NAME = lazy_pattern(
    r"(?:\b(?:parameters?|param|arguments?|fields?|property|keys?|option|name|inputs?|kwargs?)\b"
    rf"[^'\"`.]{{0,30}}?|^|: )['\"`]({_IDENTIFIER})['\"`]"
    rf"|['\"`]({_IDENTIFIER})['\"`],? (?:is|are|was|as)?(?: an?)?[^'\"`.]{{0,20}}"
    r"\b(?:parameter|argument|field|property|key|option|input)\b"
    r"|(?:^|[\s'\"`])([a-z]\w*_\w*(?:\.\w+)*)(?=$|[\s'\"`:.,;])"
)
_NOT_A_PARAMETER = frozenset({"litellm.drop_params", "drop_params", "failed_generation"})


def _rename(fault: _Fault) -> Refusal | None:
    """Return the refusal of a name beside another for the same thing."""
    for family in _SAME:
        same = [name for name in fault.names if name in family]
        if fault.main in family and len(same) == 2 and not re.search(r"\bboth\b", fault.text):
            old, new = same
            tells = fault.param or any(mention.is_aside for mention in fault.mentions)
            if new == "max_tokens" and not tells:
                old, new = new, old  # the older name is the refused one, if nothing else tells
            return Refusal("rename", old, instead=new)
    return None


def _drop(fault: _Fault) -> Refusal | None:
    """Return the refusal of a parameter altogether."""
    names = [name for name in fault.names if name not in _NOT_DROPPED]
    if not names or _MISSING.search(fault.text):
        return None
    # only one of the two is taken, or neither: then the other is refused next
    if fault.param is None and {"temperature", "top_p"} <= set(names[:2]):
        return Refusal("drop", "top_p")
    first = next((mention for mention in fault.mentions if mention.name == names[0]), None)
    if first is not None and fault.param != first.name:
        is_marked = (first.is_marked or first.start == 0) and first.name not in _ENGLISH
        # else it may be a word of a text that the server quotes
        around = max(0, first.start - 80), first.end + 80
        if not is_marked and not _DENIAL.search(fault.text, *around):
            return None
    return Refusal("drop", "thinking" if names[0] == "thinking.type" else names[0])


def _drop_unknown(text: str, codes: str) -> Refusal | None:
    """Return the refusal of a parameter that we do not know."""
    if _MISSING.search(text):
        return None
    for match in _UNKNOWN_NAME.finditer(text):
        name = next(part for part in match.groups() if part)
        root = re.split(r"[.\[]", name, maxsplit=1)[0]
        around = text[max(0, match.start() - 50) : match.end() + 50]
        others = {*_NOT_DROPPED, *_NOT_A_PARAMETER, *codes.lower().split()}
        if others.isdisjoint((root, name)) and _DENIAL.search(around):
            return Refusal("drop", name)
    return None
