"""Claims: the statements of a text, each verified against the source."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from textassay.agents.aggregation import EMPTY, UNIT, Average, answer_evidence, common_fields
from textassay.agents.ask import Ask, check_not_filtered, remind_of, signature_of_parts
from textassay.agents.lookup import narrow
from textassay.agents.prompt_template import Task, prompt_digest
from textassay.agents.questions import (
    Answerer,
    QuestionSet,
    YesNoScorer,
    default_form,
    fill_placeholders,
)
from textassay.agents.quoted_answerer import MAX_TOKENS, QuotedAnswerer, score_quoted
from textassay.agents.quotes import evidence_pieces, is_only_asked, quotable
from textassay.agents.reading.lists import parse_statements
from textassay.agents.reading.outcomes import MAX_QUOTED
from textassay.methods.judging import ALL_ASPECTS, PromptMethod, ask_to_write
from textassay.methods.method import SourcedOptions
from textassay.runtime.base import NO_USAGE, Json, Message, Outcome, ScoreError, Usage
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import Aspect, Example, Failure, How, Score
from textassay.runtime.model import Sample
from textassay.tools.text import DEFAULT_SPLITTER
from textassay.tools.tool import Tool, premise
from textassay.version import __version__

FACTUAL = ("consistency", "factuality", "groundedness", "faithfulness", "accuracy")
"""Aspects about the agreement of a text with its source."""


class ClaimsOptions(SourcedOptions):
    """Options of `claims`."""

    split: Literal["model", "sentences"] = "model"
    """`model`: a model (role `splitter`) lists the claims; `sentences`: each sentence is one."""
    verify: Literal["quoted", "p-yes"] = "quoted"
    """`quoted`: the judge answers in words and quotes the decisive passage, which is looked up in
    the source; `p-yes`: P(yes) / (P(yes) + P(no)), by log-probabilities if the model sends usable
    ones, else by the share of yes among written answers. With `tools` the tool verifies instead."""
    support: Literal["fraction", "probability"] = "fraction"
    """`fraction`: the share of claims that are supported with a probability above 0.5 (FActScore);
    `probability`: the mean of the probabilities."""
    gamma: int = Field(default=0, ge=0)
    """Number of claims below which a text is penalized, by exp(1 - gamma / claims); FActScore uses
    10, and 0 means no penalty.
    """
    pattern: str = "Is everything that this {output} says supported by the {source}?"
    """Question of `verify=p-yes`; `{output}` and `{source}` are the task's names for its texts."""


class ClaimCheck(PromptMethod):
    """Claims against the source (FActScore, Min et al. 2023, arXiv 2305.14251).

    1. A model lists the claims of the output, or each sentence is one.
    2. Each claim is verified against the windows of the source that are closest to it: by the judge
    with a quotation that is looked up, by P(yes), or by a tool such as `nli` or `minicheck`
    (MiniCheck, Tang et al. 2024, arXiv 2404.10774).
    3. The score is the share of supported claims, with an optional penalty for few claims.

    Deviations: FActScore retrieves from Wikipedia, this method reads the example's own source; it
    splits sentence by sentence with demonstrations, this method splits the output in one request.
    All words are ours. A claim without a verdict is left out of the share and counted.
    """

    name = "claims"
    how: How = "fused"
    shows_references = False
    prompt = "claims"
    shows_source = False  # only the closest windows of a conversation
    default_tools: tuple[str, ...] = ()
    """No tool: the judge verifies unless a tool is named."""
    Options = ClaimsOptions
    options: ClaimsOptions

    def prepare(self) -> None:
        """Choose the aspects, and the agents that split and verify."""
        self._task = self._task.model_copy(update={"aspects": _aspects_about_facts(self._task)})
        self._splitter, options = self._make_splitter(), self.options
        asks = list[Ask]()  # tools and `split=sentences` call no model
        if self.tools:
            self._tool = self._only_tool()
            self._verify = self._measure
        elif self._verifier == "quoted":
            # the claim takes the place of the output, under its own name
            as_claim = self._task.model_copy(update={"output_name": "Claim"})
            asks.append(replace(self.ask(max_tokens=MAX_TOKENS), task=as_claim))
            self._quoter = QuotedAnswerer(asks[0], options.parse_retries)
            self._verify = self._verify_by_quotation
        else:
            asks.append(self.ask_yes_or_no("decomp_eval"))
            self.answerer = Answerer(asks[0])
            self._verify = self._ask_yes_or_no
        if isinstance(self._splitter, ClaimSplitter):
            asks.append(self._splitter.ask)
        models = dict.fromkeys(ask.model.name for ask in asks)
        self.prompt_digest = prompt_digest(tuple(ask.prompt for ask in asks), *self._variants)
        how = "how:auto|" if self.answerer else ""
        added = ""
        for name in dict.fromkeys(name for ask in asks for name in ask.settings):
            values = dict.fromkeys(str(ask.settings.get(name, "-")) for ask in asks)
            added += f"{name}:{'+'.join(values)}|"
        self.signature = (
            f"method:{self.name}|model:{'+'.join(models) or '-'}|prompt:{self.prompt_digest}"
            f"|layout:{options.prompt_layout}|verify:{self._verifier}|{how}"
            f"support:{options.support}|{added}v:{__version__}"
        )

    def nodes(self) -> list[Node]:
        """Split, verify every claim, and take the share."""
        example = "input.example"
        return [
            Node("claims", self._split, example=example),
            Node("verdicts", self._verify, example=example, claim=each("claims.items")),
            Node("scores", self._score_claims, **ALL_ASPECTS, claims="claims", verdicts="verdicts"),
        ]

    async def _split(self, example: Example) -> Claims:
        # before any request: without a source nothing can be verified
        if example.output.strip() and not premise(example):
            message = (
                "claims are verified against a source or context, which this example does not have"
            )
            return Claims(problem=ScoreError(type="MissingSource", message=message))
        return await self._splitter(example)

    async def _score_claims(
        self,
        example: Example,
        aspects: Sequence[Aspect],
        claims: Claims,
        verdicts: list[Score | Failure],
    ) -> list[Score]:
        """Return a score for each aspect, all with the same value; the first has the usage."""
        scores = [await self._score_on(example, aspect, claims, verdicts) for aspect in aspects]
        return [scores[0], *(score.model_copy(update={"usage": NO_USAGE}) for score in scores[1:])]

    async def _score_on(
        self, example: Example, aspect: Aspect, claims: Claims, verdicts: list[Score | Failure]
    ) -> Score:
        signature = signature_of_parts(self.signature, verdicts)
        about = common_fields(example, aspect, how="fused", signature=signature)
        if problem := claims.problem:
            outcome: Outcome = "abstained" if problem.type != "NoClaimList" else "invalid"
            return Score(error=problem, outcome=outcome, usage=claims.usage, **about)
        parts = [self._as_share(verdict) for verdict in verdicts]
        score = await Average(signature)(example, aspect, parts)
        fields = ("answer", "quote", "found_in", "p_yes", "mass", "window", "windows", "premise")
        evidence = tuple(
            answer_evidence(verdict, claim, fields)
            for claim, verdict in zip(claims.items, verdicts, strict=True)
        )
        update: dict[str, Any] = {
            "evidence": (*evidence, *_notes(claims, verdicts)),
            "usage": claims.usage + score.usage,
        }
        if score.value is not None:
            value = score.value
            if self.options.gamma:  # for a text with few claims (FActScore, its length penalty)
                value *= math.exp(min(0.0, 1 - self.options.gamma / len(claims.items)))
            update["value"] = value if aspect.higher_is_better else 1.0 - value
        return score.model_copy(update=update)

    def _as_share(self, verdict: Score | Failure) -> Score | Failure:
        is_share = self.options.support == "fraction"
        if not is_share or isinstance(verdict, Failure) or verdict.value is None:
            return verdict
        return verdict.model_copy(update={"value": float(verdict.value > 0.5)})

    def _make_splitter(self) -> Callable[[Example], Awaitable[Claims]]:
        options = self.options
        if options.split == "sentences":
            return sentence_claims
        ask = ask_to_write(
            self.models, "splitter", "claims_split", self._task, options, seed=options.seed,
            what="claims", instead="take options={'split': 'sentences'}",
        )  # fmt: skip
        self.has_writer = True
        return ClaimSplitter(ask, options.parse_retries)

    @cached_property
    def _verifier(self) -> str:
        """The name of the tool, `typed`, or the option."""
        if self.tools:
            return self.tools[0].name
        if self.decides and self.options.verify == "quoted":
            self.check_written_unset("verify")
        return "typed" if self.decides else self.options.verify

    @property
    def _question_counts(self) -> bool:
        return self.options.question_counts(self._task)

    def _only_tool(self) -> Tool:
        tool, *others = self.tools
        if others:
            names = ", ".join(tool_.name for tool_ in self.tools)
            raise ConfigurationError(f"one tool verifies the claims, not {names}; name one")
        if tool.scale != UNIT or not tool.higher_is_better:
            raise ConfigurationError(
                f"the tool {tool.name!r} gives no probability of support from 0 to 1; use nli,"
                " minicheck or unieval with tools=nli"
            )
        self.check_unset(f"the tool {tool.name!r} verifies the claims", "pattern", "verify")
        return tool

    @property
    def _variants(self) -> tuple[object, ...]:
        """Further facts that change the scores."""
        options, task = self.options, self._task.digest
        evidence = [options.evidence] if options.evidence else []
        words = [tool.signature for tool in self.tools] or [options.pattern]
        profile = () if self.tools else self.profile.digest_parts
        counted = (options.gamma, options.split, *evidence, *words)
        return (*counted, options.prompt_layout, task, *profile)

    async def _verify_by_quotation(self, example: Example, claim: str) -> Score:
        """Return 1 for a claim that the judge supports with a quotation, and 0 otherwise.

        The score is `abstained` with `QuoteNotFound` if the quoted passage does not exist. An
        unsupported claim needs no passage, since the source may not mention it.
        """
        answer = await self._quoter(self._near(example, claim), ASPECT)
        # not in the output, which always has the claim
        texts = quotable(example, question_counts=self._question_counts)
        del texts["output"]
        is_source = self._question_counts or not is_only_asked(example)
        return score_quoted(
            answer,
            texts,
            must_quote=answer.verdict == "yes",
            place="the source" if is_source else "the context",
            **common_fields(example, ASPECT, how="text"),
        )

    async def _ask_yes_or_no(self, example: Example, claim: str) -> Score:
        """Return P(yes) / (P(yes) + P(no)) that the claim is supported.

        A decision model gets all claims of an output with the whole source in one request; any
        other model gets one request for each claim, in place of the output.
        """
        task = self._task
        assert self.answerer  # otherwise claims are verified in another way
        scorer = YesNoScorer(self.answerer, self.signature)
        words = {"{output}": task.output_name.lower(), "{source}": task.source_name.lower()}
        question = fill_placeholders(self.options.pattern, words)
        aspect = ASPECT.model_copy(update={"question": question})
        if self.decides:
            question_set = self._beside_source(example, claim, aspect)
            return await scorer.answer(example, aspect, question_set)
        return await scorer(self._near(example, claim), aspect)

    def _beside_source(self, example: Example, claim: str, aspect: Aspect) -> QuestionSet:
        prepared, task = self.profile.prepare(example, self._task), self._task
        source = self._evidence_in(example, prepared.source)
        parts = [(task.source_name, source), (task.context_name, prepared.context)]
        form = default_form(task, aspect).model_copy(update={"definition": f"Claim: {claim}"})
        return QuestionSet(
            id=example.id,
            texts=tuple({"label": n, "text": text} for n, text in parts if text and text.strip()),
            form=form,
            output=claim,
            images=example.images,
        )

    async def _measure(self, example: Example, claim: str) -> Score:
        """Return the score of a tool, such as `nli`, which reads the whole source in windows."""
        source = self._evidence_in(example, example.source)
        claimed = {"output": claim, "references": (), "source": source}
        return await self._tool.score(example.model_copy(update=claimed))

    def _near(self, example: Example, claim: str) -> Example:
        """Return the example with a claim as its output and the closest windows as its source.

        References are left out: a claim is checked against source and context.
        """
        near = narrow(example, claim, question_counts=self._question_counts)
        return near.model_copy(update={"output": claim, "references": ()})

    def _evidence_in(self, example: Example, source: str | None) -> str | None:
        """Return the source, or the results of tools in a conversation that is only a question."""
        if self._question_counts or not is_only_asked(example):
            return source
        results = [p.shown for p in evidence_pieces(example, question_counts=False) if p.turn]
        return "\n\n".join(results) or None


def _aspects_about_facts(task: Task) -> tuple[Aspect, ...]:
    """Return the aspects that are scored by the share of supported claims.

    They are the chosen aspects about facts, or a single chosen one; `consistency` if a task has
    none about facts.
    """
    aspects = tuple(aspect for aspect in task.aspects if aspect.name in FACTUAL)
    if not aspects and len(task.aspects) == 1:
        aspects = task.aspects
    if not aspects and task.aspects == task.family:
        definition = (
            "how far the facts that the text states are supported by what it was made from."
        )
        aspects = (Aspect(name="consistency", definition=definition),)
    if not aspects:
        names = ", ".join(aspect.name for aspect in task.aspects)
        raise ConfigurationError(
            f"claims judges whether a text agrees with its source, and none of {names} is about"
            " that; give aspects=consistency, or one aspect alone"
        )
    return tuple(aspect.model_copy(update={"scale": UNIT}) for aspect in aspects)


class Claims(Message):
    """The claims of an output."""

    items: tuple[str, ...] = ()
    """Self-contained statements, in the order of the output."""
    problem: ScoreError | None = None
    """Why there are no claims."""
    dropped: int = 0
    """Number of claims beyond the requested maximum."""
    usage: Usage = NO_USAGE
    """Cost of splitting."""


@dataclass(frozen=True)
class ClaimSplitter:
    """Asks a model for an output's claims (FActScore, arXiv 2305.14251, section 3)."""

    ask: Ask
    """Model and prompt, which also gets `count`."""
    retries: int = 1
    """How often an answer without a list is requested again."""

    async def __call__(self, example: Example) -> Claims:
        """Return at most three claims for each sentence, or why there are none."""
        if not example.output.strip():
            return Claims(problem=EMPTY)
        count = 3 * len(DEFAULT_SPLITTER.split(example.output))
        # the output alone: a model that sees the source would correct the output's claims by it
        alone = example.model_copy(
            update={"source": None, "context": None, "references": (), "images": ()}
        )
        answer = await self.ask.until_usable(
            self.ask.render(self.ask.prepare(alone), count=count),
            _read,
            remind_of("list"),
            retries=self.retries,
            problem=lambda answer: None if answer.readings[0] is not None else "NoClaimList",
            # a short sentence for each claim, and some words around the list
            max_tokens=100 + count * 40,
            dry_run_answer=_dry_run_answer(example, count),
        )
        (claims,), usage = answer.readings, answer.usage
        if claims:
            dropped = max(0, len(claims) - count)
            return Claims(items=claims[:count], dropped=dropped, usage=usage)
        kind, message = "NoClaims", "the text states nothing that could be checked"
        if claims is None:
            cut = f" (cut after max_tokens={answer.max_tokens})" if answer.cut else ""
            kind, reply = "NoClaimList", answer.text[:MAX_QUOTED]
            message = f"the answer is not a list of claims{cut}; it said: {reply!r}"
        return Claims(problem=ScoreError(type=kind, message=message), usage=usage)


async def sentence_claims(example: Example) -> Claims:
    """Return every sentence of an output as a claim, without repeats and without a model."""
    items = tuple(dict.fromkeys(DEFAULT_SPLITTER.split(example.output)))
    return Claims(items=items, problem=None if items else EMPTY)


def _read(sample: Sample) -> tuple[str, ...] | None:
    check_not_filtered(sample, "the list of claims")
    return parse_statements(sample.text, cut=sample.finish_reason == "length")


def _dry_run_answer(example: Example, count: int) -> str:
    """Return the largest number of claims, different ones for each example."""
    reply = "of this text says that someone did something with somebody at some place"
    return "\n".join(f"{i}. Claim {i} {reply} {example.id}." for i in range(1, count + 1))


ASPECT = Aspect(name="claim", definition="whether the source supports the claim.", scale=UNIT)
"""The aspect that every verifier judges."""


def _notes(claims: Claims, verdicts: list[Score | Failure]) -> tuple[Json, ...]:
    """Return notes on all claims together: abstentions, and claims that were dropped."""
    notes = list[Json]()
    unread = sum(isinstance(verdict, Score) and verdict.outcome != "scored" for verdict in verdicts)
    if unread:
        text = f"{unread} of {len(verdicts)} claims have no verdict"
        notes.append({"text": text, "abstained": unread})
    if claims.dropped:
        text = f"{claims.dropped} claims beyond the requested maximum were left out"
        notes.append({"text": text, "dropped": claims.dropped})
    return tuple(notes)
