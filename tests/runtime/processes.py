"""Starts real processes for tests of crashes and of simultaneous work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import HANGS_AFTER

ROOT = Path(__file__).parents[2]


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start Python on `code`, with pipes for what it reads and prints."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def finished(code: str, *arguments: object) -> str:
    """Run Python on `code` to its end and return what it printed; fails with its traceback."""
    with start(code, *arguments) as process:
        out, err = process.communicate(timeout=HANGS_AFTER)
    assert process.returncode == 0, err
    return out


def killed_after(lines: int, code: str, *arguments: object) -> list[str]:
    """Kill Python on `code` once it has printed this number of lines."""
    with start(code, *arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        out = process.stdout.read()
        assert all(seen), process.stderr.read()
    return [
        line.rstrip("\n") for line in [*seen, *out.splitlines(keepends=True)] if line.endswith("\n")
    ]
