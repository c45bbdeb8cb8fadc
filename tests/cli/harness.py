"""Runs the command line in this process, and the project's server in a thread beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from examples.mock_server import MockServer, Options, serve
from tests.loopback import in_thread
from textassay.cli.app import app


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


def textassay(*arguments: object) -> Outcome:
    """Run one command to its end, as a shell without a terminal would."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stderr, result.stderr
    return Outcome(result.exit_code, result.stdout, result.stderr)


@contextmanager
def served(**options: Any) -> Iterator[MockServer]:
    """Serve in a thread of its own, since a command has the event loop of this one."""
    with in_thread(lambda: serve(Options(**options))) as server:
        yield server


def write_examples(path: Path, count: int, **fields: Any) -> Path:
    """Write so many examples, each with its own text, two to a group of one source."""
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
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's scores."""
    return [
        json.loads(line) for line in (run / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def verdicts(run: Path) -> list[tuple[str, str, float | None, str]]:
    """What a run says, in an order of its own: the last line of each example and aspect."""
    last = {(row["id"], row["aspect"]): row for row in rows_of(run)}
    return sorted((*key, row["value"], row["outcome"]) for key, row in last.items())
