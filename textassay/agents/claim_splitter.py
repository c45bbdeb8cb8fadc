"""Splits an output into claims that can be checked one by one: by a model, or by sentences."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from textassay.agents.ask import MAX_QUOTED, Ask, Parsed
from textassay.agents.reading.lists import parse_statements
from textassay.runtime.errors import ContentRefused
from textassay.runtime.messages import NO_USAGE, Example, Message, ScoreError, Usage
from textassay.runtime.model import Sample
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter

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
        """Return the claims; none, with the reason, if the answer is no list or names none.

        Raises:
            PromptError: The prompt file does not render.
            ContentRefused: The provider's filter cut the answer off.
            ModelError: The model could not be asked.
        """
        if not example.output.strip():
            return Claims(problem=EMPTY)
        count = self.per_sentence * len(self.splitter.split(example.output))
        # the output alone: a model that sees the source would mend what the output says by it
        alone = example.model_copy(update={"source": None, "context": None, "references": ()})
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
    if sample.finish_reason == "filtered":
        raise ContentRefused("the provider's content filter cut the list of claims off")
    return parse_statements(sample.text, cut=sample.finish_reason == "length")


def _problem(answer: Parsed[tuple[str, ...] | None]) -> str | None:
    return "NoClaimList" if answer.read[0] is None else None


def _dry_run_answer(example: Example, count: int) -> str:
    """Return as many claims as may be listed, which no other example has."""
    reply = "of this text says that someone did something with somebody at some place"
    return "\n".join(f"{i}. Claim {i} {reply} {example.id}." for i in range(1, count + 1))
