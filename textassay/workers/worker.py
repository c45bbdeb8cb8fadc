"""A worker: one session of a run that gets examples from another process and returns scores.

This module has the messages between both processes, the interface that the process with the run
folder uses (`Worker`, `WorkerPool`), and the worker itself (`WorkerSession`). That process makes
one `exchange` after the other; how calls reach the worker (pipes, Ray) is not known here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import sys
import tempfile
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import filelock

from textassay.evaluation.opening import open_store
from textassay.evaluation.progress import Progress
from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import Session, count_workers, notices, open_fed_session
from textassay.evaluation.sources import FedExample, FedSource
from textassay.runtime.base import Usage
from textassay.runtime.concurrency import gather
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.errors import TextassayError
from textassay.runtime.messages import Aspect
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.answers import DiskStore
from textassay.runtime.storage.run_files import ANSWERS, score_row
from textassay.version import __version__

NO_PROGRESS = Progress(done=0, total=None, seconds=0.0, outcomes={}, usage=Usage())
"""The progress before the start."""

StoredAnswers = list[tuple[str, bytes]]
"""Answers of models, as `AnswerStore` keeps them."""


@dataclass(frozen=True, slots=True)
class Job:
    """The task of all workers of a run."""

    request: RunRequest
    info: DataInfo
    """Facts about all of the data."""
    answers_folder: Path | None = None
    """Folder of the run's answers, for workers on its machine; others send theirs."""
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """The models in the manifest of the run that is resumed, by role."""
    answers: StoredAnswers = field(default_factory=list)
    """Answers of the resumed run, for workers that cannot read its folder."""


@dataclass(frozen=True, slots=True)
class LimitShare:
    """The share of the limits that one worker respects: the `number`-th of `count`, from 0."""

    number: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """The session that a worker has opened, before it asks anything."""

    version: str
    """Version of textassay."""
    manifest: Mapping[str, Any]
    aspects: tuple[Aspect, ...]
    signature: str
    in_progress: int
    """Examples that it works on at once."""
    notices: tuple[str, ...] = ()
    """Remarks for the user before anything is asked; they name parameters."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """The message to a worker in one exchange."""

    examples: list[FedExample] = field(default_factory=list)
    part: LimitShare = field(default_factory=LimitShare)
    grant: float = 0.0
    """US dollars that it may spend further."""
    return_unspent: bool = False
    """Whether to return granted money that calls in flight do not need."""
    is_last_grant: bool = False
    """Whether the budget is used up by this grant."""
    report_at: int = 1
    """Number of scores to report at once, without waiting for more."""
    finish: bool = False
    """Whether to take no more examples and to end."""


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """The end of a worker, with the files that the method made for people to read."""

    failed: Exception | None = None
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """Texts by the names of their files."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a worker since its last report, and its progress."""

    progress: Progress
    part: LimitShare
    """The share of the limits that it respects, and that its calls in flight do not exceed."""
    scores: list[bytes] = field(default_factory=list)
    """Each as its line of `scores.jsonl`."""
    answers: StoredAnswers = field(default_factory=list)
    """New answers, including all that the scores depend on."""
    warnings: list[tuple[str, str]] = field(default_factory=list)
    """New warnings: the logger, and the message."""
    spent: float = 0.0
    """US dollars spent so far."""
    returned: float = 0.0
    """US dollars that it was granted and returns."""
    needed: float = 0.0
    """US dollars of the next request, if the worker has less; otherwise 0."""
    is_settling: bool = False
    """Whether requests are in flight that may cost less than they reserve."""
    ended: WorkerEnd | None = None


class WorkerLost(Exception):
    """A worker, or the machine that it runs on, is gone."""


class Worker(ABC):
    """A worker, as the process with the run folder uses it; each call may raise `WorkerLost`."""

    name: str
    """Its name in messages."""
    is_alive = True

    async def open(self, job: Job) -> OpenedSession | Exception:
        """See `WorkerSession.open`."""
        opened: OpenedSession | Exception = await self.call("open", job)
        return opened

    async def exchange(self, instructions: Instructions) -> Report:
        """See `WorkerSession.exchange`."""
        report: Report = await self.call("exchange", instructions)
        return report

    async def stop(self) -> Report:
        """See `WorkerSession.stop`."""
        report: Report = await self.call("stop")
        return report

    @abstractmethod
    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the `WorkerSession`, wherever it is."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once; safe to call twice, and if it is lost."""


class WorkerPool(Protocol):
    """Where workers can be started: this machine, or a cluster."""

    async def start_workers(self, most: int) -> Sequence[Worker]:
        """Start workers while resources last, up to `most` in all, and return the new ones."""
        ...


class _RecordingStore(DiskStore):
    """Also collects new answers, to be sent elsewhere."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._new: StoredAnswers = []

    async def put(self, key: str, value: bytes) -> None:
        # collected before the first suspension: a score that depends on it must not be sent first
        self._new.append((key, value))
        await super().put(key, value)

    def drain(self) -> StoredAnswers:
        """Return the answers that were put since the last call."""
        new, self._new = self._new, []
        return new


class _Warnings(logging.Handler):
    """Collects warnings, which the process with the run folder logs in place of this one."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._collected: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._collected.append((record.name, record.getMessage()))

    def drain(self) -> list[tuple[str, str]]:
        """Return the warnings since the last call: the logger, and the message."""
        collected, self._collected = self._collected, []
        return collected


class WorkerSession:
    """Judges the examples that it receives, until it is stopped or an error occurs."""

    def __init__(self) -> None:
        self._feed: FedSource | None = None
        self._session: Session | None = None
        self._recording: _RecordingStore | None = None
        self._running: asyncio.Task[None] | None = None
        self._scores: list[bytes] = []
        self._last = NO_PROGRESS
        self._spent = self._returned = 0.0
        self._part = self._kept_part = LimitShare()
        self._ended: WorkerEnd | None = None
        self._report_at = 1
        self._wakeup = asyncio.Event()
        self._warnings = _Warnings()

    async def open(self, job: Job) -> OpenedSession | Exception:
        """Open the session, without asking anything; return its facts, or why it failed."""
        opened: asyncio.Future[OpenedSession] = asyncio.get_running_loop().create_future()
        # a task of its own, as contexts must be closed by the task that opened them
        self._running = asyncio.create_task(self._run(job, opened))
        waited: set[asyncio.Future[Any]] = {self._running, opened}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            return opened.result()
        opened.cancel()
        assert self._ended
        return self._ended.failed or RuntimeError("the session ended before it began")

    async def exchange(self, instructions: Instructions) -> Report:
        """Follow the instructions; return finished scores, waiting briefly for the first one."""
        is_new_part = instructions.part != self._part
        self._follow(instructions)
        self._report_at = instructions.report_at
        # other workers wait until this one reports a smaller share of the limits
        if not (is_new_part or self._ended) and len(self._scores) < self._report_at:
            self._wakeup.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), 0.25)
        return self._report()

    async def stop(self) -> Report:
        """Cancel the session, close everything, and report finished scores."""
        if self._running:
            self._running.cancel()
            await asyncio.wait([self._running])
        return self._report()

    def _follow(self, instructions: Instructions) -> None:
        session, feed = self._session, self._feed
        if not session or not feed:
            return
        if instructions.part != self._part:
            session.divide_limits(instructions.part.number, instructions.part.count)
            self._part = instructions.part
        if budget := session.budget:
            budget.grow(instructions.grant)
            if instructions.return_unspent:
                self._returned += budget.return_unspent()
            if instructions.is_last_grant:
                budget.end_lease()
        feed.put(instructions.examples)
        if instructions.finish:
            feed.end()

    def _report(self) -> Report:
        session = self._session
        budget = session.budget if session else None
        self._look_at_session()
        # other workers wait until the calls above the new share have ended
        if not session or self._ended or not session.exceeds_limits:
            self._kept_part = self._part
        scores, self._scores = self._scores, []
        returned, self._returned = self._returned, 0.0
        return Report(
            progress=self._last,
            part=self._kept_part,
            scores=scores,
            answers=self._recording.drain() if self._recording else [],
            spent=self._spent,
            returned=returned,
            needed=budget.needed if budget else 0.0,
            is_settling=bool(budget and budget.is_settling),
            warnings=self._warnings.drain(),
            ended=self._ended,
        )

    async def _run(self, job: Job, opened: asyncio.Future[OpenedSession]) -> None:
        artifacts: dict[str, str] = {}
        failed: Exception | None = None
        logger = logging.getLogger("textassay")
        logger.addHandler(self._warnings)
        try:
            async with AsyncExitStack() as stack:
                session = await self._open(job, stack)
                opened.set_result(_open_session(session, job))
                async with aclosing(session.engine.scores()) as scores:
                    async for score in scores:
                        # encoded here: the process that writes has all workers to serve
                        self._scores.append(score_row(score))
                        if len(self._scores) >= self._report_at:
                            self._wakeup.set()
                artifacts = getattr(session.method, "artifacts", dict)()
        except asyncio.CancelledError:
            failed = RuntimeError("the worker received the order to stop")
        except TextassayError as error:
            failed = error
        except Exception:
            # the other process cannot see where a method fails otherwise
            failed = RuntimeError(traceback.format_exc())
        finally:
            logger.removeHandler(self._warnings)
            self._look_at_session()
            self._ended = WorkerEnd(failed, artifacts)
            self._wakeup.set()

    async def _open(self, job: Job, stack: AsyncExitStack) -> Session:
        store: AnswerStore | None
        if job.request.settings.cache is None and not job.answers_folder:
            # a file rather than memory, so that equal requests are sent once in runs of any length
            folder = stack.enter_context(scratch_folder()) / ANSWERS
            store = self._recording = await stack.enter_async_context(_RecordingStore(folder))
            await gather([store.put(key, value) for key, value in job.answers])
            self._recording.drain()  # the other process has these
        else:
            store = await open_store(job.request.settings, job.answers_folder, stack)
        self._feed = FedSource(job.info)
        request = job.request.model_copy(update={"out": None, "resume": False})
        session = await stack.enter_async_context(
            open_fed_session(self._feed, request, store, job.recorded)
        )
        if budget := session.budget:
            budget.start_lease(self._wakeup.set)
        self._session = session
        return session

    def _look_at_session(self) -> None:
        """Note progress and expenses of the session, also for reports after its end."""
        if self._session:
            self._last = self._session.engine.progress
            self._spent = self._session.budget.spent if self._session.budget else 0.0


def _open_session(session: Session, job: Job) -> OpenedSession:
    return OpenedSession(
        version=__version__,
        manifest=session.manifest(),
        aspects=tuple(session.method.aspects),
        signature=session.method.signature,
        in_progress=count_workers(job.request.settings, session.connected),
        notices=tuple(notices(session.method, job.request, is_new=not job.request.resume)),
    )


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make an empty folder that is removed at the end of the block.

    A worker that is killed, or whose node dies, cannot remove its folder. So each has a lock beside
    its folder, which the operating system releases, and removes folders whose lock is free.
    """
    parent = Path(tempfile.gettempdir())
    for lock_file in parent.glob("textassay-worker-*.lock"):
        _remove_if_abandoned(lock_file)
    folder = parent / f"textassay-worker-{secrets.token_hex(8)}"
    # before the folder exists, so that no other worker sees it without a lock
    with _lock(folder.with_suffix(".lock")) as lock:
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                Path(lock.lock_file).unlink()


def _remove_if_abandoned(place: Path) -> None:
    # another worker may remove it first, and folders of other users are not ours to remove
    with suppress(OSError, filelock.Timeout):
        if sys.platform != "win32" and place.lstat().st_uid != os.getuid():
            return
        with _lock(place).acquire(blocking=False):
            shutil.rmtree(place.with_suffix(""), ignore_errors=True)
            place.unlink(missing_ok=True)


def _lock(place: Path) -> filelock.BaseFileLock:
    # any thread may end the session
    return filelock.FileLock(place, thread_local=False)
