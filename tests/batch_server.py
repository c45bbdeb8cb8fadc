"""A server with `/v1/files` and `/v1/batches` and chosen faults; it counts what it would bill."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from examples.mock_server import MockServer, Options, complete
from tests.loopback import form_of, in_thread, listening
from tests.responses_server import chat_of, response_of

Json = dict[str, Any]


@dataclass
class Faults:
    """Faults; each counts down to 0 over the batches that it hits."""

    expire: int = 0
    """Batches that expire after half of their requests."""
    refuse: int = 0
    """Batches that are refused as a whole."""
    gone: int = 0
    """Batches whose results are deleted at once."""
    missing: int = 0
    """Batches whose results lack some rows."""
    damaged: int = 0
    """Batches with a line that is cut off, and another without a status."""
    enqueued: int = 0
    """Submissions that are refused with 429."""
    postponed: int = 0
    """Batches that fail once they are looked at, since too much is enqueued."""
    largest: int | None = None
    """Most requests of a batch; `None` for any number."""
    refused_late: bool = False
    """Whether a batch with more requests is accepted and fails once its status is requested."""
    unfollowed: int = 0
    """HTTP status of all answers about the state of batches; 0 for regular answers."""
    bad_rows: frozenset[str] = frozenset()
    """Texts whose requests are refused."""
    unread: int = 0
    """Number of times that uploaded files, or their batches, are reported as not read yet."""
    unavailable: int = 0
    """Acceptable submissions that are answered with 503."""
    lost: int = 0
    """Acceptable submissions that a gateway answers with 404."""
    passing: Callable[[], None] | None = None
    """Called with every request, for example to let time pass."""
    most: int | None = None
    """Batches that the account can pay for; `None` for any number."""
    hold: bool = False
    """Whether no batch ends."""


@dataclass
class Batches(MockServer):
    """Answers single calls like the mock server, and batches."""

    options: Options
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        super().__init__(self.options)
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Json] = {}
        self.billed: Counter[str] = Counter()
        """How often each custom id was run."""
        self._ids = itertools.count(1)
        self._shuffle = random.Random(3)

    async def serve_batches(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        if self.faults.passing is not None:
            self.faults.passing()
        path, verb = request.path.removeprefix("/openai"), request.method  # as Azure has it
        if path == "/v1/files" and verb == "POST":
            form = await form_of(request)
            name = f"file-{next(self._ids)}"
            self.files[name] = form["file"]
            assert form["purpose"] == b"batch"
            return web.json_response({"id": name, "status": self._file_status()})
        if path == "/v1/batches":
            return await self._create(request) if verb == "POST" else self._list(request)
        if path.startswith("/v1/batches/"):
            if self.faults.unfollowed:
                return web.json_response({}, status=self.faults.unfollowed)
            return web.json_response(self._look(path.rpartition("/")[2]))
        if path.startswith("/v1/files/") and not path.endswith("/content"):
            return web.json_response({"status": self._file_status()})
        if path.startswith("/v1/files/"):
            body = self.files.get(path.split("/")[3])
            return web.Response(status=404) if body is None else web.Response(body=body)
        return await self.handle(request)

    def _file_status(self) -> str:
        self.faults.unread = max(0, self.faults.unread - 1)
        return "pending" if self.faults.unread else "processed"

    async def _create(self, request: web.BaseRequest) -> web.Response:
        body = orjson.loads(await request.read())
        if self.faults.enqueued or not (self.faults.refused_late or self._fits(body)):
            self.faults.enqueued = max(0, self.faults.enqueued - 1)
            error = {"error": {"message": "enqueued token limit", "code": "token_limit_exceeded"}}
            return web.json_response(error, status=429, headers={"Retry-After": "0.01"})
        if self._file_status() == "pending":
            error = {"error": {"message": "Only files with status 'Processed' are accepted"}}
            return web.json_response(error, status=400)
        if self.faults.unavailable:
            self.faults.unavailable -= 1
            return web.json_response({"error": {"message": "try later"}}, status=503)
        if self.faults.lost:
            self.faults.lost -= 1
            raise web.HTTPNotFound
        if len(self.batches) == self.faults.most:
            error = {"error": {"message": "pay first", "code": "insufficient_quota"}}
            return web.json_response(error, status=402)
        name = f"batch-{next(self._ids)}"
        self.batches[name] = {
            "id": name, "status": "in_progress",
            "created_at": asyncio.get_running_loop().time() + 4e9,
            "input_file_id": body["input_file_id"], "metadata": body["metadata"],
        }  # fmt: skip
        return web.json_response(self.batches[name])

    def _fits(self, batch: Json) -> bool:
        largest = self.faults.largest
        return largest is None or self.files[batch["input_file_id"]].count(b"\n") <= largest

    def _list(self, request: web.BaseRequest) -> web.Response:
        """List at most two at a time, newest first."""
        names = list(reversed(self.batches))
        after = request.query.get("after")
        start = names.index(after) + 1 if after else 0
        page = [self.batches[name] for name in names[start : start + 2]]
        return web.json_response({"data": page, "has_more": start + 2 < len(names)})

    def _look(self, name: str) -> Json:
        """Run a batch when it is looked at for the second time."""
        batch = self.batches[name]
        if batch["status"] == "in_progress" and batch.pop("seen", False) and not self.faults.hold:
            self._run(batch)
        elif batch["status"] == "in_progress":
            batch["seen"] = True
        return {key: value for key, value in batch.items() if key != "seen"}

    def _run(self, batch: Json) -> None:
        rows = [orjson.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        faults = self.faults
        if faults.postponed or not self._fits(batch):
            faults.postponed = max(0, faults.postponed - 1)
            error = {"message": "Enqueued token limit reached", "code": "token_limit_exceeded"}
            batch |= {"status": "failed", "errors": {"data": [error]}}
            return
        if faults.refuse:
            faults.refuse -= 1
            batch |= {"status": "failed", "errors": {"data": [{"message": "not this file"}]}}
            return
        self._shuffle.shuffle(rows)
        run = rows
        batch["status"] = "completed"
        if faults.expire:
            faults.expire -= 1
            run, batch["status"] = rows[: len(rows) // 2], "expired"
        answers, errors = [], []
        for row in run:
            is_response = row["url"].endswith("/responses")
            chat = chat_of(row["body"]) if is_response else row["body"]
            prompt = "\n".join(f"{m['role']}: {m['content']}" for m in chat["messages"])
            if any(text in prompt for text in faults.bad_rows):
                body = {"error": {"message": "refused", "type": "invalid_request_error"}}
                errors.append(
                    {"custom_id": row["custom_id"], "response": {"status_code": 400, "body": body}}
                )
                continue
            self.billed[row["custom_id"]] += 1
            answer = complete(chat, prompt, 0, self.options)
            answer = response_of(answer) if is_response else answer
            answers.append(
                {"custom_id": row["custom_id"], "response": {"status_code": 200, "body": answer}}
            )
        late = {"code": "batch_expired", "message": "late"}
        errors += [{"custom_id": row["custom_id"], "error": late} for row in rows[len(run) :]]
        if faults.missing:
            faults.missing -= 1
            answers = answers[2:]
        answers += answers[:1]  # one of them twice
        answers.append({"custom_id": "unknown", "response": {"status_code": 200, "body": {}}})
        if faults.damaged:
            answers[1]["response"]["status_code"] = None
        for kind, found in (("output_file_id", answers), ("error_file_id", errors)):
            if found:
                batch[kind] = f"file-{next(self._ids)}"
                lines = [orjson.dumps(row) for row in found]
                if faults.damaged and found is answers:
                    faults.damaged -= 1
                    lines[2] = lines[2][:40]
                self.files[batch[kind]] = b"\n".join(lines)
        if faults.gone:
            faults.gone -= 1
            del self.files[batch["output_file_id"]]


@contextlib.asynccontextmanager
async def serve_batches(faults: Faults | None = None, **options: Any) -> AsyncIterator[Batches]:
    """Serve until the block is left."""
    server = Batches(Options(**options), faults or Faults())
    async with listening(server.serve_batches) as address:
        server.url = f"{address}/v1"
        yield server


@contextlib.contextmanager
def batches_served(faults: Faults | None = None, **options: Any) -> Iterator[Batches]:
    """Serve in a thread of its own, for commands."""
    with in_thread(lambda: serve_batches(faults, **options)) as server:
        yield server
