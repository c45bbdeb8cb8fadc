"""Which criteria `fit --method rubric` keeps: one that people follow, and four that say nothing.

People rate 60 texts by a property that each text has or lacks, with noise. One criterion sees the
property in nine of ten texts; the ratings of the others are drawn at random. Printed: how often
each kind stays after one round.

    python -m benchmarks.rubric_noise [--draws 40]
"""

from __future__ import annotations

import argparse

import numpy as np

from textassay.fitting.fit_rubric import weed
from textassay.fitting.learn import Fitter, read_table
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Aspect

TEXTS, NOISE = 60, 4


def draw(seed: int) -> tuple[bool, int]:
    """Return whether the followed criterion stays, and how many of the others do."""
    rng = np.random.default_rng(seed)
    has = rng.random(TEXTS) < 0.5
    human = 2 + 1.6 * has + 0.6 * rng.normal(size=TEXTS)
    rows = [
        {"id": f"r{i}", "output": "x", "group": f"g{i}", "human": {"coherence": float(value)}}
        for i, value in enumerate(human)
    ]
    people = read_table(Examples(rows), aspects=None)
    root = Aspect(name="coherence", definition="d", scale=(1, 5))
    criteria = [
        Aspect(name=f"C{k}", definition="d", scale=(1, 5), parent="coherence")
        for k in range(1 + NOISE)
    ]
    ratings = {
        "coherence": dict(zip(people.ids, map(float, rng.integers(1, 6, TEXTS)), strict=True))
    }
    for criterion in criteria:
        seen = np.where(rng.random(TEXTS) < 0.9, has, ~has)
        values = seen * 4 + 1 if criterion is criteria[0] else rng.integers(1, 6, TEXTS)
        ratings[criterion.id] = dict(zip(people.ids, map(float, values), strict=True))
    verdicts = weed(people, [root], criteria, ratings, Fitter({"coherence": (-2, 9)}, seed, 1))
    stays = [verdicts[one.id].reason is None for one in criteria]
    return stays[0], sum(stays[1:])


def main() -> None:
    """Print both shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=40)
    draws = parser.parse_args().draws
    followed, noise = zip(*(draw(seed) for seed in range(draws)), strict=True)
    print(f"the criterion that people follow stays in {sum(followed)} of {draws} draws")
    print(f"of criteria that say nothing stay {sum(noise)} of {NOISE * draws}")


if __name__ == "__main__":
    main()
