"""Serves runs on the loopback: an index of a folder's runs, and a page that follows each.

A page on the web could ask this server through a name that it points at the loopback (DNS
rebinding), so requests for any other host are refused.
"""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

from textassay.listening import answers_to, link, listen
from textassay.report.examples import MAX_TEXT, detail, example_columns, head, score_columns
from textassay.report.page import build_content, fill_page, join_runs, render_sections
from textassay.report.people import RESAMPLES, pairs_of
from textassay.report.rendering import fill
from textassay.report.source import (
    DataSource,
    RunSource,
    join_page,
    leave_out_other_texts,
    open_data,
    open_run,
)
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import RunFolderError, TextassayError
from textassay.runtime.storage.files import encode
from textassay.runtime.storage.run_files import MANIFEST, SCORES, SUMMARY, read_summary

ReportHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LiveRun:
    """One run folder; its methods may be called from any thread, one call at a time."""

    def __init__(
        self, folder: Path, *, name: str | None = None, data: Path | Examples | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._renew_at = 0.0
        self._given = data
        self._open(folder, name)
        self._read()

    def _open(self, folder: Path, name: str | None) -> None:
        self.run: RunSource = open_run(folder, name=name)
        self.data: DataSource = open_data(self.run, self._given)
        self._lines = array("l")
        self._sections: tuple[int, bool, str] | None = None

    def page(self, address: str) -> str:
        """Return the page without scores, which it requests from `address`."""
        with self._lock:
            self._read()
            return fill_page(self._content(), live=address)

    def sections(self) -> tuple[int, str]:
        """Return the version of the sections and their HTML, rebuilt if that is not too soon."""
        with self._lock:
            self._read()
            now, finished = len(self._lines), self.finished
            old = self._sections
            too_soon = not finished and time.monotonic() < self._renew_at
            if old is not None and (old[:2] == (now, finished) or too_soon):
                return old[0], old[2]
            began = time.monotonic()
            html = render_sections(self._content())
            self._sections = (now, finished, html)
            # a pause proportional to the cost: sections of a large run take seconds, and several
            # readers must not keep the core busy
            self._renew_at = began + 41 * (time.monotonic() - began)
            return now, html

    def news(self, cursor: int, known: int) -> dict[str, Any]:
        """Return the rows added after `cursor` lines, for a reader that has `known` examples."""
        with self._lock:
            # the file was replaced (a merge, a restart), so the reader's position is invalid
            if not self._read() or cursor > len(self._lines):
                return {"restart": True}
            upto = min(cursor + 10_000, len(self._lines))  # most scores of one response
            # a row that changed twice since the reader's last request is sent once
            rows = list(dict.fromkeys(self._lines[cursor:upto]))
            table = self.run.table
            ids = table.ids[known : max((table.example[row] for row in rows), default=-1) + 1]
            joined = join_page(self.run, self.data, pairs_of(self.run, self.data, {}), rows=rows)
            systems = example_columns(self.data, [])["systems"]
            return {
                "cursor": upto,
                "more": upto < len(self._lines),
                "total": len(table),
                "version": len(self._lines),
                "status": self.status,
                "first": known,
                "rows": rows,
                "head": {**head(self.run, self.data, joined, None), "systems": systems},
                "examples": example_columns(self.data, ids),
                "scores": score_columns(self.run, joined, rows, is_part=True),
            }

    def final_ranks(self) -> dict[str, Any]:
        """Return the differences of ranks, which need all rows, once the run is finished."""
        with self._lock:
            self._read()
            rows = list(range(len(self.run.table)))
            joined = join_runs([self.run], [self.data], {})
            return {"rows": rows, "scores": score_columns(self.run, joined, rows)}

    def detail(self, example: int) -> dict[str, Any] | None:
        """Return texts and evidence of one example, or `None` if there is no such example."""
        with self._lock:
            table = self.run.table
            if not 0 <= example < len(table.ids):
                return None
            example_id, texts = table.ids[example], dict[str, int]()
            scores = [list(table.scores(table.rows_of(example_id)))]
            content = detail(self.data.examples.get(example_id), scores, MAX_TEXT, texts)
            return {**content, "texts": list(texts)}

    @property
    def finished(self) -> bool:
        """Whether the summary was written after the last score."""
        summary, scores = self.run.folder / SUMMARY, self.run.folder / SCORES
        if not summary.exists():
            return False
        return not scores.exists() or summary.stat().st_mtime_ns >= scores.stat().st_mtime_ns

    @property
    def status(self) -> str:
        """State of the run, from its files."""
        if self.finished:
            return "finished"
        scores = self.run.folder / SCORES
        quiet = time.time() - scores.stat().st_mtime if scores.exists() else 0.0
        return "running" if quiet < 30 else f"no new score for {quiet:.0f} s"

    def _content(self) -> Any:
        joined = join_runs([self.run], [self.data], {})
        return build_content(
            [self.run], [self.data], joined, {}, packed=len(self.run.table),
            resamples=RESAMPLES if self.finished else 0,
        )  # fmt: skip

    def _read(self) -> bool:
        """Read appended lines; return whether the file is still the same one."""
        scores = self.run.folder / SCORES
        if scores.exists() and scores.stat().st_size < self.run.table.read_to:
            self._open(self.run.folder, self.run.name)
            return False
        table = self.run.table
        while changed := table.read_more():
            self._lines.extend(changed)
            # only the score of an example records which text was judged under its id
            ids = dict.fromkeys(table.ids[table.example[row]] for row in changed)
            self.data = leave_out_other_texts(self.run, self.data, ids)
        return True


_DATA: dict[str, tuple[Any, ...]] = {
    "scores": (LiveRun.news, "cursor", "known"),
    "whole": (LiveRun.final_ranks,),
    "detail": (LiveRun.detail, "example"),
}
"""JSON requests of a page: the method that answers, and its numbers from the query."""


class Viewer:
    """The application: one run, or a folder of runs."""

    def __init__(
        self, path: Path, *, host: str = "127.0.0.1", data: Path | Examples | None = None
    ) -> None:
        self.path, self.host, self._data = path, host, data
        self._runs: dict[str, LiveRun] = {}
        self._opening = asyncio.Lock()
        self.single = (path / MANIFEST).is_file()
        if self.single:
            self._runs[""] = LiveRun(path, data=data)
        elif not self.names():
            raise RunFolderError(
                f"{path} contains no run: there is no {MANIFEST} in it or below it"
            )

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[str]:
        """Serve inside the block; yield the address."""
        async with listen(self.app(), self.host, port) as free_port:
            yield f"{link(self.host, free_port)}/"

    def app(self) -> web.Application:
        """Return the aiohttp application with its routes."""
        app = web.Application(middlewares=[self._guard])
        app.on_response_prepare.append(self._add_headers)
        app.router.add_get("/", self._page if self.single else self._index)
        app.router.add_get("/run", self._page)
        app.router.add_get("/sections", self._sections)
        for name in _DATA:
            app.router.add_get(f"/{name}", self._answer)
        return app

    def names(self) -> list[str]:
        """Return the runs below the folder by their paths in it."""
        names = (
            file.parent.relative_to(self.path).as_posix()
            # a bounded depth: `**` would walk everything below the folder, data and caches
            # included, at every look at the index
            for depth in range(1, 5)
            for file in self.path.glob("/".join(["*"] * depth) + f"/{MANIFEST}")
        )
        return sorted(names)[:1000]

    async def _run(self, request: web.Request) -> LiveRun:
        name = "" if self.single else request.query.get("run", "")
        # one at a time: two requests for an unopened run would read it twice
        async with self._opening:
            if name not in self._runs:
                # compared with the listed names, so that `..` is refused
                if name not in await asyncio.to_thread(self.names):
                    raise web.HTTPNotFound(text=f"there is no run {name!r} here")
                try:
                    self._runs[name] = await asyncio.to_thread(
                        LiveRun, self.path / name, name=name, data=self._data
                    )
                except TextassayError as error:
                    raise web.HTTPNotFound(text=str(error)) from error
            return self._runs[name]

    async def _index(self, request: web.Request) -> web.StreamResponse:
        runs = await asyncio.to_thread(
            lambda: [_index_entry(self.path, name) for name in self.names()]
        )
        html = fill("index.html.jinja", folder=self.path.resolve().name, runs=runs)
        return web.Response(text=html, content_type="text/html")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        run = await self._run(request)
        address = "" if self.single else f"run={quote(request.query['run'], safe='')}"
        html = await asyncio.to_thread(run.page, address)
        return web.Response(text=html, content_type="text/html")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Answer the page's requests with JSON."""
        run = await self._run(request)
        read, *names = _DATA[request.path.strip("/")]
        content = await asyncio.to_thread(read, run, *(_count(request, name) for name in names))
        if content is None:
            raise web.HTTPNotFound(text="there is no such example")
        return web.Response(body=encode(content), content_type="application/json")

    async def _sections(self, request: web.Request) -> web.StreamResponse:
        run = await self._run(request)
        version, html = await asyncio.to_thread(run.sections)
        headers = {"X-Version": str(version)}
        return web.Response(text=html, content_type="text/html", headers=headers)

    @web.middleware
    async def _guard(self, request: web.Request, handler: ReportHandler) -> web.StreamResponse:
        if not answers_to(request.host, self.host):
            raise web.HTTPForbidden(text="this server answers for its own address only")
        try:
            return await handler(request)
        except TextassayError as error:
            # the page shows the error and stays open while a run folder is being repaired
            raise web.HTTPInternalServerError(text=str(error)) from error

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers["X-Content-Type-Options"] = "nosniff"
        # other sites cannot embed these pages
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cache-Control"] = "no-store"


def _index_entry(folder: Path, name: str) -> dict[str, Any]:
    """Return the entry of a run in the index."""
    path = folder / name
    try:
        run = open_run(path)
    except RunFolderError as error:
        return {"name": name, "problem": str(error)}
    outcomes = read_summary(path)["outcomes"] if (path / SUMMARY).is_file() else None
    return {
        "name": name,
        "address": quote(name, safe=""),
        "problem": None,
        "method": run.method,
        "models": ", ".join(sorted(set(run.models.values()))),
        "began": run.began,
        "scored": outcomes and outcomes["scored"],
        "unscored": outcomes and sum(outcomes.values()) - outcomes["scored"],
    }


def _count(request: web.Request, name: str) -> int:
    text = request.query.get(name, "0")
    # isdigit alone accepts digits of other scripts; the length bounds what int() has to parse
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise web.HTTPBadRequest(text=f"{name} must be a number")
    return int(text)
