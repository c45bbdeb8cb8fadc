"""Serves runs on the loopback.

An index of a folder's runs, and the page of each, which follows its run.

A page on the web could ask this server through a name that it points at the loopback (DNS
rebinding), so requests for any other host are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

from textassay.listening import answers_to, link
from textassay.report.live import LiveRun
from textassay.report.page import asset, environment, policy
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, RunFolderError, TextassayError, parameter
from textassay.runtime.storage.json_text import encode
from textassay.runtime.storage.run_files import MANIFEST, read_manifest, read_summary

MAX_LISTED = 1000
"""Runs that an index lists."""
_DEPTH = 4
_GRACE_SECONDS = 0.5
"""How long answers on their way may take once the server is stopped."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Viewer:
    """The application: one run, or a folder of runs."""

    def __init__(
        self, path: Path, *, host: str = "127.0.0.1", data: Path | Examples | None = None
    ) -> None:
        """Look at a run folder, or at a folder that holds some.

        Args:
            path: The folder.
            host: Address that the server listens on.
            data: Texts and ratings; by default the data that each run judged.

        Raises:
            RunFolderError: There is no run at or below `path`.
            DataError: `data` cannot be read.
        """
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

    def app(self) -> web.Application:
        """Return the aiohttp application with its routes."""
        app = web.Application(middlewares=[self._guarded])
        app.router.add_get("/", self._front)
        app.router.add_get("/run", self._page)
        for what in ("scores", "sections", "detail", "whole"):
            app.router.add_get(f"/{what}", getattr(self, f"_{what}"))
        return app

    def names(self) -> list[str]:
        """Return the runs below the folder by their paths in it."""
        names = (
            file.parent.relative_to(self.path).as_posix()
            # a bounded depth: `**` would walk everything below the folder, data and caches
            # included, at every look at the index
            for depth in range(1, _DEPTH + 1)
            for file in self.path.glob("/".join(["*"] * depth) + f"/{MANIFEST}")
        )
        return sorted(names)[:MAX_LISTED]

    async def _run(self, request: web.Request) -> LiveRun:
        name = "" if self.single else request.query.get("run", "")
        # one at a time: two requests for a run that is not open would read it twice
        async with self._opening:
            if name not in self._runs:
                # compared with the listed names rather than joined to the path: `..` can lead
                # nowhere
                if name not in await asyncio.to_thread(self.names):
                    raise web.HTTPNotFound(text=f"there is no run {name!r} here")
                try:
                    self._runs[name] = await asyncio.to_thread(
                        LiveRun, self.path / name, name=name, data=self._data
                    )
                except TextassayError as error:
                    raise web.HTTPNotFound(text=str(error)) from error
            return self._runs[name]

    async def _front(self, request: web.Request) -> web.StreamResponse:
        return await (self._page(request) if self.single else self._index(request))

    async def _index(self, request: web.Request) -> web.StreamResponse:
        runs = await asyncio.to_thread(lambda: [_listed(self.path, name) for name in self.names()])
        style = asset("page.css")
        made = (
            environment()
            .get_template("index.html.jinja")
            .render(
                folder=self.path.resolve().name,
                runs=runs,
                style=style,
                policy=policy("", style, connect=False),
            )
        )
        return web.Response(text=made, content_type="text/html")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        run = await self._run(request)
        address = "" if self.single else f"run={quote(request.query['run'], safe='')}"
        made = await asyncio.to_thread(run.page, address)
        return web.Response(text=made, content_type="text/html")

    async def _scores(self, request: web.Request) -> web.StreamResponse:
        run = await self._run(request)
        cursor, known = _count(request, "cursor"), _count(request, "known")
        return _json(await asyncio.to_thread(run.news, cursor, known))

    async def _whole(self, request: web.Request) -> web.StreamResponse:
        run = await self._run(request)
        return _json(await asyncio.to_thread(run.whole))

    async def _sections(self, request: web.Request) -> web.StreamResponse:
        run = await self._run(request)
        version, made = await asyncio.to_thread(run.sections)
        return web.Response(
            text=made, content_type="text/html", headers={"X-Version": str(version)}
        )

    async def _detail(self, request: web.Request) -> web.StreamResponse:
        run = await self._run(request)
        detail = await asyncio.to_thread(run.detail, _count(request, "example"))
        if detail is None:
            raise web.HTTPNotFound(text="there is no such example")
        return _json(detail)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not answers_to(request.host, self.host):
            raise web.HTTPForbidden(text="this server answers for its own address only")
        try:
            response = await handler(request)
        except TextassayError as error:
            # the page shows the text, so the viewer stays open while a run folder is being
            # repaired
            raise web.HTTPInternalServerError(text=str(error)) from error
        response.headers["X-Content-Type-Options"] = "nosniff"
        # a page elsewhere cannot embed what is served here, whatever its own policy says
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cache-Control"] = "no-store"
        return response


async def serve(viewer: Viewer, *, port: int = 0, started: Callable[[str], None]) -> None:
    """Serve until cancelled.

    Args:
        viewer: What is served.
        port: Port to listen on; 0 for a free one.
        started: Called with the address once the server listens.

    Raises:
        ConfigurationError: The address cannot be listened on.
    """
    runner = web.AppRunner(
        # the command line handles Ctrl-C itself; pages that poll must not hold up the end
        viewer.app(),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=_GRACE_SECONDS,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, viewer.host, port)
        try:
            await site.start()
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {viewer.host}:{port}: {error}; name another port with "
                f"{parameter('port')}"
            ) from error
        started(f"{link(viewer.host, runner.addresses[0][1])}/")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _listed(folder: Path, name: str) -> dict[str, Any]:
    """Return what the index says of a run."""
    path = folder / name
    try:
        manifest = read_manifest(path)
    except RunFolderError as error:
        return {"name": name, "problem": str(error)}
    summary = read_summary(path) if (path / "summary.json").is_file() else None
    models = manifest.get("models") or {}
    return {
        "name": name,
        "address": quote(name, safe=""),
        "problem": None,
        "method": (manifest.get("method") or {}).get("name"),
        "models": ", ".join(sorted({str(model.get("name")) for model in models.values()})),
        "began": str(manifest.get("created", "")).replace("T", " ").replace("+00:00", " UTC"),
        "scored": None if summary is None else summary["outcomes"]["scored"],
        "unscored": None
        if summary is None
        else sum(summary["outcomes"].values()) - summary["outcomes"]["scored"],
    }


def _count(request: web.Request, name: str) -> int:
    text = request.query.get(name, "0")
    # isdigit alone accepts digits of other scripts; the length bounds what int() has to parse
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise web.HTTPBadRequest(text=f"{name} must be a number")
    return int(text)


def _json(value: Any) -> web.Response:
    return web.Response(body=encode(value), content_type="application/json")
