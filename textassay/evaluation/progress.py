"""The progress of a run: one frozen snapshot, made on demand."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from textassay.runtime.base import Usage
from textassay.runtime.calls.limits import LimiterState


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run."""

    done: int
    """Finished examples, including skipped ones from earlier sessions."""
    total: int | None
    """Examples of the run; `None` if the data have no known length."""
    seconds: float
    """Time since the session began."""
    outcomes: dict[str, int]
    """Scores of this session by outcome."""
    usage: Usage
    """Cost of this session."""
    costs: dict[str, float | None] = field(default_factory=dict)
    """Part of it in US dollars by model; `None` if that model's price is unknown."""
    settled_before: int = 0
    """Part of `done` that an earlier session of the run had finished."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed attempts by error class, including attempts with a successful retry."""
    sampled: int = 0
    """Scores of this session that are the mean of several samples."""
    unanimous: int = 0
    """Part of `sampled` whose samples all gave the same rating."""
    limiters: dict[str, LimiterState] = field(default_factory=dict)
    """State of each model's limiter, by model name."""

    @property
    def samples_never_differ(self) -> bool:
        """Whether all samples were equal, over 20 scores or more.

        Either the server ignores the temperature, or the judge is certain of every rating.
        """
        return self.unanimous == self.sampled >= 20

    @property
    def rate(self) -> float:
        """Examples a second since the session began."""
        # examples of earlier sessions took no time in this session and would distort the estimate
        return (self.done - self.settled_before) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated time to the end; `None` if unknown."""
        if self.total is None or not self.rate:
            return None
        return (self.total - self.done) / self.rate


def sum_progress(parts: Iterable[Progress]) -> Progress:
    """Return the joint progress of several workers; no single worker knows the total."""
    reports = list(parts)
    outcomes, failures = Counter[str](), Counter[str]()
    for part in reports:
        outcomes.update(part.outcomes)
        failures.update(part.failures)
    return Progress(
        done=sum(part.done for part in reports),
        total=None,
        # they run in parallel, so the whole takes the longest of their times
        seconds=max((part.seconds for part in reports), default=0.0),
        outcomes=dict(outcomes),
        usage=sum((part.usage for part in reports), Usage()),
        costs=add_costs(item for part in reports for item in part.costs.items()),
        settled_before=sum(part.settled_before for part in reports),
        failures=dict(failures),
        sampled=sum(part.sampled for part in reports),
        unanimous=sum(part.unanimous for part in reports),
        limiters=merge_limiters(state for part in reports for state in part.limiters.items()),
    )


def add_costs(costs: Iterable[tuple[str, float | None]]) -> dict[str, float | None]:
    """Return the sum of costs by model; a model with an unknown cost has an unknown sum."""
    totals: dict[str, float | None] = {}
    for name, cost in costs:
        so_far = totals.get(name, 0.0)
        totals[name] = None if cost is None or so_far is None else so_far + cost
    return totals


def known_cost(costs: Mapping[str, float | None]) -> tuple[float, list[str]]:
    """Return the known part of a cost in US dollars, and the models without a price."""
    priced = [cost for cost in costs.values() if cost is not None]
    return math.fsum(priced), [name for name, cost in costs.items() if cost is None]


def merge_limiters(states: Iterable[tuple[str, LimiterState]]) -> dict[str, LimiterState]:
    """Return the state of each model's limiters, one state for each name."""
    merged: dict[str, LimiterState] = {}
    for name, state in states:
        merged[name] = merged[name] + state if name in merged else state
    return merged


def line(now: Progress) -> str:
    """Return the whole state in one line."""
    return " | ".join([*format_speed(now), *effort(now), *problems(now)])


def format_speed(now: Progress) -> list[str]:
    """Format the progress and the speed of the run."""
    parts = [
        f"{now.done}/{now.total}" if now.total is not None else f"{now.done} done",
        f"{now.rate:.1f}/s",
    ]
    if now.done == now.total:
        parts.append(f"took {clock(now.seconds)}")
    elif now.seconds_left is not None:
        parts.append(f"{clock(now.seconds_left)} left")
    return parts


def effort(now: Progress) -> list[str]:
    """Format calls, cost, and calls in flight."""
    usage = now.usage
    parts = [
        f"{usage.calls} calls" + (f" + {usage.cached_calls} cached" if usage.cached_calls else "")
    ]
    cost, unpriced = (usage.cost, []) if usage.cost is not None else known_cost(now.costs)
    if cost:
        parts.append(f"${cost:.4f}" + (" and more" if unpriced else ""))
    # limiters of ended workers admit no calls
    limiters = {name: state for name, state in now.limiters.items() if state.limit}
    for name, state in limiters.items():
        waits = f", paused {math.ceil(state.paused_for)} s" if state.paused_for > 0 else ""
        parts.append(
            f"{name if len(limiters) > 1 else 'in flight'} {state.in_flight}/{state.limit}{waits}"
        )
    return parts


def problems(now: Progress) -> list[str]:
    """Format unscored texts and failed attempts."""
    unscored = {kind: count for kind, count in now.outcomes.items() if kind != "scored" and count}
    return [
        *(f"{count} {kind}" for kind, count in sorted(unscored.items())),
        *(f"{kind} x{count}" for kind, count in sorted(now.failures.items())),
    ]


def clock(seconds: float) -> str:
    """Return a duration as `1:02:03` or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


OnProgress = bool | Callable[[Progress], object] | None
"""`True` for a line, `False` for nothing, a function for every state; `None` for a line in
a notebook, or if standard error is a terminal."""


@asynccontextmanager
async def display_progress(
    progress: Callable[[], Progress],
    watch: OnProgress,
    *,
    seconds: float = 0.25,
    delay: float = 0.0,
) -> AsyncIterator[None]:
    """Show the progress of the block every few `seconds` after a delay, and the last state."""
    show = _display_for(watch)
    if show is None:
        yield
        return

    async def repeat() -> None:
        await asyncio.sleep(delay)
        while True:
            show(progress())
            await asyncio.sleep(seconds)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        # `wait` does not raise the task's error: the block's own error must come first
        await asyncio.wait([task])
        if task.cancelled():
            show(progress())
        if isinstance(show, TerminalLine):
            show.end()
    if not task.cancelled():
        task.result()  # raises an error of the display


def _display_for(watch: OnProgress) -> Callable[[Progress], object] | None:
    if callable(watch):
        return watch
    kernel = _in_notebook()
    if watch is None:
        watch = kernel or sys.stderr.isatty()
    if not watch:
        return None
    return NotebookLine() if kernel else TerminalLine()


def _in_notebook() -> bool:
    # sys.modules, since importing IPython would cost a second outside of notebooks
    ipython = sys.modules.get("IPython")
    return bool(ipython) and hasattr(cast(Any, ipython).get_ipython(), "kernel")


class TerminalLine:
    """One line on standard error that replaces itself."""

    def __init__(self) -> None:
        self._whole = ""

    def __call__(self, now: Progress) -> None:
        """Draw the state over the last one, cut to the width of the terminal."""
        self._whole = line(now)
        # a wrapped line cannot be replaced: each redraw would leave a copy behind
        print(f"\r\x1b[K{cut(self._whole, _columns())}", end="", file=sys.stderr, flush=True)  # noqa: T201

    def end(self) -> None:
        """Leave the last state in its place, uncut."""
        print(f"\r\x1b[K{self._whole}", file=sys.stderr)  # noqa: T201


def cut(text: str, columns: int) -> str:
    """Return a text cut to a number of columns."""
    # the last column stays free, since in many terminals a full line wraps
    if len(text) < columns:
        return text
    return text[: max(columns - 2, 0)] + "…"


def _columns() -> int:
    try:
        # asked every time: windows change
        return os.get_terminal_size(sys.stderr.fileno()).columns or sys.maxsize
    except (OSError, ValueError):  # not a terminal, but a line was requested
        return sys.maxsize


class NotebookLine:
    """One line of output in the cell that replaces itself."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, now: Progress) -> None:
        """Draw the state over the last one."""
        from IPython.display import display  # available, since this runs in its kernel

        bundle = {"text/plain": line(now)}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
