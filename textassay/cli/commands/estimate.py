"""`textassay estimate`: what people would say on average, from many scores and a few ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.flags import AsJson
from textassay.cli.registry import DECIDING, command
from textassay.cli.shared_flags import (
    AllowChange,
    AspectMap,
    Confidence,
    Data,
    Labels,
    ScaleOf,
    Scores,
    Seed,
    Weight,
)


@command(
    "estimate",
    panel=DECIDING,
    examples=(
        "textassay estimate runs/first rated.jsonl",
        "textassay estimate runs/first rated.jsonl --by system --json",
    ),
)
def estimate(
    scores: Scores,
    data: Data,
    *,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="system", help="Also estimate per system, and compare each pair of systems."
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Calibration learned from other ratings."),
    ] = None,
    aspect_map: AspectMap = None,
    confidence: Confidence = 0.95,
    scale: ScaleOf = None,
    labels: Labels = "random",
    weight: Weight = "sources",
    seed: Seed = 0,
    as_json: AsJson = False,
    set_: AllowChange = None,
) -> None:
    """Estimate means on the human scale: judge only, labels only, and both together."""
    from textassay.cli.estimate import show

    show(
        scores,
        data,
        by=by,
        calibration=calibration,
        aspect_map=aspect_map or (),
        confidence=confidence,
        scales=arguments.scales(scale or ()),
        labels=labels,
        weight=weight,
        seed=seed,
        as_json=as_json,
        given={"set": set_},
    )
