"""Makes a score of answered questions: equation 3 on the one about the whole, or an average or sum (DecompEval)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from textassay.agents.answerer import Replies, Reply
from textassay.agents.questions import QuestionSet
from textassay.runtime.messages import Aspect, Example, Outcome, Scale, Score, ScoreError, Usage
from textassay.runtime.model import Json


@dataclass(frozen=True)
class YesNoAggregator:
    """Scores P(yes) of the last question, about the whole output, or the average or sum over the sentences.

    The questions with their answers are the score's evidence.

    Attributes:
        signature: What the scores carry.
    """

    signature: str = ""

    async def __call__(
        self, example: Example, aspect: Aspect, inquiry: QuestionSet, replies: Replies
    ) -> Score:
        """Return the score; without a value where nothing could be asked or a model gave no usable answer."""
        scale: Scale = (0.0, 1.0)
        answers = replies.answers
        if inquiry.form is None:
            fields = _unscored("abstained", inquiry.missing)
        elif replies.problem is not None:
            fields = _unscored("invalid", replies.problem)
        elif inquiry.questions[-1] == inquiry.question:
            fields = {"value": answers[-1].p_yes, "mass": answers[-1].mass}
        else:
            total, count = math.fsum(answer.p_yes for answer in answers), len(answers)
            if inquiry.form.value == "sum":
                scale, value = (0.0, float(count)), total
            else:
                value = total / count
            fields = {
                "value": min(value, scale[1]),
                "mass": math.fsum(a.mass or 0.0 for a in answers) / count,
            }
        return Score(
            id=example.id,
            aspect=aspect.label,
            scale=scale,
            how="logprob",
            evidence=tuple(map(as_evidence, replies.items)),
            usage=sum((reply.usage for reply in replies.items), Usage()),
            signature=self.signature,
            **fields,
        )


def as_evidence(reply: Reply) -> Json:
    """Return a reply as a piece of a score's evidence: the question, the answer and P(yes)."""
    piece: Json = {"text": reply.question.text}
    if reply.answer is not None:
        answer = "yes" if reply.answer.yes else "no"
        piece |= {"answer": answer, "p_yes": reply.answer.p_yes, "mass": reply.answer.mass}
    if reply.problem is not None:
        piece["problem"] = reply.problem.type
    if reply.unreported is not None:
        piece["unreported"] = reply.unreported
    if reply.truncated_tokens:
        piece["truncated_tokens"] = reply.truncated_tokens
    return piece


def _unscored(outcome: Outcome, why: ScoreError | None) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "error": why or ScoreError(type="NoAnswer", message="nothing could be asked"),
    }
