"""Exit statuses, and the one place where an error becomes an exit status.

0 everything scored; 1 finished, but something is unscored; 2 bad arguments, configuration or data,
no model was called; 3 stopped early and resumable.
"""

from __future__ import annotations

import ast
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from textassay.cli import Status
from textassay.cli.console import capture_warnings, say
from textassay.runtime.errors import CapabilityError, TextassayError

Returned = TypeVar("Returned")

if TYPE_CHECKING:
    from pydantic import ValidationError

    from textassay.table import Displayed, Table

_FLAGS = {
    "options": "--set",
    "fields": "--field",
    "models": "--model",
    "criteria": "--criterion",
    "margin": "--fail-above",
    "count": "--next",
    "chosen": "--labels chosen",
}
"""Flags that are named differently from the parameters they give."""
COMMAND_PARAMETERS: set[str] = set()
"""Parameters of the commands that are registered."""
GATE_STATUS = {"holds": 0, "fails": Status.UNSCORED, "inconclusive": Status.INCONCLUSIVE}
"""Documented statuses: CI distinguishes a regression from too few texts."""


def parameters() -> set[str]:
    """Return the parameters that messages may name."""
    from textassay.evaluation.request import RunRequest
    from textassay.runtime.settings import Settings

    return {*_FLAGS, *RunRequest.model_fields, *Settings.model_fields, *COMMAND_PARAMETERS}


# imported when an exception is handled: importing asyncio and pydantic takes as long as a whole
# `textassay check`
def _interruptions() -> tuple[type[BaseException], ...]:
    from asyncio import CancelledError

    return KeyboardInterrupt, CancelledError


def _validation_error() -> type[ValidationError]:
    from pydantic import ValidationError

    return ValidationError


class RunStopped(Exception):
    """A run that began and was stopped by an error, which is the cause."""


class Interrupted(Exception):
    """Ctrl-C or SIGTERM."""


@contextmanager
def as_stopped(out: Path | None, has_begun: Callable[[], bool]) -> Iterator[None]:
    """Turn an error or interrupt in the block into `RunStopped` if resuming the run can help.

    Before the first request, and if the model lacks an ability, the error is raised unchanged.
    """
    try:
        yield
    except TextassayError as error:
        if has_begun() and not isinstance(error, CapabilityError):
            raise RunStopped from error
        raise
    except _interruptions() as error:
        if isinstance(error, KeyboardInterrupt) or not has_begun():
            raise
        stop = Interrupted("interrupted")
        stop.add_note(f"finished work is kept; continue with: textassay resume {out}")
        raise RunStopped from stop


@contextmanager
def exits() -> Iterator[None]:
    """Turn errors in the block into a message on standard error and an exit status.

    Every command warns if a file of scores has a text twice.
    """
    try:
        with capture_warnings("textassay.agreement.records"):
            yield
    # the reader closed the pipe: not an error, and typer handles it
    except (typer.Exit, OSError):
        raise
    # before all others: it wraps errors that otherwise mean that no model was called
    except RunStopped as stop:
        _explain("stopped", stop.__cause__ or stop)
        raise typer.Exit(Status.STOPPED) from None
    except _interruptions():
        say("interrupted", style="yellow")
        raise typer.Exit(Status.STOPPED) from None
    except _validation_error() as error:
        for problem in _innermost(error.errors(include_url=False)):
            say(f"error: {_flag(problem['loc'])}{_reason(problem)}", style="red")
        raise typer.Exit(Status.BAD_REQUEST) from None
    except TextassayError as error:
        _explain("error", error)
        raise typer.Exit(Status.BAD_REQUEST) from None
    # a bug in textassay or in a method: it must not look like a finished run
    except Exception:
        traceback.print_exc()
        say(
            "stopped by a bug in textassay; scores and answers that were written are kept",
            style="red",
        )
        raise typer.Exit(Status.STOPPED) from None


def _innermost(problems: Sequence[Any]) -> Iterator[Any]:
    """Yield the problems, without the problem of a list that its members' problems explain."""
    parents = {problem["loc"][:-1] for problem in problems}
    return (problem for problem in problems if problem["loc"] not in parents - {()})


def _flag(place: tuple[int | str, ...]) -> str:
    """Return the flag of a setting, as the beginning of an error message."""
    if not place:
        return ""
    name = str(place[0])
    if name == "endpoints":
        from textassay.runtime.settings import place_of

        return place_of(place)
    return f"{_name_flag(name).removesuffix('=')}: "


def _reason(problem: Any) -> str:
    reason = str(problem["msg"]).removeprefix("Value error, ")
    # messages of `Settings` name other settings as in Python
    reason = re.sub(r"`(\w+)`", lambda name: _name_flag(name[1]).removesuffix("="), reason)
    place, value = problem["loc"], problem["input"]
    # the value of such a setting may contain a password
    may_be_secret = place and place[0] in {"limits", "cache", "proxy", "headers", "query"}
    if not place or isinstance(value, dict) or may_be_secret:
        return reason
    return f"{reason} (given: {value!r})"


def _name_flag(name: str) -> str:
    """Return the flag of a parameter or setting."""
    from textassay.runtime.settings import SETTABLE

    if name in _FLAGS:
        return _FLAGS[name]
    return f"--set {name}=" if name in SETTABLE else f"--{name.replace('_', '-')}"


def with_flags(message: str) -> str:
    """Return a message with flags in place of parameters of Python.

    `give price=(IN, OUT)` becomes `give --price IN,OUT`. Quoted text, and names that are not
    parameters, stay unchanged.
    """
    return _parameter_pattern().sub(_as_flag, message)


@cache
def _parameter_pattern() -> re.Pattern[str]:
    """Match parameters as messages name them: `batch=True`, `price=(IN, OUT)`, `fields={A: "b"}`.

    Words of servers (see `http_errors.quote`), and of models, data and users, which are `repr`, are
    matched without a group, so that no parameter is found in them.
    """
    text = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
    part = rf"{text}|[^'\"(){{}}]"
    table = rf"\{{(?:\{{(?:{part})*\}}|{part})*\}}"
    quoted = rf"“[^”]*”?|(?<![^\s(])(?:{text})"
    value = rf"True\b|{text}|\((?:{part})*\)|{table}"
    return re.compile(rf"{quoted}|(?<![^\s(])(?<!--set )(\w+)=(?!=)({value})?")


def name_flags(results: Iterable[Displayed]) -> Iterator[Table]:
    """Yield tables whose notes name flags in place of parameters."""
    for result in results:
        for table in result.tables():
            notes = tuple(note._replace(text=with_flags(note.text)) for note in table.notes)
            yield replace(table, notes=notes)


def _as_flag(match: re.Match[str]) -> str:
    name, value = match.groups()
    if name is None or name not in parameters():
        return match[0]
    flag = _name_flag(name)
    if value == "True":
        return flag
    prefix = f"{flag}{'' if flag.endswith('=') else ' '}"
    if value is None:
        follows = match.string[match.end() : match.end() + 1]
        return flag if re.match(r"[\s.,:;?!)]|$", follows) else prefix
    try:
        parsed = ast.parse(value, mode="eval").body
    except (SyntaxError, ValueError):
        return match[0]
    if not isinstance(parsed, ast.Dict):
        return prefix + _word(parsed)
    pairs = zip(parsed.keys, parsed.values, strict=True)
    return " ".join(f"{prefix}{_word(key)}={_word(item)}" for key, item in pairs) or match[0]


def _word(value: ast.expr | None) -> str:
    """Return a value as typed on the command line."""
    match value:
        case ast.Constant():
            word = str(value.value)
            return f'"{word}"' if " " in word else word
        case ast.Tuple():
            return ",".join(map(_word, value.elts))
        case ast.Dict():  # a table of TOML
            pairs = zip(value.keys, value.values, strict=True)
            return f"'{{{', '.join(f'{_word(key)} = {_word(item)}' for key, item in pairs)}}}'"
        case _:
            return ast.unparse(value) if value is not None else "**"


def _explain(word: str, error: BaseException) -> None:
    say(f"{word}: {with_flags(str(error)) or type(error).__name__}", style="red")
    for note in getattr(error, "__notes__", ()):
        say(f"  {note}")


def run_async(work: Coroutine[Any, Any, Returned]) -> Returned:
    """Run a coroutine to its end; SIGTERM stops it like Ctrl-C."""
    import asyncio

    from textassay.runtime.concurrency import fast_loop
    from textassay.runtime.garbage import start_gc

    async def run_until_terminated() -> Returned:
        start_gc()
        task = asyncio.current_task()
        if (
            task is not None
            and sys.platform != "win32"
            # only the main thread may set signal handlers; callers in other threads handle signals
            # themselves
            and threading.current_thread() is threading.main_thread()
        ):
            # canceling lets the run write its summary and close its journal, unlike the default
            # handler
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        return runner.run(run_until_terminated())
