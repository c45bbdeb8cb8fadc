"""`textassay doctor`: what a model can do."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textassay.cli import flags
from textassay.cli.app import MAKING, command
from textassay.cli.console import say
from textassay.cli.exits import UNSCORED, run_async, with_flags
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.settings import LOADED, SETTABLE, Settings
from textassay.table import printable

if TYPE_CHECKING:
    from textassay.runtime.backends.doctor import Finding
    from textassay.runtime.connected import ConnectedModel
    from textassay.runtime.model import Model


@command("doctor", panel=MAKING)
def doctor(
    model: Annotated[str, flags.argument("MODEL", "Model to examine.")],
    *,
    as_json: flags.AsJson = False,
    given: Annotated[
        flags.Given,
        flags.SET
        | flags.SAMPLING.only("temperature")
        | flags.RUNTIME.only("api_base", "api_key_env", "effort", "extra", "batch"),
    ],
) -> int:
    """Probe what a model supports: thoughts, effort, log-probabilities, echo, JSON schema.

    Examples:
        textassay doctor openai/gpt-4.1-mini
        textassay doctor direct/qwen3 --api-base http://localhost:8000/v1
        textassay doctor openai/gpt-6-luna --effort low
        textassay doctor openai/gpt-4.1-mini --batch
    """
    typed, unknown, settings = flags.for_models(given)
    # there is no method here that could take an option
    if unknown:
        raise UnknownName("setting", next(iter(unknown)), [*SETTABLE, *LOADED])
    if "temperature" in typed:  # a setting of single roles, and a model is examined for none
        own = {**settings.model_dump(), "temperature": typed["temperature"]}
        settings = Settings.model_validate(own)
    return run_async(_examine(model, settings, as_json=as_json))


async def _examine(name: str, settings: Settings, *, as_json: bool) -> int:
    """Probe each ability and print what was found; return 1 if the model answers nothing at all."""
    from textassay.runtime.api import connect
    from textassay.runtime.backends.doctor import examine, plain_text

    async with connect(name, settings=settings) as model:
        # bare: a cache, or the splitting of draws, would hide what the model itself does
        findings = _with_flags(await examine(model.bare))
        findings.append(_suited_methods(findings, model))
        if not as_json:
            typer.echo(printable(plain_text(f"what {name} can do:", findings)))
        if settings.batch:
            # Last, because batches may take hours: what is known by then is printed by then.
            batched = _with_flags(await _in_batches(model))
            if not as_json:
                typer.echo(printable(plain_text(f"what batches of {name} can do:", batched)))
            findings += batched
    if as_json:
        rows = [finding.model_dump(mode="json") for finding in findings]
        typer.echo(json.dumps({"model": name, "rows": rows}))
    # a model without log-probabilities or seeds is usable; one that answers in no form is not
    answers = any(f.verdict == "yes" for f in findings if f.ability in ("chat", "prompt"))
    return 0 if answers else UNSCORED


def _with_flags(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings that name flags instead of parameters of Python."""
    return [one.model_copy(update={"detail": with_flags(one.detail)}) for one in findings]


def _suited_methods(findings: Sequence[Finding], model: Model) -> Finding:
    """Return which methods can judge with a model, and are not refused by its profile."""
    from textassay.methods import METHODS, PromptMethod, build
    from textassay.runtime.backends.doctor import Finding

    found = {finding.ability: finding.verdict for finding in findings}
    if found["chat"] != "yes" != found["prompt"]:
        detail = "none: the model answers nothing"
        return Finding(ability="methods", verdict="no", detail=detail)

    def fits(name: str) -> bool:
        try:
            method = build(name, model, task="summarization")
        except ConfigurationError:
            return False
        if name == "gptscore":
            return found["continuation"] == "yes"
        if found["chat"] == "yes":
            return True
        return isinstance(method, PromptMethod) and method.profile.ask == "plain"

    fit = [name for name in METHODS if fits(name)]
    unfit = [name for name in METHODS if name not in fit]
    if found["chat"] != "yes" and "decomp-eval" in unfit:
        fit.append("decomp-eval with --set ask=plain")
    detail = f"all but {', '.join(unfit)}" if len(unfit) < len(fit) else ", ".join(fit)
    if not unfit:
        detail = "all"
    if found["logprobs"] != "yes":
        detail += "; those that read log-probabilities sample answers instead"
    return Finding(ability="methods", verdict="yes", detail=detail)


async def _in_batches(model: ConnectedModel) -> list[Finding]:
    """Probe through the provider's batches; their journal and answers are discarded."""
    from textassay.runtime.backends.doctor import examine_batches
    from textassay.runtime.batches.batch import BatchBook
    from textassay.runtime.storage.answers import DiskStore

    with tempfile.TemporaryDirectory() as folder:
        store, book = DiskStore(Path(folder) / "answers"), BatchBook(Path(folder))
        try:
            say("waiting for two batches of a few requests, each for up to 24 hours...")
            return await examine_batches(model.only_batches(store, book))
        finally:
            await model.close_queues()
            await book.aclose()
            await store.aclose()
