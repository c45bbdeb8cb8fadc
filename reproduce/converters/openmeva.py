"""OpenMEVA (Guan et al. 2021): stories by five systems, rated by five people each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reproduce.converters.origin import DataSet, Json, OriginFile, means, read_json


def rows(files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rows: one story of one system each."""
    for number, story in read_json(files[0]).items():
        for system, written in story["gen"].items():
            ratings = {"overall": [float(value) for value in written["score"]]}
            yield {
                "id": f"openmeva-{number}-{system}",
                "group": f"openmeva-{number}",
                "system": system,
                "source": story["prompt"],
                "references": [story["gold_response"]],
                "output": written["text"],
                "human": means(ratings),
                "annotators": ratings,
            }


OPENMEVA = DataSet(
    "openmeva",
    "stories that go on from a first sentence, 1,000 rows",
    (
        OriginFile(
            "mans_roc.json",
            "https://huggingface.co/datasets/Jiann/OpenMEVA, data/mans_data/ (linked from"
            " https://github.com/thu-coai/OpenMEVA)",
            "none stated",
        ),
    ),
    rows,
)
