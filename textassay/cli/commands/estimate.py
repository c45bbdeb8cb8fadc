"""`textassay calibrate|estimate|label-plan`: from scores and some ratings to estimates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli import flags, syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import print_tables, say, write_rows
from textassay.cli.exits import name_flags
from textassay.cli.rated import CHOSEN, RatedInput, notes_of
from textassay.runtime.data.ratings import SAMPLING_PROBABILITY
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.table import Column, Note, Table, to_text

if TYPE_CHECKING:
    from textassay.estimation.calibration import Calibration
    from textassay.estimation.columns import Columns
    from textassay.estimation.maps import Map


@command("estimate", panel=Heading.DECIDING)
def estimate(
    scores: flags.ScoresOrMetrics,
    data: flags.RatedData = None,
    *,
    by: Annotated[
        str | None,
        syntax.option("system", "Also estimate per system, and compare each pair of systems."),
    ] = None,
    calibration: Annotated[
        Path | None, syntax.option("DIR", "Calibration learned from other ratings.")
    ] = None,
    aspect_map: flags.AspectPairs = None,
    confidence: flags.Confidence = 0.95,
    scale: flags.ScaleOf = None,
    labels: flags.SelectionOption = "random",
    weight: flags.WeightOption = "sources",
    seed: syntax.Seed = 0,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.RATED | flags.ALLOWING],
) -> None:
    """Estimate means on the human scale: by the judge, by ratings, and by both together.

    Examples:
        textassay estimate runs/first rated.jsonl
        textassay estimate runs/first rated.jsonl --by system --json
    """
    from textassay.estimation.calibration import load as load_calibration
    from textassay.estimation.columns import one_signature
    from textassay.estimation.estimate import MeanSettings, estimate_means
    from textassay.estimation.means import mean_unit

    if by not in (None, "system"):
        raise UnknownName("unit of --by", str(by), ["system"])
    over = mean_unit(weight)
    flags.check_confidence(confidence)
    allowed = flags.read_allow_change(group.get("set"))
    fitted = None if calibration is None else load_calibration(calibration)
    rated = RatedInput(scores, data, group, aspect_map, selection=labels, scale=scale)
    if by and not rated.people.aspects:
        raise DataError(
            "the data contain no human ratings, so there is nothing to estimate from; which system"
            " the judge scores higher: textassay compare RUN --systems A B"
        )
    tables = rated.columns()
    estimates = []
    for columns in tables:
        # checked before learning: scores of two judges have two kinds of errors
        signature = one_signature(columns, allow_change=allowed)
        if by and all(system is None for system in columns.systems):
            raise ConfigurationError(
                "--by system needs the field 'system', which is missing from every row of DATA"
            )
        learned = "auto" if fitted is None else _map_of(fitted, columns, rated, signature, allowed)
        settings = MeanSettings(
            confidence=confidence,
            chosen=labels == CHOSEN,
            calibration=learned,
            seed=seed,
            weight=over,
        )
        estimates.append(
            estimate_means(
                columns,
                scales=rated.scales_of(columns),
                by_system=by == "system",
                lower_is_better=rated.lower_is_better,
                settings=settings,
            )
        )
    document = {
        "rows": [row.as_dict() for e in estimates for row in e.rows],
        "differences": [delta.as_dict() for e in estimates for delta in e.differences],
        "assumes": list(dict.fromkeys(note for e in estimates for note in e.assumes)),
        **rated.left_out,
    }
    notes = [*notes_of(tables)]
    if any((c.unknown or c.other_texts) and c.rated.all() for c in tables):
        notes.append(
            Note(
                "every row of the data is rated, so the judge adds nothing: give the data of all"
                " judged texts, or beside a run its ratings alone (--ratings FILE)",
                warning=True,
            )
        )
    print_tables(name_flags(estimates), document, as_json=as_json, notes=notes)


def _map_of(
    maps: Calibration, columns: Columns, rated: RatedInput, signature: str, allowed: bool
) -> Map | str:
    """Return the calibration's map, or only its kind if it was learned from these ratings."""
    of_aspect = maps.of(columns.score)
    if of_aspect is None:
        aspects = [entry.aspect for entry in maps.aspects]
        raise UnknownName("aspect of the calibration", columns.score, aspects)
    maps.check(columns.score, signature, allow_change=allowed)
    # a map fits the ratings it was learned from too well, and the correction would find too little
    # error
    if maps.sources & rated.sources([columns]):
        say(
            f"{columns.score}: the calibration has seen ratings of these sources, so its map "
            f"({of_aspect.kind}) is learned again across sources",
            style="yellow",
        )
        return of_aspect.kind
    return of_aspect.map


@command("label-plan", panel=Heading.DECIDING)
def label_plan(
    scores: flags.ScoresOrMetrics,
    data: flags.RatedData = None,
    *,
    half_width: Annotated[float, syntax.option("W", "Target half-width of the interval.")],
    next_: Annotated[
        int | None, syntax.option("N", "Number of examples to draw for rating next.", "--next")
    ] = None,
    out: Annotated[
        Path | None,
        syntax.option(
            "FILE", "File to create for these examples, with their probabilities.", "--out", "-o"
        ),
    ] = None,
    aspect_map: flags.AspectPairs = None,
    confidence: flags.Confidence = 0.95,
    scale: flags.ScaleOf = None,
    labels: flags.SelectionOption = "random",
    seed: syntax.Seed = 0,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.RATED],
) -> None:
    """Forecast how many ratings an estimate needs, and draw the examples to rate next.

    Before the first rating there is no forecast, and the examples are drawn at random.

    Examples:
        textassay label-plan runs/first --half-width 0.05 --next 60 -o next.jsonl
        textassay label-plan runs/first --ratings ratings.jsonl --half-width 0.05 --next 60 -o
            next2.jsonl
    """
    from textassay.estimation.label_plan import first_rows, next_rows, plan_labels

    flags.check_confidence(confidence)
    if (next_ is None) != (out is None):
        raise ConfigurationError("--next N and --out FILE go together")
    # the file may hold the probabilities of an earlier draw, without which its ratings have no
    # weights
    if out is not None and out.exists():
        raise ConfigurationError(f"{out} exists; choose a new file")
    if labels == CHOSEN:
        raise ConfigurationError(
            "rows chosen by hand have no probability of having been drawn, so no plan can "
            "continue from them; --labels takes random or the file of an earlier plan"
        )
    rated = RatedInput(scores, data, group, aspect_map, selection=labels, scale=scale)
    if not rated.people.aspects and next_ is not None and out is not None:
        rows = first_rows(rated.judged, rated.people, next_, seed=seed)
        print_tables([_first_draw(rows)], {"rows": []}, as_json=as_json)
        _write_plan(rows, out)
        return
    scaled = rated.scaled_columns()
    plans = [
        plan_labels(columns, half_width, scales=scales, confidence=confidence, seed=seed)
        for columns, scales in scaled
    ]
    document = {"rows": [plan.as_dict() for plan in plans], **rated.left_out}
    notes = notes_of(columns for columns, _ in scaled)
    print_tables(plans, document, as_json=as_json, notes=notes)
    if next_ is not None and out is not None:
        # one file serves one estimate: the aspect that needs most ratings decides the draw
        widest = max(range(len(plans)), key=lambda at: plans[at].half_width)
        columns, scales = scaled[widest]
        _write_plan(next_rows(columns, next_, scales=scales, seed=seed), out)
        say(f"drawn by strata of {columns.score!r}")


def _first_draw(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        Column("drawn", "drawn", "count"),
        Column(SAMPLING_PROBABILITY, "probability of each", "number"),
    )
    note = "nothing is rated yet, so there is no forecast; the examples were drawn at random"
    return Table(columns, [(len(rows), rows[0][SAMPLING_PROBABILITY])], (Note(note),))


def _write_plan(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write a file of examples to rate next, and of rated examples, with probabilities."""
    write_rows(out, rows)
    rated = sum(row["rated"] for row in rows)
    say(
        f"{len(rows) - rated} examples to rate next written to {out}"
        + (f", and the probabilities of the {rated} that are rated" if rated else "")
    )
    say(
        f"then: textassay annotate DATA --task TASK --next-from {out} --out RATINGS, and"
        f" textassay estimate SCORES DATA --ratings RATINGS --labels {out} (as a further"
        " label-plan)"
    )
    say(
        "decide by the interval after all planned ratings: if you check it after every batch and"
        " stop at a welcome result, it is too narrow"
    )


@command("calibrate", panel=Heading.DECIDING)
def calibrate(
    scores: flags.ScoresOrMetrics,
    data: flags.RatedData = None,
    *,
    out: flags.Out = None,
    apply: Annotated[
        Path | None, syntax.option("DIR", "Apply this calibration to the run; --out is a new run.")
    ] = None,
    aspect_map: flags.AspectPairs = None,
    method: Annotated[
        str, syntax.option("NAME", "auto, isotonic, linear, shift or ordinal.")
    ] = "auto",
    coverage: Annotated[
        float, syntax.option("C", "Share of ratings that intervals should contain.")
    ] = 0.9,
    scale: flags.ScaleOf = None,
    labels: flags.SelectionOption = "random",
    seed: syntax.Seed = 0,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.RATED | flags.ALLOWING],
) -> None:
    """Learn to map a judge's scores to human ratings, with an interval around each.

    Examples:
        textassay calibrate runs/first rated.jsonl -o calibrations/first
        textassay calibrate runs/second --apply calibrations/first -o runs/second-calibrated
    """
    from textassay.estimation.calibration import calibrate as calibrated
    from textassay.estimation.calibration import save as save_calibration
    from textassay.runtime.storage.files import check_new_folder

    allowed = flags.read_allow_change(group.get("set"))
    if apply is not None:
        if data is not None or group.keys() - {"set"}:
            raise ConfigurationError(
                "calibrate --apply takes only a run: leave DATA out, since nothing is learned"
            )
        if out is None:
            raise ConfigurationError("calibrate --apply needs --out RUN2, a new run folder")
        _apply(scores, apply, out, allowed=allowed, as_json=as_json)
        return
    if out is None:
        raise ConfigurationError("calibrate needs SCORES, DATA with ratings, and --out DIR")
    # before the scores are read, which may take minutes
    check_new_folder(out)
    rated = RatedInput(scores, data, group, aspect_map, selection=labels, scale=scale)
    tables = rated.columns()
    learned = [
        calibrated(
            table,
            scales=rated.scales_of(table),
            method=method,
            coverage=coverage,
            seed=seed,
            allow_change=allowed,
        )
        for table in tables
    ]
    reports = [report for _, report in learned]
    described = _describe(tables, reports, coverage, chosen=labels == CHOSEN)
    save_calibration(
        [aspect for aspect, _ in learned],
        reports,
        "\n\n".join(map(to_text, described)) + "\n",
        out,
        sources=rated.sources(tables),
        made={"seed": seed, "method": method, "labels": labels},
    )
    document = {"out": str(out), "aspects": reports, **rated.left_out}
    print_tables(described, document, as_json=as_json)
    say(
        f"calibration written to {out}; apply it with: textassay calibrate RUN --apply {out} --out"
        " RUN2"
    )


def _describe(
    tables: Sequence[Columns], reports: Sequence[dict[str, Any]], coverage: float, *, chosen: bool
) -> list[Table]:
    """Return the tables of a calibration; the first has the notes on all of them."""
    from textassay.estimation.calibration import curve_table, report_table
    from textassay.estimation.columns import assumptions

    drawings = [
        table
        for report in reports
        for table in (report_table(report, coverage), curve_table(report))
        if table is not None
    ]
    notes = [*notes_of(tables)]
    if chosen:
        words = "the labels were chosen by hand, so the coverage of the intervals is not promised"
        notes.append(Note(words, warning=True))
    assumed = {note for table in tables for note in assumptions(table, chosen=chosen)}
    notes += [Note(f"assumed: {note}") for note in sorted(assumed)]
    drawings[0] = replace(drawings[0], notes=(*notes, *drawings[0].notes))
    return drawings


def _apply(run: Path, calibration: Path, out: Path, *, allowed: bool, as_json: bool) -> None:
    """Write a run whose scores are calibrated; no model is asked."""
    from textassay.estimation.calibration import load as load_calibration
    from textassay.runtime.storage.run_files import latest_scores, read_manifest
    from textassay.runtime.storage.run_folder import RunFolder

    if run.is_file():
        raise ConfigurationError(
            f"calibrate --apply takes a run folder, as `textassay score` writes it, and {run} is a "
            "file"
        )
    fitted = load_calibration(calibration)
    manifest = read_manifest(run)
    judged: dict[str, None] = {}
    for score in latest_scores(run):  # everything is checked before anything is written
        judged[score.aspect] = None
        if score.value is not None and fitted.of(score.aspect) is not None:
            fitted.check(score.aspect, score.signature, allow_change=allowed)
    missing = [name for name in judged if fitted.of(name) is None]
    if len(missing) == len(judged):
        aspects = ", ".join(entry.aspect for entry in fitted.aspects)
        raise ConfigurationError(
            f"{calibration} has no aspect of the run: it has {aspects}; the run {', '.join(judged)}"
        )
    spec = {**manifest.get("spec", {}), "calibration": str(calibration.absolute())}
    made = {**manifest, "spec": spec, "calibrated_from": str(run.absolute())}
    calibrated = outside = 0
    with closing(RunFolder.create(out)) as target:
        target.write_manifest(made)
        scores = latest_scores(run)
        # one write per 500 scores, without the whole run in memory
        while batch := [fitted.apply(s, allow_change=allowed) for s in islice(scores, 500)]:
            calibrated += sum(score.calibrated is not None for score in batch)
            outside += sum(bool(score.outside) for score in batch)
            target.append(batch)
        target.write_summary()
    if as_json:
        content = {"out": str(out), "calibrated": calibrated, "outside": outside, "left": missing}
        typer.echo(json.dumps(content))
    for name in missing:
        say(f"{name}: {calibration} has no calibration for it; left unchanged", style="yellow")
    say(f"{calibrated} scores calibrated, written to {out}")
    if outside:
        say(
            f"{outside} scores lie outside the range that had ratings: they are marked 'outside' "
            "and have no calibrated value",
            style="yellow",
        )
