"""Recorded scores and people's ratings as arrays, for `benchmarks.learning`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textassay.learning import group_codes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Recorded:
    """Features (n, f) with NaN for gaps, ratings (n, aspects), group codes (n,) and names.

    `rated` are all aspects that people rated, of which `aspects` are learned; `systems` are the
    authors of the texts.
    """

    name: str
    features: Floats
    human: Floats
    groups: NDArray[np.intp]
    feature_names: list[str]
    aspects: list[str]
    rated: list[str]
    systems: list[str | None]


@dataclass(frozen=True)
class Wanted:
    """The file, the metrics (by prefix), the ratings, and the metric that a row must have."""

    name: str
    path: str
    prefixes: tuple[str, ...]
    aspects: tuple[str, ...]
    needed: str | None = None
    joined: str | None = None
    """File whose metrics are added, row by row by id."""


_ALTTEST = ("gemini", "gpt-4o", "llama-31", "mistral-v03")
_SUMMEVAL = ("summeval/summeval.jsonl.gz", ("coherence", "consistency", "fluency", "relevance"))
_JUDGED = "gpt-4-0314/rts/coherence"
_JUDGES = ("gpt-", "llama-")
_DATA_TO_TEXT = ("informativeness", "naturalness", "quality")
_TURN = (
    "interesting",
    "engaging",
    "specific",
    "relevant",
    "correct",
    "understandable",
    "fluent",
    "overall",
)
_DIALOG = (
    "coherent",
    "consistent",
    "diverse",
    "depth",
    "likeable",
    "flexible",
    "informative",
    "inquisitive",
    "overall",
)

SETS: Mapping[str, Wanted] = {
    "alttest": Wanted(
        "SummEval, six newer judges", "alttest/summeval.jsonl.gz", _ALTTEST, _SUMMEVAL[1]
    ),
    "alttest-and-older": Wanted(
        "SummEval, six newer judges and 48 older features, 12 systems",
        "alttest/summeval.jsonl.gz",
        (*_ALTTEST, *_JUDGES, "computed/"),
        _SUMMEVAL[1],
        _JUDGED,
        _SUMMEVAL[0],
    ),
    "summeval": Wanted("SummEval, 36 judge features", _SUMMEVAL[0], _JUDGES, _SUMMEVAL[1], _JUDGED),
    "summeval-gpt-3.5": Wanted(
        "SummEval, 20 gpt-3.5 features", _SUMMEVAL[0], ("gpt-3.5",), _SUMMEVAL[1], _JUDGED
    ),
    "summeval-metrics": Wanted(
        "SummEval, 36 judge features, 12 of ROUGE, BLEU, chrF, length",
        _SUMMEVAL[0],
        (*_JUDGES, "computed/"),
        _SUMMEVAL[1],
        _JUDGED,
    ),
    "topical-chat": Wanted(
        "Topical-Chat, 28 gpt-3.5 features and UniEval",
        "topical_chat/topical_chat.jsonl",
        ("gpt-", "unieval/"),
        ("naturalness", "coherence", "engagingness", "groundedness"),
    ),
    "openmeva": Wanted("OpenMEVA, 19 metrics", "openmeva/openmeva.jsonl.gz", ("",), ("overall",)),
    "realsumm": Wanted(
        "REALSumm, 14 metrics", "realsumm/realsumm.jsonl.gz", ("",), ("litepyramid_recall",)
    ),
    "newsroom": Wanted(
        "Newsroom, 8 metrics",
        "newsroom/newsroom.jsonl.gz",
        ("",),
        ("coherence", "fluency", "informativeness", "relevance"),
    ),
    "bagel": Wanted("BAGEL, 34 metrics", "bagel/bagel.jsonl", ("",), _DATA_TO_TEXT),
    "sfres": Wanted("SFRES, 37 metrics", "sfres/sfres.jsonl.gz", ("",), _DATA_TO_TEXT),
    "fed-turn": Wanted("FED turns, 18 FED scores", "fed_turn/fed_turn.jsonl", ("",), _TURN),
    "fed-dialog": Wanted(
        "FED dialogues, 18 FED scores", "fed_dialog/fed_dialog.jsonl", ("",), _DIALOG
    ),
}
"""The data sets by name."""


def read(folder: Path, wanted: Wanted) -> Recorded:
    """Read one data set from the data folder."""
    rows = read_rows(folder / wanted.path)
    if wanted.joined:
        others = {row["id"]: row for row in read_rows(folder / wanted.joined)}
        for row in rows:
            row["metrics"] |= others[row["id"]]["metrics"]
    for row in rows:
        # single ratings only: their mean is learned
        row.setdefault(
            "human", {k: float(np.mean(v)) for k, v in row.get("annotators", {}).items()}
        )
    if wanted.needed:
        rows = [row for row in rows if row["metrics"].get(wanted.needed) is not None]
    names = sorted(
        {metric for row in rows for metric in row["metrics"] if metric.startswith(wanted.prefixes)}
    )
    return Recorded(
        wanted.name,
        np.array([[row["metrics"].get(metric) for metric in names] for row in rows], float),
        np.array([[row["human"].get(aspect) for aspect in wanted.aspects] for row in rows], float),
        group_codes(row["group"] for row in rows),
        names,
        list(wanted.aspects),
        sorted({aspect for row in rows for aspect in row["human"]}),
        [row.get("system") for row in rows],
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON Lines."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return [json.loads(line) for line in lines]
