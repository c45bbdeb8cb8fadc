"""What each member of `auto`'s blend is worth, and what members would add that it does not have.

    python -m benchmarks.learning_members --data FOLDER [--on bagel newsroom ...] [--sizes 25 0.1]
        [--seeds 5]

Every member predicts the held-out rows, and by cross-validation the training rows, once; all blends
are made of these predictions. Printed is the table of docs/fit.md: by how much Pearson's r over the
held-out rows, averaged over aspects and cells (data set and size), falls with each other blend than
`auto` as it is, with the 95 % interval over seeds (Student's t, paired), and in how many cells. All
cells with five seeds take about eleven minutes on one core. `equal weights` go to all members
that can be learned. Members that were tried and are no part of `auto`:

- `avg`, the plain average;
- `toward average`: ridge regression whose weights shrink toward equal ones instead of 0;
- `joint`: ridge regression on the mean of all aspects' ratings, plus one on the aspect's distance
  from it, each with a penalty of its own: weights shrink toward those of the average aspect.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.learning_data import SETS, Floats, Recorded, read
from benchmarks.learning_recorded import agreement
from benchmarks.learning_table import MIN_ROWS, arguments, whole_sources
from textassay.learning import features_for
from textassay.learning.aggregators import Standardizer
from textassay.learning.learners import CANDIDATES
from textassay.learning.regression import Linear, fit_mean, fit_ridge
from textassay.learning.splits import GroupCodes, Mask
from textassay.learning.training import (
    FitResult,
    HeldOut,
    Training,
    cross_validate,
    rows_without_features,
)
from textassay.runtime.errors import DataError


@dataclass(frozen=True, slots=True)
class Together(Training):
    """Training rows with the mean of their standardized ratings over all aspects."""

    average: Floats = None  # type: ignore[assignment]

    def rows(self, chosen: Mask | GroupCodes) -> Together:
        """Return the chosen rows."""
        return replace(
            self,
            features=self.features[chosen],
            target=self.target[chosen],
            groups=self.groups[chosen],
            average=self.average[chosen],
        )


def learn_joint(training: Training) -> FitResult:
    """Ridge regression on the average aspect and on the distance from it."""
    assert isinstance(training, Together)
    parts = [
        fit_ridge(replace(training, target=target)).predictor
        for target in (training.average, training.target - training.average)
    ]
    return FitResult(_sum_of([part for part in parts if isinstance(part, Linear)]), {})


def learn_toward_average(training: Training) -> FitResult:
    """Ridge regression on what the plain average leaves over."""
    average = fit_mean(training).predictor
    assert isinstance(average, Linear)
    rest = training.target - average.predict(training.features)
    other = fit_ridge(replace(training, target=rest)).predictor
    assert isinstance(other, Linear)
    return FitResult(_sum_of([average, other]), {})


def _sum_of(parts: list[Linear]) -> Linear:
    weights = np.sum([part.weights for part in parts], axis=0)
    return Linear(weights, sum(part.intercept for part in parts))


TRIED = {**CANDIDATES, "avg": fit_mean, "toward average": learn_toward_average}
BLENDS: Mapping[str, tuple[str, ...]] = {
    "auto": tuple(CANDIDATES),
    **{f"without {one}": tuple(c for c in CANDIDATES if c != one) for one in CANDIDATES},
    **{f"with {one}": (*CANDIDATES, one) for one in ("avg", "toward average", "joint")},
    "equal weights": tuple(CANDIDATES),
}


def blended(data: Recorded, train: Mask, seed: int) -> dict[str, float]:
    """Return r over the held-out rows by blend, averaged over the aspects."""
    x = data.features[train]
    filled = ~rows_without_features(x)
    standardize = Standardizer.learn(x[filled])
    spread = np.nanstd(data.human[train], axis=0)
    ratings = (data.human[train] - np.nanmean(data.human[train], axis=0)) / np.where(
        spread > 0, spread, np.nan
    )
    found: dict[str, list[float]] = {name: [] for name in BLENDS}
    for column, aspect in enumerate(data.aspects):
        used = filled & ~np.isnan(ratings[:, column])
        target = ratings[used, column]
        if len(target) < 5 or target.min() == target.max():
            continue
        rows = Together(
            standardize(x)[used],
            (target - target.mean()) / target.std(),
            data.groups[train][used],
            features_for(aspect, data.feature_names, {*data.aspects, *data.rated}),
            seed,
            average=np.nanmean(ratings[used], axis=1),
        )
        for name, predicted in _blends(rows, standardize(data.features[~train])).items():
            human = data.human[~train][:, [column]]
            found[name].append(float(agreement(predicted[:, None], human)[0, 0]))
    return {name: float(np.nanmean(values)) for name, values in found.items()}


def _blends(rows: Together, new: Floats) -> dict[str, Floats]:
    tried = dict(TRIED)
    if rows.average.std() > 0 and not np.allclose(rows.average, rows.target):
        tried["joint"] = learn_joint
    held_out = cross_validate(rows, tried)
    predicted: dict[str, Floats] = {}
    for name in list(held_out.squared):
        try:
            predicted[name] = tried[name](rows).predictor.predict(new)
        except DataError as error:
            held_out.drop(name, str(error))
    return {
        blend: np.sum(
            [weight * predicted[name] for name, weight in _weights(held_out, blend).items()],
            axis=0,
        )
        for blend in BLENDS
    }


def _weights(held_out: HeldOut, blend: str) -> dict[str, float]:
    chosen = copy(held_out)
    chosen.squared = {k: v for k, v in held_out.squared.items() if k in BLENDS[blend]}
    if blend == "equal weights":
        return dict.fromkeys(chosen.squared, 1 / len(chosen.squared))
    return chosen.weights()


def main() -> None:
    """Print a line for each blend."""
    given = arguments(__doc__)
    cells: list[list[dict[str, float]]] = []
    for name in given.on:
        data = read(Path(given.data), SETS[name])
        for size in given.sizes:
            if whole_sources(data.groups, size, 0).sum() < MIN_ROWS:
                continue
            splits = (whole_sources(data.groups, size, seed) for seed in range(given.seeds))
            cells.append([blended(data, train, seed) for seed, train in enumerate(splits)])
    print(f"{len(cells)} cells, {given.seeds} seeds")
    print("| change | r falls by | in cells |\n|---|---|---|")
    for blend in list(BLENDS)[1:]:
        ahead = np.array([[one["auto"] - one[blend] for one in cell] for cell in cells])
        by_seed = np.nanmean(ahead, axis=0)
        half = stats.t.ppf(0.975, len(by_seed) - 1) * stats.sem(by_seed)
        fell = int((np.nanmean(ahead, axis=1) > 0).sum())
        print(f"| {blend} | {by_seed.mean():+.4f} ± {half:.4f} | {fell} |", flush=True)


if __name__ == "__main__":
    main()
