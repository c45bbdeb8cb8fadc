"""What commands read: one field map everywhere, the data of a run, units of conversations."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from examples.mock_server import MockServer
from tests.cli import harness
from tests.cli.harness import (
    Outcome,
    document,
    read_json,
    rows_of,
    textassay,
    verdicts,
    write_lines,
)
from tests.runtime.test_conversation import long_chat

MAP = {"item": "id", "reply": "output", "who": "system", "coh": "human.fluency"}


@pytest.fixture
def table(tmp_path):
    """A CSV with names of its own."""
    path = tmp_path / "own.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(MAP)
        writer.writerows([f"i{i}", f"Text {i}.", f"M{i % 2}", 1 + i % 5] for i in range(6))
    return path


def as_flags():
    """The map as flags."""
    return [part for theirs, ours in MAP.items() for part in ("--field", f"{theirs}={ours}")]


def as_file(tmp_path):
    """The map in a config file."""
    path = tmp_path / "map.toml"
    path.write_text("[fields]\n" + "".join(f'{k} = "{v}"\n' for k, v in MAP.items()))
    return path


def scored(server, table, run, *more):
    """Score the table."""
    return harness.score(table, run, server, *more, aspects="fluency")


def test_meta_finds_the_data_of_the_run_and_its_map(server, table, run):
    """Without DATA, and with it; the ids are those of the map; levels may be listed."""
    scored(server, table, run, *as_flags()).ok()
    more = ("--bootstrap", 0, "--level", "dataset,system")
    found = [document("agreement", run, *data, *more)["rows"] for data in ([], [table])]
    assert found[0] == found[1]
    assert [(row["level"], row["n"]) for row in found[0]] == [("dataset", 6), ("system", 6)]


def test_flags_and_file_say_the_same(server, table, run, tmp_path):
    config = as_file(tmp_path)
    scored(server, table, run, "--config", config).ok()
    scored(server, table, tmp_path / "other", *as_flags()).ok()
    assert verdicts(run) == verdicts(tmp_path / "other")
    copy = table.with_name("copy.csv")
    copy.write_bytes(table.read_bytes())
    for fields in (["--config", config], as_flags()):
        textassay("agreement", run, copy, *fields, "--bootstrap", 0).ok()
    wrong = ("--features", "x*", "--field", "nothing=output", "-o", tmp_path / "e")
    assert "nothing" in textassay("fit", copy, *wrong).err


def test_marks_of_missing_values_are_declared_once(server, table, run, tmp_path):
    """For a run, and for what is made of its data; or anew for each command, typed or in a file."""
    text = table.read_text().replace("Text 2.,M0,3", "Text 2.,M0,n/a")
    table.write_text(text.replace("Text 3.,M1,4", "Text 3.,M1,-"))
    refused = scored(server, table, run, *as_flags())
    assert (refused.code, "line 4, field 'coh'" in refused.err) == (2, True)
    assert "if it marks a missing value, declare --missing n/a" in refused.err
    marks = ("--missing", "N/A", "--missing", "-")
    scored(server, table, run, *as_flags(), *marks).ok()
    copy = table.with_name("copy.csv")
    copy.write_bytes(table.read_bytes())
    config = as_file(tmp_path)
    config.write_text('missing = ["N/A", "-"]\n' + config.read_text())
    for data in ([], [copy, *as_flags(), *marks], [copy, "--config", config]):
        assert document("agreement", run, *data, "--bootstrap", 0)["rows"][0]["n"] == 4
    assert textassay("agreement", run, copy, *as_flags()).code == 2
    beside = ("--human", copy, "--config", config)
    assert document("show", run) == document("show", run, *beside)


def test_moved_data_are_named_to_resume(server, table, run):
    assert scored(server, table, run, *as_flags(), "--limit", 3).code == 0
    moved = table.rename(table.with_name("moved.csv"))
    textassay("resume", run, "--api-base", server.url).ends(2, "own.csv")
    again = ("resume", run, "--data", moved, "--api-base", server.url)
    textassay(*again).ok()
    moved.write_text(moved.read_text().replace("Text 1", "Text X"))
    assert "data have changed" in textassay(*again).err


@pytest.fixture
def measured(tmp_path):
    """A run of a metric over rows with names of their own, and a copy of these elsewhere."""
    rows = [
        {
            "item": f"i{i}",
            "reply": "word " * (3 + i % 7),
            "who": f"M{i % 2}",
            "text": f"source {i // 2}",
            "coh": 1 + (i % 7 + i // 3 % 3) / 2,
            "annotators": {"fluency": [1 + (i % 7) / 2, 1 + (i % 7 + i // 3 % 3) / 2, 2]},
        }
        for i in range(60)
    ]
    data, copy = (write_lines(tmp_path / f"{name}.jsonl", rows) for name in ("own", "copy"))
    run, fields = tmp_path / "measured", [*as_flags(), "--field", "text=source"]
    textassay("tools", "score", data, "--tools", "length", *fields, "-o", run).ok()
    return run, copy, fields


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("estimate", ("--json",)),
        ("alt-test", ("--json",)),
        ("calibrate", ("--json", "-o")),
        ("label-plan", ("--json", "--half-width", "0.5")),
    ],
)
def test_commands_from_scores_to_decisions_read_the_data_of_the_run(
    command, flags, measured, tmp_path
):
    """With its field map where DATA is left out, and with the one that is given beside DATA."""
    run, copy, fields = measured
    out = ["out"] if flags[-1] == "-o" else []
    found = [
        textassay(command, run, *data, "--aspect-map", "length=fluency", *flags,
                  *(tmp_path / f"{name}{at}" for name in out))
        for at, data in enumerate(([], [copy, *fields]))
    ]  # fmt: skip
    assert found[0].code == 0, found[0].err
    assert found[0].out.replace("out0", "out1") == found[1].out
    assert textassay(command, run, copy, *flags, *(tmp_path / f"{n}2" for n in out)).code == 2


OWN = {
    "Nr": "id", "Judge": "metrics.judge", "Doc": "group", "Text": "output",
    "Ann": "annotators.coherence", "Bob": "annotators.coherence", "Cy": "annotators.coherence",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("agreement", ("--bootstrap", "0")),
        ("estimate", ()),
        ("alt-test", ()),
        ("calibrate", ("-o", "out")),
        ("label-plan", ("--half-width", "0.5")),
    ],
)
def test_one_table_has_scores_and_ratings(command, flags, tmp_path, monkeypatch):
    """Of a spreadsheet, named once for both; the map and the marks are those of both."""
    monkeypatch.chdir(tmp_path)
    rows = [";".join(OWN)]
    rows += [
        f"{i};{'N/A' if i % 9 == 8 else f'{1 + i % 5},5'};d{i // 2};Text {i}.;"
        f"{1 + i % 5};{'-' if i % 7 == 6 else 1 + (i + i // 5) % 5};{1 + i % 4}"
        for i in range(64)
    ]
    (tmp_path / "own.csv").write_text("\n".join(rows), encoding="utf-8")
    fields = [part for theirs, ours in OWN.items() for part in ("--field", f"{theirs}={ours}")]
    asked = (command, "own.csv", "own.csv", "--aspect-map", "judge=coherence", *fields)
    textassay(*asked, "--missing", "-", *flags).ends(2, "declare --missing N/A")
    done = textassay(*asked, "--missing", "-", "--missing", "N/A", *flags).ok()
    assert "judge" in done.out


@pytest.mark.parametrize("command", ["show", "report"])
def test_texts_beside_a_run_have_a_field_map(command, measured, tmp_path):
    run, copy, fields = measured
    out = ("-o", tmp_path / "report.html") if command == "report" else ()
    wrong = textassay(command, run, "--human", copy, "--field", "reply=texts", *out)
    assert (wrong.code, "'texts', which is not a field" in wrong.err) == (2, True)
    textassay(command, run, "--human", copy, *fields, *out).ok()


def test_raters_see_data_of_other_names(measured, tmp_path):
    _, copy, fields = measured
    flags = ("--task", "summarization", "-a", "fluency", "-o", tmp_path / "tasks")
    textassay("ratings", "export", "label-studio", copy, *flags).ok()
    without = json.loads((tmp_path / "tasks" / "tasks.json").read_text())
    textassay("ratings", "export", "label-studio", copy, *flags, *fields).ok()
    mapped = json.loads((tmp_path / "tasks" / "tasks.json").read_text())
    texts = {name: without[0]["data"][name] for name in ("output", "source")}
    assert texts.items() <= mapped[0]["data"].items()
    assert (mapped[0]["data"]["id"], without[0]["data"]["id"] == "i0") == ("i0", False)


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """Two conversations of four turns with long results."""
    rated = ({"overall": bool(n)} for n in range(2))
    rows = [
        {"id": f"c{n}", "messages": long_chat(4, 8_000), "human": human}
        for n, human in enumerate(rated)
    ]
    return write_lines(tmp_path / "chats.jsonl", rows)


def judged(server: MockServer, data: Path, run: Path, *more: Any) -> Outcome:
    """Judge the conversations."""
    return harness.score(data, run, server, *more, aspects="overall")


TURNS = ["c0#turn-2", "c0#turn-4", "c1#turn-2", "c1#turn-4"]


@pytest.mark.parametrize(
    ("unit", "ids"),
    [
        ((), ["c0", "c1"]),
        (("--unit", "turn"), TURNS),
        (("--unit", "call"), [f"{turn}-call-1" for turn in TURNS]),
    ],
)
def test_a_unit_of_conversations_is_judged(
    server: MockServer, chats: Path, run: Path, unit: tuple[str, ...], ids: list[str]
) -> None:
    outcome = judged(server, chats, run, *unit, "--set", "conversation_chars=5000")
    outcome.ok()
    assert sorted(row["id"] for row in rows_of(run)) == ids
    assert "conversations are shortened in prompts, tool results first" in outcome.err
    manifest = read_json(run / "manifest.json")
    assert manifest["spec"]["conversation_chars"] == 5000
    assert len(manifest["data"]["notices"]) == 1


def test_commands_read_the_turns_of_a_run_as_it_did(
    server: MockServer, chats: Path, run: Path, tmp_path: Path
) -> None:
    """Resume, show and report find the same turns; ratings of turns come in a file of their own."""
    judged(server, chats, run, "--unit", "turn").ok()
    textassay("resume", run, "--api-base", server.url).ok()
    assert len(rows_of(run)) == 4
    assert "[turn 1] user: question number 0" in textassay("show", run, "c1#turn-2").out
    page = tmp_path / "report.html"
    textassay("report", run, "--out", page).ok()
    assert "question number 0" in page.read_text()
    lines = [{"id": id, "group": id[:2], "human": {"overall": n}} for n, id in enumerate(TURNS, 1)]
    ratings = write_lines(tmp_path / "ratings.jsonl", lines)
    (row,) = document("agreement", run, ratings, "--bootstrap", 0)["rows"]
    assert (row["n"], row["groups"]) == (4, 2)


def test_fit_and_tools_read_turns(chats: Path, tmp_path: Path) -> None:
    """Metrics of turns are learned from with the ratings of turns, which are in another file."""
    tools, out = tmp_path / "tools", tmp_path / "fitted"
    rows = [{"id": f"c{n}", "messages": long_chat(8, 100)} for n in range(6)]
    for n, row in enumerate(rows):
        row["messages"][3]["content"] += " in more words" * n
    write_lines(chats, rows)
    textassay("tools", "score", chats, "--tools", "length", "--unit", "turn", "-o", tools).ok()
    ids = sorted({row["id"] for row in rows_of(tools)})
    assert ids == [f"c{n}#turn-{turn}" for n in range(6) for turn in (2, 4, 6, 8)]
    lines = [{"id": id, "human": {"overall": 1 + n % 5}} for n, id in enumerate(ids)]
    ratings = write_lines(tmp_path / "ratings.jsonl", lines)
    flags = ("--scores", tools, "--unit", "turn", "--aggregator", "linear", "-o", out)
    fitted = textassay("fit", chats, *flags, "--ratings", ratings).ok()
    assert "24" in fitted.out
    assert "length" in (out / "evaluator.json").read_text()


@pytest.mark.parametrize(
    ("method", "says"), [("llm-score", True), ("g-eval", True), ("agent-judge", False)]
)
def test_scores_say_that_a_conversation_was_shortened(
    server: MockServer, chats: Path, run: Path, method: str, says: bool
) -> None:
    short = {"id": "short", "messages": long_chat(4, 100)}
    with chats.open("a") as file:
        file.write(json.dumps(short) + "\n")
    chars = ("--set", "conversation_chars=5000")
    harness.score(chats, run, server, *chars, method=method, aspects="overall").ok()
    notes = {
        row["id"]: [piece for piece in row["evidence"] if "left_out" in piece]
        for row in rows_of(run)
    }
    assert notes["short"] == []
    if not says:
        assert notes["c0"] == notes["c1"] == []
        return
    [note] = notes["c0"]
    assert 10_000 < note["left_out"] < 16_000
    assert note["text"] == (
        f"the conversation was shortened: {note['left_out']:,} characters of tool results were"
        " left out"
    )


def test_columns_that_no_judge_sees_are_named_where_a_judge_is_asked(
    server: MockServer, run: Path, tmp_path: Path
) -> None:
    """In one line, in the manifest and the report; `--strict-columns` makes the line an error."""
    data = tmp_path / "data.jsonl"
    row = {"id": "a", "output": "x", "my_passages": ["It rained."], "human": {"overall": 1}}
    data.write_text(json.dumps(row) + "\n" + json.dumps({**row, "id": "b"}) + "\n")
    line = "the judge does not see: my_passages (kept in meta; show one with --field"
    refused = judged(server, data, run, "--strict-columns")
    assert refused.code == 2
    way = "such as --field my_passages=context, or keep it in meta: --field my_passages=meta"
    assert way in refused.messages
    assert server.counters.requests == 0
    assert judged(server, data, run).ok().err.count(line) == 1
    assert json.loads((run / "manifest.json").read_text())["data"]["unseen"] == {"my_passages": 2}
    page = tmp_path / "page.html"
    textassay("report", run, "-o", page).ok()
    assert "my_passages" in page.read_text()
    assert "does not see" not in textassay("agreement", run, data).ok().err
    mapped = ("--field", "my_passages=context", "--strict-columns")
    assert "does not see" not in judged(server, data, tmp_path / "mapped", *mapped).ok().err


@pytest.mark.parametrize("method", ["llm-score", "g-eval"])
def test_an_aspect_abstains_where_its_material_is_missing(
    method: str, server: MockServer, run: Path, tmp_path: Path
) -> None:
    """No judge of groundedness is asked without passages; other aspects and rows are judged."""
    rows = [
        {"id": "a", "source": "When?", "output": "In 1967.", "reference": "It was in 1967."},
        {"id": "b", "source": "When?", "output": "In 1967.", "contexts": ["It was in 1967."]},
        {"id": "c", "output": "In 1967.", "messages": [
            {"role": "user", "content": "When?"}, {"role": "tool", "content": "It was in 1967."}]},
        {"id": "d", "output": "In 1967.", "reference": "Then.", "messages": [
            {"role": "user", "content": "When?"}, {"role": "tool", "content": " "}]},
        {"id": "e", "source": "?", "output": "x", "reference": "x", "passages": [{"text": " "}]},
        {"id": "f", "source": "?", "output": "x", "reference": "x", "context": "[]"},
        {"id": "g", "source": "?", "output": "x", "reference": "x", "context": "[None, nan]"},
        {"id": "h", "source": "?", "output": "x", "reference": "x", "context": "\u200b"},
        {"id": "i", "source": "?", "output": "x", "reference": "x", "context": ["\ufeff", "..."]},
        {"id": "j", "source": "?", "output": "x", "reference": "x", "context": "{}"},
    ]  # fmt: skip
    data = write_lines(tmp_path / "data.jsonl", rows)
    aspects = "groundedness,context_relevance,answer_relevance"
    at = ("--task", "rag")
    dry = harness.score(data, run, server, *at, "--dry-run", method=method, aspects=aspects).ok()
    assert "there would be no score: MissingContext x16" in dry.out
    shown = harness.score(data, run, server, *at, method=method, aspects=aspects)
    assert "if references contains it, map it: --field NAME=context" in shown.out
    scores = {(row["id"], row["aspect"]): row for row in rows_of(run)}
    lacking = {key for key, row in scores.items() if row["outcome"] == "abstained"}
    assert lacking == {
        (i, name) for i in "adefghij" for name in ("groundedness", "context_relevance")
    }
    assert {scores[key]["error"]["type"] for key in lacking} == {"MissingContext"}
    assert "if references contains it" in scores["a", "groundedness"]["error"]["message"]
    assert len(scores) == 30


def test_a_dialogue_without_a_fact_has_no_groundedness(
    tmp_path: Path, run: Path, server: MockServer
) -> None:
    rows = [
        {"id": i, "source": "When?", "output": "In 1967.", "context": c} for i, c in ("ax", "b ")
    ]
    data = write_lines(tmp_path / "data.jsonl", rows)
    harness.score(data, run, server, "--task", "dialogue", aspects="groundedness,naturalness")
    abstained = {(r["id"], r["aspect"]) for r in rows_of(run) if r["outcome"] == "abstained"}
    assert abstained == {("b", "groundedness")}
