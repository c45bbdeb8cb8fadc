"""Ratings from and to other annotation tools: Label Studio and plain CSV.

Every format is read into the same rows: example, aspect, rater and rating. Formats carry the
raters' user names or numbers; they become pseudonyms `r1`, `r2`, ... in order of appearance.

References:
    Label Studio, "Export annotations" (JSON, JSON-MIN, CSV, TSV) and "Label Studio JSON format of
    annotated tasks".
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from textassay.agents.prompt_template import Task
from textassay.annotate.ratings import to_row
from textassay.annotate.study import RatingQuestion
from textassay.runtime.data.cells import FieldError, advice
from textassay.runtime.data.material import is_running_text
from textassay.runtime.data.numerals import NumeralError, PercentColumns, value_in_cell
from textassay.runtime.data.other_tools import read_text
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.data.separated import Csv
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import NONE_OF_THEM, LabelSets, find_pair, majority
from textassay.runtime.messages import Example

ImportedRating = float | str | tuple[str, ...] | None
TEXTS = ("source", "context", "output")
"""Fields of an example that raters are shown."""


@dataclass(frozen=True, slots=True)
class ImportedRatings:
    """One rating by one person."""

    id: str
    aspect: str
    """The rated aspect."""
    rater: str
    """Name in the other tool."""
    value: ImportedRating
    """A number, a label, or several labels; `None` if the rater declined."""


class ReadRatings(NamedTuple):
    """The content of an export."""

    rows: list[dict[str, Any]]
    """A row per example, with `id`, `human`, `annotators` and `raters`."""
    notes: list[str]
    """Notes for the user, such as left-out entries, in sentences."""


class LeftOut:
    """Counts the entries of an export that are not ratings of a text."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._notes: dict[str, None] = {}

    def add(self, kind: str) -> None:
        """Count one more result of a kind, such as `comment (textarea)`."""
        self._counts[kind] += 1

    def say(self, sentence: str) -> None:
        """Add a note, once."""
        self._notes[sentence] = None

    @property
    def notes(self) -> list[str]:
        """Sentences for the user."""
        listed = ", ".join(f"{kind}: {count:,}" for kind, count in self._counts.items())
        return [*([f"left out (not ratings of texts): {listed}"] if listed else []), *self._notes]


def read(name: str, path: str | Path, labels: LabelSets | None = None) -> ReadRatings:
    """Read another tool's export.

    Raises:
        UnknownName: There is no such format.
        DataError: The file cannot be read, holds no ratings, or mixes numbers and words.
    """
    if name not in FORMATS:
        raise UnknownName("format", name, list(FORMATS))
    path, left_out = Path(path), LeftOut()
    try:
        rated = list(FORMATS[name][0](path, left_out, labels or {}))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} is not a {name} export: {error!r}") from error
    if not rated:
        notes = "".join(f"; {note}" for note in left_out.notes)
        raise DataError(f"{path} contains no ratings in the {name} format{notes}")
    again = len(rated) - len({(row.id, row.aspect, row.rater) for row in rated})
    if again:
        left_out.say(f"raters rated a text again: the last of their ratings counts ({again:,})")
    _check_one_kind(path, rated, labels or {})
    rows, reader = merge_raters(rated), LabelReader(labels)
    for row in rows:
        try:
            reader.numbers("annotators", row["annotators"])
        except FieldError as error:
            raise DataError(f"{path}, the example {row['id']!r}, {error}") from None
    return ReadRatings(rows, left_out.notes)


def _check_one_kind(path: Path, rated: Iterable[ImportedRatings], labels: LabelSets) -> None:
    """Refuse words among the numbers of an aspect, such as `4,5` or `N/A`."""
    number_of: dict[str, ImportedRatings] = {}
    word_of: dict[str, ImportedRatings] = {}
    for row in rated:
        if row.aspect not in labels and isinstance(row.value, float | str):
            first_of = number_of if isinstance(row.value, float) else word_of
            first_of.setdefault(row.aspect, row)
    for aspect, word in word_of.items():
        if aspect in number_of:
            raise DataError(
                f"{path}: the example {word.id!r} is rated {word.value!r} on {aspect!r}, and others"
                f" by numbers{advice(str(word.value))}"
            )


def merge_raters(rated: Iterable[ImportedRatings]) -> list[dict[str, Any]]:
    """Return one row per example with the raters in a fixed order.

    A later rating replaces an earlier. For labels without numbers, `human` is the label that most
    raters chose; there is none for several labels.
    """
    raters: dict[str, int] = {}
    values: dict[str, dict[str, dict[int, ImportedRating]]] = {}
    for row in rated:
        # numbers hide the names that other tools export, which are often names of persons
        number = raters.setdefault(row.rater, len(raters))
        values.setdefault(row.id, {}).setdefault(row.aspect, {})[number] = row.value
    # one label is written like one of several, so all ratings of the aspect decide
    sets = {
        aspect
        for aspects in values.values()
        for aspect, by_rater in aspects.items()
        if any(isinstance(rating, tuple) for rating in by_rater.values())
    }
    rows = []
    for name, aspects in values.items():
        annotators: dict[str, list[Any]] = {}
        for aspect, by_rater in aspects.items():
            votes = [by_rater.get(number) for number in range(len(raters))]
            annotators[aspect] = [_as_set(rating) for rating in votes] if aspect in sets else votes
        means = {aspect: _middle(ratings) for aspect, ratings in annotators.items()}
        rows.append(
            {
                "id": name,
                "human": {aspect: mean for aspect, mean in means.items() if mean is not None},
                "annotators": annotators,
                "raters": [f"r{number + 1}" for number in range(len(raters))],
            }
        )
    return rows


def with_examples(
    rows: Sequence[Mapping[str, Any]], examples: Iterable[Example]
) -> list[dict[str, Any]]:
    """Return the rows with the texts of their examples."""
    by_id = {example.id: example for example in examples}
    lacking = [row["id"] for row in rows if row["id"] not in by_id]
    if lacking:
        raise DataError(f"{len(lacking)} rated ids are not in the data, such as {lacking[0]!r}")
    return [to_row(by_id[row["id"]], row) for row in rows]


def write(name: str, examples: Iterable[Example], task: Task, folder: Path) -> list[Path]:
    """Write the examples as tasks for another tool; return the files.

    Neither systems nor scores are written: raters see what textassay's own page shows.
    """
    if name not in FORMATS:
        raise UnknownName("format to export", name, list(FORMATS))
    examples = list(examples)
    if any(example.images for example in examples):
        raise ConfigurationError(
            "tasks for other tools have only texts, and some examples have images; rate them with"
            " `textassay annotate`"
        )
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for file_name, text in FORMATS[name][1](examples, task).items():
        (folder / file_name).write_text(text, encoding="utf-8")
        files.append(folder / file_name)
    return files


def _as_set(rating: ImportedRating) -> list[str] | None:
    if rating is None:
        return None
    return list(rating) if isinstance(rating, tuple) else [str(rating)]


def _middle(ratings: Sequence[Any]) -> float | str | None:
    """Return the mean of numbers, or the label that most chose; `None` for ties and sets."""
    present = [value for value in ratings if value is not None]
    if not present or any(isinstance(value, list) for value in present):
        return None
    if all(isinstance(value, float) for value in present):
        return math.fsum(present) / len(present)
    return majority(map(str, present))


def _rating(value: object) -> ImportedRating:
    """Return a number, a label, or several labels."""
    if isinstance(value, list):
        labels = tuple(str(label).strip() for label in value)
        if len(labels) != 1:
            return () if NONE_OF_THEM in labels else labels
        value = labels[0]
    value = value.strip() if isinstance(value, str) else value
    if value == "":
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except ValueError:
        word = str(value)
        parts = tuple(part.strip() for part in word.split(";") if part.strip())
        return () if word == NONE_OF_THEM else parts[0] if len(parts) == 1 else parts
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a rating")
    return number


# ---- CSV: one line per rating ----


def _read_csv(path: Path, left_out: LeftOut, labels: LabelSets) -> Iterator[ImportedRatings]:
    table, percents = Csv(path), PercentColumns()
    for number, row in table.rows():
        if lacking := [name for name in ("id", "aspect", "rater", "value") if name not in row]:
            columns = ", ".join(row)
            raise table.error(number, f"has no column {lacking[0]!r}; it has: {columns}")
        try:
            value = value_in_cell(row["value"], table.decimal, row["aspect"], percents)
        except NumeralError as error:
            raise table.error(number, f"field 'value': {error}") from None
        rating = None if value is None else _rating(value)
        yield ImportedRatings(row["id"], row["aspect"], row["rater"], rating)


def _write_csv(examples: list[Example], task: Task) -> dict[str, str]:
    table = io.StringIO()
    columns = ["id", "aspect", "rater", "value", "definition", "scale", *TEXTS]
    rows = csv.DictWriter(table, columns, restval="", lineterminator="\n")
    rows.writeheader()
    for example in examples:
        texts = {field: _cell(text) for field, text in _texts(example).items()}
        for question in _questions(task):
            ends = f"{question.values[0]:g} to {question.values[-1]:g}"
            if question.labels:
                ends = " or ".join(_choices(question))
                ends += " (several: a; b)" if question.kind == "several" else ""
            about = {"aspect": question.aspect, "definition": _define(question), "scale": ends}
            rows.writerow({"id": example.id, **about, **texts})
    return {"ratings.csv": table.getvalue()}


def _cell(text: str) -> str:
    """Return a text that spreadsheets do not interpret as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


# ---- Label Studio ----


OUR_ID = "textassay_id"
"""Key of the tasks' data that holds an example's id: JSON-MIN and CSV put Label Studio's own number
in the place of `id`."""
_OF_THE_TOOL = frozenset({
    "id", OUR_ID, "annotator", "annotation_id", "created_at", "updated_at", "lead_time",
    "agreement", "draft", "comments",
})  # fmt: skip
"""Columns of JSON-MIN, CSV and TSV that hold neither texts nor answers."""
_REGION = frozenset({"start", "end", "x", "y", "points", "ranges", "item_index"})
"""Keys of the region of a result that is not about the whole text."""
_SIDES = {"left": 1.0, "right": 0.0}
"""Preference for the first text by choice in a `<Pairwise>`."""


def _read_label_studio(
    path: Path, left_out: LeftOut, labels: LabelSets
) -> Iterator[ImportedRatings]:
    text = read_text(path)
    if not text.lstrip().startswith(("[", "{")):
        rows = [row for _, row in Csv(path).rows()]
        return _of_columns(rows, left_out, labels)
    tasks = _tasks(text)
    if any("annotations" not in task for task in tasks):
        return _of_columns(tasks, left_out, labels)
    return _of_annotations(tasks, left_out)


def _tasks(text: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON list, or of JSON Lines."""
    if text.lstrip().startswith("["):
        listed: list[dict[str, Any]] = json.loads(text)
        return listed
    # texts may hold U+2028, at which `splitlines` would split
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _of_annotations(
    tasks: Iterable[dict[str, Any]], left_out: LeftOut
) -> Iterator[ImportedRatings]:
    """Yield the ratings of an export as JSON."""
    data_of: dict[str, dict[str, Any]] = {}
    for task in tasks:
        id_ = _id_of(task["data"], task.get("id"), left_out)
        if data_of.setdefault(id_, task["data"]) != task["data"]:
            raise DataError(f"two tasks have the id {id_!r} and different data; give each its own")
        for number, annotation in enumerate(task["annotations"], start=1):
            if not isinstance(annotation, dict):
                raise DataError("it names annotations by number; export them as JSON")
            # a skipped task contains the clicks before the rater skipped it
            if annotation.get("was_cancelled"):
                left_out.add("skipped tasks")
                continue
            user = annotation.get("completed_by")
            if isinstance(user, dict):
                user = next((user[key] for key in ("id", "email", "username") if user.get(key)), 0)
            rater = str(user)
            if not user:
                left_out.say("annotators have no names: the first of each text count as one")
                rater = f"annotation {number}"
            for aspect, rating in _of_results(annotation.get("result") or (), left_out):
                yield ImportedRatings(id_, aspect, rater, rating)


def _of_results(
    results: Iterable[dict[str, Any]], left_out: LeftOut
) -> Iterator[tuple[str, ImportedRating]]:
    """Yield one rater's ratings of one text, without ratings of its regions or items."""
    for result in results:
        name, kind = result.get("from_name"), result.get("type", "other")
        value = result.get("value")
        value = value if isinstance(value, dict) else {}
        answer = _answer(value)
        if answer is None or name is None:
            left_out.add(f"{name} ({kind})" if name else f"{kind}s")
        elif not _REGION.isdisjoint((*value, *result)):
            left_out.add(f"{name} (of regions)")
        else:
            yield name, _rating(answer)


def _answer(value: Mapping[str, Any]) -> Any:
    """Return the rating, the number or the labels in a result's value; `None` if it has none."""
    if "selected" in value:
        return _SIDES.get(value["selected"], value["selected"])
    if isinstance(value.get("taxonomy"), list):
        return ["/".join(map(str, path)) for path in value["taxonomy"]]
    return next((value[key] for key in ("rating", "number", "choices") if key in value), None)


def _of_columns(
    rows: Iterable[Mapping[str, Any]], left_out: LeftOut, labels: LabelSets
) -> Iterator[ImportedRatings]:
    """Yield the ratings of JSON-MIN, CSV or TSV, which have a column for each question.

    Numbers, choices, words for yes and no, and the task's labels are ratings.
    """
    for row in rows:
        if "annotator" not in row:
            raise DataError(
                "this is no export of ratings from Label Studio, or an old one: a task has neither"
                " 'annotations' nor an 'annotator'; export it as JSON"
            )
        id_ = _id_of(row, row.get("id"), left_out)
        for name, cell in row.items():
            if name in _OF_THE_TOOL or name in TEXTS or cell in (None, ""):
                continue
            value = _parse_cell(cell)
            # a rating or a number is a list of one object for each region; a text is one
            if _is_listed_object(value) and len(value) == 1:
                value = value[0]
            # several choices are an object; a list of texts was written by a rater
            words = value if isinstance(value, list) and value else [value]
            are_texts = all(isinstance(word, str) and find_pair(word) is None for word in words)
            is_word = are_texts and name not in labels
            if isinstance(value, Mapping):
                value = _answer(value) if _REGION.isdisjoint(value) else None
            if is_word and not is_running_text(value):
                left_out.say("words are ratings only if a task names the labels (task=FILE)")
            if value is None or is_word or _is_listed_object(value):
                left_out.add(f"{name} (texts and regions)")
                continue
            yield ImportedRatings(id_, name, str(row["annotator"]), _rating(value))


def _is_listed_object(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _parse_cell(cell: Any) -> Any:
    """Return the number or the JSON that a cell holds as text."""
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except ValueError:
        return _SIDES.get(cell, cell)


def _id_of(data: Mapping[str, Any], number: Any, left_out: LeftOut) -> str:
    """Return an example's id, or else the number of Label Studio's task."""
    if OUR_ID in data:
        return str(data[OUR_ID])
    if data.get("id") in (None, "") or data.get("id") == number:
        left_out.say("ids are the numbers of Label Studio's tasks, since the data have none")
    return str(number if data.get("id") in (None, "") else data["id"])


def _write_label_studio(examples: list[Example], task: Task) -> dict[str, str]:
    tasks = [{"data": {"id": e.id, OUR_ID: e.id, **_texts(e)}} for e in examples]
    lines = ["<View>"]
    for field, label in _labels(examples, task):
        lines += [
            f"  <Header value={_quote(label)}/>",
            f'  <Text name="{field}" value="${field}"/>',
        ]
    for question in _questions(task):
        name = _quote(question.aspect)
        lines.append(f"  <Header value={name}/>")
        lines.append(f"  <Text name={_quote(question.aspect + '-definition')} "
                     f"value={_quote(_define(question))}/>")  # fmt: skip
        kind = "multiple" if question.kind == "several" else "single"
        lines.append(f'  <Choices name={name} toName="output" choice="{kind}" required="true">')
        lines += [f"    <Choice value={_quote(choice)}/>" for choice in _choices(question)]
        lines.append("  </Choices>")
    lines.append("</View>")
    listed = json.dumps(tasks, ensure_ascii=False, indent=2)
    return {"tasks.json": f"{listed}\n", "config.xml": "\n".join(lines) + "\n"}


def _quote(text: str) -> str:
    return f'"{html.escape(text, quote=True)}"'


ExportReader = Callable[[Path, LeftOut, LabelSets], Iterator[ImportedRatings]]
Writer = Callable[[list[Example], Task], dict[str, str]]
FORMATS: Mapping[str, tuple[ExportReader, Writer]] = {
    "csv": (_read_csv, _write_csv),
    "label-studio": (_read_label_studio, _write_label_studio),
}
"""Readers and writers by name; CSV has the columns `id`, `aspect`, `rater` and `value`, and beside
them, when it is written, the question and the texts."""


def _texts(example: Example) -> dict[str, str]:
    named = {field: getattr(example, field) for field in TEXTS}
    return {field: text for field, text in named.items() if text}


def _labels(examples: list[Example], task: Task) -> list[tuple[str, str]]:
    present = {field for example in examples for field in _texts(example)}
    return [(field, getattr(task, f"{field}_name")) for field in TEXTS if field in present]


def _questions(task: Task) -> list[RatingQuestion]:
    return [RatingQuestion.of(aspect, paired=False) for aspect in task.aspects]


def _define(question: RatingQuestion) -> str:
    """Return an aspect's definition with the meanings of its labels."""
    meanings = "; ".join(f"{name}: {meaning}" for name, meaning in question.labels if meaning)
    return f"{question.definition} ({meanings})" if meanings else question.definition


def _choices(question: RatingQuestion) -> list[str]:
    """Return the raters' choices, by the names of labels."""
    if not question.labels:
        return [f"{value:g}" for value in question.values]
    names = [name for name, _ in question.labels]
    return [*names, NONE_OF_THEM] if question.kind == "several" else names
