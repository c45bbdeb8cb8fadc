"""SummEval (Fabbri et al. 2021): 16 systems, 100 articles, three experts and five crowd workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reproduce.converters.origin import (
    DataSet,
    Json,
    OriginFile,
    mean,
    means,
    read_lines,
    read_pickle,
)

ASPECTS = ("coherence", "consistency", "fluency", "relevance")


def rows(files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rows; `overall` is the mean of the four aspects, as Fusion-Eval has it."""
    articles = read_pickle(files[1]) if len(files) > 1 else {}
    for line in read_lines(files[0]):
        document, system = str(line["id"]), str(line["model_id"])
        experts = _by_aspect(line["expert_annotations"])
        human = means(experts)
        source = line.get("text") or articles.get(document, {}).get("src")
        yield {
            "id": f"{document}-{system}",
            "group": document,
            "system": system,
            "source": source,
            "references": line["references"],
            "output": line["decoded"],
            "human": human | {"overall": mean([human[aspect] for aspect in ASPECTS])},
            "annotators": experts,
            "crowd": _by_aspect(line["turker_annotations"]),
        }


def _by_aspect(annotations: Sequence[Json]) -> dict[str, list[float]]:
    return {aspect: [float(one[aspect]) for one in annotations] for aspect in ASPECTS}


SUMMEVAL = DataSet(
    "summeval",
    "summaries of 100 articles by 16 systems, 1,600 rows",
    (
        OriginFile(
            "model_annotations.aligned.jsonl",
            "https://github.com/Yale-LILY/SummEval (its README links the file at"
            " storage.googleapis.com/sfr-summarization-repo-research; or"
            " model_annotations.aligned.paired.jsonl, which its pair_data.py makes and which holds"
            " the articles)",
            "MIT",
        ),
        OriginFile(
            "data.pkl",
            "https://github.com/neulab/BARTScore at 248f511, SUM/SummEval/",
            "Apache-2.0",
            "008f1639a3352f0248cac88b74ff431c27287a027a888902ef425a26005f0acf",
            optional=True,
            adds="the articles",
        ),
    ),
    rows,
)
