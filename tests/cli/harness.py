"""Runs the command line in this process, and the project's server in a thread beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from examples.mock_server import MockServer, Options, serve
from tests.loopback import in_thread
from textassay.cli.app import app


@dataclass(frozen=True)
class Outcome:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def messages(self) -> str:
        """Standard error as one line."""
        return " ".join(self.err.split())

    def ok(self) -> Outcome:
        """Return it if the command succeeded."""
        return self.ends(0)

    def ends(self, code: int, *words: str) -> Outcome:
        """Return it if the command ended with this status and printed these words."""
        missing = [one for one in words if one not in self.err and one not in self.messages]
        assert (self.code, missing) == (code, []), (self.out, self.err)
        return self


@cache
def application(*commands: Any) -> Any:
    """Return the whole command line of these commands.

    Made once, unless a test adds a command: typer takes longer to read all signatures than a
    command takes.
    """
    return get_command(app)


def textassay(*arguments: object) -> Outcome:
    """Run one command to its end, as a shell without a terminal would."""
    run = application(*(one.callback for one in app.registered_commands))
    with CliRunner().isolation() as (out, err, _):
        with pytest.raises(SystemExit) as left:
            run.main([str(argument) for argument in arguments], "textassay")
        sys.stdout.flush()
        sys.stderr.flush()
        shown, messages = (one.getvalue().decode(errors="replace") for one in (out, err))
    assert "Traceback" not in messages, messages
    return Outcome(left.value.code or 0, shown, messages)


def document(*arguments: object) -> Any:
    """Run one command that succeeds, and return its JSON document."""
    return json.loads(textassay(*arguments, "--json").ok().out)


def flags(
    data: object,
    out: object,
    server: MockServer | str,
    *more: object,
    method: str = "llm-score",
    model: str = "direct/mock",
    aspects: str = "coherence,fluency",
) -> list[object]:
    """Return the arguments of `score` with a model of a server, or of its address."""
    url = server if isinstance(server, str) else server.url
    return [
        *("score", data, "--method", method, "--model", model, "--api-base", url),
        *("--aspects", aspects, "--out", out, *more),
    ]


def score(*arguments: Any, **named: str) -> Outcome:
    """Run `score` with `flags`."""
    return textassay(*flags(*arguments, **named))


@contextmanager
def served(**options: Any) -> Iterator[MockServer]:
    """Serve in a thread of its own, since a command has the event loop of this one."""
    with in_thread(lambda: serve(Options(**options))) as server:
        yield server


def write_examples(path: Path, count: int, **fields: Any) -> Path:
    """Write `count` examples, each with its own text, two to a group of one source."""
    rows = [
        {
            "id": f"x{i}",
            "output": f"Text number {i} says that it rained.",
            "source": f"It rained on day {i // 2}.",
            "system": f"M{i % 2}",
            "group": f"g{i // 2}",
            "human": {"coherence": 1 + i % 5, "fluency": 5 - i % 3},
            **fields,
        }
        for i in range(count)
    ]
    return write_lines(path, rows)


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's scores."""
    return read_lines(run / "scores.jsonl")


def read_lines(path: Path) -> list[Any]:
    """The rows of a file of JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_json(path: Path) -> Any:
    """The document of a file."""
    return json.loads(path.read_text(encoding="utf-8"))


def verdicts(run: Path) -> list[tuple[str, str, float | None, str]]:
    """The scores of a run in a fixed order: the last line of each example and aspect."""
    last = {(row["id"], row["aspect"]): row for row in rows_of(run)}
    return sorted((*key, row["value"], row["outcome"]) for key, row in last.items())
