"""The gain of sentence-wise static vectors over features without calls, and over recorded judges.

    python -m benchmarks.static_vectors --data FOLDER [--features FILE] [--seeds 5]

FOLDER holds `summeval/summeval.jsonl.gz` (the environment variable TEXTASSAY_DATA names it, too);
needs the extra `static`. The features of the 1,600 summaries are computed once and kept in FILE.
Learned on half of the source documents and compared on the other half, over five seeds: a ridge
regression on counts (length, novelty, coverage, repetition, readability), and `auto` on 36 recorded
judge features with ROUGE, BLEU and chrF (1,200 rows), each without and with the cosines of
`embedding?engine=static&per=sentence` against the source. Printed is Pearson's r and Spearman's rho
over all held-out rows, averaged over the four aspects and the seeds, and the difference in r.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import textassay
from benchmarks.learning.recorded import SETS, Wanted, read
from benchmarks.learning.ways import learned, measured
from textassay.runtime.data.dataset import Examples
from textassay.tools.similarity import SentenceMeasure

JUDGED = SETS["summeval-metrics"]
COMPARISONS = (
    (
        "counts",
        "ridge",
        Wanted("SummEval, counts", JUDGED.path, ("counts/",), JUDGED.aspects),
    ),
    ("judges and lexical", "auto", JUDGED),
)
"""Features to which static vectors are added: a label, the aggregator, and the other features."""


COUNTS = ("length", "novelty", "coverage", "repetition", "readability")
STATIC = tuple(
    f"{measure}=embedding?engine=static&per=sentence&against=source&measure={measure}"
    for measure in get_args(SentenceMeasure)
)


async def feature_rows(data: Path) -> list[dict[str, Any]]:
    """Return counts and static features of every summary, as metrics by id."""
    examples = list(Examples(data))
    metrics: dict[str, dict[str, float | None]] = {example.id: {} for example in examples}
    for kind, tools in (("counts", COUNTS), ("static", STATIC)):
        began = time.perf_counter()
        run = await textassay.evaluate(examples, method="tools", task="summarization", tools=tools)
        for score in run.scores:
            metrics[score.id][f"{kind}/{score.aspect}"] = score.value
        print(f"{kind} of {len(examples)} summaries: {time.perf_counter() - began:.1f} s")
    return [{"id": id_, "metrics": own} for id_, own in metrics.items()]


def main() -> None:
    """Compute the features unless the file has them, and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--features", type=Path, default=Path("static_features.jsonl"))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the data with --data FOLDER or TEXTASSAY_DATA")
    folder = Path(given.data)
    if not given.features.exists():
        rows = asyncio.run(feature_rows(folder / JUDGED.path))
        given.features.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for label, aggregator, plain in COMPARISONS:
        first = None
        for added in ((), ("static/",)):
            wanted = replace(
                plain, prefixes=(*plain.prefixes, *added), joined=str(given.features.resolve())
            )
            recorded = read(folder, wanted)
            values = measured(recorded, learned(recorded, aggregator), 0.5, given.seeds)
            r, rho = values.mean(axis=(0, 1))
            line = f"{label}, {aggregator}, {'with' if added else 'without'}: {r:.3f}/{rho:.3f}"
            by_seed = values[:, :, 0].mean(axis=1)
            if first is not None:
                more = by_seed - first
                line += f"  {more.mean():+.3f} ({more.min():+.3f} to {more.max():+.3f})"
            print(line, flush=True)
            first = by_seed


if __name__ == "__main__":
    main()
