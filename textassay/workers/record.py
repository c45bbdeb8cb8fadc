"""The run folder of a run that workers judge: what they report is kept here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from textassay.evaluation.opening import open_store
from textassay.evaluation.resuming import resume_folder
from textassay.evaluation.session import bind
from textassay.evaluation.spec import changed
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph.concurrency import gather
from textassay.runtime.messages import Example, Score
from textassay.runtime.settings import Settings
from textassay.runtime.storage.answers import AnswerStore
from textassay.runtime.storage.cache_folder import info, read_answers
from textassay.runtime.storage.group_commit import in_thread
from textassay.runtime.storage.run_files import ScoreLine, score_row
from textassay.runtime.storage.run_folder import RunFolder
from textassay.workers.protocol import Opened, Report, Rows
from textassay.workers.sharing import ExampleQueue

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
        """Store where the run is kept; nothing is made before `create`.

        Args:
            path: The run folder.
            examples: What is judged, in order.
            total: The number of examples.
            settings: Tell where answers are kept.
            stack: Closes what is opened here.
            adjusting: What is done to each score, such as calibrating it.
            workers_write: Whether workers keep answers themselves, in the folder `answers` here.
            most_sent: Bytes of a resumed run's answers that are sent to each worker at most.
        """
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
        self._is_answered = False
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

    async def create(self) -> tuple[Mapping[str, Any], Rows]:
        """Make the folder of a new run, which is removed again if no worker opens the run.

        Return what `resume` does: nothing.

        Raises:
            RunFolderError: It holds something else, or is in use.
        """
        self.folder = await in_thread(lambda: RunFolder.create(self._path), discard=RunFolder.close)
        self._stack.push_async_callback(self.folder.aclose)
        return {}, []

    async def resume(self) -> tuple[Mapping[str, Any], Rows]:
        """Open the folder of a run that was begun; return its models and its answers.

        Raises:
            RunFolderError: It holds no run, or is in use.
            DataError: A line of its scores is damaged.
        """
        folder = await resume_folder(self._path, self._stack)
        self.folder, self._resumed = folder, True
        return folder.manifest["models"], await in_thread(lambda: self._earlier_answers(folder))

    async def bind(self, opened: Opened, *, where: str) -> None:
        """Make the run folder as the first worker describes it; hold other workers to that.

        Raises:
            ConfigurationError: A worker would judge in another way than the first, or than the
                run that is resumed.
        """
        # workers open at the same time, and only the first of them makes the folder
        async with self._binding:
            await self._bind(opened, where)

    async def _bind(self, opened: Opened, where: str) -> None:
        if self._first is not None:
            if (change := changed(self._first.manifest, opened.manifest)) is not None:
                raise ConfigurationError(f"{where} cannot take part because {change}")
            return
        # a calibration is bound to the judge's signature, which only a worker knows
        if self._adjusting is not None:
            self._adjust = self._adjusting(opened)
        assert self.folder is not None
        if self._settings.cache is None and not self._workers_write:
            self._store = await open_store(self._settings, self.folder.answers, self._stack)
        await bind(
            self.folder,
            dict(opened.manifest),
            self._examples,
            opened.aspects,
            resume=self._resumed,
        )
        self._first = opened

    def open_examples(self) -> ExampleQueue:
        """Return the examples that lack a score."""
        assert self._first is not None
        assert self.folder is not None
        return ExampleQueue(
            self._examples,
            self.total,
            [aspect.label for aspect in self._first.aspects],
            self.folder.completed() if self._resumed else None,
        )

    async def keep(self, report: Report, scores: Sequence[ScoreLine]) -> Sequence[ScoreLine]:
        """Write a report's answers, then those of its scores that are expected.

        Return the scores as they were written.

        Raises:
            StorageError: The disk is full.
        """
        answers = report.answers
        # answers first: after a crash between the two, a resumed run finds what was paid for
        if self._store is not None and answers:
            store = self._store
            await gather([store.put(key, value) for key, value in answers])
        self._is_answered = self._is_answered or report.is_answered
        if self._adjust is not None:
            adjusted = (self._adjust(Score.model_validate(score.fields)) for score in scores)
            scores = [ScoreLine.read(score_row(score)) for score in adjusted]
        if scores:
            assert self.folder is not None
            await self.folder.append_lines(scores)
        return scores

    def keep_artifacts(self, texts: Mapping[str, str]) -> None:
        """Write what the method made for people to read; the first worker's stays."""
        if self.folder is None:
            return
        for name, text in texts.items():
            self.folder.keep(name, text)
            if (self.folder.path / name).read_text(encoding="utf-8") != text:
                self.differing.add(name)

    def discard(self) -> bool:
        """Have the folder removed if nothing was answered; return whether it will be."""
        return self.folder is not None and not self._is_answered and self.folder.discard()

    def write_summary(self) -> None:
        """Write the summary of the scores so far, if there is a folder with a manifest."""
        if self.folder is not None and self.folder.manifest:
            self.folder.write_summary()

    def _earlier_answers(self, folder: RunFolder) -> Rows:
        settings, place = self._settings, folder.answers
        kept_elsewhere = settings.cache is not None or settings.no_cache or self._workers_write
        if kept_elsewhere or not place.exists():
            return []
        size = info(place).bytes
        if size > self._most_sent:
            self.unsent_bytes = size
            return []
        return list(read_answers(place))
