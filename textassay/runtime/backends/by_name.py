"""Opens the bare backend of a model's name: `direct/NAME`, `llamacpp/PATH`, ... or litellm.

Imports are in functions, so that only the backend of the name is imported.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from textassay.runtime.backends.endpoint import (
    PROVIDERS,
    Provider,
    endpoint_of,
    first_set,
    read_address,
)
from textassay.runtime.calls.masking import find_secrets
from textassay.runtime.errors import ConfigurationError, TextassayError, UnknownName
from textassay.runtime.model import Model
from textassay.runtime.settings import VARIABLE, Settings


def backend_points() -> dict[str, EntryPoint]:
    """Return the entry points by prefix, without importing anything.

    Each is a callable `(name, settings) -> Model`, which is given the name as the user wrote it.
    """
    return {point.name: point for point in entry_points(group="textassay.models")}


def open_plugin(point: EntryPoint, name: str, settings: Settings) -> Model:
    """Return the model that another package makes of a name."""
    package = point.dist.name if point.dist else "another package"
    try:
        model = point.load()(name, settings)
    except TextassayError:
        raise
    except Exception as error:  # foreign code may raise anything
        raise ConfigurationError(
            f"the model {name!r} of {package} cannot be made by {point.value!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return check_model_protocol(model, f"what {point.value!r} of {package} gives for {name!r}")


def check_model_protocol(model: object, description: str) -> Model:
    """Return `model` if it has all of the `Model` protocol."""
    needed = ("name", "identity", "capabilities", "generate", "aclose")
    # `isinstance` does not name the missing parts of a protocol
    missing = [part for part in needed if not hasattr(model, part)]
    if missing or not isinstance(model, Model):
        raise ConfigurationError(
            f"{description} is not a model: it has no {', '.join(missing)} (see textassay.testing)"
        )
    return model


EMBEDDED = "embedded"
"""Name of the model that comes with the package."""

FORMS = {
    "direct/NAME": "OpenAI-compatible server at `api_base`",
    "responses/NAME": "the same through its Responses API",
    "decisions/NAME": "decision model at `api_base`",
    "systemone/NAME": "the same in System One's form",
    "llamacpp/PATH.gguf": "llama.cpp in this process",
    "llamacpp/HF_REPO:FILE": "the same from the Hugging Face hub",
    "transformers/PATH_OR_REPOSITORY[@REVISION]": "transformers in this process",
    EMBEDDED: "the model that comes with the package",
    "replay/RUN": "recorded answers of a run",
}
"""The forms of names and their meanings, for error messages and the help of `connect`."""


def _direct(name: str, rest: str, settings: Settings) -> Model:
    from textassay.runtime.backends.direct import DirectModel

    _check_address(name, settings, "http://127.0.0.1:8000/v1")
    return DirectModel(name, **_server(settings), responses=name.startswith("responses/"))


def _decisions(name: str, rest: str, settings: Settings) -> Model:
    from textassay.runtime.backends.decisions import DecisionModel

    _check_address(name, settings, "https://api.typesafe.ai/v1")
    sampling = ("effort", "thinking_tokens", "temperature", "top_p", "seed", "batch")
    unused = [field for field in sampling if getattr(settings, field) not in (None, False)]
    if unused:
        raise ConfigurationError(
            f"{name!r} is a decision model and samples nothing: leave out {unused[0]}="
        )
    return DecisionModel(name, **_server(settings))


def _check_address(name: str, settings: Settings, example: str) -> None:
    if settings.api_base is None:
        raise ConfigurationError(f"model {name!r} needs api_base=, such as {example}")


def _server(settings: Settings) -> dict[str, Any]:
    return {
        "api_base": settings.api_base,
        "api_key": api_key_of(settings),
        "price": settings.price,
        "endpoint": endpoint_of(settings),
    }


def _llamacpp(name: str, rest: str, settings: Settings) -> Model:
    from textassay.runtime.backends.local.llamacpp import LlamaCppModel

    return LlamaCppModel(name, rest, **settings.local.model_dump(exclude_none=True))


def _transformers(name: str, rest: str, settings: Settings) -> Model:
    from textassay.runtime.backends.local.transformers import TransformersModel

    local = settings.local
    return TransformersModel(
        name,
        rest,
        **settings.transformers.model_dump(),
        n_ctx=local.n_ctx,
        truncate=local.truncate or "error",
    )


def _replay(name: str, rest: str, settings: Settings) -> Model:
    if settings.batch:
        raise ConfigurationError(
            f"{name!r} answers from a recorded run, without any call: leave out batch=True"
        )
    from textassay.runtime.backends.replay import RecordedModel

    return RecordedModel.of_run(Path(rest), settings)


BACKENDS: dict[str, Callable[[str, str, Settings], Model]] = {
    "direct": _direct,
    "responses": _direct,
    "decisions": _decisions,
    "systemone": _decisions,
    "llamacpp": _llamacpp,
    "transformers": _transformers,
    "replay": _replay,
}
"""Functions that open a model, by the part of its name before the slash; they take the whole name,
the part after the slash, and the settings."""


def open_backend(name: str, settings: Settings) -> Model:
    """Return the bare backend for a model's name; unknown prefixes are left to litellm."""
    if name == EMBEDDED:
        from textassay.runtime.backends.local.llamacpp import embedded_model

        return embedded_model(settings.local)
    prefix, _, rest = name.partition("/")
    opener = BACKENDS.get(prefix)
    if not name or (opener and not rest):
        providers = "and every provider that litellm knows (openai/..., anthropic/..., ...)"
        raise UnknownName("model", name, [*FORMS, providers])
    if opener:
        return opener(name, rest, settings)
    # After our own prefixes, so that no package replaces one; before litellm, which takes any name.
    if point := backend_points().get(prefix):
        return open_plugin(point, name, settings)
    from textassay.runtime.backends.litellm import LiteLLMModel

    return LiteLLMModel(name, **_server(settings))


async def load_backend(name: str) -> None:
    """Import the backend of a model, in a thread since litellm takes seconds."""
    if name.partition("/")[0] not in ("", EMBEDDED, *BACKENDS):
        from textassay.runtime.backends.litellm import load_litellm

        await asyncio.to_thread(load_litellm)


def decides(name: str) -> bool:
    """Return whether a name is of a decision model, by its prefix or by litellm's table.

    A model that also writes, such as `openai/gpt-6-luna`, is not a decision model.

    Call it outside of an event loop: for other prefixes it imports litellm.
    """
    prefix = name.partition("/")[0]
    if prefix in ("", EMBEDDED, *BACKENDS) or prefix in backend_points():
        return prefix in ("decisions", "systemone")
    from textassay.runtime.backends.litellm import LiteLLMModel

    return LiteLLMModel(name).capabilities.only_decides


_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "gemini": PROVIDERS["gemini"].key_variables,
    "groq": PROVIDERS["groq"].key_variables,
    "mistral": ("MISTRAL_API_KEY",),
    "openai": PROVIDERS["openai"].key_variables,
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITY_API_KEY", "PERPLEXITYAI_API_KEY"),
    "together_ai": PROVIDERS["together_ai"].key_variables,
    "typesafe": ("TYPESAFE_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
"""Environment variables for the keys of litellm's providers that take nothing but a key; one of
them must be set. Whether other providers (clouds with roles and logins, servers without keys) need
a key is unknown before the first request."""


def variables_of_missing_key(name: str, settings: Settings) -> tuple[str, ...]:
    """Return the variables for a model's key if none of them is set; empty if no key is missing.

    A server at an address of the user's own may need no key.

    Raises:
        ConfigurationError: The settings name a variable that is not set.
    """
    if api_key_of(settings) or settings.endpoints:
        return ()
    prefix, _, rest = name.partition("/")
    if prefix in ("decisions", "systemone"):
        from textassay.runtime.backends.decisions import family_of, key_variables

        address = settings.api_base or ""
        needed = key_variables(family_of(address, rest), address)
    elif settings.api_base is not None or prefix in ("", EMBEDDED, *BACKENDS):
        needed = ()
    else:
        provider = prefix if rest else _provider_of(name)
        variables = PROVIDERS.get(provider, Provider()).address_variables
        needed = () if first_set(variables) else _KEY_VARIABLES.get(provider, ())
    headers = " ".join(settings.headers).lower()
    has_header = any(word in headers for word in ("auth", "key", "token"))
    return () if has_header or first_set(needed) else needed


def _provider_of(name: str) -> str:
    """Return the provider of a model without a prefix, such as `gpt-4.1-mini`."""
    if name in backend_points():
        return ""
    from textassay.runtime.backends.litellm import LiteLLMModel

    return LiteLLMModel(name).provider


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Return the secrets that an answer must not show: the key, and values of variables."""
    named = [settings.api_key_env or ""]
    for text in (*settings.headers.values(), *settings.query.values(), settings.proxy or ""):
        named += VARIABLE.findall(text)
    values = [os.environ.get(name, "") for name in named]
    # Also secrets that no setting names: a gateway may echo a key that litellm found on its own.
    return find_secrets((*values, *read_address(settings.api_base or "").secrets), os.environ)


def api_key_of(settings: Settings) -> str | None:
    """Return the API key from the variable that the settings name; `None` if they name none."""
    if settings.api_key_env is None:
        return None
    key = os.environ.get(settings.api_key_env)
    if not key:
        raise ConfigurationError(
            f"api_key_env= names {settings.api_key_env}, but that variable is not set"
        )
    return key


def is_replay(name: str) -> bool:
    """Return whether a model's name is `replay/RUN`, the recorded answers of a run."""
    return name.startswith("replay/")
