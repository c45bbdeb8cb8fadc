"""`textassay calibrate`: read a judge's scores as people's ratings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables, say
from textassay.cli.flags import (
    ALLOWING,
    RATED,
    AsJson,
    AspectMap,
    Given,
    Labels,
    Out,
    RatedData,
    ScaleOf,
    ScoresOrMetrics,
    Seed,
)
from textassay.display import to_text
from textassay.runtime.errors import ConfigurationError
from textassay.table import Note

if TYPE_CHECKING:
    from textassay.calibration.calibration import Calibration

_BATCH = 500
"""Scores that are written at a time."""


@command(
    "calibrate",
    panel=DECIDING,
    examples=(
        "textassay calibrate runs/first rated.jsonl -o calibrations/first",
        "textassay calibrate runs/second --apply calibrations/first -o runs/second-calibrated",
    ),
)
def calibrate(
    scores: ScoresOrMetrics,
    data: RatedData = None,
    *,
    out: Out = None,
    apply: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Apply this calibration to the run; --out is a new run."),
    ] = None,
    aspect_map: AspectMap = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="auto, isotonic, linear, shift or ordinal.")
    ] = "auto",
    coverage: Annotated[
        float, typer.Option(metavar="C", help="Share of ratings that intervals should contain.")
    ] = 0.9,
    scale: ScaleOf = None,
    labels: Labels = "random",
    seed: Seed = 0,
    as_json: AsJson = False,
    given: Annotated[Given, RATED | ALLOWING],
) -> None:
    """Learn to map a judge's scores to human ratings, with an interval around each."""
    allowed = arguments.allow_change(given.get("set"))
    if apply is None:
        _learn(
            scores,
            data,
            out,
            given,
            aspect_map=aspect_map or (),
            method=method,
            coverage=coverage,
            scales=arguments.scales(scale or ()),
            labels=labels,
            seed=seed,
            allowed=allowed,
            as_json=as_json,
        )
        return
    if data is not None or given.keys() - {"set"}:
        raise ConfigurationError(
            "calibrate --apply takes only a run: leave DATA out, since nothing is learned"
        )
    if out is None:
        raise ConfigurationError("calibrate --apply needs --out RUN2, a new run folder")
    _apply(scores, apply, out, allowed=allowed, as_json=as_json)


def _learn(
    scores: Path,
    data: Path | None,
    out: Path | None,
    given: Mapping[str, Any],
    *,
    aspect_map: Sequence[str],
    method: str,
    coverage: float,
    scales: Mapping[str, tuple[float, float]],
    labels: str,
    seed: int,
    allowed: bool,
    as_json: bool,
) -> None:
    """Learn a calibration, write its folder and print the report."""
    from textassay.calibration.calibration import calibrate as calibrated
    from textassay.calibration.calibration import curve_table, report_table
    from textassay.calibration.calibration import save as save_calibration
    from textassay.calibration.columns import assumptions, scales_of
    from textassay.cli.rated import CHOSEN, Rated
    from textassay.runtime.storage.files import check_new_folder

    if out is None:
        raise ConfigurationError("calibrate needs SCORES, DATA with ratings, and --out DIR")
    # before the scores are read, which may take minutes
    check_new_folder(out)
    rated = Rated(scores, data, given, aspect_map, picked=labels)
    tables = rated.columns()
    made, reports = [], []
    for table in tables:
        aspect, report = calibrated(
            table,
            scales=scales_of(table, scales),
            method=method,
            coverage=coverage,
            seed=seed,
            allow_change=allowed,
        )
        made.append(aspect)
        reports.append(report)
    drawn = [
        table
        for report in reports
        for table in (report_table(report, coverage), curve_table(report))
        if table is not None
    ]
    notes = [note for table in tables for note in table.notes()]
    if labels == CHOSEN:
        words = "the labels were chosen by hand, so the coverage of the intervals is not promised"
        notes.append(Note(words, warning=True))
    assumed = {note for table in tables for note in assumptions(table, chosen=labels == CHOSEN)}
    notes += [Note(f"assumed: {note}") for note in sorted(assumed)]
    drawn[0] = replace(drawn[0], notes=(*notes, *drawn[0].notes))
    save_calibration(
        made,
        reports,
        "\n\n".join(map(to_text, drawn)) + "\n",
        out,
        sources=rated.sources(tables),
        made={"seed": seed, "method": method, "labels": labels},
    )
    print_tables(drawn, {"out": str(out), "aspects": reports}, as_json=as_json)
    say(
        f"calibration written to {out}; apply it with: textassay calibrate RUN --apply {out} --out"
        " RUN2"
    )


def _apply(run: Path, calibration: Path, out: Path, *, allowed: bool, as_json: bool) -> None:
    """Write a run whose scores are calibrated; no model is asked."""
    from textassay.calibration.calibration import load as load_calibration
    from textassay.runtime.storage.run_files import latest_scores, read_manifest

    if run.is_file():
        raise ConfigurationError(
            f"calibrate --apply takes a run folder, as `textassay score` writes it, and {run} is a "
            "file"
        )
    read = load_calibration(calibration)
    manifest = read_manifest(run)
    judged: dict[str, None] = {}
    for score in latest_scores(run):  # all of it is checked before anything is written
        judged[score.aspect] = None
        if score.value is not None and read.of(score.aspect) is not None:
            read.check(score.aspect, score.signature, allow_change=allowed)
    left = [name for name in judged if read.of(name) is None]
    if len(left) == len(judged):
        known = ", ".join(one.aspect for one in read.aspects)
        raise ConfigurationError(
            f"{calibration} has no aspect of the run: it has {known}; the run {', '.join(judged)}"
        )
    spec = {**manifest.get("spec", {}), "calibration": str(calibration.absolute())}
    made = {**manifest, "spec": spec, "calibrated_from": str(run.absolute())}
    counts = asyncio.run(_write(run, read, made, out, allowed))
    if as_json:
        content = {"out": str(out), "calibrated": counts[0], "outside": counts[1], "left": left}
        typer.echo(json.dumps(content))
    for name in left:
        say(f"{name}: {calibration} has no calibration for it; left unchanged", style="yellow")
    say(f"{counts[0]} scores calibrated, written to {out}")
    if counts[1]:
        say(
            f"{counts[1]} scores lie outside the range that had ratings: they are marked 'outside' "
            "and have no calibrated value",
            style="yellow",
        )


async def _write(
    run: Path, read: Calibration, manifest: Mapping[str, Any], out: Path, allowed: bool
) -> tuple[int, int]:
    from textassay.runtime.storage.run_files import latest_scores
    from textassay.runtime.storage.run_folder import RunFolder

    calibrated = outside = 0
    async with RunFolder.create(out) as target:
        target.write_manifest(manifest)
        batch = []
        for score in latest_scores(run):
            batch.append(read.applied(score, allow_change=allowed))
            calibrated += batch[-1].calibrated is not None
            outside += bool(batch[-1].outside)
            # a write per batch instead of one per score, and never the whole run in memory
            if len(batch) >= _BATCH:
                await target.append(batch)
                batch = []
        if batch:
            await target.append(batch)
        target.write_summary()
    return calibrated, outside
