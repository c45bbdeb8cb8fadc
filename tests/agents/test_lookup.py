"""Material that is listed, searched and read in parts: all of it can be reached, nothing else is
shown, and no look is longer than it may be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.test_conversation import CHAT
from textassay.agents.lookup import Excerpt, Section, SectionIndex, has_read, lay_out
from textassay.runtime.messages import Example

CALLS = Example(id="c", messages=CHAT)


def test_every_part_of_a_conversation_has_a_section() -> None:
    material = lay_out(CALLS)
    assert [(one.name, one.text) for one in material.sections] == [
        ("output", "Yes."),
        ("system", "Be brief."),
        ("turn 1", "Hi\nAre you there?"),
        ("turn 2", "Checking."),
        ("turn 2, call 1", "a({})"),
        ("turn 2, call 2", "b({})"),
        ("turn 2, call 2, result", "B"),
        ("turn 2, call 1, result", "A"),
        ("turn 3", "Good."),
    ]
    assert material.sections[0].about == "the text to judge, which stands in turn 2"


def test_passages_source_and_context_are_sections() -> None:
    rag = Example(id="r", output="It rained.", source="Did it rain?", context=["It rained.", "So."])
    assert lay_out(rag).names == ("output", "source", "passage 1", "passage 2")
    plain = Example(id="p", output="It rained.", source="An article.", context="A fact.")
    assert lay_out(plain).names == ("output", "source", "context")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("turn 2", 5),
        ("Turn 2 ", 5),
        ("[turn 2, call 1]", 2),
        ("turn 2, call 1, result", 1),
        ("turn", 7),
        ("", 9),
        ("turn 22", 0),
        ("passage", 0),
    ],
)
def test_a_name_selects_everything_below_it(name: str, expected: int) -> None:
    assert len(lay_out(CALLS).within(name)) == expected


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    for look in (lay_out(CALLS).read("turn 9", chars=99), lay_out(CALLS).list("x", chars=99)):
        assert look.note.startswith("There is no section")
        assert "output; system; turn 1 to turn 3" in look.note


def test_a_long_conversation_is_listed_by_turns_and_page_by_page() -> None:
    """Each page says where the next one begins, and all pages together name every turn."""
    chat = [
        {"role": role, "content": f"{role} says {n}"}
        for n in range(100)
        for role in ("user", "assistant")
    ]
    material = lay_out(Example(id="l", messages=chat))
    lines, start = list[str](), ""
    while True:
        page = material.list(start=start, chars=1000)
        assert len(page.listing) <= 1000
        lines += page.listing.splitlines()
        if page.note == "That is all.":
            break
        start = page.note.partition('"start": "')[2].removesuffix('".')
    assert [line.split(" (")[0] for line in lines[1:]] == [
        f"turn {number}" for number in range(1, 200)
    ]
    assert lines[0].startswith("output (the text to judge, which stands in turn 200")


@given(
    st.lists(st.text("ab \n", min_size=1, max_size=90).filter(str.strip), min_size=1, max_size=5),
    st.integers(1, 40),
)
def test_reading_on_shows_every_character_once(texts: list[str], chars: int) -> None:
    material = SectionIndex(
        sections=tuple(Section(name=f"turn {n}", text=text) for n, text in enumerate(texts))
    )
    for section in material.sections:
        read, start = list[Excerpt](), 0
        while start < len(section.text):
            found = material.read(section.name, start, chars=chars)
            assert sum(len(one.text) for one in found.excerpts) <= chars
            assert not has_read(read, section)
            read += found.excerpts
            start = read[-1].end
        assert "".join(one.text for one in read) == section.text
        assert has_read(read, section)


@given(
    st.lists(st.text("ab \n", min_size=1, max_size=60).filter(str.strip), min_size=1, max_size=4),
    st.text("ab ", min_size=1, max_size=4).filter(str.strip),
    st.integers(40, 200),
)
def test_a_search_shows_the_text_that_it_finds(texts: list[str], wanted: str, chars: int) -> None:
    """Excerpts are parts of their sections, and a text of the material is never absent."""
    material = SectionIndex(
        sections=tuple(Section(name=f"turn {n}", text=text) for n, text in enumerate(texts))
    )
    found = material.find(wanted, chars=chars)
    by_name = {section.name: section.text for section in material.sections}
    for one in found.excerpts:
        assert by_name[one.section][one.start : one.end] == one.text
        assert one.length == len(by_name[one.section])
    words = " ".join(wanted.split())
    assert found.is_absent == all(words not in " ".join(text.split()) for text in texts)


def test_a_search_that_finds_nothing_shows_what_is_closest() -> None:
    far = "Nothing here. " * 100 + "The refund of 417 dollars was denied by the agent."
    chat = [{"role": "user", "content": far}, {"role": "assistant", "content": "Good bye then"}]
    material = lay_out(Example(id="x", messages=chat))
    found = material.find("was the refund denied", chars=2000)
    assert found.is_absent
    assert "417 dollars" in found.excerpts[0].text
    nowhere = material.find("zebra crossing", chars=2000)
    assert nowhere.is_absent
    assert not nowhere.excerpts
    assert material.find("  ", chars=99).note == 'Give the words to look for as "text".'


def test_a_conversation_of_two_megabytes_is_searched_whole() -> None:
    """The prompt of other methods shortens it to a twentieth; what it leaves out is found."""
    rest = json.dumps({"rows": ["lorem ipsum dolor"] * 1000})
    chat = list[dict[str, object]]()
    for n in range(100):
        middle = " the waiver was refused for lack of proof " if n == 63 else ""
        call = {"id": str(n), "function": {"name": "look", "arguments": "{}"}}
        chat += [
            {"role": "user", "content": f"task {n}"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": str(n), "content": rest[:10000] + middle + rest},
            {"role": "assistant", "content": f"done {n}"},
        ]
    example = Example(id="big", messages=chat)
    assert "waiver" not in (example.source or "")
    found = lay_out(example).find("waiver was refused", chars=6000)
    assert [one.section for one in found.excerpts] == ["turn 128, call 1, result"]
