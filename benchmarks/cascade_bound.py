"""How often the bound of `textassay cascade` holds on documents that the rule has not seen.

Random halves of SummEval's documents: a rule is learned from one half of the recorded scores of a
cheap judge and held against the ratings of the other. Printed per way to calibrate: the share of
splits whose bound holds, the share of summaries that the cheap judge decides, and how many of these
are wrong; then, also on the held-out documents, Pearson's r with people and the cost of the cheap
judge, the strong judge and the cascade, in costs of the strong judge alone.

    python -m benchmarks.cascade_bound --data alttest/summeval.jsonl.gz [--splits 200] [--risk 0.2]

`--price` is what a score of the cheap judge costs, in scores of the strong one: 0.06 is the ratio
of the list prices of GPT-4o mini and GPT-4o (0.15 to 2.50 dollars per million prompt tokens).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textassay.calibration.calibration import learn_rule
from textassay.calibration.columns import Columns, join_columns, read_judged
from textassay.calibration.maps import Scales
from textassay.learning import split_rows
from textassay.meta.records import People

Floats = NDArray[np.float64]
SCALES = Scales((1, 5), (1, 5))


@dataclass(frozen=True)
class Split:
    """What a rule learned from half of the documents does on the other half."""

    holds: bool
    share: float
    """Of the rows that the cheap judge decides."""
    wrong: float | None
    r: tuple[float, float, float]
    """Pearson's r with people of the cheap judge, the strong one, and the cascade."""


def split(
    columns: Columns, strong: Floats, seed: int, *, method: str, risk: float, tolerance: float
) -> Split:
    """Learn from half of the documents and return what happens on the other half."""
    train = split_rows(columns.groups, 0.5, seed=seed)
    rule, _ = learn_rule(
        columns.only(train), scales=SCALES, tolerance=tolerance, risk=risk, method=method, seed=seed
    )
    held_out, theirs = columns.only(~train), strong[~train]
    known = {score: rule.read(score) for score in set(held_out.scores.tolist())}
    readings = [known[score] for score in held_out.scores.tolist()]
    stands = np.array([one.stands for one in readings])
    values = np.array([one.value for one in readings])
    judged = (held_out.scores, theirs, np.where(stands, values, theirs))
    cheap, dear, both = (float(np.corrcoef(one, held_out.ratings)[0, 1]) for one in judged)
    if not stands.any():
        return Split(True, 0.0, None, (cheap, dear, both))
    wrong = np.abs(values - held_out.ratings)[stands] > tolerance + 1e-9
    holds = bool(wrong.mean() <= (rule.bound or 0.0))
    return Split(holds, float(stands.mean()), float(wrong.mean()), (cheap, dear, both))


def told(rows: list[Split], price: float) -> str:
    """Return two lines about all splits."""
    wrong = [row.wrong for row in rows if row.wrong is not None]
    share = float(np.mean([row.share for row in rows]))
    cheap, dear, both = np.mean([row.r for row in rows], axis=0)
    return (
        f"the bound holds in {sum(row.holds for row in rows)} of {len(rows)} splits;"
        f" {share:.3f} decided,"
        + (f" {np.mean(wrong):.3f} of these wrong" if wrong else " never")
        + f"\n  r (cost): cheap {cheap:.3f} ({price:.2f}), strong {dear:.3f} (1.00),"
        f" cascade {both:.3f} ({price + 1 - share:.2f})"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--score", default="gpt-4o-mini/consistency")
    parser.add_argument("--strong", default="gpt-4o/consistency")
    parser.add_argument("--price", type=float, default=0.06)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--risk", type=float, default=0.2)
    parser.add_argument("--tolerance", type=float, default=1.0)
    parser.add_argument("--methods", nargs="+", default=["auto", "linear"])
    a = parser.parse_args()
    people = a.score.split("/")[-1]
    every = read_judged(a.data)
    judged = {name: every[name] for name in (a.score, a.strong)}
    columns, other = join_columns(judged, People(a.data), [f"{one}={people}" for one in judged])
    at = dict(zip(other.ids, other.scores, strict=True))
    strong = np.array([at[id_] for id_ in columns.ids], float)
    for method in a.methods:
        rows = [
            split(columns, strong, seed, method=method, risk=a.risk, tolerance=a.tolerance)
            for seed in range(a.splits)
        ]
        print(f"{a.score}, {method}: {told(rows, a.price)}", flush=True)


if __name__ == "__main__":
    main()
