"""`textassay fit`: learn an evaluator from people's ratings and write its folder."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import typer

from textassay.cli import arguments
from textassay.cli.console import printable, say
from textassay.cli.exits import UNSCORED, Stopped, run_async
from textassay.cli.progress import Style, show_progress
from textassay.cli.run_result import print_estimate
from textassay.evaluation.session import Session
from textassay.fitting.alignment import Growth
from textassay.fitting.alignment_order import AlignmentOrder
from textassay.fitting.fit_from_scores import REPORT, Fit, Learning, check_out, fit_recorded
from textassay.fitting.fit_rubric import Rubric, RubricOrder
from textassay.fitting.fit_tree import Alignment
from textassay.fitting.rubric import RubricGrowth
from textassay.fitting.text import text_of
from textassay.learning import NAMES
from textassay.methods import HDEval
from textassay.methods.hd_eval import BY_MODEL
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import (
    ConfigurationError,
    DataError,
    RunFolderError,
    StorageError,
    TextassayError,
    UnknownName,
)
from textassay.runtime.settings import Settings, settings_in, split_settings

RUBRIC = "rubric"
OF_A_RUBRIC = {"rounds": "rounds", "labels": "labels", "children": "count"}
OF_A_TREE = {name: name for name in ("layers", "children", "keep", "saliency", "noise", "tree")}
"""Flags that shape what grows, with the names of the fields that they set."""


def execute(flags: dict[str, Any], chosen: dict[str, Any], *, as_json: bool = False) -> int:
    """Do what the flags of `fit` and its `--set` pairs say, and return the exit status.

    Raises:
        ConfigurationError: A flag that is needed is missing, or two exclude each other.
    """
    if not flags.get("data"):
        raise ConfigurationError("fit needs DATA, examples with human ratings")
    if flags.get("more"):
        if not flags.get("scores"):
            raise ConfigurationError(f"fit takes one DATA; {flags['more'][0]!r} is unexpected")
        flags = {**flags, "scores": [*flags["scores"], *flags["more"]]}  # --scores A B
    if flags.get("method") is not None:
        if flags.get("features") or flags.get("scores"):
            raise ConfigurationError(
                "--method learns from a model's ratings, --features and --scores from recorded ones"
            )
        return run_async(fit_by_alignment(flags, chosen, as_json))
    if chosen:
        raise UnknownName("setting of fit without a model", next(iter(chosen)))
    for name in (
        "model",
        "dry_run",
        "layers",
        "children",
        "keep",
        "tree",
        "saliency",
        "noise",
        "rounds",
        "labels",
        "task",
        "n",
        "temperature",
        "max_cost",
    ):
        if flags.get(name) is not None:
            raise ConfigurationError(
                f"--{name.replace('_', '-')} needs --method hd-eval or rubric; learning from"
                " recorded scores asks no model"
            )
    if flags.get("out") is None:
        raise ConfigurationError("fit needs --out EVALUATOR_DIR")
    return fit_from_recorded(flags, as_json)


def learning_from(flags: dict[str, Any]) -> Learning:
    """Read the flags that say how to learn.

    Raises:
        UnknownName: There is no such aggregator or report.
        ConfigurationError: A value does not fit.
    """
    names = tuple(flags.get("aggregator") or ("auto",))
    for name in names:
        if name not in NAMES:
            raise UnknownName("aggregator", name, list(NAMES))
    # checked here although the flags have choices: values may come from a config file
    if flags.get("split") not in (None, "group", "row"):
        raise UnknownName("split", flags["split"], ["group", "row"])
    given = {
        "train_fraction": flags.get("train_fraction"),
        "test_fraction": flags.get("test_fraction"),
        "repeats": flags.get("repeats"),
        "seed": flags.get("seed"),
        "new_systems": flags.get("new_systems"),
        "raters": flags.get("raters"),
        "depth": flags.get("report"),
        "aspects": flags.get("aspects"),
    }
    return Learning(
        aggregators=names,
        scales=arguments.scales(flags.get("scale") or ()),
        by_row=flags.get("split") == "row",
        **{name: value for name, value in given.items() if value is not None},
    )


async def fit_by_alignment(flags: dict[str, Any], chosen: dict[str, Any], as_json: bool) -> int:
    """Align HD-Eval with people, write the folder and print the report; return the exit status.

    Raises:
        ConfigurationError: Something does not fit; nothing was asked.
        Stopped: It began and was stopped; its cause is the reason.
    """
    order = alignment_from(flags, chosen)
    alignment = Rubric(order) if isinstance(order, RubricOrder) else Alignment(order)
    style: Style = flags.get("progress") or "auto"

    def watch(session: Session) -> AbstractAsyncContextManager[None]:
        return show_progress(lambda: session.engine.progress, style)

    if flags.get("dry_run"):
        usage = await alignment.dry_run(watch)
        print_estimate(usage, len(alignment.examples), as_json=as_json)
        return 0
    try:
        fit = await alignment.run(watch)
    # the user has to change something first, so the status is 2; 3 would promise that repeating
    # the command helps
    except (RunFolderError, UnknownName):
        raise
    except DataError as error:  # its notes say what is kept
        raise Stopped from error
    except TextassayError as error:
        error.__notes__ = ["finished work is kept; repeat the same command to continue"]
        raise Stopped from error
    write(fit, Path(flags["out"]), as_json)
    for warning in fit.report["warnings"]:
        say(f"warning: {warning}", style="yellow")
    unscored = ", ".join(f"{count} {outcome}" for outcome, count in alignment.unscored.items())
    if unscored:
        say(f"without a rating, which counts as a gap: {unscored}", style="yellow")
    return UNSCORED if unscored else 0


def alignment_from(flags: dict[str, Any], chosen: dict[str, Any]) -> AlignmentOrder:
    """Read the flags of `fit --method`.

    Raises:
        UnknownName: There is no such method or option.
        ConfigurationError: A flag that is needed is missing, or a value does not fit.
    """
    method = flags["method"]
    if method not in (HDEval.name, RUBRIC):
        raise UnknownName("method with alignment", method, [HDEval.name, RUBRIC])
    if not flags.get("model"):
        raise ConfigurationError(f"fit --method {method} needs --model MODEL")
    if flags.get("out") is None and not flags.get("dry_run"):
        raise ConfigurationError("fit needs --out EVALUATOR_DIR (or --dry-run)")
    runtime, options = split_settings(chosen)
    options |= {name: flags[name] for name in ("n", "temperature") if flags.get(name) is not None}
    runtime |= settings_in(flags)
    if flags.get("raters") == "model":
        raise ConfigurationError("--raters model is for recorded scores (--features, --scores)")
    if flags.get("new_systems"):
        raise ConfigurationError(
            "--new-systems is for recorded scores (--features, --scores): a model's ratings of a "
            "new system are not known before its texts are judged"
        )
    own = OF_A_RUBRIC if method == RUBRIC else OF_A_TREE
    for name in {*OF_A_RUBRIC, *OF_A_TREE} - {*own}:
        if flags.get(name) is not None:
            raise ConfigurationError(f"--{name} has no effect with --method {method}; leave it out")
    growth = {
        field: flags[name]
        for name, field in own.items()
        if name != "tree" and flags.get(name) is not None
    }
    tree = flags.get("tree") or options.pop("tree", BY_MODEL)  # `score` takes it by --set
    if tree != BY_MODEL and "children" in growth:
        raise ConfigurationError("--children is for a tree that the model grows; leave it out")
    requested: dict[str, Any] = {
        "data": Examples(flags["data"], fields=flags.get("fields")),
        "models": flags["model"],
        "out": None if flags.get("out") is None else Path(flags["out"]),
        "task": flags.get("task"),
        "options": HDEval.Options.read(options),
        "learning": learning_from(flags),
        "settings": Settings(**runtime),
        "limit": flags.get("limit"),
    }
    if method == RUBRIC:
        return RubricOrder(**requested, rubric=RubricGrowth(**growth))
    return AlignmentOrder(**requested, growth=Growth(**growth), tree=tree)


def fit_from_recorded(flags: dict[str, Any], as_json: bool) -> int:
    """Learn from recorded scores, write the folder and print the report; return the exit status.

    Raises:
        ConfigurationError: Something does not fit; nothing was written.
    """
    out = Path(flags["out"])
    check_out(out)
    fit = fit_recorded(
        Examples(flags["data"], fields=flags.get("fields")),
        features=tuple(flags.get("features") or ()),
        scores=tuple(flags.get("scores") or ()),
        learning=learning_from(flags),
    )
    write(fit, out, as_json)
    return 0


def write(fit: Fit, out: Path, as_json: bool) -> None:
    """Write the evaluator folder and print the report.

    Raises:
        StorageError: The folder cannot be written.
    """
    try:
        fit.save(out)
    except OSError as error:
        raise StorageError(f"cannot write the evaluator to {out}: {error}") from error
    if as_json:
        typer.echo((out / REPORT).read_text(encoding="utf-8"), nl=False)
    else:
        typer.echo(printable(text_of(fit.report)), nl=False)
    model = "" if fit.evaluator.model is None else f" --model {fit.evaluator.model}"
    say(
        f"evaluator written to {out}; apply it with: textassay score DATA --method {out}{model}"
        " --out RUN"
    )
