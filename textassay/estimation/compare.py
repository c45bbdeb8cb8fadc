"""Compares two runs, or two systems of one run: judges, versions of a system, samples of traffic.

Needs recorded scores and, for sources, their data. Scores are paired by text, or else by source, so
that the difficulty of a source cancels out. Samples that share neither are compared as independent
samples. `partly_shared.py` combines both.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from textassay.agreement.joined import People, some_ids
from textassay.agreement.records import check_equal_labels, check_one_judge
from textassay.estimation.columns import Judged
from textassay.estimation.compare_rows import CompareRow, SideCounts
from textassay.estimation.means import (
    MeanUnit,
    SystemDifference,
    adjust_p,
    group_means,
    holm,
    mean_over,
)
from textassay.estimation.paired import paired_difference
from textassay.estimation.partly_shared import UnpairedMeans, combine
from textassay.learning.splits import group_codes
from textassay.runtime.data.digests import source_name
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.table import Estimate


def of_system(scores: Mapping[str, Judged], people: People, system: str) -> dict[str, Judged]:
    """Return the scores of one system's texts; raise `UnknownName` if the system has no row."""
    ids = {id_ for id_, author in zip(people.ids, people.systems, strict=True) if author == system}
    if not ids:
        names = sorted({name for name in people.systems if name is not None})
        raise UnknownName("system of the data", system, names)
    return of_ids(scores, ids)


def of_ids(scores: Mapping[str, Judged], ids: Container[str]) -> dict[str, Judged]:
    """Return the scores of some of the texts."""
    return {
        aspect: replace(
            judged, values={id_: value for id_, value in judged.values.items() if id_ in ids}
        )
        for aspect, judged in scores.items()
    }


def can_compare(a: Judged, b: Judged) -> bool:
    """Return whether two runs have scores that can be compared."""
    is_paired = not _scores_by_id(a).keys().isdisjoint(_scores_by_id(b))
    return is_paired or bool(_scores_by_id(a, b) and _scores_by_id(b, a))


def compare_runs(
    a: Mapping[str, Judged],
    b: Mapping[str, Judged],
    people: People | None = None,
    *,
    other_people: People | None = None,
    unpaired: bool = False,
    aspects: Iterable[str] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    weight: MeanUnit = "sources",
) -> list[CompareRow]:
    """Compare two runs by aspect.

    Texts are paired by id. If no id is in both runs, the means of their sources are paired. Texts
    or sources without a counterpart are compared as independent samples, and both differences are
    combined.

    Args:
        a: The first run, from `read_judged`.
        b: The second run.
        people: The data, for their sources; without them every text is a source of its own.
        other_people: The data of the second run, if they differ.
        unpaired: Whether runs that share neither ids nor sources are compared as independent
            samples, such as two weeks of traffic.
        aspects: Aspects to compare; by default all that both runs judged.
        confidence: Confidence of the intervals.
        seed: Seed of the sign flips.
        weight: `sources` gives each source the same weight, however many texts it has; `texts`
            gives each text the same weight.

    Raises:
        UnknownName: An aspect is not in both runs.
        DataError: The runs share no aspect, or nothing to pair by.
        ConfigurationError: The scores of one run come from several judges, the runs' labels differ,
            or `aspects` is empty.
    """
    shared = [name for name in a if name in b]
    if not shared:
        raise DataError(
            f"the runs share no aspect: the first has {', '.join(a)}, the second {', '.join(b)}; "
            "score the same aspect in both"
        )
    names = list(dict.fromkeys(aspects)) if aspects is not None else shared
    if not names:
        raise ConfigurationError(
            f"no aspect is named, so nothing would be compared; name some of {', '.join(shared)}"
        )
    for name in names:
        if name not in shared:
            raise UnknownName("aspect of both runs", name, shared)
        check_equal_labels(name, a[name].labels, b[name].labels)
    sources = {
        id_: group
        for side in (other_people, people)
        if side is not None
        for id_, group in zip(side.ids, side.groups, strict=True)
    }
    of_both = _sources_of_both(people, other_people)
    by_text = {id_: of_both[id_] for id_ in of_both if sources.get(id_) is None}
    comparer = _RunComparer(sources, by_text, unpaired, confidence, seed, weight)
    rows = [_on_scale(comparer.compare(name, a[name], b[name])) for name in names]
    # p-values are adjusted over all requested aspects: each aspect adds a chance of a false alarm
    adjusted = holm([row.p for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def _sources_of_both(people: People | None, other: People | None) -> dict[str, str]:
    """Return a name for each source text that both data have, by id of the rows that have it.

    A text that all rows share, such as an instruction, is not a source.
    """
    if people is None or other is None:
        return {}
    sides = (people.sources, other.sources)
    first, second = ({s for s in side.values() if s is not None} for side in sides)
    shared = first & second if min(len(first), len(second)) > 1 else set[str]()
    return {id_: source_name(s) for side in sides for id_, s in side.items() if s in shared}


@dataclass(frozen=True, slots=True)
class ScoreDifference(SystemDifference):
    """The difference of two systems' mean scores, and the number of sources behind it."""

    n: int = 0
    """Number of sources with texts of both systems, and `unpaired`; texts if the samples are
    independent.
    """
    unpaired: int = 0
    """Number of sources of one system alone, which are compared as independent samples."""
    left_out: int = 0
    """Number of sources of one system alone that are not used, since the other system has too
    few.
    """


def compare_systems(
    scores: Mapping[str, Judged], people: People, systems: Sequence[str], **options: Any
) -> list[ScoreDifference]:
    """Compare each pair of systems of one run by its scores, with the options of `compare_runs`."""
    sides = {system: of_system(scores, people, system) for system in systems}
    pairs = list(combinations(systems, 2))
    rows = [compare_runs(sides[a], sides[b], people, **options) for a, b in pairs]
    return [
        difference
        for at, aspect in enumerate(scores)
        for difference in adjust_p(
            [
                ScoreDifference(
                    aspect,
                    a,
                    b,
                    row[at].difference,
                    row[at].p,
                    n=row[at].n,
                    unpaired=row[at].unpaired.total,
                    left_out=row[at].left_out.total,
                )
                for (a, b), row in zip(pairs, rows, strict=True)
            ]
        )
    ]


@dataclass(frozen=True, slots=True)
class _RunComparer:
    """Compares two runs on one aspect after the other."""

    sources: Mapping[str, str | None]
    by_text: Mapping[str, str]
    """Source texts of both runs, of rows that have no source otherwise."""
    may_be_independent: bool
    confidence: float
    seed: int
    weight: MeanUnit

    def compare(self, aspect: str, a: Judged, b: Judged) -> CompareRow:
        for which, judged in (("first", a), ("second", b)):
            check_one_judge(aspect, judged.signatures, f" (the scores of the {which} run)")
        if a.values.keys() & b.values.keys():
            return replace(self._compare_paired(aspect, a, b), other_texts=_count_other_texts(a, b))
        sources = {**self.sources, **self.by_text}
        first, second = _by_source(a, sources), _by_source(b, sources)
        if first.values.keys() & second.values.keys():
            by_source = replace(self, sources={}, weight="sources")
            row = by_source._compare_paired(aspect, first, second)
            return replace(row, paired_by="source") if row.paired_by else row
        if self.may_be_independent:
            return self._compare_independent(aspect, a, b)
        raise DataError(
            f"the runs share no id on {aspect!r}: the first has {some_ids(a.values)}, the "
            f"second {some_ids(b.values)}. Versions of a system are paired if their texts have "
            "the same ids or the same sources, so give each row an 'id' or a 'group' that names"
            " its source"
        )

    def _compare_paired(self, aspect: str, a: Judged, b: Judged) -> CompareRow:
        """Pair texts or sources with a counterpart; the others are independent samples."""
        # sorted: judges answer in any order, and the random flips depend on the order
        shared = sorted(a.values.keys() & b.values.keys())
        # a text that one run left unscored is left out on both sides, so that both means are over
        # the same texts
        both = ((id_, a.values[id_], b.values[id_]) for id_ in shared)
        pairs = [(id_, x, y) for id_, x, y in both if x is not None and y is not None]
        on_one_side = [_scores_by_id(side, other) for side, other in ((a, b), (b, a))]
        if not pairs and self.may_be_independent and all(on_one_side):
            first, second = (
                replace(side, values=dict[str, float | None](scored))
                for side, scored in zip((a, b), on_one_side, strict=True)
            )
            return replace(self._compare_independent(aspect, first, second), unscored=len(shared))
        if not pairs:
            others = (
                "; give DATA, whose sources show whether the other texts are independent samples"
                if all(on_one_side) and not self.sources
                else ""
            )
            raise DataError(
                f"no text has a score of {aspect!r} in both runs: {len(shared)} have an id in both,"
                f" and each is unscored in one of them{others}"
            )
        codes = group_codes(self.sources.get(id_) for id_, *_ in pairs)
        x, y = np.array([x for _, x, _ in pairs]), np.array([y for *_, y in pairs])
        difference = paired_difference(x, y, codes, seed=self.seed, weight=self.weight)
        row = CompareRow(
            aspect=aspect, n=difference.n, groups=difference.groups, a=difference.a, b=difference.b,
            difference=difference.estimate(self.confidence), p=difference.p, wins=difference.wins,
            ties=difference.ties, losses=difference.losses, unscored=len(shared) - len(pairs),
            **self._about(a, b),
        )  # fmt: skip
        # texts of a paired source depend on it, so they are not an independent sample
        used = {source for id_, *_ in pairs if (source := self.sources.get(id_)) is not None}
        independent = [
            {id_: value for id_, value in side.items() if self.sources.get(id_) not in used}
            for side in on_one_side
        ]
        sides = self._means(independent) if all(independent) else None
        # one source alone shows no variance
        if sides is None or 1 in (sides.first.clusters, sides.second.clusters):
            return replace(row, left_out=SideCounts(*map(len, on_one_side)))
        combined = combine(difference, group_means(x, codes, 0), group_means(y, codes, 0), sides)
        unpaired = SideCounts(*map(len, independent))
        left_out = (len(i) - len(j) for i, j in zip(on_one_side, independent, strict=True))
        return replace(
            row, n=row.n + unpaired.total, groups=row.groups + sides.sources,
            a=combined.weigh(difference.a, sides.first.value),
            b=combined.weigh(difference.b, sides.second.value),
            difference=combined.estimate(self.confidence), p=combined.p_value(), unpaired=unpaired,
            left_out=SideCounts(*left_out),
        )  # fmt: skip

    def _means(self, scored: Sequence[Mapping[str, float]]) -> UnpairedMeans:
        """Return the means of two sets of texts."""
        codes = group_codes(self.sources.get(id_) for values in scored for id_ in values)
        first_count, count = len(scored[0]), int(codes.max()) + 1
        values = [np.array(list(by_id.values())) for by_id in scored]
        codes_of = codes[:first_count], codes[first_count:]
        means = [
            mean_over(self.weight, *part, count) for part in zip(values, codes_of, strict=True)
        ]
        by_source = [group_means(*part, count) for part in zip(values, codes_of, strict=True)]
        first, second = ([mean for mean in side if not math.isnan(mean)] for side in by_source)
        return UnpairedMeans(means[0], means[1], np.array(first), np.array(second), count)

    def _compare_independent(self, aspect: str, a: Judged, b: Judged) -> CompareRow:
        """Compare means over different sources; the variances of both add up."""
        scored = _scores_by_id(a), _scores_by_id(b)
        for which, values in zip(("first", "second"), scored, strict=True):
            if not values:
                raise DataError(f"no text of the {which} run has a score of {aspect!r}")
        sides, unpaired = self._means(scored), SideCounts(*map(len, scored))
        difference = sides.first.minus(sides.second)
        return CompareRow(
            aspect=aspect, n=unpaired.total, groups=sides.sources, a=sides.first.value,
            b=sides.second.value, difference=difference.estimate(self.confidence),
            p=difference.p_value(), wins=None, ties=None, losses=None,
            unscored=len(a.values) + len(b.values) - unpaired.total, paired_by=None,
            unpaired=unpaired, **self._about(a, b),
        )  # fmt: skip

    def _about(self, a: Judged, b: Judged) -> dict[str, Any]:
        signatures = "; ".join(a.signatures), "; ".join(b.signatures)
        return {
            "p_holm": None, "signatures": signatures, "scales": (a.scale, b.scale),
            "mean_over": self.weight,
        }  # fmt: skip


def _on_scale(row: CompareRow) -> CompareRow:
    """Return the row with an interval within the scale, or without one between two scales."""
    scale, other = row.scales
    if scale is not None and scale == other:
        width = scale[1] - scale[0]
        return replace(row, difference=row.difference.clip(-width, width))
    if row.same_scale:  # as far as is known
        return row
    # the difference between 4 on a scale of 1 to 5 and .8 on a scale of 0 to 1 is meaningless;
    # agreement with people can still be compared
    return replace(row, difference=Estimate(None), p=None, wins=None, ties=None, losses=None)


def _scores_by_id(judged: Judged, other: Judged | None = None) -> dict[str, float]:
    """Return the scores by id, without the ids of another run if one is given."""
    others = () if other is None else other.values.keys()
    return {
        id_: value
        for id_, value in judged.values.items()
        if value is not None and id_ not in others
    }


def _count_other_texts(a: Judged, b: Judged) -> int | None:
    shared = a.texts.keys() & b.texts.keys()
    return sum(a.texts[id_] != b.texts[id_] for id_ in shared) if shared else None


def _by_source(judged: Judged, sources: Mapping[str, str | None]) -> Judged:
    """Return the mean of each source's scores, by name of the source."""
    scored: dict[str, list[float]] = {}
    for id_, value in judged.values.items():
        if (group := sources.get(id_)) is not None:
            scored.setdefault(group, []).extend([] if value is None else [value])
    values = {name: math.fsum(s) / len(s) if s else None for name, s in scored.items()}
    # texts without a source are sources of their own
    values |= {
        f"\0{id_}": value
        for id_, value in judged.values.items()
        if sources.get(id_) is None and value is not None
    }
    return replace(judged, values=values, texts={})
