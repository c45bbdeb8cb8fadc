"""`textassay label-plan`: how many more ratings, and of which examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.flags import AsJson
from textassay.cli.registry import DECIDING, command
from textassay.cli.shared_flags import AspectMap, Confidence, Data, Labels, ScaleOf, Scores, Seed


@command(
    "label-plan",
    panel=DECIDING,
    examples=(
        "textassay label-plan runs/first rated.jsonl --half-width 0.05",
        "textassay label-plan runs/first rated.jsonl --half-width 0.05 --next 100 -o next.jsonl",
    ),
)
def label_plan(
    scores: Scores,
    data: Data,
    *,
    half_width: Annotated[
        float, typer.Option(metavar="W", help="Target half-width of the interval.")
    ],
    next_: Annotated[
        int | None,
        typer.Option("--next", metavar="N", help="Number of examples to draw for rating next."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to create for these examples, with their probabilities.",
        ),
    ] = None,
    aspect_map: AspectMap = None,
    confidence: Confidence = 0.95,
    scale: ScaleOf = None,
    labels: Labels = "random",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Forecast how many ratings an estimate needs, and draw the examples to rate next."""
    from textassay.cli.label_plan import show

    show(
        scores,
        data,
        half_width=half_width,
        count=next_,
        out=out,
        aspect_map=aspect_map or (),
        confidence=confidence,
        scales=arguments.scales(scale or ()),
        labels=labels,
        seed=seed,
        as_json=as_json,
    )
