"""The demo's table of decisions: means of judge, ratings and both, and what calibration does."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from textassay.calibration import Estimate
from textassay.cli.console import indented, plain_table
from textassay.demo.decisions import JUDGE, RATED, Decided

ONE_RATER = (
    "Whether a judge may stand in for a rater (`textassay alt-test`) needs two raters of the same "
    "texts, better three. These texts have one rating each, ours, so that cannot be tested here."
)


def decisions(decided: Sequence[Decided]) -> RenderableType:
    """Return the table and its summary in words."""
    table = plain_table("", "judge", "ratings", "both", "all", "off by", "calibrated")
    for one in decided:
        row = one.estimate
        judge = Estimate(row.judge_only.value)
        ends = (judge, row.labels_only, row.corrected)
        table.add_row(
            row.human, *map(_span, ends), f"{one.all_ratings:.2f}", f"{one.error:.2f}",
            f"{one.calibrated_error:.2f}",
        )  # fmt: skip
    first = decided[0].estimate
    return Group(
        Text(f"{JUDGE}: {first.n} texts, {first.rated} of {RATED} sources rated", style="bold"),
        indented(table),
        Text(
            f"\nMeans of the scores, of the ratings of {RATED} sources, of both together, and of"
            " all our ratings. With so few sources intervals are wide, as they must be. `off by`"
            " is the mean distance of a score from our rating, before and after calibration.\n"
            + ONE_RATER
            + "\n"
        ),
    )


def _span(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.1f}"
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]"
