"""`textassay compare`: two runs over the same texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.flags import AsJson
from textassay.cli.registry import DECIDING, command
from textassay.cli.shared_flags import Confidence, Seed, Weight


@command(
    "compare",
    panel=DECIDING,
    examples=(
        "textassay compare runs/new runs/old data.jsonl",
        "textassay compare runs/new runs/old data.jsonl --fail-below -0.1",
    ),
)
def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="The first run or score file.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The second run or score file.")],
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="Their data: sources, and ratings if there are any."),
    ] = None,
    *,
    aspects: Annotated[
        list[str] | None,
        typer.Option("--aspects", "-a", metavar="A,B", help="Aspects to compare; may repeat."),
    ] = None,
    fail_below: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Exit with 0 if A - B is at least X, 1 if it is below, 4 if the interval spans X.",
        ),
    ] = None,
    confidence: Confidence = 0.95,
    weight: Weight = "sources",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> int:
    """Compare two runs: paired differences A - B by source, with intervals and tests."""
    from textassay.cli.compare import show

    return show(
        run_a,
        run_b,
        data,
        aspects=arguments.typed_names(aspects),
        fail_below=fail_below,
        confidence=confidence,
        weight=weight,
        seed=seed,
        as_json=as_json,
    )
