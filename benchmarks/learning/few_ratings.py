"""How often the words of `fit`'s report on few ratings are right about the plain mean.

    python -m benchmarks.learning.few_ratings --data FOLDER [--on summeval ...] [--draws 20]
        [--aggregator auto]

Each draw has 20 to 39 rated texts of a recorded data set, and the rest of its texts unrated. The
report says of each aspect whether learned weights are shown to be better than the plain mean of its
features. Printed is how often it says so, and, for either case, in which share of the cases learned
weights have a Pearson's r that is higher, or lower, by more than .02 on the rest of the texts, and
how much higher r is in the mean. The last row is all data sets together.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.learning.recorded import SETS, Recorded, read
from benchmarks.learning.ways import agreement
from textassay.fitting.feature_table import FeatureTable, rating_scales
from textassay.fitting.held_out import measure_held_out
from textassay.fitting.learn import Fitter, cross_fit, predict
from textassay.fitting.read_table import read_table
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError

CLEAR = 0.02
"""Differences of r that count: about the standard error of r in a thousand texts."""
DEFAULT = (
    "alttest", "summeval", "topical-chat", "newsroom", "bagel", "sfres", "openmeva", "realsumm",
)  # fmt: skip


class Case(NamedTuple):
    """The report's words on an aspect, and the lead of learned weights on the rest."""

    shown: bool
    ahead: float


def table_of(data: Recorded) -> FeatureTable:
    """Return the rows that have all ratings, as `fit` reads them."""
    rows = [
        {
            "id": str(at),
            "human": dict(zip(data.aspects, ratings.tolist(), strict=True)),
            "metrics": {
                name: float(value)
                for name, value in zip(data.feature_names, features, strict=True)
                if value == value
            },
            "group": str(group),
            "system": system,
        }
        for at, (ratings, features, group, system) in enumerate(
            zip(data.human, data.features, data.groups, data.systems, strict=True)
        )
        if not np.isnan(ratings).any()
    ]
    return read_table(Examples(rows, needs_output=False), patterns=("*",))


def cases(table: FeatureTable, aggregator: str, seed: int) -> Iterator[Case]:
    """Yield a case for each aspect of one draw; none where nothing can be learned."""
    rng, n = np.random.default_rng(seed), len(table.ids)
    given = np.isin(np.arange(n), rng.choice(n, int(rng.integers(20, 40)), replace=False))
    train, rest = table.rows(given), table.rows(~given)
    train = replace(train, groups=np.unique(train.groups, return_inverse=True)[1])
    fitter = Fitter(rating_scales(table, {}), seed=0, threads=1)
    try:
        choice, unseen = cross_fit([aggregator], train, fitter, lambda _: None)
        learned = predict(choice.aggregator, rest)
        plain = [predict(fitter.fit("avg", train, one), rest)[:, 0] for one in table.aspects]
    except DataError:  # such as equal ratings of an aspect
        return
    found = measure_held_out(choice, unseen, fitter, shuffled=False)["aspects"]
    of_both = (agreement(one, rest.human)[:, 0] for one in (learned, np.stack(plain, axis=1)))
    for aspect, ahead in zip(table.aspects, np.subtract(*of_both), strict=True):
        delta = found[aspect]["evaluator_minus"].get("avg", {}).get("pearson", {})
        if not np.isnan(ahead) and delta.get("difference") is not None:
            yield Case(bool(delta["significant"]), float(ahead))


def describe(found: Sequence[Case]) -> str:
    """Return the row of a table: shown to be better, and not shown."""
    cells = [str(len(found))]
    for shown in (True, False):
        ahead = np.array([one.ahead for one in found if one.shown == shown])
        text = f"{len(ahead)}"
        if len(ahead):
            more, less = (ahead > CLEAR).mean(), (ahead < -CLEAR).mean()
            text += f": ahead {more:.0%}, behind {less:.0%}, mean {ahead.mean():+.3f}"
        cells.append(text)
    return " | ".join(cells)


def main() -> None:
    """Print a row for each data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--on", nargs="+", default=DEFAULT, choices=list(SETS))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--aggregator", default="auto")
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the data with --data FOLDER or TEXTASSAY_DATA")
    print("| data | cases | shown to be better | not shown |\n|---|---|---|---|")
    every: list[Case] = []
    for name in given.on:
        data = read(Path(given.data), SETS[name])
        table = table_of(data)
        own = [one for seed in range(given.draws) for one in cases(table, given.aggregator, seed)]
        every += own
        print(f"| {data.name} | {describe(own)} |", flush=True)
    print(f"| all | {describe(every)} |")


if __name__ == "__main__":
    main()
