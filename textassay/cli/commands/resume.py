"""`textassay resume`: continue a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from textassay.cli.commands.score import score_keys
from textassay.cli.exits import run_async
from textassay.cli.flags import CONFIG, LOG, PROGRESS, RUNTIME, WORKERS, AsJson, Given, RunFolder
from textassay.cli.registry import SCORING, command
from textassay.runtime.errors import ConfigurationError


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
    from textassay.cli.score import (
        command_to_resume,
        execute,
        flags_to_resume,
        say_if_unlimited,
    )
    from textassay.evaluation.shards import is_divided

    read = flags_to_resume({**given, "data": data}, score_keys())
    if is_divided(run):
        from textassay.cli.merge import merge_to_resume

        merge_to_resume(run)
    order = command_to_resume(run, read)
    say_if_unlimited(run, order.settings)
    if order.spec.stress is not None:
        if order.workers is not None:
            raise ConfigurationError(
                f"a stress run cannot be resumed with --{order.workers.flag}: leave it out"
            )
        from textassay.cli.stress import execute as execute_stress
        from textassay.cli.stress import request_to_resume

        return run_async(execute_stress(request_to_resume(order), as_json=as_json))
    order = replace(order, as_json=as_json)
    if order.workers is not None:
        from textassay.cli.workers import score_with_workers

        return run_async(score_with_workers(order, order.workers))
    return run_async(execute(order))
