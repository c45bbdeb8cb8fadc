"""QAGS (Wang et al. 2020): whether the sentences of a summary are consistent, by three each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from reproduce.converters.origin import DataSet, Json, OriginFile, mean, read_lines


def rows(name: str, files: Sequence[Path]) -> Iterator[Json]:
    """Iterate over the rows: the share of sentences that most workers call consistent."""
    for number, line in enumerate(read_lines(files[0])):
        sentences = line["summary_sentences"]
        votes = [
            [float(one["response"] == "yes") for one in sentence["responses"]]
            for sentence in sentences
        ]
        # majority vote per sentence, as in the QAGS paper
        consistent = mean([float(mean(given) > 0.5) for given in votes])
        yield {
            "id": f"{name}-{number:03}",
            "group": f"{name}-{number:03}",
            "source": line["article"],
            "output": " ".join(sentence["sentence"] for sentence in sentences),
            "human": {"consistency": consistent, "factuality": consistent},
            "votes": votes,
        }


def _data_set(name: str, file: str, count: int, digest: str) -> DataSet:
    origin = OriginFile(
        file, "https://github.com/W4ngatang/qags at 47798e9, data/", "none stated", digest
    )
    return DataSet(name, f"summaries by one system, {count} rows", (origin,), partial(rows, name))


QAGS_CNNDM = _data_set(
    "qags_cnndm",
    "mturk_cnndm.jsonl",
    235,
    "5a6e20201f2c5d5d2489865137987c5d68d04c5b4e84662f99bb03862bb3a575",
)
QAGS_XSUM = _data_set(
    "qags_xsum",
    "mturk_xsum.jsonl",
    239,
    "1fb9af32ba64b0df54b26e12456b0b0324a519a85348c1f7b268899ad6269a15",
)
