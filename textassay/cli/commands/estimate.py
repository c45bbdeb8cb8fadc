"""`textassay estimate|label-plan`: what people would say on average, and whom to ask next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables, say
from textassay.cli.flags import (
    ALLOWING,
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
    Weight,
)
from textassay.runtime.data.raters import SAMPLING_PROBABILITY
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.table import Column, Note, Table

if TYPE_CHECKING:
    from textassay.calibration.calibration import Calibration
    from textassay.calibration.columns import Columns
    from textassay.calibration.maps import Map
    from textassay.cli.rated import Rated


@command(
    "estimate",
    panel=DECIDING,
    examples=(
        "textassay estimate runs/first rated.jsonl",
        "textassay estimate runs/first rated.jsonl --by system --json",
    ),
)
def estimate(
    scores: ScoresOrMetrics,
    data: RatedData = None,
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
    given: Annotated[Given, RATED | ALLOWING],
) -> None:
    """Estimate means on the human scale: judge only, labels only, and both together."""
    from textassay.calibration.calibration import load as load_calibration
    from textassay.calibration.columns import one_signature, scales_of
    from textassay.calibration.estimate import estimate_means
    from textassay.calibration.means import weight_named
    from textassay.cli.rated import CHOSEN, Rated

    if by not in (None, "system"):
        raise UnknownName("unit of --by", str(by), ["system"])
    over = weight_named(weight)
    arguments.check_confidence(confidence)
    allowed = arguments.allow_change(given.get("set"))
    rating_scales = arguments.scales(scale or ())
    read = None if calibration is None else load_calibration(calibration)
    rated = Rated(scores, data, given, aspect_map or (), picked=labels)
    if by and not rated.people.aspects:
        raise DataError(
            "the data contain no human ratings, so there is nothing to estimate from; which system"
            " the judge scores higher: textassay compare RUN --systems A B"
        )
    tables = rated.columns()
    estimates = []
    for columns in tables:
        # before anything is learned: scores of two judges have two kinds of errors
        signature = one_signature(columns, allow_change=allowed)
        if by and all(system is None for system in columns.systems):
            raise ConfigurationError(
                "--by system needs the field 'system' in DATA, and no row has it"
            )
        learned, method = _from_folder(read, columns, rated, signature, allowed)
        estimates.append(
            estimate_means(
                columns,
                scales=scales_of(columns, rating_scales),
                by_system=by is not None,
                confidence=confidence,
                chosen=labels == CHOSEN,
                calibration=learned,
                method=method,
                seed=seed,
                weight=over,
            )
        )
    document = {
        "rows": [row.as_dict() for one in estimates for row in one.rows],
        "differences": [delta.as_dict() for one in estimates for delta in one.differences],
        "assumes": list(dict.fromkeys(note for one in estimates for note in one.assumes)),
    }
    print_tables(
        (table for one in estimates for table in one.tables()),
        document,
        as_json=as_json,
        notes=(note for columns in tables for note in columns.notes()),
    )


def _from_folder(
    read: Calibration | None,
    columns: Columns,
    rated: Rated,
    signature: str,
    allowed: bool,
) -> tuple[Map | None, str]:
    """Return the folder's map, or none if it has seen these very ratings.

    Then its kind is cross-fitted.
    """
    if read is None:
        return None, "auto"
    own = read.of(columns.score)
    if own is None:
        known = [one.aspect for one in read.aspects]
        raise UnknownName("aspect of the calibration", columns.score, known)
    read.check(columns.score, signature, allow_change=allowed)
    # a map applied to the ratings it was learned from fits them too well, and the correction would
    # find too little error
    if read.sources & rated.sources([columns]):
        say(
            f"{columns.score}: the calibration has seen ratings of these sources, so its map "
            f"({own.kind}) is learned again across sources",
            style="yellow",
        )
        return None, own.kind
    return own.map, own.kind


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
    from textassay.cli.exits import io_errors
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
