"""Paraphrases by a model, each verified before a judge is asked about it.

What fails verification is dropped and counted: a change of meaning would be held against the judge.
The work is a method like any other, so it is journaled, cached, budgeted and resumed by the engine.
Its scores are 1 for what is kept, with the paraphrase as explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from textassay.agents.ask import Ask
from textassay.agents.paraphraser import Paraphraser
from textassay.agents.task import Task
from textassay.evaluation.graph_method import GraphMethod
from textassay.methods.judging import PER_ASPECT
from textassay.runtime.graph.graph import Graph, Node
from textassay.runtime.messages import Aspect, Assignment, Example, Score
from textassay.runtime.model import Model
from textassay.stress.edit import Edit, EditContext, variant_id

TEST = FAMILY = "paraphrase"
COPIES = "paraphrased"
"""Part of a stress run that holds the scores of the paraphrases."""
WRITER, VERIFIER = "paraphraser", "verifier"
"""Roles of the models that write and verify; without the second the first does both."""
ROLES = (WRITER, VERIFIER)
ROOM = 1024
ASPECT = Aspect(
    name=TEST, definition="Whether the text says the same as the original.", scale=(0.0, 1.0)
)


def _made_by_a_model(example: Example, around: EditContext) -> Example | None:
    return None  # the copies are judged in a session of their own, once they are verified


# wording is what fluency and concision are about, so their scores may change
EDITS = (
    Edit(
        TEST,
        FAMILY,
        _made_by_a_model,
        "the same in other words",
        ignored_by=frozenset({"facts", "content", "order"}),
    ),
)


class ParaphraseMethod(GraphMethod):
    """Paraphrases as a method of one aspect."""

    def __init__(self, models: Mapping[str, Model], task: Task) -> None:
        """Take the models of `ROLES`."""
        writer = models[WRITER]
        self._write = Ask(writer, "paraphrase", task, max_tokens=ROOM)
        # a separate request without the writer's context: who wrote a paraphrase tends to find it
        # faithful
        self._check = Ask(models.get(VERIFIER, writer), "paraphrase_check", task, max_tokens=8)
        agent = Paraphraser(self._write, self._check, self.signature)
        super().__init__(
            Graph(
                TEST, input=Assignment, nodes=[Node("scores", agent, **PER_ASPECT)], output="scores"
            ),
            task,
        )

    @cached_property
    def signature(self) -> str:
        """Models, words and version."""
        own = self._write.signature(TEST, self._write.digest())
        return f"{own}|verifier:{self._check.model.name}|prompt:{self._check.digest()}"


class Paraphrased:
    """The copies whose paraphrase was verified, built again whenever they are iterated.

    Args:
        originals: The examples.
        texts: Paraphrase by id; others have no copy.
    """

    def __init__(self, originals: Iterable[Example], texts: Mapping[str, str]) -> None:
        self._originals, self._texts = originals, texts

    def __iter__(self) -> Iterator[Example]:
        for example in self._originals:
            if text := self._texts.get(example.id):
                id_ = variant_id(example.id, TEST)
                yield example.model_copy(update={"id": id_, "output": text})


def verified_texts(scores: Iterable[Score]) -> dict[str, str]:
    """Return the verified paraphrases by id of the original."""
    return {score.id: score.explanation or "" for score in scores if score.value is not None}
