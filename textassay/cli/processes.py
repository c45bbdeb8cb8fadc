"""`score --processes N`.

Shards judged in processes of this machine, their progress summed, merged at the end.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from textassay.cli.commands.merge import merge_shards
from textassay.cli.console import say
from textassay.cli.exits import Interrupted, Stopped, typed
from textassay.cli.process_limits import check_concurrency
from textassay.cli.progress import show_progress
from textassay.cli.scoring import ScoreCommand, command_to_resume, say_if_unlimited
from textassay.cli.shard_worker import order_as_json, progress_from_json
from textassay.evaluation.counted import CountedScores
from textassay.evaluation.progress import Progress, summed
from textassay.evaluation.request import RunRequest
from textassay.evaluation.shards import Shard, is_divided, shard_folder, shard_folders
from textassay.evaluation.spec import spec_of
from textassay.runtime.errors import BudgetReached, ConfigurationError, RunFolderError
from textassay.runtime.storage.run_files import MANIFEST, read_manifest
from textassay.runtime.storage.run_folder import RunFolder

MAX_RESTARTS = 3
"""Times that a process is started again after it was killed, as by the system for lack of
memory."""

STOP_SECONDS = 60.0
"""Time that processes have to finish what is in flight after they are asked to stop."""

LINE_BYTES = 1 << 20

SHARD_NAME = re.compile(r"shard-\d+")
"""Names of the folders that `shard_folder` returns."""


async def score_in_processes(order: ScoreCommand) -> int:
    """Judge in `order.processes` processes, merge their shards, and return the exit status.

    Raises:
        ConfigurationError: A process refused what was asked for.
        Stopped: A process was stopped; `resume` continues all of them.
    """
    run, count = order.request.out, order.processes
    if run is None or count is None:
        raise ConfigurationError("--processes needs --out")
    if is_divided(run):
        raise RunFolderError(
            f"{run} already contains shards; continue with `textassay resume {run}`"
        )
    _check_new(run)
    check_concurrency(order.request.settings, count)
    shards = {
        shard: replace(order, request=_part(order.request, run, shard))
        for shard in (Shard(number, count) for number in range(1, count + 1))
    }
    return await _execute(run, shards, order)


def _part(request: RunRequest, run: Path, shard: Shard) -> RunRequest:
    """Return the request for a new shard of a run."""
    own = {"shard": str(shard), "out": shard_folder(run, shard), "resume": False}
    return request.model_copy(update=own)


def _check_new(run: Path) -> None:
    """Refuse a folder for new shards, unless all that it holds are folders that could be shards.

    Such are left if the processes were killed before one of them had begun.

    Raises:
        RunFolderError: It holds something else, or a shard in it is in use.
    """
    entries = list(run.iterdir()) if run.is_dir() and not run.is_symlink() else []
    left = [each for each in entries if SHARD_NAME.fullmatch(each.name) and each.is_dir()]
    if not left or len(left) < len(entries):
        RunFolder.check_new(run)
    for folder in left:
        RunFolder.check_new(folder)


async def resume_in_processes(run: Path, flags: dict[str, Any], *, as_json: bool) -> int:
    """Continue all shards of a run, each in a process, merge them, and return the exit status.

    Raises:
        RunFolderError: The shards were not made together.
        ConfigurationError: As `resume` of a shard.
        Stopped: A process was stopped again.
    """
    orders = orders_to_resume(run, flags)
    first = next(iter(orders.values()))
    return await _execute(run, orders, replace(first, as_json=as_json))


def orders_to_resume(run: Path, flags: dict[str, Any]) -> dict[Shard, ScoreCommand]:
    """Return what each process is to do so that all shards of a run are finished.

    Args:
        run: The folder of the shards.
        flags: Settings that are given now, for all processes together.

    Raises:
        RunFolderError: The shards were not made together.
        ConfigurationError: As `resume` of a shard.
    """
    begun: dict[Shard, Path] = {}
    for path in shard_folders(run):
        text = spec_of(read_manifest(path)).shard
        if text is None:
            raise RunFolderError(f"{path} is a run of all data, not of a shard")
        begun[Shard.parse(text)] = path
    # shards of 1/4 and 1/8 overlap in part, and no merge could tell which scores to keep
    counts = {shard.count for shard in begun}
    if len(counts) != 1:
        raise RunFolderError(f"{run} contains shards of data that were divided in different ways")
    count = counts.pop()
    orders = {shard: command_to_resume(path, flags, run=run) for shard, path in begun.items()}
    pattern = next(iter(orders.values()))
    check_concurrency(pattern.request.settings, count)
    say_if_unlimited(next(iter(begun.values())), pattern.request.settings)
    if missing := [str(s) for n in range(1, count + 1) if (s := Shard(n, count)) not in orders]:
        say(
            f"{run} has no shard {', '.join(missing)}: started now. If another machine is judging "
            "it, stop this command and run `textassay merge` once its folder is here"
        )
    for number in range(1, count + 1):
        shard = Shard(number, count)
        if shard not in orders:  # its process was killed before it had made a run folder
            orders[shard] = replace(pattern, request=_part(pattern.request, run, shard))
    return dict(sorted(orders.items()))


async def _execute(run: Path, orders: Mapping[Shard, ScoreCommand], order: ScoreCommand) -> int:
    # only resumed shards may be ones that other processes, left by a killed parent, write to
    workers = [
        ShardProcess(shard, each, shared=order.request.resume) for shard, each in orders.items()
    ]
    tasks = [asyncio.create_task(worker.work()) for worker in workers]
    try:
        async with show_progress(lambda: summed(w.progress for w in workers), order.progress):
            # only a fault of ours stops all: what stops one shard need not stop the others, and how
            # each has ended is looked at when all have
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
    except asyncio.CancelledError:
        await _stop(workers, tasks)
        stop = Interrupted("interrupted")
        stop.add_note(f"finished work is kept; continue with: textassay resume {run}")
        raise Stopped from stop
    except BaseException:
        await _stop(workers, tasks)
        raise
    # before merging: a merge of unfinished shards would look like a finished run
    _raise_first_failure(run, workers)
    counted = {
        worker.order.request.out: CountedScores(**worker.end["counted"])
        for worker in workers
        if worker.order.request.out is not None and worker.end.get("counted") is not None
    }
    return merge_shards(run, partial=False, as_json=order.as_json, counted=counted)


async def _stop(workers: Sequence[ShardProcess], tasks: Iterable[asyncio.Task[None]]) -> None:
    for worker in workers:
        worker.stop()
    # paid calls in flight get time to be journaled; only what ignores SIGTERM is killed
    _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
    for worker in workers if late else ():
        worker.kill()
    if late:
        await asyncio.wait(late)


def _raise_first_failure(run: Path, workers: Sequence[ShardProcess]) -> None:
    """Raise what stopped or refused a shard; a refusal is no stop if all were refused."""
    failed = [worker for worker in workers if worker.end.get("ended") != "finished"]
    if not failed:
        return
    end = failed[0].end
    message = str(end.get("message", ""))
    if all(worker.end.get("ended") == "refused" for worker in workers):
        raise ConfigurationError(message)
    where = ", ".join(str(worker.shard) for worker in failed)
    cause = Interrupted(f"shard {where}: {typed(message)}")
    if end.get("type") == BudgetReached.__name__:
        cause.add_note(
            f"the cost limit is divided: each of {len(workers)} processes keeps to its part"
        )
    cause.add_note(f"finished work is kept; continue with: textassay resume {run}")
    raise Stopped from cause


class ShardProcess:
    """A process that judges one shard."""

    def __init__(self, shard: Shard, order: ScoreCommand, *, shared: bool = False) -> None:
        """Store what to do.

        Args:
            shard: The part of the data.
            order: How it is judged, and where.
            shared: Whether processes of a killed parent may still write to the shard: then it is
                resumed if one of them begins it meanwhile.
        """
        self.shard, self.order, self.shared = shard, order, shared
        self.progress: Progress | None = None
        self.end: dict[str, Any] = {}
        """How it ended: `ended` is `finished`, `stopped`, `refused` or `killed`."""
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    async def work(self) -> None:
        """Judge the shard, starting the process again if it is killed."""
        order = self.order
        refusal: dict[str, Any] = {}
        kills = 0
        for _ in range(1 + MAX_RESTARTS):
            await self._run(order)
            request = order.request
            assert request.out is not None
            # a process that was killed before it wrote the manifest has nothing to resume
            begun = (request.out / MANIFEST).exists()
            outdated = (
                self.shared and self.end.get("ended") == "refused" and begun != request.resume
            )
            if self._stopping or (self.end and not outdated):
                return
            order = replace(order, request=request.model_copy(update={"resume": begun}))
            refusal, self.end = self.end, {}
            if outdated:
                continue
            kills += 1
            code = self._process.returncode if self._process is not None else None
            say(f"the process of shard {self.shard} ended with status {code}; it is started again")
        # a refusal outdated each time by what other processes write still says what is wrong
        killed = {"ended": "killed", "message": f"its process was killed {kills} times"}
        self.end = refusal or killed

    def stop(self) -> None:
        """Ask the process to finish what is in flight and to end."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _run(self, order: ScoreCommand) -> None:
        # a session of its own: Ctrl-C in the terminal reaches the parent alone, which tells all
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "textassay.cli.shard_worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            # a line of progress lists every model's limiter, and asyncio's default limit is 64 KiB
            limit=LINE_BYTES,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # it was killed, as its status tells; uvloop says so with a RuntimeError
        with suppress(ConnectionError, RuntimeError):
            # over stdin rather than as arguments: an order may hold headers, which `ps` would show
            process.stdin.write(json.dumps(order_as_json(order)).encode() + b"\n")
            await process.stdin.drain()
        if self._stopping:
            self.stop()
        async for line in process.stdout:
            self._read(line)
        await process.wait()

    def _read(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:  # a line that was torn by a kill
            return
        if not isinstance(message, dict):  # printed while Python started
            return
        if "progress" in message:
            self.progress = progress_from_json(message["progress"])
        elif "ended" in message:
            self.end = message
