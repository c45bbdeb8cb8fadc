"""What workers share: the examples that are left, those of lost workers too, and the cost limit.

Knows examples, aspects and amounts; nothing of workers or scores' contents.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from textassay.evaluation.data import FedExample
from textassay.evaluation.engine import CompletedScores
from textassay.runtime.calls.budget import ROUNDING
from textassay.runtime.errors import BudgetReached
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


SHARES = 4
"""A grant is at most one of so many parts of what one worker could get of the rest. Grants become
smaller toward the end, where what is granted to one worker is missing to another."""


class SharedBudget:
    """US dollars that all workers of a run may spend together.

    What a worker was granted counts as spent if the worker is lost: nobody knows what it had in
    flight.
    """

    def __init__(self, max_cost: float | None) -> None:
        """Set the limit; `None` for none."""
        self.max_cost = max_cost
        self._left = max_cost or 0.0

    def grant(self, needed: float, workers: int) -> float:
        """Return what a worker may spend further; 0 if `needed` is more than what is left.

        Args:
            needed: What its next request may cost; 0 if it does not wait for money.
            workers: The number of workers.
        """
        if self.max_cost is None or self.is_short_of(needed):
            return 0.0
        # a share rather than all: what is granted to one worker cannot be taken back for another
        granted = max(needed, self._left / (SHARES * max(1, workers)))
        self._left -= granted
        return granted

    def give_back(self, unspent: float) -> None:
        """Take back what a worker was granted and did not spend."""
        if self.max_cost is not None:
            self._left += unspent

    def matters(self, amount: float) -> bool:
        """Return whether an amount is more than the rounding of sums."""
        return amount > ROUNDING * (self.max_cost or 0.0)

    def is_short_of(self, needed: float) -> bool:
        """Return whether a worker wants more than what is left."""
        return self.max_cost is not None and self.matters(needed - self._left)

    def reached(self, spent: float, needed: float) -> BudgetReached:
        """Return the error that says what was spent by all workers together."""
        return BudgetReached(
            f"the cost limit of ${self.max_cost:g} is reached: ${spent:.4f} is spent by all workers"
            f" and the next request may cost ${needed:.4f}; resume with a higher max_cost="
        )
