"""Turns failures between client and server into our errors, by one rule for all backends.

Reads HTTP statuses and low-level network exceptions; `error_bodies.py` and `refusals.py` read the
bodies. Messages quote the beginning of a server's text, made printable and without the API key.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import errno
import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import orjson

from textassay.lazy import lazy_pattern
from textassay.runtime.backends.error_bodies import FAULTS, STATUSES, as_text, read_error, shows
from textassay.runtime.backends.refusals import read_refusal
from textassay.runtime.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContentRefused,
    ContextTooLong,
    FatalModelError,
    ImagesRefused,
    MalformedResponse,
    ModelError,
    ModelNotFound,
    NothingListening,
    PageAnswered,
    PathNotFound,
    QuotaExhausted,
    RateLimited,
    RequestRefused,
    ServerFailed,
    TimedOut,
)
from textassay.runtime.parameters import ANYTHING

_LITELLM_PREFIX = "llm_provider-"
"""LiteLLM's proxy puts it before the names of a provider's headers."""
_PAGE = lazy_pattern(
    r"\ufeff?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S
)


class ServerName(NamedTuple):
    """How messages name a server, and the secrets that they must not show."""

    where: str
    """Its address, or the name of its model."""
    secrets: tuple[str, ...] = ()
    """Keys, and values of headers that came from the environment, which must not be shown."""
    key: str = ""
    """Whether a key is sent, in words that follow the advice to check it."""


def whole_characters(raw: bytes) -> bytes:
    """Return a JSON text in UTF-8, with U+FFFD for broken characters and half surrogate pairs.

    Models sometimes write these escapes. They are legal in JSON but encode no character, and
    parsers differ on them.
    """
    # JSON may be UTF-16, and servers cut a character in two where a model stops within it
    raw = raw.decode(json.detect_encoding(raw), "replace").encode()
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return raw
    # any escape, so that a "u" after an escaped backslash does not begin one; pairs of surrogates
    # come first, so that any other "\\ud..." is half a pair
    escape = (
        rb"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
        rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
    )
    return re.sub(escape, lambda m: rb"\ufffd" if m["half"] else m[0], raw)


def parse_json(raw: bytes, server: ServerName) -> Any:
    """Return the JSON value of an answer.

    Raises:
        PageAnswered: It is a web page, a stream of events or another text that is not meant as
            JSON.
        MalformedResponse: It is broken JSON, or nothing.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        raw = whole_characters(raw)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if is_page(raw):
            raise page_answered(raw, server) from error
        # Python's json module writes these
        if b"Infinity" in raw or b"NaN" in raw:
            with contextlib.suppress(ValueError):
                return json.loads(raw)
        quoted = quote(raw, server.secrets, limit=120) or "(nothing)"
        # no JSON value that a model's answer can be, wherever it was cut
        beginning = as_text(raw[:4096]).lstrip()
        if beginning[:1] not in ("{", "[", '"') or _is_json_lines(raw):
            raise _text_answered(beginning, quoted, server) from error
        raise MalformedResponse(f"{server.where} answered no valid JSON: {quoted}") from error


def _is_json_lines(raw: bytes) -> bool:
    """Return whether a body is several objects, as Ollama streams an answer."""
    return bool(re.match(rb"\s*\{.*\}\s*\n\s*\{", raw))


def is_page(body: bytes | str) -> bool:
    """Return whether a body is a web page."""
    return bool(_PAGE.match(as_text(body[:4096])))


def page_answered(body: bytes | str, server: ServerName) -> PageAnswered:
    """Return the error for a web page that came with a success status."""
    return PageAnswered(
        f"{server.where} answered with a web page in place of a model's answer: "
        f"{quote(_page_title(body), server.secrets)} (check api_base=: most often it ends in /v1)"
    )


def _text_answered(text: str, quoted: str, server: ServerName) -> PageAnswered:
    content = "a text in place of a model's answer"
    advice = "check api_base=: most often it ends in /v1"
    if text.startswith(("data:", "event:", ":", "id:", "retry:", "{")):
        content = "a stream of events, which no request asks for"
        advice = "switch streaming off at the server or the proxy"
    return PageAnswered(f"{server.where} answered with {content}: {quoted} ({advice})")


def _page_title(body: bytes | str) -> str:
    """Return the title of a web page, or its text if it has none."""
    text = as_text(body)
    title = re.search(r"(?is)<title[^>]*>(.*?)</title", text)
    return _page_text(title[1] if title and title[1].strip() else text)


def _page_text(text: str) -> str:
    import html  # its table of entities takes a millisecond, and pages are rare

    tags = r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>"
    return html.unescape(re.sub(tags, " ", text))


def quote(body: bytes | str, secrets: Iterable[str] = (), limit: int = 300) -> str:
    """Return a server's message as one line of at most `limit` characters, without the key.

    It is put between “ and ”, which set it apart from our own words: the command line replaces
    parameters by flags only in our own words.
    """
    # Scrubbed before it is shortened: a key cut in two would no longer be recognized.
    text = " ".join(scrub(as_text(body)[: 64 * limit], secrets).split())[: 2 * limit]
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )
    text = text.replace("“", '"').replace("”", '"')
    if len(text) > limit - 2:
        text = text[: limit - 5] + "..."
    return f"“{text}”" if text else ""


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Replace the key, its beginning, and all else in `text` that looks like a key by `[key]`."""
    # sk-proj-... is a key of OpenAI, gsk_... of Groq, AIza... of Google
    text = re.sub(r"\b(sk|gsk|xai|pk|rk)-[\w-]{16,}|\bAIza[\w-]{30,}", "[key]", text)
    for key in filter(None, secrets):
        text = re.sub(re.escape(key), "[key]", text, flags=re.I)
        if len(key) >= 12:
            # Servers quote keys shortened: "Incorrect API key provided: sk-proj-****abcd".
            text = re.sub(re.escape(key[:8]) + r"[\w.*-]*", "[key]", text, flags=re.I)
    return text


def public_address(url: str) -> str:
    """Return `url` without user, password, query and fragment, for messages and manifests."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def retry_after(
    headers: Mapping[str, str], text: str = "", *, now: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds that the server asks to wait, or `None` if it does not say."""
    for prefix in ("", _LITELLM_PREFIX):
        # Azure sends both; this one is not rounded up to whole seconds.
        if (milliseconds := _number(headers.get(f"{prefix}retry-after-ms", ""))) is not None:
            return milliseconds / 1000
        # if a header is neither number nor date, the text may still name a time
        seconds = _seconds_until(headers.get(f"{prefix}retry-after", ""), now())
        if seconds is not None:
            return seconds
    # Please try again in 6m0.5s.   Please retry in 27.3s   try again in 850ms
    wait = (
        r"(?i)(?:try again|retry|wait)\D{0,12}?(?:(\d+)m(?!s))?(\d+(?:\.\d+)?)\s*"
        r"(ms|milliseconds?|s\b|sec|seconds?)"
    )
    if match := re.search(wait, text):
        minutes, amount, unit = match.groups()
        return float(minutes or 0) * 60 + float(amount) / (1000 if unit[0] in "mM" else 1)
    return None


def limit_resets_after(
    headers: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds until a rate limit resets, from the headers of a 429.

    Headers such as `x-ratelimit-reset-requests` and `x-ratelimit-remaining-requests` are read. It
    is the longest wait of the limits that are used up, or the shortest wait of all if the headers
    do not say which are.
    """
    resets: dict[str, float] = {}
    used_up: set[str] = set()
    for name, value in headers.items():
        name = name.lower().removeprefix(_LITELLM_PREFIX)
        if "ratelimit" not in name:
            continue
        limit = re.sub(r"-?(reset|remaining)\b", "", name)
        if "reset" in name and (seconds := _seconds_until(value, now())) is not None:
            resets[limit] = seconds
        elif "remaining" in name and _number(value) == 0:
            used_up.add(limit)
    waits = [seconds for limit, seconds in resets.items() if limit in used_up]
    return max(waits) if waits else min(resets.values(), default=None)


def _seconds_until(value: str, now: float) -> float | None:
    """Return the seconds until a time: in seconds, as `6m0s`, as a date, or seconds since 1970."""
    value = value.strip()
    if (number := _number(value)) is not None:
        # a wait is shorter than three years, a time since 1970 longer; some are in milliseconds
        if number < 1e8:
            return number
        return max(0.0, (number / 1000 if number > 1e11 else number) - now)
    # 6m0s   1h2m3.5s   120ms   2 s
    units = {"d": 86_400, "h": 3600, "m(?!s)": 60, "s": 1, "ms": 0.001}
    duration = "".join(rf"(?:(\d+(?:\.\d+)?)\s*{unit})?" for unit in units)
    if value and (match := re.fullmatch(duration, value)):
        pairs = zip(match.groups("0"), units.values(), strict=True)
        return sum(float(amount) * seconds for amount, seconds in pairs)
    for parse in (email.utils.parsedate_to_datetime, datetime.datetime.fromisoformat):
        with contextlib.suppress(ValueError):
            return max(0.0, parse(value).timestamp() - now)
    return None


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def from_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes | str,
    server: ServerName,
    request: Mapping[str, Any] = ANYTHING,
) -> ModelError:
    """Return the error of an unsuccessful answer; `request` is the body that was sent, if known.

    An error that would stop the run is marked if the text of the request may have provoked it.
    """
    error = _of_status(status, headers, body, server, request)
    if isinstance(error, FatalModelError):
        error.may_be_text = status in STATUSES["filter"]
    return error


def _of_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes | str,
    server: ServerName,
    request: Mapping[str, Any],
) -> ModelError:
    where, secrets, key = server
    if page := is_page(body):
        title = _page_title(body)
        body = _page_text(as_text(body)[:20_000])
    detail, codes, _ = read_error(body)
    wait = retry_after(headers, detail)
    text = title if page else detail
    quoted = f": {quote(text, secrets)}" if text.strip() else " with an empty body"
    message = f"{where} answered {status}{quoted}"
    both = f"{codes} {detail}"
    # From here on order matters. An empty account comes as 429 like a rate limit, and waiting does
    # not fill it; a parameter is refused with any status, and by words such as "moderation"; a
    # filter comes as 400 or 403 like a bad request or a bad key.
    says_empty = FAULTS["quota code"].search(codes) or (
        # a server that says how long to wait means a rate limit
        wait is None and FAULTS["quota"].search(detail)
    )
    if status == 402 or (status in STATUSES["quota"] and says_empty):
        return QuotaExhausted(message)
    if shows("images", status, both):
        return ImagesRefused(
            f"{message} (the model takes no images: use one that does, or judge the texts alone:"
            ' fields={NAME: "meta"})'
        )
    # a page of a firewall or gateway never refuses a parameter, even if its words look like it
    refused = request_refused(message, status, body, {} if page else request)
    if refused.refusal:
        return refused
    if shows("filter", status, both):
        return ContentRefused(message)
    if status in (401, 403) or shows("key", status, both):
        return AuthenticationFailed(
            f"{message} (check the key: api_key_env= names the variable that holds it{key})"
        )
    if 300 <= status < 400:
        # redirects are never followed
        target = quote(headers.get("location", "elsewhere"), secrets)
        return PathNotFound(f"{where} redirects to {target}; give the final address as api_base=")
    # 405 and 501: file servers do not accept POST; 410: the page was removed
    if status in (404, 405, 410, 501) or shows("model", status, both):
        # 404 page not found (Traefik, Ollama)   no Route matched with those values (Kong)
        name = re.escape(request.get("model") or "model")
        names_model = status == 400 or (
            not page and re.search(rf"(?i)model|(?<!\w){name}(?!\w)", both)
        )
        return (ModelNotFound if names_model else PathNotFound)(
            f"{message} (check the model's name, and that api_base= ends in /v1)"
        )
    if status == 408:
        return TimedOut(message)
    if status == 429:
        # Request too large for gpt-4o: Limit 30000, Requested 41000. The input must be reduced.
        # OpenAI sends it with 429, but no waiting makes the request smaller.
        if re.search(r"(?i)request too large|must be reduced", detail):
            return RequestRefused(message)
        return RateLimited(
            message, retry_after=limit_resets_after(headers) if wait is None else wait
        )
    if shows("context", status, both):
        return ContextTooLong(message)
    # A server raised it because of a field that it does not take: each retry would fail, too.
    bad_field = r"(?i)validation ?error|unexpected (keyword )?argument|json_?schema|response_format"
    if status == 500 and re.search(bad_field, both):
        return RequestRefused(message)
    # Clients of OpenAI and Anthropic repeat 409 and 425: a model that is being loaded, a request
    # that came too early. Proxies answer 499 if the connection to the model was closed, and servers
    # of Hugging Face and SageMaker 424 if the model failed behind them. 412, 421 and 423 (locked)
    # concern the server's state, not the text, either.
    if status >= 500 or status in (409, 412, 421, 423, 424, 425, 499):
        return ServerFailed(message, status=status, retry_after=wait)
    refused.is_vague = status in (400, 422)
    return refused


def request_refused(
    message: str, status: int, body: bytes | str, request: Mapping[str, Any] = ANYTHING
) -> RequestRefused:
    """Return the error of a refused request, with the parameter that the server's answer names."""
    error = RequestRefused(message)
    error.refusal = read_refusal(status, body, request)
    return error


def is_error_payload(payload: Any) -> bool:
    """Return whether the body of a success is an error, as gateways pass a provider's on."""
    answers = ("choices", "content", "candidates", "output")
    return (
        isinstance(payload, dict)
        and bool(payload.get("error"))
        and not any(payload.get(name) for name in answers)
    )


def from_error_payload(
    payload: Mapping[str, Any], server: ServerName, request: Mapping[str, Any] = ANYTHING
) -> ModelError:
    """Return the error in a body for which `is_error_payload` is true."""
    error = payload["error"]
    code = error.get("code") if isinstance(error, dict) else None
    body = orjson.dumps(payload)
    if isinstance(code, int) and 400 <= code < 600:
        return from_status(code, {}, body, server, request)
    if read_refusal(200, body, request):
        return from_status(400, {}, body, server, request)
    message = quote(read_error(body).message, server.secrets)
    return MalformedResponse(f"{server.where} returned an error with a success status: {message}")


def from_exception(error: BaseException, server: ServerName) -> ModelError:
    """Return our error for a low-level network exception of any library."""
    where, secrets, _ = server
    # Libraries wrap each other's exceptions, and the outermost changes between versions: all are
    # looked at, the most specific kind first.
    behind = list(causes(error))

    def is_any(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in behind)

    named = next((cause for cause in behind if _is_transport(cause)), error)
    # aiohttp names its TLS setting for plain HTTP as well
    text = str(named).replace(" ssl:default", "")
    reason = quote(text or type(named).__name__, secrets)
    numbers = {
        cause.errno
        for cause in behind
        if isinstance(cause, OSError) and not isinstance(cause, socket.gaierror)
    }
    if is_any(TimeoutError) or errno.ETIMEDOUT in numbers:
        return TimedOut(f"no answer from {where}: {reason}")
    if numbers & {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL}:
        return ConnectionFailed(
            f"no socket left to ask {where}: {reason}; lower concurrency= or raise `ulimit -n`"
        )
    if is_any(ssl.SSLCertVerificationError, aiohttp.ClientConnectorCertificateError):
        return NothingListening(f"cannot trust the certificate of {where}: {reason}")
    dropped = ConnectionFailed(f"{where} dropped the connection: {reason}")
    if numbers & {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED}:
        return dropped
    if is_any(ConnectionRefusedError, socket.gaierror, aiohttp.ClientConnectorError):
        return NothingListening(
            f"nothing answers at {where}: {reason} (is the server running, is api_base= right?)"
        )
    if is_any(aiohttp.ClientResponseError):
        return MalformedResponse(f"{where} does not answer in HTTP: {reason}")
    return dropped


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, the ones that it wraps and was raised from, at most eight deep."""
    for _ in range(8):
        if not error:
            return
        yield error
        inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
        error = inner or error.__cause__ or error.__context__


def is_transport(error: BaseException) -> bool:
    """Whether `error` was caused by an exception of the network rather than by an answer."""
    return any(map(_is_transport, causes(error)))


def _is_transport(error: BaseException) -> bool:
    library = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError | aiohttp.ClientError) or (
        library in ("httpx", "httpcore", "httpx2") and not hasattr(error, "response")
    )
