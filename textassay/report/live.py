"""A run that may still grow, as a served page requests it: what was added since the last request.

Nothing is done unless somebody looks. Reading takes time in proportion to what is new; the sections
are made again so rarely that they cost a small share of one core.
"""

from __future__ import annotations

import threading
import time
from array import array
from pathlib import Path
from typing import Any

from textassay.report.joined import join
from textassay.report.page import content_of, joined_of, page_of, sections_of
from textassay.report.rows import MAX_TEXT, detail, example_columns, head, score_columns
from textassay.report.sections.agreement import RESAMPLES, pairs_of
from textassay.report.source import DataSource, RunSource, open_data, open_run
from textassay.runtime.data.dataset import Examples
from textassay.runtime.storage.run_files import SCORES, SUMMARY

MAX_ROWS = 10_000
"""Scores in one answer."""
_RENEWAL_RATIO = 40
"""Times as long as making the sections took that they are left as they are while the run grows."""


class LiveRun:
    """One run folder; its methods may be called from any thread, one at a time each."""

    def __init__(
        self, folder: Path, *, name: str | None = None, data: Path | Examples | None = None
    ) -> None:
        """Open a run; scores are read when they are asked for.

        Raises:
            RunFolderError: The folder holds no run.
            DataError: `data` is given and cannot be read.
        """
        self.run: RunSource = open_run(folder, name=name)
        self.data: DataSource = open_data(self.run, data)
        self._lines = array("l")
        self._lock = threading.Lock()
        self._sections: tuple[int, bool, str] | None = None
        self._renew_at = 0.0

    def page(self, address: str) -> str:
        """Return the page without scores, which it asks for at `address`."""
        with self._lock:
            self._read()
            return page_of(self._content(), live=address)

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
            made = sections_of(self._content())
            self._sections = (now, finished, made)
            # a pause in proportion to the cost: sections of a large run take seconds, and several
            # readers must not keep the core busy
            self._renew_at = began + (_RENEWAL_RATIO + 1) * (time.monotonic() - began)
            return now, made

    def news(self, cursor: int, known: int) -> dict[str, Any]:
        """Return what was added after `cursor` lines, for a reader that has `known` examples."""
        with self._lock:
            # the file was replaced (a merge, a run started over), and the reader's position means
            # nothing in it
            if not self._read() or cursor > len(self._lines):
                return {"restart": True}
            upto = min(cursor + MAX_ROWS, len(self._lines))
            # a row that changed twice since the reader's last request is sent once, as it is now
            rows = list(dict.fromkeys(self._lines[cursor:upto]))
            table = self.run.table
            ids = table.ids[known : max((table.example[row] for row in rows), default=-1) + 1]
            joined = join(self.run, self.data, self._pairs, rows=rows)
            return {
                "cursor": upto,
                "more": upto < len(self._lines),
                "total": len(table),
                "version": len(self._lines),
                "status": self.status,
                "first": known,
                "rows": rows,
                "head": {
                    **head(self.run, self.data, joined, None),
                    "systems": example_columns(self.data, [])["systems"],
                },
                "examples": example_columns(self.data, ids),
                "scores": score_columns(self.run, joined, rows, base=rows),
            }

    def whole(self) -> dict[str, Any]:
        """Return the differences of ranks, which need all rows: once, when the run is finished."""
        with self._lock:
            self._read()
            rows = list(range(len(self.run.table)))
            joined = joined_of([self.run], self.data, {})
            return {"rows": rows, "scores": score_columns(self.run, joined, rows)}

    def detail(self, example: int) -> dict[str, Any] | None:
        """Return texts and evidence of one example, or `None` if there is no such example."""
        with self._lock:
            table = self.run.table
            if not 0 <= example < len(table.ids):
                return None
            example_id, texts = table.ids[example], list[str]()
            scores = [list(table.scores(table.rows_of(example_id)))]
            shown = detail(self.data.examples.get(example_id), scores, MAX_TEXT, texts)
            return {**shown, "texts": texts}

    @property
    def finished(self) -> bool:
        """Whether the summary was written after the last score."""
        summary, scores = self.run.folder / SUMMARY, self.run.folder / SCORES
        if not summary.exists():
            return False
        return not scores.exists() or summary.stat().st_mtime_ns >= scores.stat().st_mtime_ns

    @property
    def status(self) -> str:
        """What the run is doing, as far as its files tell."""
        if self.finished:
            return "finished"
        scores = self.run.folder / SCORES
        quiet = time.time() - scores.stat().st_mtime if scores.exists() else 0.0
        return "running" if quiet < 30 else f"no new score for {quiet:.0f} s"

    @property
    def _pairs(self) -> dict[str, str]:
        humans = {name for example in self.data.examples.values() for name in example.human}
        return pairs_of(self.run.table.aspects, humans, {})

    def _content(self) -> Any:
        joined = joined_of([self.run], self.data, {})
        return content_of(
            [self.run], self.data, joined, {}, packed=len(self.run.table),
            resamples=RESAMPLES if self.finished else 0,
        )  # fmt: skip

    def _read(self) -> bool:
        """Read what was appended; return whether the file still is the one that was read before."""
        scores = self.run.folder / SCORES
        if scores.exists() and scores.stat().st_size < self.run.table.read_to:
            self.run = open_run(self.run.folder, name=self.run.name)
            self._lines, self._sections = array("l"), None
            return False
        while changed := self.run.table.read_more():
            self._lines.extend(changed)
        return True
