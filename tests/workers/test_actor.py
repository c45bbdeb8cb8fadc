"""The process of a worker on a cluster, which Ray starts for it alone."""

from __future__ import annotations

import subprocess
import sys

from textassay.process import NEW_OBJECTS

PROGRAM = """
import gc
own = gc.get_threshold()[0]
from textassay.workers.ray import Actor
assert gc.get_threshold()[0] == own, "the import alone changes what the host has set"
Actor(".")
print(gc.get_threshold()[0], gc.get_freeze_count() > 0)
"""


def test_a_worker_collects_garbage_as_rarely_as_the_command_line() -> None:
    """Its process is its own, so what it has imported by then is never looked at again."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(NEW_OBJECTS), "True"]
