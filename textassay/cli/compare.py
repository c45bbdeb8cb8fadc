"""`textassay compare`: paired differences of two runs as tables or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from textassay.calibration.columns import People
from textassay.calibration.compare_runs import (
    CompareRow,
    GateVerdict,
    agreement_difference,
    compare_runs,
    gate,
)
from textassay.calibration.judged import read_judged
from textassay.cli.console import results, say
from textassay.cli.decisions import (
    check_confidence,
    interval,
    name,
    number,
    print_json,
    table,
)
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
    seed: int,
    as_json: bool,
) -> int:
    """Print the differences and return the exit status.

    Raises:
        ConfigurationError: A file or name does not fit.
    """
    check_confidence(confidence)
    people = None if data is None else People(data)
    a, b = read_judged(run_a), read_judged(run_b)
    rows = compare_runs(a, b, people, aspects=aspects, confidence=confidence, seed=seed)
    names = [row.aspect for row in rows]
    agreement = [] if people is None else agreement_difference(a, b, people, names, seed=seed)
    if as_json:
        print_json({"rows": [row.as_dict() for row in rows], "agreement": agreement})
    else:
        console = results()
        console.print(_drawn(rows))
        if agreement:
            lines = table(
                "agreement with people", "", "n", "a", "b", "a - b", "95 % interval", "p", left=2
            )
            for one in agreement:
                span = "-" if one["low"] is None else f"[{one['low']:.3f}, {one['high']:.3f}]"
                lines.add_row(
                    name(one["aspect"]), one["coefficient"], str(one["n"]), number(one["a"]),
                    number(one["b"]), number(one["difference"]), span, number(one["p"], 4),
                )  # fmt: skip
            console.print(lines)
    _print_notes(rows, people, data)
    if people is not None:
        _print_agreement_notes(rows, people, agreement)
    if fail_below is None:
        return 0
    verdict = gate(rows, fail_below)
    say(f"gate: a - b of at least {fail_below:g} {verdict}")
    return _STATUS[verdict]


def _drawn(rows: Sequence[CompareRow]) -> Table:
    lines = table(
        "aspect", "n", "sources", "a", "b", "a - b", "p", "p (Holm)", "wins", "ties", "losses"
    )
    for row in rows:
        lines.add_row(
            name(row.aspect), str(row.n), str(row.groups), number(row.a), number(row.b),
            interval(row.difference), number(row.p, 4), number(row.p_holm, 4), number(row.wins, 0),
            number(row.ties, 0), number(row.losses, 0),
        )  # fmt: skip
    return lines


def _print_notes(rows: Sequence[CompareRow], people: People | None, data: Path | None) -> None:
    if people is None:
        say("every text counts as a source of its own; give DATA to pair by source")
    elif all(group is None for group in people.groups):
        say(f"every text counts as a source of its own: {data} has no field 'group'")
    for row in rows:
        if row.unscored:
            say(
                f"{row.aspect}: {row.unscored} texts that a run left unscored are not in it",
                style="yellow",
            )
        if not row.same_scale:
            first, second = (f"{low:g} to {high:g}" for low, high in filter(None, row.scales))
            say(
                f"{row.aspect}: one run scores from {first}, the other from {second}, so a - b"
                " means nothing; compare their agreement with people (give DATA with ratings), or"
                " their means on the raters' scale (textassay estimate)",
                style="yellow",
            )
        elif row.difference.low is None:
            say(f"{row.aspect}: one source alone gives no interval", style="yellow")
        # not an error: comparing two judges is one of the two uses of this command
        if row.signatures[0] != row.signatures[1]:
            say(
                f"{row.aspect}: the runs are of two judges or settings, so the difference is theirs"
            )


def _print_agreement_notes(
    rows: Sequence[CompareRow], people: People, agreement: Sequence[Mapping[str, Any]]
) -> None:
    unrated = [row.aspect for row in rows if row.aspect not in people.aspects]
    if unrated:
        say(f"{', '.join(unrated)}: no ratings in the data, so agreement is not compared")
    undefined = {one["aspect"]: None for one in agreement if one["difference"] is None}
    if undefined:
        say(
            f"{', '.join(undefined)}: agreement is undefined, because the ratings or a run's scores"
            " are the same on all rated texts",
            style="yellow",
        )
