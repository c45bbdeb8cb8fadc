"""A ranking of systems from a run of comparisons, with intervals over sources.

Knows recorded scores of pairs and the data that say who made each text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from textassay.calibration.bradley_terry import Comparisons, fit_strengths
from textassay.calibration.choices import Choices, ComparedPair, read_comparisons, systems_of
from textassay.calibration.intervals import (
    NO_ESTIMATE,
    Estimate,
    Linearized,
    holm,
    paired_ranks,
    rank_range,
)
from textassay.display import Displayed
from textassay.learning.splits import group_codes
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Example
from textassay.table import Column, Note, Table

_ALPHA = 0.05
_SYSTEMS = (
    Column("aspect", "aspect"), Column("system", "system"), Column("rank", "rank", "number"),
    Column("strength", "strength", "interval"), Column("win_rate", "win rate", "interval"),
    Column("n", "compared", "count"), Column("wins", "wins", "count"),
    Column("ties", "ties", "count"), Column("losses", "losses", "count"),
    Column("flips", "flips", "count"),
)  # fmt: skip
_PAIRS = (
    Column("aspect", "aspect"), Column("a", "a"), Column("b", "b"),
    Column("difference", "a - b", "interval"), Column("wins", "a beats b", "share"),
    Column("p", "p", "p"), Column("p_holm", "p (Holm)", "p"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankRow:
    """One system on one aspect.

    Attributes:
        aspect: What was compared.
        system: The system.
        n: Comparisons that it took part in.
        groups: Their sources.
        wins: Comparisons that it won.
        ties: Ties, with choices that flipped with the order.
        losses: Comparisons that it lost.
        flips: Choices that flipped with the order of the texts.
        win_rate: Share won, ties as half.
        strength: Bradley-Terry strength in log odds, mean 0 over systems; no value if not finite.
        rank: Best and worst rank that the tests leave open; `None` without tests.
    """

    aspect: str
    system: str
    n: int
    groups: int
    wins: int
    ties: int
    losses: int
    flips: int
    win_rate: Estimate
    strength: Estimate
    rank: tuple[int, int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        plain = ("aspect", "system", "n", "groups", "wins", "ties", "losses", "flips")
        return {
            **{name: getattr(self, name) for name in plain},
            "win_rate": self.win_rate.as_dict(),
            "strength": self.strength.as_dict(),
            "rank": None if self.rank is None else list(self.rank),
        }


@dataclass(frozen=True, slots=True)
class RankDifference:
    """The difference of two systems' strengths, or of their win rates without finite strengths.

    Attributes:
        aspect: What was compared.
        a: The stronger system.
        b: The other.
        difference: `a - b` with its interval.
        wins: Probability by the model that `a` beats `b`; `None` without strengths.
        p: Two-sided p-value; `None` if undefined.
        p_holm: The same, adjusted over all pairs of the aspect.
    """

    aspect: str
    a: str
    b: str
    difference: Estimate
    wins: float | None
    p: float | None
    p_holm: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "aspect": self.aspect, "a": self.a, "b": self.b, **self.difference.as_dict(),
            "win_probability": self.wins, "p": self.p, "p_holm": self.p_holm,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ranking(Displayed):
    """The ranking of one aspect.

    Attributes:
        aspect: What was compared.
        rows: Systems, the strongest first.
        differences: Pairs of systems.
        n: Comparisons with a score.
        flips: Choices among them that flipped with the order.
        unscored: Comparisons without a score.
        has_strengths: Whether there are finite strengths; else systems are ranked by win rate.
    """

    aspect: str
    rows: tuple[RankRow, ...]
    differences: tuple[RankDifference, ...]
    n: int
    flips: int
    unscored: int
    has_strengths: bool

    def tables(self) -> list[Table]:
        """Return the systems, and the differences of each two."""
        rows = [
            (row.aspect, row.system, rank_range(row.rank), row.strength, row.win_rate, row.n,
             row.wins, row.ties, row.losses, row.flips)
            for row in self.rows
        ]  # fmt: skip
        pairs = [
            (one.aspect, one.a, one.b, one.difference, one.wins, one.p, one.p_holm)
            for one in self.differences
        ]
        return [
            Table(_SYSTEMS, rows, tuple(self._notes()), "ranking"),
            Table(_PAIRS, pairs, title="differences of systems, by source"),
        ]

    def _notes(self) -> Iterator[Note]:
        yield Note(
            f"{self.aspect}: {self.flips} of {self.n} choices flipped with the order and count as"
            f" ties ({self.flips / self.n:.0%})"
        )
        if not self.has_strengths:
            yield Note(
                f"{self.aspect}: some systems won every comparison with the others, so strengths"
                " have no finite value; ranks and differences are those of the win rates",
                warning=True,
            )
        if self.unscored:
            yield Note(
                f"{self.aspect}: {self.unscored} comparisons have no score and are not in it",
                warning=True,
            )
        if all(row.rank is None for row in self.rows):
            yield Note(
                f"{self.aspect}: all comparisons are of one source, or equal in all of them, so no"
                " test is possible"
            )


def rank_systems(
    scores: str | Path,
    pairs: Iterable[Example],
    *,
    aspects: Iterable[str] | None = None,
    confidence: float = 0.95,
) -> list[Ranking]:
    """Rank the systems of a run of `pairwise`, aspect by aspect.

    Args:
        scores: Run folder or score file; values are 1, 0.5 or 0.
        pairs: The compared examples, with `system` and `system_b`.
        aspects: What to rank on; all aspects if left out.
        confidence: Confidence of the intervals.

    Raises:
        DataError: Scores and pairs do not meet, systems are missing, or were never compared.
        ConfigurationError: The scores are not of comparisons, of several judges, or an aspect is
            not among them.
    """
    known = systems_of(pairs)
    judged = read_comparisons(scores, known)
    names = list(dict.fromkeys(aspects)) if aspects is not None else list(judged)
    for name in names:
        if name not in judged:
            raise ConfigurationError(
                f"{scores} has no comparisons on {name!r}; it has {', '.join(judged)}"
            )
    return [_ranked(name, judged[name], known, confidence) for name in names]


def _ranked(
    aspect: str, judged: Choices, known: Mapping[str, ComparedPair], confidence: float
) -> Ranking:
    if len(judged.signatures) > 1:
        raise ConfigurationError(
            f"the comparisons on {aspect!r} come from {len(judged.signatures)} different judges,"
            " which are not comparable; split them into one file per judge"
        )
    scored = {id_: value for id_, value in judged.values.items() if value is not None}
    if not scored:
        raise DataError(f"no comparison on {aspect!r} has a score; all are unscored")
    pairs = [known[id_] for id_ in scored]
    names = sorted({name for pair in pairs for name in (pair.a, pair.b)})
    code = {name: at for at, name in enumerate(names)}
    table = Comparisons(
        first=np.array([code[pair.a] for pair in pairs], np.intp),
        second=np.array([code[pair.b] for pair in pairs], np.intp),
        values=np.array(list(scored.values())),
        groups=group_codes(pair.group for pair in pairs),
        systems=len(names),
    )
    # systems that share no chain of comparisons have no common zero, and any order of them would
    # be an artifact of the centering
    _refuse_unconnected(aspect, table, names)
    strengths = fit_strengths(table)
    rates = [table.win_rate(at) for at in range(len(names))]
    flipped = np.array([id_ in judged.flipped for id_ in scored])
    rows = [
        _row(aspect, name, at, table, flipped, rates[at], strengths, confidence)
        for at, name in enumerate(names)
    ]
    # a system that won every comparison has no finite strength; win rates still order the systems
    order = strengths or rates
    differences = _differences(aspect, names, order, strengths is not None, confidence)
    return Ranking(
        aspect=aspect,
        rows=_in_order(rows, [one.value for one in order], names, differences),
        differences=tuple(differences),
        n=len(scored),
        flips=int(flipped.sum()),
        unscored=len(judged.values) - len(scored),
        has_strengths=strengths is not None,
    )


def _refuse_unconnected(aspect: str, table: Comparisons, names: list[str]) -> None:
    parts = table.connected()
    if not parts.any():
        return
    sides = [[n for n, part in zip(names, parts, strict=True) if part == own] for own in (0, 1)]
    raise DataError(
        f"on {aspect!r} the systems {', '.join(sides[0])} were never compared with "
        f"{', '.join(sides[1])}, not even indirectly, so they cannot be ranked together; "
        "compare some of them, or rank them in separate files"
    )


def _row(
    aspect: str,
    name: str,
    at: int,
    table: Comparisons,
    flipped: np.ndarray[Any, np.dtype[np.bool_]],
    rate: Linearized,
    strengths: tuple[Linearized, ...] | None,
    confidence: float,
) -> RankRow:
    inside = (table.first == at) | (table.second == at)
    own = np.where(table.first == at, table.values, 1 - table.values)[inside]
    return RankRow(
        aspect=aspect,
        system=name,
        n=int(inside.sum()),
        groups=rate.clusters,
        wins=int((own > 0.5).sum()),
        ties=int((own == 0.5).sum()),
        losses=int((own < 0.5).sum()),
        flips=int(flipped[inside].sum()),
        win_rate=_estimate(rate, confidence).clipped(0, 1),
        strength=NO_ESTIMATE if strengths is None else _estimate(strengths[at], confidence),
    )


def _differences(
    aspect: str, names: list[str], order: Any, by_model: bool, confidence: float
) -> list[RankDifference]:
    differences = []
    for a, b in combinations(range(len(names)), 2):
        if order[a].value < order[b].value:
            a, b = b, a
        delta = order[a].minus(order[b])
        wins = float(expit(delta.value)) if by_model else None
        differences.append(
            (names[a], names[b], _estimate(delta, confidence), wins, delta.p_value())
        )
    adjusted = holm([p for *_, p in differences])
    return [
        RankDifference(aspect, *one, p_holm)
        for one, p_holm in zip(differences, adjusted, strict=True)
    ]


def _in_order(
    rows: list[RankRow], values: list[float], names: list[str], differences: list[RankDifference]
) -> tuple[RankRow, ...]:
    code = {name: at for at, name in enumerate(names)}
    ranks = paired_ranks(
        values, [(code[one.a], code[one.b], one.p_holm) for one in differences], _ALPHA
    )
    ranked = [row if ranks is None else replace(row, rank=ranks[at]) for at, row in enumerate(rows)]
    return tuple(ranked[at] for at in sorted(range(len(rows)), key=lambda at: -values[at]))


def _estimate(linearized: Linearized, confidence: float) -> Estimate:
    estimate = linearized.estimate(confidence)
    # sources that agree to the last digit do not show how far others would differ
    return estimate if linearized.variance > 1e-24 else Estimate(estimate.value)
