"""Data sets as a whole: the check's messages, reading large files, and units to judge."""

from __future__ import annotations

import csv
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmark_data import FOLDER, benchmark
from tests.runtime.data.rows import DATA, EXPORTS, ROWS, complaint, lines, read, saved
from tests.runtime.test_conversation import CHAT
from tests.work import opcodes
from textassay.runtime.data import dataset
from textassay.runtime.data.dataset import MAX_KEPT_BYTES, Examples, _first_repeat
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Example


def test_a_line_is_an_example_and_the_check_shows_what_is_there(tmp_path: Path) -> None:
    """All fields arrive; what is unknown is kept in meta."""
    examples = Examples(saved(tmp_path, lines(*ROWS)))
    first, second, third = examples
    assert first == Example(
        id="a", output="one", source="s", references=("r", "q"), system="M0", group="g",
        human={"c": 3.0},
    )  # fmt: skip
    assert second.human == {"c": None, "f": 2.5}
    assert second.meta == {"extra": [1, {"x": None}]}
    assert (third.output, third.context) == (ROWS[2]["output"], "k")
    assert third.annotators == {"c": (3.0, None, 2.0)}
    info = examples.check()
    assert (info.count, info.human, info.metrics) == (3, {"c": 2, "f": 1}, {"rouge1": 1})
    assert info.present == {"source": 1, "context": 1, "references": 1, "system": 1, "group": 1}
    assert (info.has_groups, len(info.digest)) == (True, 64)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"output": st.text()},
            optional={
                "source": st.none() | st.text(),
                "references": st.lists(st.text()),
                "human": st.dictionaries(
                    st.text(), st.none() | st.floats(allow_nan=False, allow_infinity=False)
                ),
                "other": st.recursive(
                    st.none() | st.booleans() | st.text(), st.lists, max_leaves=5
                ),
            },
        ),
        min_size=1,
        max_size=5,
    )
)
def test_written_examples_are_read(rows: list[dict[str, Any]]) -> None:
    """Rows in memory, and the examples made of them, give equal examples and one digest."""
    numbered = [{"id": str(i), **row} for i, row in enumerate(rows)]
    once = Examples(numbered)
    again = Examples(list(once))
    dumped = Examples([example.model_dump() for example in once])
    assert list(once) == list(again) == list(dumped)
    assert once.check().digest == again.check().digest == dumped.check().digest


def test_the_digest_depends_on_content_and_order() -> None:
    """Order of keys and spelling of numbers do not matter; a changed text, rating or order does."""

    def digest(*rows: dict[str, Any]) -> str:
        return Examples(list(rows)).check().digest

    one: dict[str, Any] = {"id": "a", "output": "x", "human": {"c": 3, "d": 1}}
    two: dict[str, Any] = {"id": "b", "output": "y"}
    base = digest(one, two)
    same = {"human": {"d": 1.0, "c": 3.0}, "output": "x", "id": "a"}
    assert digest(same, {"output": "y", "id": "b", "source": None}) == base
    changed = one | {"human": {"d": 1, "c": 2}}
    assert base not in (digest(two, one), digest(changed, two), digest(one, two | {"output": "z"}))


def test_an_id_is_made_of_the_content(tmp_path: Path) -> None:
    """The same in any format, and that of an `Example` of these texts."""
    expected = Example(output="x", references=("r",)).id
    assert read([{"output": "x", "references": ["r"]}])[0].id == expected
    assert read([{"output": "x", "reference": "r"}])[0].id == expected
    assert read(saved(tmp_path, "response,reference\nx,r\n", "data.csv"))[0].id == expected


def test_equal_ids_are_refused_with_both_lines(tmp_path: Path) -> None:
    """Blank lines count; the first repeat is reported."""
    text = '{"id": "a", "output": "1"}\n\n{"id": "b", "output": "2"}\n{"id": "a", "output": "3"}\n'
    path = saved(tmp_path, text * 2)
    assert complaint(path) == f"{path}, lines 1 and 4, field 'id': both are 'a'; ids must be unique"


@pytest.mark.parametrize(
    "row", [{"output": "x", "source": "s", "references": ["r"]}, {"output": "x"}]
)
def test_equal_content_without_ids_is_refused(row: dict[str, Any]) -> None:
    """The message says that the rows are the same, not that ids nobody gave are."""
    shown = (
        "list, rows 1 and 2: have no ids and equal content; give each row an 'id', or keep one "
        "of them"
    )
    assert complaint([row, row]) == shown
    assert complaint([Example(**row), Example(**row)]) == shown


@pytest.mark.parametrize("few", [99, 100])
def test_the_first_repeat_is_found_among_any_number_of_ids(few: int) -> None:
    """Few ids are compared in a set, and more by numpy, which takes more memory than few ids."""
    ids = [number.to_bytes(16, "big") for number in range(100)]
    assert _first_repeat(bytearray(b"".join(ids)), few) is None
    ids[-1], ids[50] = ids[3], ids[7]
    assert _first_repeat(bytearray(b"".join(ids)), few) == (7, 50)


def test_a_five_megabyte_text_and_an_empty_one_are_data(tmp_path: Path) -> None:
    """Long texts are not an error, in lines and in cells."""
    long = "word " * 1_000_000
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "output"], ["a", long], ["b", ""]])
    for given_ in (saved(tmp_path, lines({"output": long}, {"output": ""})), path):
        assert [len(e.output) for e in read(given_)] == [5_000_000, 0]


@pytest.mark.parametrize(
    "name", ["summeval", "topical_chat", "sfres", "bagel", "realsumm", "newsroom", "openmeva"]
)
def test_benchmark_data_are_read(name: str) -> None:
    """Every row of the published data has human ratings, a group and a system."""
    paths = list((DATA / name).glob(f"{name}.jsonl*"))
    if not paths:
        pytest.skip(f"no benchmark data in {DATA}; set TEXTASSAY_DATA")
    info = Examples(paths[0]).check()
    assert set(info.human.values()) == {info.count}
    assert info.present["group"] == info.present["system"] == info.count


def test_nothing_is_yielded_of_a_file_with_a_bad_last_line(tmp_path: Path) -> None:
    """The whole file is checked before the first example is given out."""
    examples = iter(Examples(saved(tmp_path, lines(*ROWS, {"output": 3}))))
    with pytest.raises(DataError, match="line 4"):
        next(examples)


def test_a_file_that_changes_after_the_check_is_refused(tmp_path: Path) -> None:
    """Scores of two versions of a file do not mix, even if only rows behind a part changed."""
    path = saved(tmp_path, lines(*ROWS))
    examples = Examples(path)
    stream, part = iter(examples), examples.part(0, 1)
    next(stream)
    next(part)
    saved(tmp_path, lines(*ROWS, {"output": "more"}))
    for begun in (stream, part, iter(examples)):
        with pytest.raises(DataError, match="has changed since it was checked"):
            list(begun)


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what is kept of a small file, more rows take little more memory."""
    text, kept = "x" * 4_000, 2**22
    monkeypatch.setattr(dataset, "MAX_KEPT_BYTES", kept)

    def peak(rows: int) -> int:
        path = tmp_path / f"{rows}.jsonl"
        with path.open("w") as file:
            for at in range(rows):
                file.write(f'{{"id": "{at}", "output": "{text}", "human": {{"c": 3}}}}\n')
        examples = Examples(path)
        tracemalloc.start()
        try:
            assert sum(1 for _ in examples) == rows
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    fills = kept // len(text)
    less, more = peak(fills), peak(fills + 3_000)
    assert more < 1.5 * kept
    assert more - less < 64 * 3_000


def test_a_small_file_is_read_once_and_a_large_one_again(tmp_path: Path) -> None:
    """Examples that fit are the same objects each time; others are made anew from the file."""
    for rows, is_kept in ((ROWS, True), ([*ROWS, {"output": "x" * MAX_KEPT_BYTES}], False)):
        examples = Examples(saved(tmp_path, lines(*rows)))
        one, again = next(iter(examples)), next(iter(examples))
        assert one == again
        assert (one is again) == is_kept


@pytest.mark.parametrize("kept", [MAX_KEPT_BYTES, 2000])
def test_a_part_is_a_slice_of_all(
    tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the examples were kept or are read again, and with blank lines between the rows."""
    monkeypatch.setattr(dataset, "MAX_KEPT_BYTES", kept)
    content = "\n".join(lines({"id": str(at), "output": "x"}) for at in range(3))
    examples = Examples(saved(tmp_path, content))
    for start, stop in ((0, 2), (1, 3), (2, None), (3, 3), (0, None)):
        found = [each.id for each in examples.part(start, stop)]
        assert found == [str(at) for at in range(3)[start:stop]]


def test_rows_with_ever_new_fields_are_fine(tmp_path: Path) -> None:
    """What is remembered of the shape of rows is bounded and does not change what is read."""
    rows = [{"id": str(i), "output": "x", f"field{i}": i} for i in range(600)]
    found = [e.meta for e in read(saved(tmp_path, lines(*rows)))]
    assert found == [{f"field{i}": i} for i in range(600)]


def test_reading_a_row_is_cheap(tmp_path: Path) -> None:
    """A short row takes some 650 instructions of Python; the parser and pydantic are not Python."""
    row = {"output": "The cat sat.", "source": "A cat sat.", "system": "M1", "human": {"c": 3}}

    def instructions(count: int) -> int:
        path = saved(tmp_path, lines(*({"id": str(i), **row} for i in range(count))))
        return opcodes(lambda: Examples(path).check())

    assert (instructions(700) - instructions(200)) / 500 < 1_300


@pytest.mark.parametrize("depth", [260, 900, 1020, 100_000])
def test_a_row_that_is_nested_too_deeply_is_named(tmp_path: Path, depth: int) -> None:
    """Of the two limits of the parser and the writer neither ends in a traceback."""
    deep = "[" * depth + "]" * depth
    path = saved(tmp_path, '{"output": "fine"}\n{"output": "deep", "extra": ' + deep + "}\n")
    assert complaint(path).startswith(f"{path}, line 2")


def test_a_row_of_many_unknown_fields_takes_as_long_as_it_is() -> None:
    """Each goes to `meta`; what the caller gave is not changed."""
    row = {"output": "a", "meta": {"own": 1}} | {f"field{i}": i for i in range(20_000)}
    (example,) = Examples([row])
    assert len(example.meta) == 20_001
    assert row["meta"] == {"own": 1}


# turns and calls of conversations

CONVERSATION: dict[str, Any] = {
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
    """The conversation is its group, and a rating of the conversation does not rate the turn."""
    first, last = Examples([CONVERSATION], unit="turn")
    assert (first.id, first.group, first.output) == ("c#turn-2", "c", "Yes.")
    assert first.source is not None
    assert "[turn 2, call 2, result] B" in first.source
    assert "Good." not in first.source
    assert (first.human, first.references, first.system) == ({}, (), "M")
    assert (last.id, last.output, last.references) == ("c#turn-4", 'bye({"k": 1})', ("r",))
    assert last.meta["conversation"] == "c"


def test_a_call_is_an_example_with_what_came_before_it() -> None:
    """Not with its result, nor with the calls after it."""
    calls = list(Examples([CONVERSATION], unit="call"))
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


def test_passages_retrieved_for_a_turn_are_its_context() -> None:
    """Passages of the whole conversation go before it."""
    row = {key: value for key, value in EXPORTS["deepeval-turns"].row.items() if key != "context"}
    first, last = Examples([{**row, "id": "d"}], unit="turn")
    assert first.context == "[passage 1] The noon train has two seats."
    assert last.context is None
    assert str(first.source).startswith("Andy wants to buy a ticket.\n\nA conversation of 2 turns")


def test_parts_are_read_as_the_whole_is() -> None:
    """Shards take neighboring turns, wherever the rows end; the group of the data stays."""
    data = Examples([CONVERSATION, {**CONVERSATION, "id": "d", "group": "task 1"}], unit="turn")
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
    with pytest.raises(
        ConfigurationError, match="the unit must be one of conversation, turn, call"
    ):
        Examples([CONVERSATION], unit="word")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="conversation_chars must be at least 1,000"):
        Examples([CONVERSATION], conversation_chars=10)


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


@pytest.mark.parametrize(
    ("update", "complaint"),
    [
        ({"id": 5}, "field 'id': should be text, not 5"),
        ({"id": ""}, "field 'id': should not be empty"),
        ({"id": None}, "field 'id': should be text, not None"),
        ({"output": None}, "field 'output': should be text, not None"),
        ({"human": None}, "field 'human': should be an object"),
        ({"human": {"f": "4"}}, "field 'human.f': should be a number, not '4'"),
        ({"annotators": {"f": 3}}, "field 'annotators.f': should be a list, not 3"),
        ({"metrics": {"f": float("nan")}}, "field 'metrics': should be a finite number"),
        ({"references": "one"}, "field 'references': should be a list, not 'one'"),
    ],
)
def test_a_copy_of_an_example_is_checked_as_a_row_is(
    update: dict[str, Any], complaint: str
) -> None:
    """`model_copy` checks nothing; an empty id was found after its judge had been paid."""
    copied = Example(id="a", output="x").model_copy(update=update)
    with pytest.raises(DataError, match=f"list, row 1, {complaint}"):
        Examples([copied]).check()


def test_numbers_of_numpy_in_a_copy_become_plain_ones() -> None:
    update = {"human": {"f": np.float32(2.5)}, "metrics": {"m": np.int64(3)}}
    (found,) = Examples([Example(id="a", output="x").model_copy(update=update)])
    assert {type(value) for value in (*found.human.values(), *found.metrics.values())} == {float}


def test_half_of_a_surrogate_pair_in_the_message_of_a_copy_is_named() -> None:
    """Copies are not validated, and their messages are checked only as they are written."""
    (example,) = Examples([{"id": "a", "output": "x", "messages": CHAT}])
    last = example.messages[-1].model_copy(update={"content": "\ud800"})
    copy = example.model_copy(update={"messages": (*example.messages[:-1], last)})
    assert "field 'messages': contains \\ud800" in complaint([copy])
