"""Translates litellm's exceptions into ours.

By the rule of `http_errors.py`: from status, headers and body, for litellm's classes tell too
little. Knows litellm's words and classes, and does not import it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from textassay.runtime.backends import http_errors, openai_format
from textassay.runtime.errors import (
    AuthenticationFailed,
    CapabilityError,
    ConnectionFailed,
    ContentRefused,
    ContextTooLong,
    MalformedResponse,
    RequestRefused,
    TextassayError,
    TimedOut,
    parameter,
    quoted,
)
from textassay.runtime.model import Json

# litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached
_LITELLM_WORDS = re.compile(r"^(litellm\.\w+: )?(\w+Error: )*(\w+Exception - )?")
# Missing credentials. Please pass an `api_key`   missing Anthropic API Key
_NO_KEY = re.compile(r"(?i)\bmissing (?:credentials|(?:\w+ ){0,3}api[ _]key)")
# anthropic does not support parameters: ['n', 'logprobs'], for model=...
_UNSUPPORTED = re.compile(r"does not support parameters: (\[[^]]*\])")
_SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_ASK_INSTEAD = {
    "n": parameter("n", "1"),
    "logprobs": f"samples if the method takes them: {parameter('n', '20')}",
    "top_logprobs": f"samples if the method takes them: {parameter('n', '20')}",
    "seed": f"no {parameter('seed')}",
    "temperature": parameter("temperature", "1"),
}
MAX_MESSAGE_LENGTH = 1 << 16
"""Longest message of litellm's that is looked into, in characters."""


class LiteLLMErrors:
    """The errors of one model."""

    def __init__(self, name: str, api_base: str | None, secrets: Sequence[str]) -> None:
        """Store what messages name, and what they must not show.

        Args:
            name: Name of the model.
            api_base: Address of the server, if one was given.
            secrets: Keys, and values of headers that came from the environment.
        """
        self._name, self._api_base, self._secrets = name, api_base, tuple(secrets)

    def translate(self, error: Exception, body: Json, exceptions: Any) -> TextassayError:
        """Return our error for one of litellm's.

        Args:
            error: What was raised.
            body: The request.
            exceptions: litellm's module of exceptions.
        """
        own = next((e for e in http_errors.causes(error) if isinstance(e, TextassayError)), None)
        if own is not None:  # raised by our own client, inside litellm
            return own
        words = (
            str(error)[:MAX_MESSAGE_LENGTH]
            .partition("Traceback (most recent call last)")[0]
            .rstrip()
        )
        words = _LITELLM_WORDS.sub("", words)
        text = self.scrub(words)
        if isinstance(error, exceptions.UnsupportedParamsError):
            return self._unsupported(text)
        if isinstance(error, exceptions.Timeout):
            return TimedOut(f"no answer from {self._name}: {http_errors.quote(text)}")
        headers = getattr(error, "litellm_response_headers", None)
        status = getattr(error, "status_code", None)
        # litellm gives errors of its own a status as well; only an answer has headers.
        if headers is None and (status is None or status >= 500):
            return self._without_answer(error, text, status)
        if not isinstance(status, int) or status < 300:
            return MalformedResponse(f"{self._name}: {http_errors.quote(text)}")
        known = {str(key).lower(): str(value) for key, value in dict(headers or {}).items()}
        error_body = _body(error)
        read = words if error_body is None else orjson.dumps({"error": error_body}, default=str)
        # not scrubbed yet: a short password may be part of the words that tell errors apart
        typed = http_errors.from_status(
            status, known, read[:MAX_MESSAGE_LENGTH], where=self._name, secret=self._known_secrets()
        )
        if type(typed) is RequestRefused:
            if isinstance(error, exceptions.ContextWindowExceededError):
                return ContextTooLong(quoted(typed))
            if isinstance(error, exceptions.ContentPolicyViolationError):
                return ContentRefused(quoted(typed))
            if "logprobs" in body and "logprob" in str(typed).lower():
                return openai_format.no_logprobs(typed)
        return typed

    def _without_answer(self, error: Exception, text: str, status: int | None) -> TextassayError:
        """Return the error for a failure without response headers.

        Either no server answered, or its answer could not be parsed.
        """
        if _NO_KEY.search(text):
            return AuthenticationFailed(
                f"{self._name}: no key: {http_errors.quote(text)}; or use "
                f"{parameter('api_key_env', 'NAME')}"
            )
        # an untrusted certificate is a ValueError, too
        unreadable = any(isinstance(cause, ValueError) for cause in http_errors.causes(error))
        if (
            unreadable and not http_errors.is_transport(error)
        ) or "Empty or invalid response" in text:
            return MalformedResponse(
                f"{self._name} answered no valid JSON: {http_errors.quote(text)}"
            )
        if http_errors.is_transport(error):
            return http_errors.from_exception(
                error, where=self._api_base or self._name, secret=self._secrets
            )
        if "connection" in text.lower():
            return ConnectionFailed(f"{self._name}: {http_errors.quote(text)}")
        if status is not None:
            return http_errors.from_status(status, {}, text, where=self._name, secret=self._secrets)
        return RequestRefused(
            f"{self._name} could not be asked: {type(error).__name__}: {http_errors.quote(text)}"
        )

    def _unsupported(self, text: str) -> CapabilityError:
        listed = _UNSUPPORTED.search(text)
        names = re.findall(r"\w+", listed[1]) if listed else []
        advice = next((_ASK_INSTEAD[name] for name in names if name in _ASK_INSTEAD), None)
        what = ", ".join(names) or http_errors.quote(text)
        return CapabilityError(
            f"{self._name} does not take {what}" + (f"; ask for {advice}" if advice else "")
        )

    def scrub(self, text: str) -> str:
        """Return `text` without our key, or any that litellm may have found in the environment."""
        return http_errors.scrub(text[:MAX_MESSAGE_LENGTH], self._known_secrets())

    def _known_secrets(self) -> list[str]:
        found = [
            v for name, v in os.environ.items() if len(v) >= 12 and _SECRET_VARIABLE.search(name)
        ]
        return [*self._secrets, *found]


def _body(error: BaseException) -> Mapping[str, Any] | None:
    """Return the first parsed error body on the way to the error's origin."""
    bodies: Iterator[Any] = (getattr(cause, "body", None) for cause in http_errors.causes(error))
    return next((body for body in bodies if isinstance(body, Mapping)), None)
