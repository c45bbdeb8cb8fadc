"""`textassay resume|merge`: continue a run, join its shards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textassay.cli import Status, flags, syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import capture_warnings, say
from textassay.cli.exits import run_async
from textassay.evaluation.request import request_from_manifest, with_kept_rows
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import settings_in

if TYPE_CHECKING:
    from textassay.cli.commands.score import ScoreCommand
    from textassay.evaluation.merging import MergeResult


@command("resume", panel=Heading.SCORING, asks_models=True)
def resume(
    run: flags.RunArgument,
    *,
    data: Annotated[
        str | None,
        syntax.option("DATA", "Where the run's data are now, if the file was moved; same content."),
    ] = None,
    as_json: syntax.AsJson = False,
    group: Annotated[
        syntax.Flags,
        flags.pick("config", "progress", "log", "processes", "cluster", "workers") | flags.RUNTIME,
    ],
) -> int:
    """Resume a run: ask only for missing scores and errors.

    Flags and the settings of --config override the settings of the run. Headers, certificates and
    addresses per role are never taken from a run folder.

    Examples:
        textassay resume runs/first
        textassay resume runs/first --max-cost 10 --concurrency 8
        textassay resume runs/first --data /elsewhere/data.jsonl
        textassay resume runs/first --config judge.toml
    """
    from textassay.cli.commands.score import execute
    from textassay.evaluation.merging import is_divided

    values = _flags_to_resume({**group, "data": data})
    if is_divided(run) and (absent := _merge_shards(run, partial=True).absent):
        say(
            f"{run} has no shard {', '.join(absent)}: its scores are requested now. If another "
            "machine is judging it, stop this command and run `textassay merge` once its folder "
            "is"
            " here"
        )
    parsed = command_to_resume(run, values)
    if parsed.request.stress is not None:
        if parsed.workers is not None:
            raise ConfigurationError(
                f"a stress run cannot be resumed with --{parsed.workers.flag}: leave it out"
            )
        from textassay.cli.commands.stress import resume_stress

        return run_async(resume_stress(parsed, as_json=as_json))
    return run_async(execute(parsed, as_json=as_json))


def _flags_to_resume(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of `resume`, over the settings in the file of `--config`.

    The file may be the run's own: its keys for the run itself, such as method and data, are
    ignored.
    """
    now = flags.read_flags({name: value for name, value in values.items() if name != "config"})
    configured = flags.config_file(values.get("config"), flags.CONFIG_KEYS)
    described = {"model": configured.get("model", {})}  # reported by the names of the tables
    return {**described, **settings_in(configured), **now}


def command_to_resume(folder: Path, values: dict[str, Any]) -> ScoreCommand:
    """Make a command that resumes a run; flags that are given now replace the run's settings."""
    from textassay.cli.commands.score import to_command
    from textassay.evaluation.manifest import settings_to_resume
    from textassay.runtime.storage.run_files import check_present, read_manifest

    manifest = read_manifest(folder)
    request = request_from_manifest(manifest)
    # also if the graph has the name of a method, which would otherwise judge the rest
    if "graph" in (manifest.get("method") or {}):
        raise ConfigurationError(
            f"{folder}: the run was made by the graph {request.method!r}, which is Python code; "
            f"resume it there with “evaluate(..., method=GRAPH, out={str(folder)!r}, resume=True)”"
        )
    if "data" in values:
        request = request.model_copy(update={"data": str(values["data"])})
    # with a limit, the kept rows are only a part of the data, but a resumed run needs all
    elif request.limit is None:
        request = with_kept_rows(request, folder)
    if request.data is None:
        raise ConfigurationError(
            f"{folder}: the run's data came from memory and were not kept; resume it in Python"
            " with “evaluate(examples, ..., out=..., resume=True)”"
        )
    if "data" not in values:
        check_present(request.data, "data=")
    changes = settings_in(flags.with_model_tables(values, request.models))
    settings = settings_to_resume(folder, manifest, request, changes)
    if manifest["settings"].get("max_cost") and settings.max_cost is None:
        say(
            "the cost limit applied to an earlier session; this one has no limit, unless you give "
            "--max-cost"
        )
    of_session = {"settings": settings, "out": folder, "resume": True}
    return to_command(request.model_copy(update=of_session), values)


@command("merge", panel=Heading.SCORING)
def merge(
    run: Annotated[Path, syntax.argument("RUN", "Folder that contains shard-1, ...")],
    *,
    partial: Annotated[
        bool,
        syntax.switch(
            "--partial", "Merge the existing shards; `textassay resume RUN` completes the run."
        ),
    ] = False,
    as_json: syntax.AsJson = False,
) -> int:
    """Merge RUN/shard-*, made by `score --shard I/N --out RUN/shard-I`, into one run.

    Shards of different data, prompts or models are refused. The shards are kept.

    Examples:
        textassay merge runs/large
        textassay merge runs/large --partial
    """
    from textassay.cli.commands.score import print_result
    from textassay.evaluation.run import Run

    result = _merge_shards(run, partial=partial)
    status = print_result(Run(folder=run), as_json=as_json)
    if result.missing:
        say(
            f"{result.missing} scores are missing; add them with: textassay resume {run}",
            style="yellow",
        )
        # a partial merge is a finished run with missing scores: status 1
        return Status.UNSCORED
    return status


def _merge_shards(run: Path, *, partial: bool) -> MergeResult:
    from textassay.evaluation.merging import merge as merged

    with capture_warnings("textassay.evaluation.merging"):
        result = merged(run, partial=partial)
    for name in result.differing:
        say(
            f"{name} differs between shards; each is kept under the name of its shard",
            style="yellow",
        )
    if count := result.unneeded_batches:
        say(
            f"{count} batch{'es' if count != 1 else ''} of the shards "
            f"{'are' if count != 1 else 'is'} left at the provider, as no score needs the answers",
            style="yellow",
        )
    return result
