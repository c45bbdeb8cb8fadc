"""Opens the bare backend of a model's name: `direct/NAME`, `llamacpp/PATH`, ... or litellm.

Only the backend that a name stands for is imported, which is why the imports stand in functions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from textassay.runtime.backends.endpoint import endpoint_of, read_address
from textassay.runtime.calls.masking import find_secrets
from textassay.runtime.errors import ConfigurationError, TextassayError, UnknownName
from textassay.runtime.model import Model
from textassay.runtime.settings import VARIABLE, Settings

ENTRY_POINTS = "textassay.models"
"""Each names a prefix and a callable `(name, settings) -> Model`; `name` is all that the user
gave."""


def backend_points() -> dict[str, EntryPoint]:
    """Return the entry points by prefix; nothing is imported."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def open_plugin(point: EntryPoint, name: str, settings: Settings) -> Model:
    """Return the model that another package makes of a name."""
    package = point.dist.name if point.dist else "another package"
    try:
        model = point.load()(name, settings)
    except TextassayError:
        raise
    except Exception as error:  # whatever foreign code does
        raise ConfigurationError(
            f"the model {name!r} of {package} cannot be made by {point.value!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return check_model_protocol(model, f"what {point.value!r} of {package} gives for {name!r}")


def check_model_protocol(model: object, what: str) -> Model:
    """Return `model` if it has all of the `Model` protocol."""
    needed = ("name", "identity", "capabilities", "generate", "aclose")
    # A protocol with properties cannot say what is missing, so each part is looked for by name.
    missing = [part for part in needed if not hasattr(model, part)]
    if missing or not isinstance(model, Model):
        raise ConfigurationError(
            f"{what} is not a model: it has no {', '.join(missing)} (see textassay.testing)"
        )
    return model


EMBEDDED = "embedded"
"""Name of the model that comes with the package."""

FORMS = (
    "direct/NAME",
    "responses/NAME",
    "decisions/NAME",
    "systemone/NAME",
    "llamacpp/PATH.gguf",
    "llamacpp/HF_REPO:FILE",
    "transformers/PATH_OR_REPOSITORY[@REVISION]",
    EMBEDDED,
    "replay/RUN",
    "and every provider that litellm knows (openai/..., anthropic/..., ...)",
)
"""How names are written, for error messages."""


def _direct(name: str, rest: str, settings: Settings) -> Model:
    from textassay.runtime.backends.direct import DirectModel

    if settings.api_base is None:
        raise ConfigurationError(
            f"model {name!r} needs api_base=, such as http://127.0.0.1:8000/v1"
        )
    return DirectModel(name, **_server(settings), responses=name.startswith("responses/"))


def _decisions(name: str, rest: str, settings: Settings) -> Model:
    from textassay.runtime.backends.decisions import DecisionModel

    if settings.api_base is None:
        raise ConfigurationError(
            f"model {name!r} needs api_base=, such as https://api.typesafe.ai/v1"
        )
    sampling = ("effort", "thinking_tokens", "temperature", "top_p", "seed", "batch")
    unused = [field for field in sampling if getattr(settings, field) not in (None, False)]
    if unused:
        raise ConfigurationError(
            f"{name!r} is a decision model and samples nothing: leave out {unused[0]}="
        )
    return DecisionModel(name, **_server(settings))


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
"""What opens a model, by the part of its name before the slash; it is given the whole name, the
part behind the slash, and the settings."""


def open_backend(name: str, settings: Settings) -> Model:
    """Return the bare backend for a model's name; unknown prefixes are left to litellm."""
    if name == EMBEDDED:
        from textassay.runtime.backends.local.llamacpp import embedded_model

        return embedded_model(settings.local)
    prefix, _, rest = name.partition("/")
    opener = BACKENDS.get(prefix)
    if not name or (opener is not None and not rest):
        raise UnknownName("model", name, FORMS)
    if opener is not None:
        return opener(name, rest, settings)
    # After our own prefixes, so that a package cannot take one over; before litellm, which takes
    # any name.
    point = backend_points().get(prefix)
    if point is not None:
        return open_plugin(point, name, settings)
    from textassay.runtime.backends.litellm import LiteLLMModel

    return LiteLLMModel(name, **_server(settings))


async def load_backend(name: str) -> None:
    """Import what the backend of a model needs, off the event loop: litellm takes seconds."""
    # In a thread: an import of seconds on the event loop would stall every other model.
    if name.partition("/")[0] not in ("", EMBEDDED, *BACKENDS):
        from textassay.runtime.backends.litellm import load_litellm

        await asyncio.to_thread(load_litellm)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Return what an answer must not show: the key, and what settings take from variables."""
    named = [settings.api_key_env or ""]
    for text in (*settings.headers.values(), *settings.query.values(), settings.proxy or ""):
        named += VARIABLE.findall(text)
    values = [os.environ.get(name, "") for name in named]
    # Also secrets that no setting names: a gateway may echo a key that litellm found by itself.
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
