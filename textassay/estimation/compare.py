"""Two runs, or two systems of one run: two judges, versions of a system, samples of traffic.

Knows recorded scores and, if given, the data: their sources, and ratings for the difference in
agreement. Scores are paired by text, or else by source, so what makes a source easy for both
cancels out. Samples that share neither are compared as independent ones.

Runs of which only a part is shared have two differences: D1 of what is paired, D2 of the other
sources, as independent samples. No source is in both, so they are independent, and the estimate is
`w D1 + (1 - w) D2` with variance `w^2 V1 + (1 - w)^2 V2`, whose degrees of freedom are
Satterthwaite's. The weight w that makes the variance smallest is `P2 / (P1 + P2)` with the
variances that both parts would have, given how far sources of either side vary and how well both
sides agree on shared ones: P1 is `(sA^2 + sB^2 - 2 r sA sB) / n` for n shared sources, and P2 is
`sA^2 / nA + sB^2 / nB`. The correlation r is taken one standard error lower (by Fisher's z), and as
0 for fewer than four shared sources: a few that agree by chance would otherwise have all the
weight.

References:
    Looney and Jones, "A method for comparing two normal means using combined samples of correlated
    and uncorrelated data" (2003); Samawi and Vogel, "Notes on two sample tests for partially
    correlated (paired) data" (2014), for weighting the two differences; Satterthwaite (1946).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr

from textassay.agreement.choice import alternatives, compare_choices
from textassay.agreement.correlation import COEFFICIENTS, Codes, Floats, Level
from textassay.agreement.intervals import t_quantile
from textassay.agreement.joined import People, some_ids
from textassay.agreement.labels import compare_labels
from textassay.agreement.records import Recorded, refuse_other_labels, refuse_several_judges
from textassay.agreement.significance import Difference
from textassay.agreement.significance import compare as compare_agreement
from textassay.agreement.table import measure_name
from textassay.estimation.columns import Judged, RatingScale
from textassay.estimation.means import (
    MEANS_OVER,
    NO_ESTIMATE,
    Linearized,
    SystemDifference,
    Weight,
    adjust_p,
    group_means,
    holm,
    mean_over,
)
from textassay.learning.splits import group_codes
from textassay.runtime.errors import DataError, UnknownName
from textassay.runtime.labels import YES_NO, LabelSets, are_labels, nearest_label
from textassay.table import Estimate, Note, ResultRow, Table, column, table_of

FLIPS = 9_999
"""Random sign flips behind a p-value, unless there are few enough to try them all."""
GateVerdict = Literal["holds", "fails", "inconclusive"]
FEW_SOURCES, DOUBTFUL_P = 40, 0.015
"""With fewer sources, differences of mean 0 with a long tail (lognormal) give a p-value below .05
too often; one below this number they give in 4 to 6 % of 1,500 draws with 8 to 30 sources."""


NO_SPREAD = 1e-24
"""Variance of differences that are equal but for rounding."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Scores `a` minus scores `b`."""

    n: int
    """Rows with both scores."""
    groups: int
    """Sources among them."""
    a: float
    """Mean of the first, over sources or rows."""
    b: float
    """Mean of the second, over sources or rows."""
    difference: Linearized
    """Mean of the sources' mean differences, or of the rows' differences."""
    p: float | None
    """Two-sided p-value: the larger one of the sign-flip test, whose hypothesis is that a source's
    difference is as likely as its opposite, and of the test of a mean of 0 that belongs to the
    interval; `None` with fewer than two sources."""
    wins: int
    """Rows where the first is higher."""
    ties: int
    """Rows where both are equal."""
    losses: int
    """Rows where the second is higher."""

    def estimate(self, confidence: float) -> Estimate:
        """Return the difference with its interval; none if a few sources differ by the same.

        There it would have length 0 and exclude 0 where the sign-flip test does not.
        """
        estimate = self.difference.estimate(confidence)
        is_same = self.difference.variance <= NO_SPREAD < self.difference.value**2
        if is_same and self.p is not None and self.p > 1 - confidence:
            return Estimate(estimate.value)
        return estimate


def paired_difference(
    a: Floats, b: Floats, groups: Codes, *, seed: int = 0, weight: Weight = "sources"
) -> PairedDifference:
    """Compare two scores of each row.

    Args:
        a: Shape (n,), no NaN.
        b: Shape (n,), no NaN.
        groups: Code of each row's source, shape (n,).
        seed: Seed of the random flips.
        weight: Whether each source counts the same, or each row.
    """
    delta = a - b
    difference = mean_over(weight, delta, groups)
    sizes = np.bincount(groups)
    # a flip changes the sign of a source's part of the mean: its own mean, or the sum of its rows
    parts = np.asarray(np.bincount(groups, weights=delta)[sizes > 0], float)
    flipped = parts if weight == "texts" else parts / sizes[sizes > 0]
    p = None
    if difference.clusters > 1:
        # skewed differences are not as likely to have the other sign though their mean be 0: flips
        # alone find one too often then; the interval's test allows for skewness
        p = max(sign_flip_p(flipped, seed=seed), difference.p_value() or 0.0)
    return PairedDifference(
        n=len(delta), groups=difference.clusters, a=mean_over(weight, a, groups).value,
        b=mean_over(weight, b, groups).value, difference=difference, p=p,
        wins=int((delta > 0).sum()), ties=int((delta == 0).sum()), losses=int((delta < 0).sum()),
    )  # fmt: skip


def sign_flip_p(values: Floats, *, seed: int = 0) -> float:
    """Return the two-sided p-value of values being symmetric around 0.

    Up to 14 values all flips are tried. Up to 2,000 there are 9,999 random ones, the data counted
    as one more. Beyond that the flips' sum is taken as normal with their exact variance.
    """
    # under the null hypothesis a source's difference is as likely to have the other sign (the two
    # sides are exchangeable), so flips give the exact distribution without assuming normality
    observed = abs(float(values.sum()))
    # flips with the same sum in theory differ in the last digits; without slack such ties are lost
    # and p comes out too small
    slack = 1e-12 * float(np.abs(values).sum())
    if observed <= slack:
        return 1.0
    # of more than 2,000 values the sum of the flips is as good as normal
    if len(values) > 2_000:
        z = observed / math.sqrt(float(values @ values))
        return math.erfc(z / math.sqrt(2))
    if len(values) <= 14:
        codes = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
        sums = (1 - 2 * codes) @ values
        return float(np.mean(np.abs(sums) >= observed - slack))
    # so many flips at once that a temporary array has two million numbers
    rng, extreme, step = np.random.default_rng(seed), 0, max(1, 2_000_000 // len(values))
    for start in range(0, FLIPS, step):
        size = min(step, FLIPS - start)
        signs = rng.integers(0, 2, size=(size, len(values)), dtype=np.int8)
        # signs are 0 and 1 to save memory: twice their sum less the total is that with -1 and 1
        sums = signs @ values * 2 - values.sum()
        extreme += int((np.abs(sums) >= observed - slack).sum())
    # the data are one of the flips, so p is never 0 and the test stays valid with random flips
    return (extreme + 1) / (FLIPS + 1)


PairedBy = Literal["text", "source"]


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Number of texts, or sources, of each run that have no counterpart in the other."""

    a: int = 0
    """In the first run."""
    b: int = 0
    """In the second."""

    @property
    def total(self) -> int:
        """Sum of both."""
        return self.a + self.b


class _DifferenceRow(ResultRow):
    """Base of rows with a difference, whose JSON has the ends of its interval beside it."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        found: dict[str, Any] = {}
        for name, value in ResultRow.as_dict(self).items():
            is_estimate = name == "difference"
            found |= {name: value.pop("value"), **value} if is_estimate else {name: value}
        return found


@dataclass(frozen=True, slots=True)
class CompareRow(_DifferenceRow):
    """The difference `a - b` of one aspect, with sources as the sampled unit."""

    aspect: str = field(metadata=column("aspect"))
    """Name of the aspect."""
    n: int = field(metadata=column("n", "count"))
    """Texts that both runs scored, or sources with texts of both if they are paired by source, and
    `unpaired`, which have no counterpart."""
    groups: int = field(
        metadata=column("sources", "count", name="sources")
        | column(
            "unpaired", "count", name="unpaired", when=any,
            cell=lambda row: row.unpaired.total if row.paired_by else None,
        )
        | column("left out", "count", name="left_out", cell="left_out.total", when=any)
    )  # fmt: skip
    """Sources among them."""
    a: float = field(metadata=column("a", "number"))
    """Mean of the first run, over sources or texts as `mean_over` says."""
    b: float = field(metadata=column("b", "number"))
    """Mean of the second."""
    difference: Estimate = field(metadata=column("a - b", "interval"))
    """With its interval."""
    p: float | None = field(metadata=column("p", "p"))
    """Of the difference, over sources; `None` with fewer than two."""
    p_holm: float | None = field(metadata=column("p (Holm)", "p"))
    """The same, adjusted over the aspects."""
    wins: int | None = field(metadata=column("wins", "count"))
    """Texts that the first run scores higher; like `ties`, `losses`, `difference` and `p`, `None`
    if the runs score on different scales."""
    ties: int | None = field(metadata=column("ties", "count"))
    """Texts with equal scores."""
    losses: int | None = field(metadata=column("losses", "count"))
    """Texts that the second run scores higher."""
    unscored: int
    """Texts of both runs that one or both left unscored."""
    signatures: tuple[str, str]
    """Signature of the first and of the second run's scores."""
    scales: tuple[RatingScale | None, RatingScale | None]
    """Scale of the first and of the second run's scores; `None` if not recorded."""
    mean_over: Weight = "sources"
    """What the means are over, `sources` or `texts`."""
    paired_by: PairedBy | None = "text"
    """Whether texts were paired by id, or the means of sources, because no id is in both; `None`
    for independent samples, which have no wins, ties and losses."""
    unpaired: Unpaired = Unpaired()
    """Scored texts, or sources, without a counterpart that are compared as independent samples; if
    something is paired, wins, ties and losses do not count them."""
    left_out: Unpaired = Unpaired()
    """Scored texts, or sources, without a counterpart that are in no figure, since the other run
    has too few of them to compare with."""
    other_texts: int | None = None
    """Pairs of equal id whose texts differ, such as in two versions of a system; `None` if the
    texts are not recorded."""

    @property
    def same_scale(self) -> bool:
        """Whether scores of the two runs can be subtracted; true if a scale is not recorded."""
        return None in self.scales or self.scales[0] == self.scales[1]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, without signatures and scales."""
        content = _DifferenceRow.as_dict(self)
        del content["signatures"], content["scales"]
        # the figures of the runs first, then their difference, then how it came about
        last = (
            "difference", "low", "high", "unscored", "mean_over", "paired_by", "unpaired",
            "left_out", "other_texts",
        )  # fmt: skip
        later = {name: content.pop(name) for name in last}
        return content | later


def of_system(scores: Mapping[str, Judged], people: People, system: str) -> dict[str, Judged]:
    """Return the scores of one system's texts; raise `UnknownName` if no row has the system."""
    ids = {id_ for id_, own in zip(people.ids, people.systems, strict=True) if own == system}
    if not ids:
        known = sorted({name for name in people.systems if name is not None})
        raise UnknownName("system of the data", system, known)
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
    first, second = _scored(a), _scored(b)
    is_paired = not a.values.keys().isdisjoint(b.values)
    return not first.keys().isdisjoint(second) if is_paired else bool(first and second)


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
    weight: Weight = "sources",
) -> list[CompareRow]:
    """Compare two runs by aspect.

    Texts are paired by id. If no id is in both runs, the means of their sources are paired. What
    has no counterpart is compared as independent samples, and both differences are combined.

    Args:
        a: The first run, from `read_judged`.
        b: The second run.
        people: The data, for their sources; without them every text is a source of its own.
        other_people: The data of the second run, if they are others.
        unpaired: Whether runs that share neither ids nor sources are compared as independent
            samples, such as two weeks of traffic.
        aspects: What to compare; all that both runs judged if left out.
        confidence: Confidence of the intervals.
        seed: Seed of the sign flips.
        weight: What the means are over: `sources`, each counting the same however many texts it
            has, or `texts`.

    Raises:
        UnknownName: An aspect is not in both runs.
        DataError: The runs share no aspect, or nothing to pair by.
        ConfigurationError: The scores of one run come from several judges, or the runs' labels
            differ.
    """
    shared = [name for name in a if name in b]
    if not shared:
        raise DataError(
            f"the runs share no aspect: the first has {', '.join(a)}, the second {', '.join(b)}; "
            "score the same aspect in both"
        )
    names = list(dict.fromkeys(aspects)) if aspects is not None else shared
    for name in names:
        if name not in shared:
            raise UnknownName("aspect of both runs", name, shared)
        refuse_other_labels(name, a[name].labels, b[name].labels)
    sources = {
        id_: group
        for one in (other_people, people)
        if one is not None
        for id_, group in zip(one.ids, one.groups, strict=True)
    }
    options = _Options(sources, unpaired, confidence, seed, weight)
    rows = [_if_same_scale(options.compare(name, a[name], b[name])) for name in names]
    # the family is all requested aspects: more aspects mean more chances of a false alarm
    adjusted = holm([row.p for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


@dataclass(frozen=True, slots=True)
class ScoreDifference(SystemDifference):
    """The difference of two systems' mean scores, and on how much it rests."""

    n: int = 0
    """Sources with texts of both systems, and `unpaired`; texts if the samples are independent."""
    unpaired: int = 0
    """Sources of one system alone, which are compared as independent samples."""
    left_out: int = 0
    """Sources of one system alone that are in no figure, since the other has too few."""


def compare_systems(
    scores: Mapping[str, Judged], people: People, systems: Sequence[str], **options: Any
) -> list[ScoreDifference]:
    """Compare each two systems of one run by its scores, with options of `compare_runs`."""
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
class AgreementDifference(_DifferenceRow):
    """How much better the first of two runs agrees with people, by one measure."""

    aspect: str = field(metadata=column("aspect"))
    """Name of the aspect."""
    level: Level
    """`dataset`, or `group` for choices."""
    coefficient: str = field(metadata=column("coefficient"))
    """Name of the measure."""
    n: int = field(metadata=column("n", "count"))
    """Rated texts that both runs scored; for choices groups."""
    a: float | None = field(metadata=column("a", "number"))
    """The measure of the first run; `None` if undefined."""
    b: float | None = field(metadata=column("b", "number"))
    """The measure of the second."""
    difference: Estimate = field(metadata=column("a - b", "interval"))
    """`a - b` with its 95 % interval over sources."""
    p: float | None = field(metadata=column("p", "p"))
    """Two-sided p-value; `None` if undefined."""
    p_holm: float | None = field(default=None, metadata=column("p (Holm)", "p"))
    """The same, adjusted over subsets of the data; `None` without subsets."""

    @classmethod
    def of(
        cls, aspect: str, coefficient: str, n: int, found: Difference, level: Level = "dataset"
    ) -> AgreementDifference:
        """Return the row of a difference that was found."""
        difference = Estimate(found.difference, *(found.ci or ()))
        return cls(aspect, level, coefficient, n, found.a, found.b, difference, found.p)


def agreement_difference(
    a: Mapping[str, Judged],
    b: Mapping[str, Judged],
    people: People,
    aspects: Sequence[str],
    *,
    bootstrap: int = 1000,
    seed: int = 0,
) -> list[AgreementDifference]:
    """Return by aspect and coefficient how much better the first run agrees with people.

    Aspects without ratings of their name are left out. At dataset level, with a bootstrap over
    sources that both sides share.
    """
    rows = []
    for name in aspects:
        if name not in people.aspects:
            continue
        first, second = ([run[name].values.get(id_) for id_ in people.ids] for run in (a, b))
        both = compare_agreement(
            first, second, people.ratings(name).tolist(), groups=people.groups, bootstrap=bootstrap,
            seed=seed,
        )  # fmt: skip
        rows += [
            AgreementDifference.of(name, one, both.n, getattr(both, one)) for one in COEFFICIENTS
        ]
    return rows


def choice_difference(
    a: Mapping[str, Judged], b: Mapping[str, Judged], people: People, aspects: Sequence[str]
) -> list[AgreementDifference]:
    """Return by aspect how much more often the first run puts first what people find best.

    In pairs of texts, and in groups of texts if the data name them, counted as in
    `agreement/choice.py`. An aspect without any such group is left out.
    """
    rows = []
    for name in aspects:
        if name not in people.aspects:
            continue
        first, second = ([run[name].values.get(id_) for id_ in people.ids] for run in (a, b))
        rated = people.ratings(name).tolist()
        for one in alternatives(people.paired, people.groups):
            n, found = compare_choices(
                one.column(first), one.column(second), one.column(rated), one.groups,
                units=one.units if one.sided else None,
            )  # fmt: skip
            rows += [
                AgreementDifference.of(name, heading, n, found[measure], level="group")
                for measure, heading in (("choice", "choice"), ("strict", "choice, strict"))
                if n
            ]
    return rows


def label_difference(
    a: Recorded,
    b: Recorded,
    people: People,
    labels: LabelSets | None = None,
    *,
    other_labels: LabelSets | None = None,
    aspects: Sequence[str] | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> list[AgreementDifference]:
    """Return by aspect and measure how much better the first judge's labels agree with people's.

    Aspects without ratings of their name are left out, and those whose scores are no labels.

    Args:
        a: Scores of the first run, from `read_scores`.
        b: Scores of the second.
        people: The data with ratings.
        labels: Labels by name of the aspect; scores and ratings that are all 0 or 1 are no and yes.
        other_labels: Those of the second run; by default the same.
        aspects: What to compare; all that both runs have if left out.
        bootstrap: Number of random weightings of the sources.
        seed: Seed of the weightings.

    Raises:
        ConfigurationError: The runs' labels differ.
    """
    rows = []
    for name in a:
        if name not in b or name not in people.aspects or name not in (aspects or a):
            continue
        sides = [[run[name].get(id_) for id_ in people.ids] for run in (a, b)]
        scale = (labels or {}).get(name, YES_NO)
        if labels and other_labels and name in labels and name in other_labels:
            refuse_other_labels(name, scale.names, other_labels[name].names)
        human = people.labels(name, scale)
        are_declared = labels is not None and name in labels
        if human is None or not (are_declared or all(are_labels(side, scale) for side in sides)):
            continue
        first, second = ([nearest_label(one) for one in side] for side in sides)
        n, found = compare_labels(
            first, second, human, labels=scale.names, ordered=scale.ordered, groups=people.groups,
            bootstrap=bootstrap, seed=seed,
        )  # fmt: skip
        rows += [
            AgreementDifference.of(name, measure_name(measure, scale.names), n, delta)
            for measure, delta in found.items()
        ]
    return rows


def comparison_table(
    rows: Sequence[CompareRow], people: People | None = None, subsets: Sequence[str] = ()
) -> Table:
    """Return what `compare_runs` found with these data as a table.

    Args:
        rows: What was found.
        people: The data; `None` if they are not known.
        subsets: The subset of each row, if the data were divided.
    """
    notes = [Note(line) for line in dict.fromkeys(MEANS_OVER[row.mean_over] for row in rows)]
    alone = "every text counts as a source of its own"
    if people is None:
        notes.append(Note(f"{alone}; give DATA to pair by source"))
    elif not people.has_groups:
        notes.append(
            Note(f"{alone}: the data have no field 'group', and no two rows share a source")
        )
    for row, subset in zip(rows, subsets or [""] * len(rows), strict=True):
        own = f"{subset}: " if subset else ""
        notes += [note._replace(text=f"{own}{note.text}") for note in _notes(row)]
    designs = [
        "independent samples" if row.paired_by is None
        else "paired by source, in part" if row.unpaired.total
        else "paired by source"
        for row in rows
    ]  # fmt: skip
    title = "differences of a and b, " + " or ".join(dict.fromkeys(designs))
    return table_of(CompareRow, rows, notes, title)


def agreement_difference_table(
    agreement: Sequence[AgreementDifference], *, of_subset: bool = False
) -> Table:
    """Return differences of agreement with people as a table; of a subset with adjusted p."""
    undefined = {one.aspect: None for one in agreement if one.difference.value is None}
    notes = [Note("intervals: 95%, over sources")]
    if any(one.level == "group" for one in agreement):
        notes.append(
            Note(
                "choice: share of people's best among the texts of a group that a run puts first,"
                " ties shared (strict: wrong); its n are groups"
            )
        )
    if undefined:
        text = (
            f"{', '.join(undefined)}: agreement is undefined, because the ratings or a run's scores"
            " are the same on all rated texts"
        )
        notes.append(Note(text, warning=True))
    table = table_of(AgreementDifference, agreement, notes, "agreement with people")
    return table if of_subset else table.without("p_holm")


def _notes(row: CompareRow) -> Iterator[Note]:
    what = "texts" if row.paired_by == "text" else "sources"
    paired = row.n - row.unpaired.total
    if row.paired_by == "source":
        yield Note(f"{row.aspect}: no id is on both sides, so means of {paired} sources are paired")
    elif row.paired_by is None:
        yield Note(
            f"{row.aspect}: no id and no source is on both sides, so these are two independent"
            " samples: a difference may be one of their texts",
            warning=True,
        )
    if row.paired_by and row.unpaired.total:
        yield Note(
            f"{row.aspect}: {paired} {what} are on both sides and paired; {row.unpaired.a} of a and"
            f" {row.unpaired.b} of b are on one side alone and compared as independent samples, and"
            " the two differences are combined by their variances",
            warning=True,
        )
    if row.left_out.total:
        yield Note(
            f"{row.aspect}: {row.left_out.a} {what} of a and {row.left_out.b} of b are on one side"
            " alone, with nothing on the other to compare them with, and are in no figure",
            warning=True,
        )
    if row.other_texts:
        yield Note(
            f"{row.aspect}: {row.other_texts} ids have another text in a than in b, so their"
            " differences are those of the texts, too"
        )
    if row.unscored:
        text = f"{row.aspect}: {row.unscored} texts that a run left unscored are not in it"
        yield Note(text, warning=True)
    if not row.same_scale:
        first, second = (f"{low:g} to {high:g}" for low, high in filter(None, row.scales))
        yield Note(
            f"{row.aspect}: one run scores from {first}, the other from {second}, so a - b"
            " means nothing; compare their agreement with people (give DATA with ratings), or"
            " their means on the raters' scale (textassay estimate)",
            warning=True,
        )
    elif not row.difference.ends and row.p is not None:
        yield Note(
            f"{row.aspect}: {row.groups} sources that all differ by the same do not show how far"
            " others would, so there is no interval",
            warning=True,
        )
    elif not row.difference.ends:
        yield Note(f"{row.aspect}: one source alone gives no interval", warning=True)
    elif row.p is not None and DOUBTFUL_P <= row.p < 0.05 and row.groups < FEW_SOURCES:
        yield Note(
            f"{row.aspect}: {row.groups} sources cannot show whether a few others would differ far"
            f" more; then a p-value of {DOUBTFUL_P:g} to .05 is chance in up to a tenth of all"
            f" comparisons without a difference: compare {FEW_SOURCES} sources to be sure",
            warning=True,
        )
    # no warning: comparing two judges is one of the two uses of a comparison
    if row.signatures[0] != row.signatures[1]:
        yield Note(
            f"{row.aspect}: the runs are of two judges or settings, so the difference is theirs"
        )


def gate(rows: Iterable[CompareRow], fail_below: float) -> GateVerdict:
    """Judge whether the first run's advantage is at least `fail_below` on every aspect.

    It fails if an interval lies below, holds if all lie at or above, and is inconclusive if an
    interval spans it or is missing.
    """
    verdicts = {verdict_on(row.difference, fail_below) for row in rows}
    # a failure is certain even if other aspects are inconclusive
    worst: tuple[GateVerdict, ...] = ("fails", "inconclusive")
    return next((one for one in worst if one in verdicts), "holds")


def verdict_on(estimate: Estimate, least: float) -> GateVerdict:
    """Return whether the whole interval shows that a value is at least `least`, or below."""
    if not estimate.ends:
        return (
            "inconclusive"  # the value alone decides nothing: with one source it may lie anywhere
        )
    low, high = estimate.ends
    if high < least:
        return "fails"
    return "holds" if low >= least else "inconclusive"


@dataclass(frozen=True, slots=True)
class _Options:
    """How two runs are compared on each aspect."""

    sources: Mapping[str, str | None]
    unpaired: bool
    confidence: float
    seed: int
    weight: Weight

    def compare(self, aspect: str, a: Judged, b: Judged) -> CompareRow:
        for which, judged in (("first", a), ("second", b)):
            refuse_several_judges(aspect, judged.signatures, f" (those of the {which} run)")
        if a.values.keys() & b.values.keys():
            return replace(self._paired(aspect, a, b), other_texts=_count_other_texts(a, b))
        first, second = _by_source(a, self.sources), _by_source(b, self.sources)
        if first.values.keys() & second.values.keys():
            by_source = replace(self, sources={}, weight="sources")
            return replace(by_source._paired(aspect, first, second), paired_by="source")
        if self.unpaired:
            return self._independent(aspect, a, b)
        raise DataError(
            f"the runs share no id on {aspect!r}: the first has {some_ids(a.values)}, the "
            f"second {some_ids(b.values)}. Versions of a system are paired if their texts have "
            "the same ids or the same sources, so give each row an 'id' or a 'group' that names"
            " its source"
        )

    def _paired(self, aspect: str, a: Judged, b: Judged) -> CompareRow:
        """Pair what has a counterpart, and compare the rest as independent samples."""
        shared = [id_ for id_ in a.values if id_ in b.values]
        # a text that one run left unscored is left out on both sides: counting it on one would
        # compare means over different texts
        both = ((id_, a.values[id_], b.values[id_]) for id_ in shared)
        pairs = [(id_, x, y) for id_, x, y in both if x is not None and y is not None]
        if not pairs:
            raise DataError(
                f"no text has a score of {aspect!r} in both runs; all are unscored in one"
            )
        codes = group_codes(self.sources.get(id_) for id_, *_ in pairs)
        x, y = np.array([x for _, x, _ in pairs]), np.array([y for *_, y in pairs])
        found = paired_difference(x, y, codes, seed=self.seed, weight=self.weight)
        row = CompareRow(
            aspect=aspect, n=found.n, groups=found.groups, a=found.a, b=found.b,
            difference=found.estimate(self.confidence), p=found.p, wins=found.wins,
            ties=found.ties, losses=found.losses, unscored=len(shared) - len(pairs),
            **self._about(a, b),
        )  # fmt: skip
        alone = [_scored(one, other) for one, other in ((a, b), (b, a))]
        # texts of a source that is paired depend on it: they are no sample of their own
        used = {source for id_, *_ in pairs if (source := self.sources.get(id_)) is not None}
        rest = [
            {id_: value for id_, value in one.items() if self.sources.get(id_) not in used}
            for one in alone
        ]
        sides = self._means(rest) if all(rest) else None
        # one source alone shows no variance
        if sides is None or 1 in (sides.first.clusters, sides.second.clusters):
            return replace(row, left_out=Unpaired(*map(len, alone)))
        combined = _combined(found, group_means(x, codes, 0), group_means(y, codes, 0), sides)
        unpaired = Unpaired(*map(len, rest))
        return replace(
            row, n=row.n + unpaired.total, groups=row.groups + sides.sources,
            a=combined.weigh(found.a, sides.first.value),
            b=combined.weigh(found.b, sides.second.value),
            difference=combined.estimate(self.confidence), p=combined.p_value(), unpaired=unpaired,
            left_out=Unpaired(*(len(i) - len(j) for i, j in zip(alone, rest, strict=True))),
        )  # fmt: skip

    def _means(self, scored: Sequence[Mapping[str, float]]) -> _Sides:
        """Return the means of two sets of texts."""
        codes = group_codes(self.sources.get(id_) for values in scored for id_ in values)
        cut, count = len(scored[0]), int(codes.max()) + 1
        values = [np.array(list(one.values())) for one in scored]
        owns = codes[:cut], codes[cut:]
        means = [mean_over(self.weight, *one, count) for one in zip(values, owns, strict=True)]
        by_source = [group_means(*one, count) for one in zip(values, owns, strict=True)]
        first, second = ([mean for mean in one if mean == mean] for one in by_source)
        return _Sides(means[0], means[1], np.array(first), np.array(second), count)

    def _independent(self, aspect: str, a: Judged, b: Judged) -> CompareRow:
        """Compare means over different sources; the variances of both add up."""
        scored = _scored(a), _scored(b)
        for which, values in zip(("first", "second"), scored, strict=True):
            if not values:
                raise DataError(f"no text of the {which} run has a score of {aspect!r}")
        sides, unpaired = self._means(scored), Unpaired(*map(len, scored))
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


def _if_same_scale(row: CompareRow) -> CompareRow:
    if row.same_scale:
        return row
    # the difference of a 4 of 5 and a .8 of 1 is a number that means nothing; how well either
    # agrees with people can still be compared
    return replace(row, difference=NO_ESTIMATE, p=None, wins=None, ties=None, losses=None)


_FEWEST_CORRELATED = 4
"""Fewest pairs whose correlation has a standard error (by Fisher's z)."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """Means of two sets of texts that share no source, or none that matters."""

    first: Linearized
    second: Linearized
    of_first: Floats
    """The mean of each source, shape (sources,)."""
    of_second: Floats
    sources: int
    """Number of sources of both parts."""


@dataclass(frozen=True, slots=True)
class _Combined:
    """The weighted mean of two independent differences."""

    weight: float
    """Weight of the paired part."""
    value: float
    variance: float
    df: float

    def weigh(self, paired: float, unpaired: float) -> float:
        """Return the mean of two numbers with the weights of both parts."""
        return self.weight * paired + (1 - self.weight) * unpaired

    def estimate(self, confidence: float) -> Estimate:
        """Return the difference with its t-interval."""
        if self.variance <= NO_SPREAD:
            return Estimate(self.value)
        half = t_quantile(self.df, confidence) * math.sqrt(self.variance)
        return Estimate(self.value, self.value - half, self.value + half)

    def p_value(self) -> float | None:
        """Return the two-sided p-value of the difference being 0; `None` without an interval."""
        if self.variance <= NO_SPREAD:
            return None
        return min(1.0, 2 * float(stdtr(self.df, -abs(self.value) / math.sqrt(self.variance))))


def _combined(paired: PairedDifference, a: Floats, b: Floats, rest: _Sides) -> _Combined:
    """Combine the difference of shared sources with the difference of the others.

    Args:
        paired: The difference over shared sources.
        a: Mean of the first run on each shared source, shape (n,).
        b: Mean of the second, shape (n,).
        rest: Both runs on the sources that are not shared.
    """
    n = len(a)
    every = np.concatenate([a, rest.of_first]), np.concatenate([b, rest.of_second])
    first, second = (float(np.var(one, ddof=1)) for one in every)
    agreeing = 2 * _lower_correlation(a, b) * math.sqrt(first * second)
    planned = (first + second - agreeing) / n
    planned_rest = first / len(rest.of_first) + second / len(rest.of_second)
    total = planned + planned_rest
    weight = planned_rest / total if total > NO_SPREAD else n / (n + rest.sources)
    # a few shared sources say little of their own variance, and it is at most what they would have
    # if both sides did not agree at all
    is_known = n >= _FEWEST_CORRELATED
    variance = paired.difference.variance if is_known else (first + second) / n
    df = paired.difference.df if is_known else len(every[0]) + len(every[1]) - 2.0
    of_rest = rest.first.variance + rest.second.variance
    parts = (weight**2 * variance, df), ((1 - weight) ** 2 * of_rest, _welch_df(rest))
    whole = sum(part for part, _ in parts)
    return _Combined(
        weight,
        weight * paired.difference.value + (1 - weight) * (rest.first.value - rest.second.value),
        whole,
        whole**2 / sum(part**2 / df for part, df in parts) if whole > NO_SPREAD else 1.0,
    )


def _lower_correlation(a: Floats, b: Floats) -> float:
    """Return Pearson's correlation less one standard error, between 0 and 1."""
    if len(a) < _FEWEST_CORRELATED or not (np.ptp(a) and np.ptp(b)):
        return 0.0
    found = min(float(np.corrcoef(a, b)[0, 1]), 1 - 1e-9)
    return max(0.0, math.tanh(math.atanh(found) - 1 / math.sqrt(len(a) - 3)))


def _welch_df(sides: _Sides) -> float:
    """Return the degrees of freedom of the difference of two independent means."""
    first, second = sides.first, sides.second
    whole = first.variance + second.variance
    if whole <= NO_SPREAD:
        return max(first.df, second.df)
    return whole**2 / (first.variance**2 / first.df + second.variance**2 / second.df)


def _scored(judged: Judged, other: Judged | None = None) -> dict[str, float]:
    """Return the scores by id, of ids that another run does not have if one is given."""
    known = () if other is None else other.values.keys()
    return {
        id_: value for id_, value in judged.values.items() if value is not None and id_ not in known
    }


def _count_other_texts(a: Judged, b: Judged) -> int | None:
    shared = a.texts.keys() & b.texts.keys()
    return sum(a.texts[id_] != b.texts[id_] for id_ in shared) if shared else None


def _by_source(judged: Judged, sources: Mapping[str, str | None]) -> Judged:
    """Return the mean of each source's scores, under its name."""
    scored: dict[str, list[float]] = {}
    for id_, value in judged.values.items():
        if (group := sources.get(id_)) is not None:
            scored.setdefault(group, []).extend([] if value is None else [value])
    values = {name: math.fsum(own) / len(own) if own else None for name, own in scored.items()}
    # texts without a source are sources of their own
    values |= {
        f"\0{id_}": value
        for id_, value in judged.values.items()
        if sources.get(id_) is None and value is not None
    }
    return replace(judged, values=values, texts={})
