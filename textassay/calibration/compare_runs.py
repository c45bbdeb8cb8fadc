"""Two runs, or two systems of one run: two judges, versions of a system, samples of traffic.

Knows recorded scores and, if given, the data: their sources, and ratings for the difference in
agreement. Scores are paired by text, or else by source, so what makes a source easy for both
cancels out. Samples that share neither are compared as independent ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from textassay.calibration.columns import Judged, RatingScale
from textassay.calibration.means import (
    MEANS_OVER,
    NO_ESTIMATE,
    Estimate,
    Linearized,
    SystemDifference,
    Weight,
    adjust_p,
    holm,
    mean_over,
)
from textassay.learning.splits import group_codes
from textassay.meta.agreement import Difference
from textassay.meta.agreement import compare as compare_agreement
from textassay.meta.choice import alternatives, compare_choices
from textassay.meta.correlation import COEFFICIENTS, Codes, Floats, Level
from textassay.meta.labels import compare_labels
from textassay.meta.records import (
    People,
    Recorded,
    read_labels,
    read_scores,
    refuse_other_labels,
    refuse_several_judges,
    some_ids,
)
from textassay.meta.table import measure_name
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import DataError, UnknownName
from textassay.runtime.labels import YES_NO, LabelSets, are_labels, nearest_label
from textassay.table import Column, Interval, Note, Table

FLIPS = 9_999
"""Random sign flips behind a p-value, unless there are few enough to try them all."""
_ALL_FLIPS = 14
_NORMAL_FROM = 2_000
"""Sources from which the flips' sum is as good as normal."""
_NUMBERS_AT_ONCE = 2_000_000
GateVerdict = Literal["holds", "fails", "inconclusive"]
_COLUMNS = (
    Column("aspect", "aspect"), Column("n", "n", "count"), Column("sources", "sources", "count"),
    Column("a", "a", "number"), Column("b", "b", "number"),
    Column("difference", "a - b", "interval"), Column("p", "p", "p"),
    Column("p_holm", "p (Holm)", "p"), Column("wins", "wins", "count"),
    Column("ties", "ties", "count"), Column("losses", "losses", "count"),
)  # fmt: skip
_AGREEMENT = (
    Column("aspect", "aspect"), Column("coefficient", "coefficient"), Column("n", "n", "count"),
    Column("a", "a", "number"), Column("b", "b", "number"),
    Column("difference", "a - b", "interval"), Column("p", "p", "p"),
)  # fmt: skip


FEW_SOURCES, DOUBTFUL_P = 40, 0.015
"""With fewer sources, differences of mean 0 with a long tail (lognormal) give a p-value below .05
too often; one below this number they give in 4 to 6 % of 1,500 draws with 8 to 30 sources."""


NO_SPREAD = 1e-24
"""Variance of differences that are equal but for rounding."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Scores `a` minus scores `b`.

    Attributes:
        n: Rows with both scores.
        groups: Sources among them.
        a: Mean of the first, over sources or rows.
        b: Mean of the second, likewise.
        difference: Mean of the sources' mean differences, or of the rows' differences.
        p: Two-sided p-value: the larger one of the sign-flip test, whose hypothesis is that a
            source's difference is as likely as its opposite, and of the test of a mean of 0 that
            belongs to the interval; `None` with fewer than two sources.
        wins: Rows where the first is higher.
        ties: Rows where both are equal.
        losses: Rows where the second is higher.
    """

    n: int
    groups: int
    a: float
    b: float
    difference: Linearized
    p: float | None
    wins: int
    ties: int
    losses: int

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
    # what is flipped is what a source adds to the mean: its own mean, or the sum of its rows
    parts = np.asarray(np.bincount(groups, weights=delta)[sizes > 0], float)
    flipped = parts if weight == "texts" else parts / sizes[sizes > 0]
    p = None
    if difference.clusters > 1:
        # skewed differences are not as likely to have the other sign though their mean be 0: flips
        # alone find one too often then; the interval's test allows for skewness
        p = max(sign_flip_p(flipped, seed=seed), difference.p_value() or 0.0)
    return PairedDifference(
        n=len(delta),
        groups=difference.clusters,
        a=mean_over(weight, a, groups).value,
        b=mean_over(weight, b, groups).value,
        difference=difference,
        p=p,
        wins=int((delta > 0).sum()),
        ties=int((delta == 0).sum()),
        losses=int((delta < 0).sum()),
    )


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
    if len(values) > _NORMAL_FROM:
        z = observed / math.sqrt(float(values @ values))
        return math.erfc(z / math.sqrt(2))
    if len(values) <= _ALL_FLIPS:
        codes = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
        sums = (1 - 2 * codes) @ values
        return float(np.mean(np.abs(sums) >= observed - slack))
    rng, extreme, step = np.random.default_rng(seed), 0, max(1, _NUMBERS_AT_ONCE // len(values))
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
class CompareRow:
    """The difference `a - b` of one aspect, with sources as the sampled unit.

    Attributes:
        aspect: What was judged.
        n: Texts that both runs scored; sources with texts of both, if they are paired by source;
            the texts of both, if they are independent.
        groups: Sources among them.
        a: Mean of the first run, over sources or texts as `over` says.
        b: Mean of the second.
        difference: With its interval.
        p: Of the difference, over sources; `None` with fewer than two.
        p_holm: The same, adjusted over the aspects.
        wins: Texts that the first run scores higher; like `ties`, `losses`, `difference` and `p`,
            `None` if the runs score on different scales.
        ties: Texts with equal scores.
        losses: Texts that the second run scores higher.
        unscored: Texts of both runs that one or both left unscored.
        signatures: Signature of the first and of the second run's scores.
        scales: Scale of the first and of the second run's scores; `None` if not recorded.
        over: What the means are over, `sources` or `texts`.
        paired_by: Whether texts were paired by id, or the means of sources, because no id is in
            both; `None` for independent samples, which have no wins, ties and losses.
    """

    aspect: str
    n: int
    groups: int
    a: float
    b: float
    difference: Estimate
    p: float | None
    p_holm: float | None
    wins: int | None
    ties: int | None
    losses: int | None
    unscored: int
    signatures: tuple[str, str]
    scales: tuple[RatingScale | None, RatingScale | None]
    mean_over: Weight = "sources"
    paired_by: PairedBy | None = "text"

    @property
    def same_scale(self) -> bool:
        """Whether scores of the two runs can be subtracted; true if a scale is not recorded."""
        return None in self.scales or self.scales[0] == self.scales[1]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        content, ends = asdict(self), self.difference
        del content["difference"], content["signatures"], content["scales"]
        about = {name: content.pop(name) for name in ("unscored", "mean_over", "paired_by")}
        return content | {"difference": ends.value, "low": ends.low, "high": ends.high} | about


def of_system(scores: Mapping[str, Judged], people: People, system: str) -> dict[str, Judged]:
    """Return the scores of one system's texts; raise `UnknownName` if no row has the system."""
    ids = {id_ for id_, own in zip(people.ids, people.systems, strict=True) if own == system}
    if not ids:
        known = sorted({name for name in people.systems if name is not None})
        raise UnknownName("system of the data", system, known)
    return {
        aspect: replace(
            judged, values={id_: value for id_, value in judged.values.items() if id_ in ids}
        )
        for aspect, judged in scores.items()
    }


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

    Texts are paired by id. If no id is in both runs, the means of their sources are paired.

    Args:
        a: The first run, from `read_judged`.
        b: The second run.
        people: The data, for their sources; without them every text is a source of its own.
        other_people: The data of the second run, if they are others.
        unpaired: Whether runs that share neither ids nor sources are compared as independent
            samples, such as those of two weeks.
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
    # the family is what the caller asked for: more aspects mean more chances of a false alarm
    adjusted = holm([row.p for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def compare_systems(
    scores: Mapping[str, Judged], people: People, systems: Sequence[str], **options: Any
) -> list[SystemDifference]:
    """Compare each two systems of one run by its scores, with options of `compare_runs`."""
    sides = {system: of_system(scores, people, system) for system in systems}
    pairs = list(combinations(systems, 2))
    rows = [compare_runs(sides[a], sides[b], people, **options) for a, b in pairs]
    return [
        difference
        for at, aspect in enumerate(scores)
        for difference in adjust_p(
            [
                SystemDifference(aspect, a, b, row[at].difference, row[at].p)
                for (a, b), row in zip(pairs, rows, strict=True)
            ]
        )
    ]


def agreement_difference(
    a: Mapping[str, Judged],
    b: Mapping[str, Judged],
    people: People,
    aspects: Sequence[str],
    *,
    bootstrap: int = 1000,
    seed: int = 0,
) -> list[dict[str, Any]]:
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
            first,
            second,
            people.ratings(name).tolist(),
            groups=people.groups,
            bootstrap=bootstrap,
            seed=seed,
        )
        rows += [_agreement_row(name, one, both.n, getattr(both, one)) for one in COEFFICIENTS]
    return rows


def agreement_of_runs(
    a: Mapping[str, Judged],
    b: Mapping[str, Judged],
    people: People,
    rows: Sequence[CompareRow],
    files: tuple[str | Path | Examples, str | Path | Examples],
    *,
    labels: tuple[LabelSets, LabelSets] | None = None,
    aspects: Sequence[str] | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return how much better the first of two recorded runs agrees with people, by aspect.

    Coefficients of those that are paired by text in the `rows` of `compare_runs`, and measures of
    labels. The labels are by default those of the runs' aspects.
    """
    by_text = [row.aspect for row in rows if row.paired_by == "text"]
    found = agreement_difference(a, b, people, by_text, seed=seed)
    found += choice_difference(a, b, people, by_text)
    first, second = map(read_labels, files) if labels is None else labels
    return found + label_difference(
        read_scores(files[0], LabelReader(first)),
        read_scores(files[1], LabelReader(second)),
        people,
        first,
        other_labels=second,
        aspects=aspects,
        seed=seed,
    )


def choice_difference(
    a: Mapping[str, Judged], b: Mapping[str, Judged], people: People, aspects: Sequence[str]
) -> list[dict[str, Any]]:
    """Return by aspect how much more often the first run puts first what people find best.

    In pairs of texts, and in groups of texts if the data name them; as `meta.choice` counts. An
    aspect without any such group is left out.
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
                _agreement_row(name, heading, n, found[measure], level="group")
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
) -> list[dict[str, Any]]:
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
            _agreement_row(name, measure_name(measure, scale.names), n, delta)
            for measure, delta in found.items()
        ]
    return rows


def _agreement_row(
    aspect: str, coefficient: str, n: int, delta: Difference, *, level: Level = "dataset"
) -> dict[str, Any]:
    low, high = delta.ci if delta.ci is not None else (None, None)
    return {
        "aspect": aspect, "level": level, "coefficient": coefficient, "n": n, "a": delta.a,
        "b": delta.b, "difference": delta.difference, "low": low, "high": high, "p": delta.p,
    }  # fmt: skip


def comparison_tables(
    rows: Sequence[CompareRow],
    agreement: Sequence[Mapping[str, Any]] = (),
    people: People | None = None,
) -> list[Table]:
    """Return what `compare_runs` and `agreement_difference` found with these data as tables."""
    lines = [
        (row.aspect, row.n, row.groups, row.a, row.b, row.difference, row.p, row.p_holm, row.wins,
         row.ties, row.losses)
        for row in rows
    ]  # fmt: skip
    notes = [Note(line) for line in dict.fromkeys(MEANS_OVER[row.mean_over] for row in rows)]
    own = "every text counts as a source of its own"
    if people is None:
        notes.append(Note(f"{own}; give DATA to pair by source"))
    elif not people.has_groups:
        notes.append(Note(f"{own}: the data have no field 'group'"))
    notes += [note for row in rows for note in _notes(row)]
    by_text = [row.aspect for row in rows if row.paired_by == "text"]
    unrated = [] if people is None else [name for name in by_text if name not in people.aspects]
    if unrated:
        names = ", ".join(unrated)
        notes.append(Note(f"{names}: no ratings in the data, so agreement is not compared"))
    paired = all(row.paired_by for row in rows)
    title = "differences of a and b, " + ("paired by source" if paired else "independent samples")
    tables = [Table(_COLUMNS, lines, tuple(notes), title)]
    return [*tables, _agreement_table(agreement)] if agreement else tables


def _agreement_table(agreement: Sequence[Mapping[str, Any]]) -> Table:
    lines = [
        (one["aspect"], one["coefficient"], one["n"], one["a"], one["b"],
         Interval(one["difference"], one["low"], one["high"]), one["p"])
        for one in agreement
    ]  # fmt: skip
    undefined = {one["aspect"]: None for one in agreement if one["difference"] is None}
    notes = [Note("intervals: 95%, over sources")]
    if any(one["level"] == "group" for one in agreement):
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
    return Table(_AGREEMENT, lines, tuple(notes), title="agreement with people")


def _notes(row: CompareRow) -> Iterator[Note]:
    if row.paired_by == "source":
        yield Note(f"{row.aspect}: no id is on both sides, so means of {row.n} sources are paired")
    elif row.paired_by is None:
        yield Note(
            f"{row.aspect}: no id and no source is on both sides, so these are two independent"
            " samples: a difference may be one of their texts",
            warning=True,
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
    elif row.difference.low is None and row.p is not None:
        yield Note(
            f"{row.aspect}: {row.groups} sources that all differ by the same do not show how far"
            " others would, so there is no interval",
            warning=True,
        )
    elif row.difference.low is None:
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
    # an inconclusive aspect does not end the loop, because a later one may still fail for certain
    verdict: GateVerdict = "holds"
    for row in rows:
        low, high = row.difference.low, row.difference.high
        if low is None or high is None:
            verdict = "inconclusive"
        elif high < fail_below:
            return "fails"
        elif low < fail_below:
            verdict = "inconclusive"
    return verdict


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
        shared = [id_ for id_ in a.values if id_ in b.values]
        if not shared:
            first, second = _by_source(a, self.sources), _by_source(b, self.sources)
            if first.values.keys() & second.values.keys():
                by_source = replace(self, sources={}, weight="sources")
                return replace(by_source.compare(aspect, first, second), paired_by="source")
            if self.unpaired:
                return self._independent(aspect, a, b)
            raise DataError(
                f"the runs share no id on {aspect!r}: the first has {some_ids(a.values)}, the "
                f"second {some_ids(b.values)}. Versions of a system are paired if their texts have "
                "the same ids or the same sources, so give each row an 'id' or a 'group' that names"
                " its source"
            )
        # a text that one run left unscored is left out on both sides: counting it on one would
        # compare means over different texts
        both = ((id_, a.values[id_], b.values[id_]) for id_ in shared)
        pairs = [(id_, x, y) for id_, x, y in both if x is not None and y is not None]
        if not pairs:
            raise DataError(
                f"no text has a score of {aspect!r} in both runs; all are unscored in one"
            )
        found = paired_difference(
            np.array([x for _, x, _ in pairs]),
            np.array([y for *_, y in pairs]),
            group_codes(self.sources.get(id_) for id_, *_ in pairs),
            seed=self.seed,
            weight=self.weight,
        )
        return CompareRow(
            aspect=aspect, n=found.n, groups=found.groups, a=found.a, b=found.b,
            difference=found.estimate(self.confidence), p=found.p, wins=found.wins,
            ties=found.ties, losses=found.losses, unscored=len(shared) - len(pairs),
            **self._about(a, b),
        )  # fmt: skip

    def _independent(self, aspect: str, a: Judged, b: Judged) -> CompareRow:
        """Compare means over different sources; the variances of both add up."""
        scored = [{id_: x for id_, x in one.values.items() if x is not None} for one in (a, b)]
        for which, values in zip(("first", "second"), scored, strict=True):
            if not values:
                raise DataError(f"no text of the {which} run has a score of {aspect!r}")
        codes = group_codes(self.sources.get(id_) for values in scored for id_ in values)
        cut, count = len(scored[0]), int(codes.max()) + 1
        first, second = (
            mean_over(self.weight, np.array(list(values.values())), own, count)
            for values, own in zip(scored, (codes[:cut], codes[cut:]), strict=True)
        )
        difference = first.minus(second)
        return CompareRow(
            aspect=aspect, n=len(codes), groups=count, a=first.value, b=second.value,
            difference=difference.estimate(self.confidence), p=difference.p_value(), wins=None,
            ties=None, losses=None, unscored=len(a.values) + len(b.values) - len(codes),
            paired_by=None, **self._about(a, b),
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


def _by_source(judged: Judged, sources: Mapping[str, str | None]) -> Judged:
    """Return the mean of each source's scores, under its name; texts without one are left out."""
    scored: dict[str, list[float]] = {}
    for id_, value in judged.values.items():
        if (group := sources.get(id_)) is not None:
            scored.setdefault(group, []).extend([] if value is None else [value])
    values = {name: math.fsum(own) / len(own) if own else None for name, own in scored.items()}
    return replace(judged, values=values)
