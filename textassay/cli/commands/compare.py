"""`textassay compare|rank|agreement|alt-test`: compares runs, systems, and judges with people."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from textassay.cli import flags, syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import print_tables, say
from textassay.cli.exits import GATE_STATUS
from textassay.cli.rated import RatedInput, notes_of
from textassay.runtime.data.cells import finite
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import shares_of
from textassay.table import Note

if TYPE_CHECKING:
    from textassay.agreement.correlation import Level
    from textassay.estimation.run_comparison import RunSide


@command("compare", panel=Heading.FIRST)
def compare(
    run_a: Annotated[Path, syntax.argument("RUN_A", "The first run or score file.")],
    run_b: Annotated[
        Path | None,
        syntax.argument("RUN_B", "The second run or score file; DATA, if --systems is given."),
    ] = None,
    data: Annotated[
        Path | None,
        syntax.argument(
            "DATA",
            "Their data: sources, and ratings if there are any (default: the data of the runs).",
        ),
    ] = None,
    *,
    systems: Annotated[
        tuple[str, str] | None,
        syntax.option("A B", "Compare the texts of two systems of one run, without ratings."),
    ] = None,
    aspects: Annotated[
        list[str] | None, syntax.option("A,B", "Aspects to compare; may repeat.", "--aspects", "-a")
    ] = None,
    listed: Annotated[
        int | None,
        syntax.option(
            "N", "Also list the N largest losses of A and as many gains, with ids.", "--list", min=1
        ),
    ] = None,
    fail_below: Annotated[
        float | None,
        syntax.option(
            "X",
            "Exit with 0 if A - B (B - A where lower is better) is at least X, 1 if it is below, 4"
            " if the interval spans X.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        syntax.option("FIELD", "Also compare the texts with each value of a field of the data."),
    ] = None,
    confidence: flags.Confidence = 0.95,
    weight: flags.WeightOption = "sources",
    seed: syntax.Seed = 0,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.RATED],
) -> int:
    """Compare two runs or two systems: differences A - B by source, with intervals and tests.

    Texts are paired by id, or else by source. Texts without a counterpart, such as the traffic of
    two weeks, are compared as independent samples.

    Examples:
        textassay compare runs/new runs/old
        textassay compare runs/new runs/old --list 20
        textassay compare runs/new runs/old --by topic
        textassay compare runs/new runs/old --fail-below -0.1
        textassay compare runs/first --systems M13 M17
    """
    from textassay.estimation.gate_verdict import gate
    from textassay.estimation.means import mean_unit
    from textassay.estimation.run_comparison import compare_sides

    over, names = mean_unit(weight), flags.split_names(aspects)
    flags.check_confidence(confidence)
    if fail_below is not None and not math.isfinite(fail_below):
        raise ConfigurationError(f"--fail-below takes a number, not {fail_below:g}")
    a, b = _sides(run_a, run_b, data, systems, group, by)
    ids = {id_ for side in (a, b) if side.people is not None for id_ in side.people.ids}
    judged = {id_ for scores in b.judged.values() for id_ in scores.values}
    comparison = compare_sides(
        # the data contain all texts, so their sources are known
        a, b, unpaired=judged <= ids, aspects=names, confidence=confidence, seed=seed,
        weight=over, with_agreement=systems is None, by=by,
    )  # fmt: skip
    document, tables = comparison.as_dict(), comparison.tables()
    if listed is not None:
        document["changes"] = comparison.changes.as_dicts(most=listed)
        tables.append(comparison.changes.table(most=listed))
    notes = []
    if systems is not None:
        document["systems"] = list(systems)
        notes.append(Note(f"a is {systems[0]}, b is {systems[1]}"))
    print_tables(tables, document, as_json=as_json, notes=notes)
    if fail_below is None:
        return 0
    falling = a.lower_is_better | b.lower_is_better
    verdict = gate(comparison.rows, fail_below, falling)
    turned = [row.aspect for row in comparison.rows if row.aspect in falling]
    of_falling = f" (b - a of {', '.join(turned)}: lower is better)" if turned else ""
    say(f"gate: a - b of at least {fail_below:g}{of_falling} {verdict}")
    return GATE_STATUS[verdict]


def _sides(
    run_a: Path,
    run_b: Path | None,
    data: Path | None,
    systems: tuple[str, str] | None,
    group: syntax.Flags,
    by: str | None,
) -> tuple[RunSide, RunSide]:
    """Return two runs, or two systems of one run; the second path is then its data."""
    from textassay.estimation.compare import of_system

    if systems is None:
        if run_b is None:
            raise ConfigurationError("compare takes two runs, or one run and --systems A B")
        a = RatedInput(run_a, data, group, by=by).side()
        return a, RatedInput(run_b, data, group, by=by).side(a.labels)
    if data is not None:
        raise ConfigurationError("compare --systems takes one run and, if need be, its DATA")
    rated = RatedInput(run_a, run_b, group, by=by)
    side = replace(rated.side(), judged=rated.judged)
    first, second = (
        replace(side, judged=of_system(side.judged, rated.people, name)) for name in systems
    )
    return first, second


@command("rank", panel=Heading.DECIDING)
def rank(
    scores: flags.ScoresArgument,
    data: flags.RatedData = None,
    *,
    pair: Annotated[
        Literal["system"] | None,
        syntax.option(
            "", "The scores compare pairs of systems within each group (default: as in the run)."
        ),
    ] = None,
    aspects: Annotated[
        list[str] | None, syntax.option("A,B", "Aspects to rank on; may repeat.", "--aspects", "-a")
    ] = None,
    confidence: flags.Confidence = 0.95,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.MAPPED],
) -> None:
    """Rank systems by a run of pairwise comparisons: Bradley-Terry, with intervals over sources.

    Examples:
        textassay score data.jsonl --method pairwise --pair system -m MODEL -o runs/pairs
        textassay rank runs/pairs
        textassay rank comparisons.jsonl data.jsonl --pair system --json
    """
    from textassay.estimation.ranking import rank_systems

    flags.check_confidence(confidence)
    pairs = RatedInput(scores, data, group).comparisons(pair)
    names = flags.split_names(aspects)
    rankings = rank_systems(scores, pairs, aspects=names, confidence=confidence)
    document: dict[str, Any] = {
        "rows": [row.as_dict() for ranking in rankings for row in ranking.rows],
        "differences": [delta.as_dict() for ranking in rankings for delta in ranking.differences],
    }
    if rankings[0].other_texts:
        document["other_texts"] = len(rankings[0].other_texts)
    print_tables(rankings, document, as_json=as_json)


@command("agreement", panel=Heading.DECIDING)
def agreement(
    scores: flags.ScoresOrMetrics,
    data: flags.RatedData = None,
    *,
    level: Annotated[
        list[str] | None,
        syntax.option("A,B", "Levels: dataset (default), group, system; may repeat."),
    ] = None,
    aspect_map: flags.AspectPairs = None,
    bootstrap: Annotated[
        int, syntax.option("N", "Resamples, if there are more groups, for 95 % intervals; 0: none.")
    ] = 1000,
    seed: Annotated[int, syntax.option("N", "Random seed of the bootstrap.")] = 0,
    raters: Annotated[
        bool,
        syntax.switch("--raters", "Also show agreement among raters, and of the score with them."),
    ] = False,
    threshold: Annotated[
        str | None,
        syntax.option(
            "X|auto",
            "Where people said yes or no, scores of at least X are yes; auto chooses X on half"
            " of the sources and measures on the others.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        syntax.option("FIELD", "Also show the agreement for each value of a field of the data."),
    ] = None,
    samples: Annotated[
        list[str] | None,
        syntax.option(
            "1,3,8", "Also show the agreement with these numbers of samples per text; may repeat."
        ),
    ] = None,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.RATED],
) -> None:
    """Measure how well scores agree with human ratings.

    Examples:
        textassay agreement runs/first
        textassay agreement runs/first best_of_four.jsonl --level group --by subset
        textassay agreement runs/first best_of_four.jsonl --level group --samples 1,3,8
        textassay agreement runs/first data.jsonl --level dataset,group,system --json
        textassay agreement runs/first rated.csv --field item=id --field coh=human.coherence
    """
    from textassay.agreement.joined import read_with_labels
    from textassay.agreement.records import read_judge
    from textassay.agreement.table import agreement_table

    rated = RatedInput(scores, data, group, aspect_map)
    recorded, examples, labels = read_with_labels(
        lambda reader: read_judge(rated.source(reader), reader),
        lambda reader: rated.examples(reader, needs_output=False),
        rated.declared,
        rated.aspect_map,
    )
    table = agreement_table(
        recorded,
        examples,
        # names of levels are checked there
        levels=cast("list[Level]", flags.split_names(level) or ["dataset"]),
        aspect_map=aspect_map or (),
        bootstrap=bootstrap,
        seed=seed,
        raters=raters,
        labels=labels,
        threshold=_threshold(threshold),
        by=by,
        samples=_numbers(samples),
    )
    print_tables([table], table.as_dict(), as_json=as_json)


def _numbers(items: list[str] | None) -> list[int]:
    names = flags.split_names(items) or ()
    if not all(name.isascii() and name.isdigit() for name in names):
        raise ConfigurationError(f"--samples takes numbers such as 1,3,8, not {', '.join(names)}")
    return [int(name) for name in names]


def _threshold(text: str | None) -> float | Literal["auto"] | None:
    if text is None or text == "auto":
        return None if text is None else "auto"
    if (number := finite(text)) is None:
        raise ConfigurationError(f"--threshold takes a number or auto, not {text!r}")
    return number


@command("alt-test", panel=Heading.DECIDING)
def alt_test(
    scores: flags.ScoresOrMetrics,
    data: flags.RatedData = None,
    *,
    aspect_map: flags.AspectPairs = None,
    epsilon: Annotated[
        float, syntax.option("E", "Reward for being cheaper than a rater, 0 to 1.")
    ] = 0.2,
    metric: Annotated[
        str, syntax.option("NAME", "rmse for graded ratings, match for categories.")
    ] = "rmse",
    rows_independent: Annotated[
        bool,
        syntax.switch(
            "--rows-independent", "Treat rows, not sources, as independent, as published."
        ),
    ] = False,
    replace: Annotated[
        list[str] | None,
        syntax.option(
            "A,B",
            "Raters to replace together, by name or number; may repeat (default: each in turn).",
        ),
    ] = None,
    pool: Annotated[
        bool, syntax.switch("--pool", "Add a row over all aspects together, as published.")
    ] = False,
    confidence: flags.Confidence = 0.95,
    scale: flags.ScaleOf = None,
    seed: syntax.Seed = 0,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.RATED],
) -> None:
    """Test whether the judge could replace a human rater (and whether a constant score could).

    Examples:
        textassay alt-test runs/first rated.jsonl
        textassay alt-test runs/first rated.jsonl --replace ann,bob
        textassay alt-test runs/first rated.jsonl --rows-independent --epsilon 0.1 --metric
            match
    """
    from textassay.estimation.alt_test import annotator_test, pooled_annotator_test

    flags.check_confidence(confidence)
    if not 0 <= epsilon < 1:
        raise ConfigurationError(f"--epsilon must be between 0 and 1, such as 0.2, not {epsilon!r}")
    whole = metric == "match"
    rated = RatedInput(scores, data, group, aspect_map, scale=scale, whole_labels=whole)
    scaled = rated.scaled_columns()
    names: list[str] = list(flags.split_names(replace) or ())
    if names and pool:
        raise ConfigurationError("--replace names raters of each aspect; leave out --pool")
    options = {"epsilon": epsilon, "metric": metric, "confidence": confidence, "seed": seed}
    tests = [
        annotator_test(
            columns,
            scales=scales,
            rows_independent=rows_independent,
            replace=names,
            **options,  # type: ignore[arg-type]
        )
        for columns, scales in scaled
    ]
    if pool and len(scaled) > 1:
        tests.append(pooled_annotator_test(scaled, rows_independent=rows_independent, **options))  # type: ignore[arg-type]
    document = {"rows": [test.as_dict() for test in tests], **rated.left_out}
    notes = list(notes_of(columns for columns, _ in scaled))
    if any(columns.score in shares_of(rated.labels) for columns, _ in scaled):
        notes.append(
            Note("each label is tested separately; --metric match tests the labels as given")
        )
    print_tables(tests, document, as_json=as_json, notes=notes)
