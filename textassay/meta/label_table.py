"""Agreement of labels as rows and tables: of one label, of sets, and of scores cut at a threshold.

Knows the names of scores and human aspects; nothing of examples or files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textassay.meta.label_measures import LabelAgreement, Measure, Threshold
from textassay.meta.label_sets import SetAgreement
from textassay.meta.raters import RaterAgreement
from textassay.table import Cell, Column, Interval, Note, Table

_LABELS = (
    Column("score", "score"), Column("human", "human"), Column("measure", "measure"),
    Column("n", "n", "count"), Column("coverage", "coverage", "number"),
    Column("groups", "groups", "count"), Column("value", "value", "interval"),
    Column("constant", "best constant", "number"),
)  # fmt: skip
_MEASURES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "tpr": "TPR (recall of {1})",
    "tnr": "TNR (recall of {0})", "precision": "precision of {1}", "f1": "F1 of {1}",
    "macro_f1": "mean F1", "mcc": "MCC", "kappa": "Cohen's kappa",
    "kappa_linear": "kappa, linear weights", "kappa_quadratic": "kappa, quadratic weights",
    "ac1": "Gwet's AC1", "alpha_nominal": "alpha (nominal)", "alpha_ordinal": "alpha (ordinal)",
}  # fmt: skip
_SETS = {
    "exact": "equal sets", "jaccard": "Jaccard index", "macro_f1": "mean F1 of the labels",
    "micro_f1": "F1 of all labels", "macro_kappa": "mean Cohen's kappa of the labels",
    "alpha_masi": "alpha (MASI)",
}  # fmt: skip
_RATERS = (
    Column("score", "score"), Column("human", "human"), Column("raters", "raters", "count"),
    Column("items", "items", "count"), Column("alpha", "alpha (nominal)", "number"),
    Column("ordinal", "alpha (ordinal)", "number"),
    Column("between_raters", "rater-rater, same", "number"),
    Column("judge_rater", "judge-rater, same", "number"),
)  # fmt: skip
_AMONG_RATERS = (
    Column("human", "human"), Column("raters", "raters", "count"),
    Column("items", "items", "count"), Column("nominal", "alpha (nominal)", "number"),
    Column("ordinal", "alpha (ordinal)", "number"),
    Column("interval", "alpha (interval)", "number"), Column("same", "same", "number"),
    Column("distance", "distance", "number"), Column("spearman", "rho", "number"),
)  # fmt: skip
_CONSTANT = "best constant: what a judge that always gives the same {} reaches"


@dataclass(frozen=True, slots=True)
class LabelRow:
    """Agreement of one score with one human aspect, where both are labels.

    Attributes:
        aspect: Name of the score.
        human: Name of the human aspect.
        agreement: What was found, over all rows, or over those that confirm a chosen threshold.
        threshold: Where a score was cut to be a label; `None` if it is one.
        tied: Texts left out because their raters gave two labels equally often.
        between: Texts left out because their score is halfway between two labels.
    """

    aspect: str
    human: str
    agreement: LabelAgreement
    threshold: Threshold | None = None
    tied: int = 0
    between: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON values; what is undefined is `None`."""
        cut = {} if self.threshold is None else {"threshold": self.threshold.as_dict()}
        left_out = {"tied": self.tied, "between": self.between}
        own = self.agreement.as_dict()
        return {"aspect": self.aspect, "human": self.human, **own, **left_out, **cut}

    def flat(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the measures by name, with the labels and the matrix, and the intervals."""
        own = self.agreement
        values: dict[str, Any] = {name: one.value for name, one in own.measures.items()}
        ends = {
            name: None if one.ci is None else list(one.ci) for name, one in own.measures.items()
        }
        about: dict[str, Any] = {"labels": list(own.labels)}
        if len(own.labels) == 2:
            about["positive"] = own.labels[1]
        return {**values, **about, "confusion": [list(row) for row in own.confusion]}, ends


@dataclass(frozen=True, slots=True)
class SetRow:
    """Agreement of sets of labels, of which several may apply to a text.

    Attributes:
        aspect: Name of the judge's aspect.
        human: Name of the human aspect.
        agreement: What was found.
        unrated: Texts without a set from people.
    """

    aspect: str
    human: str
    agreement: SetAgreement
    unrated: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON values; what is undefined is `None`."""
        own = self.agreement.as_dict()
        return {"aspect": self.aspect, "human": self.human, **own, "unrated": self.unrated}


def label_tables(row: LabelRow, by: str = "the judge") -> list[Table]:
    """Return the measures of a pairing of labels, and its confusion matrix.

    Args:
        row: The pairing.
        by: Who judged.
    """
    own = row.agreement
    names = {name: measure_name(name, own.labels) for name in own.measures}
    texts = [_CONSTANT.format("label")]
    if row.threshold is not None:
        texts.append(_threshold_note(row, row.threshold))
    if own.note is not None:
        texts.append(f"{row.aspect}: {own.note}")
    if row.tied:
        texts.append(f"{row.human}: {row.tied} texts are left out, since their raters' labels tie")
    if row.between:
        texts.append(
            f"{row.aspect}: {row.between} scores are left out, since they lie halfway between two"
            " labels"
        )
    lines = list(_lines(row.aspect, row.human, own, names))
    measures = Table(_LABELS, lines, tuple(map(Note, texts)), "agreement of labels")
    columns = [
        Column(f"judge_{at}", f"judge: {name}", "count") for at, name in enumerate(own.labels)
    ]
    counts: list[tuple[Cell, ...]] = [
        (f"people: {name}", *counted)
        for name, counted in zip(own.labels, own.confusion, strict=True)
    ]
    title = f"labels of {row.human} by people, and of {row.aspect} by {by}"
    return [measures, Table((Column("people", ""), *columns), counts, title=title)]


def measure_name(measure: str, labels: Sequence[str]) -> str:
    """Return what a measure of labels is called in tables."""
    return _MEASURES[measure].format(*labels)


def _threshold_note(row: LabelRow, cut: Threshold) -> str:
    yes, _ = row.agreement.labels[1], row.agreement.labels[0]
    rule = f"{row.aspect}: {yes} is a score of at {'least' if cut.yes == 'above' else 'most'}"
    if not cut.chosen_on:
        return f"{rule} {cut.value:g}, as given"
    return (
        f"{rule} {cut.value:g}, chosen on {cut.chosen_on} sources (balanced accuracy there"
        f" {cut.found:.3f}, which is too high); the figures are of the other sources"
    )


def set_tables(row: SetRow) -> list[Table]:
    """Return the measures of a pairing of sets."""
    own = row.agreement
    texts = [_CONSTANT.format("set")] + ([f"{row.aspect}: {own.note}"] if own.note else [])
    if row.unrated:
        texts.append(
            f"{row.human}: {row.unrated} texts are not rated and left out; [] says that no label"
            " applies"
        )
    lines = list(_lines(row.aspect, row.human, own, _SETS))
    return [Table(_LABELS, lines, tuple(map(Note, texts)), "agreement of sets of labels")]


def _lines(
    aspect: str, human: str, own: LabelAgreement | SetAgreement, names: Mapping[str, str]
) -> Iterator[tuple[Cell, ...]]:
    measures: Mapping[str, Measure] = own.measures
    for name, one in measures.items():
        value = Interval(one.value, *(one.ci or ()))
        yield aspect, human, names[name], own.n, own.coverage, own.groups, value, one.constant


def rater_table(rows: Sequence[tuple[str, str, RaterAgreement, bool]]) -> Table:
    """Return agreement among the people who gave labels, and of the judge with each of them.

    Args:
        rows: Score, human aspect, what was found, and whether the labels are ordered.
    """
    lines = [
        (score, human, own.raters, own.items, own.alpha["nominal"],
         own.alpha["ordinal"] if ordered else None,
         None if own.between_raters is None else own.between_raters.same,
         None if own.judge_rater is None else own.judge_rater.same)
        for score, human, own, ordered in rows
    ]  # fmt: skip
    note = Note("same: share of the texts that both labeled on which the labels are the same")
    return Table(_RATERS, lines, (note,), title="agreement among raters on labels")


def among_raters(found: Mapping[str, RaterAgreement], unordered: Collection[str]) -> Table:
    """Return agreement among raters without a judge, a row for each human aspect.

    Args:
        found: By human aspect.
        unordered: Aspects whose labels have no order: these have a nominal alpha alone.
    """
    rows = []
    for name, own in found.items():
        pair, has_order = own.between_raters, name not in unordered
        rows.append(
            (name, own.raters, own.items, own.alpha["nominal"],
             own.alpha["ordinal"] if has_order else None,
             own.alpha["interval"] if has_order else None,
             None if pair is None else pair.same,
             None if pair is None or not has_order else pair.mean_difference,
             None if pair is None or not has_order else pair.spearman)
        )  # fmt: skip
    note = Note("same, distance and rho: of each two raters, on the texts that both rated")
    return Table(_AMONG_RATERS, rows, (note,), title="agreement among raters")


def flat_rows(rows: Iterable[dict[str, Any]], labels: Iterable[LabelRow]) -> list[dict[str, Any]]:
    """Return the rows of correlations with the measures of labels in those at data set level.

    A pairing of labels without correlations has a row of its own.
    """
    complete = list(rows)
    at = {(row["aspect"], row["human"]): row for row in complete if row["level"] == "dataset"}
    for label in labels:
        values, ends = label.flat()
        row = at.get((label.aspect, label.human))
        if row is None:
            own = label.agreement
            row = {
                "aspect": label.aspect, "human": label.human, "level": "dataset", "n": own.n,
                "groups": own.groups, "groups_skipped": 0, "coverage": own.coverage,
                "pearson": None, "spearman": None, "kendall": None, "ci": None, "systems": None,
                "note": own.note,
            }  # fmt: skip
            complete.append(row)
        row |= values
        if any(ends.values()):
            row["ci"] = {**(row["ci"] or {}), **ends}
    return complete
