"""`textassay cascade`: learn when a cheap judge may decide and when a strong one is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.flags import AsJson, Out
from textassay.cli.registry import DECIDING, command
from textassay.cli.shared_flags import AspectMap, Confidence, Data, ScaleOf, Scores, Seed


@command(
    "cascade",
    panel=DECIDING,
    examples=(
        "textassay score rated.jsonl --method jury -m juror=CHEAP -o runs/cheap",
        "textassay cascade runs/cheap rated.jsonl -o cascades/first",
        "textassay score new.jsonl --method jury -m juror=CHEAP -m juror=STRONG --escalate"
        " cascades/first -o runs/new",
    ),
)
def cascade(
    scores: Scores,
    data: Data,
    *,
    out: Out = None,
    strong: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Run of the strong judge alone, to compare with."),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="T", help="Distance from the human rating that counts as a disagreement."
        ),
    ] = 1.0,
    risk: Annotated[
        float,
        typer.Option(
            metavar="R", help="Accepted share of disagreements where the cheap judge decides."
        ),
    ] = 0.2,
    confidence: Confidence = 0.95,
    aspect_map: AspectMap = None,
    scale: ScaleOf = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Learn from ratings when a cheap judge can decide alone, with a bound on disagreements."""
    from textassay.cli.cascade import learn

    learn(
        scores,
        data,
        out,
        strong=strong,
        tolerance=tolerance,
        risk=risk,
        confidence=confidence,
        aspect_map=aspect_map or (),
        scales=arguments.scales(scale or ()),
        seed=seed,
        as_json=as_json,
    )
