"""Evaluator folders as methods: over recorded scores, and HD-Eval with learned weights.

A fit on recorded scores calls no model. If all examples lack a feature, the run is refused; if
single examples lack it, it has its mean over the training rows, as in learning; an example without
any feature is not scored. In a fitted HD-Eval a model rates the nodes of the tree, and the
aggregator combines the ratings.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np

from textassay.agents.aggregation import broken_part, common_fields, leave_unscored, usage_of
from textassay.arrays import Floats
from textassay.learning.aggregators import Aggregator, Contributions
from textassay.learning.attribution import explain
from textassay.learning.pooling import Pool
from textassay.methods.fitted.evaluator import (
    Evaluator,
    read_files,
    read_row,
    restore_aggregator,
    source_label,
)
from textassay.methods.hd_eval import HDEvalOptions, NodeRatings, Ratings, rating_node
from textassay.methods.judging import ALL_ASPECTS, check_rubrics
from textassay.methods.method import CheckedOptions, MethodTraits, Models
from textassay.runtime.base import Json, R, T
from textassay.runtime.calls.sharing import SharedCalls
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.graph import Graph, Node
from textassay.runtime.messages import Aspect, Assignment, Example, Failure, How, Score
from textassay.version import __version__

FeatureRow = tuple[Sequence[float], str | None, str | None]
"""Features in order, the system that wrote the text, and the label of its source."""


class EvidenceOptions(CheckedOptions):
    """Options of every learned evaluator."""

    explain: bool = True
    """Whether the evidence of a score lists the contribution of each feature."""


class LearnedOptions(EvidenceOptions):
    """Options of an evaluator over recorded scores."""

    scores: str | tuple[str, ...] = ()
    """Files of scores, or run folders, with features beside the data's `metrics`: `FILE` or
    `NAME=FILE`.
    """
    pool: str | None = None
    """File of all texts to judge, from which the means of sources are computed and, for evaluators
    fitted with `new_systems`, the means of unknown systems.
    """


class _Prediction(NamedTuple):
    """The aggregator's output for one row."""

    raw: Floats
    """Shape (targets,)."""
    clipped: Floats
    """Value to which each feature was clipped, or NaN; shape (features,)."""
    because: Contributions | None
    """Contributions of this row, if an explanation was requested."""


class FittedScorer:
    """Predicts people's ratings on each aspect from one row of features, with contributions."""

    def __init__(self, evaluator: Evaluator, options: EvidenceOptions) -> None:
        self.aggregator: Aggregator = restore_aggregator(evaluator)
        self._features, self._options = evaluator.features, options
        self._background = np.array(evaluator.background, float)
        # a call of LightGBM or numpy costs about the same for one row as for hundreds
        self._predict = Batched(self._predict_rows)

    async def scores(
        self, example: Example, aspects: Sequence[Aspect], features: Sequence[float], signature: str
    ) -> list[Score]:
        """Return a score for each aspect; abstain if the example has none of the features."""
        shared: Json = {"how": "fused", "signature": signature}
        # without any feature the aggregator would predict the mean of the training ratings
        if all(map(math.isnan, features)):
            message = "the example has none of the evaluator's features"
            problem = {"type": "NoFeatures", "message": message, "outcome": "abstained"}
            return leave_unscored(example, aspects, problem, **shared)
        source = source_label(example) if self.aggregator.pools_sources else None
        verdict = await self._predict((features, example.system, source))
        scores = []
        for aspect in aspects:
            at = self.aggregator.targets_.index(aspect.name)
            raw = float(verdict.raw[at])
            value = min(max(raw, aspect.scale[0]), aspect.scale[1])
            pooled = self.aggregator.pools_systems_for(aspect.name)
            means = f"(system {example.system})" if pooled else "(means of the source)"
            evidence = self._evidence(features, verdict, at, means)
            if evidence and value != raw:
                evidence.append({"text": "(kept on the scale)", "contribution": value - raw})
            about = common_fields(example, aspect, **shared)
            scores.append(Score(value=value, evidence=tuple(evidence), **about))
        return scores

    def _predict_rows(self, rows: Sequence[FeatureRow]) -> list[_Prediction]:
        features = np.array([row for row, _, _ in rows], float)
        systems, sources = [row[1] for row in rows], [row[2] for row in rows]
        # unclipped, because contributions add up to this; clipping is listed in the evidence
        raw = self.aggregator.predict(features, systems=systems, sources=sources, clip=False)
        clipped = self.aggregator.clip_bounds(features)
        if not self._options.explain:
            return [_Prediction(*pair, None) for pair in zip(raw, clipped, strict=True)]
        every = explain(
            self.aggregator, features, self._background, systems=systems, sources=sources,
            samples=16,  # permutations for contributions that have no closed form
        )  # fmt: skip
        return [
            _Prediction(value, limits, Contributions(values, every.baseline, by_means))
            for value, limits, values, by_means in zip(
                raw, clipped, every.values, every.systems, strict=True
            )
        ]

    def _evidence(
        self, features: Sequence[float], verdict: _Prediction, at: int, means: str
    ) -> list[Json]:
        """Return the baseline and the contributions: features by size, then `means`."""
        because = verdict.because
        if not because:
            return []
        contributions = because.values[at].tolist()
        order = sorted(range(len(features)), key=lambda i: (-abs(contributions[i]), i))
        evidence: list[Json] = [{"text": "(start)", "contribution": float(because.baseline[at])}]
        for i in order:
            value = None if math.isnan(features[i]) else features[i]
            entry = {"text": self._features[i], "value": value, "contribution": contributions[i]}
            if not math.isnan(verdict.clipped[i]):
                entry["clipped_to"] = float(verdict.clipped[i])
            evidence.append(entry)
        if by_means := float(because.systems[at]):
            evidence.append({"text": means, "contribution": by_means})
        return evidence


class _FittedMethod:
    """A method whose scores come from an evaluator's aggregator."""

    name: ClassVar[str]
    how: How = "fused"
    task = None
    """The evaluator's task, if it has one."""

    def __init__(
        self, evaluator: Evaluator, aspects: Iterable[str | Aspect] | None, options: EvidenceOptions
    ) -> None:
        self._evaluator = evaluator
        self._verdicts = FittedScorer(evaluator, options)
        self._recorded_options = options.model_dump(mode="json")
        self.aspects = select_aspects(evaluator, aspects)

    def describe(self) -> dict[str, Any]:
        """Return options, aspects and the evaluator's digest."""
        return {
            "name": self.name,
            "evaluator": self._evaluator.digest,
            "aggregator": self._verdicts.aggregator.name,
            "aspects": [{"name": a.name, "scale": list(a.scale)} for a in self.aspects],
            "options": self._recorded_options,
        }


class FittedMethod(_FittedMethod):
    """A fitted evaluator over recorded scores.

    1. An example's features are taken from its `metrics`, or from files of scores joined by id.
    2. The aggregator predicts people's ratings, aspect by aspect, on their scale.
    3. Evidence is the contribution of each feature: `(start)` plus all contributions is the value.
    """

    name = "learned"

    def __init__(
        self,
        evaluator: Evaluator,
        aspects: Iterable[str | Aspect] | None = None,
        options: LearnedOptions | None = None,
    ) -> None:
        self.options = options or LearnedOptions()
        super().__init__(evaluator, aspects, self.options)
        files = self.options.scores
        self._scores = read_files((files,) if isinstance(files, str) else files)
        self.signature = f"method:{self.name}|evaluator:{evaluator.digest[:12]}|v:{__version__}"
        if self.options.pool:
            # the means depend on the pool, so scores with different pools are not comparable
            self.signature += f"|pool:{self._take_pool(Path(self.options.pool))[:12]}"
        nodes = [Node("scores", self._judge, **ALL_ASPECTS)]
        self.graph = Graph(self.name, input=Assignment, nodes=nodes, output="scores")

    async def _judge(self, example: Example, aspects: tuple[Aspect, ...]) -> list[Score]:
        features = read_row(example, self._evaluator.features, self._scores)
        return await self._verdicts.scores(example, aspects, features, self.signature)

    def _take_pool(self, path: Path) -> str:
        """Compute the means of sources and new systems over a file's texts; return its digest."""
        aggregator = self._verdicts.aggregator
        if not aggregator.new_systems and not aggregator.pools_sources:
            raise ConfigurationError(
                "options={'pool': 'FILE'} is for evaluators that use the means of sources or were"
                " fitted for new systems; fit again with new_systems=, or leave it out"
            )
        examples = Examples(path)
        features, systems, sources = [], [], []
        for example in examples:
            features.append(read_row(example, self._evaluator.features, self._scores))
            systems.append(example.system)
            sources.append(source_label(example))
        pool = Pool(np.array(features, float), systems, sources)
        self._verdicts.aggregator = aggregator.with_pool(pool)
        return examples.check().digest

    @property
    def traits(self) -> MethodTraits:
        """Needs the features that the evaluator was fitted on."""
        return MethodTraits(check_data=self.check_data)

    def check_data(self, info: DataInfo) -> None:
        """Refuse data in which no example has some feature.

        Raises:
            ConfigurationError: Names the features that no example has.
        """
        there = {**info.metrics, **self._scores}
        # a feature that no example has comes from a wrong file or a misspelled name
        missing = [name for name in self._evaluator.features if name not in there]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise ConfigurationError(
                f"{info.name}: no row has the feature {', '.join(map(repr, missing[:5]))}{more}"
                " that the evaluator was fitted on; give it in 'metrics', or in a file with "
                "options={'scores': 'FILE'}"
            )


def select_aspects(
    evaluator: Evaluator, aspects: Iterable[str | Aspect] | None
) -> tuple[Aspect, ...]:
    """Return the chosen aspects of an evaluator; all of them for `None`."""
    if aspects is None:
        return evaluator.aspects
    by_name = {aspect.name: aspect for aspect in evaluator.aspects}
    names = dict.fromkeys(aspect if isinstance(aspect, str) else aspect.name for aspect in aspects)
    for name in names:
        if name not in by_name:
            raise UnknownName("aspect of the evaluator", name, list(by_name))
    return tuple(by_name[name] for name in names)


class LearnedTreeOptions(EvidenceOptions):
    """Options of a fitted HD-Eval."""

    allow_change: bool = False
    """Whether the model, its settings or the prompts may differ from those used in training."""


class LearnedTree(_FittedMethod):
    """HD-Eval after alignment (Liu et al. 2024, section 2.4).

    1. The model rates every node of the learned tree with a prompt that names its parent.
    2. The aggregator predicts people's ratings, aspect by aspect, on their scale.
    3. Evidence is every node with its rating and its contribution.

    A node without a usable rating counts as its mean over the training rows; a node that could not
    be asked about makes the scores errors, so that a resumed run asks again.
    """

    name = "hd-eval-fitted"

    def __init__(
        self,
        evaluator: Evaluator,
        models: Models,
        aspects: Iterable[str | Aspect] | None = None,
        options: LearnedTreeOptions | None = None,
    ) -> None:
        assert evaluator.tree  # an evaluator of this kind has both
        assert evaluator.task
        self.options = options or LearnedTreeOptions()
        tree, judged_by = evaluator.tree, HDEvalOptions.read(evaluator.options)
        nodes = tuple(tree[id_] for id_ in evaluator.features)
        self._judge = NodeRatings(models, evaluator.task, tree, nodes, judged_by)
        self._check_unchanged(evaluator)
        super().__init__(evaluator, aspects, self.options)
        judge = self._judge.scorer.signature_as("fused")
        self.signature = f"{judge}|evaluator:{evaluator.digest[:12]}|v:{__version__}"
        steps = [
            Node("criteria", self._criteria, aspects="input.aspects"),
            rating_node("ratings", self._judge.scorer, self._judge.known),
            Node("scores", self._fuse, **ALL_ASPECTS, ratings="ratings"),
        ]
        self.graph = Graph(self.name, input=Assignment, nodes=steps, output="scores")

    def _check_unchanged(self, before: Evaluator) -> None:
        scorer = self._judge.scorer
        # the weights were learned for the errors of one judge; another judge errs in other ways
        facts: list[tuple[str, object, object]] = [
            ("the model", before.model, scorer.ask.model.name),
            ("the prompt's digest", before.prompts, scorer.prompt_digest),
        ]
        if (was_set := before.settings) is not None:
            is_set = scorer.ask.settings
            facts += [(name, was_set.get(name), is_set.get(name)) for name in {**was_set, **is_set}]
        changes = [f"{fact} changed from {was!r} to {now!r}" for fact, was, now in facts
                   if was != now]  # fmt: skip
        if changes and not self.options.allow_change:
            raise ConfigurationError(
                f"this evaluator was learned from other ratings: {'; '.join(changes)}. Weights "
                "learned for one judge may not suit another; fit again, or apply it anyway with "
                "options={'allow_change': 'true'}"
            )

    @property
    def traits(self) -> MethodTraits:
        """The judge sees the source, and does not read rubrics."""
        return MethodTraits(shows_source=True, check_data=self.check_data)

    def check_data(self, info: DataInfo) -> None:
        """Refuse rubrics, which this method does not read."""
        check_rubrics(self.name, info, are_read=False)

    async def _criteria(self, aspects: tuple[Aspect, ...]) -> tuple[Aspect, ...]:
        return self._judge.aspects  # of every aspect

    async def _fuse(
        self, example: Example, aspects: tuple[Aspect, ...], ratings: Ratings
    ) -> list[Score]:
        if isinstance(ratings, Failure):
            ratings = [ratings]
        # unlike an unusable rating, a failed request is not filled with a mean: a failure of the
        # network must not become part of a score
        if error := broken_part(ratings):
            problem = {**error.model_dump(), "outcome": "error"}
            scores = leave_unscored(
                example, aspects, problem, how="fused", signature=self.signature
            )
        else:
            values = [part.value for part in ratings if isinstance(part, Score)]
            features = [float("nan") if value is None else value for value in values]
            scores = await self._verdicts.scores(example, aspects, features, self.signature)
        # usage of the shared ratings is counted once, on the first aspect
        return [scores[0].model_copy(update={"usage": usage_of(ratings)}), *scores[1:]]

    def describe(self) -> dict[str, Any]:
        """Return options, aspects, the evaluator's digest, and the judge's own description."""
        criteria = {node.id: node.definition for node in self._evaluator.tree or ()}
        return super().describe() | {"judge": self._judge.describe(), "criteria": criteria}


class Batched(Generic[T, R]):
    """An async function of one row, from a function of many.

    It waits for a whole turn of the event loop without a further row.
    """

    def __init__(self, compute: Callable[[Sequence[T]], Sequence[R]]) -> None:
        """Make the function.

        Args:
            compute: Takes rows and returns one result for each, in order.
        """
        self._compute, self._rows = compute, list[T]()
        self._batches: SharedCalls[Sequence[R]] = SharedCalls()

    async def __call__(self, row: T) -> R:
        """Return the row's result, or raise the function's error for its batch."""
        rows = self._rows
        rows.append(row)
        at = len(rows) - 1
        results, _ = await self._batches.join(id(rows), partial(self._compute_all, rows))
        return results[at]

    async def _compute_all(self, rows: list[T]) -> Sequence[R]:
        """Compute after a whole turn of the loop without a further row."""
        seen = 0
        while seen < len(rows):
            seen = len(rows)
            # a turn of the event loop rather than a timer, so that a single row does not wait
            await asyncio.sleep(0)
        self._rows = []
        return self._compute(rows)
