"""`textassay fit`: learn an evaluator from human ratings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli import Status, flags, syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import print_tables, say
from textassay.cli.exits import RunStopped, name_flags, run_async, with_flags
from textassay.cli.progress import Style, show_progress, show_steps
from textassay.cli.rated import with_ratings
from textassay.fitting.request import (
    KINDS,
    FitByModel,
    FitFromScores,
    FitRequest,
    FitRubric,
    FitTree,
    fit_request,
)
from textassay.runtime.backends.http_errors import public_address
from textassay.runtime.calls.traits import Sampling
from textassay.runtime.errors import ConfigurationError, RunFolderError, TextassayError, UnknownName
from textassay.runtime.settings import Settings, settings_in, split_settings

if TYPE_CHECKING:
    from textassay.evaluation.session import Session
    from textassay.fitting.report import Fit

_fields = flags.build_flags
FLAGS = (
    flags.pick("config", "set", "dry_run", "progress")
    | _fields(FitFromScores, "features", "scores")
    | _fields(FitRequest, "aggregator", "scales", "split", "train_fraction", "test_fraction")
    | _fields(FitRequest, "repeats") | _fields(FitFromScores, "new_systems")
    | _fields(FitRequest, "report")
    | _fields(FitTree, "layers", "children", "keep", "tree", "saliency")
    | _fields(FitRubric, "rounds", "labels") | _fields(FitTree, "noise")
    | flags.pick("task", "aspects", "n", "temperature", "seed") | flags.READING | flags.RATINGS
    | flags.RUNTIME
)  # fmt: skip


@command("fit", panel=Heading.SCORING, asks_models=True)
def fit(
    data: flags.OptionalData = None,
    # people type `--scores A B`; without this argument B would be reported as unknown
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    *,
    method: Annotated[
        str | None,
        syntax.option(
            "METHOD",
            "hd-eval: decompose the aspects and let a model rate them; rubric: have criteria"
            " proposed from rated texts.",
        ),
    ] = None,
    model: flags.ModelNames = None,
    out: flags.Out = None,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, FLAGS],
) -> int:
    """Learn from human ratings how to judge, and write an evaluator folder.

    Examples:
        textassay fit rated.jsonl --method hd-eval -t summarization -m openai/gpt-4.1-mini -o
            evaluators/mine
        textassay fit rated.jsonl --scores runs/a --scores runs/b -o evaluators/combined
        textassay fit rated.jsonl --features 'rouge*' --aggregator ridge -o evaluators/rouge
    """
    values = {
        "data": data, "more": more, "method": method, "model": model, "out": out, **group,
    }  # fmt: skip
    accepted = (*FLAGS.flags, "data", "method", "model", "out", "fields")
    return _execute(*flags.with_config(values, accepted), as_json=as_json)


def _execute(values: dict[str, Any], set_values: dict[str, Any], *, as_json: bool = False) -> int:
    """Run `fit` with its flags and `--set` pairs, and return the exit status."""
    from textassay.fitting.api import learn_recorded

    again = _flags_to_apply(values)
    if not values.get("data"):
        raise ConfigurationError("fit needs DATA, examples with human ratings")
    if values.get("more"):
        if not values.get("scores"):
            raise ConfigurationError(f"fit takes one DATA; {values['more'][0]!r} is unexpected")
        values = {**values, "scores": [*values["scores"], *values["more"]]}  # --scores A B
    if values.get("ratings"):
        values = _with_ratings(values)
    request = _request_from(values, set_values)
    if values.get("out") is None and not values.get("dry_run"):
        raise ConfigurationError(
            "fit needs --out EVALUATOR_DIR" + (" (or --dry-run)" if request.method else "")
        )
    if isinstance(request, FitByModel):
        again += _flags_of_judge(request.settings)
        return run_async(_align(request, values, again, as_json))
    assert isinstance(request, FitFromScores)
    with show_steps(values.get("progress") or "auto") as watch:
        fit = learn_recorded(values["data"], request, watch)
    _show(fit, again, as_json)
    return 0


def _with_ratings(values: dict[str, Any]) -> dict[str, Any]:
    """Return the flags with the opened examples in place of the data and its reading options."""
    from textassay.runtime.data.dataset import Examples
    from textassay.runtime.data.ratings import LabelReader

    reading = {name: values[name] for name in ("fields", "missing", "unit") if values.get(name)}
    marks = values.get("missing") or ()
    by_model = bool(values.get("method"))
    strict = bool(by_model and values.get("strict_columns"))
    labels = LabelReader(any_word=not by_model)
    data = Examples(
        values["data"], needs_output=by_model, **reading, strict_columns=strict, labels=labels
    )
    rated = with_ratings(data, values["ratings"], missing=marks, labels=labels)
    return {**{name: value for name, value in values.items() if name not in reading}, "data": rated}


def _request_from(values: dict[str, Any], set_values: dict[str, Any]) -> FitRequest:
    parameters = {"method", *(name for kind in KINDS.values() for name in kind.model_fields)}
    arguments = {name: value for name, value in values.items() if name in parameters}
    arguments["scores"] = tuple(values.get("scores") or ())
    arguments["scales"] = flags.read_scales(values.get("scale") or ())
    if arguments.get("method") is None:
        if set_values:
            raise UnknownName("setting of fit without a model", next(iter(set_values)))
        # besides the settings of `fit_request`
        for name in ("dry_run", "n", "temperature", "max_cost"):
            if name in values:
                raise ConfigurationError(
                    f"--{name.replace('_', '-')} needs --method hd-eval or rubric; recorded scores"
                    " are learned from without a model"
                )
        return fit_request(**arguments)
    runtime, options = split_settings(set_values)
    options |= {name: values[name] for name in ("n", "temperature") if name in values}
    settings = Settings(**runtime | settings_in(values))
    return fit_request(**arguments, options=options, settings=settings)


async def _align(request: FitByModel, values: dict[str, Any], again: str, as_json: bool) -> int:
    """Align HD-Eval or a rubric with people and print the report; return the exit status."""
    from textassay.cli.commands.score import print_estimate
    from textassay.fitting.api import align_with_people, alignment_of

    alignment = alignment_of(request, values["data"])
    for notice in alignment.data.check().notices:
        say(with_flags(notice))
    style: Style = values.get("progress") or "auto"

    def watch(session: Session) -> AbstractAsyncContextManager[None]:
        return show_progress(lambda: session.engine.progress, style)

    if values.get("dry_run"):
        usage = await alignment.dry_run(watch)
        print_estimate(usage, len(alignment.examples), as_json=as_json)
        return 0
    try:
        fit = await align_with_people(alignment, watch, again="repeat the same command to continue")
    # the user has to change something first, so the status is 2; 3 would mean that repeating the
    # command helps
    except (RunFolderError, UnknownName):
        raise
    except TextassayError as error:
        if not alignment.begun:
            raise
        raise RunStopped from error
    _show(fit, again, as_json)
    unscored = ", ".join(f"{count} {outcome}" for outcome, count in fit.unscored.items())
    if unscored:
        say(f"without a rating (counted as gaps): {unscored}", style="yellow")
    return Status.UNSCORED if unscored else 0


def _flags_to_apply(values: Mapping[str, Any]) -> str:
    """Return the flags that `score` needs again: the model's address, and which texts to judge."""
    address = values.get("api_base")
    # the data to judge have no ratings, and an address may contain a password
    words = [] if address is None else ["--api-base", public_address(address)]
    for theirs, ours in (values.get("fields") or {}).items():
        if not ours.startswith("human"):
            words += ["--field", f"{theirs}={ours}"]
    for mark in values.get("missing") or ():
        words += ["--missing", mark]
    if unit := values.get("unit"):
        words += ["--unit", unit]
    return f" {shlex.join(words)}" if words else ""


def _flags_of_judge(settings: Settings) -> str:
    """Return the flags of the judge's sampling, which `score` takes no other way."""
    words: list[str] = []
    for name, value in Sampling.of(settings.for_role("scorer")).fields.items():
        # `--effort`, or `--set top_p=`
        flag, _, key = with_flags(f"{name}=").partition(" ")
        if name == "extra":
            words += [one for k, v in value.items() for one in (flag, f"{k}={json.dumps(v)}")]
        else:
            words += [flag, f"{key}{value}"]
    return f" {shlex.join(words)}" if words else ""


def _show(fit: Fit, again: str, as_json: bool) -> None:
    """Print the report with its warnings, and the command that applies the evaluator."""
    from textassay.fitting.report import REPORT

    out = Path(fit)
    if as_json:
        typer.echo((out / REPORT).read_text(encoding="utf-8"), nl=False)
    else:
        print_tables(name_flags([fit]), fit.report, as_json=False)
    words = ["--method", str(out)]
    words += [] if fit.evaluator.model is None else ["--model", fit.evaluator.model]
    say(
        f"evaluator written to {out}; apply it with: textassay score DATA {shlex.join(words)}"
        f"{again} --out RUN"
    )
