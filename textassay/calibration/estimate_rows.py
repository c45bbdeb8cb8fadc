"""What an estimate of means reports: rows, differences of systems, and what was assumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textassay.calibration.intervals import (
    Estimate,
)
from textassay.display import Displayed, Shown, first


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """One mean, estimated in three ways; values are on the raters' scale.

    Attributes:
        aspect: Name of the score.
        human: Name of the human aspect.
        system: The system; `None` for all rows.
        n: Scored rows.
        groups: Their sources.
        rated: Scored rows with a rating.
        rated_groups: Their sources.
        judge_only: Mean of the judge's scores; no value if its scale is unbounded.
        labels_only: Mean of the ratings.
        corrected: Both together.
        weight: PPI++'s lambda; `None` if not used.
        worth: How many ratings one rating is worth with the judge's help; `None` if undefined.
        method: `ppi++`, `rogan-gladen`, or `borrowed` if the system has too few ratings and the
            judge is taken to err as on the others.
        unscored: Rows without a score: number, share, mean rating, and bounds if they are many.
        outside: Share of the scores outside the range that has ratings.
        sparse: Share of the scores with fewer than 8 ratings at or beyond them, on either side.
        refused: Why there is no corrected value; `None` if there is.
        rank: Best and worst rank among the systems that the tests leave open; `None` if not ranked.
    """

    aspect: str
    human: str
    system: str | None
    n: int
    groups: int
    rated: int
    rated_groups: int
    judge_only: Estimate
    labels_only: Estimate
    corrected: Estimate
    weight: float | None
    worth: float | None
    method: str
    unscored: dict[str, Any]
    outside: float
    sparse: float
    refused: str | None = None
    rank: tuple[int, int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        ends = {name: getattr(self, name).as_dict() for name in _ESTIMATES}
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {
            **plain,
            **ends,
            "lambda": self.weight,
            "rank": None if self.rank is None else list(self.rank),
        }


_ESTIMATES = ("judge_only", "labels_only", "corrected")


_PLAIN = (
    "aspect", "human", "system", "n", "groups", "rated", "rated_groups", "worth", "method",
    "unscored", "outside", "sparse", "refused",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """The difference of two systems' corrected means, paired by source.

    Attributes:
        aspect: Name of the score.
        a: The first system.
        b: The second system.
        difference: `a - b` with its interval.
        p: Two-sided p-value; `None` if undefined.
        p_holm: The same, adjusted over all pairs of the aspect.
    """

    aspect: str
    a: str
    b: str
    difference: Estimate
    p: float | None
    p_holm: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "aspect": self.aspect,
            "a": self.a,
            "b": self.b,
            **self.difference.as_dict(),
            "p": self.p,
            "p_holm": self.p_holm,
        }


@dataclass(frozen=True, slots=True)
class Estimates(Displayed):
    """All means of one aspect.

    Attributes:
        rows: All rows together first, then by system.
        differences: Pairs of systems.
        assumes: Assumptions of the intervals.
        map: Kind of the map behind the calibrated scores.
    """

    rows: tuple[EstimateRow, ...]
    differences: tuple[SystemDifference, ...]
    assumes: tuple[str, ...]
    map: str

    def _shown(self) -> list[Shown]:
        means = [
            (row.aspect, row.system or "all", row.n, row.rated, _ends(row.judge_only),
             _ends(row.labels_only), row.refused or _ends(row.corrected), row.worth)
            for row in self.rows
        ]  # fmt: skip
        tables = [
            first(
                means, "means on the raters' scale", "aspect", "system", "scored", "rated",
                "judge only", "ratings only", "corrected", "worth",
            )
        ]  # fmt: skip
        if self.differences:
            lines = [
                (one.aspect, f"{one.a} - {one.b}", _ends(one.difference), one.p, one.p_holm)
                for one in self.differences
            ]
            tables.append(first(lines, "", "aspect", "systems", "difference", "p", "p (Holm)"))
        return tables


def _ends(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return estimate.value, estimate.low, estimate.high
