"""Conversations on the command line: units, shortening, and every command that reads them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples.mock_server import MockServer
from tests.cli import harness
from tests.cli.harness import Outcome, document, read_json, rows_of, textassay, write_lines
from tests.runtime.test_conversation import long_chat


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """Two conversations of four turns with long results."""
    rated = ({"overall": bool(n)} for n in range(2))
    rows = [
        {"id": f"c{n}", "messages": long_chat(4, 8_000), "human": human}
        for n, human in enumerate(rated)
    ]
    return write_lines(tmp_path / "chats.jsonl", rows)


def scored(server: MockServer, data: Path, run: Path, *more: Any) -> Outcome:
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
    outcome = scored(server, chats, run, *unit, "--set", "conversation_chars=5000")
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
    scored(server, chats, run, "--unit", "turn").ok()
    textassay("resume", run, "--api-base", server.url).ok()
    assert len(rows_of(run)) == 4
    assert "[turn 1] user: question number 0" in textassay("show", run, "c1#turn-2").out
    page = tmp_path / "report.html"
    textassay("report", run, "--out", page).ok()
    assert "question number 0" in page.read_text()
    lines = [{"id": id, "group": id[:2], "human": {"overall": n}} for n, id in enumerate(TURNS, 1)]
    ratings = write_lines(tmp_path / "ratings.jsonl", lines)
    (row,) = document("meta", run, ratings, "--bootstrap", 0)["rows"]
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


def test_the_answer_to_material_that_is_not_used_names_the_flag(
    server: MockServer, run: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"id": "a", "output": "x", "my_passages": ["It rained."]}\n')
    refused = scored(server, data, run)
    assert refused.code == 2
    way = "such as --field my_passages=context, or leave it out: --field my_passages=meta"
    assert way in refused.said
    assert server.counters.requests == 0
    scored(server, data, run, "--field", "my_passages=context").ok()
    assert rows_of(run)[0]["id"] == "a"
