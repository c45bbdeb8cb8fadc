"""Files written in one step: the old or the new content, and nothing beside them."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from textassay.runtime.storage.files import decode, write_json


def test_a_file_is_replaced_as_a_whole(tmp_path):
    """Any JSON comes back, and only the file itself is left."""
    path = tmp_path / "manifest.json"
    for value in ({"a": 1}, {"b": ["half a pair: \ud83d", 2.5, None]}):
        write_json(path, value)
        assert decode(path.read_bytes()) == value
    assert path.read_bytes().endswith(b"}\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "manifest.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert decode(path.read_bytes()) == {"a": 1}
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_json(tmp_path / "folder", {"a": 1})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "manifest.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_no_link_is_written_through(tmp_path):
    """A link in the file's place, which leads elsewhere, is replaced."""
    foreign, path = tmp_path / "foreign", tmp_path / "run" / "summary.json"
    foreign.write_text("not ours")
    path.parent.mkdir()
    path.symlink_to(foreign)
    write_json(path, {"a": 1})
    assert foreign.read_text() == "not ours"
    assert decode(path.read_bytes()) == {"a": 1}
    assert not path.is_symlink()
    assert [entry.name for entry in path.parent.iterdir()] == ["summary.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_what_a_killed_process_began_is_removed_by_a_later_one(tmp_path):
    """Unfinished files do not pile up, links included; files of other names stay."""
    two_hours_ago = time.time() - 7200
    (tmp_path / "foreign").write_text("not ours")
    (tmp_path / ".a.json.fedcba9876543210.tmp").symlink_to(tmp_path / "foreign")
    for name in (".a.json.0123456789abcdef.tmp", ".a.json.tmp", ".b.json.tmp", "a.json.tmp"):
        (tmp_path / name).write_text("{")
    for entry in tmp_path.iterdir():
        os.utime(entry, (two_hours_ago, two_hours_ago), follow_symlinks=False)
    write_json(tmp_path / "a.json", {})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        ".b.json.tmp",
        "a.json",
        "a.json.tmp",
        "foreign",
    ]
    assert (tmp_path / "foreign").read_text() == "not ours"


def test_several_processes_write_to_one_path(tmp_path):
    """None removes what another is writing, and the file is always whole."""
    path = tmp_path / "a.json"
    unfinished = tmp_path / ".a.json.0123456789abcdef.tmp"
    unfinished.write_text("{")
    write_json(path, {"writer": 0})
    assert unfinished.exists()
    unfinished.unlink()

    def write(writer):
        for _ in range(100):
            write_json(path, {"writer": writer})
            assert decode(path.read_bytes())["writer"] in range(4)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
