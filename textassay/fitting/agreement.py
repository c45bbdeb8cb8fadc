"""Agreement of the evaluator with people on held-out rows, beside baselines that learn little.

Baselines: the single feature that agrees best with people on the training rows, the plain average,
and the average weighted by correlation (Fusion-Eval's AVG and CorrW); all of what they learn comes
from the training rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import compress
from typing import Any

import numpy as np

from textassay.fitting.learn import Choice, Fitter, predicted_by
from textassay.fitting.table import FeatureTable
from textassay.learning import features_for
from textassay.learning.training import Floats
from textassay.meta.agreement import agreement_of
from textassay.meta.bootstrap import resampled
from textassay.meta.correlation import COEFFICIENTS, pearson
from textassay.meta.intervals import coefficient_interval, number_of_groups
from textassay.meta.levels import pair_up
from textassay.meta.significance import difference_between
from textassay.runtime.errors import DataError
from textassay.runtime.model import Json

EVALUATOR, SINGLE, POOLED = "evaluator", "best single", "evaluator with pool"
SIGNIFICANT = 0.05
_RESAMPLES, _MIN_RESAMPLES, _RESAMPLED_ROWS = 1000, 100, 5_000_000


def held_out(choice: Choice, train: FeatureTable, test: FeatureTable, fitter: Fitter) -> Json:
    """Return agreement by aspect, and its mean over the aspects."""
    predicted = {name: predicted_by(one, test) for name, one in choice.fitted.items()}
    if choice.aggregator.pools_sources:
        predicted[POOLED] = choice.aggregator.predict(
            test.features, systems=test.systems, sources=test.sources
        )
    aspects: Json = {}
    for column, aspect in enumerate(test.aspects):
        predictions = {EVALUATOR: predicted[choice.chosen][:, column]}
        notes: Json = {}
        single = best_single(train, aspect)
        if single is not None:
            feature, sign = single
            # the sign comes from the training rows too: choosing it on the held-out rows would
            # favor the baseline by chance
            predictions[SINGLE] = sign * test.features[:, test.names.index(feature)]
            notes[SINGLE] = {"feature": feature} | ({"turned_round": True} if sign < 0 else {})
        for name in ("avg", "corrw"):
            try:
                predictions[name] = predicted_by(fitter.fit(name, train, aspect), test)[:, 0]
            except DataError as error:
                notes[name] = {"failed": str(error)}
        for name, values in predicted.items():
            # every aggregator that was fitted is shown, so that the choice can be judged in
            # hindsight
            if name != choice.chosen and name not in predictions:
                predictions[name] = values[:, column]
        aspects[aspect] = _on_same_rows(
            predictions, notes, test, test.human[:, column], fitter.seed
        )
    return {"aspects": aspects, "mean": _mean(aspects)}


def best_single(train: FeatureTable, aspect: str) -> tuple[str, float] | None:
    """Return the feature that agrees best with people on the training rows, and its sign (1 or -1).

    Features that name another aspect are not looked at, unless all do.
    """
    named = (*train.all_aspects, *train.aspects)
    own = compress(train.names, features_for(aspect, train.names, named))
    best: tuple[str, float] | None = None
    for name in own:
        pairs = pair_up(
            train.features[:, train.names.index(name)], train.human[:, train.aspects.index(aspect)]
        )
        r = pearson(pairs.scores, pairs.human)
        if r is not None and (best is None or abs(r) > abs(best[1])):
            best = (name, r)
    return None if best is None else (best[0], 1.0 if best[1] >= 0 else -1.0)


def resamples_for(rows: int) -> int:
    """Return the number of resamples for intervals.

    1,000, and fewer beyond 5,000 rows, but at least 100.

    No p-value can be below 2 / (resamples + 1), that is .002 to .02.
    """
    return int(np.clip(_RESAMPLED_ROWS // max(rows, 1), _MIN_RESAMPLES, _RESAMPLES))


def _on_same_rows(
    predictions: Mapping[str, Floats], notes: Json, test: FeatureTable, human: Floats, seed: int
) -> Json:
    """Return agreement of all predictions on the rows where every one of them has a value."""
    # one prediction's gaps are gaps of all, or each would be measured on rows of its own choice
    missing = np.isnan(np.stack(list(predictions.values()))).any(axis=0)
    groups, draws = test.groups.tolist(), {}
    rows: Json = {}
    for name, values in predictions.items():
        pairs = pair_up(np.where(missing, np.nan, values), human, groups=groups)
        agreement, count = agreement_of(pairs, "dataset"), number_of_groups(pairs)
        # equal seeds over equal rows draw equal resamples, which pairs the differences below
        draws[name] = resampled(pairs, "dataset", resamples=resamples_for(agreement.n), seed=seed)
        rows[name] = {
            **{coefficient: getattr(agreement, coefficient) for coefficient in COEFFICIENTS},
            "ci": {
                c: _listed(coefficient_interval(getattr(agreement, c), draws[name][c], count))
                for c in COEFFICIENTS
            },
            **notes.get(name, {}),
        }
        rated = {
            "n": agreement.n,
            "groups": agreement.groups,
            "coverage": agreement.coverage,
            "resamples": resamples_for(agreement.n),
        }
    differences = {
        name: {
            c: _as_json(
                difference_between(
                    rows[EVALUATOR][c], rows[name][c], draws[EVALUATOR][c] - draws[name][c], count
                )
            )
            for c in COEFFICIENTS
        }
        for name in predictions
        if name != EVALUATOR
    }
    failed = {name: note for name, note in notes.items() if name not in rows}
    return {**rated, "agreement": {**rows, **failed}, "evaluator_minus": differences}


def _as_json(difference: Any) -> Json:
    content = asdict(difference)
    p = content["p"]
    return {
        "difference": content["difference"],
        "ci": _listed(content["ci"]),
        "p": p,
        "significant": None if p is None else p < SIGNIFICANT,
    }


def _mean(aspects: Json) -> Json:
    """Return each coefficient's mean over the aspects, if it is defined on all of them."""
    names = list(dict.fromkeys(name for one in aspects.values() for name in one["agreement"]))
    means: Json = {}
    for name in names:
        rows = [one["agreement"].get(name, {}) for one in aspects.values()]
        for c in COEFFICIENTS:
            values = [row.get(c) for row in rows]
            # a mean over the aspects that happen to be defined would differ from row to row of the
            # table
            mean = None if None in values else float(np.mean(values))
            means.setdefault(name, {})[c] = mean
    return means


def _listed(span: tuple[float, float] | None) -> list[float] | None:
    return None if span is None else list(span)
