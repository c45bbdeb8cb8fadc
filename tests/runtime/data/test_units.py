"""Turns and calls of conversations as examples."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmark_data import FOLDER, benchmark
from tests.runtime.data.rows import EXPORTS
from tests.runtime.test_conversation import CHAT
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError

ROW: dict[str, Any] = {
    "id": "c",
    "messages": [
        *CHAT,
        {"role": "assistant", "tool_calls": [{"name": "bye", "args": {"k": 1}}]},
        {"role": "tool", "content": "done"},
    ],
    "system": "M",
    "human": {"success": True},
    "reference": "r",
}


def test_a_turn_is_an_example_with_its_history() -> None:
    """The conversation is its group, and a rating of the conversation is none of the turn."""
    first, last = Examples([ROW], unit="turn")
    assert (first.id, first.group, first.output) == ("c#turn-2", "c", "Yes.")
    assert first.source is not None
    assert "[turn 2, call 2, result] B" in first.source
    assert "Good." not in first.source
    assert (first.human, first.references, first.system) == ({}, (), "M")
    assert (last.id, last.output, last.references) == ("c#turn-4", 'bye({"k": 1})', ("r",))
    assert last.meta["conversation"] == "c"


def test_a_call_is_an_example_with_what_came_before_it() -> None:
    """Not with its result, nor with the calls after it."""
    calls = list(Examples([ROW], unit="call"))
    assert [(c.id, c.output) for c in calls] == [
        ("c#turn-2-call-1", "a({})"),
        ("c#turn-2-call-2", "b({})"),
        ("c#turn-4-call-1", 'bye({"k": 1})'),
    ]
    assert {c.group for c in calls} == {"c"}
    assert calls[0].source is not None
    assert "b({})" not in calls[0].source
    assert "Checking." in calls[0].source
    assert "[turn 2, call 1, result] A" not in str(calls[1].source)


def test_what_was_retrieved_for_a_turn_is_its_context() -> None:
    """Passages of the whole conversation go before it."""
    row = {key: value for key, value in EXPORTS["deepeval-turns"].row.items() if key != "context"}
    first, last = Examples([{**row, "id": "d"}], unit="turn")
    assert first.context == "[passage 1] The noon train has two seats."
    assert last.context is None
    assert str(first.source).startswith("Andy wants to buy a ticket.\n\nA conversation of 2 turns")


def test_parts_are_read_as_the_whole_is() -> None:
    """Shards take neighboring turns, wherever the rows end; the group of the data stays."""
    data = Examples([ROW, {**ROW, "id": "d", "group": "task 1"}], unit="turn")
    ids = [example.id for example in data]
    assert ids == ["c#turn-2", "c#turn-4", "d#turn-2", "d#turn-4"]
    assert [example.id for example in data.part(1, 3)] == ids[1:3]
    assert [example.group for example in data] == ["c", "c", "task 1", "task 1"]
    assert data.check().count == 4


def test_an_output_beside_its_conversation_is_the_last_turn() -> None:
    """HealthBench's rows have the answer beside the messages that led to it."""
    asked = [
        {"role": "user", "content": "Q1"},
        {"role": "assistant", "content": "A1"},
        {"role": "user", "content": "Q2"},
    ]
    row = {"id": "z", "output": "A2", "messages": asked, "references": ["R"]}
    first, last = Examples([row], unit="turn")
    assert (first.id, first.output, first.references) == ("z#turn-2", "A1", ())
    assert (last.id, last.output, last.references) == ("z#turn-4", "A2", ("R",))
    assert "Q2" in (last.source or "")
    assert "Q2" not in (first.source or "")


def test_units_need_conversations() -> None:
    """And a unit that there is."""
    with pytest.raises(DataError, match="row 1, field 'messages': are missing; the unit turn"):
        Examples([{"output": "x"}], unit="turn").check()
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    with pytest.raises(DataError, match=r"no conversation contains a call of a tool.*unit 'call'"):
        Examples([{"messages": said}], unit="call").check()
    with pytest.raises(ConfigurationError, match="the unit is conversation, turn, call"):
        Examples([ROW], unit="word")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="conversation_chars is 1,000 or more"):
        Examples([ROW], conversation_chars=10)


def test_recorded_conversations_of_tau_bench() -> None:
    """100 conversations on 25 tasks, 49 of them successful."""
    benchmark("tau_airline/conversations.jsonl.gz")
    path = FOLDER / "tau_airline" / "conversations.jsonl.gz"
    whole = list(Examples(path))
    assert len(whole) == 100
    assert sum(example.human["success"] or 0 for example in whole) == 49
    turns = list(Examples(path, unit="turn"))
    answered = sum(
        sum(
            message.role == "assistant" and (at == 0 or example.messages[at - 1].role == "user")
            for at, message in enumerate(example.messages)
        )
        for example in whole
    )
    assert len(turns) == answered == 616
    assert {e.meta["conversation"] for e in turns} == {e.id for e in whole}
    assert len({e.group for e in turns}) == len({e.group for e in whole}) == 25
    assert len(list(Examples(path, unit="call"))) == 577
