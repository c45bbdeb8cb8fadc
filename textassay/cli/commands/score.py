"""`textassay score`: judge every example and write the scores to a run folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.app import SCORING, command
from textassay.cli.exits import run_async
from textassay.cli.flags import (
    CONFIG_KEYS,
    SCORE,
    AsJson,
    Given,
    MethodName,
    Models,
    OptionalData,
    Out,
    option_of,
)
from textassay.evaluation.request import RunRequest


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
    calibration: Annotated[
        str | None,
        option_of(RunRequest, "calibration"),
    ] = None,
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
    read, chosen = arguments.with_config(flags, CONFIG_KEYS)
    # as a dry run, so that neither --out nor a key is needed to look at prompts
    if show_prompts is not None:
        from textassay.cli.commands.show import show_prompts as show

        request = build_command({**read, "dry_run": True}, chosen).request
        run_async(show(request, show_prompts))
        return 0
    parsed = replace(build_command(read, chosen), as_json=as_json)
    # a dry run only counts, which one process does as well
    if parsed.workers is not None and not parsed.dry:
        from textassay.cli.workers import score_with_workers

        return run_async(score_with_workers(parsed, parsed.workers))
    return run_async(execute(parsed))
