"""Finds the batch API of a model by its name, and how to reach it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from textassay.runtime.backends.endpoint import PROVIDERS, Endpoint, read_address, split_address
from textassay.runtime.batches.anthropic import AnthropicDialect
from textassay.runtime.batches.dialect import BatchHttp, Dialect
from textassay.runtime.batches.gemini import GeminiDialect
from textassay.runtime.batches.openai import SERVERS, FilesDialect, OpenAIDialect, OpenAIServer
from textassay.runtime.errors import ConfigurationError

DIALECTS: dict[str, Callable[[BatchHttp, str], Dialect]] = {
    "anthropic": AnthropicDialect,
    "gemini": GeminiDialect,
}
"""Batch APIs that are not of OpenAI's kind, as `SERVERS` describes it, by provider."""


def open_dialect(
    name: str,
    *,
    api_base: str | None,
    api_key: str | None,
    endpoint: Endpoint,
    files: Path | None = None,
    window: str = "24h",
) -> Dialect:
    """Return the batch API of a model."""
    provider, _, model = name.partition("/")
    if files is not None and model:
        return FilesDialect(files, model)
    if provider not in PROVIDERS or not model:
        raise ConfigurationError(
            f"no batch API is known for {name!r}; batch=True takes "
            f"models of {', '.join(PROVIDERS)}, and with batch_files=DIR those "
            "that vLLM's run-batch answers"
        )
    known, server = PROVIDERS[provider], SERVERS.get(provider, OpenAIServer())
    if window != "24h" and not server.takes_windows:
        raise ConfigurationError(
            f"batches of {name!r} take 24 hours at most: leave out batch_window={window}"
        )
    base = api_base or known.address
    if base is None:
        raise ConfigurationError(f"batches of {name!r} need api_base=")
    base = batch_address(provider, base, endpoint)
    login = read_address(base).login  # as with single calls, in place of what the environment has
    key = api_key or ("" if login else known.key or "")
    header = endpoint.key_header or known.key_header
    secret = {header: key} if header else {"Authorization": f"Bearer {key}"}
    headers = {**known.headers, **(secret if key else {})}
    endpoint = replace(endpoint, max_bytes=max(endpoint.max_bytes, known.max_bytes))
    http = BatchHttp(base, endpoint, name=name, headers=headers, key=key)
    if provider in DIALECTS:
        return DIALECTS[provider](http, model)
    return OpenAIDialect(http, model, server, window=window)


def batch_address(provider: str, given: str, endpoint: Endpoint) -> str:
    """Return the address that batches are found under, as it was given for single calls.

    litellm takes the addresses of Azure and Anthropic without the API's own path.
    """
    address, query = split_address(given)
    if provider == "anthropic":
        # Complete addresses of single calls are taken, too.
        address = address.removesuffix("/messages").removesuffix("/v1") + "/v1"
    elif provider == "azure":
        # Files and batches belong to the resource, single calls to one of its deployments.
        address, deployment, _ = address.partition("/openai/deployments/")
        if deployment or "openai" not in urlsplit(address).path.split("/"):
            # Only the older API, beside the one with "v1" in its path, has versions by date.
            dated = "api-version" in query | dict(endpoint.query)
            address += "/openai" if dated else "/openai/v1"
    return f"{address}?{urlencode(query)}" if query else address
