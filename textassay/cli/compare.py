"""`textassay compare`: paired differences of two runs as tables or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textassay.calibration.columns import People, read_judged
from textassay.calibration.compare_runs import (
    GateVerdict,
    agreement_difference,
    compare_runs,
    comparison_tables,
    gate,
)
from textassay.calibration.correction import weight_named
from textassay.cli.console import print_tables, say
from textassay.cli.decisions import check_confidence
from textassay.cli.exits import INCONCLUSIVE

# the statuses are part of the interface: CI tells a regression (1) from too few texts (4)
_STATUS: dict[GateVerdict, int] = {"holds": 0, "fails": 1, "inconclusive": INCONCLUSIVE}


def show(
    run_a: Path,
    run_b: Path,
    data: Path | None,
    *,
    aspects: Sequence[str] | None,
    fail_below: float | None,
    confidence: float,
    weight: str,
    seed: int,
    as_json: bool,
) -> int:
    """Print the differences and return the exit status."""
    check_confidence(confidence)
    over = weight_named(weight)
    people = None if data is None else People(data)
    a, b = read_judged(run_a), read_judged(run_b)
    rows = compare_runs(
        a, b, people, aspects=aspects, confidence=confidence, seed=seed, weight=over
    )
    names = [row.aspect for row in rows]
    agreement = [] if people is None else agreement_difference(a, b, people, names, seed=seed)
    document = {"rows": [row.as_dict() for row in rows], "agreement": agreement}
    print_tables(comparison_tables(rows, agreement, people), document, as_json=as_json)
    if fail_below is None:
        return 0
    verdict = gate(rows, fail_below)
    say(f"gate: a - b of at least {fail_below:g} {verdict}")
    return _STATUS[verdict]
