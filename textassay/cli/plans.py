"""`textassay plan`: lets a model write Fusion-Eval's plan and saves it as a file to edit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from textassay.cli.console import printable
from textassay.cli.new_files import check_new_file, connected
from textassay.methods import plans, tasks, tools_for
from textassay.methods.fusion_eval import FusionEval, FusionEvalOptions, planner_of
from textassay.runtime.errors import MalformedResponse
from textassay.runtime.messages import Plan
from textassay.runtime.settings import Settings
from textassay.tools import ToolScorer


@dataclass(frozen=True)
class PlanOrder:
    """One `plan`, read from the command line."""

    out: Path
    models: Mapping[str, str]
    task: str | None = None
    aspects: tuple[str, ...] | None = None
    tools: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)


async def carry_out(order: PlanOrder) -> None:
    """Have the plan written, save it, and print it.

    Raises:
        ConfigurationError: Something does not fit, or the file exists; nothing was asked.
        MalformedResponse: The model's plan cannot be used; nothing is written.
        ModelError: The model could not be asked.
    """
    check_new_file(order.out, "plan")
    options = FusionEvalOptions.read(order.options)
    task = tasks.load(order.task, order.aspects)
    async with connected(order.models, order.settings) as models:
        made = tools_for(FusionEval.name, order.tools, models)
        async with aclosing(ToolScorer(made)):
            written = await planner_of(models, task, made, options)()
    if not isinstance(written, Plan):
        raise MalformedResponse(f"{written.problem}; the model said: {written.text!r}")
    plans.save(written, order.out, source=f"written for {task.name} by {', '.join(order.models.values())}")
    typer.echo(printable(plans.as_toml(written)))
