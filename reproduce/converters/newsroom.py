"""Newsroom (Grusky et al. 2018): 7 systems, 60 articles, three raters on four aspects."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path

from reproduce.converters.origin import DataSet, Json, OriginFile, means, read_pickle
from textassay.runtime.errors import DataError

ASPECTS = ("coherence", "fluency", "informativeness", "relevance")


def rows(files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rows; rows of the CSV file with the same article and system are one."""
    references = read_pickle(files[1]) if len(files) > 1 else {}
    found: dict[tuple[str, str], Json] = {}
    for line in _lines(files[0]):
        article, system = line["ArticleID"], line["System"]
        reference = references.get(article, {}).get("ref_summ")
        row = found.setdefault(
            (article, system),
            {
                "id": f"newsroom-{article}-{system}",
                "group": f"newsroom-{article}",
                "system": system,
                # the file was exported from web pages; judges would see `&quot;` otherwise
                "source": unescape(line["ArticleText"]),
                "title": unescape(line["ArticleTitle"]),
                "references": [] if reference is None else [reference],
                "output": unescape(line["SystemSummary"]),
                "annotators": {aspect: [] for aspect in ASPECTS},
            },
        )
        for aspect in ASPECTS:
            row["annotators"][aspect].append(float(line[f"{aspect.capitalize()}Rating"]))
    for row in found.values():
        yield row | {"human": means(row["annotators"])}


def _lines(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(2**24)  # articles are longer than the default of 128 kB allows
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


NEWSROOM = DataSet(
    "newsroom",
    "summaries of 60 articles by 7 systems, 420 rows",
    (
        OriginFile(
            "newsroom-human-eval.csv",
            "https://github.com/lil-lab/newsroom, humaneval/",
            "Apache-2.0 (the repository)",
        ),
        OriginFile(
            "data.pkl",
            "https://github.com/neulab/BARTScore at 248f511, SUM/Newsroom/",
            "Apache-2.0",
            "277795f19d17fef0077061708d468e020c90071854508e774f4addae8a4a0ed5",
            optional=True,
            adds="the reference summaries",
        ),
    ),
    rows,
)
