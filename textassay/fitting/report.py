"""The result of fitting: the evaluator with its report, as JSON, as tables and as a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from textassay.agreement.correlation import COEFFICIENTS
from textassay.fitting.feature_table import FeatureTable, Split
from textassay.fitting.request import FitRequest
from textassay.methods.fitted.evaluator import Evaluator, is_evaluator, load, save
from textassay.runtime.base import Json
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.errors import ConfigurationError, RunFolderError
from textassay.runtime.messages import Aspect
from textassay.runtime.storage.files import storage_errors, write_json, write_text
from textassay.table import (
    Cell,
    Column,
    Displayed,
    Estimate,
    Note,
    Table,
    more_rows,
    to_text,
    with_noun,
)
from textassay.version import __version__

if TYPE_CHECKING:
    import pandas as pd

_TWO = Column("pearson", "Pearson", "number"), Column("spearman", "Spearman", "number")
_SHOWN = 15
"""Most rows of a list for each aspect or evaluator."""
EVALUATOR, SINGLE = "evaluator", "best single"
"""Names of the evaluator, and of the single feature closest to people."""
REPORT, HELD_OUT = "report.json", "held_out.jsonl"


def provenance(
    table: FeatureTable, parts: Split, info: DataInfo, request: FitRequest, split: Json
) -> Json:
    """Return the origin of an evaluator, for its file and its report."""
    return {
        "data": {
            "path": info.name,
            "digest": info.digest,
            "rows": info.count,
            "unrated": table.unrated,
            "left_out": table.left_out,
            **({"other_texts": table.other_texts} if table.other_texts else {}),
        },
        "split": {
            "by": "row" if request.split == "row" else table.grouped_by,
            "seed": request.seed,
            **split,
            "train": row_and_group_counts(parts.train),
            "held_out": row_and_group_counts(parts.test),
        },
        "textassay": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def fractions(request: FitRequest) -> Json:
    """Return the shares of training and held-out rows, if they were given."""
    shares = {"train_fraction": request.train_fraction, "test_fraction": request.test_fraction}
    shares_given = {name: share for name, share in shares.items() if share is not None}
    return shares_given or {"train_fraction": request.share}


def human_aspect(name: str, scale: tuple[float, float], definition: str | None = None) -> Aspect:
    """Return a human aspect under its own name and on the raters' scale."""
    return Aspect(name=name, definition=definition or f"{name}, as people rate it.", scale=scale)


def row_and_group_counts(table: FeatureTable) -> Json:
    """Return the numbers of rows and groups."""
    return {"rows": len(table.ids), "groups": len(set(table.groups.tolist()))}


def report_text(report: Json) -> str:
    """Return the report as lines of text."""
    return "\n\n".join(map(to_text, report_tables(report))) + "\n"


def report_tables(report: Json) -> list[Table]:
    """Return all parts of the report."""
    tables = [_head(report)]
    if "rubric" in report:
        tables += [_round(part) for part in report["rubric"]]
    if "alignment" in report:
        tables += [_layer(layer) for layer in report["alignment"]]
    tables += [*_held_out_table(report["held_out"]), _importance(report["importance"])]
    if report.get("criteria"):
        tables.append(_criteria(report["criteria"]))
    if "data_efficiency" in report:
        tables += [_data_curve(report), _criteria_curve(report), _ablations(report)]
        tables += [_ranking(report)]
        tables += [_experts(report)] if report["experts"] else []
    return tables


def _head(report: Json) -> Table:
    data, split, aggregators = report["data"], report["split"], report["aggregators"]
    sizes = {name: f"{split[name]['rows']} rows in {split[name]['groups']} groups"
             for name in ("train", "held_out")}  # fmt: skip
    rows = [
        ("learned from", f"{data['path'] or 'data in memory'}: {sizes['train']}"),
        ("held out", _describe_rows(sizes["held_out"], split)),
        ("aggregator", f"{aggregators['chosen']} over {len(report['features'])} features"),
    ]
    if aggregators["cross_validated_error"]:
        errors = aggregators["cross_validated_error"].items()
        listed = ", ".join(f"{name} {error:.3f}" for name, error in errors)
        rows.append(("error over folds, relative to predicting the mean", listed))
    notes = [Note(f"warning: {text}", warning=True) for text in report.get("warnings") or ()]
    if "shipped" in split:
        notes.append(
            Note(
                f"the saved evaluator learned from all {split['shipped']['rows']} rows; the figures"
                " below are of one that learned without the held-out rows"
            )
        )
    if data["left_out"]:
        notes.append(Note(f"left out: {data['left_out']} rated rows without any feature"))
    if other := data.get("other_texts"):
        text = f"{other} rated rows have another text than was scored under their id, so these"
        notes.append(Note(f"{text} scores are left out", warning=True))
    notes += [Note(f"could not be fitted: {n}: {why}") for n, why in aggregators["failed"].items()]
    notes += _means(report["aspects"])
    # if most rows lack a feature, its value is mostly its mean, and its weight is meaningless
    coverage = {name: feature["coverage"] for name, feature in report["features"].items()}
    sparse = [f"{name} {share:.0%}" for name, share in coverage.items() if share < 0.5]
    if sparse:
        notes.append(Note(f"features that fewer than half of the rows have: {', '.join(sparse)}"))
    return Table((Column("name", ""), Column("value", "")), rows, tuple(notes))


def _describe_rows(size: str, split: Json) -> str:
    """Describe the rows of the figures."""
    if "folds" not in split:
        return f"{size} (split by {split['by']}, seed {split['seed']})"
    times = "once" if split["repeats"] == 1 else f"{split['repeats']} times"
    return (
        f"each of them {times}, in {split['folds']} folds by {split['by']}, seed {split['seed']}:"
        " predicted by aggregators learned from the other folds"
    )


def _means(aspects: Json) -> Iterator[Note]:
    """Yield the effect of means of systems and sources, for each aspect and kind tried."""
    for aspect, content in aspects.items():
        for kind in ("systems", "sources"):
            if not (means := content["learning"].get(kind)):
                continue
            errors, used = means["held_out_error"], "" if means["used"] else "do not "
            where = " where a pool of texts is given" if kind == "sources" and means["used"] else ""
            yield Note(
                f"{aspect}: the means of {means['known']} {kind} {used}take part{where}; error"
                f" over folds that leave out {means['left_out']}: {errors['without']:.3f} without,"
                f" {errors['with']:.3f} with"
            )


def _round(content: Json) -> Table:
    """Return the criteria proposed for a rubric in one round, and the decisions on them."""
    rows = [
        (row["criterion"], "new" if row["new"] else "from before",
         "stays" if row["kept"] else row["reason"], _ends(row["ci"]) if row["kept"] else None)
        for row in content["criteria"]
    ]  # fmt: skip
    columns = (
        Column("criterion", "criterion"), Column("new", "proposed"), Column("decision", "decision"),
        Column("importance", "importance", "interval", 4),
    )  # fmt: skip
    finished = not any(row["new"] and row["kept"] for row in content["criteria"])
    notes = (Note("no new criterion helps: the rubric is finished"),) if finished else ()
    texts = len({id_ for ids in content["shown"].values() for id_ in ids})
    title = f"rubric, round {content['round']}, from {texts} rated texts"
    return Table(columns, rows, notes, title)


def _layer(layer: Json) -> Table:
    """Return the criteria of one layer of an alignment."""
    rows = [
        (row["criterion"], row["importance"], "yes" if row["expanded"] else "")
        for row in layer["importance"]
    ]
    columns = (
        Column("criterion", "criterion"), Column("importance", "importance", "number", 4),
        Column("expanded", "taken apart for the next layer"),
    )  # fmt: skip
    title = (
        f"alignment, layer {layer['layer']}: {with_noun(len(layer['criteria']), 'criterion')},"
        f" aggregator {layer['aggregator']}"
    )
    if layer["agreement"]["pearson"] is not None:
        title += f", held-out Pearson / Spearman {_both(layer['agreement'])}"
    return Table(columns, rows, title=title)


def _criteria(criteria: Json) -> Table:
    """Return the meaning of each criterion of the tree."""
    columns = Column("criterion", "criterion"), Column("definition", "definition")
    rows = [(id_, criterion["definition"]) for id_, criterion in criteria.items()]
    return Table(columns, rows, title="criteria, as the judge is shown them")


def _held_out_table(held_out: Json) -> Iterator[Table]:
    columns = (
        Column("name", ""), *(Column(c, c.capitalize(), "interval") for c in COEFFICIENTS),
        Column("better", "evaluator better by (p)"),
    )  # fmt: skip
    for aspect, content in held_out["aspects"].items():
        rows: list[tuple[Cell, ...]] = []
        for name, row in content["agreement"].items():
            if "failed" in row:
                continue
            label = f"{name}: {row['feature']}" if "feature" in row else name
            label += ", reversed" if "turned_round" in row else ""
            if "chosen" in row:
                label = f"{name}: {_list_names(list(row['chosen']))}"
            figures = (Estimate(row[c], *(row["ci"][c] or ())) for c in COEFFICIENTS)
            better = _better(content["evaluator_minus"].get(name), content["resamples"])
            rows.append((label, *figures, better))
        failed = {n: row["failed"] for n, row in content["agreement"].items() if "failed" in row}
        notes = [Note(f"{aspect}: {name} is left out: {why}") for name, why in failed.items()]
        if shuffled := content.get("shuffled"):
            label = f"ratings shuffled, {shuffled['shuffles']} times"
            rows.append((label, *(Estimate(shuffled.get(c)) for c in COEFFICIENTS), ""))
            meaning = "the agreement that learning reaches by chance; compare with it, not with 0"
            notes.append(Note(f"ratings shuffled: {meaning}"))
        if content.get("note"):
            notes.append(Note(f"{aspect}: {content['note']}"))
        notes += _in_words(aspect, content)
        yield Table(columns, rows, tuple(notes), f"{aspect}, {content['n']} held-out rows")
    means = [(name, *(row[c] for c in COEFFICIENTS)) for name, row in held_out["mean"].items()]
    coefficients = (Column(c, c.capitalize(), "number") for c in COEFFICIENTS)
    yield Table((Column("name", "mean over the aspects"), *coefficients), means)
    if labels := held_out.get("labels"):
        same = Column("same", "raters who gave it", "interval")
        rows = [("the label with the highest share", Estimate(**labels))]
        yield Table((Column("name", "of labels without an order"), same), rows)
    if choices := held_out.get("choices"):
        right = Column("right", "chosen right", "interval")
        rows = [("the text with the highest score", Estimate(**choices))]
        yield Table((Column("name", "of sources with one best text"), right), rows)


def _in_words(aspect: str, content: Json) -> Iterator[Note]:
    """Yield the rows that are above the evaluator, and the plain mean if there are few ratings."""
    rows, evaluator = content["agreement"], content["agreement"][EVALUATOR]
    ahead = []
    for name in (SINGLE, "avg", "corrw"):
        row = rows.get(name, {})
        higher = [
            f"{c.capitalize()} {row[c]:.3f} beside {evaluator[c]:.3f}"
            for c in ("pearson", "spearman")
            if None not in (row.get(c), evaluator[c]) and round(row[c] - evaluator[c], 3) > 0
        ]
        if higher:
            ahead.append(f"{row.get('feature', name)} ({', '.join(higher)})")
    if ahead:
        yield Note(
            f"{aspect}: higher than the evaluator on these rows, which may be chance:"
            f" {'; '.join(ahead)}"
        )
    plain = rows.get("avg", {})
    # so few ratings never show that weights are no better (`benchmarks.learning.few_ratings`)
    if content["n"] >= 40 or evaluator["pearson"] is None or plain.get("pearson") is None:
        return
    delta = content["evaluator_minus"]["avg"]["pearson"]
    if delta["difference"] > 0 and delta["significant"]:
        words = "learned weights are better than the plain mean of the features"
    else:
        words = (
            "they do not show whether the plain mean of the features does as well (aggregator=avg,"
            " for features that are ratings of the aspect); with so few ratings of recorded judges,"
            " learned weights were ahead by more than .02 in six of ten cases, and behind in two"
        )
    yield Note(f"{aspect}: {content['n']} ratings are few to learn weights from: {words}")


def _list_names(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def _better(difference: Json | None, resamples: int) -> str:
    if not difference:
        return ""
    differences = [difference[c] for c in ("pearson", "spearman")]
    return " / ".join(
        f"{delta['difference']:+.3f}{_probability(delta, resamples)}"
        for delta in differences
        if delta["difference"] is not None
    )


def _probability(delta: Json, resamples: int) -> str:
    """Return the p-value, or the bound that the number of resamples can show."""
    if delta["p"] is None:
        return ""
    least = 2 / (resamples + 1)
    p = f"<{least:.3f}" if delta["p"] <= least else f"{delta['p']:.3f}"
    return f" ({p}{'*' if delta['significant'] else ''})"


def _importance(importance: Json) -> Table:
    columns = (
        Column("feature", "feature"), Column("growth", "growth", "interval", 4),
        Column("contribution", "contribution", "number", 4),
    )  # fmt: skip
    title = (
        "importance of the features: growth of the squared error when shuffled, with its 95 %"
        " interval; mean size of the contributions"
    )
    permutation = importance["permutation"]
    if isinstance(permutation, dict):
        return Table(columns, (), (Note(permutation["failed"]),), title)
    sizes = {row["feature"]: row["mean"] for row in importance["shap"]}
    rows = [
        (row["feature"], Estimate(row["mean"], *(row["ci"] or ())), sizes[row["feature"]])
        for row in permutation[:_SHOWN]
    ]
    more = len(permutation) - _SHOWN
    return Table(columns, rows, (more_rows(more),) if more > 0 else (), title)


def _data_curve(report: Json) -> Table:
    name = report["aggregators"]["chosen"]
    rows = [
        (row["fraction"], row[name]["rows"] or None, _mean_of_both(row[name]),
         _mean_of_both(row.get("avg", row[name])))
        for row in report["data_efficiency"]
    ]  # fmt: skip
    columns = (
        Column("fraction", "share of the training rows", "share"), Column("n", "rows", "count"),
        Column("chosen", name, "number"), Column("avg", "avg", "number"),
    )  # fmt: skip
    return Table(columns, rows, title="Pearson / Spearman with fewer training rows")


def _criteria_curve(report: Json) -> Table:
    curve = report["criteria_efficiency"]
    columns = (
        Column("count", "criteria by importance", "count"), *_TWO, Column("last", "last one added"),
    )  # fmt: skip
    if isinstance(curve, dict):
        return Table(columns, (), (Note(curve["failed"]),))
    return Table(
        columns, [(r["count"], r.get("pearson"), r.get("spearman"), r["last"]) for r in curve]
    )


def _ablations(report: Json) -> Table:
    rows = [
        (row["without"], row.get("pearson"), row.get("spearman"), row.get("left", ""))
        for row in report["ablations"]
    ]
    return Table((Column("without", "without"), *_TWO, Column("left", "left")), rows)


def _ranking(report: Json) -> Table:
    rows = [
        (aspect, *(shares.get(name, {}).get("share") for name in ("evaluator", "best single")))
        for aspect, shares in report["ranking"].items()
    ]
    columns = (
        Column("aspect", "items whose rank within their source is people's"),
        Column("evaluator", "evaluator", "share", 1), Column("single", "best single", "share", 1),
    )  # fmt: skip
    return Table(columns, rows)


def _experts(report: Json) -> Table:
    names = (
        "mean_of_pairs", "one_with_the_others", "evaluator_with_the_mean", "evaluator_with_one",
    )  # fmt: skip
    rows = [
        (aspect, *(_both(row[name]) for name in names)) for aspect, row in report["experts"].items()
    ]
    columns = (Column(name, name.replace("_", " "), "number") for name in names)
    return Table((Column("aspect", "annotators"), *columns), rows)


def _ends(ends: list[float] | None) -> str:
    return f"[{ends[0]:.4f}, {ends[1]:.4f}]" if ends else ""


def _mean_of_both(figures: Json) -> str:
    return _both({c: figures[c] and figures[c]["mean"] for c in ("pearson", "spearman")})


def _both(figures: Json) -> str:
    """Return Pearson's and Spearman's coefficient as one cell."""
    return " / ".join(
        "-" if figures[c] is None else f"{figures[c]:.3f}" for c in ("pearson", "spearman")
    )


@dataclass(repr=False)
class Fit(Displayed):
    """The result of `fit`; `evaluate(..., method=...)` accepts it once it is saved."""

    evaluator: Evaluator
    """The evaluator, as JSON values and models."""
    report: Json
    """How it was learned, its agreement with people on held-out rows, and its important features;
    `report.json` of the folder.
    """
    folder: Path | None = None
    """The evaluator folder, which `save` sets; `None` if it was not saved."""
    unscored: Mapping[str, int] = field(default_factory=dict)
    """Unusable ratings of the model, by outcome; they count as gaps."""
    predictions: Sequence[Json] = ()
    """Scores of held-out rows, by aggregators learned without them, which the report measures;
    `held_out.jsonl` of the folder.
    """

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Fit:
        """Read an evaluator folder.

        Raises:
            ConfigurationError: The folder has no evaluator, or one that was edited or is newer.
            RunFolderError: Its report cannot be read, or is not a report.
        """
        folder = Path(folder)
        evaluator, file = load(folder), folder / HELD_OUT
        try:
            scores = list(map(json.loads, file.read_text("utf-8").splitlines()))
            file = folder / REPORT
            report = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise RunFolderError(f"{file} cannot be read: {error}") from error
        try:
            unscored = dict(report.get("unscored", {}))
            fit = cls(evaluator, report, folder, unscored, scores)
            # the report has no digest and many parts: it is valid if it can be shown
            repr(fit), fit.text
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise RunFolderError(
                f"{file} is not a report of fit ({type(error).__name__}: {error}); restore it, or"
                " fit again"
            ) from error
        return fit

    @property
    def document(self) -> Json:
        """The report with the tree's criteria, by id; `report.json` of the folder."""
        criteria = {
            node.id: {"name": node.name, "definition": node.definition, "parent": node.parent}
            for node in self.evaluator.tree or ()
        }
        return {**self.report, "criteria": criteria} if criteria else self.report

    @property
    def text(self) -> str:
        """The report in words; `report.txt` of the folder."""
        return report_text(self.document)

    def to_pandas(self) -> pd.DataFrame:
        """Return the agreement on held-out rows; needs pandas.

        One row per aspect and evaluator, feature or trivial measure, with each coefficient and the
        ends of its interval (`pearson`, `pearson_low`, `pearson_high`, ...). `tables()` has the
        whole report; each table has a `to_pandas`, too.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # heavy, and only this method's

        rows = []
        for aspect, content in self.report["held_out"]["aspects"].items():
            for name, row in content["agreement"].items():
                line: dict[str, object] = {"aspect": aspect, "name": name, "n": content["n"]}
                line["feature"] = row.get("feature")
                for c in COEFFICIENTS if "failed" not in row else ():
                    low, high = row["ci"][c] or (None, None)
                    line |= {c: row[c], f"{c}_low": low, f"{c}_high": high}
                rows.append(line)
        return pd.DataFrame(rows)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the evaluator folder, and set `folder`.

        The evaluator itself is written last, so that a folder with an evaluator is complete.

        Raises:
            StorageError: The folder cannot be written.
        """
        folder = Path(folder)
        lines = "".join(json.dumps(score) + "\n" for score in self.predictions)
        with storage_errors(f"cannot write the evaluator to {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / REPORT, self.document)
            write_text(folder / HELD_OUT, lines)
            write_text(folder / "report.txt", self.text)
            save(self.evaluator, folder)
        self.folder = folder

    def __fspath__(self) -> str:
        """Let a `Fit` be passed wherever a path is accepted."""
        if self.folder is None:
            raise ConfigurationError(
                "this evaluator has no folder: fit with out=FOLDER, or save it first with"
                " .save(FOLDER)"
            )
        if not is_evaluator(self.folder):
            raise ConfigurationError(
                f"{self.folder}, where this evaluator was saved, no longer contains it; save it "
                "again with .save(FOLDER)"
            )
        return str(self.folder)

    def __repr__(self) -> str:
        mean = self.report["held_out"]["mean"].get("evaluator", {}).get("pearson")
        pearson = "undefined" if mean is None else f"{mean:.3f}"
        where = "in memory" if self.folder is None else repr(str(self.folder))
        return f"<Fit {where}: {self._learned}, held-out Pearson {pearson}>"

    @property
    def _learned(self) -> str:
        count = len(self.evaluator.features)
        features = "1 feature" if count == 1 else f"{count} features"
        return f"{self.report['aggregators']['chosen']} over {features}"

    def tables(self) -> list[Table]:
        return report_tables(self.document)
