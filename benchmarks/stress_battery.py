"""How often the stress suite finds planted defects of a judge, and raises a false alarm.

Five judges rate 120 texts of 60 sources under every edit and order of the suite, on four aspects,
over 200 seeds of their noise; and two judges compare 60 pairs in both orders, in whole runs.
Printed per judge: the seeds in which all its planted tests fail, and those in which any other test
fails.

    python -m benchmarks.stress_battery [--seeds 200] [--whole SEEDS]

With `--whole`, the first five go through prompts, answers and the engine as well (24 texts, one
aspect).
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from benchmarks.planted_judges import JUDGES, PAIRWISE, Judge, World, compared, texts
from textassay.methods.library import tasks
from textassay.stress.verdicts import StressRow

ASPECTS = ("coherence", "consistency", "fluency", "relevance")


@dataclass
class Found:
    """The suite's verdicts on one judge."""

    planted: frozenset[str]
    """Tests that must fail."""
    touched: frozenset[str] = frozenset()
    """Tests that may."""
    seeds: int = 0
    """Number of draws."""
    all_found: int = 0
    """Draws in which every planted test fails."""
    alarmed: int = 0
    """Draws in which a test fails that has nothing to do with the defect."""
    missed: Counter[str] = field(default_factory=Counter)
    """How often each planted test does not fail."""
    alarms: Counter[str] = field(default_factory=Counter)
    """How often each other test fails."""

    def add(self, rows: Iterable[StressRow]) -> None:
        """Count one draw."""
        failed = {row.test for row in rows if row.verdict == "fails"}
        false = failed - self.planted - self.touched
        self.seeds += 1
        self.all_found += failed >= self.planted
        self.alarmed += bool(false)
        self.missed.update(self.planted - failed)
        self.alarms.update(false)


def simulated(world: World, judge: Judge, seeds: int) -> Found:
    """Return the suite's verdicts on a judge whose ratings are drawn without prompts."""
    found = Found(world.planted(judge), judge.touched)
    # a judge without noise gives the same ratings each time
    for seed in range(seeds if judge.noise else 1):
        found.add(world.rows(judge, seed))
    return found


def whole(world: World, judge: Judge, seeds: int) -> Found:
    """Return the verdicts of whole runs on a judge."""
    found = Found(world.planted(judge), judge.touched)
    for seed in range(seeds if judge.noise else 1):
        found.add(asyncio.run(world.whole_run(judge, seed)).rows)
    return found


def in_pairs(lean: float, seeds: int) -> Found:
    """Return the verdicts of whole runs of `pairwise` on a judge that favors the first text."""
    found = Found(frozenset({"swap"}) if lean else frozenset())
    for seed in range(seeds):
        found.add(asyncio.run(compared(lean, seed)).rows)
    return found


def show(title: str, cases: Sequence[tuple[str, Callable[[], Found]]]) -> None:
    """Print one line per judge as soon as it is measured."""
    print(title)
    print(f"  {'judge':16} {'seeds':>5}  {'all found':>9}  {'false alarm':>11}  missed; alarms")
    for name, find in cases:
        one = find()
        counts = f"{_counted(one.missed)}; {_counted(one.alarms)}"
        print(
            f"  {name:16} {one.seeds:5}  {one.all_found / one.seeds:9.1%}"
            f"  {one.alarmed / one.seeds:11.1%}  {counts}",
            flush=True,
        )


def _counted(tests: Counter[str]) -> str:
    return ", ".join(f"{test} {count}" for test, count in tests.most_common()) or "none"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--whole", type=int, default=0, metavar="SEEDS")
    options = parser.parse_args()
    world = World(texts(120), aspects=tasks.load("summarization", ASPECTS).aspects)
    show(
        f"{len(world.tests) - 1} edits and orders, 120 texts, {len(ASPECTS)} aspects",
        [(name, partial(simulated, world, judge, options.seeds)) for name, judge in JUDGES.items()],
    )
    show(
        "whole runs of `pairwise`, 60 pairs",
        [(name, partial(in_pairs, lean, options.seeds)) for name, lean in PAIRWISE.items()],
    )
    if options.whole:
        small = World(texts(24), aspects=tasks.load("summarization", ASPECTS[:1]).aspects)
        show(
            "whole runs of `llm-score`, 24 texts, coherence",
            [(name, partial(whole, small, judge, options.whole)) for name, judge in JUDGES.items()],
        )


if __name__ == "__main__":
    main()
