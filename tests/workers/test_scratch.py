"""Temporary folders of workers that live, ended, and were killed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.runtime.processes import killed_after, start
from textassay.workers.worker import scratch_folder

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
