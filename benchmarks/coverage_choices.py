"""How often the intervals of `meta.choice` hold the share of right choices, in simulated groups.

    python -m benchmarks.coverage_choices [--draws 1000]

Designs: 15 to 200 groups, of which a judge chooses the share `right` right, and `tied` are ties of
the right and a wrong text; each group alone, or in sources of four groups that are alike.
"""

from __future__ import annotations

import argparse

import numpy as np

from textassay.agreement.choice import choice_agreement

GROUPS, RIGHT, TIED, OF_SOURCE = (15, 30, 60, 200), (0.5, 0.85, 0.95, 0.99), (0.0, 0.1), (1, 4)


def draw(
    rng: np.random.Generator, groups: int, right: float, tied: float, of_source: int
) -> tuple[list[float], list[float], list[int], list[int]]:
    """Return scores, ratings, groups and sources of two texts a group."""
    sources = np.arange(groups) // of_source
    # sources differ: the chance of a right choice is drawn from a beta distribution of size 4
    chance = np.full(groups, right)
    if of_source > 1:
        chance = rng.beta(4 * right, 4 * (1 - right), size=groups)[sources]
    kind = np.where(rng.random(groups) < tied, 0.5, (rng.random(groups) < chance).astype(float))
    scores = [value for one in kind for value in (one, 1 - one)]
    twice = np.repeat(np.arange(groups), 2)
    return scores, [1.0, 0.0] * groups, twice.tolist(), np.repeat(sources, 2).tolist()


def main() -> None:
    """Print a line for each design."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    rng = np.random.default_rng(0)
    for of_source in OF_SOURCE:
        for groups in GROUPS:
            for right in RIGHT:
                for tied in TIED:
                    truth = (1 - tied) * right + tied / 2
                    held, given = 0, 0
                    for _ in range(draws):
                        x, y, at, units = draw(rng, groups, right, tied, of_source)
                        found = choice_agreement(x, y, at, units=units).choice.ci
                        given += found is not None
                        held += found is not None and found[0] <= truth <= found[1]
                    shown = f"{held / given:.3f}" if given else "-"
                    print(f"{of_source} a source, {groups} groups, {right} right, {tied} tied:"
                          f" {shown} of {given}")  # fmt: skip


if __name__ == "__main__":
    main()
