"""How often the bound of `textassay cascade` holds on documents that the rule has not seen.

Random halves of SummEval's documents: a rule is learned from one half of the recorded scores of a
cheap judge and held against the ratings of the other. Printed per way to calibrate: the share of
splits whose bound holds, the share of summaries that the cheap judge decides, and how many of these
are wrong.

    python -m benchmarks.cascade_bound --data summeval.jsonl.gz [--splits 200] [--risk 0.2]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from textassay.calibration.cascade import learn_rule
from textassay.calibration.columns import Columns, People, join_columns
from textassay.calibration.judged import read_judged
from textassay.calibration.maps import Scales
from textassay.learning import split_rows

SCALES = Scales((1, 5), (1, 5))


def split(
    columns: Columns, seed: int, *, method: str, risk: float, tolerance: float
) -> tuple[bool, float, float | None]:
    """Return whether the bound holds, the share decided, and the share of that which is wrong."""
    train = split_rows(columns.groups, 0.5, seed=seed)
    rule, _ = learn_rule(
        columns.only(train), scales=SCALES, tolerance=tolerance, risk=risk, method=method, seed=seed
    )
    held_out = columns.only(~train)
    readings = [rule.read(score) for score in held_out.scores.tolist()]
    stands = np.array([one.stands for one in readings])
    if not stands.any():
        return True, 0.0, None
    values = np.array([one.value for one in readings])
    wrong = np.abs(values - held_out.ratings)[stands] > tolerance + 1e-9
    return bool(wrong.mean() <= (rule.bound or 0.0)), float(stands.mean()), float(wrong.mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--score", default="gpt-4o-mini/consistency")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--risk", type=float, default=0.2)
    parser.add_argument("--tolerance", type=float, default=1.0)
    parser.add_argument("--methods", nargs="+", default=["auto", "linear"])
    a = parser.parse_args()
    people = a.score.split("/")[-1]
    judged = {a.score: read_judged(a.data)[a.score]}
    [columns] = join_columns(judged, People(a.data), [f"{a.score}={people}"])
    for method in a.methods:
        rows = [
            split(columns, seed, method=method, risk=a.risk, tolerance=a.tolerance)
            for seed in range(a.splits)
        ]
        wrong = [row[2] for row in rows if row[2] is not None]
        print(
            f"{a.score}, {method}: the bound holds in {sum(row[0] for row in rows)} of {a.splits}"
            f" splits; {np.mean([row[1] for row in rows]):.3f} decided,"
            + (f" {np.mean(wrong):.3f} of these wrong" if wrong else " never"),
            flush=True,
        )


if __name__ == "__main__":
    main()
