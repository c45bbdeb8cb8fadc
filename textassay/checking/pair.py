"""`JudgedPair`: a judge's scores beside people's ratings of the same texts, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from textassay.arrays import Codes, Floats, Mask

RatingKind = Literal["number", "label"]
PairScale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """One judge and one aspect that people rated.

    Labels are given by their positions in `labels`; with two labels, the second one passes.
    """

    judge: str
    """Name of the judge's column."""
    human: str
    """Name of people's column, or joined name of their columns."""
    scores: Floats
    """Judge's scores, NaN if unscored, shape (n,)."""
    ratings: Floats
    """People's ratings: the mean of the raters, or the label that most of them gave; NaN if unrated
    or tied, shape (n,).
    """
    raters: Floats
    """Single ratings with gaps, shape (n, raters)."""
    groups: Codes
    """Code of each row's source, shape (n,)."""
    has_groups: bool
    """Whether the data show which texts share a source."""
    systems: Codes
    """Code of the system that wrote each text, -1 if unknown, shape (n,)."""
    labels: tuple[str, ...] = ()
    """Names of people's labels; empty for numbers."""
    judge_labels: bool = False
    """Whether the judge's scores are positions in `labels`."""
    scale: PairScale = (0.0, 1.0)
    """Ends of people's scale."""
    judge_scale: PairScale = (0.0, 1.0)
    """Ends of the judge's scale."""

    @property
    def kind(self) -> RatingKind:
        """Whether people gave labels or numbers."""
        return "label" if self.labels else "number"

    @property
    def same_scale(self) -> bool:
        """Whether judge and people rate on one scale."""
        return self.judge_labels or (not self.labels and self.scale == self.judge_scale)

    @property
    def both(self) -> Mask:
        """Rows with a score and a rating, shape (n,)."""
        return ~np.isnan(self.scores) & ~np.isnan(self.ratings)

    @property
    def unscored(self) -> int:
        """Number of rows that people rated and the judge did not score."""
        return int(np.count_nonzero(np.isnan(self.scores) & ~np.isnan(self.ratings)))

    def only(self, rows: Mask) -> JudgedPair:
        """Return some of the rows, with sources numbered from 0."""
        return replace(
            self,
            scores=self.scores[rows],
            ratings=self.ratings[rows],
            raters=self.raters[rows],
            groups=np.unique(self.groups[rows], return_inverse=True)[1],
            systems=self.systems[rows],
        )

    @property
    def cut(self) -> float:
        """The rating from which people pass a text; between the two labels for labels."""
        return 0.5 if self.labels else _passing(self.scale)

    @property
    def judge_cut(self) -> float:
        """The score from which the judge passes a text."""
        # a probability of yes and a share are cut in the middle
        if self.judge_labels or (self.labels and self.judge_scale == (0.0, 1.0)):
            return 0.5
        return _passing(self.judge_scale)

    @property
    def on_scale(self) -> Floats:
        """The judge's scores, mapped linearly to people's scale, shape (n,)."""
        if self.judge_labels or self.scale == self.judge_scale:
            return self.scores
        low, high = self.judge_scale
        share = (self.scores - low) / (high - low)
        return np.asarray(self.scale[0] + share * (self.scale[1] - self.scale[0]))


def _passing(scale: PairScale) -> float:
    # three quarters up the scale: 4 on a scale of 1 to 5, 3 on a scale of 0 to 4
    return scale[0] + 0.75 * (scale[1] - scale[0])
