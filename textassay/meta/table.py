"""A table of agreement.

Recorded scores joined with the human ratings of the examples, one row per pairing and level.

Knows scores by id and examples; nothing of runs, methods or models.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from textassay.meta.agreement import Agreement, correlate
from textassay.meta.correlation import COEFFICIENTS, LEVELS, Coefficient, Level
from textassay.meta.label_measures import agreement_at, label_agreement
from textassay.meta.label_sets import set_agreement
from textassay.meta.label_table import (
    LabelRow,
    SetRow,
    among_raters,
    flat_rows,
    label_tables,
    rater_table,
    set_tables,
)
from textassay.meta.raters import RaterAgreement, rater_agreement
from textassay.meta.score_files import (
    CRITERIA,
    HasScores,
    Recorded,
    criterion_id,
    criterion_names,
    pair_names,
    read_labels,
    read_with_labels,
    recorded,
)
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import (
    YES_NO,
    LabelScale,
    are_labels,
    labels_given,
    member_name,
    nearest_label,
    slug,
)
from textassay.table import Column, Displayed, Interval, Note, Table

_COLUMNS = (
    Column("score", "score"), Column("human", "human"), Column("level", "level"),
    Column("n", "n", "count"), Column("coverage", "coverage", "number"),
    Column("groups", "groups", "count"), *(Column(c, c, "interval") for c in COEFFICIENTS),
)  # fmt: skip
_RATERS = (
    Column("score", "score"), Column("human", "human"), Column("raters", "raters", "count"),
    Column("items", "items", "count"), Column("alpha", "alpha (ordinal)", "number"),
    Column("between_raters", "rater-rater", "number"),
    Column("judge_rater", "judge-rater", "number"), Column("ceiling", "rater-others", "number"),
    Column("judge_others", "judge-others", "number"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableRow:
    """Agreement of one score with one human aspect at one level.

    Attributes:
        aspect: Name of the score.
        human: Name of the human aspect it is compared with.
        agreement: What was found.
    """

    aspect: str
    human: str
    agreement: Agreement

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON values; what is undefined is `None`."""
        agreement = self.agreement
        ci = None
        if agreement.ci is not None:
            ci = {name: None if span is None else list(span) for name, span in agreement.ci.items()}
        return {
            "aspect": self.aspect,
            "human": self.human,
            "level": agreement.level,
            "n": agreement.n,
            "groups": agreement.groups,
            "groups_skipped": agreement.groups_skipped,
            "coverage": agreement.coverage,
            "pearson": agreement.pearson,
            "spearman": agreement.spearman,
            "kendall": agreement.kendall,
            "ci": ci,
            "systems": agreement.systems,
            "note": agreement.note,
        }


@dataclass(frozen=True, slots=True)
class RaterRow:
    """Agreement among the raters of one human aspect, and of one score with them.

    Attributes:
        aspect: Name of the score.
        human: Name of the human aspect.
        agreement: What was found, over the rows that have a score.
    """

    aspect: str
    human: str
    agreement: RaterAgreement

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON values; what is undefined is `None`."""
        return {"aspect": self.aspect, "human": self.human, **self.agreement.as_dict()}


@dataclass(frozen=True, slots=True)
class AgreementTable(Displayed):
    """Agreement of all scores that pair with a human aspect.

    Attributes:
        rows: In order of scores, then levels.
        unknown_ids: Number of scored ids that no example has.
        raters: Agreement among raters, one row per pairing; `None` if not asked for.
        labels: Agreement of labels, one row per pairing of labels.
        sets: Agreement of sets of labels, one row per pairing of sets.
    """

    rows: tuple[TableRow, ...]
    unknown_ids: int
    raters: tuple[RaterRow, ...] | None = None
    labels: tuple[LabelRow, ...] = ()
    sets: tuple[SetRow, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return `{"rows": [...]}` as JSON values.

        With `labels`, `sets` and `raters` if there are any; rows of labels have their measures,
        too.
        """
        rows = flat_rows((row.as_dict() for row in self.rows), self.labels)
        content: dict[str, Any] = {"rows": rows}
        if self.labels:
            content["labels"] = [row.as_dict() for row in self.labels]
        if self.sets:
            content["sets"] = [row.as_dict() for row in self.sets]
        if self.raters is not None:
            content["raters"] = [row.as_dict() for row in self.raters]
        return content

    def tables(self) -> list[Table]:
        """Return agreement with people, of labels, and among raters if asked for."""
        rows = [
            (row.aspect, row.human, row.agreement.level, row.agreement.n, row.agreement.coverage,
             _groups(row.agreement), *(_with_ends(row.agreement, name) for name in COEFFICIENTS))
            for row in self.rows
        ]  # fmt: skip
        notes = tuple(self._notes())
        tables = [Table(_COLUMNS, rows, notes, "agreement with people")] if rows or notes else []
        tables += [table for row in self.labels for table in label_tables(row)]
        tables += [table for row in self.sets for table in set_tables(row)]
        if self.raters is not None:
            tables += self._rater_tables(self.raters)
        return tables

    def _rater_tables(self, rows: Sequence[RaterRow]) -> Iterator[Table]:
        """Yield agreement among raters on ratings, and on labels."""
        ordered = {
            (row.aspect, row.human): row.agreement.ordered or len(row.agreement.labels) == 2
            for row in self.labels
            if row.threshold is None
        }
        if ratings := [row for row in rows if (row.aspect, row.human) not in ordered]:
            yield _rater_table(ratings)
        if on_labels := [
            (row.aspect, row.human, row.agreement, ordered[row.aspect, row.human])
            for row in rows
            if (row.aspect, row.human) in ordered
        ]:
            yield rater_table(on_labels)

    def _notes(self) -> Iterator[Note]:
        """Yield what `2 (-1)` groups mean, and why intervals are missing."""
        if self.unknown_ids:
            text = f"{self.unknown_ids} scored ids are not in the data and were left out"
            yield Note(text, warning=True)
        skipped = [row.agreement for row in self.rows if row.agreement.groups_skipped]
        if skipped:
            first = skipped[0]
            yield Note(
                f"{_groups(first)}: {first.groups} groups are averaged; {first.groups_skipped} are"
                " left out because all scores or all ratings in them are equal"
            )
        noted: dict[str, dict[str, None]] = {}
        for row in self.rows:
            if row.agreement.note:
                note = f"{row.agreement.level} level, {row.agreement.note}"
                noted.setdefault(note, {})[row.aspect] = None
        for note, names in noted.items():
            yield Note(f"{', '.join(names)}: {note}")


def _rater_table(rows: Sequence[RaterRow]) -> Table:
    """Return agreement among people beside that with the judge: alpha, and Spearman's rho."""
    lines = []
    for row in rows:
        own = row.agreement
        pairs = (own.between_raters, own.judge_rater, own.ceiling, own.judge_others)
        rhos = (None if pair is None else pair.spearman for pair in pairs)
        lines.append((row.aspect, row.human, own.raters, own.items, own.alpha["ordinal"], *rhos))
    notes = []
    for human, own in {row.human: row.agreement for row in rows}.items():
        if own.raters < 2:
            notes.append(
                f"{human}: only one rater, so there is no agreement among raters; 'annotators'"
                " needs 2 raters of the same texts, better 3"
            )
        elif own.alpha["ordinal"] is None:
            notes.append(
                f"{human}: alpha is undefined, because no text has two ratings or all ratings are"
                " equal"
            )
    title = "agreement among raters"
    return Table(_RATERS, lines, tuple(map(Note, notes)), title=title)


def _with_ends(agreement: Agreement, name: Coefficient) -> Interval:
    span = None if agreement.ci is None else agreement.ci.get(name)
    return Interval(getattr(agreement, name), *(span or ()))


def _groups(agreement: Agreement) -> str | None:
    if agreement.level == "system":
        return f"{agreement.systems} systems"
    if agreement.groups is None:
        return None
    skipped = f" (-{agreement.groups_skipped})" if agreement.groups_skipped else ""
    return f"{agreement.groups}{skipped}"


def agreement_table(
    scores: Recorded | HasScores | str | Path,
    examples: Any,
    *,
    levels: Sequence[Level] = ("dataset",),
    aspect_map: Iterable[str] | Mapping[str, str] = (),
    bootstrap: int = 1000,
    seed: int = 0,
    raters: bool = False,
    labels: Mapping[str, LabelScale] | None = None,
    threshold: float | Literal["auto"] | None = None,
) -> AgreementTable:
    """Measure how recorded scores agree with people.

    Args:
        scores: A run, the path of a run folder or of a file of scores, or values by aspect and id
            as from `read_scores`.
        examples: The data with human ratings: a path, a table (pandas, polars, datasets), or
            examples or dicts; texts are not kept.
        levels: Levels to report, each of `dataset`, `group`, `system`.
        aspect_map: Which human aspect a score is compared with: a mapping, or texts `SCORE=HUMAN`.
            A score may be named more than once. Scores that are not named pair with the human
            aspect of the same name.
        bootstrap: Number of resamples behind the intervals; 0 for none.
        seed: Seed of the resamples.
        raters: Whether to measure how well raters agree with each other and the score with each of
            them, from the single ratings in `annotators`.
        labels: What the numbers of scores mean that are labels, by name of the score; by default
            the labels of the run's aspects. Scores and ratings that are all 0 or 1 are no and yes.
        threshold: Scores of at least this are yes, where people said yes or no; `auto` chooses it
            on one half of the sources and measures it on the other, see `agreement_at`.

    Raises:
        UnknownName: There is no such level, score or human aspect.
        ConfigurationError: Nothing pairs, a level needs groups or systems and the data have none,
            or a file of scores mixes several judges.
        DataError: No id occurs in both, an example lacks the group or system that a level needs, or
            there are too few sources to choose a threshold.
    """
    for level in levels:
        if level not in LEVELS:
            raise UnknownName("level", str(level), LEVELS)
    if labels is None:
        labels = read_labels(scores) if isinstance(scores, str | Path) else {}
    source = scores
    scores, opened, labels = read_with_labels(
        lambda reader: recorded(source, reader),
        # an example without a text still has an id and ratings, and nothing else is looked at here
        lambda reader: (
            examples
            if isinstance(examples, Examples)
            else Examples(examples, needs_output=False, labels=reader)
        ),
        labels,
        aspect_map,
    )
    people = _People(opened)
    # checked before pairing: files of other data usually share names of aspects but no id
    known_ids, scored_ids = (
        set(people.ids),
        {id_ for name, values in scores.items() if not _is_of_criteria(name) for id_ in values},
    )
    if not scored_ids & known_ids:
        raise DataError(
            f"no id occurs in both scores and data: the scores have {_some(scored_ids)}, the data"
            f" {_some(people.ids)}; give the data that were scored"
        )
    pairs = pair_names(scores, people.aspects, aspect_map)
    # before any coefficient is computed, so that a missing field names the example and not a row
    # number
    people.check(levels)
    rows, of_labels = list[TableRow](), list[LabelRow]()
    unordered = set[tuple[str, str]]()
    for aspect, human in pairs:
        judged = [scores[aspect].get(id_) for id_ in people.ids]
        known = labels.get(aspect)
        scale = known or people.words(human)
        given = people.labels(human, scale)
        common: dict[str, Any] = {
            "labels": scale.names, "groups": people.groups_of(human),
            "bootstrap": bootstrap, "seed": seed,
        }  # fmt: skip
        uncut = len(scale.names) == 2 and not are_labels(judged, scale)
        if given is not None and threshold is not None and uncut:
            at = None if threshold == "auto" else threshold
            cut = agreement_at(judged, given, threshold=at, **common)
            of_labels.append(LabelRow(aspect, human, *cut))
        elif given is not None and (known is not None or are_labels(judged, YES_NO)):
            votes = [nearest_label(value) for value in judged]
            found = label_agreement(votes, given, ordered=scale.ordered, **common)
            tied = people.rated(human).count(True) - sum(one is not None for one in given)
            between = sum(
                value is not None and vote is None
                for value, vote in zip(judged, votes, strict=True)
            )
            of_labels.append(LabelRow(aspect, human, found, tied=tied, between=between))
        if scale.is_nominal:
            unordered.add((aspect, human))
            continue  # their numbers have no order that could correlate
        rows += [
            TableRow(
                aspect=aspect,
                human=human,
                agreement=correlate(
                    judged,
                    people.ratings(human),
                    groups=people.groups_of(human),
                    systems=people.systems,
                    level=level,
                    bootstrap=bootstrap,
                    seed=seed,
                ),
            )
            for level in levels
        ]
    if threshold is not None and all(row.threshold is None for row in of_labels):
        raise ConfigurationError(
            "a threshold cuts scores where people said yes or no, and no score here is one that is"
            f" held against yes and no: {', '.join(f'{a} with {h}' for a, h in pairs)}; leave out"
            f" threshold="
        )
    return AgreementTable(
        rows=tuple(rows),
        unknown_ids=len(scored_ids - known_ids),
        raters=_rater_rows(scores, people, pairs, unordered) if raters else None,
        labels=tuple(of_labels),
        sets=tuple(_set_rows(scores, people, pairs, labels, bootstrap=bootstrap, seed=seed)),
    )


def between_raters(
    examples: Any,
    *,
    labels: Mapping[str, LabelScale] | None = None,
    fields: Mapping[str, str] | None = None,
    missing: Iterable[str] = (),
) -> tuple[dict[str, RaterAgreement], Table]:
    """Return how well raters agree by human aspect, and the same as a table.

    Args:
        examples: The data with single ratings, as for `agreement_table`.
        labels: Labels of aspects by name; other words are categories without an order.
        fields: From names in the rows to ours.
        missing: Marks of missing values.

    Raises:
        DataError: There are no single ratings.
    """
    labels = labels or {}
    reader = LabelReader(labels, any_word=True)
    opened = Examples(examples, fields=fields, needs_output=False, labels=reader, missing=missing)
    people = _People(opened)
    names = dict.fromkeys(name for one in people.annotators for name in one)
    if not names:
        raise _no_single_ratings()
    found = {
        name: rater_agreement(
            [one.get(name, ()) for one in people.annotators], is_nominal=name in reader.voted
        )
        for name in names
    }
    return found, among_raters(found, {name for name in names if name in reader.voted})


def _no_single_ratings() -> DataError:
    return DataError(
        "the data contain no single ratings; give each rater's in the field 'annotators', "
        'as {"coherence": [3, 2, 3]}'
    )


def _set_rows(
    scores: Recorded,
    people: _People,
    pairs: Sequence[tuple[str, str]],
    labels: Mapping[str, LabelScale],
    **options: int,
) -> Iterator[SetRow]:
    """Yield the agreement of sets whose labels all pair with labels of one human aspect."""
    targets: dict[str, list[str]] = {}
    for score, human in pairs:
        targets.setdefault(score, []).append(human)
    for name, scale in labels.items():
        ours = [member_name(name, label) for label in scale.names] if scale.multiple else []
        parents = [human.rpartition("/")[0] for human in targets.get(ours[0], ())] if ours else []
        for parent in parents:
            theirs = [f"{parent}/{slug(label)}" for label in scale.names]
            paired = zip(ours, theirs, strict=True)
            if not all(human in targets.get(score, ()) for score, human in paired):
                continue
            judged = [[nearest_label(scores[one].get(id_)) for one in ours] for id_ in people.ids]
            columns = [people.labels(human, YES_NO) for human in theirs]
            if any(column is None for column in columns):
                continue
            given = [list(row) for row in zip(*filter(None, columns), strict=True)]
            found = set_agreement(
                np.array(judged, float), np.array(given, float), labels=scale.names,
                groups=people.groups, **options,
            )  # fmt: skip
            unrated = people.rated(theirs[0]).count(False)
            yield SetRow(name, parent, found, unrated)


def _is_of_criteria(name: str) -> bool:
    return name == CRITERIA or name.startswith(f"{CRITERIA}: ")


def _rater_rows(
    scores: Recorded,
    people: _People,
    pairs: list[tuple[str, str]],
    unordered: Collection[tuple[str, str]],
) -> tuple[RaterRow, ...]:
    rated = {human for _, human in pairs if any(human in one for one in people.annotators)}
    if not rated:
        raise _no_single_ratings()
    return tuple(
        RaterRow(
            aspect,
            human,
            rater_agreement(
                [one.get(human, ()) for one in people.annotators],
                judge=[scores[aspect].get(id_) for id_ in people.ids],
                is_nominal=(aspect, human) in unordered,
            ),
        )
        for aspect, human in pairs
        if human in rated
    )


class _People:
    """Ids, groups, systems and ratings of the examples and of their criteria, as columns."""

    def __init__(self, examples: Examples) -> None:
        self._reader = examples.labels
        self.ids: list[str] = []
        self._human: list[dict[str, float | None]] = []
        self.annotators: list[dict[str, tuple[float | None, ...]]] = []
        groups: list[str | None] = []
        systems: list[str | None] = []
        for example in examples:
            self.ids.append(example.id)
            self._human.append(example.human)
            self.annotators.append(example.annotators)
            groups.append(example.group)
            systems.append(example.system)
            for criterion in example.rubric:
                if (
                    criterion.human is not None
                    and (said := nearest_label(criterion.human)) is not None
                ):
                    self.ids.append(criterion_id(example.id, criterion.id))
                    self._human.append(dict.fromkeys(criterion_names(criterion.tags), said))
                    self.annotators.append({})
                    groups.append(example.group)
                    systems.append(example.system)
        self.groups = groups if any(group is not None for group in groups) else None
        self.systems = systems if any(system is not None for system in systems) else None
        self.aspects = tuple(dict.fromkeys(name for human in self._human for name in human))

    def groups_of(self, aspect: str) -> Sequence[str | None] | None:
        """Return the source of each row; criteria of one example are of one source."""
        if not _is_of_criteria(aspect):
            return self.groups
        return [
            id_.rpartition("#criterion-")[0] if group is None else group
            for id_, group in zip(self.ids, self.groups or [None] * len(self.ids), strict=True)
        ]

    def ratings(self, aspect: str) -> list[float | None]:
        return [human.get(aspect) for human in self._human]

    def labels(self, aspect: str, labels: LabelScale) -> list[float | None] | None:
        """Return the label that people gave each text; `None` if some are no labels."""
        single = [one.get(aspect, ()) for one in self.annotators]
        return labels_given(single, self.ratings(aspect), labels)

    def rated(self, aspect: str) -> list[bool]:
        """Return whether anybody rated each text."""
        return [
            any(one is not None for one in (human.get(aspect), *single.get(aspect, ())))
            for human, single in zip(self._human, self.annotators, strict=True)
        ]

    def words(self, aspect: str) -> LabelScale:
        """Return the words for no and yes that people used."""
        return LabelScale(self._reader.pair("human", aspect) or YES_NO.names)

    def check(self, levels: Sequence[Level]) -> None:
        """Raise if an example with ratings lacks what a level needs."""
        for level, labels in (("group", self.groups), ("system", self.systems)):
            if level not in levels:
                continue
            if labels is None:
                raise ConfigurationError(
                    f"level {level!r} needs the field {level!r} in the data, and no example has it"
                )
            for id_, label, human in zip(self.ids, labels, self._human, strict=True):
                if label is None and human:
                    raise DataError(
                        f"level {level!r} needs the field {level!r} in the data; example {id_!r}"
                        " has none"
                    )


def _some(ids: Iterable[str]) -> str:
    shown = sorted(ids)[:3]
    return ", ".join(map(repr, shown)) + ", ..." if shown else "none"
