"""Whether the means of a row's system or source help to predict its rating.

Decided on rows that are left out.

Knows training rows with and without such means beside them. If the systems to be
judged are those of the training rows, sources are left out; if they are new, systems and sources
are, since what is learned of few systems need not hold for the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textassay.learning.auto import HeldOut
from textassay.learning.linear import learn_ridge
from textassay.learning.splits import Codes, Mask, folds
from textassay.learning.training import Floats, Learner, Training

_FOLDS = 5
_MIN_GROUPS = 2
"""Groups that ridge regression needs to choose its penalty."""
_ROWS_TO_CHOOSE = 5_000
WITHOUT, WITH = "without", "with"


@dataclass(frozen=True, slots=True)
class Compared:
    """What leaving rows out shows.

    Attributes:
        helps: Whether the means lower the error; of new systems, by more than one standard error.
        errors: Squared error `without` and `with` them, relative to that of predicting the mean.
    """

    helps: bool
    errors: dict[str, float]

    def as_dict(self, systems: int, *, new: bool) -> dict[str, Any]:
        """Return JSON values for notes."""
        left_out = "sources and systems" if new else "sources"
        return {
            "used": self.helps,
            "known": systems,
            "left_out": left_out,
            "held_out_error": self.errors,
        }


def compare_pooling(
    without: Training,
    beside: Training,
    systems: Codes,
    *,
    new: bool,
    least_gain: float = 0.0,
    learner: Learner = learn_ridge,
) -> Compared | None:
    """Compare learning without and with the means of systems, by ridge regression on both.

    Args:
        without: Training rows.
        beside: The same rows with means beside their features.
        systems: Code of each row's system, shape (n,).
        new: Whether rows of other systems are to be judged.
        least_gain: Share by which the error must fall.
        learner: What is compared.

    Returns:
        `None` if any of the rows would have to be predicted from fewer than two groups.
    """
    kept = np.isin(without.groups, without.at_most(_ROWS_TO_CHOOSE).groups)
    without, beside, systems = without.rows(kept), beside.rows(kept), systems[kept]
    predicted = {WITHOUT: np.empty(len(systems)), WITH: np.empty(len(systems))}
    cells = _cells(without, systems, new=new)
    if any(len(np.unique(without.groups[inside])) < _MIN_GROUPS for inside, _ in cells):
        return None
    for inside, outside in cells:
        for name, rows in ((WITHOUT, without), (WITH, beside)):
            one: Floats = learner(rows.rows(inside)).predictor.predict(rows.features[outside])
            predicted[name][outside] = one
    # rows of one system are wrong together when it is new, so they count as one observation
    held_out = HeldOut(replace(without, groups=systems) if new else without, predicted, {})
    errors = held_out.errors()
    falls = errors[WITH] < (1 - least_gain) * errors[WITHOUT]
    clearly = held_out.best(unless_clearly_better=WITHOUT) == WITH
    return Compared(clearly if new else falls, errors)


def _cells(rows: Training, systems: Codes, *, new: bool) -> list[tuple[Mask, Mask]]:
    """Return masks of rows to learn from and rows to predict; every row is predicted once."""
    if len(np.unique(rows.groups)) < _MIN_GROUPS or (new and len(np.unique(systems)) < 2):
        return [(np.zeros(len(systems), bool), np.ones(len(systems), bool))]
    by_group = folds(rows.groups, _FOLDS, seed=rows.seed)
    if not new:
        return [(by_group != f, by_group == f) for f in range(int(by_group.max()) + 1)]
    by_system = folds(systems, _FOLDS, seed=rows.seed)
    cells = [
        ((by_group != f) & (by_system != s), (by_group == f) & (by_system == s))
        for f in range(int(by_group.max()) + 1)
        for s in range(int(by_system.max()) + 1)
    ]
    return [(inside, outside) for inside, outside in cells if outside.any()]
