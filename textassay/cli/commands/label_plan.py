"""`textassay label-plan`: how many more ratings, and of which examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables, say
from textassay.cli.flags import (
    MAPPED,
    AsJson,
    AspectMap,
    Confidence,
    Given,
    Labels,
    RatedData,
    ScaleOf,
    ScoresOrMetrics,
    Seed,
)
from textassay.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from textassay.calibration.columns import Columns
    from textassay.calibration.maps import Scales


@command(
    "label-plan",
    panel=DECIDING,
    examples=(
        "textassay label-plan runs/first rated.jsonl --half-width 0.05",
        "textassay label-plan runs/first rated.jsonl --half-width 0.05 --next 100 -o next.jsonl",
    ),
)
def label_plan(
    scores: ScoresOrMetrics,
    data: RatedData = None,
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
    given: Annotated[Given, MAPPED],
) -> None:
    """Forecast how many ratings an estimate needs, and draw the examples to rate next."""
    from textassay.calibration.columns import one_signature, scales_of
    from textassay.calibration.label_plan import plan_labels
    from textassay.cli.rated import CHOSEN, read_columns, read_people

    arguments.check_confidence(confidence)
    if (next_ is None) != (out is None):
        raise ConfigurationError("--next N and --out FILE go together")
    # the file holds the probabilities of an earlier draw; without them its ratings could not be
    # weighed
    if out is not None and out.exists():
        raise ConfigurationError(f"{out} exists; choose a new file")
    if labels == CHOSEN:
        raise ConfigurationError(
            "rows chosen by hand have no probability of having been drawn, so no plan can go on "
            "from them; --labels takes random or the file of an earlier plan"
        )
    rating_scales = arguments.scales(scale or ())
    people = read_people(scores, data, given, aspect_map or ())
    tables = read_columns(scores, people, aspect_map or (), labels)
    for columns in tables:
        one_signature(columns)
    scaled = [(columns, scales_of(columns, rating_scales)) for columns in tables]
    plans = [
        plan_labels(columns, half_width, scales=own, confidence=confidence, seed=seed)
        for columns, own in scaled
    ]
    print_tables(
        (table for plan in plans for table in plan.tables()),
        {"rows": [plan.as_dict() for plan in plans]},
        as_json=as_json,
        notes=(note for columns in tables for note in columns.notes()),
    )
    if next_ is not None and out is not None:
        # one file serves one estimate; the aspect that needs most ratings decides what is drawn
        widest = max(range(len(plans)), key=lambda at: plans[at].half_width)
        _draw(*scaled[widest], next_, out, seed)


def _draw(columns: Columns, scales: Scales, count: int, out: Path, seed: int) -> None:
    """Write a file of examples to rate next."""
    from textassay.calibration.label_plan import LOOKING, next_rows
    from textassay.cli.new_files import io_errors
    from textassay.runtime.storage.files import write_text

    rows = next_rows(columns, count, scales=scales, seed=seed)
    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    with io_errors(out):
        write_text(out, text)
    say(
        f"{count} examples to rate next written to {out}, by strata of {columns.score!r}; then:"
        f" textassay estimate SCORES DATA --labels {out} (as a further label-plan)"
    )
    say(LOOKING)
