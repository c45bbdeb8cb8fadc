"""The entry point of the command line, and its set-up before the first heavy import.

Imports nothing heavy, so that an interrupt in the first half second is handled like any other.
"""

from __future__ import annotations

import os
import sys
from enum import IntEnum

from textassay.runtime.garbage import hold_off_gc


class Status(IntEnum):
    """Exit statuses of commands."""

    UNSCORED = 1
    """Finished, but something is unscored, or a gate fails."""
    BAD_REQUEST = 2
    """Wrong arguments, configuration or data; no model was called."""
    STOPPED = 3
    """Stopped early; resuming continues it."""
    INCONCLUSIVE = 4
    """The interval of a gate contains its limit."""
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    """The reader of the results closed the pipe: 128 + SIGPIPE, as shells report it. The signal
    itself stays off, since it would also kill a run whose server drops a connection."""


def main() -> None:
    """Run the command line; ends by `SystemExit`."""
    try:
        _fill_closed_streams()
        _check_open_files()
        # pydantic would search the entry points of every installed package for plugins
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        hold_off_gc()
        # imported inside the `try`: it takes most of the start, and Ctrl-C during it must not
        # print a traceback
        from textassay.cli.app import application

        try:
            application(sys.argv[1:])()
        finally:
            sys.stdout.flush()  # here a full disk is an error, at exit a traceback
    except KeyboardInterrupt:
        _end("interrupted", Status.INTERRUPTED)
    except BrokenPipeError:  # the reader of the results closed the pipe, as `head` does
        _end("", Status.CLOSED_PIPE)
    except SystemExit as end:
        # typer and rich catch it and exit with 1, which has another meaning here
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        _end("", Status.CLOSED_PIPE)
    except OSError as error:
        _end(f"error: the results cannot be written: {error.strerror or error}", Status.STOPPED)


def _fill_closed_streams() -> None:
    """Reopen streams that the shell closed (`2>&-`); a file would otherwise get their number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _check_open_files(least: int = 64, most: int = 4096) -> None:
    """Raise the limit of open files, connections and pipes; exit if it is too low for a run."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    # macOS allows 256 open files by default, fewer than calls in flight may need
    target = most if hard == unlimited else min(hard, most)
    if soft not in (unlimited, target) and soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            soft = target
        except (ValueError, OSError):  # not allowed here: the limit stays what it is
            pass
    if soft != unlimited and soft < least:
        _end(
            f"error: this shell allows {soft} open files, and a run needs {least}; "
            f"raise it with: ulimit -n {most}",
            Status.BAD_REQUEST,
        )


def _end(message: str, status: Status) -> None:
    """Print one line and exit, without anything left for the interpreter to flush."""
    if message:
        print(message, file=sys.stderr)  # noqa: T201
    # the interpreter flushes stdout once more at its end, which would fail again and print
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    raise SystemExit(status)
