"""`textassay resume`: continue a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from textassay.cli import arguments
from textassay.cli.app import SCORING, command
from textassay.cli.exits import run_async
from textassay.cli.flags import (
    CONFIG,
    CONFIG_KEYS,
    LOG,
    PROGRESS,
    RUNTIME,
    WORKERS,
    AsJson,
    Given,
    RunFolder,
)
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import settings_in, split_settings


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
    from textassay.cli.scoring import command_to_resume, execute, say_if_unlimited
    from textassay.evaluation.merging import is_divided

    read = _flags({**given, "data": data}, CONFIG_KEYS)
    if is_divided(run):
        from textassay.cli.commands.merge import merge_to_resume

        merge_to_resume(run)
    parsed = command_to_resume(run, read)
    say_if_unlimited(run, parsed.request.settings)
    if parsed.request.stress is not None:
        if parsed.workers is not None:
            raise ConfigurationError(
                f"a stress run cannot be resumed with --{parsed.workers.flag}: leave it out"
            )
        from textassay.cli.commands.stress import command_to_resume_stress
        from textassay.cli.commands.stress import execute as execute_stress

        return run_async(execute_stress(command_to_resume_stress(parsed), as_json=as_json))
    parsed = replace(parsed, as_json=as_json)
    if parsed.workers is not None:
        from textassay.cli.workers import score_with_workers

        return run_async(score_with_workers(parsed, parsed.workers))
    return run_async(execute(parsed))


def _flags(typed: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the flags of `resume`, laid over the settings of the file of `--config`.

    The file may be the one that the run was made with: what it says of the run itself, such as its
    method and data, stays as the run has it.

    Args:
        typed: The flags as they were typed, `config` among them.
        known: Keys that the file may have.

    Raises:
        ConfigurationError: A value or the file cannot be read.
    """
    path = typed.get("config")
    flags = arguments.read({name: value for name, value in typed.items() if name != "config"})
    keys = [key for key in known if key not in ("config", "field")]
    configured = arguments.config_file(path, keys)
    runtime, _ = split_settings(configured.get("set", {}))
    described = {"model": configured.get("model", {})}  # by the tables, as they were called
    return {**described, **settings_in({**configured, **runtime}), **flags}
