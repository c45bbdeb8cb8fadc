"""`textassay estimate`: means on the raters' scale as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textassay.calibration.calibration import Calibration
from textassay.calibration.calibration import load as load_calibration
from textassay.calibration.columns import Columns, People, one_signature, scales_of
from textassay.calibration.correction import weight_named
from textassay.calibration.estimate import estimate_means
from textassay.calibration.maps import Map
from textassay.cli.calibrate import sources_of
from textassay.cli.console import print_tables, say
from textassay.cli.decisions import (
    CHOSEN,
    allow_change,
    check_confidence,
    read_columns,
)
from textassay.runtime.errors import ConfigurationError, UnknownName


def show(
    scores: Path,
    data: Path,
    *,
    by: str | None,
    calibration: Path | None,
    aspect_map: Sequence[str],
    confidence: float,
    scales: Mapping[str, tuple[float, float]],
    labels: str,
    weight: str,
    seed: int,
    as_json: bool,
    given: Mapping[str, Any],
) -> None:
    """Print the estimates."""
    if by not in (None, "system"):
        raise UnknownName("unit of --by", str(by), ["system"])
    over = weight_named(weight)
    check_confidence(confidence)
    allowed = allow_change(given)
    read = None if calibration is None else load_calibration(calibration)
    tables, people = read_columns(scores, data, aspect_map, labels)
    estimates = []
    for columns in tables:
        # before anything is learned: scores of two judges have two kinds of errors
        signature = one_signature(columns, allow_change=allowed)
        if by and all(system is None for system in columns.systems):
            raise ConfigurationError(
                "--by system needs the field 'system' in DATA, and no row has it"
            )
        learned, method = _from_folder(read, columns, people, signature, allowed)
        estimates.append(
            estimate_means(
                columns,
                scales=scales_of(columns, scales),
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
    people: People,
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
    if read.sources & sources_of([columns], people):
        say(
            f"{columns.score}: the calibration has seen ratings of these sources, so its map "
            f"({own.kind}) is learned again across sources",
            style="yellow",
        )
        return None, own.kind
    return own.map, own.kind
