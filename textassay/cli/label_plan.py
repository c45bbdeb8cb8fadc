"""`textassay label-plan`: how many more ratings, and a file of the examples to rate next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from textassay.calibration.columns import one_signature, scales_of
from textassay.calibration.label_plan import LOOKING, next_rows, plan_labels
from textassay.cli.console import print_tables, say
from textassay.cli.decisions import CHOSEN, check_confidence, read_columns
from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.storage.files import write_text


def show(
    scores: Path,
    data: Path,
    *,
    half_width: float,
    count: int | None,
    out: Path | None,
    aspect_map: Sequence[str],
    confidence: float,
    scales: Mapping[str, tuple[float, float]],
    labels: str,
    seed: int,
    as_json: bool,
) -> None:
    """Print the forecast and write the file."""
    check_confidence(confidence)
    if (count is None) != (out is None):
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
    tables, _ = read_columns(scores, data, aspect_map, labels)
    for columns in tables:
        one_signature(columns)
    scaled = [(columns, scales_of(columns, scales)) for columns in tables]
    plans = [
        plan_labels(columns, half_width, scales=own, confidence=confidence, seed=seed)
        for columns, own in scaled
    ]
    document = {"rows": [plan.as_dict() for plan in plans]}
    print_tables(
        (table for plan in plans for table in plan.tables()),
        document,
        as_json=as_json,
        notes=(note for columns in tables for note in columns.notes()),
    )
    if count is not None and out is not None:
        # one file serves one estimate; the aspect that needs most ratings decides what is drawn
        widest = max(range(len(plans)), key=lambda at: plans[at].half_width)
        columns, own = scaled[widest]
        rows = next_rows(columns, count, scales=own, seed=seed)
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
        try:
            write_text(out, text)
        except OSError as error:
            raise StorageError(f"{out} cannot be written: {error}") from error
        say(
            f"{count} examples to rate next written to {out}, by strata of {columns.score!r}; then:"
            f" textassay estimate SCORES DATA --labels {out} (as a further label-plan)"
        )
        say(LOOKING)
