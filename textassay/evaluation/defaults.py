"""Default models, methods and folders of a request, and the keys that it needs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from textassay.methods.by_name import TOOLS
from textassay.runtime.backends.by_name import decides, variables_of_missing_key
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import slug
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings

MODEL_VARIABLE = "TEXTASSAY_MODEL"
"""Environment variable with the default model."""


def with_default_model(
    models: Mapping[str, str | Model], method: str | None
) -> dict[str, str | Model]:
    """Return the models, or the one of `TEXTASSAY_MODEL` if there are none.

    Only methods that always ask a model get it: a fitted evaluator may not ask one.

    Raises:
        ConfigurationError: Neither a model nor a method is named.
    """
    by_role = dict(models)
    if by_role or method == TOOLS or (method is not None and Path(method).is_dir()):
        return by_role
    if named := os.environ.get(MODEL_VARIABLE, "").strip():
        return {"": named}
    if method is None:
        raise ConfigurationError(
            "no model is named: give model='openai/gpt-4.1-mini' or another, or set"
            f" {MODEL_VARIABLE}"
        )
    return by_role


def default_method(models: Mapping[str, str | Model]) -> str:
    """Return the method that suits the models.

    `jury` if all are jurors, `decide` if the judge is a decision model, else `llm-score`.
    """
    if models and all(re.fullmatch(r"juror\d*", role) for role in models):
        return "jury"
    judge = models.get("scorer", models.get("", ""))
    is_decision_model = (
        decides(judge) if isinstance(judge, str) else judge.capabilities.only_decides
    )
    return "decide" if is_decision_model else "llm-score"


def default_folder(data: str, now: Callable[[], datetime] = datetime.now) -> Path:
    """Return a new run folder: `runs/DATA-DATE-TIME`, with a number if it exists."""
    # all suffixes: data.jsonl.gz
    name = slug(re.split(r"[\\/]", data.rstrip("\\/"))[-1].partition(".")[0])
    plain = Path("runs") / f"{name}-{now():%Y%m%d-%H%M%S}"
    folder, number = plain, 1
    while folder.exists():
        number += 1
        folder = plain.with_name(f"{plain.name}-{number}")
    return folder


def check_keys(models: Mapping[str, str | Model], settings: Settings) -> None:
    """Refuse models whose providers need a key that the environment lacks.

    Raises:
        ConfigurationError: A key is missing; names the variable.
    """
    if settings.cache:
        return  # all answers may be in the cache
    for role, model in models.items():
        if not isinstance(model, str):
            continue
        if variables := variables_of_missing_key(model, settings.for_role(role)):
            raise ConfigurationError(
                f"the model {model!r} needs an API key: set {' or '.join(variables)}, or give"
                " the variable that has it with api_key_env=NAME"
            )
