"""`textassay plan`: have a model write the plan of Fusion-Eval."""

from __future__ import annotations

from typing import Annotated

from textassay.cli import arguments
from textassay.cli.exits import run_async
from textassay.cli.flags import JUDGING, RUNTIME, SET, Given
from textassay.cli.registry import MAKING, command
from textassay.cli.shared_flags import ToTable, Writers

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
    from textassay.cli import plan as plans

    flags, options, settings = arguments.for_models({**given, "model": model})
    order = plans.PlanCommand(
        out,
        flags["model"],
        flags.get("task"),
        flags.get("aspects"),
        flags.get("tools") or (),
        options,
        settings,
    )
    run_async(plans.execute(order))
