"""Finds the batch API of a model by its name, and how to reach it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from textassay.runtime.backends.endpoint import Endpoint, read_address, split_address
from textassay.runtime.batches.anthropic import AnthropicDialect
from textassay.runtime.batches.dialect import BatchHttp, Dialect
from textassay.runtime.batches.gemini import GeminiDialect
from textassay.runtime.batches.openai import SERVERS, FilesDialect, OpenAIDialect, OpenAIServer
from textassay.runtime.errors import ConfigurationError


@dataclass(frozen=True)
class Provider:
    """How batches reach a provider: where litellm finds it for single calls."""

    address: str | None = None
    bases: tuple[str, ...] = ()
    """Variables of the environment with another address: the first that is set."""
    keys: tuple[str, ...] = ()
    """Variables with the key: the first that is set."""
    dialect: Callable[[BatchHttp, str], Dialect] | None = None
    """Makes its batch API; `None` if that is of OpenAI's kind, as `SERVERS` describes it."""
    key_header: str | None = None
    """Header with the key; `None` for `Authorization: Bearer`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of every request."""
    max_bytes: int = 0
    """How long its answers can be at least, whatever `max_answer_bytes` is."""


PROVIDERS = {
    "direct": Provider(),
    "responses": Provider(),
    "openai": Provider(
        "https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE"), ("OPENAI_API_KEY",)
    ),
    "azure": Provider(
        None, ("AZURE_API_BASE",), ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"), key_header="api-key"
    ),
    "groq": Provider("https://api.groq.com/openai/v1", ("GROQ_API_BASE",), ("GROQ_API_KEY",)),
    "together_ai": Provider(
        "https://api.together.xyz/v1",
        ("TOGETHER_AI_API_BASE",),
        ("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
    ),
    "anthropic": Provider(
        "https://api.anthropic.com/v1",
        ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
        ("ANTHROPIC_API_KEY",),
        AnthropicDialect,
        key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
    ),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta",
        ("GEMINI_API_BASE",),
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        GeminiDialect,
        key_header="x-goog-api-key",
        max_bytes=2**30,  # all answers of a batch come in one
    ),
}
"""Whose batches are known, by the part of a model's name before the slash."""


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
    base = api_base or _first_set(known.bases) or known.address
    if base is None:
        raise ConfigurationError(f"batches of {name!r} need api_base=")
    base = batch_address(provider, base, endpoint)
    login = read_address(base).login  # as with single calls, in place of what the environment has
    key = api_key or ("" if login else _first_set(known.keys) or "")
    header = endpoint.key_header or known.key_header
    secret = {header: key} if header else {"Authorization": f"Bearer {key}"}
    headers = {**known.headers, **(secret if key else {})}
    endpoint = replace(endpoint, max_bytes=max(endpoint.max_bytes, known.max_bytes))
    http = BatchHttp(base, endpoint, name=name, headers=headers, key=key)
    if known.dialect is not None:
        return known.dialect(http, model)
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


def _first_set(variables: Iterable[str]) -> str | None:
    return next(filter(None, map(os.environ.get, variables)), None)
