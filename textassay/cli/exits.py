"""Exit statuses, and the one place where an error becomes one.

0 everything scored; 1 finished, but something is unscored; 2 bad arguments, configuration or data, nothing was asked;
3 stopped early and resumable.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from textassay.runtime.errors import StorageError, TextassayError

T = TypeVar("T")
UNSCORED, BAD_REQUEST, STOPPED = 1, 2, 3


class Stopped(Exception):
    """A run that began and was stopped by an error, which is the cause."""


def printable(text: str) -> str:
    """Return text with control characters escaped, for nothing that a model or a file says may steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def say(message: str, *, style: str = "") -> None:
    """Write a message to standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(printable(message), style=style))


@contextmanager
def exits() -> Iterator[None]:
    """Turn errors of the block into a message on standard error and an exit status."""
    try:
        yield
    except Stopped as stop:
        cause = stop.__cause__ or stop
        _explain("stopped", cause)
        raise typer.Exit(STOPPED) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted; nothing that was finished is lost", style="yellow")
        raise typer.Exit(STOPPED) from None
    except StorageError as error:
        _explain("error", error)
        raise typer.Exit(STOPPED) from None
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            where = ".".join(str(part) for part in problem["loc"])
            say(f"error: {where + ': ' if where else ''}{problem['msg']}", style="red")
        raise typer.Exit(BAD_REQUEST) from None
    except TextassayError as error:
        _explain("error", error)
        raise typer.Exit(BAD_REQUEST) from None


def _explain(word: str, error: BaseException) -> None:
    say(f"{word}: {error}" if str(error) else f"{word}: {type(error).__name__}", style="red")
    for note in getattr(error, "__notes__", ()):
        say(f"  {note}")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; SIGTERM stops it as Ctrl-C does."""

    async def guarded() -> T:
        task = asyncio.current_task()
        if task is not None and sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    return asyncio.run(guarded())
