"""Where to cut a score, so that it says pass or fail.

A threshold that is chosen on the rows on which it is then measured looks better than it is. It is
chosen on one half of the sources, and the other half says how good it is; or it is given.

Knows arrays and what each row belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from textassay.meta.correlation import Floats, finite_array
from textassay.meta.label_measures import LabelAgreement, label_agreement
from textassay.meta.levels import RowLabels, pair_up
from textassay.runtime.errors import DataError
from textassay.runtime.labels import YES_NO

MIN_SOURCES = 10
"""Fewest sources that are divided into halves."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A score from which on a text counts as yes.

    Attributes:
        value: The score.
        yes: Whether scores of at least `value` are yes, or those of at most `value`.
        chosen_on: Sources it was chosen on; 0 if it was given.
        found: Balanced accuracy on these sources, which is too high; `None` if it was given.
    """

    value: float
    yes: Literal["above", "below"]
    chosen_on: int = 0
    found: float | None = None

    def apply(self, scores: Floats) -> Floats:
        """Return 1 for yes and 0 for no, shape (n,); NaN stays."""
        yes = scores >= self.value if self.yes == "above" else scores <= self.value
        return np.where(np.isnan(scores), np.nan, yes.astype(float))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "value": self.value,
            "yes": self.yes,
            "chosen_on": self.chosen_on,
            "found": self.found,
        }


def agreement_at(
    scores: ArrayLike | Sequence[float | None],
    human: ArrayLike | Sequence[float | None],
    *,
    threshold: float | None = None,
    labels: Sequence[str] = YES_NO.names,
    groups: RowLabels | None = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> tuple[LabelAgreement, Threshold]:
    """Return how well a score that is cut at a threshold agrees with yes and no of people.

    Without a threshold, that with the best balanced accuracy on a random half of the sources is
    taken, for rising or for falling scores, and the agreement is over the other half alone.

    Args:
        scores: Shape (n,); `None` or NaN if a row is unscored.
        human: 1 for yes and 0 for no, shape (n,); `None` or NaN if there is no label.
        threshold: Scores of at least this are yes; `None` to choose one.
        labels: The words for no and yes.
        groups: What each row belongs to, length n; without groups every row is a source.
        bootstrap: Number of random weightings behind the intervals; 0 for no intervals.
        seed: Seed of the halves and of the weightings.

    Raises:
        DataError: A label is neither 0 nor 1; or there are too few sources to divide, or one half
            has only one label.
    """
    values, people = finite_array(scores, "scores"), finite_array(human, "labels")
    if threshold is not None:
        cut, confirming = Threshold(threshold, "above"), np.ones(len(values), bool)
    else:
        cut, confirming = _chosen(values, people, groups, seed)
    found = label_agreement(
        np.where(confirming, cut.apply(values), np.nan),
        np.where(confirming, people, np.nan),
        labels=labels,
        groups=groups,
        bootstrap=bootstrap,
        seed=seed,
    )
    return found, cut


def _chosen(
    values: Floats, people: Floats, groups: RowLabels | None, seed: int
) -> tuple[Threshold, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return the best threshold on half of the sources, and the rows of the others."""
    labeled = np.flatnonzero(~np.isnan(people))
    pairs = pair_up(people, people, groups=groups)
    sources = pairs.groups if pairs.groups is not None else np.arange(len(labeled))
    number = int(sources.max(initial=-1)) + 1
    if number < MIN_SOURCES:
        raise DataError(
            f"a threshold is chosen on one half of the sources and confirmed on the other, which"
            f" takes {MIN_SOURCES} sources with labels, not {number}; give the threshold"
        )
    first = np.random.default_rng(seed).permutation(number) < number // 2
    choosing = labeled[first[sources]]
    choosing = choosing[~np.isnan(values[choosing])]
    if len(set(people[choosing].tolist())) < 2:
        raise DataError(
            "all texts of the sources on which a threshold would be chosen have the same label;"
            " give the threshold"
        )
    value, yes, accuracy = best_threshold(values[choosing], people[choosing])
    confirming = np.zeros(len(values), bool)
    confirming[labeled[~first[sources]]] = True
    return Threshold(value, yes, int(first.sum()), accuracy), confirming


def best_threshold(scores: Floats, human: Floats) -> tuple[float, Literal["above", "below"], float]:
    """Return the threshold with the best balanced accuracy, its direction, and that accuracy.

    It lies halfway between two scores that occur. Of equally good ones it is the middle one.

    Args:
        scores: Shape (n,), no NaN.
        human: 0 and 1, both of them, shape (n,).
    """
    levels, at = np.unique(scores, return_inverse=True)
    yes = np.bincount(at, weights=human)
    no = np.bincount(at, weights=1 - human)
    # shares of yes at or above each level, and of no below it
    recall = np.cumsum(yes[::-1])[::-1] / yes.sum()
    specificity = (np.cumsum(no) - no) / no.sum()
    above = (recall + specificity) / 2
    if len(levels) == 1:
        return float(levels[0]), "above", 0.5
    cuts = (levels[:-1] + levels[1:]) / 2
    rising, falling = above[1:], 1 - above[1:]
    side: Literal["above", "below"] = "above" if rising.max() >= falling.max() else "below"
    quality = rising if side == "above" else falling
    equal = np.flatnonzero(quality >= quality.max() - 1e-12)
    middle = int(equal[len(equal) // 2])
    return float(cuts[middle]), side, float(quality[middle])
