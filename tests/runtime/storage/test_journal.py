"""The journal keeps each acknowledged row; other files are written in one step, or not at all."""

import asyncio
import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.processes import finished
from textassay.runtime.errors import DataError, StorageError
from textassay.runtime.storage.files import decode, encode, write_json
from textassay.runtime.storage.journal import Journal, read_rows

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
ROWS = st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=12)


def append_all(path, rows):
    with closing(Journal(path)) as journal:
        for row in rows:
            journal.append(encode(row))


@settings(max_examples=20, deadline=None)
@given(rows=ROWS, more=ROWS)
def test_rows_come_back_in_order(tmp_path_factory, rows, more):
    path = tmp_path_factory.mktemp("journal") / "rows.jsonl"
    append_all(path, rows)
    append_all(path, more)
    assert list(read_rows(path)) == rows + more


@settings(max_examples=30, deadline=None)
@given(rows=ROWS.filter(bool), data=st.data())
def test_a_file_cut_anywhere_loses_only_its_last_rows(tmp_path_factory, rows, data):
    path = tmp_path_factory.mktemp("journal") / "rows.jsonl"
    append_all(path, rows)
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    ends = [len(b"\n".join(content.split(b"\n")[: i + 1])) for i in range(len(rows))]
    whole = sum(end <= cut for end in ends)
    assert list(read_rows(path)) == rows[:whole]
    append_all(path, [{"new": 1}])
    assert list(read_rows(path)) == [*rows[:whole], {"new": 1}]


async def test_an_appended_row_is_in_the_file_at_once(tmp_path):
    path = tmp_path / "rows.jsonl"
    async with Journal(path) as journal:
        journal.append(b'{"a":1}')
        assert path.read_bytes() == b'{"a":1}\n'
        journal.append(b'{"b":1}', b'{"b":2}')
        journal.append()
        await journal.sync()
        assert path.read_bytes() == b'{"a":1}\n{"b":1}\n{"b":2}\n'
    with pytest.raises(StorageError, match=r"rows\.jsonl is closed"):
        journal.append(b"{}")


async def test_a_row_is_one_line(tmp_path):
    async with Journal(tmp_path / "rows.jsonl") as journal:
        with pytest.raises(ValueError, match="line break"):
            journal.append(b'{"a":\n1}')
        journal.append(b"{}")
    assert list(read_rows(tmp_path / "rows.jsonl")) == [{}]


def test_rows_are_forced_to_the_disk_when_asked_soon_or_at_the_end(tmp_path, monkeypatch):
    synced, failing = [], False

    def fsync(descriptor):
        synced.append(os.fstat(descriptor).st_size)
        if failing:
            raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", fsync)
    with closing(Journal(tmp_path / "rows.jsonl")) as journal:
        journal.append(b"{}")
        journal.append(b"{}")
        assert synced == []
        asyncio.run(journal.sync())
        assert synced == [6]
        journal.append(b"{}")
    assert synced[-1] == 9
    journal = Journal(tmp_path / "rows.jsonl")
    journal.append(b"{}")
    failing = True
    with pytest.raises(StorageError, match=r"rows\.jsonl cannot be written.*broken"):
        asyncio.run(journal.sync())
    with pytest.raises(StorageError, match=r"rows\.jsonl cannot be written.*broken"):
        journal.close()
    journal.close()


@pytest.mark.parametrize(
    "broken", [b'{"a": 1', b"[1]", b"1", b"\x00\x00", b'{"a": "\xff"}', b'{"a": NaN}']
)
def test_a_broken_line_in_the_middle_is_an_error(tmp_path, broken):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 0}\n' + broken + b'\n{"a": 2}\n')
    rows = read_rows(path)
    assert next(rows) == {"a": 0}
    with pytest.raises(DataError, match=r"rows\.jsonl:2: not "):
        next(rows)


@pytest.mark.parametrize(
    ("added", "shown"),
    [
        (b"\n", "2: unexpected blank line"),
        (b"  \n", "2: unexpected blank line"),
        (b"\xef\xbb\xbf{}\n", "2: unexpected byte order mark"),
    ],
)
def test_additions_by_an_editor_are_reported(tmp_path, added, shown):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 0}\n' + added + b'{"a": 2}\n')
    with pytest.raises(DataError, match=rf"rows\.jsonl:{shown}.*was edited"):
        list(read_rows(path))


@pytest.mark.parametrize("how", ["deleted", "replaced", "moved"])
async def test_a_file_that_goes_away_stops_the_writer(tmp_path, how):
    path = tmp_path / "run" / "rows.jsonl"
    path.parent.mkdir()
    async with Journal(path) as journal:
        journal.append(b"{}")
        if how == "moved":
            path.parent.rename(tmp_path / "elsewhere")
        else:
            path.unlink()
        if how == "replaced":
            path.write_bytes(b"")
        with pytest.raises(StorageError, match=r"rows\.jsonl cannot be written"):
            journal.append(b"{}")


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of POSIX")
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_nothing_is_written_through_a_link_or_a_pipe(tmp_path, kind):
    path, foreign = tmp_path / "rows.jsonl", tmp_path / "foreign"
    foreign.write_bytes(b"not ours")
    if kind == "link":
        path.symlink_to(foreign)
    else:
        os.mkfifo(path)
    with pytest.raises(StorageError, match=r"is a link|not a regular file"):
        Journal(path)
    if kind == "pipe":
        with pytest.raises(StorageError, match="not a regular file"):
            list(read_rows(path))
    assert foreign.read_bytes() == b"not ours"


@pytest.mark.parametrize("torn", [b"{", b'{"a": "' + b"x" * 200_000, b"\x00" * 4096, b"\xff"])
def test_a_torn_last_line_is_dropped(tmp_path, torn):
    path = tmp_path / "rows.jsonl"
    for before in ([], [{"a": 1}]):
        path.write_bytes(b"".join(encode(row) + b"\n" for row in before) + torn)
        assert list(read_rows(path)) == before
        append_all(path, [{"b": 2}])
        assert list(read_rows(path)) == [*before, {"b": 2}]


def test_a_file_that_cannot_be_read_or_written_is_an_error(tmp_path):
    with pytest.raises(StorageError, match=r"absent\.jsonl cannot be read"):
        list(read_rows(tmp_path / "absent.jsonl"))
    with pytest.raises(StorageError, match="cannot be written"):
        Journal(tmp_path)


FILLS = """
import resource, sys
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.journal import Journal

journal = Journal(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
kept = []
for i in range(1000):
    try:
        journal.append(b'{"row": "%d", "text": "%s"}' % (i, b"x" * (i * 37 % 999)))
        kept.append(str(i))
    except StorageError as error:
        assert "rows.jsonl" in str(error), error
print(" ".join(kept))
journal.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are those of POSIX")
def test_a_full_disk_keeps_exactly_what_was_acknowledged(tmp_path):
    path = tmp_path / "rows.jsonl"
    kept = finished(FILLS, path).split()
    assert 50 < len(kept) < 1000
    assert [row["row"] for row in read_rows(path)] == kept
    assert path.read_bytes().endswith(b"}\n")


def test_a_file_is_replaced_as_a_whole(tmp_path):
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
    foreign, path = tmp_path / "foreign", tmp_path / "run" / "summary.json"
    foreign.write_text("not ours")
    path.parent.mkdir()
    path.symlink_to(foreign)
    write_json(path, {"a": 1})
    assert foreign.read_text() == "not ours"
    assert decode(path.read_bytes()) == {"a": 1}
    assert not path.is_symlink()
    assert [entry.name for entry in path.parent.iterdir()] == ["summary.json"]


def test_several_processes_write_to_one_path(tmp_path):
    path = tmp_path / "a.json"

    def write(writer):
        for _ in range(100):
            write_json(path, {"writer": writer})
            assert decode(path.read_bytes())["writer"] in range(4)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
