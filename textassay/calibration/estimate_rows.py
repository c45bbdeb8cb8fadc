"""What an estimate of means reports: rows, differences of systems, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from textassay.calibration.intervals import Estimate, rank_range
from textassay.display import Displayed
from textassay.table import Column, Flag, Note, Table

_MEANS = (
    Column("score", "score"), Column("system", "system"), Column("n", "n", "count"),
    Column("rated", "rated", "count"), Column("sources", "sources", "count"),
    Column("judge_only", "judge only", "interval"),
    Column("labels_only", "labels only", "interval"),
    Column("corrected", "corrected", "interval"), Column("lambda", "lambda", "number", 2),
    Column("worth", "1 label =", "number", 2), Column("rank", "rank", "number"),
)  # fmt: skip
_DIFFERENCES = (
    Column("score", "score"), Column("a", "a"), Column("b", "b"),
    Column("difference", "a - b", "interval"), Column("p", "p", "p"),
    Column("p_holm", "p (Holm)", "p"),
)  # fmt: skip


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
        confidence: Confidence of the intervals.
    """

    rows: tuple[EstimateRow, ...]
    differences: tuple[SystemDifference, ...]
    assumes: tuple[str, ...]
    map: str
    confidence: float

    def tables(self) -> list[Table]:
        """Return the means, and the differences of systems if there are any."""
        means = [
            (row.aspect, row.system or "all", row.n, row.rated, f"{row.rated_groups}/{row.groups}",
             row.judge_only, row.labels_only, Flag("refused") if row.refused else row.corrected,
             row.weight, row.worth, rank_range(row.rank))
            for row in self.rows
        ]  # fmt: skip
        notes = (
            Note(f"intervals: {self.confidence:.0%}, over sources"),
            *(Note(f"assumed: {assumption}") for assumption in self.assumes),
            *(note for row in self.rows for note in _notes(row)),
        )
        tables = [Table(_MEANS, means, notes, "means on the raters' scale")]
        if self.differences:
            pairs = [
                (one.aspect, one.a, one.b, one.difference, one.p, one.p_holm)
                for one in self.differences
            ]
            tables.append(
                Table(_DIFFERENCES, pairs, title="differences of corrected means, by source")
            )
        return tables


def _notes(row: EstimateRow) -> Iterator[Note]:
    where = row.aspect if row.system is None else f"{row.aspect}, {row.system}"
    if row.refused:
        yield Note(f"{where}: refused: {row.refused}", warning=True)
    elif row.method == "borrowed":
        yield Note(
            f"{where}: {row.rated_groups} rated sources of its own are too few, so the judge is "
            "assumed to err on it as on the others"
        )
    elif row.method == "rogan-gladen":
        yield Note(f"{where}: yes/no, corrected for sensitivity and specificity (Rogan-Gladen)")
    missing = row.unscored
    if missing["n"]:
        mean = missing["mean_rating"]
        yield Note(
            f"{where}: {missing['n']} rows ({missing['share']:.1%}) have no score and are not in"
            f" the estimate; {missing['rated']} of them are rated, mean"
            f" {'-' if mean is None else f'{mean:.3f}'}"
        )
    if "worst_case" in missing:
        yield Note(
            f"{where}: with them the mean would be between {missing['worst_case']:.3f} and "
            f"{missing['best_case']:.3f}, whatever they are"
        )
