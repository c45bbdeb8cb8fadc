"""A worker: one session of a run, fed by another process, to which its scores go back.

Knows nothing of how it is reached: its methods are called by the process that holds the run, one
`exchange` after the other.
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
from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from textassay.evaluation.data import Feed
from textassay.evaluation.opening import open_store
from textassay.evaluation.session import Session, count_workers, notices, open_session
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import TextassayError
from textassay.runtime.storage.answers import AnswerStore
from textassay.runtime.storage.run_files import ANSWERS, score_row
from textassay.version import __version__
from textassay.workers.protocol import (
    NO_PROGRESS,
    Ended,
    Failed,
    Instructions,
    Job,
    Opened,
    Part,
    Report,
    Rows,
    unpack_examples,
)

REPORT_SECONDS = 0.25
"""Time between two reports at most."""


class Recording:
    """An answer store that also collects what is put into it, to be sent elsewhere."""

    def __init__(self, wrapped: AnswerStore) -> None:
        self._wrapped = wrapped
        self._rows: Rows = []

    @property
    def place(self) -> str | Path:
        """Where the wrapped store keeps them."""
        return self._wrapped.place

    async def fetch(self, key: str) -> bytes | None:
        """Return the value of `key`, or `None`."""
        return await self._wrapped.fetch(key)

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value`; the next `drain` returns it."""
        # collected before the first suspension: a score that rests on it must not go before it
        self._rows.append((key, value))
        await self._wrapped.put(key, value)

    def drain(self) -> Rows:
        """Return what was put since the last call."""
        rows, self._rows = self._rows, []
        return rows

    async def aclose(self) -> None:
        """Do nothing: the wrapped store is the caller's."""


class _Warnings(logging.Handler):
    """Collects warnings, which the process that holds the run logs in place of this one."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._collected: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._collected.append((record.name, record.getMessage()))

    def drain(self) -> list[tuple[str, str]]:
        """Return the warnings since the last call: the logger, and what it said."""
        collected, self._collected = self._collected, []
        return collected


class WorkerSession:
    """Judges the examples that it is sent, until it is to finish or something stops it."""

    def __init__(self) -> None:
        self._feed: Feed | None = None
        self._session: Session | None = None
        self._recording: Recording | None = None
        self._running: asyncio.Task[None] | None = None
        self._scores: list[bytes] = []
        self._last = NO_PROGRESS
        self._spent = self._returned = 0.0
        self._part = Part()
        self._ended: Ended | None = None
        self._report_at = 1
        self._wakeup = asyncio.Event()
        self._warnings = _Warnings()
        self._is_answered = False

    async def open(self, job: Job) -> Opened | Failed:
        """Open the session, without asking anything; return what was opened, or why it was not."""
        opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        # a task of its own, as what it opens must be closed by the task that opened it
        self._running = asyncio.create_task(self._run(job, opened))
        waited: set[asyncio.Future[Any]] = {self._running, opened}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            return opened.result()
        opened.cancel()
        assert self._ended is not None
        return self._ended.failed or Failed("RuntimeError", "the session ended before it began")

    async def exchange(self, instructions: Instructions) -> Report:
        """Follow the instructions; return what is finished, after a moment if nothing is."""
        is_new_part = instructions.part != self._part
        self._follow(instructions)
        self._report_at = instructions.report_at
        # other workers wait to hear that this one keeps to a smaller part of the limits
        if not (is_new_part or self._ended) and len(self._scores) < self._report_at:
            self._wakeup.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), REPORT_SECONDS)
        return self._report()

    async def stop(self) -> Report:
        """Cancel what is in progress, close everything, and report what was finished."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        return self._report()

    def _follow(self, instructions: Instructions) -> None:
        session, feed = self._session, self._feed
        if session is None or feed is None:
            return
        if instructions.part != self._part:
            session.divide_limits(instructions.part.number, instructions.part.count)
            self._part = instructions.part
        if (budget := session.budget) is not None:
            budget.grow(instructions.grant)
            if instructions.return_unspent:
                self._returned += budget.return_unspent()
            if instructions.is_last_grant:
                budget.end_lease()
        feed.put(unpack_examples(instructions.examples))
        if instructions.finish:
            feed.end()

    def _report(self) -> Report:
        session = self._session
        budget = None if session is None else session.budget
        self._look_at_session()
        scores, self._scores = self._scores, []
        returned, self._returned = self._returned, 0.0
        return Report(
            progress=self._last,
            part=self._part,
            scores=scores,
            answers=[] if self._recording is None else self._recording.drain(),
            spent=self._spent,
            returned=returned,
            needed=0.0 if budget is None else budget.needed,
            is_settling=budget is not None and budget.is_settling,
            is_answered=self._is_answered,
            warnings=self._warnings.drain(),
            ended=self._ended,
        )

    async def _run(self, job: Job, opened: asyncio.Future[Opened]) -> None:
        artifacts: dict[str, str] = {}
        failed: Failed | None = None
        logger = logging.getLogger("textassay")
        logger.addHandler(self._warnings)
        try:
            async with AsyncExitStack() as stack:
                session = await self._open(job, stack)
                opened.set_result(_opened(session, job))
                async with aclosing(session.engine.scores()) as scores:
                    async for score in scores:
                        # encoded here: the process that writes has all workers to serve
                        self._scores.append(score_row(score))
                        if len(self._scores) >= self._report_at:
                            self._wakeup.set()
                artifacts = getattr(session.method, "artifacts", dict)()
        except asyncio.CancelledError:
            failed = Failed("CancelledError", "the worker was told to stop")
        except TextassayError as error:
            failed = Failed.of(error)
        except Exception as error:
            # the other process has no other way to learn where a method's fault is
            failed = Failed(type(error).__name__, traceback.format_exc())
        finally:
            logger.removeHandler(self._warnings)
            self._look_at_session()
            self._ended = Ended(failed, artifacts)
            self._wakeup.set()

    async def _open(self, job: Job, stack: AsyncExitStack) -> Session:
        # a file rather than memory: equal requests are asked once, however long the run is
        folder = job.answers_folder or stack.enter_context(scratch_folder()) / ANSWERS
        store = await open_store(job.request.settings, folder, stack)
        if store is not None and job.request.settings.cache is None and job.answers_folder is None:
            await gather([store.put(key, value) for key, value in job.answers])
            store = self._recording = Recording(store)
        self._feed = Feed(info=job.info, store=store, recorded=job.recorded)
        own = {"out": None, "resume": False}
        session = await stack.enter_async_context(
            open_session(self._feed, job.request.model_copy(update=own))
        )
        if (budget := session.budget) is not None:
            budget.start_lease(self._wakeup.set)
        self._session = session
        return session

    def _look_at_session(self) -> None:
        """Keep where the session stands, also for reports after its end."""
        if self._session is not None:
            self._last = self._session.engine.progress
            budget, usage = self._session.budget, self._session.usage
            self._spent = 0.0 if budget is None else budget.spent
            self._is_answered = bool(usage.calls + usage.cached_calls)


def _opened(session: Session, job: Job) -> Opened:
    return Opened(
        version=__version__,
        manifest=session.manifest(),
        aspects=tuple(session.method.aspects),
        signature=session.method.signature,
        in_work=count_workers(job.request.settings, session.connected),
        notices=tuple(notices(session.method, job.request, is_new=not job.request.resume)),
    )


PREFIX = "textassay-worker-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make an empty folder that is removed at the end of the block.

    A worker that is killed, or whose node dies, cannot remove its folder. So each holds a lock
    next to its folder, which the operating system releases, and removes folders whose lock is free.
    """
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{PREFIX}*.lock"):
        _remove_if_abandoned(left)
    folder = parent / f"{PREFIX}{secrets.token_hex(8)}"
    # before the folder exists, so that no other worker ever sees it without a lock
    with _lock(folder.with_suffix(".lock")) as lock:
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                Path(lock.lock_file).unlink()


def _remove_if_abandoned(place: Path) -> None:
    # whoever removed it first, or a folder that another user left, is none of our business
    with suppress(OSError, filelock.Timeout):
        if sys.platform != "win32" and place.lstat().st_uid != os.getuid():
            return
        with _lock(place).acquire(blocking=False):
            shutil.rmtree(place.with_suffix(""), ignore_errors=True)
            place.unlink(missing_ok=True)


def _lock(place: Path) -> filelock.BaseFileLock:
    # closed by whichever thread ends the session
    return filelock.FileLock(place, thread_local=False)
