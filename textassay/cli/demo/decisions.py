"""The demo's tables of decisions: means, calibration, and whether the judge may stand in."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from textassay.calibration import AnnotatorTest, Estimate
from textassay.cli.plain_tables import indented, plain_table
from textassay.demo.decisions import JUDGE, RATED, Decided

RATERS = (
    "The ratings are the project's own, not people's: the author's, and two blind passes by "
    "language models that saw a text, its article and the definitions only. They show what the "
    "command does, not what the judge is worth."
)


def decisions(decided: Sequence[Decided]) -> RenderableType:
    """Return the tables and their summaries in words."""
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
        ),
        *_annotator_tests([one.annotator_test for one in decided]),
    )


def _annotator_tests(tests: Sequence[AnnotatorTest]) -> list[RenderableType]:
    """Return the table of the alternative annotator test, and what it says in words."""
    table = plain_table("", "omega", "rho", "constant", "omega", "rho", "rho - constant's", "")
    for one in tests:
        test = one.test
        table.add_row(
            one.human, f"{test.judge.omega:.2f}", f"{test.judge.rho:.2f}",
            " ".join(f"{value:g}" for value in test.constant_values),
            f"{test.constant.omega:.2f}", f"{test.constant.rho:.2f}",
            _span(test.over_constant, 2), "yes" if test.may_stand_in else "no",
        )  # fmt: skip
    first = tests[0].test
    able = [one.human for one in tests if one.test.may_stand_in]
    verdict = f"on {', '.join(able)}" if able else f"on none of {len(tests)} aspects"
    what = (
        f"May {JUDGE} stand in for a rater? {first.n} texts of {first.groups} sources,"
        f" {first.raters} raters"
    )
    return [
        Text(what, style="bold"),
        indented(table),
        Text(
            "\nThe alternative annotator test with the source as the unit: against how many of the"
            " raters the judge wins (omega), how often it is as near to the others as the rater"
            " left out (rho), and the same of always giving the best constant. `yes` needs omega"
            " of .5 and a rho above the constant's beyond chance."
        ),
        Text(f"It may stand in {verdict}.", style="bold"),
        Text(f"{RATERS}\n"),
    ]


def _span(estimate: Estimate, digits: int = 1) -> str:
    if estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    low, high = f"{estimate.low:.{digits}f}", f"{estimate.high:.{digits}f}"
    return f"{estimate.value:.{digits}f} [{low}, {high}]"
