"""Finds the batch API of a model by its name, and how to reach it."""

from __future__ import annotations

import os
from pathlib import Path

from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.batches.anthropic import AnthropicBatches
from textassay.runtime.batches.files import FileBatches
from textassay.runtime.batches.gemini import GeminiBatches
from textassay.runtime.batches.http import BatchHttp
from textassay.runtime.batches.openai import OpenAIBatches
from textassay.runtime.batches.provider import BatchProvider, Limits
from textassay.runtime.batches.together import TogetherBatches
from textassay.runtime.errors import ConfigurationError, parameter

ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "groq": "https://api.groq.com/openai/v1",
    "together_ai": "https://api.together.xyz/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
}
KEYS = {
    "openai": "OPENAI_API_KEY",
    "azure": "AZURE_API_KEY",
    "groq": "GROQ_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
LIMITS = {
    "azure": Limits(100_000, 200_000_000),
    "together_ai": Limits(50_000, 100_000_000),
}
OPENAI_LIMITS = Limits(50_000, 200_000_000)
KNOWN = ("direct", "openai", "azure", "groq", "together_ai", "anthropic", "gemini")


def open_provider(
    name: str,
    *,
    api_base: str | None,
    api_key: str | None,
    endpoint: Endpoint,
    files: Path | None = None,
) -> BatchProvider:
    """Return the batch API of a model.

    Args:
        name: The model's name, such as `openai/gpt-4.1-mini` or `direct/NAME`.
        api_base: Address of the server, if it is not the provider's own.
        api_key: The key; by default the value of the provider's own variable.
        endpoint: Further headers and query, certificates and proxy.
        files: Folder of files for `vllm run-batch`, in place of the provider's batch API.

    Raises:
        ConfigurationError: The model has no batch API that is known here, or no address.
    """
    provider, _, model = name.partition("/")
    if files is not None and model:
        return FileBatches(files, model)
    if provider not in KNOWN or not model:
        raise ConfigurationError(
            f"no batch API is known for {name!r}; {parameter('batch', 'True', typed='')} takes "
            f"models of {', '.join(KNOWN)}, and with {parameter('batch_files', 'DIR')} those that "
            "vLLM's run-batch answers"
        )
    base = api_base or ADDRESSES.get(provider)
    if base is None:
        raise ConfigurationError(f"batches of {name!r} need {parameter('api_base')}")
    key = api_key or os.environ.get(KEYS.get(provider, ""), "")
    if provider == "anthropic":
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    elif provider == "gemini":
        headers = {"x-goog-api-key": key}
    else:
        own = endpoint.key_header or ("api-key" if provider == "azure" else None)
        headers = {own: key} if own else {"Authorization": f"Bearer {key}"}
    http = BatchHttp(base, endpoint, name=name, headers=headers if key else {}, key=key)
    if provider == "anthropic":
        return AnthropicBatches(http, model)
    if provider == "gemini":
        return GeminiBatches(http, model)
    if provider == "together_ai":
        return TogetherBatches(http, model, limits=LIMITS[provider])
    return OpenAIBatches(
        http,
        model,
        limits=LIMITS.get(provider, OPENAI_LIMITS),
        version="" if provider == "azure" else "/v1",
    )
