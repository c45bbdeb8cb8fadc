"""Two processes at one run folder, each step of the one between two steps of the other."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.interleaving import before
from textassay.runtime.errors import RunFolderError
from textassay.runtime.storage.run_folder import RunFolder


def begin(path):
    """Begin a run without a score; it is closed."""
    with_manifest(RunFolder.create(path)).close()


def with_manifest(run):
    """Write a manifest."""
    run.write_manifest({"models": {}})
    return run


def remove_files(path):
    """Do what discarding does to the files of a run."""
    for name in ("scores.jsonl", "manifest.json", ".lock"):
        (path / name).unlink(missing_ok=True)


def test_a_run_that_is_discarded_before_the_lock_is_not_resumed(tmp_path):
    """Its scores would lie in a folder without a manifest, and never be found again."""
    path = tmp_path / "run"
    begin(path)
    with (
        before(("open", path / ".lock", lambda: remove_files(path))),
        pytest.raises(RunFolderError, match="no run"),
    ):
        RunFolder.resume(path)
    assert list(path.iterdir()) == []
    begin(path)


def test_what_was_foreign_only_while_another_process_wrote_is_looked_at_again(tmp_path):
    """It ended between the look and the lock."""
    path = tmp_path / "run"
    begin(path)
    (path / "half.tmp").write_text("")
    with before(("open", path / ".lock", (path / "half.tmp").unlink)):
        begin(path)
    (path / "half.tmp").write_text("")
    with (
        before(("open", path / ".lock", lambda: None)),
        pytest.raises(RunFolderError, match=r"half\.tmp"),
    ):
        RunFolder.check_new(path)


def test_a_run_that_is_discarded_during_the_look_leaves_room_for_another(tmp_path):
    """Its files go one after the other, its lock among them, and the folder last."""
    path = tmp_path / "run"
    begin(path)
    with before(("open", path / "manifest.json", lambda: remove_files(path))):
        RunFolder.check_new(path)
    begin(path)
    with before(("os.listdir", path, lambda: shutil.rmtree(path))):
        RunFolder.check_new(path)
    begin(path)
    (path / "answers").mkdir()
    with before(("os.listdir", path / "answers", (path / "answers").rmdir)):
        begin(path)


def test_a_discarded_run_removes_nothing_of_the_next_one(tmp_path):
    """Its answers go while it holds the lock; what comes after that is another's."""
    path, begun = tmp_path / "run", []

    def refused():
        with pytest.raises(RunFolderError, match="in use by another process"):
            RunFolder.create(path)

    run = with_manifest(RunFolder.create(path))
    run.answers.mkdir()
    assert run.discard()
    with before(
        ("shutil.rmtree", run.answers, refused),
        ("os.rmdir", path, lambda: begun.append(with_manifest(RunFolder.create(path)))),
    ):
        run.close()
    begun[0].close()
    assert json.loads((path / "manifest.json").read_text())["models"] == {}


def test_a_lock_of_others_is_not_touched(tmp_path):
    """Taking a lock empties its file; what has content is none of ours."""
    for name in (".lock", "notes.txt"):
        (tmp_path / name).write_text("theirs")
    with pytest.raises(RunFolderError, match="other files"):
        RunFolder.create(tmp_path)
    assert (tmp_path / ".lock").read_text() == "theirs"
