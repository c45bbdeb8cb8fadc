"""Measures how much better the first of two runs agrees with people: numbers, choices, labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from textassay.agreement.choice import alternatives, compare_choices
from textassay.agreement.correlation import COEFFICIENTS, Level
from textassay.agreement.joined import People
from textassay.agreement.labels import compare_labels
from textassay.agreement.records import Recorded, check_equal_labels
from textassay.agreement.significance import Difference
from textassay.agreement.significance import compare as compare_agreement
from textassay.agreement.table import measure_name
from textassay.estimation.columns import Judged
from textassay.estimation.compare_rows import DifferenceRow
from textassay.runtime.labels import YES_NO, LabelSets, are_labels, nearest_label
from textassay.table import Estimate, Note, Table, column, table_of


@dataclass(frozen=True, slots=True)
class AgreementDifference(DifferenceRow):
    """How much better the first of two runs agrees with people, by one measure."""

    aspect: str = field(metadata=column("aspect"))
    """Name of the aspect."""
    level: Level
    """`dataset`, or `group` for choices."""
    coefficient: str = field(metadata=column("coefficient"))
    """Name of the measure."""
    n: int = field(metadata=column("n", "count"))
    """Number of rated texts that both runs scored; for choices, of groups."""
    a: float | None = field(metadata=column("a", "number"))
    """The measure of the first run; `None` if undefined."""
    b: float | None = field(metadata=column("b", "number"))
    """The measure of the second."""
    difference: Estimate = field(metadata=column("a - b", "interval"))
    """`a - b` with its 95 % interval over sources."""
    p: float | None = field(metadata=column("p", "p"))
    """Two-sided p-value; `None` if undefined."""
    p_holm: float | None = field(default=None, metadata=column("p (Holm)", "p"))
    """The p-value, adjusted over subsets of the data; `None` without subsets."""

    @classmethod
    def of(
        cls, aspect: str, coefficient: str, n: int, delta: Difference, level: Level = "dataset"
    ) -> AgreementDifference:
        """Return the row of a difference."""
        return cls(aspect, level, coefficient, n, delta.a, delta.b, delta.difference, delta.p)


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

    Aspects without ratings of the same name are left out. At dataset level, with a bootstrap that
    draws the same sources for both runs.
    """
    rows = []
    for name, first, second in _align(a, b, people, aspects):
        both = compare_agreement(
            first, second, people.ratings(name).tolist(), groups=people.groups, bootstrap=bootstrap,
            seed=seed,
        )  # fmt: skip
        rows += [AgreementDifference.of(name, c, both.n, getattr(both, c)) for c in COEFFICIENTS]
    return rows


def choice_difference(
    a: Mapping[str, Judged], b: Mapping[str, Judged], people: People, aspects: Sequence[str]
) -> list[AgreementDifference]:
    """Return by aspect how much more often the first run puts the best text first.

    In pairs of texts, and in groups of texts if the data name them, counted as in
    `agreement/choice.py`. An aspect without any such group is left out.
    """
    rows = []
    for name, first, second in _align(a, b, people, aspects):
        rated = people.ratings(name).tolist()
        for unit in alternatives(people.paired, people.groups):
            n, differences = compare_choices(
                unit.column(first), unit.column(second), unit.column(rated), unit.groups,
                units=unit.units if unit.sided else None,
            )  # fmt: skip
            rows += [
                AgreementDifference.of(name, heading, n, differences[measure], level="group")
                for measure, heading in (("choice", "choice"), ("strict", "choice, strict"))
                if n
            ]
    return rows


def _align(
    a: Mapping[str, Judged], b: Mapping[str, Judged], people: People, aspects: Sequence[str]
) -> Iterator[tuple[str, list[float | None], list[float | None]]]:
    """Yield the aspects that people rated, with both runs' scores of each rated row."""
    for name in aspects:
        if name in people.aspects:
            yield name, people.align(a[name].values), people.align(b[name].values)


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

    Aspects whose scores are not labels, or without ratings of the same name, are left out.

    Args:
        a: Scores of the first run, from `read_scores`.
        b: Scores of the second.
        people: The data with ratings.
        labels: Labels by name of the aspect; scores and ratings that are all 0 or 1 are no and yes.
        other_labels: Labels of the second run; by default the same.
        aspects: Aspects to compare; by default all that both runs have.
        bootstrap: Number of random weightings of the sources.
        seed: Seed of the weightings.

    Raises:
        ConfigurationError: The runs' labels differ.
    """
    rows = []
    for name in a:
        if name not in b or name not in people.aspects or name not in (aspects or a):
            continue
        sides = [people.align(run[name]) for run in (a, b)]
        scale = (labels or {}).get(name, YES_NO)
        if labels and other_labels and name in labels and name in other_labels:
            check_equal_labels(name, scale.names, other_labels[name].names)
        human = people.labels(name, scale)
        are_declared = labels is not None and name in labels
        if human is None or not (are_declared or all(are_labels(side, scale) for side in sides)):
            continue
        first, second = ([nearest_label(score) for score in side] for side in sides)
        n, differences = compare_labels(
            first, second, human, labels=scale.names, ordered=scale.ordered, groups=people.groups,
            bootstrap=bootstrap, seed=seed,
        )  # fmt: skip
        rows += [
            AgreementDifference.of(name, measure_name(measure, scale.names), n, delta)
            for measure, delta in differences.items()
        ]
    return rows


def agreement_difference_table(
    agreement: Sequence[AgreementDifference], *, of_subset: bool = False
) -> Table:
    """Return differences of agreement with people as a table; subsets have adjusted p-values."""
    undefined = {row.aspect: None for row in agreement if row.difference.value is None}
    notes = [Note("intervals: 95%, over sources")]
    if any(row.level == "group" for row in agreement):
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
