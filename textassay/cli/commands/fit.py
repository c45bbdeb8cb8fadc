"""`textassay fit`: learn an evaluator from human ratings."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli.app import SCORING, command
from textassay.cli.console import Style, print_tables, say, show_progress, show_steps
from textassay.cli.exits import UNSCORED, Stopped, run_async
from textassay.cli.flags import (
    CONFIG,
    DRY_RUN,
    JUDGING,
    PROGRESS,
    RATINGS,
    READING,
    RUNTIME,
    SAMPLING,
    SET,
    AsJson,
    Given,
    Models,
    OptionalData,
    Out,
    build_flags,
    option,
    read_scales,
    with_config,
)
from textassay.fitting.request import (
    FitByModel,
    FitFromScores,
    FitRequest,
    FitRubric,
    FitTree,
    fit_request,
)
from textassay.runtime.errors import ConfigurationError, RunFolderError, TextassayError, UnknownName
from textassay.runtime.settings import Settings, settings_in, split_settings

if TYPE_CHECKING:
    from textassay.evaluation.session import Session
    from textassay.fitting.report import Fit

LEARNING = build_flags(FitFromScores, "features", "scores") | build_flags(
    FitRequest, "aggregator", "scales", "split", "train_fraction", "test_fraction", "repeats"
)
LEARNING |= build_flags(FitFromScores, "raters", "new_systems") | build_flags(FitRequest, "report")
GROWTH = build_flags(FitTree, "layers", "children", "keep", "tree", "saliency") | build_flags(
    FitRubric, "rounds", "labels"
)
GROWTH |= build_flags(FitTree, "noise")

FLAGS = (
    CONFIG
    | SET
    | DRY_RUN
    | PROGRESS
    | LEARNING
    | GROWTH
    | JUDGING.only("task", "aspects")
    | SAMPLING
    | READING
    | RATINGS
    | RUNTIME
)


OF_A_MODEL = ("dry_run", "n", "temperature", "max_cost")
"""Flags without effect if no model is asked, beside those of `fit_request`."""
PASSED_ON = (
    "method", "model", "out", "features", "aggregator", "task", "aspects", "split",
    "train_fraction", "test_fraction", "seed", "raters", "new_systems", "report", "repeats", "tree",
    "layers", "children", "keep", "saliency", "noise", "rounds", "labels", "fields", "missing",
    "limit", "unit",
)  # fmt: skip
"""Flags that are parameters of `textassay.fit`."""


@command(
    "fit",
    panel=SCORING,
    asks_models=True,
    examples=(
        (
            "textassay fit rated.jsonl --method hd-eval -t summarization -m openai/gpt-4.1-mini -o"
            " evaluators/mine"
        ),
        "textassay fit rated.jsonl --scores runs/a --scores runs/b -o evaluators/combined",
        "textassay fit rated.jsonl --features 'rouge*' --aggregator ridge -o evaluators/rouge",
    ),
)
def fit(
    data: OptionalData = None,
    # `--scores A B` is what people type, and without this argument B would be reported as unknown
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    *,
    method: Annotated[
        str | None,
        option(
            "METHOD",
            "hd-eval: decompose the aspects and let a model rate them; rubric: have criteria"
            " proposed from rated texts.",
        ),
    ] = None,
    model: Models = None,
    out: Out = None,
    as_json: AsJson = False,
    given: Annotated[Given, FLAGS],
) -> int:
    """Learn from human ratings how to judge, and write an evaluator folder."""
    flags = {"data": data, "more": more, "method": method, "model": model, "out": out, **given}
    known = (*FLAGS.flags, "data", "method", "model", "out", "fields")
    return _execute(*with_config(flags, known), as_json=as_json)


def _execute(flags: dict[str, Any], chosen: dict[str, Any], *, as_json: bool = False) -> int:
    """Do what the flags of `fit` and its `--set` pairs say, and return the exit status."""
    from textassay.fitting.api import learn_recorded

    if not flags.get("data"):
        raise ConfigurationError("fit needs DATA, examples with human ratings")
    if flags.get("more"):
        if not flags.get("scores"):
            raise ConfigurationError(f"fit takes one DATA; {flags['more'][0]!r} is unexpected")
        flags = {**flags, "scores": [*flags["scores"], *flags["more"]]}  # --scores A B
    if flags.get("ratings"):
        flags = _joined(flags)
    request = _request_from(flags, chosen)
    if flags.get("out") is None and not flags.get("dry_run"):
        raise ConfigurationError(
            "fit needs --out EVALUATOR_DIR" + (" (or --dry-run)" if request.method else "")
        )
    if isinstance(request, FitByModel):
        return run_async(_align(request, flags, as_json))
    assert isinstance(request, FitFromScores)
    with show_steps(flags.get("progress") or "auto") as watch:
        fit = learn_recorded(flags["data"], request, watch)
    _show(fit, as_json)
    return 0


def _joined(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the flags with the rated examples in place of the data and of how these are read."""
    from textassay.cli.rated import with_ratings
    from textassay.runtime.data.dataset import Examples

    reading = {name: flags[name] for name in ("fields", "missing", "unit") if flags.get(name)}
    marks = flags.get("missing") or ()
    rated = with_ratings(Examples(flags["data"], **reading), flags["ratings"], missing=marks)
    return {**flags, "data": rated, **dict.fromkeys(reading)}


def _request_from(flags: dict[str, Any], chosen: dict[str, Any]) -> FitRequest:
    """Return what the flags ask for."""
    given = {name: flags[name] for name in PASSED_ON if flags.get(name) is not None}
    given["scores"] = tuple(flags.get("scores") or ())
    given["scales"] = read_scales(flags.get("scale") or ())
    if given.get("method") is None:
        if chosen:
            raise UnknownName("setting of fit without a model", next(iter(chosen)))
        for name in OF_A_MODEL:
            if flags.get(name) is not None:
                raise ConfigurationError(
                    f"--{name.replace('_', '-')} needs --method hd-eval or rubric; recorded scores"
                    " are learned from without a model"
                )
        return fit_request(**given)
    runtime, options = split_settings(chosen)
    options |= {name: flags[name] for name in ("n", "temperature") if flags.get(name) is not None}
    settings = Settings(**runtime | settings_in(flags))
    return fit_request(**given, options=options, settings=settings)


async def _align(request: FitByModel, flags: dict[str, Any], as_json: bool) -> int:
    """Align HD-Eval or a rubric with people and print the report; return the exit status."""
    from textassay.cli.commands.score import print_estimate
    from textassay.fitting.api import align_with_people, alignment_of

    alignment = alignment_of(request, flags["data"])
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
    _show(fit, as_json)
    unscored = ", ".join(f"{count} {outcome}" for outcome, count in fit.unscored.items())
    if unscored:
        say(f"without a rating, which counts as a gap: {unscored}", style="yellow")
    return UNSCORED if unscored else 0


def _show(fit: Fit, as_json: bool) -> None:
    """Print the report, whose warnings are part of it, and how to apply the evaluator."""
    from textassay.fitting.report import REPORT

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
