"""Where models come from: paths, the hub, and the digests that identify their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import HANGS_AFTER
from textassay.runtime.backends.local.files import (
    HubFile,
    file_digest,
    locate_gguf,
    parse_spec,
    parts,
)
from textassay.runtime.errors import ConfigurationError, ModelNotFound

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("models/judge.gguf", Path("models/judge.gguf")),
        ("/models/judge.gguf", Path("/models/judge.gguf")),
        (r"C:\models\judge.gguf", Path(r"C:\models\judge.gguf")),
        ("D:/models/judge.gguf", Path("D:/models/judge.gguf")),
        ("org/name:judge-q4.gguf", HubFile("org/name", "judge-q4.gguf")),
        ("org/name@v1.2:sub/judge.gguf", HubFile("org/name", "sub/judge.gguf", "v1.2")),
    ],
)
def test_paths_and_hub_files_are_distinguished(spec, expected):
    """A drive letter makes a path; a repository and a file after a colon are on the hub."""
    assert parse_spec(spec) == expected


def test_a_missing_path_is_named(tmp_path):
    """The error shows the path and both forms."""
    with pytest.raises(ModelNotFound, match=r"none\.gguf.*HF_REPO:FILE"):
        locate_gguf(str(tmp_path / "none.gguf"))
    with pytest.raises(ModelNotFound, match="the embedded model is 'embedded' alone"):
        locate_gguf("embedded")
    with pytest.raises(ConfigurationError, match="needs a model"):
        parse_spec(" ")


HUB = """
import asyncio, hashlib, http.server, os, sys, threading
BODY = b"GGUF" + bytes(1000)
class Hub(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self): self.answer(False)
    def do_GET(self): self.answer(True)
    def answer(self, body):
        known = self.path == "/org/name/resolve/main/judge.gguf"
        self.send_response(200 if known else 404)
        if not known:
            kind = "EntryNotFound" if "org/name" in self.path else "RepoNotFound"
            self.send_header("X-Error-Code", kind)
        self.send_header("Content-Length", str(len(BODY) if known else 0))
        self.send_header("ETag", '"' + hashlib.sha256(BODY).hexdigest() + '"')
        self.send_header("X-Repo-Commit", "c" * 40)
        self.end_headers()
        if body and known: self.wfile.write(BODY)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
from textassay.runtime.backends.local.files import locate_gguf
from textassay.runtime.errors import TextassayError
def attempt(spec):
    try:
        print("got", locate_gguf(spec).stat().st_size)
    except TextassayError as error:
        print(type(error).__name__, error)
if len(sys.argv) > 1: server.shutdown(); server.server_close()
for spec in ("org/name:judge.gguf", "org/name:other.gguf", "org/none:judge.gguf"):
    attempt(spec)
"""


def hub(home: Path, *arguments: str, **environment: str) -> list[str]:
    """Ask a small hub on this machine from a process of its own; return what came out, line by
    line."""
    settings = {
        "HF_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "*",
    }
    done = subprocess.run(
        [sys.executable, "-c", HUB, *arguments],
        env={**os.environ, **settings, **environment},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_a_hub_file_is_downloaded_once_and_errors_are_plain(tmp_path):
    """Found, wrong file, wrong repository; then offline with it in the cache, and offline
    without."""
    pytest.importorskip("huggingface_hub")
    online = hub(tmp_path / "hf")
    assert online[0] == "got 1004"
    assert online[1].startswith("ModelNotFound")
    assert "no file 'other.gguf'" in online[1]
    assert online[2].startswith("ModelNotFound")
    kept, offline, _ = hub(tmp_path / "hf", HF_HUB_OFFLINE="1")
    assert kept == "got 1004"
    assert offline.startswith("NothingListening")
    assert "cannot be reached" in offline


def test_the_digest_follows_the_content_and_all_parts(tmp_path):
    """A changed file has another digest; a split model is digested whole."""
    one = tmp_path / "m.gguf"
    one.write_bytes(b"GGUF1")
    first = file_digest(one)
    one.write_bytes(b"GGUF22")
    assert file_digest(one) != first
    names = [f"m-{number:05d}-of-00002.gguf" for number in (1, 2)]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    assert [part.name for part in parts(tmp_path / names[0])] == names
    whole = file_digest(tmp_path / names[0])
    (tmp_path / names[1]).write_bytes(b"changed!")
    assert file_digest(tmp_path / names[0]) != whole


@pytest.fixture
def large(tmp_path):
    """A file, unchanged for an hour."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and more")
    aged(path)
    return path


def aged(path, seconds=3600):
    then = path.stat().st_mtime_ns - seconds * 10**9
    os.utime(path, ns=(then, then))


def test_a_digest_is_remembered_on_disk_until_the_file_changes(large, tmp_path):
    """A later process does not read the file again; one byte, or another file under the name, is
    noticed."""
    store = tmp_path / "cache" / "digests.json"
    first = file_digest(large, store, min_bytes=4)
    known = store.read_text()
    store.write_text(known.replace(first, "0" * 64))
    assert file_digest(large, store, min_bytes=4) == "0" * 64, (
        "the remembered digest is used, the file not read"
    )
    before = large.stat()
    large.write_bytes(b"GGUF and MORE")
    os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = file_digest(large, store, min_bytes=4)
    assert changed not in (first, "0" * 64), "equal size and time of change, but another content"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"x": 1}', b"\xff\xfe", b'{"a": {"facts": 3}}'])
def test_a_file_of_digests_that_is_damaged_or_cannot_be_written_is_not_an_obstacle(
    large, tmp_path, content
):
    store = tmp_path / "digests.json"
    store.write_bytes(content)
    found = file_digest(large, store, min_bytes=4)
    for kept in (store, store / "in the place of a folder.json"):
        assert file_digest(large, kept, min_bytes=4) == found


def test_a_file_that_changed_just_now_is_not_remembered(large, tmp_path):
    """It could change again within the resolution of the file system's clock."""
    store = tmp_path / "digests.json"
    large.write_bytes(b"GGUF, fresh")
    file_digest(large, store, min_bytes=4)
    assert not store.exists()
