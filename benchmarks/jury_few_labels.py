"""What a jury learns from few labels: six recorded judges of SummEval, rated by three experts.

    python -m benchmarks.jury_few_labels --data alttest/summeval.jsonl.gz [--labels 30] [--seeds 5]

Half of the documents are held out. Of the other half so many summaries are rated, each of another
document while these last, and `auto` learns from the six judges' ratings of four aspects (24
features). Held against it on the held-out documents: the plain mean of the six judges, which needs
no labels, one judge alone (GPT-4o), and the judge that agrees best on the labels. Printed per
number of labels: Pearson's r and Spearman's rho averaged over aspects and seeds, and by how much
the jury is ahead, with the 95 % interval over the seeds (Student's t, paired).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.learning_data import SETS, Floats, Recorded, read
from benchmarks.learning_recorded import agreement, best_single
from textassay.learning import Aggregator, split_rows
from textassay.learning.splits import Mask

ALONE = "gpt-4o"


def labeled(data: Recorded, pool: Mask, count: int, seed: int) -> Mask:
    """Choose rows of the pool, each of another source while these last."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(pool))
    seen: dict[int, int] = {}
    turn = np.empty(len(rows))
    for place, row in enumerate(rows):
        turn[place] = seen[data.groups[row]] = seen.get(data.groups[row], -1) + 1
    chosen = rows[np.argsort(turn, kind="stable")[:count]]
    return np.isin(np.arange(len(data.groups)), chosen)


def of_judges(data: Recorded, *judges: str) -> Floats:
    """Return the mean of judges' ratings by aspect, shape (n, aspects); of all if none is named."""
    columns = []
    for aspect in data.aspects:
        own = [
            at
            for at, name in enumerate(data.feature_names)
            if name.endswith(f"/{aspect}") and (not judges or name.split("/")[0] in judges)
        ]
        columns.append(np.nanmean(data.features[:, own], axis=1))
    return np.stack(columns, axis=1)


def arms(data: Recorded, count: int, seed: int) -> dict[str, Floats]:
    """Return r and rho of the held-out rows, averaged over the aspects, by way to judge."""
    pool = split_rows(data.groups, 0.5, seed=seed)
    train, test = labeled(data, pool, count, seed), ~pool
    jury = Aggregator("auto", seed=seed).fit(
        data.features[train],
        data.human[train],
        groups=data.groups[train].tolist(),
        feature_names=data.feature_names,
        target_names=data.aspects,
    )
    # the best single judge is chosen on the labels alone
    chosen = best_single(data)(train, seed)[test[~train]]
    predicted = {
        "jury": jury.predict(data.features[test]),
        "mean of six": of_judges(data)[test],
        f"{ALONE} alone": of_judges(data, ALONE)[test],
        "best single": chosen,
    }
    return {name: agreement(p, data.human[test]).mean(axis=0) for name, p in predicted.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--labels", type=int, nargs="+", default=[30, 60])
    parser.add_argument("--seeds", type=int, default=5)
    a = parser.parse_args()
    wanted = SETS["alttest"]
    data = read(a.data.parent.parent, wanted)
    for count in a.labels:
        found = [arms(data, count, seed) for seed in range(a.seeds)]
        print(f"{count} labels, {a.seeds} seeds")
        for name in found[0]:
            values = np.array([one[name] for one in found])
            line = f"  {name:12s} {values[:, 0].mean():.3f}/{values[:, 1].mean():.3f}"
            if name != "jury":
                ahead = np.array([one["jury"] - one[name] for one in found])
                half = stats.t.ppf(0.975, len(ahead) - 1) * stats.sem(ahead, axis=0)
                line += "  jury ahead by " + ", ".join(
                    f"{mean:+.3f} [{mean - h:+.3f}, {mean + h:+.3f}]"
                    for mean, h in zip(ahead.mean(axis=0), half, strict=True)
                )
            print(line, flush=True)


if __name__ == "__main__":
    main()
