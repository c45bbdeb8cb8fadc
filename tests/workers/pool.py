"""Workers in this process, which can be lost at a chosen moment, in place of a cluster.

What they are sent and their reports cross as between machines.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Sequence

from textassay.workers.protocol import (
    Failed,
    Instructions,
    Job,
    Opened,
    Report,
    WorkerLost,
    pack,
    unpack,
)
from textassay.workers.worker import WorkerSession


class InProcess:
    """A worker in this process."""

    def __init__(
        self, name: str, loses: Callable[[InProcess], bool], all_open: asyncio.Barrier
    ) -> None:
        self._name, self._loses, self._all_open = name, loses, all_open
        self.worker = WorkerSession()
        self.is_alive = True
        self.scores = 0
        self.reports: list[Report] = []
        self.sent: list[Instructions] = []

    @property
    def name(self) -> str:
        return self._name

    async def open(self, job: Job) -> Opened | Failed:
        opened = await self.worker.open(job)
        # so that none has judged everything before the others take part
        await self._all_open.wait()
        return opened

    async def exchange(self, instructions: Instructions) -> Report:
        self.sent.append(instructions)
        report = await self.worker.exchange(pickle.loads(pickle.dumps(instructions)))
        # as when a node dies: what it had done since its last report reaches nobody
        if self._loses(self):
            await self.worker.stop()
            raise WorkerLost(f"the worker on {self.name} is lost")
        self.scores += len(report.scores)
        self.reports.append(report)
        return unpack(pack(report))

    async def stop(self) -> Report:
        return unpack(pack(await self.worker.stop()))

    def kill(self) -> None:
        self.is_alive = False


class Pool:
    """Room for some workers."""

    def __init__(
        self, room: int = 2, *, loses: Callable[[InProcess], bool] = lambda worker: False
    ) -> None:
        self.room, self._loses = room, loses
        self.started: list[InProcess] = []

    async def start_workers(self, most: int) -> Sequence[InProcess]:
        alive = sum(worker.is_alive for worker in self.started)
        missing = max(0, min(most, self.room) - alive)
        all_open = asyncio.Barrier(max(1, missing))
        new = [
            InProcess(f"node {len(self.started) + number}", self._loses, all_open)
            for number in range(missing)
        ]
        self.started += new
        return new
