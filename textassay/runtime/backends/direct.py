"""A lean client for OpenAI-compatible servers: vLLM, llama-server, OpenAI and most others.

One HTTP request per answer; wrappers add retries, limits, time limits and the cache. Errors are
translated by `http_errors.py`, bodies by `openai_format.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from textassay.runtime.backends import http_errors, openai_format, responses_format
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.http_client import HttpClient, json_headers
from textassay.runtime.backends.openai_format import (
    choices_as_request,
    echo_fields,
    read_choices,
    read_continuation,
)
from textassay.runtime.backends.usage import read_usage
from textassay.runtime.base import Price
from textassay.runtime.calls.call import PLAIN, Posting, PostingModel
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    MalformedResponse,
    RequestRefused,
)
from textassay.runtime.model import (
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Request,
    Response,
    with_images,
)

ServerAnswer = TypeVar("ServerAnswer")


class DirectModel(PostingModel):
    """Asks an OpenAI-compatible server.

    `/chat/completions` for messages, `/completions` for a plain prompt, or `/responses`.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str,
        api_key: str | None = None,
        price: Price | None = None,
        endpoint: Endpoint | None = None,
        responses: bool = False,
    ) -> None:
        """Keep the address; nothing is connected before the first request."""
        parts = urlsplit(api_base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            address = http_errors.public_address(api_base)
            raise ConfigurationError(
                f"{address!r} is not the address of a server; api_base= looks like"
                " http://HOST:PORT/v1"
            )
        endpoint = endpoint or Endpoint()
        self.name = name
        self._model = name.removeprefix("responses/" if responses else "direct/")
        self._uses_responses = responses
        headers = json_headers(api_key, endpoint.key_header)
        self._http = HttpClient(api_base, endpoint, name=name, headers=headers, key=api_key)
        self._base = self._http.base
        self.identity = {
            "backend": "openai-compatible",
            "model": self._model,
            "api_base": self._base,
            **({"api": "responses"} if responses else {}),
        }
        self.price = price
        """US dollars per million prompt and completion tokens, or `None` if not known."""
        # optional abilities of a server are unknown until it is asked
        self.capabilities = (
            responses_format.CAPABILITIES if responses else Capabilities(images=None)
        )

    async def generate(self, request: Request, posting: Posting = PLAIN) -> Response:
        """Return sampled answers.

        If a server offers the model through the Responses API only, later requests use that API.
        """
        if request.images:
            request = await with_images(request)
        if not self._uses_responses:
            try:
                return await self._complete(request, posting)
            except RequestRefused as error:
                is_elsewhere = error.refusal is not None and error.refusal.kind == "api"
                if not is_elsewhere or not request.messages:
                    raise
                self._uses_responses = True
        return await self._respond(request, posting)

    async def _complete(self, request: Request, posting: Posting) -> Response:
        body = {
            "model": self._model,
            **openai_format.prompt_fields(request, posting),
            **openai_format.sampling_fields(request, posting),
        }
        payload = await self._http.post_json(
            "/chat/completions" if request.messages else "/completions", body
        )
        return self._read(openai_format.read_response, payload, request, self.price)

    async def _respond(self, request: Request, posting: Posting) -> Response:
        body = {"model": self._model, **responses_format.request_fields(request, posting)}
        payload = await self._http.post_json(responses_format.PATH, body)
        return self._read(responses_format.read_response, payload, request, self.price)

    async def choices(self, request: ChoicesRequest, posting: Posting = PLAIN) -> ChoicesResponse:
        """Return the probabilities of choices that are among the 20 likeliest first tokens."""
        response = await self.generate(choices_as_request(request), posting)
        return read_choices(response, request)

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the log-probabilities of a given text, from a completion that echoes it."""
        fields = echo_fields(request, self._base, takes_prompts=not self._uses_responses)
        try:
            payload = await self._http.post_json("/completions", {"model": self._model, **fields})
        except RequestRefused as error:
            message = str(error).lower()
            if "echo" in message or "logprob" in message:
                raise CapabilityError(
                    f"{error}; this server cannot score the likelihood of a given text"
                ) from error
            raise
        prompt = request.prompt or ""
        tokens = self._read(read_continuation, payload, prompt, request.continuation)
        usage = read_usage(payload, self.price)
        return ContinuationResponse(tokens=tokens, usage=usage, model=payload.get("model"))

    async def aclose(self) -> None:
        """Close all connections; safe to call twice."""
        await self._http.aclose()

    def _read(self, read: Callable[..., ServerAnswer], *arguments: Any) -> ServerAnswer:
        """Return `read(*arguments)`; its errors get the server's address in front."""
        try:
            return read(*arguments)
        except (MalformedResponse, CapabilityError, RequestRefused) as error:
            error.args = (f"{self._base}: {http_errors.scrub(str(error), self._http.secrets)}",)
            raise
