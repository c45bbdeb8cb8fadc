"""`textassay meta`: agreement with human ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.flags import AsJson
from textassay.cli.registry import DECIDING, command


@command(
    "meta",
    panel=DECIDING,
    examples=(
        "textassay meta runs/first data.jsonl",
        "textassay meta runs/first data.jsonl --level dataset --level group --level system --json",
    ),
)
def meta(
    scores: Annotated[
        Path,
        typer.Argument(metavar="SCORES", help="Run folder, or JSON Lines with id, aspect, value."),
    ],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Examples with human ratings.")],
    *,
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL", help="dataset (default), group or system; may repeat."),
    ] = None,
    aspect_map: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCORE=HUMAN", help="Compare this score with that human rating; may repeat."
        ),
    ] = None,
    bootstrap: Annotated[
        int,
        typer.Option(metavar="N", help="Resamples of the groups for 95 % intervals; 0 for none."),
    ] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the bootstrap.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure how well scores agree with human ratings."""
    from textassay.cli.meta import show

    show(
        scores,
        data,
        levels=level or ["dataset"],
        mapping=aspect_map or (),
        bootstrap=bootstrap,
        seed=seed,
        as_json=as_json,
    )
