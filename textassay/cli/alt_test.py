"""`textassay alt-test`: the alternative annotator test as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from textassay.calibration.annotator_test import (
    AnnotatorTest,
    annotator_test,
    pooled_annotator_test,
)
from textassay.calibration.prepared import one_signature, scales_of
from textassay.cli.console import results, say
from textassay.cli.decisions import (
    check_confidence,
    interval,
    name,
    number,
    print_json,
    read_columns,
    table,
)
from textassay.meta.raters import PairAgreement
from textassay.runtime.errors import ConfigurationError


def show(
    scores: Path,
    data: Path,
    *,
    aspect_map: Sequence[str],
    epsilon: float,
    metric: str,
    rows_independent: bool,
    pool: bool,
    confidence: float,
    scales: Mapping[str, tuple[float, float]],
    seed: int,
    as_json: bool,
) -> None:
    """Print the test of each score.

    Raises:
        ConfigurationError: A file, name or number does not fit.
    """
    check_confidence(confidence)
    if not 0 <= epsilon < 1:
        raise ConfigurationError(f"--epsilon must be between 0 and 1, such as 0.2, not {epsilon!r}")
    tables, _ = read_columns(scores, data, aspect_map)
    for columns in tables:
        # judges must not be mixed even here: each would pass or fail by the other's scores
        one_signature(columns)
    scaled = [(columns, scales_of(columns, scales)) for columns in tables]
    options = {"epsilon": epsilon, "metric": metric, "confidence": confidence, "seed": seed}
    results = [
        annotator_test(columns, scales=own, rows_independent=rows_independent, **options)  # type: ignore[arg-type]
        for columns, own in scaled
    ]
    if pool and len(scaled) > 1:
        results.append(pooled_annotator_test(scaled, rows_independent=rows_independent, **options))  # type: ignore[arg-type]
    if as_json:
        print_json({"rows": [one.as_dict() for one in results]})
        return
    _draw(results)
    if not rows_independent and not all(columns.has_groups for columns in tables):
        say("every row counts as a source of its own: the data have no field 'group'")


def _draw(tests: Sequence[AnnotatorTest]) -> None:
    console = results()
    lines = table(
        "score", "n", "raters", "sources", "omega", "rho", "constant", "omega", "rho", "words rho",
        "rho - constant's", "may stand in",
    )  # fmt: skip
    for one in tests:
        test, words = one.test, one.test.others.get("words")
        lines.add_row(
            name(one.score), str(test.n), str(test.raters),
            "-" if test.groups is None else str(test.groups), number(test.judge.omega, 2),
            number(test.judge.rho, 2), " ".join(f"{value:g}" for value in test.constant_values),
            number(test.constant.omega, 2), number(test.constant.rho, 2),
            number(None if words is None else words.rho, 2), interval(test.over_constant),
            "yes" if test.may_stand_in else "no",
        )  # fmt: skip
    console.print(lines)
    people = table(
        "agreement",
        "alpha",
        "rater with rater",
        "judge with rater",
        "rater with the others",
        "judge with the others",
    )
    for one in tests:
        if one.agreement is not None:
            own = one.agreement
            people.add_row(
                name(one.score),
                # the level of measurement that goes with the metric: distances or equal labels
                number(own.alpha["interval" if one.metric == "rmse" else "nominal"], 2),
                *(
                    _pair(pair)
                    for pair in (own.between_raters, own.judge_rater, own.ceiling, own.judge_others)
                ),
            )
    if people.row_count:
        console.print(people)
    for one in tests:
        _print_notes(one)


def _print_notes(one: AnnotatorTest) -> None:
    test = one.test
    if one.agreement is not None and one.agreement.alpha["nominal"] is None:
        say(
            f"{one.score}: the raters gave every text the same rating, so nothing shows whether a"
            " judge reads the texts; have texts rated that differ"
        )
    if test.constant.passes:
        values = " ".join(f"{value:g}" for value in test.constant_values)
        say(
            f"{one.score}: always saying {values} passes the test as well, so passing alone shows"
            " nothing"
        )
    if test.judge.passes and not test.may_stand_in:
        say(f"{one.score}: the judge passes, but is not better than that constant beyond chance")
    if test.skipped:
        raters = ", ".join(map(str, test.skipped))
        say(f"{one.score}: raters {raters} share fewer than 30 items with others and were left out")


def _pair(pair: PairAgreement | None) -> str:
    return "-" if pair is None else number(pair.spearman, 2)
