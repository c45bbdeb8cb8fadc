"""Which parameter a server refuses, read from what 70 errors of real servers say, and reworded."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
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
from textassay.runtime.backends.error_bodies import read_error
from textassay.runtime.backends.litellm import LiteLLMModel
from textassay.runtime.backends.refusals import read_refusal
from textassay.runtime.calls.adaptation import KNOWN, Adaptation, AdaptingModel
from textassay.runtime.calls.traits import Sampling
from textassay.runtime.errors import Refusal
from textassay.runtime.model import ChatMessage, Request
from textassay.runtime.parameters import ANYTHING, BY_NAME, EFFORTS, THINKING_FIELDS

QUOTES = ("'{}'", '"{}"', "`{}`", "{}")
WORDS = Path(__file__).parents[2] / "fixtures" / "refusals.txt"


def messages_in(section: str) -> dict[str, list[str]]:
    """The messages of a section of `refusals.txt` by the line above them."""
    text = WORDS.read_text(encoding="utf-8").partition(f"[{section}]\n")[2].partition("\n[")[0]
    found: dict[str, list[str]] = {}
    heading = ""
    for line in text.replace("\n        ", " ").splitlines():
        if line.startswith("    "):
            found[heading].append(line.strip())
        elif line and not line.startswith("#"):
            heading = line
            found.setdefault(heading, [])
    return found


def refusal_in(heading: str) -> tuple[Refusal | None, dict[str, str]]:
    """The refusal that a line stands for, and what else it says of its messages."""
    kind, *words = heading.split()
    more = dict(word.split("=", 1) for word in words[1:])
    if kind == "nothing":
        return None, more
    limit, values = more.pop("limit", None), more.pop("values", "")
    return Refusal(
        kind,
        words[0],
        limit=None if limit is None else float(limit),
        values=tuple(filter(None, values.split(","))),
    ), more


# What the errors of the file say beyond kind and parameter.
DETAILS: dict[str, dict[str, Any]] = {
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
    "F73": {"values": ("none", "low", "medium", "high")},
    "F80": {"limit": 4096},
    "F81": {"limit": 131072},
    "F82": {"limit": 12288},
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
REWORDED = messages_in("rewordings")
FIELDS_OF_PROBES = {"json_schema": "response_format"}
LEFT_TO_PROBES = (
    "where all readings are None and a probe may leave the parameter out (SUSPECTS of"
    " textassay/runtime/parameters.py), move the message to the section [left to probes]; otherwise"
    " add its word to the pattern of its kind in textassay/runtime/backends/refusals.py"
    " (_nearest_number, _NEGATION, _drop) or the name to PARAMETERS; if only the readings of bodies"
    " without the refused number or level are wrong, give sent=N or level=WORD"
)


# The fields of a body that the corpus names otherwise, and our names of what is refused.
FIELDS_SENT = {
    "thinking_level": "reasoning_effort",
    "thinking.budget_tokens": "thinking",
    "thinking_budget": "thinking",
    "penalty": "presence_penalty",
    "output_config.format": "response_format",
}
OUR_NAMES = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "response_format": "json_schema",
    "tools": "functions",
    "messages": "system",
}
EVERYTHING = {
    "temperature": 0.5, "max_tokens": 50, "seed": 7, "logprobs": True, "top_logprobs": 20,
    "response_format": {"type": "json_schema"},
}  # fmt: skip


def rows(*, refused: bool) -> list[dict[str, Any]]:
    errors_of_servers = benchmark("provider-answers/errors.jsonl")
    return [row for row in errors_of_servers if (row["kind"] is not None) == refused]


def expected(row: dict[str, Any]) -> Refusal | None:
    return in_our_names(Refusal(row["kind"], row["parameter"], **DETAILS.get(row["id"], {})))


def in_our_names(refusal: Refusal) -> Refusal | None:
    """The refusal that we read: a role is left out like others, and nothing is begun for models."""
    if refusal.kind == "prefill":
        return None
    field = FIELDS_SENT.get(refusal.parameter, refusal.parameter)
    name = OUR_NAMES.get(field, field)
    is_dropped = refusal.kind in ("thinking", "role") or (
        refusal.kind == "rename" and name != "max_tokens"
    )
    if is_dropped or name in ("temperature", "top_p"):
        return Refusal("drop", name)
    return refusal._replace(parameter=name)


def sent_with(refusal: Refusal | None, more: dict[str, str], text: str = "") -> dict[str, Any]:
    """A body that may be refused so: `more` holds the number or level that was sent."""
    roles = ("system", "user") if refusal and refusal.kind in ("role", "prefill") else ("user",)
    body: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": role, "content": "x"} for role in roles],
        "temperature": 0.5,
    }
    if refusal is None:
        return body | EVERYTHING | {"tools": [{}], "reasoning_effort": "low"}
    field = FIELDS_SENT.get(refusal.parameter, refusal.parameter)
    if refusal.kind in ("prefill", "role", "api"):
        return body
    if refusal.kind == "room" or "CAP" in more:
        body["max_tokens"] = 50
    value: Any = number_in(refusal.limit, text) if refusal.limit else 50
    value = float(more["sent"]) if "sent" in more else value
    if field == "thinking":
        value = {"type": "enabled", "budget_tokens": value}
    elif field == "reasoning_effort":
        value = more.get("level") or level_in(refusal, text)
    elif field == "cache_control":
        body["messages"][0]["content"] = [{"type": "text", "cache_control": {}}]
        return body
    return body | {field: value}


FROM_BELOW = re.compile(
    r"at least|below|minimum|not enough|the least|lower than the|or more|greater than or equal"
    r"|less than 1|cannot be less|too small|budget 50"
)


def number_in(limit: float, text: str) -> float:
    """The number that was sent: one that the message names, or one beyond the limit."""
    named = [float(digits.replace(",", "")) for digits in re.findall(r"\d[\d,]*", text)]
    if FROM_BELOW.search(text.lower()):
        return max([n for n in named if 1 < n < limit], default=limit - 1)
    return min([n for n in named if n > limit + 1], default=limit + 1000)


def level_in(refusal: Refusal, text: str) -> str:
    """The level that was sent: one that the message names and does not offer."""
    words = re.findall(r"\w+", text.lower())
    if refusal.kind == "drop":
        return "low"
    unoffered = [level for level in EFFORTS if level in words and level not in refusal.values]
    wrong = [word for word in ("pro", "x") if word in words]
    return next(iter([*wrong, *reversed(unoffered)]), "none" if not refusal.values else "minimal")


def bodies(row: dict[str, Any], text: str = "") -> list[dict[str, Any]]:
    """What may have been sent where the server says so: little, and all that may be beside it."""
    refusal = Refusal(row["kind"], row["parameter"], **DETAILS.get(row["id"], {}))
    message = text or read_error(json.dumps(row["body"])).message
    return little_and_much(sent_with(refusal, QUOTED.get(row["id"], {}), message))


def little_and_much(body: dict[str, Any]) -> list[dict[str, Any]]:
    is_other_cap = not {"max_completion_tokens", "max_output_tokens"}.isdisjoint(body)
    more = {k: v for k, v in EVERYTHING.items() if k != "max_tokens" or not is_other_cap}
    return [body, more | body]


def test_the_quoted_errors_are_all_read():
    """Kind, parameter, and what stands beside them; five are about something else."""
    lost = [
        (row["id"], sent, found)
        for row in rows(refused=True)
        for sent in bodies(row)
        if (found := read_refusal(row["status"], json.dumps(row["body"]), sent)) != expected(row)
    ]
    assert lost == []
    everything = sent_with(None, {})
    for row in rows(refused=False):
        assert read_refusal(row["status"], json.dumps(row["body"]), everything) is None
    assert len(rows(refused=True)) + len(rows(refused=False)) == 70


def test_a_parameter_that_was_not_sent_is_not_refused():
    """Whatever names a message has: no body, nothing to change in it."""
    for row in rows(refused=True):
        assert read_refusal(row["status"], json.dumps(row["body"]), {"model": "m"}) is None


def test_a_refused_field_include_is_about_the_things_that_it_lists():
    """The field of the Responses API that requests log-probabilities may list others instead."""
    body = {"error": {"message": "This model cannot include it.", "param": "include"}}
    for listed, refused in [
        ("message.output_text.logprobs", "logprobs"),
        ("reasoning.encrypted_content", "include"),
    ]:
        found = read_refusal(400, json.dumps(body), {"model": "m", "include": [listed]})
        assert found == Refusal("drop", refused)


def test_of_a_body_that_is_not_known_most_refusals_are_read():
    """As for the rows of batches: names of the table are found, numbers are the smallest one."""
    lost = []
    for row in rows(refused=True):
        found = read_refusal(row["status"], json.dumps(row["body"]), ANYTHING)
        if (wanted := expected(row)) and wanted.parameter in BY_NAME:
            both = {wanted.parameter, found and found.parameter}
            is_same = len(both) == 1 or both <= THINKING_FIELDS  # which of them was sent is known
            if not is_same or (found and found.limit != wanted.limit):
                lost.append((row["id"], wanted, found))
    assert lost == []


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_a_cap_that_was_spent_has_any_name(field):
    """OpenAI says `max_tokens` of what was sent as `max_completion_tokens`."""
    row = next(row for row in rows(refused=True) if row["id"] == "F15")
    found = read_refusal(400, json.dumps(row["body"]), {"model": "m", field: 50})
    assert found == Refusal("room", "max_tokens")


def templates(row: dict[str, Any]) -> list[str]:
    """Return other sentences for one of the errors."""
    details = DETAILS.get(row["id"], {})
    match row["kind"]:
        case "rename":
            return REWORDED["renamed"]
        case "range":
            words = QUOTED[row["id"]]
            return (
                REWORDED["too_large"]
                if int(words["sent"]) > int(words["limit"])
                else REWORDED["too_small"]
            )
        case "effort" if details:
            return REWORDED["levels"]
        case "effort":
            return (
                REWORDED["no_levels"]
                if "level" in QUOTED.get(row["id"], {})
                else REWORDED["always"]
            )
        case "room":
            return REWORDED["below_budget"] if row["id"] == "F33" else REWORDED["spent"]
        case "thinking":
            return (
                REWORDED["thinking"]
                if details
                else ["{name} is not supported", "no {name} on this model"]
            )
        case "role":
            return REWORDED["roles"]
        case "prefill":
            return REWORDED["prefills"]
    return REWORDED["dropped"]


def rewordings(row: dict[str, Any]) -> list[str]:
    """Return what another server would say for the same fault, its names and numbers kept."""
    others = {"rename": "max_completion_tokens", "room": "thinking.budget_tokens"}
    name = {"thinking": "adaptive thinking", "role": "messages[0].role"}.get(row["kind"])
    words = {
        "name": name or row["parameter"],
        "other": others.get(row["kind"], ""),
        **QUOTED.get(row["id"], {}),
    }
    texts = []
    for template, quote in itertools.product(templates(row), QUOTES):
        quoted = {
            key: quote.format(word) if key in ("name", "other", "level") else word
            for key, word in words.items()
        }
        values = [quote.format(v) for v in DETAILS.get(row["id"], {}).get("values", ())]
        texts.append(template.format(**quoted, levels=", ".join(values)))
    return texts


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
        for text, sent in itertools.product(rewordings(row), bodies(row)):
            count += 1
            found = read_refusal(row["status"], json.dumps(with_message(row["body"], text)), sent)
            if found != expected(row):
                lost.append((row["id"], text, found))
    assert lost == []
    assert count > 2000


@pytest.mark.parametrize("section", ["paraphrases", "further", "other faults"])
def test_what_servers_say_in_their_own_words(section):
    """Freer words than the quoted ones, other servers', and faults of something else."""
    lost = []
    for heading, messages in messages_in(section).items():
        refusal, more = refusal_in(heading)
        wanted = None if refusal is None else in_our_names(refusal)
        status = int(more.get("status", 400))
        for text in messages:
            error = {"message": text, "param": more.get("param")}
            answers = [json.dumps({"error": error})]
            if refusal is None:
                answers += [json.dumps({"error": {**error, "code": "invalid_request_error"}}), text]
            sent = little_and_much(sent_with(refusal, more, text))
            found = [read_refusal(status, *pair) for pair in itertools.product(answers, sent)]
            lost += [(text, found, wanted)] if set(found) != {wanted} else []
    assert lost == [], f"(message, readings, expected reading); {LEFT_TO_PROBES}"


@pytest.mark.parametrize(
    "name", [line.removeprefix("drop ") for line in messages_in("left to probes")]
)
async def test_what_no_rule_reads_is_found_by_probes(name: str) -> None:
    """Three harmless questions at most, once for a model; then the request is answered."""
    for text in messages_in("left to probes")[f"drop {name}"]:
        asked: list[dict[str, Any]] = []

        async def answer(request: web.Request, text: str = text, asked: Any = asked) -> Any:
            asked.append(body := await request.json())
            roles = {message["role"] for message in body["messages"]}
            if FIELDS_OF_PROBES.get(name, name) in body or name in roles:
                return web.json_response({"error": {"message": text}}, status=400)
            return web.json_response({"choices": [{"message": {"content": "4"}}]})

        async with listening(answer) as address:
            model = DirectModel("direct/judge", api_base=f"{address}/v1", api_key="sk-none")
            adapting = AdaptingModel(model, Adaptation(model))
            chat = (("system", "You judge."), ("user", "Rate."))
            messages = tuple(ChatMessage(role=role, content=content) for role, content in chat)
            more = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ("x",)}
            more["json_schema"] = {"type": "object"}
            await adapting.generate(Request(messages=messages, **more))
            assert adapting.adaptation.learned.unsent == (name,)
            await model.aclose()
        KNOWN.clear()
        assert len(asked) <= 1 + 3 + 1


@pytest.mark.parametrize("sent", ["low", "medium", None])
@pytest.mark.parametrize(
    "text",
    [
        "reasoning_effort: 'low', 'medium' are not supported",
        "reasoning_effort: 'low' and 'medium' are not supported with this model.",
        "For reasoning_effort, `low` and `medium` values are unsupported",
        "reasoning_effort low and medium are no longer available",
        "reasoning_effort does not support 'low', 'medium'",
        "Unsupported reasoning_effort values: 'low', 'medium'",
        '\'reasoning_effort\' must not be "low" or "medium".',
        "The levels 'low' and 'medium' of reasoning_effort cannot be used here",
        "reasoning_effort 'low' is not supported, and 'medium' isn't either",
    ],
)
def test_levels_that_are_denied_are_not_offered(text: str, sent: str | None) -> None:
    """Whichever was sent; else the next request has one of them, and is refused again."""
    found = read_refusal(400, json.dumps({"error": {"message": text}}), {"reasoning_effort": sent})
    assert found is not None
    assert (found.kind, found.parameter) == ("effort", "reasoning_effort")
    assert {"low", "medium"}.isdisjoint(found.values)


@pytest.mark.parametrize(
    "text",
    [
        "reasoning_effort: 'low', 'medium' are not supported; use 'high'",
        "reasoning_effort does not support 'low' or 'medium'. Supported values are: 'high'",
        "Only 'high' is supported for reasoning_effort; 'low' is not supported",
    ],
)
def test_levels_that_are_offered_beside_denied_ones_are_taken(text: str) -> None:
    body = {"reasoning_effort": "minimal"}
    found = read_refusal(400, json.dumps({"error": {"message": text}}), body)
    assert found == Refusal("effort", "reasoning_effort", values=("high",))


async def test_of_a_list_of_denied_levels_none_is_sent_twice() -> None:
    """Through a client and its adaptation."""
    asked: list[str] = []
    message = "reasoning_effort: 'low', 'medium' are not supported with this model"
    text = {"message": {"content": "4"}, "finish_reason": "stop"}

    async def answer(request: web.Request) -> web.Response:
        asked.append((await request.json())["reasoning_effort"])
        if asked[-1] in ("low", "medium"):
            return web.json_response({"error": {"message": message}}, status=400)
        return web.json_response({"choices": [text]})

    async with listening(answer) as address:
        model = DirectModel("direct/judge", api_base=f"{address}/v1", api_key="sk-none")
        adapting = AdaptingModel(model, Adaptation(model, Sampling(effort="low")))
        await adapting.generate(Request(messages=(ChatMessage(role="user", content="Rate."),)))
        await model.aclose()
    assert asked == ["low", "medium", "minimal"]


def dressed(message: str) -> list[str]:
    """Return a message as other software would show it."""
    return [
        f"Sorry, {message}",
        f"1 validation error for ChatCompletionRequest: {message}",
        f"[400] {message} (request id: req_0123)",
        f"Invalid request: 'code': 400, {message}",
        f"{message}. See https://example.com/docs/temperature?n=4#context-window",
        message.upper(),
        " ".join(reversed(re.split(r"(?<=[.?]) ", message))),
        *(re.sub(r"['\"`](\w[\w.\[\]]*)['\"`]", rf"{q}\1{q}", message) for q in '`"\u2019'),
        re.sub(r"['\"`](\w[\w.\[\]]*)['\"`]", r"\1", message),
    ]


def test_text_around_a_message_does_not_matter():
    """Other quotation marks, capitals, the order of sentences, greetings and addresses."""
    lost = [
        (row["id"], text, found)
        for row in rows(refused=True)
        for text in dressed(read_error(json.dumps(row["body"])).message)
        for sent in bodies(row)
        if (found := read_refusal(400, json.dumps(with_message(row["body"], text)), sent))
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
        for sent in bodies(row)
        if (found := read_refusal(400, body if how == "text" else json.dumps(body), sent))
        != expected(row)
    ]
    assert lost == []


@pytest.mark.parametrize("status", [401, 402, 404, 408, 409, 413, 429, 500, 502, 503, 529])
def test_other_statuses_refuse_no_parameter(status):
    """Whatever the body says, and under a status of success, too, if the code within is one."""
    for row in rows(refused=True):
        assert read_refusal(status, json.dumps(row["body"]), ANYTHING) is None
    message = "Unsupported parameter: 'temperature' is not supported with this model."
    passed_on = {"error": {"message": message, "code": status}}
    if status != 413:
        assert read_refusal(200, json.dumps(passed_on), ANYTHING) is None


FIELDS = [
    *("error", "message", "detail", "param", "code", "loc", "msg", "metadata", "raw", "type"),
    "innererror",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner),
    max_leaves=20,
)


@given(json_values | st.text() | st.binary(), st.sampled_from([200, 400, 403, 404, 422]))
def test_whatever_a_server_sends_is_read(body, status):
    """Never an exception, never a refusal without a name."""
    raw = body if isinstance(body, bytes | str) else json.dumps(body)
    found = read_refusal(status, raw, ANYTHING)
    assert found is None or found.parameter


ADDED = {"web_search_options": {}, "messages": [{"role": "system"}]}
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
    "messages[0].role": Refusal("drop", "system"),
    "Web search options": Refusal("drop", "web_search_options"),
}


def test_recorded_errors_of_providers():
    """The 13 of 860 exchanges that failed."""
    failed = [r for r in benchmark("provider-answers/answers.jsonl.gz") if r["status"] != 200]
    assert len(failed) == 13
    for row in failed:
        body = json.dumps(row["body"])
        meaning = next(meaning for words, meaning in RECORDED.items() if words in body)
        error = http_errors.from_status(
            row["status"], {}, body, http_errors.ServerName("h"), sent_with(None, {}) | ADDED
        )
        refusal = error.refusal if isinstance(error, errors.RequestRefused) else None
        if isinstance(meaning, Refusal):
            assert (type(error), refusal) == (errors.RequestRefused, meaning)
        else:
            assert (type(error), refusal) == (meaning, None)


MODELS = ("direct", "openai/an-unknown-one", "openrouter/a/b", "anthropic/claude-3-unknown")
ONLY_RESPONSES = "This model is only supported in v1/responses and not in v1/chat/completions."
RESPONSES_ONLY = {
    "id": "api",
    "status": 404,
    "body": {"error": {"message": ONLY_RESPONSES, "param": "model"}},
    "kind": "api",
    "parameter": "model",
}


def request_for(row: dict[str, Any]) -> Request:
    """A request that has what is refused."""
    body = RESPONSES_ONLY["body"] if row is RESPONSES_ONLY else bodies(row)[0]
    fields = {name: body[name] for name in body.keys() - {"model", "messages", "error"}}
    chat = [ChatMessage(role="user", content="Rate.")]
    if row["kind"] == "role":
        chat.insert(0, ChatMessage(role="system", content="You judge."))
    own = {name: fields.pop(name) for name in ("temperature", "max_tokens") if name in fields}
    return Request(messages=tuple(chat), extra=fields, **{"max_tokens": None, **own})


@pytest.mark.parametrize("kind", MODELS)
async def test_the_quoted_errors_through_a_client(kind):
    """Each from a real server, whose answers litellm turns into exceptions of its own."""
    sending: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(sending[0]["body"], status=sending[0]["status"])

    lost = []
    async with listening(answer) as address:
        if kind == "direct":
            model = DirectModel("direct/judge", api_base=f"{address}/v1", api_key="sk-none")
        else:  # a name that litellm has no table for, so that it sends everything
            base = address if kind.startswith("anthropic") else f"{address}/v1"
            model = LiteLLMModel(kind, api_base=base, api_key="sk-none")
        for row in [*rows(refused=True), RESPONSES_ONLY]:
            sending[:] = [row]
            ask = request_for(row)
            if row["id"] == "F15" and kind.startswith("openai/"):
                # litellm answers for OpenAI: nothing, cut at the cap
                assert (await model.generate(ask)).samples[0].is_unfinished
                continue
            with pytest.raises(errors.ModelError) as caught:
                await model.generate(ask)
            error = caught.value
            if "does not take" in str(error):  # litellm's own table says so: nothing was sent
                name = FIELDS_SENT.get(row["parameter"], row["parameter"])
                assert error.refusal.parameter == OUR_NAMES.get(name, name)
                continue
            if type(error) is not errors.RequestRefused or error.refusal != expected(row):
                lost.append((row["id"], error, getattr(error, "refusal", None)))
        await model.aclose()
    assert lost == []
