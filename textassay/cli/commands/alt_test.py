"""`textassay alt-test`: may the judge stand in for a rater?"""

from __future__ import annotations

from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.flags import AsJson
from textassay.cli.registry import DECIDING, command
from textassay.cli.shared_flags import AspectMap, Confidence, Data, ScaleOf, Scores, Seed


@command(
    "alt-test",
    panel=DECIDING,
    examples=(
        "textassay alt-test runs/first rated.jsonl",
        "textassay alt-test runs/first rated.jsonl --rows-independent --epsilon 0.1 --metric match",
    ),
)
def alt_test(
    scores: Scores,
    data: Data,
    *,
    aspect_map: AspectMap = None,
    epsilon: Annotated[
        float,
        typer.Option(metavar="E", help="Reward for being cheaper than a rater, 0 to 1."),
    ] = 0.2,
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="rmse for graded ratings, match for categories."),
    ] = "rmse",
    rows_independent: Annotated[
        bool,
        typer.Option(
            "--rows-independent", help="Treat rows, not sources, as independent, as published."
        ),
    ] = False,
    pool: Annotated[
        bool, typer.Option("--pool", help="Add a row over all aspects together, as published.")
    ] = False,
    confidence: Confidence = 0.95,
    scale: ScaleOf = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Test whether the judge can replace a human rater, and whether a constant would, too."""
    from textassay.cli.alt_test import show

    show(
        scores,
        data,
        aspect_map=aspect_map or (),
        epsilon=epsilon,
        metric=metric,
        rows_independent=rows_independent,
        pool=pool,
        confidence=confidence,
        scales=arguments.scales(scale or ()),
        seed=seed,
        as_json=as_json,
    )
