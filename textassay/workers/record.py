"""The state of a run with workers: its folder, the queue of examples, and the cost limit.

The examples of lost workers return to the queue. Knows nothing of how workers are reached.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from textassay.evaluation.manifest import describe_change
from textassay.evaluation.opening import open_store
from textassay.evaluation.sources import FedExample
from textassay.evaluation.stages import write_or_check_manifest
from textassay.runtime.calls.budget import ROUNDING
from textassay.runtime.concurrency import gather, in_thread
from textassay.runtime.errors import BudgetReached, ConfigurationError
from textassay.runtime.messages import Example, Score
from textassay.runtime.settings import Settings
from textassay.runtime.storage.answer_admin import info, read_answers
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.answers import merge_answers
from textassay.runtime.storage.run_files import ScoreLine, score_row
from textassay.runtime.storage.run_folder import RunFolder
from textassay.workers.worker import OpenedSession, Report, StoredAnswers

MAX_LOSSES = 3
"""Most workers lost with the same example before the run stops."""


class AssignedExamples:
    """The examples that one worker has in hand, each with the aspects that lack a score."""

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

    def record_score(self, example_id: str, aspect: str) -> bool:
        """Take note of a score that is written; return whether its example is complete."""
        _, aspects = self._open[example_id]
        aspects.remove(aspect)
        self.scores -= 1
        if not aspects:
            del self._open[example_id]
        return not aspects

    def drain(self) -> list[tuple[FedExample, set[str]]]:
        """Return the examples that lack a score, and forget them."""
        unfinished, self._open = list(self._open.values()), {}
        self.scores = 0
        return unfinished


class ExampleQueue:
    """Hands out the examples of a run, each to one worker at a time."""

    def __init__(
        self,
        examples: Iterable[Example],
        total: int,
        aspects: Iterable[str],
        has_score: Callable[[str, str], bool] = lambda *_: False,
    ) -> None:
        """Read examples as they are handed out; `has_score(id, aspect)` excludes scored ones."""
        self.settled_before = 0
        """Examples that were skipped because all of their scores exist."""
        self._aspects, self._has_score = tuple(aspects), has_score
        self._unread = total
        self._rest = self._open_ones(examples)
        self._returned: deque[FedExample] = deque()
        self._losses: Counter[str] = Counter()

    @property
    def left(self) -> int:
        """Upper bound of the examples that are not handed out: some may be complete."""
        return self._unread + len(self._returned)

    def take(self, count: int, load: AssignedExamples) -> list[FedExample]:
        """Return up to `count` examples, and add them to a load."""
        examples: list[FedExample] = []
        while len(examples) < count:
            # of lost workers first: at the end, they would keep one worker busy alone
            handed = self._returned.popleft() if self._returned else next(self._rest, None)
            if not handed:
                break
            load.add(handed, (a for a in self._aspects if a not in handed.completed))
            examples.append(handed)
        return examples

    def give_back(self, load: AssignedExamples) -> int:
        """Take back a lost worker's examples; return the largest number of losses of one."""
        most = 0
        for handed, aspects in load.drain():
            # counted per example, so that one that kills its worker cannot kill all of them
            self._losses[handed.example.id] += 1
            most = max(most, self._losses[handed.example.id])
            # aspects whose scores arrived before the worker was lost are not repeated
            completed = tuple(a for a in self._aspects if a not in aspects)
            self._returned.append(FedExample(handed.example, completed))
        return most

    def _open_ones(self, examples: Iterable[Example]) -> Iterator[FedExample]:
        for example in examples:
            self._unread -= 1
            done = tuple(a for a in self._aspects if self._has_score(example.id, a))
            if len(done) == len(self._aspects):
                self.settled_before += 1
            else:
                yield FedExample(example, done)
        self._unread = 0


class SharedBudget:
    """US dollars that all workers of a run may spend together; infinite without a limit.

    The grants of a lost worker count as spent: the cost of its calls in flight is unknown.
    """

    def __init__(self, max_cost: float) -> None:
        self.max_cost = self._left = max_cost

    def grant(self, needed: float, workers: int) -> float:
        """Return the further dollars of a worker; 0 if it needs more than is left, or no grant."""
        if self.is_short_of(needed) or self._left == math.inf:
            return 0.0
        # A quarter of its equal share: grants become smaller toward the end, as money granted to
        # one worker is missing to another.
        granted = max(needed, self._left / (4 * max(1, workers)))
        self._left -= granted
        return granted

    def give_back(self, unspent: float) -> None:
        """Take back the part of a grant that a worker did not spend."""
        self._left += unspent

    def matters(self, amount: float) -> bool:
        """Return whether an amount is more than the rounding of sums."""
        return amount > ROUNDING * self.max_cost

    def is_short_of(self, needed: float) -> bool:
        """Return whether a worker needs more than is left."""
        return self.matters(needed - self._left)

    def budget_error(self, spent: float, needed: float) -> BudgetReached:
        """Return the error for a spent budget, with the expenses of all workers."""
        return BudgetReached(
            f"the cost limit of ${self.max_cost:g} is reached: ${spent:.4f} is spent by all workers"
            f" and the next request may cost ${needed:.4f}; resume with a higher"
            f" max_cost="
        )


AdjustmentFor = Callable[[OpenedSession], Callable[[Score], Score]]
"""Makes the function that changes each score before it is written, from the opened session."""


class RunRecord:
    """Keeps manifest, scores and answers of one run; they begin when the first worker opens it."""

    def __init__(
        self,
        folder: RunFolder,
        examples: Iterable[Example],
        total: int,
        *,
        settings: Settings,
        stack: AsyncExitStack,
        adjustment_for: AdjustmentFor | None,
        workers_write: bool,
        most_sent: int,
        resumed: bool,
    ) -> None:
        """Keep a run in `folder`; `workers_write` says whether they store answers themselves."""
        self._workers_write, self._most_sent = workers_write, most_sent
        self.folder, self.total = folder, total
        self._examples, self._settings, self._resumed = examples, settings, resumed
        self._stack, self._adjustment_for = stack, adjustment_for
        self._adjust: Callable[[Score], Score] | None = None
        self._store: AnswerStore | None = None
        self._first: OpenedSession | None = None
        self._binding = asyncio.Lock()
        self.differing: set[str] = set()
        """Files of the method that differ between workers; the first is kept."""
        self.unsent_bytes = 0
        """Size of the earlier run's answers if they are too large to be sent to the workers."""

    @property
    def is_begun(self) -> bool:
        """Whether a worker has opened the run, so that there is something to resume."""
        return bool(self._first)

    @property
    def answers_folder(self) -> Path | None:
        """Where workers keep answers, if they do so themselves."""
        return self.folder.answers if self._workers_write else None

    async def earlier(self) -> tuple[Mapping[str, Any], StoredAnswers]:
        """Return the models and answers of the resumed run; empty for a new run."""
        if not self._resumed:
            return {}, []
        return self.folder.manifest["models"], await in_thread(self._earlier_answers)

    async def bind(self, opened: OpenedSession, *, where: str) -> bool:
        """Make the run folder as the first worker describes it; return whether this is the first.

        Raises:
            ConfigurationError: The session differs from the first worker's.
        """
        # workers open at the same time, and only the first of them makes the folder
        async with self._binding:
            if self._first:
                if change := describe_change(self._first.manifest, opened.manifest):
                    raise ConfigurationError(f"{where} cannot take part because {change}")
                return False
            # a calibration is bound to the judge's signature, which only a worker knows
            if self._adjustment_for:
                self._adjust = self._adjustment_for(opened)
            if self._settings.cache is None and not self._workers_write:
                self._store = await open_store(self._settings, self.folder.answers, self._stack)
            manifest, aspects = dict(opened.manifest), opened.aspects
            await write_or_check_manifest(
                self.folder, manifest, self._examples, aspects, resume=self._resumed
            )
            self._first = opened
            return True

    def open_examples(self) -> ExampleQueue:
        """Return the examples that lack a score."""
        assert self._first
        aspects = [aspect.label for aspect in self._first.aspects]
        if self._resumed:
            return ExampleQueue(self._examples, self.total, aspects, self.folder.tally.has)
        return ExampleQueue(self._examples, self.total, aspects)

    async def write_report(
        self, report: Report, scores: Sequence[ScoreLine]
    ) -> Sequence[ScoreLine]:
        """Write a report's answers and its expected scores; return the scores as written."""
        # answers first: after a crash between the two, a resumed run finds the paid answers
        if (store := self._store) and report.answers:
            await gather([store.put(key, value) for key, value in report.answers])
        if self._adjust:
            adjusted = (self._adjust(Score.model_validate(score.fields)) for score in scores)
            scores = [ScoreLine.read(score_row(score)) for score in adjusted]
        if scores:
            self.folder.append_lines(scores)
        return scores

    async def collect_answers(self) -> None:
        """Let other workers find the answers that a lost worker of this machine has logged.

        Raises:
            StorageError: The cache folder cannot be read or written.
        """
        cache = self._settings.cache
        place = self.answers_folder if cache is None else cache
        if self._workers_write and place:
            # opening the folder for writing collects them
            await in_thread(lambda: merge_answers(place, ()))

    def keep_artifacts(self, texts: Mapping[str, str]) -> None:
        """Write the method's files for people to read; the first worker's stay."""
        for name, text in texts.items():
            self.folder.write_extra_file(name, text)
            if (self.folder.path / name).read_text(encoding="utf-8") != text:
                self.differing.add(name)

    def write_summary(self) -> None:
        """Write the summary of the scores so far, if there is a manifest."""
        if self.folder.manifest:
            self.folder.write_summary()

    def _earlier_answers(self) -> StoredAnswers:
        settings, place = self._settings, self.folder.answers
        kept_elsewhere = settings.cache is not None or self._workers_write
        if kept_elsewhere or not place.exists():
            return []
        size = info(place).bytes
        if size > self._most_sent:
            self.unsent_bytes = size
            return []
        return list(read_answers(place))
