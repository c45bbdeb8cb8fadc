"""Splits an output into claims, verifies each, and scores the share that is supported.

FActScore (arXiv 2305.14251): a model or the sentences split, a judge or a tool verifies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from textassay.agents.aggregation import Average, as_evidence, shared_fields
from textassay.agents.ask import (
    Ask,
    Parsed,
    ProbabilityReading,
    refuse_filtered,
    signature_of_parts,
)
from textassay.agents.lookup import narrow
from textassay.agents.questions import (
    Answerer,
    QuestionTable,
    Replies,
    SentenceQuestions,
    YesNoAggregator,
)
from textassay.agents.quoted_answerer import QuotedAnswerer, score_quoted
from textassay.agents.quotes import evidence_pieces, is_only_asked, quotable
from textassay.agents.reading.lists import parse_statements
from textassay.agents.reading.rating import MAX_QUOTED
from textassay.runtime.messages import (
    NO_USAGE,
    Aspect,
    Example,
    Failure,
    Message,
    Outcome,
    Score,
    ScoreError,
    Usage,
)
from textassay.runtime.model import Json, Sample
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import Tool

TOKENS_PER_CLAIM, TOKENS_BESIDE = 40, 100
"""Room for an answer: a short sentence for each claim, and some words around the list."""


class Claim(Message):
    """One statement of an output."""

    text: str = Field(min_length=1)
    """The statement, understandable by itself."""


class Claims(Message):
    """What an output claims."""

    items: tuple[Claim, ...] = ()
    """In the order of the output."""
    problem: ScoreError | None = None
    """Why there are none."""
    dropped: int = 0
    """Claims beyond the most that were asked for."""
    usage: Usage = NO_USAGE
    """Cost of splitting."""


NO_CLAIMS = ScoreError(type="NoClaims", message="the text states nothing that could be checked")
EMPTY = ScoreError(type="EmptyOutput", message="there is no text to judge")


@dataclass(frozen=True)
class ClaimSplitter:
    """Has a model list an output's claims (FActScore, arXiv 2305.14251, section 3).

    Attributes:
        ask: Model and prompt, which is given `count` as well.
        per_sentence: Most claims for each sentence of the output.
        retries: How often an answer that is no list is asked for again.
        splitter: Counts the sentences.
    """

    ask: Ask
    per_sentence: int = 3
    retries: int = 1
    splitter: SentenceSplitter = DEFAULT_SPLITTER

    async def __call__(self, example: Example) -> Claims:
        """Return the claims; none, with the reason, if the answer is no list or names none."""
        if not example.output.strip():
            return Claims(problem=EMPTY)
        count = self.per_sentence * len(self.splitter.split(example.output))
        # the output alone: a model that sees the source would mend what the output says by it
        alone = example.model_copy(
            update={"source": None, "context": None, "references": (), "images": ()}
        )
        answers = await self.ask.until_usable(
            self.ask.render(self.ask.prepare(alone), count=count),
            _read,
            _problem,
            retries=self.retries,
            form="list",
            max_tokens=TOKENS_BESIDE + count * TOKENS_PER_CLAIM,
            dry_run_answer=_dry_run_answer(example, count),
        )
        usage = sum((answer.usage for answer in answers), NO_USAGE)
        found = answers[-1].read[0]
        if found is None:
            reply = answers[-1].samples[0].text.strip()[:MAX_QUOTED]
            last = answers[-1]
            cut = f" (cut after max_tokens={last.max_tokens})" if last.cut else ""
            message = f"the answer is not a list of claims{cut}; it said: {reply!r}"
            return Claims(problem=ScoreError(type="NoClaimList", message=message), usage=usage)
        items = tuple(Claim(text=text) for text in found[:count])
        problem = None if items else NO_CLAIMS
        return Claims(items=items, problem=problem, dropped=max(0, len(found) - count), usage=usage)


@dataclass(frozen=True)
class SentenceClaims:
    """Takes every sentence of an output as a claim; no model is asked.

    Attributes:
        splitter: Cuts the output into sentences.
    """

    splitter: SentenceSplitter = DEFAULT_SPLITTER

    async def __call__(self, example: Example) -> Claims:
        """Return the sentences, without repeats."""
        sentences = dict.fromkeys(self.splitter.split(example.output))
        items = tuple(Claim(text=sentence) for sentence in sentences)
        return Claims(items=items, problem=None if items else EMPTY)


def _read(sample: Sample) -> tuple[str, ...] | None:
    refuse_filtered(sample, "the list of claims")
    return parse_statements(sample.text, cut=sample.finish_reason == "length")


def _problem(answer: Parsed[tuple[str, ...] | None]) -> str | None:
    return "NoClaimList" if answer.read[0] is None else None


def _dry_run_answer(example: Example, count: int) -> str:
    """Return as many claims as may be listed, which no other example has."""
    reply = "of this text says that someone did something with somebody at some place"
    return "\n".join(f"{i}. Claim {i} {reply} {example.id}." for i in range(1, count + 1))


UNIT = (0.0, 1.0)
ASPECT = Aspect(name="claim", definition="whether the source supports the claim.", scale=UNIT)
"""What every verifier judges."""


@dataclass(frozen=True)
class Windows:
    """How much of a source a judge is shown for one claim.

    Attributes:
        words: Longest window in words.
        most: Number of windows.
        question_counts: Whether a question is evidence even where there is a context.
    """

    words: int = 400
    most: int = 3
    question_counts: bool = True

    def of(self, example: Example, claim: Claim) -> Example:
        """Return the example with the claim in place of its output and the windows as its source.

        References are left out: a claim is checked against what the output was made from.
        """
        near = narrow(
            example,
            claim.text,
            window=self.words,
            most=self.most,
            question_counts=self.question_counts,
        )
        return near.model_copy(update={"output": claim.text, "references": ()})


@dataclass(frozen=True)
class QuotedVerifier:
    """Asks a judge for yes or no and the passage that decides; looks the passage up in the source.

    Attributes:
        ask: Model and prompt.
        windows: How much of the source is shown.
        retries: How often an unusable answer is asked for again.
        required: Whether support counts only with a quotation that is found.
    """

    ask: Ask
    windows: Windows
    retries: int = 1
    required: bool = True

    @cached_property
    def _answerer(self) -> QuotedAnswerer:
        return QuotedAnswerer(self.ask, self.retries)

    async def __call__(self, example: Example, claim: Claim) -> Score:
        """Return 1 for a supported claim and 0 for any other.

        `abstained` with `QuoteNotFound` if the passage that is said to support the claim does not
        exist. A claim that is not supported needs no passage: there may be none about it.
        """
        shown = self.windows.of(example, claim)
        answer = await self._answerer(shown, ASPECT)
        # never in the output: a claim is found there by its nature
        texts = quotable(example, question_counts=self.windows.question_counts)
        del texts["output"]
        is_source = self.windows.question_counts or not is_only_asked(example)
        return score_quoted(
            answer,
            texts,
            must_quote=self.required and answer.verdict == "yes",
            place="the source" if is_source else "the context",
            **shared_fields(example, ASPECT, how="text"),
        )


@dataclass(frozen=True)
class ProbabilityVerifier:
    """Asks a judge and reads P(yes) / (P(yes) + P(no)).

    Attributes:
        ask: Model and prompt, that of `decomp-eval`.
        windows: How much of the source is shown.
        question: What is asked about the claim, which stands in the place of the output.
        reading: Whether written answers are read in place of log-probabilities that the model does
            not send.
        signature: What the scores carry, with how they were read in place of `how:auto`.
    """

    ask: Ask
    windows: Windows
    question: str
    reading: ProbabilityReading = "logprob"
    signature: str = ""
    _table: QuestionTable = field(default_factory=QuestionTable)

    def __post_init__(self) -> None:
        _ = self.answerer  # refuses a model without probabilities before it is asked

    @cached_property
    def answerer(self) -> Answerer:
        """Who answers."""
        return Answerer(self.ask, self._table, reading=self.reading)

    async def __call__(self, example: Example, claim: Claim) -> Score:
        """Return the probability that the claim is supported."""
        shown = self.windows.of(example, claim)
        aspect = ASPECT.model_copy(update={"question": self.question})
        prepare = SentenceQuestions(self.ask.template, self._table, decompose=False)
        question_set = await prepare(shown, aspect)
        replies = Replies()
        if question_set.form is not None:
            reply = await self.answerer(question_set.question, question_set)
            replies = Replies(items=(reply,))
        aggregate = YesNoAggregator(self.signature)
        return await aggregate(shown, aspect, question_set, replies)


@dataclass(frozen=True)
class ToolVerifier:
    """Has a tool measure how far the source supports the claim, such as `nli` or `minicheck`.

    The tool reads the whole source, in windows of its own.

    Attributes:
        tool: Its scale is 0 to 1.
        question_counts: Whether a question is evidence even where there is a context.
    """

    tool: Tool
    question_counts: bool = True

    async def __call__(self, example: Example, claim: Claim) -> Score:
        """Return the tool's score of the claim."""
        claimed = example.model_copy(update={"output": claim.text, "references": ()})
        if not self.question_counts and is_only_asked(example):
            results = [p.shown for p in evidence_pieces(example, question_counts=False) if p.turn]
            claimed = claimed.model_copy(update={"source": "\n\n".join(results) or None})
        return await self.tool.score(claimed)


SUPPORTED = 0.5
"""Probability above which a claim counts as supported."""
_KEPT = ("answer", "quote", "found_in", "p_yes", "mass", "window", "windows", "premise")


@dataclass(frozen=True)
class SupportedFraction:
    """The share of an output's claims that its source supports.

    Attributes:
        signature: What the scores carry, with how claims were verified in place of `how:auto`.
        support: `fraction` counts claims above `SUPPORTED`; `probability` averages the
            probabilities.
        gamma: Number of claims below which a text is penalized for saying little, by
            exp(1 - gamma / claims); 0 for no penalty.
        required: Share of the claims that must have a verdict.
    """

    signature: str = ""
    support: Literal["fraction", "probability"] = "fraction"
    gamma: int = 0
    required: float = 0.5

    async def __call__(
        self,
        example: Example,
        aspects: Sequence[Aspect],
        claims: Claims,
        verdicts: list[Score | Failure],
    ) -> list[Score]:
        """Return one score for each aspect, all of the same value; the first one has the usage."""
        scores = [await self._one(example, aspect, claims, verdicts) for aspect in aspects]
        return [
            score if at == 0 else score.model_copy(update={"usage": NO_USAGE})
            for at, score in enumerate(scores)
        ]

    async def _one(
        self, example: Example, aspect: Aspect, claims: Claims, verdicts: list[Score | Failure]
    ) -> Score:
        signature = signature_of_parts(self.signature, verdicts)
        about = shared_fields(example, aspect, how="fused", signature=signature)
        if claims.problem is not None:
            problem = claims.problem
            outcome: Outcome = "abstained" if problem.type != "NoClaimList" else "invalid"
            return Score.unscored(
                problem.type, problem.message, outcome=outcome, usage=claims.usage, **about
            )
        parts = [self._counted(verdict) for verdict in verdicts]
        score = await Average(signature, self.required)(example, aspect, parts)
        evidence = tuple(
            _as_evidence(claim.text, verdict)
            for claim, verdict in zip(claims.items, verdicts, strict=True)
        )
        update: dict[str, Any] = {
            "evidence": (*evidence, *_notes(claims, verdicts)),
            "usage": claims.usage + score.usage,
        }
        if score.value is not None:
            value = score.value * self._penalty(len(claims.items))
            update["value"] = value if aspect.higher_is_better else 1.0 - value
        return score.model_copy(update=update)

    def _counted(self, verdict: Score | Failure) -> Score | Failure:
        if isinstance(verdict, Failure) or verdict.value is None or self.support != "fraction":
            return verdict
        return verdict.model_copy(update={"value": float(verdict.value > SUPPORTED)})

    def _penalty(self, claims: int) -> float:
        """Return the factor for a text with so few claims (FActScore, its length penalty)."""
        return math.exp(min(0.0, 1 - self.gamma / claims)) if self.gamma else 1.0


def _as_evidence(claim: str, verdict: Score | Failure) -> Json:
    """Return one claim with its verdict as evidence."""
    own = verdict.evidence[0] if isinstance(verdict, Score) and verdict.evidence else {}
    kept = {key: own[key] for key in _KEPT if key in own}
    evidence: Json = {**as_evidence(verdict), **kept, "text": claim}
    return {key: value for key, value in evidence.items() if key not in ("explanation", "scale")}


def _notes(claims: Claims, verdicts: list[Score | Failure]) -> tuple[Json, ...]:
    """Return what is not about a single claim: abstentions, and claims that were dropped."""
    notes = list[Json]()
    unread = sum(isinstance(one, Score) and one.outcome != "scored" for one in verdicts)
    if unread:
        text = f"{unread} of {len(verdicts)} claims have no verdict"
        notes.append({"text": text, "abstained": unread})
    if claims.dropped:
        text = f"{claims.dropped} claims beyond the requested maximum were left out"
        notes.append({"text": text, "dropped": claims.dropped})
    return tuple(notes)
