"""Turns litellm's exceptions into our errors.

Most of them carry the answer of a server, which `http_errors.py` reads as from any other backend;
some are litellm's own, about a request that it did not send.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from textassay.runtime.backends import http_errors
from textassay.runtime.backends.refusals import read_refusal
from textassay.runtime.base import Json
from textassay.runtime.calls.masking import find_secrets
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
)

_ASK_INSTEAD = {
    "n": "n=1",
    "logprobs": "samples if the method takes them: n=20",
    "top_logprobs": "samples if the method takes them: n=20",
    "seed": "no seed=",
    "temperature": "temperature=1",
}


class LiteLLMErrors:
    """The errors of one model."""

    def __init__(self, name: str, api_base: str | None, secrets: Sequence[str]) -> None:
        self.name, self._api_base, self._secrets = name, api_base, tuple(secrets)

    def translate(self, error: Exception, body: Json, exceptions: Any) -> TextassayError:
        """Return our error for one of litellm's."""
        for our_error in http_errors.causes(error):
            if isinstance(our_error, TextassayError):  # raised by our own client, inside litellm
                our_error.args = (self.scrub(str(our_error)),)
                return our_error
        words = str(error).partition("Traceback (most recent call last)")[0]
        # litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached
        prefix = r"(litellm\.\w+: )?(\w+Error: )*(\w+Exception - )?"
        words = re.sub(f"^{prefix}", "", words.rstrip())
        text = self.scrub(words)
        if type(error).__name__ == "ImageFetchError":
            return CapabilityError(
                f"{self.name} takes no addresses of images, and nothing is downloaded for it; give"
                " the files of the images instead"
            )
        if isinstance(error, exceptions.UnsupportedParamsError):
            return self._unsupported_error(text, body)
        if isinstance(error, exceptions.Timeout):
            return TimedOut(f"no answer from {self.name}: {http_errors.quote(text)}")
        headers = getattr(error, "litellm_response_headers", None)
        status = getattr(error, "status_code", None)
        # litellm gives errors of its own a status as well; only an answer has headers.
        if headers is None and (status is None or status >= 500):
            return self._without_answer(error, text, status, body)
        if not isinstance(status, int) or status < 300:
            return MalformedResponse(f"{self.name}: {http_errors.quote(text)}")
        fields = {str(key).lower(): str(value) for key, value in dict(headers or {}).items()}
        bodies = (getattr(cause, "body", None) for cause in http_errors.causes(error))
        parsed = next((candidate for candidate in bodies if isinstance(candidate, Mapping)), None)
        answer_body = words if parsed is None else orjson.dumps({"error": parsed}, default=str)
        # not scrubbed yet: a short password may be part of the words that distinguish errors
        typed = http_errors.from_status(
            status,
            fields,
            answer_body,
            http_errors.ServerName(self.name, self._known_secrets()),
            body,
        )
        if type(typed) is RequestRefused and not typed.refusal:
            if isinstance(error, exceptions.ContextWindowExceededError):
                return ContextTooLong(str(typed))
            if isinstance(error, exceptions.ContentPolicyViolationError):
                return ContentRefused(str(typed))
        return typed

    def _without_answer(
        self, error: Exception, text: str, status: int | None, body: Json
    ) -> TextassayError:
        """Return the error for a failure without response headers.

        Either no server answered, or its answer could not be parsed.
        """
        # Missing credentials. Please pass an `api_key`   missing Anthropic API Key
        if re.search(r"(?i)\bmissing (?:credentials|(?:\w+ ){0,3}api[ _]key)", text):
            return AuthenticationFailed(
                f"{self.name}: no key: {http_errors.quote(text)}; or use api_key_env=NAME"
            )
        is_transport = http_errors.is_transport(error)
        unreadable = "Empty or invalid response" in text
        if not is_transport:
            # litellm maps levels of effort by its own tables, and refuses others itself
            refused = http_errors.request_refused(f"{self.name}: {text}", 400, text, body)
            if refused.refusal:
                return refused
            causes = http_errors.causes(error)
            unreadable = unreadable or any(isinstance(cause, ValueError) for cause in causes)
        if unreadable:
            return MalformedResponse(
                f"{self.name} answered no valid JSON: {http_errors.quote(text)}"
            )
        if is_transport:
            return http_errors.from_exception(
                error, http_errors.ServerName(self._api_base or self.name, self._secrets)
            )
        if "connection" in text.lower():
            return ConnectionFailed(f"{self.name}: {http_errors.quote(text)}")
        if status:
            return http_errors.from_status(
                status, {}, text, http_errors.ServerName(self.name, self._secrets), body
            )
        return RequestRefused(
            f"{self.name} could not be asked: {type(error).__name__}: {http_errors.quote(text)}"
        )

    def _unsupported_error(self, text: str, body: Json) -> TextassayError:
        """Return the error for a request that litellm refuses by its own table, unsent."""
        # anthropic does not support parameters: ['n', 'logprobs'], for model=...
        listed = re.search(r"does not support parameters: (\[[^]]*\])", text)
        names = re.findall(r"\w+", listed[1]) if listed else []
        refusal = read_refusal(400, text, body)
        names = names or ([refusal.parameter] if refusal else [])
        advice = next((_ASK_INSTEAD[name] for name in names if name in _ASK_INSTEAD), None)
        listing = ", ".join(names) or http_errors.quote(text)
        message = f"{self.name} does not take {listing}" + (f"; ask for {advice}" if advice else "")
        if not refusal:
            return CapabilityError(message)
        refused = RequestRefused(message)
        refused.refusal = refusal
        return refused

    def scrub(self, text: str) -> str:
        """Return `text` without our key, or any that litellm may have found in the environment."""
        return http_errors.scrub(text, self._known_secrets())

    def _known_secrets(self) -> tuple[str, ...]:
        return (*self._secrets, *find_secrets((), os.environ))
