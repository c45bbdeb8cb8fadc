"""Tables of agreement: recorded scores joined with people's ratings, a row per pairing and level.

Numbers are compared by correlations; labels, sets of labels and scores that are cut at a threshold
by the measures of labels. Knows scores by id and examples; nothing of runs, methods or models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from textassay.agreement.choice import Alternatives, ChoiceAgreement, alternatives, choice_agreement
from textassay.agreement.correlation import LEVELS, Level
from textassay.agreement.joined import (
    People,
    join,
    join_notes,
    outside_subsets,
    read_with_labels,
    subset_names,
)
from textassay.agreement.labels import (
    LabelAgreement,
    SetAgreement,
    Threshold,
    agreement_at,
    label_agreement,
    set_agreement,
    with_auc,
)
from textassay.agreement.raters import MEASUREMENTS, PairAgreement, RaterAgreement, rater_agreement
from textassay.agreement.records import (
    HasScores,
    Recorded,
    RecordedScores,
    judged_data,
    read_judge,
    read_labels,
    texts_of,
)
from textassay.agreement.samples import (
    DRAWS,
    SampleAgreement,
    choices_by_samples,
    correlations_by_samples,
    draw_scores,
)
from textassay.agreement.significance import Agreement, correlate
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import (
    YES_NO,
    LabelScale,
    are_labels,
    member_name,
    nearest_label,
    slug,
)
from textassay.runtime.rubric import is_of_criteria
from textassay.table import (
    Cell,
    Column,
    Displayed,
    Estimate,
    Note,
    ResultRow,
    Table,
    column,
    part,
    stack_subsets,
    table_of,
)

_MEASURES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "tpr": "TPR (recall of {1})",
    "tnr": "TNR (recall of {0})", "precision": "precision of {1}", "f1": "F1 of {1}",
    "macro_f1": "mean F1", "mcc": "MCC", "kappa": "Cohen's kappa",
    "kappa_linear": "kappa, linear weights", "kappa_quadratic": "kappa, quadratic weights",
    "ac1": "Gwet's AC1", "alpha_nominal": "alpha (nominal)", "alpha_ordinal": "alpha (ordinal)",
    "auc": "AUC",
}  # fmt: skip
_SETS = {
    "exact": "equal sets", "jaccard": "Jaccard index", "macro_f1": "mean F1 of the labels",
    "micro_f1": "F1 of all labels", "macro_kappa": "mean Cohen's kappa of the labels",
    "alpha_masi": "alpha (MASI)",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Paired(ResultRow):
    """A score and the human aspect that it is compared with."""

    aspect: str = field(metadata=column("score", name="score"))
    """Name of the score."""
    human: str = field(metadata=column("human"))
    """Name of the human aspect."""


@dataclass(frozen=True, slots=True)
class TableRow(_Paired):
    """Agreement of one score with one human aspect at one level."""

    agreement: Agreement = field(metadata=part(Agreement))


@dataclass(frozen=True, slots=True)
class RaterRow(_Paired):
    """Agreement among raters, and of one score with them, over the rows that have a score."""

    agreement: RaterAgreement = field(metadata=part(RaterAgreement))


@dataclass(frozen=True, slots=True)
class ChoiceRow(_Paired):
    """How often a score puts people's best text first."""

    agreement: ChoiceAgreement = field(metadata=part(ChoiceAgreement))


@dataclass(frozen=True, slots=True)
class SampleRow(_Paired):
    """One measure of agreement of a score at one number of samples per text."""

    agreement: SampleAgreement = field(metadata=part(SampleAgreement))


@dataclass(frozen=True, slots=True)
class LabelRow(_Paired):
    """Agreement of labels, over all rows, or over the rows that confirm a chosen threshold."""

    agreement: LabelAgreement = field(metadata=part(LabelAgreement))
    tied: int = 0
    """Texts left out because their raters gave two labels equally often."""
    between: int = 0
    """Texts left out because their score is halfway between two labels."""
    threshold: Threshold | None = None
    """Threshold at which a score was cut into labels; `None` for labels."""

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON values, without the threshold of labels."""
        content = _Paired.as_dict(self)
        return content if self.threshold else {k: v for k, v in content.items() if k != "threshold"}

    def flat(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the measures by name, with the labels and the matrix, and the intervals."""
        result = self.agreement
        values: dict[str, Any] = {name: measure.value for name, measure in result.measures.items()}
        ends = {name: list(unit.estimate.ends) or None for name, unit in result.measures.items()}
        values["labels"] = list(result.labels)
        if len(result.labels) == 2:
            values["positive"] = result.labels[1]
        return {**values, "confusion": [list(row) for row in result.confusion]}, ends


@dataclass(frozen=True, slots=True)
class SetRow(_Paired):
    """Agreement of sets of labels, where several labels may apply to a text."""

    agreement: SetAgreement = field(metadata=part(SetAgreement))
    unrated: int = 0
    """Texts without a set by people."""


@dataclass(frozen=True, slots=True)
class _MeasureLine(_Paired):
    """One measure of labels, or of sets of labels."""

    measure: str = field(metadata=column("measure"))
    n: int = field(metadata=column("n", "count"))
    coverage: float | None = field(metadata=column("coverage", "number"))
    groups: int | None = field(metadata=column("groups", "count"))
    value: Estimate = field(metadata=column("value", "interval"))
    constant: float | None = field(metadata=column("best constant", "number"))


@dataclass(frozen=True, slots=True)
class AgreementTable(Displayed):
    """Agreement of all scores that pair with a human aspect."""

    rows: tuple[TableRow, ...]
    """The rows, sorted by score, then by level."""
    unknown_ids: int
    """Number of scored ids without an example."""
    raters: tuple[RaterRow, ...] = ()
    """Agreement among raters, one row per pairing, if it was requested."""
    labels: tuple[LabelRow, ...] = ()
    """Agreement of labels, one row per pairing of labels."""
    sets: tuple[SetRow, ...] = ()
    """Agreement of sets of labels, one row per pairing of sets."""
    other_texts: tuple[str, ...] = ()
    """Ids of examples that were left out because another text was judged under that id."""
    without_text: int = 0
    """Rated examples without a text, which belong to the score with their id."""
    other_sources: int = 0
    """Rated examples whose text was judged with another source; their ratings are used."""
    choices: tuple[ChoiceRow, ...] = ()
    """How often a score puts people's best text first, one row per pairing: in pairs of texts, and
    in groups if their level was requested."""
    samples: tuple[SampleRow, ...] = ()
    """The same measures at several numbers of samples per text, if requested."""
    by: str = ""
    """The field that divides the data into subsets; empty without subsets."""
    subsets: Mapping[str, AgreementTable] = field(default_factory=dict)
    """The table of the rows with each value of that field."""
    outside: tuple[Note, ...] = ()
    """Notes on rows that are in no subset."""

    def as_dict(self) -> dict[str, Any]:
        """Return `{"rows": [...]}` as JSON values.

        `labels`, `sets`, `choices`, `samples`, `raters` and `subsets` are added if there are any,
        and `other_texts`, the number of rows that were left out, and `other_sources`; rows of
        labels also have their measures.
        """
        content: dict[str, Any] = {
            "rows": _flat_rows([r.as_dict() for r in self.rows], self.labels)
        }
        if self.other_texts:
            content["other_texts"] = len(self.other_texts)
        if self.other_sources:
            content["other_sources"] = self.other_sources
        parts = {
            "labels": self.labels, "sets": self.sets, "choices": self.choices,
            "samples": self.samples, "raters": self.raters,
        }  # fmt: skip
        content |= {name: [row.as_dict() for row in part] for name, part in parts.items() if part}
        if self.subsets:
            content["by"] = self.by
            content["subsets"] = {name: table.as_dict() for name, table in self.subsets.items()}
        return content

    def tables(self) -> list[Table]:
        """Return the tables: agreement with people, labels, raters if requested, and subsets."""
        return [*self._tables(), *self._tables_of_subsets()]

    def _tables_of_subsets(self) -> list[Table]:
        """Return each table with the rows of all subsets; confusion matrices are only in JSON."""
        rows = (*self.rows, *self.labels, *self.choices, *self.sets)
        names = {name for row in rows for name in (row.aspect, row.human)}
        parts = {name: table._tables() for name, table in self.subsets.items()}
        return stack_subsets(self.by, parts, after="human", names=names)

    def _tables(self) -> list[Table]:
        tables, notes = list[Table](), list(self._notes())
        if self.rows or notes:
            tables.append(table_of(TableRow, self.rows, notes, "agreement with people"))
        tables += [_choice_table(self.choices)] if self.choices else []
        tables += [_sample_table(self.samples)] if self.samples else []
        tables += [table for row in self.labels for table in label_tables(row)]
        tables += [_set_table(row) for row in self.sets]
        labels = {(row.aspect, row.human) for row in self.labels if row.threshold is None}
        for draw, is_of_labels in ((_rater_table, False), (_label_rater_table, True)):
            rows = [r for r in self.raters if ((r.aspect, r.human) in labels) == is_of_labels]
            tables += [draw(rows)] if rows else []
        return tables

    def _notes(self) -> Iterator[Note]:
        """Yield the rows left out, the meaning of `2 (-1)` groups, and missing intervals."""
        yield from join_notes(
            self.other_texts, self.without_text, self.unknown_ids, self.other_sources
        )
        yield from self.outside
        skipped = [row.agreement for row in self.rows if row.agreement.groups_skipped]
        if skipped:
            first = skipped[0]
            yield Note(
                f"{first.groups_in_words}: groups averaged: {first.groups}; left out, because all"
                f" scores or all ratings in them are equal: {first.groups_skipped}"
            )
        noted: dict[str, dict[str, None]] = {}
        for row in self.rows:
            if row.agreement.note:
                note = f"{row.agreement.level} level, {row.agreement.note}"
                noted.setdefault(note, {})[row.aspect] = None
        for note, names in noted.items():
            yield Note(f"{', '.join(names)}: {note}")


def _rater_columns(*names: str, **figures: str) -> tuple[Column, ...]:
    """Return columns of names, of the numbers of raters and items, and of figures by heading."""
    return (
        *(Column(name, name) for name in names),
        *(Column(name, name, "count") for name in ("raters", "items")),
        *(Column(name, heading, "number") for name, heading in figures.items()),
    )


def _rater_table(rows: Sequence[RaterRow]) -> Table:
    """Return agreement among people beside agreement with the judge: alpha, and Spearman's rho."""
    lines, notes = list[Sequence[Cell]](), dict[str, Note]()
    for row in rows:
        agreement = row.agreement
        who = row.aspect, row.human, agreement.raters, agreement.items
        lines.append((*who, agreement.alpha["ordinal"], *agreement.rank_correlations))
        if agreement.raters < 2:
            why = "only one rater, so there is no agreement among raters; 'annotators' needs 2"
            notes[row.human] = Note(f"{row.human}: {why} raters of the same texts, better 3")
        elif agreement.alpha["ordinal"] is None:
            why = "alpha is undefined, because no text has two ratings or all ratings are equal"
            notes[row.human] = Note(f"{row.human}: {why}")
    columns = _rater_columns(
        "score", "human", alpha="alpha (ordinal)", between_raters="rater-rater",
        judge_rater="judge-rater", ceiling="rater-others", judge_others="judge-others",
    )  # fmt: skip
    return Table(columns, lines, tuple(notes.values()), "agreement among raters")


def _choice_table(rows: Sequence[ChoiceRow]) -> Table:
    """Return how often scores put people's best text first."""
    notes = [
        Note(
            "choice: share of people's best among the texts of a group that the score puts first,"
            " so that a tie of two counts half; strict: a tie with a worse text counts as 0;"
            " tied: share of the groups with such or other ties at the top"
        ),
        Note("best constant: a score that is the same for all texts, or one side of all pairs"),
    ]
    for row in rows:
        agreement = row.agreement
        reasons = {
            f"{row.aspect}: {agreement.unscored}":
                (agreement.unscored, "a text in them has no score"),
            f"{row.human}: {agreement.undecided}":
                (agreement.undecided, "people find all texts in them equally good"),
        }  # fmt: skip
        notes += [
            Note(f"{groups} groups are left out of choices, because {why}")
            for groups, (count, why) in reasons.items()
            if count
        ]
        notes += [Note(f"{row.aspect}: {agreement.note}")] if agreement.note else []
    return table_of(ChoiceRow, rows, notes, "choices within groups")


def _sample_table(rows: Sequence[SampleRow]) -> Table:
    """Return measures of agreement by number of samples."""
    note = Note(
        f"samples: mean of {DRAWS} draws of this number of each text's recorded ratings; gain: over"
        f" {min(row.agreement.samples for row in rows)} of them"
    )
    return table_of(SampleRow, rows, (note,), "agreement by number of samples")


def label_tables(row: LabelRow, by: str = "the judge") -> list[Table]:
    """Return the measures of a pairing of labels, and its confusion matrix."""
    agreement = row.agreement
    names = {name: measure_name(name, agreement.labels) for name in agreement.measures}
    texts = [_best_constant("label")]
    if row.threshold:
        texts.append(_threshold_note(row, row.threshold))
    if agreement.note:
        texts.append(f"{row.aspect}: {agreement.note}")
    if row.tied:
        texts.append(f"{row.human}: {row.tied} texts are left out, since their raters' labels tie")
    if row.between:
        texts.append(
            f"{row.aspect}: {row.between} scores are left out, since they lie halfway between two"
            f" labels{' (AUC has them)' if 'auc' in agreement.measures else ''}"
        )
    lines = _measure_lines(row, names)
    measures = table_of(_MeasureLine, lines, map(Note, texts), "agreement of labels")
    columns = [
        Column(f"judge_{at}", f"judge: {name}", "count") for at, name in enumerate(agreement.labels)
    ]
    counts: list[tuple[Cell, ...]] = [
        (f"people: {name}", *counted)
        for name, counted in zip(agreement.labels, agreement.confusion, strict=True)
    ]
    title = f"labels of {row.human} by people, and of {row.aspect} by {by}"
    return [measures, Table((Column("people", ""), *columns), counts, title=title)]


def _best_constant(of: str) -> str:
    return f"best constant: the best judge that always gives the same {of}"


def measure_name(measure: str, labels: Sequence[str]) -> str:
    """Return the name of a measure of labels in tables."""
    return _MEASURES[measure].format(*labels)


def _threshold_note(row: LabelRow, cut: Threshold) -> str:
    most = "least" if cut.yes == "above" else "most"
    rule = f"{row.aspect}: {row.agreement.labels[1]} is a score of at {most}"
    if not cut.chosen_on:
        return f"{rule} {cut.value:g}, as given{_ties(row, cut)}"
    return (
        f"{rule} {cut.value:g}, chosen on {cut.chosen_on} sources (balanced accuracy there"
        f" {cut.found:.3f}, which is too high); the figures are of the other sources"
    )


def _ties(row: LabelRow, cut: Threshold) -> str:
    """Return how many scores equal the threshold, and how they count."""
    if not cut.equal:
        return ""
    no, yes = row.agreement.labels
    share = cut.equal / row.agreement.n
    scores = f"; {cut.equal} scores ({share:.1%}) equal it"
    if cut.is_shared:
        return f"{scores}, are as near to {no} as to {yes}, and count half as either"
    return f"{scores} and count as {yes}"


def _set_table(row: SetRow) -> Table:
    """Return the measures of a pairing of sets."""
    result = row.agreement
    texts = [_best_constant("set")] + ([f"{row.aspect}: {result.note}"] if result.note else [])
    if row.unrated:
        texts.append(
            f"{row.human}: {row.unrated} texts are not rated and left out; [] says that no label"
            " applies"
        )
    lines, title = _measure_lines(row, _SETS), "agreement of sets of labels"
    return table_of(_MeasureLine, lines, map(Note, texts), title)


def _measure_lines(row: LabelRow | SetRow, names: Mapping[str, str]) -> Iterator[_MeasureLine]:
    agreement, measures = row.agreement, row.agreement.measures
    for name, measure in measures.items():
        yield _MeasureLine(
            row.aspect, row.human, names[name], agreement.n, agreement.coverage, agreement.groups,
            measure.estimate, measure.constant,
        )  # fmt: skip


def _label_rater_table(rows: Sequence[RaterRow]) -> Table:
    """Return agreement among the people who gave labels, and of the judge with each of them."""
    lines = list[Sequence[Cell]]()
    for row in rows:
        result = row.agreement
        same = (None if p is None else p.same for p in (result.between_raters, result.judge_rater))
        alphas = (result.alpha["nominal"], result.alpha["ordinal"])
        lines.append((row.aspect, row.human, result.raters, result.items, *alphas, *same))
    columns = _rater_columns(
        "score", "human", alpha="alpha (nominal)", ordinal="alpha (ordinal)",
        between_raters="rater-rater, same", judge_rater="judge-rater, same",
    )  # fmt: skip
    note = Note("same: share of the texts labeled by both on which the labels are equal")
    return Table(columns, lines, (note,), "agreement among raters on labels")


def _among_raters(by_aspect: Mapping[str, RaterAgreement]) -> Table:
    """Return agreement among raters without a judge, a row for each human aspect."""
    lines = list[Sequence[Cell]]()
    for name, agreement in by_aspect.items():
        pair = agreement.between_raters or PairAgreement(0)
        alphas = (agreement.alpha[level] for level in MEASUREMENTS)
        figures = pair.same, pair.mean_difference, pair.spearman
        lines.append((name, agreement.raters, agreement.items, *alphas, *figures))
    columns = _rater_columns(
        "human", nominal="alpha (nominal)", ordinal="alpha (ordinal)", interval="alpha (interval)",
        same="same", distance="distance", spearman="rho",
    )  # fmt: skip
    note = Note("same, distance and rho: of each pair of raters, on the texts that both rated")
    return Table(columns, lines, (note,), "agreement among raters")


def _flat_rows(rows: list[dict[str, Any]], labels: Iterable[LabelRow]) -> list[dict[str, Any]]:
    """Return the rows of correlations with the measures of labels; labels without one get a row."""
    at = {(row["aspect"], row["human"]): row for row in rows if row["level"] == "dataset"}
    for label in labels:
        values, ends = label.flat()
        row = at.get((label.aspect, label.human))
        if row is None:
            agreement = label.agreement
            undefined = Agreement(
                level="dataset", n=agreement.n, groups=agreement.groups, groups_skipped=0,
                coverage=agreement.coverage, pearson=None, spearman=None, kendall=None,
                note=agreement.note,
            )  # fmt: skip
            row = TableRow(label.aspect, label.human, undefined).as_dict()
            rows.append(row)
        row |= values
        if any(ends.values()):
            row["ci"] = {**(row["ci"] or {}), **ends}
    return rows


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
    by: str | None = None,
    samples: Sequence[int] = (),
) -> AgreementTable:
    """Measure how recorded scores agree with people.

    Args:
        scores: A run, the path of a run folder or of a file of scores, or values by aspect and id
            as from `read_scores`.
        examples: The data with human ratings: a path, a table (pandas, polars, datasets), or
            examples or dicts; texts are not kept.
        levels: Levels to report, each of `dataset`, `group`, `system`.
        aspect_map: Human aspect by score: a mapping, or texts `SCORE=HUMAN`. A score may be named
            more than once. Scores that are not named pair with the human aspect of the same name.
        bootstrap: Number of resamples behind the intervals; 0 for none.
        seed: Seed of the resamples.
        raters: Whether to measure how well raters agree with each other and the score with each of
            them, from the single ratings in `annotators`.
        labels: Labels by name of the score, for scores that are numbers of labels; by default the
            labels of the run's aspects. Scores and ratings that are all 0 or 1 are no and yes.
        threshold: Scores of at least this are yes, for aspects on which people said yes or no;
            `auto` chooses it on one half of the sources and measures it on the other, see
            `agreement_at`.
        by: Field of the data, such as `subset` or `system`, whose values divide the rows: `subsets`
            has the agreement of each part.
        samples: Numbers of samples per text, such as 1, 3 and 8: also measure the agreement of the
            mean of that number of ratings, drawn from a run with at least as many samples.
            Correlations at level `dataset`, choices of pairs and at level `group`.

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
    if by is not None and threshold == "auto":
        raise ConfigurationError(
            f"by={by!r} takes a threshold that is the same in all subsets; give it as a number"
        )
    if not isinstance(aspect_map, Mapping):
        aspect_map = tuple(aspect_map)  # it is read twice
    recorded, opened, labels = read_with_labels(
        lambda reader: read_judge(scores, reader),
        lambda reader: _open(examples, reader),
        read_labels(scores) if labels is None else labels,
        aspect_map,
    )
    everyone = People(opened, criteria=True, by=by, judged=judged_data(scores))
    joined = join(recorded, texts_of(recorded), everyone, aspect_map)
    people = joined.people
    # before any coefficient, so that a missing field names the example and not a row number
    levels = _levels_of_correlations(levels, people)
    people.check_levels(levels)
    if raters and not any(human in s for _, human in joined.pairs for s in people.annotators):
        raise _no_single_ratings()
    measured = _Measured(
        recorded, people, joined.pairs, labels, levels, bootstrap, seed, threshold,
        _check_samples(samples, recorded), raters,
    )  # fmt: skip
    whole = replace(
        measured.table(), unknown_ids=joined.unknown, other_texts=people.other_texts,
        without_text=joined.without_text, other_sources=joined.other_sources,
    )  # fmt: skip
    if threshold is not None and not any(row.threshold for row in whole.labels):
        raise _nothing_to_cut(joined.pairs)
    if by is None:
        return whole
    subsets = {
        name: replace(measured, people=people.only(name)).table() for name in subset_names(people)
    }
    return replace(whole, by=by, subsets=subsets, outside=tuple(outside_subsets(people)))


def _open(examples: Any, reader: LabelReader) -> Examples:
    """Open the data; examples without a text are kept, since they have an id and ratings."""
    if isinstance(examples, Examples):
        return examples
    return Examples(examples, needs_output=False, labels=reader)


def _nothing_to_cut(pairs: Iterable[tuple[str, str]]) -> ConfigurationError:
    compared = ", ".join(f"{score} with {human}" for score, human in pairs)
    return ConfigurationError(
        "a threshold cuts scores where people said yes or no, and no score here is compared with"
        f" yes and no: {compared}; leave out threshold="
    )


def _check_samples(counts: Sequence[int], scores: Recorded) -> Sequence[int]:
    """Return numbers of samples in ascending order; raise if no text has as many."""
    if not counts:
        return ()
    recorded = scores.samples.values() if isinstance(scores, RecordedScores) else ()
    most = max((len(s) for of_aspect in recorded for s in of_aspect.values()), default=0)
    if not most:
        raise ConfigurationError(
            "the scores have no ratings of several samples, which only a run with n=2 or more "
            "records; leave out samples="
        )
    if not 1 <= min(counts) <= max(counts) <= most:
        raise ConfigurationError(
            f"samples= takes numbers from 1 to {most}, the most ratings that a text has, not"
            f" {', '.join(map(str, counts))}"
        )
    return sorted(set(counts))


def _is_mcc(result: Agreement, labels: LabelAgreement) -> bool:
    """Return whether both sides are 0 and 1, so that all correlations equal the MCC."""
    mcc = labels.measures["mcc"].value
    if mcc is None or result.pearson is None or result.level != "dataset":
        return False
    return result.n == labels.n and len(labels.labels) == 2 and math.isclose(mcc, result.pearson)


def _levels_of_correlations(levels: Sequence[Level], people: People) -> Sequence[Level]:
    """Return the levels without `group`, if all rows are pairs of texts without a source.

    Such a pair is a group of two, which has a choice and no correlation.
    """
    if people.has_groups or not people.paired or not all(people.paired):
        return levels
    return [level for level in levels if level != "group"]


@dataclass(frozen=True, slots=True)
class _Measured:
    """Scores beside people's ratings, and the tables made from them."""

    scores: Recorded
    people: People
    pairs: Sequence[tuple[str, str]]
    labels: Mapping[str, LabelScale]
    levels: Sequence[Level]
    bootstrap: int
    seed: int
    threshold: float | Literal["auto"] | None
    samples: Sequence[int]
    raters: bool

    def table(self) -> AgreementTable:
        """Return all tables of these rows."""
        pairings = [_Pairing(self, score, human) for score, human in self.pairs]
        labels = [list(pairing.label_rows()) for pairing in pairings]
        return AgreementTable(
            rows=tuple(
                row
                for pairing, label_rows in zip(pairings, labels, strict=True)
                for row in pairing.rows(label_rows[0].agreement if label_rows else None)
            ),
            unknown_ids=0,
            raters=tuple(row for pairing in pairings for row in pairing.rater_rows()),
            labels=tuple(chain.from_iterable(labels)),
            sets=tuple(self.set_rows()),
            choices=tuple(row for pairing in pairings for row in pairing.choice_rows()),
            samples=tuple(row for pairing in pairings for row in pairing.sample_rows()),
        )

    def row_scores(self, score: str) -> list[float | None]:
        return self.people.align(self.scores[score])

    def set_rows(self) -> Iterator[SetRow]:
        """Yield the agreement of sets whose labels all pair with labels of one human aspect."""
        paired, people = set(self.pairs), self.people
        for name, scale in self.labels.items():
            ours = [member_name(name, label) for label in scale.names] if scale.multiple else []
            first = [human for score, human in self.pairs if ours and score == ours[0]]
            for parent in (human.rpartition("/")[0] for human in first):
                theirs = [f"{parent}/{slug(label)}" for label in scale.names]
                columns = [people.labels(human, YES_NO) for human in theirs]
                if not paired.issuperset(zip(ours, theirs, strict=True)) or None in columns:
                    continue
                judged = [[nearest_label(s) for s in self.row_scores(label)] for label in ours]
                agreement = set_agreement(
                    np.array(judged, float).T, np.array(columns, float).T, labels=scale.names,
                    groups=people.groups_of(theirs[0]), bootstrap=self.bootstrap, seed=self.seed,
                )  # fmt: skip
                yield SetRow(name, parent, agreement, people.has_rating(theirs[0]).count(False))


class _Pairing:
    """One score beside one human aspect."""

    def __init__(self, of: _Measured, score: str, human: str) -> None:
        self.of, self.names, self.people = of, (score, human), of.people
        self.judged, self.rated = of.row_scores(score), of.people.ratings(human)
        self.scale = of.labels.get(score) or of.people.yes_no_words(human)
        self.groups = of.people.groups_of(human)
        self.options: dict[str, Any] = {"groups": self.groups}
        self.options |= {"bootstrap": of.bootstrap, "seed": of.seed}

    def rows(self, labels: LabelAgreement | None) -> Iterator[TableRow]:
        """Yield correlations at each level; labels without an order have none.

        With two labels, all coefficients equal the MCC and have its interval.
        """
        systems = self.people.systems
        authors = systems if any(system is not None for system in systems) else None
        for level in () if self.scale.is_nominal else self.of.levels:
            result = correlate(
                self.judged, self.rated, systems=authors, level=level, **self.options
            )
            if labels is not None and result.ci and _is_mcc(result, labels):
                ends = labels.measures["mcc"].estimate.ends
                ci = {name: Estimate(interval.value, *ends) for name, interval in result.ci.items()}
                result = replace(result, ci=ci, note=labels.note)
            yield TableRow(*self.names, result)

    def label_rows(self) -> Iterator[LabelRow]:
        """Yield the agreement of labels, or of a score that is cut at the threshold, if any."""
        judged, scale, threshold = self.judged, self.scale, self.of.threshold
        score, human = self.names
        human_labels = self.people.labels(human, scale)
        if human_labels is None:
            return
        uncut = len(scale.names) == 2 and not are_labels(judged, scale)
        if threshold is not None and uncut:
            at = None if threshold == "auto" else threshold
            agreement, cut = agreement_at(
                judged, human_labels, threshold=at, labels=scale.names, **self.options
            )
            yield LabelRow(score, human, agreement, threshold=cut)
        elif score in self.of.labels or are_labels(judged, YES_NO):
            votes = [nearest_label(value) for value in judged]
            agreement = label_agreement(
                votes, human_labels, labels=scale.names, ordered=scale.ordered, **self.options
            )
            if uncut:
                agreement = with_auc(agreement, judged, human_labels, **self.options)
            # nearest_label returns no label for a score halfway between two
            between = votes.count(None) - judged.count(None)
            tied = human_labels.count(None) - self.people.has_rating(human).count(False)
            yield LabelRow(score, human, agreement, tied=tied, between=between)

    def choice_rows(self) -> Iterator[ChoiceRow]:
        """Yield how often the score chooses the best text, in pairs and in groups."""
        if is_of_criteria(self.names[1]) or self.scale.is_nominal:
            return
        for unit in self._alternatives():
            agreement = choice_agreement(
                unit.column(self.judged), unit.column(self.rated), unit.groups,
                units=unit.units if unit.sided else None, sided=unit.sided,
            )  # fmt: skip
            if agreement.n or agreement.unscored:
                yield ChoiceRow(*self.names, agreement)

    def _alternatives(self) -> Iterator[Alternatives]:
        return alternatives(self.people.paired, self.groups, by_group="group" in self.of.levels)

    def sample_rows(self) -> Iterator[SampleRow]:
        """Yield correlations and choices at several numbers of samples per text."""
        counts, scores = self.of.samples, self.of.scores
        texts = scores.samples.get(self.names[0]) if isinstance(scores, RecordedScores) else None
        if not counts or not texts or self.scale.is_nominal:
            return
        samples = [texts.get(id_, ()) for id_ in self.people.ids]
        agreements: list[SampleAgreement] = []
        if "dataset" in self.of.levels:
            agreements += correlations_by_samples(samples, self.rated, counts, **self.options)
        scores_by_count = draw_scores(samples, counts, self.of.seed)
        for unit in self._alternatives():
            columns = [[unit.column(scores) for scores in draws] for draws in scores_by_count]
            agreements += choices_by_samples(
                columns, unit.column(self.rated), counts, unit.groups,
                units=unit.units if unit.sided else None,
            )  # fmt: skip
        yield from (SampleRow(*self.names, each) for each in agreements)

    def rater_rows(self) -> Iterator[RaterRow]:
        """Yield agreement among the raters, if requested and if there are single ratings."""
        score, human = self.names
        annotators = self.people.annotators
        if self.of.raters and any(human in single for single in annotators):
            single = [single.get(human, ()) for single in annotators]
            agreement = rater_agreement(single, judge=self.judged, is_nominal=self.scale.is_nominal)
            yield RaterRow(score, human, agreement)


def between_raters(
    examples: Any,
    *,
    labels: Mapping[str, LabelScale] | None = None,
    fields: Mapping[str, str] | None = None,
    missing: Iterable[str] = (),
) -> tuple[dict[str, RaterAgreement], Table]:
    """Return how well raters agree by human aspect, also as a table."""
    labels = labels or {}
    reader = LabelReader(labels, any_word=True)
    opened = Examples(examples, fields=fields, needs_output=False, labels=reader, missing=missing)
    people = People(opened)
    names = dict.fromkeys(name for single in people.annotators for name in single)
    if not names:
        raise _no_single_ratings()
    by_aspect = {
        name: rater_agreement(
            [single.get(name, ()) for single in people.annotators], is_nominal=name in reader.voted
        )
        for name in names
    }
    return by_aspect, _among_raters(by_aspect)


def _no_single_ratings() -> DataError:
    return DataError(
        "the data contain no single ratings; give each rater's in the field 'annotators', "
        'as {"coherence": [3, 2, 3]}'
    )
