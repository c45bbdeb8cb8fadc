"""The run folder: fixed files, one writer, and nothing counted that is not so."""

import asyncio
import json
import math
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.interleaving import before
from tests.runtime.processes import finished, killed_after, start
from textassay.runtime.base import CACHED, ScoreError, Usage
from textassay.runtime.errors import DataError, RunFolderError, StorageError
from textassay.runtime.messages import Score
from textassay.runtime.storage.run_files import (
    RunSummary,
    ScoreLine,
    latest_scores,
    read_manifest,
    read_summary,
    score_row,
    summarize_journal,
)
from textassay.runtime.storage.run_folder import RunFolder, check_new

ENDS = {"calibrated": 3.5, "low": 3.0, "high": 4.0, "outside": False}
FIELDS = [
    "id", "aspect", "value", "outcome", "scale", "how", "samples", "spread", "mass",
    "explanation", "evidence", "usage", "error", "signature", "started", "seconds",
]  # fmt: skip
MANIFEST = {
    "models": {
        "": {"name": "m", "identity": {"model": "m"}},
        "planner": {"name": "m", "identity": {"model": "m"}},
    }
}


def scored(example_id, value, aspect="coherence", **more):
    return Score(id=example_id, aspect=aspect, value=value, **more)


def unscored(example_id, outcome, error, aspect="coherence", **more):
    return Score(
        id=example_id,
        aspect=aspect,
        outcome=outcome,
        error=ScoreError(type=error, message="why"),
        **more,
    )


def write(folder, *scores):
    """Write a whole run, or go on with it."""

    async def main():
        run = (
            RunFolder.resume(folder)
            if (folder / "manifest.json").exists()
            else RunFolder.create(folder)
        )
        async with run:
            if not run.manifest:
                run.write_manifest(MANIFEST)
            run.append(scores)
            run.write_summary()

    asyncio.run(main())


def untimed(summary):
    """A summary without when and how long."""
    return {name: value for name, value in summary.items() if name not in ("started", "seconds")}


TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
NAMES = st.text(min_size=1, max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
EVIDENCE = st.dictionaries(
    TEXTS, st.none() | st.booleans() | NUMBERS | TEXTS | st.lists(NUMBERS, max_size=2), max_size=3
)


@st.composite
def scores(draw, ids=NAMES, aspects=NAMES):
    """Any score that can be made."""
    outcome = draw(st.sampled_from(["scored", "abstained", "invalid", "error"]))
    value = draw(NUMBERS) if outcome == "scored" else None
    low, high = draw(st.tuples(NUMBERS, NUMBERS).map(sorted))
    fits = 0 < high - low < math.inf and (value is None or low <= value <= high)
    return Score(
        id=draw(ids),
        aspect=draw(aspects),
        value=value,
        outcome=outcome,
        scale=(low, high) if fits else None,
        how=draw(st.sampled_from(["text", "sampled", "logprob", "loglikelihood", "tool", "fused"])),
        samples=draw(st.none() | st.integers(0, 1000)),
        spread=draw(st.none() | POSITIVE),
        mass=draw(st.none() | st.floats(0, 1)),
        explanation=draw(st.none() | TEXTS),
        evidence=tuple(draw(st.lists(EVIDENCE, max_size=2))),
        usage=Usage(
            calls=draw(st.integers(0, 9)),
            cached_calls=draw(st.integers(0, 9)),
            prompt_tokens=draw(st.integers(0, 10**9)),
            completion_tokens=draw(st.integers(0, 10**9)),
            cost=draw(st.none() | st.floats(0, 1e6)),
        ),
        error=None if outcome == "scored" else ScoreError(type=draw(NAMES), message=draw(TEXTS)),
        signature=draw(TEXTS),
    )


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(scores(), max_size=5, unique_by=lambda s: (s.id, s.aspect)))
def test_scores_come_back_as_they_were(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("run")
    write(folder, *rows)
    assert list(latest_scores(folder)) == rows


def test_a_line_has_the_fixed_fields_in_their_order():
    row = score_row(
        scored(
            "e1",
            4.0,
            scale=(1, 5),
            how="sampled",
            samples=3,
            evidence=({"text": "q", "yes": True},),
        )
    )
    assert row == (
        b'{"id":"e1","aspect":"coherence","value":4.0,"outcome":"scored","scale":[1.0,5.0],"how":"sampled",'
        b'"samples":3,"spread":null,"mass":null,"explanation":null,'
        b'"evidence":[{"text":"q","yes":true}],"usage":{"calls":0,"cached_calls":0,'
        b'"prompt_tokens":0,"completion_tokens":0,"reasoning_tokens":0,"cached_prompt_tokens":0,'
        b'"cache_write_tokens":0,"cost":0.0},"error":null,"signature":"","started":null,"seconds":null}'
    )
    failed = json.loads(score_row(unscored("e1", "error", "TimedOut")))
    assert list(failed) == FIELDS
    assert failed["error"] == {"type": "TimedOut", "message": "why"}


def test_the_summary_counts_the_last_line_and_pays_for_all(tmp_path):
    paid = Usage(calls=1, cached_calls=2, prompt_tokens=10, completion_tokens=3, cost=0.1)
    write(
        tmp_path,
        scored("e1", 1.0, usage=paid),
        unscored("e2", "error", "TimedOut", usage=paid),
        unscored("e3", "invalid", "NoScoreFound", usage=paid),
        unscored("e4", "abstained", "Declined"),
        unscored("e1", "error", "TimedOut", aspect="fluency"),
    )
    first = untimed(read_summary(tmp_path))
    assert first == {
        "format": 1,
        "outcomes": {"scored": 1, "abstained": 1, "invalid": 1, "error": 2},
        "errors": {"Declined": 1, "NoScoreFound": 1, "TimedOut": 2},
        "aspects": {"coherence": {"n": 1, "mean": 1.0}, "fluency": {"n": 0, "mean": None}},
        "usage": {
            "calls": 3,
            "cached_calls": 6,
            "prompt_tokens": 30,
            "completion_tokens": 9,
            "reasoning_tokens": 0,
            "cached_prompt_tokens": 0,
            "cache_write_tokens": 0,
            "cost": math.fsum([0.1] * 3),
        },
    }
    write(
        tmp_path,
        scored("e2", 4.0, usage=paid),
        scored("e1", 2.0),
        unscored("e9", "error", "E", usage=Usage(cost=None)),
    )
    second = untimed(read_summary(tmp_path))
    assert second["outcomes"] == {"scored": 2, "abstained": 1, "invalid": 1, "error": 2}
    assert second["errors"] == {"Declined": 1, "E": 1, "NoScoreFound": 1, "TimedOut": 1}
    assert second["aspects"]["coherence"] == {"n": 2, "mean": 3.0}
    assert second["usage"]["calls"] == 4
    assert second["usage"]["cost"] is None
    assert list(first["outcomes"]) == ["scored", "abstained", "invalid", "error"]


FEW = scores(ids=st.sampled_from("ab"), aspects=st.sampled_from(["x", "y"]))


@given(rows=st.lists(FEW, max_size=12))
def test_a_tally_is_what_the_last_scores_say(rows):
    tally = RunSummary()
    for row in rows:
        tally.add(row)
    last = {(row.id, row.aspect): row for row in rows}
    summary = tally.summary()
    assert len(tally) == len(last)
    for outcome, count in summary["outcomes"].items():
        assert count == sum(row.outcome == outcome for row in last.values())
    for aspect, entry in summary["aspects"].items():
        values = [
            row.value for row in last.values() if row.aspect == aspect and row.value is not None
        ]
        assert entry["n"] == len(values)
        assert (entry["mean"] is None) == (not values)
        if values and math.isfinite(sum(map(abs, values))):
            assert entry["mean"] == math.fsum(values) / len(values)
    for example_id in "ab":
        for aspect in ("x", "y"):
            row = last.get((example_id, aspect))
            assert tally.has(example_id, aspect) == (row is not None and row.outcome != "error")
    costs = [row.usage.cost for row in rows]
    assert tally.usage.cost == (None if None in costs else math.fsum(costs))
    assert tally.usage.calls == sum(row.usage.calls for row in rows)


@given(values=st.lists(NUMBERS, min_size=1, max_size=20), gone=st.lists(NUMBERS, max_size=20))
@example(values=[sys.float_info.max] * 3, gone=[])
def test_a_mean_forgets_what_was_replaced(values, gone):
    tally = RunSummary()
    for value in gone:
        tally.add(scored("0", value))
    for number, value in enumerate(values):
        tally.add(scored(str(number), value))
    entry = tally.summary()["aspects"]["coherence"]
    assert entry["n"] == len(values)
    assert math.isfinite(entry["mean"])
    if math.isfinite(sum(map(abs, values))):
        assert entry["mean"] == math.fsum(values) / len(values)


def test_lines_are_counted_as_their_scores_are():
    scores = (
        scored("a", 1.0), scored("b", 2.5), unscored("c", "invalid", "E"), scored("a", 3.0),
        unscored("d", "error", "F"), scored("e", 4.0, usage=Usage(calls=1, cost=0.5)),
        scored("f", 4.0, usage=CACHED),
    )  # fmt: skip
    counted, read = RunSummary(), RunSummary()
    for score in scores:
        counted.add(score)
        read.add_line(ScoreLine.read(score_row(score)).fields)
    assert read.summary() == counted.summary()
    assert read.pairs == counted.pairs == 6


def test_later_lines_replace_earlier_ones(tmp_path):
    write(
        tmp_path,
        unscored("a", "error", "E"),
        scored("b", 1.0),
        unscored("c", "invalid", "E"),
        scored("d", 1.0),
    )
    write(tmp_path, scored("a", 2.0), unscored("d", "error", "E"))
    assert [(s.id, s.value) for s in latest_scores(tmp_path)] == [
        ("b", 1.0),
        ("c", None),
        ("a", 2.0),
        ("d", None),
    ]
    done = summarize_journal(tmp_path)
    assert [done.has(example_id, "coherence") for example_id in "abcde"] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert not done.has("a", "fluency")
    assert len(done) == 4
    assert len((tmp_path / "scores.jsonl").read_bytes().splitlines()) == 6


async def test_settled_grows_with_a_resumed_run(tmp_path):
    async with RunFolder.create(tmp_path / "run") as run:
        run.write_manifest({})
    async with RunFolder.resume(tmp_path / "run") as run:
        run.append([scored("a", 1.0), scored("b", 2.0)])
        assert run.tally.has("b", "coherence")
        assert run.summary()["aspects"] == {"coherence": {"n": 2, "mean": 1.5}}
    assert len(list(latest_scores(tmp_path / "run"))) == 2


def test_a_run_that_is_there_is_not_overwritten(tmp_path):
    write(tmp_path, scored("a", 1.0))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RunFolderError, match=rf"textassay resume {tmp_path}.*another folder"):
        RunFolder.create(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert sorted(before) == [".lock", "manifest.json", "scores.jsonl", "summary.json"]
    assert read_manifest(tmp_path) == {"format": 1, **MANIFEST}


def test_a_run_without_scores_gives_way_to_another(tmp_path):
    """Its answers were paid for and are kept; nothing else of it is left."""
    path = tmp_path / "run"
    write(path)
    (path / "rows.jsonl").write_text("{}")
    (path / "answers").mkdir()
    (path / "answers" / "cache.db").write_text("kept")
    run = RunFolder.create(path)
    run.write_manifest({**MANIFEST, "second": True})
    run.close()
    assert read_manifest(path)["second"]
    names = {".lock", "answers", "manifest.json", "scores.jsonl"}
    assert {entry.name for entry in path.iterdir()} == names
    assert (path / "answers" / "cache.db").read_text() == "kept"
    for content in ('{"name": "my extension"}', '{"format": 2, "models": {}}'):
        (path / "manifest.json").write_text(content)
        with pytest.raises(RunFolderError, match="has format"):
            RunFolder.create(path)
        assert (path / "manifest.json").read_text() == content


def test_a_run_with_a_batch_and_no_score_is_not_overwritten(tmp_path):
    write(tmp_path)
    (tmp_path / "batches.jsonl").write_text("{}")
    with pytest.raises(RunFolderError, match="already contains a run"):
        check_new(tmp_path)


@pytest.mark.parametrize("file", ["manifest.json", "summary.json", "scores.jsonl"])
def test_a_run_killed_in_the_middle_of_a_write_gives_way_to_another(tmp_path, file):
    """Before its first score, a kill leaves a file of a random name beside the one it wrote."""
    write(tmp_path / "run")
    (tmp_path / "run" / f".{file}.0123456789abcdef.tmp").write_text("{")
    run = RunFolder.create(tmp_path / "run")
    run.write_manifest({**MANIFEST, "second": True})
    run.close()
    assert read_manifest(tmp_path / "run")["second"]


async def test_a_folder_that_another_process_writes_to_is_refused(tmp_path):
    async with RunFolder.create(tmp_path) as run:
        for refusal in (
            "in use by another process",
            "in use by another process",
            "already contains",
        ):
            with pytest.raises(RunFolderError, match=refusal):
                RunFolder.create(tmp_path)
            if run.manifest:
                run.append([scored("a", 1.0)])
            run.write_manifest(MANIFEST)


def test_foreign_folders_are_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunFolderError, match=r"other files \(thesis\.tex\)"):
        RunFolder.create(tmp_path)
    with pytest.raises(RunFolderError, match="is a file"):
        RunFolder.create(tmp_path / "thesis.tex")
    with pytest.raises(RunFolderError, match="cannot be created"):
        RunFolder.create(tmp_path / "thesis.tex" / "run")
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(RunFolderError, match="contains no run"):
            RunFolder.resume(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    for content, message in (
        ('{"format": 2}', "format 2"),
        ("{}", "format None"),
        ("[]", "format None"),
        ("{", "read"),
    ):
        newer = tmp_path / "newer"
        newer.mkdir(exist_ok=True)
        (newer / "manifest.json").write_text(content)
        with pytest.raises(RunFolderError, match=message):
            RunFolder.resume(newer)


def test_a_folder_that_never_became_a_run_can_become_one(tmp_path):
    run = RunFolder.create(tmp_path / "new")
    with pytest.raises(RunFolderError, match="not JSON"):
        run.write_manifest({"what": object()})
    run.close()
    run.close()
    assert not (tmp_path / "new").exists()
    run = RunFolder.create(tmp_path / "new")
    run.answers.mkdir()
    run.close()
    write(tmp_path / "new", scored("a", 1.0))


def test_a_run_killed_before_its_manifest_can_be_begun_again(tmp_path):
    code = """
import os, sys
from textassay.runtime.storage.run_folder import RunFolder
from textassay.runtime.storage.answers import DiskStore
run = RunFolder.create(sys.argv[1])
store = DiskStore(run.answers)
(run.path / ".manifest.json.0123456789abcdef.tmp").write_text("{")
print("ready")
sys.stdin.read()
"""
    killed_after(1, code, tmp_path / "run")
    assert (tmp_path / "run" / "answers").is_dir()
    write(tmp_path / "run", scored("a", 1.0))
    assert len(list(latest_scores(tmp_path / "run"))) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes of POSIX")
@pytest.mark.parametrize("name", ["scores.jsonl", "summary.json", ".lock", "answers"])
def test_a_run_with_links_is_not_resumed(tmp_path, name):
    write(tmp_path / "run", scored("a", 1.0))
    foreign = tmp_path / "foreign"
    foreign.mkdir() if name == "answers" else foreign.write_bytes(b"not ours")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    (tmp_path / "run" / name).symlink_to(foreign)
    with pytest.raises(RunFolderError, match="is a link"):
        RunFolder.resume(tmp_path / "run")
    assert (
        list(foreign.iterdir()) == [] if name == "answers" else foreign.read_bytes() == b"not ours"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
@pytest.mark.parametrize("name", ["scores.jsonl", "manifest.json", ".lock", "answers"])
def test_no_new_run_begins_in_a_folder_with_links(name, tmp_path):
    foreign, run = tmp_path / "foreign", tmp_path / "run"
    foreign.mkdir() if name == "answers" else foreign.write_bytes(b"")
    run.mkdir()
    (run / name).symlink_to(foreign)
    with pytest.raises(RunFolderError, match="is a link"):
        RunFolder.create(run)
    assert [*run.iterdir()] == [run / name]
    assert name != "answers" or not [*foreign.iterdir()]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_pipes_in_a_run_do_not_hang(tmp_path):
    write(tmp_path, scored("a", 1.0))
    for name, read in (("manifest.json", read_manifest), ("summary.json", read_summary)):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        with pytest.raises(RunFolderError, match="not a regular file"):
            read(tmp_path)
    (tmp_path / "scores.jsonl").unlink()
    os.mkfifo(tmp_path / "scores.jsonl")
    with pytest.raises(StorageError, match="not a regular file"):
        list(latest_scores(tmp_path))


def test_depth_beyond_reading_is_an_error(tmp_path):
    write(tmp_path, scored("a", 1.0))
    deep = "[" * 100_000
    with (tmp_path / "scores.jsonl").open("a") as file:
        file.write('{"id": "b", "evidence": ' + deep + "\n{}\n")
    with pytest.raises(DataError, match=r"scores\.jsonl:2: not JSON"):
        list(latest_scores(tmp_path))
    (tmp_path / "manifest.json").write_text('{"format": 1, "settings": ' + deep)
    with pytest.raises(RunFolderError, match="nested too deeply"):
        read_manifest(tmp_path)


HOLDS = """
import sys
from textassay.runtime.storage.run_folder import RunFolder
run = RunFolder.resume(sys.argv[1])
print("held")
sys.stdin.readline()
"""


def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path):
    write(tmp_path, scored("a", 1.0))
    with start(HOLDS, tmp_path) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(RunFolderError, match=rf"{tmp_path} is in use by another process"):
            RunFolder.resume(tmp_path)
        assert len(list(latest_scores(tmp_path))) == 1
        process.kill()
    RunFolder.resume(tmp_path).close()


READ_ONLY = """
import os, sys
from textassay.runtime.errors import RunFolderError
from textassay.runtime.storage.run_folder import RunFolder
if os.geteuid() == 0:
    os.setuid(65534)
run = sys.argv[1]
for attempt in (lambda: RunFolder.resume(run), lambda: RunFolder.create(run + "/below")):
    try:
        attempt()
    except RunFolderError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are those of POSIX")
def test_a_folder_that_cannot_be_written_to_is_refused():
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        write(folder, scored("a", 1.0))
        for path in (*folder.iterdir(), folder, Path(parent)):
            path.chmod(0o555 if path.is_dir() else 0o444)
        resumed, created = finished(READ_ONLY, folder).splitlines()
        os.chmod(folder, 0o755)  # noqa: PTH101
    assert f"{folder} cannot be written to" in resumed
    assert "below cannot be created" in created


APPENDS_UNTIL_KILLED = """
import asyncio, sys
from textassay.runtime.messages import Score
from textassay.runtime.storage.run_folder import RunFolder

async def main():
    run = RunFolder.create(sys.argv[1])
    run.write_manifest({})
    async def work(worker):
        for i in range(10**6):
            name, value = f"{worker}-{i}", float(i)
            run.append([Score(id=name, aspect=a, value=value) for a in ("x", "y")])
            print(name)
    async with asyncio.TaskGroup() as group:
        for worker in range(20):
            group.create_task(work(worker))

asyncio.run(main())
"""


def test_kill_9_loses_no_finished_score(tmp_path):
    folder = tmp_path / "run"
    reported = killed_after(200, APPENDS_UNTIL_KILLED, folder)
    done = summarize_journal(folder)
    assert all(done.has(example_id, aspect) for example_id in reported for aspect in ("x", "y"))
    write(folder, scored("later", 1.0))
    assert summarize_journal(folder).has("later", "coherence")
    assert read_summary(folder)["outcomes"]["scored"] == len(list(latest_scores(folder)))


def test_a_damaged_score_names_file_line_and_field(tmp_path):
    write(tmp_path, scored("a", 1.0, scale=(1, 5)), scored("b", 2.0))
    file = tmp_path / "scores.jsonl"
    file.write_text(file.read_text().replace('"value":2.0', '"value":"2.0"'))
    for read in (
        lambda: list(latest_scores(tmp_path)),
        lambda: summarize_journal(tmp_path),
        lambda: RunFolder.resume(tmp_path),
    ):
        with pytest.raises(DataError, match=r"scores\.jsonl:2: value: "):
            read()
    file.write_text(file.read_text().replace('"value":1.0', '"value":9.0'))
    with pytest.raises(DataError, match=r"scores\.jsonl:1: the row: .*off its scale"):
        summarize_journal(tmp_path)


def test_a_run_without_scores_can_be_read(tmp_path):
    write(tmp_path)
    (tmp_path / "scores.jsonl").unlink()
    assert list(latest_scores(tmp_path)) == []
    with pytest.raises(RunFolderError, match="contains no run"):
        latest_scores(tmp_path / "elsewhere")
    assert read_summary(tmp_path)["outcomes"] == {
        "scored": 0,
        "abstained": 0,
        "invalid": 0,
        "error": 0,
    }


@pytest.mark.parametrize(
    "score",
    [
        scored("a", 4.0, scale=(1.0, 5.0), usage=Usage(calls=1, cost=None), explanation="½ \ud800"),
        unscored(
            "b",
            "invalid",
            "NoScoreFound",
            evidence=({"text": "no", "usage": Usage(cached_calls=1)},),
        ),
        scored("c", 1.5).model_copy(update={"usage": Usage(calls=2)}),
    ],
)
def test_a_row_holds_what_a_dump_of_the_score_holds(score):
    row = json.loads(score_row(score))
    assert list(row) == FIELDS
    absent = {"text_digest", *ENDS}
    assert row == json.loads(json.dumps(score.model_dump(exclude=absent)))
    timed = score.model_copy(update={"started": datetime(2026, 1, 2, tzinfo=UTC), "seconds": 1.5})
    row = json.loads(score_row(timed))
    assert list(row) == FIELDS
    assert timed == score
    assert Score.model_validate(row).started == timed.started
    calibrated = json.loads(score_row(score.model_copy(update=ENDS)))
    assert {name: calibrated[name] for name in ENDS} == ENDS


# two processes at one run folder, each step of the one between two steps of the other


def begin(path):
    """Begin a run without a score; it is closed."""
    with_manifest(RunFolder.create(path)).close()


def with_manifest(run):
    """Write a manifest."""
    run.write_manifest({"models": {}})
    return run


def test_a_run_that_gives_way_before_the_lock_is_not_resumed(tmp_path):
    """Its scores would be in a folder without a manifest, and never be found again."""
    path = tmp_path / "run"
    begin(path)
    with (
        before(("open", path / ".lock", (path / "manifest.json").unlink)),
        pytest.raises(RunFolderError, match="no run"),
    ):
        RunFolder.resume(path)
    begin(path)


def test_a_run_that_another_process_begins_before_the_lock_is_not_overwritten(tmp_path):
    path = tmp_path / "run"
    begin(path)

    def score():
        (path / "scores.jsonl").write_text("{}")

    with (
        before(("open", path / ".lock", score)),
        pytest.raises(RunFolderError, match="already contains a run"),
    ):
        RunFolder.create(path)
    assert (path / "scores.jsonl").read_text() == "{}"


def test_answers_that_another_process_pays_for_before_the_lock_stay(tmp_path):
    """Only a folder that was empty under the lock is removed by a run that is not begun."""

    def ask():
        begin(tmp_path)
        (tmp_path / "answers").mkdir()

    with before(("open", tmp_path / ".lock", ask)):
        RunFolder.create(tmp_path).close()
    assert (tmp_path / "answers").is_dir()
