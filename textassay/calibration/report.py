"""A calibration's report as text.

Knows the reports of `calibrate` and lines of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def text_of(reports: Sequence[dict[str, Any]], coverage: float) -> str:
    """Return one paragraph per aspect.

    Args:
        reports: From `calibrate`.
        coverage: Share of ratings that their intervals should hold.
    """
    return "\n".join(_paragraph(report, coverage) for report in reports)


def _paragraph(report: dict[str, Any], coverage: float) -> str:
    before, after = report["agreement"]["before"], report["agreement"]["after"]
    name = report["aspect"]
    if report["human"] != name:
        name += f" vs {report['human']}"
    lines = [
        f"{name}: {report['kind']}, from {report['n']} rated rows of {report['groups']} sources",
        f"  {'':22}{'raw':>8}{'calibrated':>12}   (calibrated: by maps that saw other sources)",
    ]
    for title, key in (
        ("bias", "bias"),
        ("mean absolute error", "mean_absolute_error"),
        ("pearson", "pearson"),
        ("spearman", "spearman"),
        ("kendall", "kendall"),
    ):
        lines.append(f"  {title:22}{_number(before[key]):>8}{_number(after[key]):>12}")
    if after["distinct"] < before["distinct"]:
        lines.append(
            f"  {before['distinct']} distinct scores become {after['distinct']}: flat parts of the "
            "map make ties, which change rank correlations"
        )
    lines += _held_out(report["held_out"], coverage)
    return "\n".join(lines) + "\n"


def _held_out(held_out: dict[str, Any] | None, coverage: float) -> list[str]:
    lines = [f"  intervals for {coverage:.0%} of the ratings, on sources that had no part in them:"]
    if held_out is None or held_out["calibrated"] is None:
        return [
            lines[0],
            "    too few sources to tell, and to give intervals narrower than the scale",
        ]
    for name in ("raw", "calibrated"):
        one = held_out[name]
        if one is not None:
            lines.append(
                f"    {name:10} mean width {one['mean_width']:.2f} of {held_out['of']:g} points, "
                f"hold {one['coverage']:.1%}"
            )
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
