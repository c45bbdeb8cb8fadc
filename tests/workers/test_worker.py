"""The process that a worker runs in, and the folder that it leaves."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.runtime.processes import killed_after, start
from textassay.runtime.concurrency import NEW_OBJECTS
from textassay.workers.worker import scratch_folder

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


HOLD = """
import sys, tempfile
from textassay.workers.worker import scratch_folder
tempfile.tempdir = sys.argv[1]
with scratch_folder() as folder:
    (folder / "answers").write_text("paid")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_next_worker_removes_what_a_killed_one_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = tmp_path / "textassay-worker-notes"
    other.mkdir()
    with start(HOLD, tmp_path) as living:
        assert living.stdout is not None
        kept = Path(living.stdout.readline().strip())
        [line] = killed_after(1, HOLD, tmp_path)
        dead = Path(line)
        assert dead.exists()
        with scratch_folder() as own:
            assert not dead.exists()
            assert {path for path in tmp_path.iterdir() if path.is_dir()} == {kept, own, other}
        assert (kept / "answers").read_text() == "paid"
        living.communicate()
    assert list(tmp_path.iterdir()) == [other]
