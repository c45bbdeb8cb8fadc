"""How often the intervals and tests of `textassay.agreement` cover, simulated and real.

A data set is drawn with documents that differ in how hard they are, systems that differ in how good
they are, and ratings on a skewed five-point scale (or a normal one). The truth is the coefficient
of a very large data set of the same systems. Printed per level and size: the share of 95 %
intervals that hold it (of those that are given), how many are given, and the share of tests that
find a difference between two judges who are equally good.

With `--data FILE` (JSON Lines with `group`, `system`, `metrics`, and `human` or `annotators`, plain
or gzip) random halves of the documents are held against the other half: the interval of one half
must hold the other half's coefficient as often as the noise of both allows, 95 % at a factor of the
square root of two.

    python -m benchmarks.coverage [--draws 400] [--data FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textassay import agreement
from textassay.agreement.correlation import COEFFICIENTS, Coefficient

Floats = NDArray[np.float64]
TRUTH_DOCUMENTS = 8_000
MAX_JUDGES = 6


@dataclass(frozen=True, slots=True)
class World:
    """What data sets are drawn from."""

    systems: int = 8
    skewed: bool = True
    """Whether scores and ratings lie on a five-point scale, most ratings at its top."""
    spread: float = 0.3
    """Standard deviation of the quality of systems."""
    seed: int = 5
    """Seed of the quality of systems, which all draws of a world share."""

    def draw(self, documents: int, rng: np.random.Generator) -> dict[str, Any]:
        """Return two equally good judges, ratings, groups and systems of one data set."""
        quality = np.random.default_rng(self.seed).normal(size=(3, self.systems)) * self.spread
        hard = rng.normal(size=(documents, 1)) * 0.7
        error = rng.normal(size=(documents, self.systems))
        human = hard + quality[0] + error
        judges = [
            # how strongly a judge reacts to a hard document differs by document, for all its rows
            0.6 * hard * rng.normal(1, 0.3, size=hard.shape)
            + rng.normal(size=hard.shape) * 0.5
            + 0.8 * quality[0]
            + 0.5 * error
            + rng.normal(size=error.shape)
            for _ in range(2)
        ]
        if self.skewed:
            human = np.clip(np.round(4.6 + human), 1, 5)
            judges = [np.clip(np.round(3.5 + judge), 1, 5) for judge in judges]
        return {
            "a": judges[0].ravel(),
            "b": judges[1].ravel(),
            "human": human.ravel(),
            "groups": np.repeat(np.arange(documents), self.systems),
            "systems": np.tile(np.arange(self.systems), documents),
        }


def coverage(
    world: World, level: agreement.Level, documents: int, draws: int, resamples: int = 200
) -> dict[Coefficient, tuple[int, int]]:
    """Return how many intervals hold the truth, and how many are given, by coefficient."""
    large = world.draw(TRUTH_DOCUMENTS, np.random.default_rng(10**6))
    truth = _agreement(large, level, 0, 0)
    counts = dict.fromkeys(COEFFICIENTS, (0, 0))
    for seed in range(draws):
        data = world.draw(documents, np.random.default_rng(seed))
        for name, span in (_agreement(data, level, resamples, seed).ci or {}).items():
            if span is not None:
                held, given = counts[name]
                inside = span[0] <= getattr(truth, name) <= span[1]
                counts[name] = held + inside, given + 1
    return counts


def false_alarms(
    world: World, level: agreement.Level, documents: int, draws: int
) -> tuple[int, int]:
    """Return how many tests find a difference of two equally good judges, and how many are given.

    The difference is in Spearman's rho.
    """
    found = given = 0
    for seed in range(draws):
        data = world.draw(documents, np.random.default_rng(seed))
        p = agreement.compare(
            data["a"], data["b"], data["human"], groups=data["groups"], systems=data["systems"],
            level=level, bootstrap=200, seed=seed,
        ).spearman.p  # fmt: skip
        found, given = found + (p is not None and p < 0.05), given + (p is not None)
    return found, given


def _agreement(
    data: dict[str, Any], level: agreement.Level, resamples: int, seed: int
) -> agreement.Agreement:
    return agreement.correlate(
        data["a"], data["human"], groups=data["groups"], systems=data["systems"], level=level,
        bootstrap=resamples, seed=seed,
    )  # fmt: skip


def halves(
    rows: list[dict[str, Any]], splits: int
) -> Iterator[tuple[str, agreement.Level, int, int]]:
    """Yield judge, level, held and given over random halves of the documents."""
    rated = rows[0]["human"]
    judges = [name for name in rows[0]["metrics"] if name.split("/")[-1] in rated][:MAX_JUDGES]
    documents = sorted({row["group"] for row in rows})
    for judge in judges:
        aspect = judge.split("/")[-1]
        for level in agreement.LEVELS:
            held = given = 0
            for seed in range(splits):
                drawn = np.random.default_rng(seed).permutation(len(documents))
                first = {documents[i] for i in drawn[: len(documents) // 2]}
                one, other = (
                    _real(
                        [row for row in rows if (row["group"] in first) is side],
                        judge,
                        aspect,
                        level,
                    )
                    for side in (True, False)
                )
                for name, span in (one.ci or {}).items():
                    value, point = getattr(other, name), getattr(one, name)
                    if span is None or value is None:
                        continue
                    low, high = (math.sqrt(2) * (end - point) + point for end in span)
                    held, given = held + (low <= value <= high), given + 1
            yield judge, level, held, given


def read(path: Path) -> list[dict[str, Any]]:
    """Read recorded rows; ratings are those in `human`, or the means of `annotators`."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for row in rows:
        if "human" not in row:
            row["human"] = {
                name: math.fsum(known) / len(known)
                for name, given in row["annotators"].items()
                if (known := [one for one in given if one is not None])
            }
    return rows


def _real(
    rows: list[dict[str, Any]], judge: str, aspect: str, level: agreement.Level
) -> agreement.Agreement:
    return agreement.correlate(
        [row["metrics"].get(judge) for row in rows],
        [row["human"].get(aspect) for row in rows],
        groups=[row["group"] for row in rows],
        systems=[row["system"] for row in rows],
        level=level,
        bootstrap=200,
    )


def print_weak_systems(draws: int) -> None:
    """Print the coverage at system level if systems differ little, over five sets of systems."""
    print("\nsystem level by spread of the systems' quality, five sets of systems, both scales")
    for spread in (0.1, 0.15, 0.2, 0.25):
        for documents, systems in ((40, 10), (100, 16)):
            total = dict.fromkeys(COEFFICIENTS, (0, 0))
            for skewed in (True, False):
                for seed in range(5, 10):
                    world = World(systems, skewed, spread, seed)
                    for name, (held, given) in coverage(
                        world, "system", documents, draws // 10, resamples=2
                    ).items():
                        total[name] = total[name][0] + held, total[name][1] + given
            cells = [f"{h / g:.3f} of {g:>4}" if g else "none given" for h, g in total.values()]
            print(
                f"{spread:<8} {documents:9}  {systems:7}           "
                + "  ".join(f"{cell:>14}" for cell in cells),
                flush=True,
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    rows = read(arguments.data) if arguments.data else []
    print(
        "level    documents  systems  scale    "
        + "  ".join(f"{c:>14}" for c in COEFFICIENTS)
        + "   false alarms"
    )
    for level in agreement.LEVELS:
        for documents in (5, 8, 12, 30, 100):
            for skewed in (True, False):
                world = World(systems=16 if level == "system" else 8, skewed=skewed)
                counts = coverage(world, level, documents, arguments.draws)
                alarms, tests = false_alarms(world, level, documents, arguments.draws)
                cells = [
                    f"{h / g:.3f} of {g:>4}" if g else "none given" for h, g in counts.values()
                ]
                print(
                    f"{level:8} {documents:9}  {world.systems:7} "
                    f" {'skewed' if skewed else 'normal'}   "
                    + "  ".join(f"{cell:>14}" for cell in cells)
                    + (f"   {alarms / tests:.3f} of {tests}" if tests else "   none given"),
                    flush=True,
                )
    print_weak_systems(arguments.draws)
    for judge, level, held, given in halves(rows, 20) if rows else ():
        share = f"{held / given:.3f} of {given}" if given else "none given"
        print(f"{judge:40} {level:8} {share}", flush=True)


if __name__ == "__main__":
    main()
