"""Sets two runs side by side: differences, agreement, and the texts that got worse or better.

Each run has its own data. Ratings belong to texts, so agreement with people is compared only on the
rated texts that both runs judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from textassay.agreement.joined import (
    People,
    join_notes,
    outside_subsets,
    some_ids,
    subset_names,
)
from textassay.agreement.records import Recorded
from textassay.estimation.columns import Judged, texts_judged
from textassay.estimation.compare import can_compare, compare_runs, of_ids
from textassay.estimation.compare_rows import CompareRow, comparison_table
from textassay.estimation.compared_agreement import (
    AgreementDifference,
    agreement_difference,
    agreement_difference_table,
    choice_difference,
    label_difference,
)
from textassay.estimation.means import MeanUnit, holm
from textassay.runtime.data.digests import may_be_one_text
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import LabelSets, shares_of
from textassay.table import (
    Column,
    Displayed,
    Note,
    ResultRow,
    Table,
    any_known,
    column,
    more_rows,
    stack_subsets,
    table_of,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the two compared runs."""

    judged: Mapping[str, Judged]
    """Scores by aspect, from `read_judged`."""
    recorded: Recorded
    """The same scores with labels as numbers, from `read_scores`."""
    people: People | None = None
    """The data of this run, with ratings if there are any; `None` if they are not known."""
    labels: LabelSets = field(default_factory=dict)
    """Labels by name of the aspect."""
    lower_is_better: frozenset[str] = frozenset()
    """Aspects on which a low score is good."""

    def only(self, subset: str, people: People) -> RunSide:
        """Return the scores of one subset of the data."""
        rows = people.only(subset)
        ids = set(rows.ids)
        recorded = {
            aspect: {id_: value for id_, value in values.items() if id_ in ids}
            for aspect, values in self.recorded.items()
        }
        return replace(self, judged=of_ids(self.judged, ids), recorded=recorded, people=rows)


@dataclass(frozen=True, slots=True)
class ScoreChange(ResultRow):
    """One text on one aspect in two runs."""

    id: str = field(metadata=column("id"))
    aspect: str = field(metadata=column("aspect"))
    system: str | None = field(metadata=column("system", when=any_known))
    a: float = field(metadata=column("a", "number"))
    """Score in the first run."""
    b: float = field(metadata=column("b", "number"))
    """Score in the second run."""
    change: float = field(metadata=column("a - b", "number"))
    """`a - b`."""
    direction: Literal["worse", "better"] = field(metadata=column("a is"))
    """Whether the first run's score is worse, or better."""
    is_other_text: bool | None = field(
        metadata=column(
            "text", name="text", when=lambda cells: "another" in cells,
            cell=lambda row: {True: "another", False: "the same"}.get(row.is_other_text),
        )
    )  # fmt: skip
    """Whether the second run judged another text; `None` if it is not recorded."""


@dataclass(frozen=True, slots=True)
class Changes(Displayed, Sequence[ScoreChange]):
    """Texts whose scores differ between two runs, the largest losses of the first run first."""

    rows: tuple[ScoreChange, ...]
    unchanged: int = 0
    """Number of scores that are equal in both runs."""
    unscored: int = 0
    """Number of scores that are missing in one of the runs, or in both."""

    def __getitem__(self, at: Any) -> Any:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return Displayed.__str__(self)

    @property
    def worse(self) -> Changes:
        """Changes on which the first run is worse, the largest losses first."""
        return replace(self, rows=tuple(row for row in self.rows if row.direction == "worse"))

    @property
    def better(self) -> Changes:
        """Changes on which the first run is better, the largest gains first."""
        better = [row for row in self.rows if row.direction == "better"]
        return replace(self, rows=tuple(reversed(better)))

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per change, with the fields of `ScoreChange` as columns; needs pandas."""
        import pandas as pd  # heavy, and only this method's

        return pd.DataFrame(self.as_dicts(), columns=list(ScoreChange.__dataclass_fields__))

    def as_dicts(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return all changes, or the `most` largest losses and as many gains, as JSON values."""
        return [row.as_dict() for row in self._first(most)]

    def _first(self, most: int | None) -> tuple[ScoreChange, ...]:
        if most is None:
            return self.rows
        return (*self.worse.rows[:most], *reversed(self.better.rows[:most]))

    def tables(self) -> list[Table]:
        return [self.table()]

    def table(self, most: int | None = None) -> Table:
        """Return the changes, or the `most` largest losses and as many gains."""
        rows = self._first(most)
        worse, better = len(self.worse), len(self.better)
        counts = f"worse on {worse:,} scores, better on {better:,} and equal on {self.unchanged:,}"
        notes = [Note(f"a is {counts}")]
        if self.unscored:
            notes.append(Note(f"without a score in one of the runs: {self.unscored:,}"))
        elif not self.rows and not self.unchanged:
            notes = [Note("no id is on both sides: give the texts of both runs the same ids")]
        if len(rows) < len(self.rows):
            notes.insert(0, more_rows(len(self.rows) - len(rows)))
        return table_of(ScoreChange, rows, notes, "texts whose scores differ")


@dataclass(frozen=True, slots=True)
class RunComparison(Displayed):
    """The differences `a - b` of two runs by aspect, of scores and of agreement with people."""

    rows: tuple[CompareRow, ...]
    agreement: tuple[AgreementDifference, ...]
    """How much better the first run agrees with people, by aspect and coefficient, on the rated
    texts that both judged."""
    changes: Changes
    """Texts whose scores differ."""
    people: People | None = None
    """The data of the first run."""
    notes: tuple[Note, ...] = ()
    """Ratings that were left out of `agreement`, and subsets that cannot be compared."""
    by: str = ""
    """The field that divides the data into subsets; empty without subsets."""
    subsets: Mapping[str, RunComparison] = field(default_factory=dict)
    """The comparison of the texts with each value of that field; `p_holm` is adjusted over all
    aspects and subsets, and in `agreement` over the subsets.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, without the changes."""
        document = self._rows()
        for row in document["agreement"]:
            del row["p_holm"]  # only for subsets
        if not self.by:
            return document
        subsets = {name: subset._rows() for name, subset in self.subsets.items()}
        return {**document, "by": self.by, "subsets": subsets}

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        parts = {"rows": self.rows, "agreement": self.agreement}
        return {name: [row.as_dict() for row in rows] for name, rows in parts.items()}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per aspect, with the columns of `CompareRow.as_dict`; needs pandas."""
        import pandas as pd  # heavy, and only this method's

        return pd.DataFrame([row.as_dict() for row in self.rows])

    def tables(self) -> list[Table]:
        """Return differences of the scores, and of agreement with people, also by subset."""
        table = comparison_table(self.rows, self.people)
        tables = [replace(table, notes=(*table.notes, *self.notes))]
        if self.agreement:
            tables.append(agreement_difference_table(self.agreement))
        return [*tables, *self._tables_of_subsets()]

    def _tables_of_subsets(self) -> Iterator[Table]:
        lines = [(name, row) for name, subset in self.subsets.items() for row in subset.rows]
        if not lines:
            return
        names = [name for name, _ in lines]
        table = comparison_table([row for _, row in lines], self.people, names)
        table = table.with_column(Column("subset", self.by), names, after="aspect")
        notes = tuple(
            note._replace(text=f"{name}: {note.text}")
            for name, subset in self.subsets.items()
            for note in subset.notes
        )
        holm = Note("p (Holm): adjusted over all aspects and subsets")
        title = f"{table.title}, by {self.by}"
        yield replace(table, title=title, notes=(*table.notes, *notes, holm))
        parts = {
            name: [agreement_difference_table(subset.agreement, of_subset=True)]
            for name, subset in self.subsets.items()
            if subset.agreement
        }
        aspects = {row.aspect for _, row in lines}
        for subset_table in stack_subsets(self.by, parts, after="aspect", names=aspects):
            holm = Note("p (Holm): adjusted over the subsets")
            yield replace(subset_table, notes=(*subset_table.notes, holm))


def compare_sides(
    a: RunSide,
    b: RunSide,
    *,
    unpaired: bool = False,
    aspects: Iterable[str] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    weight: MeanUnit = "sources",
    with_agreement: bool = True,
    by: str | None = None,
) -> RunComparison:
    """Compare two runs, each with its own data.

    Args:
        a: The first run.
        b: The second run.
        unpaired: Whether runs that share neither ids nor sources are compared as independent
            samples.
        aspects: Aspects to compare; by default all that both runs judged.
        confidence: Confidence of the intervals.
        seed: Seed of sign flips and bootstrap.
        weight: The unit of the means.
        with_agreement: Whether agreement with people is compared.
        by: Field whose values divide the texts, as given when the data were read.

    Raises:
        UnknownName: An aspect is not in both runs.
        DataError: The runs share no aspect, or nothing to pair by.
        ConfigurationError: The scores of one run come from several judges, or the runs' labels
            differ.
    """
    names = None if aspects is None else list(aspects)
    rows = compare_runs(
        a.judged, b.judged, a.people, other_people=b.people, unpaired=unpaired, aspects=names,
        confidence=confidence, seed=seed, weight=weight,
    )  # fmt: skip
    agreement: list[AgreementDifference] = []
    notes: list[Note] = []
    if with_agreement:
        by_text = [row.aspect for row in rows if row.paired_by == "text"]
        rated, notes = _people_of_both(a, b, by_text, names)
        if rated:
            agreement = agreement_difference(a.judged, b.judged, rated, by_text, seed=seed)
            agreement += choice_difference(a.judged, b.judged, rated, by_text)
            agreement += label_difference(
                a.recorded, b.recorded, rated, a.labels, other_labels=b.labels, aspects=names,
                seed=seed,
            )  # fmt: skip
    if unweighted := [row.aspect for row in rows if row.mean_over != weight]:
        sources = "means of sources are paired, so sources have the same weight, not texts"
        notes.append(Note(f"{', '.join(unweighted)}: {sources}", warning=True))
    notes += _other_source_notes(a, b)
    changes = changes_between(a, b, [row.aspect for row in rows if row.same_scale])
    whole = RunComparison(tuple(rows), tuple(agreement), changes, a.people, tuple(notes))
    if by is None:
        return whole
    # the texts of a subset are in the data, so their sources are known
    compare = partial(
        compare_sides, unpaired=True, confidence=confidence, seed=seed, weight=weight,
        with_agreement=with_agreement,
    )  # fmt: skip
    return _by_subset(whole, a, b, by, compare)


def _by_subset(
    whole: RunComparison, a: RunSide, b: RunSide, by: str, compare: Callable[..., RunComparison]
) -> RunComparison:
    """Compare the texts of each subset, and adjust p-values over the subsets."""
    first, second = a.people or b.people, b.people or a.people
    if first is None or second is None:
        raise ConfigurationError(f"by={by!r} divides the data, which are unknown here; give DATA")
    entry: dict[str, RunComparison] = {}
    notes = [*outside_subsets(first)]
    for name in subset_names(first, second):
        sides = a.only(name, first), b.only(name, second)
        aspects = [row.aspect for row in whole.rows]
        possible = [
            aspect for aspect in aspects if can_compare(*(side.judged[aspect] for side in sides))
        ]
        notes += [
            Note(f"{aspect}: {by} {name} has no text with a score in both runs", warning=True)
            for aspect in aspects
            if aspect not in possible
        ]
        if possible:
            judged = ({aspect: side.judged[aspect] for aspect in possible} for side in sides)
            entry[name] = compare(
                *(replace(side, judged=scores) for side, scores in zip(sides, judged, strict=True)),
                aspects=possible,
            )
    return replace(whole, by=by, subsets=_adjust_over_subsets(entry), notes=(*whole.notes, *notes))


def _adjust_over_subsets(compared: Mapping[str, RunComparison]) -> dict[str, RunComparison]:
    rows = iter(holm([row.p for comparison in compared.values() for row in comparison.rows]))
    families: dict[tuple[str, str], list[float | None]] = {}
    for comparison in compared.values():
        for row in comparison.agreement:
            families.setdefault((row.aspect, row.coefficient), []).append(row.p)
    adjusted = {name: iter(holm(p_values)) for name, p_values in families.items()}
    return {
        name: replace(
            comparison,
            rows=tuple(replace(row, p_holm=next(rows)) for row in comparison.rows),
            agreement=tuple(
                replace(row, p_holm=next(adjusted[row.aspect, row.coefficient]))
                for row in comparison.agreement
            ),
        )
        for name, comparison in compared.items()
    }


def _people_of_both(
    a: RunSide, b: RunSide, by_text: Sequence[str], names: Sequence[str] | None
) -> tuple[People | None, list[Note]]:
    """Return the rows with texts that both runs judged, and notes on the ratings left out."""
    texts = texts_judged(a.judged), texts_judged(b.judged)
    # a rating without a text can belong to one of two different texts at most
    apart = {
        id_
        for id_ in texts[0].keys() & texts[1].keys()
        if not may_be_one_text(texts[0][id_], texts[1][id_])
    }
    # Scores of labels without an order are shares by label, and ratings may be the labels alone.
    labeled = {
        name: shares_of({name: scale})
        for name, scale in a.labels.items()
        if name in a.recorded and name in b.recorded and (names is None or name in names)
    }
    aspects = [*by_text, *(name for name in labeled if not labeled[name].isdisjoint(by_text))]
    notes: list[Note] = []
    people: People | None = None
    for side, of in ((a, "a"), (b, "b")):
        if not side.people or people:
            continue
        rated = _count_rated(side.people, aspects)
        both = side.people.of_texts(texts[0]).of_texts(texts[1]).without(apart)
        still_rated = _count_rated(both, aspects)
        if rated > still_rated:
            notes.append(
                Note(
                    f"{rated - still_rated} of {rated} rated rows of the data of {of} have texts"
                    " that one of the runs did not judge; agreement with people is not compared on"
                    " them",
                    warning=True,
                )
            )
        if still_rated:
            people = both
    if (a.people or b.people) and not notes:
        rated_names = set(people.aspects if people else ())
        rated_names.update(*(labeled[name] for name in labeled if name in rated_names))
        if unrated := [name for name in by_text if name not in rated_names]:
            without = ", ".join(unrated)
            notes.append(Note(f"{without}: no ratings in the data, so agreement is not compared"))
    if people:
        notes += join_notes((), other_sources=people.count_other_sources())
    return people, notes


def _other_source_notes(a: RunSide, b: RunSide) -> Iterator[Note]:
    """Yield the number of equal texts that the runs judged with different sources."""
    if not (a.people and b.people):
        return
    texts, seen = [texts_judged(side.judged) for side in (a, b)], b.people.materials()
    others = [
        id_
        for id_, materials in a.people.materials().items()
        if id_ in texts[0].keys() & texts[1].keys() & seen.keys()
        and may_be_one_text(texts[0][id_], texts[1][id_])
        and materials != seen[id_]
    ]
    if others:
        yield Note(
            f"{len(others)} texts have another source, or other passages, images or references, in"
            f" a than in b ({some_ids(others)}), so their differences may be differences of these",
            warning=True,
        )


def _count_rated(people: People, aspects: Iterable[str]) -> int:
    """Return how many rows have a rating of one of these aspects."""
    columns = [people.has_rating(name) for name in aspects if name in people.aspects]
    return sum(map(any, zip(*columns, strict=True)))


def changes_between(a: RunSide, b: RunSide, aspects: Sequence[str]) -> Changes:
    """Return the texts of both runs whose scores differ: losses of the first run first."""
    people = a.people or b.people
    systems = dict(zip(people.ids, people.systems, strict=True)) if people else {}
    by_gain, unchanged, unscored = list[tuple[float, ScoreChange]](), 0, 0
    for aspect in aspects:
        first, second = a.judged[aspect], b.judged[aspect]
        up = -1 if aspect in a.lower_is_better else 1
        for id_, value in first.values.items():
            other = second.values.get(id_)
            if value is None or other is None:
                unscored += id_ in second.values
                continue
            if value == other:
                unchanged += 1
                continue
            gain = up * (value - other)
            texts = first.texts.get(id_), second.texts.get(id_)
            is_other = None if None in texts else texts[0] != texts[1]
            change = ScoreChange(
                id=id_, aspect=aspect, system=systems.get(id_), a=value, b=other,
                change=value - other, direction="better" if gain > 0 else "worse",
                is_other_text=is_other,
            )  # fmt: skip
            by_gain.append((gain, change))
    # equal changes in the order of the data: scores are in the order in which judges answered
    places = {id_: place for place, id_ in enumerate(systems)}
    by_gain.sort(key=lambda pair: (pair[0], places.get(pair[1].id, len(places))))
    return Changes(tuple(change for _, change in by_gain), unchanged, unscored)
