"""`textassay alt-test`: the alternative annotator test as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from textassay.calibration.alternative_annotator import annotator_test, pooled_annotator_test
from textassay.calibration.columns import one_signature, scales_of
from textassay.cli.console import print_tables
from textassay.cli.decisions import check_confidence, read_columns
from textassay.runtime.errors import ConfigurationError


def show(
    scores: Path,
    data: Path,
    *,
    aspect_map: Sequence[str],
    epsilon: float,
    metric: str,
    rows_independent: bool,
    pool: bool,
    confidence: float,
    scales: Mapping[str, tuple[float, float]],
    seed: int,
    as_json: bool,
) -> None:
    """Print the test of each score."""
    check_confidence(confidence)
    if not 0 <= epsilon < 1:
        raise ConfigurationError(f"--epsilon must be between 0 and 1, such as 0.2, not {epsilon!r}")
    tables, _ = read_columns(scores, data, aspect_map)
    for columns in tables:
        # judges must not be mixed even here: each would pass or fail by the other's scores
        one_signature(columns)
    scaled = [(columns, scales_of(columns, scales)) for columns in tables]
    options = {"epsilon": epsilon, "metric": metric, "confidence": confidence, "seed": seed}
    tests = [
        annotator_test(columns, scales=own, rows_independent=rows_independent, **options)  # type: ignore[arg-type]
        for columns, own in scaled
    ]
    if pool and len(scaled) > 1:
        tests.append(pooled_annotator_test(scaled, rows_independent=rows_independent, **options))  # type: ignore[arg-type]
    document = {"rows": [one.as_dict() for one in tests]}
    print_tables(
        (table for one in tests for table in one.tables()),
        document,
        as_json=as_json,
        notes=(note for columns in tables for note in columns.notes()),
    )
