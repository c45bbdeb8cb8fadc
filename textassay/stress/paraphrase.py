"""Says a text in other words, and verifies that the meaning is the same.

A paraphrase is kept if its numbers are those of the original, its length is between half and
double, and a model says of both directions that one text follows from the other. What fails that is
dropped and counted: a change of meaning would be held against the judge. The work is a method like
any other, so it is journaled, cached, budgeted and resumed by the engine. Its scores are 1 for what
is kept, with the paraphrase as explanation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from textassay.agents.aggregation import shared_fields
from textassay.agents.ask import Ask, refuse_filtered
from textassay.agents.prompt_template import Prompt, Task, fenced
from textassay.evaluation.api import GraphMethod
from textassay.methods.judging import PER_ASPECT
from textassay.runtime.concurrency import gather
from textassay.runtime.graph import Graph, Node
from textassay.runtime.messages import NO_USAGE, Aspect, Assignment, Example, Score, Usage
from textassay.runtime.model import Model, Sample
from textassay.stress.edits import PARAPHRASE

WRITER, VERIFIER = "paraphraser", "verifier"
"""Roles of the models that write and verify; without the second the first does both."""
PARAPHRASE_ROLES = (WRITER, VERIFIER)
PARAPHRASE_TOKENS = 1024
SAME_MEANING = Aspect(
    name=PARAPHRASE, definition="Whether the text says the same as the original.", scale=(0.0, 1.0)
)
ATTEMPTS = 2
"""Paraphrases that are asked for until one is verified."""
# In other words:\nThe price rose.
_MARK = re.compile(r"(?im)^\W{0,4}in other words:\W{0,4}$\n?|^\W{0,4}in other words:")
# Answer: **Yes**, because ...
_YES_NO = re.compile(r"(?i)\A\W{0,12}(?:answer\W{0,4})?(yes|no)\b")
# 12   1,000.5
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_DRY = "In other words:\nIt is said here in another way, and nothing is added or left out."


@dataclass(frozen=True)
class Paraphraser:
    """Writes a paraphrase and verifies it."""

    write: Ask  # model and prompt that write
    check: Ask  # model and prompt that say whether one text follows from another
    signature: str  # of the scores

    async def __call__(self, example: Example, aspect: Aspect) -> Score:
        """Return 1 with the paraphrase as explanation, or no value and why nothing was kept."""
        about = shared_fields(example, aspect, how="text", signature=self.signature)
        if not example.output.strip():
            return Score.unscored("EmptyOutput", "there is no text to say in other words", **about)
        usage, problem = NO_USAGE, ""
        for attempt in range(ATTEMPTS):
            text, cost = await self._written(example, attempt)
            usage += cost
            problem = unlike(example.output, text) or ""
            if problem:
                continue
            problem, cost = await self._refused(example.output, text)
            usage += cost
            if not problem:
                return Score(value=1.0, explanation=text, usage=usage, **about)
        return Score.unscored("NotVerified", f"no paraphrase kept: {problem}", usage=usage, **about)

    async def _written(self, example: Example, attempt: int) -> tuple[str, Usage]:
        prompt = _shown(self.write, [("text", "Text", example.output)])
        answer = await self.write.answer(prompt, _text, repeat=attempt, dry_run_answer=_DRY)
        return answer.read[0], answer.usage

    async def _refused(self, original: str, text: str) -> tuple[str, Usage]:
        """Return why the texts do not say the same, empty if they do, and the cost of asking."""
        # Both directions: one alone accepts a summary, the other an embellishment.
        both = ((original, text), (text, original))
        answers = await gather([self._follows(first, second) for first, second in both])
        usage = answers[0][1] + answers[1][1]
        if not answers[0][0]:
            return "it says something that the original does not", usage
        return ("" if answers[1][0] else "it leaves out something of the original"), usage

    async def _follows(self, first: str, second: str) -> tuple[bool, Usage]:
        texts = [("text-a", "Text A", first), ("text-b", "Text B", second)]
        answer = await self.check.answer(_shown(self.check, texts), _yes, dry_run_answer="yes")
        return answer.read[0], answer.usage


def unlike(original: str, text: str) -> str | None:
    """Return why a text cannot be a paraphrase; `None` if nothing speaks against it.

    >>> unlike("It cost 12 million.", "The price was 21 million.")
    'its numbers are not those of the original'
    """
    before, after = original.split(), text.split()
    if not after:
        return "the model wrote no text"
    if [word.casefold() for word in before] == [word.casefold() for word in after]:
        return "it is the original"
    # The 5 words leave room for rephrasing texts of one or two.
    if not len(before) / 2 <= len(after) <= 2 * len(before) + 5:
        return f"it has {len(after)} words, the original {len(before)}"
    if Counter(_NUMBER.findall(original)) != Counter(_NUMBER.findall(text)):
        return "its numbers are not those of the original"
    return None


def _shown(ask: Ask, texts: list[tuple[str, str, str]]) -> Prompt:
    return Prompt(ask.template.render_messages({}, material=fenced(texts)))


def _text(sample: Sample) -> str:
    refuse_filtered(sample)
    parts = _MARK.split(sample.text)
    return parts[-1].strip() if len(parts) > 1 else ""


def _yes(sample: Sample) -> bool:
    refuse_filtered(sample)
    match = _YES_NO.match(sample.text)
    return match is not None and match[1].lower() == "yes"


class ParaphraseMethod(GraphMethod):
    """Paraphrases as a method of one aspect."""

    def __init__(self, models: Mapping[str, Model], task: Task) -> None:
        writer = models[WRITER]
        self._write = Ask(writer, "paraphrase", task, max_tokens=PARAPHRASE_TOKENS)
        # without the writer's context: who wrote a paraphrase tends to find it faithful
        self._check = Ask(models.get(VERIFIER, writer), "paraphrase_check", task, max_tokens=8)
        agent = Paraphraser(self._write, self._check, self.signature)
        super().__init__(
            Graph(
                PARAPHRASE,
                input=Assignment,
                nodes=[Node("scores", agent, **PER_ASPECT)],
                output="scores",
            ),
            task,
        )

    @cached_property
    def signature(self) -> str:
        """Models, words and version."""
        own = self._write.signature(PARAPHRASE, self._write.digest())
        return f"{own}|verifier:{self._check.model.name}|prompt:{self._check.digest()}"
