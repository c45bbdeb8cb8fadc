"""Workers in processes of this machine, connected to their parent by two pipes.

    python -m textassay.workers.local      serves the process that has started it

A call is one pickled message to standard input, its answer one to standard output. The parent keeps
standard input open; once it is closed, the parent is gone, and the worker stops.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from textassay.runtime.concurrency import fast_loop
from textassay.runtime.garbage import hold_off_gc, start_gc
from textassay.workers.worker import Job, OpenedSession, Worker, WorkerLost, WorkerSession

BEGIN = b"\ntextassay: a worker is ready\n"
"""Marks the beginning of messages, since Python and libraries may print while they start."""

HEADER = 8
"""Bytes of the size before each message."""


@asynccontextmanager
async def local_workers(count: int) -> AsyncIterator[LocalWorkers]:
    """Start processes when they are asked for, and end them at the end of the block."""
    pool = LocalWorkers(count)
    try:
        yield pool
    finally:
        await pool.end()


class LocalWorkers:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._started: list[LocalWorker] = []

    async def start_workers(self, most: int) -> Sequence[LocalWorker]:
        """Return new workers, so that `most` live; processes start with the first call."""
        living = sum(worker.is_alive for worker in self._started)
        number = len(self._started)
        new = [LocalWorker(number + 1 + each) for each in range(min(most, self._count) - living)]
        self._started += new
        return new

    async def end(self) -> None:
        """End all processes."""
        for worker in self._started:
            worker.kill()
        for worker in self._started:
            await worker.wait()


class LocalWorker(Worker):
    """A worker in a process of this machine."""

    def __init__(self, number: int) -> None:
        self.name = f"process {number}"
        self._process: asyncio.subprocess.Process | None = None
        self._is_killed = False

    async def open(self, job: Job) -> OpenedSession | Exception:
        """Start the process, and open its session."""
        # a session of its own: Ctrl-C in the terminal reaches the parent alone
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        if not self.is_alive:  # killed meanwhile
            self.kill()
        return await super().open(job)

    def kill(self) -> None:
        self.is_alive = False
        process = self._process
        # once: a second signal would check whether it has ended, and take its status from asyncio
        if process and process.returncode is None and not self._is_killed:
            self._is_killed = True
            with suppress(ProcessLookupError):
                process.kill()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        if self._process:
            await self._process.wait()

    async def call(self, method: str, *arguments: Any) -> Any:
        process = self._process
        assert process
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(_message((method, arguments)))
            await process.stdin.drain()
            if method == "open":
                await process.stdout.readuntil(BEGIN)
            size = int.from_bytes(await process.stdout.readexactly(HEADER))
            answer = pickle.loads(await process.stdout.readexactly(size))
        # uvloop raises a RuntimeError if the process has ended
        except (OSError, RuntimeError, asyncio.IncompleteReadError) as error:
            self.is_alive = False
            raise WorkerLost(f"{self.name} ended with status {await process.wait()}") from error
        if isinstance(answer, Exception) and method != "open":
            # expected errors are in reports; this is a fault of the program
            raise RuntimeError(f"{self.name} failed: {answer}")
        return answer


def _message(content: Any) -> bytes:
    packed = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return len(packed).to_bytes(HEADER) + packed


async def _answer(session: WorkerSession, message: bytes) -> bytes:
    """Carry out the call in a message, and return the answer to it."""
    method, arguments = pickle.loads(message)
    try:
        return _message(await getattr(session, method)(*arguments))
    except Exception:
        return _message(RuntimeError(traceback.format_exc()))


async def _serve(output: int) -> None:
    """Answer the parent's calls, one after the other, until it closes standard input."""
    session = WorkerSession()
    messages: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # a thread, because not every system's event loop can wait for a pipe that it was given; as a
    # daemon it does not hold up the end
    threading.Thread(target=_read, args=(loop, messages), daemon=True).start()
    _write(output, BEGIN)
    message = await messages.get()
    while message:
        answering = asyncio.create_task(_answer(session, message))
        following = asyncio.create_task(messages.get())
        # the parent sends nothing before it has its answer, so earlier input means that it ended
        await asyncio.wait([answering, following], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
            break
        _write(output, answering.result())
        message = await following
    await session.stop()


def _read(loop: asyncio.AbstractEventLoop, messages: asyncio.Queue[bytes]) -> None:
    """Pass on each message of standard input, and nothing at all at its end."""
    with open(0, "rb", closefd=False) as source:
        message = b"."
        while message:
            size = int.from_bytes(source.read(HEADER))
            message = source.read(size)
            if len(message) < size:  # the parent has died while it wrote
                message = b""
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(messages.put_nowait, message)


def _write(output: int, message: bytes) -> None:
    with suppress(BrokenPipeError):  # the parent is gone; the end of its input stops this process
        while message:
            message = message[os.write(output, message) :]


def _take_output() -> int:
    """Reserve standard output for answers; all other output goes to standard error."""
    output = os.dup(1)
    sys.stdout.flush()
    if not sys.stderr:  # closed, as for some services
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  # for as long as we run
    os.dup2(sys.stderr.fileno(), 1)
    return output


def main() -> None:
    """Serve the parent until it is done or gone."""
    hold_off_gc()
    start_gc()
    output = _take_output()
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_serve(output))


if __name__ == "__main__":
    main()
