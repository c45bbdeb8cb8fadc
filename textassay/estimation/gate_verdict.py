"""Decides whether a gate passes, by the ends of intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Literal

from textassay.estimation.compare_rows import CompareRow
from textassay.runtime.errors import ConfigurationError
from textassay.table import Estimate

GateVerdict = Literal["holds", "fails", "inconclusive"]


def gate(
    rows: Iterable[CompareRow], fail_below: float, lower_is_better: Collection[str] = ()
) -> GateVerdict:
    """Judge whether the first run's advantage is at least `fail_below` on every aspect.

    It fails if an interval lies below, holds if all lie at or above, and is inconclusive if an
    interval spans it or is missing. The advantage is `a - b`, and `b - a` on the aspects of
    `lower_is_better`.

    Raises:
        ConfigurationError: `fail_below` is infinite or NaN.
    """
    if not math.isfinite(fail_below):
        raise ConfigurationError(f"a gate takes a number, not {fail_below:g}")
    verdicts = {
        verdict_on(advantage(row.difference, falls=row.aspect in lower_is_better), fail_below)
        for row in rows
    }
    # a failure is certain even if other aspects are inconclusive
    worst: tuple[GateVerdict, ...] = ("fails", "inconclusive")
    return next((verdict for verdict in worst if verdict in verdicts), "holds")


def advantage(difference: Estimate, *, falls: bool) -> Estimate:
    """Return a difference of scores, with the sign reversed if a low score is good."""
    if not falls or difference.value is None:
        return difference
    ends = (-end for end in reversed(difference.ends or ()))
    return Estimate(-difference.value, *ends)


def verdict_on(estimate: Estimate, least: float) -> GateVerdict:
    """Return whether the whole interval lies at or above `least`, or below it."""
    if not estimate.ends:
        # the value alone decides nothing: with one source it could be anything
        return "inconclusive"
    low, high = estimate.ends
    if high < least:
        return "fails"
    return "holds" if low >= least else "inconclusive"
