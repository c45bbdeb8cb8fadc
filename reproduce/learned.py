"""Rows that learn from people's ratings: HD-Eval's aggregators over the nodes of a tree."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from reproduce.agreement import Figure, Figures
from reproduce.scores import Scorer, Values, nodes
from reproduce.table import Column, Row
from reproduce.table import Learning as HowToLearn
from textassay.fitting.feature_table import rating_scales, split_table
from textassay.fitting.fit_from_scores import read_recorded
from textassay.fitting.importance import importance_over_folds
from textassay.fitting.learn import Fitter
from textassay.fitting.read_table import read_table
from textassay.fitting.report import Fit
from textassay.fitting.request import FitFromScores
from textassay.methods.fitted.evaluator import read_files
from textassay.runtime.data.dataset import Examples


async def held_out(scorer: Scorer, row: Row, data: str) -> Figures:
    """Return how well an aggregator agrees with people on rows that it did not learn from.

    Over several splits a figure is the mean, and so are the ends of its interval, which is
    conservative: a mean varies no more than its parts do on average.

    Raises:
        NotHere: Data or a model is missing.
        DataError: The rows do not allow to learn from them.
    """
    assert row.learned is not None
    judging = nodes(row)
    values: Values = {}
    if judging is not None:
        rated = await scorer.judged(scorer.request(row, judging, data))
        # a node's name is its path, so that the number of slashes is its layer
        values = {name: one for name, one in rated.items() if name.count("/") < row.learned.layers}
    columns = scorer.columns(data)
    examples = Examples(scorer.examples(data))
    # through a file, because `fit --scores` reads one: the table takes the way that a user's data
    # take
    with tempfile.TemporaryDirectory() as folder:
        found = [
            _figures(_fit(row.learned, examples, values, columns, seed, Path(folder)), columns)
            for seed in range(row.learned.repeats)
        ]
    return {key: _mean([one[key] for one in found]) for key in found[0]}


def _fit(
    how: HowToLearn,
    examples: Examples,
    values: Values,
    columns: Sequence[Column],
    seed: int,
    folder: Path,
) -> Fit:
    request = FitFromScores(
        aggregator=(how.aggregator,),
        train_fraction=how.train_fraction,
        # the same held-out rows for every training share, as in the paper's curves
        test_fraction=how.test_fraction,
        aspects=tuple(column.rated for column in columns),
        seed=seed,
    )
    features = how.recorded
    scores: tuple[str, ...] = ()
    if not features:
        file = folder / f"nodes-{seed}.jsonl"
        _write(values, file)
        scores = (str(file),)
    if how.criteria is not None:
        kept = _most_important(how, examples, features, scores, request)
        if features:
            features = tuple(kept)
        else:
            _write({name: values[name] for name in kept}, Path(scores[0]))
    request = request.model_copy(update={"features": tuple(features), "scores": scores})
    return read_recorded(examples, request).learn()


def _most_important(
    how: HowToLearn,
    examples: Examples,
    features: Sequence[str],
    scores: Sequence[str],
    request: FitFromScores,
) -> list[str]:
    """Return the most important features, as the criteria curve of a full fit report has them."""
    table = read_table(
        examples, patterns=features, scores=read_files(scores), aspects=request.aspect_names
    )
    fitter = Fitter(rating_scales(table, {}), request.seed)
    train = split_table(table, request).train
    ranking = importance_over_folds(how.aggregator, train, fitter, repeats=3).ranking()
    return [name for name, _ in ranking[: how.criteria]]


def _figures(fit: Fit, columns: Sequence[Column]) -> Figures:
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


def _mean(found: Sequence[Figure]) -> Figure:
    """Return the mean figure; `None` if a split lacks it: the paper's mean is over all."""
    values = [one.value for one in found if one.value is not None]
    ends = [one.interval for one in found if one.interval is not None]
    rows = min(one.n for one in found)
    if len(values) < len(found):
        return Figure(None, None, rows)
    if len(ends) < len(found):
        return Figure(fmean(values), None, rows)
    lows, highs = zip(*ends, strict=True)
    return Figure(fmean(values), (fmean(lows), fmean(highs)), rows)


def _write(values: Values, file: Path) -> None:
    with file.open("w", encoding="utf-8") as lines:
        for name, by_id in values.items():
            for id_, value in by_id.items():
                lines.write(json.dumps({"id": id_, "aspect": name, "value": value}) + "\n")
