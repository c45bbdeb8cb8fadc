"""What statuses, bodies and exceptions mean."""

from __future__ import annotations

import errno
import socket
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from tests.work import grows_linearly
from textassay.runtime import errors
from textassay.runtime.backends import http_errors
from textassay.runtime.errors import Refusal

SERVER = http_errors.ServerName("http://h/v1")
KEY = "sk-a-Key-that-nobody-may-see-0123456789"
HOST = ConnectionKey("host", 80, False, True, None, None, None)


def read(status: int, content: Any, secrets: tuple[str, ...] = (), **how: Any) -> errors.ModelError:
    """The error of an answer, whose message, body or text is given."""
    message = content.removeprefix("says: ") if isinstance(content, str) else None
    if message is not None and message != content:
        content = {"error": {"message": message}}
    body = content.encode() if isinstance(content, str) else orjson.dumps(content)
    return http_errors.from_status(status, {}, body, SERVER._replace(secrets=secrets), **how)


# fmt: off
BODIES = [
    # OpenAI, Azure, Anthropic, Gemini, vLLM, llama.cpp and gateways
    (400, {"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error"}},
     errors.ContextTooLong),
    (400, {"message": "This model's maximum context length is 8 tokens", "code": 400},
     errors.ContextTooLong),
    (400, "says: prompt is too long: 9 tokens > 8 maximum", errors.ContextTooLong),
    # Anthropic, TGI and xAI, about the prompt and the tokens for an answer together
    (400, "says: input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, "
     "decrease input length or `max_tokens` and try again", errors.ContextTooLong),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. "
           "Given: 4000 `inputs` tokens and 200 `max_new_tokens`", "error_type": "validation"},
     errors.ContextTooLong),
    (400, {"code": "x", "error": "This model's maximum prompt length is 8 but the request contains"
           " 9 tokens."}, errors.ContextTooLong),
    (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {
        "raw": '{"error": {"message": "This model\'s maximum context length is 8 tokens"}}'}}},
     errors.ContextTooLong),
    (400, "says: Your credit balance is too low", errors.QuotaExhausted),
    (400, {"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
     errors.ContentRefused),
    (400, {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}},
     errors.ModelNotFound),
    (403, {"error": {"message": "Your input was flagged", "code": 403}}, errors.ContentRefused),
    (403, {"detail": "not for you"}, errors.AuthenticationFailed),
    (404, "says: The model `x` was not found", errors.ModelNotFound),
    (404, "<html>nginx</html>", errors.PathNotFound),
    (404, "404 page not found", errors.PathNotFound),
    (404, {"message": "no Route matched with those values"}, errors.PathNotFound),
    (404, {"detail": "Not Found"}, errors.PathNotFound),
    (404, "", errors.PathNotFound),
    (307, "", errors.PathNotFound),
    (408, "", errors.TimedOut),
    (413, "Payload Too Large", errors.RequestRefused),
    (429, "says: Request too large for judge on tokens per min", errors.RequestRefused),
    (429, [{"error": {"message": "You exceeded your current quota. Please retry in 34.5s."}}],
     errors.RateLimited),
    (429, "says: You exceeded your current quota, check billing details", errors.QuotaExhausted),
    (429, {"error": {"message": "x", "type": "insufficient_quota"}}, errors.QuotaExhausted),
    (429, "", errors.RateLimited),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
     errors.ServerFailed),
    (500, {"error": "context window of the moon"}, errors.ServerFailed),
    # LiteLLM's proxy says so of a wrong name and of a wrong key, llama_cpp.server of a field
    (400, {"error": {"message": "/chat/completions: Invalid model name passed in model=nope. Call "
                     "`/v1/models`", "type": "None", "param": "None", "code": "400"}},
     errors.ModelNotFound),
    (400, {"error": {"message": "No connected db.", "type": "no_db_connection", "code": "400"}},
     errors.AuthenticationFailed),
    (500, {"error": {"message": "1 validation error for ChatCompletion response_format.type Input "
                     "should be 'text'", "type": "internal_server_error"}},
     errors.RequestRefused),
    # every call with an image would fail
    (400, "says: Invalid content type. image_url is only supported by certain models.",
     errors.ImagesRefused),
    (400, "says: At most 0 image(s) may be provided in one request.", errors.ImagesRefused),
    (400, "says: judge-7b is not a multimodal model", errors.ImagesRefused),
    (422, "says: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 99",
     errors.ImagesRefused),
    (500, "says: image input is not supported - hint: you may need to provide the mmproj",
     errors.ImagesRefused),
    (404, "says: No endpoints found that support image input", errors.ImagesRefused),
    (400, "says: The model `x` does not support image input.", errors.ImagesRefused),
    (400, "says: Image inputs are not supported by this model.", errors.ImagesRefused),
    (400, "says: This model does not support vision", errors.ImagesRefused),
    # this image does
    (400, "says: Could not process image", errors.RequestRefused),
    (400, "says: Unsupported image format: image/bmp", errors.RequestRefused),
    (400, "says: image exceeds 5 MB maximum", errors.RequestRefused),
    (400, "says: The image data you provided does not represent a valid image.",
     errors.RequestRefused),
    (400, "says: We do not support image type image/tiff", errors.RequestRefused),
    (400, "says: image dimensions are too large", errors.RequestRefused),
]
REFUSALS = [
    # no wrong key, filter, long prompt or unknown model, whatever status and words
    (400, "Unsupported parameter: 'top_k' is not supported with this model.",
     Refusal("drop", "top_k")),
    (400, "max_tokens is too large: 9. It supports at most 8",
     Refusal("range", "max_tokens", limit=8)),
    (403, "You are not allowed to request logprobs from this model", Refusal("drop", "logprobs")),
    (416, "max_completion_tokens is too large", Refusal("drop", "max_tokens")),
    (422, "seed: Extra inputs are not permitted", Refusal("drop", "seed")),
    (400, "Unknown parameter: 'moderation'.", Refusal("drop", "moderation")),
    (400, "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our "
     "documentation at https://docs.claude.com/en/docs#max-tokens-and-context-window-size",
     Refusal("room", "max_tokens")),
    (404, "This model is only supported in v1/responses and not in v1/chat/completions.",
     Refusal("api", "model")),
]
# fmt: on


@pytest.mark.parametrize(("status", "said", "kind"), BODIES)
def test_bodies_of_many_servers(status, said, kind):
    """And none of them refuses a parameter."""
    error = read(status, said)
    assert type(error) is kind
    assert getattr(error, "refusal", None) is None
    assert kind is not errors.ImagesRefused or (error.stops_run and "use one that" in str(error))


@pytest.mark.parametrize(("status", "message", "refusal"), REFUSALS)
def test_a_refusal_of_a_parameter_is_nothing_else(status, message, refusal):
    sent = dict.fromkeys(("max_tokens", "top_k", "seed", "moderation", "logprobs"), 9)
    if "max_completion_tokens" in message:
        sent["max_completion_tokens"] = sent.pop("max_tokens")
    error = read(status, f"says: {message}", request=sent)
    assert (type(error), error.refusal) == (errors.RequestRefused, refusal)
    assert "http://h/v1 answered" in str(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "slow down"}, errors.RateLimited),
        ("what", errors.MalformedResponse),
        *(
            ({"message": "Unsupported parameter: 'top_k'", "code": code}, errors.RequestRefused)
            for code in (400, "400", "unsupported_parameter", None)
        ),
    ],
)
def test_an_error_inside_a_success(error, kind):
    """As gateways pass on those of providers, with a code and without one."""
    found = http_errors.from_error_payload({"error": error}, SERVER, {"top_k": 3})
    assert type(found) is kind
    assert kind is not errors.RequestRefused or found.refusal == Refusal("drop", "top_k")


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
        ({"llm_provider-retry-after": "60"}, "", 60.0),
        ({"llm_provider-retry-after-ms": "250"}, "", 0.25),
        ({"retry-after": "2", "llm_provider-retry-after": "60"}, "", 2.0),
        ({"retry-after": "1m30s"}, "", 90.0),
        ({"retry-after": "20s"}, "", 20.0),
        # of all answers of OpenAI, whatever they are about
        ({"x-ratelimit-reset-requests": "6m0s"}, "", None),
    ],
)
def test_waiting_times(headers, text, seconds):
    """Three forms of the header, and the words of the message."""
    assert http_errors.retry_after(headers, text, now=lambda: 30.0) == seconds


NOW = 1_760_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"X-RateLimit-Reset-Tokens": "120ms"}, 0.12),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset": "17"}, 17.0),
        ({"RateLimit-Reset": "17"}, 17.0),
        ({"x-ratelimit-reset": f"{NOW + 40:.0f}"}, 40.0),
        ({"x-ratelimit-reset": f"{1000 * (NOW + 40):.0f}"}, 40.0),
        ({"anthropic-ratelimit-requests-reset": "2025-10-09T08:54:10Z"}, 50.0),
        ({"llm_provider-x-ratelimit-reset-requests": "20s"}, 20.0),
        ({"x-ratelimit-reset-requests": "never"}, None),
        ({"x-ratelimit-reset-requests": "-5"}, None),
        ({"x-ratelimit-reset": f"{NOW - 40:.0f}"}, 0.0),
        ({"x-ratelimit-limit-requests": "20"}, None),
        # of two limits the one that is used up; of unknown ones the first that has room
        ({"x-ratelimit-reset-requests": "3s", "x-ratelimit-remaining-requests": "0",
          "x-ratelimit-reset-tokens": "50s", "x-ratelimit-remaining-tokens": "9"}, 3.0),
        ({"x-ratelimit-reset-requests": "3s", "x-ratelimit-remaining-requests": "0",
          "x-ratelimit-reset-tokens": "50s", "x-ratelimit-remaining-tokens": "0"}, 50.0),
        ({"x-ratelimit-reset-requests": "3s", "x-ratelimit-reset-tokens": "50s"}, 3.0),
    ],
)  # fmt: skip
def test_headers_say_when_a_rate_limit_resets(headers, seconds):
    """Durations, seconds, and times in three forms, as OpenAI, Anthropic and gateways send them."""
    found = http_errors.limit_resets_after(headers, now=lambda: NOW)
    assert found == (None if seconds is None else pytest.approx(seconds))
    error = http_errors.from_status(429, headers, b"slow down", SERVER)
    assert isinstance(error, errors.RateLimited)
    assert (error.retry_after is None) == (seconds is None)
    failed = http_errors.from_status(500, headers, b"oops", SERVER)
    assert failed.retry_after is None


PAGES = {
    "nginx": b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center>"
    b"<h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>",
    "doctype": b"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>\n 502 Bad Gateway\n"
    b"</title></head><body><script>var a = '<b>';</script></body></html>",
    "no title": b"<html><body><h1>502 Bad Gateway</h1></body></html>",
    "comment": b"\xef\xbb\xbf<!-- a\n --> <!doctype HTML><TITLE>502 Bad Gateway</TITLE>",
    "entities": b"<html><title>502&nbsp;Bad Gateway</title>",
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_pages_are_quoted_by_their_title(page):
    assert str(read(502, page.decode())) == "http://h/v1 answered 502: “502 Bad Gateway”"
    with pytest.raises(errors.PageAnswered, match=r"“502 Bad Gateway” .*ends in /v1"):
        http_errors.parse_json(page, SERVER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "OK",
        "Ollama is running",
        '<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
    ],
)
def test_a_text_in_place_of_json_is_no_model(text):
    with pytest.raises(errors.PageAnswered, match=r"a text in place .*ends in /v1"):
        http_errors.parse_json(text.encode(), SERVER)


@pytest.mark.parametrize(
    "begins", ["data: {", ": KEEP-ALIVE\n\ndata: {", "event: message\ndata: {"]
)
def test_a_stream_that_no_request_asks_for_is_named(begins):
    body = f'{begins}"choices": [{{"delta": {{"content": "4"}}}}]}}\n\ndata: [DONE]\n\n'
    with pytest.raises(errors.PageAnswered, match=r"a stream of events.* \(switch streaming off"):
        http_errors.parse_json(body.encode(), SERVER)


def test_a_404_that_names_the_model_is_about_the_model():
    said = {"error": {"message": "No endpoints found for acme/judge"}}
    for name, kind in (("acme/judge", errors.ModelNotFound), ("m", errors.PathNotFound)):
        error = http_errors.from_status(404, {}, orjson.dumps(said), SERVER, {"model": name})
        assert type(error) is kind


@pytest.mark.parametrize("end", ["\n", "\n\n", "\r\n"])
def test_lines_of_json_that_no_request_asks_for_are_named(end):
    body = end.join(['{"message": {"content": "4"}, "done": false}', '{"done": true}', ""])
    with pytest.raises(errors.PageAnswered, match=r"a stream .* \(switch streaming off"):
        http_errors.parse_json(body.encode(), SERVER)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_json_is_read_in_every_encoding(encoding):
    body = '{"content": "schön \U0001f600"}'.encode(encoding)
    assert http_errors.parse_json(body, SERVER) == {"content": "schön \U0001f600"}


@pytest.mark.parametrize("broken", [b"\xf0\x9f\x98", b"\xe4", b"\xff\xfe"])
def test_a_broken_character_in_an_answer_is_replaced(broken):
    """Servers cut one in two where a model stops, and some write Latin-1."""
    read = http_errors.parse_json(b'{"content": "Rating: 4 ' + broken + b'"}', SERVER)
    assert set(read["content"].removeprefix("Rating: 4 ")) == {"\ufffd"}


@pytest.mark.parametrize("status", [404, 405, 410, 501])
def test_a_site_without_a_model_stops_the_run(status):
    """nginx answers a POST to files with 405, Python's http.server with 501."""
    error = read(status, "<html><title>Not here</title></html>")
    assert isinstance(error, errors.PathNotFound)
    assert "ends in /v1" in str(error)


def test_the_text_of_an_error_page_still_distinguishes_errors():
    page = "<html><title>Forbidden</title><body>Your request was flagged by a <b>filter</b>."
    assert isinstance(read(403, page), errors.ContentRefused)


def test_a_page_refuses_no_parameter():
    page = "<html><title>Blocked</title><body>temperature: not allowed in this text</body>"
    error = http_errors.from_status(400, {}, page, SERVER, {"temperature": 0.5})
    assert isinstance(error, errors.RequestRefused)
    assert error.refusal is None


@pytest.mark.parametrize("status", [409, 412, 421, 423, 424, 425, 499])
def test_statuses_that_mean_not_now_are_asked_again(status):
    error = read(status, {"error": {"message": "the model is being loaded"}})
    assert isinstance(error, errors.ServerFailed)
    assert (error.status, isinstance(error, errors.TransientError)) == (status, True)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'{"a": -Infinity, "b": [Infinity]}', {"a": float("-inf"), "b": [float("inf")]}),
    ],
)
def test_json_with_a_mark_of_byte_order_or_infinity_is_read(body, value):
    assert http_errors.parse_json(body, SERVER) == value


@pytest.mark.parametrize("body", [b'{"a": NaN?', b"{Infinity", b"[NaN", b'{"a"', b'"a'])
def test_bodies_that_are_not_json_stay_malformed(body):
    with pytest.raises(errors.MalformedResponse, match="no valid JSON"):
        http_errors.parse_json(body, SERVER)


@given(st.text(max_size=2000), st.integers(0, 600))
def test_a_quotation_is_short_printable_and_without_the_key(text, at):
    """Wherever a server's message contains the key."""
    said = http_errors.quote(text[:at] + KEY + text[at:], (KEY,))
    assert len(said) <= 300
    assert said.isprintable()
    assert KEY[:12] not in said


@pytest.mark.parametrize(
    "echo", [KEY.upper(), KEY[:20] + "...", KEY[:9] + "****" + KEY[-4:], "sk-proj-" + "x" * 30]
)
def test_parts_of_keys_are_removed(echo):
    """Servers echo keys in part, or another key than ours."""
    said = http_errors.scrub(f"Incorrect API key provided: {echo}. Find yours elsewhere.", (KEY,))
    assert echo not in said
    assert "[key]" in said


def test_control_characters_are_escaped():
    """A server cannot write to the terminal."""
    said = http_errors.quote(b"\x1b[31mred\x07\xff \xe2\x80\xae")
    assert said == "“\\x1b[31mred\\x07\ufffd \\u202e”"


@pytest.mark.parametrize(
    "said", ["exceed", "exceeds the maximum ", "model ", "1", "try again retry wait ", "sk-", "x"]
)
def test_error_bodies_are_read_in_linear_time(said):
    """Before, 200 KB of one word held up the event loop for a minute."""

    def read_all(text):
        for status in (400, 403, 429, 500):
            read(status, f"says: wait {text}", ("sk-a-secret-key",))

    assert grows_linearly(read_all, said, 12_500)


def unreachable(number: int, words: str) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(HOST, OSError(number, words))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (unreachable(errno.ECONNREFUSED, "refused"), errors.NothingListening),
        (
            aiohttp.ClientConnectorDNSError(HOST, socket.gaierror(-2, "Name unknown")),
            errors.NothingListening,
        ),
        (unreachable(errno.EHOSTUNREACH, "no route"), errors.NothingListening),
        (unreachable(errno.EMFILE, "too many files"), errors.ConnectionFailed),
        (unreachable(errno.ETIMEDOUT, "timed out"), errors.TimedOut),
        (aiohttp.ServerDisconnectedError(), errors.ConnectionFailed),
        (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), errors.ConnectionFailed),
        (aiohttp.ClientPayloadError("cut"), errors.ConnectionFailed),
        (aiohttp.ServerTimeoutError(), errors.TimedOut),
        (TimeoutError(), errors.TimedOut),
    ],
)
def test_low_level_exceptions(error, kind):
    """Refused and unknown hosts are not outages; wrapped errors are recognized by their cause."""
    outer = RuntimeError("Connection error.")
    outer.__cause__ = error
    for one in (error, outer):
        found = http_errors.from_exception(one, SERVER._replace(secrets=(KEY,)))
        assert type(found) is kind
        assert "http://h/v1" in str(found)
        assert http_errors.is_transport(one)
    assert not http_errors.is_transport(ValueError("x"))
