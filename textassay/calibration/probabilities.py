"""Calibrated scores as probabilities of yes: Brier scores and the calibration curve.

Knows arrays, and the report of a calibration.

References:
    Brier, "Verification of forecasts expressed in terms of probability" (1950).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textassay.calibration.maps import LearnedMap, Scales
from textassay.meta.correlation import Codes, Floats
from textassay.meta.label_measures import mean_interval
from textassay.table import Column, Note, Table

_CURVE_COLUMNS = (
    Column("n", "n", "count"), Column("p", "probability", "number"),
    Column("share", "share of yes", "number"), Column("bar", ""),
)  # fmt: skip
_CURVE, _CURVE_ROWS = 10, 10
"""Most points of a calibration curve, and fewest rows behind one."""


def probability_report(
    x: Floats, y: Floats, groups: Codes, scales: Scales, learned: LearnedMap, seed: int
) -> dict[str, Any] | None:
    """Return how good calibrated scores are as probabilities of yes; `None` unless 0 and 1 are all.

    Brier scores are mean squared errors: of the score as it is, if it is on 0 to 1, of the
    cross-fitted map, and of the share of yes given to all. The curve has the mean probability of
    equal parts of the rows, and the share of yes among them.
    """
    if not np.isin(y, (0.0, 1.0)).all() or scales.raters != (0.0, 1.0):
        return None
    after = learned.cross_fitted
    share = float(y.mean())

    def brier(values: Floats) -> dict[str, Any]:
        errors = (values - y) ** 2
        low, high = mean_interval(errors, groups, seed=seed) or (None, None)
        return {"value": float(errors.mean()), "low": low, "high": high}

    order = np.argsort(after, kind="stable")
    parts = np.array_split(order, max(2, min(_CURVE, len(y) // _CURVE_ROWS)))
    return {
        "share": share,
        "brier": {
            "raw": brier(x) if scales.judge == (0.0, 1.0) else None,
            "calibrated": brier(after),
            "share": brier(np.full(len(y), share)),
        },
        "curve": [
            {"n": len(at), "p": float(after[at].mean()), "share": float(y[at].mean())}
            for at in parts
        ],
    }


def curve_table(report: dict[str, Any]) -> Table | None:
    """Return the calibration curve of one aspect; `None` if people did not say yes and no.

    The report is one of `calibrate`.
    """
    found = report["probability"]
    if found is None:
        return None
    rows = [(part["n"], part["p"], part["share"], _bar(part["share"])) for part in found["curve"]]
    text = (
        "rows in order of their probability, in equal parts; calibrated probabilities are close to"
        " the share of yes"
    )
    title = f"{report['aspect']}: probability of yes, and share of yes"
    return Table(_CURVE_COLUMNS, rows, (Note(text),), title=title)


def with_ends(one: dict[str, Any] | None) -> str | None:
    """Return a Brier score with its interval as text; `None` if there is none."""
    if one is None or one["low"] is None:
        return None if one is None else f"{one['value']:.3f}"
    return f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


def _bar(share: float) -> str:
    return "#" * round(20 * share)
