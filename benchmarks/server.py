"""Starts the project's server as a process, so that its work is not counted as ours."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]


@contextmanager
def server(**options: float | str) -> Iterator[str]:
    """Serve with these options inside the block; yields the address, ending in `/v1`."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.mock_server", "--port=0", *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def counters(url: str) -> dict[str, Any]:
    """Return the server's counters."""
    with urlopen(url.removesuffix("/v1") + "/counters") as answer:
        found: dict[str, Any] = json.load(answer)
    return found
