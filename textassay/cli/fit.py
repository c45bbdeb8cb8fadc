"""`textassay fit`: learn an evaluator from people's ratings and write its folder."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import typer

from textassay.cli import arguments
from textassay.cli.console import print_tables, say
from textassay.cli.exits import UNSCORED, Stopped, run_async
from textassay.cli.progress import Style, show_progress, show_steps
from textassay.cli.run_result import print_estimate
from textassay.evaluation.session import Session
from textassay.fitting.api import FitRequest, align_with_people, learn_recorded
from textassay.fitting.report import REPORT, Fit
from textassay.runtime.errors import (
    ConfigurationError,
    RunFolderError,
    TextassayError,
    UnknownName,
)
from textassay.runtime.settings import Settings, settings_in, split_settings

OF_A_MODEL = ("dry_run", "n", "temperature", "max_cost")
"""Flags without effect if no model is asked, beside those of `FitRequest`."""
PASSED_ON = (
    "method", "model", "out", "features", "aggregator", "task", "aspects", "split",
    "train_fraction", "test_fraction", "seed", "raters", "new_systems", "report", "repeats", "tree",
    "layers", "children", "keep", "saliency", "noise", "rounds", "labels", "fields", "limit",
)  # fmt: skip
"""Flags that are parameters of `textassay.fit`."""


def execute(flags: dict[str, Any], chosen: dict[str, Any], *, as_json: bool = False) -> int:
    """Do what the flags of `fit` and its `--set` pairs say, and return the exit status."""
    if not flags.get("data"):
        raise ConfigurationError("fit needs DATA, examples with human ratings")
    if flags.get("more"):
        if not flags.get("scores"):
            raise ConfigurationError(f"fit takes one DATA; {flags['more'][0]!r} is unexpected")
        flags = {**flags, "scores": [*flags["scores"], *flags["more"]]}  # --scores A B
    request = request_from(flags, chosen)
    if flags.get("out") is None and not flags.get("dry_run"):
        raise ConfigurationError(
            "fit needs --out EVALUATOR_DIR" + (" (or --dry-run)" if request.method else "")
        )
    if request.method is not None:
        return run_async(fit_by_alignment(request, flags, as_json))
    with show_steps(flags.get("progress") or "auto") as watch:
        fit = learn_recorded(flags["data"], request, watch)
    show(fit, as_json)
    return 0


def request_from(flags: dict[str, Any], chosen: dict[str, Any]) -> FitRequest:
    """Return what the flags ask for."""
    given = {name: flags[name] for name in PASSED_ON if flags.get(name) is not None}
    given["scores"] = tuple(flags.get("scores") or ())
    given["scales"] = arguments.scales(flags.get("scale") or ())
    if given.get("method") is None:
        if chosen:
            raise UnknownName("setting of fit without a model", next(iter(chosen)))
        for name in OF_A_MODEL:
            if flags.get(name) is not None:
                raise ConfigurationError(
                    f"--{name.replace('_', '-')} needs --method hd-eval or rubric; recorded scores"
                    " are learned from without a model"
                )
        return FitRequest(**given)
    runtime, options = split_settings(chosen)
    options |= {name: flags[name] for name in ("n", "temperature") if flags.get(name) is not None}
    settings = Settings(**runtime | settings_in(flags))
    return FitRequest(**given, options=options, settings=settings)


async def fit_by_alignment(request: FitRequest, flags: dict[str, Any], as_json: bool) -> int:
    """Align HD-Eval or a rubric with people and print the report; return the exit status."""
    alignment = request.alignment(flags["data"])
    style: Style = flags.get("progress") or "auto"

    def watch(session: Session) -> AbstractAsyncContextManager[None]:
        return show_progress(lambda: session.engine.progress, style)

    if flags.get("dry_run"):
        usage = await alignment.dry_run(watch)
        print_estimate(usage, len(alignment.examples), as_json=as_json)
        return 0
    try:
        fit = await align_with_people(alignment, watch, again="repeat the same command to continue")
    # the user has to change something first, so the status is 2; 3 would promise that repeating
    # the command helps
    except (RunFolderError, UnknownName):
        raise
    except TextassayError as error:
        if not alignment.begun:
            raise
        raise Stopped from error
    show(fit, as_json)
    unscored = ", ".join(f"{count} {outcome}" for outcome, count in fit.unscored.items())
    if unscored:
        say(f"without a rating, which counts as a gap: {unscored}", style="yellow")
    return UNSCORED if unscored else 0


def show(fit: Fit, as_json: bool) -> None:
    """Print the report, whose warnings are part of it, and how to apply the evaluator."""
    out = Path(fit)
    if as_json:
        typer.echo((out / REPORT).read_text(encoding="utf-8"), nl=False)
    else:
        print_tables(fit.tables(), fit.report, as_json=False)
    model = "" if fit.evaluator.model is None else f" --model {fit.evaluator.model}"
    say(
        f"evaluator written to {out}; apply it with: textassay score DATA --method {out}{model}"
        " --out RUN"
    )
