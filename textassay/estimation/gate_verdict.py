"""The verdict of a gate on the ends of intervals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from textassay.estimation.compare_rows import CompareRow
from textassay.table import Estimate

GateVerdict = Literal["holds", "fails", "inconclusive"]


def gate(rows: Iterable[CompareRow], fail_below: float) -> GateVerdict:
    """Judge whether the first run's advantage is at least `fail_below` on every aspect.

    It fails if an interval lies below, holds if all lie at or above, and is inconclusive if an
    interval spans it or is missing.
    """
    verdicts = {verdict_on(row.difference, fail_below) for row in rows}
    # a failure is certain even if other aspects are inconclusive
    worst: tuple[GateVerdict, ...] = ("fails", "inconclusive")
    return next((one for one in worst if one in verdicts), "holds")


def verdict_on(estimate: Estimate, least: float) -> GateVerdict:
    """Return whether the whole interval shows that a value is at least `least`, or below."""
    if not estimate.ends:
        return (
            "inconclusive"  # the value alone decides nothing: with one source it may lie anywhere
        )
    low, high = estimate.ends
    if high < least:
        return "fails"
    return "holds" if low >= least else "inconclusive"
