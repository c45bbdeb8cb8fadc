"""REALSumm (Bhandari et al. 2020): 25 systems, 100 articles, light-weight pyramids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from reproduce.converters.origin import DataSet, Json, OriginFile, read_pickle

RATED = "litepyramid_recall"
_MARKS = re.compile(r"\s*</?t>\s*")


def rows(files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rows of both files; the recorded metrics keep their names."""
    articles = read_pickle(files[2]) if len(files) > 2 else {}
    for kind, path in zip(("abs", "ext"), files, strict=False):
        for number, document in read_pickle(path).items():
            for system, written in document["system_summaries"].items():
                scores = dict(written["scores"])
                yield {
                    "id": f"realsumm-{kind}-{number}-{system}",
                    # abstractive and extractive summaries of one article are one source
                    "group": f"realsumm-{number}",
                    "system": f"{kind}/{system}",
                    "source": articles.get(number, {}).get("src"),
                    "references": [_without_marks(document["ref_summ"])],
                    "output": _without_marks(written["system_summary"]),
                    "human": {RATED: scores.pop(RATED)},
                    "metrics": scores,
                }


def _without_marks(text: str) -> str:
    """Return a summary without the marks around its sentences."""
    return " ".join(_MARKS.sub(" ", text).split())


def _scores(name: str, digest: str) -> OriginFile:
    return OriginFile(
        name, "https://github.com/neulab/REALSumm at a5900e3, scores_dicts/", "CC BY 4.0", digest
    )


REALSUMM = DataSet(
    "realsumm",
    "summaries of 100 articles by 25 systems, 2,500 rows",
    (
        _scores("abs.pkl", "6dd40c9db3526169f73fef6f1f2c23d0a49df29a1f232d19b90286894b9c6d72"),
        _scores("ext.pkl", "32eba452391ef8164eed5a128cc80f06e4e4612274fe377902b93c7ae9ae2b20"),
        OriginFile(
            "data.pkl",
            "https://github.com/neulab/BARTScore at 248f511, SUM/REALSumm/",
            "Apache-2.0",
            "1f9c97d27e8fe3ade81f76ea33dc6d3b5b333a602b1c568130306039bd701942",
            optional=True,
            adds="the articles",
        ),
    ),
    rows,
)
