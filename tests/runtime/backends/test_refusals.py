"""Which parameter a server refuses, read from what 70 errors of real servers say, and reworded."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmark_data import benchmark
from tests.loopback import listening
from textassay.runtime import errors
from textassay.runtime.backends import http_errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.litellm import LiteLLMModel
from textassay.runtime.backends.refusals import read_error, read_refusal
from textassay.runtime.errors import Refusal
from textassay.runtime.model import ChatMessage, Model, Request

QUOTES = ("'{}'", '"{}"', "`{}`", "{}")

# What the errors of the file say beyond kind and parameter.
DETAILS: dict[str, dict[str, Any]] = {
    "api": {"instead": "/v1/responses"},
    "F01": {"instead": "max_completion_tokens"},
    "F05": {"limit": 5},
    "F07": {"limit": 8},
    "F09": {"values": ("none", "low", "medium", "high", "xhigh")},
    "F17": {"values": ("low", "medium", "high", "xhigh", "max")},
    "F23": {"limit": 16},
    "F25": {"values": ("low", "medium", "high")},
    "F34": {"limit": 1024},
    "F35": {"values": ("adaptive",)},
    "F36": {"values": ("adaptive",)},
    "F38": {"values": ("low", "medium", "high", "max")},
    "F42": {"values": ("low", "medium", "high")},  # "high or below"
    "F61": {"limit": 8192},
    "F67": {"values": ("none", "default")},
    "F69b": {"instead": "max_completion_tokens"},
    "F73": {"values": ("none", "low", "medium", "high")},
    "F80": {"limit": 4096},
    "F81": {"limit": 131072},
    "F82": {"limit": 12288},
    "F83": {"instead": "max_completion_tokens"},
    "F84": {"instead": "max_completion_tokens"},
}

# The names, levels and numbers that an error quotes, as it writes them, where they are not the
# parameter's own name.
QUOTED: dict[str, dict[str, str]] = {
    "F05": {"sent": "21", "limit": "5"},
    "F07": {"sent": "64", "limit": "8"},
    "F09": {"level": "max"},
    "F17": {"name": "reasoning.effort", "level": "none"},
    "F23": {"sent": "15", "limit": "16"},
    "F25": {"level": "none"},
    "F34": {"name": "thinking.enabled.budget_tokens", "sent": "512", "limit": "1024"},
    "F35": {"name": "thinking.type.enabled", "other": "thinking.type.adaptive"},
    "F36": {"name": "thinking.type.disabled", "other": "thinking.type.adaptive"},
    "F38": {"name": "effort level", "level": "xhigh"},
    "F42": {"name": "output_config.effort", "level": "xhigh"},
    "F50a": {"name": "Budget"},
    "F50b": {"name": "thinking_budget"},
    "F50c": {"name": "Thinking level"},
    "F51a": {"name": "Logprobs"},
    "F51c": {"name": "Penalty"},
    "F61": {"sent": "9000", "limit": "8192"},
    "F62": {"name": "Reasoning prompt mode"},
    "F63": {"name": "reasoningEffort"},
    "F64": {"name": "presencePenalty"},
    "F65": {"level": "none"},
    "F67": {"level": "low"},
    "F71b": {"level": "pro"},
    "F73": {"name": "reasoning value", "level": "x"},
    "F74": {"name": "think value", "level": "medium"},
    "F80": {"sent": "6000", "limit": "4096"},
    "F81": {"sent": "1048576", "limit": "131072"},
    "F82": {"sent": "32000", "limit": "12288"},
}

DROPPED = (
    "Unsupported parameter: {name} is not supported with this model.",
    "{name} is not available for this model",
    "This model does not accept {name}.",
    "The parameter {name} cannot be used here.",
    "We no longer take {name} for this model; remove it",
    "{name}: not permitted",
    "Unrecognized request argument supplied: {name}",
    "For this model, please omit {name}.",
    "{name} has been deprecated for reasoning models",
    "You are not allowed to request {name} from this model",
    "Remove {name} from your request and try again",
    "json: unknown field {name}",
    "Setting {name} is forbidden while the model reasons",
    "The model gpt-6 rejects {name}",
    "Extra inputs are not permitted: {name}",
    "model o9 doesn't support {name}; please retry without it",
    "Request contains {name}, which this deployment does not allow",
    "{name} is not enabled for models/gemini-9",
    "When reasoning is on, {name} must not be given.",
    "With reasoning models {name} is a fixed setting",
)
RENAMED = (
    "Unsupported parameter: {name} is not supported with this model. Use {other} instead.",
    "Use {other} instead of {name} with this model.",
    "{name} was renamed to {other}",
    "{name} is deprecated in favor of {other}",
    "Please send {other}, not {name}",
    "{other} should be used instead: {name} is unknown to this model",
    "This model wants {other} in place of {name}",
    "unknown field {name}, did you mean {other}?",
    "{name} is no longer accepted; {other} is",
    "{other} replaces {name}",
)
TOO_LARGE = (
    "Invalid {name}: integer above maximum value. Expected a value <= {limit}, got {sent} instead.",
    "{name} is too large: {sent}. This model supports at most {limit}, you provided {sent}.",
    "Invalid {name} value, the valid range of {name} is [1, {limit}]",
    "{name} must be less than or equal to {limit}.",
    "{name}: {sent} > {limit}, which is the maximum allowed number",
    "{name} cannot be greater than {limit}",
    "At most {limit} for {name}, {sent} were asked for",
    "{name} exceeds the limit of {limit}",
    "The maximum of {name} is {limit}",
    "value of {name} ({sent}) is above {limit}",
    "{name} has to lie between 1 and {limit}",
    "{limit} is the largest {name} for this model: {sent} is too high",
    "{name}={sent} is over the maximum, {limit}",
    "you sent {name} {sent}, the model takes up to {limit}",
    "The value {sent} of {name} is larger than {limit}",
    "{name} may be {limit} at the very most",
)
TOO_SMALL = (
    "Invalid {name}: integer below minimum value. Expected a value >= {limit}, got {sent} instead.",
    "{name} must be at least {limit}",
    "{name}: Input should be greater than or equal to {limit}",
    "{name} too small: {sent}, the minimum is {limit}",
    "{name} cannot be less than {limit}",
    "{sent} is below the minimum of {limit} for {name}",
    "use {limit} or more for {name}, {sent} is not enough",
)
LEVELS = (
    "Unsupported value: {name} does not support {level} with this model. Supported are: {levels}.",
    "{name} must be one of {levels}",
    "invalid {name} value: {level} (must be {levels})",
    "This model does not support {name} {level}. Supported: {levels}.",
    "{name} {level} is not supported. Choose {levels}",
    "Allowed values of {name}: {levels} (got {level})",
    "With this model {name} cannot be {level}; it takes {levels}",
    "{levels} are the levels of {name} that this model has, not {level}",
    "{level} as {name} is unsupported by this model ({levels} are supported)",
)
NO_LEVELS = (
    "This model does not support {name} value {level}",
    "unsupported {name} value {level}",
    "{level} is not a value of {name}",
)
ALWAYS = (
    "{name} 0 is invalid. This model only works in thinking mode.",
    "Unable to submit request because the model does not support setting {name} to 0.",
    "Reasoning is mandatory for this endpoint and cannot be disabled.",
    "This endpoint requires reasoning; it cannot be turned off",
)
SPENT = (
    "Could not finish the message because {name} or model output limit was reached.",
    "The answer was not finished: {name} reached. Try again with a higher one.",
    "Raise {name}: the model ran out of tokens before it answered",
    "No output before {name} was exhausted",
)
BELOW_BUDGET = ("{name} must be greater than {other}.", "{other} has to be smaller than {name}")
THINKING = (
    '{name} is not supported for this model. Use {other} and "output_config.effort" instead.',
    'For this model use {other} with "output_config.effort": {name} is refused',
    "{name} was removed. Switch to {other}.",
)
ROLES = (
    "Unsupported value: {name} does not support 'system' with this model.",
    "system is not allowed as {name}",
    "{name}: unexpected system",
)
PREFILLS = (
    "This model does not support assistant message prefill.",
    "The last message must come from the user",
    "Conversations that end with an assistant message are not allowed",
)


def rows(*, refused: bool) -> list[dict[str, Any]]:
    errors_of_servers = benchmark("provider-answers/errors.jsonl")
    return [row for row in errors_of_servers if (row["kind"] is not None) == refused]


def expected(row: dict[str, Any]) -> Refusal:
    return Refusal(row["kind"], row["parameter"], **DETAILS.get(row["id"], {}))


def test_the_quoted_errors_are_all_read():
    """Kind, parameter, and what stands beside them; five are about something else."""
    found = {r["id"]: read_refusal(r["status"], json.dumps(r["body"])) for r in rows(refused=True)}
    assert found == {row["id"]: expected(row) for row in rows(refused=True)}
    for row in rows(refused=False):
        assert read_refusal(row["status"], json.dumps(row["body"])) is None
    assert len(rows(refused=True)) + len(rows(refused=False)) == 70


def templates(row: dict[str, Any]) -> tuple[str, ...]:
    """Return other sentences for one of the errors."""
    details = DETAILS.get(row["id"], {})
    match row["kind"]:
        case "rename":
            return RENAMED
        case "range":
            words = QUOTED[row["id"]]
            return TOO_LARGE if int(words["sent"]) > int(words["limit"]) else TOO_SMALL
        case "effort" if details:
            return LEVELS
        case "effort":
            return NO_LEVELS if "level" in QUOTED.get(row["id"], {}) else ALWAYS
        case "room":
            return BELOW_BUDGET if row["id"] == "F33" else SPENT
        case "thinking":
            return THINKING if details else ("{name} is not supported", "no {name} on this model")
        case "role":
            return ROLES
        case "prefill":
            return PREFILLS
    return DROPPED


def rewordings(row: dict[str, Any]) -> list[str]:
    """Return what another server would say for the same fault, its names and numbers kept."""
    others = {"rename": "max_completion_tokens", "room": "thinking.budget_tokens"}
    name = {"thinking": "adaptive thinking", "role": "messages[0].role"}.get(row["kind"])
    words = {
        "name": name or row["parameter"],
        "other": others.get(row["kind"], ""),
        **QUOTED.get(row["id"], {}),
    }
    said = []
    for template, quote in itertools.product(templates(row), QUOTES):
        quoted = {
            key: quote.format(word) if key in ("name", "other", "level") else word
            for key, word in words.items()
        }
        values = [quote.format(v) for v in DETAILS.get(row["id"], {}).get("values", ())]
        said.append(template.format(**quoted, levels=", ".join(values)))
    return said


def with_message(body: Any, text: str) -> Any:
    """Return a body that says something else in the same place."""
    if isinstance(body, list):
        return [with_message(body[0], text)]
    error = body.get("error", body)
    if isinstance(error, str):
        return {**body, "error": text}
    if "detail" in error:
        return {"detail": [{**error["detail"][0], "msg": text}]}
    raw = error.get("metadata", {}).get("raw")
    if raw is not None:
        inner = json.dumps(with_message(json.loads(raw), text))
        error = {**error, "metadata": {**error["metadata"], "raw": inner}}
    elif " " in (error.get("param") or ""):
        error = {**error, "param": text}
    else:
        error = {**error, "message": text}
    return {**body, "error": error} if "error" in body else error


def test_no_rewording_loses_a_refusal():
    """Names, levels and numbers are kept; words, their order and quotation marks are not."""
    lost = []
    count = 0
    for row in rows(refused=True):
        for text in rewordings(row):
            count += 1
            found = read_refusal(row["status"], json.dumps(with_message(row["body"], text)))
            if found != expected(row):
                lost.append((row["id"], text, found))
    assert lost == []
    assert count > 1000


PARAPHRASES: list[tuple[Refusal, str | None, tuple[str, ...]]] = [
    # refusal, name in the field of the error, messages
    (
        Refusal("rename", "max_tokens", instead="max_completion_tokens"),
        None,
        (
            "'max_tokens' isn't a parameter this model understands - it wants "
            "'max_completion_tokens'.",
            "This model only understands max_completion_tokens; max_tokens was sent.",
            "max_completion_tokens must be used in place of max_tokens",
            "Sorry! max_tokens went away. max_completion_tokens is the new name.",
            "Swap 'max_tokens' for 'max_completion_tokens'",
            "Replace `max_tokens` with `max_completion_tokens`",
        ),
    ),
    (
        Refusal("rename", "max_tokens", instead="max_completion_tokens"),
        "max_tokens",
        ("You must use max_completion_tokens",),
    ),
    (
        Refusal("drop", "temperature"),
        None,
        (
            "'temperature' = 0.5 is out: this model runs at 1 only",
            "Value 0.5 for 'temperature' unsupported; default is 1",
            "temperature can't differ from 1 (you sent 0.5)",
            "The only temperature this model has is 1, not 0.5.",
            "For this model temperature is fixed at 1",
            "With thinking on (or adaptive), `temperature` has to stay at 1",
            "thinking requires `temperature` = 1",
            "A valid number is needed for temperature",
            "temperature: not a number",
            "`temperature` does not exist for deepseek-reasoner",
            "deepseek-reasoner: parameter `temperature` not found",
            "this model allows temperature 1 and nothing else",
        ),
    ),
    (
        Refusal("range", "top_logprobs", limit=5),
        None,
        (
            "'top_logprobs' asks for too many alternatives; 5 is the ceiling",
            "No more than 5 'top_logprobs', please",
            "5 is as high as 'top_logprobs' goes",
            "top_logprobs: maximum 5",
            "top_logprobs=20 > 5",
            "'top_logprobs' should be in [0, 5]",
            "'top_logprobs' must be between 0 and 5 inclusive, 21 given",
            "top_logprobs must be an integer from 0 to 5",
            "0 <= top_logprobs <= 5 is required",
        ),
    ),
    (
        Refusal("range", "n", limit=8),
        None,
        (
            "'n' is 64 but may not exceed 8",
            "64 > 8 for 'n'",
            "n: ensure this value is less than or equal to 8",
        ),
    ),
    (
        Refusal("effort", "reasoning_effort", values=("none", "low", "medium", "high", "xhigh")),
        None,
        (
            "'reasoning_effort' knows 'none', 'low', 'medium', 'high' and 'xhigh'; 'max' it"
            " does not know",
            "'max' is too much 'reasoning_effort' for this model ('none', 'low', 'medium', "
            "'high', 'xhigh')",
            "reasoning_effort of max unsupported. Try none, low, medium, high, or xhigh.",
        ),
    ),
    (
        Refusal("effort", "reasoning_effort", values=("none", "low", "medium", "high")),
        "reasoning_effort",
        ("Input should be 'none', 'low', 'medium' or 'high'",),
    ),
    (
        Refusal("role", "messages"),
        None,
        ("Role 'system' is not something 'messages[0].role' may be on this model",),
    ),
    (Refusal("role", "messages"), "messages[0].role", ("'system' unsupported",)),
    (
        Refusal("drop", "logprobs"),
        None,
        (
            "Logprobs are off limits for this model",
            "requesting logprobs is not permitted on this model",
            "You lack permission for logprobs with this model",
            "models/gemini-2.5-pro doesn't have Logprobs enabled",
            '"logprobs" cannot be found in the payload\'s schema',
        ),
    ),
    (
        Refusal("room", "max_tokens"),
        None,
        (
            "Ran into the max_tokens or model output limit before the message was done. "
            "Increase max_tokens.",
            "Message could not be completed: max_tokens or model output limit hit; retry "
            "with more max_tokens",
            "The output limit (max_tokens) stopped the message",
            "`thinking.budget_tokens` leaves no room: it must stay below `max_tokens`",
        ),
    ),
    (
        Refusal("drop", "reasoning_effort"),
        None,
        (
            "reasoning_effort: unrecognized argument",
            "I do not know the request argument reasoning_effort",
            "reasoningEffort is no parameter of grok-4.20-0309-reasoning",
            "did you mean 'reasoning_format'? property 'reasoning_effort' is unsupported",
        ),
    ),
    (
        Refusal("drop", "stop"),
        None,
        (
            "'stop' is unknown here; perhaps 'store' was meant?",
            "No such parameter: 'stop' (similar: 'store')",
        ),
    ),
    (Refusal("drop", "logprobs"), "include", ("Reasoning models give no logprobs.",)),
    (
        Refusal("range", "max_output_tokens", limit=16),
        None,
        (
            "'max_output_tokens' of 15 is not enough, 16 is the smallest value",
            "15 < 16, the least 'max_output_tokens'",
            "Please give 'max_output_tokens' at least 16 (not 15)",
            "max_output_tokens: 15 is lower than the allowed 16",
        ),
    ),
    (
        Refusal("drop", "top_p"),
        None,
        (
            "Specify `temperature` or `top_p`, not both.",
            "`top_p` may not accompany `temperature`",
            "Use either `temperature` or `top_p`.",
        ),
    ),
    (
        Refusal("range", "thinking.budget_tokens", limit=1024),
        None,
        (
            "thinking.enabled.budget_tokens may not be below 1024",
            "1024 is the minimum for thinking.enabled.budget_tokens",
        ),
    ),
    (Refusal("thinking", "thinking"), None, ("No adaptive thinking on this model",)),
    (
        Refusal("thinking", "thinking", values=("adaptive",)),
        None,
        (
            'This model dropped "thinking.type.enabled": go with "thinking.type.adaptive" '
            'plus "output_config.effort"',
            '"thinking.type.enabled" unsupported -- "thinking.type.adaptive" and '
            '"output_config.effort" replace it',
            'Instead of "thinking.type.enabled", use "thinking.type.adaptive" and '
            '"output_config.effort"',
        ),
    ),
    (
        Refusal("effort", "reasoning_effort", values=("low", "medium", "high", "max")),
        None,
        (
            "effort level 'xhigh' unavailable; pick from high, low, max, medium",
            "'xhigh' isn't an effort level of this model (it has high, low, max, medium)",
        ),
    ),
    (
        Refusal("drop", "tool_choice"),
        None,
        ('This model ignores tool_choice: neither "tool" nor "any" is possible',),
    ),
    (
        Refusal("prefill", "messages"),
        None,
        ("Assistant message prefill unsupported: finish with a user message",),
    ),
    (
        Refusal("drop", "zzz_unknown"),
        None,
        ("Extra input zzz_unknown", "'zzz_unknown' was unexpected"),
    ),
    (
        Refusal("drop", "output_config.format"),
        None,
        ("output_config.format is not permitted here",),
    ),
    (
        Refusal("effort", "reasoning_effort"),
        None,
        (
            "While thinking is disabled, output_config.effort 'xhigh' can't be used; 'high'"
            " or below can, or turn thinking on",
            "Invalid budget 0: thinking cannot be off for this model",
            "thinking_budget must not be 0",
            "The model will not take a thinking_budget of 0",
            "value 'none' of 'reasoning_effort' is unsupported by this model",
            "You cannot disable Reasoning here: the endpoint makes it mandatory.",
            "Reasoning must stay enabled for this endpoint.",
            "Disabling Reasoning is not possible for this endpoint",
            'reasoning_effort "pro" not supported',
            '"medium" is no think value this model supports',
        ),
    ),
    (Refusal("drop", "thinking_level"), None, ("This model can't have a Thinking level",)),
    (Refusal("drop", "penalty"), None, ("This model has Penalty turned off",)),
    (
        Refusal("range", "max_tokens", limit=8192),
        None,
        (
            "max_tokens outside the valid range [1, 8192]",
            "max_tokens: expected 1 to 8192",
            "The range of max_tokens is 1-8192",
            "max_tokens has a valid range of 1 – 8192",
        ),
    ),
    (Refusal("drop", "prompt_mode"), None, ("This model's Reasoning prompt mode is off",)),
    (
        Refusal("drop", "presence_penalty"),
        None,
        ("presencePenalty: this model has no such argument",),
    ),
    (Refusal("drop", "reasoning_format"), None, ("this model has no `reasoning_format`",)),
    (
        Refusal("effort", "reasoning_effort", values=("none", "default")),
        None,
        ("`none` and `default` are the only values of `reasoning_effort`",),
    ),
    (
        Refusal("drop", "thinking"),
        None,
        ('json: field "thinking" is unknown (invalid request body)',),
    ),
    (
        Refusal("effort", "reasoning_effort", values=("none", "low", "medium", "high")),
        None,
        ('reasoning value must be "high", "medium", "low", or "none", not \'x\'',),
    ),
    (
        Refusal("range", "max_tokens", limit=4096),
        None,
        (
            "6000 max_tokens are more than the 4096 completion tokens that this model supports",
            "max_tokens 6000 too large, at most 4096 completion tokens",
            "With max_tokens = 6000 you ask for more than this model's 4096 completion tokens.",
            "This model produces up to 4096 completion tokens; max_tokens was 6000",
            "The limit for max_tokens is 4096 (6000 requested)",
            "max_tokens may be 4096 at most",
            "max_tokens: 6000 is greater than 4096",
        ),
    ),
    (
        Refusal("range", "max_completion_tokens", limit=12288),
        None,
        ("max_completion_tokens was 32000; integer above maximum value, <= 12288 is expected",),
    ),
]


def test_paraphrases_of_the_quoted_errors():
    """The same faults in freer words, which keep little but the names."""
    lost = [
        (text, found)
        for refusal, param, texts in PARAPHRASES
        for text in texts
        if (found := read_refusal(400, json.dumps({"error": {"message": text, "param": param}})))
        != refusal
    ]
    assert lost == []


def dressed(message: str) -> list[str]:
    """Return a message as other software would show it."""
    return [
        f"Sorry, {message}",
        f"1 validation error for ChatCompletionRequest: {message}",
        f"[400] {message} (request id: req_0123)",
        f"{message}. See https://example.com/docs/temperature?n=4#context-window",
        message.upper(),
        " ".join(reversed(re.split(r"(?<=[.?]) ", message))),
        *(re.sub(r"['\"`](\w[\w.\[\]]*)['\"`]", rf"{q}\1{q}", message) for q in ("`", '"', "")),
    ]


def test_what_stands_around_a_message_does_not_matter():
    """Other quotation marks, capitals, the order of sentences, greetings and addresses."""
    lost = [
        (row["id"], text, found)
        for row in rows(refused=True)
        for text in dressed(read_error(json.dumps(row["body"])).message)
        if (found := read_refusal(400, json.dumps(with_message(row["body"], text))))
        != expected(row)
    ]
    assert lost == []


def wrapped(row: dict[str, Any]) -> dict[str, Any]:
    """Return one error as gateways pass it on."""
    body, message = row["body"], read_error(json.dumps(row["body"])).message
    upstream = json.dumps(body)
    meta = {"raw": upstream, "provider_name": "Azure"}
    return {
        "list": [body],
        "openrouter": {"error": {"message": "Provider returned error", "metadata": meta}},
        "string": {"code": "invalid-argument", "error": message},
        "flat": {"object": "error", "message": message, "code": 400},
        "bedrock": {"message": f"The model returned the following errors: {message}"},
        "litellm": {"error": {"message": f"litellm.BadRequestError: XException - {message}"}},
        "proxy": {"error": {"message": f"litellm.BadRequestError: XException - {upstream}"}},
        "quoted": {"error": {"message": f"[openai/gpt-5.4] [400]: {upstream} (reset after 30s)"}},
        "python": {"error": {"message": f"Error code: 400 - {body!r}"}},
        "text": message,
    }


def test_every_wrapping_is_opened():
    """The refusal is the same, however often it was passed on."""
    lost = [
        (row["id"], how, found)
        for row in rows(refused=True)
        for how, body in wrapped(row).items()
        if (found := read_refusal(400, body if how == "text" else json.dumps(body)))
        != expected(row)
    ]
    assert lost == []


FURTHER = [
    # other servers' words, and those that litellm uses before it sends anything
    ("The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.", "top_logprobs"),
    ("openai does not support parameters: ['n', 'logprobs'], for model=o9. To drop these", "n"),
    ("gpt-5 models don't support temperature=0.0. Only temperature=1 is supported.", "temperature"),
    ("O-series models don't support temperature=0.5. Only temperature=1 is", "temperature"),
    (
        "gpt-6 doesn't support temperature=0 while reasoning is active. Only temperature=1 is "
        "supported unless reasoning_effort resolves to 'none'",
        "temperature",
    ),
    (
        "gpt-6 only supports logprobs, top_p, top_logprobs when reasoning_effort is 'none', "
        "either set explicitly or declared. Current reasoning_effort='medium'.",
        "logprobs",
    ),
    ("Setting `seed` is not supported by x, m. To drop it from the call, set", "seed"),
    ("This response_format type is unavailable now", "response_format"),
    ("'response_format.type' must be 'json_schema' or 'text'", "response_format"),
    (
        "Invalid schema for response_format 'x': In context=(), 'additionalProperties' is required",
        "response_format",
    ),
    ("JSON mode is not enabled for models/gemma-3-27b-it", "response_format"),
    ("Unknown name \"responseLogprobs\" at 'generation_config': Cannot find field.", "logprobs"),
    (
        "[{'type': 'extra_forbidden', 'loc': ('body', 'min_p'), 'msg': 'Extra inputs are not "
        "permitted', 'input': 0.1}]",
        "min_p",
    ),
    (
        "Error code: 400 - {'error': {'message': \"Unknown parameter: 'seed'.\", 'param': 'seed'}}",
        "seed",
    ),
    ("'temperature' is limited to its default (1); 0.5 is not supported", "temperature"),
    ("You cannot set `temperature` together with `top_p` on this model; pick one.", "top_p"),
    ("got an unexpected keyword argument 'thinking_token_budget'", "thinking_token_budget"),
    ("`enable_thinking` is not supported by this template", "enable_thinking"),
    ("Unknown parameter: 'moderation'.", "moderation"),
]


def test_further_refusals_of_a_parameter():
    """One fault a message, the first of several parameters."""
    found = {
        text: read_refusal(400, json.dumps({"error": {"message": text}})) for text, _ in FURTHER
    }
    assert found == {text: Refusal("drop", name) for text, name in FURTHER}


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "reasoning_effort=xhigh is not supported for gpt-5.",
            Refusal("effort", "reasoning_effort"),
        ),
        (
            "Invalid `reasoning_effort`: 'xhigh'. Must be one of: 'low', 'high', 'none'.",
            Refusal("effort", "reasoning_effort", values=("none", "low", "high")),
        ),
        (
            "max_tokens: 300000 > 128000, which is the maximum allowed number of output tokens",
            Refusal("range", "max_tokens", limit=128000),
        ),
        (
            "The maximum tokens you requested exceeds the model limit of 4096. Try again with a"
            " maximum tokens value that is lower than 4096.",
            Refusal("range", "max_tokens", limit=4096),
        ),
        ("max_tokens: Input should be less than 4097", Refusal("range", "max_tokens", limit=4096)),
        (
            "max_tokens (6,000) exceeds the maximum of 4,096 tokens",
            Refusal("range", "max_tokens", limit=4096),
        ),
        (
            "top_p must be greater than or equal to 0.95 or unset when thinking is enabled.",
            Refusal("range", "top_p", limit=0.95),
        ),
        ("temperature: range: 0..1", Refusal("range", "temperature", limit=1)),
        (
            "The thinking budget 50 is invalid. Please choose a value between 128 and 32768.",
            Refusal("range", "thinking_budget", limit=128),
        ),
        (
            "The thinking budget 0 is invalid. Please choose a value between 128 and 32768.",
            Refusal("effort", "reasoning_effort"),
        ),
        ("System role not supported", Refusal("role", "messages")),
        ("Developer instruction is not enabled for models/gemma-3", Refusal("role", "messages")),
        ("Conversation roles must alternate user/assistant/...", Refusal("role", "messages")),
        (
            'messages: Unexpected role "developer". Allowed roles are "user" or "assistant"',
            Refusal("role", "messages"),
        ),
        (
            "Expected last role User or Tool for serving but got assistant",
            Refusal("prefill", "messages"),
        ),
        (
            "Unsupported parameter: 'response_format'. In the Responses API, this parameter moved"
            " to 'text.format'. Try again with the new parameter.",
            Refusal("rename", "response_format", instead="text.format"),
        ),
        (
            "The model `gpt-5-pro` is only available via the Responses API.",
            Refusal("api", "model", instead="/v1/responses"),
        ),
    ],
)
def test_what_a_server_takes_instead(text, refusal):
    """Numbers, levels, names, and the other way to ask."""
    assert read_refusal(400, json.dumps({"error": {"message": text}})) == refusal


OTHER_FAULTS = [
    # the text, the account, the model, the tool, the request as such
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"
    " (8500 in the messages, 500 in the completion). Please reduce the length of the messages.",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input"
    " length or `max_tokens` and try again",
    "'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your"
    " request has 1000 input tokens (5000 > 4096 - 1000).",
    "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens and 200",
    "the prompt does not fit the context window; lower max_tokens",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
    "The response was filtered due to the prompt triggering our content management policy.",
    "Your request was flagged by our moderation system (temperature=0)",
    "Your credit balance is too low: max_tokens 4000 cannot be paid",
    "API key not valid. Please pass a valid API key.",
    "The requested model 'gpt-5.2-proo' does not exist.",
    "The model gpt-9 with temperature=0, max_tokens=16 was not found",
    "No tool output found for tool call call-a.",
    "Cannot fetch content from the provided URL. Please ensure the URL is valid and accessible.",
    "This model doesn't support the video content block that you provided.",
    "messages.2.content.2.document.source.type: Field required",
    "max_tokens: Field required",
    "Missing required parameter: 'messages'.",
    "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got 3000.",
    "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.",
    "Tool call validation failed: parameters for tool get_something_by_name did not match schema:"
    " errors: [missing properties: 'name', additionalProperties 'foo' not allowed]",
    "We could not parse the JSON body of your request.",
    "The text 'the temperature in the seed bank stays high' is an example",
    "<html><body>403 Forbidden: temperature is not allowed</body></html>",
    "",
]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
        (400, "tools param requires --jinja flag"),
        (400, "Unsupported parameter: 'tools' is not supported with this model."),
        (400, "Function calling is not enabled for this model"),
        (400, "`tool calling` is not supported with this model"),
        (400, "deepseek-reasoner does not support Function Calling"),
        (404, "No endpoints found that support tool use. To learn more about provider routing, x"),
        (400, "groq does not support parameters: ['tools'], for model=x"),
    ],
)
def test_a_server_without_functions_says_so_in_many_ways(status, text):
    assert read_refusal(status, json.dumps({"error": {"message": text}})) == Refusal(
        "drop", "tools"
    )


@pytest.mark.parametrize("text", OTHER_FAULTS)
@pytest.mark.parametrize("code", [None, "invalid_request_error"])
def test_errors_about_something_else_refuse_no_parameter(text, code):
    """Though they may name one."""
    assert read_refusal(400, json.dumps({"error": {"message": text, "code": code}})) is None
    assert read_refusal(400, text) is None


@pytest.mark.parametrize("status", [401, 402, 404, 408, 409, 413, 429, 500, 502, 503, 529])
def test_other_statuses_refuse_no_parameter(status):
    """Whatever the body says, and under a status of success, too, if the code within is one."""
    for row in rows(refused=True):
        assert read_refusal(status, json.dumps(row["body"])) is None
    message = "Unsupported parameter: 'temperature' is not supported with this model."
    passed_on = {"error": {"message": message, "code": status}}
    if status != 413:
        assert read_refusal(200, json.dumps(passed_on)) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "message",
                    "detail",
                    "param",
                    "code",
                    "loc",
                    "msg",
                    "metadata",
                    "raw",
                    "type",
                    "innererror",
                ]
            )
            | st.text(),
            inner,
        )
    ),
)


@given(json_values | st.text() | st.binary(), st.sampled_from([200, 400, 403, 404, 422]))
def test_whatever_a_server_sends_is_read(body, status):
    """Never an exception, never a refusal without a name."""
    raw = body if isinstance(body, bytes | str) else json.dumps(body)
    found = read_refusal(status, raw)
    assert found is None or found.parameter


RECORDED = {
    # what a recorded error says, and what it is
    "does not exist": errors.ModelNotFound,
    "claude-sonet": errors.ModelNotFound,
    "No tool output": errors.RequestRefused,
    "Tool call validation": errors.RequestRefused,
    "Cannot fetch": errors.RequestRefused,
    "video content block": errors.RequestRefused,
    "file data": errors.RequestRefused,
    "Field required": errors.RequestRefused,
    "messages[0].role": Refusal("role", "messages"),
    "Web search options": Refusal("drop", "web_search_options"),
}


def test_recorded_errors_of_providers():
    """The 13 of 860 exchanges that were no success."""
    failed = [r for r in benchmark("provider-answers/answers.jsonl.gz") if r["status"] != 200]
    assert len(failed) == 13
    for row in failed:
        body = json.dumps(row["body"])
        meaning = next(meaning for words, meaning in RECORDED.items() if words in body)
        error = http_errors.from_status(row["status"], {}, body, where="h")
        refusal = error.refusal if isinstance(error, errors.RequestRefused) else None
        if isinstance(meaning, Refusal):
            assert (type(error), refusal) == (errors.RequestRefused, meaning)
        else:
            assert (type(error), refusal) == (meaning, None)


def open_model(kind: str, address: str) -> Model:
    if kind == "direct":
        return DirectModel("direct/judge", api_base=f"{address}/v1", api_key="sk-none")
    # a name that litellm has no table for, so that it sends everything
    base = address if kind.startswith("anthropic") else f"{address}/v1"
    return LiteLLMModel(kind, api_base=base, api_key="sk-none")


RESPONSES_ONLY = {
    "id": "api",
    "status": 404,
    "body": {
        "error": {
            "message": "This model is only supported in v1/responses and not in"
            " v1/chat/completions.",
            "type": "invalid_request_error",
            "param": "model",
        }
    },
    "kind": "api",
    "parameter": "model",
}
MODELS = ("direct", "openai/an-unknown-one", "openrouter/a/b", "anthropic/claude-3-unknown")


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", MODELS)
async def test_the_quoted_errors_through_a_client(kind):
    """Each from a real server, whose answers litellm turns into exceptions of its own."""
    ask = Request(messages=(ChatMessage(role="user", content="Rate."),), max_tokens=9)
    sending: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(sending[0]["body"], status=sending[0]["status"])

    lost = []
    async with listening(answer) as address:
        model = open_model(kind, address)
        for row in [*rows(refused=True), RESPONSES_ONLY]:
            sending[:] = [row]
            if row["id"] == "F15" and kind.startswith("openai/"):
                # litellm answers for OpenAI: nothing, cut at the cap
                assert (await model.generate(ask)).samples[0].is_unfinished
                continue
            with pytest.raises(errors.ModelError) as caught:
                await model.generate(ask)
            error = caught.value
            if type(error) is not errors.RequestRefused or error.refusal != expected(row):
                lost.append((row["id"], error, getattr(error, "refusal", None)))
        await model.aclose()
    assert lost == []
