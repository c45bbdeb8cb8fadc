"""Recorded scores: in a run, or in any JSON Lines file of `id`, `aspect` and `value`."""

from __future__ import annotations

import gzip
import json
import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from textassay.runtime.data.cells import FieldError, finite
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.digests import text_digest
from textassay.runtime.data.files import JsonLines, open_table
from textassay.runtime.data.numerals import NumeralError, PercentColumns, value_in_cell
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError, StorageError
from textassay.runtime.labels import LEVEL_FEATURES, LabelScale, labels_of
from textassay.runtime.messages import Example, Score
from textassay.runtime.rubric import criterion_id, criterion_names
from textassay.runtime.storage.journal import parse_row, read_lines
from textassay.runtime.storage.run_files import MANIFEST, SCORES, kept_rows, read_manifest
from textassay.table import with_noun

_log = logging.getLogger(__name__)

Recorded = dict[str, dict[str, float | None]]
"""Value by aspect and id; `None` if the row has no score."""


class HasScores(Protocol):
    """An object with the scores of a run, such as `textassay.Run`."""

    @property
    def scores(self) -> Iterable[Score]:
        """All scores, later ones replacing earlier ones of the same id and aspect."""


ScoreSource = str | Path | Examples | HasScores
"""Where scores are read from."""


class RecordedScores(Recorded):
    """Values by aspect and id that were read, with the digests and samples of the judged texts."""

    def __init__(self, source: object = None) -> None:
        super().__init__()
        self.source = source
        """The file, run or object they were read from."""
        self.texts: dict[str, str] = {}
        """Digest of the judged text by id, where it is recorded; see `text_digest`."""
        self.samples: dict[str, dict[str, tuple[float, ...]]] = {}
        """The ratings that a score averages, by aspect and id, if a text was judged several
        times.
        """

    def add(self, row: RecordedRow) -> None:
        """Add a score, in place of an earlier one of the same text."""
        self.setdefault(row.aspect, {})[row.id] = row.value
        if row.text:
            self.texts[row.id] = row.text
        samples = self.samples.setdefault(row.aspect, {})
        samples.pop(row.id, None)
        for piece in row.evidence:
            ratings = piece.get("ratings") if isinstance(piece, Mapping) else None
            if isinstance(ratings, list | tuple) and all(
                isinstance(rating, int | float) and math.isfinite(rating) for rating in ratings
            ):
                samples[row.id] = tuple(map(float, ratings))


def texts_of(scores: object) -> Mapping[str, str]:
    """Return the digest of the judged text by id; empty for a plain mapping of values."""
    return scores.texts if isinstance(scores, RecordedScores) else {}


def read_scores(
    source: ScoreSource, labels: LabelReader | None = None, *, level_features: bool = False
) -> RecordedScores:
    """Read the scores of a run, or of a JSON Lines file, which may be gzip (`.gz`).

    A later line for the same id and aspect replaces the earlier. A run is read by the rules of its
    journal: a torn last line is dropped, and a blank line or a byte order mark is an error. Any
    other file is read as data are: blank lines and a byte order mark are left out.

    Args:
        source: A run, its folder or its `scores.jsonl`, a file whose lines have `id`, `aspect` and
            `value`, or a data set with `metrics`. Values may be booleans, pairs such as pass and
            fail, and the labels of a run's aspects.
        labels: Reader of other labels.
        level_features: Whether to add the probability of the highest level and the entropy of a
            decision model's ratings as columns.

    Returns:
        Value by aspect and id, in order of appearance; `None` if the last line is unscored.

    Raises:
        RunFolderError: A folder without scores, or a run of a newer format.
        DataError: The file cannot be read, or a line is unusable; names file, line and field.
    """
    scores = RecordedScores(source)
    for row in read_score_rows(source, labels):
        scores.add(row)
        if level_features and row.fields.get("how") == "decision":
            _add_level_features(scores, row)
    return scores


def read_judge(
    source: ScoreSource | Recorded, labels: LabelReader | None = None
) -> Recorded | RecordedScores:
    """Read scores and the verdicts on criteria behind them; returns values already read unchanged.

    Raises:
        ConfigurationError: Several judges scored an aspect.
    """
    if isinstance(source, Mapping):
        return source
    scores = RecordedScores(source)
    # by id, because a later line may have replaced the line of another judge
    signatures: dict[str, dict[str, str]] = {}
    for row in read_score_rows(source, labels):
        scores.add(row)
        _add_criteria(scores, row)
        by_id = signatures.setdefault(row.aspect, {})
        by_id.pop(row.id, None)
        if row.value is not None:
            by_id[row.id] = row.signature
    if not scores:
        raise no_scores(source)
    for aspect, by_id in signatures.items():
        check_one_judge(aspect, dict.fromkeys(by_id.values()))
    return scores


def no_scores(source: object) -> DataError:
    """Return the error about a source without scores, with the way to name their column."""
    hint = (
        ": a file of scores has the fields 'id', 'aspect' and 'value', or fields 'metrics.NAME';"
        ' name other columns: fields={COLUMN: "metrics.NAME"}'
    )
    if isinstance(source, Examples):
        if unused := source.check().unused_map:
            hint = f"; no row has the field {min(unused)!r} that the field map names"
    elif run_folder(source) or not isinstance(source, str | Path):
        hint = ""
    is_named = isinstance(source, str | Path | Examples)
    return DataError(f"{source if is_named else 'the run'} contains no scores{hint}")


def read_labels(source: object) -> dict[str, LabelScale]:
    """Return the labels of the aspects of a run folder, by name; empty for any other source."""
    folder = run_folder(source)
    return {} if folder is None else labels_of(read_manifest(folder))


def judged_data(source: object) -> Iterable[Example]:
    """Return the data that a run judged; empty without a run, or if the data are gone."""
    if isinstance(source, RecordedScores):
        source = source.source
    if (folder := run_folder(source)) is None:
        return getattr(source, "judged", ())
    spec = read_manifest(folder).get("spec") or {}
    labels = LabelReader(read_labels(folder), any_word=True)
    if (rows := kept_rows(folder)) is not None:
        return Examples(rows, needs_output=False, labels=labels)
    if not spec.get("data") or not Path(spec["data"]).is_file():
        return ()
    return Examples(spec["data"], needs_output=False, labels=labels, **reading_of_run(spec))


def reading_of_run(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a run read its data, as options of `Examples`."""
    names = "fields", "missing", "unit", "conversation_chars"
    return {name: spec[name] for name in names if spec.get(name)}


def run_folder(source: object) -> Path | None:
    """Return the folder of a run that is given by its path or the path of its scores."""
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    folder = path.parent if path.name == SCORES else path
    return folder if (folder / MANIFEST).is_file() else None


def check_one_judge(aspect: str, signatures: Collection[str], otherwise: str = "") -> None:
    """Raise if the scores of one aspect carry several signatures."""
    if len(signatures) > 1:
        shown = "; ".join(repr(signature) for signature in list(signatures)[:3])
        raise ConfigurationError(
            f"the scores of {aspect!r} come from {len(signatures)} different judges ({shown}), "
            f"which are not comparable; split them into one file per judge{otherwise}"
        )


def check_equal_labels(
    aspect: str,
    a: Sequence[str],
    b: Sequence[str],
    where: tuple[str, str] = ("in the first run", "in the second"),
) -> None:
    """Raise if the same numbers mean different labels of an aspect in two places."""
    if a and b and tuple(a) != tuple(b):
        raise ConfigurationError(
            f"the labels of {aspect!r} are {', '.join(a)} {where[0]} and {', '.join(b)} {where[1]},"
            " and scores are their positions; judge with the same labels in one order"
        )


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """One recorded score."""

    aspect: str
    """The judged aspect."""
    id: str
    """The example's id."""
    value: float | None
    """The score, or the number of a label; `None` if unscored."""
    fields: Mapping[str, Any]
    """The whole line, such as `outcome` and `signature` in a run."""
    text: str = ""
    """Digest of the text; empty if it is not known."""

    @property
    def signature(self) -> str:
        """How the score was made; empty if it is not recorded."""
        return str(self.fields.get("signature") or "")

    @property
    def evidence(self) -> Sequence[Any]:
        """The score's evidence, as a run records it; empty if there is none."""
        evidence = self.fields.get("evidence")
        return evidence if isinstance(evidence, list | tuple) else ()

    @property
    def scale(self) -> tuple[float, float] | None:
        """Ends of the scale; `None` if they are not recorded."""
        ends = self.fields.get("scale")
        if not isinstance(ends, list | tuple) or len(ends) != 2:
            return None
        return float(ends[0]), float(ends[1])


def read_score_rows(
    source: ScoreSource, labels: LabelReader | None = None
) -> Iterator[RecordedRow]:
    """Iterate over the scores that `read_scores` reads, in order, replaced ones included.

    A line whose value is a list of labels counts as one line for each possible label.

    A data set whose rows hold `metrics` serves as a file of scores too, opened or by its path.
    """
    # a table in memory may have a column `scores`
    if hasattr(source, "columns") or not (
        isinstance(source, str | Path | Examples) or hasattr(source, "scores")
    ):
        source = Examples(source, needs_output=False, labels=labels)
    if not isinstance(source, str | Path | Examples):
        for score in source.scores:
            fields = {
                "how": score.how, "scale": score.scale, "signature": score.signature,
                "evidence": score.evidence,
            }  # fmt: skip
            yield RecordedRow(score.aspect, score.id, score.value, fields, score.text_digest)
        return
    labels = LabelReader(read_labels(source)) if labels is None else labels
    if not isinstance(source, Examples) and holds_metrics(Path(source)):
        source = Examples(source, needs_output=False, labels=labels)
    if isinstance(source, Examples):
        for example in source:
            text = text_digest(example) if example.metrics else ""
            for name, value in example.metrics.items():
                yield RecordedRow(name, example.id, value, {}, text)
        return
    yield from _rows_in_file(Path(source), labels)


def _rows_in_file(path: Path, labels: LabelReader) -> Iterator[RecordedRow]:
    """Yield the scores in a run folder, or in a file of scores."""
    folder = path if path.is_dir() else path.parent
    is_run = path.name == SCORES or path.is_dir()
    file = folder / SCORES if is_run else path
    if path.is_dir() and not file.exists():
        raise RunFolderError(
            f"{path} contains no scores.jsonl; give a run folder or a JSON Lines file of scores"
        )
    if is_run and (folder / MANIFEST).exists():
        read_manifest(folder)  # refuses a run of a newer format
        rows = _run_rows(file)
    else:
        rows = _score_rows(file)
    for number, row in rows:
        where = f"{file}, line {number}"
        if not isinstance(row, dict):
            raise DataError(
                f"{where}: must be an object with id, aspect and value, not {type(row).__name__}"
            )
        aspect, id_ = _name(row, "aspect", where), _name(row, "id", where)
        if "value" not in row:
            raise DataError(f"{where}, field 'value': is missing; it is null if there is no score")
        try:
            # lines of a run have a signature, and labels as their positions
            values = labels.numbers(
                "metrics", {aspect: row["value"]}, are_positions="signature" in row
            )
        except FieldError as error:
            raise DataError(f"{where}, {error}") from None
        text = str(row.get("text_digest") or "")
        for name, value in values.items():
            yield RecordedRow(name, id_, _number(value, where), row, text)


def _score_rows(file: Path) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a file of scores outside a run, and log repeated pairs.

    Lines that were copied from a run have a signature; there, later ones replace earlier ones.
    """
    table = open_table(file) if _is_table(file) else JsonLines(file)
    seen: dict[tuple[Any, Any], int] = {}
    again: list[str] = []
    percents = PercentColumns()
    for number, row in table.rows():
        if isinstance(row, dict) and "signature" not in row:
            pair = row.get("id"), row.get("aspect")
            is_hashable = all(isinstance(part, str | int | float | None) for part in pair)
            first = seen.setdefault(pair, number) if is_hashable else number
            if first != number:
                again.append(f"{pair[0]!r} on {pair[1]!r} in {table.unit}s {first} and {number}")
            value = row.get("value")
            if table.decimal is not None and isinstance(value, str):
                try:
                    amount = value_in_cell(value, table.decimal, str(row.get("aspect")), percents)
                    row = {**row, "value": amount}
                except NumeralError as error:
                    raise table.error(number, f"field 'value': {error}") from None
        yield number, row
    if again:
        _log.warning(
            "%s scores %s again, such as %s; the last score counts",
            file,
            with_noun(len(again), "text"),
            again[0],
        )


def _is_table(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith((".csv", ".tsv", ".json", ".parquet", ".xlsx"))


def holds_metrics(path: Path) -> bool:
    """Return whether a file is a data set with metrics, rather than one of scores."""
    if not path.is_file() or path.name == SCORES:
        return False
    if _is_table(path):
        header = next((row for _, row in open_table(path).rows()), ())
        return not {"id", "aspect", "value"} <= set(header)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            first = json.loads(lines.readline())
    except (OSError, ValueError, EOFError):
        return False  # the next reader of the file reports the error
    # the first row of a data set may have no score
    return isinstance(first, dict) and "aspect" not in first


def _run_rows(file: Path) -> Iterator[tuple[int, Any]]:
    """Read a run's lines by the rules of the journal that wrote them."""
    try:
        for number, line in read_lines(file):
            yield number, parse_row(file, number, line)
    except StorageError as error:
        raise DataError(str(error)) from error


def _name(row: dict[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    # other tools write numeric ids, and data frames with gaps write them as floats; bool is a
    # subclass of int and would become "True"
    if type(value) is int or (type(value) is float and value.is_integer()):
        return str(int(value))
    if not isinstance(value, str) or not value:
        raise DataError(f"{where}, field {field!r}: must be a non-empty string, not {value!r}")
    return value


def _number(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(
            f"{where}, field 'value': must be a number, a label, or null if there is no score, not"
            f" {value!r}; a task names the labels of an aspect"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"{where}, field 'value': must be finite; it is {value!r}")
    return number


def level_shares(row: RecordedRow) -> dict[float, float]:
    """Return the probability of each level on the scale; empty if the evidence has none.

    Levels are named by their numbers; labels are named by their positions.
    """
    pairs = [
        (str(piece["text"]), float(piece["probability"]))
        for piece in row.evidence
        if isinstance(piece, Mapping)
        and "text" in piece
        and isinstance(piece.get("probability"), int | float)
    ]
    if row.scale is None or len(pairs) < 2:
        return {}
    low, high = row.scale
    numbers = [finite(name) for name, _ in pairs]
    if all(number is not None and low <= number <= high for number in numbers):
        return {n: p for n, (_, p) in zip(numbers, pairs, strict=True) if n is not None}
    if len(pairs) == high - low + 1:
        return {low + place: p for place, (_, p) in enumerate(pairs)}
    return {}


def _add_level_features(scores: Recorded, row: RecordedRow) -> None:
    """Add the probability of the highest level, and the entropy, of a rating that has them."""
    shares, names = level_shares(row), level_feature_names(row.aspect)
    if not shares:
        for name in names:  # a later line of the same text replaces the earlier one
            scores.get(name, {}).pop(row.id, None)
        return
    entropy = -math.fsum(p * math.log(p) for p in shares.values() if p > 0)
    for name, value in zip(names, (shares[max(shares)], entropy), strict=True):
        scores.setdefault(name, {})[row.id] = value


def level_feature_names(aspect: str) -> tuple[str, str]:
    """Return the names of two columns: probability of a rating's highest level, and entropy."""
    highest, entropy = LEVEL_FEATURES
    return f"{aspect}{highest}", f"{aspect}{entropy}"


def _add_criteria(scores: Recorded, row: RecordedRow) -> None:
    """Add the verdicts on the criteria of a rubric that the evidence of a score has."""
    for piece in row.evidence:
        if isinstance(piece, Mapping) and "criterion" in piece and "met" in piece:
            met = piece["met"]
            for name in criterion_names(piece.get("tags") or ()):
                verdicts = scores.setdefault(name, {})
                verdicts[criterion_id(row.id, piece["criterion"])] = (
                    None if met is None else float(met)
                )
