"""The parts of the local backend that need no model: batches, queue, grammar text, sources,
templates."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import HANGS_AFTER, eventually
from textassay.runtime.backends.llamacpp.chunks import (
    MIN_LIMIT,
    MIN_ROWS,
    first_output,
    plan_batches,
    reusable,
)
from textassay.runtime.backends.llamacpp.digest import file_digest, parts
from textassay.runtime.backends.llamacpp.json_grammar import json_grammar
from textassay.runtime.backends.llamacpp.order import PATIENCE, PrefixOrder
from textassay.runtime.backends.llamacpp.source import HubFile, locate, parse_spec
from textassay.runtime.backends.llamacpp.worker import ThreadWorker
from textassay.runtime.calls.conversation import conversation
from textassay.runtime.errors import ConfigurationError, ModelClosed, ModelNotFound

ROOT = Path(__file__).parents[3]
FOREVER = 1e6  # a wait of so long that is not ended fails its test


@given(st.data())
def test_no_batch_is_small_and_every_output_comes_once(data):
    """Batches cover what is not kept, stay within their limits, and hold at least eight rows and
    outputs."""
    length = data.draw(st.integers(1, 1500))
    first = data.draw(st.integers(0, length - 1))
    kept = reusable(data.draw(st.integers(0, length)), first, length)
    batch = data.draw(st.integers(MIN_LIMIT, 600))
    outputs = data.draw(st.integers(MIN_LIMIT, batch))
    chunks = plan_batches(kept, first, length, batch=batch, outputs=outputs)
    assert [c.start for c in chunks] == [kept, *[c.stop for c in chunks[:-1]]]
    assert chunks[-1].stop == length
    positions = [position for c in chunks for position in range(c.output, c.stop)]
    assert positions == list(range(first_output(first, length), length))
    assert first in positions
    for chunk in chunks:
        assert chunk.stop - chunk.start <= batch
        assert chunk.stop - chunk.output <= outputs
        if length >= MIN_ROWS:
            assert chunk.stop - chunk.start >= MIN_ROWS
            assert chunk.stop - chunk.output == 0 or chunk.stop - chunk.output >= MIN_ROWS


class Box:
    """Notes what ran, and on which thread."""

    def __init__(self) -> None:
        self.ran: list[bytes] = []
        self.prepared: list[bytes] = []
        self.running: set[int] = set()
        self.preparing: set[int] = set()
        self.closed = False
        self.gate = threading.Event()

    def close(self) -> None:
        self.closed = True


class Note:
    """A task that runs once the box's gate is open, and gives its key back."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def prepare(self, box: Box) -> bytes:
        if self.key == b"bad":
            raise ValueError("cannot be prepared")
        box.preparing.add(threading.get_ident())
        box.prepared.append(self.key)
        return self.key

    def run(self, box: Box, abandoned: Callable[[], bool]) -> bytes:
        assert box.gate.wait(HANGS_AFTER)
        box.running.add(threading.get_ident())
        box.ran.append(self.key)
        return self.key


async def started(box: Box, **options: float) -> ThreadWorker[Box]:
    worker = ThreadWorker(lambda: box, name="box", **options)
    await worker.start()
    return worker


@pytest.mark.asyncio
async def test_the_queue_brings_shared_prefixes_together_and_answers_everyone():
    """Mixed arrivals run sorted by prefix, on one thread, and each asker gets its own result."""
    box = Box()
    worker = await started(box)
    keys = [b"%c%d" % (letter, number) for number in range(5) for letter in b"abcd"]
    asked = [asyncio.ensure_future(worker.submit(Note(key))) for key in [b"x", *keys]]
    await eventually(lambda: not worker._inbox)
    box.gate.set()
    assert await asyncio.gather(*asked) == [b"x", *keys]
    letters = [key[:1] for key in box.ran if key != b"x"]
    assert sum(one != other for one, other in itertools.pairwise(letters)) <= 4
    assert len(box.running) == 1
    worker.stop()
    await worker.stopped()
    assert box.closed


@pytest.mark.asyncio
async def test_tasks_are_prepared_while_another_runs():
    """So a model is not idle while the next prompts are tokenized, on one thread of their own."""
    box = Box()
    worker = await started(box)
    first = asyncio.ensure_future(worker.submit(Note(b"a")))
    await eventually(lambda: box.prepared == [b"a"])
    others = [asyncio.ensure_future(worker.submit(Note(key))) for key in (b"b", b"bad", b"c")]
    await eventually(lambda: box.prepared == [b"a", b"b", b"c"])
    assert not box.ran
    with pytest.raises(ValueError, match="cannot be prepared"):
        await others[1]
    box.gate.set()
    assert await asyncio.gather(first, others[0], others[2]) == [b"a", b"b", b"c"]
    assert len(box.preparing) == 1
    assert not box.preparing & box.running
    worker.stop()
    await worker.stopped()


@pytest.mark.asyncio
async def test_nobody_waits_forever_for_a_prefix_that_stays_popular():
    """A task that was passed over often enough runs although better matches keep coming."""
    box = Box()
    box.gate.set()
    worker = await started(box)
    lonely = asyncio.ensure_future(worker.submit(Note(b"zzz")))
    await eventually(lambda: bool(worker._queue) or lonely.done())
    for _ in range(PATIENCE // 8 + 20):
        await asyncio.gather(*(worker.submit(Note(b"aaa")) for _ in range(16)))
        if lonely.done():
            break
    assert await lonely == b"zzz"
    worker.stop()
    await worker.stopped()


@pytest.mark.asyncio
async def test_what_follows_from_a_task_runs_before_what_shares_less_with_it():
    """Chains of requests, each asked once the one before is answered, run one after the other."""
    box = Box()
    worker = await started(box)

    async def ask_in_turn(letter: bytes) -> None:
        with conversation() as chain:
            for number in range(1, 5):
                chain.has_next = number < 4
                assert await worker.submit(Note(letter * number)) == letter * number

    chains = [asyncio.ensure_future(ask_in_turn(letter)) for letter in (b"a", b"b", b"c")]
    await eventually(lambda: not worker._inbox)
    box.gate.set()
    await asyncio.gather(*chains)
    letters = [key[:1] for key in box.ran]
    assert sum(one != other for one, other in itertools.pairwise(letters)) == 2
    worker.stop()
    await worker.stopped()


@pytest.mark.asyncio
async def test_a_task_that_nothing_follows_holds_up_the_others_for_a_moment_only():
    """Neither waiting tasks nor stopping depend on what a task announced."""
    box = Box()
    box.gate.set()
    worker = await started(box)
    async with asyncio.timeout(HANGS_AFTER):
        with conversation():
            assert await worker.submit(Note(b"a")) == b"a"
            announced = asyncio.ensure_future(worker.submit(Note(b"b")))
        assert await announced == b"b"
        with conversation():
            assert await worker.submit(Note(b"a")) == b"a"
            worker.stop()
            await worker.stopped()


@pytest.mark.asyncio
async def test_a_wait_ends_with_the_next_task_though_others_share_more_with_the_last():
    """As where a source is cut shorter for a longer question; then what shares most goes first."""
    box = Box()
    worker = await started(box, next_turn_seconds=FOREVER)

    async def ask_in_turn(*keys: bytes) -> None:
        with conversation() as chain:
            for key in keys:
                chain.has_next = key is not keys[-1]
                await worker.submit(Note(key))

    async with asyncio.timeout(HANGS_AFTER):
        chain = asyncio.ensure_future(ask_in_turn(b"source q1", b"sour q2"))
        others = [
            asyncio.ensure_future(worker.submit(Note(key)))
            for key in (b"source q3", b"source q1 and")
        ]
        await asyncio.sleep(0)
        box.gate.set()
        await asyncio.gather(chain, *others)
    assert box.ran == [b"source q1", b"source q1 and", b"source q3", b"sour q2"]
    worker.stop()
    await worker.stopped()


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["returns", "raises", "cancelled"])
async def test_a_wait_ends_with_its_chain_however_that_ends(way):
    """An asker that found no use in going on, or cannot, holds up nobody."""
    box = Box()
    box.gate.set()
    worker = await started(box, next_turn_seconds=FOREVER)
    answered = asyncio.Event()

    async def ask() -> None:
        with conversation():
            await worker.submit(Note(b"a"))
            answered.set()
            if way == "raises":
                raise ValueError("no use")
            if way == "cancelled":
                await asyncio.Event().wait()

    async with asyncio.timeout(HANGS_AFTER):
        asker = asyncio.ensure_future(ask())
        await answered.wait()
        if way == "cancelled":
            asker.cancel()
        await asyncio.wait([asker])
        assert await worker.submit(Note(b"b")) == b"b"
        worker.stop()
        await worker.stopped()
    assert (
        asker.cancelled()
        if way == "cancelled"
        else (asker.exception() is not None) == (way == "raises")
    )


@pytest.mark.asyncio
async def test_what_others_ask_does_not_end_a_wait():
    """Only the chain's own next task does; another that came sooner runs after it."""
    box = Box()
    box.gate.set()
    worker = await started(box, next_turn_seconds=FOREVER)
    async with asyncio.timeout(HANGS_AFTER):
        with conversation() as chain:
            await worker.submit(Note(b"aa"))
            other = asyncio.create_task(worker.submit(Note(b"ab")), context=contextvars.Context())
            await eventually(lambda: len(worker._queue) == 1)
            chain.has_next = False
            await worker.submit(Note(b"aa then"))
        assert await other == b"ab"
    assert box.ran == [b"aa", b"aa then", b"ab"]
    worker.stop()
    await worker.stopped()


@pytest.mark.asyncio
async def test_nothing_is_waited_for_where_the_chain_has_more_in_the_queue():
    """As where its requests are asked at once."""
    box = Box()
    worker = await started(box, next_turn_seconds=FOREVER)
    async with asyncio.timeout(HANGS_AFTER):
        with conversation():
            asked = [asyncio.ensure_future(worker.submit(Note(key))) for key in (b"a", b"b", b"c")]
            await asyncio.sleep(0)
            box.gate.set()
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            await eventually(lambda: len(box.ran) == 3)
        assert await asyncio.gather(*asked) == [b"a", b"b", b"c"]
    assert sorted(box.ran) == [b"a", b"b", b"c"]
    worker.stop()
    await worker.stopped()


@pytest.mark.asyncio
async def test_others_that_keep_asking_do_not_make_a_wait_longer():
    """Each of them asks anew as soon as it is prepared, until one of them is run."""
    box = Box()
    box.gate.set()
    worker = await started(box)
    loop, asked = asyncio.get_running_loop(), []

    class Pressing(Note):
        def prepare(self, resource):
            if b"b" not in box.ran:
                loop.call_soon_threadsafe(ask)
            return super().prepare(resource)

    def ask() -> None:
        asked.append(loop.create_task(worker.submit(Pressing(b"b")), context=contextvars.Context()))

    async with asyncio.timeout(HANGS_AFTER):
        with conversation():
            await worker.submit(Note(b"a"))
            ask()
            await eventually(lambda: b"b" in box.ran)
    assert box.ran[:2] == [b"a", b"b"]
    worker.stop()
    await worker.stopped()
    await asyncio.gather(*asked, return_exceptions=True)


def test_the_longest_waiting_goes_first_but_once_in_many_turns():
    """What came next to it then runs beside it, whoever else has waited long."""
    order: PrefixOrder[Waiting] = PrefixOrder()
    ran = []
    for turn in range(2 * PATIENCE + 8):
        order.push(Waiting(b"bbb", turn))
        if turn == 1:
            order.push(Waiting(b"a1", turn))
            order.push(Waiting(b"m1", turn))
        if ran == [b"a1"]:
            order.push(Waiting(b"a12", turn))
        [chosen] = order.pop(1)
        chosen.done = True
        if chosen.key != b"bbb":
            ran.append(chosen.key)
        if chosen.key == b"a12":
            assert turn < PATIENCE + 8
    assert ran == [b"a1", b"a12", b"m1"]


class Waiting:
    """An entry of an order."""

    def __init__(self, key: bytes, serial: int) -> None:
        self.key, self.serial, self.arrived = key, serial, 0
        self.abandoned = self.done = False


@pytest.mark.asyncio
async def test_waiting_tasks_are_cancelled_at_once_and_never_run():
    """Cancelling frees the asker immediately, although the thread is busy."""
    box = Box()
    worker = await started(box)
    running = asyncio.ensure_future(worker.submit(Note(b"a")))
    await eventually(lambda: not worker._inbox)
    waiting = asyncio.ensure_future(worker.submit(Note(b"b")))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    box.gate.set()
    assert await running == b"a"
    assert await worker.submit(Note(b"c")) == b"c"
    assert b"b" not in box.ran
    worker.stop()
    await worker.stopped()


@pytest.mark.asyncio
async def test_stopping_fails_what_is_queued_and_what_comes_later():
    """Everyone queued gets ModelClosed; a failing task fails alone; the resource is closed once."""
    box = Box()
    worker = await started(box)
    asked = [asyncio.ensure_future(worker.submit(Note(key))) for key in (b"a", b"b", b"c")]
    await eventually(lambda: not worker._inbox)
    worker.stop()
    box.gate.set()
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(result, ModelClosed) for result in results) >= 2
    with pytest.raises(ModelClosed):
        await worker.submit(Note(b"d"))
    await worker.stopped()
    await worker.stopped()
    assert box.closed


@pytest.mark.asyncio
async def test_what_cannot_be_prepared_or_opened_fails_alone():
    """The asker gets the exception itself."""
    box = Box()
    box.gate.set()
    worker = await started(box)
    with pytest.raises(ValueError, match="cannot be prepared"):
        await worker.submit(Note(b"bad"))
    assert await worker.submit(Note(b"good")) == b"good"
    worker.stop()
    await worker.stopped()

    def fails() -> Box:
        raise ConfigurationError("no such thing")

    broken = ThreadWorker(fails, name="broken")
    with pytest.raises(ConfigurationError, match="no such thing"):
        await broken.start()
    with pytest.raises(ModelClosed):
        await broken.submit(Note(b"a"))
    await broken.stopped()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "not a JSON type"),
        ({"type": "object", "properties": {"a": 3}}, "#/properties/a is 3"),
        ({"type": "object", "required": ["a"]}, "must list names"),
        ({"enum": []}, "at least one"),
        ({"$ref": "#/$defs/x"}, "does not exist"),
        ({"$ref": "https://example.org"}, "same schema"),
        ({"type": "string", "pattern": "a+"}, "pattern, which is not supported"),
        ({"allOf": [{"type": "string"}]}, "allOf"),
        ({"type": "integer", "minimum": 3}, "lower and an upper"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no number lies between"),
        ({"type": "number", "minimum": 0.5, "maximum": 2}, "whole and not negative"),
        ({"type": "integer", "minimum": True, "maximum": 2}, "is not a number"),
        ({"type": "array", "minItems": 2_000_000}, "from 0 to 1000"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "below minLength"),
        ({"const": float("nan")}, "not a JSON value"),
    ],
)
def test_a_schema_that_a_grammar_cannot_keep_is_refused_by_name(schema, words):
    """The error names the place and what is wrong there."""
    with pytest.raises(ConfigurationError, match="JSON schema") as caught:
        json_grammar(schema)
    assert words in str(caught.value)


def test_deep_nesting_is_refused():
    """A schema nested without end does not end the process."""
    schema: dict[str, object] = {"type": "string"}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ConfigurationError, match="deep"):
        json_grammar(schema)


def test_bounds_become_the_numbers_between_them():
    """Integers are listed, and enum values are escaped twice: once for JSON, once for the
    grammar."""
    assert '"2" | "3" | "4"' in json_grammar(
        {"type": "integer", "minimum": 2, "exclusiveMaximum": 5}
    )
    assert '"\\"a\\\\\\"b\\""' in json_grammar({"enum": ['a"b']})
    assert json.loads(json.dumps('a"b')) == 'a"b'


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
def test_paths_and_hub_files_are_told_apart(spec, expected):
    """A drive letter makes a path; a repository and a file after a colon are on the hub."""
    assert parse_spec(spec) == expected


def test_a_missing_path_is_named(tmp_path):
    """The error shows the path and both forms."""
    with pytest.raises(ModelNotFound, match=r"none\.gguf.*HF_REPO:FILE"):
        locate(str(tmp_path / "none.gguf"))
    with pytest.raises(ModelNotFound, match="the model of the package is 'embedded' alone"):
        locate("embedded")
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
from textassay.runtime.backends.llamacpp.source import locate
from textassay.runtime.errors import TextassayError
def attempt(spec):
    try:
        print("got", locate(spec).stat().st_size)
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


def test_the_backend_is_imported_without_llama_cpp():
    """Importing the package loads neither llama_cpp nor huggingface_hub."""
    code = (
        "import sys, textassay.runtime.backends.llamacpp as _, textassay.runtime.backends.doctor "
        "as _;print([n for n in ('llama_cpp', 'huggingface_hub') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
