"""Ranks systems by a run of comparisons in pairs, with intervals over sources.

Reads recorded comparisons (which text was chosen, and whether the order decided) and the data that
say who made each text.

Every comparison has the same weight, in strengths and in win rates. A system of strength a beats
one of strength b with probability logistic(a - b); a tie counts half for each side. Strengths
maximize the likelihood, with mean 0. Their errors are summed over sources (a sandwich), so
comparisons of one source may be correlated.

References:
    Bradley and Terry, "Rank analysis of incomplete block designs" (1952); Ford, "Solution of a
    ranking problem from binary comparisons" (1957), for when the strengths are finite; Liang and
    Zeger, "Longitudinal data analysis using generalized linear models" (1986), for the sandwich.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from textassay.agreement.joined import join_notes, some_ids
from textassay.agreement.records import check_one_judge, read_score_rows
from textassay.arrays import Codes, Floats
from textassay.estimation.means import (
    Linearized,
    SystemDifference,
    adjust_p,
    paired_ranks,
    rank_range,
    weighted_mean,
)
from textassay.estimation.paired import NO_SPREAD
from textassay.learning.splits import group_codes
from textassay.runtime.data.digests import may_be_one_text, text_digest
from textassay.runtime.data.material import OTHER_SYSTEM
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Example
from textassay.table import Displayed, Estimate, Note, ResultRow, Table, column, table_of


@dataclass(frozen=True, slots=True)
class RankRow(ResultRow):
    """One system on one aspect."""

    aspect: str = field(metadata=column("aspect"))
    """Name of the aspect."""
    system: str = field(metadata=column("system"))
    """Name of the system."""
    rank: tuple[int, int] | None = field(
        metadata=column("rank", "number", cell=lambda row: rank_range(row.rank))
    )
    """Best and worst rank that the tests leave open; `None` without tests."""
    strength: Estimate = field(metadata=column("strength", "interval"))
    """Bradley-Terry strength in log odds, mean 0 over systems; no value if it is not finite."""
    win_rate: Estimate = field(metadata=column("win rate", "interval"))
    """Share of comparisons won; ties count half."""
    n: int = field(metadata=column("compared", "count"))
    """Comparisons that it took part in."""
    groups: int
    """Number of their sources."""
    wins: int = field(metadata=column("wins", "count"))
    """Comparisons that it won."""
    ties: int = field(metadata=column("ties", "count"))
    """Ties, with choices that flipped with the order."""
    losses: int = field(metadata=column("losses", "count"))
    """Comparisons that it lost."""
    flips: int = field(metadata=column("flips", "count"))
    """Choices that flipped with the order of the texts."""


@dataclass(frozen=True, slots=True)
class RankDifference(SystemDifference):
    """The difference of two systems' strengths, or of their win rates if strengths are not finite.

    `a` is the stronger system.
    """

    aspect: str = field(metadata=column("aspect"))
    difference: Estimate = field(
        metadata=column("a - b", "interval")
        | column("a beats b", "share", name="wins", cell="win_probability")
    )
    win_probability: float | None = None
    """Probability by the model that `a` beats `b`; `None` without strengths."""

    def as_dict(self) -> dict[str, Any]:
        return {**SystemDifference.as_dict(self), "win_probability": self.win_probability}


@dataclass(frozen=True, slots=True)
class Ranking(Displayed):
    """The ranking of one aspect."""

    aspect: str
    """The aspect on which texts were compared."""
    rows: tuple[RankRow, ...]
    """Systems, the strongest first."""
    differences: tuple[RankDifference, ...]
    """Pairs of systems."""
    n: int
    """Comparisons with a score."""
    flips: int
    """Number of choices among them that flipped with the order."""
    unscored: int
    """Comparisons without a score."""
    has_strengths: bool
    """Whether there are finite strengths; else systems are ranked by win rate."""
    other_texts: tuple[str, ...] = ()
    """Ids of comparisons that were left out, since the data have other texts than the judged
    ones.
    """

    def tables(self) -> list[Table]:
        """Return the systems, and the difference of each pair."""
        pairs = table_of(
            RankDifference, self.differences, title="differences of systems, by source"
        )
        return [table_of(RankRow, self.rows, self._notes(), "ranking"), pairs]

    def _notes(self) -> Iterator[Note]:
        yield from join_notes(self.other_texts)
        yield Note(
            f"{self.aspect}: {self.flips} of {self.n} choices flipped with the order and count as"
            f" ties ({self.flips / self.n:.0%})"
        )
        if not self.has_strengths:
            yield Note(
                f"{self.aspect}: some systems won every comparison with the others, so strengths"
                " have no finite value; ranks and differences are of win rates",
                warning=True,
            )
        if self.unscored:
            yield Note(
                f"{self.aspect}: {self.unscored} comparisons have no score and are left out",
                warning=True,
            )
        if all(row.rank is None for row in self.rows):
            yield Note(
                f"{self.aspect}: all comparisons belong to one source, or are equal in all "
                "sources, so no test is possible"
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
        aspects: Aspects to rank on; all by default.
        confidence: Confidence of the intervals.

    Raises:
        DataError: Scores and pairs share no id, systems are missing, or were never compared.
        ConfigurationError: The scores are not of comparisons, of several judges, or an aspect is
            not among them.
    """
    pair_of = read_systems(pairs)
    judged, other_texts = read_comparisons(scores, pair_of)
    names = list(dict.fromkeys(aspects)) if aspects is not None else list(judged)
    for name in names:
        if name not in judged:
            raise ConfigurationError(
                f"{scores} has no comparisons on {name!r}; it has {', '.join(judged)}"
            )
    rankings = [_rank(name, judged[name], pair_of, confidence) for name in names]
    return [replace(ranking, other_texts=other_texts) for ranking in rankings]


def _rank(
    aspect: str, judged: PairChoices, pair_of: Mapping[str, ComparedPair], confidence: float
) -> Ranking:
    check_one_judge(aspect, judged.signatures)
    scored = {id_: value for id_, value in judged.values.items() if value is not None}
    if not scored:
        raise DataError(f"no comparison on {aspect!r} has a score; all are unscored")
    pairs = [pair_of[id_] for id_ in scored]
    names = sorted({name for pair in pairs for name in (pair.a, pair.b)})
    code = {name: at for at, name in enumerate(names)}
    table = Comparisons(
        first=np.array([code[pair.a] for pair in pairs], np.intp),
        second=np.array([code[pair.b] for pair in pairs], np.intp),
        values=np.array(list(scored.values())),
        groups=group_codes(pair.group for pair in pairs),
        systems=len(names),
    )
    # systems without a chain of comparisons between them have no common zero, and any order of them
    # would be an artifact of the centering
    _check_connected(aspect, table, names)
    strengths = fit_strengths(table)
    rates = [table.win_rate(at) for at in range(len(names))]
    flipped = np.array([id_ in judged.flipped for id_ in scored])
    # a system that won every comparison has no finite strength; win rates still order the systems
    measures, has_strengths = strengths or rates, strengths is not None
    values = [measure.value for measure in measures]
    differences = _differences(aspect, names, measures, has_strengths, confidence)
    tests = [(code[delta.a], code[delta.b], delta.p_holm) for delta in differences]
    ranks = paired_ranks(values, tests)
    rows = []
    for at in sorted(range(len(names)), key=lambda at: -values[at]):
        inside = (table.first == at) | (table.second == at)
        outcomes = np.where(table.first == at, table.values, 1 - table.values)[inside]
        row = RankRow(
            aspect=aspect,
            system=names[at],
            n=int(inside.sum()),
            groups=rates[at].clusters,
            wins=int((outcomes > 0.5).sum()),
            ties=int((outcomes == 0.5).sum()),
            losses=int((outcomes < 0.5).sum()),
            flips=int(flipped[inside].sum()),
            win_rate=_estimate(rates[at], confidence).clip(0, 1),
            strength=_estimate(measures[at], confidence) if has_strengths else Estimate(None),
            rank=None if ranks is None else ranks[at],
        )
        rows.append(row)
    return Ranking(
        aspect=aspect,
        rows=tuple(rows),
        differences=tuple(differences),
        n=len(scored),
        flips=int(flipped.sum()),
        unscored=len(judged.values) - len(scored),
        has_strengths=has_strengths,
    )


def _check_connected(aspect: str, table: Comparisons, names: list[str]) -> None:
    parts = table.components()
    if not parts.any():
        return
    sides = [[n for n, part in zip(names, parts, strict=True) if part == place] for place in (0, 1)]
    raise DataError(
        f"on {aspect!r} the systems {', '.join(sides[0])} were never compared with "
        f"{', '.join(sides[1])}, not even indirectly, so they cannot be ranked together; "
        "compare some of them, or rank them in separate files"
    )


def _differences(
    aspect: str,
    names: list[str],
    measures: Sequence[Linearized],
    by_model: bool,
    confidence: float,
) -> list[RankDifference]:
    differences = []
    for a, b in combinations(range(len(names)), 2):
        if measures[a].value < measures[b].value:
            a, b = b, a
        delta = measures[a].minus(measures[b])
        win_probability = float(expit(delta.value)) if by_model else None
        estimate, p = _estimate(delta, confidence), delta.p_value()
        differences.append(
            RankDifference(aspect, names[a], names[b], estimate, p, win_probability=win_probability)
        )
    return adjust_p(differences)


def _estimate(linearized: Linearized, confidence: float) -> Estimate:
    estimate = linearized.estimate(confidence)
    # sources that agree to the last digit do not show how much others would vary
    return estimate if linearized.variance > NO_SPREAD else Estimate(estimate.value)


@dataclass(slots=True)
class PairChoices:
    """The recorded comparisons on one aspect."""

    values: dict[str, float | None] = field(default_factory=dict)
    """1 if the first text was chosen, 0.5 for a tie, otherwise 0; `None` if unscored; by id."""
    flipped: set[str] = field(default_factory=set)
    """Ids of choices that flipped with the order of the texts."""
    signatures: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """The systems that made the two texts of a comparison, and their source."""

    a: str
    b: str
    group: str | None
    text: str = ""
    """Digest of both texts; empty if they are not known."""


def read_systems(pairs: Iterable[Example]) -> dict[str, ComparedPair]:
    """Return the systems of each comparison, by id."""
    pairs_by_id: dict[str, ComparedPair] = {}
    for pair in pairs:
        other = pair.meta.get(OTHER_SYSTEM)
        if pair.system is None or not isinstance(other, str) or not other:
            lacking = "system" if pair.system is None else OTHER_SYSTEM
            raise DataError(
                f"the comparison {pair.id!r} has no {lacking!r}; a ranking needs 'system' and"
                f" {OTHER_SYSTEM!r} for each pair, or pair=system over texts with 'group' and"
                " 'system'"
            )
        if pair.system == other:
            raise DataError(f"the comparison {pair.id!r} is of {other!r} with itself")
        pairs_by_id[pair.id] = ComparedPair(pair.system, other, pair.group, text_digest(pair))
    return pairs_by_id


def read_comparisons(
    scores: str | Path, pair_of: Mapping[str, ComparedPair]
) -> tuple[dict[str, PairChoices], tuple[str, ...]]:
    """Read a run of comparisons, aspect by aspect, and ids that were judged with other texts.

    These ids are left out, as are unknown ids.
    """
    judged: dict[str, PairChoices] = {}
    other_texts: dict[str, None] = {}
    seen = None
    for row in read_score_rows(scores):
        seen = row.id
        if row.id not in pair_of:
            continue
        if not may_be_one_text(row.text, pair_of[row.id].text):
            other_texts[row.id] = None
            continue
        if row.value is not None and not 0 <= row.value <= 1:
            raise ConfigurationError(
                f"{scores} has the score {row.value:g} at {row.id!r}, but a comparison must be 0,"
                " 0.5 or 1; rank needs a run of method=pairwise"
            )
        choices = judged.setdefault(row.aspect, PairChoices())
        choices.values[row.id] = row.value
        # a later line replaces an earlier one of the same id, with its evidence
        choices.flipped.discard(row.id)
        if row.value is not None:
            choices.signatures[str(row.fields.get("signature") or "")] = None
            evidence = row.fields.get("evidence") or ()
            if any(isinstance(piece, dict) and piece.get("flipped") for piece in evidence):
                choices.flipped.add(row.id)
    if seen is None:
        raise DataError(f"{scores} contains no scores")
    if not judged and other_texts:
        raise DataError(
            f"the data have other texts than were compared under all {len(other_texts)} shared ids"
            f" ({some_ids(other_texts)}); give the data that were judged"
        )
    if not judged:
        first_id = next(iter(pair_of), "nothing")
        raise DataError(
            f"no id occurs in both scores and data: the scores have {seen!r}, the data"
            f" {first_id!r}; a run with pair=system needs it here too unless it is a run folder"
        )
    return judged, tuple(other_texts)


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Comparisons of systems, one row each."""

    first: Codes
    """Code of the first system, shape (n,)."""
    second: Codes
    """Code of the second, shape (n,)."""
    values: Floats
    """1 if the first is better, 0 if the second is, 0.5 for a tie, shape (n,)."""
    groups: Codes
    """Code of each row's source, shape (n,)."""
    systems: int

    def win_rate(self, system: int) -> Linearized:
        """Return the share of its comparisons that a system wins; ties count half."""
        ahead, behind = self.first == system, self.second == system
        values = np.concatenate([self.values[ahead], 1 - self.values[behind]])
        groups = np.concatenate([self.groups[ahead], self.groups[behind]])
        return weighted_mean(values, groups, count=int(self.groups.max()) + 1)

    def components(self) -> Codes:
        """Return the component of each system: systems are connected by comparisons."""
        anything = np.ones(len(self.values), bool)
        return self._components(anything, anything, "weak")

    def has_strengths(self) -> bool:
        """Return whether the likelihood has its maximum at finite strengths (Ford's condition).

        For every split of the systems into two sets, some system of each set has to win or tie
        against one of the other set.
        """
        return not self._components(self.values > 0, self.values < 1, "strong").any()

    def _components(self, won: np.ndarray, lost: np.ndarray, connection: str) -> Codes:
        winners = np.concatenate([self.first[won], self.second[lost]])
        losers = np.concatenate([self.second[won], self.first[lost]])
        shape = (self.systems, self.systems)
        graph = coo_array((np.ones(len(winners)), (winners, losers)), shape=shape)
        parts = connected_components(graph, directed=True, connection=connection)[1]
        return np.asarray(parts, np.intp)


def fit_strengths(comparisons: Comparisons) -> tuple[Linearized, ...] | None:
    """Return the strength of each system in log odds; `None` if they are not finite."""
    # Newton's method would diverge, for instance for a system that never loses
    if not comparisons.has_strengths():
        return None
    counts, wins = _by_pair(comparisons)
    strengths = np.zeros(comparisons.systems)
    for _ in range(100):
        expected, inverse = _newton_parts(counts, strengths)
        # wins of a system beyond its strength's prediction
        step = inverse @ (wins - counts * expected).sum(axis=1)
        # a full step may overshoot if wins are lopsided, so a step is at most 2 in log odds
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        strengths += step
        if float(np.abs(step).max()) < 1e-10:
            break
    _, inverse = _newton_parts(counts, strengths)
    influence = inverse @ _slopes(comparisons, strengths)
    compared = np.bincount(comparisons.groups)
    clusters, shares = int((compared > 0).sum()), compared / compared.sum()
    return tuple(
        Linearized(float(strength), influence[at], clusters, shares=shares)
        for at, strength in enumerate(strengths)
    )


def _by_pair(comparisons: Comparisons) -> tuple[Floats, Floats]:
    """Return comparisons and wins of each pair, ties as half; shape (systems, systems) each."""
    winning = np.concatenate([comparisons.values, 1 - comparisons.values])
    ahead = np.concatenate([comparisons.first, comparisons.second])
    behind = np.concatenate([comparisons.second, comparisons.first])
    cell, shape = ahead * comparisons.systems + behind, (comparisons.systems, comparisons.systems)
    counts = np.bincount(cell, minlength=comparisons.systems**2).reshape(shape)
    wins = np.bincount(cell, winning, comparisons.systems**2).reshape(shape)
    return counts.astype(np.float64), np.asarray(wins, np.float64)


def _newton_parts(counts: Floats, strengths: Floats) -> tuple[Floats, Floats]:
    """Return the probability of each win, and the inverse information on strengths of mean 0."""
    expected = expit(strengths[:, None] - strengths)
    weight = counts * expected * (1 - expected)
    information = np.diag(weight.sum(axis=1)) - weight
    # only differences of strengths are identified: the information is singular along the vector of
    # ones up to rounding errors, which a pseudo-inverse could take for information. Adding a
    # constant makes it regular, and subtracting its inverse keeps a mean of 0
    constant = float(np.trace(information)) / len(strengths) ** 2
    regular = np.linalg.inv(information + constant)
    return expected, regular - 1 / (constant * len(strengths) ** 2)


def _slopes(comparisons: Comparisons, strengths: Floats) -> Floats:
    """Return the slope of the likelihood by system and source; the sandwich sums its squares."""
    residual = comparisons.values - expit(
        strengths[comparisons.first] - strengths[comparisons.second]
    )
    sources = int(comparisons.groups.max()) + 1
    cells, shape = comparisons.systems * sources, (comparisons.systems, sources)
    gained, lost = (
        np.bincount(side * sources + comparisons.groups, residual, cells).reshape(shape)
        for side in (comparisons.first, comparisons.second)
    )
    return np.asarray(gained - lost)
