"""Evaluator folders as methods: over scores that the data have, and HD-Eval as aligned.

A fit on recorded scores asks no model. A feature that no example has is an error before the run;
one that single examples lack counts as its mean over the training rows, as in learning; an example
without any of the features is not scored. In a fitted HD-Eval a model rates the nodes of the tree,
and the aggregator puts them together.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import Field

from textassay.agents.aggregation import broken_part
from textassay.learning.aggregators import Aggregator
from textassay.learning.attribution import explain
from textassay.learning.pooling import Pool
from textassay.learning.training import Floats
from textassay.methods.fitted.evaluator import Evaluator, restore_aggregator
from textassay.methods.fitted.features import read_files, read_row, source_label
from textassay.methods.hd_eval import HDEvalOptions, NodeRatings
from textassay.methods.judging import check_rubrics
from textassay.methods.method import CheckedOptions, Models
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.data.ratings import rater_of
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.graph import Graph, Node, each
from textassay.runtime.messages import (
    Aspect,
    Assignment,
    Example,
    Failure,
    How,
    Score,
    Usage,
)
from textassay.runtime.model import Json
from textassay.version import __version__

T = TypeVar("T")
R = TypeVar("R")
FeatureRow = tuple[Sequence[float], str | None, str | None]
"""Features in order, the system that wrote the text, and the label of its source."""
_PERMUTATIONS = 16
"""Walks behind a contribution that must be sampled."""


class EvidenceOptions(CheckedOptions):
    """Options of every learned evaluator."""

    explain: bool = True
    """Whether the evidence of a score lists the contribution of each feature."""
    top: int | None = Field(default=None, ge=1)
    """Keep only this many of the largest contributions; the others are added up."""


class LearnedOptions(EvidenceOptions):
    """Options of an evaluator over recorded scores."""

    scores: str | tuple[str, ...] = ()
    """Files of scores, or run folders, that hold features beside the data's `metrics`: `FILE` or
    `NAME=FILE`."""
    pool: str | None = None
    """File of all texts to judge, whose features count in the means of their sources and, for
    evaluators fitted with `new_systems`, of systems that the evaluator does not know."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What the aggregator says of one row.

    Attributes:
        raw: Predictions, shape (targets,).
        clipped: To what each feature was clipped, NaN if it was not, shape (features,).
        contributions: Shape (targets, features).
        baseline: Where predictions start, shape (targets,).
        by_means: Contribution of the means of the row's system and source, shape (targets,).
    """

    raw: Floats
    clipped: Floats
    contributions: Floats | None = None
    baseline: Floats | None = None
    by_means: Floats | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """What a score of one aspect is made from.

    Attributes:
        features: Features in order.
        system: System that wrote the text.
        rater: Who rates it, if the example says so.
        severity: Points by which this rater rates below the raters' mean; 0 if unknown.
    """

    features: Sequence[float]
    system: str | None
    rater: str | None
    severity: float


class FittedScorer:
    """From one row of features to what people would say of each aspect, with reasons.

    Attributes:
        aggregator: The fitted aggregator.
        aspects: What is judged, by name of the aggregator's targets.
    """

    def __init__(self, evaluator: Evaluator, options: EvidenceOptions) -> None:
        self.aggregator: Aggregator = restore_aggregator(evaluator)
        self.aspects = {aspect.name: aspect for aspect in evaluator.aspects}
        self._features, self._options = evaluator.features, options
        self._severities: Mapping[str, Mapping[str, float]] = evaluator.made.get("raters", {})
        self._background = np.array(evaluator.background, float)
        # a call of LightGBM or numpy costs about the same for one row as for hundreds
        self._verdict = Batched(self._of_rows)

    async def scores(
        self, example: Example, aspects: Sequence[Aspect], features: Sequence[float], signature: str
    ) -> list[Score]:
        """Return a score for each aspect.

        The evaluator abstains if the example has none of the features.
        """
        # with nothing but gaps the aggregator would predict the mean of the training ratings for
        # everybody
        if all(math.isnan(value) for value in features):
            message = "the example has none of the evaluator's features"
            return [
                Score.unscored(
                    "NoFeatures",
                    message,
                    outcome="abstained",
                    **_fields(example, aspect, signature),
                )
                for aspect in aspects
            ]
        source = source_label(example) if self.aggregator.pools_sources else None
        verdict = await self._verdict((features, example.system, source))
        rater = rater_of(example)
        severity = self._severities.get(rater or "", {})
        return [
            Score(
                value=value,
                evidence=(self._evidence(row, verdict, at, value) if self._options.explain else ()),
                **_fields(example, aspect, signature),
            )
            for aspect in aspects
            for at in [self.aggregator.targets_.index(aspect.name)]
            for row in [_Row(features, example.system, rater, severity.get(aspect.name, 0.0))]
            for raw in [float(verdict.raw[at]) - row.severity]
            for value in [min(max(raw, aspect.scale[0]), aspect.scale[1])]
        ]

    def _of_rows(self, rows: Sequence[FeatureRow]) -> list[_Verdict]:
        features = np.array([row for row, _, _ in rows], float)
        systems, sources = [row[1] for row in rows], [row[2] for row in rows]
        # unclipped, because contributions add up to this; what clipping cuts is listed as evidence
        raw = self.aggregator.predict(features, systems=systems, sources=sources, clip=False)
        clipped = self.aggregator.clipped(features)
        if not self._options.explain:
            return [_Verdict(*one) for one in zip(raw, clipped, strict=True)]
        explanation = explain(
            self.aggregator,
            features,
            self._background,
            systems=systems,
            sources=sources,
            samples=_PERMUTATIONS,
        )
        return [
            _Verdict(one, limits, contributions, explanation.baseline, by_means)
            for one, limits, contributions, by_means in zip(
                raw, clipped, explanation.values, explanation.systems, strict=True
            )
        ]

    def _evidence(self, row: _Row, verdict: _Verdict, at: int, value: float) -> tuple[Json, ...]:
        """Return the baseline, the contributions by size, and what clipping to the scale cut."""
        features = row.features
        assert verdict.contributions is not None  # it was asked for
        assert verdict.baseline is not None
        assert verdict.by_means is not None
        contributions, baseline, cut = (
            verdict.contributions[at].tolist(),
            float(verdict.baseline[at]),
            value - (float(verdict.raw[at]) - row.severity),
        )
        order = sorted(range(len(features)), key=lambda i: (-abs(contributions[i]), i))
        shown = order if self._options.top is None else order[: self._options.top]
        evidence: list[Json] = [{"text": "(start)", "contribution": baseline}]
        evidence += [
            {
                "text": self._features[i],
                "value": None if math.isnan(features[i]) else features[i],
                "contribution": contributions[i],
            }
            | ({} if math.isnan(verdict.clipped[i]) else {"clipped_to": float(verdict.clipped[i])})
            for i in shown
        ]
        if by_means := float(verdict.by_means[at]):
            pooled = self.aggregator.pools_systems_for(self.aggregator.targets_[at])
            text = f"(system {row.system})" if pooled else "(means of the source)"
            evidence.append({"text": text, "contribution": by_means})
        if row.severity:
            evidence.append({"text": f"(rater {row.rater})", "contribution": -row.severity})
        # the rest is summed rather than dropped, so that the evidence still adds up to the value
        if rest := order[len(shown) :]:
            evidence.append(
                {
                    "text": f"({len(rest)} others)",
                    "contribution": math.fsum(contributions[i] for i in rest),
                }
            )
        if cut:
            evidence.append({"text": "(kept on the scale)", "contribution": cut})
        return tuple(evidence)


class FittedMethod:
    """A fitted evaluator over recorded scores.

    1. An example's features are taken from its `metrics`, or from files of scores joined by id.
    2. The aggregator says what people would rate, aspect by aspect, on their scale.
    3. Evidence is how far each feature moved the score: `(start)` plus all contributions is the
    value.
    """

    name = "learned"
    how: How = "fused"
    task = None

    def __init__(
        self,
        evaluator: Evaluator,
        aspects: Iterable[str | Aspect] | None = None,
        options: LearnedOptions | None = None,
    ) -> None:
        self.options = options or LearnedOptions()
        self._evaluator = evaluator
        self._files = (
            (self.options.scores,) if isinstance(self.options.scores, str) else self.options.scores
        )
        self._scores = read_files(self._files, aspects=())
        self._verdicts = FittedScorer(evaluator, self.options)
        self.aspects = chosen(evaluator, aspects)
        self.signature = f"method:{self.name}|evaluator:{evaluator.digest[:12]}|v:{__version__}"
        if self.options.pool is not None:
            # the means depend on the other texts, so scores over another pool are not comparable
            self.signature += f"|pool:{self._take_pool(Path(self.options.pool))[:12]}"
        nodes = [Node("scores", self._judge, example="input.example", aspects="input.aspects")]
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
        rows = [
            (
                read_row(example, self._evaluator.features, self._scores),
                example.system,
                source_label(example),
            )
            for example in examples
        ]
        features, systems, sources = (list(column) for column in zip(*rows, strict=True))
        pool = Pool(np.array(features, float), systems, sources)
        self._verdicts.aggregator = aggregator.with_pool(pool)
        return examples.check().digest

    def check_data(self, info: DataInfo) -> None:
        """Refuse data that lack a feature altogether.

        Raises:
            ConfigurationError: Names the features that no example has.
        """
        there = {**info.metrics, **self._scores}
        # one example may lack a feature, but one that no example has is a wrong file or a
        # misspelled name
        missing = [name for name in self._evaluator.features if name not in there]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise ConfigurationError(
                f"{info.name}: no row has the feature {', '.join(map(repr, missing[:5]))}{more}"
                " that the evaluator was fitted on; give it in 'metrics', or in a file with "
                "options={'scores': 'FILE'}"
            )

    def describe(self) -> dict[str, Any]:
        """Return options, aspects and the evaluator's digest."""
        return {
            "name": self.name,
            "evaluator": self._evaluator.digest,
            "aggregator": self._verdicts.aggregator.name,
            "aspects": [{"name": a.name, "scale": list(a.scale)} for a in self.aspects],
            "options": self.options.model_dump(mode="json"),
        }


def _fields(example: Example, aspect: Aspect, signature: str) -> dict[str, Any]:
    about = {"id": example.id, "aspect": aspect.name, "scale": aspect.scale}
    return {**about, "how": "fused", "signature": signature}


def chosen(evaluator: Evaluator, aspects: Iterable[str | Aspect] | None) -> tuple[Aspect, ...]:
    """Return the evaluator's aspects, or those of them that are wanted."""
    if aspects is None:
        return evaluator.aspects
    known = {aspect.name: aspect for aspect in evaluator.aspects}
    targets = []
    for aspect in aspects:
        name = aspect if isinstance(aspect, str) else aspect.name
        if name not in known:
            raise UnknownName("aspect of the evaluator", name, list(known))
        targets.append(known[name])
    return tuple(dict.fromkeys(targets))


class LearnedTreeOptions(EvidenceOptions):
    """Options of a fitted HD-Eval."""

    allow_change: bool = False
    """Whether another model, or prompts that changed since, may be used than those that were
    learned from."""


class LearnedTree:
    """HD-Eval after alignment (Liu et al. 2024, section 2.4).

    1. The model rates every node of the learned tree with a prompt that names its parent.
    2. The aggregator says what people would rate, aspect by aspect, on their scale.
    3. Evidence is every node with its rating and how far it moved the score.

    A node without a usable rating counts as its mean over the training rows; one that could not be
    asked makes the scores errors, so that a resumed run asks again.
    """

    name = "hd-eval-fitted"
    shows_images = True
    shows_source = True
    how: How = "fused"
    task = None  # it is the evaluator's, not to be chosen

    def __init__(
        self,
        evaluator: Evaluator,
        models: Models,
        aspects: Iterable[str | Aspect] | None = None,
        options: LearnedTreeOptions | None = None,
    ) -> None:
        assert evaluator.tree is not None  # an evaluator of this kind has both
        assert evaluator.task is not None
        self.options = options or LearnedTreeOptions()
        self._evaluator = evaluator
        tree, judged_by = evaluator.tree, HDEvalOptions.read(evaluator.options)
        nodes = tuple(tree[id_] for id_ in evaluator.features)
        self._judge = NodeRatings(models, evaluator.task, tree, nodes, judged_by)
        self._refuse_change()
        self._verdicts = FittedScorer(evaluator, self.options)
        self.aspects = chosen(evaluator, aspects)
        judge = self._judge.scorer.signature_as("fused")
        self.signature = f"{judge}|evaluator:{evaluator.digest[:12]}|v:{__version__}"
        self.graph = Graph(
            self.name,
            input=Assignment,
            nodes=[
                Node("criteria", self._criteria, example="input.example"),
                Node("ratings", self._judge.rate, example="input.example", aspect=each("criteria")),
                Node(
                    "scores",
                    self._fuse,
                    example="input.example",
                    aspects="input.aspects",
                    ratings="ratings",
                ),
            ],
            output="scores",
        )

    def _refuse_change(self) -> None:
        changes = [
            f"{what} changed from {before!r} to {now!r}"
            for what, before, now in (
                # weights were learned for the errors of one judge; another errs in other ways
                ("the model", self._evaluator.model, self._judge.scorer.ask.model.name),
                (
                    "the prompt's digest",
                    self._evaluator.prompts,
                    self._judge.scorer.prompt_digest,
                ),
            )
            if before != now
        ]
        if changes and not self.options.allow_change:
            raise ConfigurationError(
                f"this evaluator was learned from other ratings: {'; '.join(changes)}. Weights "
                "learned for one judge may not suit another; fit again, or apply it anyway with "
                "options={'allow_change': 'true'}"
            )

    def check_data(self, info: DataInfo) -> None:
        """Refuse rubrics, which are not read."""
        check_rubrics(self.name, info, are_read=False)

    async def _criteria(self, example: Example) -> list[Aspect]:
        """Return the nodes, which are the same for all examples."""
        return list(self._judge.aspects)

    async def _fuse(
        self, example: Example, aspects: tuple[Aspect, ...], ratings: list[Score | Failure]
    ) -> list[Score]:
        error = broken_part(ratings)
        # a node that could not be asked is not the same as one without a usable rating: filling it
        # with a mean would make a failure of the network part of the score
        if error is not None:
            scores = [
                Score.unscored(
                    error.type, error.message, outcome="error",
                    **_fields(example, aspect, self.signature),
                )
                for aspect in aspects
            ]  # fmt: skip
        else:
            values = [part.value for part in ratings if isinstance(part, Score)]
            features = [float("nan") if value is None else value for value in values]
            scores = await self._verdicts.scores(example, aspects, features, self.signature)
        usage = sum((part.usage for part in ratings if isinstance(part, Score)), Usage())
        # usage of the shared ratings is counted once, on the first aspect
        return [scores[0].model_copy(update={"usage": usage}), *scores[1:]]

    def describe(self) -> dict[str, Any]:
        """Return the evaluator's digest, the judge's set-up and options."""
        return {
            "name": self.name,
            "evaluator": self._evaluator.digest,
            "aggregator": self._verdicts.aggregator.name,
            "judge": self._judge.describe(),
            "aspects": [{"name": a.name, "scale": list(a.scale)} for a in self.aspects],
            "options": self.options.model_dump(mode="json"),
        }


class Batched(Generic[T, R]):
    """An async function of one row, from a function of many.

    It waits no longer than until everybody has had a turn.

    Args:
        compute: Takes rows and returns one result for each, in order.
    """

    def __init__(self, compute: Callable[[Sequence[T]], Sequence[R]]) -> None:
        self._compute = compute
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []

    async def __call__(self, row: T) -> R:
        """Return the row's result.

        What the function raises, it raises for every row of the batch.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((row, future))
        if len(self._waiting) == 1:
            # a turn of the event loop instead of a timer: rows that are ready together come
            # together, and a lone row does not wait
            loop.call_soon(self._flush_after, 0)
        return await future

    def _flush_after(self, seen: int) -> None:
        """Compute once a whole turn of the loop has brought no further row."""
        if len(self._waiting) > seen:
            asyncio.get_running_loop().call_soon(self._flush_after, len(self._waiting))
            return
        batch, self._waiting = self._waiting, []
        try:
            results = self._compute([row for row, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
