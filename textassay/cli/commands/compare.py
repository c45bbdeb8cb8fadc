"""`textassay compare`: two runs over the same texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables, say
from textassay.cli.exits import INCONCLUSIVE, UNSCORED
from textassay.cli.flags import RATED, AsJson, Confidence, Given, Seed

_STATUS = {"holds": 0, "fails": UNSCORED, "inconclusive": INCONCLUSIVE}
"""Statuses are part of the interface: CI tells a regression from too few texts."""


@command(
    "compare",
    panel=DECIDING,
    examples=(
        "textassay compare runs/new runs/old data.jsonl",
        "textassay compare runs/new runs/old data.jsonl --fail-below -0.1",
    ),
)
def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="The first run or score file.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The second run or score file.")],
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="Their data: sources, and ratings if there are any."),
    ] = None,
    *,
    aspects: Annotated[
        list[str] | None,
        typer.Option("--aspects", "-a", metavar="A,B", help="Aspects to compare; may repeat."),
    ] = None,
    fail_below: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Exit with 0 if A - B is at least X, 1 if it is below, 4 if the interval spans X.",
        ),
    ] = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
    given: Annotated[Given, RATED],
) -> int:
    """Compare two runs: paired differences A - B by source, with intervals and tests."""
    from textassay.calibration.columns import read_judged
    from textassay.calibration.compare_runs import (
        agreement_difference,
        compare_runs,
        comparison_tables,
        gate,
    )
    from textassay.cli.rated import read_people

    arguments.check_confidence(confidence)
    people = None if data is None else read_people(run_a, data, given)
    a, b = read_judged(run_a), read_judged(run_b)
    chosen = arguments.typed_names(aspects)
    rows = compare_runs(a, b, people, aspects=chosen, confidence=confidence, seed=seed)
    names = [row.aspect for row in rows]
    agreement = [] if people is None else agreement_difference(a, b, people, names, seed=seed)
    document = {"rows": [row.as_dict() for row in rows], "agreement": agreement}
    print_tables(comparison_tables(rows, agreement, people), document, as_json=as_json)
    if fail_below is None:
        return 0
    verdict = gate(rows, fail_below)
    say(f"gate: a - b of at least {fail_below:g} {verdict}")
    return _STATUS[verdict]
