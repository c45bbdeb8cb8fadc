"""What is on record of texts: a judge's scores, people's ratings, and which belong together.

Scores are in a run folder, or in any JSON Lines file whose rows hold `id`, `aspect` and `value`;
ratings in the data, with ids, systems and sources as columns.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import compress
from operator import not_
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from textassay.agreement.correlation import Floats, Level
from textassay.agreement.raters import rating_table
from textassay.runtime.data.cells import FieldError, finite
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.digests import source_digest, source_names, text_digest
from textassay.runtime.data.files import JsonLines, open_table
from textassay.runtime.data.material import OTHER_OUTPUT
from textassay.runtime.data.ratings import SAMPLING_PROBABILITY, LabelReader
from textassay.runtime.errors import (
    ConfigurationError,
    DataError,
    RunFolderError,
    StorageError,
    UnknownName,
)
from textassay.runtime.labels import (
    LEVEL_FEATURES,
    YES_NO,
    LabelScale,
    LabelSets,
    labels_given,
    labels_of,
    member_name,
    nearest_label,
    slug,
)
from textassay.runtime.messages import Aspect, Example, Score
from textassay.runtime.storage.journal import parse_row, read_lines
from textassay.runtime.storage.run_files import MANIFEST, SCORES, read_manifest
from textassay.table import Note

_log = logging.getLogger(__name__)
_TABLES = (".csv", ".tsv", ".parquet", ".xlsx")

CRITERIA = "criteria"
"""What the verdicts on criteria of rubrics are called; those with a tag also `criteria: TAG`."""

Recorded = dict[str, dict[str, float | None]]
"""Value by aspect and id; `None` if a row is there and unscored."""


class RecordedScores(Recorded):
    """Values by aspect and id that were read, with what is known of the texts they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        """Digest of the judged text by id, as far as it is recorded; see `text_digest`."""
        self.samples: dict[str, dict[str, tuple[float, ...]]] = {}
        """Ratings that a score is the mean of, by aspect and id, if a text was judged often."""

    def add_samples(self, aspect: str, id_: str, evidence: Iterable[Any]) -> None:
        """Keep the ratings of samples that the evidence of a score has, if it has any."""
        own = self.samples.setdefault(aspect, {})
        own.pop(id_, None)  # a later line of the same text replaces the earlier one
        for piece in evidence:
            ratings = piece.get("ratings") if isinstance(piece, Mapping) else None
            if isinstance(ratings, list | tuple) and all(
                isinstance(one, int | float) and math.isfinite(one) for one in ratings
            ):
                own[id_] = tuple(map(float, ratings))


def texts_of(scores: object) -> Mapping[str, str]:
    """Return the digest of the judged text by id; empty for values that somebody put together."""
    return scores.texts if isinstance(scores, RecordedScores) else {}


AspectMap = Iterable[str] | Mapping[str, str]
"""Which human aspects scores are held against: texts `SCORE=HUMAN`, or a mapping."""


def read_scores(
    path: str | Path | Examples, labels: LabelReader | None = None, *, level_features: bool = False
) -> RecordedScores:
    """Read the scores of a run folder or of a JSON Lines file, which may be gzip (`.gz`).

    A later line for the same id and aspect replaces the earlier. A run is read by the rules of its
    journal: a torn last line is dropped, and a blank line or a byte order mark is an error. Any
    other file is read as data are: blank lines and a byte order mark are left out.

    Args:
        path: A run folder, its `scores.jsonl`, a file whose lines hold `id`, `aspect` and `value`,
            or a data set with `metrics`. Values may be booleans, pairs such as pass and fail, and
            the labels of a run's aspects.
        labels: Reads other labels.
        level_features: Whether the probability of the highest level and the entropy of ratings by
            a decision model are columns of their own.

    Returns:
        Value by aspect and id, in order of appearance; `None` if the last line says unscored.

    Raises:
        RunFolderError: A folder that holds no scores, or a run of a newer format.
        DataError: The file cannot be read, or a line is unusable; names file, line and field.
    """
    scores = RecordedScores()
    for row in read_score_lines(path, labels):
        scores.setdefault(row.aspect, {})[row.id] = row.value
        if row.text:
            scores.texts[row.id] = row.text
        if level_features and row.fields.get("how") == "decision":
            evidence = row.fields.get("evidence") or ()
            _add_level_features(scores, row.aspect, row.id, evidence, row.fields.get("scale"))
    return scores


def read_judge(path: str | Path | Examples, labels: LabelReader | None = None) -> RecordedScores:
    """Read scores as `read_scores` does, and refuse an aspect that several judges scored."""
    scores = RecordedScores()
    # by id, because the line of another judge may have been replaced since
    signatures: dict[str, dict[str, str]] = {}
    for row in read_score_lines(path, labels):
        scores.setdefault(row.aspect, {})[row.id] = row.value
        if row.text:
            scores.texts[row.id] = row.text
        evidence = row.fields.get("evidence") or ()
        _add_criteria(scores, row.id, evidence)
        scores.add_samples(row.aspect, row.id, evidence)
        own = signatures.setdefault(row.aspect, {})
        own.pop(row.id, None)
        if row.value is not None:
            own[row.id] = str(row.fields.get("signature") or "")
    for aspect, own in signatures.items():
        refuse_several_judges(aspect, dict.fromkeys(own.values()), "")
    return scores


def read_labels(path: str | Path | Examples) -> dict[str, LabelScale]:
    """Return the labels of a run's aspects by name; none of what is no run, or has ratings."""
    if isinstance(path, Examples):
        return {}
    folder = Path(path)
    folder = folder.parent if folder.name == SCORES else folder
    return labels_of(read_manifest(folder)) if (folder / MANIFEST).is_file() else {}


def refuse_several_judges(aspect: str, signatures: Collection[str], otherwise: str) -> None:
    """Raise if the scores of one aspect carry several signatures."""
    if len(signatures) > 1:
        shown = "; ".join(repr(one) for one in list(signatures)[:3])
        raise ConfigurationError(
            f"the scores of {aspect!r} come from {len(signatures)} different judges ({shown}), "
            f"which are not comparable; split them into one file per judge{otherwise}"
        )


def refuse_other_labels(
    aspect: str,
    a: Sequence[str],
    b: Sequence[str],
    where: tuple[str, str] = ("in the first run", "in the second"),
) -> None:
    """Raise if the same numbers stand for different labels of an aspect in two places."""
    if a and b and tuple(a) != tuple(b):
        raise ConfigurationError(
            f"the labels of {aspect!r} are {', '.join(a)} {where[0]} and {', '.join(b)} {where[1]},"
            " and scores are their positions; judge with the same labels in one order"
        )


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """One line of recorded scores."""

    aspect: str  # what was judged
    id: str  # which example
    value: float | None  # the score, of a label its number; `None` if unscored
    fields: dict[str, Any]  # the whole line, such as `outcome`, `scale` and `signature` in a run
    text: str = ""  # digest of the text; empty if it is not known


def read_score_lines(
    path: str | Path | Examples, labels: LabelReader | None = None
) -> Iterator[RecordedRow]:
    """Iterate over the lines that `read_scores` reads, in order, replaced ones included.

    A line whose value is a list of labels counts as one line for each label that may apply.

    A data set whose rows hold `metrics` serves as a file of scores too, opened or by its path.
    """
    labels = LabelReader(read_labels(path)) if labels is None else labels
    if not isinstance(path, Examples):
        path = Path(path)
        if holds_metrics(path):
            path = Examples(path, needs_output=False, labels=labels)
    if isinstance(path, Examples):
        for example in path:
            text = text_digest(example) if example.metrics else ""
            for name, value in example.metrics.items():
                yield RecordedRow(name, example.id, value, {}, text)
        return
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
            # lines of a run have a signature, and the positions of labels
            read = labels.numbers(
                "metrics", {aspect: row["value"]}, are_positions="signature" in row
            )
        except FieldError as error:
            raise DataError(f"{where}, {error}") from None
        text = str(row.get("text_digest") or "")
        for name, value in read.items():
            yield RecordedRow(name, id_, _number(value, where), row, text)


def _score_rows(file: Path) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a file of scores that is no run, and log a pair that comes twice.

    Lines that were copied from a run have a signature; there, later ones replace earlier ones.
    """
    table = open_table(file) if _is_table(file) else JsonLines(file)
    seen: dict[tuple[Any, Any], int] = {}
    again: list[str] = []
    for number, row in table.rows():
        if isinstance(row, dict) and "signature" not in row:
            pair = row.get("id"), row.get("aspect")
            first = seen.setdefault(pair, number) if _is_hashable(pair) else number
            if first != number:
                again.append(f"{pair[0]!r} on {pair[1]!r} in {table.unit}s {first} and {number}")
            value = row.get("value")
            if table.decimal is not None and isinstance(value, str):
                row = {**row, "value": _value_in_cell(value, table.decimal)}
        yield number, row
    if again:
        _log.warning(
            "%s scores %d texts again, such as %s; the last score counts",
            file,
            len(again),
            again[0],
        )


def _is_hashable(pair: tuple[Any, Any]) -> bool:
    return all(isinstance(one, str | int | float | None) for one in pair)


def _value_in_cell(text: str, decimal: str) -> Any:
    """Return the number in a cell, `None` for an empty one, or else the label."""
    number = finite(text.replace(",", ".") if decimal == "," else text)
    return number if number is not None else text if text.strip() else None


def _is_table(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(_TABLES)


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
        return False  # whoever reads the file next says what is wrong with it
    return isinstance(first, dict) and "metrics" in first and "aspect" not in first


def _run_rows(file: Path) -> Iterator[tuple[int, Any]]:
    """Read a run's lines by the rules of the journal that wrote them."""
    try:
        for number, line in read_lines(file):
            yield number, parse_row(file, number, line)
    except StorageError as error:
        raise DataError(str(error)) from error


def _name(row: dict[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    # other tools write numeric ids; bool is a subclass of int and would become "True"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
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


class HasScores(Protocol):
    """What holds the scores of a run, such as `textassay.Run`."""

    @property
    def scores(self) -> Iterable[Score]:
        """All scores, later ones replacing earlier ones of the same id and aspect."""


def as_recorded(
    scores: Recorded | HasScores | str | Path,
    labels: LabelReader | None = None,
    *,
    level_features: bool = False,
) -> Recorded:
    """Return values by aspect and id of a run, a path, or values that are so already."""
    if isinstance(scores, str | Path):
        return read_judge(scores, labels)
    if isinstance(scores, Mapping):
        return scores
    columns = RecordedScores()
    for score in scores.scores:
        columns.setdefault(score.aspect, {})[score.id] = score.value
        if score.text_digest:
            columns.texts[score.id] = score.text_digest
        _add_criteria(columns, score.id, score.evidence)
        columns.add_samples(score.aspect, score.id, score.evidence)
        if level_features and score.how == "decision":
            _add_level_features(columns, score.aspect, score.id, score.evidence, score.scale)
    return columns


def level_shares(evidence: Iterable[Any], scale: Sequence[float] | None) -> dict[float, float]:
    """Return the probability of each level on the scale; empty if the evidence has none.

    Levels are named by their numbers; labels have their places as numbers.
    """
    pairs = [
        (str(piece["text"]), float(piece["probability"]))
        for piece in evidence
        if isinstance(piece, Mapping)
        and "text" in piece
        and isinstance(piece.get("probability"), int | float)
    ]
    if scale is None or len(pairs) < 2:
        return {}
    low, high = map(float, scale)
    numbers = [finite(name) for name, _ in pairs]
    if all(number is not None and low <= number <= high for number in numbers):
        return {n: p for n, (_, p) in zip(numbers, pairs, strict=True) if n is not None}
    if len(pairs) == high - low + 1:
        return {low + place: p for place, (_, p) in enumerate(pairs)}
    return {}


def _add_level_features(
    scores: Recorded, aspect: str, id_: str, evidence: Iterable[Any], scale: Any
) -> None:
    """Add the probability of the highest level, and the entropy, of a rating that has them."""
    ends = scale if isinstance(scale, list | tuple) and len(scale) == 2 else None
    shares = level_shares(evidence, ends)
    names = level_feature_names(aspect)
    if not shares:
        for name in names:  # a later line of the same text replaces the earlier one
            scores.get(name, {}).pop(id_, None)
        return
    entropy = -math.fsum(p * math.log(p) for p in shares.values() if p > 0)
    for name, value in zip(names, (shares[max(shares)], entropy), strict=True):
        scores.setdefault(name, {})[id_] = value


def level_feature_names(aspect: str) -> tuple[str, str]:
    """Return the columns of a rating's probabilities: that of its highest level, its entropy."""
    highest, entropy = LEVEL_FEATURES
    return f"{aspect}{highest}", f"{aspect}{entropy}"


def criterion_id(example: str, criterion: str) -> str:
    """Return the id of the verdict on one criterion of an example."""
    return f"{example}#criterion-{criterion}"


def criterion_names(tags: Iterable[str]) -> list[str]:
    """Return what a verdict on a criterion counts for: all criteria, and those with its tags."""
    return [CRITERIA, *(f"{CRITERIA}: {tag}" for tag in tags)]


def is_of_criteria(aspect: str) -> bool:
    """Return whether a score or human aspect is that of verdicts on criteria."""
    return aspect == CRITERIA or aspect.startswith(f"{CRITERIA}: ")


def _add_criteria(scores: Recorded, example: str, evidence: Iterable[Any]) -> None:
    """Add the verdicts on the criteria of a rubric that the evidence of a score has."""
    for piece in evidence:
        if isinstance(piece, Mapping) and "criterion" in piece and "met" in piece:
            met = piece["met"]
            for name in criterion_names(piece.get("tags") or ()):
                own = scores.setdefault(name, {})
                own[criterion_id(example, piece["criterion"])] = None if met is None else float(met)


def pair_names(
    scores: Mapping[str, object],
    human: tuple[str, ...],
    aspect_map: AspectMap,
) -> list[tuple[str, str]]:
    """Return (score, human aspect), each pair once, in order of scores."""
    if not human:
        raise DataError(
            "the data contain no human ratings; give them in the field 'human', or on the command"
            " line in a file of their own (ratings=FILE)"
        )
    mapped = _by_score(aspect_map)
    for score, targets in mapped.items():
        if score not in scores and not _has_members(score, scores):
            raise UnknownName("score in the aspect map", score, list(scores))
        for target in targets:
            if target not in human and not _has_members(target, human):
                raise UnknownName("human aspect in the aspect map", target, human)
    for score, targets in list(mapped.items()):
        # an aspect of several labels stands for its labels
        for name in scores if score not in scores else ():
            label = name.removeprefix(f"{slug(score)}/")
            mapped[name] = [f"{slug(target)}/{label}" for target in targets if label != name]
    pairs = {
        (score, target): None
        for score in scores
        for target in mapped.get(score, [score])
        if target in human
    }
    if not pairs:
        raise ConfigurationError(
            f"no score has the name of a human aspect: scores {', '.join(scores)}; human aspects"
            f" {', '.join(human)}; say which belong together with aspect_map=SCORE=HUMAN"
        )
    return list(pairs)


def _has_members(name: str, names: Iterable[str]) -> bool:
    return any(one.startswith(f"{slug(name)}/") for one in names)


Scores = TypeVar("Scores", bound=Mapping[str, object])


def read_with_labels(
    read_scores: Callable[[LabelReader], Scores],
    open_people: Callable[[LabelReader], Examples],
    labels: LabelSets,
    aspect_map: AspectMap = (),
) -> tuple[Scores, Examples, LabelSets]:
    """Read scores and ratings of people, whose words are labels even if nobody declared them.

    Which words there are is known when all is read; then it is read once more. They are numbered in
    the order of the alphabet.
    """
    judge, human = _readers(labels, aspect_map)
    scores, examples = read_scores(judge), open_people(human)
    rated = examples.check().human
    words = {
        side: own
        for reader, field in ((judge, "metrics"), (human, "human"))
        for side, own in reader.categories.items()
        if side[0] == field
    }
    if not words:
        return scores, examples, labels
    mapped = _by_score(aspect_map)
    names = {*scores, *(name for field, name in words if field == "metrics")}
    pairs = [(one, other) for one in names for other in mapped.get(one, [one]) if other in rated]
    labels = {**labels, **_words_in_common(words, pairs)}
    judge, human = _readers(labels, aspect_map)
    return read_scores(judge), open_people(human), labels


def _readers(labels: LabelSets, aspect_map: AspectMap) -> tuple[LabelReader, LabelReader]:
    """Return what reads the labels of scores, and what reads those of people."""
    both = labels, labels_of_people(labels, aspect_map)
    judge, human = (LabelReader(one, any_word=True) for one in both)
    return judge, human


def _words_in_common(
    words: dict[tuple[str, str], dict[str, str]], pairs: Iterable[tuple[str, str]]
) -> dict[str, LabelScale]:
    """Return all words of each score and of what it is paired with, if there are any."""
    wordy = []
    for score, human in pairs:
        sides = ("metrics", score), ("human", human)
        known = [side for side in sides if side in words]
        if len(known) == 1:
            (other,) = set(sides) - set(known)
            raise DataError(
                f"{known[0][1]!r} has labels such as {min(words[known[0]].values())!r}, and"
                f" {other[1]!r} has none of them: pair labels with labels"
            )
        if known:
            wordy.append(sides)
    for sides in (*wordy, *wordy):  # twice, as a score and an aspect may be in several pairs
        both = words[sides[1]] | words[sides[0]]  # spelled as the judge does
        words |= dict.fromkeys(sides, both)
    return {
        score: LabelScale(tuple(sorted(words["metrics", score].values(), key=str.casefold)))
        for (_, score), _ in wordy
    }


def labels_of_task(aspects: Iterable[Aspect], aspect_map: AspectMap = ()) -> dict[str, LabelScale]:
    """Return the labels of scores that are held against a task's aspects, by name of the score."""
    scores: dict[str, list[str]] = {}
    for score, human in map_entries(aspect_map):
        scores.setdefault(human, []).append(score)
    found: dict[str, LabelScale] = {}
    for aspect in aspects:
        for score in scores.get(aspect.name, [aspect.name]):
            if (scale := aspect.label_scale) is not None:
                found[score] = scale
            found |= {
                member_name(score, label): YES_NO for label in aspect.labels if aspect.multiple
            }
    return found


def labels_of_people(
    labels: Mapping[str, LabelScale], aspect_map: AspectMap = ()
) -> dict[str, LabelScale]:
    """Return the labels that human ratings may be, by human aspect, for those of scores."""
    mapped = _by_score(aspect_map)
    return {human: scale for score, scale in labels.items() for human in mapped.get(score, [score])}


def _by_score(aspect_map: AspectMap) -> dict[str, list[str]]:
    mapped: dict[str, list[str]] = {}
    for score, human in map_entries(aspect_map):
        mapped.setdefault(score, []).append(human)
    return mapped


def map_entries(aspect_map: AspectMap) -> Iterable[tuple[str, str]]:
    """Yield each SCORE=HUMAN of an aspect map as a pair."""
    if isinstance(aspect_map, Mapping):
        yield from aspect_map.items()
        return
    for entry in [aspect_map] if isinstance(aspect_map, str) else aspect_map:
        # from the right: names of scores may hold "=", those of human aspects do not
        score, equals, target = entry.rpartition("=")
        if not (score and equals and target):
            raise ConfigurationError(f"the aspect map takes SCORE=HUMAN, not {entry!r}")
        yield score.strip(), target.strip()


Human = dict[str, float | None]
Annotators = dict[str, tuple[float | None, ...]]


class People:
    """Ids, systems, sources and human ratings of a data set, as columns.

    Attributes:
        ids: Id of each row, length n.
        systems: Who made each row, length n.
        groups: The source of each row, length n: its group, or else the source text that it shares
            with other rows (`source_names`); `None` for a row that is a source of its own.
        words: Number of words of each output, length n.
        texts: Digest of each text, length n; empty for a row without one. See `text_digest`.
        other_texts: Ids of rows that were left out, since another text was judged under them.
        annotators: Single ratings of each row by aspect, length n.
        paired: Whether each row is a pair of texts, length n.
        by: The field that the data are divided by; `None` if they are not.
        subsets: What each row has in that field, length n.
        aspects: All human aspects.
    """

    def __init__(self, data: Any, *, criteria: bool = False, by: str | None = None) -> None:
        """Read a data set, whose subsets are those of the field `by`."""
        self.ids: list[str] = []
        self.systems: list[str | None] = []
        self.groups: list[str | None] = []
        self.words: list[int] = []
        self.texts: list[str] = []
        self.other_texts: tuple[str, ...] = ()
        self.annotators: list[Annotators] = []
        self.paired: list[bool] = []
        self.subsets: list[str | None] = []
        self.by = by
        self._examples: list[str] = []  # id of each row's example, of which criteria are rows, too
        self._human: list[Human] = []
        self._probabilities: list[float | None] = []
        examples = data if isinstance(data, Examples) else Examples(data, needs_output=False)
        self._reader, self._names = examples.labels, examples.rater_names
        listed: dict[tuple[str, ...], None] = {}
        groups: list[str | None] = []
        sources: dict[str, str | None] = {}
        for example in examples:
            groups.append(example.group)
            sources[example.id] = source_digest(example)
            human, annotators = dict(example.human), dict(example.annotators)
            if annotators and isinstance(own_names := example.meta.get("raters"), list):
                listed[tuple(map(str, own_names))] = None
            _add_members(human, annotators, examples.labels.declared)
            self._add(example, example.id, human, annotators)
            for criterion in example.rubric if criteria else ():
                verdict = None if criterion.human is None else nearest_label(criterion.human)
                if verdict is not None:
                    own: Human = dict.fromkeys(criterion_names(criterion.tags), verdict)
                    self._add(example, criterion_id(example.id, criterion.id), own, {})
        named = dict(zip(sources, source_names(groups, list(sources.values())), strict=True))
        self.groups = [named[example] for example in self._examples]
        names = [name for human in self._human for name in human]
        names += [name for annotators in self.annotators for name in annotators]
        self.aspects = tuple(dict.fromkeys(names))
        # `annotate` writes them into each row; names that change from row to row name no column
        self._listed = next(iter(listed)) if len(listed) == 1 else ()

    def of_texts(self, judged: Mapping[str, str]) -> People:
        """Return the rows that belong to scores: all but those of other texts under the same ids.

        Rows without a text, and rows whose judged text is not recorded, belong to the score with
        their id.

        Args:
            judged: Digest of the judged text by id, as `texts_of` returns it.
        """
        kept = [
            not text or judged.get(example, text) == text
            for example, text in zip(self._examples, self.texts, strict=True)
        ]
        if all(kept):
            return self
        part = copy(self)
        for name, column in vars(self).items():
            if isinstance(column, list):
                setattr(part, name, list(compress(column, kept)))
        other = set(compress(self._examples, map(not_, kept)))
        part.other_texts = (*self.other_texts, *sorted(other))
        return part

    def count_without_text(self, judged: Mapping[str, str]) -> int:
        """Return how many rated rows have no text, where the judged text is recorded."""
        rows = zip(self._examples, self.texts, self._human, self.annotators, strict=True)
        return sum(
            not text and example in judged and bool(human or single)
            for example, text, human, single in rows
        )

    def _add(self, example: Example, id_: str, human: Human, annotators: Annotators) -> None:
        self.ids.append(id_)
        self._examples.append(example.id)
        self.systems.append(example.system)
        self.words.append(len(example.output.split()))
        self.texts.append(text_digest(example))
        self._human.append(human)
        self.annotators.append(annotators)
        self.paired.append(example.meta.get(OTHER_OUTPUT) is not None)
        self.subsets.append(_subset(example, self.by))
        drawn = example.meta.get(SAMPLING_PROBABILITY)
        self._probabilities.append(check_probability(example.id, drawn))

    def only(self, subset: str) -> People:
        """Return the rows of one subset."""
        made, kept = copy(self), [one == subset for one in self.subsets]
        for name, column in vars(self).items():
            if isinstance(column, list):
                setattr(made, name, list(compress(column, kept)))
        return made

    @property
    def has_groups(self) -> bool:
        """Whether any row says what it has in common with others."""
        return any(group is not None for group in self.groups)

    def groups_of(self, aspect: str) -> list[str | None] | None:
        """Return the source of each row; criteria of one example are of one source."""
        if not is_of_criteria(aspect):
            return self.groups if self.has_groups else None
        return [
            id_.rpartition("#criterion-")[0] if group is None else group
            for id_, group in zip(self.ids, self.groups, strict=True)
        ]

    def ratings(self, aspect: str) -> Floats:
        """Return mean ratings, shape (n,); a row without a mean has that of its annotators."""
        return np.array(
            [
                _mean(human.get(aspect), annotators.get(aspect, ()))
                for human, annotators in zip(self._human, self.annotators, strict=True)
            ]
        )

    def raters(self, aspect: str) -> Floats:
        """Return single ratings, shape (n, raters), NaN in the gaps."""
        return rating_table([annotators.get(aspect, ()) for annotators in self.annotators])

    def rater_names(self, aspect: str) -> tuple[str, ...]:
        """Return the raters' names in order of the columns of `raters`; numbers if unknown."""
        known = self._names(aspect) or self._listed
        width = self.raters(aspect).shape[1]
        return known if len(known) == width else tuple(str(at + 1) for at in range(width))

    def rated(self, aspect: str) -> list[bool]:
        """Return whether anybody rated each row."""
        return [
            any(one is not None for one in (human.get(aspect), *single.get(aspect, ())))
            for human, single in zip(self._human, self.annotators, strict=True)
        ]

    def labels(self, aspect: str, scale: LabelScale) -> list[float | None] | None:
        """Return the label that people gave each text; `None` if some are no labels."""
        single = [one.get(aspect, ()) for one in self.annotators]
        return labels_given(single, [one.get(aspect) for one in self._human], scale)

    def yes_no_words(self, aspect: str) -> LabelScale:
        """Return the words for no and yes that people used."""
        return LabelScale(self._reader.pair("human", aspect) or YES_NO.names)

    def probabilities(self, plan: Mapping[str, float] | None) -> Floats | None:
        """Return each row's probability of being drawn for rating; `None` if no row has one."""
        given = self._probabilities if plan is None else [plan.get(id_) for id_ in self.ids]
        if all(one is None for one in given):
            return None
        return np.array(given, float)

    def check_levels(self, levels: Collection[Level]) -> None:
        """Raise if a row with ratings lacks what a level needs."""
        for level, labels in (("group", self.groups), ("system", self.systems)):
            if level not in levels:
                continue
            if all(label is None for label in labels):
                raise ConfigurationError(
                    f"level {level!r} needs the field {level!r} in the data, and no example has it"
                )
            for id_, label, human in zip(self.ids, labels, self._human, strict=True):
                if label is None and human:
                    raise DataError(
                        f"level {level!r} needs the field {level!r} in the data; example {id_!r}"
                        " has none"
                    )


MAX_SUBSETS = 100
"""Most values of a field that data are divided by: of ids or sources no table can be read."""


def subset_names(*sides: People) -> list[str]:
    """Return the values of the field that data are divided by, in order of the alphabet."""
    names = sorted({one for people in sides for one in people.subsets if one is not None})
    by = sides[0].by
    if not names:
        raise ConfigurationError(
            f"by={by!r} divides the data by a field, and no example has a field of that name"
        )
    if len(names) > MAX_SUBSETS:
        raise ConfigurationError(
            f"by={by!r} would divide the data into {len(names)} subsets, and at most {MAX_SUBSETS}"
            " can be read"
        )
    return names


def _subset(example: Example, by: str | None) -> str | None:
    """Return what an example has in a field of its own or of ours, as text."""
    if by is None:
        return None
    name = by.removeprefix("meta.")
    value = getattr(example, name) if name in ("system", "group") else example.meta.get(name)
    return None if value is None else str(value)


def _add_members(human: Human, annotators: Annotators, declared: Mapping[str, LabelScale]) -> None:
    """Add a column of 0 and 1 for each label of an aspect whose labels have no order."""
    for name, scale in declared.items():
        for at, label in enumerate(scale.names if scale.is_nominal else ()):
            own = member_name(name, label)
            if (rating := human.get(name)) is not None:
                human[own] = float(rating == at)
            if name in annotators:
                annotators[own] = tuple(
                    None if one is None else float(one == at) for one in annotators[name]
                )


def _mean(human: float | None, annotators: tuple[float | None, ...]) -> float:
    if human is not None:
        return human
    given = [one for one in annotators if one is not None]
    return math.fsum(given) / len(given) if given else math.nan


def check_probability(id_: str, value: Any) -> float | None:
    """Return a sampling probability as a number; `None` if there is none."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    # NaN fails this comparison too; 0 would be divided by
    if not 0 < number <= 1:
        raise DataError(
            f"example {id_!r}: {SAMPLING_PROBABILITY} must be above 0 and at most 1, not {value!r}"
        )
    return number


def refuse_other_data(scored: Iterable[str], people: People) -> None:
    """Raise unless some text is in both: nearly always these are two files of different data."""
    if {*scored} & {*people.ids}:
        return
    if people.other_texts:
        raise DataError(
            f"the data have other texts than were judged: {len(people.other_texts)} rows have ids"
            f" of the scores ({some_ids(people.other_texts)}), and none of them has the text that"
            " was judged, so their ratings are of something else; give the data that were judged"
        )
    raise DataError(
        f"no id occurs in both scores and data: the scores have {some_ids(scored)}, the data"
        f" {some_ids(people.ids)}; give the data that were scored"
    )


def text_notes(other_texts: Collection[str], without_text: int = 0) -> Iterator[Note]:
    """Yield how many rows are left out because another text was judged under their ids.

    And how many ratings may be of any text, since their rows have none.
    """
    if without_text:
        yield Note(
            f"{without_text} rated rows have no text: that their ratings are of the judged texts is"
            " known from the ids alone"
        )
    if other_texts:
        yield Note(
            f"{len(other_texts)} rows of the data have other texts than were judged under their ids"
            f" ({some_ids(other_texts)}); they and their ratings were left out",
            warning=True,
        )


def some_ids(ids: Iterable[str]) -> str:
    """Return up to three ids as text."""
    shown = sorted(ids)[:3]
    return ", ".join(map(repr, shown)) + ", ..." if shown else "none"
