"""MQM-2020 (Freitag et al. 2021): the errors that translators marked in Chinese-English news."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from reproduce.converters.origin import DataSet, Json, OriginFile, means
from textassay.runtime.errors import DataError

REFERENCE = re.compile(r"Human-A\b|ref[-.]?A\b|ref$")
"""The human translation that WMT took as the reference; other human ones are judged systems."""
CATEGORIES = {"accuracy": "Accuracy", "fluency": "Fluency"}
"""The top-level category of errors by aspect; MQM counts all errors."""
_COLUMNS = ("system", "doc", "seg_id", "rater", "source", "target", "category", "severity")
_MARKS = re.compile(r"</?v>")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def rows(files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rows: a rating is minus the penalty of one translator's marks."""
    found: dict[tuple[str, str], Json] = {}
    penalties: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for line in _lines(files[0]):
        key = (line["seg_id"], line["system"])
        found.setdefault(key, _row(line))
        given = penalties.setdefault(key, {}).setdefault(
            line["rater"], dict.fromkeys((*CATEGORIES, "MQM"), 0.0)
        )
        for aspect in given:
            given[aspect] += _penalty(line, aspect)
    references = {
        segment: row["output"]
        for (segment, system), row in found.items()
        if REFERENCE.match(system)
    }
    for (segment, system), row in found.items():
        if not REFERENCE.match(system):
            by_rater = list(penalties[segment, system].values())
            # 0.0 - x, since the negative of no penalty would be written as -0.0
            ratings = {
                aspect: [0.0 - one[aspect] for one in by_rater] for aspect in (*CATEGORIES, "MQM")
            }
            kept = [references[segment]] if segment in references else []
            yield row | {"references": kept, "human": means(ratings), "annotators": ratings}


def _row(line: dict[str, str]) -> Json:
    return {
        "id": f"mqm-{line['seg_id']}-{line['system']}",
        "group": f"mqm-{line['seg_id']}",
        "system": line["system"],
        "doc_id": line["doc"],
        "source": _MARKS.sub("", line["source"]),
        "output": _MARKS.sub("", line["target"]),
    }


def _penalty(line: dict[str, str], aspect: str) -> float:
    """Return the weight of a mark, by the README of the data; 0 if it is of another aspect."""
    category, severity = line["category"], line["severity"]
    if severity not in ("Major", "Minor"):
        return 0.0
    # a text too garbled to mark single errors is neither accurate nor fluent
    if category.startswith("Non-translation"):
        return 25.0
    if aspect in CATEGORIES and not category.startswith(f"{CATEGORIES[aspect]}/"):
        return 0.0
    if severity == "Minor":
        return 0.1 if category == "Fluency/Punctuation" else 1.0
    return 5.0


def _lines(path: Path) -> Iterator[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            head = _fields(next(file, ""))
            missing = [name for name in _COLUMNS if name not in head]
            if missing:
                raise KeyError(f"no column {missing[0]}")
            for number, line in enumerate(file, start=2):
                fields = _fields(line)
                if len(fields) != len(head):
                    raise DataError(f"{path}, line {number}: {len(fields)} of {len(head)} columns")
                yield dict(zip(head, fields, strict=True))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _fields(line: str) -> list[str]:
    """Return the columns of a line.

    The origin quotes some fields as CSV does and leaves the quotation marks of others bare, which
    no setting of the csv module reads.
    """
    found = []
    for field in line.rstrip("\r\n").split("\t"):
        quoted = _QUOTED.fullmatch(field)
        found.append(quoted[1].replace('""', '"') if quoted else field)
    return found


MQM = DataSet(
    "mqm",
    "translations of 2,000 Chinese sentences by 8 systems and a person, 18,000 rows",
    (
        OriginFile(
            "mqm_newstest2020_zhen.tsv",
            "https://github.com/google/wmt-mqm-human-evaluation, newstest2020/zhen/",
            "Apache-2.0",
        ),
    ),
    rows,
)
