"""`textassay label-plan`: how many more ratings, and of which examples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables, say
from textassay.cli.flags import (
    RATED,
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
from textassay.runtime.data.raters import SAMPLING_PROBABILITY
from textassay.runtime.errors import ConfigurationError
from textassay.table import Column, Note, Table


@command(
    "label-plan",
    panel=DECIDING,
    examples=(
        "textassay label-plan runs/first --half-width 0.05 --next 60 -o next.jsonl",
        "textassay label-plan runs/first --ratings ratings.jsonl --half-width 0.05 --next 60 -o"
        " next2.jsonl",
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
    given: Annotated[Given, RATED],
) -> None:
    """Forecast how many ratings an estimate needs, and draw the examples to rate next.

    Before the first rating there is nothing to forecast from, and the draw is by chance alone.
    """
    from textassay.calibration.columns import one_signature, scales_of
    from textassay.calibration.label_plan import first_rows, next_rows, plan_labels
    from textassay.cli.rated import CHOSEN, Rated

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
    rated = Rated(scores, data, given, aspect_map or (), picked=labels)
    if not rated.people.aspects and next_ is not None and out is not None:
        rows = first_rows(rated.judged, rated.people, next_, seed=seed)
        print_tables([_first_draw(rows)], {"rows": []}, as_json=as_json)
        _write(rows, out)
        return
    tables = rated.columns()
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
        columns, own = scaled[widest]
        _write(next_rows(columns, next_, scales=own, seed=seed), out)
        say(f"drawn by strata of {columns.score!r}")


def _first_draw(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        Column("drawn", "drawn", "count"),
        Column(SAMPLING_PROBABILITY, "probability of each", "number"),
    )
    note = "nothing is rated yet, so there is no forecast; the examples were drawn by chance alone"
    return Table(columns, [(len(rows), rows[0][SAMPLING_PROBABILITY])], (Note(note),))


def _write(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write a file of examples to rate next, and of what is rated, with probabilities."""
    from textassay.calibration.label_plan import LOOKING
    from textassay.cli.new_files import io_errors
    from textassay.runtime.storage.files import write_text

    text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    with io_errors(out):
        write_text(out, text)
    rated = sum(row["rated"] for row in rows)
    say(
        f"{len(rows) - rated} examples to rate next written to {out}"
        + (f", and the probabilities of the {rated} that are rated" if rated else "")
    )
    say(
        f"then: textassay annotate DATA --task TASK --next-from {out} --out RATINGS, and"
        f" textassay estimate SCORES DATA --ratings RATINGS --labels {out} (as a further"
        " label-plan)"
    )
    say(LOOKING)
