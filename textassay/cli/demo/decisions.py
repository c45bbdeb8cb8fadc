"""The demo's tables of decisions: means, calibration, and whether the judge may stand in."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from textassay.calibration import AnnotatorTest
from textassay.cli.console import indented
from textassay.demo.results import JUDGE, RATED, Decided
from textassay.display import to_terminal
from textassay.table import Column, Table

RATERS = (
    "The ratings are the project's own, not people's: the author's, and two blind passes by "
    "language models that saw a text, its article and the definitions only. They show what the "
    "command does, not what the judge is worth."
)

_WIDTH = 78
"""Columns of a terminal of 80 beside the margin."""
_MEANS = (
    Column("aspect", ""), Column("judge", "judge", "number", 1),
    Column("ratings", "ratings", "interval", 1), Column("both", "both", "interval", 1),
    Column("all", "all", "number", 2), Column("error", "off by", "number", 2),
    Column("calibrated", "calibrated", "number", 2),
)  # fmt: skip
_TESTS = (
    Column("aspect", ""), Column("omega", "omega", "number", 2), Column("rho", "rho", "number", 2),
    Column("constant", "constant", "number"), Column("constant_omega", "omega", "number", 2),
    Column("constant_rho", "rho", "number", 2),
    Column("over_constant", "rho - constant's", "interval", 2), Column("may_stand_in", ""),
)  # fmt: skip


def decisions(decided: Sequence[Decided]) -> RenderableType:
    """Return the tables and their summaries in words."""
    rows = [
        (one.estimate.human, one.estimate.judge_only.value, one.estimate.labels_only,
         one.estimate.corrected, one.all_ratings, one.error, one.calibrated_error)
        for one in decided
    ]  # fmt: skip
    first = decided[0].estimate
    return Group(
        Text(f"{JUDGE}: {first.n} texts, {first.rated} of {RATED} sources rated", style="bold"),
        indented(to_terminal(Table(_MEANS, rows), _WIDTH)),
        Text(
            f"\nMeans of the scores, of the ratings of {RATED} sources, of both together, and of"
            " all our ratings. With so few sources intervals are wide, as they must be. `off by`"
            " is the mean distance of a score from our rating, before and after calibration.\n"
        ),
        *_annotator_tests([one.annotator_test for one in decided]),
    )


def _annotator_tests(tests: Sequence[AnnotatorTest]) -> list[RenderableType]:
    """Return the table of the alternative annotator test, and what it says in words."""
    rows = [
        (one.human, one.test.judge.omega, one.test.judge.rho,
         " ".join(f"{value:g}" for value in one.test.constant_values), one.test.constant.omega,
         one.test.constant.rho, one.test.over_constant, "yes" if one.test.may_stand_in else "no")
        for one in tests
    ]  # fmt: skip
    first = tests[0].test
    able = [one.human for one in tests if one.test.may_stand_in]
    verdict = f"on {', '.join(able)}" if able else f"on none of {len(tests)} aspects"
    what = (
        f"May {JUDGE} stand in for a rater? {first.n} texts of {first.groups} sources,"
        f" {first.raters} raters"
    )
    return [
        Text(what, style="bold"),
        indented(to_terminal(Table(_TESTS, rows), _WIDTH)),
        Text(
            "\nThe alternative annotator test with the source as the unit: against how many of the"
            " raters the judge wins (omega), how often it is as near to the others as the rater"
            " left out (rho), and the same of always giving the best constant. `yes` needs omega"
            " of .5 and a rho above the constant's beyond chance."
        ),
        Text(f"It may stand in {verdict}.", style="bold"),
        Text(f"{RATERS}\n"),
    ]
