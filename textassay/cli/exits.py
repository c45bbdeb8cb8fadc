"""Exit statuses, and the one place where an error becomes one.

0 everything scored; 1 finished, but something is unscored; 2 bad arguments, configuration or data,
nothing was asked; 3 stopped early and resumable.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer
from pydantic import ValidationError

from textassay.cli.console import say
from textassay.process import fast_loop, start_gc
from textassay.runtime.errors import CapabilityError, TextassayError, as_typed
from textassay.runtime.settings import SETTABLE, place_of

T = TypeVar("T")
UNSCORED, BAD_REQUEST, STOPPED = 1, 2, 3
_FLAGS = {
    "options": "--set",
    "fields": "--field",
    "models": "--model",
    "margin": "--fail-above",
    "count": "--next",
}
"""Flags that are named differently from the parameters they give."""
_MAY_BE_SECRET = frozenset({"limits", "cache", "proxy", "headers", "query"})
"""Settings whose values may hold a password by mistake, so that no message repeats them."""
INCONCLUSIVE = 4
"""Status of a gate whose interval spans the limit."""


class Stopped(Exception):
    """A run that began and was stopped by an error, which is the cause."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM."""


@contextmanager
def stops_of_a_run(out: Path | None, has_begun: Callable[[], bool]) -> Iterator[None]:
    """Turn what ends the block early into `Stopped` if resuming the run can help.

    Before the first request, and if the model lacks an ability, the error stays as it is.

    Args:
        out: The run folder, for the message.
        has_begun: Returns whether there is something to resume.
    """
    try:
        yield
    except TextassayError as error:
        if has_begun() and not isinstance(error, CapabilityError):
            raise Stopped from error
        raise
    except asyncio.CancelledError:
        if not has_begun():
            raise
        stop = Interrupted("interrupted")
        stop.add_note(f"finished work is kept; continue with: textassay resume {out}")
        raise Stopped from stop


@contextmanager
def exits() -> Iterator[None]:
    """Turn errors of the block into a message on standard error and an exit status."""
    try:
        yield
    # first of all: it wraps errors that would otherwise mean that nothing was asked
    except Stopped as stop:
        _explain("stopped", stop.__cause__ or stop)
        raise typer.Exit(STOPPED) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted", style="yellow")
        raise typer.Exit(STOPPED) from None
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            say(f"error: {_flag(problem['loc'])}{_reason(problem)}", style="red")
        raise typer.Exit(BAD_REQUEST) from None
    except TextassayError as error:
        _explain("error", error)
        raise typer.Exit(BAD_REQUEST) from None
    except (
        typer.Exit,
        OSError,
    ):  # a reader that closed the pipe is no fault of ours, and typer knows what to do
        raise
    except (
        Exception
    ):  # a fault in our code or in a method's: it must not look like a run that finished
        traceback.print_exc()
        say(
            "stopped by a bug in textassay; scores and answers that were written are kept",
            style="red",
        )
        raise typer.Exit(STOPPED) from None


def _flag(place: tuple[int | str, ...]) -> str:
    """Return the flag that a setting's field is set by, in front of what is wrong with it."""
    if not place:
        return ""
    name = str(place[0])
    if name == "endpoints":
        return place_of(place)
    return f"{_typed(name).removesuffix('=')}: "


def _reason(problem: Any) -> str:
    reason = str(problem["msg"]).removeprefix("Value error, ")
    # messages of `Settings` name other settings as Python knows them
    reason = re.sub(r"`(\w+)`", lambda name: _typed(name[1]).removesuffix("="), reason)
    place, given = problem["loc"], problem["input"]
    if not place or isinstance(given, dict) or place[0] in _MAY_BE_SECRET:
        return reason
    return f"{reason} (given: {given!r})"


def _typed(name: str) -> str:
    """Return how the command line names a parameter or setting."""
    if name in _FLAGS:
        return _FLAGS[name]
    return f"--set {name}=" if name in SETTABLE else f"--{name.replace('_', '-')}"


def warn(message: str) -> None:
    """Write a warning whose parameters are marked (see `parameter`) to standard error."""
    say(f"warning: {typed(message)}", style="yellow")


def typed(message: str) -> str:
    """Return a message whose parameters are marked in the words of the command line."""
    return as_typed(message, _typed)


def _explain(word: str, error: BaseException) -> None:
    message = error.typed(_typed) if isinstance(error, TextassayError) else str(error)
    say(f"{word}: {message or type(error).__name__}", style="red")
    for note in getattr(error, "__notes__", ()):
        say(f"  {note}")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; SIGTERM stops it as Ctrl-C does."""

    async def guarded() -> T:
        start_gc()
        task = asyncio.current_task()
        if (
            task is not None
            and sys.platform != "win32"
            # only the main thread may set signal handlers; callers in other threads handle signals
            # themselves
            and threading.current_thread() is threading.main_thread()
        ):
            # cancelling lets the run write its summary and close its journal, which the default
            # would not
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        return runner.run(guarded())
