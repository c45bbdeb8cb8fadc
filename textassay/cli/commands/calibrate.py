"""`textassay calibrate`: read a judge's scores as people's ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.flags import AsJson, Out
from textassay.cli.registry import DECIDING, command
from textassay.cli.shared_flags import (
    AllowChange,
    AspectMap,
    Labels,
    ScaleOf,
    Scores,
    Seed,
)


@command(
    "calibrate",
    panel=DECIDING,
    examples=(
        "textassay calibrate runs/first rated.jsonl -o calibrations/first",
        "textassay calibrate runs/second --apply calibrations/first -o runs/second-calibrated",
    ),
)
def calibrate(
    scores: Scores,
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="Examples with human ratings.")
    ] = None,
    *,
    out: Out = None,
    apply: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Apply this calibration to the run; --out is a new run."),
    ] = None,
    aspect_map: AspectMap = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="auto, isotonic, linear, shift or ordinal.")
    ] = "auto",
    coverage: Annotated[
        float, typer.Option(metavar="C", help="Share of ratings that intervals should contain.")
    ] = 0.9,
    scale: ScaleOf = None,
    labels: Labels = "random",
    seed: Seed = 0,
    set_: AllowChange = None,
    as_json: AsJson = False,
) -> int:
    """Learn to map a judge's scores to human ratings, with an interval around each."""
    # imported when the command runs: scipy takes most of a second, and every help would pay for it
    from textassay.cli import calibrate as work

    if apply is not None:
        return work.apply(scores, data, apply, out, {"set": set_}, as_json=as_json)
    return work.learn(
        scores,
        data,
        out,
        aspect_map=aspect_map or (),
        method=method,
        coverage=coverage,
        scales=arguments.scales(scale or ()),
        labels=labels,
        seed=seed,
        given={"set": set_},
        as_json=as_json,
    )
