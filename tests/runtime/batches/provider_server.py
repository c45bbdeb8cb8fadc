"""The batch APIs of Anthropic, Gemini, Groq and Together, shaped as their references."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from tests.loopback import form_of, listening

Json = dict[str, Any]
KEY = "key-of-the-test"


@dataclass
class Providers:
    """Runs each batch when it is first looked at."""

    url: str = ""
    """Address, ending in `/v1`."""
    expire: int = 0
    """Number of first batches in which every second request is not run in time."""
    bad_rows: tuple[str, ...] = ()
    """Texts whose requests are refused."""
    held: int = 0
    """Looks at Anthropic's batches before one is run."""
    bad_row_message: str = "too long for this model"
    refused_files: int = 0
    """Batches that are refused as a whole."""
    without_metadata: bool = False
    """Whether Gemini's answers lack the marks of their requests."""
    batches: dict[str, Json] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    billed: Counter[str] = field(default_factory=Counter)
    """How often each request was run, by our key."""
    _ids: Any = field(default_factory=lambda: itertools.count(1))
    _shuffle: random.Random = field(default_factory=lambda: random.Random(5))

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one HTTP request."""
        path = request.path
        if path.startswith("/v1beta/"):
            assert request.headers["x-goog-api-key"] == KEY
            return await self._gemini(request, path.removeprefix("/v1beta"))
        if path.startswith(("/groq/openai/v1/", "/together/v1/")):
            assert request.headers["Authorization"] == f"Bearer {KEY}"
            server, _, rest = path.partition("/v1")
            return await self._of_openais_kind(request, rest, together=server == "/together")
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-version"] == "2023-06-01"
        return await self._anthropic(request, path.removeprefix("/v1"))

    async def _anthropic(self, request: web.Request, path: str) -> web.StreamResponse:
        if path == "/messages/batches" and request.method == "POST":
            requests = orjson.loads(await request.read())["requests"]
            return web.json_response(self._message_batch(requests))
        if path == "/messages/batches":
            names = list(reversed(self.batches))
            after = request.query.get("after_id")
            start = names.index(after) + 1 if after else 0
            page = [self.batches[name]["shown"] for name in names[start : start + 2]]
            return web.json_response({"data": page, "has_more": start + 2 < len(names)})
        name = path.split("/")[3]
        if path.endswith("/results"):
            return web.Response(body=b"\n".join(map(orjson.dumps, self.batches[name]["results"])))
        if self.held:
            self.held -= 1
        elif self.batches[name]["results"] is None:
            self._run_messages(name)
        return web.json_response(self.batches[name]["shown"])

    def _message_batch(self, requests: list[Json]) -> Json:
        name = f"msgbatch_{next(self._ids)}"
        counts = dict.fromkeys(("succeeded", "errored", "canceled", "expired"), 0)
        shown = {
            "id": name,
            "type": "message_batch",
            "processing_status": "in_progress",
            "request_counts": {"processing": len(requests), **counts},
            "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "results_url": None,
        }
        self.batches[name] = {"requests": requests, "shown": shown, "results": None}
        return shown

    def _run(self, rows: list[tuple[str, str]]) -> tuple[list[str], bool]:
        """Run a batch, given keys and texts; return how each request ends, and if some are late."""
        late, self.expire = self.expire > 0, max(0, self.expire - 1)
        ends = []
        for number, (key, text) in enumerate(rows):
            if late and number % 2:
                ends.append("expired")
            elif any(bad in text for bad in self.bad_rows):
                ends.append("errored")
            else:
                self.billed[key] += 1
                ends.append("succeeded")
        return ends, late

    def _run_messages(self, name: str) -> None:
        batch, results = self.batches[name], []
        rows = [
            (asked["custom_id"], asked["params"]["messages"][-1]["content"])
            for asked in batch["requests"]
        ]
        ends, _ = self._run(rows)
        for (key, text), end in zip(rows, ends, strict=True):
            result: Json = {"type": end}
            if end == "errored":
                told = {"type": "invalid_request_error", "message": self.bad_row_message}
                result["error"] = {"type": "error", "error": told}
            elif end == "succeeded":
                result["message"] = {
                    "type": "message",
                    "role": "assistant",
                    "model": "m",
                    "content": [{"type": "text", "text": f"answer to {text}"}],
                    "stop_reason": "end_turn",
                    "usage": {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 2},
                }
            results.append({"custom_id": key, "result": result})
        self._shuffle.shuffle(results)
        batch["results"] = results
        batch["shown"] |= {
            "processing_status": "ended",
            "request_counts": {
                **batch["shown"]["request_counts"], "processing": 0, **Counter(ends),
            },
            # another host: the key must not be sent there
            "results_url": f"https://elsewhere.invalid/{name}/results",
        }  # fmt: skip

    async def _of_openais_kind(
        self, request: web.Request, path: str, *, together: bool
    ) -> web.StreamResponse:
        """Answer as Groq or Together.

        Groq's list has two batches a page, in no order, that a cursor leads through.
        """
        if path == ("/files/upload" if together else "/files"):
            form = await form_of(request)
            name = f"file-{next(self._ids)}"
            self.files[name] = form["file"]
            if not together:
                assert form["purpose"] == b"batch"
                return web.json_response({"id": name, "object": "file", "purpose": "batch"})
            assert (form["purpose"], form["file_type"]) == (b"batch-api", b"jsonl")
            return web.json_response({"id": name, "filename": form["file_name"].decode()})
        if path.startswith("/files/"):
            return web.Response(body=self.files[path.split("/")[2]])
        if path == "/batches" and request.method == "POST":
            body = orjson.loads(await request.read())
            assert body["endpoint"] == "/v1/chat/completions"
            name = f"batch-{next(self._ids)}"
            batch = {"id": name, "input_file_id": body["input_file_id"]}
            batch |= (
                {"status": "VALIDATING", "created_at": "2026-01-15T14:30:00Z"}
                if together
                else {"status": "validating", "created_at": 1736472600, "errors": None, **body}
            )
            self.batches[name] = batch
            return web.json_response({"job": batch} if together else batch)
        if path == "/batches":
            names = list(self.batches)
            if together:
                return web.json_response(list(self.batches.values()))
            assert set(request.query) <= {"cursor", "id"}
            start = int(request.query.get("cursor", 0))
            page: Json = {"object": "list", "data": [self.batches[n] for n in names[start:][:2]]}
            if start + 2 < len(names):
                page["paging"] = {"next_cursor": str(start + 2)}
            return web.json_response(page)
        batch = self.batches[path.split("/")[2]]
        if self.refused_files:
            self.refused_files -= 1
            batch |= {"status": "failed", "errors": [{"message": "line 1 is no JSON", "line": 1}]}
        elif batch["status"].lower() == "validating":
            self._run_job(batch)
        return web.json_response(batch)

    def _run_job(self, job: Json) -> None:
        answers, errors = [], []
        rows = [orjson.loads(line) for line in self.files[job["input_file_id"]].splitlines()]
        self._shuffle.shuffle(rows)
        texts = [(row["custom_id"], row["body"]["messages"][-1]["content"]) for row in rows]
        ends, late = self._run(texts)
        for (key, text), end in zip(texts, ends, strict=True):
            if end == "succeeded":
                message = {"role": "assistant", "content": f"answer to {text}"}
                body = {
                    "model": "m",
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
                }
                response = {"status_code": 200, "body": body}
                answers.append({"custom_id": key, "response": response})
            else:
                error = {"message": self.bad_row_message, "type": "invalid_request_error"}
                error = error if end == "errored" else {"message": "not processed"}
                errors.append({"custom_id": key, "error": error})
        status = "EXPIRED" if late else "COMPLETED"
        job["status"] = status if job["status"].isupper() else status.lower()
        for kind, found in (("output_file_id", answers), ("error_file_id", errors)):
            if found:
                job[kind] = f"file-{next(self._ids)}"
                self.files[job[kind]] = b"\n".join(map(orjson.dumps, found))

    async def _gemini(self, request: web.Request, path: str) -> web.Response:
        if path.endswith(":batchGenerateContent"):
            told = orjson.loads(await request.read())["batch"]
            name = f"batches/{next(self._ids)}"
            metadata = {
                "model": path.removesuffix(":batchGenerateContent").strip("/"),
                "displayName": told["displayName"],
                "state": "BATCH_STATE_PENDING",
            }
            self.batches[name] = {"name": name, "metadata": metadata}
            self.batches[name]["requests"] = told["inputConfig"]["requests"]["requests"]
            return web.json_response(self._operation(name))
        if path == "/batches":
            names = list(self.batches)
            start = int(request.query.get("pageToken", 0))
            page: Json = {"operations": [self._operation(n) for n in names[start : start + 2]]}
            if start + 2 < len(names):
                page["nextPageToken"] = str(start + 2)
            return web.json_response(page)
        name = path.strip("/")
        if "response" not in self.batches[name]:
            self._run_contents(self.batches[name])
        return web.json_response(self._operation(name))

    def _operation(self, name: str) -> Json:
        return {key: value for key, value in self.batches[name].items() if key != "requests"}

    def _run_contents(self, batch: Json) -> None:
        responses: list[Json] = []
        rows = [
            (asked["metadata"]["key"], asked["request"]["contents"][-1]["parts"][0]["text"])
            for asked in batch["requests"]
        ]
        ends, late = self._run(rows)
        for (key, text), end in zip(rows, ends, strict=True):
            told: Json = {} if self.without_metadata else {"metadata": {"key": key}}
            if end == "errored":
                told["error"] = {"code": 3, "message": self.bad_row_message}
            elif end == "succeeded":
                content = {"role": "model", "parts": [{"text": f"answer to {text}"}]}
                told["response"] = {
                    "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
                    "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 3},
                    "modelVersion": "m",
                }
            if end != "expired":
                responses.append(told)
        batch["metadata"]["state"] = "BATCH_STATE_EXPIRED" if late else "BATCH_STATE_SUCCEEDED"
        batch |= {"done": True, "response": {"inlinedResponses": {"inlinedResponses": responses}}}


@contextlib.asynccontextmanager
async def serve_providers(**options: Any) -> AsyncIterator[Providers]:
    """Serve until the block is left."""
    providers = Providers(**options)
    async with listening(providers.serve) as providers.url:
        yield providers
