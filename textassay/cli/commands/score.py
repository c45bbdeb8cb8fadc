"""`textassay score|resume|merge ...`: judge examples, continue a run, join its shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli.app import SCORING, command
from textassay.cli.console import say
from textassay.cli.exits import UNSCORED, run_async
from textassay.cli.flags import (
    CONFIG,
    CONFIG_KEYS,
    LOG,
    PROGRESS,
    RUNTIME,
    SCORE,
    WORKERS,
    AsJson,
    Given,
    MethodName,
    Models,
    OptionalData,
    Out,
    RunFolder,
    build_option,
    config_file,
    read_flags,
    with_config,
)
from textassay.evaluation.request import RunRequest
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import settings_in, split_settings

if TYPE_CHECKING:
    from textassay.evaluation.merging import Merged


@command(
    "score",
    panel=SCORING,
    asks_models=True,
    examples=(
        (
            "textassay score data.jsonl --method g-eval -t summarization -m openai/gpt-4.1-mini -o"
            " runs/first"
        ),
        "textassay score data.csv --method llm-score -a fluency -m openai/gpt-4.1-mini --dry-run",
        "textassay score data.jsonl --method g-eval -m openai/gpt-4.1-mini --show-prompts 1",
        "textassay score data.jsonl --config judge.toml --max-cost 5 -o runs/second",
        "textassay score data.jsonl --config judge.toml --shard 1/4 -o runs/large/shard-1",
    ),
)
def score(
    data: OptionalData = None,
    *,
    method: MethodName = None,
    model: Models = None,
    out: Out = None,
    calibration: Annotated[str | None, build_option(RunRequest, "calibration")] = None,
    escalate: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Cascade of a jury: ask the second juror only if the first is not certain.",
        ),
    ] = None,
    show_prompts: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Print the prompts for the first N examples without calling a model."
        ),
    ] = None,
    as_json: AsJson = False,
    given: Annotated[Given, SCORE],
) -> int:
    """Judge every example of DATA and write the scores to a run folder."""
    from textassay.cli.scoring import build_command, execute

    flags = {
        "data": data,
        "method": method,
        "model": model,
        "out": out,
        "calibration": calibration,
        "escalate": escalate,
        **given,
    }
    read, chosen = with_config(flags)
    # as a dry run, so that neither --out nor a key is needed to look at prompts
    if show_prompts is not None:
        from textassay.cli.commands.show import show_prompts as show

        request = build_command({**read, "dry_run": True}, chosen).request
        run_async(show(request, show_prompts))
        return 0
    return run_async(execute(build_command(read, chosen), as_json=as_json))


@command(
    "resume",
    panel=SCORING,
    asks_models=True,
    examples=(
        "textassay resume runs/first",
        "textassay resume runs/first --max-cost 10 --concurrency 8",
        "textassay resume runs/first --data /elsewhere/data.jsonl",
        "textassay resume runs/first --config judge.toml",
    ),
)
def resume(
    run: RunFolder,
    *,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Where the run's data are now, if the file was moved; same content.",
        ),
    ] = None,
    as_json: AsJson = False,
    given: Annotated[Given, CONFIG | PROGRESS | LOG | WORKERS | RUNTIME],
) -> int:
    """Resume a run: ask only for missing scores and errors.

    Flags on the command line override the settings of the run, and so do those of
    --config: headers, certificates and addresses per role are never taken from a run folder.
    """
    from textassay.cli.scoring import command_to_resume, execute
    from textassay.evaluation.merging import is_divided

    read = _flags_to_resume({**given, "data": data}, CONFIG_KEYS)
    if is_divided(run):
        merge_to_resume(run)
    parsed = command_to_resume(run, read)
    if parsed.request.stress is not None:
        if parsed.workers is not None:
            raise ConfigurationError(
                f"a stress run cannot be resumed with --{parsed.workers.flag}: leave it out"
            )
        from textassay.cli.commands.stress import resume_stress

        return run_async(resume_stress(parsed, as_json=as_json))
    return run_async(execute(parsed, as_json=as_json))


def _flags_to_resume(typed: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the flags of `resume`, laid over the settings of the file of `--config`.

    The file may be the one that the run was made with: what it says of the run itself, such as its
    method and data, stays as the run has it.
    """
    path = typed.get("config")
    flags = read_flags({name: value for name, value in typed.items() if name != "config"})
    keys = [key for key in known if key not in ("config", "field")]
    configured = config_file(path, keys)
    runtime, _ = split_settings(configured.get("set", {}))
    described = {"model": configured.get("model", {})}  # by the tables, as they were called
    return {**described, **settings_in({**configured, **runtime}), **flags}


@command(
    "merge",
    panel=SCORING,
    examples=("textassay merge runs/large", "textassay merge runs/large --partial"),
)
def merge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that contains shard-1, ...")],
    *,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Merge what there is; `textassay resume RUN` completes the run."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Merge RUN/shard-*, made by `score --shard I/N --out RUN/shard-I`, into one run.

    Shards of different data, prompts or models are refused. The shards are kept.
    """
    return merge_shards(run, partial=partial, as_json=as_json)


def merge_shards(run: Path, *, partial: bool, as_json: bool) -> int:
    """Merge the shards of a run, print the result as `score` does, and return the exit status."""
    from textassay.cli.scoring import print_result
    from textassay.evaluation.run import Run

    made = _merge_shards(run, partial=partial)
    status = print_result(Run(folder=run), as_json=as_json)
    if made.missing:
        say(
            f"{made.missing} scores are missing; add them with: textassay resume {run}",
            style="yellow",
        )
        # a partial merge is a finished run with scores missing, which is what status 1 says
        return UNSCORED
    return status


def merge_to_resume(run: Path) -> None:
    """Merge the shards of a run as they are, so that the rest can be judged as of any run."""
    made = _merge_shards(run, partial=True)
    if made.absent:
        say(
            f"{run} has no shard {', '.join(made.absent)}: what it lacks is judged now. If another "
            "machine is judging it, stop this command and run `textassay merge` once its folder is"
            " here"
        )


def _merge_shards(run: Path, *, partial: bool) -> Merged:
    from textassay.evaluation.merging import merge as merged

    made = merged(run, partial=partial)
    for name in made.differing:
        say(
            f"{name} differs between shards; each is kept under the name of its shard",
            style="yellow",
        )
    if count := made.unneeded_batches:
        say(
            f"{count} batch{'es' if count != 1 else ''} of the shards "
            f"{'are' if count != 1 else 'is'} left at the provider, as no score needs the answers",
            style="yellow",
        )
    return made
