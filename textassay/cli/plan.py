"""`textassay plan`: lets a model write Fusion-Eval's plan and saves it as a file to edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from textassay.cli.new_files import check_new_file, io_errors, opened_models
from textassay.display import printable
from textassay.methods.by_name import tools_for
from textassay.methods.fusion_eval import FusionEval, FusionEvalOptions, planner_of
from textassay.methods.library import plans, tasks
from textassay.runtime.errors import MalformedResponse
from textassay.runtime.messages import Plan
from textassay.runtime.settings import Settings
from textassay.tools import ToolScorer


@dataclass(frozen=True)
class PlanCommand:
    """One `plan`, read from the command line."""

    out: Path
    models: Mapping[str, str]
    task: str | None = None
    aspects: tuple[str, ...] | None = None
    tools: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)


async def execute(order: PlanCommand) -> None:
    """Have the plan written, save it, and print it.

    Raises:
        ConfigurationError: Something does not fit, or the file exists; nothing was asked.
        Stopped: The model could not be asked or its plan cannot be used (see the cause);
            nothing is written.
        StorageError: The file cannot be written.
    """
    check_new_file(order.out, "plan")
    options = FusionEvalOptions.read(order.options)
    task = tasks.load(order.task, order.aspects)
    async with opened_models(order.models, order.settings) as models:
        made = tools_for(FusionEval.name, order.tools, models)
        async with ToolScorer(made):
            plan = await planner_of(models, task, made, options)()
        # nothing is saved that `score` would refuse later
        if not isinstance(plan, Plan):
            raise MalformedResponse(f"{plan.problem}; the model said: {plan.text!r}")
    with io_errors(order.out):
        plans.save(
            plan, order.out, source=f"written for {task.name} by {', '.join(order.models.values())}"
        )
    typer.echo(printable(plans.as_toml(plan)))
