"""`textassay score|tools ...`: judge examples; from the flags to the request, run and result.

`resume` and `stress` execute their runs with these functions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from textassay.cli import Status, flags, syntax
from textassay.cli.app import Heading, command, group
from textassay.cli.console import capture_warnings, log_as_json, results, say, warn
from textassay.cli.exits import as_stopped, run_async, with_flags
from textassay.cli.progress import STYLES, Style, show_progress
from textassay.evaluation.progress import Progress, known_cost, sum_progress
from textassay.evaluation.request import RunRequest, Shard
from textassay.runtime.base import Usage
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Score
from textassay.runtime.settings import (
    FLAGGED,
    LOADED,
    SETTABLE,
    Settings,
    flag_of,
    settings_in,
    split_settings,
)
from textassay.table import Column, Table, plain_table, printable, to_terminal

if TYPE_CHECKING:
    from textassay.evaluation.run import Run
    from textassay.evaluation.session import Session
    from textassay.methods.method import Method
    from textassay.runtime.calls.logprobs_or_samples import LogprobsOrSamples
    from textassay.workers.driver import Cluster, Processes
    from textassay.workers.worker import OpenedSession


@command("score", panel=Heading.FIRST, asks_models=True)
def score(
    data: flags.OptionalData = None,
    *,
    method: flags.MethodName = None,
    model: flags.JudgeNames = None,
    out: flags.NewRun = None,
    calibration: Annotated[str | None, flags.build_option(RunRequest, "calibration")] = None,
    show_prompts: Annotated[
        int | None,
        syntax.option("N", "Print the prompts for the first N examples without calling a model."),
    ] = None,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.SCORE],
) -> int:
    """Judge the texts of DATA by a criterion or a method, and write the scores to a run folder.

    Examples:
        textassay score data.csv --criterion "The reply is polite." -m openai/gpt-4.1-mini
        textassay score data.csv --criterion "The reply is polite." --scale yes-no --jury
            openai/gpt-4.1-mini anthropic/claude-haiku-4-5
        textassay score data.jsonl --method g-eval -t summarization -m openai/gpt-4.1-mini -o
            runs/first
        textassay score data.csv --method llm-score -a fluency -m openai/gpt-4.1-mini --dry-run
        textassay score data.jsonl --method g-eval -m openai/gpt-4.1-mini --show-prompts 1
        textassay score data.jsonl --config judge.toml --max-cost 5 -o runs/second
        textassay score data.jsonl --config judge.toml --shard 1/4 -o runs/large/shard-1
    """
    values = {
        "data": data, "method": method, "model": model, "out": out, "calibration": calibration,
        **group,
    }  # fmt: skip
    merged, set_values = flags.with_config(values)
    if show_prompts is not None:
        from textassay.cli.commands.show import show_prompts as show

        # as a dry run, so that prompts can be shown without --out and without a key
        request = build_command({**merged, "dry_run": True}, set_values).request
        run_async(show(request, show_prompts))
        return 0
    return run_async(execute(build_command(merged, set_values), as_json=as_json))


group("tools", "Run automatic metrics (ROUGE, NLI, ...) without a judge.", panel=Heading.SCORING)

TOOLS_FLAGS = (
    flags.pick("config", "progress") | flags.READING | flags.pick("api_base", "api_key_env")
)


@command("list", group="tools")
def tools_list(*, as_json: syntax.AsJson = False) -> None:
    """List the metrics with their meaning, range and requirements.

    Examples:
        textassay tools list
    """
    from textassay.tools import describe_all

    if as_json:
        rows = [tool.model_dump(mode="json") for tool in describe_all()]
        typer.echo(json.dumps({"rows": rows}))
        return
    for tool in describe_all():
        scale = "unbounded" if tool.scale is None else f"{tool.scale[0]:g} to {tool.scale[1]:g}"
        better = "" if tool.higher_is_better else ", lower is better"
        state = "" if tool.installed or tool.extra is None else f"  [needs the extra {tool.extra}]"
        typer.echo(f"{tool.kind} ({scale}{better}){state}\n    {tool.description}")


@command("score", group="tools", asks_models=True)
def tools_score(
    data: flags.Data,
    *,
    tools: Annotated[
        list[str] | None, syntax.option("A,B", "Metrics, such as rouge,nli:MODEL; may repeat.")
    ] = None,
    model: Annotated[
        str | None, syntax.option("MODEL", "Model that lm_prob asks.", "--model", "-m")
    ] = None,
    out: flags.NewRun = None,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, TOOLS_FLAGS],
) -> int:
    """Score every example of DATA with automatic metrics and write the scores to a run folder.

    Examples:
        textassay tools score data.jsonl --tools rouge,chrf -o runs/metrics
    """
    values = {"data": data, "tools": tools, "model": model, "out": out, **group}
    accepted = ("data", "tools", "model", "out", *TOOLS_FLAGS.flags, "fields")
    merged, set_values = flags.with_config(values, accepted)
    parsed = build_command({**merged, "method": "tools"}, set_values)
    return run_async(execute(parsed, as_json=as_json))


SHOWN_WARNINGS = (
    "textassay.runtime.calls.logprobs_or_samples",
    "textassay.runtime.calls.adaptation",
    "textassay.runtime.calls.endpoints",
    "textassay.runtime.calls.traits",
    "textassay.runtime.batches.batch",
    "textassay.evaluation.opening",
    "textassay.methods.judging",
)
"""Loggers whose warnings the command shows: samples in place of log-probabilities, an unsupported
effort, a lost endpoint, a provider that fails or is full, a request that does not fit into a batch,
settings of an unused role, pairs of which one text is judged.
"""


@dataclass(frozen=True)
class ScoreCommand:
    """One `score`, `resume`, `stress` or `tools score`, read from the command line."""

    request: RunRequest
    dry: bool = False
    progress: Style = "auto"
    workers: Processes | Cluster | None = None
    """The workers that judge; `None` to judge in this process."""
    is_default_folder: bool = False
    """Whether the run folder has its default name, which is then printed first."""


def build_command(
    values: dict[str, Any], set_values: dict[str, Any], *, command: str = "score"
) -> ScoreCommand:
    """Make the command from flags and `--set` values, as `flags.with_config` returns both.

    `command` is its name in messages.
    """
    from textassay.evaluation.defaults import (
        check_keys,
        default_folder,
        default_method,
        with_default_model,
    )
    from textassay.methods.by_name import find
    from textassay.methods.library.criteria import with_criteria

    if not values.get("data"):
        raise ConfigurationError(f"{command} needs DATA, a file of examples")
    method, is_dry = values.get("method"), bool(values.get("dry_run"))
    # a misspelled name is reported before a missing one
    if method and not Path(method).is_dir():
        find(method)
    models = with_default_model(values.get("model") or {}, method)
    method = method or default_method(models)
    out, is_default_folder = values.get("out"), "out" not in values and not is_dry
    if is_default_folder:
        if "shard" in values:
            raise ConfigurationError(
                "--shard needs --out RUN/shard-I, beside the folders of the other shards"
            )
        out = default_folder(str(values["data"]))
    runtime, options = split_settings(set_values)
    # flags such as --n are options of the method, which the manifest must record
    conversation_chars = options.pop("conversation_chars", None)
    options |= {name: values[name] for name in OPTION_FLAGS if name in values}
    runtime |= settings_in(values)
    fields = {
        name: values[flag.name or name]
        for name in RunRequest.model_fields
        if (flag := flag_of(RunRequest, name)) and (flag.name or name) in values
    }
    fields |= {"data": str(values["data"]), **flags.data_options(values)}
    fields |= {"method": method, "models": models, "out": out}
    fields["aspects"] = with_criteria(
        values.get("aspects"), values.get("criterion"), values.get("scale")
    )
    request = RunRequest(
        **fields,
        conversation_chars=conversation_chars,
        options=options,
        settings=Settings(**runtime),
    )
    if not is_dry:
        check_keys(request.models, request.settings)
    return replace(to_command(request, values), is_default_folder=is_default_folder)


def to_command(request: RunRequest, values: Mapping[str, Any]) -> ScoreCommand:
    """Return the command that executes a request with its flags."""
    return ScoreCommand(
        request=request,
        dry=bool(values.get("dry_run")),
        progress=_style(values),
        workers=_workers(values),
    )


def _workers(values: Mapping[str, Any]) -> Processes | Cluster | None:
    if "workers" in values and "cluster" not in values:
        raise ConfigurationError("--workers goes with --cluster; see --processes")
    if values.keys().isdisjoint(("cluster", "processes")):
        return None
    from textassay.workers.driver import Cluster, Processes  # most runs need none

    if "cluster" in values:
        if "processes" in values:
            raise ConfigurationError(
                "--cluster and --processes exclude each other; --workers N sets the number of"
                " workers"
            )
        return Cluster.parse(str(values["cluster"]), values.get("workers"))
    count = values["processes"]
    # a larger number is a typing error
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1024:
        raise ConfigurationError(f"--processes takes a number from 1 to 1024, not {count!r}")
    if "shard" in values:
        raise ConfigurationError("--shard and --processes exclude each other")
    return Processes(count)


def _style(values: Mapping[str, Any]) -> Style:
    """Return the progress style, which may come from a file, and turn on structured logs."""
    log, style = values.get("log") or "text", values.get("progress") or "auto"
    if log not in ("text", "json"):
        raise UnknownName("log format", str(log), ("text", "json"))
    if style not in STYLES:
        raise UnknownName("progress style", str(style), STYLES)
    # here and not in the callers, because the value may come from a config file
    if log == "json":
        log_as_json()
        return "none" if style == "none" else "json"
    return cast("Style", style)


async def execute(command: ScoreCommand, *, as_json: bool = False) -> int:
    """Execute the command, print the result and return the exit status."""
    with settings_in_errors(), capture_warnings(*SHOWN_WARNINGS):
        if command.dry:
            await _dry_run(command, as_json=as_json)
            return 0
        if command.workers is None:
            run = await _run(command)
        else:
            run = await _run_with_workers(command, command.workers)
    return print_result(run, as_json=as_json)


async def _run(command: ScoreCommand) -> Run:
    """Judge in this process."""
    from textassay.evaluation.session import finish

    began = False
    with as_stopped(command.request.out, lambda: began):
        async with _open_command(command) as session:
            # a command that is refused makes no folder, and so names none
            _say_folder(command)
            _say_before(session, command)
            began = True
            async with show_progress(lambda: session.engine.progress, command.progress):
                return await finish(session)


async def _run_with_workers(command: ScoreCommand, workers: Processes | Cluster) -> Run:
    from textassay.workers.driver import FollowedRun, run_with_workers  # most runs need none

    request, followed = command.request, FollowedRun()
    with as_stopped(request.out, lambda: followed.is_begun):
        async with show_progress(lambda: followed.progress, command.progress):
            return await run_with_workers(
                request.data,
                request,
                workers,
                adjustment_for=load_adjustment(request.calibration),
                followed=followed,
                on_begin=partial(_say_folder, command),
                notify=print_notice,
                notice=print_notice,
            )


def _say_folder(command: ScoreCommand) -> None:
    if command.is_default_folder:
        say(f"run folder: {command.request.out}")


def print_notice(line: str) -> None:
    say(with_flags(line))


OPTION_FLAGS = ("n", "temperature", "seed")
"""Flags of options that some methods have."""


@contextmanager
def settings_in_errors() -> Iterator[None]:
    """Name options and settings in the same way in errors: on the command line, both use --set."""
    try:
        yield
    except UnknownName as error:
        if error.kind != "option":
            raise
        if error.name in FLAGGED:
            raise ConfigurationError(
                f"{error.name} is not set with --set; give {error.name}="
            ) from None
        if error.name in OPTION_FLAGS:
            message = f"this method takes no {error.name}; leave out {error.name}="
            raise ConfigurationError(message) from None
        raise UnknownName("setting", error.name, [*error.known, *SETTABLE, *LOADED]) from None


def _open_command(command: ScoreCommand) -> AbstractAsyncContextManager[Session]:
    from textassay.evaluation.session import open_session

    request = command.request
    return open_session(
        request.data, request, dry=command.dry, adjustment_for=load_adjustment(request.calibration)
    )


def load_adjustment(
    folder: str | None,
) -> Callable[[Method | OpenedSession], Callable[[Score], Score]] | None:
    """Return the function that checks a calibration against a method and returns its map."""
    if folder is None:
        return None
    from textassay.estimation.calibration import load
    from textassay.methods.method import traits_of
    from textassay.runtime.calls.adaptation import signature_of_method

    # loaded before the models are opened, so that a wrong folder costs nothing
    calibration = load(folder)

    def adjustment_for(method: Method | OpenedSession) -> Callable[[Score], Score]:
        judged = [aspect.label for aspect in method.aspects]
        if not any(calibration.of(name) for name in judged):
            calibrated = ", ".join(entry.aspect for entry in calibration.aspects)
            raise ConfigurationError(
                f"{folder} calibrates {calibrated}, and the run judges {', '.join(judged)}"
            )
        signatures = (method.signature, *traits_of(method).signatures)
        for name in judged:
            learned = calibration.of(name)
            # checked with each score: the first answers show which parameters a model refuses
            is_one = learned is not None and signature_of_method(learned.signature) in signatures
            calibration.check(name, method.signature, allow_change=is_one)
        return calibration.apply

    return adjustment_for


def _say_before(session: Session, command: ScoreCommand) -> None:
    """Print the notices that the user should see before a model is asked."""
    from textassay.evaluation.session import notices

    if Shard.parse(command.request.shard or "1/1").number > 1:
        return  # the first shard prints it for all
    if session.warning:
        counted = "" if command.dry else " (dry_run= counts the waves)"
        warn(with_flags(f"{session.warning}{counted}"))
    for sentence in session.data.notices:
        print_notice(sentence)
    if session.tools_notice:
        print_notice(session.tools_notice)
    for notice in notices(session.method, command.request, is_new=not command.request.resume):
        print_notice(notice)


async def _dry_run(command: ScoreCommand, *, as_json: bool) -> None:
    """Print the requests of a run; one process counts them, however many would run."""
    from textassay.methods.method import traits_of

    async with _open_command(command) as session:
        _say_before(session, command)
        by_samples = None
        # before the walk, whose answers determine it
        is_open = bool(open_choice(session))
        abstained = await _walk(session, command)
        if is_open:
            async with _open_command(command) as other:
                if choice := open_choice(other):
                    choice.refuse()
                await _walk(other, command)
                by_samples = other.usage

        print_estimate(
            session.usage,
            session.engine.progress.done,
            costs=session.engine.progress.costs,
            waves=None if session.records.waves is None else session.records.waves.count,
            by_samples=by_samples,
            most_calls=traits_of(session.method).most_calls,
            abstained=abstained,
            as_json=as_json,
        )


def open_choice(session: Session) -> LogprobsOrSamples | None:
    """Return the choice between log-probabilities and samples, if the first answer decides it."""
    from textassay.methods.method import traits_of

    choice = traits_of(session.method).probabilities
    return choice if choice and choice.reads == "undecided" else None


async def _walk(session: Session, command: ScoreCommand) -> Counter[str]:
    """Count the requests; return the scores for which the data lack something, by reason."""
    abstained = Counter[str]()
    async with (
        show_progress(lambda: session.engine.progress, command.progress, dry=True),
        aclosing(session.engine.scores()) as scores,
    ):
        async for score in scores:
            if score.error and score.outcome == "abstained" and not score.usage.calls:
                abstained[score.error.type] += 1
    return abstained


def print_estimate(
    usage: Usage,
    examples: int,
    *,
    costs: Mapping[str, float | None] | None = None,
    waves: int | None = None,
    by_samples: Usage | None = None,
    most_calls: int | None = None,
    abstained: Mapping[str, int] | None = None,
    as_json: bool = False,
) -> None:
    """Print the counts of a dry run."""
    if as_json:
        counts = {
            "examples": examples,
            "estimate": usage.model_dump(mode="json"),
            "costs": costs,
            "most_calls_per_score": most_calls,
            "without_logprobs": by_samples and by_samples.model_dump(mode="json"),
            "waves": waves,
            "abstained": abstained or None,
        }
        typer.echo(json.dumps({name: value for name, value in counts.items() if value is not None}))
        return
    from textassay.runtime.backends.scripted import ASSUMED_THOUGHT_TOKENS

    thoughts = usage.reasoning_tokens
    cost = _partly_known(costs or {}) if usage.cost is None else _format_cost(usage, usage.cost)
    completion = "estimate" if thoughts else "upper bound, if the model does not think"
    table = plain_table("", "")
    for name, value in (
        ("examples", f"{examples}"),
        ("calls", f"{usage.calls}" if most_calls is None else f"up to {usage.calls}"),
        ("answers in the cache", f"{usage.cached_calls}"),
        ("prompt tokens", f"{usage.prompt_tokens} (estimate)"),
        ("completion tokens", f"{usage.completion_tokens} ({completion})"),
        ("cost", cost),
        *(() if waves is None else [("waves of batches", f"{waves}, of up to 24 hours each")]),
    ):
        table.add_row(name, value)
    results().print("dry run: no model was asked; the run would take", table, sep="\n")
    if abstained:
        reasons = ", ".join(f"{reason} x{count:,}" for reason, count in abstained.items())
        results().print(f"the judge would not be asked, and there would be no score: {reasons}")
    if most_calls is not None:
        results().print(f"up to {most_calls} calls per score: the judge stops when it knows enough")
    results().print("requests that repeat an unusable written answer are not counted")
    if thoughts:
        results().print(
            f"assumes {ASSUMED_THOUGHT_TOKENS} tokens of thought per answer, {thoughts} in all; "
            "how much a model thinks is unknown before it has answered"
        )
    if by_samples is not None:
        price = by_samples.cost
        results().print(
            f"without log-probabilities: up to {by_samples.calls} calls,"
            f" {by_samples.prompt_tokens} + {by_samples.completion_tokens} tokens"
            + ("" if price is None else f", {_format_cost(by_samples, price)}")
        )


def _partly_known(costs: Mapping[str, float | None]) -> str:
    """Format the known part of a cost, and name the models without a price."""
    known, unpriced = known_cost(costs)
    if not known:
        return "unknown (give --price IN,OUT)"
    return (
        f"${known:.4f} without {', '.join(unpriced)} (price unknown: give it to the model's role in"
        " --config)"
    )


def _format_cost(usage: Usage, cost: float) -> str:
    # a model may think more than assumed, so with thoughts there is no upper bound
    bound = "(estimate)" if usage.reasoning_tokens else "at most, if the model does not think"
    return f"${cost:.4f} {bound}"


def print_result(run: Run, *, as_json: bool = False) -> int:
    """Print means by aspect, and unscored texts with reasons; return the exit status."""
    # a run that was read from its folder has no session
    summary, now = _summary_of(run), run.progress or sum_progress(())
    if as_json:
        session = {"failed_calls": now.failures, "costs": now.costs}
        typer.echo(json.dumps({"run": str(run.folder), **summary, **session}))
        # from the summary of the whole run, including earlier sessions
        scored = summary["outcomes"].get("scored", 0)
        return 0 if scored == sum(summary["outcomes"].values()) else Status.UNSCORED
    _show(str(run.folder))
    _show_values(run, summary["aspects"])
    _show_calls(summary["usage"], now)
    if now.samples_never_differ:
        _show(
            f"in each of {now.sampled} scores all samples agree: the server may "
            "ignore the temperature, so more than one sample adds nothing",
            "yellow",
        )
    return _show_unscored(run, summary)


def _show(line: str, style: str = "") -> None:
    results().print(printable(line), style=style, markup=False)


def _show_values(run: Run, aspects: Mapping[str, Any]) -> None:
    """Print the mean of each aspect, and the counts of labels without an order."""
    columns = (
        Column("aspect", "aspect"), Column("n", "n", "count"), Column("mean", "mean", "number", 4),
    )  # fmt: skip
    means = [(name, entry["n"], entry["mean"]) for name, entry in aspects.items()]
    console = results()
    console.print(to_terminal(Table(columns, means), console.width))
    if run.without_mean:
        totals = Counter((score.aspect, score.value) for score in run)
        for name in sorted(run.without_mean):
            labels = enumerate(run.labels[name].names)
            _show(f"{name}: " + ", ".join(f"{label} {totals[name, at]}" for at, label in labels))


def _show_calls(usage: Mapping[str, Any], now: Progress) -> None:
    """Print calls, tokens and cost of a run."""
    from textassay.runtime.storage.run_files import token_details

    # calls of this session without an answer, which `usage` does not count
    unanswered = f", {sum(now.failures.values())} failed" if now.failures else ""
    _show(
        f"{usage['calls']} calls answered{unanswered}, {usage['cached_calls']} from the cache,"
        f" {usage['prompt_tokens']} + {usage['completion_tokens']} tokens{token_details(usage)},"
        f" cost {_cost_of(usage, now)}"
    )


def _show_unscored(run: Run, summary: Mapping[str, Any]) -> int:
    """Print the number of unscored texts with reasons, if there are any; return the exit status."""
    unscored = {
        kind: count for kind, count in summary["outcomes"].items() if kind != "scored" and count
    }
    if not unscored:
        return 0
    reasons = ", ".join(f"{kind} x{count}" for kind, count in summary["errors"].items())
    counts = ", ".join(f"{count} {kind}" for kind, count in unscored.items())
    _show(f"unscored: {counts} ({reasons})", "yellow")
    for line in _commonest_messages(run):
        _show(line)
    if unscored.get("error"):
        _show(f"retry the errors with: textassay resume {run.folder}")
    return Status.UNSCORED


def _cost_of(usage: Mapping[str, Any], now: Progress) -> str:
    """Format the cost of a run, or why it is unknown."""
    if now.failures and not usage["calls"]:
        return "unknown (no request was answered; requests that timed out may be charged)"
    if usage["cost"] is not None:
        return f"${usage['cost']:.4f}"
    if not usage["prompt_tokens"]:
        return "unknown (the server reports no tokens)"
    # the costs by model of earlier sessions are unknown
    return _partly_known(now.costs if now.usage.calls == usage["calls"] else {})


def _summary_of(run: Run) -> dict[str, Any]:
    if run.folder is None:
        return run.summary()
    from textassay.runtime.storage.run_files import read_summary

    # from `summary.json`, since reading all scores again would slow down a cached run
    summary = read_summary(run.folder)
    return {name: summary[name] for name in ("outcomes", "errors", "aspects", "usage")}


def _commonest_messages(run: Run) -> list[str]:
    """Return the commonest message of each type of error, the commonest type first."""
    messages = Counter(
        # the message of an error may be a server's, whose words stay as they are
        (e.type, e.message if score.outcome == "error" else with_flags(e.message))
        for score in run
        if (e := score.error) is not None
    )
    by_type: dict[str, str] = {}
    for (kind, message), count in messages.most_common():
        by_type.setdefault(kind, f"  {kind} x{count}: {message[:500]}")
    # one message per type: a thousand timeouts must not hide the one wrong key
    return list(by_type.values())[:3]
