"""Makes a score of answered sub-questions: equation 3 on the whole question, or their average or sum (DecompEval)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from textassay.agents.answerer import Answerer, Replies, Reply
from textassay.agents.questions import Inquiry
from textassay.runtime.messages import Aspect, Example, Outcome, Scale, Score, ScoreError, Usage
from textassay.runtime.model import Json


@dataclass(frozen=True)
class Recomposer:
    """Asks the question about the whole output, with all sub-questions and answers before it, and scores P(yes).

    For aspects whose score is the average or the sum over sentences, the question is not asked. The sub-questions with
    their answers are the score's evidence.

    Attributes:
        answerer: Answers the question.
        signature: What the scores carry.
    """

    answerer: Answerer
    signature: str = ""

    async def __call__(self, example: Example, aspect: Aspect, inquiry: Inquiry, replies: Replies) -> Score:
        """Return the score; without a value where nothing could be asked or a model gave no usable answer.

        Raises:
            ModelError: The model could not be asked.
        """
        scale: Scale = (0.0, 1.0)
        items = replies.items
        if inquiry.form is None:
            fields = _unscored("abstained", inquiry.missing)
        elif replies.problem is not None:
            fields = _unscored("invalid", replies.problem)
        elif inquiry.form.value == "question" or not items:
            reply = await self.answerer(inquiry.question, inquiry, replies.answers)
            items = (*items, reply)
            fields = _from(reply)
        else:
            total = math.fsum(answer.p_yes for answer in replies.answers)
            count = len(replies.answers)
            if inquiry.form.value == "sum":
                scale, value = (0.0, float(count)), total
            else:
                value = total / count
            fields = {"value": min(value, scale[1]), "mass": math.fsum(a.mass or 0.0 for a in replies.answers) / count}
        return Score(
            id=example.id,
            aspect=aspect.label,
            scale=scale,
            how="logprob",
            evidence=tuple(map(as_evidence, items)),
            usage=sum((reply.usage for reply in items), Usage()),
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


def _from(reply: Reply) -> dict[str, Any]:
    if reply.answer is None:
        return _unscored("invalid", reply.problem)
    return {"value": reply.answer.p_yes, "mass": reply.answer.mass}


def _unscored(outcome: Outcome, why: ScoreError | None) -> dict[str, Any]:
    return {"outcome": outcome, "error": why or ScoreError(type="NoAnswer", message="nothing could be asked")}
