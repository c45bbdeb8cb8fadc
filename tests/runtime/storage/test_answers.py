"""The store of answers: what it takes it never loses, and what it did not write it never trusts."""

import asyncio
import os
import pickle
import shutil
import sqlite3
import struct
import sys
import tempfile
import zlib
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.processes import finished, killed_after, start
from tests.waiting import HANGS_AFTER
from textassay.runtime.calls.cache import check_entry
from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.storage.answer_admin import (
    MARKER,
    clear,
    info,
    read_answers,
    verify,
)
from textassay.runtime.storage.answer_database import DatabaseReader
from textassay.runtime.storage.answer_log import log_paths, log_record, logs
from textassay.runtime.storage.answers import (
    DiskStore,
    RecordedAnswers,
)

POSIX = pytest.mark.skipif(
    sys.platform == "win32", reason="file modes and limits are those of POSIX"
)


def put_all(folder: Path, answers: dict[str, bytes]) -> None:
    async def main() -> None:
        async with DiskStore(folder) as store, asyncio.TaskGroup() as group:
            for key, value in answers.items():
                group.create_task(store.put(key, value))

    asyncio.run(main())


def get_all(folder: Path, keys: list[str]) -> list[bytes | None]:
    async def main() -> list[bytes | None]:
        async with DiskStore(folder) as store:
            return [await store.fetch(key) for key in keys]

    return asyncio.run(main())


def recorded(folder: Path, keys: list[str]) -> list[bytes | None]:
    store = RecordedAnswers(folder)
    try:
        return [store.get(key) for key in keys]
    finally:
        asyncio.run(store.aclose())


def change(folder: Path, sql: str, *values: object) -> None:
    """Change the database behind the store's back."""
    with closing(sqlite3.connect(folder / "cache.db")) as connection, connection:
        connection.execute(sql, values)


@settings(max_examples=15, deadline=None)
@given(answers=st.dictionaries(st.text(max_size=80), st.binary(max_size=3000), max_size=20))
def test_answers_are_there_after_reopening(tmp_path_factory, answers):
    folder = tmp_path_factory.mktemp("cache")
    put_all(folder, answers)
    assert get_all(folder, list(answers)) == list(answers.values())


def test_nothing_is_evicted_and_large_values_have_no_files_of_their_own(tmp_path):
    answers = {f"k{i}": bytes([i]) * 1_000_000 for i in range(12)}
    put_all(tmp_path, answers)
    assert {p.name for p in tmp_path.iterdir()} == {"cache.db", ".lock", MARKER}
    assert get_all(tmp_path, list(answers)) == list(answers.values())
    report = info(tmp_path)
    assert report.entries == 12
    assert report.bytes >= 12_000_000
    with closing(sqlite3.connect(tmp_path / "cache.db")) as connection:
        kept = dict(connection.execute("SELECT key, value FROM Settings"))
    assert (kept["eviction_policy"], kept["cull_limit"]) == ("none", 0)
    assert kept["size_limit"] > 10**18


@POSIX
def test_the_folder_is_for_its_owner_only(tmp_path):
    put_all(tmp_path / "new" / "cache", {"a": b"1"})
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


class Payload:
    """Unpickling this makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_a_planted_pickle_is_refused_and_never_loaded(tmp_path):
    folder, proof = tmp_path / "cache", tmp_path / "proof"
    put_all(folder, {"a": b"1", "b": b"2"})
    change(
        folder, "UPDATE Cache SET mode = 4, value = ? WHERE key = 'a'", pickle.dumps(Payload(proof))
    )
    change(
        folder, "UPDATE Cache SET raw = 0, key = ? WHERE key = 'b'", pickle.dumps(Payload(proof))
    )
    with pytest.raises(StorageError, match=r"cache\.db.*a does not match.*textassay cache verify"):
        get_all(folder, ["a"])
    report = verify(folder)
    assert len(report.problems) == 2
    assert not report.ok
    assert not proof.exists()


async def test_values_that_are_not_bytes_are_refused_rather_than_pickled(tmp_path):
    with pytest.raises(StorageError, match="must be bytes, not bytearray"):
        async with DiskStore(tmp_path) as store:
            await store.put("a", bytearray(b"1"))  # type: ignore[arg-type]


def test_a_database_that_is_damaged_before_its_first_answer_is_named(tmp_path):
    file = tmp_path / "cache.db"
    file.touch()
    with closing(DatabaseReader(tmp_path)) as reader:
        assert reader.find(["a"]) == {}
    file.write_bytes(b"no database" * 1000)
    with (
        closing(DatabaseReader(tmp_path)) as reader,
        pytest.raises(StorageError, match=r"cache\.db cannot be used"),
    ):
        reader.find(["a"])


def test_a_planted_file_name_is_refused(tmp_path):
    folder, victim = tmp_path / "cache", tmp_path / "victim"
    victim.write_text("precious")
    put_all(folder, {"a": b"1"})
    change(folder, "UPDATE Cache SET mode = 2, filename = '../../victim', value = NULL")
    with pytest.raises(StorageError, match="does not match"):
        get_all(folder, ["a"])
    with pytest.raises(StorageError, match="never writes"):
        put_all(folder, {"a": b"2"})
    assert victim.read_text() == "precious"


def test_a_changed_value_is_noticed(tmp_path):
    put_all(tmp_path, {"a": b'{"rating": 4}', "b": b"2"})
    change(tmp_path, "UPDATE Cache SET value = ? WHERE key = 'a'", b'{"rating": 5}')
    with pytest.raises(StorageError, match=r"cache\.db.* a does not match.*textassay cache verify"):
        get_all(tmp_path, ["a"])

    async def fetched_together() -> list[bytes | BaseException | None]:
        async with DiskStore(tmp_path) as store:
            keys = ("b", "a", "missing")
            return await asyncio.gather(*map(store.fetch, keys), return_exceptions=True)

    sound, damaged, missing = asyncio.run(fetched_together())
    assert (sound, type(damaged), missing) == (b"2", StorageError, None)
    report = verify(tmp_path)
    assert report.entries == 1
    assert len(report.problems) == 1


@pytest.mark.parametrize("start_at", [0, 100, 8192])
def test_a_damaged_file_is_an_error_that_says_what_to_do(tmp_path, start_at):
    keys = [f"{i:064x}" for i in range(400)]
    put_all(tmp_path, dict.fromkeys(keys, b"x" * 900))
    file = tmp_path / "cache.db"
    with file.open("r+b") as opened:
        opened.seek(start_at)
        opened.write(b"\xa5" * 40_000)
    report = verify(tmp_path)
    assert not report.ok
    assert str(file) in report.problems[0]
    with pytest.raises(StorageError, match=r"cache\.db.*textassay cache verify"):
        get_all(tmp_path, keys)
    assert clear(tmp_path).entries == 0
    assert get_all(tmp_path, keys[:1]) == [None]


def test_verify_shows_what_cannot_be_decoded(tmp_path):
    """What is known of a model is well, other objects are not."""
    put_all(tmp_path, {"a": b'{"kind":"learned","refuses":["seed"]}', "b": b'{"kind":"other"}'})
    report = verify(tmp_path, check_entry)
    assert report.entries == 1
    (problem,) = report.problems
    assert "value of b cannot be decoded" in problem
    assert verify(tmp_path).ok


def test_a_database_whose_maker_was_killed_is_used(tmp_path):
    folder, killed = tmp_path / "cache", tmp_path / "cache.db"
    put_all(folder, {})
    for file in folder.glob("cache.db*"):
        file.unlink()
    with closing(sqlite3.connect(killed, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE begun (value)")
        connection.execute("INSERT INTO begun VALUES (zeroblob(100000))")
        for file in tmp_path.glob("cache.db*"):
            shutil.copy(file, folder)
    assert {file.name for file in folder.glob("cache.db*")} == {"cache.db", "cache.db-journal"}
    put_all(folder, {"a": b"1"})
    assert get_all(folder, ["a"]) == [b"1"]
    assert verify(folder).ok


WRITES_UNTIL_KILLED = """
import asyncio, sys
from textassay.runtime.storage.answers import DiskStore

async def main():
    store = DiskStore(sys.argv[1])
    async def work(worker):
        for i in range(10**6):
            await store.put(f"{worker}-{i}", f"{worker}-{i}".encode() * 100)
            print(f"{worker}-{i}")
    async with asyncio.TaskGroup() as group:
        for worker in range(20):
            group.create_task(work(worker))

asyncio.run(main())
"""


def test_kill_9_loses_no_acknowledged_answer(tmp_path):
    acknowledged: list[str] = []
    for _ in range(2):
        acknowledged += killed_after(300, WRITES_UNTIL_KILLED, tmp_path)
        assert get_all(tmp_path, acknowledged) == [key.encode() * 100 for key in acknowledged]
    assert verify(tmp_path).ok
    assert not list(tmp_path.glob("pending-*"))


SHARES = """
import asyncio, sys
from textassay.runtime.storage.answers import DiskStore

async def main():
    async with DiskStore(sys.argv[1]) as store:
        print("open")
        name = sys.stdin.readline().strip()
        for i in range(200):
            await store.put(f"{name}-{i}", name.encode())
        print("put")
        if sys.stdin.readline() == "look\\n":
            print(await store.fetch("first-0"), await store.fetch("second-199"), flush=True)
            assert sys.stdin.readline() == "end\\n"

asyncio.run(main())
"""


def test_processes_share_a_folder(tmp_path):
    with start(SHARES, tmp_path) as first:
        assert first.stdout.readline() == "open\n"
        with start(SHARES, tmp_path) as second:
            assert second.stdout.readline() == "open\n"
            for process, name in ((first, "first"), (second, "second")):
                print(name, file=process.stdin, flush=True)
            assert [p.stdout.readline() for p in (first, second)] == ["put\n"] * 2
            with pytest.raises(ConfigurationError, match="in use"):
                clear(tmp_path)
            assert {*dict(read_answers(tmp_path)).values()} == {b"first", b"second"}
            print("end", file=first.stdin, flush=True)
            assert first.wait(HANGS_AFTER) == 0, first.stderr.read()
            print("look\nend", file=second.stdin, flush=True)
            assert second.stdout.readline() == "b'first' b'second'\n"
            assert second.wait(HANGS_AFTER) == 0, second.stderr.read()
    assert get_all(tmp_path, ["first-199", "second-0"]) == [b"first", b"second"]
    report = info(tmp_path)
    assert report.entries == 400
    assert verify(tmp_path).ok
    assert clear(tmp_path).entries == 400
    assert get_all(tmp_path, ["first-199", "second-0"]) == [None, None]


OWNER = "0123456789abcdef"


def leave_log(folder: Path, answers: dict[str, bytes], end: bytes = b"") -> Path:
    """Leave what a process that was killed before its commit would."""
    file = next(log_paths(folder, OWNER))
    records = [log_record(key, value) for key, value in answers.items()]
    file.write_bytes(b"".join(records) + end)
    return file


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(log_record("torn", bytes(9))[:-1], id="killed"),
        pytest.param(bytes(99), id="power cut"),
    ],
)
def test_uncommitted_answers_of_a_killed_process_are_read_and_then_collected(tmp_path, end):
    put_all(tmp_path, {"a": b"1", "b": b"2"})
    log = leave_log(tmp_path, {"b": b"two", "c": b""}, end)
    assert dict(read_answers(tmp_path)) == {"a": b"1", "b": b"two", "c": b""}
    assert recorded(tmp_path, ["a", "b", "c"]) == [b"1", b"two", b""]
    assert verify(tmp_path).ok
    assert get_all(tmp_path, ["a", "b", "c", "torn"]) == [b"1", b"two", b"", None]
    assert not log.exists()
    assert info(tmp_path).entries == 3
    log = leave_log(tmp_path, {"d": b"4"})
    assert clear(tmp_path).entries == 4
    assert not log.exists()


def test_the_newest_log_of_a_killed_process_wins(tmp_path):
    put_all(tmp_path, {"a": b"old"})
    for number, log in zip(range(11), log_paths(tmp_path, OWNER), strict=False):
        log.write_bytes(log_record("a", b"%d" % number))
    assert recorded(tmp_path, ["a"]) == [b"10"]
    assert dict(read_answers(tmp_path)) == {"a": b"10"}
    assert get_all(tmp_path, ["a"]) == [b"10"]
    assert [log.name for log in tmp_path.glob("pending-*")] == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(log_record("b", b"2")[:-1] + b"3", id="value"),
        pytest.param(struct.pack("<III", 1, 0, zlib.crc32(b"\xff")) + b"\xff", id="no UTF-8"),
    ],
)
def test_a_damaged_log_is_reported_and_what_came_before_is_kept(tmp_path, caplog, changed):
    put_all(tmp_path, {})
    log = leave_log(tmp_path, {"a": b"1"}, changed + log_record("c", b"3"))
    (problem,) = verify(tmp_path).problems
    assert problem.startswith(f"{log}: the record after 1 answers is damaged")
    with pytest.raises(StorageError, match="damaged"):
        dict(read_answers(tmp_path))
    assert get_all(tmp_path, ["a", "b"]) == [b"1", None]
    assert "what came before is kept" in caplog.text


def test_a_link_in_place_of_a_log_is_refused(tmp_path):
    put_all(tmp_path / "cache", {})
    (tmp_path / "precious").write_bytes(log_record("a", b"1"))
    log = next(log_paths(tmp_path / "cache", OWNER))
    log.symlink_to(tmp_path / "precious")
    for read in (info, clear, DiskStore):
        with pytest.raises(StorageError, match="link"):
            read(tmp_path / "cache")
    assert (tmp_path / "precious").exists()
    log.unlink()
    assert clear(tmp_path / "cache").entries == 0, "a store that could not be opened is closed"


@pytest.mark.parametrize("size", [1000, 1_000_000])
async def test_answers_that_come_faster_than_they_are_committed_wait(tmp_path, size):
    """Memory and logs would grow with the results of a batch."""
    async with DiskStore(tmp_path) as store:
        for number in range(20_000_000 // size):
            await store.put(f"{number}", bytes(size))
            if number % 20 == 19:
                waiting = 0
                for log in logs(tmp_path):
                    with suppress(FileNotFoundError):  # committed meanwhile
                        waiting += log.stat().st_size
                assert waiting < 6_000_000
    assert info(tmp_path).entries == 20_000_000 // size


FORKS = """
import asyncio, os, sys
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.answers import DiskStore

async def main():
    async with DiskStore(sys.argv[1]) as store:
        if os.fork() == 0:
            try:
                await store.put("a", b"1")
            except StorageError as error:
                print(error)
            os._exit(0)
        os.wait()
        await store.put("b", b"2")

asyncio.run(main())
"""


@POSIX
def test_a_forked_process_is_told_to_open_its_own_store(tmp_path):
    """Its answers would go into a log that the other process removes."""
    assert "open it again" in finished(FORKS, tmp_path)
    assert get_all(tmp_path, ["a", "b"]) == [None, b"2"]


FILLS = """
import asyncio, resource, sys
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.answers import DiskStore

async def main():
    store = DiskStore(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
    kept = []
    async def work(worker):
        for i in range(1000):
            await store.put(f"{worker}-{i}", bytes(3000))
            kept.append(f"{worker}-{i}")
    results = await asyncio.gather(*map(work, range(10)), return_exceptions=True)
    assert [type(r) for r in results] == [StorageError] * 10, results
    assert "pending-" in str(results[0]) and "textassay cache verify" in str(results[0]), results[0]
    assert len(kept) > 100
    assert [await store.fetch(key) for key in kept] == [bytes(3000)] * len(kept)
    try:
        await store.put("late", b"1")
    except StorageError:
        print(" ".join(kept))
    assert await store.fetch("late") is None
    await store.aclose()

asyncio.run(main())
"""


@POSIX
def test_a_full_disk_stops_writing_and_not_reading(tmp_path):
    kept = finished(FILLS, tmp_path).split()
    assert len(kept) > 100
    assert set(get_all(tmp_path, kept)) == {bytes(3000)}
    assert verify(tmp_path).ok


def test_foreign_folders_are_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    for refuses in (DiskStore, clear, info, verify):
        with pytest.raises(ConfigurationError, match="not a cache folder"):
            refuses(tmp_path)
    with pytest.raises(ConfigurationError, match="is a file"):
        DiskStore(tmp_path / "thesis.tex")
    with pytest.raises(ConfigurationError, match="not a cache folder"):
        clear(tmp_path / "absent")
    with pytest.raises(StorageError, match="cannot be created"):
        DiskStore(tmp_path / "thesis.tex" / "cache")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    newer = tmp_path / "newer"
    put_all(newer, {"a": b"1"})
    (newer / MARKER).write_text('{"format": 2}')
    for refuses in (DiskStore, clear, info, verify):
        with pytest.raises(ConfigurationError, match="format 2"):
            refuses(newer)
    (newer / MARKER).write_text("{")
    with pytest.raises(StorageError, match="damaged"):
        DiskStore(newer)


def test_a_folder_whose_maker_was_killed_at_once_is_taken(tmp_path):
    (tmp_path / f".{MARKER}.0123456789abcdef.tmp").write_text("{")
    put_all(tmp_path, {"a": b"1"})
    assert info(tmp_path).entries == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of POSIX")
@pytest.mark.parametrize("part", ["cache.db", "cache.db-wal"])
def test_links_are_neither_followed_nor_cleared(tmp_path, part):
    ours, foreign = tmp_path / "ours", tmp_path / "foreign"
    for folder in (ours, foreign):
        put_all(folder, {"a": b"1"})
    before = {path: path.read_bytes() for path in foreign.rglob("*") if path.is_file()}
    planted = ours / part
    planted.unlink(missing_ok=True)
    planted.symlink_to(foreign / part)
    for attempt in (DiskStore, RecordedAnswers, clear, info, verify):
        with pytest.raises(StorageError, match="is a link"):
            attempt(ours)
    after = {path: path.read_bytes() for path in foreign.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_pipe_in_place_of_the_database_does_not_hang(tmp_path):
    put_all(tmp_path, {"a": b"1"})
    (tmp_path / "cache.db").unlink()
    os.mkfifo(tmp_path / "cache.db")
    for attempt in (DiskStore, verify):
        with pytest.raises(StorageError, match="not a regular file"):
            attempt(tmp_path)


async def test_a_folder_that_is_deleted_stops_the_writer(tmp_path):
    """SQLite would go on writing to the deleted file."""
    store = DiskStore(tmp_path / "cache")
    await store.put("a", b"1")
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(StorageError, match="cannot be used"):
        await store.aclose()


async def test_a_failure_to_tidy_up_says_where(tmp_path):
    store = DiskStore(tmp_path)
    await store.put("a", b"1")
    (lock,) = tmp_path.glob("pending-*.lock")
    lock.unlink()
    lock.mkdir()
    with pytest.raises(StorageError, match=r"pending-.*cannot be used"):
        await store.aclose()
    lock.rmdir()
    assert dict(read_answers(tmp_path)) == {"a": b"1"}


READ_ONLY = """
import os, sys
import urllib.parse  # newer Pythons import it late, when another user may not read it
from pathlib import Path
from textassay.runtime.storage.answers import RecordedAnswers
from textassay.runtime.storage.answer_admin import verify

if os.geteuid() == 0:
    os.setuid(65534)
folder = Path(sys.argv[1])
found = verify(folder)
print(found.entries, *found.problems)
if found.ok:
    print(RecordedAnswers(folder).get("a"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are those of POSIX")
def test_a_read_only_folder_is_read():
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "cache"
        put_all(folder, {"a": b"1"})
        folder.chmod(0o555)
        for path in folder.iterdir():
            path.chmod(0o444)
        try:
            assert finished(READ_ONLY, folder) == "1\nb'1'\n"
        finally:
            folder.chmod(0o755)


def test_clearing_leaves_other_files(tmp_path):
    put_all(tmp_path, {"a": b"1"})
    (tmp_path / "notes.txt").write_text("mine")
    assert clear(tmp_path).entries == 1
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert info(tmp_path).entries == 0
    put_all(tmp_path, {"b": b"2"})
    assert get_all(tmp_path, ["a", "b"]) == [None, b"2"]
