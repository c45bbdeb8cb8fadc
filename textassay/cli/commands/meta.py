"""`textassay meta|alt-test`: agreement with people, and whether a judge may replace one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables
from textassay.cli.flags import (
    RATED,
    AsJson,
    AspectMap,
    Confidence,
    Given,
    RatedData,
    ScaleOf,
    Scores,
    ScoresOrMetrics,
    Seed,
)
from textassay.runtime.data.values import finite
from textassay.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from textassay.meta.correlation import Level


@command(
    "meta",
    panel=DECIDING,
    examples=(
        "textassay meta runs/first",
        "textassay meta runs/first data.jsonl --level dataset,group,system --json",
        "textassay meta runs/first rated.csv --field item=id --field coh=human.coherence",
    ),
)
def meta(
    scores: Scores,
    data: RatedData = None,
    *,
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Levels: dataset (default), group, system; may repeat."),
    ] = None,
    aspect_map: AspectMap = None,
    bootstrap: Annotated[
        int,
        typer.Option(metavar="N", help="Resamples of the groups for 95 % intervals; 0 for none."),
    ] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the bootstrap.")] = 0,
    raters: Annotated[
        bool,
        typer.Option(
            "--raters", help="Also show agreement among raters, and of the score with them."
        ),
    ] = False,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="X|auto",
            help="Where people said yes or no, scores of at least X are yes; auto chooses X on half"
            " of the sources and measures on the others.",
        ),
    ] = None,
    as_json: AsJson = False,
    given: Annotated[Given, RATED],
) -> None:
    """Measure how well scores agree with human ratings."""
    from textassay.cli.rated import Rated
    from textassay.meta.score_files import read_judge, read_with_labels
    from textassay.meta.table import agreement_table

    rated = Rated(scores, data, given, aspect_map or ())
    recorded, examples, labels = read_with_labels(
        lambda reader: read_judge(rated.source(reader), reader),
        lambda reader: rated.examples(reader, needs_output=False),
        rated.declared,
        rated.aspect_map,
    )
    found = agreement_table(
        recorded,
        examples,
        # names of levels are checked there
        levels=cast("list[Level]", arguments.typed_names(level) or ["dataset"]),
        aspect_map=aspect_map or (),
        bootstrap=bootstrap,
        seed=seed,
        raters=raters,
        labels=labels,
        threshold=_threshold(threshold),
    )
    print_tables(found.tables(), found.as_dict(), as_json=as_json)


def _threshold(typed: str | None) -> float | Literal["auto"] | None:
    if typed is None or typed == "auto":
        return None if typed is None else "auto"
    if (number := finite(typed)) is None:
        raise ConfigurationError(f"--threshold takes a number or auto, not {typed!r}")
    return number


@command(
    "alt-test",
    panel=DECIDING,
    examples=(
        "textassay alt-test runs/first rated.jsonl",
        "textassay alt-test runs/first rated.jsonl --rows-independent --epsilon 0.1 --metric match",
    ),
)
def alt_test(
    scores: ScoresOrMetrics,
    data: RatedData = None,
    *,
    aspect_map: AspectMap = None,
    epsilon: Annotated[
        float, typer.Option(metavar="E", help="Reward for being cheaper than a rater, 0 to 1.")
    ] = 0.2,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="rmse for graded ratings, match for categories.")
    ] = "rmse",
    rows_independent: Annotated[
        bool,
        typer.Option(
            "--rows-independent", help="Treat rows, not sources, as independent, as published."
        ),
    ] = False,
    pool: Annotated[
        bool, typer.Option("--pool", help="Add a row over all aspects together, as published.")
    ] = False,
    confidence: Confidence = 0.95,
    scale: ScaleOf = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    given: Annotated[Given, RATED],
) -> None:
    """Test whether the judge can replace a human rater, and whether a constant would, too."""
    from textassay.calibration.alternative_annotator import annotator_test, pooled_annotator_test
    from textassay.calibration.columns import one_signature, scales_of
    from textassay.cli.rated import Rated

    arguments.check_confidence(confidence)
    if not 0 <= epsilon < 1:
        raise ConfigurationError(f"--epsilon must be between 0 and 1, such as 0.2, not {epsilon!r}")
    rating_scales = arguments.scales(scale or ())
    tables = Rated(scores, data, given, aspect_map or ()).columns()
    for columns in tables:
        # judges must not be mixed even here: each would pass or fail by the other's scores
        one_signature(columns)
    scaled = [(columns, scales_of(columns, rating_scales)) for columns in tables]
    options = {"epsilon": epsilon, "metric": metric, "confidence": confidence, "seed": seed}
    tests = [
        annotator_test(columns, scales=own, rows_independent=rows_independent, **options)  # type: ignore[arg-type]
        for columns, own in scaled
    ]
    if pool and len(scaled) > 1:
        tests.append(pooled_annotator_test(scaled, rows_independent=rows_independent, **options))  # type: ignore[arg-type]
    print_tables(
        (table for one in tests for table in one.tables()),
        {"rows": [one.as_dict() for one in tests]},
        as_json=as_json,
        notes=(note for columns in tables for note in columns.notes()),
    )
