"""Answers yes/no questions about an example as typed questions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from textassay.agents.ask import Ask
from textassay.agents.prompt_template import join_messages
from textassay.agents.questions import QuestionSet, TypedReply
from textassay.agents.typed_questions import TASK_TEXT, QuestionBatcher
from textassay.runtime.messages import Answer, SubQuestion
from textassay.runtime.questions import NamedText, Question


@dataclass(frozen=True)
class TypedAnswerer:
    """Answers one yes/no question about an example by a typed question."""

    ask: Ask
    """Model, task and the prompt that words the question."""

    async def __call__(self, question: SubQuestion, question_set: QuestionSet) -> TypedReply:
        """Return the answer with P(yes) among yes and no, and the mass of both where it is known.

        Args:
            question: A question of the set.
            question_set: What it is answered from, its texts without delimiters.
        """
        form = question_set.form
        text = join_messages(
            self.ask.template.render(
                names=question_set.names,
                definition=form.definition if form is not None else "",
                question=question.text,
            ).messages
        )
        texts = [NamedText(name=part["label"], text=part["text"]) for part in question_set.texts]
        source = (question_set.source or "").strip()
        result = await self._batcher.ask(
            Question.yes_no(text),
            (NamedText(name=TASK_TEXT, text=self.ask.task.intro), *texts),
            images=question_set.images,
            truncatable=next((part.name for part in texts if source and part.text == source), ""),
        )
        reply = TypedReply(
            question=question,
            way=result.way,
            samples=result.way.samples or None,
            notes=result.answer.notes,
            truncated_tokens=result.truncated_tokens,
            usage=result.usage,
        )
        if result.answer.problem is not None:
            return reply.model_copy(update={"problem": result.answer.problem})
        yes, no = result.answer.p_yes, result.answer.probabilities["no"]
        answer = Answer(question=question, p_yes=yes / (yes + no), mass=result.answer.mass)
        return reply.model_copy(update={"answer": answer})

    @cached_property
    def _batcher(self) -> QuestionBatcher:
        return QuestionBatcher(self.ask.model)
