"""Recorded answers of a decision model against people's grades, before and after 100 of these.

    python -m benchmarks.decision_answers [--data ../shared/data/jevals] [--draws 50] [--rated 100]

The answers are Jev's to 300 ratings (HelpSteer2) and 300 yes/no questions (PubMedQA), each asked
five times. Printed are agreement with 95 % intervals over items beside the best constant, and the
calibration error of all answers and of the items without grades, before and after `calibrate`,
mean of the draws, with the change of the rank correlation. Without the data it says so and ends.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from textassay.agreement.correlation import Floats, spearman
from textassay.agreement.joined import People
from textassay.agreement.labels import label_agreement
from textassay.estimation.calibration import calibrate
from textassay.estimation.columns import Columns, join_columns, read_judged, scales_of
from textassay.estimation.probabilities import calibration_error, with_temperature
from textassay.runtime.data.dataset import Examples

SETS = {"jev_helpsteer2": ("helpfulness", 4), "jev_pubmedqa": ("yes", 1)}


def columns_of(rows: list[dict[str, Any]], aspect: str, top: int) -> Columns:
    """Return recorded answers and grades as `calibrate` reads them."""
    scores, data = [], []
    for row in rows:
        shares, id_ = row["probabilities"], f"{row['id']}/{row['repeat']}"
        evidence = [{"text": name, "probability": p} for name, p in shares.items()]
        scores.append(
            {"id": id_, "aspect": aspect, "value": row.get("score", shares.get("yes")),
             "scale": [0, top], "signature": "jev", "evidence": evidence if top > 1 else []}
        )  # fmt: skip
        data.append({"id": id_, "group": row["id"], "human": {aspect: row["human"][aspect]}})
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "scores.jsonl", Path(folder) / "data.jsonl"]
        for path, lines in zip(paths, (scores, data), strict=True):
            path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        people = People(Examples(paths[1], needs_output=False))
        return join_columns(read_judged(paths[0]), people)[0]


def likeliest(columns: Columns, shares: Floats) -> tuple[Floats, Floats]:
    """Return the probability that counts for the error, and whether it came true."""
    if not len(columns.levels):
        return columns.scores, columns.ratings
    right = columns.levels[shares.argmax(axis=1)] == columns.ratings
    return shares.max(axis=1), right.astype(float)


def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/jevals"))
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--rated", type=int, default=100)
    given = parser.parse_args()
    if not given.data.is_dir():
        print(f"{given.data} is not there; give the folder of recorded answers with --data")
        return
    for name, (aspect, top) in SETS.items():
        with gzip.open(given.data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        every = columns_of(rows, aspect, top)
        chosen = (
            every.levels[every.shares.argmax(axis=1)]
            if len(every.levels)
            else (every.scores >= 0.5).astype(float)
        )
        names = [str(level) for level in range(top + 1)]
        found = label_agreement(
            chosen, every.ratings, labels=names, ordered=top > 1,
            groups=[str(code) for code in every.groups], bootstrap=1000,
        )  # fmt: skip
        exact = found.measures["accuracy"]
        low, high = exact.ci or (float("nan"), float("nan"))
        error = calibration_error(*likeliest(every, every.shares))
        print(
            f"{name}: right {exact.value:.4f} [{low:.3f}, {high:.3f}], constant"
            f" {exact.constant:.4f}; ECE {error:.4f};"
            f" Spearman {spearman(every.scores, every.ratings):.3f}"
        )
        once = columns_of([row for row in rows if row["repeat"] == 0], aspect, top)
        scales = scales_of(once, {aspect: (0.0, float(top))})
        print("  " + held_out(once, scales, given.draws, given.rated))


def held_out(columns: Columns, scales: Any, draws: int, rated: int) -> str:
    """Return the error on items without grades before and after, over draws of rated items."""
    found = []
    for seed in range(draws):
        has_grade = np.zeros(len(columns.ids), bool)
        has_grade[np.random.default_rng(seed).permutation(len(has_grade))[:rated]] = True
        made, _ = calibrate(columns.only(has_grade), scales=scales)
        rest = columns.only(~has_grade)
        values = made.map.predict(rest.scores)
        before = calibration_error(*likeliest(rest, rest.shares))
        if len(rest.levels):
            after = calibration_error(
                *likeliest(rest, with_temperature(rest.shares, made.temperature))
            )
        else:
            after = calibration_error(values, rest.ratings)
        change = (spearman(values, rest.ratings) or 0) - (spearman(rest.scores, rest.ratings) or 0)
        found.append((before, after, change))
    before, after, change = np.mean(found, axis=0)
    return (
        f"{rated} grades, the other {len(columns.ids) - rated} items, {draws} draws: ECE"
        f" {before:.3f} -> {after:.3f}, Spearman {change:+.3f}"
    )


if __name__ == "__main__":
    main()
