"""Makes a score of answered questions.

Equation 3 on the one about the whole, or an average or sum (DecompEval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textassay.agents.answerer import Replies, Reply
from textassay.agents.logprobs_or_samples import read_as
from textassay.agents.questions import QuestionSet
from textassay.runtime.messages import Answer, Aspect, Example, Scale, Score, ScoreError, Usage
from textassay.runtime.model import Json

_NOTHING_ASKED = ScoreError(type="NoAnswer", message="no question could be asked")


@dataclass(frozen=True)
class YesNoAggregator:
    """Scores the last question's P(yes), or the mean or sum over the output's sentences.

    The questions with their answers are the score's evidence.

    Attributes:
        signature: What the scores carry, with how they were read in place of `how:auto`.
    """

    signature: str = ""

    async def __call__(
        self, example: Example, aspect: Aspect, question_set: QuestionSet, replies: Replies
    ) -> Score:
        """Return the score.

        It has no value if no question could be asked or the model gave no usable answer.
        """
        about: dict[str, Any] = {
            "id": example.id,
            "aspect": aspect.label,
            "how": "logprob" if replies.samples is None else "sampled",
            "evidence": _evidence(replies),
            "usage": sum((reply.usage for reply in replies.items), Usage()),
            "signature": read_as(self.signature, replies.samples),
        }
        if replies.samples is not None:
            about["samples"] = min(reply.usable or 0 for reply in replies.items)
        if question_set.form is None:
            missing = question_set.missing or _NOTHING_ASKED
            about |= {"scale": (0.0, 1.0), "outcome": "abstained"}
            return Score.unscored(missing.type, missing.message, **about)
        # One question without an answer leaves no score: a mean over the rest would stand for
        # another text.
        if replies.problem is not None:
            about |= {"scale": (0.0, 1.0), "outcome": "invalid"}
            return Score.unscored(replies.problem.type, replies.problem.message, **about)
        answers = replies.answers
        if replies.parts:  # what counts is each sentence's own question, after its sub-question
            answers = tuple(part.answers[-1] for part in replies.parts)
        elif question_set.questions[-1] == question_set.question:
            last = answers[-1]
            about |= _spread(answers[-1:], replies)
            return Score(value=min(last.p_yes, 1.0), mass=last.mass, scale=(0.0, 1.0), **about)
        total, count = math.fsum(answer.p_yes for answer in answers), len(answers)
        is_sum = question_set.form.value == "sum"
        scale: Scale = (0.0, float(count) if is_sum else 1.0)
        value = total if is_sum else total / count
        masses = [answer.mass for answer in answers if answer.mass is not None]
        mass = math.fsum(masses) / count if len(masses) == count else None
        about |= _spread(answers, replies, 1 if is_sum else count)
        return Score(value=min(value, scale[1]), mass=mass, scale=scale, **about)


def _spread(answers: Sequence[Answer], replies: Replies, count: int = 1) -> dict[str, float]:
    """Return the standard deviation of a score that is made of one written answer each."""
    if replies.samples is None:
        return {}
    variance = math.fsum(answer.p_yes * (1 - answer.p_yes) for answer in answers)
    return {"spread": math.sqrt(variance) / count}


def _evidence(replies: Replies) -> tuple[Json, ...]:
    """Return all replies as evidence, each with its sentence if this was judged by itself."""
    # of the answer that counts most, which is the last one
    notes = replies.items[-1].notes if replies.items else ()
    if not replies.parts:
        return (*map(as_evidence, replies.items), *notes)
    pieces = (
        {**as_evidence(reply), "sentence": reply.question.sentence} for reply in replies.items
    )
    return (*pieces, *notes)


def as_evidence(reply: Reply) -> Json:
    """Return a reply as a piece of a score's evidence: the question, the answer and P(yes)."""
    piece: Json = {"text": reply.question.text}
    if reply.answer is not None:
        answer = "yes" if reply.answer.yes else "no"
        piece |= {"answer": answer, "p_yes": reply.answer.p_yes, "mass": reply.answer.mass}
    if reply.samples is not None:
        piece["samples"] = f"{reply.usable} of {reply.samples} usable"
    if reply.problem is not None:
        piece["problem"] = reply.problem.type
    if reply.unreported is not None:
        piece["unreported"] = reply.unreported
    if reply.truncated_tokens:
        piece["truncated_tokens"] = reply.truncated_tokens
    return piece
