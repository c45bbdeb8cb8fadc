"""Ratings from and to other annotation tools: Label Studio, Argilla, Potato and plain CSV.

Every format is read into the same rows: example, aspect, rater and rating. Formats carry the
raters' user names or numbers; they become pseudonyms `r1`, `r2`, ... in order of appearance.

References:
    Label Studio, "Label Studio JSON format of annotated tasks"; Argilla 2, `Record.to_dict`;
    Potato, `annotated_instances.jsonl`.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textassay.agents.prompt_template import Task
from textassay.annotate.ratings import rated_row
from textassay.annotate.study import Question
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.data.tables import FieldError
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import NONE_OF_THEM, LabelSets, majority
from textassay.runtime.messages import Example

Rating = float | str | tuple[str, ...] | None
TEXTS = ("source", "context", "output")
"""Fields of an example that raters are shown."""


@dataclass(frozen=True, slots=True)
class Rated:
    """One rating by one person."""

    id: str
    aspect: str  # what was rated
    rater: str  # name in the other tool
    value: Rating  # a number, a label, or several labels; `None` if the rater declined


def read(name: str, path: str | Path, labels: LabelSets | None = None) -> list[dict[str, Any]]:
    """Return rows with `id`, `human`, `annotators` and `raters` from another tool's export."""
    if name not in FORMATS:
        raise UnknownName("format", name, list(FORMATS))
    try:
        # a spreadsheet's byte order mark would become part of the first column's name
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    try:
        rated = list(FORMATS[name][0](text))
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
        raise DataError(f"{path} is not a {name} export: {error!r}") from error
    if not rated:
        raise DataError(f"{path} contains no ratings in the {name} format")
    rows, reader = merge_raters(rated), LabelReader(labels)
    for row in rows:
        try:
            reader.numbers("annotators", row["annotators"])
        except FieldError as error:
            raise DataError(f"{path}, the example {row['id']!r}, {error}") from None
    return rows


def merge_raters(rated: Iterable[Rated]) -> list[dict[str, Any]]:
    """Return one row per example with the raters in a fixed order.

    A later rating replaces an earlier. Of labels without numbers `human` has what most raters
    chose, and nothing of several labels.
    """
    raters: dict[str, int] = {}
    values: dict[str, dict[str, dict[int, Rating]]] = {}
    for one in rated:
        # numbers hide the names that other tools export, which are often those of persons
        number = raters.setdefault(one.rater, len(raters))
        values.setdefault(one.id, {}).setdefault(one.aspect, {})[number] = one.value
    # one label is written like one of several, so all ratings of the aspect tell
    sets = {
        aspect
        for aspects in values.values()
        for aspect, given in aspects.items()
        if any(isinstance(one, tuple) for one in given.values())
    }
    rows = []
    for name, aspects in values.items():
        annotators: dict[str, list[Any]] = {}
        for aspect, given in aspects.items():
            own = [given.get(number) for number in range(len(raters))]
            annotators[aspect] = [_as_set(one) for one in own] if aspect in sets else own
        means = {aspect: _middle(given) for aspect, given in annotators.items()}
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
    return [rated_row(by_id[row["id"]], row) for row in rows]


def write(name: str, examples: Iterable[Example], task: Task, folder: Path) -> list[Path]:
    """Write the examples as tasks for another tool; return the files.

    Neither systems nor scores are written: raters see what textassay's own page shows.
    """
    if name not in FORMATS:
        raise UnknownName("format to export", name, list(FORMATS))
    examples = list(examples)
    if any(example.images for example in examples):
        raise ConfigurationError(
            "tasks for other tools hold texts only, and some examples have images; rate them with"
            " `textassay annotate`"
        )
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for file_name, text in FORMATS[name][1](examples, task).items():
        (folder / file_name).write_text(text, encoding="utf-8")
        written.append(folder / file_name)
    return written


def _as_set(rating: Rating) -> list[str] | None:
    if rating is None:
        return None
    return list(rating) if isinstance(rating, tuple) else [str(rating)]


def _middle(given: Sequence[Any]) -> float | str | None:
    """Return the mean of numbers, or the label that most chose; `None` of a tie and of sets."""
    present = [value for value in given if value is not None]
    if not present or any(isinstance(value, list) for value in present):
        return None
    if all(isinstance(value, float) for value in present):
        return math.fsum(present) / len(present)
    return majority(map(str, present))


def _rating(value: object) -> Rating:
    """Return a number, a label, or several labels."""
    if isinstance(value, list):
        labels = tuple(str(one).strip() for one in value)
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


def _read_csv(text: str) -> Iterator[Rated]:
    for row in csv.DictReader(io.StringIO(text)):
        # a row that ends early has no value
        yield Rated(row["id"], row["aspect"], row["rater"], _rating(row["value"] or ""))


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
            shown = {"aspect": question.aspect, "definition": _defined(question), "scale": ends}
            rows.writerow({"id": example.id, **shown, **texts})
    return {"ratings.csv": table.getvalue()}


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


# ---- Label Studio ----


def _read_label_studio(text: str) -> Iterator[Rated]:
    for task in json.loads(text):
        for annotation in task["annotations"]:
            # a skipped task holds whatever was clicked before the rater skipped it
            if annotation.get("was_cancelled"):
                continue
            user = annotation.get("completed_by")
            rater = str(user.get("id") if isinstance(user, dict) else user)
            for result in annotation["result"]:
                value = result["value"]
                rating = value["rating"] if "rating" in value else value["choices"]
                yield Rated(str(task["data"]["id"]), result["from_name"], rater, _rating(rating))


def _write_label_studio(examples: list[Example], task: Task) -> dict[str, str]:
    tasks = [{"data": {"id": e.id, **_texts(e)}} for e in examples]
    lines = ["<View>"]
    for field, label in _labels(examples, task):
        lines += [
            f"  <Header value={_quoted(label)}/>",
            f'  <Text name="{field}" value="${field}"/>',
        ]
    for question in _questions(task):
        name = _quoted(question.aspect)
        lines.append(f"  <Header value={name}/>")
        lines.append(f"  <Text name={_quoted(question.aspect + '-definition')} "
                     f"value={_quoted(_defined(question))}/>")  # fmt: skip
        kind = "multiple" if question.kind == "several" else "single"
        lines.append(f'  <Choices name={name} toName="output" choice="{kind}" required="true">')
        lines += [f"    <Choice value={_quoted(one)}/>" for one in _choices(question)]
        lines.append("  </Choices>")
    lines.append("</View>")
    return {"tasks.json": _dump(tasks), "config.xml": "\n".join(lines) + "\n"}


def _quoted(text: str) -> str:
    return f'"{html.escape(text, quote=True)}"'


# ---- Argilla ----


def _read_argilla(text: str) -> Iterator[Rated]:
    for record in _records(text):
        name = str((record.get("metadata") or {}).get("id") or record["id"])
        for aspect, responses in record["responses"].items():
            for response in responses:
                # drafts and discarded responses are exported too
                if response.get("status", "submitted") == "submitted":
                    user = str(response["user_id"])
                    yield Rated(name, aspect, user, _rating(response["value"]))


def _write_argilla(examples: list[Example], task: Task) -> dict[str, str]:
    records = [{"id": e.id, "fields": _texts(e), "metadata": {"id": e.id}} for e in examples]
    settings = {
        "guidelines": task.intro,
        "fields": [{"name": field, "title": label} for field, label in _labels(examples, task)],
        "questions": [
            {
                "name": question.aspect,
                "title": question.definition,
                "description": _meanings(question) or None,
                **_argilla_kind(question),
            }
            for question in _questions(task)
        ],
    }
    return {"records.json": _dump(records), "settings.json": _dump(settings)}


def _argilla_kind(question: Question) -> dict[str, Any]:
    if not question.labels:
        values = [int(v) if v.is_integer() else v for v in map(float, question.values)]
        return {"type": "rating", "values": values}
    kind = "multi_label_selection" if question.kind == "several" else "label_selection"
    return {"type": kind, "labels": _choices(question)}


# ---- Potato ----


def _read_potato(text: str) -> Iterator[Rated]:
    for row in _records(text):
        user, name = str(row.get("user_id", "")), str(row.get("instance_id", row.get("id")))
        for aspect, labels in row["label_annotations"].items():
            chosen = [
                label if value is True or value == "true" else value
                for label, value in labels.items()
                if value not in (None, False, "", "false")
            ]
            if chosen:
                rating = chosen[0] if len(chosen) == 1 else chosen
                yield Rated(name, aspect, user, _rating(rating))


def _write_potato(examples: list[Example], task: Task) -> dict[str, str]:
    labels = dict(_labels(examples, task))
    texts = [
        "\n\n".join(f"{labels[field]}:\n{text}" for field, text in _texts(e).items())
        for e in examples
    ]
    items = [{"id": e.id, "text": text} for e, text in zip(examples, texts, strict=True)]
    lines = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
    schemes = [
        {"name": question.aspect, "description": question.definition, **_potato_kind(question)}
        for question in _questions(task)
    ]
    config = {
        "item_properties": {"id_key": "id", "text_key": "text"},
        "annotation_schemes": schemes,
    }
    return {"items.jsonl": lines, "config.json": _dump(config)}


def _potato_kind(question: Question) -> dict[str, Any]:
    if question.labels:
        kind = "multiselect" if question.kind == "several" else "radio"
        meanings = dict(question.labels)
        labels = [
            {"name": name, "tooltip": meanings[name]} if meanings.get(name) else name
            for name in _choices(question)
        ]
        return {"annotation_type": kind, "labels": labels}
    return {
        "annotation_type": "likert",
        "size": len(question.values),
        "min_label": f"{question.values[0]:g}",
        "max_label": f"{question.values[-1]:g}",
    }


Reader = Callable[[str], Iterator[Rated]]
Writer = Callable[[list[Example], Task], dict[str, str]]
FORMATS: Mapping[str, tuple[Reader, Writer]] = {
    "csv": (_read_csv, _write_csv),
    "label-studio": (_read_label_studio, _write_label_studio),
    "argilla": (_read_argilla, _write_argilla),
    "potato": (_read_potato, _write_potato),
}
"""Readers and writers by name; CSV has the columns `id`, `aspect`, `rater` and `value`, and beside
them, when it is written, what is asked and the texts."""


def _records(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON list, or of JSON Lines."""
    if text.lstrip().startswith("["):
        yield from json.loads(text)
    else:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())


def _texts(example: Example) -> dict[str, str]:
    named = {field: getattr(example, field) for field in TEXTS}
    return {field: text for field, text in named.items() if text}


def _labels(examples: list[Example], task: Task) -> list[tuple[str, str]]:
    present = {field for example in examples for field in _texts(example)}
    return [(field, getattr(task, f"{field}_name")) for field in TEXTS if field in present]


def _questions(task: Task) -> list[Question]:
    return [Question.of(aspect, paired=False) for aspect in task.aspects]


def _meanings(question: Question) -> str:
    """Return what each label means, as far as the task says it."""
    return "; ".join(f"{name}: {meaning}" for name, meaning in question.labels if meaning)


def _defined(question: Question) -> str:
    """Return an aspect's definition with what its labels mean."""
    meanings = _meanings(question)
    return f"{question.definition} ({meanings})" if meanings else question.definition


def _choices(question: Question) -> list[str]:
    """Return what raters choose from, by the names of labels."""
    if not question.labels:
        return [f"{value:g}" for value in question.values]
    names = [name for name, _ in question.labels]
    return [*names, NONE_OF_THEM] if question.kind == "several" else names


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
