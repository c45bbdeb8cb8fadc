"""`textassay fit`: learn an evaluator from human ratings."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from textassay.cli import arguments
from textassay.cli.app import SCORING, command
from textassay.cli.console import print_tables, say
from textassay.cli.exits import UNSCORED, Stopped, run_async
from textassay.cli.flags import (
    CONFIG,
    DRY_RUN,
    JUDGING,
    PROGRESS,
    READING,
    RUNTIME,
    SAMPLING,
    SET,
    AsJson,
    Given,
    Group,
    Models,
    OptionalData,
    Out,
)
from textassay.cli.progress import Style, show_progress
from textassay.runtime.errors import (
    ConfigurationError,
    RunFolderError,
    TextassayError,
    UnknownName,
)
from textassay.runtime.settings import Settings, settings_in, split_settings

if TYPE_CHECKING:
    from textassay.evaluation.session import Session
    from textassay.fitting.request import FitByModel, FitRequest
    from textassay.fitting.result import Fit

_learning = partial(typer.Option, rich_help_panel="Learning")
_growing = partial(typer.Option, rich_help_panel="Criteria tree")

LEARNING = Group(
    features=Annotated[
        list[str] | None,
        _learning(
            metavar="NAME,GLOB*",
            help="Learn from metrics in the data, without calling a model; may repeat.",
        ),
    ],
    scores=Annotated[
        list[str] | None,
        _learning(
            metavar="[NAME=]FILE",
            help="Learn from files of scores or from runs; may repeat.",
        ),
    ],
    aggregator=Annotated[
        list[str] | None,
        _learning(
            metavar="NAME",
            help=(
                "Aggregator: auto (default), avg, corrw, linear, nnls, ridge, kernel, tree,"
                " forest, mlp, lightgbm, or for all aspects at once tree-joint, forest-joint,"
                " mlp-joint; may repeat."
            ),
        ),
    ],
    scale=Annotated[
        list[str] | None,
        _learning(
            metavar="ASPECT=LOW,HIGH",
            help="Scale of the human ratings; may repeat.",
        ),
    ],
    split=Annotated[
        str | None,
        _learning(
            metavar="group|row",
            help="Split by group (default) or by row.",
        ),
    ],
    train_fraction=Annotated[
        float | None,
        _learning(
            metavar="F",
            help="Share of the rows to learn from (default: 0.5).",
        ),
    ],
    test_fraction=Annotated[
        float | None,
        _learning(
            metavar="F",
            help="Share of the rows to hold out, whatever --train-fraction is (default: the rest).",
        ),
    ],
    repeats=Annotated[
        int | None,
        _learning(
            metavar="N",
            help="Samples per point of the curves of --report full (default: 3 data, 1 criteria).",
        ),
    ],
    raters=Annotated[
        Literal["mean", "model"] | None,
        _learning(
            help="Learn from mean ratings (default), or model each rater's severity and noise.",
        ),
    ],
    new_systems=Annotated[
        bool | None,
        _learning(
            "--new-systems",
            help="Prepare for texts of systems without ratings: folds leave out systems too.",
        ),
    ],
    report=Annotated[
        Literal["basic", "full"] | None,
        _learning(help="full adds curves and ablations."),
    ],
)

GROWTH = Group(
    layers=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Layers of criteria (default: 3).",
        ),
    ],
    children=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Maximum sub-criteria per criterion, or criteria per round (default: 4).",
        ),
    ],
    keep=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Criteria expanded per layer, from layer 2 on (default: 4; all with --tree).",
        ),
    ],
    tree=Annotated[
        str | None,
        _growing(
            metavar="TREE",
            help="Tree to learn on: a file, published, a published tree, or model (default).",
        ),
    ],
    saliency=Annotated[
        Literal["permutation", "shapley"] | None,
        _growing(
            help="Measure to rank criteria by (default: permutation).",
        ),
    ],
    rounds=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Rounds of proposals of a rubric (default: 3).",
        ),
    ],
    labels=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Rated rows that a rubric is learned from at most (default: 60).",
        ),
    ],
    noise=Annotated[
        Literal["stop", "prune"] | None,
        _growing(
            help="If no importance differs from 0: stop growing (default), or prune anyway.",
        ),
    ],
)

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
    | RUNTIME
)


OF_A_MODEL = ("dry_run", "n", "temperature", "max_cost")
"""Flags without effect if no model is asked, beside those of `fit_request`."""
PASSED_ON = (
    "method", "model", "out", "features", "aggregator", "task", "aspects", "split",
    "train_fraction", "test_fraction", "seed", "raters", "new_systems", "report", "repeats", "tree",
    "layers", "children", "keep", "saliency", "noise", "rounds", "labels", "fields", "limit",
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
        typer.Option(
            metavar="METHOD",
            help=(
                "hd-eval: decompose the aspects and let a model rate them; rubric: have criteria"
                " proposed from rated texts."
            ),
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
    return _execute(*arguments.with_config(flags, known), as_json=as_json)


def _execute(flags: dict[str, Any], chosen: dict[str, Any], *, as_json: bool = False) -> int:
    """Do what the flags of `fit` and its `--set` pairs say, and return the exit status."""
    from textassay.fitting.api import learn_recorded
    from textassay.fitting.request import FitByModel, FitFromScores

    if not flags.get("data"):
        raise ConfigurationError("fit needs DATA, examples with human ratings")
    if flags.get("more"):
        if not flags.get("scores"):
            raise ConfigurationError(f"fit takes one DATA; {flags['more'][0]!r} is unexpected")
        flags = {**flags, "scores": [*flags["scores"], *flags["more"]]}  # --scores A B
    request = _request_from(flags, chosen)
    if flags.get("out") is None and not flags.get("dry_run"):
        raise ConfigurationError(
            "fit needs --out EVALUATOR_DIR" + (" (or --dry-run)" if request.method else "")
        )
    if isinstance(request, FitByModel):
        return run_async(_align(request, flags, as_json))
    assert isinstance(request, FitFromScores)
    _show(learn_recorded(flags["data"], request), as_json)
    return 0


def _request_from(flags: dict[str, Any], chosen: dict[str, Any]) -> FitRequest:
    """Return what the flags ask for."""
    from textassay.fitting.request import fit_request

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
        return fit_request(**given)
    runtime, options = split_settings(chosen)
    options |= {name: flags[name] for name in ("n", "temperature") if flags.get(name) is not None}
    settings = Settings(**runtime | settings_in(flags))
    return fit_request(**given, options=options, settings=settings)


async def _align(request: FitByModel, flags: dict[str, Any], as_json: bool) -> int:
    """Align HD-Eval or a rubric with people and print the report; return the exit status."""
    from textassay.cli.run_result import print_estimate
    from textassay.fitting.api import align_with_people

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
    _show(fit, as_json)
    unscored = ", ".join(f"{count} {outcome}" for outcome, count in fit.unscored.items())
    if unscored:
        say(f"without a rating, which counts as a gap: {unscored}", style="yellow")
    return UNSCORED if unscored else 0


def _show(fit: Fit, as_json: bool) -> None:
    """Print the report, whose warnings are part of it, and how to apply the evaluator."""
    from textassay.fitting.result import REPORT

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
