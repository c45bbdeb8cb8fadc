"""`connect`: a model by its name or object, with every setting as a keyword argument.

Apart from `connected.py`: making its signature and docstring of all settings takes longer than
connecting, and runs, which have read their settings already, do not import it.
"""

from __future__ import annotations

from typing import Any

from textassay.runtime.calls.budget import Budget
from textassay.runtime.connected import ConnectedModel, connect_model
from textassay.runtime.keywords import takes_settings
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings


@takes_settings
def connect(
    model: str | Model,
    /,
    *,
    settings: Settings | None = None,
    budget: Budget | None = None,
    **overrides: Any,
) -> ConnectedModel:
    """Return a model limited, retried, shared and, if a cache is named, cached.

    Nothing is opened or asked yet; use it in `async with`, which closes the model at its end.

    Args:
        model: A model's name, or an object of your own with the `Model` protocol. Names are
            `direct/NAME` (OpenAI-compatible server at `api_base`), `responses/NAME` (the same
            through its Responses API), `llamacpp/PATH.gguf` or `llamacpp/HF_REPO:FILE`,
            `transformers/PATH_OR_REPOSITORY[@REVISION]`, `embedded`, `replay/RUN`, a prefix that
            another package brings (entry points `textassay.models`), or a litellm name.
        settings: How it is asked; the parameters below replace single fields of it.
        budget: A budget shared with other models; by default one of its own from
            `settings.max_cost`.
        **overrides: Fields of `Settings`.

    Raises:
        ConfigurationError: The name, the object or a setting cannot be used.
    """
    known = settings or Settings()
    if overrides:
        known = Settings(**{**known.model_dump(), **overrides})
    return connect_model(model, known, budget or Budget(known.max_cost))
