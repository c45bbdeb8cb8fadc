"""`fit --method rubric`: criteria that a model proposes from rated texts, kept while they help.

From few labels (HypoEval, Li et al. 2025, arXiv 2504.07174). In each round a model sees rated texts
and proposes criteria; a criterion stays only if the interval of its held-out importance is above 0.
HypoEval selects hypotheses by their accuracy on the texts that they were proposed from, and
averages their ratings; here folds over sources decide, and an aggregator weighs the remaining
criteria.

The folder is the folder of an alignment; OUT/layers/N.json holds the criteria of round N,
OUT/layers/N/ the run that rated them on the training rows (0: the aspects themselves), and
OUT/layers/held-out/ the run that rated the held-out rows on the remaining criteria.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, TypeAdapter

from textassay.agents.ask import Ask
from textassay.agents.planning import Decomposer, Decomposition
from textassay.agents.prompt_template import fence_texts
from textassay.arrays import Codes, Floats, Mask
from textassay.fitting.alignment import Alignment, AlignmentResult, NodeValues, read_kept
from textassay.fitting.feature_table import FeatureTable, check_no_leaks
from textassay.fitting.importance import cross_fitted_importance
from textassay.fitting.learn import Fitter, choose, correlations, predict
from textassay.fitting.request import FitRubric
from textassay.learning.attribution import Importance
from textassay.methods.hd_eval import SCALE
from textassay.methods.library import profiles
from textassay.methods.method import model_for
from textassay.prompts import nonce
from textassay.runtime.base import Json
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import ConfigurationError, MalformedResponse, RunFolderError
from textassay.runtime.messages import Aspect, AspectTree, Example
from textassay.runtime.model import Model
from textassay.runtime.storage.files import write_json
from textassay.table import Estimate

PAIRS = 6
"""Number of rated texts that a round shows for an aspect."""


class _Round(BaseModel):
    """The file of a round: ids of the shown texts by aspect, and the proposed criteria."""

    shown: dict[str, list[str]]
    proposed: list[Decomposition]


class Rubric(Alignment):
    """One rubric: checked when constructed, executed by `run`, counted by `dry_run`."""

    request: FitRubric
    reported_as = "rubric"

    def _sides(self, people: FeatureTable) -> tuple[Mask, Mask]:
        """Return a few training rows, spread over many sources, and twice as many held-out rows."""
        train, test = super()._sides(people)
        labels, seed = self.request.labels, self.request.seed
        train = spread(train, people.groups, labels, seed)
        # held-out rows only measure the result; a requested share is used in full
        if self.request.test_fraction is None:
            test = spread(test, people.groups, 2 * labels, seed)
        return train, test

    @property
    def growth(self) -> Json:
        request = self.request
        return {
            "rounds": request.rounds, "count": request.children, "pairs": PAIRS,
            "labels": request.labels,
        }  # fmt: skip

    def _check_learnable(self) -> None:
        if any(example.images for example in self.examples):
            raise ConfigurationError(
                "criteria are written from texts alone, and some of these examples have images; use"
                ' method=hd-eval, or leave the images out: fields={NAME: "meta"}'
            )
        super()._check_learnable()

    def _measure(self, aggregator: str, rows: FeatureTable) -> object:
        # as in the selection of criteria: with few labels, single folds are too small
        return [importance_for(root, rows, self.fitter) for root in self.roots]

    def _check_models(self, models: Mapping[str, Model]) -> None:
        self.decomposer(models)

    def decomposer(self, models: Mapping[str, Model]) -> Decomposer:
        """Return the agent that proposes criteria."""
        options = self.judging
        profiles.require_generation(
            "criteria", "learn from recorded scores", options.profile, models, "decomposer"
        )
        ask = Ask(model_for(models, "decomposer"), "rubric", self.task, seed=options.seed)
        return Decomposer(
            ask, count=self.request.children, scale=SCALE, repairs=options.parse_retries
        )

    async def grow(self) -> AlignmentResult:
        """Propose and rate criteria until a round adds none, then learn how people weigh them.

        Held-out rows are rated once, on the remaining criteria.
        """
        request, roots = self.request, self.roots
        train, rows = self.people.rows(self.train), self.select(self.train)
        tree = AspectTree(aspects=roots)
        ratings = dict(await self.rate("0", tree, roots, rows))
        criteria_kept, tried, rounds = list[Aspect](), list[Aspect](), list[Json]()
        for number in range(1, request.rounds + 1):
            known_ratings = {node.id: ratings[node.id] for node in (*roots, *criteria_kept)}
            texts = texts_to_show(train, known_ratings, number, self.fitter.seed)
            proposed = await self.propose(number, texts, tried)
            new = [part for decomposition in proposed for part in decomposition.aspects]
            notes = [note | {"under": parts.of.id} for parts in proposed for note in parts.notes]
            if new:
                # parents are roots, so that a rubric always has two layers
                tree = tree.with_children(new)
                ratings |= await self.rate(str(number), tree, new, rows)
            tried += new
            verdicts = weed(train, roots, [*criteria_kept, *new], ratings, self.fitter)
            criteria = [
                {
                    "criterion": node.id,
                    "name": node.name,
                    "definition": node.definition,
                    "new": node in new,
                    "importance": decision.importance.value,
                    "ci": list(decision.importance.ends) or None,
                    "kept": decision.reason is None,
                    "reason": decision.reason,
                }
                for node in (*criteria_kept, *new)
                for decision in [verdicts[node.id]]
            ]
            rounds.append({"round": number, "shown": texts, "criteria": criteria, "unused": notes})
            gone = {id_ for id_, verdict in verdicts.items() if verdict.reason}
            criteria_kept = [node for node in (*criteria_kept, *new) if node.id not in gone]
            if not any(node in criteria_kept for node in new):  # no further criterion helps
                break
        tree = AspectTree(aspects=roots).with_children(criteria_kept)
        held_out = await self.rate("held-out", tree, list(tree), self.select(~self.train))
        parts = self.split({node.id: {**ratings[node.id], **held_out[node.id]} for node in tree})
        choice = choose(request.aggregator, parts.train, self.fitter)
        rounds[-1]["agreement"] = correlations(predict(choice.aggregator, parts.test), parts.test)
        nothing = (
            f"none of {len(tried)} criteria has an importance above 0 with {request.labels} labels"
            " at most: the evaluator uses only the aspects' own ratings; rate more rows "
            "(labels=N), or let another model propose"
        )
        return AlignmentResult(tree, choice, parts, rounds, () if criteria_kept else (nothing,))

    async def propose(
        self, number: int, texts: Mapping[str, Sequence[str]], tried: Sequence[Aspect]
    ) -> list[Decomposition]:
        """Return the criteria of a round, from its file if an earlier call wrote one.

        Aspects without a new proposal are left out.
        """
        assert self._folder is not None  # a dry run proposes nothing
        file = self._folder / f"{number}.json"
        by_name = {name.casefold(): list(ids) for name, ids in texts.items()}
        ids = {root.id: by_name[root.name.casefold()] for root in self.roots}
        if file.exists():
            earlier = read_kept(file, TypeAdapter(_Round), "have criteria proposed again")
            if earlier.shown != ids:
                raise RunFolderError(
                    f"{file} contains criteria that were proposed from other texts; delete the"
                    " rounds from there on, or choose another folder"
                )
            return earlier.proposed
        proposer = self.decomposer(self._models)

        async def propose(root: Aspect) -> Decomposition | None:
            below = [node for node in tried if node.parent == root.id]
            try:
                return await proposer(root, below, **self.demonstrations(root, ids[root.id]))
            except MalformedResponse:
                # after the first round the model may have no further idea; a model that cannot
                # write a list at all must be reported
                if not tried:
                    raise
                return None

        answers = await gather([propose(root) for root in self.roots])
        proposed = [answer for answer in answers if answer is not None]
        write_json(file, _Round(shown=ids, proposed=proposed).model_dump(mode="json"))
        return proposed

    def demonstrations(self, root: Aspect, ids: Sequence[str]) -> Json:
        """Return the rated texts for the prompt: texts, ratings and the scale."""
        human = {name.casefold(): name for name in self.people.aspects}[root.name.casefold()]
        by_id = {example.id: example for example in self.examples}
        examples = [by_id[id_] for id_ in ids]
        texts = [text for e in examples for text in (e.source, e.context, e.output) if text]
        number = nonce(texts)
        low, high = self.fitter.scales[human]
        return {
            "pairs": tuple(
                {"rating": f"{e.human[human]:g}", "texts": tuple(self._texts(e, number))}
                for e in examples
            ),
            "low": f"{low:g}",
            "high": f"{high:g}",
        }

    def _texts(self, example: Example, number: str) -> list[dict[str, str]]:
        task = self.task
        parts = (
            ("source", task.source_name, example.source),
            ("context", task.context_name, example.context),
            ("output", task.output_name, example.output),
        )
        texts = [
            (kind, label, text if kind == "output" else _beginning(text))
            for kind, label, text in parts
            if text and text.strip()
        ]
        return fence_texts(texts, number)

    async def _ask_all(self) -> None:
        tree, request = AspectTree(aspects=self.roots), self.request
        await self._count(tree, self.roots)
        proposer = self.decomposer(self._models)
        ids = [example.id for example in self.select(self.train)[:PAIRS]]
        for number in range(1, request.rounds + 1):
            criteria = [node for node in tree if node.parent is not None]
            await gather(
                [proposer(root, criteria, **self.demonstrations(root, ids)) for root in self.roots]
            )
            new = [
                Aspect(name=f"Criterion {number}.{at}", definition="how well the text does in it.",
                       scale=SCALE, parent=root.id)
                for root in self.roots
                for at in range(1, request.children + 1)
            ]  # fmt: skip
            tree = tree.with_children(new)
            # in the worst case every criterion stays and is rated on the held-out rows as well
            await self._count(tree, new)


@dataclass(frozen=True)
class _CriterionDecision:
    """The decision on a criterion in a round."""

    reason: str | None
    """Why it was removed; `None` if it stays."""
    importance: Estimate
    """Its held-out importance; undefined if it was not estimated."""


def weed(
    train: FeatureTable,
    roots: Sequence[Aspect],
    criteria: Sequence[Aspect],
    ratings: NodeValues,
    fitter: Fitter,
) -> dict[str, _CriterionDecision]:
    """Decide on each criterion: the least important one is removed until all others matter.

    One at a time, since two similar criteria hide each other's importance. Aspect by aspect, beside
    the aspect's own rating, since with few rows the criteria of all aspects together would hide any
    importance.
    """
    verdicts = dict[str, _CriterionDecision]()
    for root in roots:
        varying = list[Aspect]()
        for node in criteria:
            if node.parent != root.id:
                continue
            values = {v for v in ratings[node.id].values() if v is not None}
            if len(values) < 2:
                reason = "every text has the same rating" if values else "no text has a rating"
                verdicts[node.id] = _CriterionDecision(reason, Estimate(None))
            else:
                varying.append(node)
        verdicts |= _weed_below(root, train, varying, ratings, fitter)
    return verdicts


def _weed_below(
    root: Aspect,
    train: FeatureTable,
    criteria: Sequence[Aspect],
    ratings: NodeValues,
    fitter: Fitter,
) -> dict[str, _CriterionDecision]:
    """Decide on the criteria of one aspect, whose ratings vary."""
    verdicts = dict[str, _CriterionDecision]()
    remaining = list(criteria)
    # 95 % for all criteria of the aspect together (Bonferroni): of many without effect, one
    # interval would exclude 0 by chance
    confidence = 1 - 0.05 / max(1, len(remaining))
    while remaining:
        table = train.with_features({node.id: ratings[node.id] for node in (root, *remaining)})
        check_no_leaks(table)
        measured = importance_for(root, table.rows(table.filled), fitter)
        decisions = dict[str, _CriterionDecision]()
        for name, mean, span in zip(
            measured.names, measured.mean[:, 0], measured.interval(confidence)[:, 0], strict=True
        ):
            ends = span.tolist() if np.isfinite(span).all() else ()
            decisions[name] = _CriterionDecision(None, Estimate(float(mean), *ends))
        whole_line = (-np.inf, np.inf)
        spans = {node.id: decisions[node.id].importance.ends or whole_line for node in remaining}
        worst = min(remaining, key=lambda node: spans[node.id][0])
        low, high = spans[worst.id]
        if low > 0:
            return verdicts | {node.id: decisions[node.id] for node in remaining}
        reason = f"importance {low:+.3f} to {high:+.3f}: not above 0"
        verdicts[worst.id] = replace(decisions[worst.id], reason=reason)
        remaining.remove(worst)
    return verdicts


def importance_for(root: Aspect, table: FeatureTable, fitter: Fitter) -> Importance:
    """Return the importance that decides on the criteria of an aspect."""
    [aspect] = [name for name in table.aspects if name.casefold() == root.name.casefold()]
    # ridge decides which criteria stay; the final aggregator is the user's choice
    return cross_fitted_importance("ridge", table, fitter, aspect, count=5, repeats=10)


def texts_to_show(
    train: FeatureTable, features: NodeValues, number: int, seed: int
) -> dict[str, list[str]]:
    """Return the ids of the rated texts that a round shows, by human aspect.

    Half of them are spread over the ratings, from the lowest to the highest; from the second round
    on, the other half are the texts with the largest residuals so far.
    """
    texts = dict[str, list[str]]()
    for column, aspect in enumerate(train.aspects):
        human = train.human[:, column]
        rated = np.flatnonzero(~np.isnan(human))
        rng = np.random.default_rng((seed, number, column))
        count = min(PAIRS, len(rated))
        hardest = list[int]()
        if number > 1:
            residual = _residuals(human[rated], train.with_features(features).features[rated])
            hardest = rated[np.argsort(-residual, kind="stable")][: count // 2].tolist()
        others = np.array([row for row in rated.tolist() if row not in hardest])
        # one text from each of equally large strata, so that all ratings occur
        ordered = others[np.lexsort((rng.random(len(others)), human[others]))]
        strata = np.array_split(ordered, count - len(hardest))
        rows = hardest + [int(rng.choice(stratum)) for stratum in strata]
        texts[aspect] = [train.ids[row] for row in sorted(rows, key=lambda row: human[row])]
    return texts


def _residuals(human: Floats, features: Floats) -> Floats:
    """Return the residual of each rating in a least-squares fit by the features."""
    gaps = np.isnan(features)
    means = np.where(gaps.all(axis=0), 0.0, np.nanmean(np.where(gaps, np.nan, features), axis=0))
    filled = np.where(gaps, means, features)
    design = np.column_stack([np.ones(len(filled)), filled])
    weights, *_ = np.linalg.lstsq(design, human, rcond=None)
    return np.asarray(np.abs(design @ weights - human), float)


def spread(rows: Mask, groups: Codes, count: int, seed: int) -> Mask:
    """Return at most `count` of the rows, spread evenly over the groups."""
    at = np.flatnonzero(rows)
    if len(at) <= count:
        return rows
    rng = np.random.default_rng(seed)
    at = at[rng.permutation(len(at))]
    rank = np.zeros(len(at), int)
    for code in np.unique(groups[at]):
        inside = np.flatnonzero(groups[at] == code)
        rank[inside] = np.arange(len(inside))
    drawn_rows = at[np.lexsort((rng.random(len(at)), rank))[:count]]
    selected: Mask = np.zeros(len(rows), bool)
    selected[drawn_rows] = True
    return selected


def _beginning(text: str, most: int = 400) -> str:
    """Return the first words of a source for the prompt."""
    words = text.split()
    return text if len(words) <= most else f"{' '.join(words[:most])} [...]"
