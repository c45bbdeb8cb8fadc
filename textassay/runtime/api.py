"""`connect` returns a model by name, with its settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from textwrap import fill
from typing import Any, cast, get_type_hints

from textassay.runtime.backends.by_name import FORMS, is_replay
from textassay.runtime.base import P, R
from textassay.runtime.calls.budget import Budget
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings, descriptions, strict_keywords
from textassay.runtime.stack import ConnectedModel, connect_model


def takes_settings(function: Callable[P, R]) -> Callable[P, R]:
    """Show every field of `Settings` as a parameter of a function that takes them as `**overrides`.

    Signature and docstring are made from `Settings`, which has all names, types, defaults and help;
    an unknown name is refused.
    """
    signature = inspect.signature(function)
    parameters = [
        item
        for item in signature.parameters.values()
        if item.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    types = get_type_hints(Settings)  # plain types, without their limits
    settings = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=item.get_default(call_default_factory=True),
            annotation=types[name],
        )
        for name, item in Settings.model_fields.items()
    ]
    texts = descriptions(Settings)
    lines = [
        fill(
            f"{name}: {' '.join(texts.get(name, '').split())}",
            width=100,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
        )
        for name in Settings.model_fields
    ]
    target = cast("Any", function)
    # For editors and `help`; the call itself still goes through `**overrides`.
    target.__signature__ = signature.replace(parameters=[*parameters, *settings])
    # Python 3.13 strips the indentation of docstrings, earlier versions keep it
    target.__doc__ = inspect.cleandoc(function.__doc__ or "").replace(
        "    **overrides: Fields of `Settings`.", "\n".join(lines)
    )
    return strict_keywords(function)


@takes_settings
def connect(
    model: str | Model,
    /,
    *,
    settings: Settings | None = None,
    budget: Budget | None = None,
    **overrides: Any,
) -> ConnectedModel:
    """Return a model with limits, retries, shared calls and, if a cache is named, a cache.

    The model is opened by `async with`, which also closes it.

    Args:
        model: A model's name, or an object of your own with the `Model` protocol. A name is in one
            of the forms below, has a prefix of another package (entry points `textassay.models`),
            or is a name of litellm's, such as `openai/gpt-4.1-mini`.
            FORMS
        settings: Settings of the model; the parameters below replace single fields.
        budget: A budget shared with other models; by default one of its own from
            `settings.max_cost`.
        **overrides: Fields of `Settings`.

    Raises:
        ConfigurationError: The name, the object or a setting cannot be used.
    """
    model_settings = settings or Settings()
    if overrides:
        model_settings = Settings(**{**model_settings.model_dump(), **overrides})
    if isinstance(model, str) and is_replay(model):
        from textassay.runtime.backends.replay import with_recorded_sampling

        model_settings = with_recorded_sampling(model, model_settings)
    return connect_model(model, model_settings, budget or Budget(model_settings.max_cost))


connect.__doc__ = (connect.__doc__ or "").replace(
    "FORMS", "\n        ".join(f"`{form}`: {what}" for form, what in FORMS.items())
)
