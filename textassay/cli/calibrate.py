"""`textassay calibrate`: learn a calibration, or apply one to a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from textassay.calibration.calibration import Calibration, calibrate, report_table, source_digest
from textassay.calibration.calibration import load as load_calibration
from textassay.calibration.calibration import save as save_calibration
from textassay.calibration.columns import Columns, People, assumptions, scales_of
from textassay.cli.console import print_tables, say
from textassay.cli.decisions import CHOSEN, allow_change, read_columns
from textassay.display import to_text
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.storage.files import check_new_folder
from textassay.runtime.storage.run_files import latest_scores, read_manifest
from textassay.runtime.storage.run_folder import RunFolder
from textassay.table import Note

_BATCH = 500


def learn(
    scores: Path,
    data: Path | None,
    out: Path | None,
    *,
    aspect_map: Sequence[str],
    method: str,
    coverage: float,
    scales: Mapping[str, tuple[float, float]],
    labels: str,
    seed: int,
    given: Mapping[str, Any],
    as_json: bool = False,
) -> int:
    """Learn a calibration, write its folder and print the report."""
    if data is None or out is None:
        raise ConfigurationError("calibrate needs SCORES, DATA with ratings, and --out DIR")
    # before the scores are read, which may take minutes
    check_new_folder(out)
    allowed = allow_change(given)
    tables, people = read_columns(scores, data, aspect_map, labels)
    made, reports = [], []
    for table in tables:
        aspect, report = calibrate(
            table,
            scales=scales_of(table, scales),
            method=method,
            coverage=coverage,
            seed=seed,
            allow_change=allowed,
        )
        made.append(aspect)
        reports.append(report)
    drawn = [report_table(report, coverage) for report in reports]
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
        sources=sources_of(tables, people),
        made={"seed": seed, "method": method, "labels": labels},
    )
    print_tables(drawn, {"out": str(out), "aspects": reports}, as_json=as_json)
    say(
        f"calibration written to {out}; apply it with: textassay calibrate RUN --apply {out} --out"
        " RUN2"
    )
    return 0


def sources_of(tables: Sequence[Columns], people: People) -> frozenset[str]:
    """Return digests of the sources that have ratings."""
    group = dict(zip(people.ids, people.groups, strict=True))
    sources = set()
    for table in tables:
        for id_, rated in zip(table.ids, table.rated.tolist(), strict=True):
            if rated:
                # digests let `estimate` recognize sources that the calibration has seen, without
                # their texts
                sources.add(source_digest(group[id_] or f"row {id_}"))
    return frozenset(sources)


def apply(
    run: Path,
    data: Path | None,
    calibration: Path,
    out: Path | None,
    given: Mapping[str, Any],
    *,
    as_json: bool = False,
) -> int:
    """Write a run whose scores are calibrated; no model is asked."""
    if data is not None:
        raise ConfigurationError(
            "calibrate --apply takes only a run: leave DATA out, since nothing is learned"
        )
    if out is None:
        raise ConfigurationError("calibrate --apply needs --out RUN2, a new run folder")
    if run.is_file():
        raise ConfigurationError(
            f"calibrate --apply takes a run folder, as `textassay score` writes it, and {run} is a "
            "file"
        )
    allowed = allow_change(given)
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
    return 0


async def _write(
    run: Path,
    read: Calibration,
    manifest: Mapping[str, Any],
    out: Path,
    allowed: bool,
) -> tuple[int, int]:
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
