"""The examples of a run: which are still to be handed out, and which come back with a lost worker.

Knows examples and aspects; nothing of workers or scores' contents.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from textassay.evaluation.engine import CompletedScores
from textassay.evaluation.feed import FedExample
from textassay.runtime.messages import Example

MAX_LOSSES = 3
"""Workers that may be lost with the same example before the run stops."""


class Outstanding:
    """What one worker has in hand: examples, each with the aspects that lack a score."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[FedExample, set[str]]] = {}
        self.scores = 0
        """Scores that are still to come."""

    def __len__(self) -> int:
        return len(self._open)

    def add(self, handed: FedExample, aspects: Iterable[str]) -> None:
        """Add an example whose scores on `aspects` are to come."""
        missing = set(aspects)
        self._open[handed.example.id] = (handed, missing)
        self.scores += len(missing)

    def expects(self, example_id: str, aspect: str) -> bool:
        """Return whether a score is still to come."""
        return example_id in self._open and aspect in self._open[example_id][1]

    def scored(self, example_id: str, aspect: str) -> bool:
        """Take note of a score that is kept; return whether the example has all of its own."""
        _, aspects = self._open[example_id]
        aspects.remove(aspect)
        self.scores -= 1
        if not aspects:
            del self._open[example_id]
        return not aspects

    def emptied(self) -> list[tuple[FedExample, set[str]]]:
        """Return the examples that lack a score, and forget them."""
        left, self._open = list(self._open.values()), {}
        self.scores = 0
        return left


class ExampleQueue:
    """Hands out the examples of a run, each to one worker at a time."""

    def __init__(
        self,
        examples: Iterable[Example],
        total: int,
        aspects: Iterable[str],
        completed: CompletedScores | None = None,
    ) -> None:
        """Store what is to be judged.

        Args:
            examples: The examples, in order.
            total: Their number.
            aspects: Labels of the aspects.
            completed: Scores of earlier sessions of the run.
        """
        self.total = total
        self.settled_before = 0
        """Examples that were passed by, as all of their scores are there."""
        self._aspects, self._completed = tuple(aspects), completed
        self._unread = total
        self._rest = self._open_ones(examples)
        self._returned: deque[FedExample] = deque()
        self._losses: Counter[str] = Counter()

    @property
    def left(self) -> int:
        """Examples that are not handed out, at most: some may turn out to be completed."""
        return self._unread + len(self._returned)

    def take(self, count: int, load: Outstanding) -> list[FedExample]:
        """Return up to `count` examples, and add them to a load."""
        taken: list[FedExample] = []
        while len(taken) < count:
            # those of lost workers first: left for the end, they would keep one worker busy alone
            handed = self._returned.popleft() if self._returned else next(self._rest, None)
            if handed is None:
                break
            load.add(handed, (a for a in self._aspects if a not in handed.completed))
            taken.append(handed)
        return taken

    def give_back(self, load: Outstanding) -> int:
        """Take back what a lost worker had in hand; return the most losses of one example."""
        most = 0
        for handed, aspects in load.emptied():
            # counted per example, so that one that kills its worker cannot kill all of them
            self._losses[handed.example.id] += 1
            most = max(most, self._losses[handed.example.id])
            # aspects whose scores arrived before the worker was lost are not asked again
            completed = tuple(a for a in self._aspects if a not in aspects)
            self._returned.append(FedExample(handed.example, completed))
        return most

    def _open_ones(self, examples: Iterable[Example]) -> Iterator[FedExample]:
        for example in examples:
            self._unread -= 1
            done: tuple[str, ...] = ()
            if self._completed is not None:
                done = tuple(a for a in self._aspects if self._completed.has(example.id, a))
            if len(done) == len(self._aspects):
                self.settled_before += 1
            else:
                yield FedExample(example, done)
        self._unread = 0
