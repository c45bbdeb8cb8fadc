"""`textassay estimate`: means on the raters' scale as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textassay.calibration import folder
from textassay.calibration.columns import Columns, People
from textassay.calibration.estimate import estimate_means
from textassay.calibration.estimate_rows import EstimateRow, Estimates
from textassay.calibration.maps import Map
from textassay.calibration.prepared import one_signature, scales_of
from textassay.cli.calibrate import sources_of
from textassay.cli.console import results, say
from textassay.cli.decisions import (
    CHOSEN,
    allow_change,
    check_confidence,
    interval,
    name,
    number,
    print_json,
    print_notes,
    read_columns,
    table,
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
    seed: int,
    as_json: bool,
    given: Mapping[str, Any],
) -> None:
    """Print the estimates.

    Raises:
        ConfigurationError: A file, name or number does not fit.
    """
    if by not in (None, "system"):
        raise UnknownName("unit of --by", str(by), ["system"])
    check_confidence(confidence)
    allowed = allow_change(given)
    read = None if calibration is None else folder.load(calibration)
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
            )
        )
    if as_json:
        rows = [row.as_dict() for one in estimates for row in one.rows]
        differences = [delta.as_dict() for one in estimates for delta in one.differences]
        assumes = list(dict.fromkeys(note for one in estimates for note in one.assumes))
        print_json({"rows": rows, "differences": differences, "assumes": assumes})
    else:
        _draw(estimates, confidence)


def _from_folder(
    read: folder.Calibration | None,
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


def _draw(estimates: Sequence[Estimates], confidence: float) -> None:
    console = results()
    drawn = table(
        "score", "system", "n", "rated", "sources", "judge only", "labels only", "corrected",
        "lambda", "1 label =", "rank", left=2,
    )  # fmt: skip
    for one in estimates:
        for row in one.rows:
            rank = "-" if row.rank is None else "-".join(map(str, dict.fromkeys(row.rank)))
            drawn.add_row(
                name(row.aspect), name(row.system), str(row.n), str(row.rated),
                f"{row.rated_groups}/{row.groups}", interval(row.judge_only),
                interval(row.labels_only), "refused" if row.refused else interval(row.corrected),
                number(row.weight, 2), number(row.worth, 2), rank,
            )  # fmt: skip
    console.print(drawn)
    differences = [delta for one in estimates for delta in one.differences]
    if differences:
        pairs = table("score", "a", "b", "a - b", "p", "p (Holm)", left=3)
        for delta in differences:
            pairs.add_row(
                name(delta.aspect), name(delta.a), name(delta.b), interval(delta.difference),
                number(delta.p, 4), number(delta.p_holm, 4),
            )  # fmt: skip
        console.print(pairs)
    say(f"intervals: {confidence:.0%}, over sources. Assumed:")
    print_notes(f"  {note}" for one in estimates for note in one.assumes)
    print_notes(note for one in estimates for row in one.rows for note in _notes(row))


def _notes(row: EstimateRow) -> list[str]:
    where = row.aspect if row.system is None else f"{row.aspect}, {row.system}"
    notes = []
    if row.refused:
        notes.append(f"{where}: refused: {row.refused}")
    elif row.method == "borrowed":
        notes.append(
            f"{where}: {row.rated_groups} rated sources of its own are too few, so the judge is "
            "assumed to err on it as on the others"
        )
    elif row.method == "rogan-gladen":
        notes.append(f"{where}: yes/no, corrected for sensitivity and specificity (Rogan-Gladen)")
    missing = row.unscored
    if missing["n"]:
        notes.append(
            f"{where}: {missing['n']} rows ({missing['share']:.1%}) have no score and are not in"
            f" the estimate; {missing['rated']} of them are rated, mean"
            f" {number(missing['mean_rating'])}"
        )
    if "worst_case" in missing:
        notes.append(
            f"{where}: with them the mean would be between {missing['worst_case']:.3f} and "
            f"{missing['best_case']:.3f}, whatever they are"
        )
    return notes
