"""`textassay doctor`: what a model can really do."""

from __future__ import annotations

import json

import typer

from textassay.cli.console import printable
from textassay.cli.exits import UNSCORED
from textassay.runtime.backends.doctor import examine, plain_text
from textassay.runtime.connect import connect
from textassay.runtime.settings import Settings


async def show(name: str, settings: Settings, *, as_json: bool = False) -> int:
    """Probe each ability, print what was found, and return the exit status.

    1 if the model answers nothing at all.

    Raises:
        ConfigurationError: The name or a setting cannot be used.
        ModelError: The model cannot be asked at all.
    """
    async with connect(name, settings=settings) as model:
        # the bare backend: a cache, or the splitting of draws, would hide what the model itself
        # does
        findings = await examine(model.backend)
    if as_json:
        rows = [finding.model_dump(mode="json") for finding in findings]
        typer.echo(json.dumps({"model": name, "rows": rows}))
    else:
        typer.echo(printable(plain_text(name, findings)))
    answers = any(f.verdict == "yes" for f in findings if f.ability in ("chat", "prompt"))
    return 0 if answers else UNSCORED
