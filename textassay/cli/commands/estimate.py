"""`textassay estimate`: what people would say on average, from many scores and a few ratings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName

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
    from textassay.calibration.intervals import weight_named
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
