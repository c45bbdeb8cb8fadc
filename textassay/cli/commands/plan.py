"""`textassay plan`: have a model write the plan of Fusion-Eval."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from textassay.cli import arguments
from textassay.cli.app import MAKING, command
from textassay.cli.exits import run_async
from textassay.cli.flags import JUDGING, RUNTIME, SET, Given, ToTable, Writers
from textassay.cli.new_files import check_new_file, io_errors, opened_models
from textassay.display import printable
from textassay.runtime.errors import MalformedResponse
from textassay.runtime.messages import Plan
from textassay.runtime.settings import Settings

FLAGS = SET | JUDGING | RUNTIME.only("api_base", "api_key_env", "max_cost", "price", "cache")


@command(
    "plan",
    panel=MAKING,
    examples=(
        "textassay plan -t dialogue --tools rouge,nli -m openai/gpt-4.1 -o plan.toml",
        (
            "textassay score data.jsonl --method fusion-eval --set plan=plan.toml -m openai/gpt-4.1"
            " -o runs/fused"
        ),
    ),
)
def plan(
    *,
    out: ToTable,
    model: Writers,
    given: Annotated[Given, FLAGS],
) -> None:
    """Have a model write the plan of fusion-eval, and save it for editing."""
    flags, options, settings = arguments.for_models({**given, "model": model})
    run_async(_write(out, flags, options, settings))


async def _write(
    out: Path, flags: Mapping[str, Any], chosen: Mapping[str, Any], settings: Settings
) -> None:
    """Have the plan written, save it, and print it.

    Raises:
        ConfigurationError: Something does not fit, or the file exists; nothing was asked.
        Stopped: The model could not be asked or its plan cannot be used (see the cause);
            nothing is written.
        StorageError: The file cannot be written.
    """
    from textassay.methods.by_name import tools_for
    from textassay.methods.fusion_eval import FusionEval, FusionEvalOptions, planner_of
    from textassay.methods.library import plans, tasks
    from textassay.tools import ToolScorer

    check_new_file(out, "plan")
    options = FusionEvalOptions.read(chosen)
    task = tasks.load(flags.get("task"), flags.get("aspects"))
    async with opened_models(flags["model"], settings) as models:
        made = tools_for(FusionEval.name, flags.get("tools") or (), models)
        async with ToolScorer(made):
            plan = await planner_of(models, task, made, options)()
        # nothing is saved that `score` would refuse later
        if not isinstance(plan, Plan):
            raise MalformedResponse(f"{plan.problem}; the model said: {plan.text!r}")
    writers = ", ".join(flags["model"].values())
    with io_errors(out):
        plans.save(plan, out, source=f"written for {task.name} by {writers}")
    typer.echo(printable(plans.as_toml(plan)))
