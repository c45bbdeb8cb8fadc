"""`fit --features` and `fit --scores`: an evaluator learned from scores that exist already.

Asks no model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textassay.fitting.feature_table import (
    AspectScales,
    FeatureTable,
    Split,
    check_no_leaks,
    rating_scales,
    split_table,
)
from textassay.fitting.held_out import build_report, held_out_scores
from textassay.fitting.learn import (
    ChosenAggregator,
    FitObserver,
    Fitter,
    Unseen,
    background_rows,
    choose,
    cross_fit,
    number_of_repeats,
)
from textassay.fitting.read_table import read_table
from textassay.fitting.report import Fit, fractions, human_aspect, provenance
from textassay.fitting.request import FitFromScores
from textassay.learning.training import FOLDS
from textassay.methods.fitted.evaluator import Evaluator, read_files
from textassay.runtime.base import Json
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.errors import ConfigurationError


@dataclass(frozen=True)
class RecordedFit:
    """A fit on recorded scores: the checked data, and the options of learning."""

    table: FeatureTable
    """Rated rows with their features."""
    parts: Split
    """The rows on both sides of a split."""
    scales: AspectScales
    """Scale by human aspect."""
    info: DataInfo
    """Facts about the data."""
    request: FitFromScores
    """Options of learning."""

    def learn(self, watch: FitObserver = lambda _: None) -> Fit:
        """Learn an evaluator; nothing is read or written."""
        table, request = self.table, self.request
        fitter = Fitter(self.scales, request.seed, new_systems=request.new_systems)
        parts = self.parts if request.holds_out else Split(table, table)
        choice, unseen = self._learn(parts, fitter, watch)
        origin = provenance(table, parts, self.info, request, self._split)
        evaluator = Evaluator(
            kind="recorded",
            aspects=tuple(human_aspect(name, fitter.scales[name]) for name in table.aspects),
            features=table.names,
            aggregator=choice.aggregator.to_dict(),
            background=background_rows(parts.train, choice.aggregator),
            made=origin,
        )
        report = build_report(
            choice, unseen,
            parts if request.holds_out else split_table(parts.train, request), fitter, request,
            origin={"kind": "recorded", **origin}, watch=watch,
        )  # fmt: skip
        return Fit(evaluator, report, predictions=list(held_out_scores(unseen)))

    def _learn(
        self, parts: Split, fitter: Fitter, watch: FitObserver
    ) -> tuple[ChosenAggregator, Unseen]:
        """Return the evaluator that is saved and the rows on which it is measured."""
        names = self.request.aggregator
        if not self.request.holds_out:
            return cross_fit(names, parts.train, fitter, watch)
        choice = choose(names, parts.train, fitter)
        return choice, Unseen.of_held_out(choice, parts)

    @property
    def _split(self) -> Json:
        if self.request.holds_out:
            return fractions(self.request)
        count = min(FOLDS, len(np.unique(self.table.groups)))
        return {"folds": count, "repeats": number_of_repeats(self.request.aggregator, self.table)}


def read_recorded(data: Examples, request: FitFromScores) -> RecordedFit:
    """Read and check the inputs of an evaluator of recorded scores."""
    if not request.features and not request.scores:
        raise ConfigurationError(
            "fit without a model needs features=NAME,GLOB* or scores=FILE to learn from"
        )
    aspects = request.aspect_names
    scores = read_files(request.scores)
    table = read_table(data, patterns=request.features, scores=scores, aspects=aspects)
    table = table.of_common_labels()
    # before the split: all rows show a leak more surely than half of them
    check_no_leaks(table)
    scales = rating_scales(table, request.scales)
    return RecordedFit(table, split_table(table, request), scales, data.check(), request)
