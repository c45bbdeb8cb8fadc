"""A calibration's report as a table, from the reports of `calibrate`."""

from __future__ import annotations

from typing import Any

from textassay.table import Cell, Column, Note, Table

_COLUMNS = (
    Column("measure", ""), Column("raw", "raw", "number"),
    Column("calibrated", "calibrated", "number"),
)  # fmt: skip


def report_table(report: dict[str, Any], coverage: float) -> Table:
    """Return how one aspect's scores meet people's ratings, raw and calibrated.

    The report is one of `calibrate`; the coverage the share of ratings that intervals should hold.
    """
    before, after = report["agreement"]["before"], report["agreement"]["after"]
    name = report["aspect"]
    if report["human"] != name:
        name += f" vs {report['human']}"
    keys = ("bias", "mean_absolute_error", "pearson", "spearman", "kendall")
    rows: list[tuple[Cell, ...]] = [
        (key.replace("_", " "), before[key], after[key]) for key in keys
    ]
    notes = ["calibrated: by maps that saw other sources"]
    if after["distinct"] < before["distinct"]:
        notes.append(
            f"{before['distinct']} distinct scores become {after['distinct']}: flat parts of the "
            "map make ties, which change rank correlations"
        )
    held_out = report["held_out"]
    promise = f"intervals for {coverage:.0%} of the ratings"
    if held_out is None or held_out["calibrated"] is None:
        notes.append(
            f"{promise}: too few sources to tell, and to give intervals narrower than the scale"
        )
    else:
        both = (held_out["raw"], held_out["calibrated"])
        widths = (None if one is None else f"{one['mean_width']:.2f}" for one in both)
        held = (None if one is None else f"{one['coverage']:.1%}" for one in both)
        rows += [("mean width of intervals", *widths), ("ratings that they hold", *held)]
        notes.append(
            f"{promise}, on sources that had no part in them; the scale has {held_out['of']:g}"
            " points"
        )
    title = f"{name}: {report['kind']}, from {report['n']} rated rows of {report['groups']} sources"
    return Table(_COLUMNS, rows, tuple(map(Note, notes)), title=title)
