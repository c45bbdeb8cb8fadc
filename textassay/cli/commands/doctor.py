"""`textassay doctor`: what a model supports."""

from __future__ import annotations

from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.exits import run_async
from textassay.cli.flags import RUNTIME, SAMPLING, SET, AsJson, Given
from textassay.cli.registry import MAKING, command


@command(
    "doctor",
    panel=MAKING,
    examples=(
        "textassay doctor openai/gpt-4.1-mini",
        "textassay doctor direct/qwen3 --api-base http://localhost:8000/v1",
        "textassay doctor openai/gpt-6-luna --effort low",
        "textassay doctor openai/gpt-4.1-mini --batch",
    ),
)
def doctor(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model to examine.")],
    *,
    as_json: AsJson = False,
    given: Annotated[
        Given,
        SET
        | SAMPLING.only("temperature")
        | RUNTIME.only("api_base", "api_key_env", "effort", "extra", "batch"),
    ],
) -> int:
    """Probe what a model supports: thoughts, effort, log-probabilities, echo, JSON schema."""
    from textassay.cli.doctor import show
    from textassay.runtime.errors import UnknownName
    from textassay.runtime.settings import LOADED, SETTABLE, Settings

    flags, unknown, settings = arguments.for_models(given)
    # there is no method here that could take an option
    if unknown:
        raise UnknownName("setting", next(iter(unknown)), [*SETTABLE, *LOADED])
    if "temperature" in flags:  # a setting of single roles, and a model is examined for none
        own = {**settings.model_dump(), "temperature": flags["temperature"]}
        settings = Settings.model_validate(own)
    return run_async(show(model, settings, as_json=as_json))
