"""The fit report as JSON: how an evaluator was learned, how well it agrees, what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from textassay.fitting import ablations, ceiling, curves
from textassay.fitting.agreement import held_out
from textassay.fitting.importance import importance_on
from textassay.fitting.learn import Choice, Fitter
from textassay.fitting.table import FeatureTable
from textassay.learning import Importance, explain, global_importance
from textassay.learning.training import Floats
from textassay.runtime.errors import DataError
from textassay.runtime.model import Json
from textassay.version import __version__

FORMAT = 1
Depth = Literal["basic", "full"]

_REPEATS = 5
_EXPLAINED_ROWS = 300
_PERMUTATIONS = 16


@dataclass(frozen=True)
class Parts:
    """The rows on both sides of the split."""

    train: FeatureTable
    test: FeatureTable


def report_of(
    choice: Choice,
    parts: Parts,
    fitter: Fitter,
    *,
    depth: Depth,
    made: Json,
    repeats: int | None = None,
) -> Json:
    """Return the report as JSON values.

    Args:
        choice: What was fitted.
        parts: Training and held-out rows.
        fitter: How it was fitted.
        depth: `basic`, or `full` with curves, ablations, ranking and the expert ceiling.
        made: How the evaluator was made, as its file records it.
        repeats: Samples over which curves are averaged; by default 3 for data, 1 for criteria.
    """
    train, test = parts.train, parts.test
    report: Json = {
        "format": FORMAT,
        "textassay": __version__,
        **made,
        "aggregators": choice.as_dict(),
        "aspects": {
            name: {"scale": list(fitter.scales[name]), "learning": choice.aggregator.notes_[name]}
            for name in train.aspects
        },
        "features": {name: {"coverage": share} for name, share in train.coverage.items()},
        "held_out": held_out(choice, train, test, fitter),
        "importance": importance(choice, parts, fitter),
    }
    if depth == "full":
        report["data_efficiency"] = curves.over_data(
            choice.chosen, train, test, fitter, repeats=repeats or curves.SEEDS
        )
        report["criteria_efficiency"] = curves.over_criteria(
            choice.chosen, train, test, fitter, repeats=repeats or 1
        )
        report["ablations"] = ablations.ablation_table(choice.chosen, train, test, fitter)
        report["ranking"] = ceiling.ranking(choice, train, test)
        report["experts"] = ceiling.experts(choice.aggregator, test)
    return report


def importance(choice: Choice, parts: Parts, fitter: Fitter) -> Json:
    """Return what people value.

    Permutation importance and mean size of Shapley values, on held-out rows.
    """
    aggregator, test = choice.aggregator, parts.test
    content: Json = {}
    try:
        content["permutation"] = _permutation(
            importance_on(aggregator, test, seed=fitter.seed, repeats=_REPEATS), test
        )
    except DataError as error:
        content["permutation"] = {"failed": str(error)}
    rng = np.random.default_rng(fitter.seed)
    # contributions of a few hundred rows give the means well enough, and sampled ones are slow
    rows = np.sort(rng.permutation(len(test.ids))[:_EXPLAINED_ROWS])
    explained = explain(
        aggregator,
        test.features[rows],
        # training rows are the background: contributions are then relative to what the evaluator
        # learned from
        parts.train.features,
        systems=[test.systems[row] for row in rows.tolist()],
        samples=_PERMUTATIONS,
        seed=fitter.seed,
    )
    sizes = global_importance(explained.values)
    order = np.argsort(-sizes.mean(axis=0), kind="stable")
    content["shap"] = [
        {
            "feature": test.names[i],
            "mean": float(sizes[:, i].mean()),
            "by_aspect": {aspect: float(sizes[at, i]) for at, aspect in enumerate(test.aspects)},
        }
        for i in order
    ]
    return content


def _permutation(importance: Importance, table: FeatureTable) -> list[Json]:
    at_name = {name: at for at, name in enumerate(importance.names)}
    interval, overall = importance.interval(), importance.overall_interval()
    return [
        {
            "feature": name,
            "mean": _known(mean),
            "ci": _listed(overall[at_name[name]]),
            "by_aspect": {
                aspect: {
                    "mean": _known(importance.mean[at_name[name], at]),
                    "sd": _known(importance.sd[at_name[name], at]),
                    "ci": _listed(interval[at_name[name], at]),
                }
                for at, aspect in enumerate(table.aspects)
            },
        }
        for name, mean in importance.ranking()
    ]


def _known(figure: float) -> float | None:
    return None if np.isnan(figure) else float(figure)


def _listed(span: Floats) -> list[float] | None:
    return None if np.isnan(span).any() else [float(end) for end in span]
