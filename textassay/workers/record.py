"""What a run with workers keeps: its folder, the examples that are left, and the cost limit.

The examples of lost workers return to those that are left. Knows nothing of how workers are
reached.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from textassay.evaluation.manifest import describe_change, open_folder
from textassay.evaluation.opening import open_store
from textassay.evaluation.sources import CompletedScores, FedExample
from textassay.evaluation.stages import bind
from textassay.runtime.calls.budget import ROUNDING
from textassay.runtime.concurrency import gather, in_thread
from textassay.runtime.errors import BudgetReached, ConfigurationError
from textassay.runtime.messages import Example, Score
from textassay.runtime.settings import Settings
from textassay.runtime.storage.answers import AnswerStore, merge_answers
from textassay.runtime.storage.cache_folder import info, read_answers
from textassay.runtime.storage.run_files import ScoreLine, score_row
from textassay.runtime.storage.run_folder import RunFolder
from textassay.workers.worker import Opened, Report, Rows

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

    def record_score(self, example_id: str, aspect: str) -> bool:
        """Take note of a score that is kept; return whether the example has all of its own."""
        _, aspects = self._open[example_id]
        aspects.remove(aspect)
        self.scores -= 1
        if not aspects:
            del self._open[example_id]
        return not aspects

    def drain(self) -> list[tuple[FedExample, set[str]]]:
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
        for handed, aspects in load.drain():
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

    What a worker was granted counts as spent if the worker is lost: it is unknown what it had in
    flight.
    """

    def __init__(self, max_cost: float | None) -> None:
        self.max_cost = max_cost
        self._left = max_cost or 0.0

    def grant(self, needed: float, workers: int) -> float:
        """Return what a worker may spend further; 0 if `needed` is more than what is left."""
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
            f" and the next request may cost ${needed:.4f}; resume with a higher"
            f" max_cost="
        )


MAX_SENT = 256 * 2**20
"""Bytes of answers of a resumed run that are sent to each worker; more stay unused."""

Adjusting = Callable[[Opened], Callable[[Score], Score]]
"""Returns what is done to each score before it is kept, given what the workers opened."""


class RunRecord:
    """Keeps manifest, scores and answers of one run; made when the first worker has opened it."""

    def __init__(
        self,
        path: Path,
        examples: Iterable[Example],
        total: int,
        *,
        settings: Settings,
        stack: AsyncExitStack,
        adjusting: Adjusting | None = None,
        workers_write: bool = False,
        most_sent: int = MAX_SENT,
    ) -> None:
        self._workers_write, self._most_sent = workers_write, most_sent
        self.folder: RunFolder | None = None
        self.total = total
        self._path, self._examples, self._settings = path, examples, settings
        self._stack, self._adjusting = stack, adjusting
        self._adjust: Callable[[Score], Score] | None = None
        self._store: AnswerStore | None = None
        self._first: Opened | None = None
        self._resumed = False
        self._binding = asyncio.Lock()
        self.differing: set[str] = set()
        """Files of the method that differ between workers; the first is kept."""
        self.unsent_bytes = 0
        """Size of the earlier run's answers if they are too large to be sent to the workers."""

    @property
    def is_begun(self) -> bool:
        """Whether a worker has opened the run, so that there is something to resume."""
        return self._first is not None

    @property
    def answers_folder(self) -> Path | None:
        """Where workers keep answers, if they do so themselves."""
        return self.folder.answers if self.folder is not None and self._workers_write else None

    async def open(self, *, resume: bool) -> tuple[Mapping[str, Any], Rows]:
        """Open the run's folder; return the models and answers of a run that is resumed."""
        folder = await open_folder(self._path, self._stack, resume=resume)
        self.folder, self._resumed = folder, resume
        if not resume:
            return {}, []
        return folder.manifest["models"], await in_thread(lambda: self._earlier_answers(folder))

    async def bind(self, opened: Opened, *, where: str) -> None:
        """Make the run folder as the first worker describes it; hold other workers to that."""
        # workers open at the same time, and only the first of them makes the folder
        async with self._binding:
            if self._first is not None:
                if (change := describe_change(self._first.manifest, opened.manifest)) is not None:
                    raise ConfigurationError(f"{where} cannot take part because {change}")
                return
            # a calibration is bound to the judge's signature, which only a worker knows
            if self._adjusting is not None:
                self._adjust = self._adjusting(opened)
            assert self.folder is not None
            if self._settings.cache is None and not self._workers_write:
                self._store = await open_store(self._settings, self.folder.answers, self._stack)
            manifest, aspects = dict(opened.manifest), opened.aspects
            await bind(self.folder, manifest, self._examples, aspects, resume=self._resumed)
            self._first = opened

    def open_examples(self) -> ExampleQueue:
        """Return the examples that lack a score."""
        assert self._first is not None
        assert self.folder is not None
        return ExampleQueue(
            self._examples,
            self.total,
            [aspect.label for aspect in self._first.aspects],
            self.folder.tally if self._resumed else None,
        )

    async def keep(self, report: Report, scores: Sequence[ScoreLine]) -> Sequence[ScoreLine]:
        """Write a report's answers and its expected scores; return these as they were written."""
        answers = report.answers
        # answers first: after a crash between the two, a resumed run finds what was paid for
        if self._store is not None and answers:
            store = self._store
            await gather([store.put(key, value) for key, value in answers])
        if self._adjust is not None:
            adjusted = (self._adjust(Score.model_validate(score.fields)) for score in scores)
            scores = [ScoreLine.read(score_row(score)) for score in adjusted]
        if scores:
            assert self.folder is not None
            self.folder.append_lines(scores)
        return scores

    async def collect_answers(self) -> None:
        """Have other workers find what a lost worker of this machine was answered and has logged.

        Raises:
            StorageError: The cache folder cannot be read or written.
        """
        cache = self._settings.cache
        place = self.answers_folder if cache is None else cache
        if self._workers_write and place:
            # opening the folder for writing collects them
            await in_thread(lambda: merge_answers(place, ()))

    def keep_artifacts(self, texts: Mapping[str, str]) -> None:
        """Write what the method made for people to read; the first worker's stays."""
        if self.folder is None:
            return
        for name, text in texts.items():
            self.folder.keep(name, text)
            if (self.folder.path / name).read_text(encoding="utf-8") != text:
                self.differing.add(name)

    def write_summary(self) -> None:
        """Write the summary of the scores so far, if there is a folder with a manifest."""
        if self.folder is not None and self.folder.manifest:
            self.folder.write_summary()

    def _earlier_answers(self, folder: RunFolder) -> Rows:
        settings, place = self._settings, folder.answers
        kept_elsewhere = settings.cache is not None or self._workers_write
        if kept_elsewhere or not place.exists():
            return []
        size = info(place).bytes
        if size > self._most_sent:
            self.unsent_bytes = size
            return []
        return list(read_answers(place))
