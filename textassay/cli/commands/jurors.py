"""`textassay jurors`: what each juror of a jury adds, for its price."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.flags import AsJson
from textassay.cli.registry import DECIDING, command
from textassay.cli.shared_flags import Confidence, Data, Seed


@command(
    "jurors",
    panel=DECIDING,
    examples=(
        "textassay score rated.jsonl --method jury -m juror=A -m juror=B -m juror=C --set"
        " output=jurors -o runs/jury",
        "textassay jurors runs/jury rated.jsonl",
    ),
)
def jurors(
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES", help="Run of a jury with output=jurors, or scores named ASPECT/JUROR."
        ),
    ],
    data: Data,
    *,
    aggregator: Annotated[
        str, typer.Option(metavar="NAME", help="Aggregator of the jury.")
    ] = "ridge",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Show what each juror adds to a jury, what it costs, and which ones to leave out."""
    from textassay.cli.jurors import show

    show(scores, data, aggregator=aggregator, confidence=confidence, seed=seed, as_json=as_json)
