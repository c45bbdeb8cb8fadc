"""What a worker is sent, the process that it runs in, and the folder that it leaves."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.processes import killed_after, start
from tests.waiting import HANGS_AFTER
from textassay.evaluation.data import FedExample
from textassay.runtime.concurrency import NEW_OBJECTS
from textassay.runtime.messages import Example
from textassay.workers.worker import pack_examples, scratch_folder, unpack_examples


class OwnExample(Example):
    """An example of the caller's program."""

    note: str = ""


RATINGS = st.dictionaries(st.text(max_size=3), st.none() | st.floats(1, 5), max_size=2)
EXAMPLES = st.builds(
    Example,
    id=st.text(min_size=1, max_size=9),
    output=st.text(max_size=9),
    source=st.none() | st.text(max_size=9),
    references=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    human=RATINGS,
    metrics=RATINGS,
    meta=st.dictionaries(st.text(max_size=3), st.integers() | st.lists(st.text(max_size=3))),
)


@given(st.lists(st.tuples(EXAMPLES, st.lists(st.text(max_size=3), max_size=2).map(tuple))))
def test_examples_arrive_as_they_were(pairs):
    handed = [FedExample(example, completed) for example, completed in pairs]
    arrived = unpack_examples(pickle.loads(pickle.dumps(pack_examples(handed))))
    assert arrived == handed
    assert [each.example.model_dump() for each in arrived] == [
        each.example.model_dump() for each in handed
    ]


def test_an_example_of_another_class_keeps_it():
    handed = [FedExample(OwnExample(id="a", output="b", note="c"), ("fluency",))]
    (arrived,) = unpack_examples(pickle.loads(pickle.dumps(pack_examples(handed))))
    assert type(arrived.example) is OwnExample
    assert arrived == handed[0]


def test_classes_that_only_this_program_has_reach_a_worker():
    cloudpickle = pytest.importorskip("ray.cloudpickle", reason="Ray is not installed")

    class Note:
        text = "c"

    class Local(Example):
        note: str = ""

    handed = [
        FedExample(Example(id="a", output="b", meta={"note": Note()})),
        FedExample(Local(id="d", output="e", note="f")),
    ]
    program = (
        "import pickle, sys\n"
        "from textassay.workers.worker import unpack_examples\n"
        "one, two = unpack_examples(pickle.load(sys.stdin.buffer))\n"
        "print(one.example.meta['note'].text, type(two.example).__name__, two.example.note)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=cloudpickle.dumps(pack_examples(handed)),
        capture_output=True,
        check=True,
        timeout=HANGS_AFTER,
    )
    assert done.stdout.split() == [b"c", b"Local", b"f"]


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
