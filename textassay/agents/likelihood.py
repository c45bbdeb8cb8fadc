"""Scores a text by its probability under a model.

The sum over tokens of w_t log p(h_t | h_<t, T) (GPTScore, 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from textassay.agents.likelihood_words import OverReferences
from textassay.agents.passages import Passage, Passages
from textassay.runtime.concurrency import gather
from textassay.runtime.messages import Aspect, Example, Message, Score, Usage
from textassay.runtime.model import ContinuationRequest, ContinuationResponse, Json, Model, scoring

TokenWeights = Literal["mean", "sum"]
"""Every token weighs 1/m, m being their number, or 1."""
Means = Literal["mean", "harmonic"]
"""How the two directions under one reference are put together."""

MIN_SURPRISE = 1.0
"""Nats against which a token's gain is counted at least: where the model expects a token anyway, a
small gain would be a large share."""
UNLIKELIEST = 3
"""Tokens that a piece of evidence names."""


class Likelihood(Message):
    """What a model made of a passage."""

    passage: Passage
    logprob: float
    """Natural log of the text's probability."""
    tokens: int
    """Number of its tokens."""
    unlikeliest: tuple[tuple[str, float], ...] = ()
    """Its least likely tokens with their log-probabilities, least likely first."""
    alone: float | None = None
    """Natural log of its probability without what is given, if asked for."""
    alone_tokens: int = 0
    """Number of its tokens there."""
    explained: float | None = None
    """Sum over its tokens of `explained_share`, where the probability by itself was asked for."""
    truncated_tokens: int = 0
    """Tokens of the source that the model was not shown, if truncation was asked for."""
    usage: Usage = Usage()

    def value(self, weights: TokenWeights, normalized: bool = False) -> float:
        """Return the weighted sum of log-probabilities, minus the text's own if that is known.

        Args:
            weights: What a token weighs.
            normalized: Whether to return the weighted sum of `explained_share` instead.
        """
        if normalized:
            assert self.explained is not None  # the passage was written with `alone`
            return self.explained / (self.tokens if weights == "mean" else 1)
        given = self.logprob / (self.tokens if weights == "mean" else 1)
        return (
            given
            if self.alone is None
            else given - self.alone / (self.alone_tokens if weights == "mean" else 1)
        )


class Likelihoods(Message):
    """Of all passages behind one score, in their order."""

    items: tuple[Likelihood, ...] = ()


@dataclass(frozen=True)
class LikelihoodReader:
    """Asks a model how likely passages are."""

    model: Model

    def __post_init__(self) -> None:
        scoring(self.model, "continuation")

    async def __call__(self, passages: Passages) -> Likelihoods:
        """Return the likelihoods.

        Raises:
            CapabilityError: The model does not return log-probabilities of a given text.
            ModelError: The model could not be asked.
        """
        return Likelihoods(
            items=tuple(await gather([self._read(passage) for passage in passages.items]))
        )

    async def _read(self, passage: Passage) -> Likelihood:
        requests = [
            ContinuationRequest(
                prompt=passage.prompt, continuation=passage.scored, truncatable=passage.source
            )
        ]
        if passage.alone is not None:
            requests.append(ContinuationRequest(prompt=passage.alone, continuation=passage.scored))
        given, *alone = await gather([self._ask(request) for request in requests])
        rarest = sorted(given.tokens, key=lambda token: token.logprob)[:UNLIKELIEST]
        return Likelihood(
            passage=passage,
            logprob=given.logprob,
            tokens=len(given.tokens),
            unlikeliest=tuple((token.token, token.logprob) for token in rarest),
            alone=alone[0].logprob if alone else None,
            alone_tokens=len(alone[0].tokens) if alone else 0,
            explained=_explained(given, alone[0]) if alone else None,
            truncated_tokens=given.truncated_tokens,
            usage=sum((answer.usage for answer in (given, *alone)), Usage()),
        )

    async def _ask(self, request: ContinuationRequest) -> ContinuationResponse:
        return await scoring(self.model, "continuation").continuation(request)


@dataclass(frozen=True)
class LikelihoodScorer:
    """Makes one score of the likelihoods.

    Directions are averaged under each reference, then references put together.

    Attributes:
        weights: What a token weighs.
        over_references: What becomes of several references.
        over_directions: How both directions under one reference are put together.
        signature: What the scores carry.
        normalized: Whether a token counts by the share of its surprise that the given text takes
            away, not by nats.
    """

    weights: TokenWeights = "mean"
    over_references: OverReferences = "mean"
    over_directions: Means = "mean"
    signature: str = ""
    normalized: bool = False

    async def __call__(
        self, example: Example, aspect: Aspect, passages: Passages, likelihoods: Likelihoods
    ) -> Score:
        """Return the score, a signed log-probability without a scale.

        It has no value if there was no passage.
        """
        items = likelihoods.items
        fields: dict[str, Any] = {"value": self._value(items)} if items else {}
        if passages.missing is not None:
            fields = {"outcome": "abstained", "error": passages.missing}
        return Score(
            id=example.id,
            aspect=aspect.label,
            scale=None,
            how="loglikelihood",
            evidence=tuple(self._as_evidence(item) for item in items),
            usage=sum((item.usage for item in items), Usage()),
            signature=self.signature,
            **fields,
        )

    def _value(self, items: Sequence[Likelihood]) -> float:
        # Directions under each reference first, then references: two kinds of mean do not commute.
        by_reference: dict[int | None, list[float]] = {}
        for item in items:
            by_reference.setdefault(item.passage.reference, []).append(
                item.value(self.weights, self.normalized)
            )
        together = _harmonic if self.over_directions == "harmonic" else _mean
        values = [together(each) for each in by_reference.values()]
        if self.over_references == "max":
            return max(values)
        return (_harmonic if self.over_references == "harmonic" else _mean)(values)

    def _as_evidence(self, item: Likelihood) -> Json:
        passage = item.passage
        piece: Json = {
            "text": passage.question or "(no instruction)",
            "direction": passage.direction,
            "value": item.value(self.weights, self.normalized),
            "logprob": item.logprob,
            "tokens": item.tokens,
            "unlikeliest": [
                {"token": token, "logprob": logprob} for token, logprob in item.unlikeliest
            ],
        }
        if passage.reference is not None:
            piece["reference"] = passage.reference
        if item.alone is not None:
            piece["logprob_alone"] = item.alone
        if item.truncated_tokens:
            piece["truncated_tokens"] = item.truncated_tokens
        return piece


def explained_share(given: float, alone: float) -> float:
    """Return which share of a token's surprise the given text takes away, from -1 to 1.

    The pointwise mutual information of token and given text in units of the token's own
    information, which bounds it above (normalized PMI, Bouma 2009), with `MIN_SURPRISE` as the
    smallest unit. Unlike nats, a single rare token that was copied, or missed, cannot outweigh all
    the others.

    Args:
        given: Log-probability of the token with the given text.
        alone: The same without.
    """
    return max(-1.0, (given - alone) / max(-alone, MIN_SURPRISE))


def _explained(given: ContinuationResponse, alone: ContinuationResponse) -> float:
    """Return the sum over tokens; matched from the end, since a prompt may join the first one."""
    pairs = zip(reversed(given.tokens), reversed(alone.tokens), strict=False)
    return math.fsum(explained_share(one.logprob, other.logprob) for one, other in pairs)


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)


def _harmonic(values: Iterable[float]) -> float:
    """Return the harmonic mean of log-probabilities, which are all 0 or less; 0 if any is 0."""
    known = list(values)
    # A text of probability 1: the harmonic mean tends to 0 there, and the division would fail.
    if any(value == 0 for value in known):
        return 0.0
    return len(known) / math.fsum(1 / value for value in known)
