"""Rows that learn from people's ratings: HD-Eval's aggregators over the nodes of a tree."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from reproduce.agreement import Figure, Figures
from reproduce.scores import Scorer, Values, nodes
from reproduce.table import Row
from textassay.fitting.fit_from_scores import Learning, fit_recorded
from textassay.runtime.data.dataset import Examples


async def held_out(scorer: Scorer, row: Row, data: str) -> Figures:
    """Return how well an aggregator agrees with people on rows that it did not learn from.

    Raises:
        NotHere: Data or a model is missing.
        DataError: The rows do not allow to learn from them.
    """
    assert row.learned is not None
    columns = scorer.columns(data)
    learning = Learning(
        aggregators=(row.learned.aggregator,),
        train_fraction=row.learned.train_fraction,
        # the same held-out rows whatever share is learned from, as in the paper's curves
        test_fraction=row.learned.test_fraction,
        aspects=tuple(column.rated for column in columns),
    )
    judging = nodes(row)
    values: Values = {}
    if judging is not None:
        rated = await scorer.judged(scorer.request(row, judging, data))
        # a node's name is its path, so that the number of slashes is its layer
        values = {name: one for name, one in rated.items() if name.count("/") < row.learned.layers}
    # through a file, because `fit --scores` reads one: the table takes the way that a user's data
    # take
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nodes.jsonl"
        _write(values, file)
        fit = fit_recorded(
            Examples(scorer.examples(data)),
            features=row.learned.recorded,
            scores=() if judging is None else (str(file),),
            learning=learning,
        )
    found: Figures = {}
    for column in columns:
        aspect = fit.report["held_out"]["aspects"][column.rated]
        evaluator = aspect["agreement"]["evaluator"]
        for statistic in column.statistics:
            interval = evaluator["ci"][statistic]
            found[column, statistic] = Figure(
                evaluator[statistic],
                None if interval is None else (interval[0], interval[1]),
                aspect["n"],
            )
    return found


def _write(values: Values, file: Path) -> None:
    with file.open("w", encoding="utf-8") as lines:
        for name, by_id in values.items():
            for id_, value in by_id.items():
                lines.write(json.dumps({"id": id_, "aspect": name, "value": value}) + "\n")
