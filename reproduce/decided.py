"""Recorded answers of decision models: how sure they are, before and after 100 of people's grades.

A row of the data is one answer: `id`, `repeat`, `question` (with its `levels`, if it is a rating),
`probabilities` by option, `score` (the mean level) and `human`, grades by aspect.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from reproduce.agreement import Figure, Figures, interval_of
from reproduce.scores import Scorer
from reproduce.table import Column
from textassay.agreement.correlation import spearman
from textassay.agreement.joined import People
from textassay.agreement.labels import label_agreement
from textassay.arrays import Floats
from textassay.estimation.calibration import calibrate
from textassay.estimation.columns import Columns, join_columns, read_judged, scales_of
from textassay.estimation.probabilities import calibration_error, with_temperature
from textassay.runtime.data.dataset import Examples

GRADES = 100
"""Grades that `calibrate` learns from."""
DRAWS = 50
"""Draws of the graded items over which held-out figures are averaged, which divides their standard
error by seven."""
Rows = Sequence[dict[str, Any]]


def decided(scorer: Scorer, data: str, *, bootstrap: int) -> Figures:
    """Return the figures of recorded probabilities.

    Raises:
        ConfigurationError: The data are not here.
    """
    path = scorer.data.path(data)
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    folder = None if scorer.out is None else scorer.out / scorer.table.name / data
    return {
        (column, statistic): figure
        for column in scorer.columns(data)
        for statistic, figure in _figures(rows, column, folder, bootstrap).items()
        if statistic in column.statistics
    }


def _figures(rows: Rows, column: Column, folder: Path | None, bootstrap: int) -> dict[str, Figure]:
    levels = rows[0]["question"].get("levels", ["0", "1"])
    every = _columns(rows, column.aspect, levels)
    once = _columns([row for row in rows if row["repeat"] == 0], column.aspect, levels, folder)
    likeliest = (
        every.levels[every.shares.argmax(axis=1)]
        if len(every.levels)
        else (every.scores >= 0.5).astype(float)
    )
    found = label_agreement(
        likeliest, every.ratings, labels=levels, ordered=len(levels) > 2,
        groups=[str(code) for code in every.groups], bootstrap=bootstrap,
    )  # fmt: skip
    exact, n = found.measures["accuracy"], len(every.ids)
    return {
        "exact": Figure(exact.value, interval_of(exact.estimate), n),
        "constant": Figure(exact.constant, None, n),
        "auc": Figure(_area(every.scores, every.ratings) if len(levels) == 2 else None, None, n),
        "mae": Figure(float(np.abs(every.scores - every.ratings).mean()), None, n),
        "ece": Figure(calibration_error(*_surest(every, every.shares)), None, n),
        "spearman": Figure(spearman(every.scores, every.ratings), None, n),
        **_held_out(once, (0.0, len(levels) - 1.0)),
    }


def _columns(rows: Rows, aspect: str, levels: Sequence[str], folder: Path | None = None) -> Columns:
    """Return answers and grades as `calibrate` reads them, from files that a folder keeps."""
    scores, data = [], []
    for row in rows:
        shares, id_ = row["probabilities"], f"{row['id']}/{row['repeat']}"
        evidence = [{"text": name, "probability": p} for name, p in shares.items()]
        scores.append(
            {"id": id_, "aspect": aspect, "value": row.get("score", shares.get("yes")),
             "scale": [0, len(levels) - 1], "signature": row["model"],
             "evidence": evidence if len(levels) > 2 else []}
        )  # fmt: skip
        data.append({"id": id_, "group": row["id"], "human": {aspect: row["human"][aspect]}})
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        paths = [place / "scores.jsonl", place / "data.jsonl"]
        for path, lines in zip(paths, (scores, data), strict=True):
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        people = People(Examples(paths[1], needs_output=False))
        return join_columns(read_judged(paths[0]), people)[0]


def _area(scores: Floats, ratings: Floats) -> float:
    """Return how often a random yes has a higher score than a random no; a tie is half of one."""
    yes = ratings == 1
    ranks, count = rankdata(scores)[yes].sum(), int(yes.sum())
    return float((ranks - count * (count + 1) / 2) / (count * (len(yes) - count)))


def _surest(columns: Columns, shares: Floats) -> tuple[Floats, Floats]:
    """Return the probability whose calibration is measured, and whether the event occurred."""
    if not len(columns.levels):
        return columns.scores, columns.ratings
    right = columns.levels[shares.argmax(axis=1)] == columns.ratings
    return shares.max(axis=1), right.astype(float)


def _held_out(columns: Columns, scale: tuple[float, float]) -> dict[str, Figure]:
    """Return the figures of items without grades, before and after others were graded."""
    scales = scales_of(columns, {columns.score: scale})
    found = []
    for seed in range(DRAWS):
        has_grade = np.zeros(len(columns.ids), bool)
        has_grade[np.random.default_rng(seed).permutation(len(has_grade))[:GRADES]] = True
        made, _ = calibrate(columns.only(has_grade), scales=scales)
        rest = columns.only(~has_grade)
        values = made.map.predict(rest.scores)
        after = (
            calibration_error(*_surest(rest, with_temperature(rest.shares, made.temperature)))
            if len(rest.levels)
            else calibration_error(values, rest.ratings)
        )
        before = calibration_error(*_surest(rest, rest.shares))
        ranks = [spearman(each, rest.ratings) or 0.0 for each in (values, rest.scores)]
        found.append((before, after, ranks[0] - ranks[1]))
    names = ("ece-before", "ece-after", "spearman-change")
    means, n = np.mean(found, axis=0), len(columns.ids) - GRADES
    return {name: Figure(float(mean), None, n) for name, mean in zip(names, means, strict=True)}
