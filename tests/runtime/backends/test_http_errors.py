"""What statuses, bodies and exceptions mean."""

from __future__ import annotations

import errno
import socket

import aiohttp
import orjson
import pytest
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime import errors
from textassay.runtime.backends import http_errors

KEY = "sk-a-Key-that-nobody-may-see-0123456789"
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
HOST = ConnectionKey("host", 80, False, True, None, None, None)

BODIES = [
    (
        400,
        {"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error"}},
        errors.ContextTooLong,
    ),
    (
        400,
        {"message": "This model's maximum context length is 8 tokens", "code": 400},
        errors.ContextTooLong,
    ),
    (
        400,
        {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}},
        errors.ContextTooLong,
    ),
    (
        400,
        {"error": {"message": "max_tokens is too large: 9. It supports at most 8"}},
        errors.RequestRefused,
    ),
    (400, {"error": {"message": "Your credit balance is too low"}}, errors.QuotaExhausted),
    (
        400,
        {"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        errors.ContentRefused,
    ),
    (
        400,
        {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}},
        errors.ModelNotFound,
    ),
    (403, {"error": {"message": "Your input was flagged", "code": 403}}, errors.ContentRefused),
    (403, {"detail": "not for you"}, errors.AuthenticationFailed),
    (404, "<html>nginx</html>", errors.ModelNotFound),
    (307, "", errors.ModelNotFound),
    (408, "", errors.TimedOut),
    (413, "Payload Too Large", errors.RequestRefused),
    (
        429,
        {"error": {"message": "Request too large for judge on tokens per min"}},
        errors.RequestRefused,
    ),
    (
        429,
        [{"error": {"message": "You exceeded your current quota. Please retry in 34.5s."}}],
        errors.RateLimited,
    ),
    (
        429,
        {"error": {"message": "You exceeded your current quota, check billing details"}},
        errors.QuotaExhausted,
    ),
    (429, {"error": {"message": "x", "type": "insufficient_quota"}}, errors.QuotaExhausted),
    (429, "", errors.RateLimited),
    (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        errors.ServerFailed,
    ),
    (500, {"error": "context window of the moon"}, errors.ServerFailed),
]


@pytest.mark.parametrize(("status", "body", "kind"), BODIES)
def test_bodies_of_many_servers(status, body, kind):
    """The formats of OpenAI, Azure, Anthropic, Gemini, vLLM, llama.cpp and gateways."""
    raw = body.encode() if isinstance(body, str) else orjson.dumps(body)
    assert type(http_errors.from_status(status, {}, raw, where="http://h/v1")) is kind


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({"retry-after": "3"}, "", 3.0),
        ({"retry-after": "0.25"}, "", 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, "", 70.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, "", 0.0),
        ({"retry-after": "soon"}, "Please try again in 2s", 2.0),
        ({"retry-after": "-1"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({}, "Please try again in 1.2s. Visit us", 1.2),
        ({}, "Please try again in 850ms.", 0.85),
        ({}, "Please try again in 6m0.5s.", 360.5),
        ({}, "Please retry after 20 seconds.", 20.0),
        ({}, "no hint", None),
    ],
)
def test_waiting_times(headers, text, seconds):
    """Three forms of the header, and the words of the message."""
    assert http_errors.retry_after(headers, text, now=lambda: 30.0) == seconds


@given(st.text(max_size=2000), st.integers(0, 600))
def test_a_quotation_is_short_printable_and_without_the_key(text, at):
    """Wherever the key stands in whatever a server says."""
    said = http_errors.quote(text[:at] + KEY + text[at:], KEY)
    assert len(said) <= http_errors.QUOTED_CHARACTERS
    assert said.isprintable()
    assert KEY not in said
    assert KEY[:12] not in said


@pytest.mark.parametrize(
    "echo", [KEY.upper(), KEY[:20] + "...", KEY[:9] + "****" + KEY[-4:], "sk-proj-" + "x" * 30]
)
def test_parts_of_keys_are_removed(echo):
    """Servers echo keys in part, or another key than ours."""
    said = http_errors.scrub(f"Incorrect API key provided: {echo}. Find yours elsewhere.", KEY)
    assert echo not in said
    assert "[key]" in said


def test_control_characters_are_escaped():
    """A server cannot write to the terminal."""
    said = http_errors.quote(b"\x1b[31mred\x07\xff \xe2\x80\xae")
    assert said == "“\\x1b[31mred\\x07\ufffd \\u202e”"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            aiohttp.ClientConnectorError(
                HOST, ConnectionRefusedError(errno.ECONNREFUSED, "refused")
            ),
            errors.NothingListening,
        ),
        (
            aiohttp.ClientConnectorDNSError(HOST, socket.gaierror(-2, "Name unknown")),
            errors.NothingListening,
        ),
        (
            aiohttp.ClientConnectorError(HOST, OSError(errno.EHOSTUNREACH, "no route")),
            errors.NothingListening,
        ),
        (
            aiohttp.ClientConnectorError(HOST, OSError(errno.EMFILE, "too many files")),
            errors.ConnectionFailed,
        ),
        (
            aiohttp.ClientConnectorError(HOST, OSError(errno.ETIMEDOUT, "timed out")),
            errors.TimedOut,
        ),
        (aiohttp.ServerDisconnectedError(), errors.ConnectionFailed),
        (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), errors.ConnectionFailed),
        (aiohttp.ClientPayloadError("cut"), errors.ConnectionFailed),
        (aiohttp.ServerTimeoutError(), errors.TimedOut),
        (TimeoutError(), errors.TimedOut),
    ],
)
def test_low_level_exceptions(error, kind):
    """Refused and unknown hosts are not outages; too many open files says what to do."""
    found = http_errors.from_exception(error, where="http://h/v1", secret=KEY)
    assert type(found) is kind
    assert "http://h/v1" in str(found)


def test_the_origin_behind_a_wrapped_exception_counts():
    """Libraries wrap; the cause tells."""
    outer = RuntimeError("Connection error.")
    outer.__cause__ = aiohttp.ClientConnectorError(
        HOST, ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    )
    assert http_errors.is_transport(outer)
    assert type(http_errors.from_exception(outer, where="h")) is errors.NothingListening
    assert not http_errors.is_transport(ValueError("x"))


REFUSALS = [
    (400, "Unsupported parameter: 'top_k' is not supported with this model.", "top_k"),
    (403, "You are not allowed to request logprobs from this model", "logprobs"),
    (416, "max_completion_tokens is too large", "max_completion_tokens"),
    (422, "seed: Extra inputs are not permitted", "seed"),
    (400, "Unknown parameter: 'moderation'.", "moderation"),
    (400, "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our "
     "documentation at https://docs.claude.com/en/docs#max-tokens-and-context-window-size",
     "max_tokens"),
    (404, "This model is only supported in v1/responses and not in v1/chat/completions.", "model"),
    (404, "This is a chat model and not supported in the v1/completions endpoint. Did you mean to "
     "use v1/chat/completions?", "model"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message", "name"), REFUSALS)
def test_a_refusal_of_a_parameter_is_nothing_else(status, message, name):
    """Not a wrong key, a filter, a long prompt or an unknown model, whatever status and words."""
    body = orjson.dumps({"error": {"message": message}})
    error = http_errors.from_status(status, {}, body, where="http://h/v1")
    assert type(error) is errors.RequestRefused
    assert error.refusal is not None
    assert error.refusal.parameter == name
    assert "http://h/v1 answered" in str(error)


@pytest.mark.parametrize(("status", "body", "kind"), BODIES)
def test_other_errors_refuse_no_parameter(status, body, kind):
    """But one, which names the cap and its limit."""
    raw = body.encode() if isinstance(body, str) else orjson.dumps(body)
    error = http_errors.from_status(status, {}, raw, where="http://h/v1")
    found = error.refusal if isinstance(error, errors.RequestRefused) else None
    named = "max_tokens is too large" in raw.decode()
    assert found == (errors.Refusal("range", "max_tokens", limit=8) if named else None)


def test_a_gateway_s_error_is_what_the_provider_said():
    """The message and the kind come from the body within."""
    raw = '{"error": {"message": "This model\'s maximum context length is 8 tokens"}}'
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    error = http_errors.from_status(400, {}, orjson.dumps(body), where="h")
    assert type(error) is errors.ContextTooLong
    assert "8 tokens" in str(error)


def test_a_refusal_inside_a_success():
    """With a code, and without one."""
    message = "Unsupported parameter: 'top_k' is not supported with this model."
    for code in (400, "400", "unsupported_parameter", None):
        error = http_errors.from_error_payload(
            {"error": {"message": message, "code": code}}, where="h"
        )
        assert type(error) is errors.RequestRefused
        assert error.refusal == errors.Refusal("drop", "top_k")


def test_an_error_inside_a_success():
    """Gateways answer 200 with an error in the body."""
    limited = http_errors.from_error_payload(
        {"error": {"code": 429, "message": "slow down"}}, where="h"
    )
    assert type(limited) is errors.RateLimited
    assert (
        type(http_errors.from_error_payload({"error": "what"}, where="h"))
        is errors.MalformedResponse
    )
